//! The state that both roles share without a lock, in memory reserved before the ramp. The send role adds a record to its
//! connection's chain before it writes the request. So the receive role finds the record there when the response arrives.

use rustix::io::Errno;

use crate::config::LoadConfig;
use crate::protocol::ClientProtocol;
use crate::record::progress::Progress;
use crate::result::Class;
use crate::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::*};
use crate::time::clock::Clock;
use crate::time::schedule;

/// No record: indices are stored plus one.
const NONE: u32 = 0;

/// The completion of a request that the service rejected. A rejection has no service time, but the request is not outstanding. A
/// trial that counts goodput treats every wrong response like this.
pub const REJECTED: u64 = u64::MAX;

/// A planned request. Times are in ticks; 0 means that the event did not happen.
#[derive(Debug)]
pub struct Record {
    pub planned: u64,
    pub sent: AtomicU64,
    /// The time of the response, or [`REJECTED`].
    pub complete: AtomicU64,
    connection: AtomicU32,
    next: AtomicU32,
}

impl Record {
    pub fn new(planned: u64, connection: u32) -> Self {
        let (sent, complete) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { planned, sent, complete, connection: AtomicU32::new(connection), next: AtomicU32::new(NONE) }
    }

    /// The connection, as an index of the client's connections.
    #[inline]
    pub fn connection(&self) -> u32 {
        self.connection.load(Relaxed)
    }

    /// Sets the connection of a request that has none until one is free.
    #[inline]
    pub fn set_connection(&self, connection: u32) {
        self.connection.store(connection, Relaxed);
    }

    /// Returns the requests of a client's schedule, in ticks after the start of the ramp.
    pub fn planned(config: &LoadConfig, clock: &Clock, connections: u32, client: u32) -> impl Iterator<Item = Self> {
        let planned = schedule::planned(config, connections, client);
        planned.map(|planned| Self::new(clock.ticks(planned.at_ns), planned.connection))
    }

    /// Returns the index of the connection's next request, if it exists yet.
    #[inline]
    pub fn next(&self) -> Option<usize> {
        (self.next.load(Acquire) as usize).checked_sub(1)
    }
}

pub struct Shared<'a, P: ClientProtocol> {
    pub clock: Clock,
    pub protocol: &'a P,
    /// The request number of the first record ([`ClientProtocol::request`]).
    pub first: u64,
    pub records: &'a [Record],
    /// The requests of the last records, which are for retries.
    pub retries: &'a [Retry],
    /// The request number of each record, if a trace selects it; otherwise empty.
    pub numbers: &'a [u32],
    pub links: &'a [Link],
    /// The time in ticks from the first part of each record's response to the complete one, as the bits of an `f32`: 0 if one
    /// read had all. Empty for protocols that do not report the first byte.
    pub transfers: &'a [AtomicU32],
    pub progress: &'a Progress,
}

impl<P: ClientProtocol> Shared<'_, P> {
    #[inline]
    pub fn request(&self, record: usize) -> P::Request {
        let record = self.planned_of(record);
        let number = self.numbers.get(record).map_or(self.first + record as u64, |&number| number.into());
        self.protocol.request(number)
    }

    /// The number of planned requests.
    #[inline]
    pub fn planned(&self) -> usize {
        self.records.len() - self.retries.len()
    }

    /// Returns the planned request of a record.
    #[inline]
    fn planned_of(&self, record: usize) -> usize {
        let retry = record.checked_sub(self.planned()).and_then(|at| self.retries.get(at));
        retry.map_or(record, |retry| retry.request.load(Relaxed) as usize)
    }
}

impl<P: ClientProtocol> Clone for Shared<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: ClientProtocol> Copy for Shared<'_, P> {}

/// The request of a record that is for a retry. The send role sets it before it adds the record to a chain.
#[derive(Debug, Default)]
pub struct Retry {
    /// The record of the planned request.
    pub request: AtomicU32,
    /// The connection, as an index of the client's connections.
    pub connection: AtomicU32,
    /// The number of retries of this request so far, with this one.
    pub number: AtomicU32,
}

