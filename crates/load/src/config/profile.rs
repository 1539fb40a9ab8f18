//! The rate of an open loop as a function of time: segments with simple shapes, their integral and its inverse.
//!
//! The integral maps time to the expected number of requests. Its inverse maps the requests of a schedule of rate 1 to times.

use std::f64::consts::TAU;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rates over time, as consecutive segments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RateProfile {
    /// The segments in order.
    pub segments: Vec<Segment>,
}

/// A part of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// The length in nanoseconds.
    pub length_ns: u64,
    /// The rate over this time.
    pub shape: Shape,
}

/// The rate within a segment, in requests per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// A constant rate.
    Hold {
        /// The rate.
        per_s: f64,
    },
    /// A rate that changes linearly.
    Ramp {
        /// The rate at the start.
        from_per_s: f64,
        /// The rate at the end.
        to_per_s: f64,
    },
    /// A rate that changes exponentially. Both rates exceed 0.
    Growth {
        /// The rate at the start.
        from_per_s: f64,
        /// The rate at the end.
        to_per_s: f64,
    },
    /// A sinusoid between two rates. It starts at the lower rate.
    Sine {
        /// The lowest rate.
        low_per_s: f64,
        /// The highest rate.
        high_per_s: f64,
        /// The period in nanoseconds.
        period_ns: u64,
    },
}

impl Segment {
    /// A constant rate for `length_ns`.
    pub fn hold(per_s: f64, length_ns: u64) -> Self {
        Self { length_ns, shape: Shape::Hold { per_s } }
    }

    /// Whether all rates are finite and not negative, and the shape has a length.
    pub fn is_valid(&self) -> bool {
        let is_rate = |per_s: f64| per_s.is_finite() && per_s >= 0.0;
        self.length_ns > 0
            && match self.shape {
                Shape::Hold { per_s } => is_rate(per_s),
                Shape::Ramp { from_per_s, to_per_s } => is_rate(from_per_s) && is_rate(to_per_s),
                Shape::Growth { from_per_s, to_per_s } => {
                    [from_per_s, to_per_s].into_iter().all(|per_s| is_rate(per_s) && per_s > 0.0)
                }
                Shape::Sine { low_per_s, high_per_s, period_ns } => {
                    is_rate(low_per_s) && is_rate(high_per_s) && low_per_s <= high_per_s && period_ns > 0
                }
            }
    }

    /// Returns the rate `at_ns` after the segment's start, in requests per second.
    pub fn rate_per_s(&self, at_ns: f64) -> f64 {
        let share = at_ns / self.length_ns as f64;
        match self.shape {
            Shape::Hold { per_s } => per_s,
            Shape::Ramp { from_per_s, to_per_s } => from_per_s + (to_per_s - from_per_s) * share,
            Shape::Growth { from_per_s, to_per_s } => from_per_s * (to_per_s / from_per_s).powf(share),
            Shape::Sine { low_per_s, high_per_s, period_ns } => {
                let (middle, amplitude) = (f64::midpoint(low_per_s, high_per_s), (high_per_s - low_per_s) / 2.0);
                middle - amplitude * (TAU * at_ns / period_ns as f64).cos()
            }
        }
    }

    /// Returns the highest rate, in requests per second.
    pub fn peak_per_s(&self) -> f64 {
        match self.shape {
            Shape::Sine { high_per_s, period_ns, .. } if self.length_ns >= period_ns / 2 => high_per_s,
            // All other shapes are monotonic.
            _ => self.rate_per_s(0.0).max(self.rate_per_s(self.length_ns as f64)),
        }
    }

