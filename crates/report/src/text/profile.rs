//! Where a request's CPU time goes, as text.

use profile::Category;

use super::medium::Medium;
use super::table;
use crate::analysis::Summary;
use crate::analysis::profile::{Part, RowProfile};
use crate::analysis::profiles::{categories, rows, sentences};
use crate::analysis::summary::{Comparison, Row};
use crate::format;

/// The heading of the first column.
const HEADING: &str = "CPU µs per request";

/// Returns the headings and the lines of the table: a line for each category, and a column for each architecture.
pub(crate) fn lines(rows: &[(&Row, &RowProfile)]) -> (Vec<String>, Vec<Vec<String>>) {
    let headings = [HEADING.to_owned()].into_iter().chain(rows.iter().map(|(row, _)| row.label())).collect();
    let line = |name: &str, cell: &dyn Fn(&RowProfile) -> String| {
        [name.to_owned()].into_iter().chain(rows.iter().map(|(_, profile)| cell(profile))).collect::<Vec<_>>()
    };
    let categories = categories(rows).into_iter().map(|category| {
        let name = category.map_or("unexplained", Category::name);
        line(name, &|profile| profile.part(category).map_or("-".into(), cell))
    });
    let others = [
        line("all", &|profile| format::us(profile.cpu_ns_per_request)),
        line("running", &|profile| share(profile.running_share)),
        line("idle", &|profile| share(profile.idle_share)),
        line("other programs", &|profile| share(profile.others_share)),
        line("samples", &|profile| profile.samples.to_string()),
    ];
    (headings, categories.chain(others).collect())
}

fn share(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The time with half the width of its interval, and a star if it differs from that of the best row.
fn cell(part: &Part) -> String {
    let half = part.estimate.interval.map_or(String::new(), |it| format!(" ±{}", format::us((it.high - it.low) / 2.0)));
    let star = if part.differs() { "*" } else { "" };
    format!("{}{half}{star}", format::us(part.estimate.value))
}

/// Explains the table.
pub(crate) fn note(rows: &[(&Row, &RowProfile)]) -> String {
    let costs: Vec<f64> = rows.iter().filter_map(|(_, profile)| profile.sampling_cost).collect();
    let mean = costs.iter().sum::<f64>() / costs.len().max(1) as f64;
    let cost =
        if costs.is_empty() { String::new() } else { format!("; in that heat a request cost {:+.0} %", 100.0 * mean) };
    let lost: u64 = rows.iter().map(|(_, profile)| profile.lost).sum();
    let lost = if lost > 0 { format!(" {lost} samples were lost.") } else { String::new() };
    format!(
        "By stacks that were sampled in a further heat after each measured one{cost}.{lost} ± is half the 95 % interval over \
         repeats; * differs significantly from the best row. \"running\", \"idle\" and \"other programs\" are shares of the time \
         of the server's CPUs."
    )
}

/// Renders the table and the sentences; empty without profiles.
pub(crate) fn render(comparison: &Comparison, medium: Medium) -> Vec<String> {
    let rows = rows(comparison);
    if rows.is_empty() {
        return comparison.profile_problems.iter().map(|problem| medium.prose(problem)).collect();
    }
    let (headings, lines) = lines(&rows);
    let title = medium.prose("Where a request's time goes:");
    let mut shown = vec![title, table::of_parts(1, headings, lines, medium), medium.prose(&note(&rows))];
    shown.extend(comparison.profile_problems.iter().chain(&sentences(comparison)).map(|text| medium.prose(text)));
    shown
}

/// Renders them for each workload of a run.
pub fn of_run(summary: &Summary, medium: Medium) -> String {
    let lines = summary.comparisons.iter().flat_map(|comparison| render(comparison, medium));
    medium.finished(lines.map(|line| line + "\n").collect())
}
