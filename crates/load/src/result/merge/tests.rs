use super::*;
use crate::config::{ClockChoice, Loop, Pace, RequestTimeout, Schedule};
use crate::record::recorder::Times;
use crate::record::summary::{Trial, Usage};
use crate::time::clock::Clock;

const WINDOW_NS: u64 = 1_000_000_000;

fn whole(processes: u32) -> LoadConfig {
    let config = LoadConfig::small(([127, 0, 0, 1], 80));
    let phases = crate::config::Phases { measure_ns: WINDOW_NS, ..config.phases };
    let request_timeout = Some(RequestTimeout { timeout_ns: WINDOW_NS, retries: 1, retry_budget: None });
    let requests = Pace::new(Schedule::SlotRandom, 3_000.0).into();
    config.with(|it| {
        it.connections = 10;
        it.the_loop = Loop::Open { requests, request_timeout, no_overlap: false };
        it.phases = phases;
        it.client.processes = processes;
        it.client.cpus = vec![0];
    })
}

/// Requests at 3 000 per second with varying times. One in a hundred gets no response.
fn made_up() -> Vec<Sample> {
    let sample = |at: i64| Sample {
        planned_ns: at * 333_333,
        sent_ns: at * 333_333 + at % 97 * 10,
        complete_ns: if at % 100 == 7 { Sample::NEVER } else { at * 333_333 + 50_000 + at * at % 7_919 },
        connection: (at % 10) as u32,
        ..Sample::UNKNOWN
    };
    (0..3_000).map(sample).collect()
}

fn seen_by(config: &LoadConfig, samples: &[Sample]) -> LoadResult {
    let clock = Clock::calibrate(ClockChoice::Monotonic).unwrap();
    let times = Times { window: 0..1, ..Times::default() };
    let trial = Trial::sleeping(config, &clock, &times);
    let errors = Errors {
        timeout: samples.iter().filter(|it| it.complete_ns == Sample::NEVER).count() as u64,
        ..Errors::default()
    };
    let count = samples.len() as f64;
    let outstanding = Outstanding { at_start: 1, at_end: 2, after_cool_down: errors.timeout };
    let mut report = trial.facts(5, Usage::default()).common(samples, 48.0);
    let goodput = report.goodput.as_mut().unwrap();
    (goodput.timeouts, goodput.retries) = (errors.timeout, samples.len() as u64);
    LoadResult { rate_achieved_per_s: count, rate_sent_per_s: count, outstanding, errors, ..report }
}

fn account(config: LoadConfig, report: LoadResult) -> Account {
    Account { config, machine: "a".into(), place: String::new(), report, cpus_used: None }
}

/// Splits the samples `all` among processes. Each process numbers its connections from 0.
fn divided(all: &[Sample], processes: u32) -> Vec<(LoadConfig, Vec<Sample>)> {
    let own = |config: LoadConfig| {
        let first = config.part.unwrap().first_connection;
        let is_own = |it: &&Sample| (first..first + config.connections).contains(&it.connection);
        let samples = all.iter().filter(is_own).map(|it| Sample { connection: it.connection - first, ..*it });
        let samples = samples.collect();
        (config, samples)
    };
    whole(processes).parts().into_iter().map(own).collect()
}

#[test]
fn overflowing_sums_saturate() {
    let parts = divided(&made_up(), 3);
    let merged = samples(parts.clone());
    let most = |errors: Errors| Errors { refused: u64::MAX, ..errors };
    let accounts: Vec<Account> = parts
        .into_iter()
        .map(|(config, samples)| {
            let seen = seen_by(&config, &samples);
            let closed = ClosedResult { unsampled: u64::MAX, busy_share: 1.0, cpus: u32::MAX, think_ns: 0 };
            let datagrams = DatagramResult {
                ports: u32::MAX,
                lost: u64::MAX,
                duplicates: u64::MAX,
                reordered: u64::MAX,
                dropped: Some(u64::MAX),
            };
            let stream = StreamResult {
                bytes: u64::MAX,
                bytes_by_part: [u64::MAX; PARTS],
                bytes_by_second: vec![u64::MAX],
                fairness: 1.0,
                connection_bytes_min: 0,
                connection_bytes_max: u64::MAX,
                sent_bytes: u64::MAX,
                received_bytes: u64::MAX,
                ended: u32::MAX,
            };
            let report = LoadResult {
                planned: u64::MAX,
                cpu_ns: u64::MAX,
                completed_by_part: [u64::MAX; PARTS],
                errors: most(seen.errors),
                clock: ClockFacts { went_back: u64::MAX, ..seen.clock.clone() },
                closed: Some(closed),
                datagrams: Some(datagrams),
                stream: Some(stream),
                ..seen
            };
            account(config, report)
        })
        .collect();
    let report = report(&whole(3), &accounts, &merged);
    assert_eq!((report.planned, report.errors.refused, report.errors.total()), (u64::MAX, u64::MAX, u64::MAX));
    assert_eq!(report.completed_by_part, [u64::MAX; PARTS]);
    assert_eq!((report.closed.unwrap().cpus, report.datagrams.unwrap().ports), (1, u32::MAX));
    assert_eq!(report.stream.unwrap().bytes_by_second, [u64::MAX]);
}

