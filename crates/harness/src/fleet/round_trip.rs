//! How far away the other side of a connection is.

use std::net::TcpStream;
use std::time::Duration;

/// A greeting is one round trip. A lost packet is sent again after three round trips at most, as the kernel knows one from the
/// connection's beginning; so a packet may be lost in each direction.
const ROUND_TRIPS: u32 = 8;
/// No greeting takes longer, however far away the other side seems to be: it can make itself seem so.
const GREETING_MAX: Duration = Duration::from_secs(60);

/// The time that a greeting on this connection may take: `patience`, and more where the way is long.
pub(super) fn greeting(stream: &TcpStream, patience: Duration) -> Duration {
    greeting_over(round_trip(stream).unwrap_or_default(), patience)
}

fn greeting_over(round_trip: Duration, patience: Duration) -> Duration {
    patience.max((patience + ROUND_TRIPS * round_trip).min(GREETING_MAX))
}

/// The round trip that the kernel has measured; `None` where it does not say.
#[cfg(target_os = "linux")]
fn round_trip(stream: &TcpStream) -> Option<Duration> {
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd;

    let mut facts = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` into `facts`, which has so many; both live across the call.
    let outcome = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            facts.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    // SAFETY: all of it is numbers, and zero where the kernel wrote none.
    (outcome == 0).then(|| Duration::from_micros(unsafe { facts.assume_init() }.tcpi_rtt.into()))
}

/// Others measure it too, each with a structure of its own.
#[cfg(not(target_os = "linux"))]
fn round_trip(_stream: &TcpStream) -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline_stream::tests::pair;

    #[test]
    fn greeting_over_a_long_way_may_take_longer() {
        let seconds = Duration::from_secs;
        let over = |round_trip| greeting_over(round_trip, seconds(5));
        assert_eq!(over(Duration::ZERO), seconds(5));
        assert_eq!(over(Duration::from_millis(500)), seconds(9), "twice lost, it is there after 3.5 s");
        assert_eq!(over(seconds(20)), GREETING_MAX, "the longest way in a lab");
        assert_eq!(over(seconds(4_000)), GREETING_MAX);
        assert_eq!(greeting_over(seconds(1), seconds(600)), seconds(600), "never less than asked for");
        assert!(greeting(&pair().0, seconds(5)) < seconds(15), "a host is not far from itself");
    }
}
