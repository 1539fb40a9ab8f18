//! The result of a gate as text.

use stats::excess::Excess;

use super::medium::Medium;
use super::style::Style;
use super::table::{self, Column, column};
use crate::analysis::gate::{GateReport, GateRow, percent, range, signed};
use crate::format;
use crate::list::grouped;

fn columns() -> [Column<GateRow>; 8] {
    [
        column("figure", 0, |row: &GateRow| row.figure.name().to_owned()),
        column("old", 0, |row: &GateRow| row.old.map_or("-".into(), |value| format::figure(row.figure, value))),
        column("new", 0, |row: &GateRow| row.new.map_or("-".into(), |value| format::figure(row.figure, value))),
        column("added µs", 1, |row: &GateRow| row.added_ns.map_or("-".into(), format::signed_us)),
        column("change", 0, |row: &GateRow| row.change.map_or("-".into(), signed)),
        column("interval", 0, |row: &GateRow| row.interval.map_or("-".into(), range)),
        column("tolerance", 0, |row: &GateRow| percent(row.tolerance)),
        column("finding", 0, |row: &GateRow| row.finding().to_owned()).styled(|row| {
            Some(match row.excess? {
                Excess::Within => Style::Good,
                Excess::Open => Style::Doubtful,
                Excess::Beyond => Style::Bad,
            })
        }),
    ]
}

/// The number of problems that are shown.
const PROBLEMS_MAX: usize = 5;

/// Renders a table of figures for each workload, the problems of trials, and the outcome.
pub fn render(report: &GateReport, medium: Medium) -> String {
    let GateReport { old, new, repeats, elapsed_s, .. } = report;
    let repeats = format::counted(*repeats as usize, "repeat", "repeats");
    let mut lines = vec![medium.heading(&format!("Gate: {new} against {old}"))];
    for rows in grouped(&report.figures, |a, b| a.workload == b.workload) {
        lines.push(medium.prose(&format!("{}, {repeats}, {elapsed_s:.0} s", rows[0].workload)));
        lines.push(table::with_dropped(&columns(), rows, medium));
    }
    lines.extend(report.problems.iter().take(PROBLEMS_MAX).map(|problem| medium.prose(problem)));
    if let Some(more) = report.problems.len().checked_sub(PROBLEMS_MAX).filter(|more| *more > 0) {
        lines.push(medium.prose(&format!("{more} more problems: see --json")));
    }
    lines.extend(report.warm_ups.iter().map(|sentence| medium.prose(sentence)));
    lines.push(String::new());
    lines.push(medium.prose(&report.sentence));
    medium.finished(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Terminal;
    use crate::text::style::painted;

    #[test]
    fn gates_show_their_figures_and_the_outcome() {
        for (name, percent) in [("slower", 20), ("not_slower", 0), ("undecided", 3)] {
            let report = GateReport::of(&testkit::gate_run(percent)).unwrap();
            insta::assert_snapshot!(name, render(&report, 120.into()));
            insta::assert_snapshot!(format!("{name}_markdown"), render(&report, Medium::Markdown));
        }
        assert!(GateReport::of(&testkit::run()).is_none());
    }

    #[test]
    fn findings_are_coloured() {
        let terminal = Terminal { columns: 120, is_wide: false, has_legend: false, is_coloured: true };
        let report = GateReport::of(&testkit::gate_run(20)).unwrap();
        let text = painted(&render(&report, Medium::Terminal(terminal)));
        assert!(text.contains("\u{1b}[31mslower\u{1b}[0m\n"), "{text}");
        assert!(text.contains("\u{1b}[32mwithin\u{1b}[0m\n"), "{text}");
    }

    #[test]
    fn narrow_terminal_shows_interval_and_tolerance() {
        let text = render(&GateReport::of(&testkit::gate_run(20)).unwrap(), 80.into());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let p90 = text.lines().find(|line| line.starts_with("p90 ")).unwrap();
        assert!(p90.contains(" to +") && p90.contains(" 35 % ") && p90.ends_with(" within"), "{text}");
    }
}
