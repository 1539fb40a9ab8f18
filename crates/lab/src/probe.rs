//! Asks the kernel what no file says: whether io_uring is allowed, and who stamps packets with times.

use std::ffi::c_void;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

/// `struct io_uring_params`, which must be zero but for what is asked.
const IO_URING_PARAMS_BYTES: usize = 120;

/// ETHTOOL_GET_TS_INFO, which the libc crate does not have.
const ETHTOOL_GET_TS_INFO: u32 = 0x41;

/// Between packets that get no stamp: the kernel turns stamping on in the background when a first socket asks.
const BETWEEN_PACKETS: Duration = Duration::from_micros(500);

/// Sets a ring up and drops it. Limits in sysctls, a container's filter and the kernel's build all show in the error.
///
/// # Errors
/// The kernel's refusal.
pub fn io_uring() -> io::Result<()> {
    let mut params = [0u64; IO_URING_PARAMS_BYTES / size_of::<u64>()];
    // SAFETY: `params` is as large as the kernel's structure, zeroed and writable.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1u32, params.as_mut_ptr()) };
    if ring < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
    drop(unsafe { OwnedFd::from_raw_fd(ring as i32) });
    Ok(())
}

/// Which of a packet's two moments the kernel has stamped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamped {
    /// As it was handed to the device.
    pub sent: bool,
    /// As it came from the device.
    pub received: bool,
}

/// Sends packets to itself over loopback until both moments are stamped or `patience` ends.
///
/// # Errors
/// When sockets or SO_TIMESTAMPING are refused.
pub fn kernel_timestamps(patience: Duration) -> io::Result<Stamped> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(receiver.local_addr()?)?;
    ask_for_stamps(
        &sender,
        libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_TSONLY,
    )?;
    ask_for_stamps(&receiver, libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE)?;
    let started = Instant::now();
    let mut stamped = Stamped::default();
    loop {
        sender.send(&[0])?;
        stamped.sent |= any_stamp(&sender, libc::MSG_ERRQUEUE)?;
        stamped.received |= any_stamp(&receiver, 0)?;
        if stamped.sent && stamped.received || started.elapsed() > patience {
            return Ok(stamped);
        }
        thread::sleep(BETWEEN_PACKETS);
    }
}

fn ask_for_stamps(socket: &UdpSocket, what: u32) -> io::Result<()> {
    let (value, length) = ((&raw const what).cast::<c_void>(), size_of::<u32>() as libc::socklen_t);
    // SAFETY: `value` points to `length` readable bytes.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, value, length) })
}

/// Takes all messages that wait, and says whether one of them bears a stamp of the kernel's.
fn any_stamp(socket: &UdpSocket, flags: i32) -> io::Result<bool> {
    let mut any = false;
    loop {
        match receive(socket, flags | libc::MSG_DONTWAIT) {
            Ok(stamped) => any |= stamped,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(any),
            Err(error) => return Err(error),
        }
    }
}

fn receive(socket: &UdpSocket, flags: i32) -> io::Result<bool> {
    let mut byte = 0u8;
    // Words, for control messages are aligned to them.
    let mut control = [0u64; 64];
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: all zeros is a message without anything.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the message points to one part and a control buffer, both alive and as long as it says.
    if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled the control buffer that `message` points to, and set its length.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: not null, so within the control buffer, where the kernel has written a header.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPING {
            // The first of three times is the kernel's; zero is none.
            // SAFETY: such a message holds three times, maybe not aligned to them.
            let stamp = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
            return Ok(stamp.tv_sec != 0);
        }
        // SAFETY: `header` is one of `message`.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok(false)
}

/// `struct ethtool_ts_info` of the kernel.
#[repr(C)]
#[derive(Default)]
struct TimestampingInfo {
    cmd: u32,
    so_timestamping: u32,
    phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}

/// Whether `interface` stamps packets that it sends or receives with a clock of its own.
///
/// # Errors
/// When there is no such interface, or its driver does not say.
pub fn stamps_in_hardware(interface: &str) -> io::Result<bool> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut info = TimestampingInfo { cmd: ETHTOOL_GET_TS_INFO, ..Default::default() };
    // SAFETY: all zeros is a request with an empty name.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    // SAFETY: the request's name ends in zero, and its data is the structure that this command fills.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) })?;
    let hardware = libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_RX_HARDWARE;
    Ok(info.so_timestamping & hardware != 0)
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_gives_an_answer_or_the_kernel_s_refusal() {
        let refusal = |error: io::Error| assert!(error.raw_os_error().is_some(), "{error}");
        io_uring().unwrap_or_else(refusal);
        kernel_timestamps(Duration::from_millis(50)).map(drop).unwrap_or_else(refusal);
        stamps_in_hardware("lo").map(drop).unwrap_or_else(refusal);
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        assert!(stamps_in_hardware("nosuchinterface").is_err());
        assert!(stamps_in_hardware("a name longer than the kernel has").is_err());
    }
}
