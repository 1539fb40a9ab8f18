//! Takes packets from host to host, each after the time that it is to be on its way: for kernels without netem.
//!
//! Every host has a TUN device, whose other end is here. A packet is read, perhaps lost, held, and written to the device of
//! the host that its destination names. Time runs from when it is read, so that what this process is late by is on top; the
//! measurement before each trial has that, and an account after it says by how much.
//!
//! Jitter is drawn for each flow, and anew once twice its size has passed, so that the packets of a flow keep their order and
//! of a response that is many packets all are late by the same; netem, in comparison, draws for each packet and reorders.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, bail};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::CpuSet;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};
use stats::Histogram;

use super::namespace::Namespace;
use crate::model::network::RelayCounts;

/// More than any packet of a device whose MTU is 1500.
const BUFFER_BYTES: usize = 2_048;
/// Packets that are read from one device before the others have their turn.
const READ_BUDGET: u32 = 64;
/// Packets that are held at most, 200 MiB of them; what is beyond is dropped, and counted.
const HELD_MAX: usize = 100_000;
/// Flows whose jitter is told apart; those that fall together share it.
const FLOWS: usize = 1 << 16;

/// What it is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RelayConfig {
    /// Paths of the hosts' namespaces, by their number.
    pub hosts: Vec<String>,
    /// What their devices are called.
    pub device: String,
    /// What happens to packets.
    pub conditions: Conditions,
    /// CPUs it may run on; empty leaves that to the kernel.
    pub cpus: Vec<usize>,
}

/// What happens to packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// How long each is held, in nanoseconds.
    pub delay_ns: u64,
    /// How much less or more that may be, in nanoseconds.
    pub jitter_ns: u64,
    /// The share that is lost.
    pub loss: f64,
    /// Seed of both.
    pub seed: u64,
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum RelayEvent {
    /// The devices are there.
    Ready,
    /// What it has done since it was last asked.
    Account {
        /// It.
        account: RelayCounts,
    },
    /// It cannot go on.
    Failed {
        /// Cause, place, remedy.
        reason: String,
    },
}

/// Makes a TUN device in a host, whose other end is here. It is there as long as this end.
///
/// # Errors
/// As open(2) and ioctl(2) have them.
pub(crate) fn open(host: &Namespace, device: &str) -> io::Result<OwnedFd> {
    host.within(|| {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let tun = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
        // SAFETY: a request of zeros is a valid one.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays 0, which ends the name.
        for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(device.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: `request` is what TUNSETIFF takes, and lives across the call.
        match unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
            0 => Ok(tun),
            _ => Err(io::Error::last_os_error()),
        }
    })?
}

/// Takes packets until `input` ends. Each line that comes there is answered with an account.
///
/// # Errors
/// When the devices cannot be made, or one fails.
pub fn run(order: &RelayConfig, input: BorrowedFd<'_>, say: &mut dyn FnMut(RelayEvent)) -> anyhow::Result<()> {
    run_first(&order.cpus)?;
    let mut devices = Vec::new();
    for path in &order.hosts {
        let host = Namespace::from(File::open(path).with_context(|| format!("the host {path}"))?);
        devices.push(open(&host, &order.device).context("a TUN device")?);
    }
    say(RelayEvent::Ready);
    let mut relay = Relay::new(order.conditions);
    let mut said = [0; 64];
    loop {
        let next_ns = relay.write_due(&devices, now_ns());
        let timeout = next_ns.map(|next_ns| timespec(next_ns.saturating_sub(now_ns())));
        let mut watched: Vec<PollFd<'_>> = devices.iter().map(|it| PollFd::new(it, PollFlags::IN)).collect();
        watched.push(PollFd::from_borrowed_fd(input, PollFlags::IN));
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("poll"),
        }
        let is_ready: Vec<bool> = watched.iter().map(|it| !it.revents().is_empty()).collect();
        for (device, _) in devices.iter().zip(&is_ready).filter(|(_, is_ready)| **is_ready) {
            relay.read(device, &devices)?;
        }
        if is_ready[devices.len()] {
            match rustix::io::read(input, &mut said) {
                Ok(0) | Err(_) => return Ok(()),
                Ok(count) => {
                    for _ in said[..count].iter().filter(|byte| **byte == b'\n') {
                        say(RelayEvent::Account { account: relay.take_counts() });
                    }
                }
            }
        }
    }
}

