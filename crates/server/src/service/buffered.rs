//! A layer between sockets and service, as in welsh2001's asynchronous sockets: it copies each packet into a buffer and passes
//! it to the service through a queue. Only the mechanisms named `-buffered` use this layer, to measure its cost.

use std::collections::VecDeque;
use std::time::Duration;

use wire::{Service, ServiceSpec};

/// The layer with its service. It calls the service through a vtable, so the loops are compiled once for all services.
pub struct Buffered<'a> {
    connect: Box<dyn Fn() -> Box<dyn DynService + 'a> + Sync + 'a>,
    packet_bytes: usize,
    check_interval: Option<Duration>,
    checks_max: u32,
}

#[derive(Default)]
pub struct BufferedConn<'a> {
    /// The service's state, created at the first use.
    service: Option<Box<dyn DynService + 'a>>,
    /// Packets that the service has not received yet.
    packets: VecDeque<Box<[u8]>>,
}

/// A service with the state of one connection. The methods are those of [`Service`].
trait DynService: Send {
    fn receive(&mut self, input: &[u8]) -> u64;
    fn reject(&mut self, input: &[u8]) -> Option<u64>;
    fn unsent(&self) -> &[u8];
    fn sent(&mut self, count: usize) -> u64;
    fn work(&self, requests: u64, works: &mut Option<bool>);
    fn is_over(&self) -> bool;
    fn is_cut_short(&self) -> bool;
    fn is_idle(&self) -> bool;
    fn is_overdue(&mut self) -> bool;
}

struct ServiceConnection<'a, S: Service> {
    service: &'a S,
    conn: S::Conn,
}

impl<S: Service<Conn: Send> + Sync> DynService for ServiceConnection<'_, S> {
    fn receive(&mut self, input: &[u8]) -> u64 {
        self.service.receive(&mut self.conn, input)
    }

    fn reject(&mut self, input: &[u8]) -> Option<u64> {
        self.service.reject(&mut self.conn, input)
    }

    fn unsent(&self) -> &[u8] {
        self.service.unsent(&self.conn)
    }

    fn sent(&mut self, count: usize) -> u64 {
        self.service.sent(&mut self.conn, count)
    }

    fn work(&self, requests: u64, works: &mut Option<bool>) {
        self.service.work(&self.conn, requests, works);
    }

    fn is_over(&self) -> bool {
        self.service.is_over(&self.conn)
    }

    fn is_cut_short(&self) -> bool {
        self.service.is_cut_short(&self.conn)
    }

    fn is_idle(&self) -> bool {
        self.service.is_idle(&self.conn)
    }

    fn is_overdue(&mut self) -> bool {
        self.service.is_overdue(&mut self.conn)
    }
}

impl<'a> Buffered<'a> {
    /// Adds the layer to `service`, which has this specification. Packets have the size of a stream's, or welsh2001's.
    pub fn new<S: Service<Conn: Send> + Sync>(service: &'a S, spec: &ServiceSpec) -> Self {
        Self {
            connect: Box::new(move || Box::new(ServiceConnection { service, conn: S::Conn::default() })),
            packet_bytes: spec.stream().unwrap_or_default().packet_bytes as usize,
            check_interval: service.check_interval(),
            checks_max: service.checks_max(),
        }
    }
}

impl<'a> Service for Buffered<'a> {
    type Conn = BufferedConn<'a>;

    fn receive(&self, conn: &mut Self::Conn, input: &[u8]) -> u64 {
        conn.packets.extend(input.chunks(self.packet_bytes).map(Box::from));
        let service = conn.service.get_or_insert_with(&self.connect);
        let mut requests = 0;
        while let Some(packet) = conn.packets.pop_front() {
            requests += service.receive(&packet);
        }
        requests
    }

    fn reject(&self, conn: &mut Self::Conn, input: &[u8]) -> Option<u64> {
        conn.service.get_or_insert_with(&self.connect).reject(input)
    }

    fn unsent<'c>(&'c self, conn: &'c Self::Conn) -> &'c [u8] {
        conn.service.as_ref().map_or(&[], |service| service.unsent())
    }

    fn sent(&self, conn: &mut Self::Conn, count: usize) -> u64 {
        conn.service.get_or_insert_with(&self.connect).sent(count)
    }

    fn work(&self, conn: &Self::Conn, requests: u64, works: &mut Option<bool>) {
        conn.service.iter().for_each(|service| service.work(requests, works));
    }

    fn is_over(&self, conn: &Self::Conn) -> bool {
        conn.service.as_ref().is_some_and(|service| service.is_over())
    }

    fn is_cut_short(&self, conn: &Self::Conn) -> bool {
        conn.service.as_ref().is_some_and(|service| service.is_cut_short())
    }

    fn is_idle(&self, conn: &Self::Conn) -> bool {
        conn.service.as_ref().is_none_or(|service| service.is_idle())
    }

