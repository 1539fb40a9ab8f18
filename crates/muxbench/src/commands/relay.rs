//! `muxbench relay`: takes packets from host to host of a lab. A runner starts it; there is nothing in it for a user.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use anyhow::Context;
use harness::netns::relay::{self, RelayConfig, RelayEvent};

use crate::output;

/// Take packets from host to host of a lab, for a runner
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Take the order as a line on standard input, and say what happens in JSON lines
    #[arg(long, required = true)]
    control: bool,
}

/// Takes them until standard input ends.
pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    let mut line = Vec::new();
    // Byte by byte, so that nothing of what comes after the line is taken with it.
    let mut byte = [0];
    while rustix::io::read(io::stdin().as_fd(), &mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    let order: RelayConfig = serde_json::from_slice(&line).context("the order on standard input")?;
    // When nobody listens any more the runner has died.
    let say = &mut |event: RelayEvent| output::print_line(&event).unwrap_or_else(|_| std::process::exit(1));
    match relay::run(&order, io::stdin().as_fd(), say) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            say(RelayEvent::Failed { reason: format!("{error:#}") });
            Ok(ExitCode::FAILURE)
        }
    }
}
