//! Histograms of times in nanoseconds, mergeable across threads, processes and repeats.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The largest value, one hour. Larger values are recorded as one hour; [`Histogram::saturated`] counts them.
pub const VALUE_NS_MAX: u64 = 3_600_000_000_000;

/// Significant decimal digits. A quantile differs from the recorded value by at most 0.1 %.
const DIGITS: u8 = 3;

/// The fewest values beyond a quantile for an interval; reports mark quantiles with fewer.
pub const BEYOND_MIN: u64 = 10;

/// The maximum number of values in a histogram from a file. It prevents an overflow when histograms are merged.
const COUNT_MAX: u64 = 1 << 53;

/// A histogram of nanoseconds, serialised as base64 of the HdrHistogram V2 (deflate) format, which other tools can read.
/// It takes a quarter of a megabyte, so copies share it until one of them changes.
#[derive(Clone, PartialEq)]
pub struct Histogram(pub(crate) Arc<hdrhistogram::Histogram<u64>>);

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Histogram({} values)", self.count())
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram, which shares nothing.
    pub fn new() -> Self {
        let empty = hdrhistogram::Histogram::new_with_bounds(1, VALUE_NS_MAX, DIGITS).expect("the bounds are valid");
        Self(Arc::new(empty))
    }

    /// Adds one value in nanoseconds.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        Arc::make_mut(&mut self.0).saturating_record(value_ns);
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        Arc::make_mut(&mut self.0).add(&*other.0).expect("all histograms have the same bounds");
    }

    /// Returns the histogram without the values of another, which it contains.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = (*self.0).clone();
        rest.subtract(&*other.0).expect("the other histogram is a part of this one");
        Self(Arc::new(rest))
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the value in nanoseconds that the fraction `q` of all values does not exceed. 0 without values.
    pub fn quantile(&self, q: f64) -> u64 {
        self.0.value_at_quantile(q).min(self.0.max())
    }

    /// Returns the quantile with linear interpolation between values that the histogram does not distinguish: small changes of the
    /// values change it a little. 0 without values.
    pub fn interpolated(&self, q: f64) -> f64 {
        let (rank, mut below) = (q * self.count() as f64, 0);
        for step in self.0.iter_recorded() {
            let count = step.count_since_last_iteration();
            if (below + count) as f64 >= rank {
                let (low, next) = (step.value_iterated_to(), self.0.next_non_equivalent(step.value_iterated_to()));
                let low = self.0.lowest_equivalent(low);
                return low as f64 + (rank - below as f64) / count as f64 * (next - low) as f64;
            }
            below += count;
        }
        0.0
    }

    /// Returns the number of values above `value_ns`, to the histogram's precision.
    pub fn count_above(&self, value_ns: u64) -> u64 {
        self.count() - self.0.count_between(0, value_ns)
    }

    /// Returns the number of values at or above [`VALUE_NS_MAX`].
    pub fn saturated(&self) -> u64 {
        self.0.count_at(VALUE_NS_MAX)
    }

    /// Returns quantiles and moments.
    pub fn distribution(&self) -> Distribution {
        Distribution {
            count: self.count(),
            p1_ns: self.quantile(0.01),
            p25_ns: self.quantile(0.25),
            p50_ns: self.quantile(0.50),
            p75_ns: self.quantile(0.75),
            p90_ns: self.quantile(0.90),
            p95_ns: self.quantile(0.95),
            p99_ns: self.quantile(0.99),
            p999_ns: self.quantile(0.999),
            max_ns: self.0.max(),
            mean_ns: self.0.mean(),
            stddev_ns: self.0.stdev(),
        }
    }

    /// Returns the cumulative distribution: (value in nanoseconds, number of values up to it).
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().scan(0, |so_far, step| {
            *so_far += step.count_since_last_iteration();
            Some((step.value_iterated_to(), *so_far))
        })
    }
}

impl Extend<u64> for Histogram {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, values_ns: I) {
        let histogram = Arc::make_mut(&mut self.0);
        values_ns.into_iter().for_each(|value| histogram.saturating_record(value));
    }
}

impl FromIterator<u64> for Histogram {
    fn from_iter<I: IntoIterator<Item = u64>>(values_ns: I) -> Self {
        let mut histogram = Self::new();
        histogram.extend(values_ns);
        histogram
    }
}

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&*self.0, &mut bytes).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&STANDARD.encode(bytes))
    }
}

