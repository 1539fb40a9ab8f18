//! Prints the send times of a file of samples in nanoseconds after the start of the window, one a line, without requests that were
//! never sent. Start it with `cargo run --release -p muxbench-traffic --example sends -- FILE`.

use std::io::{BufWriter, Write, stdout};
use std::path::Path;

use anyhow::Context;
use load::Sample;
use muxbench_traffic::samples;

fn main() -> anyhow::Result<()> {
    let file = std::env::args().nth(1).context("usage: sends FILE")?;
    let mut out = BufWriter::new(stdout().lock());
    for sample in samples::read(Path::new(&file))? {
        if sample.sent_ns != Sample::NEVER {
            writeln!(out, "{}", sample.sent_ns)?;
        }
    }
    Ok(out.flush()?)
}
