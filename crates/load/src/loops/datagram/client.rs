//! One client for datagrams: one socket and one loop that sends due requests and receives responses.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt;
use wire::udp::{DATAGRAM_BYTES_MAX, Udp, put_id};

use super::matcher::{Ids, LoopResult, Matcher};
use super::unreachable;
use crate::config::{LoadConfig, Pacing};
use crate::driver::{SPIN_NS, StopCondition, Turns};
use crate::error::LoadError;
use crate::io::connect::PROGRESS;
use crate::record::progress::Progress;
use crate::record::request::Record;
use crate::result::Class;
use crate::time::clock::Clock;
use crate::time::slices::OwnSlices;

/// The requested size of the receive buffer, which the kernel limits to net.core.rmem_max.
const RECEIVE_BYTES: usize = 4 << 20;
/// The number of ports greeted at once.
const GREETED: usize = 64;
/// The time after which an unanswered greeting is repeated.
const GREET_AGAIN: Duration = Duration::from_millis(200);
/// The longest sleep before the loop checks whether it must end.
const SLEEP_NS: i64 = 5_000_000;
/// The wait for duplicates after the last response.
const LINGER_NS: f64 = 10_000_000.0;
/// The most receives in one turn of the loop.
const TAKEN_MAX: u32 = 16;
/// The most attempts to send a request, because a send may return the error of an earlier request.
const SENDS_MAX: u32 = 8;

/// Opens a non-blocking socket that sends datagrams to `targets` and reports undelivered ones.
pub fn open(targets: &[SocketAddr]) -> Result<UdpSocket, LoadError> {
    let is_v4 = targets.iter().all(SocketAddr::is_ipv4);
    let any: IpAddr = if is_v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let open = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_nonblocking(true)?;
        unreachable::enable(&socket, is_v4)?;
        // A smaller buffer is acceptable: the report counts drops.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES);
        Ok(socket)
    };
    open().map_err(|error| LoadError::System { what: "cannot open a datagram socket", error })
}

/// Greets each of `ports` and waits for all responses. Calls `progress` with the number of responses.
pub fn greet(
    socket: &UdpSocket,
    config: &LoadConfig,
    udp: &Udp,
    ids: Ids,
    targets: &[SocketAddr],
    ports: Range<usize>,
    progress: &mut dyn FnMut(u32),
) -> Result<(), LoadError> {
    let targets_here = &targets[ports.clone()];
    let failed = |port: usize, error: io::Error| {
        let (class, remedy) = match Class::of(&error) {
            Class::Refused | Class::Unreachable => {
                (Class::Unreachable, "is the server running there, with this many ports?")
            }
            Class::Timeout => {
                (Class::Timeout, "check the server's service and sizes, raise the timeout, or use fewer ports")
            }
            class => (class, "use another address"),
        };
        let (number, total) = ((ports.start + port) as u32 + 1, targets.len() as u32);
        LoadError::Connect { number, total, target: targets_here[port].to_string(), class: class.name(), error, remedy }
    };
    let (mut request, mut inbox) = (udp.request(), vec![0; DATAGRAM_BYTES_MAX as usize]);
    let mut answered = vec![false; targets_here.len()];
    let mut waiting: VecDeque<(usize, Instant, Instant)> = VecDeque::new();
    let (mut next, mut done, mut reported) = (0, 0, Instant::now());
    let timeout = Duration::from_nanos(config.client.timeout_ns);
    let mut send = |port: usize| -> Result<(), LoadError> {
        put_id(&mut request, ids.of(port as u32));
        match socket.send_to(&request, targets_here[port]) {
            // The greeting will be repeated.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            // A refusal may belong to another port; the error queue identifies the port.
            Err(error) if Class::of(&error) != Class::Refused => Err(failed(port, error)),
            _ => Ok(()),
        }
    };
    // Returns the first port with an error in the queue. A send or a receive may return the error of another port.
    let first_error = || {
        let mut first = None;
        unreachable::take(socket, &mut |datagram, class| {
            let id = datagram.first_chunk().copied().map(u64::from_le_bytes);
            let port = id.and_then(|id| ids.number(id)).filter(|&port| port < targets_here.len());
            first = first.take().or(Some((port.unwrap_or(0), class)));
        });
        first
    };
    while done < targets_here.len() {
        while next < targets_here.len() && waiting.len() < GREETED {
            send(next)?;
            let now = Instant::now();
            waiting.push_back((next, now, now));
            next += 1;
        }
        wait(socket, GREET_AGAIN.as_nanos() as i64 / 4);
        loop {
            if let Some((port, class)) = first_error() {
                let error = match class {
                    Class::Unreachable => Errno::CONNREFUSED.into(),
                    _ => io::Error::other("the network did not deliver the greeting"),
                };
                return Err(failed(port, error));
            }
            match socket.recv_from(&mut inbox) {
                Ok((bytes, from)) => {
                    let port = udp.response_id(&inbox[..bytes]).and_then(|id| ids.number(id));
                    if let Some(port) = port.filter(|&port| targets_here.get(port) == Some(&from) && !answered[port]) {
                        answered[port] = true;
                        done += 1;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The error queue identifies the port that failed.
                Err(_) => {}
            }
        }
        waiting.retain(|(port, ..)| !answered[*port]);
        for (port, since, last) in &mut waiting {
            if since.elapsed() > timeout {
                return Err(failed(*port, io::ErrorKind::TimedOut.into()));
            }
            if last.elapsed() > GREET_AGAIN {
                send(*port)?;
                *last = Instant::now();
            }
        }
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            progress(done as u32);
        }
    }
    Ok(())
}

/// Sleeps until a datagram arrives or for `timeout_ns` (below a second).
fn wait(socket: &UdpSocket, timeout_ns: i64) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout_ns };
    let _ = rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout));
}

