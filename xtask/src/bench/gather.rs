//! Time to collect, merge and store samples of five workers, against merging and storing the same samples locally.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use xtask::root;

use super::spread::{Bound, rounds};

const LIMIT_S: f64 = 10.0;

pub(super) fn run(count: usize, samples: u64) -> anyhow::Result<()> {
    let mut example = Command::new(env!("CARGO"));
    example.args(["run", "--quiet", "--release", "--package", "muxbench-harness", "--example", "gather", "--"]);
    example.args([samples.to_string(), count.to_string()]).current_dir(root());
    let output = example.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "the example `gather` failed ({})", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let [gather_s, merge_s, all_s, ratio] = rounds(count, || {
        let line = lines.next().with_context(|| format!("the example printed fewer than {count} rounds"))?;
        let figures: serde_json::Value = serde_json::from_str(line).with_context(|| format!("`{line}` is not JSON"))?;
        let figure = |name: &str| figures[name].as_f64().with_context(|| format!("no {name} in `{line}`"));
        let (gather, merge) = (figure("gather_s")?, figure("merge_s")?);
        Ok([gather, merge, gather + merge, (gather + merge) / figure("alone_s")?])
    })?;
    println!("{samples} samples of 5 workers, median of {count} rounds (lowest to highest)");
    println!("  collected {gather_s} s, merged and stored {merge_s} s");
    println!("  total in seconds {}", all_s.check(Bound::AtMost(LIMIT_S)));
    println!("  total / merging and storing in one process {ratio}");
    Ok(())
}
