//! Tails out of proportion to their medians, and what usually causes a tail of that length.

use harness::record::Figure;
use stats::Distribution;
use stats::histogram::{BEYOND_MIN, beyond};

use super::row::{Comparison, Row};
use crate::format;

/// A quantile of this many times the median is out of proportion.
const TIMES_MIN: f64 = 10.0;
/// Without a known cause, a tail counts only if it is this many times longer, by its median, than that of another row: the host delays
/// all rows.
const TIMES_OF_OTHERS: f64 = 3.0;
/// A timer of the kernel fires up to this many times later than it is set to.
const TIMER_MAX: f64 = 1.25;

/// A timer of the kernel that delays requests.
struct Cause {
    ns: f64,
    name: &'static str,
    about: &'static str,
}

/// The timers of Linux (`TCP_DELACK_MIN`, `TCP_RTO_MIN`, `TCP_TIMEOUT_INIT`).
const CAUSES: [Cause; 3] = [
    Cause {
        ns: 40e6,
        name: "delayed ACKs, 40 ms",
        about: "the client's kernel delays an ACK by 40 ms, and Nagle's algorithm waits for it before the next part of a response; let \
                the server write a response at once, or set TCP_NODELAY",
    },
    Cause {
        ns: 200e6,
        name: "retransmissions, 200 ms",
        about: "a lost packet is sent again after 200 ms; look for queues that overflow",
    },
    Cause {
        ns: 1e9,
        name: "lost SYNs, 1 s",
        about: "a lost SYN is sent again after 1 s; look for a listen backlog that is too small",
    },
];

/// A tail that is out of proportion.
pub(crate) struct Tail<'a> {
    row: &'a Row,
    figure: Figure,
    ns: f64,
    median_ns: f64,
    cause: Option<&'static Cause>,
}

impl Tail<'_> {
    fn times(&self) -> f64 {
        self.ns / self.median_ns
    }

    /// Formats the tail for a title.
    pub(crate) fn title(&self) -> String {
        let cause = self.cause.map_or_else(String::new, |cause| format!(" ({})", cause.name));
        format!("{} of {} is {:.0} times its median{cause}", self.figure.name(), self.row.label, self.times())
    }

    /// Returns a sentence with the likely cause.
    pub(crate) fn sentence(&self) -> String {
        let (name, figure, time, median) =
            (&self.row.label, self.figure.name(), format::time(self.ns), format::time(self.median_ns));
        let cause = self.cause.map_or_else(String::new, |cause| format!(", as of {}: {}", cause.name, cause.about));
        format!("The median of {name}, {median}, hides its {figure}, {time}{cause}.")
    }
}

/// Returns the tails of ranked rows that are out of proportion. Uses no quantile with a mark.
pub(crate) fn of(comparison: &Comparison) -> Vec<Tail<'_>> {
    let mut tails: Vec<Tail<'_>> = comparison.ranked().filter_map(longest).collect();
    let is_alone = tails.len() == 1;
    let shortest = tails.iter().map(Tail::times).fold(f64::INFINITY, f64::min);
    let is_own = |tail: &Tail<'_>| is_alone || tail.times() >= TIMES_OF_OTHERS * shortest;
    tails.retain(|tail| tail.times() >= TIMES_MIN && (tail.cause.is_some() || is_own(tail)));
    tails
}

/// Returns the first quantile that a timer explains, or else the first that is out of proportion, or else the last.
fn longest(row: &Row) -> Option<Tail<'_>> {
    let service = row.service.as_ref()?;
    let is_known = |q: f64| !row.is_client_tail(q) && beyond(row.late.sent.max(service.count), q) >= BEYOND_MIN;
    let tail = |figure: Figure| {
        let (q, value): (f64, fn(&Distribution) -> u64) = figure.quantile()?;
        let (ns, median_ns) = (value(service) as f64, service.p50_ns as f64);
        let cause = CAUSES.iter().find(|cause| (cause.ns..TIMER_MAX * cause.ns).contains(&ns));
        is_known(q).then_some(Tail { row, figure, ns, median_ns, cause })
    };
    let mut tails: Vec<Tail<'_>> = [Figure::P90, Figure::P95, Figure::P99].into_iter().filter_map(tail).collect();
    let is_long = |tail: &Tail<'_>| tail.times() >= TIMES_MIN;
    let with_cause = tails.iter().position(|tail| is_long(tail) && tail.cause.is_some());
    let at = with_cause.or_else(|| tails.iter().position(is_long)).or(tails.len().checked_sub(1))?;
    Some(tails.swap_remove(at))
}

#[cfg(test)]
mod tests {
    use harness::record::Run;

    use crate::analysis::conclusion;
    use crate::analysis::summary::Summary;

    /// Returns a run in which each fifth request of `mt` takes `slow_ns`, and each of the others 0.4 ms; each fifth of the others takes
    /// `other_ns`.
    fn run_with(slow_ns: u64, other_ns: u64) -> Run {
        let mut run = testkit::run();
        for record in &mut run.records {
            let (tail_ns, median_ns) =
                if record.trial.label() == "mt" { (slow_ns, 400_000) } else { (other_ns, 40_000) };
            let service = &mut record.load.as_mut().unwrap().service;
            service.histogram = (0..200).map(|at| if at % 5 == 0 { tail_ns } else { median_ns }).collect();
            service.distribution = service.histogram.distribution();
        }
        run
    }

    fn words(run: &Run) -> [String; 2] {
        let summary = Summary::of(run);
        [conclusion::overall(&summary), conclusion::of(&summary.comparisons[0])]
    }

    #[test]
    fn tail_of_a_timer_is_named_with_it() {
        for (ns, title, about) in [
            (43_000_000, "p90 of mt is 108 times its median (delayed ACKs, 40 ms)", "TCP_NODELAY"),
            (204_000_000, "p90 of mt is 510 times its median (retransmissions, 200 ms)", "lost packet"),
            (1_030_000_000, "p90 of mt is 2575 times its median (lost SYNs, 1 s)", "listen backlog"),
        ] {
            let [overall, sentence] = words(&run_with(ns, 45_000));
            assert!(overall.contains(title), "{overall}");
            assert!(
                sentence.contains("The median of mt, 400 µs, hides its p90, ") && sentence.contains(about),
                "{sentence}"
            );
        }
    }

    #[test]
    fn tail_without_a_cause_counts_if_others_have_none() {
        let [overall, sentence] = words(&run_with(9_000_000, 45_000));
        assert!(
            overall.contains("p90 of mt is 23 times its median.") && sentence.contains("hides its p90, 9.00 ms."),
            "{overall} {sentence}"
        );
        for quiet in [run_with(9_000_000, 900_000), run_with(2_000_000, 45_000), testkit::run()] {
            assert!(words(&quiet).iter().all(|text| !text.contains("median of mt") && !text.contains("times its")));
        }
    }
}
