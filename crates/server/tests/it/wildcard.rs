//! A datagram service on a wildcard address sends each response from the address that received the request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use muxbench_server::registry::{MECHANISMS, MODELS};
use muxbench_server::skipped::skipped;
use muxbench_server::{Architecture, DatagramOptions, ServeConfig, Server};
use wire::ServiceSpec;
use wire::udp::Udp;

use crate::config;

const BYTES: u32 = 64;
const PORTS: u32 = 3;

fn server(architecture: Architecture, datagrams: DatagramOptions, listen: IpAddr) -> Server {
    let service = ServiceSpec::Udp { ports: PORTS, request_bytes: BYTES, response_bytes: BYTES };
    let config = ServeConfig { listen: (listen, 0).into(), datagrams, ..config(architecture, service) };
    Server::start(&config).unwrap_or_else(|error| panic!("{architecture}: {error}"))
}

/// Whether a response comes from `to`. A connected socket receives from no other address.
fn responds(to: SocketAddr) -> bool {
    let unspecified: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let client = UdpSocket::bind((unspecified, 0)).unwrap();
    client.connect(to).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut response = [0; BYTES as usize];
    // Loopback loses no datagram, but on a busy machine the response may be late.
    (0..20).any(|_| {
        let _ = client.send(&Udp::new(BYTES, BYTES).request());
        client.recv(&mut response).is_ok_and(|count| count == BYTES as usize)
    })
}

pub fn wildcard_server_responds_from_requested_address() {
    let mut names = Vec::new();
    for model in MODELS.iter().filter(|model| model.serves_datagrams()) {
        match model.multiplexes() {
            false => names.push(model.name.to_owned()),
            true => {
                for row in MECHANISMS.iter().filter(|row| row.serves_datagrams) {
                    match (row.can_run)() {
                        Ok(()) => names.push(format!("{}/{}", model.name, row.name)),
                        Err(reason) => skipped(&format!("{}: {reason}", row.name)),
                    }
                }
            }
        }
    }
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let mut targets = vec![(IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(other))];
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        targets.push((Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()));
        targets.push((Ipv6Addr::UNSPECIFIED.into(), other.into()));
    } else {
        skipped("IPv6 on loopback");
    }
    // A server that is bound to one address, for comparison.
    targets.push((other.into(), other.into()));
    let mut silent = Vec::new();
    let single = DatagramOptions::default();
    let batches = [(32, false), (4, true)].map(|(batch, offload)| DatagramOptions { batch, offload });
    let batched = ["poll", "mt", "mp"].into_iter().flat_map(|name| batches.map(|it| (name.to_owned(), it)));
    for (name, datagrams) in names.into_iter().map(|name| (name, single)).chain(batched) {
        for &(listen, to) in &targets {
            let server = server(name.parse().unwrap(), datagrams, listen);
            for port in server.ports().unwrap().iter() {
                if !responds((to, port).into()) {
                    silent.push(format!("{name} {datagrams:?} on {listen}: no response from {to}:{port}"));
                    break;
                }
            }
            server.stop().unwrap();
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}
