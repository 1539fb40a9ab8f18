//! Batches of datagrams: recvmmsg(2) and sendmmsg(2), and with offload UDP_GRO and UDP_SEGMENT (udp(7)).

use std::os::fd::{AsRawFd, BorrowedFd};
use std::{mem, ptr, slice};

use rustix::io::Errno;
use wire::udp::{ID_BYTES, Udp};

use super::message::{self, DATAGRAM_BYTES_MAX, Taken, take};
use crate::metrics::workers::{Counters, Syscall};
use crate::service::work::WithWork;
use crate::socket::destination::{CONTROL_BYTES, Control, NAME_BYTES, counted};
use crate::spec::datagrams::DatagramOptions;

/// The most segments of a message in every kernel with UDP_SEGMENT (linux/udp.h: UDP_MAX_SEGMENTS).
const SEGMENTS_MAX: usize = 64;
/// The most segments of a received message, which may come from a newer kernel's sender on this host.
const RECEIVED_SEGMENTS_MAX: usize = 128;
/// Parts of a response: its id, and the rest.
const PARTS: usize = 2;
const CACHE_LINE_BYTES: usize = 64;

/// Memory for a batch. Its fields point to each other's contents, which never move.
pub(super) struct BatchIo {
    offload: bool,
    reports_destination: bool,
    /// The most responses of a sent message.
    segments_max: usize,
    /// The contents of the received messages, `room_bytes` for each. Uninitialised: pages that no datagram reaches cost nothing.
    rooms: Vec<u8>,
    room_bytes: usize,
    received: Box<[Message]>,
    received_headers: Box<[libc::mmsghdr]>,
    /// The number of received headers that the kernel may have changed.
    used: usize,
    ids: Vec<[u8; ID_BYTES]>,
    replies: Vec<Reply>,
    reply_headers: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    response: Vec<u8>,
}

/// The memory of a received message's header.
struct Message {
    name: [u8; NAME_BYTES],
    control: Control,
    room: libc::iovec,
}

/// A message to be sent: consecutive responses to one peer.
struct Reply {
    /// The position of the received message with the peer's address.
    message: usize,
    responses: usize,
    control: Control,
}

impl BatchIo {
    pub(super) fn new(service: &WithWork<Udp>, reports_destination: bool, options: DatagramOptions) -> Self {
        let response = service.response();
        let batch = options.batch as usize;
        let request_bytes = service.request_bytes().next_multiple_of(CACHE_LINE_BYTES);
        // With offload, an odd number of cache lines avoids rooms that compete for the same lines of the cache.
        let room_bytes = if options.offload { DATAGRAM_BYTES_MAX + CACHE_LINE_BYTES } else { request_bytes };
        let requests_max = if options.offload { batch * RECEIVED_SEGMENTS_MAX } else { batch };
        let segments_max = (wire::udp::DATAGRAM_BYTES_MAX as usize / response.len()).clamp(1, SEGMENTS_MAX);
        let replies_max = batch * (requests_max / batch).div_ceil(segments_max);
        // SAFETY: all fields are numbers or pointers, for which zeros are valid.
        let message = || -> Message { unsafe { mem::zeroed() } };
        let mut it = Self {
            offload: options.offload,
            reports_destination,
            segments_max: if options.offload { segments_max } else { 1 },
            rooms: Vec::with_capacity(batch * room_bytes),
            room_bytes,
            received: (0..batch).map(|_| message()).collect(),
            received_headers: (0..batch).map(|_| empty_header()).collect(),
            ids: Vec::with_capacity(requests_max),
            used: batch,
            replies: Vec::with_capacity(replies_max),
            reply_headers: Vec::with_capacity(replies_max),
            parts: Vec::with_capacity(PARTS * requests_max),
            response,
        };
        for (at, (header, message)) in it.received_headers.iter_mut().zip(&mut it.received).enumerate() {
            let iov_base = it.rooms.as_mut_ptr().wrapping_add(at * room_bytes).cast();
            message.room = libc::iovec { iov_base, iov_len: room_bytes };
            (header.msg_hdr.msg_iov, header.msg_hdr.msg_iovlen) = (&raw mut message.room, 1);
            header.msg_hdr.msg_name = message.name.as_mut_ptr().cast();
        }
        it
    }

