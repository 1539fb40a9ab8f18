//! The first worker of a distributed run: it accepts the other workers, sends them orders, and collects their reports.

mod clocks;
mod connected;
mod cpu_limits;
mod join;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use harness::clients::{Draft, Fleet, Gathered, WaitHook, draft_of_client};
use harness::record::{FleetFacts, LoadOrder, clock_error_max_ns};
use harness::spec::units::Time;
use load::result::merge::Account;
use load::time::clock::monotonic_ns;
use netns::surrounding::Surrounding;
use wire::Address;

use super::client::{
    ClientLink, ClientMessage, Timeouts, await_message, await_ready, await_report, ready_timeout, report_deadline,
};
use super::launcher::Membership;
use super::message::{Hello, Message};
use super::{assign_cpus, identity};
use clocks::{ClockSample, PINGS};
use connected::{Assignment, ConnectedWorker};
use cpu_limits::CpuLimit;

/// The time after which no further clock comparison of a trial starts.
const PINGS_MAX: Duration = Duration::from_secs(1);

/// The consequence of a lost worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossPolicy {
    /// The run ends after the failed trial, and can be resumed.
    #[default]
    EndRun,
    /// The remaining workers divide the lost worker's connections and rate.
    Continue,
}

/// The other workers of a distributed run.
pub struct Workers {
    workers: Vec<ConnectedWorker>,
    loss: LossPolicy,
    /// The machine of the first worker.
    machine: String,
    /// The network namespace of the first worker.
    network: u64,
    /// The number of the latest trial. It identifies late messages about earlier trials.
    trial: u32,
    /// The largest error of the comparisons of clocks before the plan, in nanoseconds; `None` without a comparison.
    clock_error_ns: Option<u64>,
    server_cpus: Vec<usize>,
    timeouts: Timeouts,
    deadline: Instant,
    /// The testbed in which the workers run.
    pub surrounding: Option<Surrounding>,
}

impl Workers {
    /// Waits until the other workers of a job have joined.
    pub fn accept_all(membership: &Membership, loss: LossPolicy) -> anyhow::Result<Self> {
        let listener = join::listen(membership.port).with_context(|| {
            format!(
                "cannot listen on port {}, where the workers join; set MUXBENCH_RENDEZVOUS to HOST:PORT with another port",
                membership.port
            )
        })?;
        Self::accept_on(&listener, membership, loss, Timeouts::DEFAULT)
    }

