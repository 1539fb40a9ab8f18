//! Matches datagrams to requests. Makes no system calls.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use wire::udp::Udp;

use crate::record::request::Record;
use crate::result::{Class, Errors};

/// The ids of one client's requests. The upper half identifies client and trial, the lower half is the request's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids(u32);

impl Ids {
    pub fn new(seed: u64, client: u32) -> Self {
        // A multiplicative hash is enough. The upper half is even; the next odd value identifies greetings.
        let mixed = (seed ^ u64::from(client) << 32 | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((mixed >> 32) as u32 & !1)
    }

    /// The ids of the client's greetings to its ports.
    pub fn of_greetings(self) -> Self {
        Self(self.0 | 1)
    }

    #[inline]
    pub fn of(self, number: u32) -> u64 {
        u64::from(self.0) << 32 | u64::from(number)
    }

    /// Returns the number of the request with this id; `None` for ids of other clients or trials.
    #[inline]
    pub fn number(self, id: u64) -> Option<usize> {
        ((id >> 32) as u32 == self.0).then_some(id as u32 as usize)
    }
}

#[derive(Debug, Default)]
pub struct LoopResult {
    /// For each request, whether it failed with a counted error. A sent request with neither an error nor a response is lost.
    pub failed: Vec<bool>,
    pub errors: Errors,
    /// Duplicate responses to requests of the window.
    pub duplicates: u64,
    /// Reordered responses to requests of the window.
    pub reordered: u64,
    pub busy_share: Option<f64>,
    pub pauses: Vec<Range<u64>>,
}

/// One client's requests and their outcomes.
#[derive(Debug)]
pub struct Matcher<'a> {
    pub udp: Udp,
    pub ids: Ids,
    pub records: &'a [Record],
    pub targets: &'a [SocketAddr],
    /// For each port, the highest number of a request with a response, plus one.
    newest: Vec<u32>,
    window: Range<u64>,
    pub result: LoopResult,
}

impl<'a> Matcher<'a> {
    pub fn new(udp: Udp, ids: Ids, window: Range<u64>, targets: &'a [SocketAddr], records: &'a [Record]) -> Self {
        let (newest, failed) = (vec![0; targets.len()], vec![false; records.len()]);
        Self { udp, ids, records, targets, newest, window, result: LoopResult { failed, ..LoopResult::default() } }
    }

    /// Matches a received datagram. Returns whether it answers a request in time.
    #[inline]
    pub fn take(&mut self, datagram: &[u8], from: Option<SocketAddr>, now: u64, timeout: u64) -> bool {
        let id = self.udp.response_id(datagram);
        // A port may be greeted more than once, and respond late.
        if id.is_some_and(|id| self.ids.of_greetings().number(id).is_some()) {
            return false;
        }
        let request = id.and_then(|id| self.sent(id));
        let Some((number, record)) =
            request.filter(|(_, record)| from == Some(self.targets[record.connection() as usize]))
        else {
            self.result.errors.count(Class::Wrong, 1);
            return false;
        };
        let in_window = u64::from(self.window.contains(&record.planned));
        if record.complete.load(Relaxed) != 0 {
            self.result.duplicates += in_window;
            return false;
        }
        let newest = &mut self.newest[record.connection() as usize];
        if *newest > number as u32 {
            self.result.reordered += in_window;
        } else {
            *newest = number as u32 + 1;
        }
        if self.result.failed[number] || now.saturating_sub(record.sent.load(Relaxed)) > timeout {
            return false;
        }
        record.complete.store(now, Relaxed);
        true
    }

    /// Counts the error of an undelivered datagram, given its beginning. Returns whether the error fails a request.
    pub fn fail(&mut self, datagram: &[u8], class: Class) -> bool {
        self.result.errors.count(class, 1);
        let id = datagram.first_chunk().copied().map(u64::from_le_bytes);
        match id.and_then(|id| self.sent(id)) {
            Some((number, record)) if record.complete.load(Relaxed) == 0 && !self.result.failed[number] => {
                self.result.failed[number] = true;
                true
            }
            _ => false,
        }
    }

