//! Limits against clients that take too long: with a request, with taking its response, with asking again.
//!
//! A connection keeps when it last made progress, in ticks that one thread counts for all, so that no clock is read on a
//! request's way. Whether one is overdue is looked at now and then, by each loop in the way that such loops have: those that
//! serve many connections are told by a message, those that block do not wait longer than a tick, and tasks have timers.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::Service;

use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How long a client may take; without a number for ever. Only `http` has limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// For a request, from its first byte or the connection's to its last; and between two pieces of a response, in
    /// nanoseconds.
    pub request_ns: Option<u64>,
    /// From a response to the next request, in nanoseconds.
    pub keepalive_ns: Option<u64>,
}

/// Ticks in the shortest limit: a client is cut off when its limit is over, at most two ticks later.
const TICKS: u64 = 8;
/// How long what a client still sends is thrown away after its last response: nginx's `lingering_time`.
const LINGER_NS: u64 = 30_000_000_000;

impl Limits {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// How long a tick is; `None` where there is nothing to be looked at.
    pub fn tick(&self) -> Option<Duration> {
        let least_ns = self.request_ns.into_iter().chain(self.keepalive_ns).min()?;
        Some(Duration::from_nanos((least_ns.min(LINGER_NS) / TICKS).max(1_000_000)))
    }
}

/// A service whose clients have limits.
#[derive(Debug)]
pub struct Limited<S> {
    service: S,
    tick: Option<Duration>,
    /// So many ticks are over.
    now: &'static AtomicU32,
    request_ticks: u32,
    keepalive_ticks: u32,
    linger_ticks: u32,
}

/// A connection.
#[derive(Debug, Default)]
pub struct LimitedConn<C> {
    conn: C,
    /// When it last made progress; 0 is not known yet.
    since: u32,
    /// Whether a request of its was completed.
    is_served: bool,
}

impl<S> Limited<S> {
    /// `now` is what [`count_ticks`] counts.
    pub fn new(service: S, limits: Limits, now: &'static AtomicU32) -> Self {
        let tick = limits.tick();
        let ticks = |limit_ns: Option<u64>| match (limit_ns, tick) {
            (Some(limit_ns), Some(tick)) => {
                u32::try_from(u128::from(limit_ns).div_ceil(tick.as_nanos())).unwrap_or(u32::MAX)
            }
            _ => u32::MAX,
        };
        let request_ticks = ticks(limits.request_ns);
        let linger_ticks = ticks(Some(LINGER_NS)).min(request_ticks);
        Self { service, tick, now, request_ticks, keepalive_ticks: ticks(limits.keepalive_ns), linger_ticks }
    }

    #[inline]
    fn progress<C>(&self, conn: &mut LimitedConn<C>) {
        conn.since = self.now.load(Relaxed);
    }
}

impl<S: Service> Service for Limited<S> {
    type Conn = LimitedConn<S::Conn>;

    #[inline]
    fn receive(&self, conn: &mut Self::Conn, input: &[u8]) -> u64 {
        let was_idle = self.service.is_idle(&conn.conn);
        let requests = self.service.receive(&mut conn.conn, input);
        // What leaves nothing behind, empty lines and what is thrown away, begins no request.
        let begins = was_idle && conn.is_served && !self.service.is_idle(&conn.conn);
        if requests > 0 || begins {
            conn.is_served |= requests > 0;
            self.progress(conn);
        }
        requests
    }

    #[inline]
    fn unsent<'a>(&'a self, conn: &'a Self::Conn) -> &'a [u8] {
        self.service.unsent(&conn.conn)
    }

    #[inline]
    fn sent(&self, conn: &mut Self::Conn, count: usize) -> u64 {
        if count > 0 {
            self.progress(conn);
        }
        self.service.sent(&mut conn.conn, count)
    }

    #[inline]
    fn is_over(&self, conn: &Self::Conn) -> bool {
        self.service.is_over(&conn.conn)
    }

    /// Without limits nobody looks, and one that stays would be heard for ever.
    #[inline]
    fn is_cut_short(&self, conn: &Self::Conn) -> bool {
        self.tick.is_some() && self.service.is_cut_short(&conn.conn)
    }

    #[inline]
    fn is_idle(&self, conn: &Self::Conn) -> bool {
        self.service.is_idle(&conn.conn)
    }

    #[inline]
    fn looks_every(&self) -> Option<Duration> {
        self.tick
    }

    fn looks_max(&self) -> u32 {
        self.request_ticks
    }

    #[inline]
    fn is_overdue(&self, conn: &mut Self::Conn) -> bool {
        let now = self.now.load(Relaxed);
        if conn.since == 0 {
            conn.since = now;
        }
        // The tick in which it made progress had begun before.
        let ticks = now.wrapping_sub(conn.since).saturating_sub(1);
        let limit = if !self.service.unsent(&conn.conn).is_empty() {
            self.request_ticks
        } else if self.service.is_over(&conn.conn) {
            self.linger_ticks
        } else if conn.is_served && self.service.is_idle(&conn.conn) {
            self.keepalive_ticks
        } else {
            self.request_ticks
        };
        ticks >= limit
    }
}

