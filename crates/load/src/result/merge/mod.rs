//! Merges the results of several processes: sorts samples, adds histograms and counts, and takes extremes such as the longest stall.
//! Quantiles come from the merged histograms.

use std::collections::BTreeMap;

use stats::Histogram;

use crate::config::LoadConfig;
use crate::result::LateSends;
use crate::result::samples::{self as figures, KernelFacts};
use crate::result::{
    ChurnResult, ClockFacts, ClosedResult, DatagramResult, Errors, GoodputResult, HttpResult, LoadResult, Measured,
    Outstanding, PARTS, ProcessResult, Sample, StreamResult, TlsResult,
};

/// The result of one process.
#[derive(Clone, Debug)]
pub struct Account {
    /// The process's configuration.
    pub config: LoadConfig,
    /// The machine's identifier, equal for processes on one machine.
    pub machine: String,
    /// The worker and, unless it is the server's host, its host, for reports; empty if the run is not distributed.
    pub place: String,
    /// The process's report.
    pub report: LoadResult,
    /// The share of the process's CPUs in use during the window, by any program; `None` if unknown.
    pub cpus_used: Option<f64>,
}

impl Account {
    /// Returns the share of its CPUs that the process used over the whole window, the slices of other contestants included.
    pub fn cpu_share(&self) -> f64 {
        let window = self.config.window_ns();
        let cpus_ns = (window.end - window.start).max(1) as f64 * self.config.client.cpus.len().max(1) as f64;
        self.report.cpu_ns as f64 / cpus_ns
    }
}

/// Merges the samples of all processes by planned time. Sets each sample's process, and numbers connections over all processes.
pub fn samples(parts: Vec<(LoadConfig, Vec<Sample>)>) -> Vec<Sample> {
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
    // The sort exploits that each process's samples are already in order.
    all.sort_by_key(|sample| sample.planned_ns);
    all
}

