//! The counters of every thread and child, in memory that all of them share.
//!
//! Each worker owns one slot and is the only one to write it, so that counting is a plain add: no lock, no
//! locked instruction, no allocation. Whoever wants the sums reads all slots.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, ptr, slice};

use crate::metrics::counters::Totals;
use crate::platform;
use crate::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// The kinds of system calls that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Syscall {
    /// accept4.
    Accept,
    /// read.
    Read,
    /// write.
    Write,
    /// select, poll, epoll_wait; io_uring_enter that waits; a pool's wait to be handed a connection; a payload thread's for
    /// a job.
    Wait,
    /// epoll_ctl and its like: changes to what is watched; io_uring_enter that only submits; handing a connection over to a
    /// pool.
    Control,
    /// close.
    Close,
    /// fork, pthread_create.
    Spawn,
    /// Looks at everything that is watched, because events were lost.
    Rescan,
    /// Waking another stage's thread, by a pipe that its mechanism watches or by a futex; and taking the byte from the pipe.
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

/// The kind, where the kernel counts system calls, of all those that no kind of [`Syscall`] has.
pub const OTHER: &str = "other";

/// Kinds that are compared as one with the kernel's count, which goes by a call's number and cannot tell them apart. Where
/// threads wake each other, that is done by pipes and futexes: read, written and waited for as well.
pub fn comparable_kinds(wakes: bool) -> &'static [&'static str] {
    if wakes { &["read", "write", "wait", "control", "rescan", "wake"] } else { &["wait", "control", "rescan"] }
}

/// The kinds of operations that a kernel is asked to do by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Operation {
    /// Accept connections: one, or one after another.
    Accept,
    /// Receive: once, or again and again.
    Receive,
    /// Send.
    Send,
    /// End another operation.
    Cancel,
    /// Watch a descriptor that tells the loop to stop, or that other threads send it something.
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

/// A figure that only its owner adds to, and anyone may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`. Only the owner of the slot may.
    #[inline]
    pub fn add(&self, count: u64) {
        // One writer: a load and a store are enough, and compile to one plain add.
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// The figure now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What one worker counts. All zeros is a valid value.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests completed.
    pub requests: Counter,
    /// Bytes received.
    pub bytes_in: Counter,
    /// Bytes sent.
    pub bytes_out: Counter,
    /// ConnectionTable accepted and served.
    pub accepted: Counter,
    /// ConnectionTable that ended.
    pub ended: Counter,
    /// ConnectionTable accepted and turned away.
    pub refused: Counter,
    /// ConnectionTable cut off because their clients took too long.
    pub timed_out: Counter,
    /// Datagrams that were no requests.
    pub ignored: Counter,
    /// Responses that the kernel did not take, of datagrams.
    pub unsent: Counter,
    /// Children of this slot that crashed; whoever reaps them counts.
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

    /// Counts one operation that the kernel is asked to do.
    #[inline]
    pub fn submitted(&self, kind: Operation) {
        self.submitted[kind as usize].add(1);
    }

    /// Counts one completion. An operation that goes on has many.
    #[inline]
    pub fn completed(&self, kind: Operation) {
        self.completed[kind as usize].add(1);
    }
}

/// A worker's place. Aligned so that no two workers write one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Slot {
    /// What it counts.
    pub counters: Counters,
    /// 0: free; otherwise taken, and for a child process its process id.
    owner: AtomicU32,
    /// The connection that a thread serves, plus one, so that it can be woken to stop; 0: none.
    connection: AtomicI32,
}

/// In front of the slots: a page with the ticks and the children that leave.
const FRONT_BYTES: usize = 4096;

/// Taken, but by no child process.
const THREAD: u32 = u32::MAX;

impl Slot {
    /// Gives the slot back. What it counted stays, so that sums only grow.
    pub fn release(&self) {
        self.forget_connection();
        // Whoever takes it next counts on from here.
        self.owner.store(0, Release);
    }

    /// Says which process the slot's worker is, unless it has ended and released the slot already.
    pub fn set_process_if_taken(&self, pid: i32) {
        let _ = self.owner.compare_exchange(THREAD, pid as u32, Relaxed, Relaxed);
    }

    /// Says that the slot's child has ended. The slot stays taken.
    pub fn forget_process(&self) {
        self.owner.store(THREAD, Relaxed);
    }

    /// Says which descriptor the slot's worker serves.
    pub fn set_connection(&self, descriptor: i32) {
        self.connection.store(descriptor + 1, Relaxed);
    }

    /// Says that the slot's worker serves nothing any more.
    pub fn forget_connection(&self) {
        self.connection.store(0, Relaxed);
    }

