#![doc = include_str!("../README.md")]
//!
//! A host is an unnamed network namespace, which exists while this process holds its descriptor or a process runs in it. When
//! this process ends, the kernel kills the processes on its hosts and then removes the namespaces with their interfaces.
//!
//! [`network`] is the description of a lab, and [`record`] what is stored of it. [`testbed`] creates the hosts. [`conditions`]
//! chooses the kernel's means for delay, loss and bandwidth; where it lacks netem, a process ([`relay`]) forwards the packets
//! ([`forward`]). `probe` measures the network. [`surrounding`] is the client of `muxbench lab`.

pub mod addresses;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has the means"))]
pub mod conditions;
pub mod forward;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod interface;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod napi;
#[cfg(target_os = "linux")]
mod netdev;
pub mod network;
#[cfg(target_os = "linux")]
mod probe;
pub mod record;
#[cfg(target_os = "linux")]
pub mod relay;
pub mod surrounding;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
pub mod testbed;
#[cfg(target_os = "linux")]
pub mod testbed;

#[cfg(target_os = "linux")]
pub use host::TestbedHost;
#[cfg(target_os = "linux")]
pub use napi::can_suspend;
pub use testbed::Testbed;
#[cfg(not(target_os = "linux"))]
pub use testbed::TestbedHost;
#[cfg(not(target_os = "linux"))]
pub use testbed::can_suspend;
