//! Observation of the traffic of a running server, without load and without a change of the server.
//!
//! # Layout
//! - [`traffic`]: the counted bytes, segments and times of all connections of a port
//! - [`tracker`]: traffic from snapshots of the kernel's counters; `live` takes them through `sock_diag`, which asks the kernel
//! - [`flows`]: traffic from packets; [`capture`] reads them from a file
//! - [`estimate`]: requests, sizes, rate and active share, estimated from traffic

pub mod capture;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
pub mod estimate;
pub mod flows;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod sock_diag;
pub mod tracker;
pub mod traffic;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{observe, port_of};
pub use estimate::Observation;
#[cfg(target_os = "linux")]
pub use live::{observe, port_of};
