//! All commands: one file each, with its flags.

pub mod calibrate;
pub mod capacity;
pub mod compare;
pub mod docs;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod idle;
#[cfg(target_os = "linux")]
pub mod lab;
pub mod list;
pub mod load;
pub mod plan;
#[cfg(target_os = "linux")]
pub mod relay;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod serve;
pub mod sweep;

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, Command};

/// Executes a command.
pub fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Compare(args) => compare::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Capacity(args) => capacity::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Report(args) => report::run(&args),
        Command::List(args) => list::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        #[cfg(target_os = "linux")]
        Command::Doctor(args) => doctor::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Idle(args) => idle::run(&args),
        Command::Load(args) => load::run(&args),
        #[cfg(target_os = "linux")]
        Command::Lab(args) => lab::run(&args),
        #[cfg(target_os = "linux")]
        Command::Relay(args) => relay::run(&args),
        Command::Completions(args) => docs::completions(&args, Cli::command()),
        Command::Man(args) => docs::man(&args, Cli::command()),
    }
}
