//! What a lab's network really does: how long small datagrams take there and back, how many arrive, how much gets through.
//!
//! Sockets are made in the hosts and used from here, when nothing else is sent: a socket is of the host in which it was made.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::conditions::burst_bytes;
use super::host::TestbedHost;
use super::interface::InterfaceCounters;
use crate::model::network::Measured;
use crate::process::stop::{POLL_INTERVAL, Stop};
use crate::spec::network::Network;
use crate::spec::transport::Transport;
use crate::spec::units::Bandwidth;

/// Datagrams that are sent back.
const EXCHANGES: u32 = 200;
/// The time between two of them.
const EXCHANGE_EVERY: Duration = Duration::from_millis(1);
/// The payload of a datagram that is sent back, or counted.
const SMALL_BYTES: usize = 32;
/// The payload of one that fills a packet.
const LARGE_BYTES: usize = 1_472;
/// Headers of IPv4 and UDP.
const HEADER_BYTES: u64 = 28;
/// So many losses are counted, if they are as asked, ...
const LOSSES: f64 = 20.0;
/// ...of so many datagrams each way, at least and at most, ...
const COUNTED: (u32, u32) = (1_000, 20_000);
/// ...sent so many at once, ...
const GROUP: u32 = 16;
/// ...so often.
const GROUP_EVERY: Duration = Duration::from_micros(250);
/// Small datagrams take up this share of a bandwidth, so that none waits for another.
const SMALL_SHARE: f64 = 0.25;
/// How long more is sent than gets through, ...
const FILL: Duration = Duration::from_millis(250);
/// ...by this factor.
const FILL_FACTOR: f64 = 2.0;
/// Datagrams that arrive in that time, at least.
const FILL_DATAGRAMS_MIN: f64 = 50.0;
/// Datagrams that are sent at once are those of this time, ...
const AT_ONCE: Duration = Duration::from_micros(200);
/// ...and at most so many, which are less than 64 KiB.
const AT_ONCE_MAX: f64 = 40.0;
/// When a counter was read is known if that took no longer than this; otherwise it is read again, ...
const READING_MAX: Duration = Duration::from_millis(1);
/// ...so often at most.
const READINGS_MAX: u32 = 20;
/// How long it is tried whether anything comes through, where at first nothing does.
const UP_MAX: Duration = Duration::from_secs(20);
/// On a busy machine something may be late by so much.
const PATIENCE: Duration = Duration::from_millis(100);
/// Room for what comes while others have our CPU.
const SOCKET_BYTES: usize = 16 << 20;

/// Measures between the clients' hosts and the server's: round trips of each of them, of which none is silent; loss and bandwidth
/// of the one whose `turn` it is, for they take time, and all have the same conditions.
///
/// # Errors
/// When hardly anything arrives, or nothing of one host, or an end is wanted.
pub(super) fn measure(
    line: &Line<'_>,
    server: &TestbedHost,
    clients: &[TestbedHost],
    turn: usize,
) -> anyhow::Result<Measured> {
    let network = line.network;
    let there = socket(server).context("a socket of the server's host")?;
    let here: Vec<UdpSocket> =
        clients.iter().map(socket).collect::<io::Result<_>>().context("a socket of a client's")?;
    // Neighbours are found, which takes a way there and back more, and on a busy machine links come up after the fact.
    let deadline = Instant::now() + UP_MAX;
    while exchange(line, &there, &here, (here.len() as u32).max(5))?.concat().is_empty() && Instant::now() < deadline {}
    let mut unheard: Vec<usize> = (0..here.len()).collect();
    let mut timed = || -> anyhow::Result<(Vec<u64>, Option<usize>)> {
        let of_each = exchange(line, &there, &here, EXCHANGES.max(2 * here.len() as u32))?;
        unheard.retain(|host| of_each[*host].is_empty());
        Ok((of_each.concat(), unheard.first().copied()))
    };
    let is_enough = |round_trips: &[u64]| round_trips.len() as u32 * 10 >= EXCHANGES;
    let (mut round_trips, mut silent) = timed()?;
    while (!is_enough(&round_trips) || silent.is_some()) && Instant::now() < deadline {
        (round_trips, silent) = timed()?;
    }
    ensure!(
        is_enough(&round_trips),
        "hardly anything comes through the lab's network: of {EXCHANGES} datagrams {} came back",
        round_trips.len()
    );
    if let Some(host) = silent {
        bail!("nothing comes through the lab's network from its client's host {}", clients[host].number());
    }
    round_trips.sort_unstable();
    let quantile = |q| stats::quantile(&round_trips, q).unwrap_or_default();
    let turn = turn % clients.len();
    let (host, here) = (&clients[turn], &here[turn]);
    let count = match network.loss {
        Some(loss) => ((LOSSES / loss.0) as u32).clamp(COUNTED.0, COUNTED.1),
        None => COUNTED.0,
    };
    let count = count.min(line.small_per_s() as u32).max(1);
    let towards_server = count_arrivals(line, here, &there, count)?;
    let from_server = count_arrivals(line, &there, here, count)?;
    let bandwidth = |from, to: &UdpSocket, host| -> anyhow::Result<Option<f64>> {
        let to = to.local_addr()?;
        network.bandwidth.map(|it| fill(line, (from, to), host, it)).transpose()
    };
    let bandwidth = (bandwidth(here, &there, server)?, bandwidth(&there, here, host)?);
    Ok(Measured {
        round_trips: round_trips.len() as u32,
        round_trip_p50_ns: quantile(0.5),
        round_trip_p99_ns: quantile(0.99),
        host: (clients.len() > 1).then(|| host.number()),
        sent: 2 * count,
        lost: 2 * count - towards_server - from_server,
        bandwidth_bits_per_s: bandwidth.0.zip(bandwidth.1).map(|(to, from)| [to, from]),
    })
}

