//! A run as OpenMetrics text, for Prometheus and its relatives: the figures of each trial, the ratios to the best architecture,
//! and the results of searches.
//!
//! Each sample has the label `run` and the time at which its trial ended, so that one database can hold many runs
//! (`promtool tsdb create-blocks-from openmetrics`). Times are in seconds. Families without a sample are left out.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::Write;

use harness::record::{Figure, Quantile, Run, TrialRecord, VerdictKind};
use harness::strategy::search::CapacityBound;
use load::LoadResult;
use load::result::Measured;
use stats::{Distribution, Interval};

use crate::analysis::workload::title;
use crate::analysis::{Capacities, Summary};
use crate::format;

const VERDICTS: [VerdictKind; 5] = [
    VerdictKind::Valid,
    VerdictKind::Saturated,
    VerdictKind::ClientLimited,
    VerdictKind::Unsteady,
    VerdictKind::Failed,
];

type Labels = Vec<(String, String)>;
/// The labels that samples share, and their time in seconds since 1970.
type Group = (Labels, Option<f64>);

/// A figure of a family: what follows the family's name, its labels, and its value.
struct Sample {
    suffix: &'static str,
    labels: Labels,
    value: f64,
}

impl Sample {
    fn of(value: impl Into<f64>) -> Self {
        Self { suffix: "", labels: Labels::new(), value: value.into() }
    }

    fn total(count: u64) -> Self {
        Self { suffix: "_total", ..Self::of(count as f64) }
    }

    fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((name.into(), value.into()));
        self
    }
}

/// The text so far, and the run's name.
struct Exposition<'a> {
    text: String,
    run: &'a str,
}

