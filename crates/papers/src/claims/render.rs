//! Claims and their results as text.

use super::{CheckedClaim, Finding};
use report::export::csv::of_records;
use report::format;
use report::text::medium::wrap;

/// The largest number of findings shown for a claim. Contrary findings come first, and JSON has all findings.
const SHOWN: usize = 4;

pub fn render(claims: &[CheckedClaim], width: usize) -> String {
    let mut text = String::from("Claims\n");
    for claim in claims {
        let reason = claim.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let head = format!("{:2}. {} - {}{reason}", claim.number, claim.says, claim.outcome.words()[0]);
        text += &wrap(&head, width);
        text.push('\n');
        let findings = decisive_first(claim);
        let against = findings.iter().filter(|finding| finding.holds == Some(false)).count();
        for finding in findings.iter().take(SHOWN) {
            for line in wrap(&format!("{}: {}", finding.what, finding.words), width.saturating_sub(5)).lines() {
                text += &format!("     {line}\n");
            }
        }
        if findings.len() > SHOWN {
            let contrary = if against > 0 { format!(", {against} against the claim") } else { String::new() };
            text += &format!("     ({} findings in total{contrary})\n", findings.len());
        }
    }
    text
}

/// Returns a row for each finding. A claim without findings has one row, with the reason as its words.
pub fn csv(claims: &[CheckedClaim]) -> String {
    let mut records = vec![["claim", "outcome", "what", "value", "low", "high", "holds", "words"].map(str::to_owned)];
    for claim in claims {
        let [number, outcome] = [claim.number.to_string(), format::name(&claim.outcome)];
        for Finding { what, value, interval, holds, words, .. } in &claim.findings {
            let of = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            let (low, high) = (of(interval.map(|it| it.low)), of(interval.map(|it| it.high)));
            let (what, words) = (what.clone(), words.clone());
            let holds = holds.map(|holds| holds.to_string()).unwrap_or_default();
            records.push([number.clone(), outcome.clone(), what, of(*value), low, high, holds, words]);
        }
        if claim.findings.is_empty() {
            let [what, value, low, high, holds] = [const { String::new() }; 5];
            let words = claim.reason.clone().unwrap_or_default();
            records.push([number, outcome, what, value, low, high, holds, words]);
        }
    }
    of_records(records)
}

/// Returns the findings on a claim: contrary ones first, then undecided ones.
pub(crate) fn decisive_first(claim: &CheckedClaim) -> Vec<&Finding> {
    let mut findings: Vec<&Finding> = claim.findings.iter().collect();
    findings.sort_by_key(|finding| match (finding.holds, finding.value) {
        (Some(false), _) => 0,
        (None, Some(_)) => 1,
        (Some(true), _) => 2,
        (None, None) => 3,
    });
    findings
}
