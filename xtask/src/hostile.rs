//! Hostile clients in a separate process (`cargo xtask hostile`), which has its own limit of descriptors. It runs on the CPUs
//! that its [`Order`] names. Benches and the soak start the process and end it.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use load::LoadConfig;
use load::io::source_ports;
use load::tools::hostile::{Crowd, Tally, manner};
use serde::{Deserialize, Serialize};

use crate::process::{Process, pin, start, wait_until};

const TICK: Duration = Duration::from_millis(1);
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// The process's task, sent to its standard input as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// Target, number of clients (as connections) and CPUs.
    pub config: LoadConfig,
    /// Names from [`load::tools::hostile::MANNERS`], used in turn.
    pub manners: Vec<String>,
    pub acts_per_s: f64,
}

/// Runs the process: acts until standard input ends, and writes a [`Tally`] every 100 ms.
pub fn act() -> anyhow::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line).context("cannot parse the order on standard input")?;
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = is_over.clone();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        flag.store(true, Relaxed);
    });
    // Let the measuring client run first on a shared CPU.
    rustix::process::nice(19).context("cannot lower the priority")?;
    if !order.config.cpus.is_empty() {
        pin(&order.config.cpus)?;
    }
    let named = |name: &String| manner(name).with_context(|| format!("unknown manner `{name}` of hostile clients"));
    let manners = order.manners.iter().map(named).collect::<anyhow::Result<Vec<_>>>()?;
    let sources = source_ports::sources(&order.config).map_err(|why| anyhow::anyhow!(why))?;
    let mut crowd = Crowd::new(&order.config, &sources, &manners)?;
    let (started, clients) = (Instant::now(), f64::from(order.config.connections));
    let (mut done, mut reported) = (0, Instant::now());
    while !is_over.load(Relaxed) {
        let due = (started.elapsed().as_secs_f64() * clients * order.acts_per_s) as u64;
        // After a pause, run at most one overdue act per client.
        crowd.act((due - done).min(clients as u64) as usize);
        done = due;
        if reported.elapsed() >= REPORT_INTERVAL {
            reported = Instant::now();
            // Writing fails once the parent has closed the pipe.
            if writeln!(io::stdout(), "{}", serde_json::to_string(&crowd.tally())?).is_err() {
                return Ok(());
            }
        }
        thread::sleep(TICK);
    }
    Ok(())
}

/// A handle to the process, which ends when the handle is dropped.
pub struct HostileProcess {
    process: Process,
    tally: Arc<Mutex<Tally>>,
}

impl HostileProcess {
    pub fn start(order: &Order) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
        // Shield the process from a Ctrl-C at the terminal; the end of its standard input stops it.
        command.arg("hostile").process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = start(&mut command)?;
        let tally = Arc::new(Mutex::new(Tally::default()));
        let (lines, kept) = (process.0.stdout.take().context("standard output is piped")?, tally.clone());
        let input = process.0.stdin.as_mut().context("standard input is piped")?;
        writeln!(input, "{}", serde_json::to_string(order)?).context("cannot send the order to the hostile clients")?;
        thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                if let (Ok(now), Ok(mut tally)) = (serde_json::from_str(&line), kept.lock()) {
                    *tally = now;
                }
            }
        });
        Ok(Self { process, tally })
    }

    pub fn tally(&self) -> Tally {
        self.tally.lock().map(|tally| *tally).unwrap_or_default()
    }

    pub fn wait_until(&mut self, condition: &str, holds: impl Fn(&Tally) -> bool) -> anyhow::Result<()> {
        let waited = wait_until(condition, Duration::from_secs(60), || {
            let ended = self.process.0.try_wait()?;
            ensure!(ended.is_none(), "the hostile clients ended ({ended:?}) before {condition}");
            Ok(holds(&self.tally()))
        });
        waited.with_context(|| format!("{:?}", self.tally()))
    }
}
