//! Calibration of the client, with servers that hold each response for a known time.
//!
//! The reflector logs the actual hold time of each request. The rest of the service time is the round trip. A server
//! without holds (the null server) gives the round trip alone. The difference between the two round trips is the
//! client's error. The median error is the bias, and the quantiles of the error minus the bias are the spread.

use std::time::Duration;

use anyhow::{Context, ensure};
use load::config::Transport;
use load::result::Sample;
use load::tools::reflector::{HeldRequest, Reflector};
use load::{LoadConfig, Outcome};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Estimate, quantile};

use crate::spec::units::Time;

/// The maximum bias of a recovered hold, in nanoseconds.
const BIAS_NS_MAX: f64 = 2_000.0;
/// The maximum bias as a share of the hold. The larger of the two limits applies.
const BIAS_SHARE_MAX: f64 = 0.005;

/// The time for which a reflector holds requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hold {
    /// The mean in nanoseconds. 0 is the null server.
    pub mean_ns: u64,
    /// The distribution.
    pub law: Law,
}

/// The distribution of hold times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// Always the mean.
    Fixed,
    /// Uniform between 0.5 and 1.5 times the mean.
    Uniform,
    /// Exponential, a common model of service times.
    Exponential,
}

impl Law {
    /// Returns the name in flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Uniform => "uniform",
            Self::Exponential => "exponential",
        }
    }
}

impl Hold {
    /// Returns a generator of hold times. The same seed gives the same times.
    fn draws(self, seed: u64) -> impl FnMut() -> Duration + Send + 'static {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        move || {
            let unit: f64 = random.random();
            let factor = match self.law {
                Law::Fixed => 1.0,
                Law::Uniform => 0.5 + unit,
                Law::Exponential => -(1.0 - unit).ln(),
            };
            Duration::from_nanos((self.mean_ns as f64 * factor) as u64)
        }
    }
}

/// The settings of a calibration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The holds to measure besides the null server.
    pub holds: Vec<Hold>,
    /// The number of rounds. Each round measures every hold and the null server once.
    pub rounds: u32,
    /// The CPU on which the reflector spins.
    pub server_cpu: usize,
    /// The client's configuration. The calibration sets its target.
    pub load: LoadConfig,
}

/// The results of a calibration.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Calibration {
    /// The transport of the requests.
    pub transport: Transport,
    /// The rate in requests per second.
    pub rate_per_s: f64,
    /// The number of connections.
    pub connections: u32,
    /// The client's roles and pacing, such as `one-loop, spin`.
    pub client: String,
    /// The number of rounds.
    pub rounds: u32,
    /// The results of the null server and of each hold, in order.
    pub conditions: Vec<Condition>,
}

/// The results of one hold.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Condition {
    /// The configured hold.
    pub hold: Hold,
    /// The number of measured requests, over all rounds.
    pub count: u64,
    /// The median of the actual hold, in nanoseconds.
    pub held_p50_ns: f64,
    /// The median service time, in nanoseconds.
    pub service_p50_ns: f64,
    /// The 99th percentile of the send delay, in nanoseconds.
    pub send_delay_p99_ns: f64,
    /// The hold as recovered from the client's timestamps.
    pub client: Recovered,
    /// The hold as recovered from the kernel's timestamps. `None` without them.
    pub kernel: Option<Recovered>,
    /// The limit of the bias in either direction, in nanoseconds.
    pub bias_ns_max: f64,
}

/// A recovered hold: the service time by timestamps, minus the null server's round trip.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Recovered {
    /// The median over all requests, in nanoseconds.
    pub p50_ns: f64,
    /// The mean over rounds of the median error, in nanoseconds. Each round has its own round trip of the null server.
    pub bias_ns: Estimate,
    /// The 1st, 25th, 75th and 99th percentile of the error minus the bias of its round, over all requests, in nanoseconds.
    pub spread_ns: [f64; 4],
}

impl Condition {
    /// Tests whether the bias is within its limit.
    pub fn is_recovered(&self) -> bool {
        self.client.bias_ns.value.abs() <= self.bias_ns_max
    }
}

/// The actual hold and the service times of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Request {
    held_ns: f64,
    client_ns: f64,
    kernel_ns: Option<f64>,
}

/// The measurement of one hold in one round.
struct HoldTrial {
    requests: Vec<Request>,
    send_delay_p99_ns: f64,
    client: String,
}

