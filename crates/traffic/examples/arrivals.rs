//! Prints the times of recorded arrivals: `cargo run --example arrivals access.csv`.

use std::error::Error;
use std::fs::File;

use muxbench_traffic::trace::Rows;

/// Returns the number of arrivals, and the nanoseconds between the first and the last.
pub fn length(file: File) -> Result<(usize, i64), Box<dyn Error>> {
    let mut times_ns = Vec::new();
    for row in Rows::read(file, &[])? {
        times_ns.push(row?.time_ns);
    }
    let length_ns = times_ns.last().zip(times_ns.first()).map_or(0, |(last, first)| last - first);
    Ok((times_ns.len(), length_ns))
}

/// Prints both.
pub fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("no file: give a CSV or Parquet file with a column of times")?;
    let (arrivals, length_ns) = length(File::open(file)?)?;
    println!("{arrivals} arrivals in {:.1} s", length_ns as f64 / 1e9);
    Ok(())
}
