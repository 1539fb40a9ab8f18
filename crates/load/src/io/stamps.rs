//! Kernel timestamps (`SO_TIMESTAMPING`), which prove that a request left when the client says so.
//!
//! The kernel puts two timestamps of each write on the socket's error queue: from the packet scheduler (qdisc), and from the
//! driver. `OPT_ID` numbers them (Documentation/networking/timestamping.rst). On a stream, the number is the offset of the
//! write's last byte since the option was set; with datagrams, the number of earlier datagrams.
//!
//! The number identifies the request, so a missing timestamp does not shift later ones. The first of two writes in one packet,
//! for example, has no timestamp. Before Linux 6.8, a failed send of a datagram may use up a number.
//!
//! The timestamp of a received packet comes with the read. An entry in the error queue makes epoll report the socket, so the
//! receive role empties the queue at once.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use std::{ptr, thread};

use rustix::io::Errno;

use crate::config::{LoadConfig, Transport};
use crate::error::LoadError;
use crate::io::poller::Flags;
use crate::io::{interface, platform};
use crate::protocol::ClientProtocol;
use crate::record::request::{Head, Shared, Stamp};
use crate::result::Hardware;
use crate::result::samples::KernelFacts;

/// Timestamps per read of the error queue: two of a request, and room for one more to detect the end of the queue.
const BATCH: usize = 3;
/// Bytes for a message's timestamps (three times and a header) and its number (an extended error and an address).
const CONTROL_BYTES: usize = 192;

/// The kind of a timestamp, in the field `ee_info` of an extended error (linux/errqueue.h): driver or scheduler.
const SCM_TSTAMP_SND: u32 = 0;
const SCM_TSTAMP_SCHED: u32 = 1;

/// Kinds of send timestamps: scheduler, driver, wire. Each kind arrives in the order of the requests.
const KINDS: usize = 3;

/// Enables timestamps on all sockets. Each socket counts from its next write.
pub(crate) fn enable(config: &LoadConfig, sockets: &[impl AsFd]) -> Result<KernelFacts, LoadError> {
    let failed = |error| LoadError::System { what: "cannot enable kernel timestamps; try --timestamps client", error };
    let unknown = |error| LoadError::System { what: "cannot find the interface on the route to the server", error };
    let target = config.target.ip().ok_or(io::ErrorKind::Unsupported.into());
    let interface = target.and_then(interface::towards).map_err(unknown)?;
    let hardware = interface::hardware(&interface);
    for socket in sockets {
        switch_on(socket.as_fd(), hardware).map_err(failed)?;
    }
    Ok(KernelFacts { interface, hardware, wall_clock_stepped: false })
}

fn switch_on(io: BorrowedFd<'_>, hardware: Hardware) -> io::Result<()> {
    let software = libc::SOF_TIMESTAMPING_TX_SCHED
        | libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    let both = libc::SOF_TIMESTAMPING_TX_HARDWARE
        | libc::SOF_TIMESTAMPING_RX_HARDWARE
        | libc::SOF_TIMESTAMPING_RAW_HARDWARE
        | libc::SOF_TIMESTAMPING_OPT_TX_SWHW;
    let flags: u32 = if hardware == Hardware::On { software | both } else { software };
    Ok(platform::set_option(io, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as i32)?)
}

pub(crate) struct Stamper<'a, P: ClientProtocol> {
    shared: Shared<'a, P>,
    /// One entry per record.
    stamps: &'a [Stamp],
    hardware: Hardware,
    /// Whether numbers count datagrams instead of bytes.
    datagrams: bool,
    /// A buffer to encode a request in, because its length is needed.
    scratch: Vec<u8>,
    connections: Vec<Connection>,
    control: Vec<[u64; CONTROL_BYTES / 8]>,
    /// The control message of the last read.
    last: Message,
}

/// The last request with a timestamp on a connection, for each kind.
type Connection = [Cursor; KINDS];

#[derive(Clone, Copy, Default)]
struct Cursor {
    head: Head,
    /// The number that the next request starts at.
    number: u32,
}

impl<'a, P: ClientProtocol> Stamper<'a, P> {
    pub(crate) fn new(config: &LoadConfig, hardware: Hardware, stamps: &'a [Stamp], shared: Shared<'a, P>) -> Self {
        Self {
            stamps,
            hardware,
            datagrams: config.transport() == Transport::Udp,
            scratch: Vec::with_capacity(shared.protocol.encoded_bytes_max()),
            connections: vec![Connection::default(); shared.links.len()],
            control: vec![[0; CONTROL_BYTES / 8]; BATCH],
            last: Message::default(),
            shared,
        }
    }

