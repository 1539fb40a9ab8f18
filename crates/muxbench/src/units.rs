//! Values with units, as flags take them.

/// A list of CPUs.
#[derive(Clone, Debug)]
pub struct Cpus(pub Vec<usize>);

pub fn size(text: &str) -> Result<u32, String> {
    text.trim_end_matches('B').parse().map_err(|_| text.to_owned())
}

pub fn cpus(text: &str) -> Result<Cpus, String> {
    text.split(',').map(|t| t.parse().map_err(|_| text.to_owned())).collect::<Result<_, _>>().map(Cpus)
}
