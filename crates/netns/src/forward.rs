//! Forwards packets between hosts, each after its delay, for kernels without netem.
//!
//! The relay reads a packet from the TUN device of a host, drops or delays it, and writes it to the device of its destination. The
//! delay starts at the read. A busy relay forwards packets late, and counts the lateness.
//!
//! The relay draws a delay for each flow, and a new one after twice the jitter. Packets of a flow keep their order, and packets
//! of one response mostly have the same delay. In contrast, netem draws a delay for each packet, and so reorders packets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Histogram;

use load::time::clock::monotonic_ns;

/// The size of a packet buffer, larger than the devices' MTU of 1500.
const BUFFER_BYTES: usize = 2_048;
/// The maximum number of packets to read from one device before the next device.
const READ_BUDGET: u32 = 64;
/// The maximum number of delayed packets, which occupy 200 MB. The relay drops further ones.
const HELD_MAX: usize = 100_000;
/// The number of flows with separate jitter. Flows with the same hash share their jitter.
const FLOWS: usize = 1 << 16;

/// The conditions of a network.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The delay of each packet, in nanoseconds.
    pub delay_ns: u64,
    /// The largest difference from the delay, in nanoseconds.
    pub jitter_ns: u64,
    /// The share of packets that are lost.
    pub loss: f64,
    /// The seed of jitter and loss.
    pub seed: u64,
}

/// The counters of a relay since they were last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RelayCounts {
    /// Packets for a host of the testbed.
    pub packets: u64,
    /// Packets dropped to simulate the configured loss.
    pub lost: u64,
    /// Packets dropped for another reason: a queue was full, or a host did not accept them.
    pub dropped: u64,
    /// The median forwarding delay beyond the planned time, in nanoseconds.
    pub late_p50_ns: u64,
    /// The 99th percentile of the forwarding delay beyond the planned time, in nanoseconds.
    pub late_p99_ns: u64,
}

/// Forwards packets between devices until `input` ends, and answers each line of `input`. The device of host N has the index N.
///
/// # Errors
/// When a device cannot be read.
pub fn forward(
    devices: &[OwnedFd],
    conditions: Conditions,
    input: BorrowedFd<'_>,
    answer: &mut dyn FnMut(RelayCounts),
) -> io::Result<()> {
    let mut relay = Relay {
        conditioner: Conditioner::new(conditions),
        held: BinaryHeap::new(),
        held_count: 0,
        buffers: Vec::new(),
        counts: RelayCounts::default(),
        late: Histogram::new(),
    };
    let mut lines = [0; 64];
    loop {
        let next_ns = relay.write_due(devices, monotonic_ns());
        let wait = |next_ns: u64| Duration::from_nanos(next_ns.saturating_sub(monotonic_ns()));
        let timeout = next_ns.and_then(|next_ns| Timespec::try_from(wait(next_ns)).ok());
        let mut watched: Vec<PollFd<'_>> = devices.iter().map(|it| PollFd::new(it, PollFlags::IN)).collect();
        watched.push(PollFd::from_borrowed_fd(input, PollFlags::IN));
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready: Vec<bool> = watched.iter().map(|it| !it.revents().is_empty()).collect();
        for (device, _) in devices.iter().zip(&is_ready).filter(|(_, is_ready)| **is_ready) {
            relay.read(device, devices)?;
        }
        if is_ready[devices.len()] {
            match rustix::io::read(input, &mut lines) {
                Ok(0) | Err(_) => return Ok(()),
                Ok(count) => {
                    for _ in lines[..count].iter().filter(|byte| **byte == b'\n') {
                        answer(relay.take_counts());
                    }
                }
            }
        }
    }
}

/// A delayed packet. Packets leave in the order of `due_ns`, then of arrival.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct HeldPacket {
    due_ns: u64,
    /// The number of packets delayed so far, including this one.
    number: u64,
    to: usize,
    length: usize,
    bytes: Vec<u8>,
}

struct Relay {
    conditioner: Conditioner,
    held: BinaryHeap<Reverse<HeldPacket>>,
    held_count: u64,
    /// Unused buffers.
    buffers: Vec<Vec<u8>>,
    counts: RelayCounts,
    late: Histogram,
}

impl Relay {
    /// Forwards all packets that are due. Returns the due time of the next packet.
    fn write_due(&mut self, devices: &[OwnedFd], now_ns: u64) -> Option<u64> {
        while self.held.peek().is_some_and(|Reverse(first)| first.due_ns <= now_ns) {
            let Some(Reverse(first)) = self.held.pop() else { break };
            self.write(devices, &first);
            self.buffers.push(first.bytes);
        }
        self.held.peek().map(|Reverse(first)| first.due_ns)
    }

    fn write(&mut self, devices: &[OwnedFd], packet: &HeldPacket) {
        match rustix::io::write(&devices[packet.to], &packet.bytes[..packet.length]) {
            Ok(_) => self.late.record(monotonic_ns().saturating_sub(packet.due_ns)),
            Err(_) => self.counts.dropped += 1,
        }
    }

