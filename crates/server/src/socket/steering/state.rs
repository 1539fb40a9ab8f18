//! The state of workers in the memory that they share with the kernel's programs.

use std::io;
use std::mem::offset_of;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::bpf::SharedValue;
use crate::spec::model;

/// The most workers of a server.
pub(super) const WORKERS_MAX: usize = model::THREADS_MAX as usize;

/// The place of the bits of eligible workers.
pub(super) const ELIGIBLE_AT: usize = 0;
/// The place of the first row.
pub(super) const ROWS_AT: usize = ROW_BYTES;
pub(super) const ROW_BYTES: usize = size_of::<Row>();
pub(super) const STEERED_AT: i16 = offset_of!(Row, steered) as i16;
pub(super) const SETTLED_AT: i16 = offset_of!(Row, settled) as i16;

/// The time in a turn of a loop after which its worker counts as hung. Most turns take less than a millisecond.
const HUNG_NS: u64 = 20_000_000;

/// The state of a worker, aligned so that no two workers write to one cache line. All zeros are a worker that waits.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Row {
    /// Connections that the program has chosen this worker for. Only the program writes it.
    pub(super) steered: AtomicU64,
    /// Connections among `steered` that have ended, or never reached the worker.
    pub(super) settled: AtomicU64,
    /// The start of the present turn, CLOCK_MONOTONIC in nanoseconds; 0 while the worker waits.
    pub(super) entered_ns: AtomicU64,
    /// The events of the present turn.
    pub(super) pending: AtomicU64,
    /// Open connections.
    pub(super) connections: AtomicU64,
}

/// The rows of all workers, and the bits of the eligible ones.
#[derive(Debug)]
pub(super) struct Table {
    value: SharedValue,
    workers: usize,
}

impl Table {
    pub(super) fn new(workers: usize) -> io::Result<Self> {
        Ok(Self { value: SharedValue::new(ROWS_AT + workers * ROW_BYTES)?, workers })
    }

    /// The number of the map.
    pub(super) fn map(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.value.map)
    }

    pub(super) fn rows(&self) -> &[Row] {
        // SAFETY: the value has room for the rows, is aligned to a page, and lives as long as `self`. All zeros are valid rows, and
        // rows are only changed by atomic operations.
        unsafe { slice::from_raw_parts(self.value.start().byte_add(ROWS_AT).cast().as_ptr(), self.workers) }
    }

    pub(super) fn eligible(&self) -> &AtomicU64 {
        // SAFETY: as in `rows`.
        unsafe { self.value.start().byte_add(ELIGIBLE_AT).cast().as_ref() }
    }
}

/// Returns the bits of the workers that may get new connections at `now_ns`: workers that do not hang; of these, workers with at
/// most one and a half times the mean number of connections; of these, workers with at most as much of the mean number of
/// pending events. None is eligible if all hang.
pub(super) fn eligible(rows: &[Row], now_ns: u64) -> u64 {
    let all = rows.iter().enumerate().fold(0, |bits, (number, row)| {
        let entered_ns = row.entered_ns.load(Relaxed);
        let hangs = entered_ns != 0 && now_ns.saturating_sub(entered_ns) > HUNG_NS;
        bits | u64::from(!hangs) << number
    });
    let connections = without_high(all, |number| rows[number].connections.load(Relaxed));
    without_high(connections, |number| rows[number].pending.load(Relaxed))
}

/// Clears the bits of workers whose figure exceeds the mean by more than a half, and by more than 1.
fn without_high(bits: u64, figure: impl Fn(usize) -> u64) -> u64 {
    let numbers = || (0..u64::BITS as usize).filter(|number| bits >> number & 1 == 1);
    let (count, sum) = numbers().fold((0, 0), |(count, sum), number| (count + 1, sum + figure(number)));
    let is_low = |number: &usize| 2 * count * figure(*number) <= 3 * sum + 2 * count;
    numbers().filter(is_low).fold(0, |bits, number| bits | 1 << number)
}

/// Connections that a program steered to a worker, and that the worker never accepts: their clients gave up, or the kernel dropped
/// them. Steered connections that are not accepted may still arrive, so the estimate is the fewest of them over many turns.
#[derive(Debug)]
pub(super) struct LostConnections {
    estimate: u64,
    fewest: u64,
    turns: u32,
}

impl Default for LostConnections {
    fn default() -> Self {
        Self { estimate: 0, fewest: u64::MAX, turns: 0 }
    }
}

impl LostConnections {
    /// The turns over which the fewest are taken.
    const TURNS: u32 = 1024;

    /// Returns the estimate after a turn at whose end `steered` and `accepted` connections were counted.
    pub(super) fn after_turn(&mut self, steered: u64, accepted: u64) -> u64 {
        self.fewest = self.fewest.min(steered.saturating_sub(accepted));
        self.turns += 1;
        if self.turns == Self::TURNS {
            *self = Self { estimate: self.fewest, ..Self::default() };
        }
        self.estimate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_NS: u64 = 10 * HUNG_NS;

    /// A worker with the age of its turn in nanoseconds, its connections and its pending events.
    fn row(turn_ns: Option<u64>, connections: u64, pending: u64) -> Row {
        let row = Row::default();
        row.entered_ns.store(turn_ns.map_or(0, |age| NOW_NS - age), Relaxed);
        row.connections.store(connections, Relaxed);
        row.pending.store(pending, Relaxed);
        row
    }

    #[test]
    fn hung_worker_is_not_eligible() {
        let rows = [row(None, 5, 0), row(Some(HUNG_NS), 5, 1), row(Some(HUNG_NS + 1), 0, 0)];
        assert_eq!(eligible(&rows, NOW_NS), 0b011, "a worker that waits, or works for a short time, is eligible");
        assert_eq!(eligible(&[row(Some(HUNG_NS + 1), 0, 0)], NOW_NS), 0);
    }

    #[test]
    fn many_connections_or_events_exclude_a_worker() {
        // The mean is 100, so at most 151 are allowed.
        let connections = |of_last: u64| [row(None, 50, 0), row(None, 250 - of_last, 0), row(None, of_last, 0)];
        assert_eq!(eligible(&connections(151), NOW_NS), 0b111);
        assert_eq!(eligible(&connections(152), NOW_NS), 0b011);
        let pending = [row(Some(1), 1, 5), row(Some(1), 1, 0), row(Some(1), 9, 0)];
        assert_eq!(eligible(&pending, NOW_NS), 0b010, "events count among workers with few connections");
        let few = [row(None, 1, 0), row(None, 0, 0), row(None, 0, 0)];
        assert_eq!(eligible(&few, NOW_NS), 0b111, "a difference of one connection is ignored");
    }

    #[test]
    fn sixty_four_workers_have_a_bit_each() {
        let rows: Vec<Row> = (0..64).map(|number| row(None, u64::from(number == 63) * 100, 0)).collect();
        assert_eq!(eligible(&rows, NOW_NS), u64::MAX >> 1);
    }

    #[test]
    fn connections_in_their_handshake_are_not_lost() {
        let mut lost = LostConnections::default();
        let mut last = 0;
        for turn in 0..2 * u64::from(LostConnections::TURNS) {
            // Three are lost; one is in its handshake in most turns.
            last = lost.after_turn(turn + 3 + u64::from(turn % 100 != 0), turn);
        }
        assert_eq!(last, 3);
    }
}
