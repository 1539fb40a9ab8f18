//! The free connections of a load whose requests do not overlap: each connection has at most one request in flight.

use std::collections::VecDeque;

use crate::config::LoadConfig;
use crate::time::schedule;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It carries no requests.
    Inactive,
    Busy,
    Free,
}

pub struct Free {
    /// The free connections, the one that is free for the longest time first. It has room for all connections.
    queue: VecDeque<u32>,
    states: Vec<State>,
}

impl Free {
    /// Returns the active connections of a client, all of them free; `None` if requests may overlap.
    pub fn of(config: &LoadConfig, connections: u32, client: u32) -> Option<Self> {
        config.no_overlap().then(|| {
            let mut free = Self {
                queue: VecDeque::with_capacity(connections as usize),
                states: vec![State::Inactive; connections as usize],
            };
            for at in schedule::active(config, connections, client) {
                free.states[at as usize] = State::Busy;
                free.add(at as usize);
            }
            free
        })
    }

    /// Adds a connection without a request in flight, unless it is inactive or free already.
    #[inline]
    pub fn add(&mut self, at: usize) {
        if self.states[at] == State::Busy {
            self.states[at] = State::Free;
            self.queue.push_back(at as u32);
        }
    }

    /// Takes the next free connection.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        let at = self.queue.pop_front()?;
        self.states[at as usize] = State::Busy;
        Some(at)
    }
}
