//! `muxbench atlas`: a decision map, which has the best architecture under many kinds of traffic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use harness::exec::event::RunEnd;
use harness::exec::leftovers;
use harness::plan::Plan;
use harness::record::{AdviseGoal, RunHeader, Strategy, Trial};
use harness::spec::Experiment;
use harness::spec::units::{Time, time_above_0};
use harness::store;
use harness::strategy::advise::{self, variations};
use process::stop::Stop;
use report::analysis::atlas::AtlasBuilder;
use report::analysis::workload::title;
use report::{AdviceReport, Atlas, html, text};

use super::advise::window;
use crate::execution::print_places;
use crate::exit::{STOPPED, of_validity, stopped};
use crate::files::{check_path, in_shell, write};
use crate::options::format::FormatArgs;
use crate::options::given::Actions;
use crate::options::objective::ObjectiveArgs;
use crate::options::repeated;
use crate::options::setup::SetupArgs;
use crate::{execution, output, signals};

/// The default of `--budget`.
const BUDGET: Time = Time(1_200_000_000_000);
/// The experiment of every race.
const NAME: &str = "atlas";
/// The page in the folder of a map.
const PAGE: &str = "atlas.html";
/// The most races of a grid.
const RACES_MAX: usize = 500;
const HEADING: &str = "Map";

/// Map which architecture wins under which traffic
///
/// Races the architectures of compare, as advise does, under each combination of connections, active share, rate, sizes and
/// simulated work. The first races cover the whole grid coarsely, and later ones fill the gaps. The result is a page with the best
/// architecture of each race, its lead and the certainty, and with ties.
///
/// Without FILE, these values replace the defaults of the flags below: 50, 400 and 2000 connections, 1/16 and all of them active,
/// 500 and 5000 requests/s, responses of 128 B and 10 KiB (udp: 128 B); no simulated work, 50 µs of CPU time, and waits of
/// 1 ms. These are 72 races.
///
/// --merge combines the races of several machines in one page.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench atlas                                 # 72 races in 20 minutes
  muxbench atlas -c 100,1k -r 1k,10k --budget 5min --print-plan
  muxbench atlas profile.toml -r 1k,2k,4k --response 1KiB,100KiB
  muxbench atlas --objective cpu --limit p99=2ms --arch all --budget 3h
  muxbench atlas --simulated-work none --simulated-work cpu=1ms
  muxbench atlas --resume                        # finish a stopped map
  muxbench atlas --resume --budget 1h            # and decide more ties
  muxbench atlas --merge results/HERE THERE --html both.html")]
pub struct Args {
    #[command(flatten)]
    objective: ObjectiveArgs,
    /// Time of all races [default: 20min]
    ///
    /// Each race has at least three repeats. The time left is divided equally. If there is too little time, the last races are left
    /// out. With --resume, a longer time continues undecided races
    #[arg(long, value_name = "TIME", value_parser = time_above_0, help_heading = HEADING)]
    budget: Option<Time>,
    /// Show the races of these folders as one map
    ///
    /// Folders of `atlas` and `advise`, from several machines
    #[arg(long, value_name = "FOLDER", num_args = 1.., help_heading = HEADING)]
    merge: Vec<PathBuf>,
    /// Print the races in their order, and run nothing
    #[arg(long, help_heading = HEADING, conflicts_with = "json", hide_short_help = true)]
    print_plan: bool,
    #[command(flatten)]
    setup: SetupArgs,
    /// Page [default: FOLDER/atlas.html; with --merge none]
    #[arg(long, value_name = "FILE", help_heading = "Results", hide_short_help = true)]
    html: Option<PathBuf>,
    #[command(flatten)]
    actions: Actions,
    #[command(flatten)]
    format: FormatArgs,
}

