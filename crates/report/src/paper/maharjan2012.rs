//! P. Maharjan, "Comparing and Measuring Network Event Dispatch Mechanisms in Virtual Hosts" (Tampere University of Technology,
//! 2012): what it claims of Figures 5.1 to 5.5 for Linux.

use lab::record::Workload;

use crate::claims::{Axis, Claim, Is, RATE, RESPONSE_MEDIAN, Statement};

const SCAN: &[&str] = &["select", "poll"];
const EPOLL: &[&str] = &["epoll"];
/// The first is what the others are held against.
const KEEP_UP: &[&str] = &["epoll", "select", "poll"];

/// Curves that "perform comparatively well", or "do not show much effect", are within this.
const ALIKE: f64 = 1.25;
/// What "rapidly" is at least.
const RAPIDLY: f64 = 2.0;
/// Times that stay, among those that grow, are within this.
const STAYS: f64 = 1.5;

/// As fast as the server can, with so many idle connections as there are.
fn highest(workload: &Workload) -> bool {
    workload.service.name() == "http" && workload.is_closed() && workload.connections == 1_000
}

/// Sessions at rising rates.
fn rising(workload: &Workload) -> bool {
    workload.service.name() == "http" && !workload.is_closed() && workload.connections == 1_000 && workload.idle == 0
}

fn highest_without_idle(workload: &Workload) -> bool {
    highest(workload) && workload.idle == 0
}

fn datagrams(workload: &Workload) -> bool {
    workload.service.ports().is_some()
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        number: 1,
        says: "With 1 000 active connections and no idle ones select and poll keep up with epoll (section 5.1).",
        cpus_min: 1,
        statements: &[
            Statement { architectures: KEEP_UP, metric: &RATE, only: rising, is: Is::Alike(ALIKE) },
            Statement { architectures: KEEP_UP, metric: &RATE, only: highest_without_idle, is: Is::Alike(ALIKE) },
        ],
    },
    Claim {
        number: 2,
        says: "With idle connections the rate of select and poll falls rapidly, that of epoll stays (section 5.2).",
        cpus_min: 1,
        statements: &[
            Statement { architectures: SCAN, metric: &RATE, only: highest, is: Is::Falls(Axis::Idle, RAPIDLY) },
            Statement { architectures: EPOLL, metric: &RATE, only: highest, is: Is::Flat(Axis::Idle, ALIKE) },
        ],
    },
    Claim {
        number: 3,
        says: "The response time of select and poll grows rapidly with the ports that are watched, that of epoll stays \
               (section 5.3).",
        cpus_min: 1,
        statements: &[
            Statement {
                architectures: SCAN,
                metric: &RESPONSE_MEDIAN,
                only: datagrams,
                is: Is::Grows(Axis::Ports, RAPIDLY),
            },
            Statement {
                architectures: EPOLL,
                metric: &RESPONSE_MEDIAN,
                only: datagrams,
                is: Is::Flat(Axis::Ports, STAYS),
            },
        ],
    },
];
