//! Experiment → plan → run → store.
//!
//! # Layout
//! - [`experiment`]: what the user says, and (`mistake`) what is wrong with it;
//!   [`units`]: sizes, times, rates, CPUs; [`presets`]: experiments in the binary
//! - [`http`]: what is asked of an HTTP server
//! - [`contender`]: what is compared, ours or somebody else's
//! - [`mod@plan`]: the explicit list of trials; [`host`] and [`placement`]: what it is checked against, and where it runs
//! - [`doctor`]: what of this host disturbs results, and what mends it; `probe`: what only the kernel itself can say
//! - [`calibration`]: the client against times that are known
//! - [`runner`]: runs the trials, each in processes of its own (`child`)
//! - [`transport`]: TCP or Unix sockets, and where these are
//! - [`store`]: a run's folder; [`samples`]: its columnar files
//! - `ticks`: the kernel's account of each CPU's time
//! - [`record`]: what is stored, as plain data; [`verdict`]: what may be believed

pub mod calibration;
mod child;
pub mod contender;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod experiment;
pub mod host;
pub mod http;
mod mistake;
pub mod placement;
pub mod plan;
pub mod presets;
#[cfg(target_os = "linux")]
mod probe;
pub mod record;
pub mod runner;
pub mod samples;
pub mod store;
mod ticks;
pub mod transport;
pub mod units;
pub mod verdict;
