//! SEDA: the cost of its stages beside one thread, and its controllers beside static stages.

mod controllers;
mod primitives;

use std::path::Path;

use anyhow::Context;

use super::process::muxbench;
use super::results::{self, Row};
use super::spread::Spread;
use primitives::Primitives;
pub(super) use primitives::switch_us;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Seda {
    /// Checks, with commas: stages, pool, batch, admission
    #[arg(long, value_delimiter = ',', default_value = "stages,pool,batch,admission")]
    check: Vec<String>,
    /// Architectures of the check `stages`, with commas, the one to compare with first
    #[arg(long, value_delimiter = ',', default_value = "epoll,amped:1+2/epoll,seda:2+4/epoll,seda-s:2/epoll")]
    arch: Vec<String>,
    /// The window of each server, in seconds
    #[arg(long, default_value_t = 4)]
    seconds: u64,
}

/// The workloads of the check `stages`: nothing queues in the first; the second keeps the server busy.
const WORKLOADS: [(&str, &str); 2] = [
    ("2 000 requests/s over 100 connections", "--connections 100 --rate 2000"),
    ("a closed loop over 100 connections", "--connections 100 --schedule closed"),
];

/// The figures of one architecture in one round, per request.
#[derive(Clone, Copy)]
struct Figures {
    is_valid: bool,
    p50_us: f64,
    per_s: f64,
    cpu_us: f64,
    syscalls: f64,
    wakes: f64,
    voluntary: f64,
    involuntary: f64,
}

impl Figures {
    fn of(row: &Row) -> anyhow::Result<Self> {
        let missing = || format!("{}: {}, without all figures", row.architecture, row.verdict);
        let (cost, why) = row.cost.as_ref().zip(row.breakdown.as_ref()).with_context(missing)?;
        Ok(Self {
            is_valid: row.verdict == "valid",
            p50_us: row.service.as_ref().with_context(missing)?.p50_ns / 1e3,
            per_s: row.rate_achieved_per_s.with_context(missing)?,
            cpu_us: cost.cpu_ns_per_request / 1e3,
            syscalls: cost.syscalls_per_request.with_context(missing)?,
            wakes: why.syscalls_per_request.get("wake").copied().unwrap_or(0.0),
            voluntary: why.voluntary_switches_per_request,
            involuntary: why.involuntary_switches_per_request,
        })
    }
}

pub(super) fn run(count: usize, args: &Seda) -> anyhow::Result<()> {
    let binary = muxbench()?;
    for check in &args.check {
        match check.as_str() {
            "stages" => stages(&binary, count, args)?,
            "pool" => controllers::pool(count, args.seconds)?,
            "batch" => controllers::batch(count, args.seconds)?,
            "admission" => controllers::admission(count, args.seconds)?,
            unknown => anyhow::bail!("unknown --check `{unknown}`: use stages, pool, batch or admission"),
        }
    }
    Ok(())
}

/// Runs the architectures interleaved, and returns the figures of each.
fn compare(binary: &Path, args: &Seda, workload: &str) -> anyhow::Result<Vec<Figures>> {
    let (names, seconds) = (args.arch.join(","), args.seconds);
    let phases = format!("--ramp 300ms --warm-up 700ms --measure {seconds}s --repeats 1");
    let rows =
        results::compare(binary, &format!("--arch {names} --request 128B --response 128B {phases} {workload}"))?.rows;
    let figures = |name: &String| {
        let row = rows.iter().find(|row| row.architecture == *name);
        Figures::of(row.with_context(|| format!("no row for {name}"))?)
    };
    args.arch.iter().map(figures).collect()
}

/// Prints the cost of the stages as Markdown: totals per request, the difference to the first architecture, and the part of the
/// added CPU time that the added system calls and switches explain at the measured price of each.
fn stages(binary: &Path, count: usize, args: &Seda) -> anyhow::Result<()> {
    let prices = Primitives::measure(count)?;
    println!("{prices}");
    let base = &args.arch[0];
    for (name, workload) in WORKLOADS {
        let rounds = (0..count).map(|_| compare(binary, args, workload)).collect::<anyhow::Result<Vec<_>>>()?;
        println!("\n{name}, 128 B -> 128 B, interleaved; medians of {count} rounds (lowest to highest)\n");
        println!(
            "| architecture | valid rounds | p50 µs | requests/s | CPU µs a request | system calls a request | wake-up calls | \
             voluntary switches | involuntary switches | p50 above {base}'s, µs | CPU above {base}'s, µs | explained by system \
             calls, µs | by switches, µs | share explained |"
        );
        println!("|---|{}", "--:|".repeat(13));
        for (at, architecture) in args.arch.iter().enumerate() {
            let cell = |figure: &dyn Fn(&Figures, &Figures) -> f64| {
                Spread::of(rounds.iter().map(|round| figure(&round[at], &round[0])).collect()).to_string()
            };
            let syscalls_us = |it: &Figures, base: &Figures| (it.syscalls - base.syscalls) * prices.syscall_us();
            let switches_us = |it: &Figures, base: &Figures| (it.voluntary - base.voluntary) * prices.switch_us();
            let mut cells = vec![
                cell(&|it, _| it.p50_us),
                cell(&|it, _| it.per_s),
                cell(&|it, _| it.cpu_us),
                cell(&|it, _| it.syscalls),
                cell(&|it, _| it.wakes),
                cell(&|it, _| it.voluntary),
                cell(&|it, _| it.involuntary),
            ];
            if at > 0 {
                cells.extend([
                    cell(&|it, base| it.p50_us - base.p50_us),
                    cell(&|it, base| it.cpu_us - base.cpu_us),
                    cell(&syscalls_us),
                    cell(&switches_us),
                    cell(&|it, base| (syscalls_us(it, base) + switches_us(it, base)) / (it.cpu_us - base.cpu_us)),
                ]);
            }
            cells.resize(12, "-".into());
            let valid = rounds.iter().filter(|round| round[at].is_valid).count();
            println!("| `{architecture}` | {valid} | {} |", cells.join(" | "));
        }
    }
    Ok(())
}
