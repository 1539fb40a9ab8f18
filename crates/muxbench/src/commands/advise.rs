//! `muxbench advise`: the best architecture for an objective under given traffic.

use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, bail};
use harness::host::Host;
use harness::model::{AdviseGoal, AdviseLimit, AdviseWeight, GateFigure, Run, RunHeader, Strategy, Workload};
use harness::plan::{Plan, duration_ns};
use harness::spec::units::{Rate, Size, Time, UnitError};
use harness::spec::{Candidate, Experiment, OneOrMany};
use harness::strategy;
use harness::strategy::advise::{self, variations};
use report::{AdviceReport, Summary, format, text};
use wire::names;

use crate::exit::of_validity;
use crate::options::execution::ExecutionArgs;
use crate::options::experiment::BaseArgs;
use crate::options::setup::{SetupArgs, checked};
use crate::{execution, files, output};

/// The default of `--budget`.
const BUDGET: Time = Time(90_000_000_000);
/// The share of the budget that the first repeat takes with the default window.
const REPEAT_SHARE: f64 = 0.25;
/// The bounds of the default window. A shorter one has too few requests for percentiles; a longer one leaves too few repeats.
const MEASURE_MIN_NS: u64 = 300_000_000;
const MEASURE_MAX_NS: u64 = 1_000_000_000;
/// The fewest requests of the default window, and its longest duration for the sake of requests.
const REQUESTS_MIN: f64 = 250.0;
const MEASURE_FOR_REQUESTS_NS: f64 = 3e9;
/// The file of the confirming experiment, in the folder of the run.
const CONFIRM: &str = "confirm.toml";
const HEADING: &str = "Advice";

/// Find the best architecture for your traffic and objective
///
/// Races all architectures that can run here, and external servers. Each repeat starts all of them anew, and loads them in turns.
/// After some of the repeats, those that are known to be worse leave the race. Then the best four race under changed traffic: more
/// connections, fewer active ones, a rate near the capacity, more work, larger messages.
///
/// The answer has the winner, the probability that it is the best, its lead, its cost, the reason, and the changes under which
/// another one wins. At most 5 % of races eliminate the best one. A tie is broken by CPU time, memory and simplicity.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench advise profile.toml                     # see observe
  muxbench advise -c 1k -r 5k --objective cpu --limit p99=2ms
  muxbench advise --objective p99*2,cpu --budget 5min
  muxbench advise --target nginx=http://127.0.0.1:8080/1k.bin --arch all
  muxbench advise --exec 'go=./server {port}' --arch epoll,tokio --allow-exec
  muxbench advise --schedule closed --objective rate --arch threads")]
pub struct Args {
    #[command(flatten)]
    base: BaseArgs,
    /// Figures to optimise, as in p99*2,cpu
    ///
    /// Comma-separated: p50, p90, p99 (service time), rate, cpu (CPU time a request), memory (a connection), each with a weight after
    /// `*` [default: p50; in a closed loop rate]
    #[arg(long, value_name = "FIGURE", value_delimiter = ',', help_heading = HEADING)]
    objective: Vec<Weight>,
    /// Limits of the winner, as in p99=2ms
    ///
    /// Comma-separated: the highest time, CPU time or memory; of rate, the lowest
    #[arg(long, value_name = "FIGURE=VALUE", value_delimiter = ',', help_heading = HEADING)]
    limit: Vec<Limit>,
    /// Longest time of the run [default: 90s]
    ///
    /// Two repeats always run
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    budget: Option<Time>,
    /// Requests/s, as in 2k or 2000/s [default: 2000]
    #[arg(long, short, value_name = "RATE", help_heading = "Load", display_order = 0)]
    rate: Option<Rate>,
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
}

/// A figure of `--objective`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Weight(AdviseWeight);

/// A limit of `--limit`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit(AdviseLimit);

/// Parses the name of a figure that contestants can be compared by.
fn figure(name: &str) -> Result<GateFigure, String> {
    let known = || GateFigure::ALL.into_iter().filter(|(figure, ..)| *figure != GateFigure::Errors);
    let found = known().find(|(_, known, _)| *known == name).map(|(figure, ..)| figure);
    found.ok_or_else(|| {
        let names: Vec<&str> = known().map(|(_, name, _)| name).collect();
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
            GateFigure::Rate => value.parse::<Rate>().map_err(message)?.0,
            GateFigure::Memory => f64::from(value.parse::<Size>().map_err(message)?.0),
            _ => value.parse::<Time>().map_err(message)?.0 as f64,
        };
        if value == 0.0 {
            return Err(format!("invalid limit `{text}`: expected a value above 0"));
        }
        Ok(Self(AdviseLimit { figure, value }))
    }
}

impl Args {
    fn budget(&self) -> Time {
        self.budget.unwrap_or(BUDGET)
    }

