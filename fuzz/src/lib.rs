//! Fuzz targets of all parsers of untrusted bytes.
//!
//! A target is a row of [`TARGETS`]: a function that panics if the parser does, or if the result depends on the split of the
//! input. `cargo xtask fuzz` searches for input that makes a target panic. Tests replay the inputs in `corpus/TARGET`.
//!
//! # Layout
//! - [`cuts`]: input that determines how it is split
//! - `servers`: services; `clients`: readers of responses
//! - `peers`: messages between workers, and descriptions of servers
//! - `files`: files and command-line values

mod clients;
pub mod cuts;
mod files;
#[cfg(feature = "harness")]
mod peers;
mod servers;

/// A row of [`TARGETS`].
#[derive(Debug)]
pub struct Target {
    /// Name, also of the folder in `corpus`.
    pub name: &'static str,
    /// Runs the parser on any bytes.
    pub run: fn(&[u8]),
}

/// All targets.
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
