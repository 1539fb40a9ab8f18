//! Stores a constructed run with 105 trials: `cargo run -p muxbench-testkit --example store-large-run -- FOLDER`.

use std::path::PathBuf;

use anyhow::Context;
use harness::store::Store;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).context("name a folder for the run: store-large-run FOLDER")?;
    let mut run = muxbench_testkit::large_run();
    // Keep one repeat of each of the 105 configurations.
    run.header.trials.truncate(105);
    run.records.truncate(105);
    let store = Store::create(&PathBuf::from(folder), &run.header)?;
    run.records.iter().try_for_each(|record| store.commit(record))
}
