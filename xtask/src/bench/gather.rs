//! Time to collect samples of five workers over loopback, and to merge and store them, against merging and storing
//! the same samples locally.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use xtask::root;

use super::spread::{Bound, Spread};

/// Time limit in seconds.
const LIMIT_S: f64 = 10.0;

pub(super) fn run(rounds: usize, samples: u64) -> anyhow::Result<()> {
    let mut example = Command::new(env!("CARGO"));
    example.args(["run", "--quiet", "--release", "--package", "muxbench-harness", "--example", "gather", "--"]);
    example.args([samples.to_string(), rounds.to_string()]).current_dir(root());
    let output = example.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "the example `gather` failed ({})", output.status);
    let (mut gather_s, mut merge_s, mut all_s, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let figures: serde_json::Value = serde_json::from_str(line).with_context(|| format!("`{line}` is not JSON"))?;
        let figure = |name: &str| figures[name].as_f64().with_context(|| format!("no {name} in `{line}`"));
        let (gather, merge) = (figure("gather_s")?, figure("merge_s")?);
        gather_s.push(gather);
        merge_s.push(merge);
        all_s.push(gather + merge);
        ratios.push((gather + merge) / figure("alone_s")?);
    }
    ensure!(all_s.len() == rounds, "{} rounds instead of {rounds}", all_s.len());
    let [gather_s, merge_s, all_s, ratio] = [gather_s, merge_s, all_s, ratios].map(Spread::of);
    println!("{samples} samples of 5 workers, median of {rounds} rounds (lowest to highest)");
    println!("  collected {gather_s} s, merged and stored {merge_s} s");
    println!("  total in seconds {}", all_s.check(Bound::AtMost(LIMIT_S)));
    println!("  total / merging and storing in one process {ratio}");
    Ok(())
}
