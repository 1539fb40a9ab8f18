//! HTTP over TLS, against a small server with a certificate of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use muxbench_load::config::{Body, ExpectedStatus, HttpTarget, HttpTraffic, Identity, Loop, Phases, Think, TlsConfig};
use muxbench_load::result::TlsResult;
use muxbench_load::{LoadConfig, Outcome};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use wire::ServiceSpec;

use crate::server::read_head;

/// The size of a body that takes many records and fills a socket's buffer.
const LARGE_BYTES: usize = 3 << 20;

/// A certificate for `localhost`, its key, a certificate with another key, and one for `localhost` that is an authority.
const CERTIFICATE: &str = include_str!("../tls/localhost.pem");
const KEY: &str = include_str!("../tls/localhost.key");
const OTHER: &str = include_str!("../tls/other.pem");
const AUTHORITY: &str = include_str!("../tls/authority.pem");

/// The end of each response of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Chunked,
    /// Also chunked. The third response of a connection announces its end.
    Third,
    /// Also chunked. With the third response of a connection, TLS announces its end and HTTP does not.
    OnlyByTls,
    /// The response has no length. TLS announces the end of the connection.
    Announced,
    /// The response has no length. The connection ends without an announcement.
    CutOff,
}

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// Reads a request; returns its head and the size of its body.
fn read_request(stream: &mut Stream) -> Option<(String, usize)> {
    let head = read_head(stream)?;
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    body.iter().all(|byte| *byte == b'x').then_some((head, length))
}

/// Responds to a POST with 201 and content as long as the request's body. Returns whether further requests may follow.
fn respond(stream: &mut Stream, end: End, number: u32) -> Option<bool> {
    let (head, length) = read_request(stream)?;
    assert!(head.starts_with("POST /orders HTTP/1.1\r\nHost: localhost\r\n"), "{head}");
    let content = "y".repeat(length);
    let is_last = match end {
        End::Chunked => false,
        End::Third | End::OnlyByTls => number == 2,
        End::Announced | End::CutOff => true,
    };
    let response = match end {
        End::Chunked | End::Third | End::OnlyByTls => {
            let close = if is_last && end == End::Third { "Connection: close\r\n" } else { "" };
            format!("{close}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{content}\r\n0\r\n\r\n")
        }
        End::Announced | End::CutOff => format!("\r\n{content}"),
    };
    stream.conn.writer().write_all(format!("HTTP/1.1 201 Created\r\n{response}").as_bytes()).ok()?;
    if is_last && matches!(end, End::Announced | End::OnlyByTls) {
        stream.conn.send_close_notify();
    }
    stream.flush().ok()?;
    Some(!is_last)
}

/// Starts a server on a free port.
fn server(versions: &[&'static SupportedProtocolVersion], end: End) -> SocketAddr {
    server_with(CERTIFICATE, versions, end)
}

fn server_with(certificate: &str, versions: &[&'static SupportedProtocolVersion], end: End) -> SocketAddr {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_protocol_versions(versions).unwrap().with_no_client_auth();
    serve(builder.with_single_cert(vec![certificate], key).unwrap(), end)
}

fn serve(config: ServerConfig, end: End) -> SocketAddr {
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            stream.set_nodelay(true).unwrap();
            let mut connection = ServerConnection::new(config.clone()).unwrap();
            connection.set_buffer_limit(None);
            let mut stream = StreamOwned::new(connection, stream);
            thread::spawn(move || (0..).all(|number| respond(&mut stream, end, number) == Some(true)));
        }
    });
    address
}

fn config(target: SocketAddr, body_bytes: usize, tls: TlsConfig) -> LoadConfig {
    let post = HttpTarget {
        method: "POST".into(),
        body: Some(Body::Bytes(vec![b'x'; body_bytes])),
        ..HttpTarget::get("/orders", Some(body_bytes as u64))
    };
    let http = HttpTraffic { status: ExpectedStatus::Exact(201), ..HttpTraffic::new(vec![post]) };
    LoadConfig::new(target, ServiceSpec::HTTP).with(|it| {
        it.connections = 4;
        it.set_rate(Some(if body_bytes == LARGE_BYTES { 10.0 } else { 500.0 }));
        it.http = Some(http);
        it.client.tls = Some(tls);
        it.client.host = Some("localhost".into());
        it.phases = Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: 500_000_000, cool_down_ns: 60_000_000_000 };
        it.client.timeout_ns = 60_000_000_000;
    })
}

