//! M. Welsh, "SandStorm I/O Core Benchmarks" (Harvard University, 2001): its three graphs, and the claims about them.

use harness::record::Workload;
use wire::stream::Stream;

use crate::claims::{BANDWIDTH_OF_CPU, Claim, Dimension, GIGABYTE, Is, NEAR, RATE, Statement};
use crate::figure::{Curves, Here, Kind, PaperFigure, Scale, Value, is_plain, published, rate};
use report::analysis::summary::Row;
use report::plot::chart::{Chart, Form, Mark, Panel, Published, Shape};

/// The largest factor of change in a graph that is "essentially flat".
const FLAT: f64 = 1.25;
/// The largest factor by which the bandwidth falls if the degradation is "much less" than with poll(2). Poll(2) loses nearly all
/// of its bandwidth, because only the inverse of the number of idle connections remains; much less is at most half.
const MUCH_LESS: f64 = 2.0;
/// The factor by which the paper's bandwidth falls from 100 to 10 000 connections: from 161 to 101 Mb/s.
const TO_10_000: f64 = 161.0 / 101.0;

fn streams(workload: &Workload) -> bool {
    let paper = Stream { by_packet: true, ..Stream::default() };
    is_plain(workload) && workload.service.stream() == Some(paper)
}

fn without_idle(workload: &Workload) -> bool {
    streams(workload) && workload.idle == 0
}

/// Selects 100 to 1 000 connections. With fewer, the paper's event loops were slow.
fn many(workload: &Workload) -> bool {
    without_idle(workload) && (100..=1_000).contains(&workload.connections)
}

fn one_among_idle(workload: &Workload) -> bool {
    streams(workload) && workload.connections == 1
}

/// Selects the workloads under which buffered variants run too.
fn several(workload: &Workload) -> bool {
    without_idle(workload) && workload.connections > 1
}

/// An event loop, and the same in random order.
const SHUFFLED: &[&str] = &["poll", "poll-shuffled"];
/// Event loops without a layer.
const EVENTS: &[&str] = &["epoll", "poll"];
/// Architectures without a layer between sockets and service.
const RAW: &[&str] = &["mt", "poll", "epoll"];
pub(super) const ALL: &[&str] =
    &["mt", "poll", "epoll", "poll-shuffled", "mt-buffered", "poll-buffered", "epoll-buffered"];

/// Bandwidth in the unit of the graphs. All drawn workloads have bursts of the paper's size.
const MEGABITS: Value = |row| {
    let megabits = |bursts_per_s: f64| bursts_per_s * Stream::default().burst_bytes() as f64 * 8.0 / 1e6;
    let (bursts_per_s, interval) = rate(row)?;
    Some((megabits(bursts_per_s), interval.into_iter().map(megabits).collect()))
};

pub(super) const FIGURES: &[PaperFigure] = &[
    PaperFigure {
        number: "1",
        title: "Bandwidth by number of connections",
        about: "Welsh 2001, first graph: the total bandwidth of all connections. The paper's servers are written in Java. Here \
                epoll stands for its /dev/poll, -shuffled for its SelectSource, and -buffered for its asynchronous sockets, \
                which allocate a buffer for each packet.",
        experiments: &["welsh2001-connections"],
        draw: |here, _| {
            let ends = "limits of the threaded servers: 400 and 450 connections";
            let printed = [400.0, 450.0].map(|at| published(ends, Mark::Limit, &[(at, 0.0)]));
            let chart = draw(
                here,
                |it| without_idle(it) && it.connections <= 1_000,
                ALL,
                (Dimension::Connections, "connections"),
                [Kind::Linear; 2],
                printed.into(),
            )?;
            Some(Chart { words: [chart.words].into_iter().chain(costs(here)).collect::<Vec<_>>().join(" "), ..chart })
        },
    },
    PaperFigure {
        number: "2",
        title: "Scaling to 10 000 connections",
        about: "Welsh 2001, second graph, whose horizontal axis is logarithmic. The stars are the two values in the paper's \
                text. Here the vertical axis is logarithmic too, because machines of today are much faster.",
        experiments: &["welsh2001-10k"],
        draw: |here, _| {
            let values = [(100.0, 161.0), (10_000.0, 101.0)];
            let printed = vec![published("asynchronous sockets over /dev/poll", Mark::Points, &values)];
            let of = &["epoll-buffered", "poll-buffered", "mt-buffered"];
            draw(here, without_idle, of, (Dimension::Connections, "connections"), [Kind::Log; 2], printed)
        },
    },
    PaperFigure {
        number: "3",
        title: "One connection among idle ones",
        about: "Welsh 2001, third graph: the bandwidth of one connection by the number of idle connections. The paper prints \
                no numbers for it.",
        experiments: &["welsh2001-idle"],
        draw: |here, _| {
            let of = &["poll", "epoll"];
            draw(here, one_among_idle, of, (Dimension::Idle, "idle connections"), [Kind::Linear; 2], Vec::new())
        },
    },
];

