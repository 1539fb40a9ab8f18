//! The table at the head of a paper's report: what the authors did, what the run did, and where they differ.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use harness::record::{Run, Trial};
use harness::spec::stall::Stall;
use harness::spec::units::{Share, Size, Sizes, Time, Work};
use report::text::{Medium, table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Paper, figure, queue};

/// A property of a set-up.
struct Aspect {
    name: &'static str,
    /// The meaning of a difference, if the row has no other.
    meaning: &'static str,
    /// Returns the values of a run, in their order; servers in the order of the paper's series.
    of: fn(&[&str], &Run) -> Vec<String>,
}

/// A row of the table.
#[derive(Debug, Deserialize)]
struct Setting {
    paper: String,
    /// The name of a row of [`ASPECTS`].
    aspect: String,
    /// The last words of the names of the experiments that the row is about; empty for all of the paper's.
    experiments: String,
    /// The authors' values, in the form in which this file writes the run's.
    authors: String,
    /// The meaning of a difference; if empty, that of the aspect, or the difference between the two lists.
    meaning: String,
}

/// The set-ups of all papers.
static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(include_str!("setup.csv").as_bytes());
    reader.deserialize().map(|row| row.expect("a test reads every row")).collect()
});

/// A row, filled from runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Compared {
    pub what: String,
    pub authors: &'static str,
    pub here: String,
    /// `no`, or the difference.
    pub difference: String,
}

const HEADINGS: [&str; 4] = ["", "the authors", "this run", "difference"];
const TITLE: &str = "Set-up";

/// Fills the rows of a paper for which the runs have trials.
pub fn compared(paper: &Paper, runs: &[Run]) -> Vec<Compared> {
    let row = |setting: &'static Setting| {
        let aspect = ASPECTS.iter().find(|aspect| aspect.name == setting.aspect).expect("a test reads every row");
        let parts: Vec<&str> = setting.experiments.split_whitespace().collect();
        let is_of = |run: &&Run| {
            let part = run.header.experiment.strip_prefix(paper.name).and_then(|rest| rest.strip_prefix('-'));
            parts.is_empty() || part.is_some_and(|part| parts.contains(&part))
        };
        let mut values: Vec<String> = Vec::new();
        for value in runs.iter().filter(is_of).flat_map(|run| (aspect.of)(paper.series, run)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let here = values.join(if values.iter().any(|value| value.contains(", ")) { "; " } else { ", " });
        let about = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
        let difference = match [setting.meaning.as_str(), aspect.meaning] {
            _ if here == setting.authors => "no".to_owned(),
            ["", ""] => lists_differ(&setting.authors, &here),
            ["", meaning] | [meaning, _] => meaning.to_owned(),
        };
        let (what, authors) = (aspect.name.to_owned() + &about, setting.authors.as_str());
        (!here.is_empty()).then_some(Compared { what, authors, here, difference })
    };
    SETTINGS.iter().filter(|setting| setting.paper == paper.name).filter_map(row).collect()
}

/// Describes how two lists differ.
fn lists_differ(authors: &str, here: &str) -> String {
    let without = |list: &str, other: &str| {
        let other: Vec<&str> = other.split(", ").collect();
        list.split(", ").filter(|it| !other.contains(it)).collect::<Vec<_>>().join(", ")
    };
    let parts = [("without ", without(authors, here)), ("also ", without(here, authors))];
    let parts = parts.into_iter().filter(|(_, list)| !list.is_empty());
    parts.map(|(word, list)| word.to_owned() + &list).collect::<Vec<_>>().join("; ")
}

/// Renders the table as text.
pub fn text(rows: &[Compared], medium: Medium) -> String {
    let cells = rows.iter().cloned().map(|row| vec![row.what, row.authors.into(), row.here, row.difference]);
    format!("{}\n{}", medium.heading(TITLE), table::of_words(HEADINGS, cells, medium))
}

