//! The clients of trials. This process starts them, or the workers of a distributed run do. Clients receive orders, start
//! together and report. They receive no messages during the window.

mod validate;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use load::result::merge::{self, Account};
use load::time::clock::monotonic_ns;
use load::{Event, LoadResult};
use netns::TestbedHost;
use netns::surrounding::Surrounding;

use crate::record::LoadOrder;
use crate::samples;

/// A callback, called at the start of a wait, for each event of a client, and when a call is due. It returns the time at which
/// the next call is due. An error ends the wait.
pub type WaitHook<'a> = dyn FnMut(Option<&Event>) -> anyhow::Result<Instant> + 'a;

/// The clients of a run's trials, on this machine or on the workers' hosts. If there are several clients, a client's error begins
/// with its name.
pub trait Fleet {
    /// Distributes future clients over these hosts of a testbed. With an empty list, they run where the fleet starts them.
    fn set_client_hosts(&mut self, hosts: &[TestbedHost]) -> anyhow::Result<()> {
        match hosts {
            [] => Ok(()),
            _ => bail!("network: in a distributed run, the launcher chooses the clients' hosts; remove the network"),
        }
    }

    /// Sends each client its part of a trial. The client then connects. Each client's samples are stored in `draft` or in a
    /// file beside `draft`.
    ///
    /// A heat is the trials that run at the same time; each is a contestant. Broadcast the contestants one after the other, then
    /// call [`Fleet::begin`] once. [`Fleet::dismiss`] ends the heat.
    fn broadcast(&mut self, order: &LoadOrder, draft: &Path) -> anyhow::Result<()>;

    /// Waits until the clients of the latest trial are connected and prepared.
    fn await_ready(&mut self, hook: &mut WaitHook<'_>) -> anyhow::Result<()>;

    /// Makes the clients of all contestants start together. Returns the start time by this host's CLOCK_MONOTONIC, in nanoseconds.
    fn begin(&mut self, hook: &mut WaitHook<'_>) -> anyhow::Result<u64>;

    /// Waits until all clients of a contestant have measured. Returns their reports and samples. Their connections remain open.
    /// Contestants are numbered from 0 in the order of [`Fleet::broadcast`].
    fn gather(&mut self, contestant: usize, hook: &mut WaitHook<'_>) -> anyhow::Result<Vec<Gathered>>;

    /// Stops all clients immediately.
    fn dismiss(&mut self);

    /// The address to listen on so that all clients reach the server; `None` if the trial states it.
    fn server_ip(&self) -> Option<IpAddr> {
        None
    }

    /// The testbed on whose hosts the workers of a distributed run were started; `None` without one.
    fn surrounding(&self) -> Option<&Surrounding> {
        None
    }

    /// Whether all clients run on other machines.
    fn are_all_remote(&self) -> bool {
        false
    }

    /// Whether the run must end because a worker is lost.
    fn must_end_run(&self) -> bool {
        false
    }
}

/// The results of one client.
pub struct Gathered {
    /// The client and its report.
    pub account: Account,
    /// The file with the samples.
    pub samples: Draft,
}

/// A file that is removed when this value is dropped, unless `is_kept`.
pub struct Draft {
    /// The path.
    pub path: PathBuf,
    /// Whether the file outlives this value.
    pub is_kept: bool,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Merges the reports of all clients. Writes their samples to `draft`, unless a single client has already written it.
pub fn merge(order: &LoadOrder, gathered: Vec<Gathered>, draft: &Path) -> anyhow::Result<LoadResult> {
    let (accounts, files): (Vec<Account>, Vec<Draft>) = gathered.into_iter().map(|it| (it.account, it.samples)).unzip();
    if let ([single], [file]) = (&accounts[..], &files[..])
        && file.path == draft
    {
        return Ok(single.report.clone());
    }
    let read = |(account, file): (&Account, &Draft)| Ok((account.config.clone(), traffic::samples::read(&file.path)?));
    let parts = accounts.iter().zip(&files).map(read).collect::<anyhow::Result<Vec<_>>>()?;
    for (number, (account, (_, samples))) in accounts.iter().zip(&parts).enumerate() {
        if let Err(reason) = validate::check(account, samples) {
            let name = match account.place.as_str() {
                "" => format!("client {} of {}", number + 1, accounts.len()),
                place => place.to_owned(),
            };
            bail!("cannot merge the clients' reports: {name} reports impossible figures: {reason}; check its host");
        }
    }
    let merged = merge::samples(parts);
    samples::write(draft, &merged, &samples::parameters(&order.config, Some(&order.trial))?)?;
    Ok(merge::report(&order.config, &accounts, &merged))
}

/// The path of a client's samples file beside `draft`.
pub fn draft_of_client(draft: &Path, number: usize) -> PathBuf {
    let mut name = draft.as_os_str().to_owned();
    name.push(format!("-{number}"));
    name.into()
}

/// Converts a time of CLOCK_MONOTONIC, in nanoseconds, to an `Instant`.
pub fn instant_of(ns: u64) -> Instant {
    let (now_ns, instant) = (monotonic_ns(), Instant::now());
    if ns >= now_ns { instant + Duration::from_nanos(ns - now_ns) } else { instant - Duration::from_nanos(now_ns - ns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_counts_fail_the_trial_and_name_the_worker() {
        let folder = tempfile::tempdir().unwrap();
        let draft = folder.path().join("draft");
        let experiment = crate::spec::presets::find("compare").unwrap().experiment();
        let trial = crate::plan::plan(&experiment, &crate::host::Host::made_up()).unwrap().trials.remove(0);
        let order = LoadOrder::new(trial.load().with(|it| it.client.processes = 2), trial);
        let merged = |reports: [LoadResult; 2], sample: load::Sample| {
            let gathered = order.config.parts().into_iter().zip(reports).enumerate();
            let gathered = gathered.map(|(number, (config, report))| {
                let path = draft_of_client(&draft, number);
                samples::write(&path, &[sample], &[]).unwrap();
                let place = format!("worker {} on host{number}", number + 1);
                let account = Account { config, machine: "a".into(), place, report, cpus_used: None };
                Gathered { account, samples: Draft { path, is_kept: false } }
            });
            merge(&order, gathered.collect(), &draft)
        };
        let (healthy, sample) = (crate::judge::tests::healthy, load::Sample::UNKNOWN);
        assert_eq!(merged([healthy(), healthy()], sample).unwrap().planned, 2_000);
        let why = merged([healthy(), LoadResult { planned: u64::MAX, ..healthy() }], sample).unwrap_err().to_string();
        assert!(why.contains("worker 2 on host1") && why.contains("planned is 18446744073709551615"), "{why}");
        let why =
            merged([healthy(), healthy()], load::Sample { connection: u32::MAX, ..sample }).unwrap_err().to_string();
        assert!(why.contains("worker 1 on host0") && why.contains("connection 4294967295"), "{why}");
    }

    #[test]
    fn draft_is_removed_unless_kept() {
        let folder = tempfile::tempdir().unwrap();
        for is_kept in [true, false] {
            let path = draft_of_client(&folder.path().join("0001.part"), 3);
            assert!(path.ends_with("0001.part-3"));
            std::fs::write(&path, "").unwrap();
            drop(Draft { path: path.clone(), is_kept });
            assert_eq!(path.exists(), is_kept);
        }
    }
}
