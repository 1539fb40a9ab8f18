//! The client's side of a service, sans I/O: what is asked, and what comes back. Loops are compiled for each of them.

mod http;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wire::kv::client;
use wire::kv::records::{self, Records};
use wire::stream::{GREETING, Stream};

use crate::class::Class;
use crate::config::KvTraffic;
use crate::zipf::Zipf;

pub use http::Http;

/// A service's client. Requests have numbers, from 0, and the number says all of a request: whoever sends it and whoever
/// reads its response need tell each other nothing else.
pub trait Speak: Sync {
    /// A request in short: what is needed to write it, and to know its response.
    type Asked: Copy + Default + Send;
    /// What has come of one connection's response.
    type Reader: Default + Send;

    /// The request of that number.
    fn asked(&self, number: u64) -> Self::Asked;

    /// The request that verifies the connection of that number.
    fn greeting(&self, connection: u64) -> Self::Asked;

    /// How many requests are to be answered before all others but those that verify connections.
    fn preparations(&self) -> u64 {
        0
    }

    /// The one of that number.
    fn preparation(&self, number: u64) -> Self::Asked {
        self.greeting(number)
    }

    /// At most how many bytes of `scratch` a request takes.
    fn request_bytes_max(&self) -> usize {
        0
    }

    /// A request's bytes, perhaps written over what is in `scratch`, which keeps its memory.
    fn request<'a>(&'a self, asked: Self::Asked, scratch: &'a mut Vec<u8>) -> &'a [u8];

    /// Reads on: how many of `bytes` belong to this response, and what it is if they end it. Then the reader is ready for the
    /// next one.
    fn read(&self, asked: Self::Asked, reader: &mut Self::Reader, bytes: &[u8]) -> (usize, Option<Reply>);

    /// The server has ended the connection; the response that ended with it, if there is such a thing.
    fn end(&self, _asked: Self::Asked, _reader: &mut Self::Reader) -> Option<Reply> {
        None
    }

    /// What was wrong with the last response that was not good, if that can be said in words.
    fn complaint(&self) -> Option<String> {
        None
    }
}

/// Makes the client of the service that `config` asks for and does something with it, compiled for each service there is.
macro_rules! with_speaker {
    ($config:expr, |$speaker:ident| $body:expr) => {
        match (&$config.service, &$config.kv, &$config.http) {
            (wire::ServiceSpec::Kv { .. }, Some(traffic), _) => {
                let $speaker = $crate::speak::Kv::new(traffic, $config.seed);
                $body
            }
            (wire::ServiceSpec::Http { .. }, _, Some(traffic)) => {
                let $speaker = $crate::speak::Http::new(traffic, &$config.target)?;
                $body
            }
            (&wire::ServiceSpec::Stream(stream), ..) => {
                let $speaker = $crate::speak::Fixed::greeting_of(stream);
                $body
            }
            _ => {
                let (request_bytes, response_bytes) = $config.fixed();
                let $speaker = $crate::speak::Fixed::new(request_bytes, response_bytes);
                $body
            }
        }
    };
}

pub(crate) use with_speaker;

/// A whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What it should be.
    Good,
    /// Something else that the service may say.
    Bad(Class),
    /// The connection ends with it, as the server says; and what is wrong with it, if anything is.
    Last(Option<Class>),
    /// Nothing that the service may say. Where the next begins cannot be known.
    Garbage,
}

/// Requests and responses of fixed sizes, verified by size alone.
pub struct Fixed {
    request: Vec<u8>,
    response_bytes: u64,
}

impl Fixed {
    /// Of these sizes, both at least 1.
    pub fn new(request_bytes: u32, response_bytes: u32) -> Self {
        Self { request: vec![0x5a; request_bytes as usize], response_bytes: response_bytes.into() }
    }

    /// A stream's greetings, which verify its connections.
    pub fn greeting_of(stream: Stream) -> Self {
        let (request_bytes, response_bytes) = stream.sizes(true);
        Self { request: vec![GREETING; request_bytes as usize], response_bytes }
    }
}

impl Speak for Fixed {
    type Asked = ();
    /// Bytes that came.
    type Reader = u64;