    fn experiment(&self) -> anyhow::Result<Experiment> {
        let window = |experiment: &Experiment| window(experiment, self.rate, self.budget());
        let mut experiment = self.setup.experiment_of_race(&self.base, window)?;
        if let Some(rate) = self.rate {
            experiment.workload.rate = Some(OneOrMany(vec![rate]));
        }
        let (experiment, _) = checked(&experiment)?;
        let loads = experiment.unread_loads().map_err(anyhow::Error::msg)?.len();
        if loads > 1 {
            bail!(
                "a race has one workload, and this experiment has {loads}; give one value of --connections, --rate, --active, \
                 --idle and --schedule, or try `muxbench compare`"
            );
        }
        if let Some(accepts) = experiment.server.accept.as_ref().filter(|accepts| accepts.0.len() > 1) {
            bail!(
                "a race has one accept strategy, and this experiment has {}; give one value of --accept, or try `muxbench compare`",
                accepts.0.len()
            );
        }
        Ok(experiment)
    }

    fn objective(&self, workload: &Workload) -> anyhow::Result<Vec<AdviseWeight>> {
        let figures: Vec<GateFigure> = self.objective.iter().map(|it| it.0.figure).collect();
        let is_repeated = |(at, figure): (usize, &GateFigure)| figures[..at].contains(figure);
        if figures.iter().enumerate().any(is_repeated) {
            bail!("--objective: a figure has two weights; name each figure once");
        }
        if figures == [GateFigure::Rate] && !workload.is_closed() {
            output::note(
                "--objective rate: in an open loop, all servers that keep up have the same rate; try --schedule closed",
            );
        }
        let default = if workload.is_closed() { GateFigure::Rate } else { GateFigure::P50 };
        Ok(match self.objective.as_slice() {
            [] => vec![AdviseWeight { figure: default, weight: 1.0 }],
            given => given.iter().map(|it| it.0).collect(),
        })
    }

    /// Adds the changed traffic to the plan, and makes the goal of the race.
    fn goal(&self, plan: Plan, host: &Host) -> anyhow::Result<(Plan, Strategy)> {
        let experiment = self.experiment()?;
        let (plan, contestants, variations) = variations::planned(plan, &experiment, host);
        let race = &plan.trials[..contestants as usize];
        let can_run: Vec<_> = race.iter().filter(|trial| trial.infeasible.is_empty()).collect();
        let [first, _, ..] = can_run[..] else {
            let reasons: Vec<&str> = race.iter().flat_map(|trial| &trial.infeasible).map(String::as_str).collect();
            bail!("a race needs two servers that can run here; try --arch all\n{}", reasons.join("\n"));
        };
        let objective = self.objective(&first.workload)?;
        let budget = self.budget();
        let repeats =
            Time(2 * can_run.iter().map(|trial| duration_ns(trial)).sum::<u64>() / 1_000_000_000 * 1_000_000_000);
        if repeats > budget {
            output::warn(format_args!(
                "two repeats of {} servers take about {repeats}, longer than --budget {budget}; no time is left for further repeats \
                 and changed traffic. Try fewer servers (--arch), or a longer budget",
                can_run.len()
            ));
        }
        let goal = AdviseGoal {
            objective,
            limits: self.limit.iter().map(|it| it.0).collect(),
            contestants,
            variations,
            time_max_ns: budget.0,
            experiment: checked(&experiment)?.1,
        };
        Ok((plan, Strategy::Advise(goal)))
    }
}

/// Returns the default window of a trial: the first repeat of all servers takes a share of the budget.
fn window(experiment: &Experiment, rate: Option<Rate>, budget: Time) -> Time {
    let connections = experiment.workload.targets().first().map_or(0, |it| u64::from(it.get()));
    // The processes, the connections, the ramp and the warm-up of a trial.
    let besides_ns = 350_000_000 + connections * 250_000;
    let trial_ns = budget.0 as f64 * REPEAT_SHARE / experiment.architectures.0.len().max(1) as f64;
    let measure_ns = (trial_ns as u64).saturating_sub(besides_ns).clamp(MEASURE_MIN_NS, MEASURE_MAX_NS);
    let given = experiment.workload.rate.as_ref().and_then(|rates| rates.0.first().copied());
    let rate = rate.or(given).filter(|_| !experiment.workload.is_closed());
    let requests_ns = rate.map_or(0.0, |Rate(per_s)| (REQUESTS_MIN / per_s * 1e9).min(MEASURE_FOR_REQUESTS_NS));
    // Whole tenths of a second are easy to read.
    Time((measure_ns as f64).max(requests_ns).round() as u64 / 100_000_000 * 100_000_000)
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.execution.distributed {
        bail!("--distributed: a race runs on this host; omit it, or try `muxbench compare --distributed`");
    }
    let change = |header: &mut RunHeader| match header.strategy {
        Strategy::Advise(_) => Ok(()),
        _ => bail!("--resume: the run is no race; try `muxbench run --resume`"),
    };
    let strategy = |plan, host: &Host| args.goal(plan, host);
    let (folder, run, ended) = execution::measure(&args.execution, || args.experiment(), strategy, change)?;
    let report = AdviceReport::of(&run).context("the run is no race")?;
    args.execution.format.print(&report, text::advice::render)?;
    let confirms = write_confirmation(&folder, &run)?;
    if !args.execution.format.json {
        if args.execution.explain {
            let mut summary = Summary::of(&run);
            summary.comparisons.truncate(1);
            output::print(&format!("\n{}", text::cost::render(&summary, args.execution.format.medium())))?;
        }
        execution::print_places(&places(&folder, &run, confirms), args.execution.format.markdown)?;
    }
    if let Some(code) = execution::code("advise", folder.display(), &run, ended) {
        return Ok(code);
    }
    let is_valid = run.records.iter().all(|record| record.verdict.belongs_in_estimates());
    Ok(of_validity(report.winner.is_some() && (!args.execution.strict || is_valid)))
}

