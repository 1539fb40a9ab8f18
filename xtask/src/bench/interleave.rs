//! Interleaved trials: noise of equal servers, found differences of known size, and agreement with separate trials.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use stats::{Interval, Ratio, Repeat};

use super::process::{comparison, comparisons, muxbench};
use super::results::{self, Comparison, compare};
use super::spread::{Bound, Spread, rounds};

/// Six contestants, with the placebo of the first.
const SIX: &str = "epoll,mt,mp,poll,select";
/// Eight contestants.
const EIGHT: &str = "epoll,epoll-et,io_uring,mt,mp,poll,select,tokio";
/// The phases of 20 s of load for six contestants, less the ramp, in an even number of repeats. Each second one reverses the order
/// in which the servers start.
const REPEATS: &str = "--repeats 8 --ramp 100ms --warm-up 100ms --measure 412ms";
/// The lengths of slices to compare. The first is the default for 2 000 requests/s.
const SLICES: [&str; 4] = ["2500us", "10ms", "20ms", "40ms"];
/// Added CPU time per request, in microseconds by the clock.
const ADDED_US: [u32; 3] = [2, 5, 10];

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Interleave {
    /// Checks, with commas: placebo, truth, agreement, slice, closed, order, idle
    #[arg(long, value_delimiter = ',', default_value = "placebo,truth,agreement,slice,closed,order,idle")]
    #[arg(value_parser = ["placebo", "truth", "agreement", "slice", "closed", "order", "idle"])]
    check: Vec<String>,
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
            _ => idle(&binary, count)?,
        }
    }
    Ok(())
}

