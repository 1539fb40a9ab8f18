//! Services behind a vtable: the loops are compiled once for all services with a further layer, such as [`WithTls`] or
//! [`Buffered`].
//!
//! [`WithTls`]: super::tls::WithTls
//! [`Buffered`]: super::buffered::Buffered

use std::sync::Arc;
use std::time::Duration;

use wire::Service;

/// A service whose type is erased.
pub struct Erased {
    connect: Box<dyn Fn() -> Box<dyn DynService> + Send + Sync>,
    check_interval: Option<Duration>,
    checks_max: u32,
}

/// The service with the state of one connection, created at the first use.
#[derive(Default)]
pub struct ErasedConnection(Option<Box<dyn DynService>>);

/// A service with the state of one connection. The methods are those of [`Service`].
trait DynService: Send {
    fn receive(&mut self, input: &[u8]) -> u64;
    fn reject(&mut self, input: &[u8]) -> Option<u64>;
    fn unsent(&self) -> &[u8];
    fn sent(&mut self, count: usize) -> u64;
    fn content_bytes(&mut self, bytes: usize) -> usize;
    fn has_just_failed(&mut self) -> bool;
    fn work(&self, requests: u64, works: &mut Option<bool>);
    fn is_over(&self) -> bool;
    fn is_cut_short(&self) -> bool;
    fn is_idle(&self) -> bool;
    fn is_overdue(&mut self) -> bool;
}

struct ServiceConnection<S: Service> {
    service: Arc<S>,
    conn: S::Conn,
}

impl<S: Service<Conn: Send> + Send + Sync> DynService for ServiceConnection<S> {
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

    fn content_bytes(&mut self, bytes: usize) -> usize {
        self.service.content_bytes(&mut self.conn, bytes)
    }

    fn has_just_failed(&mut self) -> bool {
        self.service.has_just_failed(&mut self.conn)
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

impl Erased {
    pub fn new<S: Service<Conn: Send> + Send + Sync + 'static>(service: S) -> Self {
        let (check_interval, checks_max) = (service.check_interval(), service.checks_max());
        let service = Arc::new(service);
        let connect = move || -> Box<dyn DynService> {
            Box::new(ServiceConnection { service: service.clone(), conn: S::Conn::default() })
        };
        Self { connect: Box::new(connect), check_interval, checks_max }
    }

    fn state<'c>(&self, conn: &'c mut ErasedConnection) -> &'c mut dyn DynService {
        conn.0.get_or_insert_with(&self.connect).as_mut()
    }
}

impl Service for Erased {
    type Conn = ErasedConnection;

    fn receive(&self, conn: &mut Self::Conn, input: &[u8]) -> u64 {
        self.state(conn).receive(input)
    }

    fn reject(&self, conn: &mut Self::Conn, input: &[u8]) -> Option<u64> {
        self.state(conn).reject(input)
    }

    fn unsent<'c>(&'c self, conn: &'c Self::Conn) -> &'c [u8] {
        conn.0.as_ref().map_or(&[], |state| state.unsent())
    }

    fn sent(&self, conn: &mut Self::Conn, count: usize) -> u64 {
        self.state(conn).sent(count)
    }

    fn content_bytes(&self, conn: &mut Self::Conn, bytes: usize) -> usize {
        self.state(conn).content_bytes(bytes)
    }

    fn has_just_failed(&self, conn: &mut Self::Conn) -> bool {
        self.state(conn).has_just_failed()
    }

    fn work(&self, conn: &Self::Conn, requests: u64, works: &mut Option<bool>) {
        conn.0.iter().for_each(|state| state.work(requests, works));
    }

    fn is_over(&self, conn: &Self::Conn) -> bool {
        conn.0.as_ref().is_some_and(|state| state.is_over())
    }

    fn is_cut_short(&self, conn: &Self::Conn) -> bool {
        conn.0.as_ref().is_some_and(|state| state.is_cut_short())
    }

    fn is_idle(&self, conn: &Self::Conn) -> bool {
        conn.0.as_ref().is_none_or(|state| state.is_idle())
    }

    fn check_interval(&self) -> Option<Duration> {
        self.check_interval
    }

    fn checks_max(&self) -> u32 {
        self.checks_max
    }

    fn is_overdue(&self, conn: &mut Self::Conn) -> bool {
        // Create the state if necessary: a client that has sent nothing may also be overdue.
        self.state(conn).is_overdue()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn erased_service_forwards_every_method() {
        let service = Erased::new(Counting);
        assert_eq!((service.check_interval(), service.checks_max()), (Some(Duration::from_secs(1)), 7));
        let mut conn = ErasedConnection::default();
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
    fn erased_service_checks_silent_clients() {
        let service = Erased::new(Counting);
        let mut conn = ErasedConnection::default();
        assert_eq!([0; 4].map(|_| service.is_overdue(&mut conn)), [false, false, true, false]);
    }
}
