//! The netlink family `netdev`: the NAPI instances of interfaces and their settings.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

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

/// How a NAPI instance suspends the interrupts of its interface; zeros for not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Suspension {
    /// The time after a busy poll that found packets.
    pub(super) suspend_ns: u64,
    /// The time after which the kernel polls while interrupts are off.
    pub(super) flush_ns: u64,
    /// The polls without packets after which interrupts are on again.
    pub(super) deferred_polls: u32,
}

/// A connection to the kernel's netlink family `netdev`.
pub(super) struct Netdev {
    socket: OwnedFd,
    family: u16,
}

/// An attribute of a message: its type and its contents.
type Attribute<'a> = (u16, &'a [u8]);

impl Netdev {
    pub(super) fn open() -> io::Result<Self> {
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
    pub(super) fn napi_ids(&mut self, interface: &[u8]) -> io::Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.call(NETDEV_CMD_NAPI_GET, NLM_F_DUMP, &[(NETDEV_A_NAPI_IFINDEX, interface)], |(kind, contents)| {
            if kind == NETDEV_A_NAPI_ID {
                ids.extend(contents.first_chunk().copied().map(u32::from_ne_bytes));
            }
        })?;
        Ok(ids)
    }

    pub(super) fn set_suspension(&mut self, id: u32, suspension: Suspension) -> io::Result<()> {
        let Suspension { suspend_ns, flush_ns, deferred_polls } = suspension;
        let attributes = [
            (NETDEV_A_NAPI_ID, &id.to_ne_bytes()[..]),
            (NETDEV_A_NAPI_DEFER_HARD_IRQS, &deferred_polls.to_ne_bytes()),
            (NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT, &flush_ns.to_ne_bytes()),
            (NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT, &suspend_ns.to_ne_bytes()),
        ];
        self.call(NETDEV_CMD_NAPI_SET, NLM_F_ACK, &attributes, |_| {})
    }

    /// The settings of an interface's NAPI instances.
    #[cfg(test)]
    pub(super) fn suspensions(&mut self, interface: &[u8]) -> io::Result<Vec<Suspension>> {
        let mut found = Vec::new();
        self.call(NETDEV_CMD_NAPI_GET, NLM_F_DUMP, &[(NETDEV_A_NAPI_IFINDEX, interface)], |(kind, contents)| {
            let number = contents.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            if kind == NETDEV_A_NAPI_ID {
                found.push(Suspension::default());
            }
            match (found.last_mut(), kind) {
                (Some(last), NETDEV_A_NAPI_DEFER_HARD_IRQS) => last.deferred_polls = number as u32,
                (Some(last), NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT) => last.flush_ns = number,
                (Some(last), NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT) => last.suspend_ns = number,
                _ => {}
            }
        })?;
        Ok(found)
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
