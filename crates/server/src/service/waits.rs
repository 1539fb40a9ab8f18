//! Waits before responses: the response of a request is ready after a time, as if another service made it. Meanwhile the thread may
//! serve others, so each loop waits in its own way.
//!
//! The requests of a connection are served one after the other, as by a thread per connection: the wait of a pipelined request begins
//! when the response before it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use wire::{OneByOne, Service, Wait};

use super::forward::forward;
use super::work::{Times, Work, sleep_until};

/// A service that waits before each response. It also does the rest of the work, before the wait.
pub struct WithWaits<S> {
    service: S,
    work: Work,
    /// The blocking calls that other threads make.
    offloaded: Option<Times>,
    stopping: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
pub struct WaitingConnection<C> {
    conn: C,
    wait: Option<Reason>,
    /// Input that arrived before the previous response was sent.
    input: Vec<u8>,
    /// Whether the requests of this connection take the work, once that is drawn.
    works: Option<bool>,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// Another thread's call of [`Service::block`].
    Call,
    Time(Instant),
}

impl<S: OneByOne> WithWaits<S> {
    /// Adds `work` until `stopping` is set. Without `offloads` the serving thread makes its blocking calls.
    pub fn new(service: S, mut work: Work, offloads: bool, stopping: Arc<AtomicBool>) -> Self {
        work.prepare();
        let offloaded = work.sleep.take_if(|_| offloads);
        Self { service: service.one_by_one(), work, offloaded, stopping }
    }
}

impl<S: Service> WithWaits<S> {
    /// Starts the work of a request that was just completed, if `completed` is 1, and serves later input until a request waits or
    /// there is something to send. Returns the number of requests without a wait.
    fn serve(&self, state: &mut WaitingConnection<S::Conn>, mut completed: u64) -> u64 {
        let mut ready = 0;
        loop {
            if completed == 0 {
                if state.input.is_empty() || !self.service.unsent(&state.conn).is_empty() {
                    return ready;
                }
                completed = self.service.receive(&mut state.conn, &std::mem::take(&mut state.input));
                if completed == 0 {
                    return ready;
                }
            }
            if *state.works.get_or_insert_with(|| self.work.draw()) {
                self.work.perform(1, &self.stopping);
                state.wait = if self.offloaded.is_some() { Some(Reason::Call) } else { self.begin_wait() };
                if state.wait.is_some() {
                    return ready;
                }
            }
            ready += 1;
            completed = match self.service.unsent(&state.conn) {
                [] => self.service.sent(&mut state.conn, 0),
                _ => return ready,
            };
        }
    }

    fn begin_wait(&self) -> Option<Reason> {
        let wait_ns = self.work.wait.as_ref()?.draw_ns();
        (wait_ns > 0).then(|| Reason::Time(Instant::now() + Duration::from_nanos(wait_ns)))
    }
}

impl<S: Service> Service for WithWaits<S> {
    type Conn = WaitingConnection<S::Conn>;

    fn receive(&self, state: &mut Self::Conn, input: &[u8]) -> u64 {
        if state.wait.is_some() || !state.input.is_empty() || !self.service.unsent(&state.conn).is_empty() {
            state.input.extend_from_slice(input);
            return 0;
        }
        let completed = self.service.receive(&mut state.conn, input);
        self.serve(state, completed)
    }

    fn reject(&self, state: &mut Self::Conn, input: &[u8]) -> Option<u64> {
        self.service.reject(&mut state.conn, input)
    }

    fn unsent<'a>(&'a self, state: &'a Self::Conn) -> &'a [u8] {
        if state.wait.is_some() { &[] } else { self.service.unsent(&state.conn) }
    }

    fn unsent_tail<'a>(&'a self, state: &'a Self::Conn) -> &'a [u8] {
        if state.wait.is_some() { &[] } else { self.service.unsent_tail(&state.conn) }
    }

    fn sent(&self, state: &mut Self::Conn, count: usize) -> u64 {
        let completed = self.service.sent(&mut state.conn, count);
        self.serve(state, completed)
    }

    fn wait(&self, state: &Self::Conn) -> Option<Wait> {
        let until = match state.wait? {
            Reason::Call => None,
            Reason::Time(until) => Some(until),
        };
        Some(Wait { until, has_input: !state.input.is_empty() })
    }

    fn block(&self) {
        if let Some(times) = &self.offloaded {
            let until = Instant::now() + Duration::from_nanos(times.draw_ns());
            sleep_until(until, || self.stopping.load(Relaxed));
        }
    }

    fn resume(&self, state: &mut Self::Conn) -> u64 {
        let Some(reason) = state.wait.take() else { return 0 };
        if let Reason::Call = reason {
            state.wait = self.begin_wait();
            if state.wait.is_some() {
                return 0;
            }
        }
        1 + match self.service.unsent(&state.conn) {
            [] => {
                let completed = self.service.sent(&mut state.conn, 0);
                self.serve(state, completed)
            }
            _ => 0,
        }
    }

    fn is_idle(&self, state: &Self::Conn) -> bool {
        state.wait.is_none() && state.input.is_empty() && self.service.is_idle(&state.conn)
    }

    forward!(service, |state| state.conn; is_over is_cut_short check_interval checks_max is_overdue);
}

#[cfg(test)]
mod tests {
    use std::iter;

    use wire::fixed::Fixed;
    use wire::http::{Content, Http};
    use wire::kv::{Kv, KvConfig};

    use super::*;
    use crate::service::work::TimeShare;

    fn waiting<S: OneByOne>(service: S, times: Times) -> WithWaits<S> {
        WithWaits::new(service, Work { wait: Some(times), ..Work::default() }, false, Arc::default())
    }

    const MINUTE: Times = Times::Constant { time_ns: 60_000_000_000 };

