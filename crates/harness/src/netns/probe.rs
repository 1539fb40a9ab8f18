//! Measures the network of a testbed: round trips, loss and bandwidth of datagrams.
//!
//! Threads in the hosts' namespaces create sockets, which this process then uses while nothing else is sent.

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

/// The number of round trips, and the time between two.
const ROUND_TRIPS: u32 = 200;
const ROUND_TRIP_INTERVAL: Duration = Duration::from_millis(1);
/// The payload of a datagram that measures round trips or loss.
const SMALL_BYTES: usize = 32;
/// The payload of a datagram that fills a packet.
const LARGE_BYTES: usize = 1_472;
/// The headers of IPv4 and UDP.
const HEADER_BYTES: u64 = 28;
/// The number of losses to expect from the datagrams that measure loss...
const LOSSES: f64 = 20.0;
/// ...and the limits of their number, each way.
const LOSS_DATAGRAMS: (u32, u32) = (1_000, 20_000);
/// The datagrams that are sent together to measure loss, and the time between two groups.
const GROUP: u32 = 16;
const GROUP_INTERVAL: Duration = Duration::from_micros(250);
/// The share of a bandwidth that small datagrams use, so that none waits for another.
const SMALL_SHARE: f64 = 0.25;
/// The time over which a bandwidth is measured, and the ratio of the sent to the expected rate.
const BANDWIDTH_TIME: Duration = Duration::from_millis(250);
const BANDWIDTH_FACTOR: f64 = 2.0;
/// The lowest number of datagrams to receive in this time.
const BANDWIDTH_DATAGRAMS_MIN: f64 = 50.0;
/// A system call sends the datagrams of this time...
const BATCH_TIME: Duration = Duration::from_micros(200);
/// ...but at most so many: they have to be shorter than 64 KiB together.
const BATCH_MAX: f64 = 40.0;
/// A counter is read again if reading it took longer than this...
const READING_MAX: Duration = Duration::from_millis(1);
/// ...but at most so often.
const READINGS_MAX: u32 = 20;
/// The time in which the first datagram has to arrive.
const UP_TIMEOUT: Duration = Duration::from_secs(20);
/// The delay that a busy machine may add.
const BUSY_DELAY: Duration = Duration::from_millis(100);
/// The receive buffer: datagrams wait there while this process has no CPU.
const SOCKET_BYTES: usize = 16 << 20;

