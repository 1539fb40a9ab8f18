//! A running external server. The process that starts it is its supervisor, which adopts orphans and reaps all its children.
//! The kernel kills the command when the supervisor ends; [`ProcessTag`] identifies processes that remain.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Resource, Signal};
use wire::Address;

use super::config::ExternalConfig;
use crate::external::process_tag::ProcessTag;
use crate::external::procfs_stats::{self, ProcfsStats, Root};
use crate::external::spawn::spawn;
use crate::metrics::counters::{Snapshot, Totals};
use crate::metrics::usage;
use crate::platform;
use crate::socket::free_port;
use crate::socket::unix;

/// The most attempts to start when another process takes the free port.
const PORTS_TRIED_MAX: u32 = 3;
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The longest time from SIGTERM to SIGKILL.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest wait for killed processes, which may have to finish a system call.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
const OUTPUT_BYTES_MAX: usize = 4096;
/// The longest wait for the end of the output after the command's end: orphans may keep the output open.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// A running command.
#[derive(Debug)]
pub struct ExternalServer {
    /// The address that the server listens on.
    pub address: Address,
    /// The figures when the server was ready.
    pub ready: Snapshot,
    stats: ProcfsStats,
    record: Arc<Mutex<Record>>,
    /// The command's process, which leads its own process group.
    leader: Pid,
}

