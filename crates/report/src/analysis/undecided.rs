//! Pairs that a run left undecided, and the command that decides them.

use harness::record::{Run, RunHeader, Trial, TrialOutcome, Workload};
use harness::strategy::{self, elapsed_ns, until};
use stats::sequential::Decision;
use stats::{Interval, Ratio};

use super::row::{Comparison, MARGIN, Pair};
use crate::format;

/// The margin that the command names.
const UNTIL: f64 = 0.02;
const MINUTE_NS: f64 = 60e9;
const MINUTES_MAX: f64 = 120.0;

/// The sentence before the command.
pub(crate) const REMARK: &str = "Some differences are neither significant nor negligible. To decide them, run:";

/// Sets the decision of each pair of a run with `--until`. Returns the words of the command that decides open pairs.
pub(super) fn decide(run: &Run, comparisons: &mut [Comparison]) -> Option<Vec<String>> {
    let strategy = &run.header.strategy;
    match strategy.margin() {
        Some(margin) => continuation(run, comparisons, margin),
        None if strategy.is_open_ended() || strategy.ends_early() => None,
        None => comparison(run, comparisons),
    }
}

/// Returns the budget of a run that takes `factor` times as long as these trials; `None` if it would not be longer.
fn minutes(outcomes: &[TrialOutcome], factor: f64) -> Option<String> {
    let elapsed_ns = elapsed_ns(outcomes) as f64;
    let minutes = (elapsed_ns * factor / MINUTE_NS).ceil().min(MINUTES_MAX);
    (minutes * MINUTE_NS > elapsed_ns).then(|| format!("{minutes}min"))
}

/// Does so for a run with `--until`, which goes on.
fn continuation(run: &Run, comparisons: &mut [Comparison], margin: f64) -> Option<Vec<String>> {
    let outcomes = strategy::outcomes(run);
    for comparison in comparisons.iter_mut() {
        let Some((servers, looks)) = until::compared(&run.header, &outcomes, &comparison.workload, margin) else {
            continue;
        };
        for pair in &mut comparison.pairs {
            let known = looks.pairs().iter().find(|it| {
                let labels = [it.one, it.other].map(|at| servers[at].label());
                labels.contains(&pair.architecture) && labels.contains(&pair.base)
            });
            pair.decision = known.map(|it| it.decision);
        }
    }
    let open = widest_by_workload(comparisons, |it| {
        let open = it.pairs.iter().filter(|pair| pair.decision == Some(Decision::Open));
        open.map(|pair| half_width(pair.ratio).unwrap_or(margin)).reduce(f64::max)
    });
    let is_left = |trial: &Trial| {
        trial.infeasible.is_empty()
            && open.iter().any(|(workload, _)| **workload == trial.workload)
            && !outcomes.iter().any(|it| it.index == trial.index)
    };
    if !run.header.trials.iter().any(is_left) {
        return None;
    }
    // The rule needs more than the interval of a single look.
    let budget = minutes(&outcomes, (widest(&open)? / margin).powi(2).max(2.0))?;
    let words = ["muxbench", "compare", "--resume", &folder(&run.header), "--budget", &budget];
    let distributed = run.header.is_distributed.then_some("--distributed");
    Some(words.into_iter().chain(distributed).map(str::to_owned).collect())
}

/// Does so for a run of a fixed plan: `compare --until` of its experiment.
fn comparison(run: &Run, comparisons: &[Comparison]) -> Option<Vec<String>> {
    let command = as_comparison(&run.header.command)?;
    let open = widest_by_workload(comparisons, |it| {
        let ratios = it.ranked().skip(1).filter_map(|row| row.ratio);
        let open = ratios.filter(|it| !it.differs_from_one() && !it.is_practically_one(MARGIN));
        open.filter_map(half_width).reduce(f64::max)
    });
    let factor = (widest(&open)? / UNTIL).powi(2).max(1.0);
    let budget = minutes(&strategy::outcomes(run), factor)?;
    let until = ["--until", "2%", "--budget", &budget].map(str::to_owned);
    Some(without(&command, &["--output", "--repeats"]).chain(until).collect())
}

fn half_width(ratio: Ratio) -> Option<f64> {
    ratio.interval.map(Interval::half_width)
}

/// Returns the workloads with open pairs, and the half-width of the widest open interval of each.
fn widest_by_workload(
    comparisons: &[Comparison],
    widest: impl Fn(&Comparison) -> Option<f64>,
) -> Vec<(&Workload, f64)> {
    comparisons.iter().filter_map(|it| Some((&it.workload, widest(it)?))).collect()
}

fn widest(open: &[(&Workload, f64)]) -> Option<f64> {
    open.iter().map(|(_, half_width)| *half_width).reduce(f64::max)
}

/// Returns the words of `compare` for the experiment of a command; `None` if it has flags that `compare` lacks.
fn as_comparison(command: &[String]) -> Option<Vec<String>> {
    let has = |word: &str| command.iter().any(|it| it == word);
    let is_like = match command.get(1)?.as_str() {
        "compare" => true,
        // Only `run` has --quick.
        "run" => !has("--quick"),
        _ => false,
    };
    let mut words = command.to_vec();
    words[1] = "compare".to_owned();
    // A `-` names standard input, which is gone.
    (is_like && !has("-")).then_some(words)
}

