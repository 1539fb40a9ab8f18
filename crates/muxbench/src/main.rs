//! muxbench: which way of building a server suits this traffic, by how much, and how sure that is.
//!
//! # Layout
//! - [`cli`]: what the user can say; [`commands`]: one file for each thing that can be done
//! - [`execution`]: a plan becomes a run and is shown; [`progress`]: what is seen of it meanwhile
//! - [`output`]: standard output, plain when it is not a terminal

mod cli;
mod commands;
mod execution;
mod exit;
mod files;
mod options;
mod output;
mod progress;
mod signals;

use std::process::ExitCode;

use clap::CommandFactory;

/// Whatever the umask of who started it, nobody else writes what it makes: results, sockets, logs; its processes inherit that.
fn close_to_others() {
    use rustix::fs::Mode;
    let umask = rustix::process::umask(Mode::WOTH);
    rustix::process::umask(umask | Mode::WOTH);
}

fn main() -> ExitCode {
    close_to_others();
    let cli = cli::Cli::said();
    match commands::dispatch(cli.command) {
        Ok(code) => code,
        Err(error) => {
            let error = match error.downcast::<clap::Error>() {
                Ok(usage) => usage.format(&mut cli::Cli::command()).exit(),
                Err(error) => error,
            };
            output::tell(format_args!("muxbench: {}", report::format::visible(&format!("{error:#}"))));
            ExitCode::FAILURE
        }
    }
}
