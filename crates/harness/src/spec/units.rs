//! Values with units as in experiment files: `128B`, `10KiB`, `30s`, `50us`, `0-1,3`.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use server::service::work::Kind;

/// An invalid value, with the expected kind and an example.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {what}; write it like {example}")]
pub struct UnitError {
    text: String,
    what: &'static str,
    example: &'static str,
}

/// A size in bytes, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u32);

/// A read budget, from 1B to 1MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(pub server::ReadBudget);

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

/// A time limit in nanoseconds, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub Option<u64>);

/// A rate in requests per second, finite and above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// Simulated work of each request, as in `cpu=50us` or `sleep=1ms,exponential`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work(pub server::Work);

/// The think time of a closed loop, as in `1ms` or `1ms,exponential`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Think(pub load::config::Think);

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

const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

const TIMES: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

const BANDWIDTHS: &[(&str, u64)] =
    &[("bit", 1), ("kbit", 1_000), ("Mbit", 1_000_000), ("Gbit", 1_000_000_000), ("Tbit", 1_000_000_000_000)];

/// Parses a number with one of `units` and scales it. The number may have a fraction.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<f64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = (text[..split].parse::<f64>().ok()?, text[split..].trim());
    let scale = units.iter().find(|(name, _)| *name == unit)?.1;
    Some(number * scale as f64)
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match scaled(text.trim(), SIZES) {
            Some(bytes) if bytes >= 1.0 && bytes <= f64::from(u32::MAX) && bytes.fract() == 0.0 => {
                Ok(Self(bytes as u32))
            }
            _ => Err(UnitError {
                text: text.to_owned(),
                what: "size from 1B to 4GiB",
                example: "128B, 10KiB or 1MiB (kB and MB are powers of ten)",
            }),
        }
    }
}

impl FromStr for Budget {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let budget = text.parse().ok().and_then(|Size(bytes)| server::ReadBudget::new(bytes).ok());
        budget.map(Self).ok_or_else(|| UnitError {
            text: text.to_owned(),
            what: "read budget from 1B to 1MiB",
            example: "64KiB or 256KiB",
        })
    }
}

impl FromStr for Time {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        // A bare 0 needs no unit.
        let ns = if text.trim() == "0" { Some(0.0) } else { scaled(text.trim(), TIMES) };
        match ns {
            Some(ns) if ns <= 1e18 => Ok(Self(ns.round() as u64)),
            _ => Err(UnitError { text: text.to_owned(), what: "time", example: "30s, 500ms, 50us or 10min" }),
        }
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError { text: text.to_owned(), what: "rate above 0", example: "2000 (requests a second)" };
        let (number, scale) = match text.trim() {
            text if text.ends_with('k') => (&text[..text.len() - 1], 1e3),
            text if text.ends_with('M') => (&text[..text.len() - 1], 1e6),
            text => (text, 1.0),
        };
        let number: f64 = number.parse().map_err(|_| error())?;
        Self::new(number * scale).ok_or_else(error)
    }
}

/// The maximum number of steps in a range of rates. More are probably a mistake, as in `1..1e6+1`.
const STEPS_MAX: usize = 1_000;

impl FromStr for Rates {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError {
            text: text.to_owned(),
            what: "range of rates of at most 1000 steps",
            example: "10000..45000+5000 (each 5000 more), 1k..8k*2 (each twice the last), or 2000 alone",
        };
        let Some((first, rest)) = text.split_once("..") else { return Ok(Self(vec![text.parse()?])) };
        let at = rest.find(['+', '*']).ok_or_else(error)?;
        let read = |text: &str| text.parse::<Rate>().map(|rate| rate.0).map_err(|_| error());
        let (first, last, step) = (read(first)?, read(&rest[..at])?, read(&rest[at + 1..])?);
        let is_factor = rest[at..].starts_with('*');
        if first > last || is_factor && step <= 1.0 {
            return Err(error());
        }
        let nth = |n: usize| if is_factor { first * step.powi(n as i32) } else { first + step * n as f64 };
        // Tolerate rounding errors in the last step.
        let rates: Vec<Rate> =
            (0..=STEPS_MAX).map(nth).take_while(|rate| *rate <= last * (1.0 + 1e-9)).map(Rate).collect();
        if rates.len() > STEPS_MAX { Err(error()) } else { Ok(Self(rates)) }
    }
}

