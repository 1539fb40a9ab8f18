//! The system calls that ask for busy polling: of epoll instances, of rings, and of sockets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use io_uring::IoUring;
use rustix::event::epoll::{CreateFlags, create};
use rustix::io::Errno;

use super::set_option;
use crate::spec::busy_poll::BusyPoll;
use crate::spec::mechanism::BusyPolls;

/// The argument of EPIOCSPARAMS and EPIOCGPARAMS (linux/eventpoll.h).
#[derive(Default)]
#[repr(C)]
struct EpollParameters {
    time_us: u32,
    budget: u16,
    is_preferred: u8,
    zero: u8,
}

/// `_IOW(0x8A, 0x01, struct epoll_params)`.
const EPIOCSPARAMS: u32 = 0x4008_8a01;
/// `_IOR(0x8A, 0x02, struct epoll_params)`.
#[cfg(test)]
const EPIOCGPARAMS: u32 = 0x8008_8a02;
/// linux/io_uring.h
const IORING_REGISTER_NAPI: u32 = 27;

/// The argument of IORING_REGISTER_NAPI (linux/io_uring.h). Zeros ask for dynamic tracking of the interfaces.
#[repr(C)]
struct RingParameters {
    time_us: u32,
    is_preferred: u8,
    zeros: [u8; 3],
    more_zeros: u64,
}

/// Makes waits for an epoll instance poll.
pub(crate) fn set_epoll(epoll: BorrowedFd<'_>, poll: BusyPoll) -> io::Result<()> {
    let parameters =
        EpollParameters { time_us: poll.time_us, budget: poll.budget, is_preferred: poll.is_preferred.into(), zero: 0 };
    // SAFETY: the kernel reads the parameters, which have the size that the request contains.
    checked(unsafe { libc::ioctl(epoll.as_raw_fd(), EPIOCSPARAMS as _, &raw const parameters) })
}

/// The time, the budget and the preference of an epoll instance (EPIOCGPARAMS).
#[cfg(test)]
pub(crate) fn of_epoll(epoll: BorrowedFd<'_>) -> io::Result<(u32, u16, bool)> {
    let mut found = EpollParameters::default();
    // SAFETY: the kernel writes parameters of the size that the request contains.
    checked(unsafe { libc::ioctl(epoll.as_raw_fd(), EPIOCGPARAMS as _, &raw mut found) })?;
    Ok((found.time_us, found.budget, found.is_preferred == 1))
}

/// Makes waits for a ring's completions poll. The kernel has its own budget.
pub(crate) fn register_ring(ring: RawFd, poll: BusyPoll) -> io::Result<()> {
    let mut parameters =
        RingParameters { time_us: poll.time_us, is_preferred: poll.is_preferred.into(), zeros: [0; 3], more_zeros: 0 };
    // SAFETY: the kernel reads the parameters and writes the previous ones, which have the same size.
    checked(unsafe {
        libc::syscall(libc::SYS_io_uring_register, ring, IORING_REGISTER_NAPI, &raw mut parameters, 1) as libc::c_int
    })
}

/// Makes receives from a socket poll. Connections inherit this from their listener.
pub(crate) fn set_socket(socket: BorrowedFd<'_>, poll: BusyPoll) -> io::Result<()> {
    let set = |name, value: u32| set_option(socket, libc::SOL_SOCKET, name, &value);
    set(libc::SO_BUSY_POLL, poll.time_us)?;
    if poll.is_preferred {
        set(libc::SO_PREFER_BUSY_POLL, 1)?;
    }
    if poll.budget == BusyPoll::BUDGET { Ok(()) } else { set(libc::SO_BUSY_POLL_BUDGET, poll.budget.into()) }
}

/// Checks whether the kernel grants this process busy polling by these system calls.
pub(crate) fn can_busy_poll(by: BusyPolls, poll: BusyPoll) -> Result<(), String> {
    let tried = match by {
        BusyPolls::Nothing => Ok(()),
        BusyPolls::Epoll => {
            create(CreateFlags::CLOEXEC).map_err(io::Error::from).and_then(|it| set_epoll(it.as_fd(), poll))
        }
        BusyPolls::Ring => IoUring::new(1).and_then(|ring| register_ring(ring.as_raw_fd(), poll)),
        BusyPolls::Receives => {
            let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0));
            socket.and_then(|socket| set_socket(socket.as_fd(), poll))
        }
    };
    tried.map_err(|error| {
        let remedy = match Errno::from_io_error(&error) {
            Some(Errno::PERM | Errno::ACCESS) => "run as root, or with CAP_NET_ADMIN",
            Some(Errno::NOTTY | Errno::INVAL | Errno::NOPROTOOPT | Errno::OPNOTSUPP) => {
                "it needs Linux 6.9 or later, built with CONFIG_NET_RX_BUSY_POLL"
            }
            _ => "raise the limit of descriptors (ulimit -n)",
        };
        format!("the kernel refuses busy polling ({error}); {remedy}, or omit the option")
    })
}

fn checked(returned: libc::c_int) -> io::Result<()> {
    if returned >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::skipped::skipped;

    const POLL: BusyPoll = BusyPoll { time_us: 70, budget: 16, is_preferred: true, suspend_ns: None };

    #[test]
    fn connections_inherit_busy_polling_from_their_listener() {
        if let Err(reason) = can_busy_poll(BusyPolls::Receives, POLL) {
            skipped(&reason);
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_socket(listener.as_fd(), POLL).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let mut value: u32 = 0;
        let mut bytes = size_of_val(&value) as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes into `value`.
        checked(unsafe {
            let (level, name) = (libc::SOL_SOCKET, libc::SO_BUSY_POLL);
            libc::getsockopt(accepted.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut bytes)
        })
        .unwrap();
        assert_eq!(value, 70);
    }
}