/// The servers besides `epoll`.
fn others(servers: &'static str) -> impl Iterator<Item = &'static str> {
    servers.split(',').filter(|name| *name != "epoll")
}

/// Prints why a run gave no result. Callers count this as a miss.
fn known<T>(result: anyhow::Result<T>) -> Option<T> {
    result.inspect_err(|reason| println!("  no result: {reason:#}")).ok()
}

fn shown(ratio: Option<Ratio>) -> String {
    ratio.map_or("none".into(), results::shown)
}

/// Prints a share of runs or intervals, and counts a miss if it is too low.
fn print_share(what: &str, hits: usize, all: usize, min: f64) {
    println!("  {what}: {hits} of {all}; share {}", Spread::share(hits, all).check(Bound::AtLeast(min)));
}

fn placebo(binary: &Path, count: usize) -> anyhow::Result<()> {
    println!("placebo: epoll against itself among six servers, 400 connections, 2000 requests/s, 20 s; {count} runs");
    let (mut widths, mut hits) = (Vec::new(), 0);
    for _ in 0..count {
        let flags = format!("--arch {SIX} --placebo --connections 400 {REPEATS}");
        let interval = compare(binary, &flags)?.interval("epoll (placebo)", "epoll");
        let Some(interval) = known(interval) else { continue };
        println!("  {:.4} to {:.4}", interval.low, interval.high);
        widths.push(interval.half_width());
        hits += usize::from(interval.contains(1.0));
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
        "name = \"truth\"\nrepeats = 8\narchitectures = [{}]\n[workload]\nconnections = 400\nrate = 2000\nrequest = \"128B\"\n\
         response = \"10KiB\"\n[phases]\nramp = \"100ms\"\nwarm-up = \"100ms\"\nmeasure = \"700ms\"\n{tables}",
        names.join(", ")
    )
}

fn truth(binary: &Path, count: usize) -> anyhow::Result<()> {
    println!("truth: external epoll servers with added CPU time per request, 30 s; {count} runs");
    let mut hits = [[0; 2]; ADDED_US.len()];
    let mut same = 0;
    for _ in 0..count {
        let Some(added) = known(added_us(binary)) else { continue };
        same += usize::from(added[0].contains(0.0));
        for ((us, [excluded, held]), interval) in ADDED_US.iter().zip(&mut hits).zip(&added[1..]) {
            *excluded += usize::from(!interval.contains(0.0));
            *held += usize::from(interval.contains(f64::from(*us)));
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
    let comparison: Comparison = comparison(&mut command)?;
    let base_us = comparison.p50_ns("exec:base")? / 1e3;
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
        let of = |flags: &str| compare(binary, &format!("--arch {EIGHT} {workload} {flags}"));
        let interleaved = of("--repeats 8 --ramp 100ms --warm-up 200ms --measure 1100ms")?;
        let separate = of("--interleave never --repeats 10 --ramp 100ms --warm-up 200ms --measure 2s")?;
        println!("  {}", interleaved.title);
        for architecture in others(EIGHT) {
            let [a, b] = [&interleaved, &separate].map(|it| known(it.ratio(architecture, "epoll")));
            let distance = a.zip(b).map_or(f64::NAN, |(a, b)| (a.ratio / b.ratio - 1.0).abs());
            let distance = Spread::of(vec![distance]).check(Bound::AtMost(0.03));
            println!("    {architecture:10} {} / {}: distance {distance}", shown(a), shown(b));
        }
    }
    Ok(())
}

/// Compares ratios of ratios, of runs that take turns, because a slow change of the host changes all ratios.
fn slice(binary: &Path, count: usize) -> anyhow::Result<()> {
    let first = SLICES[0];
    println!(
        "slice: ratios to epoll with each slice, relative to those with {first}; 4 s each, in turn; {count} rounds"
    );
    let mut ratios = vec![[const { Vec::new() }; SLICES.len()]; others(SIX).count()];
    for round in 0..count as u32 {
        for (length, slice) in SLICES.iter().enumerate() {
            let flags = format!("--arch {SIX} --connections 400 --slice {slice} --repeats 1 --measure 800ms");
            let run = compare(binary, &format!("{flags} --ramp 100ms --warm-up 100ms"))?;
            for (architecture, ratios) in others(SIX).zip(&mut ratios) {
                let ratio = known(run.ratio(architecture, "epoll"));
                ratios[length].extend(ratio.map(|it| Repeat::new(round, it.ratio)));
            }
        }
    }
    let mut hits = 0;
    for (architecture, ratios) in others(SIX).zip(&ratios) {
        let interval = |(slice, of_slice): (&&str, &Vec<Repeat>)| {
            let found = Ratio::of(of_slice, &ratios[0]).and_then(|ratio| ratio.interval);
            let shown = found.map_or("none".into(), |it| format!("{:.3} to {:.3}", it.low, it.high));
            println!("  {architecture:10} {slice:6} {shown}");
            found
        };
        let intervals: Option<Vec<Interval>> = SLICES.iter().zip(ratios).skip(1).map(interval).collect();
        hits += usize::from(intervals.is_some_and(|all| {
            let (low, high) = (all.iter().map(|it| it.low), all.iter().map(|it| it.high));
            low.fold(0.0, f64::max) <= high.fold(f64::INFINITY, f64::min)
        }));
    }
    print_share("the intervals of an architecture overlap", hits, ratios.len(), 0.9);
    Ok(())
}

fn closed(binary: &Path, count: usize) -> anyhow::Result<()> {
    println!("closed loop: half-width of the rate ratio to epoll, 100 connections, five servers, 30 s; {count} runs");
    let mut widths = Vec::new();
    for _ in 0..count {
        let flags = format!(
            "--arch {SIX} --schedule closed --connections 100 --repeats 8 --ramp 100ms --warm-up 100ms --measure 700ms"
        );
        let comparison = compare(binary, &flags)?;
        for architecture in others(SIX) {
            let ratio = known(comparison.ratio(architecture, "epoll"));
            println!("  {architecture:10} {}", shown(ratio));
            let width = ratio.and_then(|ratio| Some(ratio.interval?.half_width() / ratio.ratio));
            widths.push(width.unwrap_or(f64::NAN));
        }
    }
    println!("  half-width / ratio {}", Spread::of(widths).check(Bound::AtMost(0.02)));
    Ok(())
}

fn order(binary: &Path, count: usize) -> anyhow::Result<()> {
    println!(
        "order: the default `compare`; `a < b`: b is significantly slower, or saturated while a is valid; {count} runs"
    );
    let run = || comparisons::<Comparison>(Command::new(binary).args(["compare", "--json", "--quiet"]));
    let runs = (0..count).map(|_| run()).collect::<anyhow::Result<Vec<_>>>()?;
    for at in 0..runs.iter().map(Vec::len).max().unwrap_or(0) {
        let orders: Vec<&Comparison> = runs.iter().filter_map(|run| run.get(at)).collect();
        orders.iter().for_each(|order| println!("  {}: {}", order.title, order.chain()));
        let count_of = |slower, faster| orders.iter().filter(|it| it.separates(slower, faster)).count();
        let is_turned = |(slower, faster)| count_of(faster, slower) > count_of(slower, faster);
        let agreeing = orders.iter().filter(|order| !order.separated().any(is_turned)).count();
        print_share("no pair is in another order than in most runs", agreeing, count, 0.9);
        identical(&orders);
        for slower in ["mt", "mp", "poll", "select"] {
            print_share(&format!("{slower} is slower than epoll"), count_of(slower, "epoll"), count, 0.9);
        }
    }
    Ok(())
}

/// Checks identical runs, each against the next: whether the intervals of their pairs overlap, and whether ratios or added times
/// are steadier.
fn identical(runs: &[&Comparison]) {
    let (mut overlapping, mut all) = ([0; 2], 0);
    for neighbours in runs.windows(2) {
        for (labels, _, intervals) in neighbours[0].intervals() {
            // The order of a pair is that of its run's ranking.
            let Some((_, _, others)) = neighbours[1].intervals().find(|it| it.0 == labels) else { continue };
            all += 1;
            for (hits, interval) in overlapping.iter_mut().zip(intervals.into_iter().zip(others)) {
                let (Some(one), Some(other)) = interval else { continue };
                *hits += usize::from(one.low <= other.high && other.low <= one.high);
            }
        }
    }
    print_share("intervals of ratios in successive runs overlap", overlapping[0], all, 0.9);
    print_share("intervals of added times in successive runs overlap", overlapping[1], all, 0.9);
    for slower in ["mt", "mp", "poll", "select", "tokio"] {
        let of: Vec<[f64; 2]> = runs
            .iter()
            .filter_map(|run| {
                let (_, [ratio, added_ns], _) = run.intervals().find(|it| it.0 == [slower, "epoll"])?;
                Some([ratio - 1.0, added_ns / 1e3])
            })
            .collect();
        let [excess, added_us] = [0, 1].map(|at| Spread::of(of.iter().map(|values| values[at]).collect()));
        println!("  {slower}: ratio - 1 {excess}; added µs {added_us}");
    }
}

fn idle(binary: &Path, count: usize) -> anyhow::Result<()> {
    println!("idle: idle CPUs that poll / that sleep, 400 connections, 2000 requests/s, 20 s each; {count} runs");
    let figures = |how: &str| {
        let flags = format!("--arch {SIX} --placebo --connections 400 --idle-cpus {how} {REPEATS}");
        let comparison = compare(binary, &flags)?;
        let epoll_ns = comparison.p50_ns("epoll")?;
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