impl JsonSchema for Histogram {
    fn schema_name() -> Cow<'static, str> {
        "Histogram".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "contentEncoding": "base64" })
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let error = |error: &dyn std::fmt::Display| serde::de::Error::custom(format_args!("not a histogram: {error}"));
        let bytes = STANDARD.decode(String::deserialize(deserializer)?).map_err(|e| error(&e))?;
        let read: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|e| error(&e))?;
        if read.len() > COUNT_MAX {
            return Err(error(&format_args!("it counts more than {COUNT_MAX} values")));
        }
        // Convert to the common bounds, so that all histograms can be merged.
        let mut histogram = Self::new();
        Arc::make_mut(&mut histogram.0).add(&read).map_err(|e| error(&e))?;
        Ok(histogram)
    }
}

/// Returns the number of `count` values that lie beyond the quantile `q`, rounded.
pub fn beyond(count: u64, q: f64) -> u64 {
    (count as f64 * (1.0 - q)).round() as u64
}

/// Returns the value that the fraction `q` of sorted values does not exceed. `None` without values.
pub fn quantile<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

/// Quantiles and moments of a measured time. If `count` is 0, all other figures are 0 and mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// First percentile. All quantiles are in nanoseconds.
    pub p1_ns: u64,
    /// First quartile.
    pub p25_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// Third quartile.
    pub p75_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest value.
    pub max_ns: u64,
    /// Mean in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation in nanoseconds.
    pub stddev_ns: f64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantile_matches_the_definition(mut values in prop::collection::vec(0u64..50, 1..60), q in 0.0f64..=1.0) {
            values.sort_unstable();
            let enough = |limit: u64| values.iter().filter(|&&v| v <= limit).count() as f64 >= q * values.len() as f64 - 1e-9;
            let expected = values.iter().copied().find(|&v| enough(v)).unwrap();
            prop_assert_eq!(quantile(&values, q), Some(expected));
        }

        #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
        #[test]
        fn quantiles_match_the_sorted_values(mut values in prop::collection::vec(1u64..10_000_000_000, 1..500)) {
            let histogram: Histogram = values.iter().copied().collect();
            values.sort_unstable();
            for q in [0.01, 0.25, 0.5, 0.75, 0.99, 0.999, 1.0] {
                let (exact, ours) = (quantile(&values, q).unwrap(), histogram.quantile(q));
                prop_assert!(ours.abs_diff(exact) as f64 <= exact as f64 * 0.001 + 1.0, "q {q}: {ours}, exactly {exact}");
            }
        }

        #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
        #[test]
        fn merged_histogram_equals_recording_all(
            a in prop::collection::vec(0u64..10_000_000_000, 0..200), b in prop::collection::vec(0u64..10_000_000_000, 0..200),
        ) {
            let mut merged: Histogram = a.iter().copied().collect();
            merged.merge(&b.iter().copied().collect());
            prop_assert_eq!(merged, a.into_iter().chain(b).collect::<Histogram>());
        }

        #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
        #[test]
        fn rest_of_a_merged_histogram_is_the_other_part(
            a in prop::collection::vec(0u64..10_000_000_000, 1..200), b in prop::collection::vec(0u64..10_000_000_000, 0..200),
        ) {
            let (a, b): (Histogram, Histogram) = (a.into_iter().collect(), b.into_iter().collect());
            let mut merged = a.clone();
            merged.merge(&b);
            prop_assert_eq!(merged.without(&b).distribution(), a.distribution());
            for q in [0.01, 0.5, 0.99] {
                let (step, between) = (a.quantile(q) as f64, a.interpolated(q));
                prop_assert!((between - step).abs() <= step * 0.001 + 1.0, "q {}: {}, {}", q, between, step);
            }
        }

        #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
        #[test]
        fn histogram_reads_back_as_written(values in prop::collection::vec(0u64..10_000_000_000, 0..200)) {
            let histogram: Histogram = values.into_iter().collect();
            let read: Histogram = serde_json::from_str(&serde_json::to_string(&histogram).unwrap()).unwrap();
            prop_assert_eq!(read.distribution(), histogram.distribution());
        }
    }

    #[test]
    fn value_beyond_the_range_is_counted() {
        let histogram: Histogram = [5, u64::MAX].into_iter().collect();
        assert_eq!(histogram.count(), 2);
        assert_eq!(histogram.saturated(), 1);
    }

    #[test]
    fn count_above_excludes_the_bound() {
        let histogram: Histogram = [0, 5, 100, 100, 101, 1_000_000].into_iter().collect();
        assert_eq!([0, 5, 100, 101, 2_000_000].map(|bound| histogram.count_above(bound)), [5, 4, 2, 1, 0]);
        assert_eq!(Histogram::new().count_above(0), 0);
    }

    #[test]
    fn empty_histogram_has_zero_figures() {
        assert_eq!(Histogram::new().distribution(), Distribution::default());
    }
}
