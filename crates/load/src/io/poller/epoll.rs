//! epoll(7), level-triggered.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io;

use crate::socket::tls::Awaits;

pub type Flags = EventFlags;

pub struct Poller(OwnedFd);

pub struct Events(Vec<Event>);

impl Events {
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (usize, Flags)> {
        self.0.iter().map(|event| (event.data.u64() as usize, event.flags))
    }
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        epoll::create(CreateFlags::CLOEXEC).map(Self)
    }

    /// Changes the event of the socket `number` that the poller waits for, from `watched` to `awaits`.
    #[inline]
    pub fn watch(&self, io: BorrowedFd<'_>, number: usize, watched: Awaits, awaits: Awaits) -> io::Result<()> {
        let flags = if awaits == Awaits::Writable { EventFlags::OUT } else { EventFlags::IN };
        let data = EventData::new_u64(number as u64);
        match watched {
            _ if awaits == watched || awaits == Awaits::Nothing => Ok(()),
            Awaits::Nothing => epoll::add(&self.0, io, data, flags),
            Awaits::Readable | Awaits::Writable => epoll::modify(&self.0, io, data, flags),
        }
    }

    /// Removes a socket that stays open.
    pub fn remove(&self, io: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.0, io);
    }

    /// Waits up to `timeout` for events. A signal ends the wait without events.
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout: Duration) -> io::Result<()> {
        events.0.clear();
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        match epoll::wait(&self.0, spare_capacity(&mut events.0), Some(&timeout)) {
            Ok(_) | Err(io::Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sleeps until a socket is ready or for `timeout_ns` (below a second). Uses `ppoll`: `epoll_wait` counts milliseconds.
    pub fn sleep_precise(&self, timeout_ns: i64) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout_ns };
        let _ = rustix::event::poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout));
    }
}
