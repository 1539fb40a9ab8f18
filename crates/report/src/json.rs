//! A run as JSON: what was planned and where, the summary, and every trial whole (its histograms as base64 of the
//! HdrHistogram V2 form).

use lab::record::Run;
use serde_json::{Value, json};

use crate::sentence;
use crate::summary::Summary;

/// Changes when a field changes its meaning or goes.
pub const FORMAT: u32 = 1;

/// The whole run.
pub fn of(run: &Run) -> Value {
    let summary = Summary::of(run);
    let sentences: Vec<String> = summary.comparisons.iter().map(sentence::of).collect();
    json!({
        "format": FORMAT,
        "run": run.header,
        "best": sentence::overall(&summary),
        "sentences": sentences,
        "summary": summary,
        "trials": run.records,
    })
}
