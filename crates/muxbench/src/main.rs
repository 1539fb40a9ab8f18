//! muxbench compares ways of building a network server under one workload, and states how certain the result is.
//!
//! - [`cli`]: all commands; [`commands`]: one file per command; [`options`]: flags that several commands share
//! - [`execution`]: runs an experiment and shows its result; [`progress`]: the progress line; [`signals`]: Ctrl-C
//! - [`control`]: the protocol between a runner and its child processes
//! - [`output`]: standard output and standard error; [`files`]: figures and pages; [`exit`]: exit codes

mod cli;
mod commands;
mod control;
mod execution;
mod exit;
mod files;
mod options;
mod output;
mod progress;
mod signals;

use std::process::ExitCode;

use clap::CommandFactory;

/// Denies other users write access to results, sockets and logs, whatever the umask. Child processes inherit this.
fn restrict_umask() {
    use rustix::fs::Mode;
    let umask = rustix::process::umask(Mode::WOTH);
    rustix::process::umask(umask | Mode::WOTH);
}

fn main() -> ExitCode {
    restrict_umask();
    let cli = cli::Cli::from_command_line();
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => {
            let error = match error.downcast::<clap::Error>() {
                Ok(usage) => usage.format(&mut cli::Cli::command()).exit(),
                Err(error) => error,
            };
            output::note(report::format::visible(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
