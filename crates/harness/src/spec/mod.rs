//! Experiment files and the values in them.

pub mod busy_poll;
pub mod candidate;
mod client;
pub mod controllers;
mod defaults;
mod error;
mod experiment;
pub mod http;
pub mod idle_cpus;
pub mod interleave;
mod loads;
mod one_or_many;
pub mod presets;
pub mod profile;
pub mod requests;
mod schema;
mod server;
pub mod stall;
pub mod stream;
pub mod target;
pub mod tls;
pub mod trace;
pub mod transport;
pub mod units;
mod validate;
mod workload;

pub use candidate::Candidate;
pub use client::Client;
pub use error::ExperimentError;
pub use experiment::{Experiment, Phases, Placement, Quick};
pub use netns::network;
pub use one_or_many::OneOrMany;
pub use server::{Exec, Server};
pub use target::Target;
pub use workload::{Kv, Service, WorkloadSpec};
