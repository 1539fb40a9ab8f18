//! A server's description of its service for clients on other hosts. `serve` sends it as one line to each client that
//! connects to the TCP port after that of the service. The protocol of the service itself stays the same.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::ensure;
use rustix::event::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};
use server::socket::free_port;
use wire::{Address, Ports, ServiceSpec};

use crate::deadline_stream::DeadlineStream;
use crate::spec::stream::Stream;
use crate::spec::units::Size;

/// The prefix of the line. It distinguishes a description from the greeting of another program on that port.
const GREETING: &str = "muxbench serves ";
/// The maximum bytes of a description. A list of ports may be long.
const BYTES_MAX: u64 = 1 << 20;
/// The maximum bytes of a request that a description alone may demand. The user must set a larger size explicitly.
const REQUEST_BYTES_MAX: u32 = 64 << 20;
/// The number of attempts to find two consecutive free ports.
const ATTEMPTS: u32 = 64;
/// The time limit to connect, and the time limit to send or to receive a description.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The pause after a failed accept. If no descriptor was free, one may become free in this time.
const PAUSE: Duration = Duration::from_millis(100);

/// The description of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The version of the server.
    muxbench: String,
    /// The service and its sizes.
    pub service: ServiceSpec,
    /// All ports of a datagram service. `None` for other services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Ports>,
    /// Whether the server uses TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
}

impl Description {
    /// Describes a built-in server without TLS.
    pub fn of(service: ServiceSpec, ports: Option<Ports>) -> Self {
        // Hide the folder from clients.
        let service = match service {
            ServiceSpec::Http { .. } => ServiceSpec::Http { folder: None },
            service => service,
        };
        Self { muxbench: env!("CARGO_PKG_VERSION").to_owned(), service, ports, tls: false }
    }

    /// Returns the description as a line.
    pub fn line(&self) -> serde_json::Result<String> {
        Ok(format!("{GREETING}{}\n", serde_json::to_string(self)?))
    }

    /// Parses a line. `None` if another program sent it.
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line.strip_prefix(GREETING.as_bytes())?).ok()
    }

    /// Fails if the advertised size of a request exceeds `REQUEST_BYTES_MAX`.
    pub fn check_sizes(&self) -> anyhow::Result<()> {
        let request_bytes = match (self.service.fixed(), self.service.stream()) {
            (Some((request_bytes, _)), _) => request_bytes,
            (_, Some(stream)) => stream.packet_bytes.max(stream.ack_bytes),
            _ => 0,
        };
        ensure!(
            request_bytes <= REQUEST_BYTES_MAX,
            "the server advertises {}, but requests above {} need explicit sizes: set --request and --response, or --packet and \
             --ack",
            format(&self.service),
            Size(REQUEST_BYTES_MAX)
        );
        Ok(())
    }

    /// Fails if only one side uses TLS.
    pub fn check_tls(&self, has_tls: bool) -> anyhow::Result<()> {
        ensure!(!self.tls || has_tls, "the server uses TLS: add --tls with --cacert FILE, or --insecure");
        ensure!(self.tls || !has_tls, "the server does not use TLS: omit --tls, or start the server with it");
        Ok(())
    }

    /// Fails if the server's service differs from the client's.
    pub fn check(&self, requested: &ServiceSpec) -> anyhow::Result<()> {
        // For key-value stores and `http`, ignore the parameters: the client chooses the records and the paths.
        let is_same = self.service.name() == requested.name()
            && (requested.has_records() || matches!(requested, ServiceSpec::Http { .. }));
        ensure!(
            is_same || self.service == *requested,
            "the server (muxbench {}) serves {}, but the flags request {}: omit these flags, or start the server with them",
            self.muxbench,
            format(&self.service),
            format(requested)
        );
        Ok(())
    }
}

/// Formats a service with its sizes for messages.
fn format(service: &ServiceSpec) -> String {
    match (service.fixed(), service.stream(), service.ports()) {
        (Some((request, response)), _, Some(ports)) => {
            format!("udp: {} -> {}, {ports} ports", Size(request), Size(response))
        }
        (Some((request, response)), ..) => format!("fixed: {} -> {}", Size(request), Size(response)),
        (_, Some(stream), _) => Stream::from(stream).to_string(),
        _ => service.name().to_owned(),
    }
}

