//! System calls: sockets, readiness, kernel timestamps, interfaces, and differences between systems.

pub(crate) mod connect;
#[cfg(target_os = "linux")]
pub mod interface;
pub(crate) mod pace;
pub(crate) mod platform;
pub(crate) mod poller;
pub(crate) mod prepare;
pub mod source_ports;
#[cfg_attr(not(target_os = "linux"), path = "no_stamps.rs")]
pub mod stamps;
pub(crate) mod verify;
