//! What honest clients notice of thousands of hostile ones beside them: the 99th percentile of their service time against
//! the same server without others, for architectures of which one thread has many connections.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use load::config::{HttpTarget, HttpTraffic, LoadConfig, Pacing, Phases, Timestamps};
use load::hostile::{MANNERS, Tally, manner};
use load::{Event, LoadReport};
use wire::ServiceSpec;

use super::{Bound, CLIENT_CPU, CONNECTIONS, Process, SERVER_CPU, Spread, muxbench};
use crate::hostile::{Hostile, Order};

const ROUNDS: usize = 5;
/// Those of which one thread has many connections.
const ARCHITECTURES: &str =
    "epoll,epoll-et,io_uring,io_uring-poll,symped:1/epoll,amped:0+1/epoll,seda:1+1/epoll,tokio,poll,select";
/// Of those that leave and come back a third are away, a ninth of all: ten thousand are there.
const HOSTILE: u32 = 11_250;
/// Of the hostile ones, at least so many are there at any time.
const THERE: f64 = 0.85;
const RATE_PER_S: f64 = 2_000.0;
const SERVICE: ServiceSpec = ServiceSpec::Http { folder: None };
/// What each hostile client does in a second: with so many of them, a third of which come back after three acts, that is 3 750
/// bytes and 1 250 new connections.
const ACTS_PER_S: f64 = 1.0;
/// Windows of one measurement, of whose percentiles the median is taken: a pause that a neighbour makes is in one of them.
const WINDOWS: usize = 5;
const WINDOW_NS: u64 = 1_200_000_000;
/// Most that the 99th percentile may grow.
const LIMIT: f64 = 3.0;

/// What hostile clients do, in turn.
const HOSTILE_MANNERS: &str = "half,slow-writer,garbage";
/// What as many silent ones do, of whom nothing is heard after a beginning: what it costs that they are there.
const SILENT_MANNERS: &str = "half";

/// Measures hostile clients beside honest ones
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Rounds of each three
    #[arg(long, default_value_t = ROUNDS)]
    pub rounds: usize,
    /// Architectures, with commas
    #[arg(long, value_delimiter = ',', default_value = ARCHITECTURES)]
    pub arch: Vec<String>,
    /// Hostile clients
    #[arg(long, default_value_t = HOSTILE)]
    pub hostile: u32,
    /// What hostile clients do, in turn, with commas; `all` for whatever there is
    #[arg(long, value_delimiter = ',', default_value = HOSTILE_MANNERS)]
    pub manners: Vec<String>,
    /// Honest requests a second
    #[arg(long, default_value_t = RATE_PER_S)]
    pub rate: f64,
    /// A muxbench that is already built [default: builds the release]
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
}

impl Default for Args {
    fn default() -> Self {
        let [arch, manners] = [ARCHITECTURES, HOSTILE_MANNERS].map(listed);
        Self { rounds: ROUNDS, arch, hostile: HOSTILE, manners, rate: RATE_PER_S, binary: None }
    }
}

fn listed(names: &str) -> Vec<String> {
    names.split(',').map(str::to_owned).collect()
}

/// Runs rounds of an honest load alone, beside silent connections, and beside hostile ones, A B C A B C.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let binary = args.binary.clone().map_or_else(muxbench, Ok)?;
    let is_all = args.manners == ["all"];
    let manners: Vec<String> =
        if is_all { MANNERS.iter().map(|manner| manner.name.to_owned()).collect() } else { args.manners.clone() };
    if let Some(unknown) = manners.iter().find(|name| manner(name).is_none()) {
        let known: Vec<&str> = MANNERS.iter().map(|manner| manner.name).collect();
        bail!("--manners {unknown}: there is none; there are {}, and all", known.join(", "));
    }
    let crowds = [("nobody", Vec::new()), ("silent", listed(SILENT_MANNERS)), ("hostile", manners)];
    println!(
        "p99 of the service time of {CONNECTIONS} honest connections at {} requests/s of http, as the kernel saw it, beside {} \
         hostile clients ({}) against beside nobody; median of {} rounds (least to most), each the median of {WINDOWS} windows of {} ms",
        args.rate,
        args.hostile,
        crowds[2].1.join(", "),
        args.rounds,
        WINDOW_NS / 1_000_000
    );
    for architecture in &args.arch {
        let mut rounds: Vec<[Figures; 3]> = Vec::new();
        for _ in 0..args.rounds {
            let [nobody, silent, hostile] = crowds.each_ref().map(|(name, manners)| {
                measure(args, &binary, architecture, manners).with_context(|| format!("{architecture} beside {name}"))
            });
            rounds.push([nobody?, silent?, hostile?]);
        }
        let spread = |of: &dyn Fn(&[Figures; 3]) -> f64| Spread::of(rounds.iter().map(of).collect());
        let ratio = spread(&|[nobody, _, hostile]| hostile.p99_us / nobody.p99_us);
        let busy = spread(&|[.., hostile]| hostile.busy);
        let silent = spread(&|[nobody, silent, _]| silent.p99_us / nobody.p99_us);
        let told = ratio.to_reach(Bound::AtMost(LIMIT));
        println!("  {architecture:16} {told}; if they only are there {silent}");
        println!(
            "  {:16} p99 in µs {} beside nobody, {} beside them; of the server's CPU {} and {busy}",
            "",
            spread(&|[nobody, ..]| nobody.p99_us),
            spread(&|[.., hostile]| hostile.p99_us),
            spread(&|[nobody, ..]| nobody.busy),
        );
        println!(
            "  {:16} as the client saw it {}; hostile connections {}, new ones a second {}",
            "",
            spread(&|[nobody, _, hostile]| hostile.client_p99_us / nobody.client_p99_us),
            spread(&|[.., hostile]| hostile.open),
            spread(&|[.., hostile]| hostile.begun_per_s),
        );
        if ratio.median() >= LIMIT {
            let why = if busy.median() > 0.9 {
                "the server's CPU has nothing to spare"
            } else if silent.median() >= LIMIT {
                "beside as many silent ones it is not either: that they are there is enough, as where each wait looks at all"
            } else {
                "why is not known: the server's CPU has something to spare, and it is not that they are there"
            };
            println!("  {:16} not reached: {why}", "");
        }
    }
    Ok(())
}