fn draw(
    here: &Here<'_>,
    only: fn(&Workload) -> bool,
    of: &[&'static str],
    (along, label): (Dimension, &'static str),
    kinds: [Kind; 2],
    published: Vec<Published>,
) -> Option<Chart> {
    let series = here.series(&Curves { only: &only, of, along, value: MEGABITS });
    let x = Scale { label, form: Form::Number, kind: kinds[0] };
    let y = Scale { label: "bandwidth, Mb/s", form: Form::Number, kind: kinds[1] };
    here.chart(Shape::Points, x, y, vec![Panel { published, ..Panel::new(String::new(), series) }])
}

/// Describes how bandwidth and costs change from the fewest to the most connections of [`many`], for each of [`RAW`].
fn costs(here: &Here<'_>) -> Vec<String> {
    let of_ends = |name: &&str| {
        let rows = here.rows(many, name).into_iter();
        let mut rows: Vec<(u32, &Row)> = rows.map(|(workload, row)| (workload.connections, row)).collect();
        rows.sort_by_key(|(connections, _)| *connections);
        let (few, most) = (*rows.first()?, *rows.last()?);
        if few.0 < most.0 { cost(&few.1.label(), few, most) } else { None }
    };
    let costs: Vec<(f64, String)> = RAW.iter().filter_map(of_ends).collect();
    let falls = costs.iter().any(|(share, _)| *share < 1.0 / FLAT);
    let cause = "docs/streams.md describes one possible cause: reads smaller than the receive window.";
    costs.into_iter().map(|(_, words)| words).chain(falls.then(|| cause.to_owned())).collect()
}

/// Returns the share of the bandwidth that an architecture keeps, and sentences on its costs. Rows that are not ranked
/// count too: if the client limits the row with the fewest connections, the true share is lower.
fn cost(name: &str, few: (u32, &Row), most: (u32, &Row)) -> Option<(f64, String)> {
    let (before, after) = (few.1.stream?, most.1.stream?);
    let share = after.bytes_per_s / before.bytes_per_s;
    // Name the verdict of a row that is not ranked: a client-limited rate, for example, is a lower bound.
    let limits = [few, most].map(|(connections, row)| {
        (!row.is_ranked()).then(|| format!("{} at {connections}", report::format::name(&row.verdict)))
    });
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    let limits = if limits.is_empty() { String::new() } else { format!(" ({})", limits.join(", ")) };
    let share_percent = 100.0 * share;
    let mut words =
        format!("From {} to {} connections {name} keeps {share_percent:.0} % of its bandwidth{limits}.", few.0, most.0);
    let seconds = |ns: Option<f64>| ns.map(|ns| ns / 1e9);
    let server = seconds(after.cpu_ns_per_gigabyte).zip(seconds(before.cpu_ns_per_gigabyte));
    let client = seconds(after.client_cpu_ns_per_gigabyte).zip(seconds(before.client_cpu_ns_per_gigabyte));
    if let (Some((server, server_before)), Some((client, client_before))) = (server, client) {
        words += &format!(
            " A gigabyte then takes {server:.2} s of the server's CPU time (before {server_before:.2} s) and {client:.2} s of the \
             client's (before {client_before:.2} s)."
        );
    }
    let held = |(connections, row): (u32, &Row)| {
        Some(f64::from(connections) * row.cost.as_ref()?.memory_kernel_bytes_per_connection? / 1e6)
    };
    if let Some((held, held_before)) = held(most).zip(held(few)) {
        words += &format!(" The kernel holds {held:.0} MB for the connections (before {held_before:.0} MB).");
    }
    Some((share, words))
}

/// The paper's servers with threads stop at 400 and 450 connections.
const THREADS_MAX: u32 = 450;

/// Selects the connections at which the paper's threads still run, and are no longer few.
fn threads_run(workload: &Workload) -> bool {
    many(workload) && workload.connections <= THREADS_MAX
}

fn few(workload: &Workload) -> bool {
    without_idle(workload) && workload.connections <= 10
}

fn at_ends_of_the_text(workload: &Workload) -> bool {
    without_idle(workload) && [100, 10_000].contains(&workload.connections)
}

/// Returns a statement about the bandwidth. The paper measures the total bandwidth ([`RATE`]), which the server's CPU limited. Over
/// loopback the client's CPU usually limits it, because it also runs the network stack. Bytes per second of server CPU time answer the
/// same question, so claims require both.
const fn bandwidth(of: &'static [&'static str], only: fn(&Workload) -> bool, is: Is) -> Statement {
    Statement::of(of, &BANDWIDTH_OF_CPU, only, is).and(&RATE)
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        says: "An event queue keeps its bandwidth up to 1 000 connections, and poll(2) loses some. At 10 000 connections, behind a \
         layer of asynchronous sockets, 101 of 161 Mb/s remain.",
        cpus_min: 1,
        statements: &[
            bandwidth(&["epoll"], many, Is::Flat(Dimension::Connections, FLAT)),
            bandwidth(&["poll"], many, Is::Falls(Dimension::Connections, 1.0)),
            bandwidth(&["epoll-buffered"], at_ends_of_the_text, Is::Flat(Dimension::Connections, TO_10_000 * NEAR)),
        ],
    },
    Claim {
        says: "With few connections threads are faster than events.",
        cpus_min: 1,
        statements: &[bandwidth(&["mt"], few, Is::Above(1.0, EVENTS))],
    },
    Claim {
        says: "A limit on processes stops servers with a thread for each connection at 400 to 450 connections.",
        cpus_min: 1,
        statements: &[Statement::of(
            &["mt", "mt-buffered"],
            &RATE,
            |it| without_idle(it) && it.connections > THREADS_MAX,
            Is::Stopped,
        )],
    },
    Claim {
        says: "With poll(2) the bandwidth of one connection is inversely proportional to the number of idle connections; with an \
         event queue it falls too, but much less.",
        cpus_min: 1,
        statements: &[
            Statement::of(
                &["poll"],
                &GIGABYTE,
                |it| one_among_idle(it) && it.idle >= 1_000,
                Is::Proportional(Dimension::Idle),
            ),
            bandwidth(&["epoll"], one_among_idle, Is::Falls(Dimension::Idle, 1.0)),
            bandwidth(&["epoll"], one_among_idle, Is::Flat(Dimension::Idle, MUCH_LESS)),
        ],
    },
    Claim {
        says: "A layer that allocates a buffer for each packet costs bandwidth.",
        cpus_min: 1,
        statements: &[
            bandwidth(&["epoll"], several, Is::Above(1.0, &["epoll-buffered"])),
            bandwidth(&["poll"], several, Is::Above(1.0, &["poll-buffered"])),
            bandwidth(&["mt"], several, Is::Above(1.0, &["mt-buffered"])),
        ],
    },
    Claim {
        says: "Serving ready connections in random order costs little.",
        cpus_min: 1,
        statements: &[bandwidth(SHUFFLED, several, Is::Alike(FLAT))],
    },
    Claim {
        says: "Below their limit threads lose bandwidth with the number of connections.",
        cpus_min: 1,
        statements: &[bandwidth(&["mt"], threads_run, Is::Falls(Dimension::Connections, 1.0))],
    },
];
