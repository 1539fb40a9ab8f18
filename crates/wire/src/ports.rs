//! Ports that a datagram server listens on, as plain data.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::{schema_as, serde_as_text};

/// An ordered list of ports, written `7000-7099` or `7000-7004,7010`. The parser accepts each port once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(Vec<RangeInclusive<u16>>);

fn size(range: &RangeInclusive<u16>) -> u32 {
    u32::from(range.end() - range.start()) + 1
}

impl Ports {
    /// Returns `count` ports from `first` on; `None` if they do not all exist.
    pub fn consecutive(first: u16, count: u32) -> Option<Self> {
        let last = u32::from(first).checked_add(count.checked_sub(1)?)?;
        (first > 0).then_some(())?;
        Some(Self(vec![first..=u16::try_from(last).ok()?]))
    }

    /// Creates a list of these ports, in this order.
    pub fn list(ports: &[u16]) -> Self {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for &port in ports {
            match ranges.last_mut() {
                Some(last) if last.end().checked_add(1) == Some(port) => *last = *last.start()..=port,
                _ => ranges.push(port..=port),
            }
        }
        Self(ranges)
    }

    /// Returns the number of ports.
    pub fn count(&self) -> u32 {
        self.0.iter().map(size).sum()
    }

    /// Returns `count` ports from position `first` on.
    pub fn part(&self, first: u32, count: u32) -> Self {
        Self::list(&self.iter().skip(first as usize).take(count as usize).collect::<Vec<_>>())
    }

    /// Returns the ports in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().cloned().flatten()
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.0.iter().enumerate() {
            write!(f, "{}{}", if at > 0 { "," } else { "" }, range.start())?;
            if range.start() < range.end() {
                write!(f, "-{}", range.end())?;
            }
        }
        Ok(())
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
            (first > 0 && first <= last).then_some(first..=last)
        };
        // Show only the beginning of a long text.
        let wrong = |part: &str| format!("invalid ports `{part:.40}`: expected 7000-7099 or 7000-7004,7010");
        let ranges =
            text.split(',').map(|part| range(part).ok_or_else(|| wrong(part))).collect::<Result<Vec<_>, _>>()?;
        let mut sorted = ranges.clone();
        sorted.sort_unstable_by_key(|range| *range.start());
        match sorted.windows(2).find(|pair| pair[1].start() <= pair[0].end()) {
            Some(pair) => Err(format!("port {} appears twice; list each port once", pair[1].start())),
            None => Ok(Self(ranges)),
        }
    }
}

serde_as_text!(Ports);
schema_as!(Ports, "Ports", String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_read_back_as_written() {
        for (text, count) in [("7000", 1), ("7000-7099", 100), ("7000-7004,7010", 6), ("9,7-8", 3), ("1-65535", 65_535)]
        {
            let ports: Ports = text.parse().unwrap();
            assert_eq!((ports.to_string(), ports.count()), (text.to_owned(), count));
            assert_eq!(ports.iter().count() as u32, count);
        }
        assert_eq!("9,7-8".parse::<Ports>().unwrap().iter().collect::<Vec<_>>(), [9, 7, 8]);
    }

    #[test]
    fn invalid_ports_error_shows_valid_ones() {
        for wrong in ["", "0", "x", "5-4", "0-4", "1,,2", "7000-", "70000"] {
            assert!(wrong.parse::<Ports>().unwrap_err().contains("7000-7099"), "{wrong}");
        }
    }

    #[test]
    fn port_that_appears_twice_is_refused() {
        for text in ["1-65535,1", "7,9,7", "8,7-9", "7-9,8", &["1-65535"; 70_000].join(","), &["7"; 65_536].join(",")] {
            assert!(text.parse::<Ports>().unwrap_err().contains("appears twice"), "{text:.20}");
        }
    }

    #[test]
    fn consecutive_ports_are_written_as_a_range() {
        assert_eq!(Ports::list(&[5, 6, 7, 9, 65_535]).to_string(), "5-7,9,65535");
        assert_eq!(Ports::consecutive(7_000, 100), Some(Ports::list(&(7_000..7_100).collect::<Vec<_>>())));
        assert_eq!(Ports::consecutive(65_535, 1).unwrap().to_string(), "65535");
        for (first, count) in [(65_535, 2), (0, 1), (1, 0), (2, u32::MAX)] {
            assert_eq!(Ports::consecutive(first, count), None, "{count} from {first}");
        }
    }
}
