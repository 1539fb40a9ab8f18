//! External servers: commands that muxbench starts, waits for, measures through `/proc`, and ends with all their processes; and
//! targets, which it only measures.

pub mod config;
#[cfg(target_os = "linux")]
pub mod process_tag;
#[cfg(target_os = "linux")]
pub mod procfs_stats;
#[cfg(target_os = "linux")]
pub mod server;
pub mod spawn;
pub mod target;
