//! Stores a run that never was, as large as a paper's matrix: `cargo run -p muxbench-report --example store-large-run --features fixtures -- FOLDER`.

use std::path::PathBuf;

use anyhow::Context;
use harness::store::Store;
use muxbench_report::fixtures;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).context("name a folder for the run: store-large-run FOLDER")?;
    let mut run = fixtures::large_run();
    // A repeat of each of its 105 configurations.
    run.header.trials.truncate(105);
    run.records.truncate(105);
    let store = Store::create(&PathBuf::from(folder), &run.header)?;
    run.records.iter().try_for_each(|record| store.commit(record))
}