/// Measures the network between the client hosts and the server's host: round trips of every client host, and loss and bandwidth
/// of host `turn`. These take longer, and the conditions of all hosts are equal.
///
/// # Errors
/// When hardly any datagram arrives, or none of one host, or the run is aborted.
pub(super) fn measure(
    link: &Link<'_>,
    server: &TestbedHost,
    clients: &[TestbedHost],
    turn: usize,
) -> anyhow::Result<Measured> {
    let network = link.network;
    let there = socket(server).context("cannot create a socket on the server's host")?;
    let here: Vec<UdpSocket> =
        clients.iter().map(socket).collect::<io::Result<_>>().context("cannot create a socket on a client host")?;
    // The first packets wait for neighbour discovery, and on a busy machine links come up late.
    let deadline = Instant::now() + UP_TIMEOUT;
    while round_trips(link, &there, &here, (here.len() as u32).max(5))?.concat().is_empty() && Instant::now() < deadline
    {
    }
    let mut silent_hosts: Vec<usize> = (0..here.len()).collect();
    let mut timed = || -> anyhow::Result<(Vec<u64>, Option<usize>)> {
        let of_each = round_trips(link, &there, &here, ROUND_TRIPS.max(2 * here.len() as u32))?;
        silent_hosts.retain(|host| of_each[*host].is_empty());
        Ok((of_each.concat(), silent_hosts.first().copied()))
    };
    let is_enough = |round_trips: &[u64]| round_trips.len() as u32 * 10 >= ROUND_TRIPS;
    let (mut round_trips, mut silent) = timed()?;
    while (!is_enough(&round_trips) || silent.is_some()) && Instant::now() < deadline {
        (round_trips, silent) = timed()?;
    }
    ensure!(
        is_enough(&round_trips),
        "the lab's network loses nearly everything: {} of {ROUND_TRIPS} datagrams returned",
        round_trips.len()
    );
    if let Some(host) = silent {
        bail!("the lab's network loses everything from client host {}", clients[host].number());
    }
    round_trips.sort_unstable();
    let quantile = |q| stats::quantile(&round_trips, q).unwrap_or_default();
    let turn = turn % clients.len();
    let (host, here) = (&clients[turn], &here[turn]);
    let count = match network.loss {
        Some(loss) => ((LOSSES / loss.0) as u32).clamp(LOSS_DATAGRAMS.0, LOSS_DATAGRAMS.1),
        None => LOSS_DATAGRAMS.0,
    };
    let count = count.min(link.small_per_s() as u32).max(1);
    let towards_server = count_arrivals(link, here, &there, count)?;
    let from_server = count_arrivals(link, &there, here, count)?;
    let bandwidth = |from, to: &UdpSocket, host| -> anyhow::Result<Option<f64>> {
        let to = to.local_addr()?;
        network.bandwidth.map(|it| bandwidth(link, (from, to), host, it)).transpose()
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

/// The network under measurement.
pub(super) struct Link<'a> {
    pub(super) network: &'a Network,
    /// The bytes of a packet that the kernel counts in addition to those of IP.
    pub(super) link_bytes: u64,
    pub(super) stop: &'a Stop,
}

impl Link<'_> {
    /// The bits of a datagram with all headers.
    fn bits(&self, payload_bytes: usize) -> f64 {
        (payload_bytes as u64 + HEADER_BYTES + self.link_bytes) as f64 * 8.0
    }

    /// The rate of small datagrams at which none waits for another, per second.
    fn small_per_s(&self) -> f64 {
        let bandwidth = self.network.bandwidth.map_or(f64::INFINITY, |it| it.0 as f64);
        SMALL_SHARE * bandwidth / self.bits(SMALL_BYTES)
    }

    /// The longest time that a datagram takes, one way.
    fn one_way_max(&self) -> Duration {
        Duration::from_nanos(self.network.delay.0 + self.network.jitter.0) + BUSY_DELAY
    }

    /// Sleeps, unless the run is aborted.
    fn sleep(&self, time: Duration) {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline && !self.stop.is_aborted() {
            sleep_until(deadline.min(Instant::now() + POLL_INTERVAL));
        }
    }
}

fn socket(host: &TestbedHost) -> io::Result<UdpSocket> {
    let socket = host.within(|| UdpSocket::bind((host.address(Transport::Tcp), 0)))??;
    // Without the permission the default size has to do.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES);
    Ok(socket)
}

/// Sends `count` datagrams to the server and back, from the clients in turn. Returns the round-trip times of each client in
/// nanoseconds.
fn round_trips(
    link: &Link<'_>,
    server: &UdpSocket,
    clients: &[UdpSocket],
    count: u32,
) -> anyhow::Result<Vec<Vec<u64>>> {
    let to = server.local_addr()?;
    let is_over = AtomicBool::new(false);
    let interval = ROUND_TRIP_INTERVAL.max(Duration::from_secs_f64(1.0 / link.small_per_s().max(1e-3)));
    server.set_read_timeout(Some(BUSY_DELAY / 2))?;
    // Several datagrams are on their way at once: each contains its send time.
    let begun = Instant::now();
    let receive = |socket: &UdpSocket, expected: u32| -> io::Result<Vec<u64>> {
        let mut times = Vec::new();
        let deadline = begun + interval * count + 2 * link.one_way_max();
        let mut datagram = [0; SMALL_BYTES];
        while (times.len() as u32) < expected && Instant::now() < deadline && !link.stop.is_aborted() {
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
                    client.set_read_timeout(Some(BUSY_DELAY / 2))?;
                    receive(client, expected)
                })
            })
            .collect();
        let send_all = || -> io::Result<()> {
            for number in (0..count).take_while(|_| !link.stop.is_aborted()) {
                let mut datagram = [0; SMALL_BYTES];
                sleep_until(begun + interval * number);
                datagram[..8].copy_from_slice(&(begun.elapsed().as_nanos() as u64).to_le_bytes());
                sent(clients[number as usize % clients.len()].send_to(&datagram, to))?;
            }
            Ok(())
        };
        let outcome = send_all();
        let times = receivers.into_iter().map(|it| it.join().unwrap_or_else(|_| Ok(Vec::new())));
        let times: io::Result<Vec<Vec<u64>>> = times.collect();
        is_over.store(true, Relaxed);
        outcome.context("cannot measure the lab's network")?;
        link.stop.check()?;
        times.context("cannot measure the lab's network")
    })
}