    #[inline]
    fn asked(&self, _number: u64) {}

    fn greeting(&self, _connection: u64) {}

    #[inline]
    fn request<'a>(&'a self, _asked: (), _scratch: &'a mut Vec<u8>) -> &'a [u8] {
        &self.request
    }

    #[inline]
    fn read(&self, _asked: (), came_bytes: &mut u64, bytes: &[u8]) -> (usize, Option<Reply>) {
        let missing_bytes = self.response_bytes - *came_bytes;
        if (bytes.len() as u64) < missing_bytes {
            *came_bytes += bytes.len() as u64;
            return (bytes.len(), None);
        }
        *came_bytes = 0;
        (missing_bytes as usize, Some(Reply::Good))
    }
}

/// A key-value store's client.
pub struct Kv {
    records: Records,
    count: u64,
    value_bytes_max: u32,
    get_share: f64,
    /// `None` where each record is as likely as any other.
    zipf: Option<Zipf>,
    seed: u64,
}

/// A request to a key-value store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KvAsked {
    record: u64,
    is_set: bool,
}

impl Kv {
    /// For such traffic. Another seed makes other values, and other requests.
    pub fn new(traffic: &KvTraffic, seed: u64) -> Self {
        let zipf = Zipf::of(traffic.keys, traffic.records.into());
        Self {
            records: Records::new(traffic.value_bytes_min, traffic.value_bytes_max, seed),
            count: traffic.records.into(),
            value_bytes_max: traffic.value_bytes_max,
            get_share: traffic.get_share,
            zipf,
            seed,
        }
    }
}

impl Speak for Kv {
    type Asked = KvAsked;
    type Reader = client::Reader;

    #[inline]
    fn asked(&self, number: u64) -> KvAsked {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let is_set = random.random::<f64>() >= self.get_share;
        let record = match &self.zipf {
            None => random.random_range(0..self.count),
            Some(zipf) => zipf.draw(&mut random),
        };
        KvAsked { record, is_set }
    }

    /// Sets a record, to what it is set to later.
    fn greeting(&self, connection: u64) -> KvAsked {
        KvAsked { record: connection % self.count, is_set: true }
    }

    fn preparations(&self) -> u64 {
        self.count
    }

    fn request_bytes_max(&self) -> usize {
        // Key, value, and the words around them.
        records::KEY_BYTES + self.value_bytes_max as usize + 64
    }

