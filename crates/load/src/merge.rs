//! What several processes saw of one trial, put together: samples in order, histograms and counts added. Nothing is averaged.

use std::collections::BTreeMap;

use stats::Histogram;

use crate::config::LoadConfig;
use crate::late::LateSends;
use crate::report::{
    ChurnReport, ClockFacts, ClosedReport, DatagramReport, Errors, LoadReport, Measured, Outstanding, PARTS,
    ProcessReport, Sample, StreamReport,
};
use crate::summary::{self, KernelFacts};

/// What one process says.
#[derive(Clone, Debug)]
pub struct Account {
    /// What it was told.
    pub config: LoadConfig,
    /// Where it ran: processes of one machine have the same.
    pub machine: String,
    /// The same in words, for the reader; empty where that is where the server did.
    pub place: String,
    /// What it saw.
    pub report: LoadReport,
    /// The share of its CPUs that was in use over the window, by whomever; `None` where that is not known.
    pub cpus_used: Option<f64>,
}

/// The samples of all processes, by planned time: each with its process, and with its connection's number among all.
pub fn samples(parts: impl IntoIterator<Item = (LoadConfig, Vec<Sample>)>) -> Vec<Sample> {
    let mut all = Vec::new();
    for (config, mut samples) in parts {
        if let Some(part) = config.part {
            samples.iter_mut().for_each(|sample| {
                sample.client = part.number;
                sample.connection = sample.connection.saturating_add(part.first_connection);
            });
        }
        if all.is_empty() {
            all = samples;
        } else {
            all.append(&mut samples);
        }
    }
    // Each process's are in order already, which this sort makes use of.
    all.sort_by_key(|sample| sample.planned_ns);
    all
}

/// The report of a load that `accounts` divided, of which there is at least one; `samples` are those of all of them.
pub fn report(config: &LoadConfig, accounts: &[Account], samples: &[Sample]) -> LoadReport {
    let reports = || accounts.iter().map(|account| &account.report);
    let sum = |figure: &dyn Fn(&LoadReport) -> u64| sum(reports().map(figure));
    let rate = |figure: fn(&LoadReport) -> f64| reports().map(figure).sum::<f64>();
    let first = &accounts[0].report;
    let window_ns = first.window_ns;
    // Of connections that come and go, lag is not what samples say of it.
    let of_samples = |difference: fn(&Sample) -> Option<i64>| summary::measured(samples, window_ns, difference);
    let lag = match first.churn {
        None => Some(of_samples(summary::lag_ns)),
        Some(_) => None,
    };
    let lag = measured(reports().map(|it| &it.lag), lag);
    let service = measured(reports().map(|it| &it.service), Some(of_samples(summary::service_ns)));
    let late = match first.churn {
        None => summary::late(&lag, &service, samples),
        Some(_) => {
            let each = reports().map(LoadReport::late_sends).fold(LateSends::default(), LateSends::and);
            let LateSends { on_time_p99_ns, on_time_p999_ns, .. } = each;
            LateSends { on_time_p99_ns, on_time_p999_ns, ..LateSends::of(&lag.histogram, &service.histogram) }
        }
    };
    let fit = match (config.rate_per_s, &first.churn) {
        (Some(rate_per_s), None) => summary::fit(samples, 1e9 / rate_per_s),
        // Of sessions, which no samples tell of, the process whose are furthest from their plan.
        _ => reports().filter_map(|it| it.fit.clone()).max_by(|a, b| a.effect.abs().total_cmp(&b.effect.abs())),
    };
    LoadReport {
        clock: clock(reports().map(|report| &report.clock)),
        connections: config.connections,
        active: u32::try_from(sum(&|it| it.active.into())).unwrap_or(u32::MAX),
        connect_ns: reports().map(|it| it.connect_ns).max().unwrap_or(0),
        rate_asked_per_s: config.rate_per_s,
        planned: sum(&|it| it.planned),
        sent: sum(&|it| it.sent),
        completed: sum(&|it| it.completed),
        rate_achieved_per_s: rate(|it| it.rate_achieved_per_s),
        completed_by_part: added(reports().map(|it| it.completed_by_part)),
        rate_sent_per_s: rate(|it| it.rate_sent_per_s),
        outstanding: Outstanding {
            at_start: sum(&|it| it.outstanding.at_start),
            at_end: sum(&|it| it.outstanding.at_end),
            after_drain: sum(&|it| it.outstanding.after_drain),
        },
        errors: reports().fold(Errors::default(), |errors, it| errors.and(&it.errors)),
        lag,
        service,
        late: Some(late),
        // Of several the busiest: the others do not help it.
        receiver_busy_share: reports().filter_map(|it| it.receiver_busy_share).reduce(f64::max),
        // Each has other requests: one that was stalled is not helped by the others.
        stalled_ns: reports().filter_map(|it| it.stalled_ns).max(),
        response: measured(reports().map(|it| &it.response), Some(of_samples(summary::response_ns))),
        fit,
        closed: closed(accounts),
        churn: churn(accounts),
        datagrams: datagrams(accounts),
        stream: stream(accounts),
        kernel: first.kernel.as_ref().map(|kernel| {
            let stepped = reports().filter_map(|it| it.kernel.as_ref()).any(|it| it.wall_clock_stepped);
            let (interface, hardware) = (kernel.interface.clone(), kernel.hardware);
            KernelFacts { interface, hardware, wall_clock_stepped: stepped }.report(samples, window_ns)
        }),
        processes: accounts.iter().map(|account| process(account, accounts)).collect(),
        begun_late_ns: reports().map(|it| it.begun_late_ns).max().unwrap_or(0),
        cpu_ns: sum(&|it| it.cpu_ns),
        involuntary_switches: sum(&|it| it.involuntary_switches),
        ..first.clone()
    }
}

