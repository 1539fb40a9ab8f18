//! A plan as text.

use std::collections::BTreeSet;

use harness::plan::{Plan, duration_ns};
use harness::spec::units::Share;

use crate::analysis::workload;
use crate::format;
use crate::text::{Medium, table};

/// Renders every trial in order, with its duration, and the reasons why this host cannot run some trials.
pub fn render(plan: &Plan, medium: Medium) -> String {
    // All trials of a plan have one service.
    let is_udp = plan.trials.iter().any(|trial| trial.workload.service.ports().is_some());
    let targets = if is_udp { "ports" } else { "connections" };
    let headings = ["trial", "repeat", "architecture", targets, "active", "req/s", "time"];
    let rows = plan.trials.iter().map(|trial| {
        vec![
            trial.index.to_string(),
            trial.repeat.to_string(),
            trial.label(),
            trial.workload.connections.to_string(),
            Share(trial.workload.active()).to_string(),
            format::rate(trial.workload.rate_per_s()),
            if trial.infeasible.is_empty() { format::time(duration_ns(trial) as f64) } else { "infeasible".into() },
        ]
    });
    let mut text = vec![table::of_words(headings, rows, medium)];
    let commands = harness::record::commands(&plan.trials);
    if !commands.is_empty() {
        text.push(String::new());
        text.push(medium.prose("Commands, which `run` starts only with --allow-exec:"));
        let commands = commands.into_iter().map(|command| format!("  {command}")).collect::<Vec<_>>();
        text.push(medium.verbatim(&commands.join("\n")));
    }
    // Repeats of a configuration share their reasons.
    let reasons = plan
        .trials
        .iter()
        .flat_map(|trial| trial.infeasible.iter().map(move |reason| format!("{}: {reason}", trial.architecture)));
    let reasons: BTreeSet<String> = reasons.collect();
    let infeasible = plan.trials.iter().filter(|trial| !trial.infeasible.is_empty()).count();
    text.push(String::new());
    if infeasible > 0 {
        text.push(medium.prose(&format!("{infeasible} trials are infeasible here and will not be run:")));
        text.extend(reasons.iter().map(|reason| medium.prose(&format!("  {reason}"))));
        text.push(String::new());
    }
    text.extend(plan.network.iter().map(|network| medium.prose(&format!("Network: {network}."))));
    let over_time = plan.trials.iter().filter_map(|trial| workload::over_time(&trial.workload, ToString::to_string));
    let over_time: BTreeSet<String> = over_time.collect();
    text.extend(over_time.iter().map(|rates| medium.prose(&format!("Over the window: {rates}."))));
    text.extend(plan.interleaving.iter().map(|sentence| medium.prose(&format!("Interleaving: {sentence}."))));
    text.extend(plan.warnings.iter().map(|warning| medium.prose(&format!("Warning: {warning}."))));
    text.push(medium.prose(&format!(
        "{}: {} trials, about {}, seed {}. {}.",
        plan.experiment,
        plan.trials.len() - infeasible,
        format::time(plan.duration_ns() as f64),
        plan.seed,
        plan.placement
    )));
    medium.finished(text.join("\n") + "\n")
}
