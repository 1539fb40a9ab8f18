//! The marks of quantiles that the client or a memory monitor may have caused, or that few requests support, and their meaning in
//! words.

use harness::record::Figure;
use load::LoadResult;
use load::result::LateSends;
use stats::Distribution;
use stats::histogram::{BEYOND_MIN, beyond};

use crate::analysis::summary::Row;
use crate::format;

/// The mark behind a quantile that the client or a memory monitor of the kernel may have caused.
pub const MARK: &str = "?";

/// The mark behind a quantile beyond which fewer than [`BEYOND_MIN`] requests lie.
const FEW: &str = "~";

/// Formats a quantile in microseconds, with its mark; `-` if the time has no values.
pub(crate) fn us(time: &Distribution, late: &LateSends, figure: Figure) -> String {
    let Some((q, ns)) = figure.quantile().filter(|_| time.count > 0) else { return "-".into() };
    mark(format::us(ns(time) as f64), &LateSends { sent: late.sent.max(time.count), ..*late }, q)
}

/// Returns quantile `q` of the requests that `late` describes, with its mark.
pub fn mark(figure: String, late: &LateSends, q: f64) -> String {
    if late.reaches(q) {
        figure + MARK
    } else if has_few_beyond(late, q) {
        figure + FEW
    } else {
        figure
    }
}

/// Returns whether too few requests lie beyond a quantile. The slowest request is what it is.
fn has_few_beyond(late: &LateSends, q: f64) -> bool {
    q < 1.0 && beyond(late.sent, q) < BEYOND_MIN
}

/// Explains the mark if the client stalled or sent requests late.
pub fn note_of_load(load: &LoadResult) -> Option<String> {
    let late = load.late_sends();
    if late.stalled > 0 {
        let share = 100.0 * load.stalled_share().unwrap_or(0.0);
        return Some(format!(
            "{MARK}: possibly caused by the client, which stalled for {share:.2} % of the window while responses waited."
        ));
    }
    (late.count > 0).then(|| {
        format!(
            "{MARK}: possibly caused by the client, which sent {} of {} requests more than {} late: such bursts queue at the \
             server.",
            late.count,
            late.sent,
            format::time(late.bound_ns as f64)
        )
    })
}

/// Explains the marks of 99th percentiles.
pub(crate) fn notes(rows: &[Row]) -> Vec<String> {
    let marked = |is_marked: fn(&LateSends) -> bool| {
        rows.iter().filter(move |row| row.repeats > 0 && is_marked(&row.late)).collect::<Vec<_>>()
    };
    let names = |marked: &[&Row]| match marked.len() {
        several if several > 1 && several == rows.len() => "all rows".to_owned(),
        _ => marked.iter().map(|row| row.label()).collect::<Vec<_>>().join(", "),
    };
    let late = marked(|late| late.reaches(0.99));
    let few = marked(|late| !late.reaches(0.99) && has_few_beyond(late, 0.99));
    let all = late.iter().map(|row| row.late).fold(LateSends::default(), LateSends::and);
    let late = (!late.is_empty()).then(|| format!("{} {UNUSED}", cause(&names(&late), Some(&all))));
    let few = (!few.is_empty()).then(|| {
        format!(
            "{FEW}: fewer than {BEYOND_MIN} requests lie beyond this value ({}); it has no interval. Use more repeats or longer \
             windows.",
            names(&few)
        )
    });
    late.into_iter().chain(few).collect()
}

/// Tests whether a note names memory monitors.
pub(super) fn names_monitors(rows: &[Row]) -> bool {
    let marked = rows.iter().filter(|row| row.repeats > 0 && row.late.reaches(0.99));
    marked.map(|row| row.late.monitored).sum::<u64>() > 0
}

const UNUSED: &str = "No conclusion uses such a value.";

/// Explains the mark, and names the architectures that have it.
pub(crate) fn note_of(names: &str) -> String {
    format!("{} {UNUSED}", cause(names, None))
}

/// Explains the mark of a search.
pub(crate) fn note_of_search(names: &str) -> String {
    cause(names, None) + " A search repeats such a probe, unless three of them follow each other."
}

/// Names the causes that the requests of `late` had; all possible ones if they are unknown.
fn cause(names: &str, late: Option<&LateSends>) -> String {
    let client = late.is_none_or(|late| late.total() > 0);
    let client = client.then(|| "the client, which stalled or sent too many requests late".to_owned());
    let monitor = late.is_none_or(|late| late.monitored > 0).then(|| {
        let hit = late.map(|it| format!(", whose bursts hit about {} of {} requests", it.monitored, it.sent));
        format!("a memory monitor of the kernel (DAMON, see `muxbench doctor`){}", hit.unwrap_or_default())
    });
    let causes: Vec<String> = client.into_iter().chain(monitor).collect();
    format!("{MARK}: possibly caused by {} ({names}).", causes.join(", or "))
}

#[cfg(test)]
mod tests {
    use harness::record::Run;

    use super::*;
    use crate::analysis::client_tail::{clients_from, servers};
    use crate::analysis::{RunDiff, Summary, conclusion};
    use crate::format;

    #[test]
    fn late_sends_mark_quantiles_that_they_may_have_caused() {
        let from = |count: u64| clients_from(&LateSends { count, sent: 10_000, ..LateSends::default() });
        assert_eq!(
            [0, 1, 10, 11, 51, 101].map(from),
            [None, None, Some("p99.9"), Some("p99"), Some("p95"), Some("p90")]
        );
    }

