//! Time until a lab of five client hosts runs its command, and until its namespaces are gone. Needs root.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::process::muxbench;
use super::spread::{Bound, rounds};
use crate::child::wait_until;

/// Limit on the start time, in seconds.
const UP_S: f64 = 2.0;
/// Limit on the removal time.
const GONE_MAX: Duration = Duration::from_secs(60);
/// Networks: name and flags.
const CONDITIONS: &[(&str, &[&str])] =
    &[("no conditions", &[]), ("1 ms of delay, 1 % lost", &["--delay", "1ms", "--loss", "1%"])];

pub(super) fn run(count: usize) -> anyhow::Result<()> {
    let binary = muxbench()?;
    println!("a lab of five client hosts, in seconds, median of {count} rounds (lowest to highest)");
    for (name, flags) in CONDITIONS {
        let [up_s, gone_s] = rounds(count, || measure(&binary, flags))?;
        println!("  {name}: up {}", up_s.check(Bound::AtMost(UP_S)));
        println!("  {name}: gone {gone_s}");
    }
    Ok(())
}

/// Returns the times of the start and of the removal, in seconds.
fn measure(binary: &Path, flags: &[&str]) -> anyhow::Result<[f64; 2]> {
    let mut command = Command::new(binary);
    command.args(["lab", "--network", "lab:clients=5"]).args(flags).args(["--", "sh", "-c", "echo up; read line"]);
    let started = Instant::now();
    let mut lab = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(lab.stdout.as_mut().context("standard output is piped")?).read_line(&mut line)?;
    let up = started.elapsed();
    if line != "up\n" {
        bail!("the lab did not start: {}", String::from_utf8_lossy(&lab.wait_with_output()?.stderr));
    }
    let made = namespaces(&lab.id().to_string());
    ensure!(made.len() >= 6, "fewer than six namespaces: {made:?}");
    let ended = Instant::now();
    lab.stdin.take().context("standard input is piped")?.write_all(b"end\n")?;
    let status = lab.wait()?;
    ensure!(status.success(), "the lab failed ({status})");
    wait_until(&format!("{made:?} are gone"), GONE_MAX, || Ok(all_namespaces().is_disjoint(&made)))?;
    Ok([up, ended.elapsed()].map(|time| time.as_secs_f64()))
}

/// Returns the network namespaces that a process is in or has open, except ours.
fn namespaces(process: &str) -> BTreeSet<String> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let kept = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    let links = kept.chain(fs::read_link(format!("/proc/{process}/ns/net")).ok());
    let names = links.map(|link| link.to_string_lossy().into_owned());
    let ours = fs::read_link("/proc/self/ns/net").unwrap_or_default();
    names.filter(|name| name.starts_with("net:[") && Path::new(name) != ours).collect()
}

fn all_namespaces() -> BTreeSet<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().into_string().ok());
    processes
        .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
        .flat_map(|it| namespaces(&it))
        .collect()
}
