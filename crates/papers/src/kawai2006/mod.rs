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
use crate::setup::{self, Setting};
pub(super) use service_time::ARCHITECTURES;
use service_time::{at_even_intervals, of_the_paper};
pub(super) use tables::tables_of;
#[cfg(test)]
pub(super) use tests::{published_send_deviation, published_times};

/// The largest factor that looks like no change on the logarithmic scales of the figures.
const NO_CHANGE: f64 = 1.5;
/// The largest share of sends beyond 1 µs where the paper says that most sends are within it ("おおむね").
const MINORITY: f64 = 0.5;

/// Section 5, and Tables 1 and 2.
pub(super) const SETUP: &[Setting] = &[
    setup::HOSTS
        .authors("a server and 5 clients on gigabit Ethernet")
        .meaning("over loopback there is no wire; the lab of kawai2008-synchronisation has such links"),
    setup::MACHINE.authors("two Pentium III, 800 MHz").meaning("compare how times change along rows and columns"),
    setup::SYSTEM.authors("Linux 2.6.15-1.2054_FC5").meaning("the kernel's mechanisms have changed since"),
    setup::SERVERS.authors("mp, mt, select, poll, epoll"),
    setup::QUEUE.authors("epoll"),
    setup::CLIENTS
        .authors("5 clients with two threads")
        .meaning("with --quick fewer threads compete for CPUs; --full runs the paper's clients"),
    setup::PACING.authors("yield").meaning("--full waits as the paper's client"),
    setup::SCHEDULE.authors("constant"),
    setup::CONNECTIONS.authors("400, 2000, 10000"),
    setup::ACTIVE.authors("1, 1/4, 1/16, 1/64"),
    setup::RATES.authors("125, 500, 2000"),
    setup::TRAFFIC.authors("128B -> 10KiB"),
    setup::PHASES
        .authors("window 3min")
        .meaning("the ramp and the warm-up are ours; a shorter window has fewer sends and wider intervals"),
    setup::REPEATS.authors("not stated").meaning("intervals need three"),
    setup::ORDER.authors(setup::SEPARATE).meaning(setup::INTERLEAVED),
];

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
            |it| of_the_paper(it) && it.connections == 10_000 && it.rate_per_s == Some(2_000.0),
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
