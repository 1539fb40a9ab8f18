//! The conclusion in a sentence: the best architecture for this traffic, its lead, and the certainty.

use harness::record::{Figure, VerdictKind};
use harness::spec::units::Share;
use stats::{Estimate, Family, Ratio, Repeat};

use super::stream;
use super::summary::{Comparison, MARGIN, Row, Summary};
use super::{tail, undecided};
use crate::format;
use crate::list::distinct;

/// Returns the conclusion of a run's rankings, with the tails that medians hide.
pub fn overall(summary: &Summary) -> String {
    let tails = distinct(summary.comparisons.iter().flat_map(tail::of).map(|tail| tail.title()));
    let tails = if tails.is_empty() { String::new() } else { format!(" But the {}.", tails.join("; the ")) };
    best(summary) + &tails
}

fn best(summary: &Summary) -> String {
    let ranked = summary.comparisons.iter().filter(|it| it.ranked().next().is_some());
    let best: Vec<(&Comparison, Vec<&str>)> = ranked.map(|it| (it, equals_of_best(it))).collect();
    if best.is_empty() {
        return format!("There is no best architecture: no row is valid.{}", remedy(summary));
    }
    // Architectures that are the best, or not significantly different from it, under every ranked workload.
    let everywhere: Vec<&str> =
        best[0].1.iter().copied().filter(|name| best.iter().all(|(_, equals)| equals.contains(name))).collect();
    let mut unranked = match summary.comparisons.len() - best.len() {
        0 => String::new(),
        count => format!(" ({count} of {} workloads have no valid row)", summary.comparisons.len()),
    };
    let unknown = distinct(best.iter().flat_map(|(comparison, _)| without_interval(comparison)).map(|row| row.label()));
    if !unknown.is_empty() {
        let others =
            distinct(best.iter().flat_map(|(comparison, _)| comparison.ranked().skip(1)).map(|row| row.label()));
        let of =
            if unknown.len() < others.len() { format!(" for {}", format::listed(&unknown)) } else { String::new() };
        unranked.push_str(&format!(" (without an interval{of}: use {})", best[0].0.remedy));
    }
    if everywhere.is_empty() {
        let each = best.iter().map(|(comparison, equals)| format!("{} at {}", equals.join(" or "), place(comparison)));
        let each: Vec<String> = each.collect();
        return format!("Best by traffic: {}{unranked}.", each.join("; "));
    }
    let under = if best.len() == 1 { "for this traffic" } else { "under every workload tried" };
    match everywhere.as_slice() {
        [one] => format!("Best {under}: {one}{unranked}."),
        several => {
            let same =
                same(best.iter().flat_map(|(it, _)| it.ranked()).filter(|row| several.contains(&row.label.as_str())));
            format!("Best {under}: {}; they {same}{unranked}.", several.join(", "))
        }
    }
}

/// Returns what helps against the most frequent verdict. A failed trial has a reason of its own.
fn remedy(summary: &Summary) -> &'static str {
    let remedies = [
        (VerdictKind::Unsteady, " Stop other programs, or use more repeats or longer windows."),
        (VerdictKind::ClientLimited, " Stop other programs, reduce the load, or give the client more CPUs."),
        (VerdictKind::Saturated, " Lower the rate; `muxbench capacity` finds the highest one."),
        (VerdictKind::Failed, ""),
    ];
    let verdicts: Vec<VerdictKind> = summary.comparisons.iter().flat_map(|it| &it.rows).map(|it| it.verdict).collect();
    let rows = |kind| verdicts.iter().filter(|verdict| **verdict == kind).count();
    // max_by_key returns the last of equally frequent verdicts.
    remedies.into_iter().max_by_key(|&(kind, _)| rows(kind)).map_or("", |(_, remedy)| remedy)
}

