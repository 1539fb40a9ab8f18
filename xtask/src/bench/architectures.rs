//! Every architecture beside epoll under six workloads, interleaved. Prints the Markdown tables of docs/architectures.md.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;

use super::numbers::Numbers;
use super::process::muxbench;
use super::results::{Comparison, Row, compare, shown};
use crate::command;

/// A workload: its heading, its flags, and whether its connections end, so that servers cannot share a window. Closed loops compare
/// rates, open loops median service times.
type Workload = (&'static str, &'static str, bool);

const WORKLOADS: [Workload; 6] = [
    (
        "closed loop, 100 connections, 128 B → 128 B",
        "--schedule closed --connections 100 --request 128B --response 128B",
        false,
    ),
    (
        // The client is the limit of smaller responses.
        "closed loop, 100 connections, 16 requests at once, 128 B → 1 KiB",
        "--schedule closed --connections 100 --pipeline 16 --request 128B --response 1KiB",
        false,
    ),
    ("closed loop, 10 connections, 128 B → 256 KiB", "--schedule closed --connections 10 --response 256KiB", false),
    ("400 connections, 2 000 requests/s, 128 B → 10 KiB", "--connections 400 --rate 2000", false),
    ("5 000 connections, 2 000 requests/s, 128 B → 128 B", "--connections 5000 --rate 2000 --response 128B", false),
    (
        "a connection for each request, 1 000 a second, 128 B → 128 B",
        "--requests-per-connection 1 --connections 100 --rate 1000 --response 128B",
        true,
    ),
];

/// The architecture beside which all others run.
pub(super) const BASE: &str = "epoll";
/// The most architectures beside it in one comparison: twelve can share a window.
const BESIDE_MAX: usize = 11;
/// Parts of the names of servers that use a CPU while they wait. They share no window.
const SPINNING: [&str; 2] = ["spin", "sqpoll"];
/// Repeats of each comparison. An interval needs three.
pub(super) const ROUNDS: usize = 3;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Architectures {
    /// Architectures, with commas; `io_uring*` for all whose names begin so [default: all of `muxbench list` that run here]
    #[arg(long, value_delimiter = ',', default_value = "*")]
    arch: Vec<String>,
    /// Workloads, as in 1-3,6
    #[arg(long, default_value = "1-6")]
    workload: Numbers,
    /// Seconds of load of each architecture in each round
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
}

pub(super) fn run(count: usize, args: &Architectures) -> anyhow::Result<()> {
    let binary = muxbench()?;
    let names = named(&args.arch, &all(&binary)?);
    let mut overview: Vec<Vec<String>> = names.iter().map(|name| vec![format!("`{name}`")]).collect();
    let workloads = args.workload.choose(&WORKLOADS)?;
    for &(number, &(heading, flags, is_separate)) in &workloads {
        println!("\n### {number}. {heading}\n\n`muxbench compare {flags} --arch all`, {count} repeats\n");
        println!(
            "| architecture | valid repeats | beside `{BASE}` | requests/s | p50 µs | p99 µs | CPU µs a request | system calls a \
             request | switches a request |\n|---|{}",
            "--:|".repeat(8)
        );
        for (at, beside) in comparisons(&names, is_separate).into_iter().enumerate() {
            let flags = format!(
                "--arch {BASE},{} {flags} --repeats {count} --ramp 300ms --warm-up 700ms --measure {:.0}ms",
                beside.join(","),
                1e3 * args.seconds
            );
            let comparison = compare(&binary, &flags)?;
            let is_new = |row: &&Row| at == 0 || row.architecture != BASE;
            comparison.rows.iter().filter(is_new).for_each(|row| println!("{}", line(&comparison, row)));
            for (name, cells) in names.iter().zip(&mut overview).filter(|(name, _)| beside.contains(name)) {
                let row = comparison.rows.iter().find(|row| row.architecture == *name);
                cells.push(row.map_or("-".into(), |row| ratio(&comparison, row)));
            }
        }
    }
    println!("\n{}", table(&workloads, overview));
    Ok(())
}

