//! Flags of a search for a capacity.

use anyhow::bail;
use harness::record::LatencyLimit;
use harness::spec::units::{Share, Time, time_above_0};

/// Defaults of a search.
pub struct SearchDefaults {
    /// The share of `--precision`.
    pub precision: f64,
    /// The time of `--time-max`, in nanoseconds.
    pub time_max_ns: u64,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArgs {
    /// Limit of the median response time
    #[arg(long, value_name = "TIME", value_parser = time_above_0, hide_short_help = true)]
    p50: Option<Time>,
    /// Limit of the 90th percentile
    #[arg(long, value_name = "TIME", value_parser = time_above_0, hide_short_help = true)]
    p90: Option<Time>,
    /// Limit of the 95th percentile
    #[arg(long, value_name = "TIME", value_parser = time_above_0, hide_short_help = true)]
    p95: Option<Time>,
    /// Limit of the 99th percentile
    #[arg(long, value_name = "TIME", value_parser = time_above_0)]
    p99: Option<Time>,
    /// Limit of the 99.9th percentile
    #[arg(long, value_name = "TIME", value_parser = time_above_0, hide_short_help = true)]
    p999: Option<Time>,
    /// Half width of the final interval, as a share of the result [default: 5%; overload 10%]
    #[arg(long, value_name = "SHARE", hide_short_help = true)]
    precision: Option<Share>,
    /// Longest search [default: 5min; overload 3min]
    ///
    /// No probe starts later. For all searches together; `capacity --resume` may change it
    #[arg(long, value_name = "TIME", value_parser = time_above_0, hide_short_help = true)]
    pub time_max: Option<Time>,
}

impl SearchArgs {
    /// The limits of the response time.
    pub fn limits(&self) -> Vec<LatencyLimit> {
        let limits = [(0.5, self.p50), (0.9, self.p90), (0.95, self.p95), (0.99, self.p99), (0.999, self.p999)];
        limits.into_iter().filter_map(|(quantile, time)| Some(LatencyLimit { quantile, max_ns: time?.0 })).collect()
    }

    /// The precision as a share of the result.
    pub fn precision(&self, defaults: &SearchDefaults) -> anyhow::Result<f64> {
        let precision = self.precision.map_or(defaults.precision, |share| share.0);
        if !(0.005..=0.5).contains(&precision) {
            bail!("--precision {}: expected a share from 0.5% to 50%; try 5%", Share(precision));
        }
        Ok(precision)
    }

    pub fn time_max_ns(&self, defaults: &SearchDefaults) -> u64 {
        self.time_max.map_or(defaults.time_max_ns, |time| time.0)
    }

    /// Whether the user gave any of the flags.
    pub fn is_given(&self) -> bool {
        !self.limits().is_empty() || self.precision.is_some() || self.time_max.is_some()
    }
}
