//! Quantities as in flags and experiment files: `128B`, `10KiB`, `30s`, `50us`, `2000/s`, `10k`, `0-1,3`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{Deserializer, Error, Visitor};

/// An invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {kind} `{text}`: expected {expected}")]
pub struct UnitError {
    kind: &'static str,
    text: String,
    expected: &'static str,
}

impl UnitError {
    /// The error of a `text` that is no `kind`.
    pub fn new(kind: &'static str, text: &str, expected: &'static str) -> Self {
        Self { kind, text: text.to_owned(), expected }
    }
}

/// A size in bytes, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u32);

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

/// A time limit in nanoseconds, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimit(pub Option<u64>);

/// A rate in requests per second, finite and above 0, as in `2000`, `10k` or `2000/s`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(extend("exclusiveMinimum" = 0))]
pub struct Rate(pub f64);

/// Rates in ascending steps, as in `10000..45000+5000` or `1k..8k*2`, or a single rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates(pub Vec<Rate>);

/// A share above 0 and at most 1, as in `1/16`, `6.25%` or `0.0625`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

/// A share of lost packets, as in `0.1%` or `1/1000`. A bare number is an error because it is ambiguous: network
/// emulators read it as a percentage, but other shares are fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss(pub f64);

/// A list of CPUs, as in `0-1,3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(pub Vec<usize>);

/// A range of sizes, as in `10B..1000B`, or a single size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The lowest size.
    pub least: Size,
    /// The highest size.
    pub most: Size,
}

/// A bandwidth in bits per second, as in `1Gbit` or `100Mbit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth(pub u64);

/// Units with their scales. [`write_scaled`] uses the last unit whose scale divides a number. Units before the one with scale 1
/// are only read: other tools write `10K` as ls(1) does, and `10m` as wrk does.
type Units = [(&'static str, u64)];

const SIZES: &Units = &[
    ("k", 1 << 10),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("KB", 1_000),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const TIMES: &Units = &[
    ("m", 60_000_000_000),
    ("ns", 1),
    ("µs", 1_000),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const BANDWIDTHS: &Units =
    &[("bit", 1), ("kbit", 1_000), ("Mbit", 1_000_000), ("Gbit", 1_000_000_000), ("Tbit", 1_000_000_000_000)];

/// The shortest time whose milliseconds are hard to read.
const LONG_NS: u64 = 100_000_000_000;

/// The scales of counts and rates.
const COUNTS: &Units = &[("", 1), ("k", 1_000), ("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];

/// The maximum number of steps in a range of rates. More are probably a mistake, as in `1..1e6+1`.
const STEPS_MAX: usize = 1_000;
/// The maximum number of CPUs of a host.
const CPUS_MAX: usize = 4096;

/// Parses a number with one of `units` and scales it. The number may have a fraction.
fn scaled(text: &str, units: &Units) -> Option<f64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (text[..split].parse::<f64>().ok()?, text[split..].trim());
    let scale = units.iter().find(|(name, _)| *name == unit)?.1;
    Some(number * scale as f64)
}

/// Parses a number whose scaled value must be whole, from 1 to `max`.
fn whole(text: &str, units: &Units, max: f64) -> Option<u64> {
    let value = scaled(text, units).filter(|value| (1.0..=max).contains(value) && value.fract() == 0.0)?;
    Some(value as u64)
}

/// Parses a whole number of 32 bits, which may end with `k`, `M` or `G`.
pub fn count<T: FromStr>(text: &str) -> Result<T, UnitError> {
    let parse = |text: &str| text.parse::<T>().ok();
    let expected = match parse("0") {
        Some(_) => "a whole number from 0 to 4294967295, such as 400, 10k or 1M",
        None => "a whole number from 1 to 4294967295, such as 400, 10k or 1M",
    };
    let value = scaled(text.trim(), COUNTS).filter(|value| value.fract() == 0.0 && *value < 1e18);
    let number = value.and_then(|value| parse(&(value as u64).to_string()));
    number.ok_or_else(|| UnitError::new("count", text, expected))
}

/// Parses a time above 0.
pub fn time_above_0(text: &str) -> Result<Time, UnitError> {
    Time::read_above_0(text).map(Time).ok_or_else(|| UnitError::new("time", text, "a time above 0, such as 1ms or 30s"))
}

/// Writes a number in the last of `units` that leaves no fraction.
fn write_scaled(f: &mut fmt::Formatter<'_>, number: u64, units: &Units) -> fmt::Result {
    let exact = |&&(_, scale): &&(&str, u64)| number.is_multiple_of(scale);
    let (unit, scale) = units.iter().rev().find(exact).expect("1 divides everything");
    write!(f, "{}{unit}", number / scale)
}

/// Writes a time as [`write_scaled`] does, or in seconds if it has many milliseconds.
fn write_time(f: &mut fmt::Formatter<'_>, ns: u64) -> fmt::Result {
    match ns {
        0 => f.write_str("0s"),
        LONG_NS.. if ns.is_multiple_of(1_000_000) && !ns.is_multiple_of(1_000_000_000) => {
            write!(f, "{}s", ns as f64 / 1e9)
        }
        _ => write_scaled(f, ns, TIMES),
    }
}

/// The text of a TOML or JSON value: a bare number or word in a file thus gets the same error as in a flag.
struct Text;

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<String, E> {
        // As in TOML: `nan`, `1.0`.
        Ok(format!("{number:?}").to_lowercase())
    }
}

/// Deserialises a value from its text, or from a number as if it were text.
pub fn from_text<'de, T: FromStr<Err = UnitError>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(Text)?.parse().map_err(D::Error::custom)
}

/// Implements parsing from text, and from the text of a value in a file. For a type with a pattern, also implements storing as
/// text and a schema.
#[macro_export]
macro_rules! units {
    ($($type:ident, $kind:literal, $expected:literal $(, $pattern:literal)?;)+) => {$(
        impl ::std::str::FromStr for $type {
            type Err = $crate::units::UnitError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let error = || $crate::units::UnitError::new($kind, text, $expected);
                Self::read(text.trim()).ok_or_else(error)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::units::from_text(deserializer)
            }
        }

        $(
            impl ::serde::Serialize for $type {
                fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.collect_str(self)
                }
            }

            impl ::schemars::JsonSchema for $type {
                fn schema_name() -> ::std::borrow::Cow<'static, str> {
                    stringify!($type).into()
                }

                fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                    ::schemars::json_schema!({"type": "string", "pattern": $pattern})
                }
            }
        )?
    )+};
}

