//! `muxbench compare`: runs an experiment defined by flags.

use std::num::NonZeroU32;
use std::process::ExitCode;

use anyhow::bail;
use harness::record::{RunHeader, Strategy, UntilGoal};
use harness::spec::Experiment;
use harness::spec::units::{Share, Time, time_above_0};
use harness::strategy::until::REPEATS_MAX;

use crate::options::execution::ExecutionArgs;
use crate::options::set;
use crate::options::setup::{SetupArgs, checked_with_quick, is_over_time};
use crate::{execution, output};

/// The default of `--budget`, in nanoseconds.
const BUDGET_NS: u64 = 600_000_000_000;

/// Compare servers under one workload, and print which one is best
///
/// Without flags, muxbench compares mp, mt, select, poll, epoll, io_uring and tokio with 400 and 2000 connections, requests of
/// 128 B, responses of 10 KiB and 2000 requests/s. The servers of a workload are up at the same time and take turns to be
/// loaded, so that all share the speed of the host. This takes about a minute.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench compare --arch epoll,threads -c 10k -r 500,2000
  muxbench compare --arch epoll --folder www --target nginx=http://localhost/1k
  muxbench compare profile.toml --arch all              # see observe
  muxbench compare --request 1B --response 1B --json > result.json
  muxbench compare --active 1/64,1 --idle 5000          # locality (kawai2006)
  muxbench compare --placebo --until 2% --budget 3min   # go on until decided
  muxbench compare --schedule closed --service kv       # transactions/s
  muxbench compare --service http --response 1KiB       # GET /bytes/1024
  muxbench compare --requests-per-connection 1          # short connections
  muxbench compare --rate-profile hold:1k:5s,spike:1k..9k:1s # rates over time
  muxbench compare --service udp --ports 10,1000        # datagrams
  muxbench compare --service stream --arch epoll,mt     # bandwidth
  muxbench compare --exec 'go=./server {port}' --arch epoll --allow-exec
  muxbench compare --network lab --delay 10ms --loss 1% # needs root
  muxbench compare --arch all --explain --count-syscalls
  muxbench compare --print-experiment > mine.toml       # an experiment file")]
pub struct Args {
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
    /// Repeat until the differences are decided, as in 2%
    ///
    /// Repeat until each pair is separated or known to differ by less than this share
    #[arg(long, value_name = "SHARE", help_heading = "Trials")]
    until: Option<Share>,
    /// Longest time of a run, with --until 2% by default; the first repeat always runs [default: 10min]
    #[arg(long, value_name = "TIME", value_parser = time_above_0, help_heading = "Trials", hide_short_help = true)]
    budget: Option<Time>,
    /// Print the experiment as a file for `muxbench run`, and run nothing
    #[arg(long, help_heading = "Results", hide_short_help = true)]
    print_experiment: bool,
}

impl Args {
    fn repeats(&self) -> Option<NonZeroU32> {
        self.setup.options.get("repeats")
    }

    /// Returns the experiment, and its text.
    fn experiment(&self, is_sequential: bool) -> anyhow::Result<(Experiment, String)> {
        let mut experiment = self.setup.experiment()?;
        if is_over_time(&self.setup.options) {
            experiment.repeats = NonZeroU32::MIN;
        }
        set(&mut experiment.repeats, self.repeats());
        // The file is for `muxbench run`, which runs all repeats.
        if is_sequential && !self.print_experiment {
            self.unused_repeats(&experiment).into_iter().for_each(output::note_once);
            experiment.repeats = self.repeats().unwrap_or(NonZeroU32::new(REPEATS_MAX).expect("above 0"));
        }
        let found = self.setup.checked(&experiment)?;
        // Only `muxbench run` has `--quick`, for the printed file.
        if !self.print_experiment || experiment.quick.is_none() {
            return Ok(found);
        }
        Ok(checked_with_quick(&experiment, &self.setup.options, self.setup.base.has_file()).unwrap_or_else(|_| {
            output::note(
                "the printed file lacks the [quick] table of FILE, which does not fit the flags; add one that does",
            );
            found
        }))
    }