impl Exposition<'_> {
    /// Writes a family: the samples of each group with the group's labels and time. `name` ends with the unit, if there is one.
    fn family(
        &mut self,
        (name, kind, unit): (&str, &str, &str),
        help: &str,
        groups: impl IntoIterator<Item = (impl Borrow<Group>, Vec<Sample>)>,
    ) {
        let mut lines = String::new();
        for (group, samples) in groups {
            let (common, at_s) = group.borrow();
            for Sample { suffix, labels, value } in samples.into_iter().filter(|it| it.value.is_finite()) {
                let _ = write!(lines, "muxbench_{name}{suffix}{{run=\"{}\"", escaped(self.run));
                for (label, text) in common.iter().chain(&labels) {
                    let _ = write!(lines, ",{label}=\"{}\"", escaped(text));
                }
                let at = at_s.map_or_else(String::new, |at_s| format!(" {at_s:.3}"));
                let _ = writeln!(lines, "}} {value}{at}");
            }
        }
        if lines.is_empty() {
            return;
        }
        let _ = writeln!(self.text, "# TYPE muxbench_{name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT muxbench_{name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP muxbench_{name} {}", escaped(help));
        self.text += &lines;
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Writes all figures.
pub fn of(run: &Run) -> String {
    let mut all = Exposition { text: String::new(), run: &run.header.name };
    let ended_s = run.records.iter().filter_map(TrialRecord::ended_at_s).reduce(f64::max);
    let header = &run.header;
    let about = Sample { suffix: "_info", ..Sample::of(1) }
        .with("experiment", &header.experiment)
        .with("version", &header.muxbench)
        .with("started_at", &header.started_at)
        .with("seed", header.seed.to_string());
    all.family(("run", "info", ""), "The run.", [((Labels::new(), ended_s), vec![about])]);
    trials(&mut all, &run.records);
    results(&mut all, run, ended_s);
    all.text += "# EOF\n";
    all.text
}

/// A family with a sample for each trial: its name, kind, unit, help and value.
type Scalar = (&'static str, &'static str, &'static str, &'static str, fn(&TrialRecord) -> Option<f64>);

const SCALARS: &[Scalar] = &[
    ("planned_rate", "gauge", "", "Planned requests per second.", |it| it.trial.workload.rate_per_s()),
    ("achieved_rate", "gauge", "", "Responses per second in the window.", TrialRecord::rate_achieved_per_s),
    (
        "client_quantile",
        "gauge",
        "",
        "The lowest quantile of service and response time that late sends of the client may have caused.",
        |it| {
            let late = it.load.as_ref()?.late_sends();
            quantiles().map(|(q, _)| q).find(|q| late.reaches(*q))
        },
    ),
    ("requests_planned", "counter", "", "Requests with a planned time in the window.", |it| {
        Some(it.load.as_ref()?.planned as f64)
    }),
    ("requests_completed", "counter", "", "Requests of the window with a response.", |it| {
        Some(it.load.as_ref()?.completed as f64)
    }),
    ("server_requests", "counter", "", "Requests that the server completed between its two readings.", |it| {
        Some(it.server.as_ref()?.totals.requests? as f64)
    }),
    ("server_cpu_seconds", "counter", "seconds", "CPU time of the server.", |it| {
        Some(it.server.as_ref()?.cpu_ns() as f64 / 1e9)
    }),
    ("server_context_switches", "counter", "", "Context switches of the server.", |it| {
        Some(it.server.as_ref()?.totals.switches() as f64)
    }),
    (
        "server_user_memory_per_connection_bytes",
        "gauge",
        "bytes",
        "Memory of the server's processes for each connection.",
        |it| it.server.as_ref()?.memory_user_bytes_per_connection,
    ),
    (
        "server_kernel_memory_per_connection_bytes",
        "gauge",
        "bytes",
        "Memory of the kernel for each connection.",
        |it| it.server.as_ref()?.memory_kernel_bytes_per_connection,
    ),
];

fn trials(all: &mut Exposition<'_>, records: &[TrialRecord]) {
    let labelled: Vec<(Group, &TrialRecord)> =
        records.iter().map(|record| ((labels(record), record.ended_at_s()), record)).collect();
    let mut family = |name, help, samples: &dyn Fn(&TrialRecord) -> Vec<Sample>| {
        all.family(name, help, labelled.iter().map(|(labels, record)| (labels, samples(record))));
    };
    family(("trial_verdict", "stateset", ""), "The verdict on each trial.", &|record| {
        let state = |kind| {
            let is_so = u8::from(record.verdict.kind == kind);
            Sample::of(is_so).with("muxbench_trial_verdict", format::verdict(kind))
        };
        VERDICTS.map(state).into()
    });
    for &(name, kind, unit, help, value) in SCALARS {
        let suffix = if kind == "counter" { "_total" } else { "" };
        family((name, kind, unit), help, &|record| {
            value(record).map(|value| Sample { suffix, ..Sample::of(value) }).into_iter().collect()
        });
    }
    type Time = fn(&LoadResult) -> Option<&Measured>;
    let times: [(&str, &str, Time); 6] = [
        ("send_delay_seconds", "Time from the planned to the actual send.", |it| Some(&it.send_delay)),
        ("service_time_seconds", "Time from the actual send to the end of the response.", |it| Some(&it.service)),
        ("response_time_seconds", "Time from the planned send to the end of the response.", |it| Some(&it.response)),
        ("connect_time_seconds", "Time to open a connection.", |it| Some(&it.churn.as_ref()?.connect)),
        ("session_first_byte_seconds", "Time from the opening of a connection to the first byte.", |it| {
            Some(&it.churn.as_ref()?.first_byte)
        }),
        ("http_first_byte_seconds", "Time from the actual send to the first byte of the response.", |it| {
            Some(&it.http.as_ref()?.first_byte)
        }),
    ];
    for (name, help, time) in times {
        family((name, "summary", "seconds"), help, &|record| {
            record.load.as_ref().and_then(time).map_or_else(Vec::new, |it| summary(&it.distribution))
        });
    }
    family(("errors", "counter", ""), "Failures of the whole trial, by class.", &|record| {
        let by_class = record.load.iter().flat_map(|load| load.errors.by_class());
        by_class.map(|(class, count)| Sample::total(count).with("class", class)).collect()
    });
    family(("server_system_calls", "counter", ""), "System calls of the server, by kind.", &|record| {
        let none = BTreeMap::new();
        let by_kind = record.server.as_ref().map_or(&none, |server| &server.totals.syscalls);
        by_kind.iter().map(|(kind, &count)| Sample::total(count).with("kind", kind)).collect()
    });
}

fn labels(record: &TrialRecord) -> Labels {
    let trial = &record.trial;
    vec![
        ("trial".into(), trial.index.to_string()),
        ("repeat".into(), trial.repeat.to_string()),
        ("architecture".into(), trial.label()),
        ("workload".into(), title(&trial.workload)),
    ]
}

/// Returns the quantiles of summaries.
fn quantiles() -> impl Iterator<Item = Quantile> {
    Figure::quantiles().filter_map(Figure::quantile)
}

fn summary(time: &Distribution) -> Vec<Sample> {
    let seconds = |ns: f64| ns / 1e9;
    let quantile = |(q, ns): Quantile| Sample::of(seconds(ns(time) as f64)).with("quantile", q.to_string());
    let mut samples: Vec<Sample> = quantiles().filter(|_| time.count > 0).map(quantile).collect();
    samples.push(Sample { suffix: "_count", ..Sample::of(time.count as f64) });
    samples.push(Sample { suffix: "_sum", ..Sample::of(seconds(time.mean_ns * time.count as f64)) });
    samples
}

/// Writes the figures of whole rows: ratios to the best one, or results of searches.
fn results(all: &mut Exposition<'_>, run: &Run, ended_s: Option<f64>) {
    let labels = |architecture: String, workload: String| -> Group {
        (vec![("architecture".to_owned(), architecture), ("workload".to_owned(), workload)], ended_s)
    };
    let mut ratios = Vec::new();
    for comparison in Summary::of(run).comparisons {
        for row in comparison.rows {
            let Some(ratio) = row.ratio else { continue };
            ratios.push((labels(row.label(), comparison.title.clone()), bounds(ratio.ratio, ratio.interval)));
        }
    }
    let help = "The ranking figure relative to the best architecture, with its 95 % interval.";
    all.family(("ratio_to_best", "gauge", ""), help, ratios);
    let Some(capacities) = Capacities::of(run) else { return };
    let mut found = Vec::new();
    for row in &capacities.rows {
        let samples = match row.answer {
            Some(CapacityBound::Server { most, interval, holds }) => {
                let holds = Sample::of(holds).with("bound", "holds");
                bounds(most, Some(interval)).into_iter().chain([holds]).collect()
            }
            // Only a lower bound is known.
            Some(CapacityBound::AtLeast { most, .. }) => vec![Sample::of(most).with("bound", "low")],
            None => continue,
        };
        found.push((labels(row.architecture.clone(), title(&row.workload)), samples));
    }
    let help = format!(
        "The value in {} at which half of the probes meet the limits, with its 95 % interval, and that at which 95 % do.",
        capacities.unit()
    );
    all.family(("capacity", "gauge", ""), &help, found);
}

fn bounds(value: f64, interval: Option<Interval>) -> Vec<Sample> {
    let ends = interval.map(|it| [("low", it.low), ("high", it.high)]);
    let all = [("estimate", value)].into_iter().chain(ends.into_iter().flatten());
    all.map(|(bound, value)| Sample::of(value).with("bound", bound)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_run_as_openmetrics() {
        let mut run = testkit::run();
        run.records.truncate(1);
        insta::assert_snapshot!(of(&run));
    }

    #[test]
    fn capacity_has_its_interval() {
        let text = of(&testkit::capacity_run());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("muxbench_capacity{")).collect();
        insta::assert_snapshot!(rows.join("\n"));
        assert!(!text.contains("ratio_to_best"), "probes of different rates have no ratio");
    }

    #[test]
    fn names_are_escaped_and_missing_figures_left_out() {
        let mut run = testkit::run();
        run.header.name = "a\"b\\c\nd".into();
        run.records.iter_mut().for_each(|record| record.load = None);
        run.records[0].started_at = "never".into();
        let text = of(&run);
        let first = text.lines().find(|line| line.starts_with("muxbench_trial_verdict{")).unwrap();
        assert!(first.starts_with(r#"muxbench_trial_verdict{run="a\"b\\c\nd",trial="0""#), "{first}");
        assert!(first.ends_with("\"} 1") || first.ends_with("\"} 0"), "{first}: no time");
        assert!(!text.contains("service_time"), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