#[test]
fn merged_report_of_three_processes_equals_one_report() {
    let all = made_up();
    let parts = divided(&all, 3);
    let merged = samples(parts.clone());
    let unnumbered: Vec<Sample> = merged.iter().map(|it| Sample { client: 0, ..*it }).collect();
    assert_eq!(unnumbered, all);
    assert_eq!([0, 3, 6].map(|first| merged[first].client), [0, 1, 2], "connections 0 to 2, 3 to 5, and 6 to 9");

    let accounts: Vec<Account> =
        parts.into_iter().map(|(config, samples)| account(config.clone(), seen_by(&config, &samples))).collect();
    let (one, three) = (seen_by(&whole(1), &all), report(&whole(3), &accounts, &merged));
    for (one, three) in
        [(&one.send_delay, &three.send_delay), (&one.service, &three.service), (&one.response, &three.response)]
    {
        assert_eq!((&one.histogram, one.distribution), (&three.histogram, three.distribution));
        assert_eq!((one.p50_by_part_ns, one.p90_by_part_ns), (three.p50_by_part_ns, three.p90_by_part_ns));
    }
    let counts = |it: &LoadResult| (it.planned, it.sent, it.completed, it.connections, it.active, it.errors);
    assert_eq!(counts(&one), counts(&three));
    assert!(one.goodput == three.goodput && one.goodput.as_ref().unwrap().bins.len() == 10, "{:?}", three.goodput);
    assert_eq!((one.rate_asked_per_s, one.rate_sent_per_s), (three.rate_asked_per_s, three.rate_sent_per_s));
    assert_eq!(three.outstanding, Outstanding { at_start: 3, at_end: 6, after_cool_down: 30 });
    assert!(three.fit.unwrap().effect < 0.2);
    assert_eq!(three.processes.iter().map(|it| it.planned).collect::<Vec<_>>(), [900, 900, 1_200]);
    assert_eq!(three.processes[1].send_delay.count, 900);
}

#[test]
fn cpu_share_of_other_programs_excludes_the_accounts() {
    let of = |cpus: &[usize], machine: &str, cpu_ns: u64, cpus_used: Option<f64>| {
        let config = whole(1).with(|it| it.client.cpus = cpus.to_vec());
        let report = LoadResult { cpu_ns, ..seen_by(&config, &[]) };
        Account { machine: machine.into(), cpus_used, ..account(config, report) }
    };
    let taken = |accounts: &[Account]| {
        let permille = |account| cpu_taken_by_others(account, accounts).map(|share| (1e3 * share).round() as u32);
        accounts.iter().map(permille).collect::<Vec<_>>()
    };
    let (quarter, half) = (WINDOW_NS / 4, WINDOW_NS / 2);
    let shared = [of(&[1], "a", quarter, Some(0.9)), of(&[1], "a", half, Some(0.9)), of(&[1], "b", 0, Some(0.3))];
    assert_eq!(taken(&shared), [Some(150), Some(150), Some(300)]);
    assert_eq!(taken(&[of(&[1, 2], "a", half, Some(0.2)), of(&[3], "a", 0, None)]), [Some(0), None]);
    assert_eq!(taken(&[of(&[1, 2], "a", half, Some(0.5)), of(&[2], "a", 0, Some(0.5))]), [None, None]);
    assert_eq!(taken(&[of(&[], "a", half, Some(0.5))]), [None], "without CPUs to pin to, the share is unknown");
}

#[test]
fn shared_cpu_is_counted_once() {
    let busy = |cpus: &[usize], machine: &str, busy_share: f64| {
        let config = whole(1).with(|it| it.client.cpus = cpus.to_vec());
        let mut report = seen_by(&config, &[]);
        report.closed = Some(ClosedResult { unsampled: 1, busy_share, cpus: 1, think_ns: 0 });
        Account { machine: machine.into(), ..account(config, report) }
    };
    let of = |accounts: &[Account]| closed(accounts).map(|it| (it.busy_share, it.cpus, it.unsampled)).unwrap();
    assert_eq!(of(&[busy(&[1], "a", 0.25), busy(&[1], "a", 0.5)]), (0.75, 1, 2));
    assert_eq!(of(&[busy(&[1], "a", 0.25), busy(&[2], "a", 0.75)]), (0.5, 2, 2));
    assert_eq!(of(&[busy(&[1], "a", 0.25), busy(&[1], "b", 0.75)]), (0.5, 2, 2));
    let mut open = busy(&[1], "a", 0.0);
    open.report.closed = None;
    assert_eq!(closed(&[open]), None);
}

#[test]
fn fairness_of_two_processes_equals_fairness_of_one() {
    let of = |bytes: &[u64]| {
        let (sum, squares): (f64, f64) =
            bytes.iter().fold((0.0, 0.0), |(sum, squares), &x| (sum + x as f64, squares + (x as f64).powi(2)));
        let mut report = seen_by(&whole(1), &[]);
        report.connections = bytes.len() as u32;
        report.stream = Some(StreamResult {
            bytes: sum as u64,
            bytes_by_part: [1; PARTS],
            bytes_by_second: vec![sum as u64],
            fairness: sum * sum / (bytes.len() as f64 * squares),
            connection_bytes_min: bytes.iter().copied().min().unwrap(),
            connection_bytes_max: bytes.iter().copied().max().unwrap(),
            sent_bytes: 10,
            received_bytes: 20,
            ended: bytes.len() as u32,
        });
        account(whole(1), report)
    };
    let (one, two) = (stream(&[of(&[1, 2, 3, 9, 5])]).unwrap(), stream(&[of(&[1, 2, 3]), of(&[9, 5])]).unwrap());
    assert!((one.fairness - two.fairness).abs() < 1e-12, "{} and {}", one.fairness, two.fairness);
    assert_eq!((two.bytes, two.connection_bytes_min, two.connection_bytes_max, two.ended), (20, 1, 9, 5));
    assert_eq!((two.bytes_by_part, two.bytes_by_second, two.sent_bytes), ([2; PARTS], vec![20], 20));
}