/// Writes the experiment that confirms the answer. Returns whether there is one.
fn write_confirmation(folder: &Path, run: &Run) -> anyhow::Result<bool> {
    let outcomes = strategy::outcomes(run);
    let advice = advise::advice(&run.header, &outcomes).context("the run is no race")?;
    let Some(experiment) = advise::confirmation(&run.header, &advice) else { return Ok(false) };
    let text = format!("# Written by `muxbench advise`: run it with `muxbench compare`.\n{}", checked(&experiment)?.1);
    files::write(&folder.join(CONFIRM), text.as_bytes())?;
    Ok(true)
}

/// Returns the next commands and the folder of the run.
fn places(folder: &Path, run: &Run, confirms: bool) -> String {
    let results = format!("Results: {0} (again: muxbench report {0})\n", folder.display());
    if !confirms {
        return results;
    }
    let words = |words: &[&str]| format::command(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
    let trials = &run.header.trials;
    let has_commands = trials.iter().any(|trial| matches!(trial.architecture, Candidate::Exec(_)));
    let allow = if has_commands { " --allow-exec" } else { "" };
    let confirm = words(&["muxbench", "compare", &folder.join(CONFIRM).display().to_string()]);
    let workload = trials.first().map(|trial| &trial.workload);
    let flags = workload.map_or_else(String::new, |it| {
        let rate = it.rate_per_s.map_or(" --schedule closed".to_owned(), |rate| format!(" -r {rate}"));
        format!("-c {}{rate} --service {}", it.connections, it.service.name())
    });
    format!(
        "Next: confirm the answer, then test your new server against the old one\n  {confirm}{allow}\n  muxbench gate './old \
         {{port}}' './new {{port}}' --allow-exec \\\n    {flags}\n{results}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_and_limits_are_read() {
        let weight = |text: &str| text.parse::<Weight>().unwrap().0;
        assert_eq!(weight("p99*2.5"), AdviseWeight { figure: GateFigure::P99, weight: 2.5 });
        assert_eq!(weight("cpu"), AdviseWeight { figure: GateFigure::Cpu, weight: 1.0 });
        let limit = |text: &str| text.parse::<Limit>().unwrap().0.value;
        assert_eq!(["p99=2ms", "cpu=10us", "memory=1KiB", "rate=5k"].map(limit), [2e6, 1e4, 1024.0, 5e3]);
        for (text, words) in
            [("p98", "did you mean"), ("errors", "expected one of"), ("p99*0", "above 0"), ("p99*x", "p99*2")]
        {
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

    #[test]
    fn answer_is_followed_by_its_confirmation_and_a_gate() {
        let folder = tempfile::tempdir().unwrap();
        let run = testkit::advise_run(30);
        assert!(write_confirmation(folder.path(), &run).unwrap());
        let text = std::fs::read_to_string(folder.path().join(CONFIRM)).unwrap();
        let servers = Experiment::parse(&text, CONFIRM).unwrap().architectures.0;
        assert_eq!(servers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["mt", "epoll"]);
        let places = places(Path::new("results/x"), &run, true);
        for words in [
            "  muxbench compare results/x/confirm.toml\n",
            "  muxbench gate './old {port}' './new {port}' --allow-exec \\\n    -c 400 -r 200 --service fixed\n",
        ] {
            assert!(places.contains(words), "{places}");
        }
        let mut empty = run;
        empty.records.clear();
        assert!(!write_confirmation(folder.path(), &empty).unwrap());
    }

    #[test]
    fn windows_follow_from_budget_servers_and_rate() {
        let experiment = |servers: &str, rate: &str| {
            let text = format!(
                "name = \"x\"\narchitectures = [{servers}]\n[workload]\nconnections = 10\nrequest = \"1B\"\nresponse = \"1B\"\n\
                 rate = {rate}\n"
            );
            Experiment::parse(&text, "x.toml").unwrap()
        };
        let two = experiment("\"mt\", \"mp\"", "2000");
        let window = |experiment: &Experiment, budget_s: u64| {
            super::window(experiment, None, Time(budget_s * 1_000_000_000)).to_string()
        };
        assert_eq!((window(&two, 90), window(&two, 7), window(&two, 1)), ("1s".into(), "500ms".into(), "300ms".into()));
        assert_eq!(window(&experiment("\"mt\", \"mp\"", "100"), 5), "2500ms");
        assert_eq!(window(&experiment("\"mt\", \"mp\"", "10"), 5), "3s");
    }
}
