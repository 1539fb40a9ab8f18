//! Interleaved trials: noise of equal servers, found differences of known size, and agreement with separate trials.

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;

use super::process::{comparisons, muxbench};
use super::spread::{Bound, Spread, rounds};

/// Six contestants, with the placebo of the first.
const SIX: &str = "epoll,mt,mp,poll,select";
/// Eight contestants.
const EIGHT: &str = "epoll,epoll-et,io_uring,mt,mp,poll,select,tokio";
/// The phases of 20 s of load for six contestants, less the ramp.
const PHASES: &str = "--ramp 100ms --warm-up 200ms --measure 3300ms";
/// As long, in an even number of repeats. Each second one reverses the order in which the servers start.
const REPEATS: &str = "--repeats 4 --ramp 100ms --warm-up 100ms --measure 825ms";
/// The lengths of slices to compare. The first is the default for 2 000 requests/s.
const SLICES: [&str; 4] = ["2500us", "10ms", "20ms", "40ms"];
/// Added CPU time per request, in microseconds by the clock.
const ADDED_US: [u32; 3] = [2, 5, 10];

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Interleave {
    /// Checks, with commas: placebo, truth, agreement, slice, closed, order, idle
    #[arg(long, value_delimiter = ',', default_value = "placebo,truth,agreement,slice,closed,order,idle")]
    check: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Comparison {
    title: String,
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
struct Estimate {
    value: f64,
}

#[derive(Deserialize)]
struct Pair {
    architecture: String,
    base: String,
    ratio: Ratio,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Ratio {
    ratio: f64,
    interval: Option<Interval>,
    /// The p value, corrected for all pairs of the table.
    p_family: Option<f64>,
}

#[derive(Clone, Copy, Deserialize)]
struct Interval {
    low: f64,
    high: f64,
}

impl Interval {
    fn half_width(self) -> f64 {
        (self.high - self.low) / 2.0
    }

    fn holds(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.interval {
            Some(interval) => write!(f, "{:.3} ({:.3} to {:.3})", self.ratio, interval.low, interval.high),
            None => write!(f, "{:.3}", self.ratio),
        }
    }
}

impl Comparison {
    /// The labels of the rows with this verdict.
    fn labels(&self, verdict: &'static str) -> impl Iterator<Item = &str> {
        self.rows.iter().filter(move |row| row.verdict == verdict).map(|row| row.label.as_str())
    }

    /// The pairs of servers of which one is known to be slower, the slower one first: they differ significantly, or one is saturated
    /// and the other valid. Saturated servers miss the rate, and have no ratios.
    fn separated(&self) -> impl Iterator<Item = (&str, &str)> {
        let differ = self.pairs.iter().filter(|pair| pair.ratio.p_family.is_some_and(|p| p <= 0.05));
        let differ = differ.map(|pair| match pair.ratio.ratio > 1.0 {
            true => (pair.architecture.as_str(), pair.base.as_str()),
            false => (pair.base.as_str(), pair.architecture.as_str()),
        });
        let saturated = self.labels("saturated");
        differ.chain(saturated.flat_map(move |slower| self.labels("valid").map(move |faster| (slower, faster))))
    }

    fn separates(&self, slower: &str, faster: &str) -> bool {
        self.separated().any(|it| it == (slower, faster))
    }

    /// Returns the servers in order, with `<` between neighbours of which the second is known to be slower, and `=` between others.
    fn chain(&self) -> String {
        let mut chain = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            let sign = |faster: &Row| if self.separates(&row.label, &faster.label) { " < " } else { " = " };
            chain += at.checked_sub(1).map_or("", |at| sign(&self.rows[at]));
            chain += &row.label;
        }
        chain
    }

    /// The ratio of one server to another.
    pub(super) fn ratio(&self, architecture: &str, base: &str) -> anyhow::Result<Ratio> {
        let pair = |one: &str, other: &str| self.pairs.iter().find(|it| it.architecture == one && it.base == other);
        let inverse = |it: &Pair| Ratio {
            ratio: 1.0 / it.ratio.ratio,
            interval: it.ratio.interval.map(|it| Interval { low: 1.0 / it.high, high: 1.0 / it.low }),
            ..it.ratio
        };
        let ratio = pair(architecture, base).map(|it| it.ratio).or_else(|| pair(base, architecture).map(inverse));
        ratio.with_context(|| {
            let rows = self.rows.iter().filter(|row| !row.reasons.is_empty());
            let reasons: Vec<String> = rows.map(|row| format!("{}: {}", row.label, row.reasons.join("; "))).collect();
            format!("{}: no ratio of {architecture} to {base}; {}", self.title, reasons.join("; "))
        })
    }

    fn interval(&self, architecture: &str, base: &str) -> anyhow::Result<Interval> {
        self.ratio(architecture, base)?.interval.with_context(|| format!("{architecture} to {base}: no interval"))
    }
}

pub(super) fn run(count: usize, args: &Interleave) -> anyhow::Result<()> {
    let binary = muxbench()?;
    for check in &args.check {
        match check.as_str() {
            "placebo" => placebo(&binary, count)?,
            "truth" => truth(&binary, count)?,
            "agreement" => agreement(&binary)?,
            "slice" => slice(&binary, count)?,
            "closed" => closed(&binary, count)?,
            "order" => order(&binary, count)?,
            "idle" => idle(&binary, count)?,
            unknown => {
                anyhow::bail!(
                    "unknown --check `{unknown}`: use placebo, truth, agreement, slice, closed, order or idle"
                )
            }
        }
    }
    Ok(())
}

/// Runs `compare` with these flags, and returns its comparisons.
pub(super) fn compare(binary: &Path, flags: &str) -> anyhow::Result<Vec<Comparison>> {
    comparisons(Command::new(binary).args(["compare", "--json", "--quiet"]).args(flags.split_whitespace()))
}

fn only(mut comparisons: Vec<Comparison>) -> anyhow::Result<Comparison> {
    comparisons.pop().context("no comparison")
}

/// Prints why a run gave no result, which then counts as a miss.
fn known<T>(result: anyhow::Result<T>) -> Option<T> {
    result.inspect_err(|reason| println!("  no result: {reason:#}")).ok()
}

/// Prints a share of runs, and counts a miss if it is too low.
fn print_share(what: &str, hits: usize, all: usize, min: f64) {
    println!(
        "  {what}: {hits} of {all} runs; share {}",
        Spread::of(vec![hits as f64 / all as f64]).check(Bound::AtLeast(min))
    );
}

fn placebo(binary: &Path, count: usize) -> anyhow::Result<()> {
    println!("placebo: epoll against itself among six servers, 400 connections, 2000 requests/s, 20 s; {count} runs");
    let (mut widths, mut hits) = (Vec::new(), 0);
    for _ in 0..count {
        let flags = format!("--arch {SIX} --placebo --connections 400 {REPEATS}");
        let interval = only(compare(binary, &flags)?)?.interval("epoll (placebo)", "epoll");
        let Some(interval) = known(interval) else { continue };
        println!("  {:.4} to {:.4}", interval.low, interval.high);
        widths.push(interval.half_width());
        hits += usize::from(interval.holds(1.0));
    }
    println!("  half-width of the interval of the p50 ratio {}", Spread::of(widths).check(Bound::AtMost(0.015)));
    print_share("the interval holds 1", hits, count, 0.9);
    Ok(())
}

/// An experiment of external servers: two equal ones, and three with more CPU time per request.
fn servers_with_added_time(binary: &Path) -> String {
    let servers = [("base", 0), ("same", 0)].into_iter().map(|(name, us)| (name.to_owned(), us));
    let servers: Vec<(String, u32)> = servers.chain(ADDED_US.map(|us| (format!("plus{us}"), us))).collect();
    let names: Vec<String> = servers.iter().map(|(name, _)| format!("\"exec:{name}\"")).collect();
    let table = |(name, us): &(String, u32)| {
        // Servers without added time read the clock too, so that only the added time differs.
        let work = if *us == 0 { "1ns".to_owned() } else { format!("{us}us") };
        format!(
            "[exec.{name}]\ncommand = [{:?}, \"serve\", \"--arch\", \"epoll\", \"--listen\", \"127.0.0.1:{{port}}\", \
             \"--request\", \"128B\", \"--response\", \"10KiB\", \"--simulated-work\", \"busy={work}\"]\n",
            binary.display().to_string()
        )
    };
    let tables: String = servers.iter().map(table).collect();
    format!(
        "name = \"truth\"\narchitectures = [{}]\n[workload]\nconnections = 400\nrate = 2000\nrequest = \"128B\"\n\
         response = \"10KiB\"\n[phases]\nramp = \"100ms\"\nwarm-up = \"300ms\"\nmeasure = \"5600ms\"\n{tables}",
        names.join(", ")
    )
}

fn truth(binary: &Path, count: usize) -> anyhow::Result<()> {
    println!("truth: external epoll servers with added CPU time per request, 30 s; {count} runs");
    let mut hits = [[0; 2]; ADDED_US.len()];
    let mut same = 0;
    for _ in 0..count {
        let Some(added) = known(added_us(binary)) else { continue };
        same += usize::from(added[0].holds(0.0));
        for ((us, [excluded, held]), interval) in ADDED_US.iter().zip(&mut hits).zip(&added[1..]) {
            *excluded += usize::from(!interval.holds(0.0));
            *held += usize::from(interval.holds(f64::from(*us)));
        }
    }
    print_share("the interval of the equal server holds 0", same, count, 0.9);
    for (us, [excluded, held]) in ADDED_US.iter().zip(hits) {
        print_share(&format!("+{us} µs: the interval excludes 0"), excluded, count, 1.0);
        print_share(&format!("+{us} µs: the interval holds {us} µs"), held, count, 0.9);
    }
    Ok(())
}

/// Prints the found differences of the servers' medians to the first server's, and returns their intervals, in microseconds.
fn added_us(binary: &Path) -> anyhow::Result<Vec<Interval>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("truth.toml");
    std::fs::write(&file, servers_with_added_time(binary))?;
    let mut command = Command::new(binary);
    command.arg("run").arg(&file).args(["--allow-exec", "--json", "--quiet"]);
    let comparison = only(comparisons(&mut command)?)?;
    let base = comparison.rows.iter().find(|row| row.label == "exec:base").and_then(|row| row.service_p50_ns.as_ref());
    let base_us = base.context("exec:base: no p50")?.value / 1e3;
    let us = |ratio: f64| (ratio - 1.0) * base_us;
    let mut line = format!("  base {base_us:.1} µs");
    let mut intervals = Vec::new();
    for name in ["same".to_owned()].into_iter().chain(ADDED_US.map(|us| format!("plus{us}"))) {
        let ratio = comparison.ratio(&format!("exec:{name}"), "exec:base")?;
        let interval = ratio.interval.context("no interval")?;
        let interval = Interval { low: us(interval.low), high: us(interval.high) };
        line += &format!("  {name} {:+.2} ({:.2} to {:.2})", us(ratio.ratio), interval.low, interval.high);
        intervals.push(interval);
    }
    println!("{line}");
    Ok(intervals)
}

fn agreement(binary: &Path) -> anyhow::Result<()> {
    println!("agreement: ratio to epoll, interleaved / in ten separate repeats of 2 s that alternate; limit 3 %");
    for workload in [
        "--connections 400 --rate 2000",
        "--connections 400 --rate 8000 --request 1B --response 1B",
        "--connections 2000 --rate 1000",
    ] {
        let of = |flags: &str| only(compare(binary, &format!("--arch {EIGHT} {workload} {flags}"))?);
        let interleaved = of("--repeats 3 --ramp 100ms --warm-up 200ms --measure 3s")?;
        let separate = of("--interleave never --repeats 10 --ramp 100ms --warm-up 200ms --measure 2s")?;
        println!("  {}", interleaved.title);
        for architecture in EIGHT.split(',').filter(|it| *it != "epoll") {
            let [a, b] = [&interleaved, &separate].map(|it| it.ratio(architecture, "epoll"));
            let (Some(a), Some(b)) = (known(a), known(b)) else { continue };
            let distance = Spread::of(vec![(a.ratio / b.ratio - 1.0).abs()]);
            println!("    {architecture:10} {a} / {b}: distance {}", distance.check(Bound::AtMost(0.03)));
        }
    }
    Ok(())
}

fn slice(binary: &Path, count: usize) -> anyhow::Result<()> {
    println!("slice: ratios to epoll with slices of {}, 20 s each; {count} runs", SLICES.join(", "));
    let mut hits = 0;
    for _ in 0..count {
        let of = |slice: &&str| {
            let flags = format!("--arch {SIX} --connections 400 --repeats 1 --slice {slice} {PHASES}");
            only(compare(binary, &flags)?)
        };
        let runs = SLICES.iter().map(of).collect::<anyhow::Result<Vec<_>>>()?;
        let mut agree = true;
        for architecture in SIX.split(',').filter(|it| *it != "epoll") {
            let intervals = runs.iter().map(|run| run.interval(architecture, "epoll")).collect();
            let intervals: Option<Vec<Interval>> = known(intervals);
            let Some(intervals) = intervals else {
                agree = false;
                continue;
            };
            let shown: Vec<String> = intervals.iter().map(|it| format!("{:.3} to {:.3}", it.low, it.high)).collect();
            println!("  {architecture:10} {}", shown.join("; "));
            let (low, high) = (intervals.iter().map(|it| it.low), intervals.iter().map(|it| it.high));
            agree &= low.fold(0.0, f64::max) <= high.fold(f64::INFINITY, f64::min);
        }
        hits += usize::from(agree);
    }
    print_share("all intervals overlap", hits, count, 0.9);
    Ok(())
}

fn closed(binary: &Path, count: usize) -> anyhow::Result<()> {
    println!("closed loop: half-width of the rate ratio to epoll, 100 connections, five servers, 30 s; {count} runs");
    let mut widths = Vec::new();
    for _ in 0..count {
        let flags = format!(
            "--arch {SIX} --schedule closed --connections 100 --repeats 1 --ramp 100ms --warm-up 300ms --measure 5600ms"
        );
        let comparison = only(compare(binary, &flags)?)?;
        for architecture in SIX.split(',').filter(|it| *it != "epoll") {
            let Some(ratio) = known(comparison.ratio(architecture, "epoll")) else { continue };
            let interval = ratio.interval.context("no interval")?;
            println!("  {architecture:10} {:.3} ({:.3} to {:.3})", ratio.ratio, interval.low, interval.high);
            widths.push(interval.half_width() / ratio.ratio);
        }
    }
    println!("  half-width / ratio {}", Spread::of(widths).check(Bound::AtMost(0.02)));
    Ok(())
}

fn order(binary: &Path, count: usize) -> anyhow::Result<()> {
    println!(
        "order: the default `compare`; `a < b`: b is significantly slower, or saturated while a is valid; {count} runs"
    );
    let runs = (0..count).map(|_| compare(binary, "")).collect::<anyhow::Result<Vec<_>>>()?;
    for at in 0..runs.iter().map(Vec::len).max().unwrap_or(0) {
        let orders: Vec<&Comparison> = runs.iter().filter_map(|run| run.get(at)).collect();
        orders.iter().for_each(|order| println!("  {}: {}", order.title, order.chain()));
        let count_of = |slower, faster| orders.iter().filter(|it| it.separates(slower, faster)).count();
        let is_turned = |(slower, faster)| count_of(faster, slower) > count_of(slower, faster);
        let agreeing = orders.iter().filter(|order| !order.separated().any(is_turned)).count();
        print_share("no pair is in another order than in most runs", agreeing, count, 0.9);
        for slower in ["mt", "mp", "poll", "select"] {
            print_share(&format!("{slower} is slower than epoll"), count_of(slower, "epoll"), count, 0.9);
        }
    }
    Ok(())
}

fn idle(binary: &Path, count: usize) -> anyhow::Result<()> {
    println!("idle: idle CPUs that poll / that sleep, 400 connections, 2000 requests/s, 20 s each; {count} runs");
    let figures = |how: &str| {
        let flags = format!("--arch {SIX} --placebo --connections 400 --repeats 1 --idle-cpus {how} {PHASES}");
        let comparison = only(compare(binary, &flags)?)?;
        let epoll = comparison.rows.iter().find(|row| row.label == "epoll").and_then(|row| row.service_p50_ns.as_ref());
        let epoll_ns = epoll.context("epoll: no p50")?.value;
        let added_ns = (comparison.ratio("mt", "epoll")?.ratio - 1.0) * epoll_ns;
        anyhow::Ok([epoll_ns, added_ns, comparison.interval("epoll (placebo)", "epoll")?.half_width()])
    };
    let [p50, added, width] = rounds(count, || {
        let (poll, sleep) = (figures("poll")?, figures("sleep")?);
        Ok(std::array::from_fn(|at| poll[at] / sleep[at]))
    })?;
    println!("  epoll's p50 {p50}; what mt adds to it {added}; half-width of the placebo's interval {width}");
    Ok(())
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
