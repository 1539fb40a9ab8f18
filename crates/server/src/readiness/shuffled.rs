//! A mechanism whose ready descriptors are served in random order, as by welsh2001's SelectSource. A table's order would favour
//! the connections at its start. The table is the server's, as for select(2) and poll(2), so only waits make system calls.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use super::{Interest, Readiness, Ready, Trigger};
use crate::random;
use crate::token::Token;

pub(crate) struct Shuffled<M> {
    mechanism: M,
}

impl<M: Readiness> Readiness for Shuffled<M> {
    const TRIGGER: Trigger = M::TRIGGER;
    const SCANS: bool = M::SCANS;

    fn new(descriptors_max: usize) -> io::Result<Self> {
        Ok(Self { mechanism: M::new(descriptors_max)? })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        self.mechanism.add(descriptor, token, interest)
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        self.mechanism.modify(descriptor, token, interest)
    }

    fn remove(&mut self, descriptor: RawFd) -> io::Result<()> {
        self.mechanism.remove(descriptor)
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        self.mechanism.wait(ready, timeout)?;
        shuffle(ready);
        Ok(())
    }
}

/// Puts the items in random order (Fisher and Yates).
fn shuffle<T>(items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, random::below(last + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffle_keeps_items_and_reaches_every_order() {
        let mut orders = std::collections::BTreeSet::new();
        // Each of six orders misses a thousand draws with probability 1e-79.
        for _ in 0..1_000 {
            let mut items = [1, 2, 3];
            shuffle(&mut items);
            orders.insert(items);
        }
        assert_eq!(orders.len(), 6, "{orders:?}");
        assert!(orders.iter().all(|order| order.iter().sum::<i32>() == 6));
    }
}
