//! Many runs: the results of each, and how each architecture's figures under one traffic change from run to run.
//!
//! [`HistoryBuilder`] collects runs, and [`History`] is the result. Runs are added one by one. The builder keeps only their
//! figures, because a hundred whole runs would not fit into memory.

use std::collections::BTreeSet;

use harness::record::{Figure, FigureMap, Run, RunHeader, Source, Trial, TrialRecord, VerdictKind, Workload};
use harness::strategy::advise;
use load::result::LateSends;
use schemars::JsonSchema;
use serde::Serialize;
use stats::{Estimate, Repeat};

use super::hosts::{self, Facts, NamedHost};
use super::run_diff::{Change, ChangeKind};
use super::setting::{self, Settings};
use super::summary::{Row, planned};
use super::workload::{self, is_same_traffic};
use super::{FORMAT, Summary, answer};
use crate::list::{distinct, grouped};

/// Collects the figures of runs.
#[derive(Debug, Default)]
pub struct HistoryBuilder {
    hosts: Vec<Facts>,
    entries: Vec<(Entry, Vec<(Key, TrendPoint)>)>,
    unreadable: Vec<Unreadable>,
}

/// Many runs, side by side.
#[derive(Debug, Serialize, JsonSchema)]
pub struct History {
    /// [`FORMAT`].
    pub(crate) format: u32,
    pub(crate) sentence: String,
    /// The hosts in the order of their first runs; the first host is `A`.
    pub(crate) hosts: Vec<NamedHost>,
    /// The runs, oldest first.
    pub runs: Vec<Entry>,
    /// Measurements that appear in more than one run, sorted by traffic, host and architecture.
    pub(crate) trends: Vec<Trend>,
    pub(crate) unreadable: Vec<Unreadable>,
}

/// One run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Entry {
    /// The run's folder, as the user wrote it.
    pub folder: String,
    pub(crate) name: String,
    /// RFC 3339 in UTC.
    pub(crate) started_at: String,
    pub(crate) experiment: String,
    pub(crate) muxbench: String,
    pub(crate) command: Vec<String>,
    /// Index into [`History::hosts`].
    pub(crate) host: usize,
    pub(crate) finished: usize,
    pub(crate) valid: usize,
    /// Number of planned trials that the host could run; `None` for a search, which plans as it goes.
    pub(crate) planned: Option<usize>,
    pub(crate) sentence: String,
}

/// A folder whose run cannot be read.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Unreadable {
    pub(crate) folder: String,
    pub(crate) reason: String,
}

/// An architecture under one traffic on one host, from run to run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Trend {
    pub(crate) architecture: String,
    /// The traffic. Phases may differ from run to run.
    pub(crate) workload: Workload,
    /// The title of the workload, then the settings in which trends of an architecture under this traffic differ.
    pub(crate) title: String,
    /// Index into [`History::hosts`].
    pub(crate) host: usize,
    pub(crate) points: Vec<TrendPoint>,
    /// The ranking metric of the newest run relative to the previous run; `None` unless both rank the architecture.
    pub(crate) change: Option<Change>,
}

/// The results of one run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct TrendPoint {
    /// Index into [`History::runs`].
    pub(crate) run: usize,
    pub(crate) verdict: VerdictKind,
    pub(crate) repeats: usize,
    pub(crate) repeats_valid: usize,
    /// The figures; with an interval only if the row is ranked, and without those that the client may have caused, except the median.
    pub(crate) figures: FigureMap<Estimate>,
    /// The lowest quantile of service time that the client may have caused, such as `p50`; `None` if there is none.
    pub(crate) clients_from: Option<&'static str>,
    #[serde(skip)]
    pub(crate) late: LateSends,
    #[serde(skip)]
    metrics: Vec<Repeat>,
}

/// The properties that all points of a trend share.
#[derive(Clone, Debug)]
struct Key {
    architecture: String,
    workload: Workload,
    settings: Settings,
}

impl PartialEq for Key {
    /// Compares all properties but the phases of the workload.
    fn eq(&self, other: &Self) -> bool {
        self.is_alike_but_for_settings(other) && self.settings == other.settings
    }
}

impl Key {
    fn of(header: &RunHeader, workload: &Workload, row: &Row, records: &[TrialRecord]) -> Self {
        let is_its = |it: &&Trial| it.workload == *workload && row.covers(it);
        let ran = records.iter().map(|record| &record.trial).filter(is_its);
        // A server that misses its turns runs separately, also if only noise is the cause. So the plan counts too.
        let trials: Vec<&Trial> = ran.chain(header.trials.iter().filter(is_its)).collect();
        let mut settings = setting::of(header, &trials);
        // A server with a name may have another port in each run.
        if trials.first().is_some_and(|trial| !trial.architecture.is_unnamed()) {
            settings.remove(setting::URL);
        }
        Self { architecture: row.label(), workload: workload.clone(), settings }
    }

