//! The warm-ups of external servers, in words.

use harness::record::{Run, TrialRecord, VerdictKind};

use crate::list::{distinct, ends};

/// States how long each external server was warmed, and in how many windows a server still got faster.
pub(crate) fn sentences(run: &Run) -> Vec<String> {
    let names = distinct(run.records.iter().map(|record| record.trial.label()));
    names.iter().filter_map(|name| of_server(run, name)).collect()
}

fn of_server(run: &Run, name: &str) -> Option<String> {
    let records = || run.records.iter().filter(|record| record.trial.label() == name);
    let warm_ups = || records().filter_map(|record| record.warm_up).filter(|warm_up| !warm_up.is_earlier);
    let warmed = ends(warm_ups().map(|warm_up| warm_up.elapsed_ns as f64 / 1e9)).map(|(shortest, longest)| {
        let range = if longest - shortest < 0.1 { String::new() } else { format!("{shortest:.1} to ") };
        let is_growing = warm_ups().any(|warm_up| warm_up.is_growing);
        let growing = if is_growing { ", the most that a warm-up takes, and was not yet steady" } else { "" };
        format!("warmed for {range}{longest:.1} s{growing}")
    });
    // Worse verdicts say more, and an overload has no steady times.
    let is_cold =
        |record: &&TrialRecord| record.verdict.kind == VerdictKind::Unsteady && record.verdict.is_of_cold_server();
    let (cold, all) = (records().filter(is_cold).count(), records().count());
    let cold = (cold > 0).then(|| format!("got faster within {cold} of {all} windows"));
    let facts: Vec<String> = warmed.into_iter().chain(cold).collect();
    (!facts.is_empty()).then(|| format!("{name}: {}.", facts.join("; ")))
}

#[cfg(test)]
mod tests {
    use harness::record::{Bound, Check, WarmUp};

    use super::*;

    #[test]
    fn warm_ups_are_told_for_each_server() {
        let mut run = testkit::run();
        assert_eq!(sentences(&run), [""; 0]);
        let name = run.records[0].trial.label();
        let own: Vec<usize> = (0..run.records.len()).filter(|at| run.records[*at].trial.label() == name).collect();
        let warm_up = WarmUp { elapsed_ns: 2_100_000_000, is_growing: false, is_earlier: false };
        own.iter().for_each(|at| run.records[*at].warm_up = Some(WarmUp { is_earlier: *at > own[0], ..warm_up }));
        assert_eq!(sentences(&run), [format!("{name}: warmed for 2.1 s.")]);
        run.records[own[1]].warm_up = Some(WarmUp { elapsed_ns: 10_000_000_000, is_growing: true, ..warm_up });
        let check = Check {
            name: Check::FASTER.into(),
            value: 0.5,
            limit: 0.25,
            bound: Bound::AtMost,
            unit: String::new(),
            p_value: Some(0.001),
            p_value_min: Some(0.01),
            passed: false,
            decides: VerdictKind::Unsteady,
        };
        let verdict = &mut run.records[own[0]].verdict;
        (verdict.kind, verdict.checks) = (VerdictKind::Unsteady, vec![check]);
        let text = format!(
            "{name}: warmed for 2.1 to 10.0 s, the most that a warm-up takes, and was not yet steady; \
             got faster within 1 of {} windows.",
            own.len()
        );
        assert_eq!(sentences(&run), [text.as_str()]);
        assert!(crate::text::render(&run, 1_000.into()).contains(&text));
    }
}