/// A race of a map: its folder and its stored plan.
struct Race {
    folder: PathBuf,
    header: RunHeader,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.html.as_deref().map_or(Ok(()), check_path)?;
    if !args.merge.is_empty() {
        let atlas = merged(&args.merge)?;
        args.format.print(&atlas, text::atlas::render)?;
        if let Some(file) = &args.html {
            write_page(&atlas, file)?;
        }
        return Ok(of_validity(atlas.has_answer()));
    }
    let stop = signals::stop_at_signals()?;
    let (folder, races) = match args.actions.has("resume") {
        true => {
            let folder = args.actions.path("resume").map_or_else(newest, Ok)?;
            let mut races = stored(&folder)?;
            if let Some(budget) = args.budget {
                share(&mut races, budget)?;
                races.iter().try_for_each(|it| execution::replace_header(&it.folder, &it.header))?;
            }
            (folder, races)
        }
        false if args.print_plan => {
            // Plans need a store; this one disappears.
            let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
            return match args.prepared(folder.path(), &stop)? {
                Some(races) => output::print(&planned(&races)).map(|()| ExitCode::SUCCESS),
                None => Ok(stopped_planning()),
            };
        }
        false => match args.created(&stop)? {
            Some(created) => created,
            None => return Ok(stopped_planning()),
        },
    };
    let (allows_exec, is_quiet) = (args.actions.has("allow-exec"), args.actions.has("quiet"));
    let allow_exec = if allows_exec { " --allow-exec" } else { "" };
    let resume = format!("muxbench atlas --resume {}{allow_exec}", in_shell(&folder));
    let chosen: Vec<&Race> = races.iter().filter(|race| goal(&race.header).time_max_ns > 0).collect();
    for (number, race) in (1..).zip(&chosen) {
        let name = name(race);
        if !is_quiet {
            output::note(format_args!("race {number} of {}: {name}", chosen.len()));
        }
        let (run, ended) = execution::finish(&race.folder, allows_exec, is_quiet, &stop)
            .with_context(|| execution::failed(&resume))?;
        if ended == RunEnd::Stopped || stop.is_requested() {
            return Ok(stopped(&resume));
        }
        if !is_quiet {
            let answer = AdviceReport::of(&run).and_then(|it| it.sentences.into_iter().next()).unwrap_or_default();
            output::note(format_args!("{name}: {answer}"));
        }
    }
    let atlas = merged(std::slice::from_ref(&folder))?;
    args.format.print(&atlas, text::atlas::render)?;
    let page = args.html.clone().unwrap_or_else(|| folder.join(PAGE));
    write_page(&atlas, &page)?;
    if !args.format.json {
        print_places(&places(&folder, &page), args.format.markdown)?;
    }
    Ok(of_validity(atlas.has_answer()))
}

impl Args {
    /// Plans all races below `folder`; `None` if a signal stops it.
    fn prepared(&self, folder: &Path, stop: &Stop) -> anyhow::Result<Option<Vec<Race>>> {
        let budget = self.budget.unwrap_or(BUDGET);
        let window = |cell: &Experiment, count: usize| window(cell, Time(budget.0 / count.max(1) as u64));
        let cells = self.setup.experiments_of_grid(window)?;
        match cells.len() {
            count if count > RACES_MAX => {
                bail!("the grid has {count} races, and the limit is {RACES_MAX}; give fewer values")
            }
            _ => {}
        }
        if repeated(&cells).is_some() {
            bail!("two races have the same traffic; give each value of --request, --response or --simulated-work once");
        }
        let mut races = Vec::new();
        for (number, cell) in (1..).zip(&cells) {
            if stop.is_requested() {
                return Ok(None);
            }
            let place = || {
                let loads = cell.unread_loads().ok().and_then(|loads| loads.into_iter().next());
                let rate = loads
                    .as_ref()
                    .and_then(|it| it.rate_per_s())
                    .map_or(String::new(), |it| format!(", {it} requests/s"));
                format!("race {number} ({} connections{rate})", loads.map_or(0, |it| it.connections))
            };
            let (cell, text) = self.setup.checked(cell).with_context(place)?;
            let folder = folder.join(format!("{number:03}"));
            let strategy = |plan: Plan, _: &_| self.goal(plan, &cell, text);
            let header =
                execution::prepare(&cell, &folder, self.actions.has("allow-exec") || self.print_plan, strategy)
                    .with_context(place)?;
            races.push(Race { folder, header });
        }
        if races.iter().all(|race| advise::shortest_ns(&race.header.trials) == 0) {
            let reasons: Vec<&str> =
                races[0].header.trials.iter().flat_map(|trial| &trial.infeasible).map(String::as_str).collect();
            bail!("a race needs two servers that can run here; try --arch all\n{}", reasons.join("\n"));
        }
        let trials = races.iter().flat_map(|race| &race.header.trials);
        self.objective.check_limits(trials.map(|trial| &trial.workload))?;
        share(&mut races, budget)?;
        Ok(Some(races))
    }

