//! `muxbench idle`: connections that are held, and on which nothing is sent.

use std::io::{self, BufRead};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use ::load::LoadConfig;
use ::load::idle::{self, Event, IdleReport};
use anyhow::{Context, bail};
use harness::spec::units::Time;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::options::target::TargetArgs;
use crate::{exit, output};

/// Hold idle connections to a server that is already there, and verify that they live
///
/// Each is served one request when it is made, and one more at the end: after the time given, or a Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench idle --target 127.0.0.1:7007 --connections 15000
  muxbench idle http://127.0.0.1:8080/ --connections 5000 --time 1min
  muxbench idle --target unix:/tmp/kv.sock --service kv --connections 1000 --json

Exit codes: 0 all were alive; 3 not all")]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// How long they are held; without it, until Ctrl-C
    #[arg(long, value_name = "TIME")]
    time: Option<Time>,
    /// Print what became of them as JSON
    #[arg(long)]
    json: bool,
    /// Take the configuration as a line on standard input, verify at the next, and say what happens in JSON lines
    #[arg(long, hide = true)]
    control: bool,
}

/// Holds them.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.control { controlled() } else { by_hand(args) }
}

/// Started by a runner.
fn controlled() -> anyhow::Result<ExitCode> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let config: LoadConfig = serde_json::from_str(&line).context("the order on standard input")?;
    // When nobody listens any more the runner has died.
    let say = &mut |event: Event| output::print_line(&event).unwrap_or_else(|_| std::process::exit(1));
    let mut until_told = || {
        let mut line = String::new();
        if !matches!(io::stdin().lock().read_line(&mut line), Ok(count) if count > 0) {
            // Nobody wants to know.
            std::process::exit(0);
        }
    };
    match idle::hold(&config, say, &mut until_told) {
        Ok(report) => {
            say(Event::Verified { report });
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            say(Event::Failed { reason: error.to_string() });
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Started by a user.
fn by_hand(args: &Args) -> anyhow::Result<ExitCode> {
    let config = LoadConfig { calls_per_connection: None, ..args.target.config()? };
    if config.service.ports().is_some() {
        bail!("--service udp: datagrams have no connections that could be held; take another service");
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The second one ends it at once, whatever it waits for.
        signal_hook::flag::register_conditional_shutdown(signal, exit::STOPPED.into(), stop.clone())?;
        signal_hook::flag::register(signal, stop.clone()).context("cannot listen to signals")?;
    }
    let say = &mut |event| match event {
        Event::Connecting { done, total } => output::tell(format_args!("{done} of {total} connections")),
        Event::Held { connections, elapsed_ns } => {
            let until = args.time.map_or_else(|| "until Ctrl-C".to_owned(), |time| format!("for {time}"));
            output::tell(format_args!(
                "{connections} connections, made in {:.1} s, are held {until}",
                elapsed_ns as f64 / 1e9
            ));
        }
        Event::Verified { .. } | Event::Failed { .. } => {}
    };
    let mut until_over = || {
        let started = Instant::now();
        let is_over = || args.time.is_some_and(|time| started.elapsed() >= Duration::from_nanos(time.0));
        while !stop.load(Relaxed) && !is_over() {
            thread::sleep(Duration::from_millis(20));
        }
    };
    let report = idle::hold(&config, say, &mut until_over)?;
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&report))?;
    }
    Ok(if report.alive == report.held { ExitCode::SUCCESS } else { ExitCode::from(exit::NO_VALID_TRIAL) })
}

/// What became of idle connections, in lines.
pub fn text(report: &IdleReport) -> String {
    let mut text = format!("{} of {} idle connections were alive at the end\n", report.alive, report.held);
    for (class, count) in report.errors.by_class().into_iter().filter(|(_, count)| *count > 0) {
        text += &format!("  {class}: {count}\n");
    }
    text
}
