//! Balance of connections and CPU time over a server's network threads.

use schemars::JsonSchema;
use serde::Serialize;
use server::ServerCounters;
use server::metrics::counters::ThreadFigures;

/// The balance of a server with several network threads, over the repeats of a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Balance {
    /// Network threads.
    pub threads: usize,
    /// Connections that are open at the start of the window.
    pub connections: Spread,
    /// Connections that begin in the window.
    pub new_connections: Spread,
    /// Share of the window in which a thread used a CPU; `None` where the system does not report it.
    pub cpu_share: Option<Spread>,
    /// Connections that waited for the end of a stall, in all repeats; `None` without stalls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hung: Option<u64>,
    /// Share of the server's CPU time that the choice of threads for new connections took, in the threads and in the kernel's
    /// program; `None` if the state of the threads chooses nothing, or its time is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steering_share: Option<f64>,
}

/// Mean and standard deviation of a figure over threads, each the mean over repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation. The threads are all there are, not a sample.
    pub deviation: f64,
}

impl Balance {
    /// Computes the balance from the counters of repeats; `None` if they have no several network threads.
    pub fn of(counters: &[&ServerCounters]) -> Option<Self> {
        let known: Vec<&ServerCounters> =
            counters.iter().copied().filter(|it| it.network_threads.len() > 1 && it.window_ns > 0).collect();
        let spread = |figure: &dyn Fn(&ServerCounters, &ThreadFigures) -> Option<f64>| {
            let of_repeat = |it: &&ServerCounters| it.network_threads.iter().map(|thread| figure(it, thread)).collect();
            let repeats: Vec<Vec<f64>> = known.iter().map(of_repeat).collect::<Option<_>>()?;
            Spread::of(&repeats)
        };
        Some(Self {
            threads: known.first()?.network_threads.len(),
            connections: spread(&|_, thread| Some(thread.connections as f64))?,
            new_connections: spread(&|_, thread| Some(thread.assigned as f64))?,
            cpu_share: spread(&|it, thread| Some(thread.cpu_ns? as f64 / it.window_ns as f64)),
            hung: known.iter().map(|it| it.totals.hung).sum(),
            steering_share: steering_share(&known),
        })
    }
}

fn steering_share(counters: &[&ServerCounters]) -> Option<f64> {
    // The threads of `reuseport-least` report nothing that takes a measurable time.
    let steering_ns = |it: &&ServerCounters| Some(it.totals.steering_program_ns? + it.totals.steering_ns.unwrap_or(0));
    let steering_ns: u64 = counters.iter().map(steering_ns).sum::<Option<u64>>()?;
    let cpu_ns: u64 = counters.iter().map(|it| it.cpu_ns()).sum();
    (cpu_ns > 0).then(|| steering_ns as f64 / cpu_ns as f64)
}

impl Spread {
    fn of(repeats: &[Vec<f64>]) -> Option<Self> {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let variance = |values: &[f64]| {
            let centre = mean(values);
            mean(&values.iter().map(|value| (value - centre).powi(2)).collect::<Vec<_>>())
        };
        let over_repeats = |figure: &dyn Fn(&[f64]) -> f64| {
            let each: Vec<f64> = repeats.iter().map(|values| figure(values)).collect();
            mean(&each)
        };
        let is_known = !repeats.is_empty() && repeats.iter().all(|values| !values.is_empty());
        is_known.then(|| Self { mean: over_repeats(&mean), deviation: over_repeats(&|it| variance(it).sqrt()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(threads: &[(u64, u64, Option<u64>)], hung: Option<u64>) -> ServerCounters {
        let figures = |&(connections, assigned, cpu_ns): &_| ThreadFigures { connections, assigned, cpu_ns };
        let network_threads = threads.iter().map(figures).collect();
        let mut counters = ServerCounters { window_ns: 1_000, network_threads, ..ServerCounters::default() };
        counters.totals.hung = hung;
        counters
    }

    #[test]
    fn deviations_are_averaged_over_repeats() {
        let first = counters(&[(10, 0, Some(500)), (30, 4, Some(100))], Some(3));
        let second = counters(&[(20, 2, Some(200)), (20, 2, Some(200))], Some(4));
        let balance = Balance::of(&[&first, &second]).unwrap();
        assert_eq!(balance.threads, 2);
        assert_eq!(balance.connections, Spread { mean: 20.0, deviation: 5.0 });
        assert_eq!(balance.new_connections, Spread { mean: 2.0, deviation: 1.0 });
        let cpu = balance.cpu_share.unwrap();
        assert!((cpu.mean - 0.25).abs() < 1e-9 && (cpu.deviation - 0.1).abs() < 1e-9, "{cpu:?}");
        assert_eq!((balance.hung, balance.steering_share), (Some(7), None));
    }

    #[test]
    fn steering_is_a_share_of_all_cpu_time() {
        let mut hermes = counters(&[(1, 0, None), (1, 0, None)], None);
        hermes.totals.cpu_system_ns = 1_000;
        (hermes.totals.steering_ns, hermes.totals.steering_program_ns) = (Some(20), Some(5));
        let mut least = hermes.clone();
        least.totals.steering_ns = None;
        let share = |counters: &[&ServerCounters]| Balance::of(counters).unwrap().steering_share;
        assert_eq!(
            (share(&[&hermes]), share(&[&least]), share(&[&hermes, &least])),
            (Some(0.025), Some(0.005), Some(0.015))
        );
        hermes.totals.steering_program_ns = None;
        assert_eq!(share(&[&hermes]), None, "the kernel's part is unknown");
    }

    #[test]
    fn unknown_figures_are_absent() {
        assert_eq!(Balance::of(&[]), None);
        assert_eq!(Balance::of(&[&counters(&[(7, 0, None)], None)]), None, "a single thread has no balance");
        let balance = Balance::of(&[&counters(&[(7, 0, None), (7, 0, Some(1))], None)]).unwrap();
        assert_eq!((balance.cpu_share, balance.hung), (None, None));
    }
}
