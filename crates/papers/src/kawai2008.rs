//! E. Kawai and S. Yamaguchi, "A Benchmark Tool for Network I/O Management Architectures", IPSJ Digital Courier 4
//! (2008): Figures 6, 8, 10 and 11, a figure for appendix A.1, and the claims about them.

use harness::record::{VerdictKind, Workload};
use harness::spec::transport::Transport;
use load::config::Schedule;

use crate::claims::{
    Claim, Dimension, Is, NEAR, SEND_DELAY_MEDIAN, SEND_DELAY_P99, SERVICE_MEDIAN, SERVICE_SPREAD, Statement,
};
use crate::figure::{self, Curves, Here, Kind, PaperFigure, Scale, Value, with_levels};
use report::plot::chart::{Chart, Form, Panel, Series, Shape};
use report::plot::plot_data::{percentiles, service};

/// Architectures whose service time stays flat, according to the paper.
const FLAT: &[&str] = &["mp", "mt", "epoll"];
/// Architectures that scan every connection.
const SCAN: &[&str] = &["select", "poll"];
const ALL: &[&str] = &["mp", "mt", "epoll", "select", "poll"];
/// The series of figures: the architectures of [`ALL`], the schedules of appendix A.1, and [`ALL`] with five client hosts.
pub(super) const SERIES: &[&str] = &[
    "mp",
    "mt",
    "epoll",
    "select",
    "poll",
    "slot-random",
    "constant",
    "constant-drawn",
    "constant-together",
    "mp, five hosts",
    "mt, five hosts",
    "epoll, five hosts",
    "select, five hosts",
    "poll, five hosts",
];
/// The index in [`SERIES`] of the first series with five client hosts.
const FIVE_HOSTS: usize = 9;

/// The schedules of appendix A.1, by the names of their series.
const SCHEDULES: [(&str, Schedule); 4] = [
    ("slot-random", Schedule::SlotRandom),
    ("constant", Schedule::Constant),
    ("constant-drawn", Schedule::ConstantDrawn),
    ("constant-together", Schedule::ConstantTogether),
];
/// The architecture whose service times the figure and the claim of appendix A.1 use.
const SERVER: &str = "epoll";
/// The delay of the last of five simultaneous 10 kB responses on a gigabit link, in nanoseconds (appendix A.1).
const LAST_OF_FIVE_NS: f64 = 328_000.0;

/// The largest factor that looks like no change on the logarithmic scales of the figures.
const NO_CHANGE: f64 = 1.5;

/// Bytes of a request and of a response of the HTTP-like traffic.
const HTTP: Option<(u32, u32)> = Some((128, 10_240));

/// Returns whether all connections are active and last for the whole trial.
fn is_even(workload: &Workload) -> bool {
    workload.active() == 1.0 && workload.idle == 0 && workload.requests_per_connection().is_none()
}

/// Returns whether a workload is the paper's traffic with messages of these sizes.
fn of_the_paper(workload: &Workload, sizes: Option<(u32, u32)>) -> bool {
    let is_sent = workload.schedule() == Some(Schedule::SlotRandom) && workload.transport == Transport::Tcp;
    let is_served = workload.service.fixed() == sizes && workload.service.ports().is_none();
    figure::are_suitable(workload) && is_even(workload) && is_sent && is_served
}

/// Returns whether a workload belongs to Figures 6 and 10.
fn http_like(workload: &Workload) -> bool {
    of_the_paper(workload, HTTP) && workload.rate_per_s().is_some_and(|rate_per_s| rate_per_s <= 2_000.0)
}

/// Returns whether a workload belongs to Figures 8 and 11.
fn minimised(workload: &Workload) -> bool {
    of_the_paper(workload, Some((1, 1)))
}

/// Selects the most connections, whose scan dominates the service time. With 400 connections the paper prints 900 µs for one
/// traffic model and 500 µs for the other.
fn longest_scan(workload: &Workload) -> bool {
    either(workload) && workload.connections == 10_000
}

fn either(workload: &Workload) -> bool {
    http_like(workload) || minimised(workload)
}

/// Returns whether a workload of appendix A.1 has this schedule.
fn on_a_link(workload: &Workload, schedule: Schedule) -> bool {
    let is_served = workload.service.fixed() == HTTP;
    figure::are_five_hosts(workload) && is_even(workload) && is_served && workload.schedule() == Some(schedule)
}

/// The rates of Tables 2 and 3, one for each panel.
const HTTP_LIKE_PER_S: &[f64] = &[125.0, 500.0, 2_000.0];
const MINIMISED_PER_S: &[f64] = &[125.0, 500.0, 2_000.0, 8_000.0];

