//! The network interface that requests leave by, and whether it takes timestamps itself.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub use linux::{addresses_towards, hardware, towards};

pub use crate::report::Hardware;
