//! Every architecture beside epoll under six workloads, interleaved. Prints the Markdown tables of docs/architectures.md.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::interleave::{Comparison, Row, compare};
use super::process::muxbench;

/// Heading and flags of each workload. Closed loops compare rates, open loops median service times.
const WORKLOADS: [(&str, &str); 6] = [
    (
        "closed loop, 100 connections, 128 B → 128 B",
        "--schedule closed --connections 100 --request 128B --response 128B",
    ),
    (
        "closed loop, 100 connections, 16 requests at once, 128 B → 128 B",
        "--schedule closed --connections 100 --pipeline 16 --request 128B --response 128B",
    ),
    ("closed loop, 10 connections, 128 B → 256 KiB", "--schedule closed --connections 10 --response 256KiB"),
    ("400 connections, 2 000 requests/s, 128 B → 10 KiB", "--connections 400 --rate 2000"),
    ("5 000 connections, 2 000 requests/s, 128 B → 128 B", "--connections 5000 --rate 2000 --response 128B"),
    (
        "a connection for each request, 1 000 a second, 128 B → 128 B",
        "--requests-per-connection 1 --connections 100 --rate 1000 --response 128B",
    ),
];

/// The architecture beside which all others run.
const BASE: &str = "epoll";
/// The most architectures beside it in one comparison: twelve can share a window.
const BESIDE_MAX: usize = 11;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Architectures {
    /// Architectures, with commas [default: all of `muxbench list`]
    #[arg(long, value_delimiter = ',')]
    arch: Vec<String>,
    /// Workloads, with commas: numbers from 1
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5,6")]
    workload: Vec<usize>,
    /// Seconds of load of each architecture in each round
    #[arg(long, default_value_t = 2)]
    seconds: u64,
}

pub(super) fn run(count: usize, args: &Architectures) -> anyhow::Result<()> {
    let binary = muxbench()?;
    let mut names = if args.arch.is_empty() { all(&binary)? } else { args.arch.clone() };
    names.retain(|name| name != BASE);
    for number in &args.workload {
        let workload = number.checked_sub(1).and_then(|at| WORKLOADS.get(at));
        let (heading, flags) =
            workload.with_context(|| format!("no workload {number}: use 1 to {}", WORKLOADS.len()))?;
        println!("\n### {heading}\n\n`muxbench compare {flags} --arch {BASE},...`, {count} repeats\n");
        println!(
            "| architecture | valid repeats | beside `{BASE}` | requests/s | p50 µs | p99 µs | CPU µs a request | system calls a \
             request | switches a request |\n|---|{}",
            "--:|".repeat(8)
        );
        for (at, beside) in names.chunks(BESIDE_MAX).enumerate() {
            let window_s = args.seconds * (beside.len() as u64 + 1);
            let flags = format!(
                "--arch {BASE},{} {flags} --repeats {count} --ramp 300ms --warm-up 700ms --measure {window_s}s",
                beside.join(",")
            );
            let comparison = compare(&binary, &flags)?.pop().context("no comparison")?;
            let is_new = |row: &&Row| at == 0 || row.architecture != BASE;
            comparison.rows.iter().filter(is_new).for_each(|row| println!("{}", line(&comparison, row)));
        }
    }
    Ok(())
}

/// The row of the Markdown table.
fn line(comparison: &Comparison, row: &Row) -> String {
    let ratio = match comparison.ratio(&row.architecture, BASE) {
        _ if row.architecture == BASE => "1".into(),
        Ok(ratio) => ratio.to_string(),
        Err(_) => row.verdict.clone(),
    };
    let number = |value: Option<f64>, digits| value.map_or("-".into(), |value| format!("{value:.digits$}"));
    let (service, cost) = (row.service.as_ref(), row.cost.as_ref());
    let cells = [
        format!("{} of {}", row.repeats_valid, row.repeats),
        ratio,
        number(row.rate_achieved_per_s, 0),
        number(service.map(|it| it.p50_ns / 1e3), 1),
        number(service.map(|it| it.p99_ns / 1e3), 1),
        number(cost.map(|it| it.cpu_ns_per_request / 1e3), 2),
        number(cost.and_then(|it| it.syscalls_per_request), 2),
        number(cost.and_then(|it| it.switches_per_request), 3),
    ];
    format!("| `{}` | {} |", row.architecture, cells.join(" | "))
}

/// The names of all architectures.
fn all(binary: &Path) -> anyhow::Result<Vec<String>> {
    #[derive(Deserialize)]
    struct List {
        architectures: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let output = Command::new(binary).args(["list", "--json"]).output().context("cannot run `muxbench list`")?;
    ensure!(output.status.success(), "`muxbench list --json`: {}", output.status);
    let list: List = serde_json::from_slice(&output.stdout).context("`muxbench list --json`")?;
    Ok(list.architectures.into_iter().map(|it| it.name).collect())
}