/// What datagrams go over.
pub(super) struct Line<'a> {
    pub(super) network: &'a Network,
    /// Bytes that the kernel counts of a packet besides what IP does.
    pub(super) link_bytes: u64,
    /// Set when nobody wants to know any more.
    pub(super) stop: &'a Stop,
}

impl Line<'_> {
    /// Bits of a datagram with all its headers.
    fn bits(&self, payload_bytes: usize) -> f64 {
        (payload_bytes as u64 + HEADER_BYTES + self.link_bytes) as f64 * 8.0
    }

    /// Small datagrams a second, of which none waits for another.
    fn small_per_s(&self) -> f64 {
        let bandwidth = self.network.bandwidth.map_or(f64::INFINITY, |it| it.0 as f64);
        SMALL_SHARE * bandwidth / self.bits(SMALL_BYTES)
    }

    /// How long a datagram may be on its way, one way.
    fn patience(&self) -> Duration {
        Duration::from_nanos(self.network.delay.0 + self.network.jitter.0) + PATIENCE
    }

    /// Sleeps, unless an end is wanted meanwhile.
    fn sleep(&self, time: Duration) {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline && !self.stop.is_aborted() {
            sleep_until(deadline.min(Instant::now() + POLL_INTERVAL));
        }
    }
}

fn socket(host: &TestbedHost) -> io::Result<UdpSocket> {
    let socket = host.within(|| UdpSocket::bind((host.address(Transport::Tcp), 0)))??;
    // A smaller one does as well where this is refused.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES);
    Ok(socket)
}

