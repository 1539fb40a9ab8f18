//! Time limits for clients: for a request, for taking its response, for the next request.
//!
//! A connection keeps the time of its last progress, in ticks that one thread counts for all, so that a request reads no clock.
//! Each kind of loop checks connections in its own way: event-driven loops get a message, blocking ones wait at most a tick, and
//! tasks have timers.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::Service;

use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The time limits for a client; `None` for no limit. Only `http` has limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// From the first byte of a request, or the start of the connection, to its last byte; also between two pieces of a response.
    pub request_ns: Option<u64>,
    /// From a response to the next request.
    pub keepalive_ns: Option<u64>,
}

/// Ticks in the shortest limit: a client is cut off at most two ticks after its limit.
const TICKS: u64 = 8;
/// How long input is discarded after the last response: nginx's `lingering_time`.
const LINGER_NS: u64 = 30_000_000_000;

impl Limits {
    /// Whether there is no limit.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The length of a tick; `None` without limits.
    pub fn tick(&self) -> Option<Duration> {
        let least_ns = self.request_ns.into_iter().chain(self.keepalive_ns).min()?;
        Some(Duration::from_nanos((least_ns.min(LINGER_NS) / TICKS).max(1_000_000)))
    }
}

/// A service with limits for its clients.
#[derive(Debug)]
pub struct WithLimits<S> {
    service: S,
    tick: Option<Duration>,
    /// The number of ticks so far.
    now: &'static AtomicU32,
    request_ticks: u32,
    keepalive_ticks: u32,
    linger_ticks: u32,
}

/// A connection with the time of its progress.
#[derive(Debug, Default)]
pub struct LimitedConnection<C> {
    conn: C,
    /// The tick of its last progress; 0 if not known yet.
    since: u32,
    /// Whether a request was completed.
    is_served: bool,
}

impl<S> WithLimits<S> {
    /// `now` is counted by [`count_ticks`].
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
    fn progress<C>(&self, conn: &mut LimitedConnection<C>) {
        conn.since = self.now.load(Relaxed);
    }
}

impl<S: Service> Service for WithLimits<S> {
    type Conn = LimitedConnection<S::Conn>;

    #[inline]
    fn receive(&self, conn: &mut Self::Conn, input: &[u8]) -> u64 {
        let was_idle = self.service.is_idle(&conn.conn);
        let requests = self.service.receive(&mut conn.conn, input);
        // Input that leaves nothing behind, such as empty lines or discarded bytes, begins no request.
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

    /// Without limits nobody checks, and the connection would stay open for ever.
    #[inline]
    fn is_cut_short(&self, conn: &Self::Conn) -> bool {
        self.tick.is_some() && self.service.is_cut_short(&conn.conn)
    }

    #[inline]
    fn is_idle(&self, conn: &Self::Conn) -> bool {
        self.service.is_idle(&conn.conn)
    }

    #[inline]
    fn check_interval(&self) -> Option<Duration> {
        self.tick
    }

    fn checks_max(&self) -> u32 {
        self.request_ticks
    }

    #[inline]
    fn is_overdue(&self, conn: &mut Self::Conn) -> bool {
        let now = self.now.load(Relaxed);
        if conn.since == 0 {
            conn.since = now;
        }
        // The tick of its progress had begun earlier.
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

/// Counts ticks in `now` until the sender of `running` is dropped; calls `after` after each.
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

    /// Ticks of a second: 8 for a request, 16 until the next.
    fn limited() -> (WithLimits<Http>, &'static AtomicU32) {
        let now: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(1)));
        let http = Http::new(Content::generated(), Box::new(|| 0));
        let limits = Limits { request_ns: Some(8 * SECOND), keepalive_ns: Some(16 * SECOND) };
        let limited = WithLimits::new(http, limits, now);
        assert_eq!(limited.check_interval(), Some(Duration::from_secs(1)));
        (limited, now)
    }

    /// Checks after each tick; returns the number of ticks until it was overdue.
    fn ticks_until_overdue(limited: &WithLimits<Http>, conn: &mut LimitedConnection<wire::http::HttpConn>) -> u32 {
        (0..100)
            .find(|_| {
                limited.now.fetch_add(1, Relaxed);
                limited.is_overdue(conn)
            })
            .expect("no limit is as long")
            + 1
    }

    fn take_all(limited: &WithLimits<Http>, conn: &mut LimitedConnection<wire::http::HttpConn>) {
        while !limited.unsent(conn).is_empty() {
            limited.sent(conn, limited.unsent(conn).len());
        }
    }

    #[test]
    fn silent_or_slow_client_is_overdue() {
        let (limited, now) = limited();
        let mut conn = LimitedConnection::default();
        now.fetch_add(1000, Relaxed);
        // One more tick, because time starts at the first check, and one that had begun.
        assert_eq!(ticks_until_overdue(&limited, &mut conn), 10);

        // Bytes alone are no progress.
        let mut conn = LimitedConnection::default();
        assert!(!limited.is_overdue(&mut conn));
        let overdue = (1..100).find(|at| {
            limited.receive(&mut conn, &GET[*at..=*at]);
            now.fetch_add(1, Relaxed);
            limited.is_overdue(&mut conn)
        });
        assert_eq!(overdue, Some(9));
    }

    #[test]
    fn answered_client_has_time_to_ask_again() {
        let (limited, now) = limited();
        let mut conn = LimitedConnection::default();
        limited.receive(&mut conn, GET);
        take_all(&limited, &mut conn);
        now.fetch_add(16, Relaxed);
        assert!(!limited.is_overdue(&mut conn));
        limited.receive(&mut conn, &GET[..5]);
        assert_eq!(ticks_until_overdue(&limited, &mut conn), 9);

        let mut conn = LimitedConnection::default();
        limited.receive(&mut conn, GET);
        take_all(&limited, &mut conn);
        assert_eq!(ticks_until_overdue(&limited, &mut conn), 17);
    }

    #[test]
    fn slow_reader_is_overdue_only_after_it_stops() {
        let (limited, now) = limited();
        let mut conn = LimitedConnection::default();
        limited.receive(&mut conn, b"GET /bytes/100000 HTTP/1.1\r\nHost: h\r\n\r\n");
        for _ in 0..50 {
            now.fetch_add(8, Relaxed);
            assert!(!limited.is_overdue(&mut conn));
            limited.sent(&mut conn, 1);
        }
        assert_eq!(ticks_until_overdue(&limited, &mut conn), 9);
    }

    #[test]
    fn input_that_begins_no_request_is_no_progress() {
        let refused = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4194304\r\n\r\n";
        for (first, drips) in [(&refused[..], &b"aaaa"[..]), (GET, b"\r\n\r\n")] {
            // Pieces of one and two bytes.
            for step in 1..=2 {
                let (limited, now) = limited();
                let mut conn = LimitedConnection::default();
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
    fn without_limits_no_client_is_overdue() {
        let now: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(1)));
        let http = Http::new(Content::generated(), Box::new(|| 0));
        let limited = WithLimits::new(http, Limits::default(), now);
        let mut conn = LimitedConnection::default();
        assert!(!limited.is_overdue(&mut conn));
        now.fetch_add(u32::MAX / 2, Relaxed);
        assert!(!limited.is_overdue(&mut conn) && limited.check_interval().is_none());
    }
}
