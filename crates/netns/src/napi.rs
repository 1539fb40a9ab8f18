//! NAPI of a lab's server: the kernel's processing of an interface's packets in polls, which threads can take over. A veth device
//! has NAPI while GRO is on, and gets the packets of senders without TSO through it.

use std::io;
use std::os::fd::AsRawFd;

use anyhow::Context;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use wire::units::Time;

use super::interface::DEVICE;
use super::namespace::Namespace;
use super::netdev::{Netdev, Suspension};

/// linux/ethtool.h
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGRO: u32 = 0x2c;

/// While interrupts are suspended, these bound the delay of a packet once the server has nothing to do: the kernel looks for packets
/// again after the first time, and turns interrupts on after as many polls without packets. Values of the experiments with which Karsten
/// and Damato proposed the suspension ("Suspend IRQs during application busy periods", Linux 6.13).
const GRO_FLUSH_NS: u64 = 20_000;
const DEFERRED_POLLS: u32 = 100;

/// Gives the server's interface NAPI. `port` is the device of the bridge that sends to this interface.
pub(super) fn enable(server: &Namespace, bridge: &Namespace, port: &str) -> anyhow::Result<()> {
    let set = |namespace: &Namespace, device: &str, feature, value| {
        namespace.within(|| set_feature(device, feature, value)).and_then(|set| set)
    };
    set(bridge, port, ETHTOOL_STSO, 0).context("cannot turn TSO off at the sender of a veth pair")?;
    set(server, DEVICE, ETHTOOL_SGRO, 1).context("cannot turn GRO on at the server's interface")
}

/// Makes the server's interface suspend its interrupts for this time after polls by the server that found packets; 0 for never.
pub(super) fn suspend(server: &Namespace, suspend_ns: u64) -> anyhow::Result<()> {
    let suspension = match suspend_ns {
        0 => Suspension::default(),
        _ => Suspension { suspend_ns, flush_ns: GRO_FLUSH_NS, deferred_polls: DEFERRED_POLLS },
    };
    let set = || -> io::Result<()> {
        let mut netdev = Netdev::open()?;
        for id in netdev.napi_ids(&interface_index()?)? {
            netdev.set_suspension(id, suspension)?;
        }
        Ok(())
    };
    let what = || format!("cannot suspend the interrupts of the server's interface for {}", Time(suspend_ns));
    server.within(set).and_then(|set| set).with_context(what)
}

/// Checks whether this process may make interfaces suspend their interrupts.
pub fn can_suspend() -> Result<(), String> {
    // No NAPI instance has this id: ids below it are those of CPUs.
    let tried = Netdev::open().and_then(|mut netdev| netdev.set_suspension(1, Suspension::default()));
    match tried.map_err(|error| (error.raw_os_error(), error)) {
        Ok(()) | Err((Some(libc::ENOENT), _)) => Ok(()),
        Err((Some(libc::EPERM), error)) => {
            Err(format!("the kernel refuses the suspension of interrupts ({error}); run as root"))
        }
        Err((_, error)) => Err(format!(
            "the kernel has no suspension of interrupts ({error}); it needs Linux 6.13 or later (irq-suspend-timeout); omit `suspend`"
        )),
    }
}

fn interface_index() -> io::Result<[u8; 4]> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(rustix::net::netdevice::name_to_index(&socket, DEVICE)?.to_ne_bytes())
}

fn set_feature(device: &str, feature: u32, value: u32) -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut setting = [feature, value];
    // SAFETY: all fields are numbers or pointers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = setting.as_mut_ptr().cast();
    // SAFETY: the kernel reads the request and the setting, which are valid during the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use process::stop::Stop;

    use super::*;
    use crate::Testbed;
    use crate::network::Network;

    fn suspensions(server: &Namespace) -> Vec<Suspension> {
        server.within(|| Netdev::open().unwrap().suspensions(&interface_index().unwrap()).unwrap()).unwrap()
    }

    fn napi_id(stream: &TcpStream) -> u32 {
        let mut id = 0u32;
        let mut bytes = size_of_val(&id) as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes into `id`.
        let result = unsafe {
            let (level, name) = (libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID);
            libc::getsockopt(stream.as_raw_fd(), level, name, (&raw mut id).cast(), &raw mut bytes)
        };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        id
    }

    #[test]
    fn connections_of_a_lab_with_napi_have_its_id() {
        if let Err(error) = Namespace::new() {
            server::skipped::skipped(&format!("network namespaces: {error}"));
            return;
        }
        for napi in [false, true] {
            let network = Network { napi, ..Network::default() };
            let program = std::path::Path::new("unused");
            let mut testbed = Testbed::start(&network, program, (&[], &[]), 1, &Stop::default()).unwrap();
            let (server, client) = (testbed.server().namespace.clone(), testbed.clients()[0].namespace.clone());
            let address: SocketAddr = "198.18.0.1:7007".parse().unwrap();
            let listener = server.within(|| TcpListener::bind(address)).unwrap().unwrap();
            let mut stream = client.within(|| TcpStream::connect(address)).unwrap().unwrap();
            stream.write_all(&[1]).unwrap();
            let (mut accepted, _) = listener.accept().unwrap();
            accepted.read_exact(&mut [0]).unwrap();
            assert_eq!(napi_id(&accepted) > 0, napi);
            if !napi {
                continue;
            }
            if let Err(reason) = can_suspend() {
                server::skipped::skipped(&reason);
                continue;
            }
            testbed.suspend(20_000_000).unwrap();
            let expected = Suspension { suspend_ns: 20_000_000, flush_ns: 20_000, deferred_polls: 100 };
            assert_eq!(suspensions(&server), [expected]);
            testbed.suspend(0).unwrap();
            assert_eq!(suspensions(&server), [Suspension::default()]);
        }
    }
}
