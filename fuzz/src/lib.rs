//! What parses bytes that others wrote, fed with anything.
//!
//! A target is a row of [`TARGETS`]: a function that panics if the parser does, or if what it says depends on how its input
//! was cut into pieces. `cargo xtask fuzz` has them searched for input that makes them panic; what it found worth keeping is
//! in `corpus/TARGET`, which the tests replay.
//!
//! # Layout
//! - [`cuts`]: input that says itself where it is to be cut
//! - `servers`: services as they see their clients; `clients`: the other side
//! - `peers`: ranks of a fleet, and servers that say what they serve
//! - `files`: what is read from disk, or typed

mod clients;
pub mod cuts;
mod files;
#[cfg(feature = "harness")]
mod peers;
mod servers;

/// A row of [`TARGETS`].
#[derive(Debug)]
pub struct Target {
    /// Its name, which is also that of its folder in `corpus`.
    pub name: &'static str,
    /// What it does with any bytes.
    pub run: fn(&[u8]),
}

/// Every parser of bytes that others wrote.
pub const TARGETS: &[Target] = &[
    Target { name: "http", run: servers::http },
    Target { name: "http-answer", run: clients::http },
    Target { name: "kv", run: servers::kv },
    Target { name: "kv-answer", run: clients::kv },
    Target { name: "fixed", run: servers::fixed },
    Target { name: "stream", run: servers::stream },
    Target { name: "udp", run: servers::udp },
    Target { name: "address", run: files::address },
    Target { name: "ports", run: files::ports },
    Target { name: "service", run: files::service },
    #[cfg(feature = "harness")]
    Target { name: "architecture", run: files::architecture },
    #[cfg(feature = "harness")]
    Target { name: "record", run: files::record },
    #[cfg(feature = "harness")]
    Target { name: "experiment", run: files::experiment },
    #[cfg(feature = "harness")]
    Target { name: "samples", run: files::samples },
    #[cfg(feature = "harness")]
    Target { name: "units", run: files::units },
    #[cfg(feature = "harness")]
    Target { name: "frame", run: peers::frame },
    #[cfg(feature = "harness")]
    Target { name: "description", run: peers::description },
    Target { name: "histogram", run: files::histogram },
];
