//! Hostile clients in a thread of low priority, for benches and the soak.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use load::LoadConfig;
use load::io::source_ports;
use load::tools::hostile::{Crowd, Tally, manner};

use crate::process::{pin, wait_until};

const TICK: Duration = Duration::from_millis(1);

/// A handle to the clients, which act until it is dropped.
pub struct Hostile {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    tally: Mutex<Tally>,
}

impl Hostile {
    /// Starts the clients. `config` has their target, their number (as connections) and their CPUs; `manners` are names from
    /// [`load::tools::hostile::MANNERS`], used in turn.
    pub fn start(config: LoadConfig, manners: Vec<String>, acts_per_s: f64) -> Self {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = thread::spawn(move || act(&config, &manners, acts_per_s, &theirs));
        Self { shared, thread: Some(thread) }
    }

    pub fn tally(&self) -> Tally {
        self.shared.tally.lock().map(|tally| *tally).unwrap_or_default()
    }

    pub fn wait_until(&mut self, condition: &str, holds: impl Fn(&Tally) -> bool) -> anyhow::Result<()> {
        wait_until(condition, Duration::from_secs(60), || {
            if let Some(ended) = self.thread.take_if(|thread| thread.is_finished()) {
                ended.join().expect("hostile clients do not panic")?;
            }
            ensure!(self.thread.is_some(), "the hostile clients ended before {condition}");
            Ok(holds(&self.tally()))
        })
        .with_context(|| format!("{:?}", self.tally()))
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        // Their connections end with the thread.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn act(config: &LoadConfig, manners: &[String], acts_per_s: f64, shared: &Shared) -> anyhow::Result<()> {
    // Let the measuring client run first on a shared CPU. On Linux this is the priority of the thread.
    rustix::process::nice(19).context("cannot lower the priority")?;
    if !config.client.cpus.is_empty() {
        pin(&config.client.cpus)?;
    }
    let named = |name: &String| manner(name).with_context(|| format!("unknown manner `{name}` of hostile clients"));
    let manners = manners.iter().map(named).collect::<anyhow::Result<Vec<_>>>()?;
    let sources = source_ports::sources(config).map_err(|why| anyhow!(why))?;
    let mut crowd = Crowd::new(config, &sources, &manners)?;
    let (started, clients, mut done) = (Instant::now(), f64::from(config.connections), 0);
    while !shared.is_over.load(Relaxed) {
        let due = (started.elapsed().as_secs_f64() * clients * acts_per_s) as u64;
        // After a pause, run at most one overdue act per client.
        crowd.act((due - done).min(clients as u64) as usize);
        done = due;
        *shared.tally.lock().expect("nobody panics") = crowd.tally();
        thread::sleep(TICK);
    }
    Ok(())
}