    /// The process id of the child whose slot this is.
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

/// All slots of a server. Slot 0 is the accept thread's.
#[derive(Debug)]
pub struct Workers {
    slots: &'static [Slot],
    /// Ticks of the limits, for children too.
    ticks: &'static AtomicU32,
    /// Children that gave their slots back and are not yet reaped, by process id; 0 where there is none.
    leaving: &'static [AtomicU32],
    /// CPU time and switches of children that were reaped; the kernel forgets them.
    reaped: Mutex<Totals>,
    /// Slots from here on were never taken. They are not looked at, because a look would give them memory.
    fresh_from: AtomicUsize,
}

impl Workers {
    /// Room for the accept thread and `count` workers. Pages that no worker uses cost nothing.
    ///
    /// # Errors
    /// When the kernel has no address space or memory left.
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
        // SAFETY: the mapping is page-aligned, the front and `count` slots long, zeroed, which is a valid `Slot`, and never
        // unmapped: threads and children of the server may write it until the process ends.
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

    /// What [`crate::service::limits::count_ticks`] counts.
    pub fn ticks(&self) -> &'static AtomicU32 {
        self.ticks
    }

    /// Takes a free slot, searching from `cursor` round; `None` when all are taken. Only the accept thread may call it.
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

    /// Keeps a child's process id beyond its slot, until [`Workers::forget_leaving`]. Where there is no room, nobody
    /// sees the child until it is reaped.
    pub fn add_leaving(&self, pid: i32) {
        let mut places = self.places_of(pid);
        places.any(|place| place.compare_exchange(0, pid as u32, Relaxed, Relaxed).is_ok());
    }

    /// Forgets a child that left.
    pub fn forget_leaving(&self, pid: i32) {
        if let Some(place) = self.places_of(pid).find(|place| place.load(Relaxed) == pid as u32) {
            place.store(0, Relaxed);
        }
    }

    /// Where a process id may be among those that leave: process ids follow each other, and rarely meet.
    fn places_of(&self, pid: i32) -> impl Iterator<Item = &'static AtomicU32> + use<> {
        let first = pid as usize % self.leaving.len();
        self.leaving[first..].iter().chain(&self.leaving[..first])
    }

    /// Children that are not yet reaped. One is here once, though it may be about to leave its slot.
    pub fn processes(&self) -> Vec<i32> {
        // The slots first: a child is kept elsewhere before it gives its slot back.
        let in_slots: Vec<i32> = self.taken().filter_map(Slot::process).collect();
        let leaving = self.leaving.iter().map(|place| place.load(Relaxed) as i32).filter(|&pid| pid != 0);
        let mut processes: Vec<i32> = in_slots.into_iter().chain(leaving).collect();
        processes.sort_unstable();
        processes.dedup();
        processes
    }

    /// CPU time and switches of children that were reaped. Whoever reaps one holds it meanwhile, and so does whoever adds
    /// up those that live: no child is in both sums, or in neither.
    pub fn reaped(&self) -> MutexGuard<'_, Totals> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn used_slots(&self) -> &'static [Slot] {
        &self.slots[..self.fresh_from.load(Relaxed)]
    }

    /// The slots that are taken now, the accept thread's not among them.
    pub fn taken(&self) -> impl Iterator<Item = &'static Slot> + use<> {
        self.used_slots()[1..].iter().filter(|slot| !slot.is_free())
    }

    /// ConnectionTable open now.
    pub fn connections_open(&self) -> u64 {
        let sum = |figure: fn(&Counters) -> &Counter| {
            self.used_slots().iter().map(|s| figure(&s.counters).get()).sum::<u64>()
        };
        // Accepted is read last: a connection that comes and goes in between must not make the difference negative.
        let ended = sum(|c| &c.ended);
        sum(|c| &c.accepted).saturating_sub(ended)
    }

    /// Bytes received and sent by all.
    pub fn bytes(&self) -> (u64, u64) {
        let each = self.used_slots().iter().map(|slot| (slot.counters.bytes_in.get(), slot.counters.bytes_out.get()));
        each.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }

    /// The sums over all slots, without what the kernel accounts (CPU, switches).
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
        // Where the kernel is asked for none, there is nothing to say.
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

    /// Counting is a load and a store: the next owner must begin with what the last one left.
    #[test]
    fn who_takes_a_slot_counts_on() {
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
        // Two that share a place.
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
    fn every_kind_of_system_call_has_its_own_place() {
        for (at, (kind, _)) in Syscall::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, at);
        }
        for (at, (kind, _)) in Operation::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, at);
        }
    }
}