pub use units;

units! {
    Size, "size", "1B to 4294967295B (4GiB - 1B), such as 128B, 10KiB or 1MiB (kB and MB are powers of ten)",
        r"^[0-9]+(\.[0-9]+)? *(B|[kK]|[MG]|[KMG]iB|[kKMG]B)$";
    Time, "time", "a number with a unit, such as 30s, 500ms, 50us or 10min",
        r"^(0|[0-9]+(\.[0-9]+)? *(ns|us|µs|ms|s|m|min|h))$";
    TimeLimit, "time limit", "a time above 0 such as 60s, or off";
    Rate, "rate", "requests per second above 0, such as 2000, 10k or 2000/s";
    Rates, "range of rates", "at most 1000 steps such as 10000..45000+5000 or 1k..8k*2, or one rate such as 2000";
    Share, "share", "a number above 0 and at most 1, such as 1/16, 6.25% or 0.0625", r"^([0-9.]+ */ *[0-9.]+|[0-9.]+ *%?)$";
    Loss, "loss", "a share above 0 with its unit, such as 0.1% or 1/1000 (0.1 alone could mean 0.1% or 10%)",
        r"^([0-9.]+ */ *[0-9.]+|[0-9.]+ *%)$";
    Bandwidth, "bandwidth", "bits per second, such as 1Gbit, 100Mbit or 500kbit",
        r"^[0-9]+(\.[0-9]+)? *(bit|kbit|Mbit|Gbit|Tbit)(/s)?$";
    Sizes, "range of sizes", "sizes from 1B to 4294967295B (4GiB - 1B), the lowest first, such as 10B..1000B or 100B",
        r"^[0-9.]+ *(B|[kK]|[MG]|[KMG]iB|[kKMG]B)(\.\.[0-9.]+ *(B|[kK]|[MG]|[KMG]iB|[kKMG]B))?$";
    Cpus, "list of CPUs", "numbers and ranges, such as 0 or 0-1,3", r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$";
}