/// Sends `count` small datagrams one way, and returns the number that arrives.
fn count_arrivals(link: &Link<'_>, from: &UdpSocket, to: &UdpSocket, count: u32) -> anyhow::Result<u32> {
    let address = to.local_addr()?;
    let per_s = (f64::from(GROUP) / GROUP_INTERVAL.as_secs_f64()).min(link.small_per_s());
    let send = || {
        let begun = Instant::now();
        for number in (0..count).take_while(|_| !link.stop.is_aborted()) {
            if number % GROUP == 0 {
                sleep_until(begun + Duration::from_secs_f64(f64::from(number) / per_s));
            }
            sent(from.send_to(&[0; SMALL_BYTES], address))?;
        }
        Ok(())
    };
    let mut arrived = 0;
    let mut take = |bytes| arrived += u32::from(bytes == SMALL_BYTES);
    one_way(link, to, send, &mut take)?;
    Ok(arrived.min(count))
}

/// Sends faster than the bandwidth, and returns the bits per second that arrive after the burst of the token bucket. The kernel
/// counts them, so no receiver has to keep up.
fn bandwidth(
    link: &Link<'_>,
    (from, to): (&UdpSocket, SocketAddr),
    receiver: &TestbedHost,
    bandwidth: Bandwidth,
) -> anyhow::Result<f64> {
    let bits_per_s = bandwidth.0 as f64;
    let fits = bits_per_s / 8.0 * BANDWIDTH_TIME.as_secs_f64() / BANDWIDTH_DATAGRAMS_MIN;
    let size = (fits as usize).clamp(SMALL_BYTES, LARGE_BYTES);
    // At a gigabit a system call for each datagram would need a whole CPU.
    let batch = (bits_per_s * BATCH_TIME.as_secs_f64() / link.bits(size)).clamp(1.0, BATCH_MAX) as usize;
    if batch > 1 {
        set_segment_size(from, size).context("cannot send several datagrams by one system call")?;
    }
    let (all, bits) = (vec![0; size * batch], link.bits(size) * batch as f64);
    // Datagrams arrive twice as fast as the bucket fills, so its burst is over by then.
    let burst = Duration::from_secs_f64(burst_bytes(link.network, bandwidth) as f64 * 8.0 / bits_per_s);
    let begins = Duration::from_nanos(link.network.delay.0 + link.network.jitter.0) + burst + BANDWIDTH_TIME / 5;
    let is_over = AtomicBool::new(false);
    let send = || {
        let begun = Instant::now();
        let mut count = 0.0;
        while !is_over.load(Relaxed) {
            // A sleep takes longer than a datagram: send all that are due. A full queue blocks.
            if count * bits < begun.elapsed().as_secs_f64() * BANDWIDTH_FACTOR * bits_per_s + bits {
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
        link.sleep(begins);
        let first = received(receiver);
        thread::sleep(BANDWIDTH_TIME);
        let last = received(receiver);
        is_over.store(true, Relaxed);
        let outcome = sender.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        outcome.and_then(|()| Ok((first?, last?)))
    })
    .context("cannot measure the lab's network")?;
    link.stop.check()?;
    Ok((last.0 - first.0) as f64 * 8.0 / (last.1 - first.1).as_secs_f64())
}

/// The bytes that a host has received, including headers, and the time of the reading: the fastest of several.
fn received(host: &TestbedHost) -> io::Result<(u64, Instant)> {
    let mut nearest: Option<(Duration, (u64, Instant))> = None;
    for _ in 0..READINGS_MAX {
        let started = Instant::now();
        let counted = InterfaceCounters::read(&host.namespace)?;
        let now = Instant::now();
        let taken = now - started;
        if nearest.is_none_or(|(fastest, _)| taken < fastest) {
            nearest = Some((taken, (counted.received_bytes, now)));
        }
        if taken <= READING_MAX {
            break;
        }
    }
    nearest.map(|(_, found)| found).ok_or_else(|| io::Error::other("no reading"))
}

/// Makes the kernel divide each message into datagrams of `size`.
fn set_segment_size(socket: &UdpSocket, size: usize) -> io::Result<()> {
    let size = size as libc::c_int;
    // SAFETY: UDP_SEGMENT takes an `int`, which outlives the call.
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

/// Calls `send` on this thread, and `take` with the length of each datagram that arrives, until none does for the longest time
/// that one takes.
fn one_way(
    link: &Link<'_>,
    to: &UdpSocket,
    send: impl Fn() -> io::Result<()> + Send,
    take: &mut (dyn FnMut(usize) + Send),
) -> anyhow::Result<()> {
    to.set_read_timeout(Some(link.one_way_max().min(POLL_INTERVAL)))?;
    let is_sent = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| -> io::Result<()> {
            let mut datagram = [0; LARGE_BYTES];
            let mut silent = Instant::now();
            while !link.stop.is_aborted() {
                let is_sent = is_sent.load(Relaxed);
                let arrived = arrival(to.recv(&mut datagram))?;
                if let Some(bytes) = arrived {
                    take(bytes);
                }
                if arrived.is_some() || !is_sent {
                    silent = Instant::now();
                } else if silent.elapsed() >= link.one_way_max() {
                    break;
                }
            }
            Ok(())
        });
        let outcome = send();
        is_sent.store(true, Relaxed);
        let received = receiver.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        outcome.and(received).context("cannot measure the lab's network")?;
        link.stop.check()
    })
}

