//! muxbench compares ways of building a network server under one workload, and states how certain the result is.

mod cli;
mod commands;
mod control;
mod execution;
mod exit;
mod files;
mod help;
mod options;
mod output;
mod progress;
mod signals;

use std::process::ExitCode;

use rustix::fs::Mode;

/// An allocator that keeps freed memory for a second. The allocators of glibc and musl return it to the kernel at once if much is
/// freed together, as completion loops do, and each of its pages then faults again.
#[cfg(all(feature = "mimalloc", target_os = "linux"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Deny other users write access to results, sockets and logs, whatever the umask. Child processes inherit this.
    rustix::process::umask(rustix::process::umask(Mode::WOTH) | Mode::WOTH);
    let cli = cli::Cli::from_command_line();
    match signals::fail_writes_beyond_limit().and_then(|()| cli.command.run()) {
        Ok(code) => code,
        Err(error) => {
            let error = match error.downcast::<clap::Error>() {
                Ok(usage) => cli::with_usage(usage).exit(),
                Err(error) => error,
            };
            output::note(report::format::visible(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
