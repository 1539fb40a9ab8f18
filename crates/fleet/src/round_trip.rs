//! The timeout of a handshake, which depends on the round-trip time of its connection.

use std::net::TcpStream;
use std::time::Duration;

/// A handshake takes the first worker one round trip, and the other worker two. The kernel repeats a lost packet after at most
/// three round trips. So 8 round trips suffice if the network loses one packet in each direction.
const ROUND_TRIPS: u32 = 8;
/// The limit of an extended timeout, because a peer can feign a long round trip.
const HANDSHAKE_MAX: Duration = Duration::from_secs(60);

/// The timeout of a handshake on this connection: `timeout`, extended over a slow network.
pub(super) fn handshake_timeout(stream: &TcpStream, timeout: Duration) -> Duration {
    extended(round_trip(stream).unwrap_or_default(), timeout)
}

fn extended(round_trip: Duration, timeout: Duration) -> Duration {
    timeout.max((timeout + ROUND_TRIPS * round_trip).min(HANDSHAKE_MAX))
}

/// The round-trip time that the kernel measured; `None` if it reports none.
#[cfg(target_os = "linux")]
fn round_trip(stream: &TcpStream) -> Option<Duration> {
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd;

    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes into `info`, which is that large; both live across the call.
    let outcome = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    // SAFETY: the structure consists of numbers, which are zero where the kernel wrote none.
    (outcome == 0).then(|| Duration::from_micros(unsafe { info.assume_init() }.tcpi_rtt.into()))
}

/// Returns `None`: other systems report the round-trip time in another structure.
#[cfg(not(target_os = "linux"))]
fn round_trip(_stream: &TcpStream) -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use testkit::pair;

    use super::*;

    #[test]
    fn handshake_over_a_slow_network_may_take_longer() {
        let seconds = Duration::from_secs;
        let timeout = |round_trip| extended(round_trip, seconds(5));
        assert_eq!(timeout(Duration::ZERO), seconds(5));
        assert_eq!(timeout(Duration::from_millis(500)), seconds(9), "one loss in each direction takes 3.5 s");
        assert_eq!(timeout(seconds(20)), HANDSHAKE_MAX, "a testbed with the longest delay");
        assert_eq!(timeout(seconds(4_000)), HANDSHAKE_MAX);
        assert_eq!(extended(seconds(1), seconds(600)), seconds(600), "never shorter than the timeout");
        assert!(handshake_timeout(&pair().0, seconds(5)) < seconds(15), "loopback is fast");
    }
}
