//! System calls: sockets, readiness, kernel timestamps, interfaces, and differences between systems.

pub mod connect;
pub mod interface;
pub mod platform;
pub mod poller;
pub mod prepare;
pub mod source_ports;
#[cfg_attr(not(target_os = "linux"), path = "no_stamps.rs")]
pub mod stamps;
pub mod verify;
