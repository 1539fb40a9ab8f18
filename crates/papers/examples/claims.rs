//! Prints the claims of a paper beside a stored run: `cargo run --example claims kawai2008 results/RUN`.

use std::error::Error;
use std::path::Path;

use harness::record::Run;
use harness::store;
use muxbench_papers::{Paper, PaperComparison, Part};
use report::Medium;

/// Returns the paper's tables, figures and claims beside a run, in Markdown.
pub fn compare(paper: &'static Paper, run: Run) -> Result<String, Box<dyn Error>> {
    // Without the times of sends, figures of their deviation are missing.
    let mut sends = |_trial| Ok(Vec::new());
    let comparison = PaperComparison::of(paper, Part::Whole, &[run], &mut [&mut sends])?;
    Ok(comparison.render(Medium::Markdown))
}

/// Prints the comparison.
pub fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, folder] = &arguments[..] else { return Err("which paper and which run?".into()) };
    let paper = muxbench_papers::find(name).ok_or("unknown paper")?;
    println!("{}", compare(paper, store::read(Path::new(folder))?)?);
    Ok(())
}
