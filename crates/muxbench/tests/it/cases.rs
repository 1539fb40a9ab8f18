//! The list of test cases. A check is a separate case for each architecture, so a failure of one does not stop the rest.
//!
//! By default a check runs on its own selection of architectures, in which each model and each readiness mechanism occurs, and
//! some of the completion mechanisms. The conformance checks together run on all of these. If the environment has
//! MUXBENCH_EVERY, the check runs on every architecture.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use server::spec::mechanism::Family;
use server::{Accept, Architecture, DatagramOptions, Threads};
use wire::ServiceSpec;

use crate::common::skipped;

/// Number of cases that run concurrently. Most of them wait for a server, a client or a timer.
const AT_ONCE: usize = 8;

/// The path of a test function as a string, and the function.
macro_rules! case {
    ($function:path) => {
        (concat!(module_path!(), "::", stringify!($function)), $function)
    };
}
pub(crate) use case;

/// Architectures with other numbers of threads than the default.
const STAGES: &[&str] =
    &["amped:0+2/epoll", "amped:0+1/epoll-et", "amped:0+2/rt-signal", "seda:1+3/poll", "symped:1/io_uring"];

/// The most completion mechanisms in a selection: they share one loop and most of their code. The next check has the next ones.
const COMPLETIONS_MAX: usize = 4;

/// One architecture for each kind of loop.
pub const KINDS: &[&str] = &["epoll", "epoll-et", "io_uring", "mt", "seda:2+4/epoll", "tokio", "may", "compio"];

/// One architecture for each kind of loop whose threads accept.
const STEERED: &[&str] = &["symped:2/epoll", "symped:2/epoll-et", "symped:2/io_uring", "seda-s:2/poll"];

/// The architectures to which a check applies, and those on which it runs.
struct Selection {
    check: String,
    all: Vec<Architecture>,
    chosen: Vec<Architecture>,
}

/// All cases of the binary.
pub struct Cases {
    /// Whether checks run on all architectures instead of a selection.
    every: bool,
    /// Architectures that can run here: each model with each of its mechanisms, runtimes also with two threads, and [`STAGES`].
    architectures: Vec<Architecture>,
    selections: Vec<Selection>,
    checks: Vec<Trial>,
    tests: Vec<Trial>,
    alone: Vec<Trial>,
}

impl Cases {
    fn new(every: bool) -> Self {
        let all = Architecture::every();
        let is_runtime = |row: &&Architecture| row.model.is_runtime();
        let in_two = all.iter().filter(is_runtime).map(|&row| Architecture { threads: Some(Threads::all(2)), ..row });
        let stages = STAGES.iter().map(|name| name.parse().unwrap());
        let architectures: Vec<_> = all.iter().copied().chain(in_two).chain(stages).filter(can_run).collect();
        let selections = Vec::new();
        Self { every, architectures, selections, checks: Vec::new(), tests: Vec::new(), alone: Vec::new() }
    }

    /// Adds a test.
    pub fn once(&mut self, (name, test): (&str, fn())) {
        self.tests.push(trial(name.to_owned(), test));
    }

    /// Adds a slow test that runs only if the environment has MUXBENCH_EVERY.
    pub fn every(&mut self, test: (&str, fn())) {
        if self.every {
            self.once(test);
        }
    }

    /// Adds a slow test of each item, if the environment has MUXBENCH_EVERY.
    pub fn every_of(&mut self, items: fn() -> Vec<String>, (name, test): (&str, fn(&str))) {
        if self.every {
            for item in items() {
                self.tests.push(trial(format!("{name}::{item}"), move || test(&item)));
            }
        }
    }

    /// Adds a test that measures, so no other test may run at the same time. Its name begins with `alone::`.
    pub fn alone(&mut self, (name, test): (&str, fn())) {
        self.alone.push(trial(name.replacen("::", "::alone::", 1), test));
    }

    /// Adds a check that applies to all architectures.
    pub fn each(&mut self, check: (&str, impl Check)) {
        self.each_that(|_| true, check);
    }

    /// Adds a check that applies to some architectures.
    pub fn each_that(&mut self, applies: impl Fn(&Architecture) -> bool, check: (&str, impl Check)) {
        self.select(self.architectures.iter().copied().filter(applies).collect(), check);
    }

