//! kqueue(2), level-triggered.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::kqueue::{Event, EventFilter, EventFlags, kevent_timespec, kqueue};
use rustix::io;

use crate::socket::tls::Awaits;

/// The readiness of a socket. kqueue(2) reports only that the socket is ready.
pub type Flags = ();

pub struct Poller(OwnedFd);

pub struct Events(Vec<Event>);

impl Events {
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (usize, Flags)> {
        self.0.iter().map(|event| (event.udata() as usize, ()))
    }
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        let kqueue = kqueue()?;
        io::fcntl_setfd(&kqueue, io::FdFlags::CLOEXEC)?;
        Ok(Self(kqueue))
    }

    /// Changes the event of the socket `number` that the poller waits for, from `watched` to `awaits`.
    pub fn watch(&self, io: BorrowedFd<'_>, number: usize, watched: Awaits, awaits: Awaits) -> io::Result<()> {
        let filter = |event| match event {
            Awaits::Writable => EventFilter::Write(io.as_raw_fd()),
            Awaits::Readable | Awaits::Nothing => EventFilter::Read(io.as_raw_fd()),
        };
        if awaits == watched || awaits == Awaits::Nothing {
            return Ok(());
        }
        if watched != Awaits::Nothing {
            self.change(filter(watched), EventFlags::DELETE, 0)?;
        }
        self.change(filter(awaits), EventFlags::ADD, number)
    }

    /// Removes a socket that stays open.
    pub fn remove(&self, io: BorrowedFd<'_>) {
        // The socket has one of the two filters.
        for filter in [EventFilter::Read(io.as_raw_fd()), EventFilter::Write(io.as_raw_fd())] {
            let _ = self.change(filter, EventFlags::DELETE, 0);
        }
    }

    fn change(&self, filter: EventFilter, flags: EventFlags, number: usize) -> io::Result<()> {
        let change = Event::new(filter, flags, number as *mut _);
        // SAFETY: the descriptor is open, and closing it removes the filter.
        unsafe { kevent_timespec(&self.0, &[change], &mut [] as &mut [Event], None) }.map(drop)
    }

    /// Waits up to `timeout` for events. A signal ends the wait without events.
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout: Duration) -> io::Result<()> {
        events.0.clear();
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        // SAFETY: the call changes no filter.
        match unsafe { kevent_timespec(&self.0, &[], spare_capacity(&mut events.0), Some(&timeout)) } {
            Ok(_) | Err(io::Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sleeps until a socket is ready or for `timeout_ns`. The next wait reports the socket again.
    pub fn sleep_precise(&self, timeout_ns: i64) {
        let _ = self.wait(&mut Events::with_capacity(1), Duration::from_nanos(timeout_ns as u64));
    }
}
