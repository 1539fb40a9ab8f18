//! E. Kawai and S. Yamaguchi, "An Implementation of a Benchmark Tool Considering Communication Locality" (2006, in
//! Japanese): Tables 3 and 4, service time; Table 5 and Figure 2, how evenly requests are sent.
//!
//! Two files beside this one hold the published values as printed: `service-time.csv` (Tables 3 and 4) and
//! `send-deviation.csv` (Table 5). Figure 2 is a drawing without numbers.
//!
//! - this file: claims and figures; `figure`: the drawing of Figure 2
//! - `matrix`: the paper's architectures and traffic
//! - `service_time`: Tables 3 and 4; `send_deviation`: Table 5; `tables`: all three, as text, JSON and CSV

mod figure;
mod matrix;
mod send_deviation;
mod service_time;
mod tables;
#[cfg(test)]
mod tests;

use report::model::deviation::SHARES;

use crate::claims::{Axis, Claim, Is, SEND_STDDEV, SENDS_WITHIN_1US, SERVICE_MEAN, Statement};
use crate::figure::PaperFigure;
pub(super) use matrix::ARCHITECTURES;
use matrix::{at_even_intervals, busiest, of_the_paper};
pub(super) use tables::Kawai2006;

/// The largest factor that the figures' logarithmic scales show as no change.
const NO_CHANGE: f64 = 1.5;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        number: 1,
        says: "The service time of select and poll is in proportion to the connections, that of mp, mt and epoll nearly flat \
               up to 10 000.",
        cpus_min: 1,
        statements: &[
            Statement {
                architectures: &["select", "poll"],
                metric: &SERVICE_MEAN,
                only: of_the_paper,
                is: Is::Proportional(Axis::Connections),
            },
            Statement {
                architectures: &["mp", "mt", "epoll"],
                metric: &SERVICE_MEAN,
                only: of_the_paper,
                is: Is::Flat(Axis::Connections, NO_CHANGE),
            },
        ],
    },
    Claim {
        number: 2,
        says: "At 2 000 requests/s on 10 000 connections a smaller active share shortens the service time of mp, mt and epoll.",
        cpus_min: 1,
        statements: &[Statement {
            architectures: &["mp", "mt", "epoll"],
            metric: &SERVICE_MEAN,
            only: busiest,
            is: Is::Grows(Axis::Active, 1.0),
        }],
    },
    Claim {
        number: 3,
        says: "More than 90 % of sends lie within 1 µs of one another's offset; the worst standard deviation is 15 µs.",
        cpus_min: 1,
        statements: &[
            Statement {
                architectures: &ARCHITECTURES,
                metric: &SENDS_WITHIN_1US,
                only: at_even_intervals,
                is: Is::AtLeast(0.9),
            },
            Statement {
                architectures: &ARCHITECTURES,
                metric: &SEND_STDDEV,
                only: at_even_intervals,
                is: Is::AtMost(15_000.0),
            },
        ],
    },
];

pub(super) const FIGURES: &[PaperFigure] = &[PaperFigure {
    number: "2",
    title: "Send deviation, cumulative",
    about: "Kawai and Yamaguchi 2006, Figure 2: how far sends are from even intervals, of each architecture's trial with the \
            largest standard deviation. The paper has a drawing and no numbers; its Table 5 has the medians of these trials, \
            which are the stars. Only trials at constant intervals count, and of an architecture without a valid one the worst of \
            the others is fainter.",
    experiments: &["kawai2006"],
    draw: figure::draw,
    shares: &SHARES,
}];
