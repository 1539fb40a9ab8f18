//! NAPI of a lab's server: the kernel's processing of an interface's packets in polls, which threads can take over. A veth device
//! has NAPI while GRO is on, and gets the packets of senders without TSO through it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::Context;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

use super::interface::DEVICE;
use super::namespace::Namespace;
use crate::spec::units::Time;

/// linux/ethtool.h
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGRO: u32 = 0x2c;

/// linux/genetlink.h and linux/netdev.h
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_DEFER_HARD_IRQS: u16 = 5;
const NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT: u16 = 6;
const NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT: u16 = 7;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// The lengths of a message's headers (nlmsghdr and genlmsghdr).
const HEADER_BYTES: usize = 16;
const HEADERS_BYTES: usize = HEADER_BYTES + 4;
const ANSWER_BYTES: usize = 1 << 14;

/// While interrupts are suspended, these bound the delay of a packet once the server has nothing to do: the kernel looks for packets
/// again after the first time, and turns interrupts on after as many polls without packets. Values of the kernel's documentation
/// (Documentation/networking/napi.rst) and of the patches by Karsten and Damato (2024).
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
    let set = || -> io::Result<()> {
        let mut netdev = Netdev::open()?;
        for id in netdev.napi_ids(&interface_index()?)? {
            netdev.set_suspension(id, suspend_ns)?;
        }
        Ok(())
    };
    server.within(set).and_then(|set| set).with_context(|| {
        format!(
            "cannot suspend the interrupts of the lab's interface for {}: this needs Linux 6.13 or later (irq-suspend-timeout); omit \
             `suspend`",
            Time(suspend_ns)
        )
    })
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

/// A connection to the kernel's netlink family `netdev`.
struct Netdev {
    socket: OwnedFd,
    family: u16,
}

/// An attribute of a message: its type and its contents.
type Attribute<'a> = (u16, &'a [u8]);

impl Netdev {
    fn open() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, Some(netlink::GENERIC))?;
        let mut netdev = Self { socket, family: GENL_ID_CTRL };
        let mut found = None;
        netdev.call(CTRL_CMD_GETFAMILY, NLM_F_ACK, &[(CTRL_ATTR_FAMILY_NAME, b"netdev\0")], |(kind, contents)| {
            if kind == CTRL_ATTR_FAMILY_ID {
                found = contents.first_chunk().copied().map(u16::from_ne_bytes);
            }
        })?;
        netdev.family = found.ok_or(io::ErrorKind::Unsupported)?;
        Ok(netdev)
    }

    /// The ids of an interface's NAPI instances.
    fn napi_ids(&mut self, interface: &[u8]) -> io::Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.call(NETDEV_CMD_NAPI_GET, NLM_F_DUMP, &[(NETDEV_A_NAPI_IFINDEX, interface)], |(kind, contents)| {
            if kind == NETDEV_A_NAPI_ID {
                ids.extend(contents.first_chunk().copied().map(u32::from_ne_bytes));
            }
        })?;
        Ok(ids)
    }

    fn set_suspension(&mut self, id: u32, suspend_ns: u64) -> io::Result<()> {
        let (flush_ns, polls) = if suspend_ns > 0 { (GRO_FLUSH_NS, DEFERRED_POLLS) } else { (0, 0) };
        let attributes = [
            (NETDEV_A_NAPI_ID, &id.to_ne_bytes()[..]),
            (NETDEV_A_NAPI_DEFER_HARD_IRQS, &polls.to_ne_bytes()),
            (NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT, &flush_ns.to_ne_bytes()),
            (NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT, &suspend_ns.to_ne_bytes()),
        ];
        self.call(NETDEV_CMD_NAPI_SET, NLM_F_ACK, &attributes, |_| {})
    }

    /// Sends a request, and passes the attributes of all answers.
    fn call(
        &mut self,
        command: u8,
        flags: u16,
        attributes: &[Attribute<'_>],
        mut each: impl FnMut(Attribute<'_>),
    ) -> io::Result<()> {
        send(&self.socket, &message(self.family, NLM_F_REQUEST | flags, command, attributes), SendFlags::empty())?;
        let mut answer = vec![0; ANSWER_BYTES];
        loop {
            let (length, _) = recv(&self.socket, &mut *answer, RecvFlags::empty())?;
            let mut rest = &answer[..length];
            while let Some((kind, contents, next)) = first_message(rest) {
                rest = next;
                match kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => {
                        let code = contents.first_chunk().copied().map_or(0, i32::from_ne_bytes);
                        return if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) };
                    }
                    _ => attributes_of(contents.get(HEADERS_BYTES - HEADER_BYTES..).unwrap_or_default(), &mut each),
                }
            }
        }
    }
}

fn message(family: u16, flags: u16, command: u8, attributes: &[Attribute<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; HEADERS_BYTES];
    bytes[4..6].copy_from_slice(&family.to_ne_bytes());
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    (bytes[HEADER_BYTES], bytes[HEADER_BYTES + 1]) = (command, 1);
    for (kind, contents) in attributes {
        bytes.extend((4 + contents.len() as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*contents);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes
}

/// The type of the first message, its contents, and the messages after it.
fn first_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, bytes.get(HEADER_BYTES..length)?, next))
}

fn attributes_of(mut bytes: &[u8], each: &mut impl FnMut(Attribute<'_>)) {
    while let (Some(length), Some(kind)) = (bytes.first_chunk(), bytes.get(2..).and_then(|it| it.first_chunk())) {
        let length = usize::from(u16::from_ne_bytes(*length));
        let Some(contents) = bytes.get(4..length) else { return };
        each((u16::from_ne_bytes(*kind), contents));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::*;
    use crate::netns::Testbed;
    use crate::process::stop::Stop;
    use crate::spec::network::Network;

    /// The settings of a NAPI instance in the order of the attributes' types.
    fn settings(server: &Namespace) -> Vec<u64> {
        let read = || {
            let mut found = Vec::new();
            let mut netdev = Netdev::open().unwrap();
            let interface = interface_index().unwrap();
            let wanted = NETDEV_A_NAPI_DEFER_HARD_IRQS..=NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT;
            let each = |(kind, contents): Attribute<'_>| {
                if wanted.contains(&kind) {
                    let number = contents.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
                    found.push((kind, number));
                }
            };
            netdev.call(NETDEV_CMD_NAPI_GET, NLM_F_DUMP, &[(NETDEV_A_NAPI_IFINDEX, &interface)], each).unwrap();
            found.sort_unstable();
            found.into_iter().map(|(_, number)| number).collect()
        };
        server.within(read).unwrap()
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
            let testbed = Testbed::start(&network, program, (&[], &[]), 1, &Stop::default()).unwrap();
            let (server, client) = (&testbed.server().namespace, &testbed.clients()[0].namespace);
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
            if let Err(error) = testbed.suspend(20_000_000) {
                server::skipped::skipped(&format!("{error:#}"));
                continue;
            }
            assert_eq!(settings(server), [100, 20_000, 20_000_000]);
            testbed.suspend(0).unwrap();
            assert_eq!(settings(server), [0, 0, 0]);
        }
    }
}
