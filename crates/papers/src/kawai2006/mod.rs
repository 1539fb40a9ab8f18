//! E. Kawai and S. Yamaguchi, "An Implementation of a Benchmark Tool Considering Communication Locality" (2006, in
//! Japanese): its claims and the list of its figures and tables. Two CSV files hold the published values as printed.
//!
//! - `figure`: Figure 2; `service_time`: the paper's traffic, and Tables 3 and 4; `send_deviation`: Table 5
//! - `tables`: all three tables, as text, JSON and CSV

mod figure;
mod send_deviation;
mod service_time;
mod tables;
#[cfg(test)]
mod tests;

use crate::claims::{Claim, Dimension, Is, NEAR, SEND_STDDEV, SENDS_BEYOND_1US, SERVICE_MEAN, Statement};
use crate::figure::PaperFigure;
use crate::grid::PaperTable;
pub(super) use service_time::ARCHITECTURES;
use service_time::{at_even_intervals, of_the_paper};
pub(super) use tables::tables_of;
#[cfg(test)]
pub(super) use tests::{published_send_deviation, published_times};

/// The largest factor that looks like no change on the logarithmic scales of the figures.
const NO_CHANGE: f64 = 1.5;
/// The largest share of sends beyond 1 µs where the paper says that most sends are within it ("おおむね").
const MINORITY: f64 = 0.5;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        says: "The service time of select and poll is proportional to the number of connections; the service time of mp, mt and \
         epoll is nearly flat up to 10 000.",
        cpus_min: 1,
        statements: &[
            Statement::of(&["select", "poll"], &SERVICE_MEAN, of_the_paper, Is::Proportional(Dimension::Connections)),
            Statement::of(
                &["mp", "mt", "epoll"],
                &SERVICE_MEAN,
                of_the_paper,
                Is::Flat(Dimension::Connections, NO_CHANGE),
            ),
        ],
    },
    Claim {
        says: "At 2 000 requests/s on 10 000 connections a smaller active share shortens the service time of mp, mt and epoll.",
        cpus_min: 1,
        statements: &[Statement::of(
            &["mp", "mt", "epoll"],
            &SERVICE_MEAN,
            |it| of_the_paper(it) && it.connections == 10_000 && it.rate_per_s() == Some(2_000.0),
            Is::Grows(Dimension::Active, 1.0),
        )],
    },
    Claim {
        says: "More than 90 % of the sends of select and poll, and most sends of mp, mt and epoll, deviate by at most 1 µs from the \
         median deviation; the largest standard deviation is 15 µs.",
        cpus_min: 1,
        statements: &[
            Statement::of(&["select", "poll"], &SENDS_BEYOND_1US, at_even_intervals, Is::AtMost(0.1 * NEAR)),
            Statement::of(&["mp", "mt", "epoll"], &SENDS_BEYOND_1US, at_even_intervals, Is::AtMost(MINORITY)),
            Statement::of(&ARCHITECTURES, &SEND_STDDEV, at_even_intervals, Is::AtMost(15_000.0 * NEAR)),
        ],
    },
];

pub(super) const FIGURES: &[PaperFigure] = &[PaperFigure {
    number: "2",
    title: "Send deviation, cumulative",
    about: "Kawai and Yamaguchi 2006, Figure 2: the deviation of sends from even intervals, for each architecture's trial with \
            the largest standard deviation. The paper's figure has no numbers; the stars are the medians of these trials from \
            its Table 5. Only trials at constant intervals count. An architecture without a valid trial has a fainter curve, \
            which shows its worst invalid trial.",
    experiments: &["kawai2006"],
    draw: figure::draw,
}];

const fn table(number: &'static str) -> PaperTable {
    PaperTable { number, experiments: &["kawai2006"] }
}

pub(super) const TABLES: &[PaperTable] = &[table("3"), table("4"), table("5")];
