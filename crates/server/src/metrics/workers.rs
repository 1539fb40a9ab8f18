//! The counters of every thread and child, in shared memory.
//!
//! Each worker is the only writer of its slot, so that counting is a plain add: no lock, no locked instruction, no allocation.
//! The sums are read from all slots.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, ptr, slice};

use crate::metrics::counters::Totals;
use crate::platform;
use crate::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// The kinds of system calls that are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Syscall {
    /// accept4.
    Accept,
    /// read.
    Read,
    /// write.
    Write,
    /// select, poll, epoll_wait; io_uring_enter that waits; the wait of a pool for a handed-over connection, of a payload thread
    /// for a job.
    Wait,
    /// epoll_ctl and other changes of interest; io_uring_enter that only submits; handing a connection over to a pool.
    Control,
    /// close.
    Close,
    /// fork, pthread_create.
    Spawn,
    /// A check of everything watched, because events were lost.
    Rescan,
    /// Waking a thread of another stage, by a pipe or a futex; and emptying the pipe.
    Wake,
}

impl Syscall {
    /// Every kind with its name in reports.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Accept, "accept"),
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Wait, "wait"),
        (Self::Control, "control"),
        (Self::Close, "close"),
        (Self::Spawn, "spawn"),
        (Self::Rescan, "rescan"),
        (Self::Wake, "wake"),
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// The kind of system calls counted by the kernel that belong to no kind of [`Syscall`].
pub const OTHER: &str = "other";

/// Kinds to be compared as one sum with the kernel's count, which cannot tell them apart by their numbers. Threads that wake each
/// other use pipes and futexes, which are also read, written and waited for.
pub fn comparable_kinds(wakes: bool) -> &'static [&'static str] {
    if wakes { &["read", "write", "wait", "control", "rescan", "wake"] } else { &["wait", "control", "rescan"] }
}

/// The kinds of operations that the kernel does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Operation {
    /// Accept connections: one, or repeatedly.
    Accept,
    /// Receive: once, or repeatedly.
    Receive,
    /// Send.
    Send,
    /// End another operation.
    Cancel,
    /// Watch a descriptor of the loop.
    Watch,
}

impl Operation {
    /// Every kind with its name in reports.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Accept, "accept"),
        (Self::Receive, "receive"),
        (Self::Send, "send"),
        (Self::Cancel, "cancel"),
        (Self::Watch, "watch"),
    ];
}

/// A count with one writer and any number of readers.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`. Only the slot's owner may call it.
    #[inline]
    pub fn add(&self, count: u64) {
        // One writer: a load and a store are enough, and compile to one plain add.
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// The present count.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of one worker. All zeros are a valid value.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests completed.
    pub requests: Counter,
    /// Bytes received.
    pub bytes_in: Counter,
    /// Bytes sent.
    pub bytes_out: Counter,
    /// Connections accepted and served.
    pub accepted: Counter,
    /// Connections that ended.
    pub ended: Counter,
    /// Connections accepted and refused.
    pub refused: Counter,
    /// Connections cut off because their clients took too long.
    pub timed_out: Counter,
    /// Datagrams that were no requests.
    pub ignored: Counter,
    /// Responses as datagrams that the kernel did not take.
    pub unsent: Counter,
    /// Children of this slot that crashed, counted by their reaper.
    pub crashed: Counter,
    /// Events that waits reported.
    pub events: Counter,
    syscalls: [Counter; Syscall::ALL.len()],
    submitted: [Counter; Operation::ALL.len()],
    completed: [Counter; Operation::ALL.len()],
}

impl Counters {
    /// Counts one system call.
    #[inline]
    pub fn syscall(&self, kind: Syscall) {
        self.syscalls_of(kind, 1);
    }

    /// Counts `count` system calls.
    #[inline]
    pub fn syscalls_of(&self, kind: Syscall, count: u64) {
        self.syscalls[kind as usize].add(count);
    }

