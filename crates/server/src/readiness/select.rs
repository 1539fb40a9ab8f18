//! select(2): every wait passes sets of one bit for each descriptor up to the highest, and the kernel overwrites them with the
//! ready descriptors.
//!
//! FD_SETSIZE limits the C library's `fd_set`, not the kernel: these sets cover every descriptor that the process may have.

use std::os::fd::RawFd;
use std::time::Duration;
use std::{io, ptr};

use super::{Interest, Readiness, Ready, Trigger, count_ready, index};
use crate::token::Token;

const BITS: usize = u64::BITS as usize;

pub(crate) struct Select {
    read: Sets,
    write: Sets,
    /// Tokens by descriptor.
    tokens: Vec<Token>,
    /// One above the highest descriptor that was ever watched.
    top: usize,
}

/// The sets of one interest.
struct Sets {
    watched: Vec<u64>,
    /// The copy of `watched` that the kernel overwrites.
    ready: Vec<u64>,
    /// The number of bits set in `watched`; an empty set is not passed.
    count: usize,
}

impl Sets {
    fn new(words: usize) -> Self {
        Self { watched: vec![0; words], ready: vec![0; words], count: 0 }
    }

    fn set(&mut self, at: usize, is_watched: bool) {
        let (word, bit) = (&mut self.watched[at / BITS], 1 << (at % BITS));
        self.count -= usize::from(*word & bit != 0);
        self.count += usize::from(is_watched);
        *word = if is_watched { *word | bit } else { *word & !bit };
    }

    /// Copies the first `words` words of the watched set for the kernel; returns null if that set is empty.
    fn pass(&mut self, words: usize) -> *mut libc::fd_set {
        if self.count == 0 {
            return ptr::null_mut();
        }
        self.ready[..words].copy_from_slice(&self.watched[..words]);
        self.ready.as_mut_ptr().cast()
    }

    /// Calls `report` for each ready descriptor, until `left` is 0.
    fn report(&self, words: usize, left: &mut usize, mut report: impl FnMut(usize)) {
        if self.count == 0 {
            return;
        }
        for (word, &bits) in self.ready[..words].iter().enumerate() {
            if *left == 0 {
                return;
            }
            let mut bits = bits;
            while bits != 0 {
                *left -= 1;
                report(word * BITS + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}

impl Readiness for Select {
    const TRIGGER: Trigger = Trigger::Level;
    const SCANS: bool = true;

    fn new(descriptors_max: usize) -> io::Result<Self> {
        let words = descriptors_max.div_ceil(BITS);
        Ok(Self {
            read: Sets::new(words),
            write: Sets::new(words),
            tokens: vec![Token::new(0, 0); descriptors_max],
            top: 0,
        })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let at = index(descriptor, self.tokens.len())?;
        self.top = self.top.max(at + 1);
        self.modify(descriptor, token, interest)
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let at = index(descriptor, self.tokens.len())?;
        self.tokens[at] = token;
        self.read.set(at, interest == Interest::Read);
        self.write.set(at, interest == Interest::Write);
        Ok(())
    }

    fn remove(&mut self, descriptor: RawFd) -> io::Result<()> {
        let at = index(descriptor, self.tokens.len())?;
        self.read.set(at, false);
        self.write.set(at, false);
        Ok(())
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        let words = self.top.div_ceil(BITS);
        let mut timeval = timeout.map(|timeout| {
            let us = timeout.as_nanos().div_ceil(1000);
            libc::timeval { tv_sec: (us / 1_000_000) as _, tv_usec: (us % 1_000_000) as _ }
        });
        let timeout = timeval.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        let (read, write) = (self.read.pass(words), self.write.pass(words));
        // SAFETY: each set is null or covers `top` bits; sets and timeout are valid during the call.
        let mut left = count_ready(unsafe { libc::select(self.top as i32, read, write, ptr::null_mut(), timeout) })?;
        if left == 0 {
            // After a signal, the sets are unchanged and would report every watched descriptor.
            return Ok(());
        }
        for (interest, sets) in [(Interest::Read, &self.read), (Interest::Write, &self.write)] {
            sets.report(words, &mut left, |at| ready.push(Ready { token: self.tokens[at], interest, drain: false }));
        }
        Ok(())
    }
}
