//! The values that the papers print, for each trial of their experiments. Where a paper prints only an order or a shape in words,
//! the values here have it; their comments say so.

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::sync::{LazyLock, Mutex};

use harness::record::{Trial, VerdictKind, Workload};
use load::config::Schedule;
use stats::Histogram;
use testkit::{Sessions, Threads, Values};

use crate::hermes2025::{CONNECTIONS_IN_PRODUCTION, CPU_IN_PRODUCTION, MEAN_MS, OVERHEAD};
use crate::kawai2006::{published_send_deviation, published_times};
use crate::maharjan2012::autobench;

const MEGABIT: f64 = 1e6 / 8.0;

/// Returns the values of a trial; `None` if the paper has none.
pub fn of(paper: &str, trial: &Trial) -> Option<Values> {
    let (name, workload) = (trial.architecture.to_string(), &trial.workload);
    match paper {
        "kawai2008" => kawai2008(&name, workload),
        "kawai2006" => kawai2006(&name, workload),
        "maharjan2012" => maharjan2012(&name, workload),
        "voras2009" => Some(rate(transactions_per_s(&name, workload.connections)?)),
        "welsh2001" => welsh2001(&name, workload),
        "hermes2025" => hermes2025(trial),
        _ => unreachable!("{paper}"),
    }
}

fn rate(rate_per_s: f64) -> Values {
    static DEFAULT: LazyLock<Values> = LazyLock::new(Values::default);
    Values { rate_per_s, ..DEFAULT.clone() }
}

/// Returns a histogram of times in nanoseconds, each with its count. A histogram takes a quarter of a megabyte, so equal ones share
/// their memory.
fn histogram(counts: &[(u64, usize)]) -> Histogram {
    static MADE: Mutex<BTreeMap<Vec<(u64, usize)>, Histogram>> = Mutex::new(BTreeMap::new());
    let make = || counts.iter().flat_map(|&(ns, count)| repeat_n(ns, count)).collect();
    MADE.lock().unwrap().entry(counts.to_vec()).or_insert_with(make).clone()
}

fn constant(us: f64) -> Histogram {
    histogram(&[((us * 1e3).round() as u64, 1)])
}

/// Returns a histogram with this mean, median and standard deviation: two fifths below the median, two fifths above it.
fn spread(mean_ns: f64, median_ns: f64, stddev_ns: f64) -> Histogram {
    let gap = (mean_ns - median_ns) / 0.4;
    let squares = (stddev_ns.powi(2) + (mean_ns - median_ns).powi(2)) / 0.4;
    let below = ((2.0 * squares - gap.powi(2)).sqrt() - gap) / 2.0;
    let counts = [(median_ns - below, 400), (median_ns, 200), (median_ns + below + gap, 400)];
    histogram(&counts.map(|(ns, count)| (ns.round() as u64, count)))
}

/// The service time in section 5.2 of kawai2008. The text prints the means of mp, mt and epoll, and the range of those of select
/// and poll. Within its range the time grows with connections and rate, as the text says.
pub fn kawai2008_service_us(name: &str, response_bytes: u32, connections: u32, rate_per_s: f64) -> f64 {
    let (flat, low, by_connections, rate_max): (f64, f64, f64, f64) =
        if response_bytes == 1 { (200.0, 500.0, 1.0, 8_000.0) } else { (500.0, 900.0, 0.9, 2_000.0) };
    let most = 25f64.powf(by_connections);
    let by_rate = (20_000.0 / low / most).ln() / (rate_max / 125.0).ln();
    if ["select", "poll"].contains(&name) {
        low * (f64::from(connections) / 400.0).powf(by_connections) * (rate_per_s / 125.0).powf(by_rate)
    } else {
        flat
    }
}

fn kawai2008(name: &str, workload: &Workload) -> Option<Values> {
    let (_, response_bytes) = workload.service.fixed()?;
    let rate_per_s = workload.rate_per_s()?;
    if workload.network.is_some() {
        // Appendix A.1: the last of five responses waits 328 µs.
        let is_together = workload.schedule() == Some(Schedule::ConstantTogether);
        let waits = if is_together { [0.0, 82.0, 164.0, 246.0, 328.0] } else { [0.0; 5] };
        let service = histogram(&waits.map(|us| (((500.0 + us) * 1e3) as u64, 1)));
        return Some(Values { service, ..rate(rate_per_s) });
    }
    let is_saturated = response_bytes > 1 && rate_per_s == 8_000.0;
    let service = constant(kawai2008_service_us(name, response_bytes, workload.connections, rate_per_s));
    Some(Values {
        verdict: if is_saturated { VerdictKind::Saturated } else { VerdictKind::Valid },
        service,
        // Section 5.3: most sends within 10 µs, some up to 20 µs.
        send_delay: histogram(&[(10_000, 98), (20_000, 2)]),
        ..rate(rate_per_s)
    })
}

