//! `muxbench idle`: holds idle connections to a server.

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use ::load::config::Loop;
use ::load::tools::idle::{self, IdleEvent, IdleResult};
use anyhow::{Context, bail};
use harness::record::IdleOrder;
use harness::spec::Service;
use harness::spec::units::Time;

use crate::execution::plan_here;
use crate::options::experiment::BaseArgs;
use crate::options::given::{Actions, Options};
use crate::options::setup::{changed, checked};
use crate::options::target::TargetArgs;
use crate::{control, exit, output, signals};

/// Hold idle connections, and verify that they stay alive
///
/// Each connection carries one request at its beginning and one at its end, after --time or Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench idle --target 127.0.0.1:7007 --connections 15000
  muxbench idle http://127.0.0.1:8080/ --connections 5000 --time 1min
  muxbench idle --target unix:/tmp/kv.sock --service kv -c 1000 --json")]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    actions: Actions,
    /// Print the result as JSON
    #[arg(long, help_heading = "Results")]
    json: bool,
    /// Read the configuration as a line on standard input, verify at the next line, and print events as JSON lines
    #[arg(long, hide = true)]
    control: bool,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.control { for_runner() } else { for_user(args) }
}

fn for_runner() -> anyhow::Result<ExitCode> {
    let IdleOrder { config, .. } = control::read_order()?;
    let mut wait = || {
        if !control::read_line().is_ok_and(|line| !line.is_empty()) {
            // The runner has died.
            std::process::exit(0);
        }
    };
    let report = idle::hold(&config, &mut |event| control::send(&event), &mut wait);
    let result = report.map(|report| control::send(&IdleEvent::Verified { report })).map_err(Into::into);
    Ok(control::exit_code(result, |error| IdleEvent::Failed { reason: error.to_string() }))
}

fn for_user(args: &Args) -> anyhow::Result<ExitCode> {
    let options = args.target.add_to(&args.options)?;
    let mut experiment = changed(&options, BaseArgs::default().read()?, false, options.servers()?)?;
    if experiment.workload.service == Service::Udp {
        bail!("--service udp: datagrams have no connections to hold; try another service");
    }
    experiment.workload.connections.0.truncate(1);
    let (plan, _) = plan_here(&checked(&experiment, &args.options, false)?.0)?;
    let trial = plan.trials.into_iter().next().context("the plan has no trial")?;
    if !trial.infeasible.is_empty() {
        bail!("{}", trial.infeasible.join("\n"));
    }
    let config = trial.load().with(|it| it.the_loop = Loop::of(&it.service));
    let time: Option<Time> = args.actions.get("time");
    let stop = signals::flag_at_signals()?;
    let show = &mut |event| match event {
        IdleEvent::Connecting { done, total } => output::tell(format_args!("{done} of {total} connections")),
        IdleEvent::Held { connections, elapsed_ns } => {
            let end = time.map_or_else(|| "until Ctrl-C".to_owned(), |time| format!("for {time}"));
            let seconds = elapsed_ns as f64 / 1e9;
            output::tell(format_args!("holding {connections} connections {end}; connecting took {seconds:.1} s"));
        }
        IdleEvent::Verified { .. } | IdleEvent::Failed { .. } => {}
    };
    let mut wait = || {
        let started = Instant::now();
        let is_over = || time.is_some_and(|time| started.elapsed() >= Duration::from_nanos(time.0));
        while !stop.load(Relaxed) && !is_over() {
            thread::sleep(Duration::from_millis(20));
        }
    };
    let report = idle::hold(&config, show, &mut wait)?;
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&report))?;
    }
    Ok(exit::of_validity(report.alive == report.held))
}

pub fn text(report: &IdleResult) -> String {
    let mut text = format!("{} of {} idle connections were alive at the end\n", report.alive, report.held);
    for (class, count) in report.errors.by_class().into_iter().filter(|(_, count)| *count > 0) {
        text += &format!("  {class}: {count}\n");
    }
    text
}
