//! How long a lab of five client hosts takes to come up, from the start of the command to what runs in it, and until nobody has any
//! of its namespaces any more. Needs root.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::{Bound, Spread, muxbench};

/// What coming up may take, in seconds.
const UP_S: f64 = 2.0;
/// When it is no longer waited for that it is gone.
const GONE_MAX: Duration = Duration::from_secs(60);
/// What networks are tried.
const CONDITIONS: &[(&str, &[&str])] =
    &[("nothing asked of the network", &[]), ("1 ms of delay, 1 % lost", &["--delay", "1ms", "--loss", "1%"])];

/// Runs `rounds` of each.
pub(super) fn run(rounds: usize) -> anyhow::Result<()> {
    let binary = muxbench()?;
    println!("a lab of five client hosts, in seconds, median of {rounds} rounds (least to most)");
    for (name, flags) in CONDITIONS {
        let (mut up_s, mut gone_s) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (up, gone) = once(&binary, flags)?;
            up_s.push(up.as_secs_f64());
            gone_s.push(gone.as_secs_f64());
        }
        println!("  {name}: up {}", Spread::of(up_s).to_reach(Bound::AtMost(UP_S)));
        println!("  {name}: gone {}", Spread::of(gone_s));
    }
    Ok(())
}

/// How long one took to come up, and to go.
fn once(binary: &Path, flags: &[&str]) -> anyhow::Result<(Duration, Duration)> {
    let mut command = Command::new(binary);
    command.args(["lab", "--network", "lab:clients=5"]).args(flags).args(["--", "sh", "-c", "echo up; read line"]);
    let started = Instant::now();
    let mut lab = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(lab.stdout.as_mut().context("it is piped")?).read_line(&mut line)?;
    let up = started.elapsed();
    if line != "up\n" {
        return Err(complaint(lab));
    }
    let made = namespaces(&lab.id().to_string());
    ensure!(made.len() >= 6, "hosts are to be seen: {made:?}");
    let ended = Instant::now();
    lab.stdin.take().context("it is piped")?.write_all(b"end\n")?;
    lab.wait()?;
    while !everybody_s().is_disjoint(&made) {
        ensure!(ended.elapsed() < GONE_MAX, "hosts are left: {made:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok((up, ended.elapsed()))
}

/// Why there is none.
fn complaint(lab: Child) -> anyhow::Error {
    match lab.wait_with_output() {
        Ok(output) => anyhow::anyhow!("no lab: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => error.into(),
    }
}

/// Network namespaces that a process keeps or is in, but for ours.
fn namespaces(process: &str) -> BTreeSet<String> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let kept = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    let links = kept.chain(fs::read_link(format!("/proc/{process}/ns/net")).ok());
    let names = links.map(|link| link.to_string_lossy().into_owned());
    let ours = fs::read_link("/proc/self/ns/net").unwrap_or_default();
    names.filter(|name| name.starts_with("net:[") && Path::new(name) != ours).collect()
}

/// Those of all processes.
fn everybody_s() -> BTreeSet<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().into_string().ok());
    processes
        .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
        .flat_map(|it| namespaces(&it))
        .collect()
}
