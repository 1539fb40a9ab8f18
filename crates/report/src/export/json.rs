//! A run as JSON: its plan and host, the summary, and every trial in full. Histograms are base64 of the HdrHistogram
//! V2 format.

use harness::model::Run;
use serde_json::{Value, json};

use crate::model::summary::Summary;
use crate::model::{Capacities, Sweep, conclusion};

/// The format version, raised when a field disappears or changes its meaning.
pub const FORMAT: u32 = 1;

/// Returns the whole run.
pub fn of(run: &Run) -> Value {
    let mut whole = what_is_there(run);
    if !run.damage.is_empty() {
        whole["damage"] = json!(run.damage);
    }
    whole
}

fn what_is_there(run: &Run) -> Value {
    if let Some(capacities) = Capacities::of(run) {
        // Each probe of a search has its own rate, so only the results of searches are summarised.
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