const SERVICE: (&str, Value) = ("service time", service);
const SEND_DELAY: (&str, Value) = ("send delay", |row| percentiles(row.send_delay));

pub(super) const FIGURES: &[PaperFigure] = &[
    PaperFigure {
        number: "6",
        title: "Service time, HTTP-like traffic",
        about: "Kawai and Yamaguchi 2008, Figure 6: requests of 128 B and responses of 10 KiB, a panel for each rate. Five \
                percentiles in the notation of the paper's Figure 7: the thin line goes from p1 to p99, the broad line from \
                p25 to p75, and the marker is the median. Horizontal lines are the means in section 5.2.1. Runs on a lab with \
                five client hosts and gigabit links, like the paper's, have series of their own.",
        experiments: &["kawai2008-http"],
        draw: |here, _| {
            let printed = [
                (500e3, "mean of mp, mt and epoll: about 500 µs"),
                (900e3, "means of select and poll: about 900 µs to 20 ms"),
                (20e6, "means of select and poll: about 900 µs to 20 ms"),
            ];
            draw(here, http_like, HTTP_LIKE_PER_S, SERVICE, &printed)
        },
    },
    PaperFigure {
        number: "8",
        title: "Service time, minimised traffic",
        about: "Kawai and Yamaguchi 2008, Figure 8: requests and responses of 1 B. The notation is that of Figure 6; the means \
                are from section 5.2.2.",
        experiments: &["kawai2008-minimised"],
        draw: |here, _| {
            let printed = [
                (200e3, "mean of mp, mt and epoll: about 200 µs"),
                (500e3, "means of select and poll: about 500 µs to 20 ms"),
                (20e6, "means of select and poll: about 500 µs to 20 ms"),
            ];
            draw(here, minimised, MINIMISED_PER_S, SERVICE, &printed)
        },
    },
    PaperFigure {
        number: "10",
        title: "Send delay of the client, HTTP-like traffic",
        about: "Kawai and Yamaguchi 2008, Figure 10: the time from the planned to the actual send of a request (t2 − t1), in \
                the five percentiles of Figure 6. According to section 5.3 most requests are sent within 10 µs.",
        experiments: &["kawai2008-http"],
        draw: |here, _| draw(here, http_like, HTTP_LIKE_PER_S, SEND_DELAY, &[(10e3, "most sends: within 10 µs")]),
    },
    PaperFigure {
        number: "11",
        title: "Send delay of the client, minimised traffic",
        about: "Kawai and Yamaguchi 2008, Figure 11: like Figure 10. According to section 5.3 some delays at 8 000 requests/s \
                reach 20 µs.",
        experiments: &["kawai2008-minimised"],
        draw: |here, _| {
            let printed = [(10e3, "most sends: within 10 µs"), (20e3, "some sends: up to 20 µs")];
            draw(here, minimised, MINIMISED_PER_S, SEND_DELAY, &printed)
        },
    },
    PaperFigure {
        number: "A.1",
        title: "Service time of clients that send simultaneously",
        about: "Not a figure of Kawai and Yamaguchi 2008: their appendix A.1 has a calculation only. On a gigabit link a \
                response of 10 kB takes 82 µs, so the last of five simultaneous responses arrives 328 µs late, which is the \
                horizontal line. The load comes from five client hosts of a lab. At constant intervals they take turns, start \
                at random times (drawn), or send simultaneously (together). On a machine with few CPUs clients also wait for a \
                CPU.",
        experiments: &["kawai2008-synchronisation"],
        draw: |here, _| draw_schedules(here),
    },
];

/// Draws a series for each schedule, by rate.
fn draw_schedules(here: &Here<'_>) -> Option<Chart> {
    let series = |(name, schedule): (&str, Schedule)| {
        let only = |workload: &Workload| on_a_link(workload, schedule);
        let curves = Curves { only: &only, of: &[SERVER], along: Dimension::Rate, value: SERVICE.1 };
        Series { architecture: here.place(name), of: "", points: here.points(&curves, SERVER) }
    };
    let series = SCHEDULES.map(series).into_iter().filter(|series| !series.points.is_empty());
    let wait = (LAST_OF_FIVE_NS, "wait of the last of five responses: 328 µs");
    let panel = with_levels(Panel::new(String::new(), series.collect()), &[wait]);
    let x = Scale { label: "requests/s", form: Form::Names, kind: Kind::Names };
    let y = Scale { label: SERVICE.0, form: Form::Time, kind: Kind::Log };
    here.chart(Shape::Percentiles, x, y, vec![panel])
}

