//! Fuzz targets of all parsers of untrusted bytes.
//!
//! A target is a row of [`TARGETS`]: a function that panics if the parser panics or gives a wrong result, such as a result that
//! depends on the split of the input. `cargo xtask fuzz` searches for inputs that cause a panic. Tests replay the inputs in
//! `corpus/TARGET`.
//!
//! # Layout
//! - [`cuts`]: the split of an input into pieces
//! - `servers`: protocol parsers of the server; `clients`: readers of responses
//! - `files`: parsers of files and command-line values (addresses, ports, services, histograms)
//! - `harness_parsers`: parsers of the crates `harness` and `traffic`

mod clients;
pub mod cuts;
mod files;
#[cfg(feature = "harness")]
mod harness_parsers;
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
    Target { name: "redis", run: servers::redis },
    Target { name: "redis-answer", run: clients::redis },
    Target { name: "fixed", run: servers::fixed },
    Target { name: "stream", run: servers::stream },
    Target { name: "udp", run: servers::udp },
    Target { name: "address", run: files::address },
    Target { name: "ports", run: files::ports },
    Target { name: "service", run: files::service },
    #[cfg(feature = "harness")]
    Target { name: "architecture", run: harness_parsers::architecture },
    #[cfg(feature = "harness")]
    Target { name: "record", run: harness_parsers::record },
    #[cfg(feature = "harness")]
    Target { name: "experiment", run: harness_parsers::experiment },
    #[cfg(feature = "harness")]
    Target { name: "samples", run: harness_parsers::samples },
    #[cfg(feature = "harness")]
    Target { name: "trace", run: harness_parsers::trace },
    #[cfg(feature = "harness")]
    Target { name: "units", run: harness_parsers::units },
    #[cfg(feature = "harness")]
    Target { name: "frame", run: harness_parsers::frame },
    #[cfg(feature = "harness")]
    Target { name: "capture", run: harness_parsers::capture },
    Target { name: "histogram", run: files::histogram },
];
