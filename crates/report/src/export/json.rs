//! A run as JSON: what was planned and where, the summary, and every trial whole (its histograms as base64 of the
//! HdrHistogram V2 form).

use harness::model::Run;
use serde_json::{Value, json};

use crate::model::summary::Summary;
use crate::model::{Capacities, Sweep, conclusion};

/// Changes when a field changes its meaning or goes.
pub const FORMAT: u32 = 1;

/// The whole run.
pub fn of(run: &Run) -> Value {
    let mut whole = what_is_there(run);
    if !run.damage.is_empty() {
        whole["damage"] = json!(run.damage);
    }
    whole
}

fn what_is_there(run: &Run) -> Value {
    if let Some(capacities) = Capacities::of(run) {
        // Its trials are each of a rate of their own: there is nothing to summarise but what they led to.
        return json!({ "format": FORMAT, "run": run.header, "capacity": capacities, "trials": run.records });
    }
    let summary = Summary::of(run);
    let sentences: Vec<String> = summary.comparisons.iter().map(conclusion::of).collect();
    let mut whole = json!({
        "format": FORMAT,
        "run": run.header,
        "best": conclusion::overall(&summary),
        "sentences": sentences,
        "summary": summary,
        "trials": run.records,
    });
    if let Some(sweep) = Sweep::of(run) {
        whole["sweep"] = json!(sweep);
    }
    whole
}