    fn accept_on(
        listener: &TcpListener,
        membership: &Membership,
        loss: LossPolicy,
        timeouts: Timeouts,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            workers: join::accept_all(listener, membership, timeouts)?,
            loss,
            machine: identity::machine_id(),
            network: identity::network_id(),
            trial: 0,
            clock_error_ns: None,
            server_cpus: Vec::new(),
            timeouts,
            deadline: Instant::now(),
            surrounding: None,
        })
    }

    /// The number of clients.
    pub fn count(&self) -> u32 {
        self.workers.len() as u32
    }

    /// The workers' facts that a plan depends on.
    pub fn facts(&self) -> FleetFacts {
        let is_here = |worker: &&ConnectedWorker| worker.hello.machine == self.machine;
        let cpus = |worker: &ConnectedWorker| {
            let beside = self.workers.iter().filter(|it| it.hello.machine == worker.hello.machine);
            let cpus = &worker.hello.cpus;
            // [`Fleet::broadcast`] divides the CPUs in the same way.
            let are_shared = beside.clone().all(|it| it.hello.cpus == *cpus);
            (cpus.len() / if are_shared { beside.count() } else { 1 }).max(1) as u32
        };
        let mut addresses: Vec<IpAddr> = self.workers.iter().map(|worker| worker.ours).collect();
        addresses.sort();
        addresses.dedup();
        let is_beside = |worker: &&ConnectedWorker| is_here(worker) && worker.hello.network == self.network;
        FleetFacts {
            here: self.workers.iter().filter(is_here).count() as u32,
            elsewhere_cpus: self.workers.iter().filter(|worker| !is_here(worker)).map(cpus).min(),
            addresses,
            lab: self.surrounding.as_ref().map(|lab| (lab.network.clone(), lab.applied)),
            clock_error_ns: self.clock_error_ns,
            beside_server: self.workers.iter().filter(is_beside).map(|worker| worker.hello.rank).collect(),
        }
    }

    /// A description of the hosts of server and clients.
    pub fn sentence(&self) -> String {
        let mut hosts: BTreeMap<&str, u32> = BTreeMap::new();
        self.workers.iter().for_each(|worker| *hosts.entry(&worker.hello.host).or_default() += 1);
        let describe = |(host, count): (&str, u32)| if count == 1 { host.into() } else { format!("{host} ({count})") };
        let hosts: Vec<String> = hosts.into_iter().map(describe).collect();
        format!("server on {}, clients on {}", identity::host_name(), hosts.join(", "))
    }

    /// Names workers, including the first, that may use only some of their hosts' CPUs; `None` without such workers.
    pub fn cpu_limits(&self) -> Option<String> {
        let ((cpus, of_host), host) = (identity::usable_cpus(), identity::host_name());
        let first = CpuLimit { rank: 0, host: &host, cpus: &cpus, of_host };
        let others = self.workers.iter().map(|worker| {
            let Hello { rank, host, cpus, cpus_of_host, .. } = &worker.hello;
            CpuLimit { rank: *rank, host, cpus, of_host: *cpus_of_host }
        });
        cpu_limits::cpu_limits(std::iter::once(first).chain(others))
    }

    /// Names workers on this machine that may not use all planned client CPUs; `None` without such workers.
    pub fn missing_planned_cpus(&self, planned: &[usize]) -> Option<String> {
        let here = self.workers.iter().filter(|worker| worker.hello.machine == self.machine);
        cpu_limits::missing_planned_cpus(planned, here.map(|it| (it.hello.rank, it.hello.cpus.as_slice())))
    }

    /// A description of the network of the requests.
    pub fn network(&self) -> String {
        let addresses: Vec<String> = self.facts().addresses.iter().map(ToString::to_string).collect();
        format!("between workers, to {}", addresses.join(", "))
    }

    fn present(&mut self) -> impl Iterator<Item = &mut ConnectedWorker> {
        self.workers.iter_mut().filter(|worker| !worker.is_lost)
    }

    /// Compares the clocks of all workers with this host's, for the plan of interleaved trials.
    pub fn measure_clocks(&mut self) -> anyhow::Result<()> {
        let clocks = self.compare_clocks(&mut |_| Ok(Instant::now() + PINGS_MAX))?;
        self.clock_error_ns = clocks.iter().map(|samples| clocks::best(samples).error_ns()).max();
        Ok(())
    }

    /// Checks that the clocks of an interleaved heat kept together, as its slices need.
    fn check_clocks(&mut self, hook: &mut WaitHook<'_>) -> anyhow::Result<()> {
        let slices = self.present().find_map(|worker| worker.assignments.first()?.config.client.slices);
        let Some(slices) = slices else { return Ok(()) };
        let clocks = self.compare_clocks(hook)?;
        for (worker, samples) in self.present().zip(clocks) {
            let moved_ns = worker.clock.map_or(0, |before| clocks::best(&samples).moved_ns(before));
            let max_ns = clock_error_max_ns(slices.guard_ns);
            if moved_ns > max_ns {
                let (moved, max) = (Time(moved_ns), Time(max_ns));
                bail!(
                    "the clock of {} moved by {moved}, and slices allow {max}; use --interleave never",
                    worker.name()
                );
            }
        }
        Ok(())
    }

    fn compare_clocks(&mut self, hook: &mut WaitHook<'_>) -> anyhow::Result<Vec<Vec<ClockSample>>> {
        let (started, timeout) = (Instant::now(), self.timeouts.worker);
        let mut all = vec![Vec::new(); self.present().count()];
        for number in 0..PINGS {
            // Send all requests before waiting for the first answer.
            self.present().try_for_each(|worker| worker.ask_time(number))?;
            let deadline = Instant::now() + timeout;
            for (worker, samples) in self.present().zip(&mut all) {
                samples.push(worker.await_time(number, deadline, hook)?);
            }
            if started.elapsed() >= PINGS_MAX {
                break;
            }
        }
        Ok(all)
    }
}