    fn check_interval(&self) -> Option<Duration> {
        self.check_interval
    }

    fn checks_max(&self) -> u32 {
        self.checks_max
    }

    fn is_overdue(&self, conn: &mut Self::Conn) -> bool {
        // Create the state if necessary: a client that has sent nothing may also be overdue.
        conn.service.get_or_insert_with(&self.connect).is_overdue()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Records each input and its address.
    struct Recorder(Mutex<Vec<(usize, Vec<u8>)>>);

    impl Service for Recorder {
        type Conn = ();

        fn receive(&self, (): &mut (), input: &[u8]) -> u64 {
            self.0.lock().unwrap().push((input.as_ptr() as usize, input.to_vec()));
            1
        }

        fn unsent<'a>(&'a self, (): &'a ()) -> &'a [u8] {
            &[]
        }

        fn sent(&self, (): &mut (), _count: usize) -> u64 {
            0
        }
    }

    const FIXED: ServiceSpec = ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };

    #[test]
    fn input_reaches_service_in_ordered_packets() {
        let recorder = Recorder(Mutex::default());
        let service = Buffered::new(&recorder, &FIXED);
        let input: Vec<u8> = (0..20_000u32).map(|at| at as u8).collect();
        let mut conn = BufferedConn::default();
        assert_eq!(service.receive(&mut conn, &input), 3);
        assert_eq!(service.receive(&mut conn, &[7]), 1);
        let packets = recorder.0.lock().unwrap();
        assert_eq!(packets.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [8_192, 8_192, 3_616, 1]);
        assert_eq!(packets.iter().flat_map(|(_, bytes)| bytes).copied().take(20_000).collect::<Vec<_>>(), input);
        // Packets are copies.
        let read = input.as_ptr_range();
        let read = read.start as usize..read.end as usize;
        assert!(packets.iter().all(|(at, _)| !read.contains(at)));
    }

    #[test]
    fn packets_have_the_size_of_the_streams_packets() {
        let recorder = Recorder(Mutex::default());
        let stream = wire::stream::Stream { packet_bytes: 1_000, ..wire::stream::Stream::default() };
        let service = Buffered::new(&recorder, &ServiceSpec::Stream(stream));
        assert_eq!(service.receive(&mut BufferedConn::default(), &[0; 2_001]), 3);
    }

    /// A service that responds to each input with its length. A connection is overdue at the third check.
    struct Counting;

    #[derive(Default)]
    struct Count {
        output: Vec<u8>,
        checks: u32,
    }

    impl Service for Counting {
        type Conn = Count;

        fn receive(&self, conn: &mut Count, input: &[u8]) -> u64 {
            conn.output.push(input.len() as u8);
            1
        }

        fn unsent<'a>(&'a self, conn: &'a Count) -> &'a [u8] {
            &conn.output
        }

        fn sent(&self, conn: &mut Count, count: usize) -> u64 {
            conn.output.drain(..count);
            count as u64
        }

        fn is_over(&self, conn: &Count) -> bool {
            conn.output == [9]
        }

        fn is_cut_short(&self, conn: &Count) -> bool {
            conn.output == [9]
        }

        fn is_idle(&self, conn: &Count) -> bool {
            conn.output.is_empty()
        }

        fn check_interval(&self) -> Option<Duration> {
            Some(Duration::from_secs(1))
        }

        fn checks_max(&self) -> u32 {
            7
        }

        fn is_overdue(&self, conn: &mut Count) -> bool {
            conn.checks += 1;
            conn.checks == 3
        }
    }

    #[test]
    fn buffered_service_forwards_every_method() {
        let service = Buffered::new(&Counting, &FIXED);
        assert_eq!((service.check_interval(), service.checks_max()), (Some(Duration::from_secs(1)), 7));
        let mut conn = BufferedConn::default();
        assert_eq!(service.unsent(&conn), b"", "no response before the first input");
        assert!(service.is_idle(&conn) && !service.is_over(&conn) && !service.is_cut_short(&conn));
        assert_eq!((service.receive(&mut conn, b"abc"), service.receive(&mut conn, &[0; 9])), (1, 1));
        assert_eq!(service.unsent(&conn), [3, 9]);
        assert!(!service.is_idle(&conn) && !service.is_over(&conn));
        assert_eq!(service.sent(&mut conn, 1), 1);
        assert_eq!(service.unsent(&conn), [9]);
        assert!(service.is_over(&conn) && service.is_cut_short(&conn));
    }

    #[test]
    fn buffered_service_checks_silent_clients() {
        let service = Buffered::new(&Counting, &FIXED);
        let mut conn = BufferedConn::default();
        assert_eq!([0; 4].map(|_| service.is_overdue(&mut conn)), [false, false, true, false]);
    }
}