    /// Multiplies all rates.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let shape = match self.shape {
            Shape::Hold { per_s } => Shape::Hold { per_s: per_s * factor },
            Shape::Ramp { from_per_s, to_per_s } => {
                Shape::Ramp { from_per_s: from_per_s * factor, to_per_s: to_per_s * factor }
            }
            Shape::Growth { from_per_s, to_per_s } => {
                Shape::Growth { from_per_s: from_per_s * factor, to_per_s: to_per_s * factor }
            }
            Shape::Sine { low_per_s, high_per_s, period_ns } => {
                Shape::Sine { low_per_s: low_per_s * factor, high_per_s: high_per_s * factor, period_ns }
            }
        };
        Self { shape, ..*self }
    }

    /// Returns the requests in the first `at_ns` of the segment.
    fn requests(&self, at_ns: f64) -> f64 {
        let length_ns = self.length_ns as f64;
        let seconds = at_ns / 1e9;
        match self.shape {
            Shape::Hold { per_s } => per_s * seconds,
            Shape::Ramp { from_per_s, to_per_s } => {
                seconds * (from_per_s + (to_per_s - from_per_s) * at_ns / length_ns / 2.0)
            }
            Shape::Growth { from_per_s, to_per_s } => match growth(from_per_s, to_per_s) {
                None => from_per_s * seconds,
                Some(growth) => from_per_s * (length_ns / 1e9) * (growth * at_ns / length_ns).exp_m1() / growth,
            },
            Shape::Sine { low_per_s, high_per_s, period_ns } => {
                let (middle, amplitude) = (f64::midpoint(low_per_s, high_per_s), (high_per_s - low_per_s) / 2.0);
                let turn = TAU / (period_ns as f64 / 1e9);
                middle * seconds - amplitude * (turn * seconds).sin() / turn
            }
        }
    }

    /// Returns the time within the segment at which it has had `requests`, in nanoseconds.
    fn time_ns(&self, requests: f64) -> f64 {
        let length_ns = self.length_ns as f64;
        let length_s = length_ns / 1e9;
        let ns = match self.shape {
            Shape::Hold { per_s } => requests / per_s * 1e9,
            // The root of the quadratic equation in the form that does not subtract similar numbers.
            Shape::Ramp { from_per_s, to_per_s } => {
                let slope = (to_per_s - from_per_s) / length_s;
                let root = (from_per_s * from_per_s + 2.0 * slope * requests).max(0.0).sqrt();
                2.0 * requests / (from_per_s + root) * 1e9
            }
            Shape::Growth { from_per_s, to_per_s } => match growth(from_per_s, to_per_s) {
                None => requests / from_per_s * 1e9,
                Some(growth) => length_ns / growth * (requests * growth / (from_per_s * length_s)).ln_1p(),
            },
            Shape::Sine { low_per_s, high_per_s, period_ns } => {
                let each = f64::midpoint(low_per_s, high_per_s) * period_ns as f64 / 1e9;
                let periods = (requests / each).floor();
                let within = 0.0..period_ns as f64;
                periods * period_ns as f64 + self.solved(within, requests - periods * each)
            }
        };
        // Without requests, some quotients above are 0 / 0, which is no number.
        if ns > 0.0 { ns.min(length_ns) } else { 0.0 }
    }

    /// Returns the time in `range` at which the ascending integral reaches `requests`, by Newton's method inside a bracket.
    fn solved(&self, range: std::ops::Range<f64>, requests: f64) -> f64 {
        let (mut low, mut high) = (range.start, range.end);
        let mut at = f64::midpoint(low, high);
        // 64 halvings alone reach the precision of the numbers.
        for _ in 0..64 {
            let beyond = self.requests(at) - requests;
            *(if beyond > 0.0 { &mut high } else { &mut low }) = at;
            let newton = at - beyond / (self.rate_per_s(at) / 1e9);
            let next = if newton > low && newton < high { newton } else { f64::midpoint(low, high) };
            if (next - at).abs() < 1e-3 {
                return next;
            }
            at = next;
        }
        at
    }
}

/// Returns the logarithm of the ratio of two rates; `None` if they are practically equal.
fn growth(from_per_s: f64, to_per_s: f64) -> Option<f64> {
    let growth = (to_per_s / from_per_s).ln();
    (growth.abs() > 1e-9).then_some(growth)
}

impl RateProfile {
    /// A constant rate for `length_ns`.
    pub fn constant(per_s: f64, length_ns: u64) -> Self {
        Self { segments: vec![Segment::hold(per_s, length_ns)] }
    }

