//! Fake processes and clients for tests of the runner. They log when they start and end.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use load::LoadConfig;
use load::config::Phases;
use load::result::merge::Account;
use load::result::{LoadResult, PARTS};
use load::time::clock::monotonic_ns;
use load::tools::idle::{IdleEvent, IdleResult};
use netns::{Testbed, TestbedHost};
use process::child::Process;
use process::stop::Stop;
use server::Snapshot;
use server::control::ServerEvent;

use super::launch::Launch;
use crate::clients::{self, Draft, Fleet, Gathered, WaitHook};
use crate::host::Host;
use crate::record::LoadOrder;
use crate::record::Trial;
use crate::spec::ServerSpec;
use crate::spec::network::Network;
use crate::{judge, samples};

/// Trials of one architecture, which take 20 ms and have no CPU placement.
pub(super) fn trials(count: u32) -> Vec<Trial> {
    let experiment = crate::spec::presets::find("smoke").unwrap().experiment();
    let planned = crate::plan::plan(&experiment, &Host::made_up()).unwrap().trials.remove(0);
    let phases = Phases { ramp_ns: 0, warm_up_ns: 5_000_000, measure_ns: 10_000_000, cool_down_ns: 5_000_000 };
    let numbered = |index| {
        let mut trial = Trial { index, infeasible: Vec::new(), ..planned.clone() };
        trial.workload.phases = phases;
        trial.workload.idle = 1;
        trial.client.cpus.clear();
        if let ServerSpec::Ours(config) = &mut trial.serve {
            config.cpus.clear();
        }
        trial
    };
    (0..count).map(numbered).collect()
}

/// A failure of a fake process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server cannot be started.
    ServerStart,
    /// The server is killed before it is ready.
    ServerKilledStarting,
    /// The server reports a failure instead of its readiness.
    ServerReady,
    /// The server is killed while its clients connect.
    ServerKilledConnecting,
    /// The server is killed in the window.
    ServerKilled,
    /// The server is killed after the window, and its client reports nevertheless.
    ServerKilledCoolingDown,
    /// The server fails after its client has left.
    ServerEnd,
    /// A process of idle connections cannot open them.
    Idle,
    /// A process of idle connections is killed before it verifies them.
    IdleKilled,
    /// A process of idle connections never verifies them, and the user aborts the run meanwhile.
    IdleHung,
    /// A client cannot connect, as the server refuses two connections.
    Refused,
    /// A client is killed before it is connected.
    ClientKilledConnecting,
    /// A client fails in the window.
    Client,
    /// A client cannot write its samples.
    Samples,
    /// The server of the first contestant answers only in the slices of the others.
    Overrun,
    /// All servers of the heat answer only in the slices of others.
    OverrunOfAll,
}

/// Starts fake processes.
#[derive(Clone, Default)]
pub(super) struct FakeMachine {
    log: Rc<RefCell<Vec<&'static str>>>,
    /// The fault of the next trial only.
    pub(super) fault: Rc<Cell<Option<Fault>>>,
    /// The request to stop of [`Fault::IdleHung`].
    pub(super) stop: Stop,
    is_server_killed: Rc<Cell<bool>>,
    refused: Rc<Cell<u64>>,
}

impl FakeMachine {
    fn write(&self, event: &'static str) {
        self.log.borrow_mut().push(event);
    }

    /// The log since the last call.
    pub(super) fn take_log(&self) -> Vec<&'static str> {
        self.log.take()
    }

    /// Whether `fault` happens now. Each fault happens once.
    fn fails(&self, fault: Fault) -> bool {
        let fails = self.fault.get() == Some(fault);
        if fails {
            self.fault.set(None);
        }
        fails
    }
}

impl Launch for FakeMachine {
    fn testbed(&self, _network: &Network, _trial: &Trial, stop: &Stop) -> anyhow::Result<Testbed> {
        stop.abort();
        stop.check()?;
        bail!("a fake machine has no namespaces")
    }

