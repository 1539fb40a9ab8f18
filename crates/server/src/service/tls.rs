//! TLS between the sockets and a service. The loops move the encrypted bytes and know nothing of it.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use wire::Service;
use wire::tls::{RECORD_BYTES, RecordLayer, TlsState};

use super::forward::forward;

/// The most content that is encrypted at once. It bounds the memory of a connection, and a write takes several records.
const ENCRYPTED_BYTES_MAX: usize = 4 * RECORD_BYTES;

/// The capacity that a connection keeps once its records are sent.
const KEPT_BYTES: usize = RECORD_BYTES;

/// A service whose connections use TLS.
pub struct WithTls<S> {
    service: S,
    config: Arc<ServerConfig>,
}

#[derive(Default)]
pub struct TlsConnection<C> {
    conn: C,
    /// The session, once the client has sent something.
    session: Option<Session>,
}

struct Session {
    records: RecordLayer<UnbufferedServerConnection>,
    /// Records that are being sent. They stay unchanged until all are sent, because the kernel may be reading them.
    sending: Vec<u8>,
    sent_bytes: usize,
    /// The length of the service's unsent bytes whose records are in `sending`. The service counts them as unsent, so that time
    /// limits apply until the socket has accepted them.
    encrypted_bytes: usize,
    /// The content received or sent that no call of [`Service::content_bytes`] has returned.
    uncounted_bytes: usize,
    /// The client has announced its end, or TLS has failed.
    has_ended: bool,
    has_just_failed: bool,
    /// Whether this side has announced its end.
    is_closed: bool,
}

impl<S: Service> WithTls<S> {
    pub fn new(service: S, config: Arc<ServerConfig>) -> Self {
        Self { service, config }
    }

    /// Passes the content of received records to `serve`, and returns the sum of its results.
    fn decrypt(
        &self,
        TlsConnection { conn, session }: &mut TlsConnection<S::Conn>,
        input: &[u8],
        serve: impl Fn(&mut S::Conn, &[u8]) -> Option<u64>,
    ) -> Option<u64> {
        let session = session.get_or_insert_with(|| Session::new(&self.config));
        if session.has_ended {
            return Some(0);
        }
        let (mut requests, mut bytes) = (Some(0), 0);
        session.records.feed(input);
        let progress = session.records.process(|content| {
            bytes += content.len();
            requests = requests.and_then(|requests| Some(requests + serve(conn, content)?));
        });
        session.uncounted_bytes += bytes;
        session.has_just_failed = progress.is_err();
        session.has_ended = matches!(progress, Ok(TlsState::Ended) | Err(_));
        self.encrypt_next(conn, session);
        requests
    }

    /// Makes the next records to send once all earlier ones are sent.
    fn encrypt_next(&self, conn: &S::Conn, session: &mut Session) {
        if !session.sending.is_empty() {
            return;
        }
        let unsent = self.service.unsent(conn);
        let content = &unsent[..unsent.len().min(ENCRYPTED_BYTES_MAX)];
        let tail = self.service.unsent_tail(conn);
        let tail = &tail[..tail.len().min(ENCRYPTED_BYTES_MAX - content.len())];
        if content.is_empty() {
            let is_over = session.has_ended || self.service.is_over(conn);
            if !session.is_closed && is_over && self.service.wait(conn).is_none() {
                session.is_closed = true;
                session.records.close();
            }
        } else if session.records.encrypt(content) && (tail.is_empty() || session.records.encrypt(tail)) {
            session.encrypted_bytes = content.len() + tail.len();
        } else {
            // The session has failed: its alert is the last record.
            (session.has_ended, session.is_closed) = (true, true);
        }
        std::mem::swap(&mut session.sending, &mut session.records.outgoing);
    }
}

impl Session {
    fn new(config: &Arc<ServerConfig>) -> Self {
        let connection = UnbufferedServerConnection::new(config.clone());
        Self {
            records: RecordLayer::new(connection.expect("`Server::start` has made a connection")),
            sending: Vec::new(),
            sent_bytes: 0,
            encrypted_bytes: 0,
            uncounted_bytes: 0,
            has_ended: false,
            has_just_failed: false,
            is_closed: false,
        }
    }
}

impl<S: Service> Service for WithTls<S> {
    type Conn = TlsConnection<S::Conn>;

    fn receive(&self, conn: &mut Self::Conn, input: &[u8]) -> u64 {
        self.decrypt(conn, input, |conn, content| Some(self.service.receive(conn, content))).unwrap_or(0)
    }

    /// Rejects the requests, but not the messages of a handshake.
    fn reject(&self, conn: &mut Self::Conn, input: &[u8]) -> Option<u64> {
        self.decrypt(conn, input, |conn, content| self.service.reject(conn, content))
    }

