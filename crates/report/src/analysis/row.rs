//! The rows of a run's tables: the figures of each architecture under each workload, as data.

use std::collections::BTreeMap;

use harness::record::{Figure, FigureMap, Trial, VerdictKind, Workload};
use load::result::LateSends;
use schemars::JsonSchema;
use serde::Serialize;
use server::Options;
use stats::sequential::Decision;
use stats::{Distribution, Estimate, Ratio, Repeat};

use super::balance::Balance;
use super::cost::CostBreakdown;
use super::profile::RowProfile;
use super::stream::Streams;
use crate::format;
use crate::list::distinct;

/// A ratio makes no practical difference if its whole interval is within this distance of 1.
pub const MARGIN: f64 = 0.05;

/// All architectures under one workload.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Comparison {
    /// The traffic.
    pub workload: Workload,
    /// The workload in words, as in `400 connections, 2000 requests/s, 128B -> 10KiB`.
    pub(crate) title: String,
    /// The setup and the measured conditions of the network in a sentence; `None` over loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<String>,
    /// How the servers shared windows, in sentences; empty for separate trials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) interleaving: Vec<String>,
    /// The range of the best row's metric over the repeats, for which the intervals speak, in a sentence; `None` with one repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
    pub(crate) metric: &'static str,
    /// Ranked rows from the best one on, then all other rows. A placebo is never first among ranked rows, unless it is the
    /// only one.
    pub rows: Vec<Row>,
    /// The flags that give an interval to ratios without one.
    #[serde(skip)]
    pub(crate) remedy: String,
    /// Pairs are equal in practice if their ratio is within this distance of 1.
    #[serde(skip)]
    pub(crate) margin: f64,
    /// The ratios of all pairs of ranked rows.
    pub(crate) pairs: Vec<Pair>,
    /// Why trials have no samples, although the run has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) profile_problems: Vec<String>,
    /// The ratio of the placebo to its reference; `None` without a placebo.
    pub(crate) noise: Option<Ratio>,
}

/// One architecture under one workload. A ranked row covers the repeats that estimates use, any other row all finished ones.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Row {
    pub(crate) architecture: String,
    /// The options of the server; `None` for an external server.
    pub(crate) options: Option<Options>,
    /// The name in tables: see [`Trial::label`].
    pub(crate) label: String,
    /// Whether the row is the reference architecture a second time. It shows the noise, and is never the best.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_placebo: bool,
    /// `valid` if most repeats are valid, and each other repeat is unsteady or failed only checks of the client or the host;
    /// otherwise the worst verdict of the repeats. Only `valid` rows are ranked, by the repeats that estimates use.
    pub verdict: VerdictKind,
    /// Reasons for repeats that are not valid, each with its verdict.
    pub(crate) reasons: Vec<String>,
    /// Number of finished repeats.
    pub repeats: usize,
    pub(crate) repeats_valid: usize,
    /// Number of repeats that estimates use: valid repeats and, in a valid row, repeats that the server may have made
    /// unsteady.
    pub(crate) repeats_estimated: usize,
    /// The trials whose requests the figures cover, by their numbers. p90, p95 and p99 leave out those whose tail the client may have
    /// caused.
    pub(crate) trials: Vec<u32>,
    /// Reasons for missing repeats: the host could not run them, the sweep skipped their rate, or they have not been run.
    pub(crate) missing: Vec<String>,
    /// Service time, t3 − t2, of all requests that count; `None` if no repeat has one.
    pub service: Option<Distribution>,
    /// Send delay, t2 − t1.
    pub send_delay: Option<Distribution>,
    /// Response time, t3 − t1; like service time.
    pub response: Option<Distribution>,
    pub(crate) late: LateSends,
    /// The lowest quantile of service and response time that late sends may have caused, such as `p99`; `None` if there
    /// is none.
    pub(crate) clients_from: Option<&'static str>,
    /// Requests per second (in a closed loop: transactions); the mean over repeats if the row is not ranked.
    pub rate_achieved_per_s: Option<f64>,
    /// The share of its CPUs that the client used, the mean over repeats; `None` in an open loop.
    pub(crate) client_busy_share: Option<f64>,
    /// Transactions of a closed loop that were counted but not sampled, because the sample memory was full.
    pub(crate) unsampled: u64,
    /// `None` unless the workload sends datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) datagrams: Option<Datagrams>,
    /// `None` unless the service is a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<Streams>,
    /// The figures over the repeats that estimates use. Quantiles and the mean leave out repeats in which the client may have caused
    /// them, and are absent unless the other repeats are the majority.
    pub figures: FigureMap<RowFigure>,
    pub(crate) kernel: Option<Kernel>,
    pub(crate) churn: Option<Churn>,
    /// The number of times that the server closed a lasting connection, which the client opened again.
    pub(crate) closed_by_server: u64,
    /// The share of the requests that queued behind others of their connection, or for a free one; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queued_share: Option<f64>,
    /// `None` unless the service is `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<Http>,
    /// `None` for plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<Tls>,
    /// `None` without counters of the server.
    pub cost: Option<Cost>,
    pub(crate) breakdown: Option<CostBreakdown>,
    /// Where the CPU time goes; `None` without samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<RowProfile>,
    /// `None` unless the server has several network threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balance: Option<Balance>,
    /// The metric relative to the best row; `None` for rows that are not ranked. The best row has no interval.
    pub(crate) ratio: Option<Ratio>,
    /// The median service time less that of the best row, in nanoseconds; `None` for the best row,
    /// in a closed loop, for rows of another group, and for rows that are not ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) added_ns: Option<Estimate>,
    /// The metric, by repeat, over the repeats that estimates use: median service time in nanoseconds, or transactions per second.
    #[serde(skip)]
    pub(crate) metrics: Vec<Repeat>,
}