    #[inline]
    fn request<'a>(&'a self, asked: KvAsked, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        scratch.clear();
        let key = records::key(asked.record);
        if asked.is_set {
            client::set(scratch, &key, self.records.value(asked.record));
        } else {
            client::get(scratch, &key);
        }
        scratch
    }

    #[inline]
    fn read(&self, asked: KvAsked, reader: &mut client::Reader, bytes: &[u8]) -> (usize, Option<Reply>) {
        let (key, value) = (records::key(asked.record), self.records.value(asked.record));
        let (taken_bytes, reply) = reader.read(bytes, &key, value);
        let reply = reply.map(|reply| match (reply, asked.is_set) {
            (client::Reply::Hit, false) | (client::Reply::Stored, true) => Reply::Good,
            (client::Reply::Miss, false) => Reply::Bad(Class::Miss),
            (client::Reply::Wrong, false) => Reply::Bad(Class::Wrong),
            (client::Reply::NotStored, true) | (client::Reply::Error, _) => Reply::Bad(Class::Rejected),
            // The answer to something else, or none.
            _ => Reply::Garbage,
        });
        (taken_bytes, reply)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::Choice;

    proptest! {
        #[test]
        fn any_split_of_fixed_responses_gives_the_same_number(
            response_bytes in 1u32..300, cuts in prop::collection::vec(1usize..1000, 0..50),
        ) {
            let fixed = Fixed::new(1, response_bytes);
            let (mut came_bytes, mut responses) = (0, 0);
            for &length in &cuts {
                let piece = vec![0; length];
                let mut rest = &piece[..];
                while !rest.is_empty() {
                    let (taken, reply) = fixed.read((), &mut came_bytes, rest);
                    responses += u64::from(reply == Some(Reply::Good));
                    rest = &rest[taken..];
                }
            }
            let total = cuts.iter().sum::<usize>() as u64;
            prop_assert_eq!((responses, came_bytes), (total / u64::from(response_bytes), total % u64::from(response_bytes)));
        }
    }

    fn traffic() -> KvTraffic {
        KvTraffic { records: 1_000, value_bytes_min: 10, value_bytes_max: 100, get_share: 0.9, keys: Choice::Uniform }
    }

    #[test]
    fn fixed_responses_end_where_they_should_in_any_pieces() {
        let fixed = Fixed::new(3, 5);
        assert_eq!(fixed.request((), &mut Vec::new()).len(), 3);
        let mut came_bytes = 0;
        assert_eq!(fixed.read((), &mut came_bytes, &[0; 4]), (4, None));
        assert_eq!(
            fixed.read((), &mut came_bytes, &[0; 4]),
            (1, Some(Reply::Good)),
            "the rest is not of this response"
        );
        assert_eq!(fixed.read((), &mut came_bytes, &[0; 5]), (5, Some(Reply::Good)));
    }

    #[test]
    fn a_request_s_number_says_all_of_it() {
        let (kv, again, other) = (Kv::new(&traffic(), 7), Kv::new(&traffic(), 7), Kv::new(&traffic(), 8));
        let all = |kv: &Kv| (0..10_000).map(|number| kv.asked(number)).collect::<Vec<_>>();
        assert_eq!(all(&kv), all(&again));
        assert_ne!(all(&kv), all(&other));
        let all = all(&kv);
        assert!(all.iter().all(|asked| asked.record < 1_000));
        let sets = all.iter().filter(|asked| asked.is_set).count();
        // By chance the difference is 30.
        assert!((850..1_150).contains(&sets), "{sets}");
        // Of a thousand records each is asked for ten times; none is left out but by chance, of e^-10.
        let mut asked: Vec<u64> = all.iter().map(|asked| asked.record).collect();
        asked.sort_unstable();
        asked.dedup();
        assert!(asked.len() > 990, "{}", asked.len());
    }

    #[test]
    fn zipf_s_first_records_are_asked_for_most() {
        let kv = Kv::new(&KvTraffic { keys: Choice::Zipf { exponent: 1.0 }, ..traffic() }, 1);
        let mut counts = [0u32; 1_000];
        (0..100_000).for_each(|number| counts[kv.asked(number).record as usize] += 1);
        // The thousandth harmonic number is 7.485.
        for rank in [1, 2, 10] {
            let expected = 100_000.0 / 7.485 / f64::from(rank);
            let count = f64::from(counts[rank as usize - 1]);
            assert!((count / expected - 1.0).abs() < 0.1, "rank {rank}: {count}, not {expected}");
        }
    }

    #[test]
    fn what_a_store_may_answer_and_what_it_must() {
        let kv = Kv::new(&traffic(), 7);
        let read = |is_set, bytes: &[u8]| {
            kv.read(KvAsked { record: 3, is_set }, &mut client::Reader::default(), bytes).1.expect("a whole response")
        };
        assert_eq!(read(true, b"STORED\r\n"), Reply::Good);
        assert_eq!(read(true, b"NOT_STORED\r\n"), Reply::Bad(Class::Rejected));
        assert_eq!(read(true, b"SERVER_ERROR out of memory\r\n"), Reply::Bad(Class::Rejected));
        assert_eq!(read(true, b"END\r\n"), Reply::Garbage);
        assert_eq!(read(false, b"END\r\n"), Reply::Bad(Class::Miss));
        assert_eq!(read(false, b"ERROR\r\n"), Reply::Bad(Class::Rejected));
        assert_eq!(read(false, b"STORED\r\n"), Reply::Garbage);
        let value = |value: &[u8]| {
            [b"VALUE record-0000000003 0 ", value.len().to_string().as_bytes(), b"\r\n", value, b"\r\nEND\r\n"].concat()
        };
        assert_eq!(read(false, &value(kv.records.value(3))), Reply::Good);
        assert_eq!(read(false, &value(kv.records.value(4))), Reply::Bad(Class::Wrong));
    }
}
