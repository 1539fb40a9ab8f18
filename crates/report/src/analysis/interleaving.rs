//! How the servers of a workload shared windows, in sentences.

use std::collections::BTreeMap;

use harness::record::{Trial, TrialRecord};
use load::result::SliceResult;

use super::row::Row;

/// Describes the turns, the rounds that do not count, and the ranked rows that ran separately. Empty if the plan has only separate
/// trials.
pub(super) fn sentences(planned: &[&Trial], records: &[&TrialRecord], rows: &[Row]) -> Vec<String> {
    let slices = || records.iter().filter_map(|record| Some((record.trial.client.slices?, record)));
    let Some((first, _)) = slices().next() else {
        let is_planned = !records.is_empty() && planned.iter().any(|trial| trial.client.slices.is_some());
        let text = || format!("The servers ran separately{}.", because(records.iter().copied()));
        return is_planned.then(text).into_iter().collect();
    };
    // All contestants of a heat leave out the same rounds.
    let rounds = slices().filter_map(|(slices, it)| Some((slices.heat, it.load.as_ref()?.slices.as_ref()?)));
    let heats: BTreeMap<u32, &SliceResult> = rounds.collect();
    let sum = |count: fn(&SliceResult) -> u64| heats.values().map(|it| count(it)).sum::<u64>();
    let (all, left_out) = (sum(|it| it.rounds + it.left_out), sum(|it| it.rounds + it.left_out - it.measured_rounds()));
    let measured = sum(|it| it.left_out) - left_out;
    let windows = if heats.len() > 1 { format!(" in {} windows", heats.len()) } else { String::new() };
    let mut turns = format!("The servers took turns of {} ms{windows}.", first.slice_ns as f64 / 1e6);
    if left_out > 0 {
        turns += &format!(" {left_out} of {all} rounds are left out: a client paused.");
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
    let of_row = |row: &Row, is_shared: bool| {
        let own =
            records.iter().copied().filter(|it| row.covers(&it.trial) && it.trial.client.slices.is_some() == is_shared);
        own.collect::<Vec<_>>()
    };
    let apart = |row: &Row| {
        let (shared, separate) = (of_row(row, true).len(), of_row(row, false));
        let (label, reason) = (&row.label, because(separate.iter().copied()));
        match (shared, reason.is_empty()) {
            (0, _) if row.is_ranked() => {
                Some(format!("{label} ran separately{reason}: its ratio has no common heats."))
            }
            (1.., false) => {
                let repeats = shared + separate.len();
                Some(format!("{label} ran separately in {} of {repeats} repeats{reason}.", separate.len()))
            }
            _ => None,
        }
    };
    [turns].into_iter().chain(groups).chain(rows.iter().filter_map(apart)).collect()
}

/// Returns why trials ran separately, in parentheses; empty if there is no reason.
fn because<'a>(mut records: impl Iterator<Item = &'a TrialRecord>) -> String {
    records.find_map(|it| it.separated.as_ref()).map_or_else(String::new, |reason| format!(" ({reason})"))
}

#[cfg(test)]
mod tests {
    use harness::record::Run;

    use crate::analysis::Summary;

    #[test]
    fn interleaved_run_states_its_turns_and_rounds() {
        let mut run = testkit::interleaved_run();
        let sentences = |run: &_| Summary::of(run).comparisons[0].interleaving.clone();
        let turns = "The servers took turns of 10 ms in 6 windows.";
        assert_eq!(sentences(&run), [format!("{turns} 24 of 300 rounds are left out: a client paused.")]);
        let measured = " A client paused in 2400 of 2676 rounds: too many to leave out, so they are measured.";
        for (left_out, rest) in [(400, measured), (0, "")] {
            for record in &mut run.records {
                record.load.as_mut().unwrap().slices.as_mut().unwrap().left_out = left_out;
            }
            assert_eq!(sentences(&run), [format!("{turns}{rest}")]);
        }
        let of = |run: &Run, name: &str| -> Vec<usize> {
            (0..run.records.len()).filter(|&at| run.records[at].trial.label() == name).collect()
        };
        let poll = of(&run, "poll");
        poll.iter().for_each(|&at| run.records[at].trial.client.slices = None);
        assert_eq!(sentences(&run)[1], "poll ran separately: its ratio has no common heats.");
        run.records[poll[0]].separated = Some("its work overran".into());
        assert_eq!(sentences(&run)[1], "poll ran separately (its work overran): its ratio has no common heats.");
        let mut again = run.clone();
        let mt = of(&run, "mt")[0];
        again.records[mt].trial = run.records[mt].trial.alone();
        again.records[mt].separated = Some("its work overran".into());
        assert_eq!(sentences(&again)[1], "mt ran separately in 1 of 6 repeats (its work overran).");
        run.records.iter_mut().for_each(|record| record.trial.client.slices = None);
        assert_eq!(sentences(&run), ["The servers ran separately (its work overran)."]);
        run.records.clear();
        assert!(sentences(&run).is_empty() && sentences(&testkit::run()).is_empty());
    }
}
