//! P. Maharjan, "Comparing and Measuring Network Event Dispatch Mechanisms in Virtual Hosts" (Tampere University of
//! Technology, 2012): the Linux panels of Figures 5.1 to 5.5, the columns of Figure 4.9, and claims.
//!
//! `maharjan2012-autobench.csv` holds the values that the paper prints in Figure 4.9.

use std::collections::BTreeMap;

use harness::record::{Figure, Run, Workload};
use harness::spec::transport::Transport;
use load::config::HttpTraffic;
use serde_json::json;

use crate::claims::{Claim, Dimension, Is, RATE, SERVICE_MEAN, Statement};
use crate::figure::{Curves, Here, Kind, PaperFigure, Scale, Value, is_plain, published, ranked_or, rate};
use crate::grid::{self, Grid, GridRow, PaperTable, PaperTables};
use crate::queue;
use report::analysis::deviation::DeviationOf;
use report::analysis::sweep::{Curve, Sweep};
use report::export::autobench;
use report::plot::chart::{Chart, Form, Mark, Panel, Published, Shape};

const EXAMPLE: &str = include_str!("maharjan2012-autobench.csv");

const SCAN: &[&str] = &["select", "poll"];
const EPOLL: &[&str] = &["epoll"];
/// Architectures of the claim that select and poll keep up with epoll. The first is the baseline.
const KEEP_UP: &[&str] = &["epoll", "select", "poll"];

/// Architectures of Figures 5.1 to 5.4, in the order of their captions.
const MECHANISMS: &[&str] = &["epoll", "poll", "select"];
/// Architectures of Figure 5.5: epoll, and further Linux mechanisms in place of those of other systems.
const SCALING: &[&str] = &["epoll", "epoll-et", "io_uring-poll", "io_uring", "rt-signal"];
pub(super) const ALL: &[&str] = &["epoll", "poll", "select", "epoll-et", "io_uring-poll", "io_uring", "rt-signal"];

/// The largest factor between curves that "perform comparatively well" or "do not show much effect".
const ALIKE: f64 = 1.25;
/// The smallest factor for "rapidly".
const RAPIDLY: f64 = 2.0;
/// The largest factor by which a response time that "stays" changes.
const STAYS: f64 = 1.5;

/// Returns whether a workload has responses of about the size in Figure 4.9, over TCP.
fn is_of_http(workload: &Workload) -> bool {
    let has_size = |http: &HttpTraffic| http.targets.iter().all(|target| target.body_bytes == Some(2_000));
    is_plain(workload) && workload.http.as_ref().is_some_and(has_size) && workload.transport == Transport::Tcp
}

/// Returns whether a workload is a closed loop on 1 000 persistent connections, with any number of idle connections.
fn highest(workload: &Workload) -> bool {
    let is_kept = workload.is_closed() && workload.requests_per_connection().is_none();
    is_of_http(workload) && is_kept && workload.connections == 1_000
}

/// Returns whether a workload has sessions at a planned rate, on up to 1 000 connections and without idle connections.
fn rising(workload: &Workload) -> bool {
    let is_rising = !workload.is_closed() && workload.requests_per_connection().is_some() && workload.idle == 0;
    is_of_http(workload) && is_rising && workload.connections == 1_000
}

fn highest_without_idle(workload: &Workload) -> bool {
    highest(workload) && workload.idle == 0
}

fn datagrams(workload: &Workload) -> bool {
    is_plain(workload) && workload.service.ports().is_some()
}

const REPLIES: Scale = Scale::numbers("replies/s");
const RESPONSE: Scale = Scale { label: "mean service time", form: Form::Time, kind: Kind::Linear };
const IDLE: Scale = Scale::numbers("idle connections");
const PORTS: Scale = Scale::numbers("ports");

/// The mean of t3 − t2, as in the thesis.
const RESPONSE_TIME: Value = |row| {
    let of_all = row.service.filter(|service| service.count > 0).map(|service| service.mean_ns);
    ranked_or(row, row.estimate(Figure::Mean), of_all)
};