    /// Creates the folder of a map with the plans of all races; `None` if a signal stops it. A map has all of its races or does not
    /// exist, so they are planned in a draft. If this process is killed, `muxbench doctor` finds the draft in `results`.
    fn created(&self, stop: &Stop) -> anyhow::Result<Option<(PathBuf, Vec<Race>)>> {
        let folder = self.actions.path("output").unwrap_or_else(|| execution::new_folder(NAME));
        let place = || format!("cannot make the folder {}; choose a new one", folder.display());
        if fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some()) {
            bail!("{}: is not empty; choose a new folder, or finish the map with --resume", folder.display());
        }
        let parent = folder.parent().filter(|it| *it != Path::new("")).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).with_context(place)?;
        let prefix = leftovers::draft_prefix();
        let draft = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).with_context(place)?;
        let Some(mut races) = self.prepared(draft.path(), stop)? else { return Ok(None) };
        races.iter().try_for_each(|it| execution::replace_header(&it.folder, &it.header))?;
        fs::rename(draft.path(), &folder).with_context(place)?;
        _ = draft.keep();
        for race in &mut races {
            race.folder = folder.join(race.folder.file_name().unwrap_or_default());
        }
        Ok(Some((folder, races)))
    }

    /// Makes the goal of a race. Neighbours on the map show where the answer changes, so the traffic of a race does not change.
    fn goal(&self, plan: Plan, cell: &Experiment, text: String) -> anyhow::Result<(Plan, Strategy)> {
        let (plan, contestants) = variations::unchanged(plan, cell);
        let Some(first) = plan.trials.first() else { bail!("the plan has no servers") };
        let goal = AdviseGoal {
            objective: self.objective.weights(&first.workload),
            limits: self.objective.limits(),
            contestants,
            variations: Vec::new(),
            time_max_ns: 0,
            experiment: text,
        };
        Ok((plan, Strategy::Advise(goal)))
    }
}

fn stopped_planning() -> ExitCode {
    output::note("stopped before the first race; nothing is stored");
    ExitCode::from(STOPPED)
}

fn goal(header: &RunHeader) -> &AdviseGoal {
    let Strategy::Advise(goal) = &header.strategy else { unreachable!("a map has races") };
    goal
}

/// Returns the traffic of a race in words.
fn name(race: &Race) -> String {
    race.header.trials.first().map(|trial| title(&trial.workload)).unwrap_or_default()
}

/// Divides the budget among races. Fails if the first race does not fit. No race gets less than before, because a shorter one would
/// lose repeats.
fn share(races: &mut [Race], budget: Time) -> anyhow::Result<()> {
    let shortest: Vec<u64> = races.iter().map(|race| advise::shortest_ns(&race.header.trials)).collect();
    let shares = shares(&shortest, budget.0);
    let seconds = |ns: u64| Time(ns.div_ceil(1_000_000_000) * 1_000_000_000);
    let fits = shares.iter().filter(|share| **share > 0).count();
    let (can_run, all) = (shortest.iter().filter(|it| **it > 0).count(), seconds(shortest.iter().sum()));
    if fits == 0 {
        let one = seconds(shortest.iter().copied().find(|it| *it > 0).unwrap_or_default());
        bail!(
            "--budget {budget}: three repeats of the first race take about {one}, and of all {can_run} races {all}; try \
             --budget {all}, fewer servers (--arch), or a shorter --measure"
        );
    }
    if fits < can_run {
        output::warn(format_args!(
            "--budget {budget}: only {fits} of {can_run} races fit, which cover the grid coarsely; three repeats of all take about \
             {all}. Add the others later with --resume --budget {all}"
        ));
    }
    for (race, share) in races.iter_mut().zip(shares) {
        if let Strategy::Advise(goal) = &mut race.header.strategy {
            goal.time_max_ns = goal.time_max_ns.max(share);
        }
    }
    Ok(())
}

/// Returns the time of each race: its shortest time, and an equal share of the rest. Races that do not fit get none, and neither do
/// those that cannot run, whose shortest time is 0.
fn shares(shortest_ns: &[u64], budget_ns: u64) -> Vec<u64> {
    let mut left_ns = budget_ns;
    let fits = |ns: &&u64| {
        let fits = **ns <= left_ns;
        left_ns -= if fits { **ns } else { 0 };
        fits
    };
    let prefix = shortest_ns.iter().take_while(fits).count();
    let count = shortest_ns[..prefix].iter().filter(|ns| **ns > 0).count() as u64;
    let share = |(at, ns): (usize, &u64)| if at < prefix && *ns > 0 { ns + left_ns / count } else { 0 };
    shortest_ns.iter().enumerate().map(share).collect()
}

/// Lists the races in their order, with their times.
fn planned(races: &[Race]) -> String {
    let line = |(number, race): (usize, &Race)| {
        let can_run = |trial: &&Trial| trial.infeasible.is_empty();
        let servers = race.header.trials.iter().filter(can_run).count();
        let time = match goal(&race.header).time_max_ns {
            0 if servers < 2 => "cannot run".to_owned(),
            0 => "left out".to_owned(),
            ns => format!("{} s", ns / 1_000_000_000),
        };
        format!("{number:3}  {time:>10}  {servers:2} servers  {}\n", name(race))
    };
    (1..).zip(races).map(line).collect()
}