impl Size {
    fn read(text: &str) -> Option<Self> {
        whole(text, SIZES, u32::MAX.into()).map(|bytes| Self(bytes as u32))
    }
}

impl Time {
    fn read(text: &str) -> Option<Self> {
        // A bare 0 needs no unit.
        let ns = if text == "0" { 0.0 } else { scaled(text, TIMES)? };
        (ns <= 1e18).then(|| Self(ns.round() as u64))
    }

    fn read_above_0(text: &str) -> Option<u64> {
        Self::read(text.trim()).map(|time| time.0).filter(|&ns| ns > 0)
    }
}

impl TimeLimit {
    fn read(text: &str) -> Option<Self> {
        if text == "off" { Some(Self(None)) } else { Time::read_above_0(text).map(|ns| Self(Some(ns))) }
    }
}

impl Rate {
    /// Returns a rate in requests per second, or `None` unless it is finite and above 0.
    pub fn new(per_s: f64) -> Option<Self> {
        (per_s.is_finite() && per_s > 0.0).then_some(Self(per_s))
    }

    fn read(text: &str) -> Option<Self> {
        let text = text.strip_suffix("/s").unwrap_or(text);
        // A number in a file may have an exponent.
        Self::new(scaled(text, COUNTS).or_else(|| text.parse().ok())?)
    }
}

impl Rates {
    fn read(text: &str) -> Option<Self> {
        let Some((first, rest)) = text.split_once("..") else { return Some(Self(vec![Rate::read(text)?])) };
        let at = rest.find(['+', '*'])?;
        let read = |text: &str| Rate::read(text.trim()).map(|rate| rate.0);
        let (first, last, step) = (read(first)?, read(&rest[..at])?, read(&rest[at + 1..])?);
        let is_factor = rest[at..].starts_with('*');
        if first > last || is_factor && step <= 1.0 {
            return None;
        }
        let nth = |n: usize| if is_factor { first * step.powi(n as i32) } else { first + step * n as f64 };
        // Tolerate rounding errors in the last step.
        let is_in_range = |rate: &f64| *rate <= last * (1.0 + 1e-9);
        let rates: Vec<Rate> = (0..=STEPS_MAX).map(nth).take_while(is_in_range).map(Rate).collect();
        (rates.len() <= STEPS_MAX).then_some(Self(rates))
    }
}

impl Share {
    fn read(text: &str) -> Option<Self> {
        let number = |part: &str| part.trim().parse::<f64>().ok();
        let share = match (text.split_once('/'), text.strip_suffix('%')) {
            (Some((part, whole)), _) => number(part)? / number(whole)?,
            (None, Some(percent)) => number(percent)? / 100.0,
            (None, None) => number(text)?,
        };
        (share > 0.0 && share <= 1.0).then_some(Self(share))
    }
}

impl Loss {
    fn read(text: &str) -> Option<Self> {
        Share::read(text).filter(|_| text.contains(['%', '/'])).map(|share| Self(share.0))
    }
}

impl Cpus {
    fn read(text: &str) -> Option<Self> {
        let range = |part: &str| -> Option<RangeInclusive<usize>> {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last && last < CPUS_MAX).then_some(first..=last)
        };
        // Ranges may overlap.
        let mut is_listed = [false; CPUS_MAX];
        for part in text.split(',') {
            is_listed[range(part)?].fill(true);
        }
        Some(Self((0..CPUS_MAX).filter(|cpu| is_listed[*cpu]).collect()))
    }
}

impl Bandwidth {
    fn read(text: &str) -> Option<Self> {
        whole(text.strip_suffix("/s").unwrap_or(text), BANDWIDTHS, 1e15).map(Self)
    }
}

impl Sizes {
    fn read(text: &str) -> Option<Self> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let (least, most) = (Size::read(least.trim())?, Size::read(most.trim())?);
        (least.0 <= most.0).then_some(Self { least, most })
    }
}