fn trusting(pem: &str) -> TlsConfig {
    TlsConfig { server_name: "localhost".into(), ca: Some(pem.into()), ..TlsConfig::default() }
}

/// Runs a load; returns the number of responses and the handshakes.
fn run(config: &LoadConfig) -> (u64, TlsResult) {
    let Outcome { report, .. } = muxbench_load::run(config, &mut |_| ()).unwrap();
    assert_eq!(report.errors.total(), 0, "{:?}", report.errors);
    let http = report.http.unwrap();
    assert_eq!(http.statuses.keys().collect::<Vec<_>>(), [&201]);
    assert_eq!(http.first_byte.distribution.count, report.completed);
    (report.completed, report.tls.unwrap())
}

fn error_of(target: SocketAddr, tls: TlsConfig) -> String {
    muxbench_load::run(&config(target, 7, tls), &mut |_| ()).map(drop).unwrap_err().to_string()
}

fn short_lived(config: LoadConfig, requests_per_connection: u32) -> LoadConfig {
    config.with(|it| {
        it.the_loop = match it.pace().cloned() {
            Some(pace) => Loop::Sessions { requests_per_connection, pace },
            None => Loop::ClosedSessions { requests_per_connection, think: Think::default() },
        }
    })
}

fn closed(config: LoadConfig) -> LoadConfig {
    config.with(|it| it.the_loop = Loop::CLOSED)
}

#[test]
fn lasting_connections_post_over_tls() {
    for (version, cipher) in [(&TLS13, "TLS13_"), (&TLS12, "TLS_")] {
        let target = server(&[version], End::Chunked);
        for body_bytes in [7, LARGE_BYTES] {
            let open = config(target, body_bytes, trusting(CERTIFICATE));
            for config in [closed(open.clone()), open] {
                let (completed, tls) = run(&config);
                let handshakes = tls.full.distribution.count + tls.resumed.distribution.count;
                assert!(completed > 0 && handshakes == 4, "{completed} responses, {handshakes} handshakes");
                assert!(tls.cipher.starts_with(cipher), "{}", tls.cipher);
            }
        }
    }
}

#[test]
fn client_reconnects_over_tls() {
    for version in [&TLS13, &TLS12] {
        let mut open = config(server(&[version], End::Third), 7, trusting(CERTIFICATE));
        // On a busy machine a handshake takes long.
        open.phases.measure_ns *= 4;
        for config in [closed(open.clone()), open] {
            let report = muxbench_load::run(&config, &mut |_| ()).unwrap().report;
            assert_eq!(report.errors.total(), 0, "{:?}", report.errors);
            // The first response of each of the four connections verified the server.
            let reconnects = report.closed_by_server;
            assert!(reconnects > 4 && report.completed <= 3 * reconnects + 8, "{reconnects}, {}", report.completed);
        }
    }
}

#[test]
fn connection_that_only_tls_ends_is_opened_again() {
    let open = config(server(&[&TLS13], End::OnlyByTls), 7, trusting(CERTIFICATE));
    for config in [closed(open.clone()), open] {
        let report = muxbench_load::run(&config, &mut |_| ()).unwrap().report;
        // The end may overtake the next request of a connection, which is lost then.
        let (errors, closed) = (report.errors, report.closed_by_server);
        assert!(errors.total() + closed >= 4 && errors.total() == errors.short + errors.reset, "{errors:?} {closed}");
        assert!(errors.total() <= report.trial_requests, "{errors:?} of {}", report.trial_requests);
    }
}

#[test]
fn short_lived_connections_resume_sessions_unless_forbidden() {
    const MEASURE_NS_MAX: u64 = 30_000_000_000;
    let target = server(&[&TLS13], End::Chunked);
    for never_resumes in [false, true] {
        let tls = TlsConfig { never_resumes, ..trusting(CERTIFICATE) };
        for config in [closed(config(target, 7, tls.clone())), config(target, 7, tls)] {
            let mut config = short_lived(config, 2);
            // On a busy machine the window may end before any connection has a successor. Then try a longer window.
            let (full, resumed) = loop {
                let (completed, tls) = run(&config);
                let [full, resumed] = [&tls.full, &tls.resumed].map(|times| times.distribution.count);
                assert!(completed > 0);
                if full + resumed > config.connections.into() {
                    break (full, resumed);
                }
                assert!(config.phases.measure_ns < MEASURE_NS_MAX, "{full} full, {resumed} resumed");
                config.phases.measure_ns *= 2;
            };
            assert_eq!(resumed == 0, never_resumes, "{full} full, {resumed} resumed");
        }
    }
}