/// Returns the conclusion for one workload.
pub fn of(comparison: &Comparison) -> String {
    let ranked: Vec<&Row> = comparison.ranked().collect();
    let others = comparison.rows.iter().filter(|row| !row.is_ranked());
    let verdict = |row: &Row| if row.repeats == 0 { "not run" } else { format::verdict(row.verdict) };
    let others: Vec<String> = others.map(|row| format!("{} ({})", row.label, verdict(row))).collect();
    let unranked = if others.is_empty() { String::new() } else { format!(" Not ranked: {}.", others.join(", ")) };
    let Some(best) = ranked.first() else {
        return format!("At {}: nothing to rank.{unranked}", place(comparison));
    };
    let is_closed = comparison.workload.is_closed();
    let figure = if is_closed {
        best.estimate(Figure::Rate).map_or_else(String::new, |rate| {
            match stream::megabytes_per_s(&comparison.workload, rate.value) {
                Some(megabytes_per_s) => format::bandwidth(megabytes_per_s * 1e6),
                None => format!("{} transactions/s", format::digits(rate.value)),
            }
        })
    } else {
        let p50 = best.service.map_or_else(String::new, |service| format::time(service.p50_ns as f64));
        format!("service time p50 {p50}")
    };
    let compared: String = against_best(&ranked).iter().map(|text| format!("; {text}")).collect();
    // A closed loop slows down with the server, so the tails of architectures result from different rates.
    let lowest = if is_closed { String::new() } else { lowest_tail(&ranked) };
    let hidden: String = tail::of(comparison).iter().map(|tail| format!(" {}", tail.sentence())).collect();
    let place = place(comparison);
    let is_stream = comparison.workload.service.stream().is_some();
    // Ratios of common heats decide the order. They may differ from those of the figures in the table.
    let sign = if is_closed { -1.0 } else { 1.0 };
    let metric = |row: &Row| Estimate::of(&row.metrics).map(|it| sign * it.value);
    let leads = match is_closed {
        _ if ranked.iter().any(|row| metric(row).zip(metric(best)).is_some_and(|(a, b)| a < b)) => "leads",
        true if is_stream => "has the most bandwidth",
        true => "has the most transactions",
        false => "has the lowest median",
    };
    let has_no_interval = without_interval(comparison).next().is_some();
    let is_best = match (ranked.len(), equals_of_best(comparison).len()) {
        (1, _) => "is the only ranked architecture",
        _ if has_no_interval => leads,
        (_, 1) => "is best",
        // The first row may lead by chance, or by little.
        _ => leads,
    };
    format!("At {place}, {} {is_best}: {figure}{compared}.{hidden}{lowest}{unranked}", best.label)
}

/// Returns the conclusion for one workload, the noise floor, and the decisions of a run with `--until`.
pub(crate) fn sentences(comparison: &Comparison) -> Vec<String> {
    let decisions = undecided::sentence(&comparison.pairs, comparison.margin);
    [of(comparison)].into_iter().chain(noise(comparison)).chain(decisions).collect()
}

/// Returns the noise floor, which the placebo shows.
pub(super) fn noise(comparison: &Comparison) -> Option<String> {
    let reference = comparison.rows.iter().find(|row| row.is_placebo)?.reference(&comparison.rows)?;
    let ratio = comparison.noise?;
    let interval = ratio.interval.map_or_else(String::new, |it| format!(" ({:.3} to {:.3})", it.low, it.high));
    Some(format!("Noise floor: {} against itself (placebo) {:.3}{interval}.", reference.label, ratio.ratio))
}

fn place(comparison: &Comparison) -> String {
    let workload = &comparison.workload;
    let mut connections = format!("{} {}", workload.connections, workload.targets());
    if workload.active() < 1.0 {
        connections.push_str(&format!(" ({} active)", Share(workload.active())));
    }
    if workload.idle > 0 {
        connections.push_str(&format!(", {} idle", workload.idle));
    }
    match workload.rate_per_s() {
        rate @ Some(_) => format!("{connections} and {} requests/s", format::rate(rate)),
        None => format!("{connections} in a closed loop"),
    }
}

