//! Constructed runs for each kind of experiment.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use harness::record::{
    Bound, Check, LatencyLimit, Run, RunHeader, SearchGoal, Strategy, SweepGoal, Trial, TrialOutcome, TrialRecord,
    Varied, Verdict, VerdictKind,
};
use harness::spec::Experiment;
use harness::spec::ServerSpec;
use harness::spec::interleave::Interleave;
use load::config::{KvTraffic, LoadConfig, Loop, Pace, Phases, Popularity, Requests, Schedule, Slices, Transport};
use load::result::{
    ClosedResult, DatagramResult, Hardware, KernelResult, LateSends, LoadResult, Measured, Outstanding, PARTS,
    SliceResult, StreamResult,
};
use server::metrics::counters::Totals;
use server::{Moved, ServeConfig, ServerCounters};
use stats::Histogram;
use wire::ServiceSpec;

use crate::load_result::load_result;
use crate::threads::Threads;

/// Returns latencies within 10 % of `around_ns`.
fn around(around_ns: u64) -> Measured {
    let histogram: Histogram = (0..400).map(|at| around_ns * (1_800 + at) / 2_000).collect();
    Measured {
        distribution: histogram.distribution(),
        p50_by_part_ns: [around_ns; PARTS],
        p90_by_part_ns: [around_ns; PARTS],
        histogram,
    }
}

pub(crate) fn trial(index: u32, repeat: u32, architecture: &str, connections: u32) -> Trial {
    let service = ServiceSpec::Fixed { request_bytes: 128, response_bytes: 10_240 };
    let phases = Phases { ramp_ns: 1, warm_up_ns: 2, measure_ns: 1_000_000_000, cool_down_ns: 3 };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let architecture: server::Architecture = architecture.parse().unwrap();
    let load = LoadConfig::new(address, service.clone()).with(|it| {
        it.connections = connections;
        it.set_rate(Some(200.0));
        it.phases = phases;
        it.client.cpus = vec![1];
        it.client.seed = 7;
        it.client.timeout_ns = 1;
    });
    Trial {
        is_placebo: false,
        is_reference: false,
        index,
        repeat,
        architecture: architecture.into(),
        workload: load.traffic.into(),
        serve: ServerSpec::Ours(ServeConfig {
            accept: server::Accept::default(),
            listen: address.into(),
            cpus: vec![0],
            connections_max: connections,
            ..ServeConfig::new(architecture, service)
        }),
        client: load.client,
        infeasible: Vec::new(),
    }
}

pub(crate) fn record(trial: &Trial, service_ns: u64, verdict: VerdictKind, reason: &str) -> TrialRecord {
    record_with(trial, [around(300), around(service_ns), around(service_ns + 300)], verdict, reason)
}

/// Returns a finished trial with these send delays, service times and response times.
pub(crate) fn record_with(
    trial: &Trial,
    [send_delay, service, response]: [Measured; 3],
    verdict: VerdictKind,
    reason: &str,
) -> TrialRecord {
    TrialRecord {
        trial: trial.clone(),
        started_at: "2026-01-01T00:00:00Z".into(),
        elapsed_ns: 2_000_000_000,
        separated: None,
        load: Some(LoadResult {
            connections: trial.workload.connections,
            rate_asked_per_s: Some(200.0),
            planned: 200,
            sent: 200,
            completed: 200,
            rate_achieved_per_s: 199.0,
            rate_sent_per_s: 200.0,
            outstanding: Outstanding::default(),
            late: LateSends::of(&send_delay.histogram, &service.histogram),
            send_delay,
            service,
            response,
            ..load_result()
        }),
        server: Some(ServerCounters {
            window_ns: 1_000_000_000,
            connections: trial.workload.connections.into(),
            workers: 0,
            network_threads: Vec::new(),
            memory_user_bytes_per_connection: Some(160.0),
            memory_kernel_bytes_per_connection: Some(6_000.0),
            totals: Totals {
                requests: Some(200),
                cpu_user_ns: 400_000,
                cpu_system_ns: 2_000_000,
                voluntary_switches: 190,
                involuntary_switches: 2,
                syscalls: BTreeMap::from([("read".into(), 200), ("write".into(), 200), ("wait".into(), 200)]),
                ..Totals::default()
            },
            interrupts_ns: None,
            fell: Vec::new(),
            moved: Vec::new(),
        }),
        idle: None,
        warm_up: None,
        network: None,
        cpu_taken_by_others: Some(0.01),
        profile: None,
        profile_error: None,
        verdict: Verdict { kind: verdict, reason: reason.into(), checks: Vec::new() },
    }
}