/// Keeps this process on `cpus`, and lets it go before all that measure or are measured: it sleeps most of the time, and a
/// packet that is late because others had the CPU would be theirs.
fn run_first(cpus: &[usize]) -> anyhow::Result<()> {
    if !cpus.is_empty() {
        let mut set = CpuSet::new();
        cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
        rustix::thread::sched_setaffinity(None, &set).with_context(|| format!("cannot run on CPUs {cpus:?}"))?;
    }
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: of the calling process; `parameters` lives across the call. Where it is not permitted it takes its turn, and
    // what that does is measured.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    Ok(())
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// A packet on its way.
struct Held {
    due_ns: u64,
    /// Tells packets apart that are due at once: the first to come is the first to go.
    number: u64,
    to: usize,
    length: usize,
    bytes: Vec<u8>,
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}

/// All that is on its way.
struct Relay {
    line: Line,
    held: BinaryHeap<Reverse<Held>>,
    taken: u64,
    /// Buffers of packets that have gone.
    buffers: Vec<Vec<u8>>,
    account: RelayCounts,
    late: Histogram,
}

impl Relay {
    fn new(conditions: Conditions) -> Self {
        let (held, buffers) = (BinaryHeap::new(), Vec::new());
        Self {
            line: Line::new(conditions),
            held,
            taken: 0,
            buffers,
            account: RelayCounts::default(),
            late: Histogram::new(),
        }
    }

    /// Writes what is due, and says when the next packet is.
    fn write_due(&mut self, devices: &[OwnedFd], now_ns: u64) -> Option<u64> {
        while self.held.peek().is_some_and(|Reverse(first)| first.due_ns <= now_ns) {
            let Some(Reverse(first)) = self.held.pop() else { break };
            self.write(devices, &first);
            self.buffers.push(first.bytes);
        }
        self.held.peek().map(|Reverse(first)| first.due_ns)
    }

    fn write(&mut self, devices: &[OwnedFd], packet: &Held) {
        match rustix::io::write(&devices[packet.to], &packet.bytes[..packet.length]) {
            Ok(_) => self.late.record(now_ns().saturating_sub(packet.due_ns)),
            Err(_) => self.account.dropped += 1,
        }
    }

    /// Reads what a host sends.
    fn read(&mut self, device: &OwnedFd, devices: &[OwnedFd]) -> anyhow::Result<()> {
        for _ in 0..READ_BUDGET {
            let mut bytes = self.buffers.pop().unwrap_or_else(|| vec![0; BUFFER_BYTES]);
            let length = match rustix::io::read(device, &mut bytes[..]) {
                Ok(length) => length,
                Err(Errno::AGAIN) => {
                    self.buffers.push(bytes);
                    return Ok(());
                }
                Err(Errno::INTR) => continue,
                Err(error) => bail!("a TUN device: {error}"),
            };
            let now_ns = now_ns();
            // Others are the kernel's own, for all hosts of a link.
            let to = destination(&bytes[..length]).filter(|to| *to < devices.len());
            let due_ns = to.and_then(|_| {
                self.account.packets += 1;
                self.line.due_ns(now_ns, &bytes[..length])
            });
            match (to, due_ns) {
                (Some(to), Some(due_ns)) if self.held.len() < HELD_MAX => {
                    self.taken += 1;
                    let packet = Held { due_ns, number: self.taken, to, length, bytes };
                    if due_ns <= now_ns && self.held.is_empty() {
                        self.write(devices, &packet);
                        self.buffers.push(packet.bytes);
                    } else {
                        self.held.push(Reverse(packet));
                    }
                    continue;
                }
                (Some(_), Some(_)) => self.account.dropped += 1,
                (Some(_), None) => self.account.lost += 1,
                (None, _) => {}
            }
            self.buffers.push(bytes);
        }
        Ok(())
    }

    /// What was done since the last account.
    fn take_counts(&mut self) -> RelayCounts {
        let late = std::mem::replace(&mut self.late, Histogram::new());
        let mut account = std::mem::take(&mut self.account);
        if late.count() > 0 {
            let late = late.distribution();
            (account.late_p50_ns, account.late_p99_ns) = (late.p50_ns, late.p99_ns);
        }
        account
    }
}

/// What happens to packets, without a system call.
struct Line {
    conditions: Conditions,
    random: Xoshiro256PlusPlus,
    flows: Vec<Flow>,
}

/// Packets of one connection, one way.
#[derive(Clone, Copy, Default)]
struct Flow {
    delay_ns: u64,
    /// Until then its delay stays.
    until_ns: u64,
    /// When the last of its packets was due.
    last_ns: u64,
}

impl Line {
    fn new(conditions: Conditions) -> Self {
        let flows = if conditions.jitter_ns > 0 { vec![Flow::default(); FLOWS] } else { Vec::new() };
        Self { conditions, random: Xoshiro256PlusPlus::seed_from_u64(conditions.seed), flows }
    }

    /// When a packet that comes now is due; `None` if it is lost.
    fn due_ns(&mut self, now_ns: u64, packet: &[u8]) -> Option<u64> {
        let Conditions { delay_ns, jitter_ns, loss, .. } = self.conditions;
        if loss > 0.0 && self.random.random::<f64>() < loss {
            return None;
        }
        if jitter_ns == 0 {
            return Some(now_ns + delay_ns);
        }
        let flow = &mut self.flows[flow_of(packet) as usize % FLOWS];
        if now_ns >= flow.until_ns {
            flow.delay_ns = delay_ns - jitter_ns + self.random.random_range(0..=2 * jitter_ns);
            flow.until_ns = now_ns + 2 * jitter_ns;
        }
        flow.last_ns = flow.last_ns.max(now_ns + flow.delay_ns);
        Some(flow.last_ns)
    }
}

/// The number of the host that a packet is for.
fn destination(packet: &[u8]) -> Option<usize> {
    match packet.first()? >> 4 {
        4 if packet.len() >= 20 && packet[16..18] == [198, 18] => Some(packet[18].into()),
        6 if packet.len() >= 40 && packet[24..30] == [0x20, 0x01, 0, 2, 0, 0] => {
            Some(u16::from_be_bytes([packet[30], packet[31]]).into())
        }
        _ => None,
    }
}

/// A number that all packets of a connection share, one way.
fn flow_of(packet: &[u8]) -> u64 {
    const TCP_AND_UDP: [u8; 2] = [6, 17];
    let of = |range: std::ops::Range<usize>| packet.get(range).unwrap_or_default();
    let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
    let (addresses, protocol, header) = match is_v6 {
        true => (of(8..40), of(6..7), 40),
        false => (of(12..20), of(9..10), usize::from(packet[0] & 15) * 4),
    };
    // Of a packet in fragments only the first has ports.
    let is_part = !is_v6 && packet.len() >= 20 && (packet[6] & 0x3f, packet[7]) != (0, 0);
    let has_ports = !is_part && protocol.first().is_some_and(|protocol| TCP_AND_UDP.contains(protocol));
    let ports = if has_ports { of(header..header + 4) } else { &[] };
    // FNV-1a (Fowler, Noll and Vo), then its upper half, which mixes best.
    let hash =
        addresses.iter().chain(protocol).chain(ports).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of UDP, from a port of client `number` to the server.
    fn packet(number: u8, port: u8) -> Vec<u8> {
        let mut packet = vec![0; 28];
        (packet[0], packet[9]) = (0x45, 17);
        packet[12..16].copy_from_slice(&[198, 18, number, 1]);
        packet[16..20].copy_from_slice(&[198, 18, 0, 1]);
        packet[21] = port;
        packet
    }

    fn line(delay_ns: u64, jitter_ns: u64, loss: f64) -> Line {
        Line::new(Conditions { delay_ns, jitter_ns, loss, seed: 1 })
    }

    #[test]
    fn packets_go_where_they_are_sent() {
        assert_eq!(destination(&packet(7, 1)), Some(0));
        let mut back = packet(7, 1);
        back[16..20].copy_from_slice(&[198, 18, 7, 200]);
        assert_eq!(destination(&back), Some(7));
        let mut v6 = vec![0; 40];
        v6[0] = 0x60;
        let std::net::IpAddr::V6(to) = super::super::addresses::address(9, true, 3) else { panic!("it is of IPv6") };
        v6[24..40].copy_from_slice(&to.octets());
        assert_eq!(destination(&v6), Some(9));
        v6[24] = 0xff;
        assert_eq!(destination(&v6), None, "a neighbour is looked for");
        assert_eq!((destination(&[]), destination(&[0x45; 19])), (None, None));
    }

    #[test]
    fn flows_are_told_apart_by_their_ports_unless_in_fragments() {
        assert_eq!(flow_of(&packet(1, 1)), flow_of(&packet(1, 1)));
        assert_ne!(flow_of(&packet(1, 1)), flow_of(&packet(1, 2)));
        assert_ne!(flow_of(&packet(1, 1)), flow_of(&packet(2, 1)));
        let part = |port, offset| {
            let mut packet = packet(1, port);
            (packet[6], packet[7]) = (0x20, offset);
            packet
        };
        assert_eq!(flow_of(&part(1, 0)), flow_of(&part(2, 9)));
    }

    #[test]
    fn without_jitter_all_are_held_alike() {
        let mut line = line(10_000, 0, 0.0);
        assert!((0..100).all(|now_ns| line.due_ns(now_ns, &packet(1, 1)) == Some(now_ns + 10_000)));
    }

    #[test]
    fn jitter_is_on_both_sides_and_never_overtakes() {
        let (mut line, packet) = (line(10_000, 4_000, 0.0), packet(1, 1));
        // Bursts of eight, as of a long response, and some time between them.
        let mut last_ns = 0;
        let mut firsts = Vec::new();
        for burst in 0..2_000_u64 {
            let begins_ns = burst * 50_000;
            for number in 0..8 {
                let now_ns = begins_ns + number * 10;
                let due_ns = line.due_ns(now_ns, &packet).unwrap();
                assert!((now_ns + 6_000..=now_ns + 14_000).contains(&due_ns) && due_ns >= last_ns);
                last_ns = due_ns;
                firsts.extend((number == 7).then_some((due_ns - now_ns) as f64));
            }
        }
        let mean = firsts.iter().sum::<f64>() / firsts.len() as f64;
        assert!((9_700.0..10_300.0).contains(&mean), "the last one of each is late by no more than the first: {mean}");
        let early = firsts.iter().filter(|ns| **ns < 8_000.0).count() as f64 / firsts.len() as f64;
        assert!((0.2..0.3).contains(&early), "an even law: {early}");
        // Without a pause, too, they are neither early nor late on the whole.
        let dense: Vec<u64> = (0..100_000_u64)
            .map(|number| {
                let now_ns = 1_000_000_000 + number * 100;
                line.due_ns(now_ns, &packet).unwrap() - now_ns
            })
            .collect();
        let mean = dense.iter().sum::<u64>() as f64 / dense.len() as f64;
        assert!((9_000.0..11_500.0).contains(&mean), "{mean}");
    }

    #[test]
    fn as_many_are_lost_as_was_asked() {
        let mut line = line(0, 0, 0.05);
        let lost = (0..100_000).filter(|_| line.due_ns(0, &packet(1, 1)).is_none()).count();
        // Five standard deviations.
        assert!((4_655..=5_345).contains(&lost), "{lost}");
    }

    #[test]
    fn the_first_that_is_due_goes_first() {
        let held = |due_ns, number| Reverse(Held { due_ns, number, to: 0, length: 0, bytes: Vec::new() });
        let mut heap = BinaryHeap::from([held(5, 1), held(3, 2), held(3, 3), held(4, 4)]);
        let order: Vec<u64> = std::iter::from_fn(|| heap.pop()).map(|Reverse(held)| held.number).collect();
        assert_eq!(order, [2, 3, 4, 1]);
    }
}
