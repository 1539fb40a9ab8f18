//! Rates over time, as in `hold:2000:10s,ramp:2000..8000:5s`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use load::config::{RateProfile, Segment, Shape};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use wire::names;

use super::units::{Rate, Rates, Time};

/// The rates of a window, as consecutive segments.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile(pub RateProfile);

/// The notation of each kind of segment, with an example. `step` and `spike` stand for several segments.
const KINDS: [(&str, &str, &str); 6] = [
    ("hold", "hold:RATE:TIME", "hold:2000:10s"),
    ("ramp", "ramp:RATE..RATE:TIME", "ramp:2000..8000:5s"),
    ("growth", "growth:RATE..RATE:TIME with rates above 0", "growth:10..10k:30s"),
    ("step", "step:RATE..RATE+RATE:TIME, the time of each step", "step:1k..5k+1k:10s"),
    ("spike", "spike:RATE..RATE:TIME, up to the second rate and back", "spike:2000..20k:1s"),
    (
        "sine",
        "sine:RATE..RATE:PERIOD:TIME, from the lowest to the highest rate and back in each period",
        "sine:1k..5k:10s:1min",
    ),
];

/// Parses a rate, which may be 0.
fn rate(text: &str) -> Option<f64> {
    let text = text.trim();
    if text.strip_suffix("/s").unwrap_or(text) == "0" { Some(0.0) } else { Some(text.parse::<Rate>().ok()?.0) }
}

fn rates(text: &str) -> Option<(f64, f64)> {
    let (from, to) = text.split_once("..")?;
    Some((rate(from)?, rate(to)?))
}

fn time(text: &str) -> Option<u64> {
    text.parse::<Time>().ok().map(|time| time.0)
}

/// Returns the segments of a part of the notation; `None` if it is invalid.
fn segments(kind: &str, values: &[&str]) -> Option<Vec<Segment>> {
    let one = |length_ns, shape| vec![Segment { length_ns, shape }];
    let ramp = |from_per_s, to_per_s| Shape::Ramp { from_per_s, to_per_s };
    let segments = match (kind, values) {
        ("hold", [per_s, length]) => vec![Segment::hold(rate(per_s)?, time(length)?)],
        ("ramp", [between, length]) => {
            let (from_per_s, to_per_s) = rates(between)?;
            one(time(length)?, ramp(from_per_s, to_per_s))
        }
        ("growth", [between, length]) => {
            let (from_per_s, to_per_s) = rates(between)?;
            one(time(length)?, Shape::Growth { from_per_s, to_per_s })
        }
        ("step", [steps, length]) => {
            let length_ns = time(length)?;
            steps.parse::<Rates>().ok()?.0.iter().map(|rate| Segment::hold(rate.0, length_ns)).collect()
        }
        ("spike", [between, length]) => {
            let ((base_per_s, peak_per_s), length_ns) = (rates(between)?, time(length)?);
            let up = Segment { length_ns: length_ns / 2, shape: ramp(base_per_s, peak_per_s) };
            let down = Segment { length_ns: length_ns - length_ns / 2, shape: ramp(peak_per_s, base_per_s) };
            vec![up, down]
        }
        ("sine", [between, period, length]) => {
            let (low_per_s, high_per_s) = rates(between)?;
            one(time(length)?, Shape::Sine { low_per_s, high_per_s, period_ns: time(period)? })
        }
        _ => return None,
    };
    segments.iter().all(Segment::is_valid).then_some(segments)
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Vec::new();
        for part in text.split(',').map(str::trim) {
            let mut values = part.split(':').map(str::trim);
            let kind = values.next().unwrap_or_default();
            let values: Vec<&str> = values.collect();
            all.extend(segments(kind, &values).ok_or_else(
                || match KINDS.iter().find(|(known, ..)| *known == kind) {
                    Some((_, notation, example)) => {
                        format!("invalid segment `{part}`: expected {notation}, such as {example}")
                    }
                    None => {
                        let known: Vec<&str> = KINDS.iter().map(|(_, _, example)| *example).collect();
                        let suggestion = names::suggestion(kind, KINDS.iter().map(|(known, ..)| *known));
                        format!("invalid segment `{part}`: expected one such as {}{suggestion}", known.join(", "))
                    }
                },
            )?);
        }
        let profile = RateProfile { segments: all };
        if profile.is_valid() {
            Ok(Self(profile))
        } else {
            Err(format!("`{text}` has no requests; give a rate above 0"))
        }
    }
}

/// The most segments that a description lists.
const LISTED_MAX: usize = 4;

