//! Figures of HTTP responses.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::measured::Measured;

/// Figures of HTTP responses.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct HttpResult {
    /// The number of complete responses of the whole trial, by status. Each redirect counts with its own status.
    #[serde(deserialize_with = "by_status")]
    pub statuses: BTreeMap<u16, u64>,
    /// The time from t2 to the read with the first byte of the response, for the requests of the window. An interleaved trial
    /// includes the guards. Medians of parts are unknown, and 0.
    pub first_byte: Measured,
}

/// Reads counts whose keys are text, as in JSON. Inside of a tagged enumeration, serde converts no such keys to numbers.
fn by_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u16, u64>, D::Error> {
    let stored = BTreeMap::<String, u64>::deserialize(deserializer)?;
    let parse = |(status, count): (String, u64)| Ok((status.parse().map_err(D::Error::custom)?, count));
    stored.into_iter().map(parse).collect()
}

impl HttpResult {
    /// Formats the counts, as in `200: 1000, 404: 3`.
    pub fn breakdown(statuses: &BTreeMap<u16, u64>) -> String {
        let each: Vec<String> = statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
        each.join(", ")
    }

    /// Adds up counts. Saturates, because another process may report any number.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a BTreeMap<u16, u64>>) -> BTreeMap<u16, u64> {
        let mut sum = BTreeMap::<u16, u64>::new();
        for (&status, &count) in all.into_iter().flatten() {
            let total = sum.entry(status).or_default();
            *total = total.saturating_add(count);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_of_counts_saturates() {
        let [one, other] = [BTreeMap::from([(200, 1), (404, u64::MAX)]), BTreeMap::from([(200, 2), (404, 1)])];
        let sum = HttpResult::sum([&one, &other]);
        assert_eq!(sum, BTreeMap::from([(200, 3), (404, u64::MAX)]));
        assert_eq!(HttpResult::breakdown(&one), format!("200: 1, 404: {}", u64::MAX));
    }
}
