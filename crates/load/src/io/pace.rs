//! The pace of connecting: as many connections at once as the server accepts, and the reason for one that it does not.

use std::io;
use std::time::{Duration, Instant};

/// Connections begun at once. The smallest usual backlog, of Python's servers, has room for six.
const FIRST: usize = 16;
/// The limit does not fall below this: beyond it, lost packets are a likelier cause than the server's backlog.
const FEWEST: usize = 8;
/// Rounds of answered connections after which one more than the accepted number is tried. Lost packets look like a full backlog.
const ROUNDS_UNTIL_MORE: usize = 8;
/// The most connections that are verified at once.
pub const UNDER_WAY_MAX: usize = 128;
/// The interval between searches for connections that the server does not accept, and so between reductions of the pace.
const SEARCH: Duration = Duration::from_millis(50);
/// The pause before a refused connection is begun again.
pub const REFUSED_PAUSE: Duration = Duration::from_millis(20);
/// The longest time without an answer in which refused connections are begun again.
pub const REFUSED_MAX: Duration = Duration::from_secs(2);

/// The number of connections under way, which follows what the server accepts, as TCP's congestion window follows the network: it
/// doubles with each round of answered connections until one is not accepted. It is then halved, and grows by one a round up to what was
/// too much, and from there by one in several rounds.
#[derive(Debug)]
pub struct Pace {
    limit: usize,
    limit_max: usize,
    /// Connections answered since the last growth.
    answered: usize,
    searched_at: Instant,
}

impl Pace {
    pub fn new() -> Self {
        Self { limit: FIRST, limit_max: UNDER_WAY_MAX, answered: 0, searched_at: Instant::now() }
    }

    /// The most connections under way.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Notes a connection that was answered.
    pub fn answered(&mut self) {
        self.answered += 1;
        let rounds = if self.limit < self.limit_max { 1 } else { ROUNDS_UNTIL_MORE };
        let was_never_too_much = self.limit_max == UNDER_WAY_MAX;
        if self.limit < UNDER_WAY_MAX && (was_never_too_much || self.answered >= rounds * self.limit) {
            (self.limit, self.answered) = (self.limit + 1, 0);
            self.limit_max = self.limit_max.max(self.limit);
        }
    }

    /// Notes connections that the server did not accept.
    pub fn unaccepted(&mut self) {
        self.limit_max = (self.limit - 1).max(FEWEST);
        (self.limit, self.answered) = ((self.limit / 2).max(FEWEST), 0);
    }

    /// Whether to search for connections that the server does not accept.
    pub fn searches(&mut self) -> bool {
        let is_due = self.searched_at.elapsed() >= SEARCH;
        if is_due {
            self.searched_at = Instant::now();
        }
        is_due
    }
}

/// The reason for a connection without a response in time.
#[derive(Debug)]
pub struct Silence {
    /// Connections that were answered.
    pub answered: u64,
    /// Whether the server's kernel has received the request.
    pub is_accepted: bool,
    /// Connections that this host's kernel dropped meanwhile because listen backlogs were full; 0 if unknown.
    pub dropped: u64,
}

impl std::error::Error for Silence {}

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.answered, self.is_accepted) {
            (0, true) => f.write_str("timed out"),
            (0, false) => f.write_str("nothing answers there"),
            (answered, true) => write!(f, "no response, while {answered} other connections got theirs"),
            (answered, false) => write!(f, "not accepted, while {answered} other connections got their responses"),
        }?;
        match self.dropped {
            0 => Ok(()),
            dropped => write!(f, ", and this host dropped {dropped} connections because a listen backlog was full"),
        }
    }
}

impl Silence {
    /// Adds the connections answered and dropped to the reason of a timeout.
    pub fn explain(error: io::Error, answered: u64, dropped: u64) -> io::Error {
        match error.get_ref().and_then(|it| it.downcast_ref::<Self>()) {
            Some(&Self { is_accepted, .. }) => io::Error::new(error.kind(), Self { answered, is_accepted, dropped }),
            None => error,
        }
    }

    /// Returns what to do about it.
    pub fn remedy(&self) -> Option<&'static str> {
        match (self.answered, self.is_accepted) {
            (0, true) => None,
            (0, false) => Some("check the address, and the firewalls on the way to it"),
            (_, true) if self.dropped > 0 => Some(
                "the server accepts few connections: raise its workers, its limit of connections, or its listen backlog (listen(2), \
                 net.core.somaxconn), or lower the connections",
            ),
            (_, true) => Some(
                "does the server handle few connections at a time? Raise its workers or its limit of connections, lower the \
                 connections, or try `muxbench load` or `compare` with --requests-per-connection 1",
            ),
            (_, false) => Some(
                "the server's listen backlog is too small: raise it (listen(2), net.core.somaxconn), accept faster, or lower the \
                 connections",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_follows_what_the_server_accepts() {
        let mut pace = Pace::new();
        (0..FIRST).for_each(|_| pace.answered());
        assert_eq!(pace.limit(), 2 * FIRST, "doubled after a round");
        pace.unaccepted();
        (0..FIRST).for_each(|_| pace.answered());
        assert_eq!(pace.limit(), FIRST + 1, "one more after a round");
        let most = 2 * FIRST - 1;
        (FIRST + 1..most).for_each(|limit| (0..limit).for_each(|_| pace.answered()));
        assert_eq!(pace.limit(), most);
        (1..ROUNDS_UNTIL_MORE * most).for_each(|_| pace.answered());
        assert_eq!(pace.limit(), most, "less than what was too much");
        pace.answered();
        assert_eq!(pace.limit(), most + 1, "one more after several rounds");
        (0..9).for_each(|_| pace.unaccepted());
        assert_eq!(pace.limit(), FEWEST);
        (0..100_000).for_each(|_| pace.answered());
        assert_eq!(pace.limit(), UNDER_WAY_MAX);
    }
}
