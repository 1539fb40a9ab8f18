//! A layer above the sockets, as in welsh2001's asynchronous sockets: a buffer for each packet, which goes up to the service
//! through a queue. Only rows named `-buffered` have it, to measure its cost.

use std::collections::VecDeque;
use std::time::Duration;

use wire::Service;

/// The most bytes of one packet: welsh2001 has packets of 8 192 B.
const PACKET_BYTES: usize = 8_192;

/// A service above the layer.
#[derive(Debug)]
pub struct Buffered<S>(S);

/// A connection's state and its queue.
#[derive(Debug, Default)]
pub struct BufferedConn<C> {
    service: C,
    /// Packets that the service has not taken yet, each in its own memory.
    events: VecDeque<Box<[u8]>>,
}

impl<S> Buffered<S> {
    /// Puts `service` above the layer.
    pub fn new(service: S) -> Self {
        Self(service)
    }
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
    fn unsent<'a>(&'a self, conn: &'a Self::Conn) -> &'a [u8] {
        self.0.unsent(&conn.service)
    }

    #[inline]
    fn sent(&self, conn: &mut Self::Conn, count: usize) -> u64 {
        self.0.sent(&mut conn.service, count)
    }

    #[inline]
    fn is_over(&self, conn: &Self::Conn) -> bool {
        self.0.is_over(&conn.service)
    }

    #[inline]
    fn is_cut_short(&self, conn: &Self::Conn) -> bool {
        self.0.is_cut_short(&conn.service)
    }

    #[inline]
    fn is_idle(&self, conn: &Self::Conn) -> bool {
        self.0.is_idle(&conn.service)
    }

    #[inline]
    fn check_interval(&self) -> Option<Duration> {
        self.0.check_interval()
    }

    fn checks_max(&self) -> u32 {
        self.0.checks_max()
    }

    #[inline]
    fn is_overdue(&self, conn: &mut Self::Conn) -> bool {
        self.0.is_overdue(&mut conn.service)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Records each input and its address.
    struct Heard(RefCell<Vec<(usize, Vec<u8>)>>);

    impl Service for Heard {
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
    fn input_goes_up_in_packets_in_order_and_whole() {
        let service = Buffered::new(Heard(RefCell::default()));
        let input: Vec<u8> = (0..20_000u32).map(|at| at as u8).collect();
        let mut conn = BufferedConn::default();
        assert_eq!(service.receive(&mut conn, &input), 3);
        assert_eq!(service.receive(&mut conn, &[7]), 1);
        let heard = service.0.0.into_inner();
        assert_eq!(heard.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [8_192, 8_192, 3_616, 1]);
        assert_eq!(heard.iter().flat_map(|(_, bytes)| bytes).copied().take(20_000).collect::<Vec<_>>(), input);
        // The packets have their own memory.
        let read = input.as_ptr_range();
        let read = read.start as usize..read.end as usize;
        assert!(heard.iter().all(|(at, _)| !read.contains(at)));
    }
}