impl Fleet for Workers {
    fn broadcast(&mut self, order: &LoadOrder, draft: &Path) -> anyhow::Result<()> {
        self.trial += 1;
        self.server_cpus = order.trial.serve.cpus().to_vec();
        let Self { workers, surrounding, machine, network, trial, .. } = self;
        let trial = *trial;
        let mut present: Vec<&mut ConnectedWorker> = workers.iter_mut().filter(|worker| !worker.is_lost).collect();
        ensure!(!present.is_empty(), "all workers are lost");
        // The remaining workers take over the parts of lost workers.
        let processes = present.len() as u32;
        let parts = order.config.clone().with(|it| it.client.processes = processes).parts();
        let hellos: Vec<Hello> = present.iter().map(|worker| worker.hello.clone()).collect();
        for (at, (worker, config)) in present.iter_mut().zip(&parts).enumerate() {
            let beside: Vec<usize> = (0..hellos.len()).filter(|&it| hellos[it].machine == hellos[at].machine).collect();
            let (number, count) = (beside.iter().filter(|&&it| it < at).count(), beside.len());
            let own = &worker.hello.cpus;
            // On the server's machine, clients use the planned client CPUs.
            let planned: Vec<usize> =
                order.config.client.cpus.iter().copied().filter(|cpu| own.contains(cpu)).collect();
            let is_here = worker.hello.machine == *machine;
            let config = if is_here && !planned.is_empty() {
                assign_cpus(config.clone(), &planned, number, count)
            } else if beside.iter().all(|&it| hellos[it].cpus == *own) {
                assign_cpus(config.clone(), own, number, count)
            } else {
                // The workers' CPUs differ, so the launcher has divided them.
                config.clone().with(|it| it.client.cpus = own.clone())
            };
            // Clients of other workers in the same network namespace use its ports too; each of `udp` needs a single one.
            let uses_ports = order.config.service.ports().is_none();
            let is_other = |&&it: &&usize| uses_ports && it != at && hellos[it].network == worker.hello.network;
            let others: u32 = beside.iter().filter(is_other).map(|&it| parts[it].connections).sum();
            let idle = if is_here && worker.hello.network == *network { order.config.idle } else { 0 };
            let target = match &config.target {
                Address::Ip(address) => Address::Ip(SocketAddr::new(worker.ours, address.port())),
                Address::Unix(path) => Address::Unix(path.clone()),
            };
            let mut config = config.with(|it| (it.idle, it.target) = (idle + others, target));
            if let Some(surrounding) = surrounding {
                config.sources = surrounding.sources(&config, worker.theirs).map_err(anyhow::Error::msg)?;
            }
            let text = serde_json::to_string(&LoadOrder::new(config.clone(), order.trial.clone()))?;
            let samples = Some(Draft { path: draft_of_client(draft, at), is_kept: false });
            worker.trial = trial;
            worker.assignments.push(Assignment { trial, config, samples });
            worker.send(&Message::Order { trial, order: text })?;
        }
        Ok(())
    }

    fn await_ready(&mut self, hook: &mut WaitHook<'_>) -> anyhow::Result<()> {
        let margin = self.timeouts.client + self.timeouts.worker;
        for worker in self.present() {
            let assignment = worker.assignments.last().context("a worker has no order")?;
            let timeout = ready_timeout(&assignment.config, margin);
            await_ready(worker, timeout, hook)?;
        }
        Ok(())
    }