/// Merges the reports of `accounts`, at least one. `samples` holds the samples of all accounts.
pub fn report(config: &LoadConfig, accounts: &[Account], samples: &[Sample]) -> LoadResult {
    let reports = || accounts.iter().map(|account| &account.report);
    let sum = |figure: &dyn Fn(&LoadResult) -> u64| sum(reports().map(figure));
    let rate = |figure: fn(&LoadResult) -> f64| reports().map(figure).sum::<f64>();
    let first = &accounts[0].report;
    let window_ns = first.window_ns;
    // For short-lived connections, samples do not contain the send delay.
    let of_samples = |difference: fn(&Sample) -> Option<i64>| figures::measured(samples, window_ns, difference);
    let send_delay = match first.churn {
        None => Some(of_samples(figures::send_delay_ns)),
        Some(_) => None,
    };
    let send_delay = measured(reports().map(|it| &it.send_delay), send_delay);
    let service = measured(reports().map(|it| &it.service), Some(of_samples(figures::service_ns)));
    let late = match first.churn {
        None => figures::late(&send_delay, &service, samples),
        Some(_) => {
            let each = reports().map(LoadResult::late_sends).fold(LateSends::default(), LateSends::and);
            let LateSends { on_time_p99_ns, on_time_p999_ns, .. } = each;
            LateSends { on_time_p99_ns, on_time_p999_ns, ..LateSends::of(&send_delay.histogram, &service.histogram) }
        }
    };
    let fit = match (config.rate_per_s(), &first.churn) {
        (Some(rate_per_s), None) => figures::fit(samples, 1e9 / rate_per_s),
        // Samples do not contain sessions: take the process that deviates most from its plan.
        _ => reports().filter_map(|it| it.fit.clone()).max_by(|a, b| a.effect.abs().total_cmp(&b.effect.abs())),
    };
    LoadResult {
        clock: clock(reports().map(|report| &report.clock)),
        connections: config.connections,
        active: u32::try_from(sum(&|it| it.active.into())).unwrap_or(u32::MAX),
        connect_ns: reports().map(|it| it.connect_ns).max().unwrap_or(0),
        rate_asked_per_s: config.rate_per_s(),
        planned: sum(&|it| it.planned),
        sent: sum(&|it| it.sent),
        completed: sum(&|it| it.completed),
        rate_achieved_per_s: rate(|it| it.rate_achieved_per_s),
        completed_by_part: added(reports().map(|it| Some(it.completed_by_part))).unwrap_or_default(),
        planned_by_part: added(reports().map(|it| it.planned_by_part)),
        rate_sent_per_s: rate(|it| it.rate_sent_per_s),
        outstanding: Outstanding {
            at_start: sum(&|it| it.outstanding.at_start),
            at_end: sum(&|it| it.outstanding.at_end),
            after_cool_down: sum(&|it| it.outstanding.after_cool_down),
        },
        errors: reports().fold(Errors::default(), |errors, it| errors.and(&it.errors)),
        trial_requests: sum(&|it| it.trial_requests),
        closed_by_server: sum(&|it| it.closed_by_server),
        first_wrong: reports().find_map(|it| it.first_wrong.clone()),
        queued_share: queued_share(accounts),
        send_delay,
        service,
        late,
        receiver_busy_share: reports().filter_map(|it| it.receiver_busy_share).reduce(f64::max),
        stalled_ns: reports().filter_map(|it| it.stalled_ns).max(),
        pauses: reports().flat_map(|it| it.pauses.iter().cloned()).collect(),
        response: measured(reports().map(|it| &it.response), Some(of_samples(figures::response_ns))),
        fit,
        goodput: first.goodput.as_ref().map(|goodput| GoodputResult {
            timeouts: sum(&|it| it.goodput.as_ref().map_or(0, |it| it.timeouts)),
            retries: sum(&|it| it.goodput.as_ref().map_or(0, |it| it.retries)),
            ..figures::goodput(samples, window_ns, goodput.timeout_ns)
        }),
        closed: closed(accounts),
        churn: churn(accounts),
        http: http(accounts),
        tls: tls(accounts),
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

/// Returns the mean of the shares, weighted by the planned requests; `None` if any share is unknown.
fn queued_share(accounts: &[Account]) -> Option<f64> {
    let count = |report: &LoadResult| Some(report.queued_share? * report.planned as f64);
    let queued: f64 = accounts.iter().map(|account| count(&account.report)).sum::<Option<f64>>()?;
    let planned: f64 = accounts.iter().map(|account| account.report.planned as f64).sum();
    Some(queued / planned.max(1.0))
}

fn process(account: &Account, all: &[Account]) -> ProcessResult {
    let report = &account.report;
    ProcessResult {
        place: account.place.clone(),
        connections: report.connections,
        planned: report.planned,
        completed: report.completed,
        rate_sent_per_s: report.rate_sent_per_s,
        send_delay: report.send_delay.distribution,
        service: report.service.distribution,
        begun_late_ns: report.begun_late_ns,
        cpu_ns: report.cpu_ns,
        cpu_taken_by_others: cpu_taken_by_others(account, all),
    }
}

/// Computes the share of an account's CPUs that other programs used. `None` if unknown, or if accounts share only some CPUs.
fn cpu_taken_by_others(account: &Account, all: &[Account]) -> Option<f64> {
    let cpus = &account.config.client.cpus;
    let mut ours = 0.0;
    for other in all.iter().filter(|it| it.machine == account.machine) {
        let common = other.config.client.cpus.iter().filter(|cpu| cpus.contains(cpu)).count();
        match common {
            0 => {}
            _ if common == cpus.len() && common == other.config.client.cpus.len() => {
                ours += other.cpu_share();
            }
            _ => return None,
        }
    }
    account.cpus_used.filter(|_| !cpus.is_empty()).map(|used| (used - ours).max(0.0))
}

/// Adds the histograms, which include requests without a sample. The parts of the window come from the samples.
fn measured<'a>(parts: impl Iterator<Item = &'a Measured>, of_samples: Option<Measured>) -> Measured {
    let mut histogram = Histogram::new();
    parts.for_each(|part| histogram.merge(&part.histogram));
    Measured { distribution: histogram.distribution(), histogram, ..of_samples.unwrap_or_default() }
}

/// Returns the clock with the largest drift, and the sum of `went_back` of all clocks.
fn clock<'a>(clocks: impl Iterator<Item = &'a ClockFacts> + Clone) -> ClockFacts {
    let went_back = sum(clocks.clone().map(|clock| clock.went_back));
    let worst = clocks.max_by(|a, b| a.drift_ppm.abs().total_cmp(&b.drift_ppm.abs()));
    ClockFacts { went_back, ..worst.expect("there is at least one account").clone() }
}

/// The sum of counts. Saturates, because another process may report any number.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

fn sum_u32(counts: impl Iterator<Item = u32>) -> u32 {
    counts.fold(0, u32::saturating_add)
}

/// Adds the counts of each part; `None` if any are unknown.
fn added(parts: impl Iterator<Item = Option<[u64; PARTS]>>) -> Option<[u64; PARTS]> {
    parts.reduce(|a, b| a.zip(b).map(|(a, b)| std::array::from_fn(|at| a[at].saturating_add(b[at])))).flatten()
}

