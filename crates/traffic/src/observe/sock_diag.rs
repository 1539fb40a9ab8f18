//! The kernel's list of TCP sockets with their counters, through netlink's `sock_diag`.

use std::io;
use std::os::fd::OwnedFd;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_CLOSE, TCP_CLOSE_WAIT};
use netlink_packet_sock_diag::inet::nlas::{Nla, TcpInfo};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netlink, recv, send, socket_with, sockopt,
};

use super::tracker::SocketState;
use super::traffic::Volume;

/// The bytes of one answer. The kernel splits longer lists.
const ANSWER_BYTES: usize = 1 << 16;
/// The buffer of messages about ended connections. Without privileges, the kernel grants less.
const ENDED_BYTES: usize = 8 << 20;
/// The groups SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY, as a mask.
const ENDED_GROUPS: u32 = 0b101;

/// A socket that listens for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The local port.
    pub port: u16,
    /// The number that also identifies the socket in the `fd` folders of `/proc`.
    pub inode: u32,
}

/// A connection to the kernel.
#[derive(Debug)]
pub struct SockDiag {
    socket: OwnedFd,
    answer: Vec<u8>,
}

impl SockDiag {
    /// Connects to the kernel.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: netlink_socket()?, answer: vec![0; ANSWER_BYTES] })
    }

    /// Returns all listening sockets of this network namespace.
    pub fn listeners(&mut self) -> io::Result<Vec<Listener>> {
        let mut listeners = Vec::new();
        self.dump(0, StateFlags::LISTEN, |socket| {
            listeners.push(Listener { port: socket.header.socket_id.source_port, inode: socket.header.inode });
        })?;
        Ok(listeners)
    }

    /// Returns the connections of a local port that the server has not closed.
    pub fn connections(&mut self, port: u16) -> io::Result<Vec<SocketState>> {
        let mut states = Vec::new();
        self.dump(port, StateFlags::ESTABLISHED | StateFlags::CLOSE_WAIT, |socket| states.extend(state(socket)))?;
        Ok(states)
    }

    /// Passes each socket in one of `states` with this local port, or with any if `port` is 0.
    fn dump(&mut self, port: u16, states: StateFlags, mut each: impl FnMut(&InetResponse)) -> io::Result<()> {
        for (family, any) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
            let socket_id = SocketId { source_port: port, ..any };
            let (extensions, states) = (ExtensionFlags::INFO, states.clone());
            let request = InetRequest { family, protocol: IPPROTO_TCP, extensions, states, socket_id };
            send(&self.socket, &serialized(request), SendFlags::empty())?;
            let mut is_done = false;
            while !is_done {
                let length = received(&self.socket, &mut self.answer, RecvFlags::empty())?;
                is_done = parse(&self.answer[..length], &mut each)?;
            }
        }
        Ok(())
    }
}

/// The kernel's messages about ended connections.
#[derive(Debug)]
pub struct EndedConnections {
    socket: OwnedFd,
    answer: Vec<u8>,
    /// The kernel dropped messages, because the buffer was full.
    pub has_lost: bool,
}

impl EndedConnections {
    /// Subscribes to the messages about all TCP connections of this network namespace.
    pub fn subscribe() -> io::Result<Self> {
        let socket = netlink_socket()?;
        // Only root may exceed the system's limit.
        sockopt::set_socket_recv_buffer_size_force(&socket, ENDED_BYTES)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, ENDED_BYTES))?;
        bind(&socket, &netlink::SocketAddrNetlink::new(0, ENDED_GROUPS))?;
        Ok(Self { socket, answer: vec![0; ANSWER_BYTES], has_lost: false })
    }

    /// Passes the connections of a local port that have ended since the last call.
    pub fn drain(&mut self, port: u16, mut each: impl FnMut(&SocketState)) -> io::Result<()> {
        loop {
            match received(&self.socket, &mut self.answer, RecvFlags::DONTWAIT) {
                Ok(length) => {
                    parse(&self.answer[..length], &mut |socket: &InetResponse| {
                        if socket.header.socket_id.source_port == port {
                            state(socket).iter().for_each(&mut each);
                        }
                    })?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => self.has_lost = true,
                Err(error) => return Err(error),
            }
        }
    }
}

fn netlink_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?)
}

