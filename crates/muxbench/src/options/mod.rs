//! Groups of flags that several commands share.

pub mod client;
pub mod execution;
pub mod experiment;
pub mod network;
pub mod setup;
pub mod stages;
pub mod target;
pub mod traffic;
mod url;

use harness::experiment::List;

/// Reads a name as experiment files have it. The error lists the names there are.
pub fn named<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error: serde_json::Error| error.to_string())
}

/// Puts what was said, if anything, in place of what was there.
pub fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn set_list<T>(place: &mut List<T>, values: Vec<T>) {
    if !values.is_empty() {
        place.0 = values;
    }
}