    fn unsent<'a>(&'a self, conn: &'a Self::Conn) -> &'a [u8] {
        conn.session.as_ref().map_or(&[], |session| &session.sending[session.sent_bytes..])
    }

    fn sent(&self, TlsConnection { conn, session }: &mut Self::Conn, count: usize) -> u64 {
        let Some(session) = session else { return 0 };
        session.sent_bytes += count;
        if session.sent_bytes < session.sending.len() {
            return 0;
        }
        session.sent_bytes = 0;
        session.sending.clear();
        session.sending.shrink_to(KEPT_BYTES);
        if session.records.outgoing.is_empty() {
            // Reuse the capacity for the next records.
            std::mem::swap(&mut session.sending, &mut session.records.outgoing);
        }
        let requests = match std::mem::take(&mut session.encrypted_bytes) {
            0 => 0,
            bytes => {
                session.uncounted_bytes += bytes;
                self.service.sent(conn, bytes)
            }
        };
        self.encrypt_next(conn, session);
        requests
    }

    fn resume(&self, TlsConnection { conn, session }: &mut Self::Conn) -> u64 {
        let requests = self.service.resume(conn);
        if let Some(session) = session {
            self.encrypt_next(conn, session);
        }
        requests
    }

    fn content_bytes(&self, conn: &mut Self::Conn, _bytes: usize) -> usize {
        conn.session.as_mut().map_or(0, |session| std::mem::take(&mut session.uncounted_bytes))
    }

    fn has_just_failed(&self, conn: &mut Self::Conn) -> bool {
        conn.session.as_mut().is_some_and(|session| std::mem::take(&mut session.has_just_failed))
    }

    fn is_over(&self, conn: &Self::Conn) -> bool {
        conn.session.as_ref().is_some_and(|session| session.has_ended) || self.service.is_over(&conn.conn)
    }

    fn is_cut_short(&self, conn: &Self::Conn) -> bool {
        !conn.session.as_ref().is_some_and(|session| session.has_ended) && self.service.is_cut_short(&conn.conn)
    }

    #[inline]
    fn wait(&self, conn: &Self::Conn) -> Option<wire::Wait> {
        let wait = self.service.wait(&conn.conn)?;
        // What follows the end of a session is discarded, so reading it would go on for the whole wait.
        let has_ended = conn.session.as_ref().is_some_and(|session| session.has_ended);
        Some(wire::Wait { has_input: wait.has_input || has_ended, ..wait })
    }

    forward!(service, |conn| conn.conn; work block is_idle check_interval checks_max is_overdue);
}

#[cfg(all(test, not(target_os = "illumos")))]
mod tests {
    use std::io::{Read, Write};

    use rustls::crypto::ring;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use wire::fixed::{Fixed, FixedConn};

    use super::*;
    use crate::service::identity::Identity;
    use crate::service::waits::WithWaits;
    use crate::service::work::{Times, Work};
    use crate::spec::tls::{SERVER_NAME, Tls};

    const REQUEST: usize = 10;
    /// Several pieces of [`ENCRYPTED_BYTES_MAX`].
    const RESPONSE: usize = 200_000;

    /// A server and a client that trusts it.
    fn pair() -> (WithTls<Fixed>, ClientConnection) {
        let identity = Identity::new(&Tls::default(), &([127, 0, 0, 1], 0).into()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(identity.certificates.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        let client = ClientConnection::new(Arc::new(config), SERVER_NAME.try_into().unwrap()).unwrap();
        (WithTls::new(Fixed::new(REQUEST as u32, RESPONSE as u32), identity.config), client)
    }

    /// Moves bytes in pieces until neither side has any. Returns the client's content, the completed requests, and the content that
    /// the server counts in and out.
    fn exchange<S: Service>(
        service: &WithTls<S>,
        conn: &mut TlsConnection<S::Conn>,
        client: &mut ClientConnection,
        piece_bytes: usize,
    ) -> (usize, u64, [usize; 2]) {
        let (mut content, mut requests, mut counts) = (Vec::new(), 0, [0; 2]);
        loop {
            let mut records = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut records).unwrap();
            }
            for piece in records.chunks(piece_bytes) {
                requests += service.receive(conn, piece);
                counts[0] += service.content_bytes(conn, piece.len());
            }
            let unsent = service.unsent(conn);
            let piece = unsent[..unsent.len().min(piece_bytes)].to_vec();
            if piece.is_empty() && records.is_empty() {
                return (content.len(), requests, counts);
            }
            requests += service.sent(conn, piece.len());
            counts[1] += service.content_bytes(conn, piece.len());
            let mut rest = &piece[..];
            while !rest.is_empty() {
                client.read_tls(&mut rest).unwrap();
                client.process_new_packets().unwrap();
                let _ = client.reader().read_to_end(&mut content);
            }
        }
    }