/// Returns the words of a command without these flags and their values.
fn without<'a>(command: &'a [String], flags: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    let is_flag = |word: &str| flags.contains(&word);
    // A value may follow a short flag without a space.
    let is_short = |word: &str| flags.iter().any(|flag| flag.len() == 2 && word.starts_with(flag));
    let is_joined =
        move |word: &str| is_short(word) || word.split_once('=').is_some_and(|(flag, _)| flags.contains(&flag));
    (0..command.len())
        .filter(move |&at| {
            let is_value = at > 0 && is_flag(&command[at - 1]);
            !is_flag(&command[at]) && !is_joined(&command[at]) && !is_value
        })
        .map(|at| command[at].clone())
}

/// Returns the folder of a run, as its command names it.
fn folder(header: &RunHeader) -> String {
    let mut words = header.command.iter();
    let output = words.find_map(|word| match word.strip_prefix("--output")? {
        "" => Some(None),
        rest => rest.strip_prefix('=').map(Some),
    });
    let output = output.and_then(|joined| joined.map(str::to_owned).or_else(|| words.next().cloned()));
    output.unwrap_or_else(|| format!("results/{}", header.name))
}

/// Returns which pairs of a run with `--until` are equal in practice, open or separated; `None` for other runs.
pub(super) fn sentence(pairs: &[Pair], margin: f64) -> Option<String> {
    let with = |decision: Decision| -> Vec<String> {
        let pairs = pairs.iter().filter(|pair| pair.decision == Some(decision));
        pairs.map(|pair| format!("{} and {}", pair.base, pair.architecture)).collect()
    };
    let [equal, open, separated] = [Decision::WithinMargin, Decision::Open, Decision::Separated].map(with);
    let mut sentences = Vec::new();
    if !equal.is_empty() {
        sentences.push(format!("Equal within {}: {}.", format::percent(margin), equal.join("; ")));
    }
    if !open.is_empty() {
        sentences.push(format!("Open: {}.", open.join("; ")));
    }
    match (separated.len(), sentences.is_empty()) {
        (0, true) => return None,
        (0, false) => {}
        (_, true) => sentences.push("All pairs are separated.".into()),
        (_, false) => sentences.push("All other pairs are separated.".into()),
    }
    Some(sentences.join(" "))
}

#[cfg(test)]
mod tests {
    use harness::record::{Strategy, UntilGoal};

    use super::*;
    use crate::analysis::Summary;

    fn command(run: &Run) -> Option<String> {
        Summary::of(run).to_decide.as_deref().map(format::command)
    }

    /// A run in which `mt` is neither equal to `epoll` nor significantly different.
    fn noisy() -> Run {
        let mut run = testkit::interleaved_run();
        let of_mt = run.records.iter_mut().filter(|record| record.trial.label() == "mt");
        of_mt.zip([1.2, 0.8, 1.1, 1.0, 0.9, 1.0]).for_each(|(record, factor)| testkit::slow_down(record, factor));
        run.header.command = words("muxbench compare --arch epoll,mt --repeats 1 --output=x --output y z");
        run
    }

    fn words(command: &str) -> Vec<String> {
        command.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn open_lead_names_the_command_that_decides_it() {
        let mut run = noisy();
        let text = command(&run).unwrap();
        let minutes = text.strip_prefix("muxbench compare --arch epoll,mt z --until 2% --budget ").unwrap();
        let minutes: u32 = minutes.strip_suffix("min").unwrap().parse().unwrap();
        assert!((1..=60).contains(&minutes), "{text}");
        run.records.iter_mut().for_each(|record| record.elapsed_ns = 500_000_000_000);
        assert!(command(&run).unwrap().ends_with(" 120min"));
        run.header.command = ["muxbench", "run", "x.toml"].map(str::to_owned).into();
        assert_eq!(command(&run).unwrap(), "muxbench compare x.toml --until 2% --budget 120min");
        run.header.command.push("--distributed".into());
        assert_eq!(command(&run).unwrap(), "muxbench compare x.toml --distributed --until 2% --budget 120min");
        run.header.command.push("--quick".into());
        assert_eq!(command(&run), None, "`compare` has no --quick");
        assert_eq!(command(&testkit::interleaved_run()), None, "poll differs, and mt does not in practice");
    }

    #[test]
    fn run_with_until_lists_its_decisions() {
        let mut run = noisy();
        run.header.strategy = Strategy::Until(UntilGoal { margin: 0.02, time_max_ns: 1 });
        let later: Vec<_> = run
            .header
            .trials
            .iter()
            .map(|trial| {
                let mut trial = trial.clone();
                (trial.index, trial.repeat) = (trial.index + 24, 6 + trial.repeat);
                trial
            })
            .collect();
        run.header.trials.extend(later);
        let summary = Summary::of(&run);
        let text = sentence(&summary.comparisons[0].pairs, 0.02).unwrap();
        assert_eq!(
            text,
            "Open: epoll and epoll (placebo); epoll and mt; epoll (placebo) and mt. All other pairs are separated."
        );
        assert_eq!(command(&run).unwrap(), "muxbench compare --resume x --budget 16min");
        let text = crate::text::render(&run, 400.into());
        assert!(text.contains("later repeats not run"), "{text}");
        assert_eq!(text.matches("repeats not run").count(), 1);
        assert!(text.contains("(24 of 24 trials,"), "{text}");
        run.header.command.truncate(2);
        assert!(command(&run).unwrap().contains(" --resume results/20260101T000000-made-up "));
        run.header.is_distributed = true;
        assert!(command(&run).unwrap().ends_with(" --distributed"));
        run.header.trials.truncate(24);
        assert_eq!(command(&run), None, "no repeats are left");
        assert_eq!(sentence(&Summary::of(&testkit::run()).comparisons[0].pairs, 0.02), None);
    }
}