impl Rate {
    /// Returns a rate in requests per second, or `None` unless it is finite and above 0.
    pub fn new(per_s: f64) -> Option<Self> {
        (per_s.is_finite() && per_s > 0.0).then_some(Self(per_s))
    }
}

impl FromStr for Share {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let number = |part: &str| part.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let share = match text.split_once('/') {
            Some((part, whole)) => number(part).zip(number(whole)).map(|(part, whole)| part / whole),
            None => match text.trim().strip_suffix('%') {
                Some(percent) => number(percent).map(|percent| percent / 100.0),
                None => number(text),
            },
        };
        share.filter(|&share| share > 0.0 && share <= 1.0).map(Self).ok_or_else(|| UnitError {
            text: text.to_owned(),
            what: "share above 0 and at most 1",
            example: "1/16, 6.25% or 0.0625",
        })
    }
}

impl FromStr for Loss {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let share = text.parse::<Share>().ok().filter(|_| text.contains(['%', '/']));
        share.map(|share| Self(share.0)).ok_or_else(|| UnitError {
            text: text.to_owned(),
            what: "loss above 0 and at most 100%, with its unit",
            example: "0.1% or 1/1000",
        })
    }
}

/// The maximum number of CPUs of a host.
const CPUS_MAX: usize = 4096;

impl FromStr for Cpus {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let range = |part: &str| -> Option<RangeInclusive<usize>> {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last && last < CPUS_MAX).then_some(first..=last)
        };
        // List each CPU once, even if the ranges overlap.
        let mut is_there = [false; CPUS_MAX];
        for part in text.split(',') {
            let error = || UnitError { text: text.to_owned(), what: "list of CPUs", example: "0 or 0-1,3" };
            is_there[range(part).ok_or_else(error)?].fill(true);
        }
        let cpus = (0..CPUS_MAX).filter(|cpu| is_there[*cpu]).collect();
        Ok(Self(cpus))
    }
}

impl FromStr for Limit {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError { text: text.to_owned(), what: "limit of time", example: "60s, or off for none" };
        match text.trim() {
            "off" => Ok(Self(None)),
            time => match time.parse().map_err(|_| error())? {
                Time(0) => Err(error()),
                Time(ns) => Ok(Self(Some(ns))),
            },
        }
    }
}

impl FromStr for Work {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError {
            text: text.to_owned(),
            what: "work",
            example: "cpu=50us (time of a CPU) or sleep=1ms (a wait), and with random times cpu=50us,exponential",
        };
        let (work, exponential) = law(text).ok_or_else(error)?;
        let (kind, time) = work.split_once('=').ok_or_else(error)?;
        let kind = match kind.trim() {
            "cpu" => Kind::Cpu,
            "sleep" => Kind::Sleep,
            _ => return Err(error()),
        };
        let Time(time_ns) = time.parse().map_err(|_| error())?;
        if time_ns == 0 {
            return Err(error());
        }
        Ok(Self(server::Work { kind, time_ns, exponential }))
    }
}

/// Returns the text before `,exponential`, and whether that suffix is present.
fn law(text: &str) -> Option<(&str, bool)> {
    match text.trim().split_once(',') {
        None => Some((text.trim(), false)),
        Some((rest, law)) => (law.trim() == "exponential").then_some((rest, true)),
    }
}

impl FromStr for Bandwidth {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let trimmed = text.trim();
        match scaled(trimmed.strip_suffix("/s").unwrap_or(trimmed), BANDWIDTHS) {
            Some(bits) if (1.0..=1e15).contains(&bits) && bits.fract() == 0.0 => Ok(Self(bits as u64)),
            _ => Err(UnitError {
                text: text.to_owned(),
                what: "bandwidth",
                example: "1Gbit, 100Mbit or 500kbit (a second)",
            }),
        }
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |&&(_, scale): &&(&str, u64)| self.0.is_multiple_of(scale);
        let (unit, scale) = BANDWIDTHS.iter().rev().find(exact).expect("1 divides everything");
        write!(f, "{}{unit}", self.0 / scale)
    }
}