/// Returns a section of all reports if every report has it.
fn all<'a, T>(accounts: &'a [Account], of: fn(&'a LoadResult) -> Option<&'a T>) -> Option<Vec<&'a T>> {
    accounts.iter().map(|account| of(&account.report)).collect()
}

fn closed(accounts: &[Account]) -> Option<ClosedResult> {
    let reports = all(accounts, |report| report.closed.as_ref())?;
    let busy: f64 = reports.iter().map(|it| it.busy_share * f64::from(it.cpus)).sum();
    // Processes of one machine may share CPUs: count each CPU once, and at most as many CPUs as threads.
    let mut machines: BTreeMap<&str, (Vec<usize>, u32)> = BTreeMap::new();
    let mut unplaced = 0;
    for (account, report) in accounts.iter().zip(&reports) {
        if account.config.client.cpus.is_empty() {
            unplaced = report.cpus.saturating_add(unplaced);
        } else {
            let (cpus, threads) = machines.entry(&account.machine).or_default();
            cpus.extend(&account.config.client.cpus);
            *threads = threads.saturating_add(report.cpus);
        }
    }
    let placed = machines.into_values().map(|(mut cpus, threads)| {
        cpus.sort_unstable();
        cpus.dedup();
        threads.min(cpus.len() as u32)
    });
    let cpus = unplaced.saturating_add(sum_u32(placed)).max(1);
    Some(ClosedResult {
        unsampled: sum(reports.iter().map(|it| it.unsampled)),
        busy_share: busy / f64::from(cpus),
        cpus,
        think_ns: reports[0].think_ns,
    })
}

fn churn(accounts: &[Account]) -> Option<ChurnResult> {
    let reports = all(accounts, |report| report.churn.as_ref())?;
    Some(ChurnResult {
        requests_per_connection: reports[0].requests_per_connection,
        opened: sum(reports.iter().map(|it| it.opened)),
        opened_per_s: reports.iter().map(|it| it.opened_per_s).sum(),
        waited: sum(reports.iter().map(|it| it.waited)),
        sources: reports.iter().map(|it| it.sources).max()?,
        connect: measured(reports.iter().map(|it| &it.connect), None),
        first_byte: measured(reports.iter().map(|it| &it.first_byte), None),
    })
}

fn http(accounts: &[Account]) -> Option<HttpResult> {
    let reports = all(accounts, |report| report.http.as_ref())?;
    Some(HttpResult {
        statuses: HttpResult::sum(reports.iter().map(|it| &it.statuses)),
        first_byte: measured(reports.iter().map(|it| &it.first_byte), None),
    })
}

fn tls(accounts: &[Account]) -> Option<TlsResult> {
    // The clients of one process may all have connected outside of the window.
    let reports: Vec<&TlsResult> = accounts.iter().filter_map(|account| account.report.tls.as_ref()).collect();
    Some(TlsResult {
        cipher: reports.first()?.cipher.clone(),
        full: measured(reports.iter().map(|it| &it.full), None),
        resumed: measured(reports.iter().map(|it| &it.resumed), None),
    })
}

fn datagrams(accounts: &[Account]) -> Option<DatagramResult> {
    let reports = all(accounts, |report| report.datagrams.as_ref())?;
    Some(DatagramResult {
        ports: sum_u32(reports.iter().map(|it| it.ports)),
        lost: sum(reports.iter().map(|it| it.lost)),
        duplicates: sum(reports.iter().map(|it| it.duplicates)),
        reordered: sum(reports.iter().map(|it| it.reordered)),
        dropped: reports.iter().map(|it| it.dropped).collect::<Option<Vec<_>>>().map(|all| sum(all.into_iter())),
    })
}

fn stream(accounts: &[Account]) -> Option<StreamResult> {
    let reports = all(accounts, |report| report.stream.as_ref())?;
    let of_all = |figure: fn(&StreamResult) -> u64| sum(reports.iter().map(|it| figure(it)));
    let bytes = of_all(|it| it.bytes);
    // Jain's index is (sum of x)² / (n · sum of x²), so each process's index gives its sum of squares.
    let connections: f64 = accounts.iter().map(|account| f64::from(account.report.connections)).sum();
    let squares = |(account, it): (&Account, &&StreamResult)| {
        (it.bytes as f64).powi(2) / (f64::from(account.report.connections) * it.fairness)
    };
    let squares: f64 = accounts.iter().zip(&reports).map(squares).sum();
    let seconds = reports.iter().map(|it| it.bytes_by_second.len()).max()?;
    let in_second = |second: usize| sum(reports.iter().filter_map(|it| it.bytes_by_second.get(second).copied()));
    Some(StreamResult {
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
mod tests;
