//! Servers beyond their capacity, as text.

use harness::record::Run;

use super::host::host;
use super::medium::Medium;
use super::style::Style;
use super::table::{self, Column, column};
use super::tail_mark::MARK;
use crate::analysis::overload::{Overload, Overloads, PhaseGoodput, Phases, PulseFigures, other_errors};
use crate::analysis::recovery::Recovery;
use crate::format;
use crate::list::grouped;

/// The columns of the table.
pub(crate) fn columns() -> [Column<Overload>; 9] {
    [
        column("architecture", 0, |row: &Overload| row.architecture.clone())
            .styled(|row| matches!(row.recovery(), Some(Recovery::After { ns: 0 })).then_some(Style::Best)),
        column("capacity", 0, |row: &Overload| {
            let most = row.capacity_per_s.map_or("-".into(), format::digits);
            if row.is_lower_bound { format!(">= {most}") } else { most }
        }),
        column("before", 0, |row: &Overload| goodput(row, |it| it.before)),
        column("pulse", 0, |row: &Overload| goodput(row, |it| it.pulse)),
        column("after", 0, |row: &Overload| goodput(row, |it| it.after)),
        column("timeouts", 0, |row: &Overload| pulse(row, |it| it.errors.timeout.to_string())),
        column("other errors", 1, |row: &Overload| pulse(row, |it| other_errors(&it.errors).to_string())),
        column("retries", 1, |row: &Overload| pulse(row, |it| it.retries.to_string())),
        column("recovered", 0, |row: &Overload| recovered(row)).styled(|row| match row.recovery()? {
            Recovery::After { .. } => Some(Style::Good),
            Recovery::Never if !row.is_client_limited() => Some(Style::Bad),
            Recovery::Never | Recovery::UnhealthyBefore => Some(Style::Doubtful),
        }),
    ]
}

/// The meaning of the columns.
pub(crate) const NOTES: &str = "Before, pulse, after: goodput, the requests answered in time per second. Timeouts and other errors: \
                                requests that failed in the whole trial, after all retries. Recovered: the time after the pulse \
                                from which the server stays healthy: 95 % of the requests in time, and a median response time of \
                                at most twice that before the pulse (or 1 ms).";

fn pulse(row: &Overload, text: impl Fn(&PulseFigures) -> String) -> String {
    row.pulse.as_ref().map_or("-".into(), text)
}

/// Formats the goodput of a phase, with the mark if the client may be a cause.
fn goodput(row: &Overload, phase: fn(&Phases) -> PhaseGoodput) -> String {
    pulse(row, |it| format::digits(phase(&it.phases).goodput_per_s) + if it.is_client_limited { MARK } else { "" })
}

fn recovered(row: &Overload) -> String {
    match row.recovery() {
        Some(Recovery::After { ns: 0 }) => "at once".into(),
        Some(Recovery::After { ns }) => format::time(ns as f64),
        Some(Recovery::Never) => "never".to_owned() + if row.is_client_limited() { MARK } else { "" },
        Some(Recovery::UnhealthyBefore) | None => "-".into(),
    }
}

/// Renders a table for each workload, and the conclusion.
pub fn render(run: &Run, overloads: &Overloads, medium: Medium) -> String {
    let mut lines = vec![medium.prose(&overloads.conditions())];
    for rows in overloads.workloads() {
        lines.push(medium.heading(&format!("Overload: {}", rows[0].workload)));
        let owned: Vec<Overload> = rows.iter().map(|row| (*row).clone()).collect();
        lines.push(table::with_dropped(&columns(), &owned, medium));
        lines.extend(problems(&rows).iter().map(|text| medium.prose(text)));
    }
    lines.push(medium.prose(&overloads.sentence) + "\n");
    lines.extend(medium.legend(NOTES));
    lines.push(medium.prose(&host(run)));
    medium.finished(lines.join("\n") + "\n")
}

/// Lists the problems of rows, each with the names of its servers.
pub(crate) fn problems(rows: &[&Overload]) -> Vec<String> {
    let each = rows.iter().flat_map(|row| row.problems.iter().map(move |it| (row.architecture.as_str(), it)));
    let line = |alike: Vec<(&str, &String)>| {
        let names: Vec<&str> = alike.iter().map(|(name, _)| *name).collect();
        format!("{}: {}", format::listed(&names), alike[0].1)
    };
    grouped(each, |a, b| a.1 == b.1).into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_with_the_same_problem_share_a_line() {
        let rows = Overloads::of(&testkit::overload_run()).unwrap().rows;
        let other = Overload { architecture: "mt-pool".into(), ..rows[1].clone() };
        let shown = problems(&[&rows[1], &rows[2], &other]);
        assert!(shown.len() == 2 && shown[0].starts_with("mt and mt-pool: the capacity is only"), "{shown:?}");
        assert!(shown[1].starts_with("mp: workload.connections"), "{shown:?}");
    }

    #[test]
    fn overloads_fit_wide_and_narrow_terminals() {
        let run = testkit::overload_run();
        let overloads = Overloads::of(&run).unwrap();
        for width in [120, 80] {
            let text = render(&run, &overloads, width.into());
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            insta::assert_snapshot!(format!("overload_{width}"), text);
        }
        insta::assert_snapshot!("overload_markdown", render(&run, &overloads, Medium::Markdown));
    }
}