fn process(account: &Account, all: &[Account]) -> ProcessReport {
    let report = &account.report;
    ProcessReport {
        place: account.place.clone(),
        connections: report.connections,
        planned: report.planned,
        completed: report.completed,
        rate_sent_per_s: report.rate_sent_per_s,
        lag: report.lag.distribution,
        service: report.service.distribution,
        begun_late_ns: report.begun_late_ns,
        cpu_ns: report.cpu_ns,
        cpu_taken_by_others: cpu_taken_by_others(account, all),
    }
}

/// What of an account's CPUs was in use and not by clients: those that share a machine have the same CPUs, or none in common.
fn cpu_taken_by_others(account: &Account, all: &[Account]) -> Option<f64> {
    let cpus = &account.config.cpus;
    let mut ours = 0.0;
    for other in all.iter().filter(|it| it.machine == account.machine) {
        let common = other.config.cpus.iter().filter(|cpu| cpus.contains(cpu)).count();
        match common {
            0 => {}
            _ if common == cpus.len() && common == other.config.cpus.len() => {
                ours += other.report.cpu_ns as f64 / other.report.window_ns as f64 / cpus.len() as f64;
            }
            _ => return None,
        }
    }
    account.cpus_used.filter(|_| !cpus.is_empty()).map(|used| (used - ours).max(0.0))
}

/// Histograms added, which have what is no sample too; the window's parts are those of the samples, or not known.
fn measured<'a>(parts: impl Iterator<Item = &'a Measured>, of_samples: Option<Measured>) -> Measured {
    let mut histogram = Histogram::new();
    parts.for_each(|part| histogram.merge(&part.histogram));
    let (p50_by_part_ns, p90_by_part_ns) = of_samples
        .map_or(([0; PARTS], [0; PARTS]), |of_samples| (of_samples.p50_by_part_ns, of_samples.p90_by_part_ns));
    Measured { distribution: histogram.distribution(), p50_by_part_ns, p90_by_part_ns, histogram }
}

