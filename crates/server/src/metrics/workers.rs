//! The counters of every thread and child, in shared memory.
//!
//! Each worker is the only writer of its counters, so counting is a plain add: no lock, no locked instruction, no allocation.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, slice};

use crate::metrics::counters::Totals;
use crate::platform;
use crate::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// Defines an enumeration of kinds with the table of their names in reports.
macro_rules! kinds {
    ($(#[$meta:meta])* $kinds:ident { $($(#[$doc:meta])* $kind:ident $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $kinds {
            $($(#[$doc])* $kind,)*
        }

        impl $kinds {
            /// Every kind with its name in reports.
            pub const ALL: [(Self, &'static str); [$($name),*].len()] = [$((Self::$kind, $name)),*];
        }
    };
}

kinds! {
    /// The kinds of system calls that are counted separately.
    Syscall {
        /// accept4.
        Accept "accept",
        /// read.
        Read "read",
        /// write.
        Write "write",
        /// select, poll, epoll_wait, io_uring_enter that waits; waits of a pool for connections, of a payload thread for jobs.
        Wait "wait",
        /// epoll_ctl and other changes of interest; io_uring_enter that only submits; passing a connection to a pool.
        Control "control",
        /// close.
        Close "close",
        /// fork, pthread_create.
        Spawn "spawn",
        /// A check of all watched descriptors after the kernel dropped events.
        Rescan "rescan",
        /// Waking a thread of another stage with a pipe or a futex, and emptying the pipe.
        Wake "wake",
    }
}

kinds! {
    /// The kinds of operations that a completion mechanism requests of the kernel.
    Operation {
        Accept "accept",
        Receive "receive",
        Send "send",
        Cancel "cancel",
        Watch "watch",
        Register "register",
    }
}

/// The name of system calls that the kernel counted and that belong to no kind of [`Syscall`].
pub const OTHER: &str = "other";

/// The kinds whose sum is compared with the kernel's, because system call numbers do not distinguish them. With `wakes`,
/// threads wake each other through pipes and futexes, which adds calls of read, write and wait.
pub fn comparable_kinds(wakes: bool) -> &'static [&'static str] {
    if wakes { &["read", "write", "wait", "control", "rescan", "wake"] } else { &["wait", "control", "rescan"] }
}

/// A count with one writer and any number of readers.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`. Only the slot's owner may call this.
    #[inline]
    pub fn add(&self, count: u64) {
        // With one writer, a load and a store are enough; they compile to one plain add.
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of one worker; see [`Totals`]. All zeros are a valid value.
#[derive(Debug, Default)]
pub struct Counters {
    pub requests: Counter,
    pub bytes_in: Counter,
    pub bytes_out: Counter,
    pub accepted: Counter,
    /// Connections that a network thread got, whether it accepted them or not.
    pub assigned: Counter,
    /// Connections that ended.
    pub ended: Counter,
    pub refused: Counter,
    pub rejected: Counter,
    pub timed_out: Counter,
    pub tls_failed: Counter,
    /// Connections that waited for the end of a stall.
    pub hung: Counter,
    /// CPU time in which a worker reported its state and chose eligible workers, in nanoseconds.
    pub steering_ns: Counter,
    pub ignored: Counter,
    pub unsent: Counter,
    /// Crashes of children in this slot. Only the reaper counts them.
    pub crashed: Counter,
    pub events: Counter,
    syscalls: [Counter; Syscall::ALL.len()],
    /// The id of the network thread that has the slot; 0 if another thread or process has it.
    network_thread: AtomicU32,
    submitted: [Counter; Operation::ALL.len()],
    completed: [Counter; Operation::ALL.len()],
}

impl Counters {
    #[inline]
    pub fn syscall(&self, kind: Syscall) {
        self.syscalls_of(kind, 1);
    }

    #[inline]
    pub fn syscalls_of(&self, kind: Syscall, count: u64) {
        self.syscalls[kind as usize].add(count);
    }

    /// Marks the thread with this id, which is not 0, as the network thread that has the slot.
    pub fn begin_network_thread(&self, id: u32) {
        self.network_thread.store(id, Relaxed);
    }

    /// The id of the network thread that has the slot; `None` if another thread or process has it.
    pub fn network_thread(&self) -> Option<u32> {
        Some(self.network_thread.load(Relaxed)).filter(|id| *id != 0)
    }

    #[inline]
    pub fn submitted(&self, kind: Operation) {
        self.submitted[kind as usize].add(1);
    }

    #[inline]
    pub fn completed(&self, kind: Operation) {
        self.completed[kind as usize].add(1);
    }
}

/// A worker's slot, aligned so that no two workers write to one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Slot {
    pub counters: Counters,
    /// 0 if free, [`THREAD`] if a thread has the slot, otherwise the id of its process.
    owner: AtomicU32,
    /// The descriptor that a thread serves or waits on, plus one; 0 for none. The stopping server shuts it down.
    connection: AtomicI32,
}

/// The present values of a payload stage's controllers.
#[derive(Debug, Default)]
pub struct Gauges {
    /// The most jobs that a payload thread takes at once; 0 for all.
    pub batch_jobs: AtomicU64,
    /// Requests that admission control admits per second; 0 while it admits all.
    pub admitted_per_s: AtomicU64,
}

impl Gauges {
    /// The value of a gauge; `None` for 0.
    pub fn read(gauge: &AtomicU64) -> Option<u64> {
        Some(gauge.load(Relaxed)).filter(|value| *value > 0)
    }
}

/// The page before the slots, with the ticks and the process ids of leaving children.
const FRONT_BYTES: usize = 4096;

const THREAD: u32 = u32::MAX;

impl Slot {
    /// Frees the slot. The next owner adds to the current counts.
    pub fn release(&self) {
        self.forget_connection();
        self.owner.store(0, Release);
    }

    /// Stores the worker's process id, unless the worker has already freed the slot.
    pub fn set_process_if_taken(&self, pid: i32) {
        let _ = self.owner.compare_exchange(THREAD, pid as u32, Relaxed, Relaxed);
    }

    /// Removes the process id of an ended child. The slot stays taken.
    pub fn forget_process(&self) {
        self.owner.store(THREAD, Relaxed);
    }

    pub fn set_connection(&self, descriptor: i32) {
        self.connection.store(descriptor + 1, Relaxed);
    }

    pub fn forget_connection(&self) {
        self.connection.store(0, Relaxed);
    }

    /// The process id of the slot's child.
    pub fn process(&self) -> Option<i32> {
        let owner = self.owner.load(Relaxed);
        (owner != 0 && owner != THREAD).then_some(owner as i32)
    }

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
    /// Ticks of the time limits, shared with children.
    ticks: &'static AtomicU32,
    /// Process ids of children that freed their slots and are not yet reaped; 0 for a free place.
    leaving: &'static [AtomicU32],
    /// CPU time and switches of reaped children.
    reaped: Mutex<Totals>,
    gauges: Gauges,
    /// The first slot that was never taken. Slots from here on are not read, because reading would allocate their pages.
    fresh_from: AtomicUsize,
}

impl Workers {
    /// Maps slots for the accept thread and `count` workers.
    pub fn new(count: usize) -> io::Result<Self> {
        let count = count + 1;
        let at = platform::map(FRONT_BYTES + count * size_of::<Slot>(), libc::MAP_SHARED)?;
        // SAFETY: the mapping is page-aligned, has room for the front and `count` slots, and is never unmapped. Its zeros are
        // valid slots.
        let (front, slots) = unsafe {
            let front = slice::from_raw_parts(at.cast::<AtomicU32>(), FRONT_BYTES / size_of::<AtomicU32>());
            (front, slice::from_raw_parts(at.byte_add(FRONT_BYTES).cast::<Slot>(), count))
        };
        let (ticks, leaving) = front.split_first().expect("the front is not empty");
        slots[0].owner.store(THREAD, Relaxed);
        let (reaped, gauges, fresh_from) = (Mutex::default(), Gauges::default(), AtomicUsize::new(1));
        Ok(Self { slots, ticks, leaving, reaped, gauges, fresh_from })
    }

    pub fn accept(&self) -> &'static Counters {
        &self.slots[0].counters
    }

    pub fn gauges(&self) -> &Gauges {
        &self.gauges
    }

    /// The ticks that [`crate::service::limits::count_ticks`] counts.
    pub fn ticks(&self) -> &'static AtomicU32 {
        self.ticks
    }

    /// Takes a free slot, searching from `cursor`; `None` if all are taken. Only one thread of a server may call this.
    pub fn claim(&self, cursor: &mut usize) -> Option<&'static Slot> {
        let workers = &self.slots[1..];
        let mut places = (0..workers.len()).map(|step| (*cursor + step) % workers.len());
        let at = places.find(|&at| workers[at].is_free())?;
        *cursor = at + 1;
        self.fresh_from.fetch_max(at + 2, Relaxed);
        workers[at].owner.store(THREAD, Relaxed);
        Some(&workers[at])
    }

    /// Lists a child that is about to free its slot, until [`Workers::forget_leaving`]. If the list is full, the child's usage
    /// is missing until it is reaped.
    pub fn add_leaving(&self, pid: i32) {
        let mut places = self.places_of(pid);
        places.any(|place| place.compare_exchange(0, pid as u32, Relaxed, Relaxed).is_ok());
    }

    pub fn forget_leaving(&self, pid: i32) {
        if let Some(place) = self.places_of(pid).find(|place| place.load(Relaxed) == pid as u32) {
            place.store(0, Relaxed);
        }
    }

    /// The places to search for a process id. Consecutive ids rarely collide.
    fn places_of(&self, pid: i32) -> impl Iterator<Item = &'static AtomicU32> + use<> {
        let first = pid as usize % self.leaving.len();
        self.leaving[first..].iter().chain(&self.leaving[..first])
    }

    /// The process ids of children that are not yet reaped, without duplicates.
    pub fn processes(&self) -> Vec<i32> {
        // Read the slots first: a child adds itself to `leaving` before it frees its slot.
        let mut processes: BTreeSet<i32> = self.taken().filter_map(Slot::process).collect();
        processes.extend(self.leaving.iter().map(|place| place.load(Relaxed) as i32).filter(|&pid| pid != 0));
        processes.into_iter().collect()
    }

    /// CPU time and switches of reaped children. Keep this locked while reaping a child, and while adding up living children,
    /// so that each child is counted once.
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

    pub fn connections_open(&self) -> u64 {
        let sum = |figure: fn(&Counters) -> &Counter| {
            self.used_slots().iter().map(|s| figure(&s.counters).get()).sum::<u64>()
        };
        // Read `accepted` last, so that the difference is never negative.
        let ended = sum(|c| &c.ended);
        sum(|c| &c.accepted).saturating_sub(ended)
    }

    /// The requests completed.
    pub fn requests(&self) -> u64 {
        self.used_slots().iter().map(|slot| slot.counters.requests.get()).sum()
    }

    /// The bytes received and sent.
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
        for slot in self.used_slots() {
            let counters = &slot.counters;
            macro_rules! add {
                ($($count:ident)*) => { $(*totals.$count.get_or_insert(0) += counters.$count.get();)* };
            }
            add!(requests bytes_in bytes_out accepted refused rejected timed_out tls_failed hung steering_ns ignored unsent crashed
                events);
            let sums = syscalls.iter_mut().chain(&mut submitted).chain(&mut completed);
            let figures = counters.syscalls.iter().chain(&counters.submitted).chain(&counters.completed);
            for (sum, counter) in sums.zip(figures) {
                *sum += counter.get();
            }
        }
        totals.syscalls = Syscall::ALL.iter().map(|&(kind, name)| (name.to_owned(), syscalls[kind as usize])).collect();
        // Without operations the tables stay empty.
        let named = |sums: [u64; Operation::ALL.len()]| {
            let all = Operation::ALL.iter().map(|&(kind, name)| (name.to_owned(), sums[kind as usize]));
            all.filter(|_| sums != [0; _]).collect()
        };
        (totals.operations, totals.completions) = (named(submitted), named(completed));
        totals
    }
}

#[cfg(all(test, loom))]
mod interleavings {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Counting is a load and a store, so the next owner must see the previous owner's counts.
    #[test]
    fn next_slot_owner_continues_the_counts() {
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
            // As in `Workers::claim`.
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
        assert!(workers.claim(&mut cursor).is_none(), "both slots are taken");
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
        // Both process ids have the same first place.
        let colliding = 40 + workers.leaving.len() as i32;
        workers.add_leaving(40);
        workers.add_leaving(colliding);
        assert_eq!(workers.processes(), [40, colliding]);
        slot.release();
        assert_eq!(workers.processes(), [40, colliding]);
        workers.forget_leaving(40);
        assert_eq!(workers.processes(), [colliding]);
        (0..10_000).for_each(|pid| workers.add_leaving(pid));
        assert_eq!(workers.processes().len(), workers.leaving.len(), "the list is full");
        workers.forget_leaving(colliding);
        assert!(!workers.processes().contains(&colliding));
    }

    #[test]
    fn kind_is_the_index_of_its_row() {
        for (at, (kind, _)) in Syscall::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, at);
        }
        for (at, (kind, _)) in Operation::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, at);
        }
    }
}
