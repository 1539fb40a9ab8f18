//! The answer of a race as text.

use harness::record::Figure;

use super::medium::{Medium, hanging};
use super::style::Style;
use super::table::{self, Column, column};
use crate::analysis::advice::{AdviceChange, AdviceReport, AdviceRow, probability};
use crate::format;

fn columns() -> [Column<AdviceRow>; 13] {
    [
        column("architecture", 0, |row: &AdviceRow| row.architecture.clone())
            .styled(|row| row.is_winner.then_some(Style::Best)),
        column("vs winner", 0, |row: &AdviceRow| format::ratio(row.ratio)),
        column("added µs", 1, |row: &AdviceRow| format::added_us(row.added_ns)),
        column("P(best)", 1, |row: &AdviceRow| row.probability.map_or("-".into(), probability)),
        column("p50 µs", 2, |row: &AdviceRow| row.figures[Figure::P50].map_or("-".into(), format::us)),
        column("p90", 6, |row: &AdviceRow| row.figures[Figure::P90].map_or("-".into(), format::us)),
        column("p95", 6, |row: &AdviceRow| row.figures[Figure::P95].map_or("-".into(), format::us)),
        column("p99", 3, |row: &AdviceRow| row.figures[Figure::P99].map_or("-".into(), format::us)),
        column("req/s", 5, |row: &AdviceRow| row.figures[Figure::Rate].map_or("-".into(), format::digits)),
        column("CPU µs/req", 2, |row: &AdviceRow| row.figures[Figure::Cpu].map_or("-".into(), format::us)),
        column("memory/conn", 4, |row: &AdviceRow| row.figures[Figure::Memory].map_or("-".into(), format::bytes)),
        column("repeats", 6, |row: &AdviceRow| row.repeats.to_string()),
        column("finding", 0, |row: &AdviceRow| row.finding.clone()).styled(|row| row.verdict.map(Style::of)),
    ]
}

/// Renders the answer, all contestants, and the answer under changed traffic.
pub fn render(report: &AdviceReport, medium: Medium) -> String {
    let AdviceReport { objective, workload, repeats, elapsed_s, .. } = report;
    let limits: String = report.limits.iter().map(|limit| format!(", with {limit}")).collect();
    let repeats = format::counted(*repeats as usize, "repeat", "repeats");
    let mut lines = vec![
        medium.heading(&format!("Advice for the best {objective}{limits}")),
        medium.prose(&format!("{workload}; {repeats}, {elapsed_s:.0} s")),
        medium.prose(&report.sentences.join(" ")),
        String::new(),
        table::with_dropped(&columns(), &report.contestants, medium),
    ];
    lines.extend(report.problems.iter().chain(&report.warm_ups).map(|sentence| medium.prose(sentence)));
    if !report.changes.is_empty() {
        lines.extend([String::new(), medium.prose("Under changed traffic:")]);
        lines.extend(report.changes.iter().map(|it| line(it, medium)));
    }
    medium.finished(lines.join("\n") + "\n")
}

fn line(change: &AdviceChange, medium: Medium) -> String {
    let AdviceChange { change, traffic, sentence, .. } = change;
    let traffic = if traffic.is_empty() { String::new() } else { format!(" ({traffic})") };
    hanging("- ", &format!("{change}{traffic}: {sentence}."), medium.width()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use harness::record::{Strategy, VerdictKind};
    use load::config::{Loop, Pace, Schedule};

    use super::*;
    use crate::text::Terminal;
    use crate::text::style::painted;

    #[test]
    fn summary_of_a_race_has_the_trials_that_ran() {
        let summary = crate::Summary::of(&testkit::advise_run(30));
        let repeats: Vec<usize> = summary.comparisons.iter().map(|it| it.rows[0].repeats).collect();
        assert_eq!((summary.comparisons[0].rows.len(), repeats), (5, vec![3, 1]));
    }

    #[test]
    fn race_without_usable_results_names_flags_that_apply() {
        let end = |the_loop: Loop| {
            let mut run = testkit::advise_run(30);
            let Strategy::Advise(goal) = &mut run.header.strategy else { panic!("{:?}", run.header.strategy) };
            goal.limits.clear();
            run.header.trials.iter_mut().for_each(|it| it.workload.the_loop = the_loop.clone());
            let usable = run.records.iter_mut().filter(|it| it.verdict.kind == VerdictKind::Valid);
            usable.for_each(|it| it.verdict.kind = VerdictKind::ClientLimited);
            let sentences = AdviceReport::of(&run).unwrap().sentences;
            sentences[0].split_once("for the reasons below. ").unwrap().1.to_owned()
        };
        assert_eq!(end(Loop::CLOSED), "Try a quiet machine.");
        assert_eq!(
            end(Loop::open(Pace::new(Schedule::Poisson, 1.0))),
            "Try a quiet machine, a lower --rate, or --schedule closed."
        );
    }

    #[test]
    fn winner_and_findings_are_coloured() {
        let terminal = Terminal { columns: 80, is_wide: false, has_legend: false, is_coloured: true };
        let report = AdviceReport::of(&testkit::advise_run(30)).unwrap();
        let text = painted(&render(&report, Medium::Terminal(terminal)));
        for words in ["\n\u{1b}[1mmt ", "\u{1b}[32mwinner\u{1b}[0m", "\u{1b}[33msaturated\u{1b}[0m"] {
            assert!(text.contains(words), "{text}");
        }
        assert!(!text.contains("\u{1b}[1mepoll ") && text.contains(" worse\n"), "{text}");
    }

    #[test]
    fn advice_shows_the_answer_and_where_it_changes() {
        for (name, percent) in [("lead", 30), ("tie", 0)] {
            let report = AdviceReport::of(&testkit::advise_run(percent)).unwrap();
            insta::assert_snapshot!(name, render(&report, 80.into()));
            insta::assert_snapshot!(format!("{name}_markdown"), render(&report, Medium::Markdown));
        }
        let mut run = testkit::advise_run(30);
        run.records.truncate(4);
        let text = render(&AdviceReport::of(&run).unwrap(), 80.into());
        assert!(text.contains("no answer before the third repeat") && !text.contains("Under changed"), "{text}");
        assert!(AdviceReport::of(&testkit::run()).is_none());
    }
}
