//! How long it takes to bring together what five ranks saw: their samples over loopback, merged and stored, beside what merging
//! and storing the same takes where nothing has to be brought.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::{Bound, Spread};
use xtask::root;

/// What it may take, in seconds.
const GATHERED_S: f64 = 10.0;

/// Runs `rounds`.
pub(super) fn run(rounds: usize, samples: u64) -> anyhow::Result<()> {
    let mut example = Command::new(env!("CARGO"));
    example.args(["run", "--quiet", "--release", "--package", "muxbench-harness", "--example", "gather", "--"]);
    example.args([samples.to_string(), rounds.to_string()]).current_dir(root());
    let output = example.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "nothing was gathered ({})", output.status);
    let (mut gather_s, mut merge_s, mut all_s, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let said: serde_json::Value = serde_json::from_str(line).with_context(|| format!("`{line}` is no JSON"))?;
        let figure = |name: &str| said[name].as_f64().with_context(|| format!("no {name} in `{line}`"));
        let (gather, merge) = (figure("gather_s")?, figure("merge_s")?);
        gather_s.push(gather);
        merge_s.push(merge);
        all_s.push(gather + merge);
        ratios.push((gather + merge) / figure("alone_s")?);
    }
    ensure!(all_s.len() == rounds, "{} rounds of {rounds}", all_s.len());
    let [gather_s, merge_s, all_s, ratio] = [gather_s, merge_s, all_s, ratios].map(Spread::of);
    println!("{samples} samples of 5 ranks, median of {rounds} rounds (least to most)");
    println!("  collected {gather_s} s, merged and stored {merge_s} s");
    println!("  all of it in seconds {}", all_s.to_reach(Bound::AtMost(GATHERED_S)));
    println!("  against merging and storing the same in one process: {ratio}");
    Ok(())
}
