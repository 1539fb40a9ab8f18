//! Stores a constructed run: `cargo run -p muxbench-testkit --example store-run -- NAME FOLDER`. NAME is an experiment, such as
//! `kawai2008-http`, or `large` for a run of 105 trials.

use std::path::PathBuf;

use anyhow::Context;
use harness::store::Store;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("name a run and a folder: store-run NAME FOLDER")?;
    let folder = arguments.next().context("name a folder for the run: store-run NAME FOLDER")?;
    let mut run =
        if name == "large" { muxbench_testkit::large_run() } else { muxbench_testkit::run_of_experiment(&name) };
    if name == "large" {
        // Keep one repeat of each of the 105 configurations.
        run.header.trials.truncate(105);
        run.records.truncate(105);
    }
    let store = Store::create(&PathBuf::from(folder), &run.header)?;
    run.records.iter().try_for_each(|record| store.commit(record))
}
