//! Parsers of files and command-line values: the text of a parsed value must parse to the same value.

use stats::Histogram;

/// Parses a server's address.
pub fn address(data: &[u8]) {
    std::str::from_utf8(data).ok().and_then(parse_and_write::<wire::Address>);
}

/// Parses a server's ports.
pub fn ports(data: &[u8]) {
    if let Some(ports) = std::str::from_utf8(data).ok().and_then(parse_and_write::<wire::Ports>) {
        assert_eq!(ports.iter().count(), ports.count() as usize);
    }
}

/// Parses a value; checks that its text parses to the same value.
pub fn parse_and_write<T: std::str::FromStr + std::fmt::Display + PartialEq>(text: &str) -> Option<T> {
    let value = text.parse::<T>().ok()?;
    let written = value.to_string();
    assert!(written.parse().ok().as_ref() == Some(&value), "{written:?} of {text:?}");
    Some(value)
}

/// Reads a service and its sizes from JSON.
pub fn service(data: &[u8]) {
    read_and_write::<wire::ServiceSpec>(data);
}

/// Reads a value from JSON; checks that the JSON written from it reads back to the same value.
pub fn read_and_write<T: serde::Serialize + serde::de::DeserializeOwned>(data: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(data) else { return };
    let written = serde_json::to_string(&read).expect("a value that was read can be written");
    let again: T = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(serde_json::to_string(&again).expect("it can be written again"), written);
}

/// Reads a stored histogram.
pub fn histogram(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(histogram) = serde_json::from_value::<Histogram>(text.into()) else { return };
    let mut sum = Histogram::new();
    sum.merge(&histogram);
    assert_eq!(sum.count(), histogram.count());
    let distribution = histogram.distribution();
    assert!(
        distribution.p1_ns <= distribution.p50_ns && distribution.p50_ns <= distribution.max_ns,
        "{distribution:?}"
    );
}
