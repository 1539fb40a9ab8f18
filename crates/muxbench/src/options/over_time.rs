//! Flags of loads whose rate changes over the window.

use std::path::PathBuf;

use anyhow::bail;
use harness::spec::WorkloadSpec;
use harness::spec::profile::Profile;
use harness::spec::trace::{Trace, TraceStart};
use harness::spec::units::Time;
use traffic::trace::Column;

use super::{named, set};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load")]
pub struct OverTimeArgs {
    /// Rate profile over the window, as in ramp:1k..9k:30s
    ///
    /// Comma-separated segments: hold:RATE:TIME, ramp:RATE..RATE:TIME, growth:RATE..RATE:TIME (exponential),
    /// step:RATE..RATE+RATE:TIME (the time of each step), spike:RATE..RATE:TIME (up and back), sine:RATE..RATE:PERIOD:TIME. The
    /// window lasts as long as the rate profile. With --rate, the profile is scaled to that mean rate
    #[arg(long, value_name = "PROFILE", conflicts_with_all = ["measure", "trace"])]
    profile: Option<Profile>,
    /// Replay recorded arrivals from a CSV or Parquet file
    ///
    /// The file has a column of times in ascending order: time_s, time_ms, time_us, time_ns, timestamp, or the planned_ns of
    /// muxbench's samples. A column `connection` selects the connections. With `http`, a column response_bytes selects the paths
    /// /bytes/N, and request_bytes gives each request a body. Other services have one size: see --trace-ignore. The window lasts as
    /// long as the replay
    #[arg(long, value_name = "FILE", conflicts_with_all = ["measure", "rate"])]
    trace: Option<PathBuf>,
    /// Columns of the trace not to replay, comma-separated: connection, request_bytes, response_bytes
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', value_parser = named::<Column>)]
    trace_ignore: Vec<Column>,
    /// Speed of the replay: 2 halves its duration [default: 1]
    #[arg(long, value_name = "FACTOR")]
    speed: Option<f64>,
    /// Start of the replayed part, after the first arrival, or `peak` for the busiest part [default: 0]
    #[arg(long, value_name = "TIME")]
    trace_from: Option<TraceStart>,
    /// Length of the replayed part in the recording [default: up to the last arrival]
    #[arg(long, value_name = "TIME")]
    trace_length: Option<Time>,
}

impl OverTimeArgs {
    /// Sets the rate profile or the trace, and drops the preset's rate. Returns whether there is one. Further flags also change
    /// the trace of a file.
    pub fn apply(&self, workload: &mut WorkloadSpec) -> anyhow::Result<bool> {
        let is_given = self.profile.is_some() || self.trace.is_some();
        if is_given {
            workload.rate = None;
            workload.profile.clone_from(&self.profile);
            workload.trace = self.trace.clone().map(Trace::of);
        }
        let Self { speed, trace_from, trace_length, trace_ignore, .. } = self;
        match &mut workload.trace {
            Some(trace) => {
                set(&mut trace.speed, *speed);
                trace.from = trace_from.or(trace.from);
                trace.length = trace_length.or(trace.length);
                if !trace_ignore.is_empty() {
                    trace.ignore.clone_from(trace_ignore);
                }
            }
            None if speed.is_some() || trace_from.is_some() || trace_length.is_some() || !trace_ignore.is_empty() => {
                bail!("--speed, --trace-from, --trace-length and --trace-ignore change a replay; add --trace FILE")
            }
            None => {}
        }
        Ok(is_given)
    }
}