    fn is_alike_but_for_settings(&self, other: &Self) -> bool {
        self.architecture == other.architecture && is_same_traffic(&self.workload, &other.workload)
    }
}

impl HistoryBuilder {
    /// Adds the answer and the figures of a run. The planned trials of a race are those that ran.
    pub fn add(&mut self, folder: &str, run: &Run) {
        let planned_run = advise::as_planned(run);
        let summary = Summary::of(&planned_run);
        let sentence = answer::sentence(run, &summary);
        let run = &*planned_run;
        let header = &run.header;
        let host = hosts::place(&mut self.hosts, &header.host);
        // Probes before other trials only find the rates of these.
        let has_trials = run.records.iter().any(|it| !header.strategy.is_probe(&it.trial));
        let records = || run.records.iter().filter(|it| !has_trials || !header.strategy.is_probe(&it.trial));
        let entry = Entry {
            folder: folder.to_owned(),
            name: header.name.clone(),
            started_at: header.started_at.clone(),
            experiment: header.experiment.clone(),
            muxbench: header.muxbench.clone(),
            command: header.command.clone(),
            host,
            finished: records().count(),
            valid: records().filter(|record| record.verdict.kind == VerdictKind::Valid).count(),
            planned: (!header.strategy.is_search()).then(|| planned(run)),
            sentence,
        };
        let rows = summary.comparisons.iter().flat_map(|it| it.rows.iter().map(move |row| (&it.workload, row)));
        let figures = rows
            .filter(|(_, row)| row.repeats > 0)
            .map(|(workload, row)| (Key::of(header, workload, row, &run.records), TrendPoint::of(workload, row)));
        self.entries.push((entry, figures.collect()));
    }

    /// Adds a folder whose run cannot be read.
    pub fn add_unreadable(&mut self, folder: &str, error: &anyhow::Error) {
        self.unreadable.push(Unreadable { folder: folder.to_owned(), reason: format!("{error:#}") });
    }

    /// Returns the history of all added runs.
    pub fn finish(mut self) -> History {
        self.entries.sort_by(|(a, _), (b, _)| (&a.started_at, &a.name).cmp(&(&b.started_at, &b.name)));
        // Order hosts by their first run.
        let order = distinct(self.entries.iter().map(|(entry, _)| entry.host));
        let hosts = hosts::named(order.iter().map(|&at| self.hosts[at].clone()).collect());
        let (mut runs, mut found) = (Vec::new(), Vec::new());
        for (at, (mut entry, figures)) in self.entries.into_iter().enumerate() {
            entry.host = order.iter().position(|host| *host == entry.host).expect("every entry has a host");
            found.extend(figures.into_iter().map(|(key, it)| (key, entry.host, TrendPoint { run: at, ..it })));
            runs.push(entry);
        }
        let trends = trends_of(found);
        History { format: FORMAT, sentence: sentence_of(&trends), hosts, runs, trends, unreadable: self.unreadable }
    }
}

/// Groups results into trends. Omits measurements that appear only once.
fn trends_of(found: Vec<(Key, usize, TrendPoint)>) -> Vec<Trend> {
    let count = |key: &Key| found.iter().filter(|(other, ..)| other == key).count();
    let repeated = found.iter().filter(|(key, ..)| count(key) > 1);
    let groups = grouped(repeated, |(a, host_a, _), (b, host_b, _)| a == b && host_a == host_b).into_iter();
    let trend = |group: Vec<&(Key, usize, TrendPoint)>| {
        let (key, host, _) = group[0];
        let points: Vec<TrendPoint> = group.iter().map(|(_, _, point)| point.clone()).collect();
        let change = match points.as_slice() {
            [.., before, newest] => Change::of(&before.metrics, &newest.metrics, key.workload.is_closed()),
            _ => None,
        };
        let (title, workload) = (workload::title(&key.workload), key.workload.clone());
        (key.clone(), Trend { architecture: key.architecture.clone(), workload, title, host: *host, points, change })
    };
    let trends: Vec<(Key, Trend)> = groups.map(trend).collect();
    let differing = |(key, _): &(Key, Trend)| {
        let others = trends.iter().filter(|(other, _)| key.is_alike_but_for_settings(other));
        setting::differing(&key.settings, others.map(|(other, _)| &other.settings))
    };
    let names: Vec<(Workload, BTreeSet<String>)> =
        trends.iter().map(|it| (it.0.workload.clone(), differing(it))).collect();
    // Servers that were measured together have the same settings in their titles.
    let named = |(key, trend): (Key, Trend)| {
        let of_traffic = names.iter().filter(|(workload, _)| is_same_traffic(workload, &key.workload));
        let names: BTreeSet<&String> = of_traffic.flat_map(|(_, names)| names).collect();
        Trend { title: trend.title + &setting::words(&key.settings, &names), ..trend }
    };
    let mut trends: Vec<Trend> = trends.into_iter().map(named).collect();
    Change::correct(trends.iter_mut().filter_map(|trend| trend.change.as_mut()));
    trends.sort_by(|a, b| {
        let by_workload = workload::order(&a.workload, &b.workload).then(a.title.cmp(&b.title));
        by_workload.then(a.host.cmp(&b.host)).then(a.architecture.cmp(&b.architecture))
    });
    trends
}

