#![doc = include_str!("../README.md")]
//!
//! # Layers
//! Each module uses only those above it.
//! - [`spec`]: experiment files and the values in them
//! - [`record`]: planned and stored data
//! - [`host`]: facts and limits of this host, and the placement of trials
//! - [`mod@plan`]: the explicit list of trials, and the hosts that it needs
//! - [`judge`]: verdicts; [`strategy`]: the choice of the next trial
//! - [`files`]: safe file access; [`samples`]: the files of a run's samples; [`store`]: the folder of a run
//! - [`clients`]: the trait of the clients of a trial, and their merged report
//! - [`exec`]: execution of trials, each in its own processes
//! - [`doctor`]: problems of this host that disturb results, and their remedies
//! - [`traffic_profile`]: the observed traffic of a running server, as an experiment
//!
//! Independent modules: [`calibration`] checks the client against known times, [`deadline_stream`] applies one deadline to all
//! reads and writes of a connection.

pub mod calibration;
pub mod clients;
pub mod deadline_stream;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod exec;
pub mod files;
pub mod host;
pub mod judge;
pub mod plan;
pub mod record;
pub mod samples;
pub mod spec;
pub mod store;
pub mod strategy;
pub mod traffic_profile;