#[derive(Debug, Default)]
struct Record {
    status: Option<ExitStatus>,
    /// Whether no process is left.
    has_no_children: bool,
    reaped: Totals,
    output_tail: VecDeque<u8>,
    is_output_closed: bool,
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ExternalServer {
    /// Starts the command, and waits until it accepts a connection. Gives up if `is_stopped` returns true. Calls `on_end` in
    /// another thread when the command ends. If the command accepts no connection, the error has its status and output.
    pub fn start(
        config: &ExternalConfig,
        on_end: impl Fn() + Clone + Send + 'static,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Self, String> {
        platform::raise_limit(Resource::Nofile);
        platform::raise_limit(Resource::Nproc);
        rustix::process::set_child_subreaper(Some(Pid::INIT))
            .map_err(|error| format!("cannot adopt orphans of the server: {error}"))?;
        ProcessTag::mark_this_process().map_err(|error| {
            format!("cannot tag the server's processes: {error}; remove the hard limit of file locks (ulimit -Hx)")
        })?;
        let cpus = &config.cpus;
        platform::pin(cpus)
            .map_err(|error| format!("cannot run on CPUs {cpus:?}: {error}; name CPUs that this process may use"))?;
        let mut tried = 1;
        loop {
            let any = config.listen.ip().unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
            let free = free_port(any).map_err(|error| format!("cannot find a free port of {}: {error}", any.ip()))?;
            let mut server = Self::spawn(config, free, on_end.clone())?;
            match server.wait_until_ready(Duration::from_nanos(config.start_timeout_ns), is_stopped) {
                Ok(()) => {
                    server.ready = server.snapshot();
                    return Ok(server);
                }
                Err(_) if server.has_ended() && is_taken(&server.address) && tried < PORTS_TRIED_MAX => tried += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn spawn(config: &ExternalConfig, free: SocketAddr, on_end: impl Fn() + Send + 'static) -> Result<Self, String> {
        let filled_in = |argument: &String| config.filled_in(argument, free.port());
        let arguments: Vec<String> = config.command.iter().map(filled_in).collect();
        let [program, arguments @ ..] = arguments.as_slice() else {
            return Err("the command is empty; name a program".into());
        };
        let cannot = |what: &str, error: io::Error| format!("cannot {what} `{program}`: {error}");
        config.write_config(free.port()).map_err(|error| cannot("write the configuration of", error))?;
        let pipe = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from);
        let (output, input) = pipe.map_err(|error| cannot("open a pipe for", error))?;
        let errors = input.try_clone().map_err(|error| cannot("open a pipe for", error))?;
        let mut command = Command::new(program);
        let environment = config.environment.iter().map(|(name, value)| (name, filled_in(value)));
        command.args(arguments).envs(environment).process_group(0);
        command.stdin(Stdio::null()).stdout(input).stderr(errors);
        if let Some(directory) = &config.directory {
            command.current_dir(directory);
        }
        let address = if config.listen.path().is_some() { config.listen.clone() } else { free.into() };
        let supervisor = rustix::process::getpid();
        let leader = spawn(command).map_err(|error| cannot("start", error))?;
        let leader = Pid::from_child(&leader);
        let record = Arc::new(Mutex::new(Record::default()));
        let server = Self {
            address: address.clone(),
            ready: Snapshot::default(),
            stats: ProcfsStats::new(Root::Supervisor(supervisor.as_raw_pid()), address),
            record: record.clone(),
            leader,
        };
        let spawned = thread::Builder::new().name("output_tail".into()).spawn({
            let record = record.clone();
            move || keep_output_tail(output, &record)
        });
        let reaper = move || reap(leader, &record, on_end);
        // If a thread cannot be created, dropping `server` ends the command.
        spawned
            .and_then(|_| thread::Builder::new().name("reap".into()).spawn(reaper))
            .map_err(|error| cannot("create a thread for", error))?;
        Ok(server)
    }

    fn wait_until_ready(&self, timeout: Duration, is_stopped: &dyn Fn() -> bool) -> Result<(), String> {
        let deadline = Instant::now() + timeout;
        loop {
            let accepts = match &self.address {
                Address::Ip(address) => TcpStream::connect_timeout(address, POLL_INTERVAL.max(timeout / 10)).is_ok(),
                Address::Unix(path) => unix::is_listening(path).unwrap_or(false),
            };
            if self.has_ended() {
                return Err(format!("the command ended before it accepted connections: {}", self.last_words()));
            }
            if is_stopped() {
                return Err("stopped before it accepted connections".into());
            }
            if accepts {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(format!(
                    "nothing accepts connections on {} after {} s; check that the command listens on {}, or raise \
                     start-timeout; {}",
                    self.address,
                    timeout.as_secs_f64(),
                    if self.address.path().is_some() { "{socket}" } else { "{port}" },
                    self.last_words()
                ));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Whether the command has ended.
    pub fn has_ended(&self) -> bool {
        lock(&self.record).status.is_some()
    }

    /// The kernel's figures so far.
    pub fn snapshot(&mut self) -> Snapshot {
        let _boost = usage::PriorityBoost::start();
        let reaped = lock(&self.record).reaped.clone();
        self.stats.snapshot(&reaped)
    }

    /// The command's status and the end of its output.
    pub fn last_words(&self) -> String {
        if self.has_ended() {
            self.wait(OUTPUT_TIMEOUT, |record| record.is_output_closed);
        }
        let record = lock(&self.record);
        let status = record.status.map_or_else(|| "running".to_owned(), |status| status.to_string());
        let output_tail: Vec<u8> = record.output_tail.iter().copied().collect();
        match String::from_utf8_lossy(&output_tail).trim() {
            "" => format!("{status}, without output"),
            output_tail => format!("{status}: {output_tail}"),
        }
    }

    fn wait(&self, timeout: Duration, is_known: fn(&Record) -> bool) {
        let deadline = Instant::now() + timeout;
        while !is_known(&lock(&self.record)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Terminates the process group, then kills all remaining descendants.
    fn end(&self) {
        if !self.has_ended() {
            let _ = rustix::process::kill_process_group(self.leader, Signal::TERM);
            self.wait(TERM_TIMEOUT, |record| record.status.is_some());
        }
        // Repeat this: processes may start others meanwhile.
        let deadline = Instant::now() + KILL_TIMEOUT;
        while !lock(&self.record).has_no_children && Instant::now() < deadline {
            for process in procfs_stats::descendants(rustix::process::getpid().as_raw_pid()) {
                let _ = Pid::from_raw(process.pid).map(|pid| rustix::process::kill_process(pid, Signal::KILL));
            }
            self.wait(POLL_INTERVAL, |record| record.has_no_children);
        }
    }
}

impl Drop for ExternalServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether another process has the port.
fn is_taken(address: &Address) -> bool {
    let bound = address.ip().map(TcpListener::bind);
    bound.is_some_and(|bound| bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse))
}

/// Reads the output, so that the command never blocks on a full pipe, and keeps the last bytes.
fn keep_output_tail(output: OwnedFd, record: &Mutex<Record>) {
    let mut output = std::fs::File::from(output);
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = output.read(&mut bytes) {
        let output_tail = &mut lock(record).output_tail;
        output_tail.extend(&bytes[..count]);
        let excess = output_tail.len().saturating_sub(OUTPUT_BYTES_MAX);
        output_tail.drain(..excess);
    }
    lock(record).is_output_closed = true;
}

fn reap(leader: Pid, record: &Mutex<Record>, on_end: impl Fn()) {
    loop {
        let (mut status, mut used) = (0, MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: the kernel fills in both, or leaves their zeros, which are valid.
        let (pid, used) = unsafe { (libc::wait4(-1, &raw mut status, 0, used.as_mut_ptr()), used.assume_init()) };
        if pid < 0 {
            if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                continue;
            }
            lock(record).has_no_children = true;
            return;
        }
        let used = platform::rusage_totals(&used);
        let mut record = lock(record);
        record.reaped.cpu_user_ns += used.cpu_user_ns;
        record.reaped.cpu_system_ns += used.cpu_system_ns;
        if pid == leader.as_raw_pid() {
            record.status = Some(ExitStatus::from_raw(status));
            drop(record);
            on_end();
        }
    }
}
