//! What a server that was started by hand says of itself, so that a client on another host need not be told: on the TCP port
//! after its own, one line to whoever connects. It asks for nothing, and what it serves is not touched by it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use rustix::event::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};
use server::socket::free_port;
use wire::{Address, Ports, ServiceSpec};

use crate::deadline_stream::DeadlineStream;
use crate::spec::stream::Stream;
use crate::spec::units::Size;

/// What the line begins with: whoever listens there may be another's server.
const GREETING: &str = "muxbench serves ";
/// A description may have so many bytes: a list of ports may be long.
const BYTES_MAX: u64 = 1 << 20;
/// What a client has to have in memory of a request whose size it was only told.
const REQUEST_BYTES_MAX: u32 = 64 << 20;
/// How often two free ports in a row are looked for.
const TRIES: u32 = 64;
/// How long either side waits for the other, in all.
const PATIENCE: Duration = Duration::from_secs(3);
/// When nobody can be let in, for there is no descriptor: somebody will close one.
const REST: Duration = Duration::from_millis(100);

/// What is served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The server's version.
    muxbench: String,
    /// The service and its sizes.
    pub service: ServiceSpec,
    /// All ports, of a service of datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Ports>,
}

impl Description {
    /// Of a server of ours.
    pub fn of(service: ServiceSpec, ports: Option<Ports>) -> Self {
        // Where its files are is nobody else's business.
        let service = match service {
            ServiceSpec::Http { .. } => ServiceSpec::Http { folder: None },
            service => service,
        };
        Self { muxbench: env!("CARGO_PKG_VERSION").to_owned(), service, ports }
    }

    /// What is said of it, a line.
    ///
    /// # Errors
    /// None that is known of: it can be written as JSON.
    pub fn line(&self) -> serde_json::Result<String> {
        Ok(format!("{GREETING}{}\n", serde_json::to_string(self)?))
    }

    /// What such a line says; `None` if it is another's.
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line.strip_prefix(GREETING.as_bytes())?).ok()
    }

    /// # Errors
    /// When a client would take more memory for a request than it takes at a server's word.
    pub fn check_sizes(&self) -> anyhow::Result<()> {
        let request_bytes = match (self.service.fixed(), self.service.stream()) {
            (Some((request_bytes, _)), _) => request_bytes,
            (_, Some(stream)) => stream.packet_bytes.max(stream.ack_bytes),
            _ => 0,
        };
        if request_bytes > REQUEST_BYTES_MAX {
            bail!(
                "the server says that it serves {}, and more than {} is not sent at its word: if that is meant, say the sizes \
                 here too (--request, --response; --packet, --ack)",
                words(&self.service),
                Size(REQUEST_BYTES_MAX)
            );
        }
        Ok(())
    }

    /// # Errors
    /// When a client would ask for something else than is served.
    pub fn check(&self, asked: &ServiceSpec) -> anyhow::Result<()> {
        let is_same = match (&self.service, asked) {
            // What records it has, and which paths, is for the client to know.
            (ServiceSpec::Kv { .. }, ServiceSpec::Kv { .. }) | (ServiceSpec::Http { .. }, ServiceSpec::Http { .. }) => {
                true
            }
            (served, asked) => served == asked,
        };
        if !is_same {
            bail!(
                "the server (muxbench {}) serves {}, and is asked for {}: leave those flags out to take what it serves, or \
                 start it with the same",
                self.muxbench,
                words(&self.service),
                words(asked)
            );
        }
        Ok(())
    }
}

/// A service and its sizes, for the reader.
fn words(service: &ServiceSpec) -> String {
    match (service.fixed(), service.stream(), service.ports()) {
        (Some((request, response)), _, Some(ports)) => {
            format!("udp: {} -> {}, {ports} ports", Size(request), Size(response))
        }
        (Some((request, response)), ..) => format!("fixed: {} -> {}", Size(request), Size(response)),
        (_, Some(stream), _) => Stream::from(stream).to_string(),
        _ => service.name().to_owned(),
    }
}

