//! Handshakes in progress. Some may be with strangers that connect and remain silent.
//!
//! A new connection always gets a slot. If its source is at its limit, the source's oldest connection loses its slot.
//! Otherwise, if no slot is free, the busiest source's oldest connection loses its slot. An honest worker needs its slot for
//! one round trip, and connects again if it loses the slot. A stranger's connections mostly displace each other.

use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use std::sync::Arc;

/// The number of slots, and the limit for one source. Workers of one host are one source; those without a slot retry.
const SLOTS: usize = 256;
const SLOTS_PER_SOURCE: usize = 64;

#[derive(Default)]
pub(super) struct PendingHandshakes {
    /// In the order of arrival.
    slots: Vec<Slot>,
    /// The number of running threads, with or without a slot.
    threads: usize,
    next: u64,
}

struct Slot {
    number: u64,
    source: IpAddr,
    stream: Arc<TcpStream>,
}

impl PendingHandshakes {
    /// Whether another handshake may begin. The limit also counts threads whose handshake lost its slot but has not ended yet.
    pub(super) fn has_room(&self) -> bool {
        self.threads < 2 * SLOTS
    }

    /// Registers a handshake and returns its number.
    pub(super) fn begin(&mut self, peer: IpAddr, stream: Arc<TcpStream>) -> u64 {
        let source = source_of(peer);
        if self.count(source) >= SLOTS_PER_SOURCE {
            self.evict_oldest(source);
        } else if self.slots.len() >= SLOTS {
            let busiest = self.slots.iter().map(|it| it.source).max_by_key(|source| self.count(*source));
            busiest.into_iter().for_each(|source| self.evict_oldest(source));
        }
        let number = self.next;
        self.next += 1;
        self.threads += 1;
        self.slots.push(Slot { number, source, stream });
        number
    }

    /// Removes a handshake whose thread has ended or could not start.
    pub(super) fn end(&mut self, number: u64) {
        self.threads -= 1;
        self.slots.retain(|it| it.number != number);
    }

    fn count(&self, source: IpAddr) -> usize {
        self.slots.iter().filter(|it| it.source == source).count()
    }

    /// Ends the oldest handshake of a source by closing its connection.
    fn evict_oldest(&mut self, source: IpAddr) {
        if let Some(oldest) = self.slots.iter().position(|it| it.source == source) {
            let _ = self.slots.remove(oldest).stream.shutdown(Shutdown::Both);
        }
    }
}

/// The source of a connection: its IPv4 address, or the /64 of its IPv6 address, which one owner controls.
fn source_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use testkit::pair;

    use super::*;

    fn handshakes() -> (PendingHandshakes, impl FnMut(&mut PendingHandshakes, &str) -> TcpStream) {
        let begin = |handshakes: &mut PendingHandshakes, peer: &str| {
            let (near, far) = pair();
            handshakes.begin(peer.parse().unwrap(), Arc::new(near));
            far.set_nonblocking(true).unwrap();
            far
        };
        (PendingHandshakes::default(), begin)
    }

    fn is_ended(mut far: &TcpStream) -> bool {
        far.read(&mut [0]).is_ok_and(|bytes| bytes == 0)
    }

    #[test]
    fn strangers_of_one_source_evict_only_each_other() {
        let (mut handshakes, mut begin) = handshakes();
        let honest = begin(&mut handshakes, "192.0.2.1");
        let strangers: Vec<TcpStream> = (0..SLOTS + 1).map(|_| begin(&mut handshakes, "::ffff:198.51.100.7")).collect();
        assert!(!is_ended(&honest));
        let ended = strangers.iter().filter(|it| is_ended(it)).count();
        assert_eq!(ended, SLOTS + 1 - SLOTS_PER_SOURCE, "the newest connections remain");
        assert!(!is_ended(strangers.last().unwrap()));
    }

    #[test]
    fn newcomer_takes_a_slot_of_the_busiest_source() {
        let (mut handshakes, mut begin) = handshakes();
        let honest = begin(&mut handshakes, "192.0.2.1");
        // Eight sources with 32 connections each.
        let strangers: Vec<TcpStream> =
            (0..SLOTS).map(|at| begin(&mut handshakes, &format!("2001:db8:0:{}::{at}", at % 8))).collect();
        let another = begin(&mut handshakes, "192.0.2.2");
        assert!(!is_ended(&honest) && !is_ended(&another));
        assert_eq!(strangers.iter().filter(|it| is_ended(it)).count(), 2);
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_source() {
        let source = |text: &str| source_of(text.parse().unwrap());
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1:2:3"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    }

    #[test]
    fn ended_handshake_frees_its_slot() {
        let (mut handshakes, mut begin) = handshakes();
        let numbers = 0..2 * SLOTS as u64;
        let all: Vec<TcpStream> = numbers.clone().map(|_| begin(&mut handshakes, "192.0.2.1")).collect();
        assert!(!handshakes.has_room());
        numbers.for_each(|number| handshakes.end(number));
        assert!(handshakes.has_room() && handshakes.slots.is_empty());
        drop(all);
    }
}
