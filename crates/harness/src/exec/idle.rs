//! The processes that hold a trial's idle connections (`muxbench idle --control`): one per host, more if descriptors run out.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use load::LoadConfig;
use load::config::{Loop, Timestamps};
use load::tools::idle::{IdleEvent, IdleResult};
use netns::TestbedHost;
use process::child::Process;
use process::stop::Stop;
use rustix::process::{Resource, getrlimit};

use super::launch::Launch;

/// The number of descriptors that a process needs besides its connections.
const OTHER_DESCRIPTORS: u64 = 64;
/// The time that a process may take to report progress, in addition to the timeout of one connection.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);

/// Idle connections. Their processes end when this value is dropped.
pub struct IdleHolders {
    processes: Vec<Box<dyn Process<IdleEvent>>>,
    timeout: Duration,
}

impl IdleHolders {
    /// Opens `config.idle` connections and verifies them. The processes are distributed over `hosts` of a testbed; without
    /// `hosts`, they run on this machine. `progress` receives the number of open connections and the number to open.
    pub fn start(
        launch: &dyn Launch,
        config: &LoadConfig,
        hosts: &[TestbedHost],
        stop: &Stop,
        progress: &mut dyn FnMut(u32, u32),
    ) -> anyhow::Result<Self> {
        // Choose sources for all connections together. Each process alone would use up the ports of the first address.
        let sources = match hosts {
            [] => load::io::source_ports::sources(config).map_err(anyhow::Error::msg)?,
            _ => config.sources.clone(),
        };
        let host_share = config.idle.div_ceil(hosts.len().max(1) as u32).max(1);
        let start_one = |(number, connections): (usize, u32)| {
            let host = hosts.get(number % hosts.len().max(1));
            let sources = host.map_or_else(|| sources.clone(), |host| host.sources(&sources));
            launch.idle(&process_config(config, connections, sources), host)
        };
        let processes = partition(config.idle, connections_max().min(host_share)).enumerate().map(start_one);
        let timeout = Duration::from_nanos(config.client.timeout_ns) + PROGRESS_TIMEOUT;
        let mut holders = Self { processes: processes.collect::<anyhow::Result<_>>()?, timeout };
        let mut held = 0;
        for process in &mut holders.processes {
            loop {
                match process.wait_event(stop, Instant::now() + timeout)? {
                    Some(IdleEvent::Held { connections, .. }) => {
                        held += connections;
                        break;
                    }
                    Some(IdleEvent::Connecting { done, .. }) => progress(held + done, config.idle),
                    Some(IdleEvent::Failed { reason }) => bail!("idle connections: {reason}"),
                    Some(IdleEvent::Verified { .. }) => bail!("idle connections ended too early"),
                    None => bail!("idle connections: no progress within {} s", timeout.as_secs()),
                }
            }
        }
        Ok(holders)
    }

    /// Verifies every connection again, then ends the processes.
    pub fn verify(mut self, stop: &Stop) -> anyhow::Result<IdleResult> {
        for process in &mut self.processes {
            process.send("verify")?;
        }
        let mut total = IdleResult::default();
        for process in &mut self.processes {
            match process.wait_event(stop, Instant::now() + self.timeout).context("idle connections")? {
                Some(IdleEvent::Verified { report }) => total = total.and(&report),
                Some(IdleEvent::Failed { reason }) => bail!("idle connections: {reason}"),
                _ => bail!("idle connections: no report within {} s", self.timeout.as_secs()),
            }
        }
        Ok(total)
    }
}

fn process_config(config: &LoadConfig, connections: u32, sources: Vec<IpAddr>) -> LoadConfig {
    config.clone().with(|it| {
        it.connections = connections;
        // The connections of the other processes and of the client, which need ports too.
        it.idle = config.connections_and_idle() - connections;
        it.sources = sources;
        it.the_loop = Loop::of(&it.service);
        it.client.clients = 1;
        it.client.timestamps = Timestamps::Client;
    })
}

/// The highest number of connections that one process can hold.
fn connections_max() -> u32 {
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    u32::try_from(descriptors.saturating_sub(OTHER_DESCRIPTORS)).unwrap_or(u32::MAX).max(1)
}

/// Divides `total` evenly into the lowest number of shares of at most `share_max`.
fn partition(total: u32, share_max: u32) -> impl Iterator<Item = u32> {
    let count = total.div_ceil(share_max);
    (0..count).map(move |number| {
        let share = load::config::partition::partition(total.into(), count.into(), number.into());
        (share.end - share.start) as u32
    })
}

#[cfg(test)]
mod tests {
    use load::config::{Pace, Schedule};

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn idle_connections_use_the_sources_of_the_trial() {
        let target: wire::Address = "127.0.0.1:80".parse().unwrap();
        // Each connection occupies its port for at least 1 s after its end (TIME_WAIT).
        let config = LoadConfig::small(target).with(|it| {
            it.idle = 20_000;
            let pace = Pace::new(Schedule::Constant, 100_000.0);
            it.the_loop = Loop::Sessions { requests_per_connection: 1, pace };
        });
        let sources = load::io::source_ports::sources(&config).unwrap();
        assert!(sources.len() > 1, "{sources:?}");
        let process = process_config(&config, 20_000, sources.clone());
        assert_eq!((process.idle, load::io::source_ports::sources(&process)), (400, Ok(sources)));
    }

    #[test]
    fn connections_are_divided_among_the_fewest_processes() {
        let partitioned = |total, share_max| partition(total, share_max).collect::<Vec<_>>();
        assert_eq!(partitioned(0, 100), [0; 0]);
        assert_eq!(partitioned(100, 100), [100]);
        assert_eq!(partitioned(101, 100), [50, 51]);
        assert_eq!(partitioned(u32::MAX, u32::MAX), [u32::MAX]);
    }
}