impl FromStr for Think {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError {
            text: text.to_owned(),
            what: "time to think",
            example: "1ms, with random times 1ms,exponential, or 0 for none",
        };
        let (time, exponential) = law(text).ok_or_else(error)?;
        let Time(mean_ns) = time.parse().map_err(|_| error())?;
        Ok(Self(load::config::Think { mean_ns, exponential: exponential && mean_ns > 0 }))
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.mean_ns {
            0 => f.write_str("0"),
            mean_ns => write!(f, "{}{}", Time(mean_ns), if self.0.exponential { ",exponential" } else { "" }),
        }
    }
}

impl FromStr for Sizes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError {
            text: text.to_owned(),
            what: "range of sizes from 1B to 4GiB",
            example: "10B..1000B, the least first, or 100B",
        };
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let (least, most): (Size, Size) = least.parse().ok().zip(most.parse().ok()).ok_or_else(error)?;
        if least.0 <= most.0 { Ok(Self { least, most }) } else { Err(error()) }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { least, most } if least == most => write!(f, "{least}"),
            Self { least, most } => write!(f, "{least}..{most}"),
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.0.kind {
            Kind::Cpu => "cpu",
            Kind::Sleep => "sleep",
        };
        write!(f, "{kind}={}{}", Time(self.0.time_ns), if self.0.exponential { ",exponential" } else { "" })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = u64::from(self.0);
        let exact = |&&(_, scale): &&(&str, u64)| bytes.is_multiple_of(scale);
        let (unit, scale) = SIZES[..4].iter().rev().find(exact).expect("1 divides everything");
        write!(f, "{}{unit}", bytes / scale)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Size(self.0.into()).fmt(f)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |&&(name, scale): &&(&str, u64)| name != "µs" && self.0 > 0 && self.0.is_multiple_of(scale);
        let (unit, scale) = TIMES.iter().rev().find(exact).copied().unwrap_or(("s", 1_000_000_000));
        write!(f, "{}{unit}", self.0 / scale)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = 1.0 / self.0;
        match whole.round() {
            1.0 if self.0 == 1.0 => f.write_str("1"),
            // Use this form only if it reads back exactly.
            part if part < 1e6 && 1.0 / part == self.0 => write!(f, "1/{part}"),
            _ => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = [Share(self.0).to_string(), format!("{}%", self.0 * 100.0)];
        match exact.iter().find(|text| text.parse() == Ok(*self)) {
            Some(text) => f.write_str(text),
            None => write!(f, "{}/1", self.0),
        }
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for run in self.0.chunk_by(|a, b| a + 1 == *b) {
            parts.push(match run {
                [one] => one.to_string(),
                _ => format!("{}-{}", run[0], run[run.len() - 1]),
            });
        }
        f.write_str(&parts.join(","))
    }
}

/// Reads a text or a bare number. A number without its required unit fails with the same message as a text.
struct TextVisitor<T>(PhantomData<T>);

impl<T: FromStr<Err = UnitError>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text with a unit")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Serialises a type as text. Invalid values in files and flags get the same error.
macro_rules! as_text {
    ($type:ident, $title:literal, $pattern:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(TextVisitor(PhantomData))
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $title.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern})
            }
        }
    };
}