/// Calibrates the client. Before each trial, calls `on_trial` with its number from 0, the number of trials, and the hold. Fails
/// if any request fails.
pub fn calibrate(settings: &Settings, on_trial: &mut dyn FnMut(usize, usize, Hold)) -> anyhow::Result<Calibration> {
    let null = Hold { mean_ns: 0, law: Law::Fixed };
    let holds: Vec<Hold> = [null].into_iter().chain(settings.holds.iter().copied()).collect();
    let total = holds.len() * settings.rounds as usize;
    // Indexed by hold, then by round.
    let mut trials: Vec<Vec<HoldTrial>> = holds.iter().map(|_| Vec::new()).collect();
    for round in 0..settings.rounds {
        for (at, &hold) in holds.iter().enumerate() {
            on_trial(round as usize * holds.len() + at, total, hold);
            trials[at].push(trial(settings, hold, u64::from(round))?);
        }
    }
    let conditions = holds.iter().zip(&trials).map(|(&hold, of_hold)| condition(hold, of_hold, &trials[0]));
    Ok(Calibration {
        transport: settings.load.transport(),
        rate_per_s: settings.load.rate_per_s().context("a calibration needs a rate, because it is an open loop")?,
        connections: settings.load.connections,
        client: trials[0].first().map(|trial| trial.client.clone()).unwrap_or_default(),
        rounds: settings.rounds,
        conditions: conditions.collect(),
    })
}