/// Returns a run without trials.
pub(crate) fn empty_run() -> Run {
    Run {
        header: RunHeader {
            name: "20260101T000000-made-up".into(),
            muxbench: "0.1.0".into(),
            command: vec!["muxbench".into(), "compare".into()],
            started_at: "2026-01-01T00:00:00Z".into(),
            experiment: "made-up".into(),
            seed: 1,
            trials: Vec::new(),
            strategy: Strategy::Whole,
            interleave: Interleave::Never,
            host: BTreeMap::from([
                ("cpu".into(), "A Processor".into()),
                ("kernel".into(), "6.1 #1".into()),
                ("system".into(), "Linux".into()),
                ("network".into(), "loopback".into()),
            ]),
            placement: "server on CPU 0, client on CPU 1: disjoint".into(),
            idle_cpus_poll: false,
            is_profiled: false,
            is_distributed: false,
        },
        records: Vec::new(),
        damage: Vec::new(),
    }
}

/// Adds kernel timestamps; in one trial the wall clock was set.
pub fn add_kernel(run: &mut Run) {
    for (at, record) in run.records.iter_mut().enumerate() {
        let Some(load) = &mut record.load else { continue };
        load.kernel = Some(KernelResult {
            interface: "lo".into(),
            hardware: Hardware::None,
            to_scheduler: around(400),
            to_driver: around(600),
            from_arrival: around(1_500),
            service: around(load.service.distribution.p50_ns - 2_000),
            hardware_service: None,
            unstamped_sent: 1,
            unstamped_arrived: 0,
            out_of_order: u64::from(at == 1),
            wall_clock_stepped: at == 0,
        });
    }
}

/// Returns four repeats of four architectures under two workloads. `epoll` is best. `mt` is practically as good, but
/// its fourth repeats are missing. Under the second workload `poll` is saturated, and `mp` cannot run.
pub fn run() -> Run {
    let mut run = empty_run();
    let Run { header: RunHeader { trials, .. }, records, .. } = &mut run;
    for connections in [400, 30_000] {
        for repeat in 0..4 {
            for (architecture, service_ns) in [("epoll", 40_000), ("mt", 40_400), ("poll", 90_000), ("mp", 70_000)] {
                let mut trial = trial(trials.len() as u32, repeat, architecture, connections);
                let service_ns = service_ns + u64::from(repeat) * 100;
                if architecture == "mp" && connections == 30_000 {
                    trial.infeasible =
                        vec!["workload.connections: 30000 needs 30256 processes, the limit is 100".into()];
                } else if architecture == "poll" && connections == 30_000 {
                    records.push(record(
                        &trial,
                        service_ns * 50,
                        VerdictKind::Saturated,
                        "120 of 200 requests/s answered",
                    ));
                } else if !(architecture == "mt" && repeat == 3) {
                    records.push(record(&trial, service_ns, VerdictKind::Valid, ""));
                }
                trials.push(trial);
            }
        }
    }
    run
}

