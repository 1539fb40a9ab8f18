//! Pairs that a run left undecided, and the command that decides them.

use harness::model::{Run, RunHeader, Strategy};
use harness::strategy::{self, until};
use stats::Ratio;
use stats::sequential::Decision;

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
    let outcomes = strategy::outcomes(run);
    let elapsed_ns = until::elapsed_ns(&outcomes) as f64;
    let minutes = |half_width: f64, margin: f64, least: f64| {
        let minutes = (elapsed_ns * (half_width / margin).powi(2).max(least) / MINUTE_NS).ceil().min(MINUTES_MAX);
        (minutes * MINUTE_NS > elapsed_ns).then(|| format!("{minutes}min"))
    };
    match run.header.strategy {
        Strategy::Until { margin, .. } => {
            for comparison in comparisons.iter_mut() {
                let Some((servers, looks)) = until::compared(&run.header, &outcomes, &comparison.workload, margin)
                else {
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
            let is_finished =
                run.records.len() == run.header.trials.iter().filter(|it| it.infeasible.is_empty()).count();
            let open = comparisons.iter().flat_map(|it| &it.pairs).filter(|it| it.decision == Some(Decision::Open));
            let widest = open.map(|pair| half_width(pair.ratio).unwrap_or(margin)).reduce(f64::max)?;
            // The rule needs more than the interval of a single look.
            let budget = minutes(widest, margin, 2.0).filter(|_| !is_finished)?;
            let words = ["muxbench", "compare", "--resume", &folder(&run.header), "--budget", &budget];
            Some(words.map(str::to_owned).into())
        }
        Strategy::Whole => {
            let command = as_comparison(&run.header.command)?;
            let ratios = comparisons.iter().flat_map(|it| it.ranked().skip(1)).filter_map(|row| row.ratio);
            let open = ratios.filter(|it| !it.differs_from_one() && !it.is_practically_one(MARGIN));
            let budget = minutes(open.filter_map(half_width).reduce(f64::max)?, UNTIL, 1.0)?;
            let until = ["--until", "2%", "--budget", &budget].map(str::to_owned);
            Some(without(&command, &["--output", "--repeats"]).chain(until).collect())
        }
        _ => None,
    }
}

fn half_width(ratio: Ratio) -> Option<f64> {
    ratio.interval.map(|it| (it.high - it.low) / 2.0)
}

/// Returns the words of `compare` for the experiment of a command; `None` if it has flags that `compare` lacks.
fn as_comparison(command: &[String]) -> Option<Vec<String>> {
    let lacks = |words: &[&str]| !command.iter().any(|it| words.contains(&it.as_str()));
    let is_like = match command.get(1)?.as_str() {
        "compare" => true,
        // Only `compare` has --until. A `-` names standard input, which is gone.
        "run" => lacks(&["--quick", "--distributed", "-"]),
        _ => false,
    };
    let mut words = command.to_vec();
    words[1] = "compare".to_owned();
    is_like.then_some(words)
}

/// Returns the words of a command without these flags and their values.
fn without<'a>(command: &'a [String], flags: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    let is_flag = |word: &str| flags.contains(&word);
    let is_joined = |word: &str| word.split_once('=').is_some_and(|(flag, _)| flags.contains(&flag));
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
    use super::*;
    use crate::model::Summary;

    fn command(run: &Run) -> Option<String> {
        Summary::of(run).to_decide.as_deref().map(format::command)
    }

    /// A run in which `mt` is neither equal to `epoll` nor significantly different.
    fn noisy() -> Run {
        let mut run = testkit::interleaved_run();
        let blocks = &mut run.records[1].load.as_mut().unwrap().slices.as_mut().unwrap().blocks;
        for (block, factor) in [(3, 2.0), (11, 0.5), (17, 2.0), (23, 0.5)] {
            blocks[block].service_p50_ns = (blocks[block].service_p50_ns as f64 * factor) as u64;
        }
        run.header.command = "muxbench compare --arch epoll,mt --repeats 1 --output=x --output y z"
            .split(' ')
            .map(str::to_owned)
            .collect();
        run
    }

    #[test]
    fn open_lead_names_the_command_that_decides_it() {
        let mut run = noisy();
        let text = command(&run).unwrap();
        let minutes = text.strip_prefix("muxbench compare --arch epoll,mt z --until 2% --budget ").unwrap();
        let minutes: u32 = minutes.strip_suffix("min").unwrap().parse().unwrap();
        assert!((1..=5).contains(&minutes), "{text}");
        run.records.iter_mut().for_each(|record| record.elapsed_ns = 3_000_000_000_000);
        assert!(command(&run).unwrap().ends_with(" 120min"));
        run.header.command = ["muxbench", "run", "x.toml"].map(str::to_owned).into();
        assert_eq!(command(&run).unwrap(), "muxbench compare x.toml --until 2% --budget 120min");
        run.header.command.push("--quick".into());
        assert_eq!(command(&run), None, "`compare` has no --quick");
        assert_eq!(command(&testkit::interleaved_run()), None, "poll differs, and mt does not in practice");
    }

    #[test]
    fn run_with_until_lists_its_decisions() {
        let mut run = noisy();
        run.header.strategy = Strategy::Until { margin: 0.02, time_max_ns: 1 };
        let later: Vec<_> = run
            .header
            .trials
            .iter()
            .map(|trial| {
                let mut trial = trial.clone();
                (trial.index, trial.repeat) = (trial.index + 4, 1);
                trial
            })
            .collect();
        run.header.trials.extend(later);
        let summary = Summary::of(&run);
        let text = sentence(&summary.comparisons[0].pairs, 0.02).unwrap();
        assert_eq!(
            text,
            "Equal within 2 %: epoll and epoll (placebo). Open: epoll and mt; epoll (placebo) and mt. All other pairs are separated."
        );
        assert_eq!(command(&run).unwrap(), "muxbench compare --resume x --budget 2min");
        let text = crate::text::render(&run, 400.into());
        assert!(text.contains("later repeats not needed"), "{text}");
        assert_eq!(text.matches("not needed").count(), 1);
        assert!(text.contains("(4 of 4 trials,"), "{text}");
        run.header.command.truncate(2);
        assert!(command(&run).unwrap().contains(" --resume results/20260101T000000-made-up "));
        run.header.trials.truncate(4);
        assert_eq!(command(&run), None, "no repeats are left");
        assert_eq!(sentence(&Summary::of(&testkit::run()).comparisons[0].pairs, 0.02), None);
    }
}
