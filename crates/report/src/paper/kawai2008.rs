//! E. Kawai and S. Yamaguchi, "A Benchmark Tool for Network I/O Management Architectures", IPSJ Digital Courier 4 (2008):
//! Figures 6, 8, 10 and 11, and what it claims of them.

use lab::record::{VerdictKind, Workload};
use lab::transport::Transport;
use load::config::Schedule;

use super::figure::{Curves, Figure, Here, Kind, Scale, Value, published};
use crate::claims::{Axis, Claim, Is, LAG_MEDIAN, LAG_P99, SERVICE_MEDIAN, Statement};
use crate::html::chart::{Chart, Form, Mark, Panel, Shape};
use crate::html::material::percentiles;

/// Those whose service time is said to be flat.
const FLAT: &[&str] = &["mp", "mt", "epoll"];
/// Those which look at every connection.
const SCAN: &[&str] = &["select", "poll"];
pub(super) const ALL: &[&str] = &["mp", "mt", "epoll", "select", "poll"];

/// What the figures' logarithmic scales show as no change.
const NO_CHANGE: f64 = 1.5;

/// Every connection is active, each request somewhere in its slot.
fn of_the_paper(workload: &Workload) -> bool {
    let is_even = workload.active == 1.0 && workload.idle == 0 && workload.calls_per_connection.is_none();
    let is_sent = workload.schedule == Schedule::SlotRandom && workload.transport == Transport::Tcp;
    super::is_plain(workload) && is_even && is_sent && workload.service.ports().is_none()
}

/// Figures 6 and 10.
fn http_like(workload: &Workload) -> bool {
    of_the_paper(workload)
        && workload.service.fixed() == Some((128, 10_240))
        && workload.rate_per_s.is_some_and(|rate_per_s| rate_per_s <= 2_000.0)
}

/// Figures 8 and 11.
fn minimised(workload: &Workload) -> bool {
    of_the_paper(workload) && workload.service.fixed() == Some((1, 1))
}

fn either(workload: &Workload) -> bool {
    http_like(workload) || minimised(workload)
}

fn beyond(workload: &Workload) -> bool {
    of_the_paper(workload) && workload.service.fixed() == Some((128, 10_240)) && workload.rate_per_s == Some(8_000.0)
}

/// Tables 2 and 3: the rates, a panel each.
const HTTP_LIKE_PER_S: &[f64] = &[125.0, 500.0, 2_000.0];
const MINIMISED_PER_S: &[f64] = &[125.0, 500.0, 2_000.0, 8_000.0];

const SERVICE: (&str, Value) = ("service time", |row| percentiles(row.service));
const LAG: (&str, Value) = ("lag", |row| percentiles(row.lag));

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        number: "6",
        title: "Service time, HTTP-like traffic",
        about: "Kawai and Yamaguchi 2008, Figure 6: 128 B are answered by 10 KiB. Five percentiles each, in the notation of its \
                Figure 7: the thin line goes from p1 to p99, the broad one from p25 to p75, the marker is the median. A panel for \
                each rate. The means in the paper's text (section 5.2.1) are lines across.",
        experiments: &["kawai2008-http"],
        draw: |here, _| {
            let printed = [
                (500e3, "about 500 µs, the mean of mp, mt and epoll"),
                (900e3, "about 900 µs to 20 ms, the means of select and poll"),
                (20e6, "about 900 µs to 20 ms, the means of select and poll"),
            ];
            draw(here, http_like, HTTP_LIKE_PER_S, SERVICE, &printed)
        },
        shares: &[],
    },
    Figure {
        number: "8",
        title: "Service time, minimised traffic",
        about: "Kawai and Yamaguchi 2008, Figure 8: 1 B is answered by 1 B. As Figure 6; the means are those of section 5.2.2.",
        experiments: &["kawai2008-minimised"],
        draw: |here, _| {
            let printed = [
                (200e3, "about 200 µs, the mean of mp, mt and epoll"),
                (500e3, "about 500 µs to 20 ms, the means of select and poll"),
                (20e6, "about 500 µs to 20 ms, the means of select and poll"),
            ];
            draw(here, minimised, MINIMISED_PER_S, SERVICE, &printed)
        },
        shares: &[],
    },
    Figure {
        number: "10",
        title: "Lag of the client, HTTP-like traffic",
        about: "Kawai and Yamaguchi 2008, Figure 10: from when a request was planned to when it was sent, t2 − t1, by the same five \
                percentiles. By its section 5.3 most are within 10 µs.",
        experiments: &["kawai2008-http"],
        draw: |here, _| draw(here, http_like, HTTP_LIKE_PER_S, LAG, &[(10e3, "10 µs, which most sends are within")]),
        shares: &[],
    },
    Figure {
        number: "11",
        title: "Lag of the client, minimised traffic",
        about: "Kawai and Yamaguchi 2008, Figure 11: as Figure 10. By section 5.3 some lags were up to 20 µs at 8 000 requests/s.",
        experiments: &["kawai2008-minimised"],
        draw: |here, _| {
            let printed = [(10e3, "10 µs, which most sends are within"), (20e3, "20 µs, as late as some were")];
            draw(here, minimised, MINIMISED_PER_S, LAG, &printed)
        },
        shares: &[],
    },
];