/// Has `count` datagrams sent to the server and back, from each client in turn; how long those took that came back to each, in
/// nanoseconds.
fn exchange(line: &Line<'_>, server: &UdpSocket, clients: &[UdpSocket], count: u32) -> anyhow::Result<Vec<Vec<u64>>> {
    let to = server.local_addr()?;
    let is_over = AtomicBool::new(false);
    let every = EXCHANGE_EVERY.max(Duration::from_secs_f64(1.0 / line.small_per_s().max(1e-3)));
    server.set_read_timeout(Some(PATIENCE / 2))?;
    // Several are on their way at once; each has its number and the time of its sending in it.
    let begun = Instant::now();
    let receive = |socket: &UdpSocket, expected: u32| -> io::Result<Vec<u64>> {
        let mut times = Vec::new();
        let deadline = begun + every * count + 2 * line.patience();
        let mut datagram = [0; SMALL_BYTES];
        while (times.len() as u32) < expected && Instant::now() < deadline && !line.stop.is_aborted() {
            if let Some(SMALL_BYTES) = arrival(socket.recv(&mut datagram))? {
                let now_ns = begun.elapsed().as_nanos() as u64;
                let sent_ns = datagram[..8].try_into().map_or(0, u64::from_le_bytes);
                times.push(now_ns.saturating_sub(sent_ns));
            }
        }
        Ok(times)
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut datagram = [0; SMALL_BYTES];
            while !is_over.load(Relaxed) {
                if let Ok((SMALL_BYTES, from)) = server.recv_from(&mut datagram) {
                    let _ = server.send_to(&datagram, from);
                }
            }
        });
        let receivers: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(at, client)| {
                let expected = (at as u32..count).step_by(clients.len()).count() as u32;
                scope.spawn(move || {
                    client.set_read_timeout(Some(PATIENCE / 2))?;
                    receive(client, expected)
                })
            })
            .collect();
        let send_all = || -> io::Result<()> {
            for number in (0..count).take_while(|_| !line.stop.is_aborted()) {
                let mut datagram = [0; SMALL_BYTES];
                sleep_until(begun + every * number);
                datagram[..8].copy_from_slice(&(begun.elapsed().as_nanos() as u64).to_le_bytes());
                sent(clients[number as usize % clients.len()].send_to(&datagram, to))?;
            }
            Ok(())
        };
        let outcome = send_all();
        let times = receivers.into_iter().map(|it| it.join().unwrap_or_else(|_| Ok(Vec::new())));
        let times: io::Result<Vec<Vec<u64>>> = times.collect();
        is_over.store(true, Relaxed);
        outcome.context("the lab's network")?;
        line.stop.check()?;
        times.context("the lab's network")
    })
}

/// Sends `count` small datagrams one way, and counts those that arrive.
fn count_arrivals(line: &Line<'_>, from: &UdpSocket, to: &UdpSocket, count: u32) -> anyhow::Result<u32> {
    let address = to.local_addr()?;
    let per_s = (f64::from(GROUP) / GROUP_EVERY.as_secs_f64()).min(line.small_per_s());
    let send = || {
        let begun = Instant::now();
        for number in (0..count).take_while(|_| !line.stop.is_aborted()) {
            if number % GROUP == 0 {
                sleep_until(begun + Duration::from_secs_f64(f64::from(number) / per_s));
            }
            sent(from.send_to(&[0; SMALL_BYTES], address))?;
        }
        Ok(())
    };
    let mut arrived = 0;
    let mut take = |bytes| arrived += u32::from(bytes == SMALL_BYTES);
    one_way(line, to, send, &mut take)?;
    Ok(arrived.min(count))
}

