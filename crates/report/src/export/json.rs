//! A run as JSON: its plan and host, every trial in full, and the summary; for a capacity run the result of each search, for an
//! overload that of each server, and for a gate or a race its result.
//! Histograms are base64 of the HdrHistogram V2 (deflate) format.

use harness::model::Run;
use serde_json::{Value, json};

use crate::model::summary::Summary;
use crate::model::{AdviceReport, Capacities, FORMAT, GateReport, Overloads, Sweep, conclusion};

/// Returns the whole run.
pub fn of(run: &Run) -> Value {
    let mut whole = json!({ "format": FORMAT, "run": run.header, "trials": run.records });
    if let Some(capacities) = Capacities::of(run) {
        // The probes of a search have different rates, so they have no summary. Write the result of each search instead.
        whole["capacity"] = json!(capacities);
    } else if let Some(overloads) = Overloads::of(run) {
        whole["overload"] = json!(overloads);
    } else {
        let summary = Summary::of(run);
        whole["best"] = json!(conclusion::overall(&summary));
        whole["sentences"] = json!(summary.comparisons.iter().map(conclusion::of).collect::<Vec<_>>());
        whole["summary"] = json!(summary);
    }
    if let Some(sweep) = Sweep::of(run) {
        whole["sweep"] = json!(sweep);
    }
    if let Some(advice) = AdviceReport::of(run) {
        whole["advice"] = json!(advice);
    }
    if let Some(gate) = GateReport::of(run) {
        whole["gate"] = json!(gate);
    }
    if !run.damage.is_empty() {
        whole["damage"] = json!(run.damage);
    }
    whole
}