/// Returns six interleaved repeats of three architectures and a placebo of the first, `epoll`. A repeat has noise of 1 %. The host
/// slows down by a half from the first to the last, for all alike. `mt` is 1 % slower than `epoll`, `poll` twice as slow.
pub fn interleaved_run() -> Run {
    const MS: u64 = 1_000_000;
    let mut run = empty_run();
    run.header.interleave = Interleave::Auto;
    let contestants = [("epoll", 40_000.0), ("mt", 40_400.0), ("poll", 80_000.0), ("epoll", 40_000.0)];
    for repeat in 0..6 {
        for (contestant, (architecture, service_ns)) in (0..).zip(contestants) {
            let mut trial = trial(run.header.trials.len() as u32, repeat, architecture, 400);
            trial.is_placebo = contestant == 3;
            let (slice_ns, guard_ns) = (10 * MS, 2 * MS);
            trial.client.slices =
                Some(Slices { heat: repeat, contestants: 4, contestant, slice_ns, gap_ns: 0, guard_ns, seed: 7 });
            let noise = (u64::from(repeat) * 7 + u64::from(contestant) * 13 + 3) * 2_654_435_761 % 1_000;
            let speed = 1.0 + f64::from(repeat) / 10.0;
            let service_ns = (service_ns * speed * (0.99 + noise as f64 * 2e-5)) as u64;
            let mut record = record(&trial, service_ns, VerdictKind::Valid, "");
            let load = record.load.as_mut().expect("every record has a load report");
            load.slices = Some(SliceResult {
                rounds: 46,
                left_out: 4,
                overrun: 0,
                active_share: 0.25,
                outside_share: None,
                settling_guards: None,
                p50_by_half_ns: [service_ns; 2],
                law_responses: None,
                responses: 200,
            });
            run.records.push(record);
            run.header.trials.push(trial);
        }
    }
    run
}

/// Multiplies the service times of a trial.
pub fn slow_down(record: &mut TrialRecord, factor: f64) {
    let service = &mut record.load.as_mut().expect("the trial has a load report").service;
    let mut below = 0;
    let times = service.histogram.cumulative().flat_map(|(ns, up_to)| {
        let count = up_to - std::mem::replace(&mut below, up_to);
        std::iter::repeat_n((ns as f64 * factor) as u64, count as usize)
    });
    service.histogram = times.collect();
    service.distribution = service.histogram.distribution();
}

/// Returns a sweep of two architectures over five rates. `epoll` is saturated and has errors at the last rate. `mt` is
/// saturated from the third rate on, so its last rate was not run.
pub fn sweep_run() -> Run {
    let mut run = empty_run();
    run.header.experiment = "sweep".into();
    run.header.strategy = Strategy::Sweep(SweepGoal { past: Some(2) });
    for step in 1..=5u32 {
        for (architecture, last) in [("epoll", 4), ("mt", 2)] {
            let rate = f64::from(step) * 10_000.0;
            let mut trial = trial(run.header.trials.len() as u32, 0, architecture, 400);
            trial.workload.set_rate(Some(rate));
            run.header.trials.push(trial.clone());
            if step > last + 2 {
                continue;
            }
            let (verdict, reason) =
                if step > last { (VerdictKind::Saturated, "made up") } else { (VerdictKind::Valid, "") };
            let service_ns = if step > last { 80_000_000 * u64::from(step) } else { 50_000 * u64::from(step) };
            let mut record = record(&trial, service_ns, verdict, reason);
            let load = record.load.as_mut().expect("every record has a load report");
            let achieved = rate.min(f64::from(last) * 11_000.0);
            (load.rate_asked_per_s, load.rate_sent_per_s, load.rate_achieved_per_s) = (Some(rate), rate, achieved);
            load.completed_by_part = std::array::from_fn(|part| achieved as u64 / PARTS as u64 + part as u64);
            if architecture == "epoll" && step == 5 {
                load.errors.timeout = 20;
            }
            (load.planned, load.sent) = (rate as u64, rate as u64);
            load.completed = load.planned - load.errors.timeout;
            run.records.push(record);
        }
    }
    run
}