    /// Adds a check of the architectures that serve `service`, including those with a buffered mechanism.
    pub fn serving(&mut self, service: &ServiceSpec, check: (&str, impl Check)) {
        let buffered = Architecture::buffered().into_iter().filter(can_run);
        let all = self.architectures.iter().copied().chain(buffered);
        self.select(all.filter(|it| it.can_serve(service).is_ok()).collect(), check);
    }

    /// Adds a check of the architectures that serve `service` and batch datagrams.
    pub fn serving_batches(&mut self, service: &ServiceSpec, check: (&str, impl Check)) {
        let batches = DatagramOptions { batch: 2, offload: true };
        let can_batch = |it: &Architecture| it.can_serve(service).is_ok() && it.can_batch(batches).is_ok();
        self.each_that(can_batch, check);
    }

    /// Adds a check of a service's protocol on [`KINDS`], because loops pass all bytes to the service.
    pub fn kinds(&mut self, service: &ServiceSpec, check: (&str, impl Check)) {
        self.protocol(service, KINDS, check);
    }

    /// Adds a check of a service's protocol on these architectures, or on all if every check runs on all.
    pub fn protocol(&mut self, service: &ServiceSpec, names: &[&str], check: (&str, impl Check)) {
        if self.every { self.serving(service, check) } else { self.named(names, check) }
    }

    /// Adds a check that runs on all of these architectures, except runtimes that are not compiled in.
    pub fn named(&mut self, names: &[&str], check: (&str, impl Check)) {
        let is_left_out =
            |name: &&&str| server::runtimes::FEATURES.contains(name) && name.parse::<Architecture>().is_err();
        let compiled = names.iter().filter(|name| !is_left_out(name)).map(|name| name.parse().unwrap());
        self.add(compiled.filter(can_run).collect(), check);
    }

    /// Adds a check of each pool with each of its accept strategies.
    pub fn pools(&mut self, names: &[&str], (name, check): (&str, fn(Architecture, Accept))) {
        for (accept, _, _) in Accept::ALL {
            let pools = names.iter().map(|name| name.parse().unwrap());
            let pools = pools.filter(|pool| accept.check(*pool).is_ok()).collect();
            self.add(pools, (&format!("{name}::{accept}"), move |pool| check(pool, accept)));
        }
    }

    /// Adds a check for each strategy by which network threads accept, on the architectures that allow the strategy.
    pub fn accepting(&mut self, (name, check): (&str, fn(Architecture, Accept))) {
        for (accept, _, _) in Accept::ALL.into_iter().filter(|row| row.0 != Accept::Single) {
            let (name, check) = (&format!("{name}::{accept}"), move |architecture| check(architecture, accept));
            let applies = |it: &Architecture| accept.check(*it).is_ok() && !it.model.is_pool();
            if self.every || !accept.has_own_listeners() || accept == Accept::Reuseport {
                self.each_that(|it| applies(it) && can_accept(accept, it), (name, check));
            } else {
                self.steered(accept, (name, check));
            }
        }
    }

    /// Adds a check of an accept strategy on one architecture of each kind of loop.
    pub fn steered(&mut self, accept: Accept, check: (&str, impl Check)) {
        let named = STEERED.iter().map(|name| name.parse().unwrap());
        let chosen = named.filter(|it| accept.check(*it).is_ok() && can_run(it) && can_accept(accept, it)).collect();
        self.add(chosen, check);
    }

    fn select(&mut self, all: Vec<Architecture>, (name, check): (&str, impl Check)) {
        let chosen = if self.every { all.clone() } else { select(&all, name, self.selections.len()) };
        self.selections.push(Selection { check: name.to_owned(), all, chosen: chosen.clone() });
        self.add(chosen, (name, check));
    }

    fn add(&mut self, architectures: Vec<Architecture>, (name, check): (&str, impl Check)) {
        for architecture in architectures {
            let check = check.clone();
            self.checks.push(trial(format!("{name}::{architecture}"), move || check(architecture)));
        }
    }
}

/// A test of one architecture.
pub trait Check: Fn(Architecture) + Clone + Send + 'static {}

impl<F: Fn(Architecture) + Clone + Send + 'static> Check for F {}