    /// Counts one requested operation.
    #[inline]
    pub fn submitted(&self, kind: Operation) {
        self.submitted[kind as usize].add(1);
    }

    /// Counts one completion. A multishot operation has many.
    #[inline]
    pub fn completed(&self, kind: Operation) {
        self.completed[kind as usize].add(1);
    }
}

/// A worker's slot. Aligned so that no two workers write to one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Slot {
    /// The worker's counters.
    pub counters: Counters,
    /// 0: free; otherwise taken, by a thread or the process with this id.
    owner: AtomicU32,
    /// The descriptor that a thread serves, plus one, so that it can be stopped; 0: none.
    connection: AtomicI32,
}

/// A page before the slots, with the ticks and the leaving children.
const FRONT_BYTES: usize = 4096;

/// The owner of a slot that no child process has.
const THREAD: u32 = u32::MAX;

impl Slot {
    /// Frees the slot. Its counts stay, so that sums only grow.
    pub fn release(&self) {
        self.forget_connection();
        // The next owner continues these counts.
        self.owner.store(0, Release);
    }

    /// Stores the worker's process id, unless it has ended and freed the slot already.
    pub fn set_process_if_taken(&self, pid: i32) {
        let _ = self.owner.compare_exchange(THREAD, pid as u32, Relaxed, Relaxed);
    }

    /// Removes the ended child's process id. The slot stays taken.
    pub fn forget_process(&self) {
        self.owner.store(THREAD, Relaxed);
    }

    /// Stores the descriptor that the worker serves.
    pub fn set_connection(&self, descriptor: i32) {
        self.connection.store(descriptor + 1, Relaxed);
    }

    /// Removes the descriptor.
    pub fn forget_connection(&self) {
        self.connection.store(0, Relaxed);
    }

    /// The process id of the slot's child.
    pub fn process(&self) -> Option<i32> {
        let owner = self.owner.load(Relaxed);
        (owner != 0 && owner != THREAD).then_some(owner as i32)
    }

    /// The descriptor that the slot's thread serves.
    pub fn connection(&self) -> Option<i32> {
        let descriptor = self.connection.load(Relaxed) - 1;
        (descriptor >= 0).then_some(descriptor)
    }

    fn is_free(&self) -> bool {
        self.owner.load(Acquire) == 0
    }
}

/// All slots of a server. Slot 0 belongs to the accept thread.
#[derive(Debug)]
pub struct Workers {
    slots: &'static [Slot],
    /// Ticks of the limits, shared with children.
    ticks: &'static AtomicU32,
    /// The process ids of children that freed their slots and are not yet reaped; 0 for a free place.
    leaving: &'static [AtomicU32],
    /// CPU time and switches of reaped children, which the kernel forgets.
    reaped: Mutex<Totals>,
    /// The first slot that was never taken. Later slots are not read, because reading would allocate their pages.
    fresh_from: AtomicUsize,
}

impl Workers {
    /// Maps slots for the accept thread and `count` workers. Unused pages cost nothing.
    ///
    /// # Errors
    /// When address space or memory runs out.
    pub fn new(count: usize) -> io::Result<Self> {
        let count = count + 1;
        // SAFETY: a fresh mapping at an address of the kernel's choice; no other object is touched.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                FRONT_BYTES + count * size_of::<Slot>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | platform::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is page-aligned, as long as the front and `count` slots, zeroed, which is a valid `Slot`, and never
        // unmapped: threads and children may write to it until the process ends.
        let (front, slots) = unsafe {
            let front = slice::from_raw_parts(at.cast::<AtomicU32>(), FRONT_BYTES / size_of::<AtomicU32>());
            (front, slice::from_raw_parts(at.byte_add(FRONT_BYTES).cast::<Slot>(), count))
        };
        let (ticks, leaving) = front.split_first().expect("the front is not empty");
        slots[0].owner.store(THREAD, Relaxed);
        Ok(Self { slots, ticks, leaving, reaped: Mutex::default(), fresh_from: AtomicUsize::new(1) })
    }