    fn read(&mut self, device: &OwnedFd, devices: &[OwnedFd]) -> io::Result<()> {
        for _ in 0..READ_BUDGET {
            let mut bytes = self.buffers.pop().unwrap_or_else(|| vec![0; BUFFER_BYTES]);
            let length = match rustix::io::read(device, &mut bytes[..]) {
                Ok(length) => length,
                Err(Errno::AGAIN) => {
                    self.buffers.push(bytes);
                    return Ok(());
                }
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let (now_ns, packet) = (monotonic_ns(), &bytes[..length]);
            // Multicast packets of the kernel have no destination host.
            if let Some(to) = destination(packet).filter(|to| *to < devices.len()) {
                self.counts.packets += 1;
                match self.conditioner.due_ns(now_ns, packet) {
                    None => self.counts.lost += 1,
                    Some(_) if self.held.len() >= HELD_MAX => self.counts.dropped += 1,
                    Some(due_ns) => {
                        self.held_count += 1;
                        self.held.push(Reverse(HeldPacket { due_ns, number: self.held_count, to, length, bytes }));
                        // Forward a packet immediately if it has no delay and no other packet waits.
                        if due_ns <= now_ns && self.held.len() == 1 {
                            self.write_due(devices, now_ns);
                        }
                        continue;
                    }
                }
            }
            self.buffers.push(bytes);
        }
        Ok(())
    }

    /// The counts since the last call.
    fn take_counts(&mut self) -> RelayCounts {
        let late = std::mem::take(&mut self.late).distribution();
        let counts = std::mem::take(&mut self.counts);
        RelayCounts { late_p50_ns: late.p50_ns, late_p99_ns: late.p99_ns, ..counts }
    }
}

/// Returns the number of the host that a packet is for: `n` of the addresses 198.18.n.x and 2001:2:0:n::x, which are reserved for
/// benchmarks (RFC 2544, RFC 5180).
pub fn destination(packet: &[u8]) -> Option<usize> {
    match packet.first()? >> 4 {
        4 if packet.len() >= 20 && packet[16..18] == [198, 18] => Some(packet[18].into()),
        6 if packet.len() >= 40 && packet[24..30] == [0x20, 0x01, 0, 2, 0, 0] => {
            Some(u16::from_be_bytes([packet[30], packet[31]]).into())
        }
        _ => None,
    }
}

/// Draws the loss and the delay of packets, without a system call.
struct Conditioner {
    conditions: Conditions,
    random: Xoshiro256PlusPlus,
    flows: Vec<Flow>,
}

/// The packets of one connection in one direction.
#[derive(Clone, Copy, Default)]
struct Flow {
    delay_ns: u64,
    /// The time from which a new delay is drawn.
    until_ns: u64,
    last_ns: u64,
}

impl Conditioner {
    fn new(conditions: Conditions) -> Self {
        let flows = if conditions.jitter_ns > 0 { vec![Flow::default(); FLOWS] } else { Vec::new() };
        Self { conditions, random: Xoshiro256PlusPlus::seed_from_u64(conditions.seed), flows }
    }

