//! The experiment that confirms the answer of a race.

use std::num::NonZeroU32;

use super::choice::Choice;
use crate::record::{AdviseGoal, Trial};
use crate::spec::units::Time;
use crate::spec::{Candidate, Experiment, Server};

/// The repeats: enough for an interval over starts of the servers.
const REPEATS: NonZeroU32 = NonZeroU32::new(5).expect("5 is above 0");
/// The shortest window.
const MEASURE: Time = Time(2_000_000_000);
/// The most servers.
const SERVERS_MAX: usize = 4;

/// Returns the experiment that compares the winner with the contestants of its tie, or with the next best one. `None` without a rival,
/// or if the stored experiment cannot be read.
pub(super) fn experiment(goal: &AdviseGoal, choice: &Choice, contestants: &[Trial]) -> Option<Experiment> {
    let rivals = choice.tied.len().saturating_sub(1).max(1);
    let servers: Vec<Candidate> = [choice.winner]
        .into_iter()
        .chain(choice.others.iter().copied().take(rivals))
        .take(SERVERS_MAX)
        .map(|it| contestants[it].architecture.clone())
        .collect();
    if servers.len() < 2 {
        return None;
    }
    let mut experiment = Experiment::parse(&goal.experiment, "the run's experiment").ok()?;
    experiment.name = "confirm".to_owned();
    experiment.about = format!("Whether {} is the best, as `muxbench advise` answered", servers[0]);
    experiment.exec.retain(|name, _| servers.contains(&Candidate::Exec(name.clone())));
    experiment.target.retain(|name, _| servers.contains(&Candidate::Target(name.clone())));
    if servers.iter().all(|it| it.ours().is_none()) {
        // External servers have none of these options.
        experiment.server = Server::default();
    }
    experiment.architectures.0 = servers;
    experiment.repeats = REPEATS;
    experiment.phases.measure = experiment.phases.measure.max(MEASURE);
    Some(experiment)
}
