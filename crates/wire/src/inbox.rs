//! What a connection was told and could not be taken yet: part of a request, or more requests than are answered at once.

use crate::outbox::recycle;

/// What was made of some input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The first so many of its bytes are done with.
    pub bytes: usize,
    /// Requests that they completed.
    pub requests: u64,
    /// Nothing more is wanted, ever.
    pub is_last: bool,
}

/// Input that is kept. While there is none nothing is on the heap but a small buffer, once it was used.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Vec<u8>);

impl Inbox {
    /// Has `take` look at `input`, behind what was kept, and keeps what it leaves; answers how many requests were completed.
    #[inline]
    pub fn receive(&mut self, input: &[u8], take: impl FnOnce(&[u8]) -> Taken) -> u64 {
        if !self.0.is_empty() {
            self.0.extend_from_slice(input);
            return self.go_on(take);
        }
        let taken = take(input);
        if taken.bytes < input.len() && !taken.is_last {
            self.0.extend_from_slice(&input[taken.bytes..]);
        }
        taken.requests
    }

    /// Has `take` look at what was kept, if there is any.
    #[inline]
    pub fn go_on(&mut self, take: impl FnOnce(&[u8]) -> Taken) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        let taken = take(&self.0);
        if taken.bytes == self.0.len() || taken.is_last {
            recycle(&mut self.0);
        } else {
            self.0.drain(..taken.bytes);
        }
        taken.requests
    }

    /// What is kept.
    #[inline]
    pub fn kept(&self) -> &[u8] {
        &self.0
    }

    #[cfg(test)]
    pub fn kept_capacity(&self) -> usize {
        self.0.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes numbers of one digit, each a request, to a full stop; at most two at once.
    fn take(input: &[u8]) -> Taken {
        let end = input.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
        let is_last = input.get(end) == Some(&b'.');
        Taken { bytes: end, requests: end as u64, is_last }
    }

    #[test]
    fn what_is_left_is_kept_until_it_is_taken() {
        let mut inbox = Inbox::default();
        assert_eq!(inbox.go_on(|_| unreachable!("nothing is kept")), 0);
        assert_eq!((inbox.receive(b"12", take), inbox.0.len()), (2, 0), "nothing is kept that need not be");
        assert_eq!((inbox.receive(b"345", take), &inbox.0[..]), (2, &b"5"[..]));
        assert_eq!((inbox.receive(b"6789", take), &inbox.0[..]), (2, &b"789"[..]), "behind what was kept");
        assert_eq!((inbox.go_on(take), &inbox.0[..]), (2, &b"9"[..]));
        assert_eq!((inbox.receive(b".123", take), inbox.0.len()), (1, 0), "after the end nothing is kept");
    }
}