    /// Receives a batch, without waiting for more datagrams than the first one, and answers its requests.
    #[inline]
    pub(super) fn exchange(&mut self, io: BorrowedFd<'_>, service: &WithWork<Udp>, counters: &Counters) -> Taken {
        let count = match self.receive(io, counters) {
            Ok(count) => count,
            Err(error) => return Taken::failed(error),
        };
        let before = counters.requests.get() + counters.ignored.get();
        self.ids.clear();
        self.replies.clear();
        (0..count).for_each(|at| self.read(at, service, counters));
        self.send(io, counters);
        let datagrams = (counters.requests.get() + counters.ignored.get() - before) as u32;
        // A shorter batch means that the socket was empty.
        Taken { datagrams, is_last: count < self.received.len() }
    }

    fn receive(&mut self, io: BorrowedFd<'_>, counters: &Counters) -> Result<usize, Errno> {
        for (header, message) in self.received_headers.iter_mut().zip(&mut self.received).take(self.used) {
            let header = &mut header.msg_hdr;
            header.msg_namelen = NAME_BYTES as libc::socklen_t;
            message.control.length = if self.reports_destination || self.offload { CONTROL_BYTES } else { 0 };
            message.control.attach(header);
        }
        counters.syscall(Syscall::Read);
        let (headers, count) = (self.received_headers.as_mut_ptr(), self.received_headers.len() as libc::c_uint);
        // MSG_TRUNC: report the full length of a datagram that is larger than its room. glibc and musl differ in the type of flags.
        let flags = (libc::MSG_WAITFORONE | libc::MSG_TRUNC) as _;
        // SAFETY: all pointers in the headers are valid during the call, and the kernel respects the lengths.
        let received = counted(unsafe { libc::recvmmsg(io.as_raw_fd(), headers, count, flags, ptr::null_mut()) });
        self.used = received.unwrap_or(self.received.len());
        received
    }

    /// Counts the datagrams of a received message, and prepares the responses to its requests.
    #[inline]
    fn read(&mut self, at: usize, service: &WithWork<Udp>, counters: &Counters) {
        let libc::mmsghdr { msg_hdr: header, msg_len: length } = self.received_headers[at];
        let (length, controls) = (length as usize, Controls::of(&header));
        let stored = length.min(self.room_bytes);
        // SAFETY: the kernel has written `stored` bytes, and the room is within `rooms`, which do not move.
        let bytes = unsafe { slice::from_raw_parts(self.received[at].room.iov_base.cast::<u8>(), stored) };
        let each = controls.segment_bytes.filter(|&each| each > 0).unwrap_or(length).max(1);
        let mut start = 0;
        loop {
            let end = (start + each).min(length);
            if let Some(id) = take(service, &bytes[start.min(stored)..end.min(stored)], end - start, counters) {
                self.ids.push(id);
                self.add_response(at, &controls);
            }
            start = end;
            if start >= length {
                return;
            }
        }
    }

    /// Adds a response to the last message, if that goes to the same peer and has room, or else to a new message.
    #[inline]
    fn add_response(&mut self, at: usize, controls: &Controls) {
        let segments_max = self.segments_max;
        if let Some(last) = self.replies.last_mut().filter(|last| last.responses < segments_max) {
            let is_same = last.message == at || {
                let name = |at: usize| {
                    let length = self.received_headers[at].msg_hdr.msg_namelen as usize;
                    &self.received[at].name[..length.min(NAME_BYTES)]
                };
                let destination = |at: usize| Controls::of(&self.received_headers[at].msg_hdr).destination();
                name(last.message) == name(at) && destination(last.message) == controls.destination()
            };
            if is_same {
                last.responses += 1;
                return;
            }
        }
        let mut control = Control::NONE;
        control.set_reply_source(controls.destination());
        self.replies.push(Reply { message: at, responses: 1, control });
    }