/// A figure of a row.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RowFigure {
    #[serde(flatten)]
    pub(crate) estimate: Estimate,
    #[serde(skip)]
    pub(crate) repeats: Vec<Repeat>,
}

/// Responses of the row's repeats, as in `load::result::HttpResult`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Http {
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) first_byte: Distribution,
}

/// Handshakes of the row's repeats, as in `load::result::TlsResult`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Tls {
    pub(crate) cipher: String,
    pub(crate) full: Distribution,
    pub(crate) resumed: Distribution,
}

/// Datagram counts in the windows of the row's repeats, as in `load::result::DatagramResult`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Datagrams {
    pub(crate) planned: u64,
    pub(crate) lost: u64,
    pub(crate) duplicates: u64,
    pub(crate) reordered: u64,
}

/// Times by the kernel's timestamps over the row's repeats.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Kernel {
    pub(crate) interface: String,
    pub(crate) hardware: load::result::Hardware,
    /// From t2 to the packet scheduler.
    pub(crate) to_scheduler: Distribution,
    /// t2k − t2.
    pub(crate) to_driver: Distribution,
    /// t3 − t3k.
    pub(crate) from_arrival: Distribution,
    /// t3k − t2k.
    pub(crate) service: Distribution,
    pub(crate) hardware_service: Option<Distribution>,
    pub(crate) out_of_order: u64,
    /// Whether the wall clock was set during a repeat, so that its kernel timestamps are left out.
    pub(crate) wall_clock_stepped: bool,
    /// Share of requests without a complete set of timestamps.
    pub(crate) unstamped: f64,
}

/// Statistics of short-lived connections over the row's repeats.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Churn {
    /// New connections per second, the mean over repeats.
    pub(crate) opened_per_s: f64,
    /// From the SYN to the established connection.
    pub(crate) connect: Distribution,
    /// From the SYN to the first byte of the first response.
    pub(crate) first_byte: Distribution,
    /// Sessions that waited for another session to end.
    pub(crate) waited: u64,
}

/// Cost by the server's counters over the row's repeats.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Cost {
    pub(crate) cpu_ns_per_request: f64,
    pub(crate) switches_per_request: f64,
    /// `None` if system calls are not counted.
    pub(crate) syscalls_per_request: Option<f64>,
    /// `None` if the system does not report it.
    pub(crate) memory_user_bytes_per_connection: Option<f64>,
    /// `None` if unknown, or if other activity of the host hides it.
    pub memory_kernel_bytes_per_connection: Option<f64>,
}