fn draw(
    here: &Here<'_>,
    only: fn(&Workload) -> bool,
    rates_per_s: &[f64],
    (label, value): (&'static str, Value),
    printed_ns: &[(f64, &str)],
) -> Option<Chart> {
    let panel = |&rate_per_s: &f64| {
        let only = |workload: &Workload| only(workload) && workload.rate_per_s == Some(rate_per_s);
        let series = here.series(&Curves { only: &only, of: ALL, along: Axis::Connections, value });
        let printed = printed_ns.iter().map(|&(ns, label)| published(label, Mark::Level, &[(0.0, ns)]));
        Panel { published: printed.collect(), ..Panel::new(format!("{rate_per_s} requests/s"), series) }
    };
    let x = Scale { label: "connections", form: Form::Names, kind: Kind::Names };
    let y = Scale { label, form: Form::Time, kind: Kind::Log };
    here.chart(Shape::Percentiles, x, y, rates_per_s.iter().map(panel).collect())
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        number: 1,
        says: "The service time of mp, mt and epoll is flat in connections and rate (section 5.2).",
        cpus_min: 1,
        statements: &[
            Statement {
                architectures: FLAT,
                metric: &SERVICE_MEDIAN,
                only: either,
                is: Is::Flat(Axis::Connections, NO_CHANGE),
            },
            Statement {
                architectures: FLAT,
                metric: &SERVICE_MEDIAN,
                only: either,
                is: Is::Flat(Axis::Rate, NO_CHANGE),
            },
        ],
    },
    Claim {
        number: 2,
        says: "The service time of select and poll grows in proportion to the connections.",
        cpus_min: 1,
        statements: &[Statement {
            architectures: SCAN,
            metric: &SERVICE_MEDIAN,
            only: either,
            is: Is::Proportional(Axis::Connections),
        }],
    },
    Claim {
        number: 3,
        says: "mp, mt and epoll take nearly the same time.",
        cpus_min: 1,
        statements: &[Statement {
            architectures: FLAT,
            metric: &SERVICE_MEDIAN,
            only: either,
            is: Is::Alike(NO_CHANGE),
        }],
    },
    Claim {
        number: 4,
        says: "select and poll take nearly the same time under both traffic models, because the scan dominates.",
        cpus_min: 1,
        statements: &[Statement {
            architectures: SCAN,
            metric: &SERVICE_MEDIAN,
            only: either,
            is: Is::Flat(Axis::Response, NO_CHANGE),
        }],
    },
    Claim {
        number: 5,
        says: "HTTP-like traffic at 8 000 requests/s saturates the server, so that it gives no result.",
        cpus_min: 1,
        statements: &[Statement {
            architectures: ALL,
            metric: &SERVICE_MEDIAN,
            only: beyond,
            is: Is::Found(VerdictKind::Saturated),
        }],
    },
    Claim {
        number: 6,
        says: "Most sends start within 10 µs of plan, and the 99th percentile of lag reaches about 20 µs.",
        cpus_min: 1,
        statements: &[
            Statement { architectures: ALL, metric: &LAG_MEDIAN, only: either, is: Is::AtMost(10_000.0) },
            Statement { architectures: ALL, metric: &LAG_P99, only: either, is: Is::AtMost(20_000.0) },
        ],
    },
];