/// Returns searches of three architectures: `epoll` has a capacity, the client is the limit for `mt`, and `mp` cannot
/// run.
pub fn capacity_run() -> Run {
    let mut run = empty_run();
    run.header.experiment = "capacity".into();
    let question = SearchGoal {
        limits: vec![LatencyLimit { quantile: 0.99, max_ns: 1_000_000 }],
        varied: Varied::Rate,
        from: 1_000.0,
        most: 1_000_000.0,
        precision: 0.05,
        time_max_ns: 600_000_000_000,
    };
    run.header.strategy = Strategy::Capacity(question);
    for (index, architecture) in ["epoll", "mt", "mp"].into_iter().enumerate() {
        let mut first = trial(index as u32, 0, architecture, 400);
        first.workload.set_rate(Some(1_000.0));
        if architecture == "mp" {
            first.infeasible = vec!["workload.connections: made up".into()];
        }
        run.header.trials.push(first);
    }
    finish(&mut run, probe);
    run
}

/// Adds the records of all trials that the strategy of a run chooses.
pub(crate) fn finish(run: &mut Run, record_of: impl Fn(&Trial) -> TrialRecord) {
    let mut outcomes = Vec::new();
    while let [trial, ..] = run.header.strategy.due(&run.header, &outcomes).as_slice() {
        let record = record_of(trial);
        outcomes.push(TrialOutcome::new(&record, &run.header.strategy));
        run.records.push(record);
    }
}

/// Returns the record of a probe: `epoll` has a capacity of 8 200 requests per second, and the client limits others at 21 000.
pub(crate) fn probe(trial: &Trial) -> TrialRecord {
    let rate = trial.workload.rate_per_s().expect("every probe has a rate");
    let (most, beyond) = match trial.architecture.to_string().as_str() {
        "epoll" => (8_200.0, VerdictKind::Saturated),
        _ => (21_000.0, VerdictKind::ClientLimited),
    };
    let (service_ns, verdict) = if rate <= most { (700_000, VerdictKind::Valid) } else { (9_000_000, beyond) };
    let mut record = record(trial, service_ns, verdict, "");
    let load = record.load.as_mut().expect("every record has a load report");
    (load.rate_asked_per_s, load.rate_achieved_per_s) = (Some(rate), rate.min(most));
    record
}

/// Returns part of kawai2006's matrix: two workloads of Table 3 and one of Table 4, one repeat each. Under the busiest
/// workload `poll` is saturated, `mp` was not run, and [`sends_of`] has no samples of `mt`.
pub fn kawai2006_run() -> Run {
    let mut run = empty_run();
    run.header.experiment = "kawai2006".into();
    run.header.name = "20260101T000000-kawai2006".into();
    let workloads = [(400, 1.0, 125.0), (10_000, 1.0, 2_000.0), (10_000, 1.0 / 64.0, 2_000.0)];
    for (connections, active, rate_per_s) in workloads {
        let architectures = [("mp", 44), ("mt", 42), ("select", 100), ("poll", 110), ("epoll", 40)];
        for (architecture, service_us) in architectures {
            let mut trial = trial(run.header.trials.len() as u32, 0, architecture, connections);
            let pace = Pace::new(Schedule::Constant, rate_per_s);
            trial.workload.the_loop = Loop::open(Requests { active, ..pace.into() });
            let is_busiest = connections == 10_000 && active == 1.0;
            let verdict = match architecture {
                "poll" if is_busiest => VerdictKind::Saturated,
                _ => VerdictKind::Valid,
            };
            if !(architecture == "mp" && is_busiest) {
                let scanned = if service_us < 100 { 1 } else { u64::from(connections) / 400 };
                run.records.push(record(&trial, service_us * scanned * 1_000, verdict, "made up"));
            }
            run.header.trials.push(trial);
        }
    }
    run
}

