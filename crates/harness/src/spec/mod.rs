//! What a user asks for: experiment files and the values in them.

pub mod candidate;
mod error;
mod experiment;
pub mod http;
pub mod network;
mod one_or_many;
pub mod presets;
pub mod stream;
pub mod transport;
pub mod units;

pub use candidate::Candidate;
pub use error::ExperimentError;
pub use experiment::{Client, Exec, Experiment, Kv, Phases, Placement, Quick, Server, Service, Workload};
pub use one_or_many::OneOrMany;