/// Sends more than gets through for a while: bits a second that arrive, once what a token bucket lets through at once has.
/// The kernel counts them, so that nobody need be quick enough to receive them.
fn fill(
    line: &Line<'_>,
    (from, to): (&UdpSocket, SocketAddr),
    receiver: &TestbedHost,
    bandwidth: Bandwidth,
) -> anyhow::Result<f64> {
    let bits_per_s = bandwidth.0 as f64;
    let fits = bits_per_s / 8.0 * FILL.as_secs_f64() / FILL_DATAGRAMS_MIN;
    let size = (fits as usize).clamp(SMALL_BYTES, LARGE_BYTES);
    // Many at once, where they go fast: at a gigabit a system call for each would take a CPU.
    let at_once = (bits_per_s * AT_ONCE.as_secs_f64() / line.bits(size)).clamp(1.0, AT_ONCE_MAX) as usize;
    if at_once > 1 {
        send_in_parts(from, size).context("sending several datagrams at once")?;
    }
    let (all, bits) = (vec![0; size * at_once], line.bits(size) * at_once as f64);
    // Sent twice as fast as the bucket fills, what it lets through at once has gone by then.
    let burst = Duration::from_secs_f64(burst_bytes(line.network, bandwidth) as f64 * 8.0 / bits_per_s);
    let begins = Duration::from_nanos(line.network.delay.0 + line.network.jitter.0) + burst + FILL / 5;
    let is_over = AtomicBool::new(false);
    let send = || {
        let begun = Instant::now();
        let mut count = 0.0;
        while !is_over.load(Relaxed) {
            // Those that are due by now: in groups, for a sleep takes longer than a datagram. A queue that is full has us wait.
            if count * bits < begun.elapsed().as_secs_f64() * FILL_FACTOR * bits_per_s + bits {
                sent(from.send_to(&all, to))?;
                count += 1.0;
            } else {
                thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(())
    };
    let (first, last) = thread::scope(|scope| {
        let sender = scope.spawn(send);
        line.sleep(begins);
        let first = received(receiver);
        thread::sleep(FILL);
        let last = received(receiver);
        is_over.store(true, Relaxed);
        let outcome = sender.join().unwrap_or_else(|_| Err(io::Error::other("a thread of ours failed")));
        outcome.and_then(|()| Ok((first?, last?)))
    })
    .context("the lab's network")?;
    line.stop.check()?;
    Ok((last.0 - first.0) as f64 * 8.0 / (last.1 - first.1).as_secs_f64())
}

/// Bytes that a host has received so far, headers included, and when that was: of some readings, the one that took the least.
fn received(host: &TestbedHost) -> io::Result<(u64, Instant)> {
    let mut nearest: Option<(Duration, (u64, Instant))> = None;
    for _ in 0..READINGS_MAX {
        let started = Instant::now();
        let counted = InterfaceCounters::read(&host.namespace)?;
        let now = Instant::now();
        let taken = now - started;
        if nearest.is_none_or(|(least, _)| taken < least) {
            nearest = Some((taken, (counted.received_bytes, now)));
        }
        if taken <= READING_MAX {
            break;
        }
    }
    nearest.map(|(_, found)| found).ok_or_else(|| io::Error::other("nothing was read"))
}

/// Has what is sent from now on be sent as datagrams of `size`, as many as it takes.
fn send_in_parts(socket: &UdpSocket, size: usize) -> io::Result<()> {
    let size = size as libc::c_int;
    // SAFETY: `size` is what UDP_SEGMENT takes, and lives across the call.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const size).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has datagrams sent while `take` is told of each that arrives, until none has for as long as one may be on its way.
fn one_way(
    line: &Line<'_>,
    to: &UdpSocket,
    send: impl Fn() -> io::Result<()> + Send,
    take: &mut (dyn FnMut(usize) + Send),
) -> anyhow::Result<()> {
    to.set_read_timeout(Some(line.patience().min(POLL_INTERVAL)))?;
    let is_sent = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| -> io::Result<()> {
            let mut datagram = [0; LARGE_BYTES];
            let mut silent = Instant::now();
            while !line.stop.is_aborted() {
                let is_sent = is_sent.load(Relaxed);
                let arrived = arrival(to.recv(&mut datagram))?;
                if let Some(bytes) = arrived {
                    take(bytes);
                }
                if arrived.is_some() || !is_sent {
                    silent = Instant::now();
                } else if silent.elapsed() >= line.patience() {
                    break;
                }
            }
            Ok(())
        });
        let outcome = send();
        is_sent.store(true, Relaxed);
        let received = receiver.join().unwrap_or_else(|_| Err(io::Error::other("a thread of ours failed")));
        outcome.and(received).context("the lab's network")?;
        line.stop.check()
    })
}

/// How many bytes came; `None` if none did in time.
fn arrival(received: io::Result<usize>) -> io::Result<Option<usize>> {
    match received {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a datagram was sent. One for which a queue had no room is one that did not get through.
fn sent(outcome: io::Result<usize>) -> io::Result<()> {
    match outcome {
        Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(()),
        outcome => outcome.map(drop),
    }
}

fn sleep_until(when: Instant) {
    thread::sleep(when.saturating_duration_since(Instant::now()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::units::Time;

    #[test]
    fn who_wants_an_end_does_not_wait_for_what_is_on_its_way() {
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        // Of what is sent to one that hears another alone nothing comes back, and it may take minutes until it would.
        let (there, here, nobody) = (socket(), [socket()], socket());
        nobody.connect(there.local_addr().unwrap()).unwrap();
        let network = Network { delay: Time(300_000_000_000), ..Network::default() };
        for is_asked_before in [true, false] {
            let stop = Stop::default();
            let line = Line { network: &network, link_bytes: 0, stop: &stop };
            thread::scope(|scope| {
                if is_asked_before {
                    stop.abort();
                } else {
                    scope.spawn(|| {
                        thread::sleep(PATIENCE);
                        stop.abort();
                    });
                }
                let started = Instant::now();
                let mut take = |_| ();
                let outcomes =
                    [exchange(&line, &nobody, &here, 5).map(drop), one_way(&line, &there, || Ok(()), &mut take)];
                for outcome in outcomes {
                    assert_eq!(outcome.unwrap_err().to_string(), "stopped");
                }
                line.sleep(Duration::from_secs(300));
                assert!(started.elapsed() < Duration::from_secs(200));
            });
        }
    }
}