/// What came of one load.
struct Figures {
    /// As the kernel saw it, from the request at the driver to the response's arrival: who has the client's CPU is not in it.
    p99_us: f64,
    /// As the client did.
    client_p99_us: f64,
    /// The share of its CPU that the server used.
    busy: f64,
    begun_per_s: f64,
    /// Hostile connections.
    open: f64,
}

fn measure(args: &Args, binary: &Path, architecture: &str, manners: &[String]) -> anyhow::Result<Figures> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let mut command = Command::new(binary);
    command.args(["serve", "--service", "http", "--arch", architecture, "--cpus", SERVER_CPU]);
    // That it cannot say on the next port what it serves is nothing to us, who know.
    command.args(["--listen", &address.to_string()]).stderr(Stdio::null());
    let server = Process::start(command, || TcpStream::connect(address).is_ok())?;
    let mut crowd = None;
    if !manners.is_empty() {
        let order = Order {
            config: LoadConfig { connections: args.hostile, cpus: vec![CLIENT_CPU], ..honest(args, address) },
            manners: manners.to_vec(),
            acts_per_s: ACTS_PER_S,
        };
        let mut hostile = Hostile::start(&order)?;
        let there = (f64::from(args.hostile) * THERE) as u32;
        hostile.until("they are there", |tally| tally.open >= there.into())?;
        until_inside(&server, there)?;
        crowd = Some(hostile);
    }
    let tally = || crowd.as_ref().map(Hostile::tally).unwrap_or_default();
    let windows = (0..WINDOWS).map(|_| window(args, address, &server, &tally)).collect::<anyhow::Result<Vec<_>>>()?;
    if crowd.is_some() {
        ensure!(tally().open >= u64::from(args.hostile) / 2, "the hostile clients were not there: {:?}", tally());
    }
    let median = |of: fn(&Figures) -> f64| Spread::of(windows.iter().map(of).collect()).median();
    Ok(Figures {
        p99_us: median(|it| it.p99_us),
        client_p99_us: median(|it| it.client_p99_us),
        busy: median(|it| it.busy),
        begun_per_s: median(|it| it.begun_per_s),
        open: median(|it| it.open),
    })
}

/// One load, while the others stay as they are.
fn window(args: &Args, address: SocketAddr, server: &Process, tally: &dyn Fn() -> Tally) -> anyhow::Result<Figures> {
    // The first and the last look at what was used so far, in the window.
    let mut looks = Vec::new();
    let outcome = load::run(&honest(args, address), &mut |event| {
        if let Event::Progress { phase, elapsed_ns, .. } = event
            && phase == "measure"
            && let Ok(cpu_ns) = server.cpu_ns()
        {
            looks.truncate(1);
            looks.push((elapsed_ns, cpu_ns, tally()));
        }
    })?;
    let LoadReport { errors, kernel, service, planned, completed, .. } = &outcome.report;
    ensure!(errors.total() == 0 && planned == completed, "{completed} of {planned} requests answered: {errors:?}");
    let kernel = kernel.as_ref().context("the kernel took no timestamps")?;
    let &[first, last] = looks.as_slice() else { bail!("nothing was seen of the window") };
    let elapsed_ns = (last.0 - first.0) as f64;
    Ok(Figures {
        p99_us: kernel.service.distribution.p99_ns as f64 / 1e3,
        client_p99_us: service.distribution.p99_ns as f64 / 1e3,
        busy: (last.1 - first.1) as f64 / elapsed_ns,
        begun_per_s: (last.2.begun - first.2.begun) as f64 * 1e9 / elapsed_ns,
        open: last.2.open as f64,
    })
}

/// The server has descriptors of all but those that are just coming or going.
fn until_inside(server: &Process, connections: u32) -> anyhow::Result<()> {
    let folder = format!("/proc/{}/fd", server.0.id());
    let started = Instant::now();
    loop {
        let inside = fs::read_dir(&folder).context("the server ended")?.count();
        if inside >= connections as usize * 9 / 10 {
            return Ok(());
        }
        ensure!(
            started.elapsed() < Duration::from_secs(60),
            "the server has taken {inside} of {connections} connections; raise its limit of descriptors (ulimit -Hn)"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

fn honest(args: &Args, address: SocketAddr) -> LoadConfig {
    let target = HttpTarget { path: "/bytes/1024".to_owned(), body_bytes: Some(1024) };
    LoadConfig {
        connections: CONNECTIONS,
        rate_per_s: Some(args.rate),
        http: Some(HttpTraffic { host: None, targets: vec![target], headers: Vec::new(), status: 200 }),
        phases: Phases { ramp_ns: 100_000_000, hold_ns: 100_000_000, measure_ns: WINDOW_NS, drain_ns: 10_000_000_000 },
        // The CPU is the hostile clients' while nothing is due.
        pacing: Pacing::SleepSpin,
        cpus: vec![CLIENT_CPU],
        timestamps: Timestamps::Kernel,
        timeout_ns: 30_000_000_000,
        ..LoadConfig::new(address, SERVICE)
    }
}
