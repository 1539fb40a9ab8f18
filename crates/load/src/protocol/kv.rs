//! Key-value stores: gets and sets of records with known values, in the protocol of memcached or of Redis.

use std::marker::PhantomData;

use rand::RngExt;
use wire::kv::client::{Dialect, KvReply, ReplyReader};
use wire::kv::records::{self, Records};

use super::{ClientProtocol, Reply, random_of};
use crate::config::KvTraffic;
use crate::result::Class;
use crate::time::zipf::Zipf;

pub struct Kv<D> {
    records: Records,
    traffic: KvTraffic,
    /// `None` if all records are equally likely.
    zipf: Option<Zipf>,
    seed: u64,
    dialect: PhantomData<D>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KvRequest {
    record: u64,
    is_set: bool,
}

impl<D> Kv<D> {
    /// Creates the client for `traffic`. The seed determines the values and the requests.
    pub fn new(traffic: &KvTraffic, seed: u64) -> Self {
        let records = Records::new(traffic.value_bytes_min, traffic.value_bytes_max, seed);
        let zipf = Zipf::of(traffic.keys, traffic.records.into());
        Self { records, traffic: traffic.clone(), zipf, seed, dialect: PhantomData }
    }
}

impl<D: Dialect + Default + Send + Sync> ClientProtocol for Kv<D> {
    type Request = KvRequest;
    type Reader = ReplyReader<D>;

    #[inline]
    fn request(&self, number: u64) -> KvRequest {
        let mut random = random_of(self.seed, number);
        let is_set = random.random::<f64>() >= self.traffic.get_share;
        let record = match &self.zipf {
            None => random.random_range(0..u64::from(self.traffic.records)),
            Some(zipf) => zipf.draw(&mut random),
        };
        KvRequest { record, is_set }
    }

    /// Sets a record to its fixed value.
    fn greeting(&self, connection: u64) -> KvRequest {
        KvRequest { record: connection % u64::from(self.traffic.records), is_set: true }
    }

    fn preparations(&self) -> u64 {
        self.traffic.records.into()
    }

    fn encoded_bytes_max(&self) -> usize {
        // Key, value, and the text around them.
        records::KEY_BYTES + self.traffic.value_bytes_max as usize + 64
    }

    #[inline]
    fn encode<'a>(&'a self, request: KvRequest, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        scratch.clear();
        let key = records::key(request.record);
        if request.is_set {
            D::set(scratch, &key, self.records.value(request.record));
        } else {
            D::get(scratch, &key);
        }
        scratch
    }

    #[inline]
    fn read(&self, request: KvRequest, reader: &mut ReplyReader<D>, bytes: &[u8]) -> (usize, Option<Reply>) {
        let (key, value) = (records::key(request.record), self.records.value(request.record));
        let (taken_bytes, reply) = reader.read(bytes, &key, value);
        let reply = reply.map(|reply| match (reply, request.is_set) {
            (KvReply::Hit, false) | (KvReply::Stored, true) => Reply::Good,
            (KvReply::Miss, false) => Reply::Bad(Class::Miss),
            (KvReply::Wrong, false) => Reply::Bad(Class::Wrong),
            (KvReply::NotStored, true) | (KvReply::Error, _) => Reply::Bad(Class::Rejected),
            // The response to a different request, or no response at all.
            _ => Reply::Garbage,
        });
        (taken_bytes, reply)
    }
}

#[cfg(test)]
mod tests {
    use wire::kv::client::Memcached;
    use wire::redis::client::Resp;

    use super::*;
    use crate::config::Popularity;

    fn traffic() -> KvTraffic {
        KvTraffic {
            records: 1_000,
            value_bytes_min: 10,
            value_bytes_max: 100,
            get_share: 0.9,
            keys: Popularity::Uniform,
        }
    }

    #[test]
    fn request_number_determines_the_request() {
        let kv = |seed| Kv::<Memcached>::new(&traffic(), seed);
        let (kv, again, other) = (kv(7), kv(7), kv(8));
        let all = |kv: &Kv<Memcached>| (0..10_000).map(|number| kv.request(number)).collect::<Vec<_>>();
        assert_eq!(all(&kv), all(&again));
        assert_ne!(all(&kv), all(&other));
        let all = all(&kv);
        assert!(all.iter().all(|request| request.record < 1_000));
        let sets = all.iter().filter(|request| request.is_set).count();
        // The standard deviation is 30.
        assert!((850..1_150).contains(&sets), "{sets}");
        // Each of a thousand records is requested ten times on average. A record is missing with a probability of e^-10.
        let mut requested: Vec<u64> = all.iter().map(|request| request.record).collect();
        requested.sort_unstable();
        requested.dedup();
        assert!(requested.len() > 990, "{}", requested.len());
    }

    #[test]
    fn first_records_of_zipf_are_most_popular() {
        let kv = Kv::<Memcached>::new(&KvTraffic { keys: Popularity::Zipf { exponent: 1.0 }, ..traffic() }, 1);
        let mut counts = [0u32; 1_000];
        (0..100_000).for_each(|number| counts[kv.request(number).record as usize] += 1);
        // The thousandth harmonic number is 7.485.
        for rank in [1, 2, 10] {
            let expected = 100_000.0 / 7.485 / f64::from(rank);
            let count = f64::from(counts[rank as usize - 1]);
            assert!((count / expected - 1.0).abs() < 0.1, "rank {rank}: {count}, not {expected}");
        }
    }

    #[test]
    fn responses_to_gets_and_sets_are_verified() {
        let kv = Kv::<Memcached>::new(&traffic(), 7);
        let read = |is_set, bytes: &[u8]| {
            kv.read(KvRequest { record: 3, is_set }, &mut ReplyReader::default(), bytes).1.expect("a whole response")
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

    #[test]
    fn responses_of_redis_are_verified() {
        let redis = Kv::<Resp>::new(&traffic(), 7);
        let read = |is_set, bytes: &[u8]| {
            redis.read(KvRequest { record: 3, is_set }, &mut ReplyReader::default(), bytes).1.expect("a response")
        };
        assert_eq!(read(true, b"+OK\r\n"), Reply::Good);
        assert_eq!(read(true, b"-OOM full\r\n"), Reply::Bad(Class::Rejected));
        assert_eq!(read(true, b"$-1\r\n"), Reply::Garbage);
        assert_eq!(read(false, b"$-1\r\n"), Reply::Bad(Class::Miss));
        assert_eq!(read(false, b"+OK\r\n"), Reply::Garbage);
        let value = |value: &[u8]| [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat();
        assert_eq!(read(false, &value(redis.records.value(3))), Reply::Good);
        assert_eq!(read(false, &value(redis.records.value(4))), Reply::Bad(Class::Wrong));
    }
}
