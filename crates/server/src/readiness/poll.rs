//! poll(2): every wait passes the whole interest list to the kernel. The kernel and the server each scan it.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use super::{Interest, Readiness, Ready, Trigger, count_ready, index, place, timeout_ms};
use crate::token::Token;

pub(crate) struct Poll {
    /// The interest list, without gaps.
    list: Vec<libc::pollfd>,
    /// The tokens of `list`, in its order.
    tokens: Vec<Token>,
    /// Index in `list` plus one, by descriptor. 0 means unwatched, so zeroed memory is a valid start.
    places: Vec<u32>,
}

impl Poll {
    /// The token of a watched descriptor.
    #[cfg(target_os = "linux")]
    pub(super) fn token(&self, descriptor: RawFd) -> Option<Token> {
        place(&self.places, descriptor).ok().map(|place| self.tokens[place])
    }

    /// Polls one watched descriptor without waiting.
    #[cfg(target_os = "linux")]
    pub(super) fn is_ready(&mut self, descriptor: RawFd) -> io::Result<bool> {
        let place = place(&self.places, descriptor)?;
        // SAFETY: the pointer is to one element of `list`, which is valid during the call.
        Ok(count_ready(unsafe { libc::poll(&raw mut self.list[place], 1, 0) })? > 0)
    }
}

fn events(interest: Interest) -> i16 {
    match interest {
        Interest::Read => libc::POLLIN,
        Interest::Write => libc::POLLOUT,
    }
}

impl Readiness for Poll {
    const TRIGGER: Trigger = Trigger::Level;
    const SCANS: bool = true;

    fn new(descriptors_max: usize) -> io::Result<Self> {
        Ok(Self {
            list: Vec::with_capacity(descriptors_max),
            tokens: Vec::with_capacity(descriptors_max),
            places: vec![0; descriptors_max],
        })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let at = index(descriptor, self.places.len())?;
        self.list.push(libc::pollfd { fd: descriptor, events: events(interest), revents: 0 });
        self.tokens.push(token);
        self.places[at] = self.list.len() as u32;
        Ok(())
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let place = place(&self.places, descriptor)?;
        self.list[place].events = events(interest);
        self.tokens[place] = token;
        Ok(())
    }

    fn remove(&mut self, descriptor: RawFd) -> io::Result<()> {
        let place = place(&self.places, descriptor)?;
        self.list.swap_remove(place);
        self.tokens.swap_remove(place);
        self.places[descriptor as usize] = 0;
        if let Some(moved) = self.list.get(place) {
            self.places[moved.fd as usize] = place as u32 + 1;
        }
        Ok(())
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        let (list, length) = (self.list.as_mut_ptr(), self.list.len() as libc::nfds_t);
        let mut left = count_ready(match timeout {
            #[cfg(target_os = "linux")]
            Some(timeout) if timeout.subsec_nanos() % 1_000_000 != 0 => {
                let timespec =
                    libc::timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
                // SAFETY: `list` is valid during the call, and its length is passed.
                unsafe { libc::ppoll(list, length, &raw const timespec, std::ptr::null()) }
            }
            // SAFETY: as above.
            _ => unsafe { libc::poll(list, length, timeout_ms(timeout)) },
        })?;
        for (watched, &token) in self.list.iter().zip(&self.tokens) {
            if left == 0 {
                break;
            }
            if watched.revents != 0 {
                left -= 1;
                let interest = if watched.events == libc::POLLOUT { Interest::Write } else { Interest::Read };
                ready.push(Ready { token, interest, drain: false });
            }
        }
        Ok(())
    }
}