/// The ratios of one row to another. The p-values of each figure are adjusted for all pairs of rows, separately from the other
/// figures: see [`stats::Family`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Pair {
    /// The label of the row.
    pub(crate) architecture: String,
    /// The label of the other row, which stands above in the table.
    pub(crate) base: String,
    /// The ratio by the metric that ranks the rows.
    pub(crate) ratio: Ratio,
    /// The difference of the medians in nanoseconds; `None` in a closed loop, and between groups of turns.
    pub(crate) added_ns: Option<Estimate>,
    /// The ratios of all figures.
    pub(crate) ratios: FigureMap<Ratio>,
    /// The decision by the rule that ended the run; `None` without `--until`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<Decision>,
}

/// Returns the label of the row that `name` names: a label, or the name of an external server.
pub fn row_named(trials: &[Trial], name: &str) -> Result<String, String> {
    let labels = distinct(trials.iter().filter(|trial| !trial.is_reference).map(Trial::label));
    let is_named = |label: &&String| *label == name || label.split_once(':').is_some_and(|(_, it)| it == name);
    let found = labels.iter().find(|label| *label == name).or_else(|| labels.iter().find(is_named));
    found.cloned().ok_or_else(|| format!("no row is named {name}; the rows are {}", format::listed(&labels)))
}

impl Comparison {
    /// Returns the ranked architectures from the best one on, without the placebo.
    pub(crate) fn ranked(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.is_ranked() && !row.is_placebo)
    }

    /// Returns the ratios of two rows with these labels, in either order.
    pub(crate) fn pair(&self, one: &str, other: &str) -> Option<&Pair> {
        let is_one = |pair: &&Pair| [[one, other], [other, one]].contains(&[&*pair.architecture, &*pair.base]);
        self.pairs.iter().find(is_one)
    }
}

impl Row {
    /// Returns the name in tables: see [`Trial::label`].
    pub fn label(&self) -> String {
        self.label.clone()
    }

    /// Returns the estimate of a figure over the repeats that estimates use.
    pub fn estimate(&self, figure: Figure) -> Option<Estimate> {
        self.figures[figure].as_ref().map(|it| it.estimate)
    }

    /// Returns a figure by repeat.
    pub(crate) fn repeats_of(&self, figure: Figure) -> &[Repeat] {
        self.figures[figure].as_ref().map_or(&[], |it| &it.repeats)
    }

    /// Returns whether a trial has this architecture with these options, under any workload.
    pub(crate) fn covers(&self, trial: &Trial) -> bool {
        self.label == trial.label()
    }

    /// Returns the row that a placebo repeats.
    pub(crate) fn reference<'a>(&self, rows: &'a [Row]) -> Option<&'a Row> {
        let server = |row: &Row| (row.architecture.clone(), row.options);
        rows.iter().find(|row| !row.is_placebo && server(row) == server(self))
    }

    /// Returns whether the client may have caused quantile `q` of service and response time.
    pub fn is_client_tail(&self, q: f64) -> bool {
        self.late.reaches(q)
    }

    /// Returns whether the row is the one to which the ratios of all others refer.
    pub(crate) fn is_best(&self) -> bool {
        self.is_ranked() && !self.is_placebo && self.ratio == Some(Ratio::ONE)
    }

    /// Returns whether the row is ranked.
    pub fn is_ranked(&self) -> bool {
        self.repeats > 0 && self.verdict == VerdictKind::Valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_is_named_by_its_label_or_its_server() {
        let mut trials = testkit::run().header.trials;
        trials[0].architecture = "exec:node".parse().unwrap();
        for (name, label) in [("mt", "mt"), ("exec:node", "exec:node"), ("node", "exec:node")] {
            assert_eq!(row_named(&trials, name).as_deref(), Ok(label));
        }
        let error = row_named(&trials, "exec").unwrap_err();
        assert!(error.starts_with("no row is named exec; the rows are exec:node, "), "{error}");
    }
}