/// The kernel's timestamps of one request, in nanoseconds; 0 if missing. The last two use the interface's own clock.
#[derive(Debug, Default)]
pub struct Stamp {
    pub scheduler: AtomicU64,
    /// The driver got the request: t2k.
    pub driver: AtomicU64,
    /// The kernel got the response's last packet: t3k.
    pub arrived: AtomicU64,
    pub hardware_sent: AtomicU64,
    pub hardware_arrived: AtomicU64,
}

/// The state of a connection.
#[derive(Debug, Default)]
pub struct Link {
    /// The index of the connection's first request plus one.
    first: AtomicU32,
    /// [`WORKING`], [`RECONNECTING`], [`BROKEN`], or the number of its [`Class`] of failure.
    state: AtomicU8,
}

const WORKING: u8 = 0;
/// The server closed the connection, and the receive role opens another.
const RECONNECTING: u8 = u8::MAX - 1;
/// A write to the link failed; the receive role may find the reason.
const BROKEN: u8 = u8::MAX;

impl Link {
    #[inline]
    pub fn is_working(&self) -> bool {
        self.state.load(Relaxed) == WORKING
    }

    #[inline]
    pub fn is_reconnecting(&self) -> bool {
        self.state.load(Relaxed) == RECONNECTING
    }

    #[inline]
    pub fn is_dead(&self) -> bool {
        !matches!(self.state.load(Relaxed), WORKING | RECONNECTING)
    }

    /// Marks the connection as one that the server closed. Returns `false` if it has failed.
    pub fn begin_reconnect(&self) -> bool {
        self.change(|state| matches!(state, WORKING | BROKEN), RECONNECTING)
    }

    /// Marks the connection as working again. Returns `false` if it has failed meanwhile.
    pub fn end_reconnect(&self) -> bool {
        self.change(|state| state == RECONNECTING, WORKING)
    }

    /// Marks the connection as failed. The first reason stays.
    pub fn fail(&self, class: Class) {
        self.change(|state| matches!(state, WORKING | RECONNECTING | BROKEN), class as u8);
    }

    /// Marks the connection as failed after a write. The receive role may find the actual reason in unread bytes.
    #[cold]
    pub fn fail_to_send(&self, error: Errno) {
        let state = match error {
            Errno::CONNRESET | Errno::PIPE => BROKEN,
            error => Class::from(error) as u8,
        };
        // During a reconnect, the failed write concerned the old socket.
        self.change(|state| state == WORKING, state);
    }

    /// Whether a write failed and no reason is known yet. The system may report the reset only to the write.
    pub fn is_broken(&self) -> bool {
        self.state.load(Relaxed) == BROKEN
    }

    pub fn failure(&self) -> Option<Class> {
        match self.state.load(Relaxed) {
            BROKEN => Some(Class::Reset),
            RECONNECTING => None,
            failure => Class::ALL.get(usize::from(failure).checked_sub(1)?).copied(),
        }
    }

    /// Changes the state if `may` allows it. Returns whether it did.
    fn change(&self, may: impl Fn(u8) -> bool, state: u8) -> bool {
        self.state.fetch_update(Relaxed, Relaxed, |old| may(old).then_some(state)).is_ok()
    }
}

/// The end of a connection's chain where the send role adds requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tail(u32);

impl Tail {
    /// Adds a record. The role that takes the record also sees all writes before this call.
    #[inline]
    pub fn push(&mut self, link: &Link, records: &[Record], index: usize) {
        let id = index as u32 + 1;
        match self.0 {
            NONE => link.first.store(id, Release),
            last => records[last as usize - 1].next.store(id, Release),
        }
        self.0 = id;
    }

    /// Whether the last record is answered or lost.
    #[inline]
    pub fn is_settled(self, records: &[Record]) -> bool {
        self.0 == NONE || records[self.0 as usize - 1].complete.load(Relaxed) != 0
    }
}

/// The end of a connection's chain where the receive role takes requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Head(u32);

impl Head {
    #[inline]
    pub fn take(&mut self, link: &Link, records: &[Record]) -> Option<usize> {
        let index = self.peek(link, records)?;
        self.pass(index);
        Some(index)
    }

    #[inline]
    pub fn peek(&self, link: &Link, records: &[Record]) -> Option<usize> {
        match self.0 {
            NONE => (link.first.load(Acquire) as usize).checked_sub(1),
            taken => records[taken as usize - 1].next(),
        }
    }

