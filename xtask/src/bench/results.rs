//! Results of `muxbench compare`: rows, ratios, and the order of the servers.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;
use stats::{Interval, Ratio};

use super::process::comparison;

/// Runs `compare` with these flags, and returns its only comparison.
pub(super) fn compare(binary: &Path, flags: &str) -> anyhow::Result<Comparison> {
    comparison(Command::new(binary).args(["compare", "--json", "--quiet"]).args(flags.split_whitespace()))
}

#[derive(Deserialize)]
pub(super) struct Comparison {
    pub title: String,
    pub rows: Vec<Row>,
    pairs: Vec<Pair>,
}

#[derive(Deserialize)]
pub(super) struct Row {
    pub architecture: String,
    pub label: String,
    pub verdict: String,
    /// Why trials are not valid.
    reasons: Vec<String>,
    pub repeats: u32,
    pub repeats_valid: u32,
    service_p50_ns: Option<Estimate>,
    pub service: Option<Quantiles>,
    pub rate_achieved_per_s: Option<f64>,
    pub cost: Option<Cost>,
    pub breakdown: Option<Breakdown>,
}

#[derive(Deserialize)]
pub(super) struct Quantiles {
    pub p50_ns: f64,
    pub p99_ns: f64,
}

#[derive(Deserialize)]
pub(super) struct Cost {
    pub cpu_ns_per_request: f64,
    pub syscalls_per_request: Option<f64>,
    pub switches_per_request: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Breakdown {
    pub syscalls_per_request: BTreeMap<String, f64>,
    pub voluntary_switches_per_request: f64,
    pub involuntary_switches_per_request: f64,
}

#[derive(Deserialize)]
pub(super) struct Estimate {
    pub value: f64,
    interval: Option<Interval>,
}

#[derive(Deserialize)]
struct Pair {
    architecture: String,
    base: String,
    ratio: Ratio,
    added_ns: Option<Estimate>,
}

/// Formats a ratio with its interval.
pub(super) fn shown(ratio: Ratio) -> String {
    let interval = ratio.interval.map_or_else(String::new, |it| format!(" ({:.3} to {:.3})", it.low, it.high));
    format!("{:.3}{interval}", ratio.ratio)
}

impl Comparison {
    /// The pairs of servers, each with the intervals of its ratio and of its added time in nanoseconds.
    pub(super) fn intervals(&self) -> impl Iterator<Item = ([&str; 2], [f64; 2], [Option<Interval>; 2])> {
        self.pairs.iter().filter_map(|pair| {
            let added = pair.added_ns.as_ref()?;
            let labels = [pair.architecture.as_str(), pair.base.as_str()];
            Some((labels, [pair.ratio.ratio, added.value], [pair.ratio.interval, added.interval]))
        })
    }

    /// The labels of the rows with this verdict.
    fn labels(&self, verdict: &'static str) -> impl Iterator<Item = &str> {
        self.rows.iter().filter(move |row| row.verdict == verdict).map(|row| row.label.as_str())
    }

    /// The pairs of servers of which one is known to be slower, the slower one first: they differ significantly, or one is saturated
    /// and the other valid. Saturated servers miss the rate, and have no ratios.
    pub(super) fn separated(&self) -> impl Iterator<Item = (&str, &str)> {
        let differ = self.pairs.iter().filter(|pair| pair.ratio.differs_from_one());
        let differ = differ.map(|pair| match pair.ratio.ratio > 1.0 {
            true => (pair.architecture.as_str(), pair.base.as_str()),
            false => (pair.base.as_str(), pair.architecture.as_str()),
        });
        let saturated = self.labels("saturated");
        differ.chain(saturated.flat_map(move |slower| self.labels("valid").map(move |faster| (slower, faster))))
    }

    pub(super) fn separates(&self, slower: &str, faster: &str) -> bool {
        self.separated().any(|it| it == (slower, faster))
    }

    /// Returns the servers in order, with `<` between neighbours of which the second is known to be slower, and `=` between others.
    pub(super) fn chain(&self) -> String {
        let mut chain = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            let sign = |faster: &Row| if self.separates(&row.label, &faster.label) { " < " } else { " = " };
            chain += at.checked_sub(1).map_or("", |at| sign(&self.rows[at]));
            chain += &row.label;
        }
        chain
    }

    /// The median service time of a server, in nanoseconds.
    pub(super) fn p50_ns(&self, label: &str) -> anyhow::Result<f64> {
        let row = self.rows.iter().find(|row| row.label == label);
        let p50 = row.and_then(|row| row.service_p50_ns.as_ref());
        Ok(p50.with_context(|| format!("{label}: no p50"))?.value)
    }

    /// The ratio of one server to another.
    pub(super) fn ratio(&self, architecture: &str, base: &str) -> anyhow::Result<Ratio> {
        let pair = |one: &str, other: &str| {
            let pair = self.pairs.iter().find(|it| it.architecture == one && it.base == other);
            pair.map(|it| it.ratio)
        };
        let ratio = pair(architecture, base).or_else(|| pair(base, architecture).map(Ratio::inverse));
        ratio.with_context(|| {
            let rows = self.rows.iter().filter(|row| !row.reasons.is_empty());
            let reasons: Vec<String> = rows.map(|row| format!("{}: {}", row.label, row.reasons.join("; "))).collect();
            format!("{}: no ratio of {architecture} to {base}; {}", self.title, reasons.join("; "))
        })
    }

    pub(super) fn interval(&self, architecture: &str, base: &str) -> anyhow::Result<Interval> {
        self.ratio(architecture, base)?.interval.with_context(|| format!("{architecture} to {base}: no interval"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn saturated_server_is_slower_than_valid_ones() {
        let row = |label: &str, verdict: &str| {
            json!({
                "architecture": label, "label": label, "verdict": verdict, "reasons": [], "repeats": 4,
                "repeats_valid": 4,
            })
        };
        let pair = |architecture: &str, base: &str, p: f64| {
            json!({
                "architecture": architecture, "base": base, "ratio": { "ratio": 1.2, "p_family": p },
            })
        };
        let comparison = json!({
            "title": "400 connections",
            "rows": [row("epoll", "valid"), row("mt", "valid"), row("select", "saturated"), row("mp", "failed")],
            "pairs": [pair("mt", "epoll", 0.5)],
        });
        let comparison: Comparison = serde_json::from_value(comparison).unwrap();
        assert_eq!(comparison.chain(), "epoll = mt < select = mp");
        assert!(comparison.separates("select", "epoll"));
    }
}
