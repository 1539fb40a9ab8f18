//! `muxbench advise`: the best architecture for an objective under given traffic.

use std::cell::Cell;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use harness::host::Host;
use harness::plan::Plan;
use harness::record::{AdviseGoal, Run, Strategy, Workload};
use harness::spec::http::Http;
use harness::spec::units::{Rate, Time, time_above_0};
use harness::spec::{Candidate, Experiment};
use harness::strategy;
use harness::strategy::advise::{self, variations};
use report::{AdviceReport, Summary, format, text};
use wire::ServiceSpec;

use crate::exit::of_validity;
use crate::files::in_shell;
use crate::options::execution::ExecutionArgs;
use crate::options::given::Options;
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
/// another one wins. At most 5 % of races eliminate the best one. In a tie, the one with the
/// least CPU time wins among those at least half as probable as the most probable one.
///
/// A race has one workload, so --connections, --ports, --active, --idle and --schedule take one value each here.
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
    objective: ObjectiveArgs,
    /// Longest time of the run [default: 90s]
    ///
    /// Three repeats always run
    #[arg(long, value_name = "TIME", value_parser = time_above_0, help_heading = HEADING)]
    budget: Option<Time>,
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
        let experiment = self.setup.experiment_of_race(|experiment| window(experiment, self.budget()))?;
        let (experiment, _) = self.setup.checked(&experiment)?;
        let loads = experiment.unread_loads().map_err(anyhow::Error::msg)?.len();
        if loads > 1 {
            bail!(
                "a race has one workload, and this experiment has {loads}; give one value of --connections, --ports, --rate, \
                 --active, --idle and --schedule, or try `muxbench compare`"
            );
        }
        Ok(experiment)
    }

    /// Adds the changed traffic to the plan of an experiment, and makes the goal of the race.
    fn goal(&self, plan: Plan, experiment: &Experiment, host: &Host) -> anyhow::Result<(Plan, Strategy)> {
        let (plan, contestants, variations) = variations::planned(plan, experiment, host);
        let race = &plan.trials[..contestants as usize];
        let can_run: Vec<_> = race.iter().filter(|trial| trial.infeasible.is_empty()).collect();
        let [first, _, ..] = can_run[..] else {
            let reasons: Vec<&str> = race.iter().flat_map(|trial| &trial.infeasible).map(String::as_str).collect();
            bail!("a race needs two servers that can run here; try --arch all\n{}", reasons.join("\n"));
        };
        let objective = self.objective.weights(&first.workload);
        self.objective.check_limits([&first.workload].into_iter())?;
        let budget = self.budget();
        let repeats = Time(advise::shortest_ns(race) / 1_000_000_000 * 1_000_000_000);
        if repeats > budget {
            output::warn(format_args!(
                "three repeats of {} servers take about {repeats}, longer than --budget {budget}; no time is left for further repeats \
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
            experiment: self.setup.checked(experiment)?.1,
        };
        Ok((plan, Strategy::Advise(goal)))
    }
}

/// Returns the default window of a trial: the first repeat of all servers takes a share of the budget.
pub fn window(experiment: &Experiment, budget: Time) -> Time {
    let connections = experiment.workload.targets().first().map_or(0, |it| u64::from(it.get()));
    // The processes, the connections, the ramp and the warm-up of a trial.
    let besides_ns = 350_000_000 + connections * 250_000;
    let trial_ns = budget.0 as f64 * REPEAT_SHARE / experiment.architectures.0.len().max(1) as f64;
    let measure_ns = (trial_ns as u64).saturating_sub(besides_ns).clamp(MEASURE_MIN_NS, MEASURE_MAX_NS);
    let rates = experiment.workload.rate.as_ref().filter(|_| !experiment.workload.is_closed());
    let rate = rates.and_then(|rates| rates.0.first().copied());
    let requests_ns = rate.map_or(0.0, |Rate(per_s)| (REQUESTS_MIN / per_s * 1e9).min(MEASURE_FOR_REQUESTS_NS));
    // Whole tenths of a second are easy to read.
    Time((measure_ns as f64).max(requests_ns).round() as u64 / 100_000_000 * 100_000_000)
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Standard input can be read only once.
    let planned = Cell::new(None);
    let experiment = || {
        let experiment = args.experiment()?;
        planned.set(Some(experiment.clone()));
        Ok(experiment)
    };
    let strategy = |plan, host: &Host| {
        let experiment = planned.take().expect("the experiment comes before its plan");
        args.goal(plan, &experiment, host)
    };
    let (folder, run, ended) =
        execution::measure(&args.execution, experiment, strategy, execution::of_command("advise"), false)?;
    let report = AdviceReport::of(&run).context("the run is no race")?;
    args.execution.format.print(&report, text::advice::render)?;
    let confirmation = write_confirmation(&folder, &run)?;
    if !args.execution.format.json {
        if args.execution.has("explain") {
            let mut summary = Summary::of(&run);
            summary.comparisons.truncate(1);
            output::print(&format!("\n{}", text::cost::render(&summary, args.execution.format.medium())))?;
        }
        execution::print_places(&places(&folder, &run, confirmation.as_ref()), args.execution.format.markdown)?;
    }
    if let Some(code) = execution::code(&in_shell(&folder), &run, ended, &args.execution.display_flags()) {
        return Ok(code);
    }
    let is_valid = run.records.iter().all(|record| record.verdict.belongs_in_estimates());
    Ok(of_validity(report.winner.is_some() && (!args.execution.has("strict") || is_valid)))
}

/// Writes the experiment that confirms the answer, and returns it. `None` without one.
fn write_confirmation(folder: &Path, run: &Run) -> anyhow::Result<Option<Experiment>> {
    let outcomes = strategy::outcomes(run);
    let advice = advise::advice(&run.header, &outcomes).context("the run is no race")?;
    let Some(experiment) = advise::confirmation(&run.header, &advice) else { return Ok(None) };
    let (_, text) = checked(&experiment, &Options::default(), false)?;
    let text = format!("# Written by `muxbench advise`: run it with `muxbench compare`.\n{text}");
    files::write(&folder.join(CONFIRM), text.as_bytes())?;
    Ok(Some(experiment))
}

/// Returns the next commands and the folder of the run. `confirmation` is the written experiment.
fn places(folder: &Path, run: &Run, confirmation: Option<&Experiment>) -> String {
    let results = format!("Results: {0} (again: muxbench report {0})\n", in_shell(folder));
    let Some(confirmation) = confirmation else { return results };
    let trials = &run.header.trials;
    let has_commands = trials.iter().any(|trial| matches!(trial.architecture, Candidate::Exec(_)));
    let allow = if has_commands { " --allow-exec" } else { "" };
    let file = in_shell(&folder.join(CONFIRM));
    let workload = trials.first().map(|trial| &trial.workload);
    // The commands of a gate serve no datagrams.
    let Some(workload) = workload.filter(|it| it.service.ports().is_none()) else {
        return format!("Next: confirm the answer\n  muxbench compare {file}{allow}\n{results}");
    };
    let has_external = trials.iter().any(|trial| trial.architecture.ours().is_none());
    let (place, flags) = (workload.transport.placeholder(), gate_flags(confirmation, workload, has_external));
    format!(
        "Next: confirm the answer, then test your new server against the old one\n  muxbench compare {file}{allow}\n  muxbench \
         gate './old {place}' './new {place}' --allow-exec \\\n    {file}{flags}\n{results}"
    )
}

/// Returns the flags that a gate of commands needs besides the traffic of an experiment. `has_external` says whether external
/// servers answered its requests.
fn gate_flags(experiment: &Experiment, workload: &Workload, has_external: bool) -> String {
    // No other server speaks `fixed`, unless it was written for muxbench.
    let is_replaced = workload.service.fixed().is_some() && !has_external;
    let is_http = is_replaced || matches!(workload.service, ServiceSpec::Http { .. });
    let has_requests = experiment.workload.http.as_ref().is_some_and(Http::has_requests);
    // Only muxbench's own servers have generated pages.
    let path = workload.http.as_ref().and_then(|http| http.targets.first()).map(|target| target.path.as_str());
    let path = path.filter(|path| !path.starts_with("/bytes/")).unwrap_or("/");
    let flags = [
        (is_replaced, "--service http".to_owned()),
        (is_http && !has_requests, format!("--path {}", format::command(&[path.to_owned()]))),
        (is_replaced, " # if your server speaks HTTP".to_owned()),
    ];
    flags.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, flag)| format!(" {flag}")).collect()
}