fn trial(settings: &Settings, hold: Hold, round: u64) -> anyhow::Result<HoldTrial> {
    let seed = settings.load.client.seed.wrapping_add(round);
    let load = &settings.load;
    let reflector = Reflector::start(load.transport(), &load.service, Some(settings.server_cpu), hold.draws(seed))?;
    let config = load.clone().with(|it| (it.target, it.client.seed) = (reflector.address().clone(), seed));
    let Outcome { report, samples, connections } = load::run(&config, &mut |_| ())?;
    // Keep the connections open until the reflector has stopped.
    let held = reflector.stop()?;
    drop(connections);
    let failed = report.errors.by_class().into_iter().filter(|(_, count)| *count > 0);
    let failed: Vec<String> = failed.map(|(class, count)| format!("{count} {class}")).collect();
    ensure!(
        failed.is_empty(),
        "round {}, hold {} of {}: requests failed ({}); lower --hold or --rate, or raise --connections",
        round + 1,
        hold.law.name(),
        Time(hold.mean_ns),
        failed.join(", ")
    );
    let word = |value: serde_json::Result<serde_json::Value>| {
        value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    Ok(HoldTrial {
        requests: matched(&samples, &held)
            .context("the server's log lacks requests of the client; report this bug with your command")?,
        send_delay_p99_ns: report.send_delay.distribution.p99_ns as f64,
        client: format!("{}, {}", word(serde_json::to_value(report.roles)), word(serde_json::to_value(report.pacing))),
    })
}

/// Matches each sample with its hold, from the end: a client sends nothing after the window, so the samples of a connection
/// are its last requests. `None` if the log lacks one of them.
fn matched(samples: &[Sample], held: &[HeldRequest]) -> Option<Vec<Request>> {
    let peers = 1 + held.iter().map(|held| held.peer).max()? as usize;
    let mut holds: Vec<Vec<u64>> = vec![Vec::new(); peers];
    held.iter().for_each(|held| holds[held.peer as usize].push(held.held_ns));
    let mut requests = Vec::with_capacity(samples.len());
    for sample in samples.iter().rev() {
        let kernel = sample.driver_ns != Sample::NEVER && sample.arrived_ns != Sample::NEVER;
        requests.push(Request {
            held_ns: holds.get_mut(sample.connection as usize)?.pop()? as f64,
            client_ns: (sample.complete_ns - sample.sent_ns) as f64,
            kernel_ns: kernel.then(|| (sample.arrived_ns - sample.driver_ns) as f64),
        });
    }
    Some(requests)
}

fn condition(hold: Hold, trials: &[HoldTrial], null: &[HoldTrial]) -> Condition {
    let all = || trials.iter().flat_map(|trial| &trial.requests);
    let recovered = |time: fn(&Request) -> Option<f64>| recovered(trials, null, time);
    let has_kernel = all().any(|request| request.kernel_ns.is_some());
    Condition {
        hold,
        count: all().count() as u64,
        held_p50_ns: median(all().map(|request| request.held_ns)),
        service_p50_ns: median(all().map(|request| request.client_ns)),
        send_delay_p99_ns: median(trials.iter().map(|trial| trial.send_delay_p99_ns)),
        client: recovered(|request| Some(request.client_ns)),
        kernel: has_kernel.then(|| recovered(|request| request.kernel_ns)),
        bias_ns_max: BIAS_NS_MAX.max(BIAS_SHARE_MAX * hold.mean_ns as f64),
    }
}

fn recovered(trials: &[HoldTrial], null: &[HoldTrial], time: fn(&Request) -> Option<f64>) -> Recovered {
    let rest = |trial: &HoldTrial| -> Vec<f64> {
        trial.requests.iter().filter_map(|request| Some(time(request)? - request.held_ns)).collect()
    };
    // Use the round trip of the same round, because the speed of a machine changes from minute to minute.
    let ways_ns: Vec<f64> = null.iter().map(|null| median(rest(null).into_iter())).collect();
    let biases_ns: Vec<f64> =
        trials.iter().zip(&ways_ns).map(|(trial, way_ns)| median(rest(trial).into_iter()) - way_ns).collect();
    let mut errors_ns: Vec<f64> = trials
        .iter()
        .zip(ways_ns.iter().zip(&biases_ns))
        .flat_map(|(trial, (way_ns, bias_ns))| rest(trial).into_iter().map(move |ns| ns - way_ns - bias_ns))
        .collect();
    errors_ns.sort_unstable_by(f64::total_cmp);
    let times = trials.iter().zip(&ways_ns);
    let recovered = times.flat_map(|(trial, way_ns)| trial.requests.iter().filter_map(time).map(move |ns| ns - way_ns));
    Recovered {
        p50_ns: median(recovered),
        bias_ns: Estimate::arithmetic(&biases_ns).unwrap_or(Estimate { value: f64::NAN, interval: None }),
        spread_ns: [0.01, 0.25, 0.75, 0.99].map(|q| quantile(&errors_ns, q).unwrap_or(f64::NAN)),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, 0.5).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(connection: u32, service_ns: i64) -> Sample {
        Sample { sent_ns: 0, complete_ns: service_ns, connection, ..Sample::UNKNOWN }
    }

    #[test]
    fn samples_match_the_last_holds_of_their_connection() {
        let held = |peer, held_ns| HeldRequest { peer, held_ns };
        // Two connections, each verified by a first request. The responses are in another order than the requests.
        let log = [held(0, 1), held(1, 2), held(1, 10), held(0, 20), held(1, 30)];
        let samples = [sample(0, 120), sample(1, 110), sample(1, 130)];
        let requests = matched(&samples, &log).unwrap();
        let found: Vec<(f64, f64)> = requests.iter().map(|request| (request.held_ns, request.client_ns)).collect();
        assert_eq!(found, [(30.0, 130.0), (10.0, 110.0), (20.0, 120.0)]);
        assert_eq!(matched(&[sample(2, 1)], &log), None, "the reflector has no such connection");
        // Samples match the end of the log. Requests from before the window are at its beginning.
        let log = [held(0, 1), held(0, 2), held(0, 3), held(0, 4)];
        let samples = [sample(0, 103), sample(0, 104)];
        let holds: Vec<f64> = matched(&samples, &log).unwrap().iter().map(|request| request.held_ns).collect();
        assert_eq!(holds, [4.0, 3.0], "the last holds of the log");
    }

    /// Returns trials of a client with an error of `wrong_ns`, and a round trip of 5 µs ± 1 µs.
    fn made_up(held_ns: f64, wrong_ns: f64) -> Vec<HoldTrial> {
        let request = |at: u32| {
            let client_ns = 5_000.0 + held_ns + wrong_ns + f64::from(at % 11) * 200.0 - 1_000.0;
            Request { held_ns, client_ns, kernel_ns: None }
        };
        let trial =
            || HoldTrial { requests: (0..1_100).map(request).collect(), send_delay_p99_ns: 0.0, client: String::new() };
        (0..3).map(|_| trial()).collect()
    }

    #[test]
    fn error_of_the_client_is_its_bias() {
        let null = made_up(0.0, 0.0);
        for wrong_ns in [0.0, 3_000.0, -3_000.0] {
            let found = recovered(&made_up(100_000.0, wrong_ns), &null, |request| Some(request.client_ns));
            assert_eq!(found.bias_ns.value, wrong_ns);
            assert_eq!(found.p50_ns, 100_000.0 + wrong_ns);
            assert_eq!(found.spread_ns, [-1_000.0, -600.0, 600.0, 1_000.0]);
        }
    }

    #[test]
    fn holds_follow_their_distributions() {
        for law in [Law::Fixed, Law::Uniform, Law::Exponential] {
            let mut draw = Hold { mean_ns: 100_000, law }.draws(1);
            let drawn: Vec<f64> = (0..20_000).map(|_| draw().as_nanos() as f64).collect();
            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
            assert!((mean / 100_000.0 - 1.0).abs() < 0.03, "{law:?}: {mean}");
            let most = drawn.iter().copied().fold(0.0, f64::max);
            assert_eq!(law == Law::Exponential, most > 150_000.0, "{law:?}: {most}");
        }
    }
}