/// Returns a built-in experiment at its quick scale with every trial finished, separately. `select` and `poll` need time for each
/// watched connection or port, other servers for each thread. Every seventh trial is saturated.
pub fn run_of_experiment(name: &str) -> Run {
    let quick = harness::spec::presets::find(name).unwrap().experiment().quick();
    let experiment = Experiment { interleave: Interleave::Never, ..quick };
    let plan = harness::plan::plan(&experiment, &harness::host::Host::made_up()).unwrap();
    let mut run = empty_run();
    run.header.name = format!("20260101T000000-{name}");
    run.header.experiment = name.into();
    run.header.trials = plan.trials;
    for trial in &mut run.header.trials {
        trial.infeasible.clear();
        let (workload, architecture) = (&trial.workload, trial.architecture.to_string());
        let is_scan = architecture.starts_with("select") || architecture.starts_with("poll");
        let watched = workload.service.ports().unwrap_or(workload.connections + workload.idle);
        let threads = architecture.split([':', '+', '/']).filter_map(|it| it.parse::<u64>().ok()).sum::<u64>();
        let service_ns = 40_000 + if is_scan { 500 * u64::from(watched) } else { 100 * threads };
        let verdict = if trial.index % 7 == 3 { VerdictKind::Saturated } else { VerdictKind::Valid };
        let mut record = record(trial, service_ns, verdict, if verdict == VerdictKind::Valid { "" } else { "made up" });
        Threads::made_up(trial, &mut record);
        let load = record.load.as_mut().expect("every record has a load report");
        let most_per_s = 1e9 / service_ns as f64 * (4.0 + threads as f64);
        load.rate_achieved_per_s = workload.rate_per_s().map_or(most_per_s, |rate_per_s| rate_per_s.min(most_per_s));
        load.rate_asked_per_s = workload.rate_per_s();
        if workload.service.stream().is_some() {
            load.stream = Some(StreamResult {
                bytes: most_per_s as u64 * 10_000,
                bytes_by_part: [0; PARTS],
                bytes_by_second: Vec::new(),
                fairness: 1.0,
                connection_bytes_min: 1,
                connection_bytes_max: 1,
                sent_bytes: 1,
                received_bytes: 1,
                ended: 0,
            });
        }
        run.records.push(record);
    }
    run
}

/// Returns a run as large as a paper's matrix: 105 configurations (five architectures, three numbers of connections,
/// seven rates) with three repeats. Times have long tails, and every trial has twelve checks. At the highest rate
/// `select` is saturated.
pub fn large_run() -> Run {
    let mut run = empty_run();
    run.header.name = "20260101T000000-large".into();
    let rates_per_s = [125.0, 250.0, 500.0, 1_000.0, 2_000.0, 4_000.0, 8_000.0];
    let architectures =
        [("epoll", 40.0, 0.0), ("mt", 45.0, 0.1), ("mp", 48.0, 0.2), ("poll", 50.0, 90.0), ("select", 52.0, 95.0)];
    for (repeat, connections, rate_per_s) in (0..3u32).flat_map(|repeat| {
        [400, 2_000, 10_000].into_iter().flat_map(move |it| rates_per_s.map(|rate_per_s| (repeat, it, rate_per_s)))
    }) {
        for (architecture, base_us, scan_us) in architectures {
            let mut trial = trial(run.header.trials.len() as u32, repeat, architecture, connections);
            trial.workload.set_rate(Some(rate_per_s));
            let around_ns =
                1e3 * (base_us + scan_us * f64::from(connections) / 1e3 + rate_per_s / 1e3 + f64::from(repeat));
            let is_saturated = architecture == "select" && rate_per_s == 8_000.0;
            let verdict = if is_saturated { VerdictKind::Saturated } else { VerdictKind::Valid };
            let mut record = record(&trial, around_ns as u64, verdict, "made up");
            let load = record.load.as_mut().expect("every record has a load report");
            // Draw from a Pareto distribution by its quantiles.
            let times = (1..4_000).map(|at| (around_ns * (f64::from(at) / 4_000.0).powf(-0.3)) as u64);
            load.service.histogram = times.collect();
            load.service.distribution = load.service.histogram.distribution();
            for (part, p50_ns) in load.service.p50_by_part_ns.iter_mut().enumerate() {
                *p50_ns += (around_ns * 0.02) as u64 * (part as u64 * 7 % 5);
            }
            (load.rate_asked_per_s, load.rate_achieved_per_s) =
                (Some(rate_per_s), rate_per_s * if is_saturated { 0.7 } else { 0.999 });
            record.verdict.checks = (0..12)
                .map(|at| Check {
                    name: format!("a check that is made of every trial ({at})"),
                    value: 0.25 * f64::from(at),
                    limit: 3.0,
                    bound: Bound::AtMost,
                    unit: "µs".into(),
                    p_value: (at % 3 == 0).then_some(0.04),
                    p_value_min: (at % 3 == 0).then_some(0.01),
                    passed: !(is_saturated && at == 4),
                    decides: VerdictKind::Saturated,
                })
                .collect();
            run.records.push(record);
            run.header.trials.push(trial);
        }
    }
    run
}