    /// Reads into an empty `inbox`. Keeps the packet's timestamps for [`Stamper::arrived`].
    #[inline]
    pub fn read(&mut self, io: BorrowedFd<'_>, inbox: &mut Vec<u8>) -> Result<usize, Errno> {
        self.last = receive(io, 0, inbox, &mut self.control[0])?;
        Ok(inbox.len())
    }

    /// Stores the timestamps of the last read, which completed the response to this request.
    #[inline]
    pub fn arrived(&self, record: usize) {
        self.stamps[record].arrived.store(self.last.software_ns, Relaxed);
        self.stamps[record].hardware_arrived.store(self.last.hardware_ns, Relaxed);
    }

    /// Reads the send timestamps of a connection that epoll reported. Returns whether they were the only reason for the report.
    #[inline]
    pub fn is_all(&mut self, flags: Flags, connection: usize, io: BorrowedFd<'_>) -> bool {
        flags.contains(Flags::ERR) && self.take(connection, io) && !flags.contains(Flags::IN)
    }

    /// Enables timestamps on the socket of a reconnect. A request that is sent again gets those of its last send.
    pub fn restart(&mut self, connection: usize, io: BorrowedFd<'_>, answered: Head) -> io::Result<()> {
        self.connections[connection] = [Cursor { head: answered, number: 0 }; KINDS];
        switch_on(io, self.hardware)
    }

    #[inline]
    fn take(&mut self, connection: usize, io: BorrowedFd<'_>) -> bool {
        let mut any = false;
        loop {
            let count = self.take_batch(connection, io);
            any |= count > 0;
            if count < BATCH {
                return any;
            }
        }
    }

    #[inline]
    fn take_batch(&mut self, connection: usize, io: BorrowedFd<'_>) -> usize {
        // SAFETY: zeros are a valid header without buffers.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { MaybeUninit::zeroed().assume_init() };
        for (message, control) in messages.iter_mut().zip(&mut self.control) {
            message.msg_hdr = header(control);
        }
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the count is the number of headers, and each header's control buffer lives across the call.
        let count =
            unsafe { libc::recvmmsg(io.as_raw_fd(), messages.as_mut_ptr(), BATCH as u32, flags as _, ptr::null_mut()) };
        let count = usize::try_from(count).unwrap_or(0);
        let mut taken = [Message::default(); BATCH];
        for (taken, (message, control)) in taken.iter_mut().zip(messages.iter().zip(&self.control)).take(count) {
            *taken = Message::parse(&control[..message.msg_hdr.msg_controllen as libc::size_t / 8]);
        }
        taken[..count].iter().for_each(|message| self.sent(message, connection));
        count
    }

    fn sent(&mut self, message: &Message, connection: usize) {
        let Some((kind, number)) = message.sent else { return };
        let Shared { protocol, records, links, .. } = self.shared;
        let mut cursor = self.connections[connection][kind];
        // Numbers start at 0 and wrap. A lower number belongs to a retransmission: keep the first time.
        let mut ahead = number.wrapping_add(1).wrapping_sub(cursor.number);
        if ahead > u32::MAX / 2 || ahead == 0 {
            return;
        }
        cursor.number = cursor.number.wrapping_add(ahead);
        let mut record = 0;
        while ahead > 0 {
            // `None` would mean more requests than were sent, which no kernel reports.
            let Some(next) = cursor.head.take(&links[connection], records) else { return };
            let mut request = || protocol.encode(self.shared.request(next), &mut self.scratch).len() as u32;
            let step = if self.datagrams { 1 } else { request() };
            // The number lies inside a request: a full socket accepted only a part of it. A later write has the last byte.
            let Some(left) = ahead.checked_sub(step) else { return };
            (ahead, record) = (left, next);
        }
        self.connections[connection][kind] = cursor;
        let stamp = &self.stamps[record];
        let (place, ns) = match kind {
            Message::SCHEDULER => (&stamp.scheduler, message.software_ns),
            Message::DRIVER => (&stamp.driver, message.software_ns),
            _ => (&stamp.hardware_sent, message.hardware_ns),
        };
        place.store(ns, Relaxed);
    }
}

