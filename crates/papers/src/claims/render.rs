//! Claims and what became of them, as text.

use super::{CheckedClaim, Evidence, Outcome};
use report::format;
use report::text::medium::wrap;

/// Findings that are shown of a claim; those against it first. JSON has all.
const SHOWN: usize = 4;

/// At most `width` columns wide.
pub fn render(claims: &[CheckedClaim], width: usize) -> String {
    let mut text = String::from("Claims\n");
    for claim in claims {
        let reason = claim.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let head = format!("{:2}. {} - {}{reason}", claim.number, claim.says, claim.outcome.words());
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
            let of_them = match claim.outcome {
                Outcome::DoesNotHoldHere => format!(", {against} against it"),
                Outcome::HoldsHere | Outcome::Inconclusive | Outcome::NotTestableHere => String::new(),
            };
            text += &format!("     and so on: {} figures{of_them}\n", findings.len());
        }
    }
    text
}

/// A row for each figure that a claim was held against.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn csv(claims: &[CheckedClaim]) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["claim", "outcome", "what", "value", "low", "high", "holds"])?;
    for claim in claims {
        let outcome = format::name(&claim.outcome);
        for Evidence { what, value, interval, holds, .. } in &claim.findings {
            let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            let (low, high) = (number(interval.map(|it| it.low)), number(interval.map(|it| it.high)));
            let holds = holds.map(|holds| holds.to_string()).unwrap_or_default();
            writer.write_record([&claim.number.to_string(), &outcome, what, &number(*value), &low, &high, &holds])?;
        }
    }
    report::export::csv::finished(writer)
}

/// The figures of a claim: what is against it first, then what is open.
pub(crate) fn decisive_first(claim: &CheckedClaim) -> Vec<&Evidence> {
    let mut findings: Vec<&Evidence> = claim.findings.iter().collect();
    findings.sort_by_key(|finding| order(finding));
    findings
}

/// What is against a claim first, then what is open, then what is for it.
fn order(finding: &Evidence) -> u8 {
    match finding {
        Evidence { holds: Some(false), .. } => 0,
        Evidence { holds: None, value: Some(_), .. } => 1,
        Evidence { holds: Some(true), .. } => 2,
        Evidence { .. } => 3,
    }
}
