//! The processes of `mp` and `mp-prefork`. A child that ends normally releases its slot; the reaper handles the slot of a
//! crashed child. A process id in a slot belongs to an unreaped child, so that signals reach no other process.

use std::mem::{self, MaybeUninit};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use std::{io, ptr};

use super::OnDrop;
use crate::metrics::counters::Totals;
use crate::metrics::usage;
use crate::metrics::workers::{Slot, Workers};
use crate::{platform, random};

const STOP_MAX: Duration = Duration::from_secs(2);

const PANICKED: i32 = 101;

/// Forks a process that runs `body` and exits with its status. `body` must not take a lock: another thread may have held it
/// during the fork. It may allocate, because the allocators of glibc, FreeBSD and macOS stay usable in a child.
pub(super) fn fork(slot: &'static Slot, body: impl FnOnce() -> i32) -> io::Result<()> {
    let parent = rustix::process::getpid();
    random::next_stream();
    // SAFETY: the child, including `body`, only makes system calls, counts, allocates, and ends with _exit.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _ = platform::die_with_parent(rustix::process::Signal::KILL);
            // The parent may have died before the line above.
            let status = if rustix::process::getppid() == Some(parent) {
                // Set the process id here too, for a child that crashes before the parent continues.
                slot.set_process_if_taken(rustix::process::getpid().as_raw_pid());
                // Catch a panic: the parent's destructors would kill the other children and stop the server.
                panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
                    mem::forget(panic);
                    PANICKED
                })
            } else {
                0
            };
            // SAFETY: ends the child at once, without running destructors or flushing buffers of the parent.
            unsafe { libc::_exit(status) }
        }
        child => {
            // If the child has already ended and released the slot, leave the slot free.
            slot.set_process_if_taken(child);
            Ok(())
        }
    }
}

pub(super) fn leave(workers: &Workers, slot: &Slot) {
    workers.add_leaving(rustix::process::getpid().as_raw_pid());
    slot.release();
}

/// Runs `body` beside the reaper, a thread that reaps the children, and kills the remaining children at the end. `body` unparks
/// the reaper after each fork. `lost` gets the slot of each child that ended abnormally, and a flag: whether the server stops.
pub(super) fn with_reaper<R>(
    workers: &Workers,
    lost: impl FnMut(&'static Slot, &AtomicBool) + Send,
    body: impl FnOnce(&Thread) -> io::Result<R>,
) -> io::Result<R> {
    // SAFETY: restores the default disposition, under which children can be reaped; installs no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let stopping = AtomicBool::new(false);
    thread::scope(|scope| {
        let reaper = thread::Builder::new().name("reap".into());
        let reaper = reaper.spawn_scoped(scope, || reap(workers, &stopping, lost))?;
        let _stop = OnDrop(|| {
            stopping.store(true, SeqCst);
            reaper.thread().unpark();
            let started = Instant::now();
            // Repeat this: the reaper may have replaced a child meanwhile.
            while kill_all(workers) && started.elapsed() < STOP_MAX {
                thread::sleep(Duration::from_millis(1));
            }
        });
        body(reaper.thread())
    })
}

/// Releases the slot of a lost child, whose only connection ended with it.
pub(super) fn end_lost(slot: &'static Slot, _stopping: &AtomicBool) {
    slot.counters.ended.add(1);
    slot.release();
}

/// Kills all children; returns whether there were any.
fn kill_all(workers: &Workers) -> bool {
    workers.taken().filter_map(Slot::process).fold(false, |_, pid| {
        // SAFETY: a signal to a process affects no memory of this one.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        true
    })
}

fn reap(workers: &Workers, stopping: &AtomicBool, mut lost: impl FnMut(&'static Slot, &AtomicBool)) {
    loop {
        let Some((pid, ended_by_itself)) = wait_for_one() else {
            if stopping.load(SeqCst) {
                return;
            }
            // Wait for the next child. If the unpark came before this line, park returns at once.
            thread::park();
            continue;
        };
        let slot = match ended_by_itself {
            true => None,
            false => workers.taken().find(|slot| slot.process() == Some(pid)),
        };
        let mut reaped = workers.reaped();
        match slot {
            None => workers.forget_leaving(pid),
            Some(slot) => {
                slot.forget_process();
                // Count the crash before the child is reaped, so that a crashed process never disappears uncounted.
                if !stopping.load(SeqCst) {
                    slot.counters.crashed.add(1);
                }
            }
        }
        usage::add_children(&mut reaped, &reap_one(pid));
        drop(reaped);
        if let Some(slot) = slot {
            lost(slot, stopping);
        }
    }
}

/// Waits until a child has ended, and leaves it unreaped. Returns its process id and whether its exit status is 0.
fn wait_for_one() -> Option<(i32, bool)> {
    loop {
        let mut ended = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the kernel fills in `ended`.
        if unsafe { libc::waitid(libc::P_ALL, 0, ended.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT) } == 0 {
            // SAFETY: zeros are valid, and the kernel has filled in the fields of a child that ended.
            let (pid, status, code) = unsafe {
                let ended = ended.assume_init();
                (ended.si_pid(), ended.si_status(), ended.si_code)
            };
            return Some((pid, code == libc::CLD_EXITED && status == 0));
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// Reaps an ended child and returns its usage. Its CPU time includes exit(2), which frees its memory.
fn reap_one(pid: i32) -> Totals {
    let mut used = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills in `used`, or leaves its zeros, which are valid.
    let used = platform::rusage_totals(&unsafe {
        platform::wait4(pid, ptr::null_mut(), 0, used.as_mut_ptr());
        used.assume_init()
    });
    Totals { cpu_children_ns: used.cpu_ns(), cpu_user_ns: 0, cpu_system_ns: 0, ..used }
}

#[cfg(test)]
mod tests {
    use std::panic;

    use super::*;
    use crate::net::testkit::wait_until;

    #[test]
    fn child_that_panics_ends_without_its_siblings() {
        let workers = Workers::new(2).unwrap();
        let (mut cursor, parent) = (0, rustix::process::getpid());
        let sibling = workers.claim(&mut cursor).unwrap();
        let panics = workers.claim(&mut cursor).unwrap();
        let lost = |slot: &'static Slot, _: &AtomicBool| slot.release();
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            with_reaper(&workers, lost, |reaper| {
                fork(sibling, || {
                    loop {
                        thread::park();
                    }
                })?;
                // Bypass the panic hook, which would print to the test's output.
                fork(panics, || panic::resume_unwind(Box::new(())))?;
                reaper.unpark();
                wait_until("the child ends", || panics.counters.crashed.get() == 1);
                // If the child unwound the parent's frames, it would kill its sibling within this time.
                thread::sleep(Duration::from_millis(100));
                let crashed = sibling.counters.crashed.get();
                Ok((crashed, sibling.process()))
            })
        }));
        if rustix::process::getpid() != parent {
            // SAFETY: ends a child that wrongly returned here; only the parent continues.
            unsafe { libc::_exit(PANICKED) }
        }
        let (crashed, process) = outcome.expect("the parent does not panic").unwrap();
        assert_eq!(crashed, 0, "no other child crashed");
        assert!(process.is_some_and(|pid| pid > 0));
        assert!(workers.reaped().cpu_children_ns > 0);
    }
}
