//! Time limits for clients: to send a request, to receive its response, to send the next request.
//!
//! One thread counts ticks, and each connection stores the tick of its last progress, so serving a request reads no clock.
//! Event-driven loops check connections on a message, blocking loops after a wait of at most a tick, and tasks on a timer.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Service;

use super::forward::forward;
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The time limits for a client; `None` for no limit. Only `http` has limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// From the start of a request or of the connection to the request's last byte; also between two pieces of a response.
    pub request_ns: Option<u64>,
    /// From a response to the next request.
    pub keepalive_ns: Option<u64>,
}

/// Ticks in the shortest limit. A connection ends at most two ticks after its limit.
const TICKS: u64 = 8;
/// The longest time for which the server discards input after the last response, like nginx's `lingering_time`.
const LINGER_NS: u64 = 30_000_000_000;

impl Limits {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The length of a tick; `None` without limits.
    pub(crate) fn tick(&self) -> Option<Duration> {
        let lowest_ns = self.request_ns.into_iter().chain(self.keepalive_ns).min()?;
        Some(Duration::from_nanos((lowest_ns.min(LINGER_NS) / TICKS).max(1_000_000)))
    }
}

/// A service with limits for its clients.
pub struct WithLimits<S> {
    service: S,
    tick: Option<Duration>,
    /// The current tick, which [`count_ticks`] advances.
    now: &'static AtomicU32,
    request_ticks: u32,
    keepalive_ticks: u32,
    linger_ticks: u32,
}

#[derive(Debug, Default)]
pub struct LimitedConnection<C> {
    conn: C,
    /// The tick of the last progress; 0 before the first check or request.
    since: u32,
    /// Whether a request was completed.
    is_served: bool,
}

impl<S> WithLimits<S> {
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
}

impl<S: Service> WithLimits<S> {
    #[inline]
    fn received(&self, conn: &mut LimitedConnection<S::Conn>, was_idle: bool, requests: u64) {
        // Empty lines and discarded bytes leave the service idle: they begin no request.
        let begins = was_idle && conn.is_served && !self.service.is_idle(&conn.conn);
        if requests > 0 || begins {
            conn.is_served |= requests > 0;
            conn.since = self.now.load(Relaxed);
        }
    }
}

impl<S: Service> Service for WithLimits<S> {
    type Conn = LimitedConnection<S::Conn>;

    #[inline]
    fn receive(&self, conn: &mut Self::Conn, input: &[u8]) -> u64 {
        let was_idle = self.service.is_idle(&conn.conn);
        let requests = self.service.receive(&mut conn.conn, input);
        self.received(conn, was_idle, requests);
        requests
    }

    fn reject(&self, conn: &mut Self::Conn, input: &[u8]) -> Option<u64> {
        let was_idle = self.service.is_idle(&conn.conn);
        let requests = self.service.reject(&mut conn.conn, input)?;
        self.received(conn, was_idle, requests);
        Some(requests)
    }

    #[inline]
    fn sent(&self, conn: &mut Self::Conn, count: usize) -> u64 {
        if count > 0 {
            conn.since = self.now.load(Relaxed);
        }
        self.service.sent(&mut conn.conn, count)
    }

    // Without limits a connection that discards input might never end, so do not cut one short.
    #[inline]
    fn is_cut_short(&self, conn: &Self::Conn) -> bool {
        self.tick.is_some() && self.service.is_cut_short(&conn.conn)
    }

    forward!(service, |conn| conn.conn; unsent unsent_tail wait block is_over is_idle);

    fn resume(&self, conn: &mut Self::Conn) -> u64 {
        let requests = self.service.resume(&mut conn.conn);
        self.received(conn, false, requests);
        requests
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
        // A client that waits for a response is not slow.
        if conn.since == 0 || self.service.wait(&conn.conn).is_some() {
            conn.since = now;
        }
        // The progress may have been at the end of its tick, so do not count that tick.
        let ticks = now.wrapping_sub(conn.since).saturating_sub(1);
        let has_sent_all = self.service.unsent(&conn.conn).is_empty();
        let limit = if has_sent_all && self.service.is_over(&conn.conn) {
            self.linger_ticks
        } else if has_sent_all && conn.is_served && self.service.is_idle(&conn.conn) {
            self.keepalive_ticks
        } else {
            self.request_ticks
        };
        ticks >= limit
    }
}