/// Tables 3 and 4.
fn kawai2006(name: &str, workload: &Workload) -> Option<Values> {
    let [mean_ms, median_ms, stddev_ms] = published_times(name, workload)?;
    Some(Values { service: spread(mean_ms * 1e6, median_ms * 1e6, stddev_ms * 1e6), ..rate(workload.rate_per_s()?) })
}

/// The sends of Table 5 in the trials on all 10 000 connections at the highest rate, and even sends in all others. `factor` scales
/// the deviations. Each of five clients has a fifth of the rate and a phase of its own.
pub fn kawai2006_sends(trial: &Trial, factor: f64) -> Vec<Vec<i64>> {
    const SENDS: usize = 20_000;
    const EVEN_SENDS: usize = 200;
    let workload = &trial.workload;
    let is_worst = (workload.connections, workload.active(), workload.rate_per_s()) == (10_000, 1.0, Some(2_000.0));
    let deviations_us = if is_worst {
        deviations_us(published_send_deviation(&trial.architecture.to_string()), SENDS)
    } else {
        vec![0.0; EVEN_SENDS]
    };
    let interval_ns = 5e9 / workload.rate_per_s().expect("kawai2006 has open loops only");
    let sends = |client: usize| {
        let begin_ns = client as f64 * interval_ns / 5.0 + 1e3 * client as f64;
        let sends = deviations_us.iter().enumerate();
        sends.map(|(at, us)| (begin_ns + at as f64 * interval_ns + us * 1e3 * factor).round() as i64).collect()
    };
    (0..5).map(sends).collect()
}

/// Returns deviations with this standard deviation, median and maximum, and the mean 0: one send has the maximum, a few are late,
/// and all others have the median.
fn deviations_us([stddev, median, max]: [f64; 3], count: usize) -> Vec<f64> {
    let n = count as f64;
    // The sums over the late sends, less those of as many sends at the median.
    let sum = -max - (n - 1.0) * median;
    let squares = n * stddev.powi(2) - max.powi(2) - (n - 1.0) * median.powi(2);
    let late = (sum / (squares / sum - 2.0 * median)).ceil();
    let mean = median + sum / late;
    let spread = ((squares - late * (mean.powi(2) - median.powi(2))) / late).max(0.0).sqrt();
    let late_count = late as usize;
    // An odd number of late sends has one of them at their mean.
    let spread = spread * (late / (2.0 * (late / 2.0).floor())).sqrt();
    let of_late = |at: usize| match at {
        0 if late_count % 2 == 1 => mean,
        _ if at.is_multiple_of(2) => mean - spread,
        _ => mean + spread,
    };
    let mut deviations = vec![median; count];
    deviations[1] = max;
    (0..late_count).for_each(|at| deviations[10 + at * 10] = of_late(at));
    deviations
}

/// Figure 4.9 at its rates. Without printed values, the order and the trends of the text (sections 5.1 to 5.3): select and poll
/// are as fast as epoll without idle connections, lose most of their rate with them, and slow down with the number of ports.
fn maharjan2012(name: &str, workload: &Workload) -> Option<Values> {
    if !["epoll", "poll", "select"].contains(&name) {
        return None;
    }
    let is_scan = name != "epoll";
    if let Some(ports) = workload.service.ports() {
        return Some(Values {
            service: constant(maharjan2012_response_us(name, ports)),
            ..rate(workload.rate_per_s()?)
        });
    }
    let Some(rate_per_s) = workload.rate_per_s() else {
        let lost = if is_scan { 0.6 * f64::from(workload.idle) / 15_000.0 } else { 0.0 };
        return Some(rate(20_977.0 * (1.0 - lost)));
    };
    let row: BTreeMap<String, f64> = autobench().into_iter().find(|row| row["dem_req_rate"] == rate_per_s)?;
    Some(Values {
        service: constant(row["resp_time"] * 1e3),
        sessions: Some(Sessions {
            sent_per_s: row["req_rate"],
            opened_per_s: row["con_rate"],
            replies_per_s: [row["min_rep_rate"], row["max_rep_rate"]],
            bytes_per_s: row["net_io"] * 1024.0,
        }),
        ..rate(row["avg_rep_rate"])
    })
}

pub fn maharjan2012_response_us(name: &str, ports: u32) -> f64 {
    if name == "epoll" { 300.0 } else { 300.0 + 0.3 * f64::from(ports) }
}

