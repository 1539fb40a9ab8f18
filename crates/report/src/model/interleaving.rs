//! How the servers of a workload shared windows, in sentences.

use std::collections::BTreeMap;

use harness::model::{Trial, TrialRecord};
use load::report::SliceReport;

use super::row::Row;
use crate::format;

/// Describes the turns, the rounds that do not count, and the ranked rows that ran separately. Empty if the plan has only separate
/// trials.
pub(super) fn sentences(planned: &[&Trial], records: &[&TrialRecord], rows: &[Row]) -> Vec<String> {
    let slices = || records.iter().filter_map(|record| Some((record.trial.load.slices?, record)));
    let Some((first, _)) = slices().next() else {
        let is_planned = !records.is_empty() && planned.iter().any(|trial| trial.load.slices.is_some());
        let text = "The servers ran separately, because their responses took too long for turns.";
        return is_planned.then(|| text.to_owned()).into_iter().collect();
    };
    // All contestants of a heat leave out the same rounds.
    let rounds = slices().filter_map(|(slices, it)| Some((slices.heat, it.load.as_ref()?.slices.as_ref()?)));
    let heats: BTreeMap<u32, &SliceReport> = rounds.collect();
    let sum = |count: fn(&SliceReport) -> u64| heats.values().map(|it| count(it)).sum::<u64>();
    let (all, left_out) = (sum(|it| it.rounds + it.left_out), sum(|it| it.rounds + it.left_out - it.measured_rounds()));
    let measured = sum(|it| it.left_out) - left_out;
    let ms = |ns: u64| format!("{} ms", ns as f64 / 1e6);
    let windows = if heats.len() > 1 { format!(" in each of {} windows", heats.len()) } else { String::new() };
    let gap = Some(first.gap_ns).filter(|&ns| ns > 0);
    let gap = gap.map_or_else(String::new, |ns| format!(" with gaps of {} between them", ms(ns)));
    let mut turns = format!(
        "The servers took turns of {}{gap}{windows}; the first {} of a turn do not count.",
        ms(first.slice_ns),
        ms(first.guard_ns)
    );
    if left_out > 0 {
        turns += &format!(" {left_out} of {all} rounds are left out, because a client paused.");
    }
    if measured > 0 {
        turns +=
            &format!(" A client paused in {measured} of {all} rounds: too many to leave out, so they are measured.");
    }
    let reference = records.iter().find(|record| record.trial.is_reference);
    let groups = reference.map(|record| {
        format!(
            "The servers formed groups, each with {}: it links their ratios, which have wider intervals between groups. The \
             other figures are those of each group's own windows.",
            record.trial.architecture
        )
    });
    let is_separate = |row: &&Row| row.is_ranked() && slices().all(|(_, record)| !row.covers(&record.trial));
    let separate: Vec<&str> = rows.iter().filter(is_separate).map(|row| row.label.as_str()).collect();
    let separate = match separate.as_slice() {
        [] => None,
        [one] => Some(format!("{one} ran separately: its ratio has no common heats.")),
        several => Some(format!("{} ran separately: their ratios have no common heats.", format::listed(several))),
    };
    [turns].into_iter().chain(groups).chain(separate).collect()
}

#[cfg(test)]
mod tests {
    use crate::model::Summary;

    #[test]
    fn interleaved_run_states_its_turns_and_rounds() {
        let mut run = testkit::interleaved_run();
        let sentences = |run: &_| Summary::of(run).comparisons[0].interleaving.clone();
        let turns = "The servers took turns of 10 ms in each of 6 windows; the first 2 ms of a turn do not count.";
        assert_eq!(sentences(&run), [format!("{turns} 24 of 300 rounds are left out, because a client paused.")]);
        let measured = " A client paused in 2400 of 2676 rounds: too many to leave out, so they are measured.";
        for (left_out, rest) in [(400, measured), (0, "")] {
            for record in &mut run.records {
                record.load.as_mut().unwrap().slices.as_mut().unwrap().left_out = left_out;
            }
            assert_eq!(sentences(&run), [format!("{turns}{rest}")]);
        }
        run.records[0].trial.load.slices.as_mut().unwrap().gap_ns = 500_000;
        assert!(
            sentences(&run)[0]
                .starts_with("The servers took turns of 10 ms with gaps of 0.5 ms between them in each of 6 windows; ")
        );
        let mut separate = |name: &str| {
            let its = run.records.iter_mut().filter(|record| record.trial.label() == name);
            its.for_each(|record| record.trial.load.slices = None);
            sentences(&run)[1].clone()
        };
        assert_eq!(separate("poll"), "poll ran separately: its ratio has no common heats.");
        assert_eq!(separate("mt"), "mt and poll ran separately: their ratios have no common heats.");
        run.records.iter_mut().for_each(|record| record.trial.load.slices = None);
        assert!(sentences(&run)[0].starts_with("The servers ran separately, because "));
        run.records.clear();
        assert!(sentences(&run).is_empty() && sentences(&testkit::run()).is_empty());
    }
}