    fn server(
        &self,
        _config: &ServerSpec,
        _host: Option<&TestbedHost>,
    ) -> anyhow::Result<Box<dyn Process<ServerEvent>>> {
        if self.fails(Fault::ServerStart) {
            bail!("cannot start `muxbench`");
        }
        self.write("server starts");
        self.is_server_killed.set(self.fails(Fault::ServerKilledStarting));
        self.refused.set(0);
        let mut server = FakeServer { machine: self.clone(), answers: VecDeque::new() };
        let (address, ports) = (([127, 0, 0, 1], 80).into(), None);
        server.answers.push_back(match self.fails(Fault::ServerReady) {
            true => ServerEvent::Failed { reason: "the port is in use".into() },
            false => ServerEvent::Ready { address, ports, certificates: None, snapshot: server.snapshot() },
        });
        Ok(Box::new(server))
    }

    fn idle(&self, config: &LoadConfig, _host: Option<&TestbedHost>) -> anyhow::Result<Box<dyn Process<IdleEvent>>> {
        self.write("idle starts");
        let held = IdleEvent::Held { connections: config.connections, elapsed_ns: 1 };
        let failed = IdleEvent::Failed { reason: "connection refused".into() };
        let answers = [if self.fails(Fault::Idle) { failed } else { held }].into();
        Ok(Box::new(FakeIdle { machine: self.clone(), connections: config.connections, answers, is_killed: false }))
    }
}

struct FakeServer {
    machine: FakeMachine,
    answers: VecDeque<ServerEvent>,
}

impl FakeServer {
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot { at_ns: monotonic_ns(), connections_open: 1, workers: 1, ..Snapshot::default() };
        snapshot.totals.refused = Some(self.machine.refused.get());
        snapshot
    }
}

impl Process<ServerEvent> for FakeServer {
    fn send(&mut self, line: &str) -> anyhow::Result<()> {
        assert_eq!(line, "mark");
        self.answers.push_back(ServerEvent::Mark { snapshot: self.snapshot() });
        Ok(())
    }

    fn next_event(&mut self, _deadline: Instant) -> anyhow::Result<Option<ServerEvent>> {
        if self.has_ended() { Err(self.end_error()) } else { Ok(self.answers.pop_front()) }
    }

    fn has_ended(&mut self) -> bool {
        self.machine.is_server_killed.get()
    }

    fn has_failed(&mut self) -> bool {
        self.has_ended()
    }

    fn end_error(&mut self) -> anyhow::Error {
        anyhow!("the server ended: {}", self.exit_report())
    }

    fn exit_report(&mut self) -> String {
        "signal: 9".into()
    }

    fn end(&mut self) {
        self.machine.write("server ends");
        if self.machine.fails(Fault::ServerEnd) {
            self.machine.is_server_killed.set(true);
        }
    }

    fn kill(&mut self) {
        unreachable!("the fake server always answers");
    }

    #[cfg(target_os = "linux")]
    fn pid(&self) -> rustix::process::Pid {
        // No process has this ID.
        rustix::process::Pid::from_raw(i32::MAX).unwrap()
    }
}

struct FakeIdle {
    machine: FakeMachine,
    connections: u32,
    answers: VecDeque<IdleEvent>,
    is_killed: bool,
}

impl Process<IdleEvent> for FakeIdle {
    fn send(&mut self, line: &str) -> anyhow::Result<()> {
        assert_eq!(line, "verify");
        if self.machine.fails(Fault::IdleKilled) {
            self.is_killed = true;
            return Ok(());
        }
        if self.machine.fails(Fault::IdleHung) {
            self.machine.stop.abort();
            return Ok(());
        }
        let report = IdleResult { held: self.connections, alive: self.connections, ..IdleResult::default() };
        self.answers.push_back(IdleEvent::Verified { report });
        Ok(())
    }

    fn next_event(&mut self, _deadline: Instant) -> anyhow::Result<Option<IdleEvent>> {
        if self.has_ended() { Err(self.end_error()) } else { Ok(self.answers.pop_front()) }
    }

    fn has_ended(&mut self) -> bool {
        self.is_killed
    }

    fn has_failed(&mut self) -> bool {
        self.is_killed
    }

    fn end_error(&mut self) -> anyhow::Error {
        anyhow!("the process ended: {}", self.exit_report())
    }

    fn exit_report(&mut self) -> String {
        "signal: 9".into()
    }

    fn end(&mut self) {}

    fn kill(&mut self) {}

    #[cfg(target_os = "linux")]
    fn pid(&self) -> rustix::process::Pid {
        unreachable!("only external servers need a process ID");
    }
}

