//! Who holds a trial's idle connections: processes of their own (`muxbench idle --control`), as many as their descriptors
//! ask for. They end when this is dropped.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use load::LoadConfig;
use load::config::{Choice, Timestamps};
use load::idle::{Event, IdleReport};
use rustix::process::{Resource, getrlimit};

use crate::netns::TestbedHost;
use crate::process::child::Child;
use crate::process::stop::Stop;

/// Descriptors of a process besides its connections.
const DESCRIPTORS_BESIDE: u64 = 64;
/// What a process may take beyond the timeout of a connection, which is what hangs first.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connections that are held.
pub struct Holders {
    children: Vec<Child<Event>>,
    patience: Duration,
}

impl Holders {
    /// Has `config.idle` connections made, and waits until all are there. `progress` is told how many are, of how many. They are
    /// divided among `hosts` of a lab, if there are any.
    ///
    /// # Errors
    /// When one cannot be made or is not served, or `stop` is set.
    pub fn start(
        program: &Path,
        config: &LoadConfig,
        hosts: &[TestbedHost],
        stop: &Stop,
        progress: &mut dyn FnMut(u32, u32),
    ) -> anyhow::Result<Self> {
        let patience = Duration::from_nanos(config.timeout_ns) + PATIENCE;
        let mut holders = Self { children: Vec::new(), patience };
        // With a view to all that the trial opens: by themselves these would take every port of the first address.
        let sources = match hosts {
            [] => load::ports::sources(config).map_err(anyhow::Error::msg)?,
            // As was chosen for the first of them.
            _ => config.sources.clone(),
        };
        let of_each_host = config.idle.div_ceil(hosts.len().max(1) as u32).max(1);
        for (number, connections) in shares(config.idle, connections_max().min(of_each_host)).enumerate() {
            let mut command = Command::new(program);
            command.args(["idle", "--control"]);
            let order = match hosts {
                [] => order(config, connections, &sources),
                _ => {
                    let host = &hosts[number % hosts.len()];
                    host.enter(&mut command);
                    order(config, connections, &host.sources(&sources))
                }
            };
            holders.children.push(Child::start("what holds idle connections", command, &order)?);
        }
        let mut before = 0;
        for child in &mut holders.children {
            let mut deadline = Instant::now() + patience;
            loop {
                match child.next_unless(stop, deadline)? {
                    Some(Event::Held { connections, .. }) => {
                        before += connections;
                        break;
                    }
                    Some(Event::Connecting { done, .. }) => {
                        deadline = Instant::now() + patience;
                        progress(before + done, config.idle);
                    }
                    Some(Event::Failed { reason }) => bail!("idle connections: {reason}"),
                    Some(Event::Verified { .. }) => bail!("idle connections ended before they were to"),
                    None => bail!("idle connections: nothing is heard for {} s", patience.as_secs()),
                }
            }
        }
        Ok(holders)
    }

    /// Has every connection verified once more; they end with it.
    ///
    /// # Errors
    /// When a process that holds them does not say, or `stop` is set.
    pub fn verify(mut self, stop: &Stop) -> anyhow::Result<IdleReport> {
        for child in &mut self.children {
            child.say("verify")?;
        }
        let mut total = IdleReport::default();
        for child in &mut self.children {
            match child.next_unless(stop, Instant::now() + self.patience).context("idle connections")? {
                Some(Event::Verified { report }) => total = total.and(&report),
                Some(Event::Failed { reason }) => bail!("idle connections: {reason}"),
                _ => bail!("idle connections: nothing is heard of them for {} s", self.patience.as_secs()),
            }
        }
        Ok(total)
    }
}

/// What one process is told: its connections, each verified as the service wants it.
fn order(config: &LoadConfig, connections: u32, sources: &[IpAddr]) -> LoadConfig {
    LoadConfig {
        connections,
        // Ports that the others take, and the client.
        idle: config.connections_and_idle() - connections,
        sources: sources.to_vec(),
        calls_per_connection: None,
        active: 1.0,
        choice: Choice::Uniform,
        clients: 1,
        timestamps: Timestamps::Client,
        ..config.clone()
    }
}

/// How many connections one process can hold.
fn connections_max() -> u32 {
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    u32::try_from(descriptors.saturating_sub(DESCRIPTORS_BESIDE)).unwrap_or(u32::MAX).max(1)
}

/// `total` divided among as few as can hold it, evenly.
fn shares(total: u32, most: u32) -> impl Iterator<Item = u32> {
    let count = total.div_ceil(most);
    let until = move |number: u32| (u64::from(total) * u64::from(number) / u64::from(count)) as u32;
    (0..count).map(move |number| until(number + 1) - until(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn idle_connections_come_from_where_those_that_come_and_go_do() {
        let service = wire::ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        let target: wire::Address = "127.0.0.1:80".parse().unwrap();
        // Each in TIME_WAIT for 1 s at least.
        let config = LoadConfig {
            idle: 20_000,
            calls_per_connection: Some(1),
            rate_per_s: Some(100_000.0),
            ..LoadConfig::new(target, service)
        };
        let sources = load::ports::sources(&config).unwrap();
        assert!(sources.len() > 1, "{sources:?}");
        let order = order(&config, 20_000, &sources);
        assert_eq!((order.idle, load::ports::sources(&order)), (400, Ok(sources)));
    }

    #[test]
    fn connections_are_divided_among_as_few_processes_as_can_hold_them() {
        let of = |total, most| shares(total, most).collect::<Vec<_>>();
        assert_eq!(of(0, 100), [0; 0]);
        assert_eq!(of(100, 100), [100]);
        assert_eq!(of(101, 100), [50, 51]);
        assert_eq!(of(u32::MAX, u32::MAX), [u32::MAX]);
    }
}
