//! The kernel's figures about a process tree, read from `/proc`, for external servers.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use wire::Address;

use crate::metrics::counters::{Snapshot, Totals};
use crate::metrics::run_delays::{Figures, RunDelays, ThreadId};
use crate::platform;

/// The state of an established connection in /proc/net/tcp.
const ESTABLISHED: &str = "01";
/// The state of an accepted connection in /proc/net/unix (SS_CONNECTED). Waiting connections have another state.
const CONNECTED: &str = "03";
/// The most threads whose waits [`CpuClocks`] reads. A reading takes about two microseconds for each.
const WAITING_THREADS_MAX: usize = 8;

/// The totals of a server so far. They never fall, even when its threads and processes end.
#[derive(Debug)]
pub struct ProcfsStats {
    root: Root,
    address: Address,
    /// The voluntary and the involuntary switches.
    switches: Figures<2>,
    delays: RunDelays,
    cpu_user_ns: u64,
    cpu_system_ns: u64,
}

/// The root of a server's process tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A supervisor, which does not belong to the server.
    Supervisor(i32),
    /// A process of the server.
    Server(i32),
}

/// A process, from /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    /// CPU time in the kernel's ticks: of the process itself, then of its reaped children.
    user: u64,
    system: u64,
    children_user: u64,
    children_system: u64,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // A name may contain spaces and parentheses.
        let (head, tail) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            pid: head.split_whitespace().next()?.parse().ok()?,
            parent: number(1)? as i32,
            user: number(11)?,
            system: number(12)?,
            children_user: number(13)?,
            children_system: number(14)?,
        })
    }
}

/// The parent of a process; `None` if the process has ended.
pub fn parent_of(pid: i32) -> Option<i32> {
    Process::read(pid).map(|process| process.parent)
}

pub(super) fn descendants(ancestor: i32) -> Vec<Process> {
    tree(Root::Supervisor(ancestor))
}

/// The processes of a server.
fn tree(root: Root) -> Vec<Process> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let all = numbers.filter_map(Process::read);
    let mut of_parent = BTreeMap::<i32, Vec<Process>>::new();
    let mut found = Vec::new();
    for process in all {
        match root {
            Root::Server(pid) if pid == process.pid => found.push(process),
            _ => of_parent.entry(process.parent).or_default().push(process),
        }
    }
    if let Root::Supervisor(pid) = root {
        found.extend(of_parent.remove(&pid).unwrap_or_default());
    }
    let mut at = 0;
    while let Some(process) = found.get(at) {
        found.extend(of_parent.remove(&process.pid).unwrap_or_default());
        at += 1;
    }
    found
}

/// The CPU clocks of a server's processes, for frequent readings.
#[derive(Debug)]
pub struct CpuClocks {
    /// The processes, each with its last reading.
    processes: Vec<(i32, u64)>,
    /// The `schedstat` files of the threads, each with its last wait; empty if there are too many threads.
    waits: Vec<(fs::File, u64)>,
}

impl CpuClocks {
    /// Finds the processes of a server. `None` if there is none, or if there are more than `processes_max`: the time of a reading grows
    /// with their number.
    pub fn find(root: Root, processes_max: usize) -> Option<Self> {
        let processes: Vec<(i32, u64)> = tree(root).into_iter().map(|process| (process.pid, 0)).collect();
        if processes.is_empty() || processes.len() > processes_max {
            return None;
        }
        let threads = |pid: i32| platform::threads_of(pid).into_iter().map(move |thread| (pid, thread));
        let threads: Vec<(i32, i32)> = processes.iter().flat_map(|(pid, _)| threads(*pid)).collect();
        let file = |(pid, thread)| fs::File::open(format!("/proc/{pid}/task/{thread}/schedstat"));
        let files = threads.iter().filter(|_| threads.len() <= WAITING_THREADS_MAX).map_while(|it| file(*it).ok());
        let waits = files.map(|file| (file, 0)).collect();
        Some(Self { processes, waits })
    }

    /// Returns the time for which threads of the processes were runnable and waited for a CPU so far, in nanoseconds. `None` if there
    /// are too many threads, or if the kernel does not report these waits. A thread that has ended keeps its last wait.
    pub fn read_waits_ns(&mut self) -> Option<u64> {
        let (mut has_runs, mut buffer) = (false, [0; 64]);
        for (file, waited_ns) in &mut self.waits {
            let length = file.read_at(&mut buffer, 0).unwrap_or(0);
            if let Some((runs, ns)) = str::from_utf8(&buffer[..length]).ok().and_then(platform::run_delay_of) {
                has_runs |= runs > 0;
                *waited_ns = ns;
            }
        }
        has_runs.then(|| self.waits.iter().map(|(_, ns)| ns).sum())
    }

