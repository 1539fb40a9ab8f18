//! Plans an experiment for this host, without running it. `exec::runner` runs plans, and `store::read` reads their results.

use std::error::Error;

use muxbench_harness::spec::Experiment;
use muxbench_harness::{host, plan};

/// The keys of an experiment file; all others have the defaults of experiment files.
const EXPERIMENT: &str = "
architectures = [\"mt\", \"epoll\"]
repeats = 3

[workload]
connections = [100, 400]
rate = 2000
";

/// Prints the trials in the order in which they would run.
pub fn main() -> Result<(), Box<dyn Error>> {
    let plan = plan::plan(&Experiment::parse(EXPERIMENT, "example.toml")?, &host::detect())?;
    for trial in &plan.trials {
        println!(
            "{} {}: {} connections {:?}",
            trial.index, trial.architecture, trial.workload.connections, trial.infeasible
        );
    }
    assert_eq!(plan.trials.len(), 2 * 2 * 3);
    Ok(())
}