    /// The accept thread's counters.
    pub fn accept(&self) -> &'static Counters {
        &self.slots[0].counters
    }

    /// The ticks that [`crate::service::limits::count_ticks`] counts.
    pub fn ticks(&self) -> &'static AtomicU32 {
        self.ticks
    }

    /// Takes a free slot, searching from `cursor`; `None` if all are taken. Only the accept thread may call it.
    pub fn claim(&self, cursor: &mut usize) -> Option<&'static Slot> {
        let workers = &self.slots[1..];
        for step in 0..workers.len() {
            let at = (*cursor + step) % workers.len();
            if workers[at].is_free() {
                *cursor = at + 1;
                self.fresh_from.fetch_max(at + 2, Relaxed);
                workers[at].owner.store(THREAD, Relaxed);
                return Some(&workers[at]);
            }
        }
        None
    }

    /// Lists a child that frees its slot, until [`Workers::forget_leaving`]. If the list is full, the child is not seen until it
    /// is reaped.
    pub fn add_leaving(&self, pid: i32) {
        let mut places = self.places_of(pid);
        places.any(|place| place.compare_exchange(0, pid as u32, Relaxed, Relaxed).is_ok());
    }

    /// Removes a reaped child from the list.
    pub fn forget_leaving(&self, pid: i32) {
        if let Some(place) = self.places_of(pid).find(|place| place.load(Relaxed) == pid as u32) {
            place.store(0, Relaxed);
        }
    }

    /// The places to search for a process id: consecutive ids rarely collide.
    fn places_of(&self, pid: i32) -> impl Iterator<Item = &'static AtomicU32> + use<> {
        let first = pid as usize % self.leaving.len();
        self.leaving[first..].iter().chain(&self.leaving[..first])
    }

    /// Children that are not yet reaped, each once.
    pub fn processes(&self) -> Vec<i32> {
        // Read the slots first: a child is listed before it frees its slot.
        let in_slots: Vec<i32> = self.taken().filter_map(Slot::process).collect();
        let leaving = self.leaving.iter().map(|place| place.load(Relaxed) as i32).filter(|&pid| pid != 0);
        let mut processes: Vec<i32> = in_slots.into_iter().chain(leaving).collect();
        processes.sort_unstable();
        processes.dedup();
        processes
    }

    /// CPU time and switches of reaped children. A reaper holds the lock while it reaps, and a reader while it adds up living
    /// children: each child is in exactly one sum.
    pub fn reaped(&self) -> MutexGuard<'_, Totals> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn used_slots(&self) -> &'static [Slot] {
        &self.slots[..self.fresh_from.load(Relaxed)]
    }

    /// The taken slots, without the accept thread's.
    pub fn taken(&self) -> impl Iterator<Item = &'static Slot> + use<> {
        self.used_slots()[1..].iter().filter(|slot| !slot.is_free())
    }

    /// Connections open now.
    pub fn connections_open(&self) -> u64 {
        let sum = |figure: fn(&Counters) -> &Counter| {
            self.used_slots().iter().map(|s| figure(&s.counters).get()).sum::<u64>()
        };
        // Read `accepted` last, so that the difference is never negative.
        let ended = sum(|c| &c.ended);
        sum(|c| &c.accepted).saturating_sub(ended)
    }

    /// The bytes received and sent by all workers.
    pub fn bytes(&self) -> (u64, u64) {
        let each = self.used_slots().iter().map(|slot| (slot.counters.bytes_in.get(), slot.counters.bytes_out.get()));
        each.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }

    /// The sums over all slots, without the kernel's figures (CPU time, switches).
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let mut syscalls = [0u64; Syscall::ALL.len()];
        let mut submitted = [0u64; Operation::ALL.len()];
        let mut completed = [0u64; Operation::ALL.len()];
        let add = |sum: &mut Option<u64>, count: u64| *sum.get_or_insert(0) += count;
        for slot in self.used_slots() {
            let counters = &slot.counters;
            add(&mut totals.requests, counters.requests.get());
            add(&mut totals.bytes_in, counters.bytes_in.get());
            add(&mut totals.bytes_out, counters.bytes_out.get());
            add(&mut totals.accepted, counters.accepted.get());
            add(&mut totals.refused, counters.refused.get());
            add(&mut totals.timed_out, counters.timed_out.get());
            add(&mut totals.ignored, counters.ignored.get());
            add(&mut totals.unsent, counters.unsent.get());
            add(&mut totals.crashed, counters.crashed.get());
            add(&mut totals.events, counters.events.get());
            let sums = syscalls.iter_mut().chain(&mut submitted).chain(&mut completed);
            let figures = counters.syscalls.iter().chain(&counters.submitted).chain(&counters.completed);
            for (sum, counter) in sums.zip(figures) {
                *sum += counter.get();
            }
        }
        totals.syscalls = Syscall::ALL.iter().map(|&(kind, name)| (name.to_owned(), syscalls[kind as usize])).collect();
        // Without operations, list none.
        let named = |sums: [u64; Operation::ALL.len()]| {
            let all = Operation::ALL.iter().map(|&(kind, name)| (name.to_owned(), sums[kind as usize]));
            all.filter(|_| sums != [0; _]).collect()
        };
        (totals.operations, totals.completions) = (named(submitted), named(completed));
        totals
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Counting is a load and a store: the next owner must see the last owner's counts.
    #[test]
    fn next_owner_of_a_slot_counts_on() {
        loom::model(|| {
            let slot = Arc::new(Slot::default());
            slot.owner.store(THREAD, Relaxed);
            let first = {
                let slot = slot.clone();
                thread::spawn(move || {
                    slot.counters.requests.add(3);
                    slot.release();
                })
            };
            // As `Workers::claim` does, in the accept thread.
            while !slot.is_free() {
                thread::yield_now();
            }
            slot.owner.store(THREAD, Relaxed);
            let second = {
                let slot = slot.clone();
                thread::spawn(move || slot.counters.requests.add(4))
            };
            first.join().unwrap();
            second.join().unwrap();
            assert_eq!(slot.counters.requests.get(), 7);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_and_sums_only_grow() {
        let workers = Workers::new(2).unwrap();
        let mut cursor = 0;
        let first = workers.claim(&mut cursor).unwrap();
        let second = workers.claim(&mut cursor).unwrap();
        assert!(workers.claim(&mut cursor).is_none(), "two slots, both taken");
        first.counters.requests.add(3);
        second.counters.requests.add(4);
        first.release();
        let again = workers.claim(&mut cursor).unwrap();
        again.counters.requests.add(5);
        assert_eq!(workers.totals().requests, Some(12));
        assert_eq!(workers.taken().count(), 2);
    }

    #[test]
    fn leaving_child_is_listed_once_until_it_is_reaped() {
        let workers = Workers::new(2).unwrap();
        let slot = workers.claim(&mut 0).unwrap();
        slot.set_process_if_taken(40);
        assert_eq!(workers.processes(), [40]);
        // Two process ids with the same first place.
        let beside = 40 + workers.leaving.len() as i32;
        workers.add_leaving(40);
        workers.add_leaving(beside);
        assert_eq!(workers.processes(), [40, beside]);
        slot.release();
        assert_eq!(workers.processes(), [40, beside]);
        workers.forget_leaving(40);
        assert_eq!(workers.processes(), [beside]);
        (0..10_000).for_each(|pid| workers.add_leaving(pid));
        assert_eq!(workers.processes().len(), workers.leaving.len(), "there is no more room");
        workers.forget_leaving(beside);
        assert!(!workers.processes().contains(&beside));
    }

    #[test]
    fn kinds_are_indexes_of_their_tables() {
        for (at, (kind, _)) in Syscall::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, at);
        }
        for (at, (kind, _)) in Operation::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, at);
        }
    }
}