impl Drop for FakeIdle {
    fn drop(&mut self) {
        self.machine.write("idle ends");
    }
}

/// One request in each slice of the window, without a response.
fn unanswered(config: &LoadConfig) -> Vec<load::Sample> {
    let (slices, window) = (config.client.slices.unwrap(), config.window_ns());
    let rounds = window.start / slices.round_ns()..window.end / slices.round_ns();
    let planned = rounds.map(|round| (slices.start_ns(round) + slices.guard_ns) as i64 - window.start as i64);
    planned.map(|ns| load::Sample { planned_ns: ns, sent_ns: ns, ..load::Sample::UNKNOWN }).collect()
}

/// One client, which reports a healthy trial.
pub(super) struct FakeClient {
    machine: FakeMachine,
    orders: Vec<(LoadOrder, PathBuf)>,
    start_ns: u64,
}

impl FakeClient {
    pub(super) fn on(machine: &FakeMachine) -> Self {
        Self { machine: machine.clone(), orders: Vec::new(), start_ns: 0 }
    }
}

impl Fleet for FakeClient {
    fn broadcast(&mut self, order: &LoadOrder, draft: &Path) -> anyhow::Result<()> {
        self.machine.write("client starts");
        self.orders.push((order.clone(), draft.to_owned()));
        samples::write(draft, &[], &[])
    }

    fn await_ready(&mut self, hook: &mut WaitHook<'_>) -> anyhow::Result<()> {
        hook(Some(&load::Event::Ready))?;
        if self.machine.fails(Fault::Refused) {
            self.machine.refused.set(2);
            bail!("connection reset");
        }
        if self.machine.fails(Fault::ServerKilledConnecting) {
            self.machine.is_server_killed.set(true);
            bail!("connection reset");
        }
        if self.machine.fails(Fault::ClientKilledConnecting) {
            bail!("the client ended: signal: 9");
        }
        Ok(())
    }

    fn begin(&mut self, _: &mut WaitHook<'_>) -> anyhow::Result<u64> {
        self.machine.write("client begins");
        self.start_ns = monotonic_ns();
        Ok(self.start_ns)
    }

    fn gather(&mut self, contestant: usize, hook: &mut WaitHook<'_>) -> anyhow::Result<Vec<Gathered>> {
        let (order, draft) = &self.orders[contestant];
        let config = order.config.clone();
        let over = clients::instant_of(self.start_ns + config.window_ns().end);
        // On a busy machine the window may be over at once, but its faults must happen, and the runner must see a killed server.
        loop {
            let next = hook(Some(&load::Event::Ready))?;
            match self.machine.fault.get() {
                Some(Fault::ServerKilled) => self.machine.is_server_killed.set(self.machine.fails(Fault::ServerKilled)),
                Some(Fault::Client) if self.machine.fails(Fault::Client) => bail!("the client ended: signal: 11"),
                Some(Fault::Samples) if self.machine.fails(Fault::Samples) => {
                    return Err(samples::failure("cannot write samples".into(), true));
                }
                _ => {}
            }
            if Instant::now() >= over && !self.machine.is_server_killed.get() {
                break;
            }
            thread::sleep(next.min(over).saturating_duration_since(Instant::now()).min(Duration::from_millis(1)));
        }
        if self.machine.fails(Fault::ServerKilledCoolingDown) {
            self.machine.is_server_killed.set(true);
        }
        let is_last = contestant + 1 == self.orders.len();
        let overrun = match self.machine.fault.get() {
            Some(Fault::OverrunOfAll) => !is_last || self.machine.fails(Fault::OverrunOfAll),
            _ => contestant == 0 && self.machine.fails(Fault::Overrun),
        };
        if overrun {
            samples::write(draft, &unanswered(&config), &[])?;
        }
        self.machine.write("client reports");
        let report = LoadResult { completed_by_part: [100; PARTS], ..judge::tests::healthy() };
        let account = Account { config, machine: String::new(), place: String::new(), report, cpus_used: None };
        let samples = Draft { path: draft.clone(), is_kept: true };
        Ok(vec![Gathered { account, samples }])
    }

    fn dismiss(&mut self) {
        for _ in self.orders.drain(..) {
            self.machine.write("client ends");
        }
    }
}