/// Where a server at an address describes itself.
fn place(mut server: SocketAddr) -> Option<SocketAddr> {
    // The rest of it stays: a link-local address is of an interface.
    server.set_port(server.port().checked_add(1)?);
    Some(server)
}

/// What a user is told who named a server's address alone, and is told nothing there.
pub fn nobody_says(server: SocketAddr, asked: &ServiceSpec) -> String {
    let asked = words(asked);
    match place(server) {
        Some(place) => format!(
            "nobody says at {place} what is served; asking for {asked}: open that port, or give --service, --request and \
             --response"
        ),
        None => format!("nobody can say what is served; asking for {asked}: give --service, --request and --response"),
    }
}

/// An address that is free, and a listener on the port after it, where any port will do; `None` where another has the next one
/// again and again, or the address is none of ours.
pub fn free_pair(any: SocketAddr) -> Option<(SocketAddr, TcpListener)> {
    free_pair_by(any, TcpListener::bind)
}

fn free_pair_by(
    any: SocketAddr,
    bind: impl Fn(SocketAddr) -> io::Result<TcpListener>,
) -> Option<(SocketAddr, TcpListener)> {
    (0..TRIES).find_map(|_| {
        let address = free_port(any).ok()?;
        Some((address, bind(place(address)?).ok()?))
    })
}

/// A listener where a server describes itself; at a Unix socket nobody can ask.
///
/// # Errors
/// Why nobody can: another has that port.
pub fn listen(server: &Address) -> Result<Option<TcpListener>, String> {
    let Some(address) = server.ip() else { return Ok(None) };
    let place = place(address).ok_or_else(|| format!("there is no port after {}", address.port()))?;
    TcpListener::bind(place).map(Some).map_err(|error| format!("{place}: {error}"))
}

/// Has a thread tell everybody who asks, as long as this process lives.
///
/// # Errors
/// When there is no thread.
pub fn offer(listener: TcpListener, description: &Description) -> Result<(), String> {
    let line = description.line().map_err(|error| error.to_string())?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let tell = move || tell(std::iter::repeat_with(|| next_of(&listener)), &line);
    thread::Builder::new().name("description".into()).spawn(tell).map(drop).map_err(|error| error.to_string())
}

/// Who comes next to a listener that does not block. An accept that waits has a descriptor meanwhile, which would be the one that
/// the server keeps in reserve once it has no other: so there is one only when somebody has come.
fn next_of(listener: &TcpListener) -> io::Result<TcpStream> {
    rustix::event::poll(&mut [PollFd::new(listener, PollFlags::IN)], None)?;
    let (visitor, _) = listener.accept()?;
    // Not everywhere it is unless it is told.
    visitor.set_nonblocking(false)?;
    Ok(visitor)
}

/// Tells it to each who comes, one after the other.
fn tell(visitors: impl Iterator<Item = io::Result<TcpStream>>, line: &str) {
    for visitor in visitors {
        match visitor {
            // One who does not listen has not to be told.
            Ok(visitor) => drop(DeadlineStream::within(&visitor, PATIENCE).write_all(line.as_bytes())),
            Err(_) => thread::sleep(REST),
        }
    }
}

