//! Reports as text: for a terminal, or as Markdown for an issue.
//!
//! # Layout
//! - [`medium`]: the two media; [`style`]: colours; [`table`]: tables that fit the medium's width; [`tail_mark`]: the mark of
//!   doubtful quantiles
//! - [`run`]: a run's ranking, with `boxplot` and `along`; [`cost`]: why one architecture wins, with `balance`; [`profile`]:
//!   where the CPU time of a request goes; `host`: the host and the settings
//! - [`sweep`], [`capacity`], [`deviation`], [`run_diff`], [`history`]: the other reports; `curves`: curves in plain text
//! - [`advice`]: races; [`atlas`]: decision maps; [`gate`], [`gate_history`]: gates; [`overload`]: overloads
//! - [`load_result`]: one client's report in a line
//! - [`plan`], [`needs`]: a plan before it runs, and the hosts that it needs
//! - [`doctor`], [`calibration`]: the state of a host, and the accuracy of the client
//! - [`observation`]: the observed traffic of a server

pub mod advice;
mod along;
pub mod atlas;
mod balance;
mod boxplot;
pub mod calibration;
pub mod capacity;
pub mod cost;
mod curves;
pub mod deviation;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod gate;
pub mod gate_history;
pub mod history;
pub(crate) mod host;
pub mod load_result;
pub mod medium;
pub mod needs;
pub mod observation;
pub mod overload;
pub mod plan;
pub mod profile;
pub mod run;
pub mod run_diff;
pub mod style;
pub mod sweep;
pub mod table;
pub mod tail_mark;

use harness::record::Run;
pub use medium::{Medium, Terminal};

use crate::analysis::Answer;

/// Renders the result of a run, or its ranking; of a gate both.
pub fn render(run: &Run, medium: Medium) -> String {
    render_versus(run, None, medium)
}

/// Renders a run, with a ranking that has ratios to the row with this label in place of those to the best.
pub fn render_versus(run: &Run, versus: Option<&str>, medium: Medium) -> String {
    match Answer::of(run) {
        Some(Answer::Sweep(sweep)) => sweep::render(run, &sweep, medium),
        Some(Answer::Capacity(capacities)) => capacity::render(run, &capacities, medium),
        Some(Answer::Overload(overloads)) => overload::render(run, &overloads, medium),
        Some(Answer::Advice(advice)) => advice::render(&advice, medium),
        Some(Answer::Gate(gate)) => gate::render(&gate, medium) + "\n" + &run::render_versus(run, versus, medium),
        None => run::render_versus(run, versus, medium),
    }
}
