//! A layer between sockets and service, as in welsh2001's asynchronous sockets: it copies each packet into a buffer and passes
//! it to the service through a queue. Only the mechanisms named `-buffered` use this layer, to measure its cost.

use std::collections::VecDeque;

use wire::{Service, ServiceSpec};

use super::forward::forward;

/// The layer with its service.
pub struct Buffered<S> {
    service: S,
    packet_bytes: usize,
}

#[derive(Default)]
pub struct BufferedConnection<C> {
    conn: C,
    /// Packets that the service has not received yet.
    packets: VecDeque<Box<[u8]>>,
}

impl<S: Service> Buffered<S> {
    /// Adds the layer to `service`, which has this specification. Packets have the size of a stream's, or welsh2001's.
    pub fn new(service: S, spec: &ServiceSpec) -> Self {
        Self { service, packet_bytes: spec.stream().unwrap_or_default().packet_bytes as usize }
    }
}

impl<S: Service> Service for Buffered<S> {
    type Conn = BufferedConnection<S::Conn>;

    fn receive(&self, conn: &mut Self::Conn, input: &[u8]) -> u64 {
        conn.packets.extend(input.chunks(self.packet_bytes).map(Box::from));
        let mut requests = 0;
        while let Some(packet) = conn.packets.pop_front() {
            requests += self.service.receive(&mut conn.conn, &packet);
        }
        requests
    }

    fn reject(&self, conn: &mut Self::Conn, input: &[u8]) -> Option<u64> {
        self.service.reject(&mut conn.conn, input)
    }

    fn sent(&self, conn: &mut Self::Conn, count: usize) -> u64 {
        self.service.sent(&mut conn.conn, count)
    }

    forward!(service, |conn| conn.conn;
        unsent unsent_tail content_bytes has_just_failed work wait block resume is_over is_cut_short is_idle check_interval checks_max is_overdue);
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Records each input and its address.
    #[derive(Default)]
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
        let service = Buffered::new(Recorder::default(), &FIXED);
        let input: Vec<u8> = (0..20_000u32).map(|at| at as u8).collect();
        let mut conn = BufferedConnection::default();
        assert_eq!(service.receive(&mut conn, &input), 3);
        assert_eq!(service.receive(&mut conn, &[7]), 1);
        let packets = service.service.0.lock().unwrap();
        assert_eq!(packets.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [8_192, 8_192, 3_616, 1]);
        assert_eq!(packets.iter().flat_map(|(_, bytes)| bytes).copied().take(20_000).collect::<Vec<_>>(), input);
        // Packets are copies.
        let read = input.as_ptr_range();
        let read = read.start as usize..read.end as usize;
        assert!(packets.iter().all(|(at, _)| !read.contains(at)));
    }

    #[test]
    fn packets_have_the_size_of_the_streams_packets() {
        let stream = wire::stream::Stream { packet_bytes: 1_000, ..wire::stream::Stream::default() };
        let service = Buffered::new(Recorder::default(), &ServiceSpec::Stream(stream));
        assert_eq!(service.receive(&mut BufferedConnection::default(), &[0; 2_001]), 3);
    }
}