as_text!(Size, "Size", r"^[0-9]+(\.[0-9]+)? *(B|KiB|MiB|GiB|kB|MB|GB)$");
as_text!(Budget, "Budget", r"^[0-9]+(\.[0-9]+)? *(B|KiB|MiB|kB|MB)$");
as_text!(Time, "Time", r"^(0|[0-9]+(\.[0-9]+)? *(ns|us|µs|ms|s|min|h))$");
as_text!(Share, "Share", r"^([0-9.]+ */ *[0-9.]+|[0-9.]+ *%?)$");
as_text!(Loss, "Loss", r"^([0-9.]+ */ *[0-9.]+|[0-9.]+ *%)$");
as_text!(Bandwidth, "Bandwidth", r"^[0-9]+(\.[0-9]+)? *(bit|kbit|Mbit|Gbit|Tbit)(/s)?$");
as_text!(Work, "Work", r"^(cpu|sleep)=[0-9]+(\.[0-9]+)? *(ns|us|µs|ms|s|min|h)(, *exponential)?$");
as_text!(Think, "Think", r"^(0|[0-9]+(\.[0-9]+)? *(ns|us|µs|ms|s|min|h)(, *exponential)?)$");
as_text!(Sizes, "Sizes", r"^[0-9.]+ *(B|KiB|MiB|GiB|kB|MB|GB)(\.\.[0-9.]+ *(B|KiB|MiB|GiB|kB|MB|GB))?$");
as_text!(Cpus, "Cpus", r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$");

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let per_s = f64::deserialize(deserializer)?;
        Self::new(per_s)
            .ok_or_else(|| serde::de::Error::custom(format!("{per_s} is no rate; write requests a second, above 0")))
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "exclusiveMinimum": 0})
    }
}

#[cfg(test)]
mod tests {
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
        fn nothing_panics(text in ".*") {
            let _ = (text.parse::<Size>(), text.parse::<Time>(), text.parse::<Rate>(), text.parse::<Rates>());
            let _ = (text.parse::<Share>(), text.parse::<Loss>(), text.parse::<Cpus>());
        }
    }

    #[test]
    fn units() {
        assert_eq!("10KiB".parse(), Ok(Size(10_240)));
        assert_eq!("10kB".parse(), Ok(Size(10_000)));
        assert_eq!("1.5KiB".parse(), Ok(Size(1_536)));
        assert_eq!("off".parse(), Ok(Limit(None)));
        assert_eq!("60s".parse(), Ok(Limit(Some(60_000_000_000))));
        assert!("0s".parse::<Limit>().is_err() && "none".parse::<Limit>().is_err());
        assert_eq!("50us".parse(), Ok(Time(50_000)));
        assert_eq!("10min".parse(), Ok(Time(600_000_000_000)));
        assert_eq!("0".parse(), Ok(Time(0)));
        assert_eq!("0-1,3".parse(), Ok(Cpus(vec![0, 1, 3])));
        for share in ["1/64", "1.5625%", "0.015625", "2/128"] {
            assert_eq!(share.parse(), Ok(Share(1.0 / 64.0)), "{share}");
        }
        for work in ["cpu=50us", "sleep=1ms", "cpu=1500ns,exponential"] {
            assert_eq!(work.parse::<Work>().unwrap().to_string(), work);
        }
        for wrong in ["", "cpu", "cpu=", "cpu=0", "cpu=50", "disk=1ms", "cpu=50us,", "cpu=50us,normal", "50us"] {
            assert!(wrong.parse::<Work>().is_err(), "{wrong}");
        }
        for think in ["1ms", "1500ns,exponential", "0"] {
            assert_eq!(think.parse::<Think>().unwrap().to_string(), think);
        }
        for wrong in ["", "1", "1ms,", "1ms,normal", ",exponential", "cpu=1ms"] {
            assert!(wrong.parse::<Think>().is_err(), "{wrong}");
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
        for budget in ["1B", "64KiB", "1MiB"] {
            assert_eq!(budget.parse::<Budget>().unwrap().to_string(), budget);
        }
        for wrong in ["", "64", "0B", "2MiB", "64KiB/s"] {
            assert!(wrong.parse::<Budget>().unwrap_err().to_string().contains("from 1B to 1MiB"), "{wrong}");
        }
        for wrong in ["", "30", "30 seconds", "-1s", "s"] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
        for wrong in ["0", "-1", "nan", "inf", "", "10/s"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
        assert_eq!(("10k".parse(), "1.5M".parse()), (Ok(Rate(10_000.0)), Ok(Rate(1_500_000.0))));
        let rates = |text: &str| -> Vec<f64> { text.parse::<Rates>().unwrap().0.iter().map(|rate| rate.0).collect() };
        assert_eq!(rates("10000..25000+5000"), [10_000.0, 15_000.0, 20_000.0, 25_000.0]);
        assert_eq!(rates("10k..24k+5k"), [10_000.0, 15_000.0, 20_000.0], "the last step may end before the range");
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