#[inline]
fn receive(
    io: BorrowedFd<'_>,
    flags: i32,
    inbox: &mut Vec<u8>,
    control: &mut [u64; CONTROL_BYTES / 8],
) -> Result<Message, Errno> {
    let space = inbox.spare_capacity_mut();
    let mut parts = libc::iovec { iov_base: space.as_mut_ptr().cast(), iov_len: space.len() };
    let mut header = header(control);
    header.msg_iov = &raw mut parts;
    header.msg_iovlen = 1;
    // SAFETY: the header's pointers and lengths describe buffers that live across the call.
    let count = unsafe { libc::recvmsg(io.as_raw_fd(), &raw mut header, flags | libc::MSG_DONTWAIT) };
    if count < 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    // SAFETY: the kernel has written `count` bytes into the spare capacity of the empty vector.
    unsafe { inbox.set_len(count as usize) };
    Ok(Message::parse(&control[..header.msg_controllen as libc::size_t / 8]))
}

/// The kinds of kernel timestamps that test packets got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamped {
    /// The timestamp from the driver.
    pub sent: bool,
    /// The timestamp of the arrival.
    pub received: bool,
}

/// Tests timestamps: sends packets over loopback until both timestamps arrive or `timeout` has passed. The first packets may have
/// none, because the kernel enables timestamps in the background.
pub fn on_loopback(timeout: Duration) -> io::Result<Stamped> {
    const BETWEEN_PACKETS: Duration = Duration::from_micros(500);
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(receiver.local_addr()?)?;
    switch_on(sender.as_fd(), Hardware::None)?;
    switch_on(receiver.as_fd(), Hardware::None)?;
    let started = Instant::now();
    let mut stamped = Stamped::default();
    let mut control = [0; CONTROL_BYTES / 8];
    loop {
        sender.send(&[0])?;
        for (socket, flags, seen) in
            [(&sender, libc::MSG_ERRQUEUE, &mut stamped.sent), (&receiver, 0, &mut stamped.received)]
        {
            while let Ok(message) = receive(socket.as_fd(), flags, &mut Vec::with_capacity(1), &mut control) {
                *seen |= message.software_ns != 0;
            }
        }
        if stamped.sent && stamped.received || started.elapsed() > timeout {
            return Ok(stamped);
        }
        thread::sleep(BETWEEN_PACKETS);
    }
}

fn header(control: &mut [u64; CONTROL_BYTES / 8]) -> libc::msghdr {
    // SAFETY: zeros are a valid header without buffers.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES as _;
    header
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Message {
    software_ns: u64,
    hardware_ns: u64,
    /// The kind and the number of a send timestamp.
    sent: Option<(usize, u32)>,
}

impl Message {
    const SCHEDULER: usize = 0;
    const DRIVER: usize = 1;
    const WIRE: usize = 2;

    /// Parses control messages. Each has a length, a level, a type and data, padded to a whole word.
    fn parse(control: &[u64]) -> Self {
        const HEADER_WORDS: usize = 2;
        let mut message = Self::default();
        let mut rest = control;
        while let [length, kind, ..] = *rest {
            let (level, kind) = (kind as u32 as i32, (kind >> 32) as i32);
            let words = (length as usize).div_ceil(8);
            if words < HEADER_WORDS || words > rest.len() {
                break;
            }
            let data = &rest[HEADER_WORDS..words];
            let time_ns = |at: usize| data[at].wrapping_mul(1_000_000_000).wrapping_add(data[at + 1]);
            match (level, kind) {
                // Three times in seconds and nanoseconds: software, obsolete, hardware.
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) if data.len() >= 6 => {
                    message.software_ns = time_ns(0);
                    message.hardware_ns = time_ns(4);
                }
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) if data.len() >= 2 => {
                    // `sock_extended_err` (linux/errqueue.h): errno; the bytes origin, type and code; info; data.
                    let (origin, info, number) = ((data[0] >> 32) as u8, data[1] as u32, (data[1] >> 32) as u32);
                    message.sent = match (origin, info) {
                        (libc::SO_EE_ORIGIN_TIMESTAMPING, SCM_TSTAMP_SCHED) => Some((Self::SCHEDULER, number)),
                        (libc::SO_EE_ORIGIN_TIMESTAMPING, SCM_TSTAMP_SND) => Some((Self::DRIVER, number)),
                        _ => None,
                    };
                }
                _ => {}
            }
            rest = &rest[words..];
        }
        // Driver and wire timestamps have the same type. Only the wire timestamp has a hardware time.
        if let Some((kind @ Self::DRIVER, _)) = &mut message.sent
            && message.hardware_ns != 0
        {
            *kind = Self::WIRE;
        }
        message
    }
}

#[cfg(all(test, target_endian = "little", target_pointer_width = "64"))]
mod tests {
    use proptest::prelude::*;

    use wire::ServiceSpec;

    use super::*;
    use crate::config::ClockChoice;
    use crate::protocol::Fixed;
    use crate::record::progress::Progress;
    use crate::record::request::{Link, Record, Tail};
    use crate::time::clock::Clock;

