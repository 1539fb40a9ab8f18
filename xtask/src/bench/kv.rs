//! The service `kv` against memcached with one thread: how many gets a second each answers to the same client.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use wire::kv::ask;
use wire::kv::records::Records;

use super::{CLIENT_CPU, Process, SERVER_CPU, Spread, muxbench};

const CONNECTIONS: usize = 100;
const RECORDS: u64 = 30_000;
const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(1_500);

/// Where a server listens.
enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Place {
    /// One where nobody listens yet.
    fn new(kind: &str, folder: &Path) -> anyhow::Result<Self> {
        Ok(match kind {
            "unix" => {
                let path = folder.join("kv.sock");
                // Killed, a server leaves it behind.
                let _ = fs::remove_file(&path);
                Self::Unix(path)
            }
            _ => Self::Tcp(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?),
        })
    }

    fn connect(&self) -> std::io::Result<OwnedFd> {
        Ok(match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.into()
            }
            Self::Unix(path) => UnixStream::connect(path)?.into(),
        })
    }

    fn ours(&self, architecture: &str) -> anyhow::Result<Process> {
        let mut command = Command::new(muxbench()?);
        command.args(["serve", "--service", "kv", "--arch", architecture, "--cpus", SERVER_CPU, "--listen"]);
        match self {
            Self::Tcp(address) => command.arg(address.to_string()),
            Self::Unix(path) => command.arg(format!("unix:{}", path.display())),
        };
        Process::start(command, || self.connect().is_ok())
    }

    fn memcached(&self) -> anyhow::Result<Process> {
        let mut command = Command::new("taskset");
        // Root must say that it wants to be; others are not asked.
        command.args(["-c", SERVER_CPU, "memcached", "-t", "1", "-m", "64", "-u", "root"]);
        match self {
            Self::Tcp(address) => command.args(["-l", &address.ip().to_string(), "-p", &address.port().to_string()]),
            Self::Unix(path) => command.arg("-s").arg(path),
        };
        Process::start(command, || self.connect().is_ok())
    }
}

/// What one server did for the client.
struct Figures {
    rate_per_s: f64,
    /// CPU time of its threads.
    cpu_ns_per_request: f64,
}

/// Records, and how each is asked for and answered.
struct Traffic {
    stores: Vec<u8>,
    requests: Vec<Vec<u8>>,
    /// How the response begins, and how long it is.
    responses: Vec<(Vec<u8>, usize)>,
}

impl Traffic {
    fn new() -> Self {
        let records = Records::new(10, 1000, 1);
        let (mut stores, mut requests, mut responses, mut key) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for number in 0..RECORDS {
            records.key(number, &mut key);
            let value = records.value(number);
            ask::set(&mut stores, &key, value);
            let mut request = Vec::new();
            ask::get(&mut request, &key);
            requests.push(request);
            let beginning = [&b"VALUE "[..], &key, format!(" 0 {}\r\n", value.len()).as_bytes()].concat();
            let total_bytes = beginning.len() + value.len() + b"\r\nEND\r\n".len();
            responses.push((beginning, total_bytes));
        }
        Self { stores, requests, responses }
    }

