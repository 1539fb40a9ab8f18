//! /dev/poll (poll(7D)): writes to the device change the kernel's interest list, and an ioctl returns the ready descriptors.
//!
//! Type-checked for illumos, and never run.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;
use std::{ptr, slice};

use super::{Interest, Readiness, Ready, Trigger, count_ready, index, timeout_ms};
use crate::token::Token;

/// The most events that one wait returns, as for epoll.
const EVENTS_MAX: usize = 1024;

// From sys/devpoll.h and sys/poll.h, which the libc crate lacks.
const DP_POLL: libc::c_int = 0xd001;
const POLLREMOVE: libc::c_short = 0x0800;

/// The kernel's `dvpoll`.
#[repr(C)]
struct Wait {
    descriptors: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout_ms: libc::c_int,
    /// Only another ioctl reads it.
    signals: *mut libc::c_void,
}

pub(crate) struct DevPoll {
    device: File,
    /// The token and the interest of each watched descriptor, because events have neither.
    watched: Vec<Option<(Token, Interest)>>,
    ready: Vec<libc::pollfd>,
}

fn entry(descriptor: RawFd, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd: descriptor, events, revents: 0 }
}

fn events(interest: Interest) -> libc::c_short {
    match interest {
        Interest::Read => libc::POLLIN,
        Interest::Write => libc::POLLOUT,
    }
}

impl DevPoll {
    fn change(&mut self, changes: &[libc::pollfd]) -> io::Result<()> {
        // SAFETY: `pollfd` has three numbers without padding between them, so its bytes are initialised.
        let bytes = unsafe { slice::from_raw_parts(changes.as_ptr().cast::<u8>(), size_of_val(changes)) };
        self.device.write_all(bytes)
    }
}

impl Readiness for DevPoll {
    const TRIGGER: Trigger = Trigger::Level;
    const ADD_SYSCALLS: u64 = 1;
    const MODIFY_SYSCALLS: u64 = 1;
    const REMOVE_SYSCALLS: u64 = 1;

    fn new(descriptors_max: usize) -> io::Result<Self> {
        // The standard library sets O_CLOEXEC.
        let device = OpenOptions::new().read(true).write(true).open("/dev/poll")?;
        Ok(Self { device, watched: vec![None; descriptors_max], ready: vec![entry(-1, 0); EVENTS_MAX] })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let at = index(descriptor, self.watched.len())?;
        self.change(&[entry(descriptor, events(interest))])?;
        self.watched[at] = Some((token, interest));
        Ok(())
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let at = index(descriptor, self.watched.len())?;
        // Without the removal the kernel would add the new events to the old ones.
        self.change(&[entry(descriptor, POLLREMOVE), entry(descriptor, events(interest))])?;
        self.watched[at] = Some((token, interest));
        Ok(())
    }

    fn remove(&mut self, descriptor: RawFd) -> io::Result<()> {
        let at = index(descriptor, self.watched.len())?;
        self.watched[at] = None;
        self.change(&[entry(descriptor, POLLREMOVE)])
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        let mut wait = Wait {
            descriptors: self.ready.as_mut_ptr(),
            count: self.ready.len() as libc::nfds_t,
            timeout_ms: timeout_ms(timeout),
            signals: ptr::null_mut(),
        };
        // SAFETY: `ready` has room for `count` entries, and both are valid during the call.
        let count = count_ready(unsafe { libc::ioctl(self.device.as_raw_fd(), DP_POLL, &raw mut wait) })?;
        let found =
            self.ready[..count].iter().filter_map(|event| self.watched.get(event.fd as usize).copied().flatten());
        ready.extend(found.map(|(token, interest)| Ready { token, interest, drain: false }));
        Ok(())
    }
}