pub(super) const FIGURES: &[PaperFigure] = &[
    PaperFigure {
        number: "5.1",
        title: "Replies by planned rate, Linux",
        about: "Maharjan 2012, Figure 5.1 (a): sessions of 100 requests on up to 1 000 connections, without idle connections. \
                The stars are the example of autobench's output in Figure 4.9, a run of epoll on Linux. Panels (b) to (d) of this \
                figure and of the next three are FreeBSD, Solaris and Windows, each of which needs a run of its own.",
        experiments: &["maharjan2012-http"],
        draw: |here, _| {
            let series = here.series(&Curves { only: &rising, of: MECHANISMS, along: Dimension::Rate, value: rate });
            let rates: Vec<_> = autobench().iter().map(|row| (row["dem_req_rate"], row["avg_rep_rate"])).collect();
            let example = published("example of epoll in Figure 4.9", Mark::Points, &rates);
            let example = Published { architecture: Some(here.place("epoll")), ..example };
            let panel = Panel { published: vec![example], ..Panel::new(String::new(), series) };
            here.chart(Shape::Points, Scale::numbers("planned requests/s"), REPLIES, vec![panel])
        },
    },
    PaperFigure {
        number: "5.2",
        title: "Replies with idle connections, Linux",
        about: "Maharjan 2012, Figure 5.2 (a): the highest rate of 1 000 active connections, by the number of idle \
                connections. The paper sends at a constant rate, the highest that each server can handle; here a closed loop \
                finds the highest rate. The paper prints no numbers for it.",
        experiments: &["maharjan2012-idle"],
        draw: |here, _| with_idle(here, MECHANISMS, ""),
    },
    PaperFigure {
        number: "5.3",
        title: "Response time against ports, 10 datagrams a second, Linux",
        about: "Maharjan 2012, Figure 5.3 (a): the mean time from the actual send of a datagram to its response. The server \
                watches all ports, and each datagram goes to a random port. The paper prints no numbers for it.",
        experiments: &["maharjan2012-udp"],
        draw: |here, _| against_ports(here, 10.0, MECHANISMS, ""),
    },
    PaperFigure {
        number: "5.4",
        title: "Response time against ports, 100 datagrams a second, Linux",
        about: "Maharjan 2012, Figure 5.4 (a): like Figure 5.3, at ten times the rate.",
        experiments: &["maharjan2012-udp"],
        draw: |here, _| against_ports(here, 100.0, MECHANISMS, ""),
    },
    PaperFigure {
        number: "5.5",
        title: "Mechanisms that scale, side by side",
        about: "Maharjan 2012, Figure 5.5: mechanisms other than select and poll. The paper compares operating systems; here \
                Linux's other mechanisms replace kqueue, /dev/poll and event ports. Panel (b) has the higher rate of \
                datagrams.",
        experiments: &["maharjan2012-idle", "maharjan2012-udp"],
        draw: |here, _| {
            let (idle, ports) = (
                with_idle(here, SCALING, "(a) replies with idle connections"),
                against_ports(here, 100.0, SCALING, "(b) response time to datagrams"),
            );
            let (Some(mut both), Some(ports)) = (idle.clone(), ports.clone()) else { return idle.or(ports) };
            let axes = [ports.x, ports.y];
            both.panels.extend(ports.panels.into_iter().map(|it| Panel { axes: Some(Box::new(axes.clone())), ..it }));
            both.words = [both.words, ports.words].join(" ").trim().to_owned();
            Some(both)
        },
    },
];

fn with_idle(here: &Here<'_>, of: &[&'static str], title: &str) -> Option<Chart> {
    let series = here.series(&Curves { only: &highest, of, along: Dimension::Idle, value: rate });
    here.chart(Shape::Points, IDLE, REPLIES, vec![Panel::new(title.into(), series)])
}

fn against_ports(here: &Here<'_>, rate_per_s: f64, of: &[&'static str], title: &str) -> Option<Chart> {
    let only = |workload: &Workload| datagrams(workload) && workload.rate_per_s() == Some(rate_per_s);
    let series = here.series(&Curves { only: &only, of, along: Dimension::Ports, value: RESPONSE_TIME });
    here.chart(Shape::Points, PORTS, RESPONSE, vec![Panel::new(title.into(), series)])
}