pub struct Client<'a> {
    clock: Clock,
    socket: &'a UdpSocket,
    matcher: Matcher<'a>,
    request: Vec<u8>,
    inbox: Vec<u8>,
    next: usize,
    /// The time after which a request without a response is lost, in ticks.
    timeout: u64,
}

impl<'a> Client<'a> {
    pub fn new(
        clock: Clock,
        udp: Udp,
        ids: Ids,
        window: Range<u64>,
        (targets, records): (&'a [SocketAddr], &'a [Record]),
        socket: &'a UdpSocket,
        timeout: u64,
    ) -> Self {
        Self {
            clock,
            socket,
            matcher: Matcher::new(udp, ids, window, targets, records),
            request: udp.request(),
            inbox: vec![0; DATAGRAM_BYTES_MAX as usize],
            next: 0,
            timeout,
        }
    }

    /// Sends and receives until the cool-down ends, or the window has ended and no request is outstanding. A due request waits for at
    /// most one response.
    pub fn run(mut self, pacing: Pacing, mut slices: OwnSlices, until: &StopCondition<'_>) -> LoopResult {
        let linger = self.clock.ticks(LINGER_NS);
        let mut settled_since = None;
        let mut turns = slices.watch_pauses(Turns::new(until.window.clone()), &self.clock);
        let mut is_spare = false;
        loop {
            let now = self.clock.now();
            turns.begin(now, is_spare);
            if until.is_over(now) {
                break;
            }
            let late = self.is_due(now);
            if late {
                self.send(until.progress);
                settled_since = None;
            } else if self.next == self.matcher.records.len() {
                until.progress.set_done();
                if until.progress.is_outstanding() {
                    settled_since = None;
                } else if now.saturating_sub(*settled_since.get_or_insert(now)) > linger && now >= until.window.end {
                    break;
                }
            }
            let sleep = |ns| wait(self.socket, ns);
            if !late {
                let planned = slices.sleep(&self.clock, now, sleep).or_else(|| self.idle(pacing, now));
                planned.inspect(|planned| turns.slept(self.clock.now(), *planned));
            }
            is_spare = !self.receive(until.progress) && !late;
        }
        until.progress.set_done();
        self.take_errors(until.progress);
        LoopResult { busy_share: turns.busy_share(), pauses: turns.pauses(), ..self.matcher.result }
    }

    #[inline]
    fn is_due(&self, now: u64) -> bool {
        self.matcher.records.get(self.next).is_some_and(|record| now >= record.planned)
    }

    /// Sends the next request. If the kernel has no buffer space, the request stays due.
    #[inline]
    fn send(&mut self, progress: &Progress) {
        let (number, record) = (self.next, &self.matcher.records[self.next]);
        let target = self.matcher.targets[record.connection() as usize];
        put_id(&mut self.request, self.matcher.ids.of(number as u32));
        for attempt in 1.. {
            // t2: only the system call is between this reading and the kernel.
            record.sent.store(self.clock.now(), Relaxed);
            match self.socket.send_to(&self.request, target) {
                Ok(_) => {
                    self.next += 1;
                    progress.add_sent();
                    return;
                }
                Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::AGAIN | Errno::NOBUFS)) => {
                    record.sent.store(0, Relaxed);
                    return;
                }
                // The error belongs to an earlier request, and this one was not sent.
                Err(_) if self.take_errors(progress) && attempt < SENDS_MAX => {}
                Err(error) => {
                    let class = match Class::of(&error) {
                        Class::Refused => Class::Unreachable,
                        class => class,
                    };
                    self.matcher.result.errors.count(class, 1);
                    self.matcher.result.failed[number] = true;
                    record.sent.store(0, Relaxed);
                    self.next += 1;
                    return;
                }
            }
        }
    }

    /// Waits while no request is due. Returns the planned time of waking, if it slept.
    #[inline]
    fn idle(&self, pacing: Pacing, now: u64) -> Option<u64> {
        match pacing {
            Pacing::Yield => thread::yield_now(),
            Pacing::SleepSpin => {
                let due = self.matcher.records.get(self.next).map(|record| record.planned);
                let ns = due.map_or(SLEEP_NS, |due| self.clock.between_ns(now, due) - SPIN_NS).min(SLEEP_NS);
                if ns > 0 {
                    wait(self.socket, ns);
                    return Some(now + self.clock.ticks(ns as f64));
                }
            }
            Pacing::Spin | Pacing::Auto => std::hint::spin_loop(),
        }
        None
    }

    /// Receives the datagrams that have arrived, but stops when a request is due. Returns whether there were any.
    #[inline]
    fn receive(&mut self, progress: &Progress) -> bool {
        for taken in 0..TAKEN_MAX {
            match self.socket.recv_from(&mut self.inbox) {
                Ok((bytes, from)) => {
                    // t3: right after the system call that returned the datagram.
                    let now = self.clock.now();
                    if self.matcher.take(&self.inbox[..bytes], Some(from), now, self.timeout) {
                        progress.add_completed(1);
                    }
                    if self.is_due(now) {
                        return true;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return taken > 0,
                Err(_) => {
                    self.take_errors(progress);
                }
            }
        }
        true
    }

    /// Reads the error queue. Returns whether it had an entry.
    #[cold]
    fn take_errors(&mut self, progress: &Progress) -> bool {
        let matcher = &mut self.matcher;
        let mut some = false;
        unreachable::take(self.socket, &mut |datagram, class| {
            some = true;
            if matcher.fail(datagram, class) {
                progress.add_lost(1);
            }
        });
        some
    }
}