impl TrendPoint {
    /// Takes the results of a row; the caller sets the index of the run later.
    fn of(workload: &Workload, row: &Row) -> Self {
        // A trial without timed requests has no times, for example when bursts outlast the trial.
        let timed = row.service.as_ref().filter(|it| it.count > 0);
        let of_all = |figure: Figure| match figure.source() {
            Source::Service((_, ns)) => Some(ns(timed?) as f64),
            Source::Answers => row.rate_achieved_per_s,
            Source::ServerTime => Some(row.cost.as_ref()?.cpu_ns_per_request),
            _ => None,
        };
        let shown = |figure: Figure| {
            if !figure.is_estimated() || figure.tail().is_some_and(|q| q > 0.5 && row.is_client_tail(q)) {
                return None;
            }
            // A row that is not ranked shows its figure without an interval.
            let ranked = row.estimate(figure).filter(|_| row.is_ranked());
            ranked.or_else(|| Some(Estimate { value: of_all(figure)?, interval: None }))
        };
        // Conclude nothing from a median that the client may have caused.
        let is_compared = row.is_ranked() && (workload.is_closed() || !row.is_client_tail(0.5));
        Self {
            run: 0,
            verdict: row.verdict,
            repeats: row.repeats,
            repeats_valid: row.repeats_valid,
            figures: FigureMap::of(shown),
            clients_from: row.clients_from,
            late: row.late,
            metrics: if is_compared { row.metrics.clone() } else { Vec::new() },
        }
    }
}

/// Returns how many trends changed in each direction, and which changed.
fn sentence_of(trends: &[Trend]) -> String {
    let again: Vec<&Trend> = trends.iter().filter(|trend| trend.points.len() > 1).collect();
    if again.is_empty() {
        return "No measurement was repeated on the same host.".into();
    }
    let named = |kind: ChangeKind, word: &str| {
        let found = |trend: &&&Trend| trend.change.is_some_and(|change| change.finding == kind);
        let trends: Vec<&&Trend> = again.iter().filter(found).collect();
        let one = |it: &&&Trend| {
            format!("{} at {} ({:.2}x)", it.architecture, it.title, it.change.map_or(f64::NAN, |it| it.ratio.ratio))
        };
        let names: Vec<String> = trends.iter().take(3).map(one).collect();
        let more = if trends.len() > 3 { " and others" } else { "" };
        let sign = if names.is_empty() { "" } else { ": " };
        format!("{word}{sign}{}{more}", names.join("; "))
    };
    let changes: Vec<Option<&Change>> = again.iter().map(|trend| trend.change.as_ref()).collect();
    let (slower, faster) = (named(ChangeKind::Slower, "slower"), named(ChangeKind::Faster, "faster"));
    let counts = ChangeKind::counted(&changes, [&slower, &faster]);
    format!("The newest run against the one before, {} comparisons: {}.", again.len(), counts)
}

impl Entry {
    /// Returns the numbers of valid and finished trials and, if the run was stopped, of planned trials.
    pub(crate) fn counts(&self) -> String {
        let planned = self.planned.filter(|planned| *planned != self.finished);
        let planned = planned.map_or_else(String::new, |planned| format!(" of {planned}"));
        format!("{}/{}{planned}", self.valid, self.finished)
    }
}

impl History {
    /// Returns a row of CSV for each point of each trend.
    pub fn rows(&self) -> impl Iterator<Item = serde_json::Value> {
        let row = |trend: &Trend, point: &TrendPoint| {
            let Entry { folder, name, started_at, muxbench, .. } = &self.runs[point.run];
            let (architecture, traffic, host) = (&trend.architecture, &trend.title, &self.hosts[trend.host].letter);
            serde_json::json!({
                "architecture": architecture, "traffic": traffic, "host": host, "folder": folder, "name": name,
                "started_at": started_at, "muxbench": muxbench, "point": point,
            })
        };
        self.trends.iter().flat_map(move |trend| trend.points.iter().map(move |point| row(trend, point)))
    }

    /// Groups trends by traffic, the settings in their titles, and host.
    pub(crate) fn by_traffic(&self) -> Vec<Vec<&Trend>> {
        grouped(&self.trends, |a, b| {
            a.host == b.host && a.title == b.title && is_same_traffic(&a.workload, &b.workload)
        })
    }

    /// Returns the traffic and the host of a trend in words.
    pub(crate) fn place(&self, trend: &Trend) -> String {
        match self.hosts.len() {
            1 => trend.title.clone(),
            _ => format!("{}, host {}", trend.title, self.hosts[trend.host].letter),
        }
    }

    /// Returns a line for each host.
    pub(crate) fn about_hosts(&self) -> Vec<String> {
        hosts::about(&self.hosts)
    }
}