/// Returns which rows equal the best in practice, which do not differ significantly, and the next best one: phrases.
fn against_best(ranked: &[&Row]) -> Vec<String> {
    let added =
        |row: &Row| row.added_ns.filter(|it| it.interval.is_some()).map(|it| format::added_us(Some(it)) + " µs");
    let (mut equal, mut open, mut unknown, mut next) = (Vec::new(), Vec::new(), Vec::new(), None);
    for row in &ranked[1..] {
        let (name, Some(ratio)) = (&row.label, row.ratio) else { continue };
        let Some(interval) = ratio.interval else {
            unknown.push(format!("{name} {:.2}x (no interval)", ratio.ratio));
            continue;
        };
        let of_ratio = format!("{:.2}x to {:.2}x", interval.low, interval.high);
        if ratio.is_practically_one(MARGIN) {
            equal.push(name.clone());
        } else if !ratio.differs_from_one() {
            open.push(format!("{name} ({})", added(row).unwrap_or(of_ratio)));
        } else if next.is_none() {
            let times = ratio.ratio;
            let text = added(row).map_or(format!("{times:.2}x ({of_ratio})"), |added| format!("{added}, {times:.2}x"));
            next = Some(format!("next is {name}, {text}"));
        }
    }
    let (differs, are) = (["differs", "differ"], ["is", "are"]);
    let plural = |names: &[String], forms: [&'static str; 2]| forms[usize::from(names.len() > 1)];
    let margin = format::percent(MARGIN);
    let listed =
        |names: &[String], text: String| (!names.is_empty()).then(|| format!("{} {text}", format::listed(names)));
    let equals = listed(&equal, format!("{} by at most {margin}", plural(&equal, differs)));
    let open = listed(&open, format!("{} not significantly different", plural(&open, are)));
    equals.into_iter().chain(open).chain(unknown).chain(next).collect()
}

/// Returns the rows whose ratio to the best has too few repeats for an interval.
fn without_interval(comparison: &Comparison) -> impl Iterator<Item = &Row> {
    comparison.ranked().skip(1).filter(|row| row.ratio.is_some_and(|ratio| ratio.interval.is_none()))
}

/// Returns the best architecture, and those that do not differ from it significantly or in practice.
fn equals_of_best(comparison: &Comparison) -> Vec<&str> {
    let is_equal = |row: &&Row| row.ratio.is_none_or(|it| it.is_practically_one(MARGIN) || !it.differs_from_one());
    comparison.ranked().filter(is_equal).map(|row| row.label.as_str()).collect()
}

/// Returns how several rows compare with the best that they equal.
fn same<'a>(mut equals: impl Iterator<Item = &'a Row>) -> String {
    match equals.all(|row| row.ratio.is_none_or(|it| it == Ratio::ONE || it.is_practically_one(MARGIN))) {
        true => format!("differ by at most {}", format::percent(MARGIN)),
        false => "are not significantly different".into(),
    }
}

/// Returns a sentence if another architecture has a significantly lower 99th percentile than the one with the best median.
/// Ignores percentiles that the client may have caused.
fn lowest_tail(ranked: &[&Row]) -> String {
    let known: Vec<&Row> =
        ranked.iter().copied().filter(|row| !row.is_client_tail(0.99) && row.figures[Figure::P99].is_some()).collect();
    // Without a known tail of the first row, there is nothing to compare.
    if ranked[0].label() != known.first().map(|row| row.label()).unwrap_or_default() {
        return String::new();
    }
    let p99s: Vec<Vec<Repeat>> = known.iter().map(|row| row.repeats_of(Figure::P99).to_vec()).collect();
    let family = Family::of(&p99s);
    let lower = (1..known.len()).filter_map(|at| Some((known[at], family.ratio(at, 0)?)));
    let lower = lower.filter(|(_, it)| it.ratio < 1.0 && it.differs_from_one() && !it.is_practically_one(MARGIN));
    let lowest = lower.min_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let Some((row, interval)) = lowest.and_then(|(row, ratio)| Some((row, ratio.interval?))) else {
        return String::new();
    };
    let p99 = |row: &Row| row.estimate(Figure::P99).map_or_else(String::new, |p99| format::time(p99.value));
    let (first, name, other) = (p99(known[0]), &row.label, p99(row));
    let (low, high) = (interval.low, interval.high);
    format!(" Its 99th percentile, {first}, is not the lowest: {name} has {other} ({low:.2}x to {high:.2}x).")
}

