//! Stores a run that never was, as large as a paper's matrix: `cargo run -p report --example made-up --features made-up -- FOLDER`.

use std::path::PathBuf;

use anyhow::Context;
use harness::store::Store;
use muxbench_report::made_up;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).context("name a folder for the run: made-up FOLDER")?;
    let mut run = made_up::large_run();
    // A repeat of each of its 105 configurations.
    run.header.trials.truncate(105);
    run.records.truncate(105);
    let store = Store::create(&PathBuf::from(folder), &run.header)?;
    run.records.iter().try_for_each(|record| store.commit(record))
}
