//! Time to collect, merge and store samples of five workers, against merging and storing the same samples locally.

use anyhow::Context;

use super::process::{example, number};
use super::spread::{Bound, rounds};
use crate::command;

const LIMIT_S: f64 = 10.0;

pub(super) fn run(count: usize, samples: u64) -> anyhow::Result<()> {
    let mut example = example("muxbench-fleet", "gather");
    example.args([samples.to_string(), count.to_string()]);
    let text = command::output(&mut example).context("the example `gather`")?;
    let mut lines = text.lines();
    let [gather_s, merge_s, all_s, ratio] = rounds(count, || {
        let line = lines.next().with_context(|| format!("the example printed fewer than {count} rounds"))?;
        let figures: serde_json::Value = serde_json::from_str(line).with_context(|| format!("`{line}` is not JSON"))?;
        let figure = |path| number(&figures, path);
        let (gather, merge) = (figure("/gather_s")?, figure("/merge_s")?);
        Ok([gather, merge, gather + merge, (gather + merge) / figure("/alone_s")?])
    })?;
    println!("{samples} samples of 5 workers, median of {count} rounds (lowest to highest)");
    println!("  collected {gather_s} s, merged and stored {merge_s} s");
    println!("  total in seconds {}", all_s.check(Bound::AtMost(LIMIT_S)));
    println!("  total / merging and storing in one process {ratio}");
    Ok(())
}