/// The one that went the furthest wrong, and how often any went backwards.
fn clock<'a>(clocks: impl Iterator<Item = &'a ClockFacts> + Clone) -> ClockFacts {
    let went_back = sum(clocks.clone().map(|clock| clock.went_back));
    let worst = clocks.max_by(|a, b| a.drift_ppm.abs().total_cmp(&b.drift_ppm.abs()));
    ClockFacts { went_back, ..worst.expect("there is an account").clone() }
}

/// The sum of counts that others have said, whatever these are: the greatest number where it is none.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// As [`sum`].
fn sum_u32(counts: impl Iterator<Item = u32>) -> u32 {
    counts.fold(0, u32::saturating_add)
}

/// Place by place; `None` if one is not known.
fn added(parts: impl Iterator<Item = Option<[u64; PARTS]>>) -> Option<[u64; PARTS]> {
    parts.reduce(|a, b| a.zip(b).map(|(a, b)| std::array::from_fn(|at| a[at].saturating_add(b[at])))).flatten()
}

/// What all accounts have of a kind, if they have it.
fn all<'a, T>(accounts: &'a [Account], of: fn(&'a LoadReport) -> Option<&'a T>) -> Option<Vec<&'a T>> {
    accounts.iter().map(|account| of(&account.report)).collect()
}

fn closed(accounts: &[Account]) -> Option<ClosedReport> {
    let reports = all(accounts, |report| report.closed.as_ref())?;
    let busy: f64 = reports.iter().map(|it| it.busy_share * f64::from(it.cpus)).sum();
    // Those of one machine may share CPUs: of these each counts once, and no more than there are threads.
    let mut machines: BTreeMap<&str, (Vec<usize>, u32)> = BTreeMap::new();
    let mut unplaced = 0;
    for (account, report) in accounts.iter().zip(&reports) {
        if account.config.cpus.is_empty() {
            unplaced = sum_u32([unplaced, report.cpus].into_iter());
        } else {
            let (cpus, threads) = machines.entry(&account.machine).or_default();
            cpus.extend(&account.config.cpus);
            *threads = sum_u32([*threads, report.cpus].into_iter());
        }
    }
    let placed = machines.into_values().map(|(mut cpus, threads)| {
        cpus.sort_unstable();
        cpus.dedup();
        threads.min(cpus.len() as u32)
    });
    let cpus = unplaced.saturating_add(sum_u32(placed)).max(1);
    Some(ClosedReport {
        unsampled: sum(reports.iter().map(|it| it.unsampled)),
        busy_share: busy / f64::from(cpus),
        cpus,
        think_ns: reports[0].think_ns,
    })
}

fn churn(accounts: &[Account]) -> Option<ChurnReport> {
    let reports = all(accounts, |report| report.churn.as_ref())?;
    Some(ChurnReport {
        calls_per_connection: reports[0].calls_per_connection,
        opened: sum(reports.iter().map(|it| it.opened)),
        opened_per_s: reports.iter().map(|it| it.opened_per_s).sum(),
        waited: sum(reports.iter().map(|it| it.waited)),
        sources: reports.iter().map(|it| it.sources).max()?,
        connect: measured(reports.iter().map(|it| &it.connect), None),
        first_byte: measured(reports.iter().map(|it| &it.first_byte), None),
    })
}

fn datagrams(accounts: &[Account]) -> Option<DatagramReport> {
    let reports = all(accounts, |report| report.datagrams.as_ref())?;
    Some(DatagramReport {
        ports: sum_u32(reports.iter().map(|it| it.ports)),
        lost: sum(reports.iter().map(|it| it.lost)),
        duplicates: sum(reports.iter().map(|it| it.duplicates)),
        reordered: sum(reports.iter().map(|it| it.reordered)),
        dropped: reports.iter().map(|it| it.dropped).collect::<Option<Vec<_>>>().map(|all| sum(all.into_iter())),
    })
}