    /// Returns the request with this id if it was sent.
    #[inline]
    fn sent(&self, id: u64) -> Option<(usize, &'a Record)> {
        let number = self.ids.number(id)?;
        let record = self.records.get(number)?;
        (record.sent.load(Relaxed) != 0).then_some((number, record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: u64 = 1_000;

    struct Case {
        records: Vec<Record>,
        targets: Vec<SocketAddr>,
    }

    impl Case {
        /// Creates requests to two ports in turn, planned at 100, 101 and so on, and all sent at 200.
        fn new(requests: u64) -> Self {
            let records: Vec<Record> = (0..requests).map(|at| Record::new(100 + at, at as u32 % 2)).collect();
            records.iter().for_each(|record| record.sent.store(200, Relaxed));
            let targets = vec![([127, 0, 0, 1], 7_000).into(), ([127, 0, 0, 1], 7_001).into()];
            Self { records, targets }
        }

        fn matcher(&self) -> Matcher<'_> {
            Matcher::new(Udp::new(8, 12), Ids::new(1, 0), 0..1_000, &self.targets, &self.records)
        }
    }

    fn response(matcher: &Matcher<'_>, number: u32) -> Vec<u8> {
        let mut response = matcher.udp.response();
        wire::udp::put_id(&mut response, matcher.ids.of(number));
        response
    }

    #[test]
    fn ids_of_other_clients_do_not_match() {
        let (own, other, later) = (Ids::new(1, 0), Ids::new(1, 1), Ids::new(2, 0));
        assert_eq!(own.number(own.of(7)), Some(7));
        for strange in [other, later, own.of_greetings(), other.of_greetings()] {
            assert_eq!(own.number(strange.of(7)), None);
        }
    }

    #[test]
    fn second_response_is_a_duplicate() {
        let case = Case::new(4);
        let mut matcher = case.matcher();
        for (number, port) in [(0, 0), (1, 1), (3, 1)] {
            let response = response(&matcher, number);
            assert!(matcher.take(&response, Some(case.targets[port]), 300, TIMEOUT));
            assert!(!matcher.take(&response, Some(case.targets[port]), 310, TIMEOUT));
        }
        assert_eq!((matcher.result.duplicates, matcher.result.reordered), (3, 0));
        assert_eq!(case.records[3].complete.load(Relaxed), 300);
        assert_eq!(case.records[2].complete.load(Relaxed), 0);
        assert_eq!(matcher.result.errors, Errors::default());
    }

    #[test]
    fn overtaken_response_on_its_port_is_reordered() {
        let case = Case::new(6);
        let mut matcher = case.matcher();
        // Port 0 has 0, 2, 4; port 1 has 1, 3, 5. Order matters only within a port.
        for (number, reordered) in [(4, 0), (1, 0), (2, 1), (3, 1), (0, 2), (5, 2)] {
            let response = response(&matcher, number);
            let from = Some(case.targets[number as usize % 2]);
            assert!(matcher.take(&response, from, 300, TIMEOUT));
            assert_eq!(matcher.result.reordered, reordered, "after {number}");
        }
    }

    #[test]
    fn unrequested_datagram_is_wrong() {
        let case = Case::new(4);
        case.records[3].sent.store(0, Relaxed);
        let mut matcher = case.matcher();
        let good = response(&matcher, 0);
        let (of_none, unsent) = (response(&matcher, 4), response(&matcher, 3));
        let mut strange = good.clone();
        strange[7] ^= 0x80;
        let here = Some(case.targets[0]);
        for (datagram, from) in [
            (&good[..11], here),
            (&[good.as_slice(), &[0]].concat(), here),
            (&[], here),
            (&of_none, here),
            (&unsent, Some(case.targets[1])),
            (&strange, here),
            (&good, Some(case.targets[1])),
            (&good, None),
        ] {
            assert!(!matcher.take(datagram, from, 300, TIMEOUT));
        }
        assert_eq!(matcher.result.errors, Errors { wrong: 8, ..Errors::default() });
        let mut greeting = good.clone();
        wire::udp::put_id(&mut greeting, matcher.ids.of_greetings().of(0));
        assert!(!matcher.take(&greeting, here, 300, TIMEOUT));
        assert_eq!(matcher.result.errors.wrong, 8, "a late response to a greeting is no error");
    }

    #[test]
    fn response_after_the_timeout_stays_lost() {
        let case = Case::new(1);
        let mut matcher = case.matcher();
        let response = response(&matcher, 0);
        assert!(!matcher.take(&response, Some(case.targets[0]), 201 + TIMEOUT, TIMEOUT));
        assert_eq!(case.records[0].complete.load(Relaxed), 0);
        assert_eq!(matcher.result.failed, [false]);
    }

    #[test]
    fn error_fails_its_request_once() {
        let case = Case::new(2);
        let mut matcher = case.matcher();
        let request = matcher.ids.of(1).to_le_bytes();
        assert!(matcher.fail(&request, Class::Unreachable));
        assert!(!matcher.fail(&request, Class::Unreachable));
        assert!(!matcher.fail(&request[..7], Class::Unreachable), "an incomplete id matches no request");
        assert_eq!(matcher.result.failed, [false, true]);
        assert_eq!(matcher.result.errors, Errors { unreachable: 3, ..Errors::default() });
    }
}