/// Returns a function that maps a trial to its send times, at the planned rate. Every 20th send is late, by more in
/// later trials. The samples of trial 6 are missing.
pub fn sends_of(run: &Run) -> impl FnMut(u32) -> anyhow::Result<Vec<Vec<i64>>> {
    let rates: BTreeMap<u32, f64> =
        run.header.trials.iter().filter_map(|trial| Some((trial.index, trial.workload.rate_per_s()?))).collect();
    move |trial| {
        anyhow::ensure!(trial != 6, "cannot read samples from samples/0006.parquet: no such file");
        let late_ns = |at: i64| if at % 20 == 7 { 5_000 * i64::from(trial + 1) } else { at % 3 * 100 };
        Ok(vec![(0..200).map(|at| (at as f64 * 1e9 / rates[&trial]) as i64 + late_ns(at)).collect()])
    }
}

/// Returns [`run()`] on another host with another kernel. `epoll` is unchanged, `mt` is a third slower, and `poll` is
/// faster in most repeats. `mp` has one repeat under the first workload. The window of the second workload is twice as
/// long. `select` is added.
pub fn other_run() -> Run {
    let mut run = run();
    run.header.name = "20260201T000000-made-up".into();
    run.header.muxbench = "0.2.0".into();
    run.header.started_at = "2026-02-01T00:00:00Z".into();
    run.header.host.insert("kernel".into(), "6.12 #1".into());
    run.header.host.insert("load average".into(), "0.5".into());
    run.header.host.insert("smt".into(), "on".into());
    let is_left_out = |trial: &Trial| trial.architecture.to_string() == "mp" && trial.workload.connections == 30_000;
    run.header.trials.retain(|trial| !is_left_out(trial));
    run.records.retain(|record| record.trial.architecture.to_string() != "mp" || record.trial.repeat == 0);
    for trial in run.header.trials.iter_mut().chain(run.records.iter_mut().map(|record| &mut record.trial)) {
        if trial.workload.connections == 30_000 {
            trial.workload.phases.measure_ns = 2_000_000_000;
        }
    }
    for record in &mut run.records {
        let percent = match (record.trial.architecture.to_string().as_str(), record.trial.repeat) {
            ("mt", _) => 133,
            ("poll", 0) => 105,
            ("poll", _) => 80,
            _ => 100,
        };
        let load = record.load.as_mut().expect("every record has a load report");
        load.service = around(load.service.distribution.p50_ns * percent / 100);
    }
    let select = trial(run.header.trials.len() as u32 + 100, 0, "select", 400);
    run.records.push(record(&select, 95_000, VerdictKind::Valid, ""));
    run.header.trials.push(select);
    run
}

