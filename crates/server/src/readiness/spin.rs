//! A mechanism without a system call: it reports every socket as ready at once. The loop tries each one, so it keeps a CPU
//! busy.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use super::{Interest, Readiness, Ready, Trigger, index, place};
use crate::spec::mechanism::BusyPolls;
use crate::token::Token;

pub(crate) struct Spin {
    /// The interest list, without gaps; `wait` copies it.
    list: Vec<Ready>,
    /// The descriptors of `list`, in its order.
    descriptors: Vec<RawFd>,
    /// Index in `list` plus one, by descriptor. 0 means unwatched, so zeroed memory is a valid start.
    places: Vec<u32>,
}

impl Readiness for Spin {
    const TRIGGER: Trigger = Trigger::Level;
    const REPORTS_ALL: bool = true;
    const BUSY_POLLS: BusyPolls = BusyPolls::Receives;

    fn new(descriptors_max: usize) -> io::Result<Self> {
        Ok(Self {
            list: Vec::with_capacity(descriptors_max),
            descriptors: Vec::with_capacity(descriptors_max),
            places: vec![0; descriptors_max],
        })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let at = index(descriptor, self.places.len())?;
        self.list.push(Ready { token, interest, drain: false });
        self.descriptors.push(descriptor);
        self.places[at] = self.list.len() as u32;
        Ok(())
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let place = place(&self.places, descriptor)?;
        self.list[place] = Ready { token, interest, drain: false };
        Ok(())
    }

    fn remove(&mut self, descriptor: RawFd) -> io::Result<()> {
        let place = place(&self.places, descriptor)?;
        self.list.swap_remove(place);
        self.descriptors.swap_remove(place);
        self.places[descriptor as usize] = 0;
        if let Some(moved) = self.descriptors.get(place) {
            self.places[*moved as usize] = place as u32 + 1;
        }
        Ok(())
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, _timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        ready.extend_from_slice(&self.list);
        Ok(())
    }
}