    /// Takes the request that [`Head::peek`] returned.
    #[inline]
    pub fn pass(&mut self, index: usize) {
        self.0 = index as u32 + 1;
    }
}

#[cfg(all(test, loom))]
mod interleavings {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// The receive role finds the requests in the order sent, each with its send time.
    #[test]
    fn found_request_has_its_send_time() {
        loom::model(|| {
            let shared = Arc::new((Link::default(), [0, 1].map(|at| Record::new(at, 0))));
            let sender = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let ((link, records), mut tail) = (&*shared, Tail::default());
                    for (index, record) in records.iter().enumerate() {
                        record.sent.store(index as u64 + 10, Relaxed);
                        tail.push(link, records, index);
                    }
                })
            };
            let ((link, records), mut head) = (&*shared, Head::default());
            for index in 0..records.len() {
                let found = loop {
                    match head.take(link, records) {
                        Some(found) => break found,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!((found, records[found].sent.load(Relaxed)), (index, index as u64 + 10));
            }
            sender.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn first_failure_stays() {
        let link = Link::default();
        assert_eq!((link.is_dead(), link.failure()), (false, None));
        link.fail(Class::Short);
        link.fail(Class::Reset);
        assert_eq!((link.is_dead(), link.failure()), (true, Some(Class::Short)));
        link.fail_to_send(Errno::PIPE);
        assert_eq!((link.is_broken(), link.failure()), (false, Some(Class::Short)));
    }

    #[test]
    fn receive_role_explains_a_failed_write() {
        let links: [Link; 3] = Default::default();
        for link in &links[..2] {
            link.fail_to_send(Errno::CONNRESET);
            assert_eq!((link.is_dead(), link.is_broken(), link.failure()), (true, true, Some(Class::Reset)));
        }
        links[1].fail(Class::Closed);
        links[1].fail(Class::Short);
        assert_eq!((links[1].is_dead(), links[1].is_broken(), links[1].failure()), (true, false, Some(Class::Closed)));
        links[2].fail_to_send(Errno::HOSTUNREACH);
        assert_eq!((links[2].is_broken(), links[2].failure()), (false, Some(Class::Other)));
    }

    #[test]
    fn reconnect_is_no_failure() {
        let links: [Link; 3] = Default::default();
        let state = |link: &Link| (link.is_working(), link.is_reconnecting(), link.is_dead(), link.failure());
        // A failed write after the announcement is no failure either.
        links[1].fail_to_send(Errno::PIPE);
        for link in &links[..2] {
            assert!(!link.end_reconnect() && link.begin_reconnect());
            link.fail_to_send(Errno::HOSTUNREACH);
            assert_eq!(state(link), (false, true, false, None));
            assert!(!link.begin_reconnect() && link.end_reconnect());
            assert_eq!(state(link), (true, false, false, None));
        }
        assert!(links[2].begin_reconnect());
        links[2].fail(Class::Refused);
        assert!(!links[2].end_reconnect() && !links[2].begin_reconnect());
        assert_eq!(state(&links[2]), (false, false, true, Some(Class::Refused)));
    }

    #[test]
    fn requests_are_taken_in_the_order_sent() {
        let records: Vec<_> = (0..6).map(|at| Record::new(at, (at % 2) as u32)).collect();
        let links: [Link; 2] = Default::default();
        let (mut tails, mut heads) = ([Tail::default(); 2], [Head::default(); 2]);
        assert_eq!(heads[0].peek(&links[0], &records), None);
        for index in 0..4 {
            tails[index % 2].push(&links[index % 2], &records, index);
        }
        assert_eq!(heads[1].peek(&links[1], &records), Some(1));
        assert_eq!(heads[1].take(&links[1], &records), Some(1));
        tails[1].push(&links[1], &records, 5);
        assert_eq!(heads[1].take(&links[1], &records), Some(3));
        assert_eq!(heads[1].take(&links[1], &records), Some(5));
        assert!(heads[1].take(&links[1], &records).is_none());
        assert_eq!(heads[0].take(&links[0], &records), Some(0));
    }
}