/// Divides the architectures into comparisons with [`BASE`], of about equal size.
fn comparisons(names: &[String], is_separate: bool) -> Vec<Vec<String>> {
    let spins = |name: &&String| is_separate || SPINNING.iter().any(|part| name.contains(part));
    let (alone, sharing): (Vec<&String>, Vec<&String>) = names.iter().partition(spins);
    let groups = sharing.len().div_ceil(BESIDE_MAX).max(1);
    let sharing = sharing.chunks(sharing.len().div_ceil(groups).max(1));
    let all = sharing.chain([&alone[..]]).filter(|names| !names.is_empty());
    all.map(|names| names.iter().copied().cloned().collect()).collect()
}

/// The ratio to [`BASE`] with its interval, or the verdict.
fn ratio(comparison: &Comparison, row: &Row) -> String {
    comparison.ratio(&row.architecture, BASE).map_or_else(|_| row.verdict.clone(), shown)
}

/// The row of the Markdown table.
fn line(comparison: &Comparison, row: &Row) -> String {
    let number = |value: Option<f64>, digits| value.map_or("-".into(), |value| format!("{value:.digits$}"));
    let (service, cost) = (row.service.as_ref(), row.cost.as_ref());
    let cells = [
        format!("{} of {}", row.repeats_valid, row.repeats),
        if row.architecture == BASE { "1".into() } else { ratio(comparison, row) },
        number(row.rate_achieved_per_s, 0),
        number(service.map(|it| it.p50_ns / 1e3), 1),
        number(service.map(|it| it.p99_ns / 1e3), 1),
        number(cost.map(|it| it.cpu_ns_per_request / 1e3), 2),
        number(cost.and_then(|it| it.syscalls_per_request), 2),
        number(cost.and_then(|it| it.switches_per_request), 3),
    ];
    format!("| `{}` | {} |", row.architecture, cells.join(" | "))
}

/// The table of all ratios: a row for each architecture, a column for each workload.
fn table(workloads: &[(usize, &Workload)], rows: Vec<Vec<String>>) -> String {
    let mut text = format!("### All ratios to `{BASE}`\n\n| architecture |");
    for (number, (_, flags, _)) in workloads {
        let better = if flags.contains("closed") { "rate" } else { "p50" };
        let _ = write!(text, " {number}, {better} |");
    }
    text += &format!("\n|---|{}", "--:|".repeat(workloads.len()));
    for row in rows {
        text += &format!("\n| {} |", row.join(" | "));
    }
    text
}

/// Returns the architectures that these patterns name, without [`BASE`]. A name that nobody knows is left to `compare`.
pub(super) fn named(patterns: &[String], all: &[String]) -> Vec<String> {
    let of = |pattern: &String| match pattern.strip_suffix('*') {
        Some(start) => all.iter().filter(|name| name.starts_with(start)).cloned().collect(),
        None => vec![pattern.clone()],
    };
    patterns.iter().flat_map(of).filter(|name| name != BASE).collect()
}

/// The names of all architectures that can run here.
pub(super) fn all(binary: &Path) -> anyhow::Result<Vec<String>> {
    #[derive(Deserialize)]
    struct List {
        architectures: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
        not_here: Option<String>,
    }
    let text = command::output(Command::new(binary).args(["list", "--json"]))?;
    let list: List = serde_json::from_str(&text).context("`muxbench list --json`")?;
    let here = list.architectures.into_iter().filter(|it| it.not_here.is_none());
    Ok(here.map(|it| it.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn spinning_servers_and_short_connections_share_no_window() {
        let all = names(&["io_uring", "io_uring-sqpoll", "poll"]);
        let expected = [names(&["io_uring", "poll"]), names(&["io_uring-sqpoll"])];
        assert_eq!(comparisons(&all, false), expected);
        assert_eq!(comparisons(&all, true), [all]);
        let many: Vec<String> = (0..12).map(|at| at.to_string()).collect();
        let sizes: Vec<usize> = comparisons(&many, false).iter().map(Vec::len).collect();
        assert_eq!(sizes, [6, 6]);
    }

    #[test]
    fn pattern_selects_all_names_that_begin_so() {
        let all = names(&["epoll", "epoll-et", "io_uring", "io_uring-zc"]);
        assert_eq!(named(&names(&["io_uring*", "epoll", "x"]), &all), ["io_uring", "io_uring-zc", "x"]);
        assert_eq!(named(&names(&["*"]), &all), ["epoll-et", "io_uring", "io_uring-zc"]);
    }
}