    /// The length of all segments in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.segments.iter().fold(0, |sum: u64, segment| sum.saturating_add(segment.length_ns))
    }

    /// The expected number of requests.
    pub fn requests(&self) -> f64 {
        self.segments.iter().map(|segment| segment.requests(segment.length_ns as f64)).sum()
    }

    /// The mean rate in requests per second; 0 without segments.
    pub fn mean_per_s(&self) -> f64 {
        self.requests() / (self.length_ns().max(1) as f64 / 1e9)
    }

    /// The highest rate in requests per second; 0 without segments.
    pub fn peak_per_s(&self) -> f64 {
        self.segments.iter().map(Segment::peak_per_s).fold(0.0, f64::max)
    }

    /// The rate at the start in requests per second; 0 without segments.
    pub fn first_per_s(&self) -> f64 {
        self.segments.first().map_or(0.0, |segment| segment.rate_per_s(0.0))
    }

    /// Multiplies all rates.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self { segments: self.segments.iter().map(|segment| segment.scaled(factor)).collect() }
    }

    /// Multiplies all rates so that their mean is `mean_per_s`.
    #[must_use]
    pub fn with_mean(&self, mean_per_s: f64) -> Self {
        self.scaled(mean_per_s / self.mean_per_s())
    }

    /// Whether all segments are valid, and some request is expected.
    pub fn is_valid(&self) -> bool {
        let requests = self.requests();
        self.segments.iter().all(Segment::is_valid) && requests > 0.0 && requests.is_finite()
    }

    /// Prepares the integral.
    pub fn integral(&self) -> Integral {
        self.integral_from(0.0)
    }

    /// Prepares the integral with a value at the start.
    pub fn integral_from(&self, start: f64) -> Integral {
        let mut starts = Vec::with_capacity(self.segments.len());
        let (mut requests, mut ns) = (start, 0.0);
        for &segment in &self.segments {
            starts.push(Start { requests, ns, segment });
            ns += segment.length_ns as f64;
            requests += segment.requests(segment.length_ns as f64);
        }
        Integral { starts, requests, ns }
    }
}

/// The integral of a profile: the expected number of requests since its start.
#[derive(Clone, Debug)]
pub struct Integral {
    starts: Vec<Start>,
    requests: f64,
    ns: f64,
}

/// The start of a segment: the requests and the nanoseconds before it.
#[derive(Clone, Copy, Debug)]
struct Start {
    requests: f64,
    ns: f64,
    segment: Segment,
}

impl Integral {
    /// Returns the value at the end.
    pub fn total(&self) -> f64 {
        self.requests
    }

    /// Returns the value after the first `at_ns` of the profile.
    pub fn requests(&self, at_ns: f64) -> f64 {
        if at_ns >= self.ns {
            return self.requests;
        }
        let after = self.starts.partition_point(|start| start.ns <= at_ns);
        self.starts[..after].last().map_or(0.0, |it| it.requests + it.segment.requests(at_ns - it.ns))
    }