    /// Returns a sentence about repeats of FILE that do not limit a run which goes on until it is decided. They are too few for that: a
    /// file without a number has one.
    fn unused_repeats(&self, experiment: &Experiment) -> Option<String> {
        let given = experiment.repeats.get();
        let is_unused = given > 1 && self.setup.base.has_file() && self.repeats().is_none();
        is_unused.then(|| {
            format!(
                "`repeats = {given}` of FILE does not count, because the run goes on until it is decided, up to {REPEATS_MAX} \
                 repeats; try --repeats {given}"
            )
        })
    }
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let is_sequential = args.until.is_some() || args.budget.is_some();
    let margin = args.until.map_or(0.02, |share| share.0);
    if !(0.001..=0.5).contains(&margin) {
        bail!("--until {}: expected a share from 0.1% to 50%", Share(margin));
    }
    let experiment = || args.experiment(is_sequential);
    if args.print_experiment {
        output::print(&experiment()?.1)?;
        let given = [args.until.map(|_| "--until"), args.budget.map(|_| "--budget")];
        let flags = given.into_iter().flatten().collect::<Vec<_>>().join(" and ");
        if is_sequential {
            output::note(format_args!("the file cannot contain {flags}; add {flags} to `muxbench compare FILE`"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let strategy = |plan, _: &_| {
        let time_max_ns = args.budget.map_or(BUDGET_NS, |time| time.0);
        Ok((plan, if is_sequential { Strategy::Until(UntilGoal { margin, time_max_ns }) } else { Strategy::Whole }))
    };
    let change = |header: &mut RunHeader| match (&mut header.strategy, args.budget) {
        (Strategy::Until(goal), Some(budget)) => {
            goal.time_max_ns = budget.0;
            Ok(())
        }
        (_, Some(_)) => bail!("--budget: the run was not begun with --until or --budget; omit it, or begin a new run"),
        (_, None) => Ok(()),
    };
    Ok(execution::run(&args.execution, || Ok(experiment()?.0), strategy, change)?.0)
}

#[cfg(test)]
mod tests {
    use harness::spec::OneOrMany;
    use harness::spec::units::Rate;

    use super::*;
    use crate::options::parsed;

    #[test]
    fn flags_replace_the_rate_profile_of_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "name = 'mine'\narchitectures = 'epoll'\n[workload]\nconnections = 9\nrate-profile = 'hold:1k:9s'\nrate = 500\n";
        std::fs::write(&file, text).unwrap();
        let workload = |flags: &str| {
            let args: Args = parsed("compare", &format!("{} {flags}", file.path().display()));
            args.experiment(false).unwrap().0.workload
        };
        let of_file = workload("");
        assert_eq!(
            (of_file.rate_profile, of_file.rate),
            (Some("hold:1k:9s".parse().unwrap()), Some(OneOrMany(vec![Rate(500.0)])))
        );
        let of_flag = workload("--rate-profile hold:2k:1s");
        assert_eq!((of_flag.rate_profile, of_flag.rate), (Some("hold:2k:1s".parse().unwrap()), None));
    }

    #[test]
    fn flags_name_the_servers_of_a_file_without_any() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "name = 'mine'\n[workload]\nconnections = 9\n").unwrap();
        let experiment = |flags: &str| {
            let args: Args = parsed("compare", &format!("{} {flags}", file.path().display()));
            args.experiment(false).map(|(experiment, _)| experiment)
        };
        for (flags, server) in [("--arch mt", "mt"), ("--target it=http://127.0.0.1:1", "target:it")] {
            let changed = experiment(flags).unwrap();
            let servers: Vec<String> = changed.architectures.0.iter().map(ToString::to_string).collect();
            assert_eq!((servers, changed.workload.connections.0[0].get()), (vec![server.to_owned()], 9));
        }
        let error = experiment("").unwrap_err().to_string();
        assert!(error.starts_with("architectures: missing; ") && error.contains("(--arch, --target)"), "{error}");
    }

    #[test]
    fn printed_file_keeps_the_quick_table_that_fits() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "name = 'mine'\narchitectures = ['epoll', 'mt']\n[workload]\nconnections = 9\nrate = 500\n\
                    [quick]\narchitectures = 'mt'\nmeasure = '1s'\nclient = { clients = 3 }\nrate = 100\n";
        std::fs::write(&file, text).unwrap();
        let printed = |flags: &str| {
            let args: Args = parsed("compare", &format!("{} {flags}", file.path().display()));
            Experiment::parse(&args.experiment(false).unwrap().1, "printed").unwrap()
        };
        let of_file = Experiment::parse(text, "mine.toml").unwrap().quick;
        assert!(of_file.is_some());
        assert_eq!(printed("--print-experiment -r 700").quick, of_file);
        assert_eq!(printed("--print-experiment -c 2").quick, None, "three clients cannot share two connections");
        assert_eq!(printed("").quick, None, "only a printed file has it");
    }

    #[test]
    fn repeats_of_a_file_do_not_limit_a_sequential_run() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "name = 'mine'\narchitectures = 'epoll'\nrepeats = 5\n[workload]\nconnections = 9\nrate = 500\n";
        std::fs::write(&file, text).unwrap();
        for (flags, repeats, has_note) in [("", REPEATS_MAX, true), ("--repeats 4", 4, false)] {
            let args: Args = parsed("compare", &format!("{} --until 2% {flags}", file.path().display()));
            assert_eq!(args.experiment(true).unwrap().0.repeats.get(), repeats);
            let note = args.unused_repeats(&args.setup.experiment().unwrap());
            assert_eq!(note.is_some_and(|it| it.contains("`repeats = 5` of FILE does not count")), has_note, "{flags}");
        }
    }
}