#[cfg(test)]
mod tests {
    use harness::record::Run;
    use harness::spec::interleave::Interleave;

    use super::*;

    fn sentences(run: &Run) -> String {
        let summary = Summary::of(run);
        format!("{} {}", overall(&summary), of(&summary.comparisons[0]))
    }

    #[test]
    fn only_the_row_with_the_lowest_median_is_said_to_have_it() {
        let mut comparison = Summary::of(&testkit::interleaved_run()).comparisons.remove(0);
        comparison.rows.iter_mut().flat_map(|row| &mut row.ratio).for_each(|ratio| ratio.interval = None);
        let text = of(&comparison);
        assert!(text.contains("epoll has the lowest median: "), "{text}");
        comparison.rows[0].metrics.iter_mut().for_each(|repeat| repeat.log += 2.0);
        let text = of(&comparison);
        assert!(text.contains("epoll leads: "), "{text}");
    }

    #[test]
    fn one_repeat_has_no_interval_however_long_its_window() {
        let mut run = testkit::interleaved_run();
        let text = sentences(&run);
        assert!(text.starts_with("Best for this traffic: epoll") && !text.contains("interval"), "{text}");
        run.records.retain(|record| record.trial.repeat == 0);
        let text = sentences(&run);
        assert!(text.contains(" (without an interval: use --repeats 3)."), "{text}");
        assert!(text.contains("poll 1.99x (no interval)"), "{text}");
    }

    #[test]
    fn run_without_valid_rows_names_what_helps() {
        let mut run = testkit::run();
        run.records.iter_mut().for_each(|it| it.verdict.kind = VerdictKind::ClientLimited);
        let end_of = |run: &Run| sentences(run).split_once("no row is valid.").unwrap().1.to_string();
        assert!(end_of(&run).starts_with(" Stop other programs, reduce the load"), "{}", end_of(&run));
        run.records.iter_mut().skip(1).for_each(|it| it.verdict.kind = VerdictKind::Saturated);
        assert!(end_of(&run).starts_with(" Lower the rate"), "{}", end_of(&run));
        run.records[1..].iter_mut().for_each(|it| it.verdict.kind = VerdictKind::Failed);
        assert!(end_of(&run).starts_with(" At "), "failed trials have reasons of their own: {}", end_of(&run));
        run.records.clear();
        assert!(end_of(&run).starts_with(" At "), "nothing was measured: {}", end_of(&run));
    }

    #[test]
    fn few_separate_repeats_name_the_flags_for_an_interval() {
        let mut run = testkit::run();
        run.records.retain(|record| record.trial.repeat < 2);
        let text = sentences(&run);
        assert!(text.contains("(without an interval: use --interleave auto, or --repeats 3)"), "{text}");
        run.header.interleave = Interleave::Auto;
        let text = sentences(&run);
        assert!(text.contains("(without an interval: use --repeats 3)"), "{text}");

        // One of three repeats is not usable.
        let mut run = testkit::run();
        run.records.retain(|it| it.trial.repeat < 3 && (it.trial.repeat != 1 || it.trial.label() != "poll"));
        let text = sentences(&run);
        assert!(text.contains("(without an interval for poll: use --interleave auto, or --repeats 4)"), "{text}");
    }
}
