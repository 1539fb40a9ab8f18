//! What of the client's ways only Linux knows, and what is done elsewhere. How it waits is in `poller`, and the kernel's
//! timestamps, which are Linux's alone, in `stamps`.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::*;
#[cfg(target_os = "linux")]
pub use linux::*;
