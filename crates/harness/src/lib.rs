//! Experiment → plan → run → store.
//!
//! # Layout
//! - [`experiment`]: what the user says, and (`mistake`) what is wrong with it;
//!   [`units`]: sizes, times, rates, CPUs; [`presets`]: experiments in the binary
//! - [`http`]: what is asked of an HTTP server
//! - [`course`]: what of a plan is run next, and where it leaves off; [`capacity`]: in search of the highest rate
//! - [`contender`]: what is compared, ours or somebody else's; [`description`]: what a server says of itself
//! - [`mod@plan`]: the explicit list of trials; [`host`] and [`placement`]: what it is checked against, and where it runs
//! - [`doctor`]: what of this host disturbs results, and what mends it; `probe`: what only the kernel itself can say
//! - [`calibration`]: the client against times that are known
//! - [`runner`]: runs the trials, each in processes of its own (`child`); [`stop`]: how it is asked to stop
//! - [`fleet`]: a trial's clients, processes of this machine or ranks that an engine started on others
//! - [`idle`]: who holds the connections on which nothing is sent
//! - [`network`]: a lab: hosts of their own for server and clients, and what is between them
//! - [`needs`]: what hosts a plan needs at its largest
//! - [`transport`]: TCP or Unix sockets, and where these are
//! - [`store`]: a run's folder; [`samples`]: its columnar files; [`files`]: how they are written
//! - [`stream`]: sizes of bursts; [`until`]: connections with a deadline
//! - `ticks`: the kernel's account of each CPU's time
//! - [`record`]: what is stored, as plain data; [`verdict`]: what may be believed

pub mod calibration;
pub mod capacity;
pub mod contender;
pub mod course;
pub mod description;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod exec;
pub mod experiment;
pub mod files;
pub mod fleet;
pub mod host;
pub mod http;
pub mod interrupts;
mod mistake;
pub mod model;
pub mod needs;
pub mod netns;
pub mod placement;
pub mod plan;
pub mod presets;
#[cfg(target_os = "linux")]
mod probe;
pub mod process;
pub mod record;
pub mod samples;
pub mod spec;
pub mod store;
pub mod stream;
mod ticks;
pub mod transport;
pub mod units;
pub mod until;
pub mod verdict;
