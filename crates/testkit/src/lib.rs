//! Constructed runs and load reports for tests and benches. Only `[dev-dependencies]` name this crate.
//!
//! The unit tests of `harness` can use [`load_result()`] and [`pair()`] but no run, as a run's types come from another build of `harness`.

mod advise;
mod connection;
mod gate;
mod hostile;
mod load_result;
mod overload;
mod runs;
mod threads;
mod values;

pub use advise::{advise_run, race_of, race_run};
pub use connection::pair;
pub use gate::gate_run;
pub use hostile::{HOSTILE, has_hostile_elements, hostile};
pub use load_result::{load_result, measured};
pub use overload::overload_run;
pub use runs::{
    add_kernel, bandwidth_run, capacity_run, closed_run, datagram_run, interleaved_run, kawai2006_run, large_run,
    other_run, run, run_of, run_of_experiment, sends_of, slow_down, sweep_run,
};
pub use threads::Threads;
pub use values::{Sessions, Values, record_of, run_of_values, verdict_with};
