//! Event ports (port_create(3C)): the kernel queues an event for a descriptor once and then forgets the descriptor, so each wait
//! first associates the reported descriptors again.
//!
//! Type-checked for illumos, and never run.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;
use std::{mem, ptr};

use super::{Interest, Readiness, Ready, Trigger, index};
use crate::metrics::workers::{Counters, Syscall};
use crate::token::Token;

/// The most events that one wait returns, as for epoll.
const EVENTS_MAX: usize = 1024;

pub(crate) struct EventPorts {
    port: OwnedFd,
    /// The token and the interest of each watched descriptor.
    watched: Vec<Option<(Token, Interest)>>,
    events: Vec<libc::port_event>,
    /// The descriptors of the last wait, whose associations have ended.
    reported: Vec<RawFd>,
    /// Calls of port_associate in waits that are not counted yet.
    associations: u64,
}

fn done(returned: libc::c_int) -> io::Result<()> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl EventPorts {
    fn associate(&self, descriptor: RawFd, interest: Interest) -> io::Result<()> {
        let events = match interest {
            Interest::Read => libc::POLLIN,
            Interest::Write => libc::POLLOUT,
        };
        let (port, object) = (self.port.as_raw_fd(), descriptor as libc::uintptr_t);
        // SAFETY: all arguments are numbers; the kernel only returns the last one.
        done(unsafe {
            libc::port_associate(port, libc::PORT_SOURCE_FD, object, events.into(), ptr::null_mut::<c_void>())
        })
    }
}

impl Readiness for EventPorts {
    const TRIGGER: Trigger = Trigger::Level;
    const ADD_SYSCALLS: u64 = 1;
    const MODIFY_SYSCALLS: u64 = 1;
    const REMOVE_SYSCALLS: u64 = 1;

    fn new(descriptors_max: usize) -> io::Result<Self> {
        // SAFETY: the call has no arguments.
        let port = unsafe { libc::port_create() };
        done(port)?;
        // SAFETY: the kernel has just returned this descriptor, so nothing else owns it.
        let port = unsafe { OwnedFd::from_raw_fd(port) };
        rustix::io::fcntl_setfd(&port, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self {
            port,
            watched: vec![None; descriptors_max],
            // SAFETY: all fields are numbers or pointers, for which zeros are valid.
            events: vec![unsafe { mem::zeroed() }; EVENTS_MAX],
            reported: Vec::with_capacity(EVENTS_MAX),
            associations: 0,
        })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let at = index(descriptor, self.watched.len())?;
        self.associate(descriptor, interest)?;
        self.watched[at] = Some((token, interest));
        Ok(())
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        // A second association of a descriptor replaces the first.
        self.add(descriptor, token, interest)
    }

    fn remove(&mut self, descriptor: RawFd) -> io::Result<()> {
        let at = index(descriptor, self.watched.len())?;
        self.watched[at] = None;
        let object = descriptor as libc::uintptr_t;
        // SAFETY: all arguments are numbers.
        match done(unsafe { libc::port_dissociate(self.port.as_raw_fd(), libc::PORT_SOURCE_FD, object) }) {
            // A reported descriptor has no association.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            dissociated => dissociated,
        }
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        for &descriptor in &self.reported {
            if let Some((_, interest)) = self.watched[descriptor as usize] {
                self.associate(descriptor, interest)?;
                self.associations += 1;
            }
        }
        self.reported.clear();
        let mut timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let timeout = timeout.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        let mut count: libc::c_uint = 1;
        let (port, events) = (self.port.as_raw_fd(), self.events.as_mut_ptr());
        // SAFETY: `events` has room for EVENTS_MAX events, and all pointers are valid during the call.
        let waited =
            done(unsafe { libc::port_getn(port, events, EVENTS_MAX as libc::c_uint, &raw mut count, timeout) });
        match waited.as_ref().map_err(io::Error::raw_os_error) {
            // After a timeout or a signal, `count` events are there nevertheless.
            Err(Some(libc::ETIME | libc::EINTR)) | Ok(()) => {}
            Err(_) => return waited,
        }
        for event in &self.events[..count as usize] {
            let descriptor = event.portev_object as RawFd;
            if let Some((token, interest)) = self.watched.get(descriptor as usize).copied().flatten() {
                ready.push(Ready { token, interest, drain: false });
                self.reported.push(descriptor);
            }
        }
        Ok(())
    }

    fn count_irregular(&mut self, counters: &Counters) {
        counters.syscalls_of(Syscall::Control, mem::take(&mut self.associations));
    }
}
