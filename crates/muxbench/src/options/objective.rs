//! Flags of the objective of a race.

use std::str::FromStr;

use anyhow::bail;
use harness::record::{AdviseLimit, AdviseWeight, Figure, Workload};
use harness::spec::units::{Rate, Size, Time, UnitError};
use wire::names;

use crate::output;

/// The heading of the flags.
pub const HEADING: &str = "Advice";

#[derive(Debug, clap::Args)]
#[command(next_help_heading = HEADING)]
pub struct ObjectiveArgs {
    /// Figures to optimise, as in p99*2,cpu
    ///
    /// Comma-separated: p50, p90, p95, p99 (service time), rate, cpu (CPU time a request), memory (a connection), each with a
    /// weight after `*` [default: p50; in a closed loop rate]
    #[arg(long, value_name = "FIGURE", value_delimiter = ',')]
    objective: Vec<Weight>,
    /// Limits of the winner, as in p99=2ms
    ///
    /// Comma-separated: the highest time, CPU time or memory; of rate, the lowest
    #[arg(long, value_name = "FIGURE=VALUE", value_delimiter = ',')]
    limit: Vec<Limit>,
}

/// A figure of `--objective`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Weight(AdviseWeight);

/// A limit of `--limit`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit(AdviseLimit);

/// Parses the name of a figure that contestants can be compared by.
fn figure(name: &str) -> Result<Figure, String> {
    let mut known = Figure::limited().filter(|it| *it != Figure::Errors);
    let names: Vec<&str> = known.clone().map(Figure::name).collect();
    known.find(|it| it.name() == name).ok_or_else(|| {
        let suggestion = names::suggestion(name, names.iter().copied());
        format!("unknown figure `{name}`: expected one of {}{suggestion}", names.join(", "))
    })
}

impl FromStr for Weight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, weight) = text.split_once('*').unwrap_or((text, "1"));
        let weight = weight.parse().ok().filter(|it: &f64| it.is_finite() && *it > 0.0);
        let weight =
            weight.ok_or_else(|| format!("invalid weight in `{text}`: expected a number above 0, as in p99*2"))?;
        Ok(Self(AdviseWeight { figure: figure(name)?, weight }))
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| format!("invalid limit `{text}`: expected FIGURE=VALUE, as in p99=2ms"))?;
        let message = |error: UnitError| error.to_string();
        let figure = figure(name)?;
        let value = match figure {
            Figure::Rate => value.parse::<Rate>().map_err(message)?.0,
            Figure::Memory => f64::from(value.parse::<Size>().map_err(message)?.0),
            _ => value.parse::<Time>().map_err(message)?.0 as f64,
        };
        if value == 0.0 {
            return Err(format!("invalid limit `{text}`: expected a value above 0"));
        }
        Ok(Self(AdviseLimit { figure, value }))
    }
}

impl ObjectiveArgs {
    /// Returns the objective for a workload.
    pub fn weights(&self, workload: &Workload) -> Vec<AdviseWeight> {
        let is_rate = |it: &Weight| it.0.figure == Figure::Rate;
        if matches!(&self.objective[..], [one] if is_rate(one)) && !workload.is_closed() {
            output::note(
                "--objective rate: in an open loop, all servers that keep up have the same rate; try --schedule closed",
            );
        }
        let default = if workload.is_closed() { Figure::Rate } else { Figure::P50 };
        match self.objective.as_slice() {
            [] => vec![AdviseWeight { figure: default, weight: 1.0 }],
            given => given.iter().map(|it| it.0).collect(),
        }
    }

    /// Returns the limits of the winner.
    pub fn limits(&self) -> Vec<AdviseLimit> {
        self.limit.iter().map(|it| it.0).collect()
    }

    /// Fails if no server can meet the limits under any of these workloads.
    pub fn check_limits<'a>(&self, workloads: impl Iterator<Item = &'a Workload>) -> anyhow::Result<()> {
        // A closed loop has no rate of its own.
        let planned_per_s = workloads.map(|it| it.rate_per_s().unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
        if let Some(limit) = self.limits().iter().find(|it| it.figure == Figure::Rate && it.value > planned_per_s) {
            bail!(
                "--limit rate={}: no server answers more than the planned {} requests/s; try a lower limit, a higher --rate, or \
                 --schedule closed",
                Rate(limit.value),
                Rate(planned_per_s)
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_and_limits_are_read() {
        let weight = |text: &str| text.parse::<Weight>().unwrap().0;
        assert_eq!(weight("p99*2.5"), AdviseWeight { figure: Figure::P99, weight: 2.5 });
        assert_eq!(weight("p95"), AdviseWeight { figure: Figure::P95, weight: 1.0 });
        assert_eq!(weight("cpu"), AdviseWeight { figure: Figure::Cpu, weight: 1.0 });
        let limit = |text: &str| text.parse::<Limit>().unwrap().0.value;
        assert_eq!(["p99=2ms", "cpu=10us", "memory=1KiB", "rate=5k"].map(limit), [2e6, 1e4, 1024.0, 5e3]);
        for (text, words) in [
            ("p98", "did you mean"),
            ("errors", "expected one of p50, p90, p95, p99, rate, cpu, memory"),
            ("p99*0", "above 0"),
            ("p99*x", "p99*2"),
        ] {
            let error = text.parse::<Weight>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        for (text, words) in
            [("p99", "as in p99=2ms"), ("p99=2", "such as"), ("p99=0ms", "above 0"), ("x=1ms", "unknown figure")]
        {
            let error = text.parse::<Limit>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
