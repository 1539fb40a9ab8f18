//! The setting of stalls, as in `every=1s,for=200ms`.

use std::fmt;

use super::units::{Time, units};

/// Periodic stalls of a server's first network thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall(pub server::Stall);

units! {
    Stall, "stall", "every=TIME,for=TIME, the second one shorter, such as every=1s,for=200ms", r"^every=[^,=]+, *for=[^,=]+$";
}

impl Stall {
    fn read(text: &str) -> Option<Self> {
        let (every, duration) = text.strip_prefix("every=")?.split_once(',')?;
        let time_ns = |text: &str| text.trim().parse::<Time>().ok().map(|time| time.0);
        let (every_ns, for_ns) = (time_ns(every)?, time_ns(duration.trim().strip_prefix("for=")?)?);
        (0 < for_ns && for_ns < every_ns).then_some(Self(server::Stall { every_ns, for_ns }))
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "every={},for={}", Time(self.0.every_ns), Time(self.0.for_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_read_and_written() {
        let stall: Stall = "every=1s, for=200ms".parse().unwrap();
        assert_eq!(stall, Stall(server::Stall { every_ns: 1_000_000_000, for_ns: 200_000_000 }));
        assert_eq!(stall.to_string(), "every=1s,for=200ms");
    }

    #[test]
    fn stall_that_never_ends_or_begins_is_rejected() {
        for text in ["", "every=1s", "for=1s,every=2s", "every=1s,for=0", "every=1s,for=1s", "every=1s,for=2"] {
            let error = text.parse::<Stall>().unwrap_err().to_string();
            assert!(error.contains("such as every=1s,for=200ms"), "{text}: {error}");
        }
    }
}