/// What a server says that it serves; `None` if it does not say, as any but ours.
pub fn ask(server: SocketAddr) -> Option<Description> {
    let stream = TcpStream::connect_timeout(&place(server)?, PATIENCE).ok()?;
    let mut said = Vec::new();
    // What came before an error may be another server's greeting, and is no description then.
    let _ = DeadlineStream::within(&stream, PATIENCE).take(BYTES_MAX).read_to_end(&mut said);
    Description::read(&said)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const SERVED: ServiceSpec = ServiceSpec::Fixed { request_bytes: 128, response_bytes: 10 << 10 };

    const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn a_port_is_looked_for_until_the_next_is_free_too() {
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
        assert!(free_pair("192.0.2.1:0".parse().unwrap()).is_none(), "that address is nobody's");
    }

    #[test]
    fn a_port_that_is_another_s_is_told_by_its_number() {
        let (server, listener) = free_pair(ANY).unwrap();
        let told = listen(&server.into()).unwrap_err();
        assert!(told.starts_with(&listener.local_addr().unwrap().to_string()), "{told}");
        assert!(listen(&"127.0.0.1:65535".parse().unwrap()).unwrap_err().contains("no port after 65535"));
        assert!(listen(&Address::Unix("x".into())).unwrap().is_none());
    }

    #[test]
    fn who_asks_is_told() {
        let (server, listener) = free_pair(ANY).unwrap();
        offer(listener, &Description::of(SERVED, None)).unwrap();
        // On a busy machine it may not be told in time.
        let asked = || (0..10).find_map(|_| ask(server));
        let (once, again) = (asked(), asked());
        assert_eq!(once, Some(Description::of(SERVED, None)));
        assert_eq!(again, once);
    }

    #[test]
    fn somebody_else_s_server_says_nothing_of_this() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port() - 1;
        let greet = thread::spawn(move || listener.accept().unwrap().0.write_all(b"220 mail.example\r\n"));
        assert_eq!(ask(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)), None);
        greet.join().unwrap().unwrap();
        assert_eq!(ask(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)), None, "and nobody listens now");
    }

    #[test]
    fn a_server_that_goes_on_and_on_is_not_listened_to() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port() - 1;
        let trickle = thread::spawn(move || {
            let mut visitor = listener.accept().unwrap().0;
            while visitor.write_all(b"m").is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        });
        assert_eq!(ask(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)), None);
        trickle.join().unwrap();
    }

    #[test]
    fn who_comes_after_descriptors_ran_out_is_told() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut visitor = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let out = || Err(rustix::io::Errno::MFILE.into());
        tell([out(), out(), listener.accept().map(|(visitor, _)| visitor), out()].into_iter(), "told\n");
        let mut said = String::new();
        visitor.read_to_string(&mut said).unwrap();
        assert_eq!(said, "told\n");
    }

    #[test]
    fn no_more_memory_is_taken_than_is_sane_at_a_server_s_word() {
        let of = |service| Description::of(service, None).check_sizes().map_err(|error| error.to_string());
        let fixed = |request_bytes| ServiceSpec::Fixed { request_bytes, response_bytes: u32::MAX };
        assert_eq!(of(fixed(64 << 20)), Ok(()));
        let error = of(fixed(u32::MAX)).unwrap_err();
        assert!(
            error.contains("4294967295B -> ") && error.contains("more than 64MiB is not sent at its word"),
            "{error}"
        );
        let stream = wire::stream::Stream { packet_bytes: 65 << 20, ..Default::default() };
        assert!(of(ServiceSpec::Stream(stream)).unwrap_err().contains("--packet"));
        assert_eq!(of(ServiceSpec::Http { folder: None }), Ok(()));
    }

    #[test]
    fn it_is_asked_on_the_same_interface() {
        let server: SocketAddr = "[fe80::1%7]:7007".parse().unwrap();
        assert_eq!(place(server).unwrap().to_string(), "[fe80::1%7]:7008");
        let last = "127.0.0.1:65535".parse().unwrap();
        assert_eq!(place(last), None);
        assert!(nobody_says(last, &SERVED).contains("asking for fixed: 128B -> 10KiB"));
        let told = nobody_says(server, &SERVED);
        assert!(told.starts_with("nobody says at [fe80::1%7]:7008") && told.contains("give --service"), "{told}");
    }

    #[test]
    fn what_differs_is_told() {
        let description = Description::of(SERVED, None);
        description.check(&SERVED).unwrap();
        let error = description.check(&ServiceSpec::Fixed { request_bytes: 1, response_bytes: 10 << 10 }).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("fixed: 128B -> 10KiB, and is asked for fixed: 1B -> 10KiB"), "{error}");
        let udp = ServiceSpec::Udp { ports: 3, request_bytes: 8, response_bytes: 8 };
        assert!(description.check(&udp).unwrap_err().to_string().contains("udp: 8B -> 8B, 3 ports"));
        let http = Description::of(ServiceSpec::Http { folder: Some("/secret".into()) }, None);
        assert!(!serde_json::to_string(&http).unwrap().contains("secret"));
    }
}