/// Runs the cases that the command line selects, like the standard test harness.
pub fn run(add: &[fn(&mut Cases)]) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let mut cases = Cases::new(std::env::var_os("MUXBENCH_EVERY").is_some());
    add.iter().for_each(|add| add(&mut cases));
    let (name, check) = case!(selections_have_each_model_and_mechanism);
    let selections = cases.selections;
    cases.tests.push(trial(name.to_owned(), move || check(&selections)));
    let at_once = arguments.test_threads;
    // A test may take a minute, a check takes seconds: begin with the tests, so that no thread is idle at the end.
    let together = cases.tests.into_iter().chain(cases.checks).collect();
    let groups = [(together, AT_ONCE), (cases.alone, 1)];
    let has_failed = groups.map(|(trials, threads)| {
        arguments.test_threads = Some(at_once.unwrap_or(threads).min(threads));
        libtest_mimic::run(&arguments, trials).has_failed()
    });
    ExitCode::from(u8::from(has_failed.contains(&true)))
}

/// Returns a case whose name starts with its module, such as `kv::`, instead of the name of this binary.
fn trial(name: String, test: impl Fn() + Send + 'static) -> Trial {
    let name = name.split_once("::").map_or(name.as_str(), |(_, name)| name).to_owned();
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

fn can_run(architecture: &Architecture) -> bool {
    is_possible(architecture, architecture.can_run())
}

fn can_accept(accept: Accept, architecture: &Architecture) -> bool {
    is_possible(architecture, accept.can_run(*architecture))
}

fn is_possible(architecture: &Architecture, checked: Result<(), String>) -> bool {
    checked.map_err(|reason| skipped(&format!("{architecture}: {reason}"))).is_ok()
}

/// Checks that each check runs with each model and each readiness mechanism to which it applies, and that the conformance checks
/// together run with each completion mechanism.
fn selections_have_each_model_and_mechanism(selections: &[Selection]) {
    let (mut all_completions, mut chosen_completions) = (BTreeSet::new(), BTreeSet::new());
    for Selection { check, all, chosen } in selections {
        assert_eq!(models(chosen), models(all), "{check}");
        assert_eq!(mechanisms(chosen, Family::Readiness), mechanisms(all, Family::Readiness), "{check}");
        if check.contains("::conformance::") {
            all_completions.extend(mechanisms(all, Family::Completion));
            chosen_completions.extend(mechanisms(chosen, Family::Completion));
        }
    }
    assert_eq!(chosen_completions, all_completions);
}

/// Returns the names of the models of these architectures.
fn models(architectures: &[Architecture]) -> BTreeSet<&'static str> {
    architectures.iter().map(|it| it.model.name).collect()
}

/// Returns the names of the mechanisms of these architectures that belong to `family`.
fn mechanisms(architectures: &[Architecture], family: Family) -> BTreeSet<&'static str> {
    let rows = architectures.iter().filter_map(|it| it.mechanism);
    rows.filter(|row| row.family == family).map(|row| row.name).collect()
}

/// Returns the selection of the check with this name and number. Each model and each readiness mechanism of `all` occurs in it,
/// and [`COMPLETIONS_MAX`] completion mechanisms, which follow those of the check before. First adds architectures whose model
/// and mechanism (if any) are new, then those with one new part. The check's name determines the order of the candidates.
fn select(all: &[Architecture], check: &str, number: usize) -> Vec<Architecture> {
    let mut all = all.to_vec();
    all.sort_by_cached_key(|architecture| {
        let mut hasher = DefaultHasher::new();
        (check, architecture.to_string()).hash(&mut hasher);
        hasher.finish()
    });
    let completions = mechanisms(&all, Family::Completion);
    let count = COMPLETIONS_MAX.min(completions.len());
    let completions = completions.iter().copied().cycle().skip(number * COMPLETIONS_MAX).take(count);
    let completions: Vec<&str> = completions.collect();
    all.retain(|it| it.mechanism.is_none_or(|row| row.family == Family::Readiness || completions.contains(&row.name)));
    let (mut models, mut mechanisms) = (BTreeSet::new(), BTreeSet::new());
    let mut chosen = BTreeMap::new();
    for needed in [2, 1] {
        for architecture in &all {
            let mechanism = architecture.mechanism.map(|row| row.name);
            let is_new =
                (!models.contains(architecture.model.name), mechanism.is_some_and(|it| !mechanisms.contains(it)));
            let wanted = if mechanism.is_none() { 1 } else { needed };
            if u8::from(is_new.0) + u8::from(is_new.1) >= wanted {
                models.insert(architecture.model.name);
                mechanisms.extend(mechanism);
                chosen.insert(architecture.to_string(), *architecture);
            }
        }
    }
    chosen.into_values().collect()
}