    #[test]
    fn requests_are_answered_whatever_the_pieces() {
        for piece_bytes in [97, 5_000, usize::MAX] {
            let (service, mut client) = pair();
            let mut conn = TlsConnection::default();
            client.writer().write_all(&[1; 2 * REQUEST + 1]).unwrap();
            let moved = exchange(&service, &mut conn, &mut client, piece_bytes);
            assert_eq!(moved, (2 * RESPONSE, 2, [2 * REQUEST + 1, 2 * RESPONSE]), "pieces of {piece_bytes}");
            client.writer().write_all(&[1; REQUEST - 1]).unwrap();
            let moved = exchange(&service, &mut conn, &mut client, piece_bytes);
            assert_eq!(moved, (RESPONSE, 1, [REQUEST - 1, RESPONSE]), "pieces of {piece_bytes}");
            assert!(!service.is_over(&conn) && !service.has_just_failed(&mut conn));
        }
    }

    #[test]
    fn bytes_being_sent_stay_unchanged() {
        let (service, mut client) = pair();
        let mut conn = TlsConnection::default();
        exchange(&service, &mut conn, &mut client, usize::MAX);
        let mut request = |conn: &mut TlsConnection<FixedConn>| {
            client.writer().write_all(&[1; REQUEST]).unwrap();
            let mut records = Vec::new();
            client.write_tls(&mut records).unwrap();
            service.receive(conn, &records);
        };
        request(&mut conn);
        let before = (service.unsent(&conn).as_ptr(), service.unsent(&conn).to_vec());
        assert!(before.1.len() > ENCRYPTED_BYTES_MAX);
        request(&mut conn);
        assert_eq!((service.unsent(&conn).as_ptr(), service.unsent(&conn)), (before.0, &before.1[..]));
    }

    #[test]
    fn announced_end_comes_after_the_responses() {
        let (service, mut client) = pair();
        let mut conn = TlsConnection::default();
        exchange(&service, &mut conn, &mut client, usize::MAX);
        client.writer().write_all(&[1; 2 * REQUEST]).unwrap();
        client.send_close_notify();
        let (content_bytes, requests, _) = exchange(&service, &mut conn, &mut client, usize::MAX);
        assert_eq!((content_bytes, requests, service.is_over(&conn)), (2 * RESPONSE, 2, true));
        let closed = client.reader().read(&mut [0]);
        assert_eq!(closed.unwrap(), 0, "the server announces its own end");
    }

    #[test]
    fn announced_end_during_a_wait_comes_after_the_response() {
        let (WithTls { service, config }, mut client) = pair();
        let wait = Times::Constant { time_ns: 60_000_000_000 };
        let work = Work { wait: Some(wait), ..Work::default() };
        let service = WithTls::new(WithWaits::new(service, work, false, Arc::default()), config);
        let mut conn = TlsConnection::default();
        exchange(&service, &mut conn, &mut client, usize::MAX);
        client.writer().write_all(&[1; 2 * REQUEST]).unwrap();
        client.send_close_notify();
        let waiting = exchange(&service, &mut conn, &mut client, usize::MAX);
        assert_eq!((waiting.0, service.unsent(&conn).len()), (0, 0));
        let mut content_bytes = 0;
        for responses in 1..=2 {
            assert!(service.wait(&conn).is_some());
            assert_eq!(service.resume(&mut conn), 1);
            content_bytes += exchange(&service, &mut conn, &mut client, usize::MAX).0;
            assert_eq!(content_bytes, responses * RESPONSE);
        }
        assert!(service.is_over(&conn) && service.wait(&conn).is_none());
        assert_eq!(client.reader().read(&mut [0]).unwrap(), 0, "the server announces its own end");
    }

    #[test]
    fn failed_connection_counts_once_and_ends_with_an_alert() {
        let (service, mut client) = pair();
        let mut conn = TlsConnection::default();
        assert_eq!(service.receive(&mut conn, b"GET / HTTP/1.1\r\n\r\n"), 0);
        assert!(service.has_just_failed(&mut conn) && !service.has_just_failed(&mut conn) && service.is_over(&conn));
        assert_eq!(service.unsent(&conn)[0], 21, "an alert");
        let alert_bytes = service.unsent(&conn).len();
        service.sent(&mut conn, alert_bytes);
        assert_eq!((service.receive(&mut conn, b"more"), service.unsent(&conn)), (0, &b""[..]));

        let mut conn = TlsConnection::default();
        exchange(&service, &mut conn, &mut client, usize::MAX);
        client.writer().write_all(&[1; REQUEST]).unwrap();
        let mut records = Vec::new();
        client.write_tls(&mut records).unwrap();
        *records.last_mut().unwrap() ^= 1;
        assert_eq!(service.receive(&mut conn, &records), 0, "the content is not authentic");
        assert!(service.has_just_failed(&mut conn) && service.is_over(&conn) && !service.unsent(&conn).is_empty());
    }
}