#[cfg(test)]
mod tests {
    use harness::spec::OneOrMany;
    use load::config::{HttpTarget, HttpTraffic};

    use super::*;

    #[test]
    fn answer_is_followed_by_its_confirmation_and_a_gate() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = testkit::advise_run(30);
        let confirmation = write_confirmation(folder.path(), &run).unwrap();
        let text = std::fs::read_to_string(folder.path().join(CONFIRM)).unwrap();
        let servers = Experiment::parse(&text, CONFIRM).unwrap().architectures.0;
        assert_eq!(servers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["mt", "epoll"]);
        let places = places(Path::new("results/x"), &run, confirmation.as_ref());
        for words in [
            "  muxbench compare results/x/confirm.toml\n",
            "  muxbench gate './old {port}' './new {port}' --allow-exec \\\n    results/x/confirm.toml --service http --path /  # if",
        ] {
            assert!(places.contains(words), "{places}");
        }
        run.records.clear();
        assert!(write_confirmation(folder.path(), &run).unwrap().is_none());
    }

    #[test]
    fn gate_requests_pages_of_the_users_server() {
        let text = "name = \"x\"\narchitectures = [\"mt\"]\n[workload]\nrate = 200\n";
        let mut experiment = Experiment::parse(text, "x.toml").unwrap();
        let mut workload = testkit::advise_run(30).header.trials.remove(0).workload;
        let flags = gate_flags(&experiment, &workload, false);
        assert_eq!(flags, " --service http --path /  # if your server speaks HTTP");
        assert_eq!(gate_flags(&experiment, &workload, true), "");
        workload.service = ServiceSpec::HTTP;
        for (path, shown) in [("/bytes/10240", "/"), ("/a?b=1", "'/a?b=1'")] {
            workload.http = Some(HttpTraffic::new(vec![HttpTarget::get(path, None)]));
            assert_eq!(gate_flags(&experiment, &workload, false), format!(" --path {shown}"));
        }
        experiment.workload.http = Some(Http { paths: Some(OneOrMany(vec!["/a".to_owned()])), ..Http::default() });
        assert_eq!(gate_flags(&experiment, &workload, false), "", "the experiment lists the requests");
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
            super::window(experiment, Time(budget_s * 1_000_000_000)).to_string()
        };
        assert_eq!((window(&two, 90), window(&two, 7), window(&two, 1)), ("1s".into(), "500ms".into(), "300ms".into()));
        assert_eq!(window(&experiment("\"mt\", \"mp\"", "100"), 5), "2500ms");
        assert_eq!(window(&experiment("\"mt\", \"mp\"", "10"), 5), "3s");
    }
}