    fn begin(&mut self, hook: &mut WaitHook<'_>) -> anyhow::Result<u64> {
        let margin = self.timeouts.client + self.timeouts.worker;
        let clocks = self.compare_clocks(hook)?;
        let config = self.present().find_map(|it| Some(it.assignments.first()?.config.clone()));
        let config = config.context("all workers are lost")?;
        let has_loss = self.surrounding.as_ref().is_some_and(|lab| lab.network.loss.is_some());
        for (worker, samples) in self.present().zip(&clocks) {
            let clock = clocks::best(samples);
            if let Some(slices) = config.client.slices.filter(|it| clock.error_ns() > clock_error_max_ns(it.guard_ns)) {
                let (error, max) = (Time(clock.error_ns()), Time(clock_error_max_ns(slices.guard_ns)));
                bail!(
                    "the clock of {} is known to within {error}, and slices need {max}; use --interleave never",
                    worker.name()
                );
            }
            worker.clock = Some(clock);
        }
        let contestants = self.present().map(|worker| worker.assignments.len()).max().unwrap_or(0);
        let start_ns = monotonic_ns() + clocks::lead_ns(&clocks, contestants, has_loss);
        for (worker, samples) in self.present().zip(clocks) {
            let start_ns = start_ns.wrapping_add_signed(clocks::best(&samples).ahead_ns);
            for trial in worker.assignments.iter().map(|assignment| assignment.trial).collect::<Vec<u32>>() {
                worker.send(&Message::Begin { trial, start_ns })?;
            }
        }
        let configs = self.present().flat_map(|worker| &worker.assignments).map(|assignment| &assignment.config);
        self.deadline = report_deadline(configs, margin);
        Ok(start_ns)
    }

    fn gather(&mut self, contestant: usize, hook: &mut WaitHook<'_>) -> anyhow::Result<Vec<Gathered>> {
        self.present().try_for_each(|worker| worker.turn_to(contestant))?;
        let Self { workers, deadline, timeouts, .. } = self;
        let timeout = timeouts.worker;
        let mut present: Vec<&mut ConnectedWorker> = workers.iter_mut().filter(|worker| !worker.is_lost).collect();
        // Collect samples after the last client has ended, because collecting would disturb clients that still measure.
        let mut used = Vec::new();
        for worker in &mut present {
            used.push(await_message(*worker, *deadline, None, hook, |message| match message {
                ClientMessage::Ended { used } => Ok(used),
                event @ ClientMessage::Event(_) => Err(event),
            })?);
        }
        if contestant == 0 {
            self.check_clocks(hook)?;
        }
        let Self { workers, machine, server_cpus, .. } = self;
        let present = workers.iter_mut().filter(|worker| !worker.is_lost);
        // Collect from one worker at a time, so that transfers do not compete.
        let mut gathered = Vec::new();
        for (worker, used) in present.zip(used) {
            worker.send(&Message::Collect { trial: worker.trial })?;
            let report = await_report(worker, Instant::now() + timeout, hook)?;
            let assignment = worker.assignments.get_mut(contestant).context("a worker has no order")?;
            let config = assignment.config.clone();
            let samples = assignment.samples.take().context("a worker has no order")?;
            worker.receive_samples(&config, &samples, timeout, hook)?;
            let Hello { rank, host, machine: name, .. } = &worker.hello;
            let (is_here, name) = (name == machine, name.clone());
            let place = if is_here { format!("worker {rank}") } else { format!("worker {rank} on {host}") };
            // The utilisation of a CPU that client and server share includes the server's work.
            let is_shared = is_here && server_cpus.iter().any(|cpu| config.client.cpus.contains(cpu));
            let cpus_used = used.filter(|_| !is_shared);
            gathered.push(Gathered { account: Account { config, machine: name, place, report, cpus_used }, samples });
        }
        Ok(gathered)
    }

    fn dismiss(&mut self) {
        for worker in self.present() {
            worker.waiting.clear();
            for Assignment { trial, .. } in std::mem::take(&mut worker.assignments) {
                // The next trial detects an unreachable worker.
                let _ = worker.send(&Message::Dismiss { trial });
            }
        }
    }

    fn server_ip(&self) -> Option<IpAddr> {
        let first = self.workers.first()?.ours;
        let same = self.workers.iter().all(|worker| worker.ours == first);
        Some(match first {
            _ if same => first,
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        })
    }

    fn surrounding(&self) -> Option<&Surrounding> {
        self.surrounding.as_ref()
    }

    fn are_all_remote(&self) -> bool {
        self.facts().are_elsewhere()
    }

    fn must_end_run(&self) -> bool {
        let is_lost = |worker: &ConnectedWorker| worker.is_lost;
        // Without workers, every remaining trial would fail and count as finished.
        self.workers.iter().all(is_lost) || self.loss == LossPolicy::EndRun && self.workers.iter().any(is_lost)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in self.present() {
            let _ = worker.send(&Message::End);
        }
    }
}