fn received(socket: &OwnedFd, answer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    loop {
        match recv(socket, &mut *answer, flags) {
            Ok((length, _)) => return Ok(length),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn serialized(request: InetRequest) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Passes the sockets of an answer. Returns whether the list ends.
fn parse(mut bytes: &[u8], each: &mut impl FnMut(&InetResponse)) -> io::Result<bool> {
    while !bytes.is_empty() {
        // The parser of the counters needs all fields up to those of Linux 5.4.
        let message = NetlinkMessage::<SockDiagMessage>::deserialize(bytes)
            .map_err(|error| io::Error::other(format!("{error} (Linux before 5.4?)")))?;
        let length = (message.header.length as usize).next_multiple_of(4).min(bytes.len());
        match message.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) => each(&socket),
            NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
            NetlinkPayload::Done(done) if done.code < 0 => return Err(io::Error::from_raw_os_error(-done.code)),
            NetlinkPayload::Done(_) => return Ok(true),
            _ => {}
        }
        bytes = &bytes[length..];
    }
    Ok(false)
}

fn state(socket: &InetResponse) -> Option<SocketState> {
    let info = socket.nlas.iter().find_map(|nla| match nla {
        Nla::TcpInfo(info) => Some(info),
        _ => None,
    })?;
    let unrepeated = info.bytes_sent.saturating_sub(info.bytes_retrans);
    let bytes = info.bytes_received.saturating_sub(fin_bytes(socket.header.state, info, unrepeated));
    Some(SocketState {
        id: u64::from_ne_bytes(socket.header.socket_id.cookie),
        received: Volume { bytes, segments: info.data_segs_in.into(), turns: 0 },
        sent: Volume { bytes: unrepeated, segments: info.data_segs_out.into(), turns: 0 },
        // Acknowledgements that wait for data raise the kernel's mean by tens of milliseconds. Without a minimum, all bits are set.
        round_trip_ns: Some(info.min_rtt).filter(|us| *us < u32::MAX).map_or(0, |us| u64::from(us) * 1_000),
        is_awaiting: info.last_data_recv < info.last_data_sent,
        segment_max: (info.advmss, info.snd_mss),
    })
}

/// Returns 1 if the received bytes include the end of the client's data, which the kernel counts as a byte. A connection that
/// ended without a reset also has the acknowledgement of the server's end, which counts as an acknowledged byte.
fn fin_bytes(state: u8, info: &TcpInfo, sent_bytes: u64) -> u64 {
    let has_ended = state == TCP_CLOSE && info.bytes_acked > sent_bytes;
    u64::from(state == TCP_CLOSE_WAIT || has_ended)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Returns a connection with one request of 100 bytes and one response of 2000 bytes.
    fn exchange(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        let mut bytes = [0; 2_000];
        client.write_all(&bytes[..100]).unwrap();
        server.read_exact(&mut bytes[..100]).unwrap();
        server.write_all(&bytes).unwrap();
        client.read_exact(&mut bytes).unwrap();
        (client, server)
    }

    /// Returns the bytes and segments that the server received, and those that it sent.
    fn volumes(state: &SocketState) -> [u64; 4] {
        [state.received.bytes, state.received.segments, state.sent.bytes, state.sent.segments]
    }

    const EXCHANGE: [u64; 4] = [100, 1, 2_000, 1];

    #[test]
    fn open_and_ended_connections_have_exact_counters() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let mut diag = SockDiag::open().unwrap();
            assert!(diag.listeners().unwrap().iter().any(|it| it.port == port && it.inode > 0), "{address}");
            let mut ended = EndedConnections::subscribe().unwrap();
            let pairs = [exchange(&listener), exchange(&listener)];
            let open = diag.connections(port).unwrap();
            assert_eq!(open.iter().map(volumes).collect::<Vec<_>>(), [EXCHANGE; 2], "{address}");
            assert_ne!(open[0].id, open[1].id);
            let [(first_client, first_server), (second_client, second_server)] = pairs;
            drop((first_client, first_server));
            drop((second_server, second_client));
            let mut last = Vec::new();
            for _ in 0..2_000 {
                ended.drain(port, |state| last.push(*state)).unwrap();
                if last.len() == 2 {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            assert_eq!(last.iter().map(volumes).collect::<Vec<_>>(), [EXCHANGE; 2], "{address}");
            assert!(last.iter().all(|state| open.iter().any(|it| it.id == state.id)));
            assert!(!ended.has_lost && diag.connections(port).unwrap().is_empty());
        }
    }
}