/// Returns the newest map under `results`.
fn newest() -> anyhow::Result<PathBuf> {
    let race = |folder: PathBuf| {
        let header = store::header(&folder).ok().filter(|header| header.experiment == NAME)?;
        Some((header.started_at, folder.parent()?.to_owned()))
    };
    let newest = store::runs(Path::new("results")).into_iter().filter_map(race).max();
    newest.map(|(_, folder)| folder).context("results contains no map; name the folder of the map after --resume")
}

/// Reads the plans of a map's races.
fn stored(folder: &Path) -> anyhow::Result<Vec<Race>> {
    let mut races = Vec::new();
    for folder in store::runs(folder) {
        let header = store::header(&folder)?;
        if !matches!(header.strategy, Strategy::Advise(_)) || header.experiment != NAME {
            bail!("cannot resume {}: it is no race of a map; name the folder of a map", folder.display());
        }
        races.push(Race { folder, header });
    }
    if races.is_empty() {
        bail!("cannot resume {}: it contains no races; name the folder of a map", folder.display());
    }
    Ok(races)
}

/// Reads all races below some folders.
fn merged(folders: &[PathBuf]) -> anyhow::Result<Atlas> {
    let mut builder = AtlasBuilder::default();
    for given in folders {
        let mut count = 0;
        for folder in store::runs(given) {
            let run = store::read(&folder)?;
            execution::warn_of_damage(&folder, &run);
            count += usize::from(builder.add(&folder.display().to_string(), &run));
        }
        if count == 0 {
            bail!("--merge: {} contains no races; name folders of `atlas` or `advise`", given.display());
        }
    }
    Ok(builder.finish())
}

fn write_page(atlas: &Atlas, file: &Path) -> anyhow::Result<()> {
    write(file, html::atlas::page(atlas)?.as_bytes())
}

/// Returns the locations of results, and the next commands.
fn places(folder: &Path, page: &Path) -> String {
    let (shown, page) = (in_shell(folder), page.display());
    format!(
        "\nPage: {page}\nResults: {shown} (each race: muxbench report {shown}/001)\nNext: decide more ties with more time, ask for your \
         own traffic, or add another machine\n  muxbench atlas --resume {shown} --budget TIME\n  muxbench observe --port PORT --output \
         profile.toml && muxbench advise profile.toml\n  muxbench atlas --merge {shown} FOLDER --html both.html\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parsed;

    #[test]
    fn races_share_the_time_that_is_left() {
        assert_eq!(shares(&[10, 20, 10], 100), [30, 40, 30]);
        assert_eq!(shares(&[10, 0, 10], 40), [20, 0, 20], "a race that cannot run takes no time");
        assert_eq!(shares(&[10, 20, 5], 29), [29, 0, 0], "later races wait, even if they would fit");
        assert_eq!(shares(&[10, 20], 9), [0, 0]);
    }

    #[test]
    fn stopped_or_failed_start_leaves_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("map");
        let args: Args = parsed("atlas", &format!("--arch epoll,mt -c 4,8 -r 1k --output {}", map.display()));
        let stop = Stop::default();
        stop.request();
        assert!(args.created(&stop).unwrap().is_none());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let (created, races) = args.created(&Stop::default()).unwrap().unwrap();
        assert!(created == map && races.len() > 1 && races[0].folder.starts_with(&map));
        fs::write(folder.path().join("file"), "").unwrap();
        let args: Args =
            parsed("atlas", &format!("--arch epoll,mt -c 4,8 -r 1k --output {}/file", folder.path().display()));
        assert!(args.created(&Stop::default()).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "only the map and the file");
    }

    #[test]
    fn too_short_budget_names_one_that_suffices() {
        let races = || -> Vec<Race> {
            let race = |_| {
                let mut header = testkit::advise_run(30).header;
                header.trials.truncate(5);
                Race { folder: PathBuf::new(), header }
            };
            (0..3).map(race).collect()
        };
        let all_ns = 3 * advise::shortest_ns(&races()[0].header.trials);
        let error = share(&mut races(), Time(1)).unwrap_err().to_string();
        let Some((_, remedy)) = error.split_once("try --budget ") else { panic!("{error}") };
        let enough: Time = remedy.split(',').next().unwrap().parse().unwrap();
        assert!(enough.0 >= all_ns, "{error}");
        let mut races = races();
        share(&mut races, enough).unwrap();
        let times = |races: &[Race]| races.iter().map(|race| goal(&race.header).time_max_ns).collect::<Vec<_>>();
        let before = times(&races);
        share(&mut races, Time(enough.0 / 2)).unwrap();
        assert_eq!(times(&races), before, "a shorter budget takes no time from a race");
        assert!(races.iter().all(|race| goal(&race.header).time_max_ns > 0));
        let plan = planned(&races);
        assert!(plan.starts_with("  1  ") && plan.contains("5 servers  400 connections, 200 requests/s"), "{plan}");
    }
}
