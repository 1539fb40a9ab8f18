//! The evenness of each trial's sends as text.

use harness::spec::units::Share;
use load::config::Schedule;
use stats::Deviation;

use super::medium::Medium;
use super::table::{self, Column, column};
use crate::analysis::deviation::{DEFINITION, Deviations, SHARES, TrialDeviation};
use crate::format;

fn columns() -> Vec<Column<TrialDeviation>> {
    let mut columns = vec![
        column("architecture", 0, |trial: &TrialDeviation| trial.architecture.clone()),
        column("trial", 1, |trial: &TrialDeviation| trial.trial.to_string()),
        column("connections", 0, |trial: &TrialDeviation| trial.workload.connections.to_string()),
        column("active", 1, |trial: &TrialDeviation| Share(trial.workload.active()).to_string()),
        column("req/s", 0, |trial: &TrialDeviation| format::rate(trial.workload.rate_per_s())),
        column("sends", 5, |trial: &TrialDeviation| trial.figures.map_or(none(), |it| it.count.to_string())),
        column("stddev µs", 0, |trial: &TrialDeviation| figure(trial, |it| it.stddev_ns / 1e3)),
        column("median µs", 0, |trial: &TrialDeviation| figure(trial, |it| it.median_ns / 1e3)),
        column("max µs", 0, |trial: &TrialDeviation| figure(trial, |it| it.max_ns / 1e3)),
        column("min µs", 1, |trial: &TrialDeviation| figure(trial, |it| it.min_ns / 1e3)),
        column("±1 µs %", 1, |trial: &TrialDeviation| figure(trial, |it| it.within_1us_of_median * 100.0)),
        column("schedule", 5, |trial: &TrialDeviation| {
            trial.workload.schedule().map_or("closed".to_owned(), |it| format::name(&it))
        }),
        column("verdict", 1, |trial: &TrialDeviation| format::verdict(trial.verdict).into()),
    ];
    for (at, share) in SHARES.iter().enumerate().filter(|(_, share)| **share != 0.5) {
        let rank = match share.min(1.0 - share) {
            tail if !(0.005..0.2).contains(&tail) => 4,
            tail if tail < 0.02 => 2,
            _ => 3,
        };
        columns.push(column(format::percent(*share), rank, move |trial: &TrialDeviation| tail(trial, at)));
    }
    columns
}

fn none() -> String {
    "-".into()
}

fn figure(trial: &TrialDeviation, figure: fn(&Deviation) -> f64) -> String {
    trial.figures.as_ref().map_or(none(), |figures| format::significant(figure(figures)))
}

/// Returns a deviation at an index of `SHARES`.
fn tail(trial: &TrialDeviation, at: usize) -> String {
    trial.tails.get(at).map_or(none(), |point| format::significant(point.deviation_ns / 1e3))
}

/// Renders a row for each trial, with the definition of the columns.
pub fn render(deviations: &Deviations, medium: Medium) -> String {
    let mut lines = vec![medium.heading("Send deviation"), table::of(&columns(), &deviations.trials, medium).0];
    for trial in &deviations.trials {
        if let Some(why) = &trial.missing {
            lines.push(medium.prose(&format!("trial {}, {}: {why}", trial.trial, trial.architecture)));
        } else if trial.unsent > 0 {
            let what = format!(
                "trial {}, {}: {} requests were never sent; each of them makes all later sends seem late by one interval",
                trial.trial, trial.architecture, trial.unsent
            );
            lines.push(medium.prose(&what));
        }
    }
    lines.push(String::new());
    let percents = "A column with a percentage has the deviation in µs that this share of the sends does not exceed. \"±1 µs %\" is \
                    the share within 1 µs of the median.";
    lines.extend(medium.legend(&format!("{DEFINITION} {percents}")));
    let uneven = deviations.trials.iter().filter(|trial| trial.workload.schedule() != Some(Schedule::Constant)).count();
    if uneven > 0 {
        let what = format!(
            "A deviation assumes constant intervals. {uneven} trials have another schedule: their deviations come from the \
             schedule, not from the client. See the send delay instead (`muxbench report`), or use --schedule constant."
        );
        lines.push(medium.prose(&what));
    }
    medium.finished(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::deviation::POINTS;

    #[test]
    fn deviations_are_rendered_with_reasons_for_missing_ones() {
        let run = testkit::kawai2006_run();
        let deviations = Deviations::of(&run, &mut testkit::sends_of(&run));
        insta::assert_snapshot!(render(&deviations, 180.into()));
        let narrow = render(&deviations, 80.into());
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        for trial in &deviations.trials {
            assert_eq!(trial.figures.is_some(), trial.missing.is_none());
            assert_eq!(trial.cdf.len(), if trial.figures.is_some() { POINTS } else { 0 });
        }
        assert!(deviations.trials.iter().any(|trial| trial.missing.is_some()));
    }

    #[test]
    fn interleaved_trials_have_no_deviations() {
        let run = testkit::interleaved_run();
        let deviations = Deviations::of(&run, &mut |_| Ok(vec![vec![0, 10, 20]]));
        assert!(deviations.trials.iter().all(|trial| trial.figures.is_none() && trial.unsent == 0));
        let text = render(&deviations, 100.into());
        assert!(text.contains("trial 0, epoll: the sends of an interleaved trial pause"), "{text}");
    }

    #[test]
    fn other_schedule_is_shown_with_a_warning() {
        let run = testkit::run();
        let text = render(&Deviations::of(&run, &mut testkit::sends_of(&run)), 100.into());
        assert!(text.contains("assumes constant intervals"), "{text}");
    }
}
