//! The timers of a loop: one for each connection whose response is ready at some time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::time::{Duration, Instant};

use crate::token::Token;

/// Connections by the ends of their waits. None is removed early: the loop ignores the token of a connection that has ended. A heap
/// keeps exact times, and a wheel would round them.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl Timers {
    pub(super) fn add(&mut self, until: Instant, token: Token) {
        self.heap.push(Reverse((until, token.0)));
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The time until the first end; `None` without timers, which reads no clock.
    #[inline]
    pub(super) fn timeout(&self) -> Option<Duration> {
        let Reverse((until, _)) = self.heap.peek()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Takes the connection whose wait ends first, if it has ended by `now`.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Token> {
        let first = self.heap.peek_mut().filter(|first| first.0.0 <= now)?;
        let Reverse((_, token)) = PeekMut::pop(first);
        Some(Token(token))
    }
}

/// The shorter of two limits of a wait.
#[inline]
pub(super) fn earlier(first: Option<Duration>, second: Option<Duration>) -> Option<Duration> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.min(second)),
        (limit, None) | (None, limit) => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_end_in_order_and_not_early() {
        let (mut timers, start) = (Timers::default(), Instant::now());
        assert_eq!(timers.timeout(), None);
        let at = |ms| start + Duration::from_millis(ms);
        for (slot, ms) in [(3, 3_600_000), (1, 20), (0, 0), (2, 20)] {
            timers.add(at(ms), Token::new(slot, 0));
        }
        let tokens = |slots: &[u32]| slots.iter().map(|slot| Token::new(*slot, 0)).collect::<Vec<_>>();
        assert_eq!(timers.timeout(), Some(Duration::ZERO));
        let mut due = Vec::new();
        while due.len() < 3 {
            let now = Instant::now();
            assert!(now < at(20) + Duration::from_secs(60) && !timers.is_empty());
            let more = timers.pop_due(now);
            assert!(more.is_none() || due.is_empty() || now >= at(20));
            due.extend(more);
        }
        assert_eq!(due, tokens(&[0, 1, 2]));
        assert!(timers.timeout() > Some(Duration::from_secs(60)), "a timer is left");
    }

    #[test]
    fn earlier_limit_counts() {
        let [short, long] = [1, 2].map(|s| Some(Duration::from_secs(s)));
        assert_eq!((earlier(short, long), earlier(long, None), earlier(None, None)), (short, long, None));
    }
}
