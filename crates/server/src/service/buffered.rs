//! A layer between sockets and service, as in welsh2001's asynchronous sockets: it copies each packet into a buffer and passes
//! it to the service through a queue. Only the mechanisms named `-buffered` have it, to measure its cost.

use std::collections::VecDeque;

use wire::Service;

/// The size of a packet in welsh2001.
const PACKET_BYTES: usize = 8_192;

/// A service above the layer.
#[derive(Debug)]
pub struct Buffered<S>(pub S);

#[derive(Debug, Default)]
pub struct BufferedConn<C> {
    service: C,
    /// Packets that the service has not received yet.
    events: VecDeque<Box<[u8]>>,
}

impl<S: Service> Service for Buffered<S> {
    type Conn = BufferedConn<S::Conn>;

    #[inline]
    fn receive(&self, conn: &mut Self::Conn, input: &[u8]) -> u64 {
        conn.events.extend(input.chunks(PACKET_BYTES).map(Box::from));
        let mut requests = 0;
        while let Some(packet) = conn.events.pop_front() {
            requests += self.0.receive(&mut conn.service, &packet);
        }
        requests
    }

    #[inline]
    fn sent(&self, conn: &mut Self::Conn, count: usize) -> u64 {
        self.0.sent(&mut conn.service, count)
    }

    forward!(0, |conn| conn.service; unsent is_over is_cut_short is_idle check_interval checks_max is_overdue);
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Records each input and its address.
    struct Recorder(RefCell<Vec<(usize, Vec<u8>)>>);

    impl Service for Recorder {
        type Conn = ();

        fn receive(&self, (): &mut (), input: &[u8]) -> u64 {
            self.0.borrow_mut().push((input.as_ptr() as usize, input.to_vec()));
            1
        }

        fn unsent<'a>(&'a self, (): &'a ()) -> &'a [u8] {
            &[]
        }

        fn sent(&self, (): &mut (), _count: usize) -> u64 {
            0
        }
    }

    #[test]
    fn input_reaches_service_in_ordered_packets() {
        let service = Buffered(Recorder(RefCell::default()));
        let input: Vec<u8> = (0..20_000u32).map(|at| at as u8).collect();
        let mut conn = BufferedConn::default();
        assert_eq!(service.receive(&mut conn, &input), 3);
        assert_eq!(service.receive(&mut conn, &[7]), 1);
        let packets = service.0.0.into_inner();
        assert_eq!(packets.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [8_192, 8_192, 3_616, 1]);
        assert_eq!(packets.iter().flat_map(|(_, bytes)| bytes).copied().take(20_000).collect::<Vec<_>>(), input);
        // Packets are copies.
        let read = input.as_ptr_range();
        let read = read.start as usize..read.end as usize;
        assert!(packets.iter().all(|(at, _)| !read.contains(at)));
    }
}