    /// Returns the last time with a value of at most `requests`, in nanoseconds: after a pause, not before.
    pub fn time_ns(&self, requests: f64) -> f64 {
        if requests >= self.requests {
            return self.ns;
        }
        let after = self.starts.partition_point(|start| start.requests <= requests);
        self.starts[..after].last().map_or(0.0, |it| it.ns + it.segment.time_ns(requests - it.requests))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn segment() -> impl Strategy<Value = Segment> {
        let rates = || (0.0f64..50_000.0, 0.0f64..50_000.0);
        let shape = prop_oneof![
            (0.0f64..50_000.0).prop_map(|per_s| Shape::Hold { per_s }),
            rates().prop_map(|(from_per_s, to_per_s)| Shape::Ramp { from_per_s, to_per_s }),
            (1.0f64..50_000.0, 1.0f64..50_000.0)
                .prop_map(|(from_per_s, to_per_s)| Shape::Growth { from_per_s, to_per_s }),
            (rates(), S / 100..3 * S).prop_map(|((a, b), period_ns)| Shape::Sine {
                low_per_s: a.min(b),
                high_per_s: a.max(b),
                period_ns
            }),
            Just(Shape::Hold { per_s: 0.0 }),
        ];
        (shape, S / 1_000..4 * S).prop_map(|(shape, length_ns)| Segment { length_ns, shape })
    }

    proptest! {
        #[test]
        fn integral_is_the_sum_of_the_rates(segments in prop::collection::vec(segment(), 1..5)) {
            let profile = RateProfile { segments };
            prop_assert!(profile.segments.iter().all(Segment::is_valid));
            let mut sum = 0.0;
            for segment in &profile.segments {
                // The midpoint rule.
                let step_ns = segment.length_ns as f64 / 20_000.0;
                sum += (0..20_000)
                    .map(|at| segment.rate_per_s((f64::from(at) + 0.5) * step_ns) * step_ns / 1e9)
                    .sum::<f64>();
                let highest = (0..=1_000).map(|at| segment.rate_per_s(f64::from(at) * step_ns * 20.0)).fold(0.0, f64::max);
                prop_assert!(highest <= profile.peak_per_s() * (1.0 + 1e-9), "{highest}: {segment:?}");
            }
            let total = profile.integral().total();
            prop_assert!((total - sum).abs() <= 1e-4 * sum + 1e-6, "{total}, expected {sum}");
            prop_assert_eq!(profile.requests(), total);
            let halves = profile.scaled(0.5).requests() * 2.0;
            prop_assert!((halves - total).abs() <= 1e-9 * total);
        }

        #[test]
        fn inverse_returns_to_the_same_request(
            segments in prop::collection::vec(segment(), 1..5), shares in prop::collection::vec(0.0f64..1.0, 1..50),
        ) {
            let profile = RateProfile { segments };
            let integral = profile.integral();
            let mut requests: Vec<f64> = shares.iter().map(|share| share * integral.total()).collect();
            requests.sort_unstable_by(f64::total_cmp);
            let times: Vec<f64> = requests.iter().map(|&it| integral.time_ns(it)).collect();
            prop_assert!(times.is_sorted(), "{times:?}");
            for (expected, &at_ns) in requests.into_iter().zip(&times) {
                prop_assert!((0.0..=profile.length_ns() as f64).contains(&at_ns));
                let actual = integral.requests(at_ns);
                // A nanosecond has fewer requests at any of these rates.
                prop_assert!((actual - expected).abs() < 1e-4, "{actual}, expected {expected}");
            }
        }
    }

    #[test]
    fn pause_has_no_requests_and_ends_before_the_next() {
        let profile = RateProfile {
            segments: vec![Segment::hold(0.0, S), Segment::hold(10.0, S), Segment::hold(0.0, S), Segment::hold(5.0, S)],
        };
        let integral = profile.integral();
        assert_eq!([0.0, 1.0, 10.0, 12.5, 15.0].map(|it| integral.time_ns(it) / 1e9), [1.0, 1.1, 3.0, 3.5, 4.0]);
        assert_eq!(
            [0.0, 0.5, 1.5, 2.5, 3.5, 9.0].map(|s| integral.requests(s * 1e9)),
            [0.0, 0.0, 5.0, 10.0, 12.5, 15.0]
        );
        assert_eq!((profile.mean_per_s(), profile.peak_per_s(), profile.first_per_s()), (3.75, 10.0, 0.0));
        let nothing = RateProfile { segments: Vec::new() };
        assert_eq!(
            (nothing.mean_per_s(), nothing.integral().time_ns(0.0), nothing.integral().requests(1.0)),
            (0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn ramp_from_and_to_zero_is_symmetric() {
        let ramp = |from_per_s, to_per_s| Segment { length_ns: 2 * S, shape: Shape::Ramp { from_per_s, to_per_s } };
        let integral = RateProfile { segments: vec![ramp(0.0, 100.0), ramp(100.0, 0.0)] }.integral();
        assert_eq!(integral.total(), 200.0);
        assert_eq!([0.0, 25.0, 100.0, 175.0, 200.0].map(|it| integral.time_ns(it) / 1e9), [0.0, 1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn invalid_segment_is_recognised() {
        let of = |shape| Segment { length_ns: S, shape }.is_valid();
        assert!(
            of(Shape::Hold { per_s: 0.0 }) && !of(Shape::Hold { per_s: f64::NAN }) && !of(Shape::Hold { per_s: -1.0 })
        );
        assert!(!of(Shape::Growth { from_per_s: 0.0, to_per_s: 1.0 }));
        assert!(!of(Shape::Sine { low_per_s: 2.0, high_per_s: 1.0, period_ns: 1 }));
        assert!(!of(Shape::Sine { low_per_s: 1.0, high_per_s: 2.0, period_ns: 0 }));
        assert!(!Segment::hold(1.0, 0).is_valid());
    }
}
