//! How evenly the requests of each trial were sent, for a reader.

use comfy_table::{Cell, Table, presets};
use harness::spec::units::Share;
use load::config::Schedule;
use stats::Deviation;

use super::medium::Medium;
use super::table::{Column, align, fit};
use crate::format;
use crate::model::deviation::{DEFINITION, Deviations, Point, SHARES, TrialDeviation};

/// In order from left to right; [`TAILS`] follow.
const COLUMNS: &[Column<TrialDeviation>] = &[
    Column { heading: "architecture", rank: 0, text: |trial| trial.architecture.clone() },
    Column { heading: "trial", rank: 1, text: |trial| trial.trial.to_string() },
    Column { heading: "connections", rank: 0, text: |trial| trial.workload.connections.to_string() },
    Column { heading: "active", rank: 1, text: |trial| Share(trial.workload.active).to_string() },
    Column { heading: "req/s", rank: 0, text: |trial| format::rate(trial.workload.rate_per_s) },
    Column { heading: "sends", rank: 5, text: |trial| trial.figures.map_or(none(), |it| it.count.to_string()) },
    Column { heading: "stddev µs", rank: 0, text: |trial| figure(trial, |it| it.stddev_ns / 1e3) },
    Column { heading: "median µs", rank: 0, text: |trial| figure(trial, |it| it.median_ns / 1e3) },
    Column { heading: "max µs", rank: 0, text: |trial| figure(trial, |it| it.max_ns / 1e3) },
    Column { heading: "min µs", rank: 1, text: |trial| figure(trial, |it| it.min_ns / 1e3) },
    Column { heading: "±1 µs %", rank: 1, text: |trial| figure(trial, |it| it.within_1us_of_median * 100.0) },
    Column { heading: "schedule", rank: 5, text: |trial| format::name(&trial.workload.schedule) },
    Column { heading: "verdict", rank: 1, text: |trial| format::verdict(trial.verdict).into() },
];

/// Which of [`SHARES`] are columns, and how important each is. The median is among the figures.
const TAILS: &[(usize, u8)] = &[(0, 4), (1, 2), (2, 3), (3, 4), (5, 4), (6, 3), (7, 2), (8, 4)];

fn none() -> String {
    "-".into()
}

fn figure(trial: &TrialDeviation, figure: fn(&Deviation) -> f64) -> String {
    trial.figures.as_ref().map_or(none(), |figures| format::significant(figure(figures)))
}

fn table(trials: &[TrialDeviation], medium: Medium) -> String {
    let build = |rank_max: u8| {
        let shown = || COLUMNS.iter().filter(|column| column.rank <= rank_max);
        let tails = || TAILS.iter().filter(|(_, rank)| *rank <= rank_max).map(|(at, _)| *at);
        let mut table = Table::new();
        let headings = shown().map(|column| column.heading.to_owned());
        table.load_style(presets::NOTHING).set_header(headings.chain(tails().map(|at| percent(SHARES[at]))));
        for trial in trials {
            let tail =
                |at| trial.tails.get(at).map_or(none(), |point: &Point| format::significant(point.deviation_ns / 1e3));
            table.add_row(shown().map(|column| (column.text)(trial)).chain(tails().map(tail)).map(Cell::new));
        }
        align(&mut table);
        table
    };
    fit(medium, build).0
}

/// A share as a heading.
pub fn percent(share: f64) -> String {
    format!("{} %", (share * 1_000.0).round() / 10.0)
}

/// As text.
pub fn render(deviations: &Deviations, medium: impl Into<Medium>) -> String {
    let medium = medium.into();
    let mut lines = vec![medium.heading("Send deviation"), table(&deviations.trials, medium)];
    for trial in &deviations.trials {
        if let Some(why) = &trial.missing {
            lines.push(medium.prose(&format!("trial {}, {}: {why}", trial.trial, trial.architecture)));
        } else if trial.unsent > 0 {
            let what = format!(
                "trial {}, {}: {} requests were never sent, so those after each seem late by an interval",
                trial.trial, trial.architecture, trial.unsent
            );
            lines.push(medium.prose(&what));
        }
    }
    lines.push(String::new());
    let percents = "A column headed by a share: so many of the sends deviate by at most this, in µs. \"±1 µs %\": the share \
                    at most 1 µs from the median.";
    lines.push(medium.prose(&format!("{DEFINITION} {percents}")));
    let uneven = deviations.trials.iter().filter(|trial| trial.workload.schedule != Schedule::Constant).count();
    if uneven > 0 {
        let what = format!(
            "The definition presumes constant intervals: of {uneven} trials the schedule is another, so that their \
             deviations are its own and say nothing of the client; its lag does (`muxbench report`). For constant \
             intervals: --schedule constant."
        );
        lines.push(medium.prose(&what));
    }
    medium.finished(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::deviation::csv;
    use crate::fixtures;
    use crate::model::deviation::POINTS;

    #[test]
    fn deviations_in_full_and_what_is_missing_is_named() {
        let run = fixtures::kawai2006_run();
        let deviations = Deviations::of(&run, &mut fixtures::sends_of(&run));
        insta::assert_snapshot!(render(&deviations, 180));
        let narrow = render(&deviations, 80);
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        for trial in &deviations.trials {
            assert_eq!(trial.figures.is_some(), trial.missing.is_none());
            assert_eq!(trial.cdf.len(), if trial.figures.is_some() { POINTS } else { 0 });
        }
        assert!(deviations.trials.iter().any(|trial| trial.missing.is_some()));
        assert_eq!(csv(&deviations).unwrap().lines().count(), 1 + deviations.trials.len());
    }

    #[test]
    fn another_schedule_is_shown_with_a_warning() {
        let run = fixtures::run();
        let text = render(&Deviations::of(&run, &mut fixtures::sends_of(&run)), 100);
        assert!(text.contains("presumes constant intervals"), "{text}");
    }
}
