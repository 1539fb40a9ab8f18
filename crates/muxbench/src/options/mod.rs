//! Groups of flags that several commands share.

pub mod client;
pub mod execution;
pub mod experiment;
pub mod format;
pub mod network;
pub mod phases;
pub mod setup;
pub mod stages;
pub mod target;
pub mod traffic;
mod url;

use harness::spec::OneOrMany;

/// Parses a name as experiment files spell it. The error lists the valid names.
pub fn named<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error: serde_json::Error| error.to_string())
}

/// Overwrites `place` if the user gave the flag.
pub fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// Overwrites `place` if the user gave values for the flag.
pub fn set_list<T: Clone>(place: &mut OneOrMany<T>, values: &[T]) {
    if !values.is_empty() {
        place.0 = values.to_vec();
    }
}
