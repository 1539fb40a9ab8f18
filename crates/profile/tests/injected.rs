//! Injected costs: threads that do one kind of work are sampled, and most samples must be in the category of that work.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use muxbench_profile::Category::{Application, Copies, Locks, Memory, Receive, Scheduling, Send, Softirq, SystemCalls};
use muxbench_profile::sampling::{Event, PERIOD_NS, Sampler, can_sample};
use muxbench_profile::symbols::Symbols;
use muxbench_profile::{Calls, Category, Classifier};

#[path = "../../server/src/skipped.rs"]
mod skipped;

/// The samples of a piece of work.
const SAMPLES: u64 = 400;

/// Samples this process while two threads execute `work`. Returns the share of each category; `None` for unexplained stacks.
fn shares(work: impl Fn(usize) + Sync) -> HashMap<Option<Category>, f64> {
    let is_over = AtomicBool::new(false);
    let mut chains = HashMap::new();
    thread::scope(|scope| {
        for number in 0..2 {
            let (work, is_over) = (&work, &is_over);
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    work(number);
                }
            });
        }
        let cpus: Vec<usize> = (0..thread::available_parallelism().unwrap().get()).collect();
        let mut sampler = Sampler::start(&cpus).unwrap();
        let (own, end, mut count) = (std::process::id(), Instant::now() + Duration::from_secs(60), 0);
        while count < SAMPLES && Instant::now() < end {
            thread::sleep(Duration::from_millis(50));
            sampler.read(&mut |event| {
                if let Event::Sample { pid, chain, .. } = event
                    && pid == own
                {
                    count += 1;
                    *chains.entry((pid, chain.to_vec())).or_insert(0) += 1;
                }
            });
        }
        is_over.store(true, Relaxed);
        assert!(count >= SAMPLES, "{count} samples, one for {PERIOD_NS} ns of CPU time");
    });
    let calls = Calls::of(Symbols::new().stacks(std::process::id(), &chains));
    let (mut classifier, mut shares) = (Classifier::default(), HashMap::new());
    for (stack, samples) in calls.stacks() {
        *shares.entry(classifier.category(&stack)).or_default() += f64::from(samples) / calls.samples() as f64;
    }
    shares
}

fn spin() {
    for number in 0..1_000_u64 {
        black_box(number);
    }
}

/// Makes needless system calls.
fn ask() {
    for _ in 0..20 {
        black_box(rustix::process::getppid());
    }
}

/// Writes to each page.
fn touch(memory: &mut [u8]) {
    memory.iter_mut().step_by(4096).for_each(|byte| *black_box(byte) = 1);
}

/// Two threads hand a lock to each other.
fn hand_over() -> impl Fn(usize) + Sync {
    let (turn, changed) = (Mutex::new(0_usize), Condvar::new());
    move |number| {
        let (mut at, _) = changed
            .wait_timeout_while(turn.lock().unwrap(), Duration::from_millis(10), |at| *at % 2 != number)
            .unwrap();
        *at += 1;
        changed.notify_all();
    }
}

/// A thread sends to itself over loopback.
fn echo() -> impl Fn(usize) + Sync {
    let pair = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let out = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (out, listener.accept().unwrap().0)
    };
    let pairs = [pair(), pair()];
    move |number| {
        let (mut out, mut inn) = (&pairs[number].0, &pairs[number].1);
        out.write_all(&[1; 128]).unwrap();
        inn.read_exact(&mut [0; 128]).unwrap();
    }
}

#[test]
fn injected_cost_is_found_in_its_category() {
    if let Err(reason) = can_sample() {
        skipped::skipped(&format!("sampled stacks: {reason}"));
        assert!(reason.contains("; "), "no remedy: {reason}");
        return;
    }
    let memory = [(); 2].map(|()| Mutex::new(vec![0_u8; 64 << 10]));
    let works: [(&str, &[Category], Box<dyn Fn(usize) + Sync>); 6] = [
        ("loop", &[Application], Box::new(|_| spin())),
        ("getppid", &[SystemCalls], Box::new(|_| ask())),
        ("fill", &[Copies], Box::new(|at| black_box(&mut *memory[at].lock().unwrap()).fill(black_box(7)))),
        ("allocate", &[Memory], Box::new(|_| touch(&mut vec![0; 40 << 20]))),
        ("lock", &[Locks, Scheduling, SystemCalls], Box::new(hand_over())),
        ("echo", &[Send, Softirq, Receive, SystemCalls, Scheduling, Memory, Copies], Box::new(echo())),
    ];
    for (name, categories, work) in works {
        let shares = shares(work);
        let found: f64 = categories.iter().filter_map(|it| shares.get(&Some(*it))).sum();
        assert!(found > 0.6, "{name}: {shares:?}");
        assert!(shares.get(&None).is_none_or(|share| *share < 0.05), "{name}: {shares:?}");
    }
}