/// Returns a closed loop of kv: three architectures on 20, 60 and 100 connections, with three repeats. `epoll` is best
/// on 20. `symped:2` is best on 60, and `mt` is practically as good there. On 100 the client limits `symped:2`. The
/// first trial has unsampled transactions.
pub fn closed_run() -> Run {
    let mut run = empty_run();
    run.header.name = "20260101T000000-closed".into();
    let rates = [
        ("epoll", [90_000, 95_000, 94_000]),
        ("symped:2", [80_000, 150_000, 160_000]),
        ("mt", [60_000, 148_000, 90_000]),
    ];
    for (at, connections) in [20, 60, 100].into_iter().enumerate() {
        for repeat in 0..3 {
            for (architecture, rates_per_s) in rates {
                let mut trial = trial(run.header.trials.len() as u32, repeat, architecture, connections);
                trial.workload.service = ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 };
                trial.workload.kv = Some(KvTraffic {
                    records: 30_000,
                    value_bytes_min: 10,
                    value_bytes_max: 1_000,
                    get_share: 0.9,
                    keys: Popularity::Uniform,
                });
                trial.workload.the_loop = Loop::CLOSED;
                let rate_per_s = f64::from(rates_per_s[at]) * (1.0 + 0.01 * f64::from(repeat));
                let is_limited = architecture == "symped:2" && connections == 100;
                let verdict = if is_limited { VerdictKind::ClientLimited } else { VerdictKind::Valid };
                let service_ns = (1e9 * f64::from(connections) / rate_per_s) as u64;
                let mut record = record(&trial, service_ns, verdict, if is_limited { "made up" } else { "" });
                let load = record.load.as_mut().expect("every record has a load report");
                (load.rate_asked_per_s, load.pacing, load.rate_achieved_per_s) = (None, None, rate_per_s);
                load.completed_by_part = [rate_per_s as u64 / PARTS as u64; PARTS];
                load.closed = Some(ClosedResult {
                    unsampled: if trial.index == 0 { 50 } else { 0 },
                    busy_share: if is_limited { 0.99 } else { 0.7 },
                    cpus: 1,
                    think_ns: 0,
                });
                run.records.push(record);
                run.header.trials.push(trial);
            }
        }
    }
    run
}

/// Returns valid trials: three repeats of each architecture on 400 and on 4 000 connections. `service_ns` returns the
/// service time for architecture, connections and repeat.
pub fn run_of(architectures: &[&str], service_ns: impl Fn(&str, u32, u32) -> u64) -> Run {
    let mut run = empty_run();
    for connections in [400, 4_000] {
        for repeat in 0..3 {
            for &architecture in architectures {
                let trial = trial(run.header.trials.len() as u32, repeat, architecture, connections);
                let service_ns = service_ns(architecture, connections, repeat);
                run.records.push(record(&trial, service_ns, VerdictKind::Valid, ""));
                run.header.trials.push(trial);
            }
        }
    }
    run
}

/// Returns datagrams to three numbers of ports at two rates, with three repeats. The time of `select` grows with the
/// ports, that of `epoll` does not. `mt` loses some datagrams, too many with the most ports. `mp` cannot run with the
/// most ports.
pub fn datagram_run() -> Run {
    let mut run = empty_run();
    run.header.name = "20260101T000000-datagrams".into();
    for rate_per_s in [10.0, 100.0] {
        for ports in [10, 1_000, 5_000] {
            for (repeat, architecture) in
                [0, 1, 2].into_iter().flat_map(|repeat| ["select", "epoll", "mt", "mp"].map(|name| (repeat, name)))
            {
                let mut trial = trial(run.header.trials.len() as u32, repeat, architecture, ports);
                trial.workload.service = ServiceSpec::Udp { ports, request_bytes: 64, response_bytes: 64 };
                trial.workload.the_loop = Loop::Datagrams(Pace::new(Schedule::Constant, rate_per_s).into());
                if architecture == "mp" && ports == 5_000 {
                    trial.infeasible = vec!["workload.ports: 5000 needs 5256 processes, the limit is 100".into()];
                    run.header.trials.push(trial);
                    continue;
                }
                let service_ns = match architecture {
                    "select" => 40_000 + 2_000 * u64::from(ports),
                    "epoll" => 50_000,
                    _ => 45_000 + u64::from(repeat),
                };
                let is_lossy = architecture == "mt" && ports == 5_000;
                let verdict = if is_lossy { VerdictKind::Saturated } else { VerdictKind::Valid };
                let mut record = record(&trial, service_ns, verdict, if is_lossy { "made up" } else { "" });
                let load = record.load.as_mut().expect("every record has a load report");
                load.transport = Transport::Udp;
                load.datagrams = Some(DatagramResult {
                    ports,
                    lost: match (architecture, ports) {
                        ("mt", 5_000) => 20,
                        ("mt", _) => 1,
                        _ => 0,
                    },
                    duplicates: u64::from(architecture == "select"),
                    reordered: u64::from(repeat),
                    dropped: Some(0),
                });
                run.records.push(record);
                run.header.trials.push(trial);
            }
        }
    }
    run
}

