//! Connections of those who are not known yet. Anybody may come, and say nothing.
//!
//! Places are few, and a newcomer always gets one: where there is none left, the oldest connection loses its own. An honest rank
//! needs its place for a round trip, and comes again if it lost it, while one that is silent keeps a place only as long as nobody
//! else wants it. The oldest one is that of the source with the most places, so many connections of one stranger end each other
//! and nobody else's.

use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use std::sync::Arc;

/// PendingHandshakes at a time...
const PLACES: usize = 256;
/// ...and of them, those of one source. Workers of one host come from one address: where more of them come at once, these are
/// greeted, and the others come again.
const PLACES_OF_SOURCE: usize = 64;

/// PendingHandshakes that go on.
#[derive(Default)]
pub(super) struct PendingHandshakes {
    /// In the order in which they came.
    placed: Vec<Placed>,
    /// Those whose thread has not ended, with a place or without.
    going_on: usize,
    next: u64,
}

struct Placed {
    number: u64,
    source: IpAddr,
    stream: Arc<TcpStream>,
}

impl PendingHandshakes {
    /// Whether another may begin. Those that have lost their places end at once; this is for a system that is slow with it.
    pub(super) fn has_room(&self) -> bool {
        self.going_on < 2 * PLACES
    }

    /// A greeting begins: its number.
    pub(super) fn begin(&mut self, peer: IpAddr, stream: Arc<TcpStream>) -> u64 {
        let source = source_of(peer);
        if self.count_of(source) >= PLACES_OF_SOURCE {
            self.take_place_of(source);
        } else if self.placed.len() >= PLACES {
            let most = self.placed.iter().map(|it| it.source).max_by_key(|source| self.count_of(*source));
            most.into_iter().for_each(|source| self.take_place_of(source));
        }
        let number = self.next;
        self.next += 1;
        self.going_on += 1;
        self.placed.push(Placed { number, source, stream });
        number
    }

    /// A greeting's thread has ended, or was never there.
    pub(super) fn end(&mut self, number: u64) {
        self.going_on -= 1;
        self.placed.retain(|it| it.number != number);
    }

    fn count_of(&self, source: IpAddr) -> usize {
        self.placed.iter().filter(|it| it.source == source).count()
    }

    /// Ends the oldest greeting of a source, whose thread finds its connection closed.
    fn take_place_of(&mut self, source: IpAddr) {
        if let Some(oldest) = self.placed.iter().position(|it| it.source == source) {
            let _ = self.placed.remove(oldest).stream.shutdown(Shutdown::Both);
        }
    }
}

/// Those who have one IPv6 address have the 2^64 beside it, too.
fn source_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::deadline_stream::tests::pair;

    fn greetings() -> (PendingHandshakes, impl FnMut(&mut PendingHandshakes, &str) -> TcpStream) {
        let begin = |greetings: &mut PendingHandshakes, peer: &str| {
            let (near, far) = pair();
            greetings.begin(peer.parse().unwrap(), Arc::new(near));
            far.set_nonblocking(true).unwrap();
            far
        };
        (PendingHandshakes::default(), begin)
    }

    fn is_ended(mut far: &TcpStream) -> bool {
        far.read(&mut [0]).is_ok_and(|bytes| bytes == 0)
    }

    #[test]
    fn strangers_of_one_source_end_each_other_alone() {
        let (mut greetings, mut begin) = greetings();
        let honest = begin(&mut greetings, "192.0.2.1");
        let strangers: Vec<TcpStream> = (0..PLACES + 1).map(|_| begin(&mut greetings, "::ffff:198.51.100.7")).collect();
        assert!(!is_ended(&honest));
        let ended = strangers.iter().filter(|it| is_ended(it)).count();
        assert_eq!(ended, PLACES + 1 - PLACES_OF_SOURCE, "the newest stay");
        assert!(!is_ended(strangers.last().unwrap()));
    }

    #[test]
    fn newcomer_takes_the_place_of_the_source_with_the_most() {
        let (mut greetings, mut begin) = greetings();
        let honest = begin(&mut greetings, "192.0.2.1");
        // As many of each as one may have, and at last one more.
        let strangers: Vec<TcpStream> =
            (0..PLACES).map(|at| begin(&mut greetings, &format!("2001:db8:0:{}::{at}", at % 8))).collect();
        let another = begin(&mut greetings, "192.0.2.2");
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
    fn ended_greeting_leaves_its_place() {
        let (mut greetings, mut begin) = greetings();
        let numbers = 0..2 * PLACES as u64;
        let all: Vec<TcpStream> = numbers.clone().map(|_| begin(&mut greetings, "192.0.2.1")).collect();
        assert!(!greetings.has_room());
        numbers.for_each(|number| greetings.end(number));
        assert!(greetings.has_room() && greetings.placed.is_empty());
        drop(all);
    }
}