impl Profile {
    /// Describes the rates, in full unless they have many segments.
    pub fn words(&self) -> String {
        let count = self.0.segments.len();
        if count <= LISTED_MAX {
            return self.to_string();
        }
        let (peak_per_s, length) = (Rate(self.0.peak_per_s().ceil()), Time(self.0.length_ns()));
        format!("{count} segments, at most {peak_per_s}/s, in {length}")
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Segment { length_ns, shape }) in self.0.segments.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            match shape {
                Shape::Hold { per_s } => write!(f, "hold:{per_s}")?,
                Shape::Ramp { from_per_s, to_per_s } => write!(f, "ramp:{from_per_s}..{to_per_s}")?,
                Shape::Growth { from_per_s, to_per_s } => write!(f, "growth:{from_per_s}..{to_per_s}")?,
                Shape::Sine { low_per_s, high_per_s, period_ns } => {
                    write!(f, "sine:{low_per_s}..{high_per_s}:{}", Time(*period_ns))?;
                }
            }
            write!(f, ":{}", Time(*length_ns))?;
        }
        Ok(())
    }
}

wire::serde_as_text!(Profile);

impl JsonSchema for Profile {
    fn schema_name() -> Cow<'static, str> {
        "Profile".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^ *(hold|ramp|growth|step|spike|sine):"})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn notation_of_each_kind_is_read() {
        let ramp = |from_per_s, to_per_s| Shape::Ramp { from_per_s, to_per_s };
        let of = |length_ns, shape| Segment { length_ns, shape };
        let sine = Shape::Sine { low_per_s: 1_000.0, high_per_s: 5_000.0, period_ns: 10 * S };
        let growth = Shape::Growth { from_per_s: 10.0, to_per_s: 10_000.0 };
        let expected = [
            ("hold", vec![Segment::hold(2_000.0, 10 * S)]),
            ("ramp", vec![of(5 * S, ramp(2_000.0, 8_000.0))]),
            ("growth", vec![of(30 * S, growth)]),
            ("step", [1e3, 2e3, 3e3, 4e3, 5e3].map(|per_s| Segment::hold(per_s, 10 * S)).to_vec()),
            ("spike", vec![of(S / 2, ramp(2_000.0, 20_000.0)), of(S / 2, ramp(20_000.0, 2_000.0))]),
            ("sine", vec![of(60 * S, sine)]),
        ];
        for ((kind, _, example), (name, segments)) in KINDS.iter().zip(expected) {
            assert_eq!((*kind, example.parse()), (name, Ok(Profile(RateProfile { segments }))));
        }
        let written: Profile = "hold:2000/s:1.5s, ramp:2k..0:500ms ,step:1k..4k*2:1s".parse().unwrap();
        assert_eq!(written.to_string(), "hold:2000:1500ms,ramp:2000..0:500ms,hold:1000:1s,hold:2000:1s,hold:4000:1s");
        assert_eq!(written.to_string().parse(), Ok(written.clone()));
        assert_eq!(written.words(), "5 segments, at most 4000/s, in 5s");
    }

    #[test]
    fn invalid_profile_is_rejected_with_a_remedy() {
        for (wrong, expected) in [
            ("hold:2000", "invalid segment `hold:2000`: expected hold:RATE:TIME, such as hold:2000:10s"),
            ("hold:2000:10", "expected hold:RATE:TIME"),
            ("hold:-1:10s", "expected hold:RATE:TIME"),
            ("hold:1:0s", "expected hold:RATE:TIME"),
            ("hold:1:1s,ramp:1:1s", "invalid segment `ramp:1:1s`: expected ramp:RATE..RATE:TIME"),
            ("growth:0..1:1s", "with rates above 0"),
            ("sine:2..1:1s:1s", "from the lowest to the highest rate"),
            ("spike:1..2:1ns", "expected spike:"),
            ("hodl:1:1s", "did you mean `hold`?"),
            ("", "such as hold:2000:10s, ramp:2000..8000:5s"),
            ("hold:0:1s", "`hold:0:1s` has no requests; give a rate above 0"),
        ] {
            let error = wrong.parse::<Profile>().unwrap_err();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }

    proptest! {
        #[test]
        fn displayed_profile_parses_back(
            rates in prop::collection::vec((0.001f64..1e6, 0.001f64..1e6, 1u64..1_000_000_000_000, 0usize..4), 1..6),
        ) {
            let segment = |(a, b, ns, kind): (f64, f64, u64, usize)| {
                let shape = [
                    Shape::Hold { per_s: a },
                    Shape::Ramp { from_per_s: a, to_per_s: b },
                    Shape::Growth { from_per_s: a, to_per_s: b },
                    Shape::Sine { low_per_s: a.min(b), high_per_s: a.max(b), period_ns: ns },
                ][kind];
                Segment { length_ns: ns, shape }
            };
            let profile = Profile(RateProfile { segments: rates.into_iter().map(segment).collect() });
            prop_assert_eq!(profile.to_string().parse(), Ok(profile));
        }

        #[test]
        fn parser_never_panics(text in "[a-z0-9:.,/+* ]*") {
            let _ = text.parse::<Profile>();
        }
    }
}
