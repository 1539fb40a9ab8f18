//! A run whose texts attack the page and the terminal that show it.

use harness::record::{Bound, Check, Run, VerdictKind};

/// Hostile text in a stored run: HTML elements and attributes, and a terminal's control sequence.
pub const HOSTILE: &str = "</script><script>alert(1)</script>\"'<img src=x onerror=alert(2)>&lt;b>\u{1b}[2J";

/// Returns the run with [`HOSTILE`] in every text field that reports do not parse.
pub fn hostile(mut run: Run) -> Run {
    let header = &mut run.header;
    let texts = [&mut header.name, &mut header.muxbench, &mut header.started_at, &mut header.placement];
    texts.into_iter().for_each(|text| *text = HOSTILE.into());
    header.command = vec![HOSTILE.into()];
    header.host = header.host.keys().map(|name| (name.clone(), HOSTILE.into())).collect();
    header.host.insert(HOSTILE.into(), HOSTILE.into());
    header.trials.iter_mut().flat_map(|trial| &mut trial.infeasible).for_each(|reason| *reason = HOSTILE.into());
    for record in &mut run.records {
        record.verdict.reason = HOSTILE.into();
        record.verdict.checks.push(Check {
            name: HOSTILE.into(),
            value: 1.0,
            limit: 2.0,
            bound: Bound::AtMost,
            unit: HOSTILE.into(),
            p_value: None,
            p_value_min: None,
            passed: true,
            decides: VerdictKind::Failed,
        });
    }
    run
}

/// Returns whether a page contains the hostile text as HTML elements.
pub fn has_hostile_elements(page: &str) -> bool {
    ["<script>alert", "<img src=x", "</script><script>alert"].iter().any(|word| page.contains(word))
}
