//! Flags of the four phases of a trial.

use harness::spec::Phases;
use harness::spec::units::Time;

use super::set;

/// Durations of the phases.
#[derive(Debug, clap::Args)]
pub struct PhaseArgs {
    /// Duration in which the rate grows exponentially to its target
    #[arg(long, value_name = "TIME", help_heading = "Phases")]
    ramp: Option<Time>,
    /// Duration at the target rate before measuring
    #[arg(long, value_name = "TIME", alias = "hold", help_heading = "Phases")]
    warm_up: Option<Time>,
    /// Duration of the window: the requests planned in it are measured
    #[arg(long, value_name = "TIME", help_heading = "Phases")]
    measure: Option<Time>,
    /// Longest wait for outstanding responses after the window
    #[arg(long, value_name = "TIME", alias = "drain", help_heading = "Phases")]
    cool_down: Option<Time>,
}

impl PhaseArgs {
    /// Overwrites the durations with flags that the user gave.
    pub fn apply(&self, phases: &mut Phases) {
        set(&mut phases.ramp, self.ramp);
        set(&mut phases.warm_up, self.warm_up);
        set(&mut phases.measure, self.measure);
        set(&mut phases.cool_down, self.cool_down);
    }
}
