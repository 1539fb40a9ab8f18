//! A service behind a vtable, so that the loops of `-buffered` mechanisms are compiled once for all services. Beside the cost
//! of their layer, that of the calls is small.

use std::time::Duration;

use wire::Service;

pub struct Erased<'a> {
    connect: Box<dyn Fn() -> Box<dyn DynService + 'a> + Sync + 'a>,
    check_interval: Option<Duration>,
    checks_max: u32,
}

/// A connection's state, which the service creates at the first use.
#[derive(Default)]
pub struct ErasedConn<'a>(Option<Box<dyn DynService + 'a>>);

/// A service with its state of one connection. The methods are those of [`Service`].
trait DynService: Send {
    fn receive(&mut self, input: &[u8]) -> u64;
    fn unsent(&self) -> &[u8];
    fn sent(&mut self, count: usize) -> u64;
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

    fn unsent(&self) -> &[u8] {
        self.service.unsent(&self.conn)
    }

    fn sent(&mut self, count: usize) -> u64 {
        self.service.sent(&mut self.conn, count)
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

impl<'a> Erased<'a> {
    pub fn new<S: Service<Conn: Send> + Sync>(service: &'a S) -> Self {
        Self {
            connect: Box::new(move || Box::new(ServiceConnection { service, conn: S::Conn::default() })),
            check_interval: service.check_interval(),
            checks_max: service.checks_max(),
        }
    }

    fn connection<'c>(&self, conn: &'c mut ErasedConn<'a>) -> &'c mut (dyn DynService + 'a) {
        conn.0.get_or_insert_with(&self.connect).as_mut()
    }
}

impl<'a> Service for Erased<'a> {
    type Conn = ErasedConn<'a>;

    fn receive(&self, conn: &mut Self::Conn, input: &[u8]) -> u64 {
        self.connection(conn).receive(input)
    }

    fn unsent<'c>(&'c self, conn: &'c Self::Conn) -> &'c [u8] {
        conn.0.as_ref().map_or(&[], |served| served.unsent())
    }

    fn sent(&self, conn: &mut Self::Conn, count: usize) -> u64 {
        self.connection(conn).sent(count)
    }

    fn is_over(&self, conn: &Self::Conn) -> bool {
        conn.0.as_ref().is_some_and(|served| served.is_over())
    }

    fn is_cut_short(&self, conn: &Self::Conn) -> bool {
        conn.0.as_ref().is_some_and(|served| served.is_cut_short())
    }

    fn is_idle(&self, conn: &Self::Conn) -> bool {
        conn.0.as_ref().is_none_or(|served| served.is_idle())
    }

    fn check_interval(&self) -> Option<Duration> {
        self.check_interval
    }

    fn checks_max(&self) -> u32 {
        self.checks_max
    }

    fn is_overdue(&self, conn: &mut Self::Conn) -> bool {
        // Creates the state: a client that has sent nothing can be overdue, too.
        self.connection(conn).is_overdue()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Responds to each input with its length; a connection is overdue at the third check.
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
        let service = Erased::new(&Counting);
        assert_eq!((service.check_interval(), service.checks_max()), (Some(Duration::from_secs(1)), 7));
        let mut conn = ErasedConn::default();
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
        let service = Erased::new(&Counting);
        let mut conn = ErasedConn::default();
        assert_eq!([0; 4].map(|_| service.is_overdue(&mut conn)), [false, false, true, false]);
    }
}
