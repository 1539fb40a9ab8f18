//! What is read from disk, or typed.

use stats::Histogram;

/// An address, which is written as it is read.
pub fn address(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(address) = text.parse::<wire::Address>() {
        assert_eq!(address.to_string().parse(), Ok(address), "of {text:?}");
    }
}

/// An experiment file. What is accepted can be planned or is refused in words.
#[cfg(feature = "lab")]
pub fn experiment(data: &[u8]) {
    use lab::experiment::Experiment;
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(experiment) = Experiment::parse(text, "fuzz.toml") {
        let _ = experiment.check();
        let _ = experiment.quick().check();
    }
}

/// A file of samples.
#[cfg(feature = "lab")]
pub fn samples(data: &[u8]) {
    use std::io::Write;
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    file.write_all(data).expect("it can be written");
    let _ = lab::samples::read(file.path());
}

/// A histogram as it is stored.
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