/// Counts ticks in `now` until the sender of `running` is dropped; calls `after` after each tick.
pub fn count_ticks(tick: Duration, now: &AtomicU32, running: &Receiver<()>, mut after: impl FnMut()) {
    now.store(1, Relaxed);
    while running.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
        now.fetch_add(1, Relaxed);
        after();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wire::http::{Content, Http};

    use super::*;
    use crate::service::waits::WithWaits;
    use crate::service::work::{Times, Work};

    const SECOND: u64 = 1_000_000_000;
    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

    /// A service whose ticks are a second, with a limit of 8 ticks for a request and 16 ticks until the next request.
    fn limited() -> (WithLimits<Http>, &'static AtomicU32) {
        let now: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(1)));
        let http = Http::new(Content::generated(), Box::new(|| 0));
        let limits = Limits { request_ns: Some(8 * SECOND), keepalive_ns: Some(16 * SECOND) };
        let limited = WithLimits::new(http, limits, now);
        assert_eq!(limited.check_interval(), Some(Duration::from_secs(1)));
        (limited, now)
    }

    /// Checks the connection after each tick; returns the number of ticks until it was overdue.
    fn ticks_until_overdue(limited: &WithLimits<Http>, conn: &mut LimitedConnection<wire::http::HttpConn>) -> u32 {
        (0..100)
            .find(|_| {
                limited.now.fetch_add(1, Relaxed);
                limited.is_overdue(conn)
            })
            .expect("every limit is below 100 ticks")
            + 1
    }

    fn send_all(limited: &WithLimits<Http>, conn: &mut LimitedConnection<wire::http::HttpConn>) {
        while !limited.unsent(conn).is_empty() {
            limited.sent(conn, limited.unsent(conn).len());
        }
    }

    #[test]
    fn wait_counts_neither_for_the_request_nor_for_the_response() {
        let now: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(1)));
        let wait = Times::Constant { time_ns: 60 * SECOND };
        let work = Work { wait: Some(wait), ..Work::default() };
        let http = WithWaits::new(Http::new(Content::generated(), Box::new(|| 0)), work, false, Arc::default());
        let limits = Limits { request_ns: Some(8 * SECOND), keepalive_ns: Some(16 * SECOND) };
        let (service, mut conn) = (WithLimits::new(http, limits, now), LimitedConnection::default());
        let is_overdue_after = |conn: &mut _, ticks| {
            (0..ticks).any(|_| {
                now.fetch_add(1, Relaxed);
                service.is_overdue(conn)
            })
        };
        service.receive(&mut conn, GET);
        assert!(!is_overdue_after(&mut conn, 60));
        assert_eq!(service.resume(&mut conn), 1);
        assert!(!is_overdue_after(&mut conn, 8), "the response may take as long as any");
        let bytes = service.unsent(&conn).len();
        service.sent(&mut conn, bytes);
        assert!(!is_overdue_after(&mut conn, 16));
        assert!(is_overdue_after(&mut conn, 1), "no request follows");
    }

    #[test]
    fn silent_or_slow_client_is_overdue() {
        let (limited, now) = limited();
        let mut conn = LimitedConnection::default();
        now.fetch_add(1000, Relaxed);
        // The sum of the limit, one tick until the first check, and one tick that had already begun.
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
    fn client_has_keepalive_time_after_a_response() {
        let (limited, now) = limited();
        let mut conn = LimitedConnection::default();
        limited.receive(&mut conn, GET);
        send_all(&limited, &mut conn);
        now.fetch_add(16, Relaxed);
        assert!(!limited.is_overdue(&mut conn));
        limited.receive(&mut conn, &GET[..5]);
        assert_eq!(ticks_until_overdue(&limited, &mut conn), 9);

        let mut conn = LimitedConnection::default();
        limited.receive(&mut conn, GET);
        send_all(&limited, &mut conn);
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
                send_all(&limited, &mut conn);
                let mut pieces = drips.chunks(step).cycle();
                let overdue = (1..100).find(|_| {
                    limited.receive(&mut conn, pieces.next().expect("the pieces repeat"));
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