    /// Whether both have a process in common.
    pub fn overlap(&self, other: &Self) -> bool {
        self.processes.iter().any(|(pid, _)| other.processes.iter().any(|(other, _)| pid == other))
    }

    /// Returns the CPU time of the processes so far, in nanoseconds. A process that has ended keeps its last reading.
    pub fn read_ns(&mut self) -> u64 {
        for (pid, ns) in &mut self.processes {
            *ns = platform::cpu_ns(*pid).unwrap_or(*ns);
        }
        self.processes.iter().map(|(_, ns)| ns).sum()
    }
}

impl ProcfsStats {
    /// Creates the figures of the server at `address`.
    pub fn new(root: Root, address: Address) -> Self {
        let (switches, delays) = (Figures::default(), RunDelays::default());
        Self { root, address, switches, delays, cpu_user_ns: 0, cpu_system_ns: 0 }
    }

    /// Returns all figures so far; `reaped` is the usage of children that the supervisor has reaped. Switches of threads that
    /// begin and end between two snapshots are missing. So is the CPU time of a child that ends between snapshots and that no parent
    /// waits for.
    pub fn snapshot(&mut self, reaped: &Totals) -> Snapshot {
        let processes = tree(self.root);
        self.add_cpu(&processes, reaped);
        let pids: Vec<i32> = processes.iter().map(|process| process.pid).collect();
        let threads: Vec<ThreadId> = pids
            .iter()
            .flat_map(|&pid| platform::threads_of(pid).into_iter().map(move |thread| (pid, thread)))
            .collect();
        let now = threads.iter().filter_map(|&(pid, thread)| {
            Some(((pid, thread), platform::switches(&format!("/proc/{pid}/task/{thread}/status"))?.into()))
        });
        let [voluntary_switches, involuntary_switches] = self.switches.update(now.collect());
        let run_delay_ns = self.delays.update(&threads);
        Snapshot {
            at_ns: platform::monotonic_ns(),
            connections_open: connections(&self.address),
            workers: self.switches.living.len() as u64,
            memory_user_bytes: platform::memory_of_processes(&pids),
            memory_kernel_bytes: platform::memory_kernel_bytes(),
            batch_jobs: None,
            admitted_per_s: None,
            network_threads: Vec::new(),
            totals: Totals {
                cpu_user_ns: self.cpu_user_ns,
                cpu_system_ns: self.cpu_system_ns,
                voluntary_switches,
                involuntary_switches,
                run_delay_ns,
                ..Totals::default()
            },
        }
    }

    /// Adds CPU time. A process's total is exact, but the kernel reports the split into user and system only in ticks. The
    /// increase is divided as closely to that split as possible without a decrease of either part.
    fn add_cpu(&mut self, processes: &[Process], reaped: &Totals) {
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        let (mut all_ns, mut user_ns) = (reaped.cpu_ns(), reaped.cpu_user_ns);
        for process in processes {
            let own = process.user + process.system;
            let own_ns = platform::cpu_ns(process.pid).unwrap_or(own * tick_ns);
            all_ns += own_ns + (process.children_user + process.children_system) * tick_ns;
            // Before its first tick a process has no split. Count its time as system time, because a starting process spends most of
            // its time in the kernel.
            user_ns += (u128::from(own_ns) * u128::from(process.user) / u128::from(own.max(1))) as u64
                + process.children_user * tick_ns;
        }
        let added = all_ns.saturating_sub(self.cpu_user_ns + self.cpu_system_ns);
        let added_user = user_ns.saturating_sub(self.cpu_user_ns).min(added);
        self.cpu_user_ns += added_user;
        self.cpu_system_ns += added - added_user;
    }
}

fn connections(address: &Address) -> u64 {
    let read = |table| fs::read_to_string(table).unwrap_or_default();
    match address {
        Address::Ip(address) => {
            let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(read);
            let lines = tables.iter().flat_map(|table| table.lines());
            lines.filter(|line| is_connection(line, address.port())).count() as u64
        }
        Address::Unix(path) => {
            read("/proc/net/unix").lines().filter(|line| is_unix_connection(line, path)).count() as u64
        }
    }
}

/// Whether `line` is a connection to `path`. An accepted socket has seven fields (the sixth: state), then its listener's path.
fn is_unix_connection(line: &str, path: &Path) -> bool {
    let Some(head) = path.to_str().and_then(|path| line.strip_suffix(path)) else { return false };
    let fields: Vec<&str> = head.split_whitespace().collect();
    head.ends_with(' ') && fields.len() == 7 && fields[5] == CONNECTED
}