    fn send(&mut self, io: BorrowedFd<'_>, counters: &Counters) {
        let rest = &self.response[ID_BYTES..];
        self.parts.clear();
        for id in &mut self.ids {
            let id = libc::iovec { iov_base: id.as_mut_ptr().cast(), iov_len: ID_BYTES };
            let rest = libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
            self.parts.extend([id, rest]);
        }
        let mut part = 0;
        self.reply_headers.clear();
        for reply in &mut self.replies {
            let from = &self.received_headers[reply.message].msg_hdr;
            let mut message = empty_header();
            let header = &mut message.msg_hdr;
            (header.msg_name, header.msg_namelen) = (from.msg_name, from.msg_namelen);
            let parts = PARTS * reply.responses;
            (header.msg_iov, header.msg_iovlen) = (self.parts[part..].as_mut_ptr(), parts as _);
            part += parts;
            if reply.responses > 1 {
                append(&mut reply.control, libc::UDP_SEGMENT, &(self.response.len() as u16).to_ne_bytes());
            }
            reply.control.attach(header);
            self.reply_headers.push(message);
        }
        let mut done = 0;
        while done < self.replies.len() {
            counters.syscall(Syscall::Write);
            let left = &mut self.reply_headers[done..];
            // If the socket is full, responses are dropped, even on a blocking socket.
            // SAFETY: all pointers in the headers are valid during the call, and the kernel only writes the lengths sent.
            let sent = counted(unsafe {
                libc::sendmmsg(io.as_raw_fd(), left.as_mut_ptr(), left.len() as libc::c_uint, libc::MSG_DONTWAIT as _)
            });
            match sent {
                Ok(count) if count > 0 => {
                    left[..count].iter().for_each(|it| message::sent(Ok(it.msg_len as usize), counters));
                    done += count;
                }
                // The first message failed. The next call tries the others.
                Ok(_) | Err(_) => {
                    counters.unsent.add(self.replies[done].responses as u64);
                    done += 1;
                }
            }
        }
    }
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: all fields are numbers or pointers, for which zeros are valid.
    unsafe { mem::zeroed() }
}

/// The control messages of a received message.
struct Controls<'a> {
    /// The whole control message with the destination, with its header.
    destination: Option<&'a [u8]>,
    /// The size of each datagram but the last, if the message has several.
    segment_bytes: Option<usize>,
}

impl<'a> Controls<'a> {
    #[inline]
    fn of(header: &'a libc::msghdr) -> Self {
        let mut controls = Self { destination: None, segment_bytes: None };
        // SAFETY: the kernel has written the control messages of the header, which live as long as it, and the macros stay inside
        // them.
        unsafe {
            let mut message = libc::CMSG_FIRSTHDR(header);
            while let Some(it) = message.as_ref() {
                let contents = libc::CMSG_DATA(message);
                if (it.cmsg_level, it.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO) {
                    controls.segment_bytes = Some(ptr::read_unaligned(contents.cast::<libc::c_int>()) as usize);
                } else {
                    controls.destination = Some(slice::from_raw_parts(message.cast::<u8>(), it.cmsg_len as _));
                }
                message = libc::CMSG_NXTHDR(header, message);
            }
        }
        controls
    }

    fn destination(&self) -> &'a [u8] {
        self.destination.unwrap_or_default()
    }
}

/// Appends a control message of UDP.
fn append(control: &mut Control, kind: libc::c_int, contents: &[u8]) {
    // SAFETY: the macros only compute lengths.
    let (length, space) = unsafe { (libc::CMSG_LEN(contents.len() as u32), libc::CMSG_SPACE(contents.len() as u32)) };
    let start = control.length.next_multiple_of(align_of::<libc::cmsghdr>());
    // SAFETY: all fields are numbers, for which zeros are valid.
    let mut header: libc::cmsghdr = unsafe { mem::zeroed() };
    (header.cmsg_len, header.cmsg_level, header.cmsg_type) = (length as _, libc::SOL_UDP, kind);
    let place = &mut control.bytes[start..start + space as usize];
    // SAFETY: the place has room for a header, which has no invalid bytes.
    unsafe { ptr::write_unaligned(place.as_mut_ptr().cast(), header) };
    place[length as usize - contents.len()..length as usize].copy_from_slice(contents);
    control.length = start + space as usize;
}
