//! Prints the report of a stored run: `cargo run --example table results/RUN`.

use std::error::Error;
use std::path::Path;

use harness::record::Run;
use harness::store;
use muxbench_report::{Medium, Summary, render};

/// Returns the tables and conclusions in Markdown, and the lowest median.
pub fn report(run: &Run) -> (String, Option<u64>) {
    let summary = Summary::of(run);
    let rows = summary.comparisons.iter().flat_map(|comparison| &comparison.rows);
    (render(run, Medium::Markdown), rows.filter_map(|row| row.service.map(|it| it.p50_ns)).min())
}

/// Prints the report.
pub fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("no folder of a run: give its path")?;
    let (text, lowest_ns) = report(&store::read(Path::new(&folder))?);
    println!("{text}\nLowest median: {lowest_ns:?} ns");
    Ok(())
}
