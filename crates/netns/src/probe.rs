//! Measures the network of a testbed while it is otherwise idle: round trips, loss and bandwidth of datagrams. Its sockets are
//! in the hosts' namespaces.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use process::stop::{POLL_INTERVAL, Stop};
use wire::units::Bandwidth;

use super::addresses::address;
use super::conditions::burst_bytes;
use super::host::TestbedHost;
use super::interface;
use crate::network::Network;
use crate::record::Measured;

/// The lowest number of datagrams to send to measure round trips, and the shortest interval between two of them.
const ROUND_TRIPS: u32 = 200;
const ROUND_TRIP_INTERVAL: Duration = Duration::from_millis(1);
/// The payload of a datagram that measures round trips or loss.
const SMALL_BYTES: usize = 32;
/// The payload of a datagram that fills a packet.
const LARGE_BYTES: usize = 1_472;
/// The headers of IPv4 and UDP.
const HEADER_BYTES: u64 = 28;
/// The expected number of losses in a measurement of loss, and the limits of the number of datagrams each way.
const LOSSES: f64 = 20.0;
const LOSS_DATAGRAMS: (u32, u32) = (1_000, 20_000);
/// The number of datagrams sent together to measure loss, and the time between two groups.
const GROUP: u32 = 16;
const GROUP_INTERVAL: Duration = Duration::from_micros(250);
/// The share of the bandwidth that small datagrams may use, so that they do not queue.
const SMALL_SHARE: f64 = 0.25;
/// The duration of a measurement of bandwidth, the lowest number of datagrams to receive, and the ratio of the sent to the
/// expected rate.
const BANDWIDTH_TIME: Duration = Duration::from_millis(250);
const BANDWIDTH_DATAGRAMS_MIN: f64 = 50.0;
const BANDWIDTH_FACTOR: f64 = 2.0;
/// One system call sends as many datagrams as the bandwidth passes in this time, but at most `BATCH_MAX`, which fit in 64 KiB.
const BATCH_TIME: Duration = Duration::from_micros(200);
const BATCH_MAX: f64 = 40.0;
/// A counter is read repeatedly, at most `READINGS_MAX` times, until a reading takes no longer than this.
const READING_MAX: Duration = Duration::from_millis(1);
const READINGS_MAX: u32 = 20;
/// The time within which datagrams of every client host must return.
const UP_TIMEOUT: Duration = Duration::from_secs(20);
/// The delay that a busy machine may add.
const BUSY_DELAY: Duration = Duration::from_millis(100);
/// The size of a receive buffer, in bytes. Datagrams wait there while this process has no CPU.
const SOCKET_BYTES: usize = 16 << 20;

/// Measures the network to the server's host: the round trips of every client host, and loss and bandwidth of the client host
/// that `turn` selects. One host suffices for the slower measurements, because all hosts have the same conditions.
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
    // Wait until a datagram returns. The first packets wait for neighbour discovery, and on a busy machine links come up late.
    let deadline = Instant::now() + UP_TIMEOUT;
    while round_trips(link, &there, &here, (here.len() as u32).max(5))?.concat().is_empty() && Instant::now() < deadline
    {
    }
    let sent = ROUND_TRIPS.max(2 * here.len() as u32);
    let mut silent_hosts: Vec<usize> = (0..here.len()).collect();
    let mut timed = || -> anyhow::Result<(Vec<u64>, Option<usize>)> {
        let times = round_trips(link, &there, &here, sent)?;
        silent_hosts.retain(|host| times[*host].is_empty());
        Ok((times.concat(), silent_hosts.first().copied()))
    };
    let is_enough = |round_trips: &[u64]| round_trips.len() as u32 * 10 >= sent;
    let (mut round_trips, mut silent) = timed()?;
    while (!is_enough(&round_trips) || silent.is_some()) && Instant::now() < deadline {
        (round_trips, silent) = timed()?;
    }
    let returned = round_trips.len() as u32;
    ensure!(
        is_enough(&round_trips),
        "the lab's network loses nearly everything: {returned} of {sent} datagrams returned"
    );
    if let Some(host) = silent {
        bail!("the lab's network loses everything from client host {}", clients[host].number);
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
        round_trips: returned,
        round_trip_p50_ns: quantile(0.5),
        round_trip_p99_ns: quantile(0.99),
        host: (clients.len() > 1).then_some(host.number),
        sent: 2 * count,
        lost: 2 * count - towards_server - from_server,
        bandwidth_bits_per_s: bandwidth.0.zip(bandwidth.1).map(|(to, from)| [to, from]),
    })
}

pub(super) struct Link<'a> {
    pub(super) network: &'a Network,
    /// The bytes that the kernel counts for a packet in addition to the IP packet.
    pub(super) link_bytes: u64,
    pub(super) stop: &'a Stop,
}

impl Link<'_> {
    /// The number of bits of a datagram with all headers.
    fn bits(&self, payload_bytes: usize) -> f64 {
        (payload_bytes as u64 + HEADER_BYTES + self.link_bytes) as f64 * 8.0
    }

    /// The rate of small datagrams at which they do not queue, per second.
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
    let socket = host.namespace.within(|| UdpSocket::bind((address(host.number, false, 1), 0)))??;
    socket.set_read_timeout(Some(BUSY_DELAY / 2))?;
    // Without CAP_NET_ADMIN the buffer keeps its default size.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES);
    Ok(socket)
}