/// Returns the different values of a run's feasible trials, sorted by the number.
fn each(run: &Run, of: impl Fn(&Trial) -> Option<(f64, String)>) -> Vec<String> {
    let trials = run.header.trials.iter().filter(|trial| trial.infeasible.is_empty());
    let mut values: Vec<(f64, String)> = trials.filter_map(of).collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    values.dedup();
    values.into_iter().map(|(_, text)| text).collect()
}

fn number(number: impl Into<f64>) -> Option<(f64, String)> {
    let number = number.into();
    Some((number, number.to_string()))
}

fn word(word: impl Into<String>) -> Option<(f64, String)> {
    Some((0.0, word.into()))
}

/// Returns the number of finished trials that were interleaved.
pub fn interleaved(run: &Run) -> usize {
    run.records.iter().filter(|record| record.trial.client.slices.is_some()).count()
}

/// The meaning of another order of trials.
const INTERLEAVED: &str = "servers take turns, so that they share the speed of the host; --full runs one at a time";

const ASPECTS: &[Aspect] = &[
    Aspect {
        name: "hosts",
        meaning: "",
        of: |_, run| {
            each(run, |trial| match &trial.workload.network {
                _ if run.header.is_distributed => word("server and clients on hosts of their own"),
                Some(network) => word(format!("network namespaces, {network}")),
                None => {
                    let over = trial.workload.transport.words().unwrap_or("over loopback");
                    word(format!("server and clients on one host, {over}"))
                }
            })
        },
    },
    Aspect {
        name: "machine",
        meaning: "",
        of: |_, run| {
            let host = &run.header.host;
            let cpus = host.get("cpus allowed").map(|cpus| format!(", CPUs {cpus}")).unwrap_or_default();
            host.get("cpu").map(|cpu| format!("{cpu}{cpus}")).into_iter().collect()
        },
    },
    Aspect { name: "system", meaning: "", of: |_, run| harness::host::system(&run.header.host).into_iter().collect() },
    Aspect {
        name: "servers",
        meaning: "",
        of: |series, run| {
            each(run, |trial| {
                let name = trial.architecture.to_string();
                let place = queue::position(series, &name).unwrap_or(series.len());
                // The row of event queues names the mechanism of these.
                let model = queue::QUEUES.iter().find_map(|queue| name.strip_suffix(&format!("/{queue}")));
                Some((place as f64, model.unwrap_or(&name).to_owned()))
            })
        },
    },
    Aspect {
        name: "accept strategies",
        meaning: "",
        of: |series, run| {
            each(run, |trial| {
                let name = trial.serve.ours()?.accept.to_string();
                Some((series.iter().position(|it| *it == name).unwrap_or(series.len()) as f64, name))
            })
        },
    },
    Aspect {
        name: "work of a request",
        meaning: "",
        of: |_, run| {
            each(run, |trial| word(trial.workload.work.clone().map_or("none".into(), |work| Work(work).to_string())))
        },
    },
    Aspect {
        name: "stalls",
        meaning: "",
        of: |_, run| each(run, |trial| word(Stall(trial.serve.ours()?.stall?).to_string())),
    },
    Aspect { name: "event queue", meaning: "", of: |_, run| queue::of([run]).into_iter().map(str::to_owned).collect() },
    Aspect {
        name: "clients",
        meaning: "",
        of: |_, run| Some(figure::clients([run])).filter(|words| !words.is_empty()).into_iter().collect(),
    },
    Aspect {
        name: "client's wait for a send time",
        meaning: "",
        of: |_, run| {
            let waits = run.records.iter().filter_map(|record| record.load.as_ref()?.pacing);
            let waits: BTreeSet<String> = waits.map(|pacing| report::format::name(&pacing)).collect();
            waits.into_iter().collect()
        },
    },
    Aspect {
        name: "CPUs",
        meaning: "",
        of: |_, run| {
            let placement = &run.header.placement;
            vec![if placement.contains("they share CPUs") {
                "server and clients share all CPUs".into()
            } else {
                placement.clone()
            }]
        },
    },
    Aspect { name: "connections", meaning: "", of: |_, run| each(run, |trial| number(trial.workload.connections)) },
    Aspect { name: "ports", meaning: "", of: |_, run| each(run, |trial| number(trial.workload.service.ports()?)) },
    Aspect { name: "idle connections", meaning: "", of: |_, run| each(run, |trial| number(trial.workload.idle)) },
    Aspect {
        name: "active share",
        meaning: "",
        of: |_, run| each(run, |trial| Some((-trial.workload.active(), Share(trial.workload.active()).to_string()))),
    },
    Aspect {
        name: "requests/s",
        meaning: "",
        of: |_, run| {
            each(run, |trial| match trial.workload.rate_per_s() {
                Some(rate_per_s) => number(rate_per_s),
                None => word("as fast as the server answers"),
            })
        },
    },
    Aspect {
        name: "send times",
        meaning: "",
        of: |_, run| {
            each(run, |trial| {
                word(trial.workload.schedule().map_or("closed".to_owned(), |it| report::format::name(&it)))
            })
        },
    },
    Aspect {
        name: "traffic",
        meaning: "",
        of: |_, run| {
            each(run, |trial| {
                let workload = &trial.workload;
                let service = match (workload.service.fixed(), workload.service.stream()) {
                    (Some((request, response)), _) => format!("{} -> {}", Size(request), Size(response)),
                    (_, Some(stream)) => harness::spec::stream::Stream::from(stream).to_string(),
                    (None, None) => workload.service.name().to_owned(),
                };
                let http = workload.http.as_ref().map(|http| &http.targets);
                let body = http.into_iter().flatten().filter_map(|target| target.body_bytes).max();
                let body = body.map(|bytes| format!(" with responses of {bytes} B"));
                let requests = workload.requests_per_connection().map(|count| match count {
                    1 => ", 1 request on a connection".to_owned(),
                    _ => format!(", {count} requests on a connection"),
                });
                let records = workload.kv.as_ref().map(|kv| {
                    let sizes = Sizes { least: Size(kv.value_bytes_min), most: Size(kv.value_bytes_max) };
                    format!(" with {} records of {sizes}, {} reads", kv.records, report::format::percent(kv.get_share))
                });
                word([Some(service), body, records, requests].into_iter().flatten().collect::<String>())
            })
        },
    },
    Aspect {
        name: "phases",
        meaning: "",
        of: |_, run| {
            each(run, |trial| {
                let phases = &trial.workload.phases;
                let named = [("ramp", phases.ramp_ns), ("warm-up", phases.warm_up_ns), ("window", phases.measure_ns)];
                let named =
                    named.into_iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| format!("{name} {}", Time(ns)));
                Some((phases.measure_ns as f64, named.collect::<Vec<_>>().join(", ")))
            })
        },
    },
    Aspect {
        name: "sessions in the window",
        meaning: "",
        of: |_, run| {
            each(run, |trial| {
                let workload = &trial.workload;
                let requests = workload.rate_per_s()? * workload.phases.measure_ns as f64 / 1e9;
                number((requests / f64::from(workload.requests_per_connection()?)).round())
            })
        },
    },
    Aspect {
        name: "repeats",
        meaning: "intervals need three",
        of: |_, run| {
            let repeats = run.header.trials.iter().map(|trial| trial.repeat + 1).max();
            repeats.map(|repeats| repeats.to_string()).into_iter().collect()
        },
    },
    Aspect {
        name: "timeout",
        meaning: "",
        of: |_, run| {
            each(run, |trial| Some((trial.client.timeout_ns as f64, Time(trial.client.timeout_ns).to_string())))
        },
    },
    Aspect {
        name: "order",
        meaning: INTERLEAVED,
        of: |_, run| match (interleaved(run), run.records.len()) {
            (_, 0) => Vec::new(),
            (0, _) => vec!["one server at a time".into()],
            (all, trials) if all == trials => vec!["interleaved".into()],
            (some, trials) => vec![format!("{some} of {trials} trials interleaved")],
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(paper: &str, runs: &[Run]) -> Vec<Compared> {
        compared(crate::find(paper).unwrap(), runs)
    }

    #[test]
    fn equal_settings_have_no_difference() {
        let full = testkit::run_of_values("kawai2008-minimised", |_| Some(testkit::Values::default()));
        let differing: Vec<String> = rows("kawai2008", &[full])
            .into_iter()
            .filter_map(|row| (row.difference != "no").then_some(row.what))
            .collect();
        let expected = ["hosts", "machine", "system", "clients", "client's wait for a send time", "repeats"];
        assert!(differing.iter().all(|what| expected.iter().any(|name| what.starts_with(name))), "{differing:?}");
        let quick = rows("kawai2008", &[testkit::run_of_experiment("kawai2008-minimised")]);
        let phases = quick.iter().find(|row| row.what.starts_with("phases")).unwrap();
        assert_eq!(phases.here, "ramp 300ms, warm-up 500ms, window 2s");
        assert!(phases.difference.starts_with("a shorter window"), "{phases:?}");
        let rates: Vec<&Compared> = quick.iter().filter(|row| row.what.starts_with("requests/s")).collect();
        let [rates] = rates.as_slice() else { panic!("experiments without runs have no rows: {rates:?}") };
        assert_eq!((rates.authors, rates.here.as_str()), ("125, 500, 2000, 8000", "125, 8000"));
        assert_eq!(rates.difference, "without 500, 2000");
        let full = testkit::run_of_values("maharjan2012-http", |_| Some(testkit::Values::default()));
        let sessions = rows("maharjan2012", &[full]).into_iter().find(|row| row.what.starts_with("sessions")).unwrap();
        assert_eq!((sessions.here.as_str(), sessions.difference.as_str()), ("1000", "no"));
    }

    #[test]
    fn rows_name_papers_aspects_and_experiments() {
        for Setting { paper, aspect, experiments, .. } in SETTINGS.iter() {
            let paper = crate::find(paper).unwrap_or_else(|| panic!("{paper}"));
            assert!(ASPECTS.iter().any(|it| it.name == aspect), "{aspect}");
            for part in experiments.split_whitespace() {
                assert!(paper.experiments.contains(&format!("{}-{part}", paper.name).as_str()), "{part}");
            }
        }
        for paper in crate::PAPERS {
            for aspect in ["hosts", "system", "clients", "traffic", "phases"] {
                let has_row = SETTINGS.iter().any(|row| row.paper == paper.name && row.aspect == aspect);
                assert!(has_row, "{} has no row `{aspect}`", paper.name);
            }
        }
    }

    #[test]
    fn set_ups_are_tables() {
        for paper in crate::PAPERS {
            let rows = rows(paper.name, &crate::tests::runs_of(paper));
            insta::assert_snapshot!(format!("set_up_of_{}", paper.name), text(&rows, Medium::Markdown));
        }
        let narrow = text(&rows("welsh2001", &[testkit::run_of_experiment("welsh2001-idle")]), 80.into());
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        insta::assert_snapshot!("set_up_in_a_narrow_terminal", narrow);
    }

    #[test]
    fn missing_and_further_values_are_named() {
        let mut run = testkit::run_of_experiment("voras2009");
        run.header.trials.retain(|trial| trial.workload.connections != 60);
        run.header.trials.iter_mut().for_each(|trial| trial.workload.connections += trial.workload.connections / 120);
        let rows = rows("voras2009", &[run]);
        let of = |name: &str| rows.iter().find(|row| row.what == name).unwrap().difference.as_str();
        assert_eq!(of("connections"), "without 60, 120; also 121");
        assert_eq!(of("servers"), "also amped-coalesced:1+2, seda-coalesced:2+4, seda-s-coalesced:3");
        assert_eq!(of("order"), "no");
    }
}
