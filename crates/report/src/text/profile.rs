//! Where a request's CPU time goes, as text.

use std::collections::BTreeMap;

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
    // Servers that share a heat share its lost samples.
    let lost: BTreeMap<u32, u64> = rows.iter().flat_map(|(_, profile)| profile.lost_by_heat.clone()).collect();
    let lost: u64 = lost.values().sum();
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

#[cfg(test)]
mod tests {
    use harness::record::{Profile, Run};
    use profile::Calls;

    use super::*;

    /// An interleaved run in which a request of each server costs 20 us, and `extra` of 100 samples, and one more in each repeat, are of
    /// epoll instead of the send path, in all servers but the first.
    fn profiled(extra: u32) -> Run {
        let mut run = testkit::interleaved_run();
        run.header.is_profiled = true;
        let first = run.records[0].trial.label();
        for record in &mut run.records {
            let extra = if record.trial.label() == first { 0 } else { extra + record.trial.repeat };
            let call = "main;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k]";
            let folded = format!(
                "{call};tcp_sendmsg_[k] {}\n{call};do_epoll_wait_[k] {}\n{call};a_[k];b_[k];c_[k] 2\nmain 18\n",
                70 - extra,
                10 + extra
            );
            let requests = record.requests_answered().unwrap();
            let totals = &mut record.server.as_mut().unwrap().totals;
            (totals.cpu_user_ns, totals.cpu_system_ns, totals.cpu_children_ns) = (0, (20_000.0 * requests) as u64, 0);
            record.profile = Some(Profile {
                stacks: Calls::from_folded(&folded),
                idle: 80,
                others: 20,
                lost: 0,
                cpu_ns_per_request: Some(20_200.0),
            });
        }
        run
    }

    #[test]
    fn profile_has_times_by_category_and_differences() {
        let summary = Summary::of(&profiled(5));
        insta::assert_snapshot!(of_run(&summary, 120.into()));
        let rows = rows(&summary.comparisons[0]);
        let (_, best) = rows[0];
        let ns = |category| best.part(category).unwrap().estimate.value.round();
        assert_eq!([ns(Some(Category::Application)), ns(None)], [3_600.0, 400.0]);
        let shares = [best.running_share, best.idle_share, best.others_share];
        assert_eq!(shares.map(|share| (100.0 * share).round()), [50.0, 40.0, 10.0]);
        assert!((best.sampling_cost.unwrap() - 0.01).abs() < 1e-9);
    }

    #[test]
    fn equal_profiles_have_no_difference() {
        let mut run = profiled(5);
        let stacks = run.records[0].profile.clone();
        run.records.iter_mut().for_each(|record| record.profile.clone_from(&stacks));
        let text = of_run(&Summary::of(&run), 120.into());
        assert!(text.contains("against epoll: no category differs significantly by 1 % or more."), "{text}");
        assert!(text.lines().take_while(|line| !line.starts_with("samples")).all(|line| !line.contains('*')), "{text}");
    }

    #[test]
    fn lost_samples_count_once_per_heat() {
        let mut run = profiled(5);
        run.records.iter_mut().for_each(|record| record.profile.as_mut().unwrap().lost = 2);
        let text = of_run(&Summary::of(&run), 1000.into());
        assert!(text.contains(" 12 samples were lost."), "six heats: {text}");
    }

    #[test]
    fn differences_need_intervals_and_the_best_row() {
        let sentences = |run: &Run| sentences(&Summary::of(run).comparisons[0]);
        let mut run = profiled(5);
        assert_eq!(sentences(&run).len(), 2);
        let best = run.records[0].trial.label();
        let of_best = run.records.iter_mut().filter(|record| record.trial.label() == best);
        of_best.for_each(|record| record.profile = None);
        assert_eq!(sentences(&run), Vec::<String>::new(), "the best row has no profile");
        let mut run = profiled(5);
        run.records.retain(|record| record.trial.repeat == 0);
        run.header.trials.retain(|trial| trial.repeat == 0);
        assert_eq!(sentences(&run), Vec::<String>::new(), "one repeat");
    }

    #[test]
    fn reasons_without_samples_are_shown() {
        let mut run = testkit::run();
        run.records[0].profile_error = Some("the server ended".into());
        let text = of_run(&Summary::of(&run), 80.into());
        assert!(text.contains("has no samples: the server ended") && !text.contains("Where"), "{text}");
        assert!(crate::html::render(&run).unwrap().contains("has no samples: the server ended"));
    }
}