fn is_connection(line: &str, port: u16) -> bool {
    let mut fields = line.split_whitespace().skip(1);
    let local = fields.next().and_then(|address| address.rsplit_once(':'));
    local.is_some_and(|(_, local)| u16::from_str_radix(local, 16) == Ok(port)) && fields.nth(1) == Some(ESTABLISHED)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn process_stat_parses_with_any_name() {
        let stat = "42 (a) S 1 (b) S 7 42 42 0 -1 4194560 1 2 3 4 50 60 70 80 20 0 1 0 100";
        let expected = Process { pid: 42, parent: 7, user: 50, system: 60, children_user: 70, children_system: 80 };
        assert_eq!(Process::parse(stat), Some(expected));
        assert_eq!(Process::parse("42 (a) S"), None);
    }

    fn descendants_of(ancestor: i32) -> Vec<i32> {
        descendants(ancestor).into_iter().map(|process| process.pid).collect()
    }

    #[test]
    fn descendants_of_all_generations_are_found() {
        let mut child = Command::new("sh").args(["-c", "sleep 1000 & echo; wait"]).spawn().unwrap();
        let started = std::time::Instant::now();
        let mut grandchildren = Vec::new();
        while grandchildren.is_empty() && started.elapsed().as_secs() < 30 {
            grandchildren = descendants_of(child.id() as i32);
        }
        let all = descendants_of(std::process::id() as i32);
        assert!(!grandchildren.is_empty());
        assert!(all.contains(&(child.id() as i32)) && grandchildren.iter().all(|pid| all.contains(pid)), "{all:?}");
        let own: Vec<i32> = tree(Root::Server(child.id() as i32)).into_iter().map(|process| process.pid).collect();
        assert!(own.contains(&(child.id() as i32)) && own.contains(&grandchildren[0]), "{own:?}");
        for pid in grandchildren {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid).unwrap(),
                rustix::process::Signal::KILL,
            );
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    #[test]
    fn cpu_clocks_count_all_processes_of_a_server() {
        let busy = "while :; do :; done & echo; wait";
        let mut child = Command::new("sh").args(["-c", busy]).process_group(0).spawn().unwrap();
        let root = Root::Server(child.id() as i32);
        let started = std::time::Instant::now();
        let find = |processes_max| CpuClocks::find(root, processes_max).filter(|it| it.processes.len() == 2);
        let mut clocks = std::iter::repeat_with(|| find(2)).find_map(|it| it).unwrap();
        let before_ns = clocks.read_ns();
        while clocks.read_ns() < before_ns + 10_000_000 {
            assert!(started.elapsed().as_secs() < 30, "the loop runs");
        }
        assert!(CpuClocks::find(root, 1).is_none(), "too many processes");
        let waits = clocks.read_waits_ns();
        assert!(waits <= clocks.read_waits_ns() && clocks.waits.len() == 2);
        let own = CpuClocks::find(Root::Server(std::process::id() as i32), 1_000).unwrap();
        assert!(own.overlap(&clocks) && clocks.overlap(&own));
        let group = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(clocks.read_ns() >= before_ns + 10_000_000, "the last reading stays");
        assert!(CpuClocks::find(root, 2).is_none(), "no process");
    }

    #[test]
    fn cpu_time_never_falls_when_the_split_moves() {
        let mut stats = ProcfsStats::new(Root::Supervisor(0), Address::Ip("127.0.0.1:0".parse().unwrap()));
        let totals = |user: u64, system: u64| Totals { cpu_user_ns: user, cpu_system_ns: system, ..Totals::default() };
        stats.add_cpu(&[], &totals(10, 10));
        stats.add_cpu(&[], &totals(4, 26));
        assert_eq!((stats.cpu_user_ns, stats.cpu_system_ns), (10, 20), "neither figure falls, and the sum is exact");
        stats.add_cpu(&[], &totals(0, 0));
        assert_eq!((stats.cpu_user_ns, stats.cpu_system_ns), (10, 20));
    }

    #[test]
    fn only_the_listeners_side_of_connections_counts() {
        // The system chooses the ports of other tests' sockets from 32768 on.
        let listener = (20_000..).find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()).unwrap();
        let address = listener.local_addr().unwrap();
        let streams: Vec<_> =
            (0..3).map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap())).collect();
        assert_eq!(connections(&address.into()), 3);
        drop(streams);
    }

    #[test]
    fn only_accepted_unix_connections_count() {
        let path = std::env::temp_dir().join(format!("muxbench stats {}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let streams: Vec<_> =
            (0..3).map(|_| (UnixStream::connect(&path).unwrap(), listener.accept().unwrap())).collect();
        let waiting = UnixStream::connect(&path).unwrap();
        assert_eq!(connections(&Address::Unix(path.clone())), 3);
        drop((streams, waiting));
        // A child forked by another test may hold the connections a little longer.
        let started = std::time::Instant::now();
        while connections(&Address::Unix(path.clone())) > 0 {
            assert!(started.elapsed() < std::time::Duration::from_secs(20), "the connections end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        fs::remove_file(&path).unwrap();
    }
}