/// Section IV: SYMPED's peak is 450 000 transactions/s, 54 % above the next, and grows linearly up to 4 threads. The text gives the
/// order of the other peaks, and the best configuration of AMPED and SEDA-S.
pub fn transactions_per_s(name: &str, connections: u32) -> Option<f64> {
    let peak = match name {
        "epoll" | "seda:2+4/epoll" => 110_000.0,
        "amped:1+2/epoll" => 230_000.0,
        "seda-s:3/epoll" => 290_000.0,
        "symped:1/epoll" => 112_500.0,
        "symped:2/epoll" => 225_000.0,
        "symped:3/epoll" => 337_500.0,
        "symped:4/epoll" => 450_000.0,
        "symped:5/epoll" => 430_000.0,
        _ if name.starts_with("amped:") => 215_000.0,
        _ if name.starts_with("seda-s:") => 270_000.0,
        _ => return None,
    };
    // Section III: the peak is between 40 and 120 clients.
    Some(if connections == 20 { 0.8 * peak } else { peak })
}

/// The text prints the bandwidth of asynchronous sockets over /dev/poll at 100 and 10 000 connections, and the connections at which
/// threads stop. The other values have its order: threads are fastest with few connections, poll(2) loses some bandwidth, layers
/// cost bandwidth, and random order costs none. With poll(2) the bandwidth of one connection is inversely proportional to the idle
/// ones; with /dev/poll it falls a little.
pub fn megabits_per_s(name: &str, connections: u32, idle: u32) -> Option<f64> {
    let at = f64::from(connections);
    let some = (at - 100.0).max(0.0) / 900.0;
    Some(match (name, connections) {
        ("epoll", 1) if idle > 0 => 180.0 - 20.0 * f64::from(idle) / 15_000.0,
        ("poll", 1) if idle > 0 => 90_000.0 / f64::from(idle),
        ("epoll", 1..=10) => 180.0,
        ("poll", 1..=10) => 175.0,
        ("epoll", 11..=1_000) => 200.0,
        ("poll", 11..=1_000) => 190.0 - 20.0 * some,
        ("mt", 1..=10) => 210.0,
        ("mt", 11..) => 205.0 - 30.0 * some,
        ("epoll-buffered", 100) => 161.0,
        ("epoll-buffered", 10_000) => 101.0,
        ("epoll-buffered", 1..=1_000) => 150.0,
        ("poll-buffered", 1..=1_000) => 120.0 - 20.0 * some,
        ("mt-buffered", _) => 140.0,
        ("poll-shuffled", _) => megabits_per_s("poll", connections, idle)?,
        _ => return None,
    })
}

fn welsh2001(name: &str, workload: &Workload) -> Option<Values> {
    let stream = workload.service.stream()?;
    let bytes_per_s = megabits_per_s(name, workload.connections, workload.idle)? * MEGABIT;
    let is_infeasible = name.starts_with("mt") && workload.connections > 450;
    Some(Values { is_infeasible, ..rate(bytes_per_s / stream.burst_bytes() as f64) })
}

/// The deviations of production in the trials with long-lived connections, and the mean latency of case 1 at its highest rate. The
/// other times have the order of the text: with expensive requests Hermes is fastest and reuseport slowest; with some expensive
/// connections Hermes is as fast as exclusive wake-ups. The text says that only reuseport gives connections to a thread that hangs.
fn hermes2025(trial: &Trial) -> Option<Values> {
    let (workload, serve) = (&trial.workload, trial.serve.ours()?);
    let accept = serve.accept.to_string();
    let of = |printed: &[(&str, f64)]| printed.iter().find(|(name, _)| *name == accept).map(|(_, value)| *value);
    let is_heaviest = workload.rate_per_s() >= Some(3_000.0);
    let service_ms = match (workload.requests_per_connection(), &workload.work) {
        (Some(1), None) if is_heaviest => of(&MEAN_MS)?,
        (Some(1), Some(_)) if is_heaviest => of(&[("exclusive", 15.0), ("reuseport", 25.0), ("hermes", 10.0)])?,
        (Some(10), _) if is_heaviest => of(&[("exclusive", 10.0), ("reuseport", 20.0), ("hermes", 10.0)])?,
        _ => 1.0,
    };
    let load = if is_heaviest { "heavy" } else { "light" };
    let overhead = OVERHEAD.iter().find(|(name, _)| *name == load).filter(|_| accept == "hermes");
    let threads = Threads {
        connections: of(&CONNECTIONS_IN_PRODUCTION)?,
        cpu: of(&CPU_IN_PRODUCTION)?,
        hung: if accept == "reuseport" { 0.05 } else { 0.001 },
        steering: overhead.map_or(0.0, |(_, share)| *share),
    };
    Some(Values { service: constant(service_ms * 1e3), threads: Some(threads), ..rate(workload.rate_per_s()?) })
}
