//! All commands: one file each, with its flags.

pub mod advise;
pub mod atlas;
pub mod calibrate;
pub mod capacity;
pub mod compare;
pub mod docs;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod gate;
pub mod idle;
#[cfg(target_os = "linux")]
pub mod lab;
pub mod list;
pub mod load;
pub mod observe;
pub mod overload;
pub mod plan;
pub mod reference;
#[cfg(target_os = "linux")]
pub mod relay;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod schema;
pub mod serve;
pub mod sweep;