    /// The due time of a packet that arrives now; `None` if the network loses it.
    fn due_ns(&mut self, now_ns: u64, packet: &[u8]) -> Option<u64> {
        let Conditions { delay_ns, jitter_ns, loss, .. } = self.conditions;
        if loss > 0.0 && self.random.random::<f64>() < loss {
            return None;
        }
        if jitter_ns == 0 {
            return Some(now_ns + delay_ns);
        }
        let flow = &mut self.flows[flow_hash(packet) as usize % FLOWS];
        if now_ns >= flow.until_ns {
            flow.delay_ns = delay_ns - jitter_ns + self.random.random_range(0..=2 * jitter_ns);
            flow.until_ns = now_ns + 2 * jitter_ns;
        }
        flow.last_ns = flow.last_ns.max(now_ns + flow.delay_ns);
        Some(flow.last_ns)
    }
}

/// The hash of a packet's flow: a connection in one direction.
fn flow_hash(packet: &[u8]) -> u64 {
    const TCP_AND_UDP: [u8; 2] = [6, 17];
    let bytes = |range: std::ops::Range<usize>| packet.get(range).unwrap_or_default();
    let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
    let (addresses, protocol, header) = match is_v6 {
        true => (bytes(8..40), bytes(6..7), 40),
        false => (bytes(12..20), bytes(9..10), usize::from(packet[0] & 15) * 4),
    };
    // Only the first fragment of a packet has ports, so ignore the ports of fragments.
    let is_fragment = !is_v6 && packet.len() >= 20 && (packet[6] & 0x3f, packet[7]) != (0, 0);
    let has_ports = !is_fragment && protocol.first().is_some_and(|protocol| TCP_AND_UDP.contains(protocol));
    let ports = if has_ports { bytes(header..header + 4) } else { &[] };
    let mut hasher = DefaultHasher::new();
    (addresses, protocol, ports).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet from a port of client `number` to the server.
    fn packet(number: u8, port: u8) -> Vec<u8> {
        let mut packet = vec![0; 28];
        (packet[0], packet[9]) = (0x45, 17);
        packet[12..16].copy_from_slice(&[198, 18, number, 1]);
        packet[16..20].copy_from_slice(&[198, 18, 0, 1]);
        packet[21] = port;
        packet
    }

    fn conditioner(delay_ns: u64, jitter_ns: u64, loss: f64) -> Conditioner {
        Conditioner::new(Conditions { delay_ns, jitter_ns, loss, seed: 1 })
    }

    #[test]
    fn destination_is_the_number_of_the_host() {
        assert_eq!(destination(&packet(7, 1)), Some(0));
        let mut back = packet(7, 1);
        back[16..20].copy_from_slice(&[198, 18, 7, 200]);
        assert_eq!(destination(&back), Some(7));
        let mut v6 = vec![0; 40];
        v6[0] = 0x60;
        v6[24..40].copy_from_slice(&"2001:2:0:9::3".parse::<std::net::Ipv6Addr>().unwrap().octets());
        assert_eq!(destination(&v6), Some(9));
        v6[24] = 0xff;
        assert_eq!(destination(&v6), None, "neighbour discovery has no destination host");
        assert_eq!((destination(&[]), destination(&[0x45; 19])), (None, None));
    }

    #[test]
    fn flow_hash_uses_ports_except_in_fragments() {
        assert_eq!(flow_hash(&packet(1, 1)), flow_hash(&packet(1, 1)));
        assert_ne!(flow_hash(&packet(1, 1)), flow_hash(&packet(1, 2)));
        assert_ne!(flow_hash(&packet(1, 1)), flow_hash(&packet(2, 1)));
        let fragment = |port, offset| {
            let mut packet = packet(1, port);
            (packet[6], packet[7]) = (0x20, offset);
            packet
        };
        assert_eq!(flow_hash(&fragment(1, 0)), flow_hash(&fragment(2, 9)));
    }

    #[test]
    fn without_jitter_all_delays_are_equal() {
        let mut conditioner = conditioner(10_000, 0, 0.0);
        assert!((0..100).all(|now_ns| conditioner.due_ns(now_ns, &packet(1, 1)) == Some(now_ns + 10_000)));
    }

    #[test]
    fn jitter_is_uniform_and_keeps_the_order() {
        let (mut conditioner, packet) = (conditioner(10_000, 4_000, 0.0), packet(1, 1));
        // Bursts of eight packets, like a long response, with pauses.
        let mut last_ns = 0;
        let mut lasts = Vec::new();
        for burst in 0..2_000_u64 {
            let begins_ns = burst * 50_000;
            for number in 0..8 {
                let now_ns = begins_ns + number * 10;
                let due_ns = conditioner.due_ns(now_ns, &packet).unwrap();
                assert!((now_ns + 6_000..=now_ns + 14_000).contains(&due_ns) && due_ns >= last_ns);
                last_ns = due_ns;
                lasts.extend((number == 7).then_some((due_ns - now_ns) as f64));
            }
        }
        let mean = lasts.iter().sum::<f64>() / lasts.len() as f64;
        assert!((9_700.0..10_300.0).contains(&mean), "the last packets of bursts have the mean delay: {mean}");
        let early = lasts.iter().filter(|ns| **ns < 8_000.0).count() as f64 / lasts.len() as f64;
        assert!((0.2..0.3).contains(&early), "jitter is uniformly distributed: {early}");
        // Without pauses the mean is also close to the delay.
        let dense: Vec<u64> = (0..100_000_u64)
            .map(|number| {
                let now_ns = 1_000_000_000 + number * 100;
                conditioner.due_ns(now_ns, &packet).unwrap() - now_ns
            })
            .collect();
        let mean = dense.iter().sum::<u64>() as f64 / dense.len() as f64;
        assert!((9_000.0..11_500.0).contains(&mean), "{mean}");
    }

    #[test]
    fn loss_has_the_requested_share() {
        let mut conditioner = conditioner(0, 0, 0.05);
        let lost = (0..100_000).filter(|_| conditioner.due_ns(0, &packet(1, 1)).is_none()).count();
        // Five standard deviations.
        assert!((4_655..=5_345).contains(&lost), "{lost}");
    }

    #[test]
    fn packets_leave_by_due_time_then_arrival() {
        let held = |due_ns, number| Reverse(HeldPacket { due_ns, number, to: 0, length: 0, bytes: Vec::new() });
        let mut heap = BinaryHeap::from([held(5, 1), held(3, 2), held(3, 3), held(4, 4)]);
        let order: Vec<u64> = std::iter::from_fn(|| heap.pop()).map(|Reverse(held)| held.number).collect();
        assert_eq!(order, [2, 3, 4, 1]);
    }
}