/// Returns the address of a server's description.
fn place(mut server: SocketAddr) -> Option<SocketAddr> {
    // Keep the rest of the address: a link-local one includes its interface.
    server.set_port(server.port().checked_add(1)?);
    Some(server)
}

/// Returns a note for a user who named only the address of a server without a description.
pub fn note_without_description(server: SocketAddr, requested: &ServiceSpec) -> String {
    let place = place(server).map_or("no port".to_owned(), |place| place.to_string());
    let requested = format(requested);
    format!(
        "the server does not advertise its service at {place}; requesting {requested}: open that port, or set --service, --request \
         and --response"
    )
}

/// Finds a free port on the host of `any`, and binds a listener to the next port. `None` if the next port was in use at all
/// attempts, or if the address is not local.
pub fn free_pair(any: SocketAddr) -> Option<(SocketAddr, TcpListener)> {
    free_pair_by(any, TcpListener::bind)
}

fn free_pair_by(
    any: SocketAddr,
    bind: impl Fn(SocketAddr) -> io::Result<TcpListener>,
) -> Option<(SocketAddr, TcpListener)> {
    (0..ATTEMPTS).find_map(|_| {
        let address = free_port(any).ok()?;
        Some((address, bind(place(address)?).ok()?))
    })
}

/// Returns a listener for the description of `server`. `None` for a Unix socket, which has no next port. Fails if the
/// port is in use, or does not exist.
pub fn listen(server: &Address) -> Result<Option<TcpListener>, String> {
    let Some(address) = server.ip() else { return Ok(None) };
    let place = place(address).ok_or_else(|| format!("no port after {}", address.port()))?;
    TcpListener::bind(place).map(Some).map_err(|error| format!("{place}: {error}"))
}

/// Starts a thread that sends the description to all clients, for the rest of this process.
pub fn offer(listener: TcpListener, description: &Description) -> Result<(), String> {
    let line = description.line().map_err(|error| error.to_string())?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let send = move || send(std::iter::repeat_with(|| next_of(&listener)), &line);
    thread::Builder::new().name("description".into()).spawn(send).map(drop).map_err(|error| error.to_string())
}

/// Accepts the next connection of a non-blocking listener. Poll first: a blocking accept would reserve a descriptor,
/// perhaps the one that the server keeps as a spare.
fn next_of(listener: &TcpListener) -> io::Result<TcpStream> {
    rustix::event::poll(&mut [PollFd::new(listener, PollFlags::IN)], None)?;
    let (client, _) = listener.accept()?;
    // On some systems, an accepted socket inherits the non-blocking mode.
    client.set_nonblocking(false)?;
    Ok(client)
}

