//! A crowd of hostile clients in a process of its own, which has descriptors of its own and keeps to the client's CPU:
//! `cargo xtask hostile`, which benches and the soak start and which ends with them.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use std::os::unix::process::CommandExt;

use anyhow::{Context, bail, ensure};
use load::hostile::{Crowd, Tally, manner};
use load::{LoadConfig, ports};
use serde::{Deserialize, Serialize};

/// Between two looks at the clock.
const TICK: Duration = Duration::from_millis(1);
/// How often it says how it is.
const SAY: Duration = Duration::from_millis(100);

/// What the process is told, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// Where to; as many clients as it has connections, on its CPUs.
    pub config: LoadConfig,
    /// In which of [`load::hostile::MANNERS`], in turn.
    pub manners: Vec<String>,
    /// How much each client does in a second.
    pub acts_per_s: f64,
}

/// The process: acts until its standard input ends, and says what came of it.
///
/// # Errors
/// When the order is not understood, or cannot be followed.
pub fn act() -> anyhow::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line).context("the order on standard input")?;
    let is_over = Arc::new(AtomicBool::new(false));
    let heard = is_over.clone();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        heard.store(true, Relaxed);
    });
    // Who measures on the same CPU comes first.
    rustix::process::nice(19).context("nice")?;
    if !order.config.cpus.is_empty() {
        let mut cpus = rustix::thread::CpuSet::new();
        order.config.cpus.iter().for_each(|&cpu| cpus.set(cpu));
        rustix::thread::sched_setaffinity(None, &cpus).context("the hostile clients' CPUs")?;
    }
    let named = |name: &String| manner(name).with_context(|| format!("{name} is no manner of hostile clients"));
    let manners = order.manners.iter().map(named).collect::<anyhow::Result<Vec<_>>>()?;
    let sources = ports::sources(&order.config).map_err(|why| anyhow::anyhow!(why))?;
    let mut crowd = Crowd::new(&order.config, &sources, &manners)?;
    let (started, clients) = (Instant::now(), f64::from(order.config.connections));
    let (mut done, mut said) = (0, Instant::now());
    while !is_over.load(Relaxed) {
        let due = (started.elapsed().as_secs_f64() * clients * order.acts_per_s) as u64;
        // What it was too late for is not made up for.
        crowd.act((due - done).min(clients as u64) as usize);
        done = due;
        if said.elapsed() >= SAY {
            said = Instant::now();
            // When nobody listens any more, nobody wants it.
            if writeln!(io::stdout(), "{}", serde_json::to_string(&crowd.tally())?).is_err() {
                return Ok(());
            }
        }
        thread::sleep(TICK);
    }
    Ok(())
}

/// The process as who started it sees it; it ends when this is dropped.
pub struct Hostile {
    process: Child,
    tally: Arc<Mutex<Tally>>,
}

impl Hostile {
    /// Starts it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(order: &Order) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("where this program is")?);
        // A Ctrl-C at the terminal is for us: it ends with its standard input.
        command.arg("hostile").process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let tally = Arc::new(Mutex::new(Tally::default()));
        let (lines, kept) = (process.stdout.take().context("standard output is piped")?, tally.clone());
        let input = process.stdin.as_mut().context("standard input is piped")?;
        writeln!(input, "{}", serde_json::to_string(order)?).context("the hostile clients take no order")?;
        thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                if let (Ok(now), Ok(mut tally)) = (serde_json::from_str(&line), kept.lock()) {
                    *tally = now;
                }
            }
        });
        Ok(Self { process, tally })
    }

    /// What came of it, up to a moment ago.
    pub fn tally(&self) -> Tally {
        self.tally.lock().map(|tally| *tally).unwrap_or_default()
    }

    /// Waits until something holds of its tally.
    ///
    /// # Errors
    /// When it ends before, or that takes longer than a minute.
    pub fn until(&mut self, what: &str, holds: impl Fn(&Tally) -> bool) -> anyhow::Result<()> {
        let started = Instant::now();
        while !holds(&self.tally()) {
            if let Some(status) = self.process.try_wait()? {
                bail!("the hostile clients ended ({status}) before {what}");
            }
            ensure!(started.elapsed() < Duration::from_secs(60), "not in a minute: {what}; {:?}", self.tally());
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
