//! Flags of loads whose rate changes over the window.

use std::path::PathBuf;

use harness::spec::WorkloadSpec;
use harness::spec::profile::Profile;
use harness::spec::trace::{Trace, TraceStart};
use harness::spec::units::Time;
use traffic::trace::Column;

use super::named;

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
    #[arg(long, value_name = "COLUMN", requires = "trace", value_delimiter = ',', value_parser = named::<Column>)]
    trace_ignore: Vec<Column>,
    /// Speed of the replay: 2 halves its duration [default: 1]
    #[arg(long, value_name = "FACTOR", requires = "trace")]
    speed: Option<f64>,
    /// Start of the replayed part, after the first arrival, or `peak` for the busiest part [default: 0]
    #[arg(long, value_name = "TIME", requires = "trace")]
    trace_from: Option<TraceStart>,
    /// Length of the replayed part in the recording [default: up to the last arrival]
    #[arg(long, value_name = "TIME", requires = "trace")]
    trace_length: Option<Time>,
}

impl OverTimeArgs {
    /// Sets the rate profile or the trace, and drops the preset's rate. Returns whether there is one.
    pub fn apply(&self, workload: &mut WorkloadSpec) -> bool {
        let is_given = self.profile.is_some() || self.trace.is_some();
        if !is_given {
            return false;
        }
        workload.rate = None;
        workload.profile.clone_from(&self.profile);
        workload.trace = self.trace.clone().map(|file| Trace {
            speed: self.speed.unwrap_or(1.0),
            from: self.trace_from,
            length: self.trace_length,
            ignore: self.trace_ignore.clone(),
            file,
        });
        is_given
    }
}
