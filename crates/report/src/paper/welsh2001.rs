//! M. Welsh, "SandStorm I/O Core Benchmarks" (Harvard University, 2001): what it claims of its three graphs.

use lab::record::Workload;

use crate::claims::{Axis, BANDWIDTH, Claim, GIGABYTE, Is, Statement};

/// A graph that is "essentially flat", and what "some penalty" is less than.
const FLAT: f64 = 1.25;
/// What is left at 10 000 connections of the bandwidth at 100: 101 of 161 Mb/s.
const TO_10_000: f64 = 161.0 / 101.0;

fn streams(workload: &Workload) -> bool {
    workload.service.stream().is_some_and(|stream| stream == wire::stream::Stream::default())
}

/// Without the few connections for which the paper's event loops were slow to begin with.
fn many(workload: &Workload) -> bool {
    streams(workload) && workload.idle == 0 && (100..=1_000).contains(&workload.connections)
}

fn very_many(workload: &Workload) -> bool {
    streams(workload) && workload.idle == 0 && [100, 10_000].contains(&workload.connections)
}

fn few(workload: &Workload) -> bool {
    streams(workload) && workload.idle == 0 && workload.connections <= 10
}

fn one_among_idle(workload: &Workload) -> bool {
    streams(workload) && workload.connections == 1
}

/// Where the idle ones are what costs.
fn one_among_many_idle(workload: &Workload) -> bool {
    one_among_idle(workload) && workload.idle >= 1_000
}

fn without_idle(workload: &Workload) -> bool {
    streams(workload) && workload.idle == 0
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        number: 1,
        says: "An event queue sustains its bandwidth to 1 000 connections, poll(2) with some loss; at 10 000, behind a layer, \
               101 of 161 Mb/s are left.",
        cpus_min: 1,
        statements: &[
            Statement {
                architectures: &["epoll"],
                metric: &BANDWIDTH,
                only: many,
                is: Is::Flat(Axis::Connections, FLAT),
            },
            Statement {
                architectures: &["poll"],
                metric: &BANDWIDTH,
                only: many,
                is: Is::Falls(Axis::Connections, 1.0),
            },
            Statement {
                architectures: &["epoll-buffered"],
                metric: &BANDWIDTH,
                only: very_many,
                is: Is::Flat(Axis::Connections, TO_10_000),
            },
        ],
    },
    Claim {
        number: 2,
        says: "For few connections threads are faster than events (where they end, a plan says: at a limit of threads).",
        cpus_min: 1,
        statements: &[Statement {
            architectures: &["mt"],
            metric: &BANDWIDTH,
            only: few,
            is: Is::Above(1.0, &["epoll", "poll"]),
        }],
    },
    Claim {
        number: 3,
        says: "With poll(2) the bandwidth of one connection falls as the inverse of the number of idle ones, with an event queue \
               hardly.",
        cpus_min: 1,
        statements: &[
            Statement {
                architectures: &["poll"],
                metric: &GIGABYTE,
                only: one_among_many_idle,
                is: Is::Proportional(Axis::Idle),
            },
            Statement {
                architectures: &["epoll"],
                metric: &BANDWIDTH,
                only: one_among_idle,
                is: Is::Flat(Axis::Idle, FLAT),
            },
        ],
    },
    Claim {
        number: 4,
        says: "A layer that allocates a buffer for each packet costs bandwidth.",
        cpus_min: 1,
        statements: &[
            Statement {
                architectures: &["epoll"],
                metric: &BANDWIDTH,
                only: without_idle,
                is: Is::Above(1.0, &["epoll-buffered"]),
            },
            Statement {
                architectures: &["poll"],
                metric: &BANDWIDTH,
                only: without_idle,
                is: Is::Above(1.0, &["poll-buffered"]),
            },
        ],
    },
];