fn stream(accounts: &[Account]) -> Option<StreamReport> {
    let reports = all(accounts, |report| report.stream.as_ref())?;
    let of_all = |figure: fn(&StreamReport) -> u64| sum(reports.iter().map(|it| figure(it)));
    let bytes = of_all(|it| it.bytes);
    // Jain's index is (sum of x)² / (n · sum of x²): each process's says what its squares add up to.
    let connections: f64 = accounts.iter().map(|account| f64::from(account.report.connections)).sum();
    let squares = |(account, it): (&Account, &&StreamReport)| {
        (it.bytes as f64).powi(2) / (f64::from(account.report.connections) * it.fairness)
    };
    let squares: f64 = accounts.iter().zip(&reports).map(squares).sum();
    let seconds = reports.iter().map(|it| it.bytes_by_second.len()).max()?;
    let in_second = |second: usize| sum(reports.iter().filter_map(|it| it.bytes_by_second.get(second).copied()));
    Some(StreamReport {
        bytes,
        bytes_by_part: added(reports.iter().map(|it| Some(it.bytes_by_part)))?,
        bytes_by_second: (0..seconds).map(in_second).collect(),
        fairness: if squares > 0.0 { (bytes as f64).powi(2) / (connections * squares) } else { 1.0 },
        connection_bytes_min: reports.iter().map(|it| it.connection_bytes_min).min()?,
        connection_bytes_max: reports.iter().map(|it| it.connection_bytes_max).max()?,
        sent_bytes: of_all(|it| it.sent_bytes),
        received_bytes: of_all(|it| it.received_bytes),
        ended: sum_u32(reports.iter().map(|it| it.ended)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::config::{ClockChoice, Roles};
    use crate::summary::{Facts, Seen, Usage};

    const WINDOW_NS: u64 = 1_000_000_000;

    fn whole(processes: u32) -> LoadConfig {
        let service = wire::ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        let config = LoadConfig::new(([127, 0, 0, 1], 80), service);
        let phases = crate::config::Phases { measure_ns: WINDOW_NS, ..config.phases };
        LoadConfig { connections: 10, rate_per_s: Some(3_000.0), phases, processes, cpus: vec![0], ..config }
    }

    /// Requests of 3 000 a second, whose times differ from one to the next; one in a hundred is never answered.
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

    fn seen_by(config: &LoadConfig, samples: &[Sample]) -> LoadReport {
        let clock = Clock::calibrate(ClockChoice::Monotonic).unwrap();
        let (roles, usage) = (Roles::OneLoop, Usage::default());
        let facts = Facts {
            config,
            roles,
            pacing: None,
            clock: &clock,
            connect_ns: 5,
            window: 0..1,
            usage,
            links: &[],
            kernel: None,
        };
        let errors = Errors {
            timeout: samples.iter().filter(|it| it.complete_ns == Sample::NEVER).count() as u64,
            ..Errors::default()
        };
        let count = samples.len() as f64;
        let outstanding = Outstanding { at_start: 1, at_end: 2, after_drain: errors.timeout };
        facts.of(samples, Seen { rate_achieved_per_s: count, rate_sent_per_s: count, outstanding, errors }, 48.0)
    }

    fn account(config: LoadConfig, report: LoadReport) -> Account {
        Account { config, machine: "a".into(), place: String::new(), report, cpus_used: None }
    }

    /// The parts of a trial whose samples are `all`, with each one's connections numbered from 0 as it does itself.
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
    fn sums_beyond_a_number_are_the_greatest() {
        let parts = divided(&made_up(), 3);
        let merged = samples(parts.clone());
        let most = |errors: Errors| Errors { refused: u64::MAX, ..errors };
        let accounts: Vec<Account> = parts
            .into_iter()
            .map(|(config, samples)| {
                let seen = seen_by(&config, &samples);
                let closed = ClosedReport { unsampled: u64::MAX, busy_share: 1.0, cpus: u32::MAX, think_ns: 0 };
                let datagrams = DatagramReport {
                    ports: u32::MAX,
                    lost: u64::MAX,
                    duplicates: u64::MAX,
                    reordered: u64::MAX,
                    dropped: Some(u64::MAX),
                };
                let stream = StreamReport {
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
                let report = LoadReport {
                    planned: u64::MAX,
                    cpu_ns: u64::MAX,
                    completed_by_part: Some([u64::MAX; PARTS]),
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
        assert_eq!(report.completed_by_part, Some([u64::MAX; PARTS]));
        assert_eq!((report.closed.unwrap().cpus, report.datagrams.unwrap().ports), (1, u32::MAX));
        assert_eq!(report.stream.unwrap().bytes_by_second, [u64::MAX]);
    }

    #[test]
    fn what_three_processes_saw_is_what_one_would_have_seen() {
        let all = made_up();
        let parts = divided(&all, 3);
        let merged = samples(parts.clone());
        let unnumbered: Vec<Sample> = merged.iter().map(|it| Sample { client: 0, ..*it }).collect();
        assert_eq!(unnumbered, all);
        assert_eq!([0, 3, 6].map(|first| merged[first].client), [0, 1, 2], "connections 0 to 2, 3 to 5, and 6 to 9");

        let accounts: Vec<Account> =
            parts.into_iter().map(|(config, samples)| account(config.clone(), seen_by(&config, &samples))).collect();
        let (one, three) = (seen_by(&whole(1), &all), report(&whole(3), &accounts, &merged));
        for (one, three) in [(&one.lag, &three.lag), (&one.service, &three.service), (&one.response, &three.response)] {
            assert_eq!((&one.histogram, one.distribution), (&three.histogram, three.distribution));
            assert_eq!((one.p50_by_part_ns, one.p90_by_part_ns), (three.p50_by_part_ns, three.p90_by_part_ns));
        }
        let counts = |it: &LoadReport| (it.planned, it.sent, it.completed, it.connections, it.active, it.errors);
        assert_eq!(counts(&one), counts(&three));
        assert_eq!((one.rate_asked_per_s, one.rate_sent_per_s), (three.rate_asked_per_s, three.rate_sent_per_s));
        assert_eq!(three.outstanding, Outstanding { at_start: 3, at_end: 6, after_drain: 30 });
        assert!(three.fit.unwrap().effect < 0.2);
        assert_eq!(three.processes.iter().map(|it| it.planned).collect::<Vec<_>>(), [900, 900, 1_200]);
        assert_eq!(three.processes[1].lag.count, 900);
    }

    #[test]
    fn what_clients_did_not_use_of_their_cpus_others_took() {
        let of = |cpus: &[usize], machine: &str, cpu_ns: u64, cpus_used: Option<f64>| {
            let config = LoadConfig { cpus: cpus.to_vec(), ..whole(1) };
            let report = LoadReport { cpu_ns, ..seen_by(&config, &[]) };
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
        assert_eq!(taken(&[of(&[], "a", half, Some(0.5))]), [None], "wherever the system puts it");
    }

    #[test]
    fn a_cpu_that_processes_share_is_counted_once() {
        let busy = |cpus: &[usize], machine: &str, busy_share: f64| {
            let config = LoadConfig { cpus: cpus.to_vec(), ..whole(1) };
            let mut report = seen_by(&config, &[]);
            report.closed = Some(ClosedReport { unsampled: 1, busy_share, cpus: 1, think_ns: 0 });
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
    fn bytes_are_as_fair_to_connections_of_two_processes_as_to_those_of_one() {
        let of = |bytes: &[u64]| {
            let (sum, squares): (f64, f64) =
                bytes.iter().fold((0.0, 0.0), |(sum, squares), &x| (sum + x as f64, squares + (x as f64).powi(2)));
            let mut report = seen_by(&whole(1), &[]);
            report.connections = bytes.len() as u32;
            report.stream = Some(StreamReport {
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
}
