//! The prices of what a hand-off between threads consists of: a system call, a wake-up, a cache line from another CPU.

use std::fmt;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::bench::process::{CLIENT_CPU, SERVER_CPU};
use crate::bench::spread::{Spread, rounds};
use crate::child::pin;

const TURNS: u32 = 20_000;

/// Prices in microseconds, over several rounds.
pub(super) struct Primitives {
    syscall: Spread,
    switch: Spread,
    remote: Spread,
    line: Spread,
}

impl Primitives {
    pub(super) fn measure(count: usize) -> anyhow::Result<Self> {
        let [same, both] = [[SERVER_CPU; 2], [SERVER_CPU, CLIENT_CPU]];
        let [syscall, switch, remote, line] =
            rounds(count, || Ok([syscall_us(), switch_us(same)?, switch_us(both)?, line_us(both)?]))?;
        Ok(Self { syscall, switch, remote, line })
    }

    pub(super) fn syscall_us(&self) -> f64 {
        self.syscall.median()
    }

    pub(super) fn switch_us(&self) -> f64 {
        self.switch.median()
    }
}

impl fmt::Display for Primitives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { syscall, switch, remote, line } = self;
        writeln!(f, "| part of a hand-off | µs |\n|---|--:|")?;
        writeln!(f, "| the shortest system call (`getppid`) | {syscall} |")?;
        writeln!(f, "| waking a thread on the same CPU and switching to it (futex) | {switch} |")?;
        writeln!(f, "| waking a thread on another CPU, until it runs (futex) | {remote} |")?;
        write!(f, "| fetching a cache line that another CPU has written | {line} |")
    }
}

fn syscall_us() -> f64 {
    let started = Instant::now();
    for _ in 0..TURNS {
        black_box(rustix::process::getppid());
    }
    started.elapsed().as_secs_f64() * 1e6 / f64::from(TURNS)
}

/// Has two threads, each on its CPU, take turns; returns the time of a turn. `turn` takes all turns of the thread with this number.
fn take_turns_us(cpus: [usize; 2], turn: impl Fn(u32) + Sync) -> anyhow::Result<f64> {
    let started = Instant::now();
    std::thread::scope(|scope| {
        let run = |number: usize| {
            pin(&[cpus[number]])?;
            turn(number as u32);
            anyhow::Ok(())
        };
        let threads = [0, 1].map(|number| scope.spawn(move || run(number)));
        threads.into_iter().try_for_each(|thread| thread.join().expect("nobody panics"))
    })?;
    Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(TURNS))
}

/// Returns the time of a hand-off with `Mutex` and `Condvar`, like that between stages.
pub(in crate::bench) fn switch_us(cpus: [usize; 2]) -> anyhow::Result<f64> {
    let (turn, changed) = (Mutex::new(0), Condvar::new());
    take_turns_us(cpus, |odd| {
        loop {
            let mut turn = turn.lock().expect("nobody panics");
            while *turn % 2 != odd {
                turn = changed.wait(turn).expect("nobody panics");
            }
            let is_last = *turn >= TURNS;
            *turn += 1;
            drop(turn);
            changed.notify_one();
            if is_last {
                return;
            }
        }
    })
}

/// Returns the time until a thread sees a value that a thread on another CPU has written.
fn line_us(cpus: [usize; 2]) -> anyhow::Result<f64> {
    let turn = AtomicU32::new(0);
    take_turns_us(cpus, |odd| {
        loop {
            let now = turn.load(Acquire);
            if now > TURNS {
                return;
            }
            if now % 2 == odd {
                turn.store(now + 1, Release);
            } else {
                spin_loop();
            }
        }
    })
}
