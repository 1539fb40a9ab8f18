//! Gates: alarms of equal builds, a slower build that must be found, and recorded noise for the simulation of both.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;

use super::spread::{Bound, Spread};
use crate::command;
use crate::process::muxbench;

/// Gates of equal builds.
const SAME: usize = 30;
/// Gates of a slower build, and gates to record.
const SLOWER: usize = 10;
/// The added CPU time of the slower build, as a share of that of a request.
const ADDED_SHARE: f64 = 0.05;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Gate {
    /// Checks, with commas: same, slower
    #[arg(long, value_delimiter = ',', default_value = "same,slower", value_parser = ["same", "slower"])]
    check: Vec<String>,
    /// Only record the noise of equal builds, in this file: crates/stats/tests/gate-noise.txt
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    record: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Report {
    outcome: String,
    sentence: String,
    elapsed_s: f64,
    figures: Vec<Figure>,
}

#[derive(Deserialize)]
struct Figure {
    figure: String,
    old: Option<f64>,
    pairs: Vec<[f64; 2]>,
}

pub(super) fn run(rounds: Option<usize>, args: &Gate) -> anyhow::Result<()> {
    let binary = muxbench()?;
    if let Some(file) = &args.record {
        return record(&binary, rounds.unwrap_or(SLOWER), file);
    }
    for check in &args.check {
        match check.as_str() {
            "same" => same(&binary, rounds.unwrap_or(SAME))?,
            _ => slower(&binary, rounds.unwrap_or(SLOWER))?,
        }
    }
    Ok(())
}

/// Returns the command of an external `epoll` server with added CPU time for each request.
fn build(binary: &Path, added_ns: u64) -> String {
    // A server without added time reads the clock too, so that only the added time differs.
    format!(
        "{} serve --arch epoll --listen 127.0.0.1:{{port}} --request 128B --response 10KiB --simulated-work busy={}ns",
        binary.display(),
        added_ns.max(1)
    )
}

/// Runs a gate of two builds, the new one with added CPU time.
fn gate(binary: &Path, added_ns: u64, flags: &[&str]) -> anyhow::Result<Report> {
    let mut command = Command::new(binary);
    command.args(["gate", &build(binary, 0), &build(binary, added_ns), "--allow-exec", "--json", "--quiet"]);
    let folder = tempfile::tempdir().context("cannot create a folder for a run")?;
    // Not slower, slower and undecided.
    let text = command::output_of(command.args(flags).arg("--output").arg(folder.path().join("run")), &[0, 1, 4])?;
    serde_json::from_str(&text).with_context(|| format!("{command:?}"))
}

/// Runs a gate `count` times, and prints each outcome. Returns how many builds are slower, how many are not slower, and the times
/// of the gates in seconds.
fn gates(binary: &Path, added_ns: u64, flags: &[&str], count: usize) -> anyhow::Result<(usize, usize, Spread)> {
    let (mut slower, mut not_slower, mut times_s) = (0, 0, Vec::new());
    for _ in 0..count {
        let report = gate(binary, added_ns, flags)?;
        println!("  {:3.0} s: {}", report.elapsed_s, report.sentence);
        slower += usize::from(report.outcome == "slower");
        not_slower += usize::from(report.outcome == "not-slower");
        times_s.push(report.elapsed_s);
    }
    Ok((slower, not_slower, Spread::of(times_s)))
}

fn same(binary: &Path, count: usize) -> anyhow::Result<()> {
    println!("same: an epoll server against itself, 400 connections, 2000 requests/s; {count} gates");
    let (alarms, passed, times_s) = gates(binary, 0, &[], count)?;
    let share = Spread::share(alarms, count).check(Bound::AtMost(2.0 / 30.0));
    println!("  alarms: {alarms} of {count}; share {share}");
    println!("  passed: {passed} of {count}; seconds {times_s}");
    Ok(())
}

fn slower(binary: &Path, count: usize) -> anyhow::Result<()> {
    let base = gate(binary, 0, &["--budget", "30s"])?;
    let cpu_ns = base.figures.iter().find(|it| it.figure == "cpu").and_then(|it| it.old).context("no CPU time")?;
    let added_ns = (cpu_ns * ADDED_SHARE).round() as u64;
    println!("slower: {added_ns} ns added to {cpu_ns:.0} ns of CPU time a request, within 90 s; {count} gates");
    let (found, _, times_s) = gates(binary, added_ns, &["--budget", "90s"], count)?;
    let share = Spread::share(found, count).check(Bound::AtLeast(0.9));
    println!("  found: {found} of {count}; share {share}; seconds {times_s}");
    Ok(())
}

/// Records the logarithms of the ratios of equal builds in each repeat, a line for each figure.
fn record(binary: &Path, count: usize, file: &Path) -> anyhow::Result<()> {
    // Tolerances that no figure keeps make a gate use its whole budget.
    let limits = "p50=0.01%,p90=0.01%,cpu=0.01%,rate=off,memory=off,errors=off";
    let mut recorded: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for number in 1..=count {
        let report = gate(binary, 0, &["--limit", limits, "--budget", "90s"])?;
        println!("{number} of {count}: {}", report.sentence);
        for Figure { figure, pairs, .. } in report.figures {
            recorded.entry(figure).or_default().extend(pairs.iter().map(|[old, new]| (new / old).ln()));
        }
    }
    let mut text = String::new();
    for (figure, logs) in recorded {
        let logs: Vec<String> = logs.iter().map(|log| format!("{log:.4}")).collect();
        writeln!(text, "{figure} {}", logs.join(" "))?;
    }
    xtask::write(file, &text)
}
