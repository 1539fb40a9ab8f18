//! What the user can say.

use clap::{Parser, Subcommand};

use crate::commands;

/// Compare ways of building a network server under your traffic
///
/// muxbench runs one workload against servers that differ only in how they are built (processes, threads, select,
/// poll, epoll), and says which is best, by how much, and how sure it is.
#[derive(Debug, Parser)]
#[command(name = "muxbench", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Examples:
  muxbench compare                                  # five architectures, a minute
  muxbench compare --connections 1000,5000 --rate 8000 --request 1B --response 1B
  muxbench sweep --rate 10000..45000+5000           # response time against rate, up to saturation
  muxbench capacity --p99 1ms                       # the highest rate within a limit
  muxbench run experiments/kawai2008-http.toml --quick
  muxbench report                                   # the newest run again

Exit codes: 0 done; 1 failed; 2 usage; 3 no valid trial, or with --strict not every one; 130 stopped, finish it with --resume")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands, in the order of the help.
#[derive(Debug, Subcommand)]
pub enum Command {
    Compare(commands::compare::Args),
    Sweep(commands::sweep::Args),
    Capacity(commands::capacity::Args),
    Run(commands::run::Args),
    Plan(commands::plan::Args),
    Reproduce(commands::reproduce::Args),
    Report(commands::report::Args),
    List(commands::list::Args),
    Calibrate(commands::calibrate::Args),
    #[cfg(target_os = "linux")]
    Doctor(commands::doctor::Args),
    Serve(commands::serve::Args),
    Load(commands::load::Args),
    Idle(commands::idle::Args),
    #[cfg(target_os = "linux")]
    Lab(commands::lab::Args),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Relay(commands::relay::Args),
    Completions(commands::docs::CompletionsArgs),
    Man(commands::docs::ManArgs),
}