/// Counts ticks in `now` until whoever holds the other end of `running` drops it, and does something after each.
pub fn count_ticks(tick: Duration, now: &AtomicU32, running: &Receiver<()>, mut after: impl FnMut()) {
    now.store(1, Relaxed);
    while running.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
        now.fetch_add(1, Relaxed);
        after();
    }
}

#[cfg(test)]
mod tests {
    use wire::http::{Content, Http};

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

    /// With ticks of a second: 8 for a request, 16 until the next.
    fn limited() -> (Limited<Http>, &'static AtomicU32) {
        let now: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(1)));
        let http = Http::new(Content::generated(), Box::new(|| 0));
        let limits = Limits { request_ns: Some(8 * SECOND), keepalive_ns: Some(16 * SECOND) };
        let limited = Limited::new(http, limits, now);
        assert_eq!(limited.looks_every(), Some(Duration::from_secs(1)));
        (limited, now)
    }

    /// Looks at each tick; how many passed before it was overdue.
    fn ticks_until_overdue(limited: &Limited<Http>, conn: &mut LimitedConn<wire::http::HttpConn>) -> u32 {
        (0..100)
            .find(|_| {
                limited.now.fetch_add(1, Relaxed);
                limited.is_overdue(conn)
            })
            .expect("no limit is as long")
            + 1
    }

    fn take_all(limited: &Limited<Http>, conn: &mut LimitedConn<wire::http::HttpConn>) {
        while !limited.unsent(conn).is_empty() {
            limited.sent(conn, limited.unsent(conn).len());
        }
    }

    #[test]
    fn who_says_nothing_or_too_little_is_overdue() {
        let (limited, now) = limited();
        let mut conn = LimitedConn::default();
        now.fetch_add(1000, Relaxed);
        // One more, for the connection is as old as the first look at it; and one that had begun.
        assert_eq!(ticks_until_overdue(&limited, &mut conn), 10);

        // Bytes alone are no progress.
        let mut conn = LimitedConn::default();
        assert!(!limited.is_overdue(&mut conn));
        let overdue = (1..100).find(|at| {
            limited.receive(&mut conn, &GET[*at..=*at]);
            now.fetch_add(1, Relaxed);
            limited.is_overdue(&mut conn)
        });
        assert_eq!(overdue, Some(9));
    }

    #[test]
    fn who_was_answered_has_time_until_the_next_request_and_then_for_it() {
        let (limited, now) = limited();
        let mut conn = LimitedConn::default();
        limited.receive(&mut conn, GET);
        take_all(&limited, &mut conn);
        now.fetch_add(16, Relaxed);
        assert!(!limited.is_overdue(&mut conn));
        limited.receive(&mut conn, &GET[..5]);
        assert_eq!(ticks_until_overdue(&limited, &mut conn), 9);

        let mut conn = LimitedConn::default();
        limited.receive(&mut conn, GET);
        take_all(&limited, &mut conn);
        assert_eq!(ticks_until_overdue(&limited, &mut conn), 17);
    }

    #[test]
    fn who_takes_a_response_piece_by_piece_is_not_overdue_until_it_stops() {
        let (limited, now) = limited();
        let mut conn = LimitedConn::default();
        limited.receive(&mut conn, b"GET /bytes/100000 HTTP/1.1\r\nHost: h\r\n\r\n");
        for _ in 0..50 {
            now.fetch_add(8, Relaxed);
            assert!(!limited.is_overdue(&mut conn));
            limited.sent(&mut conn, 1);
        }
        assert_eq!(ticks_until_overdue(&limited, &mut conn), 9);
    }

    #[test]
    fn what_begins_no_request_is_no_progress() {
        let refused = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4194304\r\n\r\n";
        for (first, drips) in [(&refused[..], &b"aaaa"[..]), (GET, b"\r\n\r\n")] {
            // As much at a time as comes.
            for step in 1..=2 {
                let (limited, now) = limited();
                let mut conn = LimitedConn::default();
                limited.receive(&mut conn, first);
                take_all(&limited, &mut conn);
                let mut pieces = drips.chunks(step).cycle();
                let overdue = (1..100).find(|_| {
                    limited.receive(&mut conn, pieces.next().expect("it cycles"));
                    now.fetch_add(1, Relaxed);
                    limited.is_overdue(&mut conn)
                });
                let limit = if first == GET { 17 } else { 9 };
                assert_eq!(overdue, Some(limit), "{}, {step}", String::from_utf8_lossy(drips));
            }
        }
    }

    #[test]
    fn without_limits_nobody_is_overdue() {
        let now: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(1)));
        let http = Http::new(Content::generated(), Box::new(|| 0));
        let limited = Limited::new(http, Limits::default(), now);
        let mut conn = LimitedConn::default();
        assert!(!limited.is_overdue(&mut conn));
        now.fetch_add(u32::MAX / 2, Relaxed);
        assert!(!limited.is_overdue(&mut conn) && limited.looks_every().is_none());
    }
}
