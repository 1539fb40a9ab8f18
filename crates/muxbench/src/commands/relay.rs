//! `muxbench relay`: forwards packets between the hosts of a lab. Only a runner and `muxbench lab` start it.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use anyhow::Context;
use netns::relay::{self, RelayConfig, RelayEvent};

use crate::control;

/// Forward packets between the hosts of a lab, for a runner
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// Read the order as a line on standard input, and print events as JSON lines
    #[arg(long, required = true)]
    control: bool,
}

pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    let mut line = Vec::new();
    // Read single bytes, because the relay itself reads the bytes after the line.
    let mut byte = [0];
    while rustix::io::read(io::stdin().as_fd(), &mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    let config: RelayConfig = serde_json::from_slice(&line).context("cannot read the order on standard input")?;
    let result = relay::run(&config, io::stdin().as_fd(), &mut |event| control::send(&event));
    Ok(control::exit_code(result, |error| RelayEvent::Failed { reason: format!("{error:#}") }))
}