/// The bytes of a datagram; `None` after a timeout.
fn arrival(received: io::Result<usize>) -> io::Result<Option<usize>> {
    match received {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

/// Accepts a full queue as a lost datagram.
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
    fn abort_does_not_wait_for_datagrams() {
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        // The server socket is connected to another one: no datagram returns, and the delay is five minutes.
        let (there, here, nobody) = (socket(), [socket()], socket());
        nobody.connect(there.local_addr().unwrap()).unwrap();
        let network = Network { delay: Time(300_000_000_000), ..Network::default() };
        for is_aborted_before in [true, false] {
            let stop = Stop::default();
            let link = Link { network: &network, link_bytes: 0, stop: &stop };
            thread::scope(|scope| {
                if is_aborted_before {
                    stop.abort();
                } else {
                    scope.spawn(|| {
                        thread::sleep(BUSY_DELAY);
                        stop.abort();
                    });
                }
                let started = Instant::now();
                let mut take = |_| ();
                let outcomes =
                    [round_trips(&link, &nobody, &here, 5).map(drop), one_way(&link, &there, || Ok(()), &mut take)];
                for outcome in outcomes {
                    assert_eq!(outcome.unwrap_err().to_string(), "stopped");
                }
                link.sleep(Duration::from_secs(300));
                assert!(started.elapsed() < Duration::from_secs(200));
            });
        }
    }
}
