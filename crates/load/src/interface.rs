//! The network interface that requests leave by, and whether it takes timestamps itself.

#[cfg(target_os = "linux")]
mod linux;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
pub use linux::{addresses_towards, hardware, towards};

/// Whether an interface takes timestamps of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hardware {
    /// It cannot.
    None,
    /// It can, and is not told to: `hwstamp_ctl -i NAME -t 1 -r 1` does.
    Off,
    /// It does.
    On,
}
