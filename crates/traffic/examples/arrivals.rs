//! Prints the number of recorded arrivals, and the time from the first to the last: `cargo run --example arrivals access.csv`.

use std::error::Error;
use std::fs::File;

use muxbench_traffic::trace::Rows;

/// Returns the number of arrivals, and the nanoseconds between the first and the last.
pub fn length(file: File) -> Result<(usize, i64), Box<dyn Error>> {
    let (mut arrivals, mut first_ns, mut last_ns) = (0, None, 0_i64);
    for row in Rows::read(file, &[])? {
        last_ns = row?.time_ns;
        first_ns = first_ns.or(Some(last_ns));
        arrivals += 1;
    }
    Ok((arrivals, first_ns.map_or(0, |first_ns| last_ns.saturating_sub(first_ns))))
}

/// Prints the number and the time.
pub fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args_os().nth(1).ok_or("no file: give a CSV or Parquet file with a column of times")?;
    let (arrivals, length_ns) = length(File::open(file)?)?;
    println!("{arrivals} arrivals in {:.1} s", length_ns as f64 / 1e9);
    Ok(())
}