#[test]
fn response_without_length_needs_an_announced_end() {
    let lasting = |end| config(server(&[&TLS13], end), 7, trusting(CERTIFICATE));
    let once = |end| short_lived(lasting(end), 1);
    for config in [short_lived(closed(lasting(End::Announced)), 1), once(End::Announced)] {
        assert!(run(&config).0 > 0);
    }
    let error = muxbench_load::run(&once(End::CutOff), &mut |_| ()).map(drop).unwrap_err().to_string();
    assert!(
        error.contains(": short (TLS ended without close_notify") && error.contains("length of the response"),
        "{error}"
    );
}

#[test]
fn untrusted_certificate_is_rejected_unless_insecure() {
    let target = server(&[&TLS13], End::Chunked);
    let other_name = TlsConfig { server_name: "example.org".into(), ..trusting(CERTIFICATE) };
    for wrong in [trusting(OTHER), other_name, TlsConfig { ca: None, ..trusting("") }] {
        let error = error_of(target, wrong);
        assert!(error.contains("--cacert FILE"), "{error}");
    }
    assert!(error_of(target, trusting("no certificate")).contains("--cacert has no certificate"));
    run(&config(target, 7, TlsConfig { is_insecure: true, ..trusting(OTHER) }));
}

#[test]
fn trusted_authority_may_be_the_certificate_of_a_server() {
    let target = server_with(AUTHORITY, &[&TLS13], End::Chunked);
    run(&config(target, 7, trusting(AUTHORITY)));
    let other_name = TlsConfig { server_name: "example.org".into(), ..trusting(AUTHORITY) };
    for wrong in [trusting(CERTIFICATE), other_name] {
        let error = error_of(target, wrong);
        assert!(error.contains("--cacert FILE"), "{error}");
    }
}

#[test]
fn client_shows_its_certificate_to_a_server_that_asks() {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
    let key = || PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_client_cert_verifier(verifier);
    let target = serve(builder.with_single_cert(vec![certificate], key()).unwrap(), End::Chunked);
    let identity = |certificates: &str, key: &str| {
        Some(Identity { certificates: certificates.into(), key: wire::secret::conceal(key) })
    };
    run(&config(target, 7, TlsConfig { identity: identity(CERTIFICATE, KEY), ..trusting(CERTIFICATE) }));
    let without = error_of(target, trusting(CERTIFICATE));
    assert!(without.contains("whether it requires a client certificate"), "{without}");
    for (wrong, reason) in [
        (identity(OTHER, KEY), "name the key of this certificate with --key"),
        (identity("", KEY), "no certificate in PEM format"),
        (identity(CERTIFICATE, "-----BEGIN ENCRYPTED PRIVATE KEY-----"), "the key is encrypted; decrypt it"),
        (identity(CERTIFICATE, "sesame"), "no key in PEM format"),
    ] {
        let error = error_of(target, TlsConfig { identity: wrong, ..trusting(CERTIFICATE) });
        assert!(error.contains(reason) && !error.contains("sesame"), "{error}");
    }
}

/// Starts a server without TLS, which ends each connection after these bytes.
fn plain_server(response: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = (&stream).read(&mut [0; 1024]);
            let _ = (&stream).write_all(response);
        }
    });
    target
}

#[test]
fn server_without_tls_is_named_in_the_error() {
    let target = plain_server(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let error = error_of(target, trusting(CERTIFICATE));
    assert!(error.contains(": tls (") && error.contains("write http://"), "{error}");
}

#[test]
fn error_suggests_https_if_the_server_closes_plain_connections() {
    let mut config = config(plain_server(b""), 7, TlsConfig::default());
    config.client.tls = None;
    let error = muxbench_load::run(&config, &mut |_| ()).map(drop).unwrap_err().to_string();
    assert!(error.contains(": short (") && error.contains("write https://"), "{error}");
}
