//! Simulated queues of Poisson arrivals, in turns and without them.

use std::collections::BTreeSet;

use load::config::LoadConfig;
use load::result::interleaved::joined;
use load::time::schedule;
use load::{LoadResult, Sample};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::judge::slices;
use crate::plan::plan;
use crate::spec::Experiment;

const RATE: f64 = 2_000.0;

/// The load of one of four servers with Poisson arrivals, as planned.
fn load() -> LoadConfig {
    let text = format!(
        "name = \"x\"\narchitectures = [\"epoll\", \"mt\", \"mp\", \"poll\"]\n\
         [workload]\nconnections = 10\nrequest = \"1B\"\nresponse = \"2B\"\nrate = {RATE}\nschedule = \"poisson\"\n\
         [phases]\nramp = \"0\"\nwarm-up = \"100ms\"\nmeasure = \"50s\"\n"
    );
    let planned = plan(&Experiment::of(&text), &crate::host::Host::made_up()).unwrap();
    planned.trials[0].load()
}

/// Returns the response times, in order of arrival, of a server that works for `service_ns` on each request, and the samples.
fn served(load: &LoadConfig, service_ns: impl Fn() -> f64) -> Vec<Sample> {
    let (mut free_ns, from_ns) = (0.0_f64, load.window_ns().start as f64);
    let serve = |request: schedule::Planned| {
        free_ns = free_ns.max(request.at_ns) + service_ns();
        let sent_ns = (request.at_ns - from_ns) as i64;
        Sample { planned_ns: sent_ns, sent_ns, complete_ns: (free_ns - from_ns) as i64, ..Sample::UNKNOWN }
    };
    schedule::planned(load, load.connections, 0).map(serve).collect()
}

/// The 90th and 99th percentiles of the response time in turns, divided by those without turns, and whether the trial is valid.
fn in_turns(utilisation: f64, is_exponential: bool) -> ([f64; 2], bool) {
    let (load, mean_ns) = (load(), utilisation / RATE * 1e9);
    let drawn = || {
        let random = std::cell::RefCell::new(Xoshiro256PlusPlus::seed_from_u64(5));
        move || if is_exponential { -mean_ns * (1.0 - random.borrow_mut().random::<f64>()).ln() } else { mean_ns }
    };
    let mut report = joined(&load, LoadResult::default(), &mut served(&load, drawn()), &BTreeSet::new());
    let separate = load.clone().with(|it| it.client.slices = None);
    let alone: stats::Histogram =
        served(&separate, drawn()).iter().map(|it| (it.complete_ns - it.planned_ns) as u64).collect();
    let figures = report.slices.as_mut().unwrap();
    let guard_ns = load.client.slices.unwrap().guard_ns as f64;
    figures.settling_guards = Some(slices::settling_ns(utilisation, mean_ns) / guard_ns);
    let is_valid = slices::checks(figures).iter().all(|check| check.passed);
    ([0.9, 0.99].map(|q| report.response.histogram.quantile(q) as f64 / alone.quantile(q) as f64), is_valid)
}

#[test]
fn poisson_queues_are_whole_or_the_trial_is_not_valid() {
    let mut valid = Vec::new();
    for is_exponential in [false, true] {
        for utilisation in [0.3, 0.5, 0.6, 0.7, 0.8, 0.9] {
            let (ratios, is_valid) = in_turns(utilisation, is_exponential);
            let is_whole = ratios.iter().all(|ratio| (ratio - 1.0).abs() < 0.05);
            assert!(is_whole || !is_valid, "{utilisation}, exponential {is_exponential}: {ratios:?}");
            valid.extend(is_valid.then_some(utilisation));
        }
    }
    assert_eq!(valid, [0.3, 0.5, 0.6, 0.3, 0.5, 0.6], "moderate loads share windows");
}
