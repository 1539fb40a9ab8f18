//! A service of datagrams at all of the host's addresses answers from the one that was asked.
#![cfg(target_os = "linux")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use muxbench_server::registry::{MECHANISMS, MODELS};
use muxbench_server::skipped::skipped;
use muxbench_server::{Accept, Architecture, ServeConfig, Server, StageCpus};
use wire::ServiceSpec;
use wire::udp::Udp;

const BYTES: u32 = 64;
const PORTS: u32 = 3;

fn server(architecture: Architecture, listen: IpAddr) -> Server {
    let config = ServeConfig {
        architecture,
        accept: Accept::default_of(architecture.model),
        service: ServiceSpec::Udp { ports: PORTS, request_bytes: BYTES, response_bytes: BYTES },
        work: None,
        listen: (listen, 0).into(),
        cpus: Vec::new(),
        stage_cpus: StageCpus::default(),
        connections_max: 8,
        limits: muxbench_server::Limits::default(),
        read_budget_bytes: muxbench_server::ReadBudget::default(),
        count_syscalls: false,
    };
    Server::start(&config).unwrap_or_else(|error| panic!("{architecture}: {error}"))
}

/// Asks by a socket that is connected, and hears nobody else.
fn is_answered(to: SocketAddr) -> bool {
    let unspecified: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let client = UdpSocket::bind((unspecified, 0)).unwrap();
    client.connect(to).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut response = [0; BYTES as usize];
    // Over loopback a datagram gets there; on a busy machine its answer may take its time.
    (0..20).any(|_| {
        let _ = client.send(&Udp::new(BYTES, BYTES).request());
        client.recv(&mut response).is_ok_and(|count| count == BYTES as usize)
    })
}

#[test]
fn wildcard_server_answers_from_the_address_asked() {
    let mut names = Vec::new();
    for model in MODELS.iter().filter(|model| model.serves_datagrams()) {
        match model.multiplexes() {
            false => names.push(model.name.to_owned()),
            true => names.extend(MECHANISMS.iter().filter_map(|row| match (row.can_run)() {
                Ok(()) => Some(format!("{}/{}", model.name, row.name)),
                Err(reason) => {
                    skipped(&format!("{}: {reason}", row.name));
                    None
                }
            })),
        }
    }
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let mut asked = vec![(IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(other))];
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        asked.push((Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()));
        asked.push((Ipv6Addr::UNSPECIFIED.into(), other.into()));
    } else {
        skipped("there is no IPv6");
    }
    // One that is bound to an address has always answered from it.
    asked.push((other.into(), other.into()));
    let mut silent = Vec::new();
    for name in &names {
        for &(listen, to) in &asked {
            let server = server(name.parse().unwrap(), listen);
            for port in server.ports().unwrap().iter() {
                if !is_answered((to, port).into()) {
                    silent.push(format!("{name} at {listen}: nothing from {to}:{port}"));
                    break;
                }
            }
            server.stop().unwrap();
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}