/// Sends the line to each client in turn.
fn send(clients: impl Iterator<Item = io::Result<TcpStream>>, line: &str) {
    for client in clients {
        match client {
            // Ignore errors of the client's connection.
            Ok(client) => drop(DeadlineStream::within(&client, TIMEOUT).write_all(line.as_bytes())),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

/// Asks a server for its description. `None` if it has none, as with an external server.
pub fn ask(server: SocketAddr) -> Option<Description> {
    let stream = TcpStream::connect_timeout(&place(server)?, TIMEOUT).ok()?;
    let mut line = Vec::new();
    // Ignore an error: an incomplete description, or the greeting of another program, does not parse.
    let _ = DeadlineStream::within(&stream, TIMEOUT).take(BYTES_MAX).read_to_end(&mut line);
    Description::read(&line)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const SERVED: ServiceSpec = ServiceSpec::Fixed { request_bytes: 128, response_bytes: 10 << 10 };

    const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn free_pair_retries_until_the_next_port_is_free() {
        let taken = Cell::new(0);
        let (server, listener) = free_pair_by(ANY, |address| {
            if taken.get() < 3 {
                taken.set(taken.get() + 1);
                return Err(io::ErrorKind::AddrInUse.into());
            }
            TcpListener::bind(address)
        })
        .unwrap();
        assert_eq!((taken.get(), listener.local_addr().unwrap().port()), (3, server.port() + 1));
        assert!(free_pair_by(ANY, |_| Err(io::ErrorKind::AddrInUse.into())).is_none());
        assert!(free_pair("192.0.2.1:0".parse().unwrap()).is_none(), "the address is not local");
    }

    #[test]
    fn port_in_use_is_named_in_the_error() {
        let (server, listener) = free_pair(ANY).unwrap();
        let error = listen(&server.into()).unwrap_err();
        assert!(error.starts_with(&listener.local_addr().unwrap().to_string()), "{error}");
        assert!(listen(&"127.0.0.1:65535".parse().unwrap()).unwrap_err().contains("no port after 65535"));
        assert!(listen(&Address::Unix("x".into())).unwrap().is_none());
    }

    #[test]
    fn client_gets_the_description() {
        let (server, listener) = free_pair(ANY).unwrap();
        offer(listener, &Description::of(SERVED, None)).unwrap();
        // Retry: on a busy machine, a description may miss the deadline.
        let ask = || (0..10).find_map(|_| super::ask(server));
        let (once, again) = (ask(), ask());
        assert_eq!(once, Some(Description::of(SERVED, None)));
        assert_eq!(again, once);
    }

    #[test]
    fn other_program_has_no_description() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port() - 1;
        let greet = thread::spawn(move || listener.accept().unwrap().0.write_all(b"220 mail.example\r\n"));
        assert_eq!(ask(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)), None);
        greet.join().unwrap().unwrap();
        assert_eq!(ask(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)), None, "a closed port has no description");
    }

    #[test]
    fn slow_description_times_out() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port() - 1;
        let trickle = thread::spawn(move || {
            let mut client = listener.accept().unwrap().0;
            while client.write_all(b"m").is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        });
        assert_eq!(ask(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)), None);
        trickle.join().unwrap();
    }

    #[test]
    fn failed_accept_does_not_stop_descriptions() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let failed = || Err(rustix::io::Errno::MFILE.into());
        send([failed(), failed(), listener.accept().map(|(client, _)| client), failed()].into_iter(), "line\n");
        let mut received = String::new();
        client.read_to_string(&mut received).unwrap();
        assert_eq!(received, "line\n");
    }

    #[test]
    fn large_advertised_requests_are_rejected() {
        let of = |service| Description::of(service, None).check_sizes().map_err(|error| error.to_string());
        let fixed = |request_bytes| ServiceSpec::Fixed { request_bytes, response_bytes: u32::MAX };
        assert_eq!(of(fixed(64 << 20)), Ok(()));
        let error = of(fixed(u32::MAX)).unwrap_err();
        assert!(
            error.contains("4294967295B -> ") && error.contains("requests above 64MiB need explicit sizes"),
            "{error}"
        );
        let stream = wire::stream::Stream { packet_bytes: 65 << 20, ..Default::default() };
        assert!(of(ServiceSpec::Stream(stream)).unwrap_err().contains("--packet"));
        assert_eq!(of(ServiceSpec::Http { folder: None }), Ok(()));
    }

    #[test]
    fn description_is_on_the_same_interface() {
        let server: SocketAddr = "[fe80::1%7]:7007".parse().unwrap();
        assert_eq!(place(server).unwrap().to_string(), "[fe80::1%7]:7008");
        let last = "127.0.0.1:65535".parse().unwrap();
        assert_eq!(place(last), None);
        assert!(note_without_description(last, &SERVED).contains("at no port; requesting fixed: 128B -> 10KiB"));
        let note = note_without_description(server, &SERVED);
        assert!(note.contains("at [fe80::1%7]:7008") && note.contains("set --service"), "{note}");
    }

    #[test]
    fn different_service_is_rejected() {
        let description = Description::of(SERVED, None);
        description.check(&SERVED).unwrap();
        let error = description.check(&ServiceSpec::Fixed { request_bytes: 1, response_bytes: 10 << 10 }).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("fixed: 128B -> 10KiB, but the flags request fixed: 1B -> 10KiB"), "{error}");
        let udp = ServiceSpec::Udp { ports: 3, request_bytes: 8, response_bytes: 8 };
        assert!(description.check(&udp).unwrap_err().to_string().contains("udp: 8B -> 8B, 3 ports"));
        let encrypted = Description { tls: true, ..description.clone() };
        assert!(description.check_tls(false).is_ok() && encrypted.check_tls(true).is_ok());
        assert!(encrypted.check_tls(false).unwrap_err().to_string().contains("add --tls"));
        assert!(description.check_tls(true).unwrap_err().to_string().contains("omit --tls"));
        let http = Description::of(ServiceSpec::Http { folder: Some("/secret".into()) }, None);
        assert!(!serde_json::to_string(&http).unwrap().contains("secret"));
    }
}