fn draw(
    here: &Here<'_>,
    only: fn(&Workload) -> bool,
    rates_per_s: &[f64],
    (label, value): (&'static str, Value),
    printed_ns: &[(f64, &str)],
) -> Option<Chart> {
    let panel = |&rate_per_s: &f64| {
        let only = |workload: &Workload| only(workload) && workload.rate_per_s() == Some(rate_per_s);
        let over_loopback = |workload: &Workload| only(workload) && workload.network.is_none();
        let on_hosts = |workload: &Workload| only(workload) && workload.network.is_some();
        let of = |only| Curves { only, of: ALL, along: Dimension::Connections, value };
        let mut series = here.series(&of(&over_loopback));
        let on_hosts = here.series(&of(&on_hosts)).into_iter();
        series.extend(on_hosts.map(|it| Series { architecture: FIVE_HOSTS + it.architecture, ..it }));
        with_levels(Panel::new(format!("{rate_per_s} requests/s"), series), printed_ns)
    };
    let x = Scale { label: "connections", form: Form::Names, kind: Kind::Names };
    let y = Scale { label, form: Form::Time, kind: Kind::Log };
    let chart = here.chart(Shape::Percentiles, x, y, rates_per_s.iter().map(panel).collect())?;
    let clients = figure::clients(here.places().into_iter().map(|at| &here.runs[at]));
    let words =
        format!("{} Here the load comes from {clients}; in the paper from 5 clients with two threads.", chart.words);
    Some(Chart { words, ..chart })
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        says: "The service time of mp, mt and epoll is flat over connections and rates (section 5.2).",
        cpus_min: 1,
        statements: &[
            Statement::of(FLAT, &SERVICE_MEDIAN, either, Is::Flat(Dimension::Connections, NO_CHANGE)),
            Statement::of(FLAT, &SERVICE_MEDIAN, either, Is::Flat(Dimension::Rate, NO_CHANGE)),
        ],
    },
    Claim {
        says: "The service time of select and poll is proportional to the number of connections.",
        cpus_min: 1,
        statements: &[Statement::of(SCAN, &SERVICE_MEDIAN, either, Is::Proportional(Dimension::Connections))],
    },
    Claim {
        says: "The service time of select and poll grows with the request rate. (The paper says in proportion, but its range of \
         service times leaves a factor of 1.6 for the rate.)",
        cpus_min: 1,
        statements: &[Statement::of(SCAN, &SERVICE_MEDIAN, either, Is::Grows(Dimension::Rate, 1.0))],
    },
    Claim {
        says: "mp, mt and epoll take nearly the same time.",
        cpus_min: 1,
        statements: &[Statement::of(FLAT, &SERVICE_MEDIAN, either, Is::Alike(NO_CHANGE))],
    },
    Claim {
        says: "On 10 000 connections select and poll take nearly the same time under both traffic models, because the scan \
         dominates.",
        cpus_min: 1,
        statements: &[Statement::of(SCAN, &SERVICE_MEDIAN, longest_scan, Is::Flat(Dimension::Response, NO_CHANGE))],
    },
    Claim {
        says: "HTTP-like traffic at 8 000 requests/s saturates the server, so the paper has no result for it.",
        cpus_min: 1,
        statements: &[Statement::of(
            ALL,
            &SERVICE_MEDIAN,
            |it| of_the_paper(it, HTTP) && it.rate_per_s() == Some(8_000.0),
            Is::Found(VerdictKind::Saturated),
        )],
    },
    Claim {
        says: "Most requests are sent within 10 µs of their planned time, and the 99th percentile of the send delay reaches about 20 \
         µs.",
        cpus_min: 1,
        statements: &[
            Statement::of(ALL, &SEND_DELAY_MEDIAN, either, Is::AtMost(10_000.0 * NEAR)),
            Statement::of(ALL, &SEND_DELAY_P99, either, Is::AtMost(20_000.0 * NEAR)),
        ],
    },
    Claim {
        says: "If five clients send simultaneously, the slowest response takes 328 µs longer than the fastest (appendix A.1).",
        cpus_min: 1,
        statements: &[Statement::of(
            &[SERVER],
            &SERVICE_SPREAD,
            |it| on_a_link(it, Schedule::ConstantTogether),
            Is::AtLeast(LAST_OF_FIVE_NS / NEAR),
        )],
    },
];
