//! The heat after a measured one, in which stacks of the servers are sampled. Its times count nowhere.

use std::path::{Path, PathBuf};

use netns::Testbed;
use process::stop::Stop;

use super::event::RunEvent;
use super::heat::{Contestant, HeatRun};
use super::launch::Launch;
use super::marks::Observations;
use crate::clients::Fleet;
use crate::record::{Profile, Trial};
use crate::store::Store;

/// Runs the trials of a heat once more. Returns a profile of each server, or why it has none.
pub(super) fn run(
    heat: &[Trial],
    store: &Store,
    (launch, stop, testbed): (&dyn Launch, &Stop, Option<&Testbed>),
    fleet: &mut dyn Fleet,
    on_event: &mut dyn FnMut(RunEvent<'_>),
) -> Vec<Result<Profile, String>> {
    let heat: Vec<Trial> = heat.iter().map(Trial::profiled).collect();
    let samples: Vec<PathBuf> = heat.iter().map(|trial| beside(&store.samples_draft(trial.index))).collect();
    let contestant = |(trial, samples)| Contestant::new(trial, samples, Observations::default());
    let mut contestants: Vec<Contestant<'_>> = heat.iter().zip(samples.clone()).map(contestant).collect();
    let run = HeatRun { launch, stop, testbed, fleet, kept: None, is_profiled: true, on_event };
    let outcomes = run.run(&mut contestants);
    samples.iter().for_each(|samples| drop(std::fs::remove_file(samples)));
    let another = outcomes.iter().flatten().find_map(|it| it.as_ref().err()).map(|error| format!("{error:#}"));
    let profile = |(mut contestant, outcome): (Contestant<'_>, Option<anyhow::Result<()>>)| match outcome {
        Some(Ok(())) => contestant.observations.take_profile().ok_or_else(|| "the server has no counters".to_owned()),
        Some(Err(error)) => Err(format!("{error:#}")),
        None => Err(another.clone().unwrap_or_default()),
    };
    contestants.into_iter().zip(outcomes).map(profile).collect()
}

/// Returns a file beside the samples of the measured heat, which a resumed run removes too.
fn beside(draft: &Path) -> PathBuf {
    let name = draft.file_stem().unwrap_or_default().to_string_lossy();
    draft.with_file_name(format!("{name}-profile.part"))
}
