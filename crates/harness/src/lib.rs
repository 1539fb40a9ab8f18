//! Experiment → plan → run → store.
//!
//! # Layers
//! Each may use only those before it.
//! - [`spec`]: experiment files and the values in them
//! - [`model`]: what is planned and stored, as plain data
//! - [`host`]: facts and limits of this host, and where trials run on it
//! - [`process`]: child processes, and requests to stop
//! - [`netns`]: testbeds: hosts of their own for server and clients, and the network between them
//! - [`mod@plan`]: the explicit list of trials, and what hosts it needs
//! - [`judge`]: verdicts; [`strategy`]: which trial of a plan runs next
//! - [`store`]: a run's folder; [`samples`]: its columnar files; [`files`]: how they are written
//! - [`fleet`]: a trial's clients, processes of this machine or workers that a launcher started on others
//! - [`exec`]: runs the trials, each in processes of its own
//! - [`doctor`]: what of this host disturbs results, and what mends it
//!
//! Beside them: [`calibration`] checks the client against times that are known, [`description`] asks a server which service it
//! runs, [`deadline_stream`] bounds all reads and writes on a connection by one deadline.

pub mod calibration;
pub mod deadline_stream;
pub mod description;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod exec;
pub mod files;
pub mod fleet;
pub mod host;
pub mod judge;
pub mod model;
pub mod netns;
pub mod plan;
pub mod process;
pub mod samples;
pub mod spec;
pub mod store;
pub mod strategy;
