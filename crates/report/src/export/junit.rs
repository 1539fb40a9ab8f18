//! The result of a gate as JUnit XML, which CI systems show as tests: a test for each figure.

use stats::excess::Excess;

use crate::analysis::gate::{GateReport, GateRow};
use crate::format::visible;
use crate::list::grouped;

/// Returns the document. A figure beyond its tolerance is a failure; undecided and missing figures are skipped tests.
pub fn of(report: &GateReport) -> String {
    let counts = |rows: &[&GateRow]| {
        let failures = rows.iter().filter(|row| row.excess == Some(Excess::Beyond)).count();
        let skipped = rows.iter().filter(|row| matches!(row.excess, None | Some(Excess::Open))).count();
        format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\"", rows.len())
    };
    let all: Vec<&GateRow> = report.figures.iter().collect();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"muxbench gate\" {} time=\"{:.3}\">\n",
        counts(&all),
        report.elapsed_s
    );
    for rows in grouped(&report.figures, |a, b| a.workload == b.workload) {
        let (name, time) = (escaped(&rows[0].workload), escaped(&report.started_at));
        text += &format!("  <testsuite name=\"{name}\" {} timestamp=\"{time}\">\n", counts(&rows));
        for row in rows {
            text += &test(report, row);
        }
        text += &format!("    <system-out>{}</system-out>\n  </testsuite>\n", escaped(&report.sentence));
    }
    text + "</testsuites>\n"
}

fn test(report: &GateReport, row: &GateRow) -> String {
    let class = escaped(&format!("{} against {}", report.new, report.old));
    let start = format!("    <testcase classname=\"{class}\" name=\"{}\"", row.figure.name());
    let message = escaped(&row.words());
    match row.excess {
        Some(Excess::Within) => format!("{start}/>\n"),
        Some(Excess::Beyond) => format!("{start}><failure message=\"{message}\"/></testcase>\n"),
        Some(Excess::Open) => format!("{start}><skipped message=\"undecided: {message}\"/></testcase>\n"),
        None => format!("{start}><skipped message=\"not measured\"/></testcase>\n"),
    }
}

/// Escapes text for XML, which has no place for most control characters.
fn escaped(text: &str) -> String {
    visible(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_is_a_test() {
        for (name, percent) in [("slower", 20), ("undecided", 3)] {
            insta::assert_snapshot!(name, of(&GateReport::of(&testkit::gate_run(percent)).unwrap()));
        }
    }

    #[test]
    fn hostile_text_is_escaped() {
        let mut run = testkit::hostile(testkit::gate_run(20));
        run.header.name = testkit::HOSTILE.into();
        let text = of(&GateReport::of(&run).unwrap());
        assert!(!testkit::has_hostile_elements(&text) && !text.contains('\u{1b}'), "{text}");
    }
}