    #[test]
    fn time_without_values_is_a_dash() {
        let late = LateSends { count: 9, sent: 10, ..LateSends::default() };
        assert_eq!(us(&Distribution::default(), &late, Figure::P99), "-");
        let time = |count| Distribution { count, p99_ns: 1_000, ..Distribution::default() };
        assert_eq!(us(&time(1), &late, Figure::P99), "1.00?");
        let on_time = LateSends::default();
        assert_eq!([949, 950].map(|count| us(&time(count), &on_time, Figure::P99)), ["1.00~", "1.00"]);
    }

    /// A run in which `epoll` has slow requests; the client sent `count` of 200 requests late.
    fn run_with_late(count: u64) -> Run {
        let mut run = testkit::run();
        for record in &mut run.records {
            let Some(load) = record.load.as_mut().filter(|_| record.trial.architecture.to_string() == "epoll") else {
                continue;
            };
            for measured in [&mut load.service, &mut load.response] {
                measured.histogram.extend([9_000_000; 8]);
                measured.distribution = measured.histogram.distribution();
            }
            load.late = LateSends { bound_ns: 100_000, count, sent: 200, ..LateSends::default() };
        }
        run
    }

    #[test]
    fn marked_tail_is_shown_but_changes_no_conclusion() {
        let (clean, late) = (run_with_late(0), run_with_late(2));
        let comparison = |run: &Run| Summary::of(run).comparisons.swap_remove(0);
        let is_concluded = |run: &Run| conclusion::of(&comparison(run)).contains("Its 99th percentile, ");
        assert!(is_concluded(&clean) && !is_concluded(&late));
        let p99 = format::us(comparison(&clean).rows[0].service.unwrap().p99_ns as f64);
        let shown = |run: &Run, text: &str| crate::text::run::render(run, 1_000.into()).contains(text);
        assert!(shown(&clean, &p99) && !shown(&clean, &format!("{p99}?")) && shown(&late, &format!("{p99}?")));
        let note = "?: possibly caused by the client, which stalled or sent too many requests late (epoll).";
        assert!(!shown(&clean, note) && shown(&late, note));

        let p99 = |run: &Run| {
            let row =
                Summary::of(run).comparisons[0].rows.iter().find(|row| row.architecture == "epoll").cloned().unwrap();
            assert!(row.is_ranked() && row.figures[Figure::P50].is_some());
            (row.figures[Figure::P99].is_some(), row.clients_from)
        };
        assert_eq!((p99(&clean), p99(&late)), ((true, None), (false, Some("p95"))));
        let compared = |run: &Run| {
            let diff = RunDiff::of(&clean, run);
            let pair = diff.pairs.into_iter().find(|pair| pair.architecture == "epoll").unwrap();
            (
                pair.changes[Figure::P50].is_some(),
                pair.changes[Figure::P99].is_some(),
                pair.b.figures[Figure::P99].is_some(),
            )
        };
        assert_eq!((compared(&clean), compared(&late)), ((true, true, true), (true, false, false)));
    }

    #[test]
    fn running_memory_monitor_is_named_and_marks_tails() {
        let mut run = run_with_late(0);
        run.records.iter_mut().filter_map(|it| it.load.as_mut()).for_each(|load| load.monitor_share = Some(0.005));
        let comparison = Summary::of(&run).comparisons.swap_remove(0);
        assert!(comparison.rows.iter().all(|row| row.is_client_tail(0.99) && row.figures[Figure::P99].is_none()));
        assert!(!conclusion::of(&comparison).contains("99th percentile"), "no conclusion about tails");
        assert!(
            comparison.rows.iter().all(|row| row.is_ranked() && row.figures[Figure::P50].is_some()),
            "medians rank"
        );
        assert!(!crate::text::run::render(&run_with_late(0), 1_000.into()).contains("DAMON"));
        let text = crate::text::run::render(&run, 1_000.into());
        let hit = "?: possibly caused by a memory monitor of the kernel (DAMON, see `muxbench doctor`), whose bursts hit about ";
        assert!(text.contains(hit) && text.contains("epoll") && text.contains(UNUSED), "{text}");
        assert!(!text.contains("The kernel monitored memory accesses"), "the note says so already: {text}");
    }

    #[test]
    fn tail_of_a_late_repeat_is_left_out_of_each_report() {
        let mut run = testkit::run();
        // One of four repeats of `epoll` has slow requests, which its client may have caused.
        let load = run.records[0].load.as_mut().unwrap();
        load.service.histogram.extend([9_000_000; 40]);
        load.service.distribution = load.service.histogram.distribution();
        load.late = LateSends { bound_ns: 100_000, count: 3, sent: 200, ..LateSends::default() };
        let comparison = Summary::of(&run).comparisons.swap_remove(0);
        let row = comparison.rows.into_iter().find(|row| row.architecture == "epoll").unwrap();
        assert!(!row.is_client_tail(0.95), "the mark counts all repeats together");
        let service = row.service.unwrap();
        let pair = RunDiff::of(&run, &run).pairs.into_iter().find(|pair| pair.architecture == "epoll").unwrap();
        let expected = [Figure::P90, Figure::P95].map(|it| pair.a.figures[it]).map(|ns| ns.unwrap().round() as u64);
        assert_eq!([service.p90_ns, service.p95_ns], expected);
        assert!(service.p95_ns < 100_000, "{service:?}");
    }

    #[test]
    fn tail_needs_a_majority_of_clean_repeats() {
        let on_time = testkit::run().records.remove(0);
        let mut late = on_time.clone();
        late.load.as_mut().unwrap().late = LateSends { count: 9, sent: 200, ..LateSends::default() };
        assert_eq!(servers(&[&on_time, &on_time, &late], 0.99).len(), 2);
        assert!(servers(&[&on_time, &late, &late], 0.99).is_empty());
        assert_eq!(servers(&[&on_time, &late, &late], 0.5).len(), 3, "late sends do not reach the median");
    }
}