    /// Stores all records.
    fn store(&self, place: &Place) -> anyhow::Result<()> {
        const STORED: &[u8] = b"STORED\r\n";
        let mut stream = fs::File::from(place.connect()?);
        let mut answers = stream.try_clone()?;
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut all = vec![0; RECORDS as usize * STORED.len()];
                answers.read_exact(&mut all).map(|()| all.chunks(STORED.len()).all(|answer| answer == STORED))
            });
            stream.write_all(&self.stores)?;
            let stored = reader.join().expect("it does not panic")?;
            ensure!(stored, "not all records are stored");
            Ok(())
        })
    }

    /// Asks for random records, one at a time on each connection.
    fn drive(&self, place: &Place, server: &Process) -> anyhow::Result<Figures> {
        let sockets = (0..CONNECTIONS).map(|_| place.connect()).collect::<Result<Vec<_>, _>>()?;
        let ready = epoll::create(CreateFlags::CLOEXEC)?;
        for (at, socket) in sockets.iter().enumerate() {
            rustix::io::ioctl_fionbio(socket, true)?;
            epoll::add(&ready, socket, EventData::new_u64(at as u64), EventFlags::IN)?;
        }
        let mut random = 1u64;
        // Marsaglia's xorshift64.
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % RECORDS) as usize
        };
        let mut asked = vec![(0, 0); CONNECTIONS];
        let mut ask = |at: usize, asked: &mut (usize, usize)| -> anyhow::Result<()> {
            *asked = (next(), 0);
            let request = &self.requests[asked.0];
            ensure!(rustix::io::write(&sockets[at], request)? == request.len(), "a request was not taken whole");
            Ok(())
        };
        for (at, asked) in asked.iter_mut().enumerate() {
            ask(at, asked)?;
        }
        let (mut events, mut inbox) = (Vec::with_capacity(CONNECTIONS), Vec::with_capacity(16 << 10));
        let (started, mut completed) = (Instant::now(), 0u64);
        let mut since = None;
        loop {
            epoll::wait(&ready, spare_capacity(&mut events), None)?;
            for event in events.drain(..) {
                let at = event.data.u64() as usize;
                inbox.clear();
                let count = rustix::io::read(sockets[at].as_fd(), spare_capacity(&mut inbox))?;
                let (beginning, total_bytes) = &self.responses[asked[at].0];
                ensure!(asked[at].1 > 0 || inbox.starts_with(beginning), "not what was asked for");
                asked[at].1 += count;
                if asked[at].1 >= *total_bytes {
                    ensure!(asked[at].1 == *total_bytes && inbox.ends_with(b"END\r\n"), "a response of another size");
                    completed += 1;
                    ask(at, &mut asked[at])?;
                }
                ensure!(count > 0, "the server closed a connection");
            }
            let now = Instant::now();
            match since {
                None if now - started >= WARM_UP => since = Some((now, completed, server.cpu_ns()?)),
                Some((then, before, cpu_ns)) if now - then >= MEASURED => {
                    let requests = (completed - before) as f64;
                    return Ok(Figures {
                        rate_per_s: requests / (now - then).as_secs_f64(),
                        cpu_ns_per_request: (server.cpu_ns()? - cpu_ns) as f64 / requests,
                    });
                }
                _ => {}
            }
        }
    }
}

/// Runs `rounds` of each pair, A B A B.
pub(super) fn run(rounds: usize, places: &[String]) -> anyhow::Result<()> {
    crate::peers::prepare()?;
    let mut cpu = rustix::thread::CpuSet::new();
    cpu.set(CLIENT_CPU);
    rustix::thread::sched_setaffinity(None, &cpu).context("cannot run on the client's CPU")?;
    let folder = std::env::temp_dir().join(format!("muxbench-bench-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let traffic = Traffic::new();
    println!(
        "gets, muxbench / memcached -t 1, {CONNECTIONS} connections, {RECORDS} records, median of {rounds} rounds"
    );
    for kind in places {
        let mut ratios: BTreeMap<&str, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        for _ in 0..rounds {
            let figures = |start: &dyn Fn(&Place) -> anyhow::Result<Process>| {
                let place = Place::new(kind, &folder)?;
                let server = start(&place)?;
                traffic.store(&place)?;
                traffic.drive(&place, &server)
            };
            for architecture in ["epoll", "symped:1/epoll"] {
                let ours = figures(&|place| place.ours(architecture))?;
                let theirs = figures(&|place| place.memcached())?;
                let (rates, costs) = ratios.entry(architecture).or_default();
                rates.push(ours.rate_per_s / theirs.rate_per_s);
                costs.push(ours.cpu_ns_per_request / theirs.cpu_ns_per_request);
            }
        }
        for (architecture, (rates, costs)) in ratios {
            println!("  {kind:4} {architecture:14} rate {}  CPU a request {}", Spread::of(rates), Spread::of(costs));
        }
    }
    println!("  to reach: a rate of 1");
    fs::remove_dir_all(&folder)?;
    Ok(())
}