/// Implements `Display` from an expression.
macro_rules! display {
    ($($type:ident, |$self:ident, $f:ident| $write:expr;)+) => {$(
        impl fmt::Display for $type {
            fn fmt(&$self, $f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $write
            }
        }
    )+};
}

display! {
    Size, |self, f| write_scaled(f, self.0.into(), SIZES);
    Bandwidth, |self, f| write_scaled(f, self.0, BANDWIDTHS);
    Time, |self, f| write_time(f, self.0);
    Sizes, |self, f| if self.least == self.most {
        self.least.fmt(f)
    } else {
        write!(f, "{}..{}", self.least, self.most)
    };
    Rate, |self, f| self.0.fmt(f);
    Share, |self, f| match (1.0 / self.0).round() {
        1.0 if self.0 == 1.0 => f.write_str("1"),
        // Use this form only if it reads back exactly.
        part if part < 1e6 && 1.0 / part == self.0 => write!(f, "1/{part}"),
        _ => self.0.fmt(f),
    };
    Loss, |self, f| {
        let exact = [Share(self.0).to_string(), format!("{}%", self.0 * 100.0)];
        match exact.iter().find(|text| text.parse() == Ok(*self)) {
            Some(text) => f.write_str(text),
            None => write!(f, "{}/1", self.0),
        }
    };
    Cpus, |self, f| {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
            [one] => one.to_string(),
            _ => format!("{}-{}", run[0], run[run.len() - 1]),
        });
        f.write_str(&runs.collect::<Vec<_>>().join(","))
    };
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn displayed_units_parse_back(
            bytes in 1u32..,
            ns in 0u64..1_000_000_000_000_000,
            cpus in prop::collection::btree_set(0usize..200, 1..20),
            share in 1e-9f64..=1.0,
            whole in 1u32..100_000,
        ) {
            for share in [share, 1.0 / f64::from(whole)] {
                prop_assert_eq!(Share(share).to_string().parse(), Ok(Share(share)));
                prop_assert_eq!(Loss(share).to_string().parse(), Ok(Loss(share)));
            }
            prop_assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
            prop_assert_eq!(Time(ns).to_string().parse(), Ok(Time(ns)));
            let cpus = Cpus(cpus.into_iter().collect());
            prop_assert_eq!(cpus.to_string().parse(), Ok(cpus));
        }

        #[test]
        fn parsers_of_units_never_panic(text in ".*") {
            let _ = (text.parse::<Size>(), text.parse::<Time>(), text.parse::<Rate>(), text.parse::<Rates>());
            let _ = (text.parse::<Share>(), text.parse::<Loss>(), text.parse::<Cpus>());
        }
    }

    #[test]
    fn notations_of_other_tools_are_read() {
        for (text, rate) in [("2000/s", 2e3), ("10K", 1e4), ("2.5k/s", 2.5e3), ("1e3", 1e3), ("0.5", 0.5)] {
            assert_eq!(text.parse(), Ok(Rate(rate)), "{text}");
        }
        for (text, bytes) in [("10K", 10_240), ("10k", 10_240), ("1M", 1 << 20), ("10KB", 10_000), ("10KiB", 10_240)] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        assert_eq!(("10m".parse(), "1.5m".parse()), (Ok(Time(600_000_000_000)), Ok(Time(90_000_000_000))));
        assert_eq!((Time(600_000_000_000).to_string(), Size(10_240).to_string()), ("10min".into(), "10KiB".into()));
        assert_eq!(
            (Time(59_404_400_000_000).to_string(), Time(1_500_000_000).to_string()),
            ("59404.4s".into(), "1500ms".into())
        );
        assert_eq!((count("400"), count("10K"), count("0"), count("1.5k")), (Ok(400u32), Ok(10_000), Ok(0), Ok(1_500)));
        assert_eq!(count("1M"), Ok(NonZeroU32::new(1_000_000).unwrap()));
        for wrong in ["", "k", "1.5", "-1", "5G", "1KiB", "10/s"] {
            assert!(count::<u32>(wrong).is_err(), "{wrong}");
        }
        let error = count::<NonZeroU32>("0").unwrap_err().to_string();
        assert!(error.contains("from 1 to 4294967295"), "{error}");
    }

    #[test]
    fn units_are_parsed_and_displayed() {
        assert_eq!("10KiB".parse(), Ok(Size(10_240)));
        assert_eq!("10kB".parse(), Ok(Size(10_000)));
        assert_eq!("1.5KiB".parse(), Ok(Size(1_536)));
        assert_eq!("off".parse(), Ok(TimeLimit(None)));
        assert_eq!("60s".parse(), Ok(TimeLimit(Some(60_000_000_000))));
        assert!("0s".parse::<TimeLimit>().is_err() && "none".parse::<TimeLimit>().is_err());
        assert_eq!("50us".parse(), Ok(Time(50_000)));
        assert_eq!("10min".parse(), Ok(Time(600_000_000_000)));
        assert_eq!("0".parse(), Ok(Time(0)));
        assert_eq!("0-1,3".parse(), Ok(Cpus(vec![0, 1, 3])));
        for share in ["1/64", "1.5625%", "0.015625", "2/128"] {
            assert_eq!(share.parse(), Ok(Share(1.0 / 64.0)), "{share}");
        }
        for sizes in ["10B..1000B", "1KiB", "1B..1MiB"] {
            assert_eq!(sizes.parse::<Sizes>().unwrap().to_string(), sizes);
        }
        for wrong in ["", "10..20B", "20B..10B", "10B...20B", "10B..", "..10B", "0B..1B"] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
        }
        assert_eq!(Share(1.0 / 64.0).to_string(), "1/64");
        assert_eq!((Share(1.0).to_string(), Share(0.3).to_string()), ("1".into(), "0.3".into()));
        for wrong in ["", "0", "-1", "2", "1/0", "0/4", "nan", "150%", "1/2/3", "x"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
        for loss in ["1/1000", "0.1%", "0.1 %"] {
            assert_eq!(loss.parse(), Ok(Loss(0.001)), "{loss}");
        }
        for wrong in ["", "0.1", "1", "0", "0%", "101%", "2/1", "%", "/"] {
            let error = wrong.parse::<Loss>().unwrap_err().to_string();
            assert!(error.contains("0.1% or 1/1000"), "{wrong}: {error}");
        }
        for wrong in ["", "128", "0B", "-1B", "1.5B", "5GiB", "128 b", "KiB"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
        assert_eq!("4294967295B".parse(), Ok(Size(u32::MAX)));
        let error = "4GiB".parse::<Size>().unwrap_err().to_string();
        assert!(error.contains("expected 1B to 4294967295B"), "{error}");
        for wrong in ["", "30", "30 seconds", "-1s", "s"] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
        for wrong in ["0", "-1", "nan", "inf", "", "10/min", "/s", "k"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
        assert_eq!(("10k".parse(), "1.5M".parse()), (Ok(Rate(10_000.0)), Ok(Rate(1_500_000.0))));
        let rates = |text: &str| -> Vec<f64> { text.parse::<Rates>().unwrap().0.iter().map(|rate| rate.0).collect() };
        assert_eq!(rates("10000..25000+5000"), [10_000.0, 15_000.0, 20_000.0, 25_000.0]);
        assert_eq!(
            rates("10k..24k+5k"),
            [10_000.0, 15_000.0, 20_000.0],
            "the last step may be below the end of the range"
        );
        assert_eq!(rates("1k..8k*2"), [1_000.0, 2_000.0, 4_000.0, 8_000.0]);
        assert_eq!((rates("0.1..0.3+0.1").len(), rates("500"), rates("5..5+1")), (3, vec![500.0], vec![5.0]));
        for wrong in
            ["", "1..", "..5+1", "1..5", "5..1+1", "1..5+0", "1..5*1", "1..5*0.5", "1..5000+1", "1..5+1+1", "1..5-1"]
        {
            assert!(wrong.parse::<Rates>().is_err(), "{wrong}");
        }
        for wrong in ["", "1-0", "a", "1,,2", "0-99999"] {
            assert!(wrong.parse::<Cpus>().is_err(), "{wrong}");
        }
    }
}