/// Sends `count` datagrams from the clients in turn to the server, which returns them. Returns the round-trip times of each
/// client in nanoseconds.
fn round_trips(
    link: &Link<'_>,
    server: &UdpSocket,
    clients: &[UdpSocket],
    count: u32,
) -> anyhow::Result<Vec<Vec<u64>>> {
    let to = server.local_addr()?;
    let is_over = AtomicBool::new(false);
    let interval = ROUND_TRIP_INTERVAL.max(Duration::from_secs_f64(1.0 / link.small_per_s().max(1e-3)));
    // Each datagram contains its send time, because several are in flight.
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
        let receiver = |(at, client)| {
            let expected = (at as u32..count).step_by(clients.len()).count() as u32;
            scope.spawn(move || receive(client, expected))
        };
        let receivers: Vec<_> = clients.iter().enumerate().map(receiver).collect();
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

/// Sends `count` small datagrams, and receives until none has arrived for the longest delay. Returns the number that arrives.
fn count_arrivals(link: &Link<'_>, from: &UdpSocket, to: &UdpSocket, count: u32) -> anyhow::Result<u32> {
    let address = to.local_addr()?;
    let per_s = (f64::from(GROUP) / GROUP_INTERVAL.as_secs_f64()).min(link.small_per_s());
    let send = || -> io::Result<()> {
        let begun = Instant::now();
        for number in (0..count).take_while(|_| !link.stop.is_aborted()) {
            if number % GROUP == 0 {
                sleep_until(begun + Duration::from_secs_f64(f64::from(number) / per_s));
            }
            sent(from.send_to(&[0; SMALL_BYTES], address))?;
        }
        Ok(())
    };
    let is_sent = AtomicBool::new(false);
    let receive = || -> io::Result<u32> {
        let (mut datagram, mut count, mut silent) = ([0; LARGE_BYTES], 0, Instant::now());
        while !link.stop.is_aborted() {
            let is_sent = is_sent.load(Relaxed);
            let bytes = arrival(to.recv(&mut datagram))?;
            count += u32::from(bytes == Some(SMALL_BYTES));
            if bytes.is_some() || !is_sent {
                silent = Instant::now();
            } else if silent.elapsed() >= link.one_way_max() {
                break;
            }
        }
        Ok(count)
    };
    let arrived = thread::scope(|scope| {
        let receiver = scope.spawn(receive);
        let outcome = send();
        is_sent.store(true, Relaxed);
        let arrived = receiver.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        outcome.and(arrived).context("cannot measure the lab's network")
    })?;
    link.stop.check()?;
    Ok(arrived.min(count))
}

/// Sends faster than the bandwidth, and returns the bits per second that arrive after the burst of the token bucket. The kernel
/// counts the arriving bytes, so no process has to receive them.
fn bandwidth(
    link: &Link<'_>,
    (from, to): (&UdpSocket, SocketAddr),
    receiver: &TestbedHost,
    bandwidth: Bandwidth,
) -> anyhow::Result<f64> {
    let bits_per_s = bandwidth.0 as f64;
    let fits = bits_per_s / 8.0 * BANDWIDTH_TIME.as_secs_f64() / BANDWIDTH_DATAGRAMS_MIN;
    let size = (fits as usize).clamp(SMALL_BYTES, LARGE_BYTES);
    // At 1 Gbit/s a system call for each datagram would need a whole CPU.
    let batch = (bits_per_s * BATCH_TIME.as_secs_f64() / link.bits(size)).clamp(1.0, BATCH_MAX) as usize;
    if batch > 1 {
        set_segment_size(from, size).context("cannot send several datagrams by one system call")?;
    }
    let (all, bits) = (vec![0; size * batch], link.bits(size) * batch as f64);
    // The sender is twice as fast as the bucket fills, so the bucket is empty after this time.
    let burst = Duration::from_secs_f64(burst_bytes(link.network, bandwidth) as f64 * 8.0 / bits_per_s);
    let begins = Duration::from_nanos(link.network.delay.0 + link.network.jitter.0) + burst + BANDWIDTH_TIME / 5;
    let is_over = AtomicBool::new(false);
    let send = || {
        let begun = Instant::now();
        let mut count = 0.0;
        while !is_over.load(Relaxed) {
            // A sleep takes longer than a datagram, so send all due datagrams. A full send buffer blocks the sender.
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

/// The bytes that a host has received, including headers, and the time of this reading. The reading is the fastest of several.
fn received(host: &TestbedHost) -> io::Result<(u64, Instant)> {
    let mut fastest = (Duration::MAX, 0, Instant::now());
    for _ in 0..READINGS_MAX {
        let started = Instant::now();
        let bytes = interface::counter(&host.namespace, interface::RECEIVED_BYTES)?;
        let now = Instant::now();
        fastest = fastest.min((now - started, bytes, now));
        if fastest.0 <= READING_MAX {
            break;
        }
    }
    Ok((fastest.1, fastest.2))
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

/// The length of a datagram; `None` after a timeout.
fn arrival(received: io::Result<usize>) -> io::Result<Option<usize>> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    match received {
        Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => Ok(None),
        received => received.map(Some),
    }
}

/// Ignores the error of a full device queue, which drops a datagram.
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
    use wire::units::Time;

    use super::*;

    #[test]
    fn abort_does_not_wait_for_datagrams() {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(BUSY_DELAY / 2)).unwrap();
            socket
        };
        // The server's socket `nobody` accepts datagrams only from `there`, so no datagram returns. The delay is five minutes.
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
                let outcomes = [
                    round_trips(&link, &nobody, &here, 5).map(drop),
                    count_arrivals(&link, &nobody, &there, 0).map(drop),
                ];
                for outcome in outcomes {
                    assert_eq!(outcome.unwrap_err().to_string(), "stopped");
                }
                link.sleep(Duration::from_secs(300));
                assert!(started.elapsed() < Duration::from_secs(200));
            });
        }
    }
}
