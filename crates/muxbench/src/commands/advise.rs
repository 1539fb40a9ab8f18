//! `muxbench advise`: the best architecture for an objective under given traffic.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use harness::host::Host;
use harness::model::{AdviseGoal, Run, RunHeader, Strategy, Workload};
use harness::plan::Plan;
use harness::spec::units::{Rate, Share, Size, Think, Time};
use harness::spec::{Candidate, Experiment, OneOrMany};
use harness::strategy;
use harness::strategy::advise::{self, variations};
use load::config::Schedule;
use report::{AdviceReport, Summary, format, text};

use crate::exit::of_validity;
use crate::options::execution::ExecutionArgs;
use crate::options::experiment::BaseArgs;
use crate::options::objective::{HEADING, ObjectiveArgs};
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
  muxbench advise --objective 'p99*2,cpu' --budget 5min
  muxbench advise --target nginx=http://127.0.0.1:8080/1k.bin --folder ./public
  muxbench advise --exec 'go=./server {port}' --arch epoll,tokio --allow-exec
  muxbench advise --schedule closed --objective rate --arch threads")]
pub struct Args {
    #[command(flatten)]
    base: BaseArgs,
    #[command(flatten)]
    objective: ObjectiveArgs,
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
        let objective = self.objective.weights(&first.workload)?;
        let budget = self.budget();
        let repeats = Time(advise::shortest_ns(race) / 1_000_000_000 * 1_000_000_000);
        if repeats > budget {
            output::warn(format_args!(
                "two repeats of {} servers take about {repeats}, longer than --budget {budget}; no time is left for further repeats \
                 and changed traffic. Try fewer servers (--arch), or a longer budget",
                can_run.len()
            ));
        }
        let goal = AdviseGoal {
            objective,
            limits: self.objective.limits(),
            contestants,
            variations,
            time_max_ns: budget.0,
            experiment: checked(&experiment)?.1,
        };
        Ok((plan, Strategy::Advise(goal)))
    }
}

/// Returns the default window of a trial: the first repeat of all servers takes a share of the budget.
pub fn window(experiment: &Experiment, rate: Option<Rate>, budget: Time) -> Time {
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
    let trials = &run.header.trials;
    let has_commands = trials.iter().any(|trial| matches!(trial.architecture, Candidate::Exec(_)));
    let allow = if has_commands { " --allow-exec" } else { "" };
    let confirm =
        format::command(&["muxbench".to_owned(), "compare".to_owned(), folder.join(CONFIRM).display().to_string()]);
    let workload = trials.first().map(|trial| &trial.workload);
    // The commands of a gate serve no datagrams.
    let Some(workload) = workload.filter(|it| it.service.ports().is_none()) else {
        return format!("Next: confirm the answer\n  {confirm}{allow}\n{results}");
    };
    let has_external = trials.iter().any(|trial| trial.architecture.ours().is_none());
    format!(
        "Next: confirm the answer, then test your new server against the old one\n  {confirm}{allow}\n  muxbench gate './old \
         {{port}}' './new {{port}}' --allow-exec \\\n    {}\n{results}",
        gate_flags(workload, has_external)
    )
}

/// Returns the flags of a gate under a workload. `has_external` says whether external servers answered its requests.
fn gate_flags(workload: &Workload, has_external: bool) -> String {
    // No other server speaks `fixed`, unless it was written for muxbench.
    let sizes = workload.service.fixed();
    let is_replaced = sizes.is_some() && !has_external;
    let (request, response) = sizes.filter(|_| !is_replaced).unzip();
    let service = if is_replaced { "http" } else { workload.service.name() };
    // Only muxbench's own servers have generated pages.
    let path = workload.http.as_ref().and_then(|http| http.targets.first()).map(|target| target.path.as_str());
    let path = path.filter(|path| !path.starts_with("/bytes/")).unwrap_or("/");
    let size = |bytes: u32| Size(bytes).to_string();
    let flags = [
        ("-c", Some(workload.connections.to_string())),
        ("-r", workload.rate_per_s.map(|rate| rate.to_string())),
        ("--schedule", (workload.schedule != Schedule::SlotRandom).then(|| format::name(&workload.schedule))),
        ("--think", (!workload.think.is_none()).then(|| Think(workload.think).to_string())),
        ("--pipeline", (workload.pipeline > 1).then(|| workload.pipeline.to_string())),
        ("--requests-per-connection", workload.requests_per_connection.map(|count| count.to_string())),
        ("--active", (workload.active < 1.0).then(|| Share(workload.active).to_string())),
        ("--idle", (workload.idle > 0).then(|| workload.idle.to_string())),
        ("--service", Some(service.to_owned())),
        ("--request", request.map(size)),
        ("--response", response.map(size)),
        ("--path", (service == "http").then(|| path.to_owned())),
    ];
    let given = flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
    let tls = if workload.tls.is_some() { " --tls" } else { "" };
    let note = if is_replaced { "  # if your server speaks HTTP" } else { "" };
    format::command(&given.flatten().collect::<Vec<_>>()) + tls + note
}

#[cfg(test)]
mod tests {
    use load::config::{HttpTarget, HttpTraffic};
    use wire::ServiceSpec;

    use super::*;

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
            "  muxbench gate './old {port}' './new {port}' --allow-exec \\\n    -c 400 -r 200 --service http --path /  # if",
        ] {
            assert!(places.contains(words), "{places}");
        }
        let mut empty = run;
        empty.records.clear();
        assert!(!write_confirmation(folder.path(), &empty).unwrap());
    }

    #[test]
    fn gate_has_the_flags_of_the_workload() {
        let mut workload = testkit::advise_run(30).header.trials.remove(0).workload;
        assert_eq!(gate_flags(&workload, false), "-c 400 -r 200 --service http --path /  # if your server speaks HTTP");
        let fixed = "-c 400 -r 200 --service fixed --request 128B --response 10KiB";
        assert_eq!(gate_flags(&workload, true), fixed);
        (workload.active, workload.idle, workload.requests_per_connection) = (0.25, 9, Some(3));
        workload.service = ServiceSpec::Http { folder: None };
        for (path, shown) in [("/bytes/10240", "/"), ("/a?b=1", "'/a?b=1'")] {
            workload.http = Some(HttpTraffic::new(vec![HttpTarget::get(path, None)]));
            let flags = "-c 400 -r 200 --requests-per-connection 3 --active 1/4 --idle 9 --service http --path";
            assert_eq!(gate_flags(&workload, false), format!("{flags} {shown}"));
        }
        let think = load::config::Think { mean_ns: 1_000_000, exponential: true };
        (workload.schedule, workload.rate_per_s) = (Schedule::Closed, None);
        (workload.think, workload.pipeline, workload.idle) = (think, 2, 0);
        (workload.active, workload.requests_per_connection, workload.http) = (1.0, None, None);
        workload.service = ServiceSpec::Kv { memory_max_bytes: 1, item_max_bytes: 1 };
        let closed = "-c 400 --schedule closed --think 1ms,exponential --pipeline 2 --service kv";
        assert_eq!(gate_flags(&workload, false), closed);
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