/// Returns the rows of Figure 4.9, by the names of their columns.
pub(super) fn autobench() -> Vec<BTreeMap<String, f64>> {
    let mut reader = csv::Reader::from_reader(EXAMPLE.as_bytes());
    reader.deserialize().map(|row| row.expect("a test reads every row")).collect()
}

pub(super) const TABLES: &[PaperTable] = &[PaperTable { number: "4.9", experiments: &["maharjan2012-http"] }];

/// Returns all columns of Figure 4.9 beside those of a run with its traffic; `None` for other runs.
pub(super) fn tables_of(run: &Run, _: &mut DeviationOf<'_>) -> anyhow::Result<Option<PaperTables>> {
    let sweep = Sweep::of_rates(run);
    let curve = |name: &&str| sweep.curves.iter().find(|it| queue::is(&it.architecture, name) && rising(&it.workload));
    let curves: Vec<&Curve> = MECHANISMS.iter().filter_map(curve).collect();
    if curves.is_empty() {
        return Ok(None);
    }
    let (mut rows, mut has_invalid) = (Vec::new(), false);
    for printed in autobench() {
        let rate_per_s = printed[autobench::RATE];
        let cells = autobench::COLUMNS.iter().map(|(name, _)| printed[*name].to_string()).collect();
        rows.push(GridRow { lead: vec![rate_per_s.to_string(), "paper".into()], cells });
        for curve in &curves {
            let step = curve.steps.iter().find(|step| step.dem_req_rate == rate_per_s);
            let Some((step, figures)) = step.and_then(|step| Some((step, step.figures.as_ref()?))) else { continue };
            let (figures, is_valid) = (figures.from_actual_send(), step.is_kept_up());
            has_invalid |= !is_valid;
            let cells = autobench::COLUMNS.iter().map(|(_, field)| grid::marked(field(&figures), is_valid)).collect();
            rows.push(GridRow { lead: vec![String::new(), curve.architecture.clone()], cells });
        }
    }
    let mut notes: Vec<String> = vec![
        "The paper's rows are a run of epoll. resp_time is in ms and begins at the actual send, as httperf's does; net_io is in \
         KiB/s, errors in percent."
            .into(),
        "Table 4.4 of the thesis lists the number of simultaneous connections without errors. Neither the thesis nor this report \
         has a result for it. `muxbench capacity --service http --arch select,poll,epoll --at-rate 10000` searches for it."
            .into(),
    ];
    notes.extend(has_invalid.then(|| grid::INVALID.to_owned()));
    let grid = Grid {
        title: "Autobench's columns, as in Figure 4.9".into(),
        lead: [autobench::RATE, ""].map(str::to_owned).into(),
        columns: autobench::COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect(),
        rows,
        notes,
    };
    let (json, csv) = (json!({ "tables": [{ "number": "4.9", "table": grid }] }), grid.csv());
    Ok(Some(PaperTables { grids: vec![("4.9", grid)], json, csv }))
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        says: "With 1 000 active connections and no idle connections select and poll keep up with epoll (section 5.1).",
        cpus_min: 1,
        statements: &[
            Statement::of(KEEP_UP, &RATE, rising, Is::Alike(ALIKE)),
            Statement::of(KEEP_UP, &RATE, highest_without_idle, Is::Alike(ALIKE)),
        ],
    },
    Claim {
        says: "With idle connections the rate of select and poll falls rapidly, and the rate of epoll stays (section 5.2).",
        cpus_min: 1,
        statements: &[
            Statement::of(SCAN, &RATE, highest, Is::Falls(Dimension::Idle, RAPIDLY)),
            Statement::of(EPOLL, &RATE, highest, Is::Flat(Dimension::Idle, ALIKE)),
        ],
    },
    Claim {
        says: "With the number of watched ports the response time of select and poll grows rapidly, and the response time of epoll \
         stays (section 5.3).",
        cpus_min: 1,
        statements: &[
            Statement::of(SCAN, &SERVICE_MEAN, datagrams, Is::Grows(Dimension::Ports, RAPIDLY)),
            Statement::of(EPOLL, &SERVICE_MEAN, datagrams, Is::Flat(Dimension::Ports, STAYS)),
        ],
    },
];
