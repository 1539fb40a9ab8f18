//! Random numbers: each thread has a generator, splitmix64 (Steele, Lea, Flood 2014).

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of generators and forks so far. A child continues from the number of its parent.
static STREAMS: AtomicU64 = AtomicU64::new(0);

/// Makes the next child draw other numbers than its parent and siblings. Call this before the fork.
pub(crate) fn next_stream() {
    STREAMS.fetch_add(1, Relaxed);
}

/// Draws 64 random bits from the thread's generator.
pub(crate) fn bits() -> u64 {
    thread_local! {
        static STATE: Cell<Option<u64>> = const { Cell::new(None) };
    }
    // The mixed start states of threads are far apart.
    let state =
        STATE.get().unwrap_or_else(|| mix(STREAMS.fetch_add(1, Relaxed) + 1)).wrapping_add(0x9E37_79B9_7F4A_7C15);
    STATE.set(Some(state));
    mix(state)
}

/// Draws a number below `limit`.
pub(crate) fn below(limit: usize) -> usize {
    ((u128::from(bits()) * limit as u128) >> 64) as usize
}

/// The finaliser of splitmix64.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
