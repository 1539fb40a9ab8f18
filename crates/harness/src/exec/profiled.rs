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
        Some(Ok(())) => contestant
            .observations
            .take_profile()
            .ok_or_else(|| "the server has no counters".to_owned())
            .and_then(sampled),
        Some(Err(error)) => Err(format!("{error:#}")),
        None => Err(another.clone().unwrap_or_default()),
    };
    contestants.into_iter().zip(outcomes).map(profile).collect()
}

/// Checks that a profile has samples.
fn sampled(profile: Profile) -> Result<Profile, String> {
    let all = u64::from(profile.idle) + u64::from(profile.others);
    match profile.stacks.samples() {
        0 => Err(format!("none of the {all} samples in its turns are of its processes")),
        _ => Ok(profile),
    }
}

/// Returns a file beside the samples of the measured heat, which a resumed run removes too.
fn beside(draft: &Path) -> PathBuf {
    let name = draft.file_stem().unwrap_or_default().to_string_lossy();
    draft.with_file_name(format!("{name}-profile.part"))
}

#[cfg(test)]
mod tests {
    use profile::Calls;

    use super::*;

    #[test]
    fn profile_without_samples_is_an_error() {
        let of = |folded| {
            let stacks = Calls::from_folded(folded);
            sampled(Profile { stacks, idle: 5, others: 2, lost: 0, cpu_ns_per_request: None }).map(|_| ())
        };
        assert_eq!(of("main 1\n"), Ok(()));
        assert_eq!(of(""), Err("none of the 7 samples in its turns are of its processes".to_owned()));
    }
}
