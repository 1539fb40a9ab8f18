//! The network interface that sends the requests, and its hardware timestamps.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub use linux::{addresses_towards, hardware, towards};