    /// Builds a control message in the kernel's layout.
    fn control(level: i32, kind: i32, data: &[u64]) -> Vec<u64> {
        let head = [16 + 8 * data.len() as u64, u64::from(level as u32) | (kind as u64) << 32];
        [&head, data].concat()
    }

    fn stamp(info: u32, number: u32, software: (u64, u64), hardware: (u64, u64)) -> Vec<u64> {
        let times = [software.0, software.1, 0, 0, hardware.0, hardware.1];
        let error = [
            u64::from(libc::ENOMSG as u32) | u64::from(libc::SO_EE_ORIGIN_TIMESTAMPING) << 32,
            u64::from(info) | u64::from(number) << 32,
            0,
            0,
        ];
        [control(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &times), control(libc::SOL_IP, libc::IP_RECVERR, &error)]
            .concat()
    }

    #[test]
    fn loopback_stamps_both_directions() {
        assert_eq!(on_loopback(Duration::from_secs(20)).unwrap(), Stamped { sent: true, received: true });
    }

    #[test]
    fn stamps_of_each_kind_are_read() {
        let read = |info, hardware| Message::parse(&stamp(info, 7, (1, 5), hardware));
        let software_ns = 1_000_000_005;
        let of = |kind, hardware_ns| Message { software_ns, hardware_ns, sent: Some((kind, 7)) };
        assert_eq!(read(SCM_TSTAMP_SCHED, (0, 0)), of(Message::SCHEDULER, 0));
        assert_eq!(read(SCM_TSTAMP_SND, (0, 0)), of(Message::DRIVER, 0));
        assert_eq!(read(SCM_TSTAMP_SND, (2, 3)), of(Message::WIRE, 2_000_000_003));
        assert_eq!(read(2, (0, 0)), Message { software_ns, hardware_ns: 0, sent: None });
        assert_eq!(Message::parse(&[]), Message::default());
    }

    proptest! {
        #[test]
        fn no_control_message_panics(words: Vec<u64>) {
            Message::parse(&words);
        }

        /// Each timestamp is assigned to its own request, even if other timestamps are lost or duplicated.
        #[test]
        fn each_timestamp_belongs_to_its_request(
            bytes in 1u32..100_000, start in prop::sample::select(vec![0u32, u32::MAX - 250_000, u32::MAX]),
            which in prop::collection::vec((0u32..40, any::<bool>()), 0..60),
        ) {
            let records: Vec<Record> = (0..40).map(|at| Record::new(at, 0)).collect();
            let links = [Link::default()];
            let mut tail = Tail::default();
            (0..40).for_each(|at| tail.push(&links[0], &records, at));
            let stamps: Vec<Stamp> = (0..40).map(|_| Stamp::default()).collect();
            let cursor = Cursor { number: start, ..Cursor::default() };
            let (fixed, progress) = (Fixed::new(bytes, 1), Progress::default());
            let clock = Clock::calibrate(ClockChoice::Monotonic).unwrap();
            let (protocol, transfers) = (&fixed, &[]);
            let shared =
                Shared { clock, protocol, first: 0, records: &records, retries: &[], numbers: &[], links: &links, transfers, progress: &progress };
            let service = ServiceSpec::Fixed { request_bytes: bytes, response_bytes: 1 };
            let mut stamper = Stamper::new(&LoadConfig::new(([127, 0, 0, 1], 0), service), Hardware::None, &stamps, shared);
            stamper.connections = vec![[cursor; KINDS]];
            let mut expected = [0u64; 40];
            let mut latest = None;
            for (request, of_a_whole) in which {
                // The number of the request's last byte, or of the byte before.
                let number = start.wrapping_add(bytes * (request + 1)).wrapping_sub(if of_a_whole { 1 } else { 2 });
                let ns = 1 + u64::from(request);
                let message = Message { software_ns: ns, hardware_ns: 0, sent: Some((Message::DRIVER, number)) };
                stamper.sent(&message, 0);
                if (of_a_whole || bytes == 1) && latest.is_none_or(|latest| latest < request) {
                    // With requests of one byte, the byte before is the last byte of the previous request.
                    let of = if of_a_whole { Some(request) } else { request.checked_sub(1) };
                    if let Some(of) = of.filter(|&of| latest.is_none_or(|latest| latest < of)) {
                        expected[of as usize] = ns;
                        latest = Some(of);
                    }
                }
            }
            let found: Vec<u64> = stamps.iter().map(|stamp| stamp.driver.load(Relaxed)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
