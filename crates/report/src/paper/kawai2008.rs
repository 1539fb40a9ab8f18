//! E. Kawai and S. Yamaguchi, "A Benchmark Tool for Network I/O Management Architectures", IPSJ Digital Courier 4 (2008):
//! what it claims of Figures 6, 8, 10 and 11.

use lab::record::{VerdictKind, Workload};

use crate::claims::{Axis, Claim, Is, LAG_MEDIAN, LAG_P99, SERVICE_MEDIAN, Statement};

/// Those whose service time is said to be flat.
const FLAT: &[&str] = &["mp", "mt", "epoll"];
/// Those which look at every connection.
const SCAN: &[&str] = &["select", "poll"];
const ALL: &[&str] = &["mp", "mt", "epoll", "select", "poll"];

/// What the figures' logarithmic scales show as no change.
const NO_CHANGE: f64 = 1.5;

/// Figures 6 and 10.
fn http_like(workload: &Workload) -> bool {
    workload.service.fixed() == Some((128, 10_240))
        && workload.rate_per_s.is_some_and(|rate_per_s| rate_per_s <= 2_000.0)
}

/// Figures 8 and 11.
fn minimised(workload: &Workload) -> bool {
    workload.service.fixed() == Some((1, 1))
}

fn either(workload: &Workload) -> bool {
    http_like(workload) || minimised(workload)
}

fn beyond(workload: &Workload) -> bool {
    workload.service.fixed() == Some((128, 10_240)) && workload.rate_per_s == Some(8_000.0)
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