    /// Sends everything in pieces, and resumes the connection at each wait. Returns what was sent between the waits.
    fn drain<S: Service>(service: &WithWaits<S>, conn: &mut WaitingConnection<S::Conn>) -> Vec<Vec<u8>> {
        let mut sent = vec![Vec::new()];
        loop {
            while !service.unsent(conn).is_empty() {
                let piece = service.unsent(conn)[..service.unsent(conn).len().min(7)].to_vec();
                service.sent(conn, piece.len());
                sent.last_mut().unwrap().extend(piece);
            }
            let Some(wait) = service.wait(conn) else { return sent };
            assert!(wait.until > Some(Instant::now() + Duration::from_secs(30)));
            assert!(service.resume(conn) >= 1);
            sent.push(Vec::new());
        }
    }

    #[test]
    fn each_response_has_its_own_wait_in_any_split() {
        let input: String = (1..=4).map(|at| format!("GET /bytes/{at} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
        for piece_bytes in [1, 10, 50, input.len()] {
            let service = waiting(Http::new(Content::generated(), Box::new(|| 0)), MINUTE);
            let mut conn = WaitingConnection::default();
            for piece in input.as_bytes().chunks(piece_bytes) {
                assert_eq!(service.receive(&mut conn, piece), 0, "the first wait is not over");
                assert!(service.unsent(&conn).is_empty());
            }
            assert!(!service.is_idle(&conn));
            let sent = drain(&service, &mut conn);
            let lengths = |text: &Vec<u8>| {
                let text = String::from_utf8_lossy(text).into_owned();
                text.lines()
                    .filter_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok())
                    .collect::<Vec<u32>>()
            };
            let expected: Vec<Vec<u32>> = iter::once(vec![]).chain((1..=4).map(|at| vec![at])).collect();
            assert_eq!(sent.iter().map(lengths).collect::<Vec<_>>(), expected, "pieces of {piece_bytes}");
            assert!(service.is_idle(&conn));
        }
    }

    #[test]
    fn requests_without_a_response_wait_too() {
        let config = KvConfig { memory_max_bytes: 8 << 20, item_max_bytes: 1 << 20, pid: 1 };
        let service = waiting(Kv::new(config, Box::new(|| 1)), MINUTE);
        let mut conn = WaitingConnection::default();
        service.receive(&mut conn, b"set a 0 0 1 noreply\r\nx\r\nset a 0 0 1 noreply\r\ny\r\nget a\r\nget b");
        service.receive(&mut conn, b"\r\n");
        let sent = drain(&service, &mut conn);
        let texts: Vec<_> = sent.iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect();
        assert_eq!(texts, ["", "", "", "VALUE a 0 1\r\ny\r\nEND\r\n", "END\r\n"]);
    }

    #[test]
    fn connections_without_work_do_not_wait() {
        let work = Work { wait: Some(MINUTE), connections: Some(0.5), ..Work::default() };
        let service = WithWaits::new(Fixed::new(2, 1), work, false, Arc::default());
        let waits = |_: &usize| {
            let mut conn = WaitingConnection::default();
            let ready = service.receive(&mut conn, &[0; 7]) as usize;
            let sent = drain(&service, &mut conn);
            assert_eq!(sent.concat().len(), 3);
            assert_eq!((ready, sent.len()), if ready == 0 { (0, 4) } else { (1, 1) });
            ready == 0
        };
        let waiting = (0..400usize).filter(waits).count();
        assert!((120..280).contains(&waiting), "{waiting} of 400 with a share of 1/2");
    }

    #[test]
    fn blocking_call_of_another_thread_comes_before_the_wait() {
        let sleep = Some(Times::Constant { time_ns: 5_000_000 });
        let work = Work { sleep, wait: Some(MINUTE), ..Work::default() };
        let service = WithWaits::new(Fixed::new(1, 1), work, true, Arc::default());
        let (mut conn, started) = (WaitingConnection::default(), Instant::now());
        assert_eq!(service.receive(&mut conn, &[0]), 0);
        assert!(service.wait(&conn).unwrap().until.is_none());
        service.block();
        assert!(started.elapsed() >= Duration::from_millis(5));
        assert_eq!((service.resume(&mut conn), service.unsent(&conn).len()), (0, 0));
        assert_eq!(drain(&service, &mut conn), [vec![], vec![0]]);
    }

    /// The distance between a sample and a law must be below what it exceeds with a probability of 1e-9 (Kolmogorov-Smirnov).
    fn check_law(times: &Times, law: impl Fn(f64) -> f64) {
        const COUNT: usize = 20_000;
        let mut draws: Vec<u64> = (0..COUNT).map(|_| times.draw_ns()).collect();
        draws.sort_unstable();
        for chunk in draws.chunk_by(|a, b| a == b) {
            let up_to = draws.partition_point(|ns| *ns <= chunk[0]) as f64 / COUNT as f64;
            let distance = (up_to - law(chunk[0] as f64)).abs();
            assert!(distance < (2e9f64.ln() / (2.0 * COUNT as f64)).sqrt(), "{distance} at {} ns: {times:?}", chunk[0]);
        }
    }

    #[test]
    fn waits_have_the_requested_law() {
        check_law(&Times::Exponential { mean_ns: 5_000_000 }, |ns| 1.0 - (-ns / 5e6).exp());
        check_law(&Times::Constant { time_ns: 7 }, |ns| f64::from(ns == 7.0));
        let list = [(1, 0.7), (100, 0.1), (10, 0.2)].map(|(time_ns, share)| TimeShare { time_ns, share });
        let law = |ns: f64| list.iter().filter(|it| it.time_ns as f64 <= ns).map(|it| it.share).sum();
        check_law(&Times::Shares(list.to_vec()), law);
    }
}