/// Returns inbound bursts: three architectures on three numbers of connections, beside 0 and 1 000 idle connections,
/// with three repeats. `epoll` keeps its bandwidth, `poll` slows down with active and idle connections, and `mt` is
/// unfair. On 1 000 connections the client limits `mt`.
pub fn bandwidth_run() -> Run {
    let mut run = empty_run();
    run.header.name = "20260101T000000-streams".into();
    run.header.experiment = "streams".into();
    let stream = wire::stream::Stream { by_packet: true, ..Default::default() };
    let places = [1, 100, 1_000].into_iter().flat_map(|connections| [(connections, 0), (connections, 1_000)]);
    for ((connections, idle), repeat) in places.flat_map(|place| [0, 1, 2].map(|repeat| (place, repeat))) {
        for (architecture, megabytes_per_s) in [("epoll", 2_400.0), ("poll", 2_300.0), ("mt", 2_600.0)] {
            let mut trial = trial(run.header.trials.len() as u32, repeat, architecture, connections);
            trial.workload.service = ServiceSpec::Stream(stream);
            trial.workload.the_loop = Loop::Stream;
            trial.workload.idle = idle;
            let scanned = if architecture == "poll" { f64::from(connections + idle) } else { 0.0 };
            let bytes_per_s = 1e6 * megabytes_per_s / (1.0 + scanned / 1e3) * (1.0 + 0.02 * f64::from(repeat));
            let is_limited = architecture == "mt" && connections == 1_000;
            let verdict = if is_limited { VerdictKind::ClientLimited } else { VerdictKind::Valid };
            let bursts_per_s = bytes_per_s / stream.burst_bytes() as f64;
            let burst_ns = (1e9 * f64::from(connections) / bursts_per_s) as u64;
            let mut record = record(&trial, burst_ns, verdict, if is_limited { "made up" } else { "" });
            let load = record.load.as_mut().expect("every record has a load report");
            (load.rate_asked_per_s, load.pacing, load.rate_achieved_per_s) = (None, None, bursts_per_s);
            load.closed = Some(ClosedResult {
                unsampled: 0,
                busy_share: if is_limited { 0.99 } else { 0.8 },
                cpus: 1,
                think_ns: 0,
            });
            let bytes = bytes_per_s as u64;
            // An eleventh of the client's data stays in sockets.
            let written = bytes / 10 * 11;
            load.stream = Some(StreamResult {
                bytes: written,
                bytes_by_part: [written / PARTS as u64; PARTS],
                bytes_by_second: vec![written],
                fairness: if architecture == "mt" && connections > 1 { 0.6 } else { 0.99 },
                connection_bytes_min: bytes / u64::from(connections) / 2,
                connection_bytes_max: 2 * bytes / u64::from(connections),
                sent_bytes: written,
                received_bytes: 32,
                ended: connections,
            });
            (load.window_ns, load.cpu_ns) = (1_000_000_000, 800_000_000);
            let server = record.server.as_mut().expect("every record has server counters");
            (server.totals.bytes_in, server.totals.bytes_out) = (Some(bytes), Some(32 * bursts_per_s as u64));
            (server.totals.requests, server.totals.cpu_system_ns) = (Some(bursts_per_s as u64), 900_000_000);
            server.totals.syscalls =
                BTreeMap::from([("read".into(), bytes / 65_536), ("wait".into(), bytes / 200_000)]);
            let at = |part: u64| Moved {
                at_ns: part * 1_000_000_000 / PARTS as u64,
                bytes_in: part * bytes / PARTS as u64,
                bytes_out: 0,
            };
            server.moved = (0..=PARTS as u64).map(at).collect();
            run.records.push(record);
            run.header.trials.push(trial);
        }
    }
    run
}
