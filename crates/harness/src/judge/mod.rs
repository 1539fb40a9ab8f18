//! What may be believed of a trial, from the client's account of it and the server's counters.
//!
//! A verdict is a list of checks, each with what was found and its limit; the first that fails decides. Limits leave room
//! for what a shared machine does to a healthy trial: a neighbour that takes the CPU for some milliseconds must not turn
//! it into another. What is looked for shows over the whole window.

use load::LoadReport;
use load::config::{Phases, Transport};
use load::idle::IdleReport;
use load::late::LATE_SHARE_MAX as LATE_SENDS_SHARE_MAX;
use load::report::{ClosedReport, PARTS, ProcessReport, StreamReport};
use server::ServerCounters;
use server::metrics::counters::Totals;
use stats::{TestResult, steadiness};
use wire::stream::Stream;

use crate::model::network::{Links, NetworkReport, RelayCounts};
use crate::model::{Bound, Check, Verdict, VerdictKind, requests_answered};
use crate::spec::network::Network;

/// A server keeps up when it answers at least this share of the rate asked for, and so does a client that sends it.
const RATE_SHARE_MIN: f64 = 0.98;
/// Requests pile up when more than this share of those planned are added to the outstanding over the window.
const PILE_UP_SHARE_MAX: f64 = 0.02;
/// So many requests may be on either side of an edge of the window: at a low rate they are a large share.
const EDGE_REQUESTS: f64 = 10.0;
/// Service time grows without end when its median in each of the last parts is this many times that of the first...
const SERVICE_GROWTH_MAX: f64 = 3.0;
/// ...which is the largest of so many...
const SERVICE_GROWTH_FIRST: usize = 2;
/// ...or of so many, where a part has fewer requests than [`SERVICE_GROWTH_REQUESTS`] on average: of times that vary by chance
/// as waiting times do, the last ones are then all that large in one trial of 30 000, with two it would be one in 400...
const SERVICE_GROWTH_FIRST_OF_FEW: usize = 4;
/// See [`SERVICE_GROWTH_FIRST_OF_FEW`].
const SERVICE_GROWTH_REQUESTS: u64 = 4;
/// ...over so many parts...
const SERVICE_GROWTH_PARTS: usize = PARTS * 3 / 10;
/// ...and at least this, in nanoseconds; less is noise of the machine.
const SERVICE_GROWTH_FLOOR_NS: f64 = 1_000_000.0;
/// The client keeps up while the median lag stays below this share of the interval between requests...
const LAG_SHARE_MAX: f64 = 0.5;
/// ...or below this, in nanoseconds: five times the paper's p99 (kawai2008 section 5.3).
const LAG_P50_NS: f64 = 100_000.0;
/// A hundredth of the sends may be delayed by this, in nanoseconds, or by the 99th percentile of the service time of those on
/// time: a send delay is in the response time, and a burst after one in the service time...
const DELAY_P99_NS: f64 = 1_000_000.0;
/// ...and a thousandth by this, or by the 99.9th percentile: what a neighbour takes the CPU for, now and then.
const DELAY_P999_NS: f64 = 10_000_000.0;
/// A percentile of the send delay is one with so many requests beyond it; the rarer one takes more, or a single stall would
/// make it.
const BEYOND_P99_MIN: f64 = 1.0;
/// As [`BEYOND_P99_MIN`].
const BEYOND_P999_MIN: f64 = 10.0;
/// A client has time to receive below this share of the window: what comes to a receiver without time to spare waits there,
/// and looks like a pile at the server.
const RECEIVER_BUSY_SHARE_MAX: f64 = 0.95;
/// Sends follow their plan while the distributions of the times between them are at most this far apart. A client whose
/// p99 of lag is 20 us stays below a tenth at all rates (stats::fit); of 83 trials on a quiet virtual machine the largest
/// was 0.13, on the same machine under load the median was 0.19.
const FIT_DISTANCE_MAX: f64 = 0.2;
/// With fewer samples there are no quartiles worth the name.
const SAMPLES_MIN: f64 = 20.0;
/// Of datagrams this share may be lost: it is in the nature of them, and of a hundred requests it may be one.
pub(crate) const LOST_SHARE_MAX: f64 = 0.01;
/// Of this share of requests, an answer may be missing, on a server that is not saturated.
const TIMEOUT_SHARE_MAX: f64 = 0.001;
/// What a request costs a server is taken to hold for more of them once it is this busy: batching has had its effect.
const BUSY_SHARE_MIN: f64 = 0.8;
/// A window is steady while the median service time changes by at most this share over it, or by chance. Of 145 trials on
/// a quiet virtual machine the largest change that was no chance was 0.36, of a neighbour.
const SERVICE_CHANGE_MAX: f64 = 0.5;
/// The 90th percentile may do so by this.
const SERVICE_P90_CHANGE_MAX: f64 = 1.0;
/// What a test finds by chance less often than this is not taken for chance. Of sends there are so many that any client is
/// found out; a window has few parts.
const FIT_P_VALUE_MIN: f64 = 0.001;
/// As [`FIT_P_VALUE_MIN`].
const STEADINESS_P_VALUE_MIN: f64 = 0.01;

/// A client of a closed loop has CPU to spare below this share of what its threads can use; it sleeps when it has nothing to do.
const CLIENT_BUSY_SHARE_MAX: f64 = 0.95;
/// Beyond, it is the server that a closed loop's rate is of if that has used this share of its own: it is the first to have
/// nothing left, or nearly.
const SERVER_BUSY_SHARE_MIN: f64 = 0.9;
/// A closed loop's rate may change by this share over its window, or by chance: as much as the service time may, whose inverse
/// it is.
const THROUGHPUT_CHANGE_MAX: f64 = 1.0 - 1.0 / (1.0 + SERVICE_CHANGE_MAX);

/// A lab's median round trip may be this share shorter than was asked for, ...
const ROUND_TRIP_SHORT_SHARE_MAX: f64 = 0.02;
/// ...or this share longer, ...
const ROUND_TRIP_LONG_SHARE_MAX: f64 = 0.1;
/// ...and in milliseconds this: what two hosts' network stacks take, and a process that holds packets.
const ROUND_TRIP_BESIDE_MS: f64 = 1.0;
/// Bits of a datagram that is timed, all headers included, and then some.
const ROUND_TRIP_BITS: f64 = 100.0 * 8.0;
/// A lab's loss may be so many standard deviations from what was asked for, of as many datagrams as were counted.
const LOSS_DEVIATIONS_MAX: f64 = 5.0;
/// On a busy machine a socket's buffer runs over now and then, which nobody asked for: this share of datagrams.
const LOSS_BESIDE: f64 = 0.002;
/// A lab's bandwidth may be less or more by this share.
const BANDWIDTH_SHARE_MAX: f64 = 0.15;
/// Where the kernel's bucket is smaller than usual, its timers may be so many microseconds late on each filling of it.
const BURST_LATE_US: f64 = 100.0;
/// Of the packets that a process takes from host to host it may drop this share unasked: of responses of ten packets one in a
/// thousand is then another than it should be.
const RELAY_DROPPED_SHARE_MAX: f64 = 0.0001;
/// At the median it may write them so many milliseconds late, and this share of the delay: half of what the way there and back
/// may be longer by...
const RELAY_LATE_MS_MAX: f64 = ROUND_TRIP_BESIDE_MS / 2.0;
/// ...as [`RELAY_LATE_MS_MAX`].
const RELAY_LATE_SHARE_MAX: f64 = ROUND_TRIP_LONG_SHARE_MAX;
/// At the 99th percentile it may be as many times that: a neighbour's hiccup is no relay that cannot keep up.
const RELAY_LATE_P99_TIMES: f64 = 10.0;

/// The client's clock may differ from the kernel's by this share, in parts per million. Beyond, it is another clock than was
/// calibrated: drifts seen were below a hundred.
const DRIFT_PPM_MAX: f64 = 10_000.0;
/// Of a closed loop's transactions this share may be beyond the memory for samples. Whether the window was steady is only
/// known of those before.
const UNSAMPLED_SHARE_MAX: f64 = 0.5;

/// A client that is told late when to begin may be so by this share of what precedes the window: the rest of that is there for
/// it to catch up.
const LATE_SHARE_MAX: f64 = 0.5;

/// The server may be counted later than at the window's edges by this share of it: what it did is then of another time...
const COUNTED_LATE_SHARE_MAX: f64 = 0.1;
/// ...or by this, in nanoseconds, which a busy machine keeps anybody waiting for.
const COUNTED_LATE_NS: f64 = 100_000_000.0;

/// Of the server's CPUs, or of a client's, others may take this share.
const TAKEN_SHARE_MAX: f64 = 0.25;

/// What is known of the server.
#[derive(Clone, Copy, Debug)]
pub struct ServerSide<'a> {
    /// What it counted, or was seen of it from outside.
    pub counters: &'a ServerCounters,
    /// CPUs that it can use at once.
    pub cpus: usize,
    /// By how much it was counted late at one of the window's edges, in nanoseconds.
    pub late_ns: u64,
    /// The share of its CPUs that others took, where that is known.
    pub taken: Option<f64>,
    /// Whether it uses its CPUs though there may be nothing to do.
    pub spins: bool,
    /// Bytes a second of streams in each part of the window, where they come to it and it said so.
    pub took_in: Option<[f64; PARTS]>,
}

impl ServerSide<'_> {
    /// The share of its CPUs that it used.
    fn busy_share(&self) -> f64 {
        self.counters.cpu_ns() as f64 / (self.counters.window_ns as f64 * self.cpus as f64)
    }

    /// Whether it worked for at least this share of its CPUs' time. One that spins uses all of it, whatever it works.
    fn has_worked(&self, share_min: f64) -> bool {
        !self.spins && self.busy_share() >= share_min
    }

    /// Whether it had hardly any CPU to spare.
    fn is_busy(&self) -> bool {
        self.has_worked(BUSY_SHARE_MIN)
    }
}

/// Judges a trial; with what is known of the server, if anything is.
pub fn judge(report: &LoadReport, server: Option<&ServerSide<'_>>) -> Verdict {
    let verdict = match (&report.closed, &report.stream, report.rate_asked_per_s) {
        (Some(closed), Some(stream), _) => judge_stream(report, closed, stream, server),
        (Some(closed), None, _) => judge_closed(report, closed, server),
        (None, _, Some(rate_per_s)) => open(report, rate_per_s, server),
        (None, _, None) => {
            return Verdict::failed("the client's account is of no schedule: neither a rate nor a closed loop");
        }
    };
    let Verdict { reason, checks, .. } = verdict;
    // Last: who is to blame for anything else is so whenever it was counted.
    let lateness = server.map(|server| lateness(report, server));
    decide([sanity(report, server), checks, lateness.into_iter().collect()].concat(), || reason)
}

/// Whether the server was counted when the window began and ended.
fn lateness(report: &LoadReport, server: &ServerSide<'_>) -> Check {
    let limit_ms = COUNTED_LATE_NS.max(COUNTED_LATE_SHARE_MAX * report.window_ns as f64) / 1e6;
    check(Check::COUNTED_LATE, server.late_ns as f64 / 1e6, Bound::AtMost, limit_ms, "ms", VerdictKind::Unsteady)
}

/// Whether the numbers that everything else is made of can be what they say.
fn sanity(report: &LoadReport, server: Option<&ServerSide<'_>>) -> Vec<Check> {
    let none = |name: &str, count: u64| check(name, count as f64, Bound::AtMost, 0.0, "", VerdictKind::Failed);
    let drift_ppm = report.clock.drift_ppm.abs();
    let drift = "drift of the client's clock against the kernel's";
    let mut checks = vec![
        none("requests in which the client's clock went backwards", report.clock.went_back),
        check(drift, drift_ppm, Bound::AtMost, DRIFT_PPM_MAX, "ppm", VerdictKind::Failed),
        none("times of an hour or more, which are not told apart", report.response.histogram.saturated()),
    ];
    checks.extend(server.map(|server| {
        let fell = &server.counters.fell;
        let names = if fell.is_empty() { String::new() } else { format!(" ({})", fell.join(", ")) };
        none(&format!("counts of the server that fell in the window{names}"), fell.len() as u64)
    }));
    checks
}

fn open(report: &LoadReport, rate_per_s: f64, server: Option<&ServerSide<'_>>) -> Verdict {
    let saturation = saturation(report, rate_per_s, server);
    let client = client_limits(report, rate_per_s);
    // When both are in want, it is the server that is too slow only if it is known to have no CPU to spare: what a late
    // client sends in bursts, and does not get to read, looks like a pile at the server. A client that receives all the time
    // has less to spare than that.
    let is_receiver_busy = report.receiver_busy_share.is_some_and(|share| share > RECEIVER_BUSY_SHARE_MAX);
    let share_min = if is_receiver_busy { SERVER_BUSY_SHARE_MIN } else { BUSY_SHARE_MIN };
    let (first, second) =
        if server.is_some_and(|it| it.has_worked(share_min)) { (saturation, client) } else { (client, saturation) };
    let checks = [failures(report), first, second, vec![unanswered(report)], steadiness(report, server)].concat();
    decide(checks, || {
        format!(
            "{} requests, {:.1} % of the rate asked, send delay p99 {:.1} us{}",
            report.completed,
            100.0 * report.rate_achieved_per_s / rate_per_s,
            report.lag.distribution.p99_ns as f64 / 1e3,
            tails(report)
        )
    })
}

/// Which tails may be the client's doing, if p99 is among them.
fn tails(report: &LoadReport) -> String {
    if !report.is_client_tail(0.99) {
        return String::new();
    }
    let late = report.late_sends();
    if late.stalled > 0 {
        let share = 100.0 * report.stalled_share().unwrap_or(0.0);
        return format!("; its p99 may be the client's, which was stalled for {share:.2} % of the window");
    }
    let (share, bound_ms) = (100.0 * late.share(), late.bound_ns as f64 / 1e6);
    format!("; its p99 may be the client's, which sent {share:.2} % of the requests more than {bound_ms:.1} ms late")
}

/// A closed loop has no rate to keep up with, so that its server is never saturated: it is as fast as it can be, or as the
/// connections and their time to think let it. What may be wrong is that it was the client that could not be faster.
fn judge_closed(report: &LoadReport, closed: &ClosedReport, server: Option<&ServerSide<'_>>) -> Verdict {
    let checks = [
        failures(report),
        closed_client_limits(report, closed, server),
        vec![unanswered(report), unsampled(report, closed)],
        part_steadiness("transactions", &report.completed_by_part.unwrap_or_default().map(|count| count as f64)),
        steadiness(report, server),
    ];
    decide(checks.concat(), || {
        let server = server.map(|server| format!(", the server {:.0} %", 100.0 * server.busy_share()));
        format!(
            "{} transactions, {:.0} a second, the client used {:.0} % of its CPUs{}{}",
            report.completed,
            report.rate_achieved_per_s,
            100.0 * closed.busy_share,
            server.unwrap_or_default(),
            tails(report)
        )
    })
}

/// Of streams the bytes say whether all went well: of whole bursts there may be few.
fn judge_stream(
    report: &LoadReport,
    closed: &ClosedReport,
    stream: &StreamReport,
    server: Option<&ServerSide<'_>>,
) -> Verdict {
    let bytes = check("bytes in the window", stream.bytes as f64, Bound::AtLeast, 1.0, "", VerdictKind::Failed);
    let unended = f64::from(report.connections) - f64::from(stream.ended);
    let what = "connections whose streams had not ended when the drain was over (raise phases.drain)";
    let unended = check(what, unended, Bound::AtMost, 0.0, "", VerdictKind::Failed);
    let errors = failures(report).into_iter().filter(|check| check.name != Check::REQUESTS).collect();
    let taken = steadiness(report, server).into_iter().filter(|check| check.name == Check::TAKEN_BY_OTHERS).collect();
    let limits = stalled(report).into_iter().chain([client_busy(closed, server)]).collect();
    // Where they arrive.
    let part_s = report.window_ns as f64 / 1e9 / PARTS as f64;
    let by_client = || stream.bytes_by_part.map(|bytes| bytes as f64 / part_s);
    let by_part = server.and_then(|server| server.took_in).unwrap_or_else(by_client);
    let checks = [errors, vec![bytes, unended], limits, part_steadiness("bandwidth", &by_part), taken];
    decide(checks.concat(), || {
        let server = server.map(|server| format!(", the server {:.0} %", 100.0 * server.busy_share()));
        format!(
            "{:.0} MB/s, fairness {:.3}, the client used {:.0} % of its CPUs{}",
            by_part.iter().sum::<f64>() / PARTS as f64 / 1e6,
            stream.fairness,
            100.0 * closed.busy_share,
            server.unwrap_or_default()
        )
    })
}

/// A verdict, and whether the server took in every byte that the clients sent, and they every byte of the server's. Both
/// count everything, the first requests of `idle` connections included.
pub fn with_bytes(verdict: Verdict, sizes: Stream, idle: u32, stream: &StreamReport, server: &Totals) -> Verdict {
    // One without checks has a reason of its own.
    if verdict.checks.is_empty() {
        return verdict;
    }
    let (greeting_bytes, answer_bytes) = sizes.sizes(true);
    let idle = u64::from(idle);
    let compared = [
        (
            "bytes that the server has not counted of those sent",
            stream.sent_bytes + idle * greeting_bytes,
            server.bytes_in,
        ),
        (
            "bytes that the server counts as sent and no client received",
            stream.received_bytes + idle * answer_bytes,
            server.bytes_out,
        ),
    ];
    let difference = |(name, client, server): (&str, u64, Option<u64>)| {
        let apart = server.map_or(f64::INFINITY, |server| client.abs_diff(server) as f64);
        check(name, apart, Bound::AtMost, 0.0, "", VerdictKind::Failed)
    };
    let compared = compared.map(difference).to_vec();
    let Verdict { kind, reason, checks } = verdict;
    // What failed before is why bytes are missing.
    let all = if kind == VerdictKind::Failed { [checks, compared] } else { [compared, checks] };
    decide(all.concat(), || reason)
}

/// A verdict, and what became of the idle connections: with fewer of them it was another trial.
pub fn with_idle(verdict: Verdict, idle: Option<&IdleReport>) -> Verdict {
    // One without checks has a reason of its own.
    let Some(idle) = idle.filter(|_| !verdict.checks.is_empty()) else { return verdict };
    let (alive, held) = (f64::from(idle.alive), f64::from(idle.held));
    let alive = check("idle connections alive at the end", alive, Bound::AtLeast, held, "", VerdictKind::Failed);
    let Verdict { reason, checks, .. } = verdict;
    decide([vec![alive], checks].concat(), || reason)
}

/// A verdict, and whether each client had its CPUs to itself, of those of whom that is known: ranks, by name; and of one that
/// was told too late when to begin, how late that was.
pub fn with_clients(verdict: Verdict, report: &LoadReport, phases: Phases) -> Verdict {
    // One without checks has a reason of its own.
    if verdict.checks.is_empty() {
        return verdict;
    }
    let taken = |process: &ProcessReport| {
        let what = format!("share of the client's CPUs taken by others, {}", process.place);
        let taken = process.cpu_taken_by_others?;
        Some(check(&what, taken, Bound::AtMost, TAKEN_SHARE_MAX, "", VerdictKind::ClientLimited))
    };
    let taken: Vec<Check> = report.processes.iter().filter_map(taken).collect();
    let Verdict { reason, checks, .. } = verdict;
    decide([checks, begun_late(report, phases), taken].concat(), || reason)
}

/// How late the latest client was told when to begin, if one was.
fn begun_late(report: &LoadReport, phases: Phases) -> Vec<Check> {
    let Some(late_ns) = Some(report.begun_late_ns).filter(|late_ns| *late_ns > 0) else { return Vec::new() };
    let latest = report.processes.iter().find(|process| process.begun_late_ns == late_ns);
    let whose = latest.filter(|it| !it.place.is_empty()).map(|it| format!(", {}", it.place)).unwrap_or_default();
    let limit_ms = LATE_SHARE_MAX * (phases.ramp_ns + phases.hold_ns) as f64 / 1e6;
    let what = format!("time by which the client was told too late when to begin{whose}");
    vec![check(&what, late_ns as f64 / 1e6, Bound::AtMost, limit_ms, "ms", VerdictKind::ClientLimited)]
}

/// A verdict, and whether the lab's network did what was asked, right before the trial and, as far as a process of ours takes
/// the packets, in it: with another it was another trial.
pub fn with_network(verdict: Verdict, asked: Option<&Network>, report: Option<&NetworkReport>) -> Verdict {
    // One without checks has a reason of its own.
    let (Some(asked), Some(report)) = (asked, report) else { return verdict };
    if verdict.checks.is_empty() {
        return verdict;
    }
    let measured = &report.measured;
    let mut checks = Vec::new();
    let mut within = |name: &str, value: f64, (least, most): (f64, f64), unit: &str| {
        checks.push(check(name, value, Bound::AtLeast, least, unit, VerdictKind::Failed));
        checks.push(check(name, value, Bound::AtMost, most, unit, VerdictKind::Failed));
    };
    let both_ways_ms = 2.0 * asked.delay.0 as f64 / 1e6;
    let sent_ms = asked.bandwidth.map_or(0.0, |bandwidth| 2.0 * 1e3 * ROUND_TRIP_BITS / bandwidth.0 as f64);
    let least = both_ways_ms * (1.0 - ROUND_TRIP_SHORT_SHARE_MAX) - 0.2 * asked.jitter.0 as f64 / 1e6;
    let most = both_ways_ms * (1.0 + ROUND_TRIP_LONG_SHARE_MAX) + sent_ms + ROUND_TRIP_BESIDE_MS;
    within("median round trip of the lab", measured.round_trip_p50_ns as f64 / 1e6, (least, most), "ms");
    let loss = asked.loss.map_or(0.0, |loss| loss.0);
    let deviations = LOSS_DEVIATIONS_MAX * (loss * (1.0 - loss) / f64::from(measured.sent.max(1))).sqrt();
    let bounds = ((loss - deviations).max(0.0), loss + deviations + LOSS_BESIDE);
    let whose = measured.host.map(|host| format!(" (client's host {host})")).unwrap_or_default();
    within(&format!("share of datagrams that the lab lost{whose}"), measured.loss(), bounds, "");
    if let (Some(bandwidth), Some(found)) = (asked.bandwidth, measured.bandwidth_bits_per_s) {
        let mbit_per_s = bandwidth.0 as f64 / 1e6;
        // Of a bucket that is full, what comes until the kernel looks again is lost.
        let kept = asked.burst.map_or(1.0, |burst| {
            let fills_us = f64::from(burst.0) * 8.0 / mbit_per_s;
            fills_us / (fills_us + BURST_LATE_US)
        });
        let least = mbit_per_s * (1.0 - BANDWIDTH_SHARE_MAX) * kept;
        let bounds = (least, mbit_per_s * (1.0 + BANDWIDTH_SHARE_MAX));
        within(&format!("bandwidth towards the lab's server{whose}"), found[0] / 1e6, bounds, "Mbit/s");
        within(&format!("bandwidth from the lab's server{whose}"), found[1] / 1e6, bounds, "Mbit/s");
    }
    if report.applied.links == Links::Tun {
        let accounts = f64::from(u8::from(report.relay.is_some()));
        checks.push(check("accounts of the lab's relay", accounts, Bound::AtLeast, 1.0, "", VerdictKind::Failed));
    }
    checks.extend(report.relay.iter().flat_map(|relay| kept_up(asked, relay)));
    let Verdict { reason, checks: others, .. } = verdict;
    decide([checks, others].concat(), || reason)
}

/// Whether the process that takes packets from host to host did to them what was asked, and no more.
fn kept_up(asked: &Network, relay: &RelayCounts) -> [Check; 3] {
    let at_most = |name: &str, value: f64, limit: f64, unit: &str| {
        check(name, value, Bound::AtMost, limit, unit, VerdictKind::Failed)
    };
    let dropped = RELAY_DROPPED_SHARE_MAX * relay.packets as f64;
    let late_ms = RELAY_LATE_MS_MAX + RELAY_LATE_SHARE_MAX * asked.delay.0 as f64 / 1e6;
    let ms = |ns: u64| ns as f64 / 1e6;
    [
        at_most("packets that the lab's relay dropped, unasked", relay.dropped as f64, dropped, ""),
        at_most("median by which the lab's relay was late", ms(relay.late_p50_ns), late_ms, "ms"),
        at_most(
            "99th percentile by which the lab's relay was late",
            ms(relay.late_p99_ns),
            RELAY_LATE_P99_TIMES * late_ms,
            "ms",
        ),
    ]
}

/// The first check that fails decides; where none does, the trial is valid, with what `reason` says.
fn decide(checks: Vec<Check>, reason: impl FnOnce() -> String) -> Verdict {
    let Some(first) = checks.iter().find(|check| !check.passed) else {
        return Verdict { kind: VerdictKind::Valid, reason: reason(), checks };
    };
    let kind = first.decides;
    let failed = checks.iter().filter(|check| !check.passed && check.decides == kind);
    let reason = failed.map(words).collect::<Vec<_>>().join("; ");
    Verdict { kind, reason, checks }
}

/// A check that failed, with its numbers.
fn words(check: &Check) -> String {
    let number = |value: f64| match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    };
    let side = match check.bound {
        Bound::AtLeast => "is below",
        Bound::AtMost => "exceeds",
    };
    let unit = if check.unit.is_empty() { String::new() } else { format!(" {}", check.unit) };
    let p_value = check.p_value.map(|p| format!(" (p {p:.1e})")).unwrap_or_default();
    // A bare number is set off from its name.
    let colon = if unit.is_empty() { ":" } else { "" };
    format!(
        "{}{colon} {}{unit}{p_value} {side} the limit of {}{unit}",
        check.name,
        number(check.value),
        number(check.limit)
    )
}

/// A check of one number.
fn check(name: &str, value: f64, bound: Bound, limit: f64, unit: &str, decides: VerdictKind) -> Check {
    let passed = match bound {
        Bound::AtLeast => value >= limit,
        Bound::AtMost => value <= limit,
    };
    let (name, unit) = (name.to_owned(), unit.to_owned());
    Check { name, value, limit, bound, unit, p_value: None, p_value_min: None, passed, decides }
}

/// A check of a test's effect, which fails only if that is no chance either.
fn test(what: &str, result: &TestResult, limit: f64, p_value_min: f64, decides: VerdictKind) -> Check {
    let name = format!("{what} ({})", result.name);
    let check = check(&name, result.effect.abs(), Bound::AtMost, limit, "", decides);
    let passed = check.passed || result.p_value >= p_value_min;
    Check { p_value: Some(result.p_value), p_value_min: Some(p_value_min), passed, ..check }
}

fn failures(report: &LoadReport) -> Vec<Check> {
    let errors = |(class, count): (&str, u64)| {
        check(&format!("errors of class {class}"), count as f64, Bound::AtMost, 0.0, "", VerdictKind::Failed)
    };
    let classes = report.errors.by_class().into_iter().filter(|(class, _)| *class != "timeout").map(errors);
    let enough = check(Check::REQUESTS, report.planned as f64, Bound::AtLeast, SAMPLES_MIN, "", VerdictKind::Failed);
    classes.chain([enough]).collect()
}

fn saturation(report: &LoadReport, rate_per_s: f64, server: Option<&ServerSide<'_>>) -> Vec<Check> {
    use VerdictKind::Saturated;
    let window_s = report.window_ns as f64 / 1e9;
    let some = (report.planned as f64 * PILE_UP_SHARE_MAX).max(EDGE_REQUESTS);
    let piled_up = report.outstanding.at_end as f64 - report.outstanding.at_start as f64;
    let due_per_s = report.rate_sent_per_s.min(rate_per_s);
    let answered_min = RATE_SHARE_MIN * due_per_s - EDGE_REQUESTS / window_s;
    let (last_ns, grown_ns) = growth(&report.service.p50_by_part_ns, report.completed);
    let unanswered = report.outstanding.after_drain as f64;
    let mut checks = vec![
        check("requests answered", report.rate_achieved_per_s, Bound::AtLeast, answered_min, "a second", Saturated),
        check("requests added to the outstanding over the window", piled_up, Bound::AtMost, some, "", Saturated),
        check("requests unanswered after the drain", unanswered, Bound::AtMost, some, "", Saturated),
        check("median service time to the end", last_ns / 1e6, Bound::AtMost, grown_ns / 1e6, "ms", Saturated),
    ];
    if let Some(datagrams) = &report.datagrams {
        // Between hosts of one network a datagram is lost where a buffer has no room: at the server, unless it was the
        // client's. Its share says it all, and a few are not one too many.
        let share = datagrams.lost as f64 / report.planned.max(1) as f64;
        checks.retain(|check| check.name != "requests unanswered after the drain");
        checks.push(check("share of requests that were lost", share, Bound::AtMost, LOST_SHARE_MAX, "", Saturated));
    }
    checks.extend(server.and_then(|server| beyond_capacity(report, server)));
    checks
}

/// The lowest median of the last parts, and what it must not exceed, in nanoseconds, of so many requests. A part without
/// requests has no median.
fn growth(medians_ns: &[u64; PARTS], requests: u64) -> (f64, f64) {
    let known = |parts: &[u64]| parts.iter().filter(|&&ns| ns > 0).map(|&ns| ns as f64).collect::<Vec<_>>();
    let all = known(medians_ns);
    let has_few = requests < SERVICE_GROWTH_REQUESTS * PARTS as u64;
    let first_count = if has_few { SERVICE_GROWTH_FIRST_OF_FEW } else { SERVICE_GROWTH_FIRST };
    let first_ns = all.iter().take(first_count).copied().fold(0.0, f64::max);
    let last_ns = known(&medians_ns[PARTS - SERVICE_GROWTH_PARTS..]).into_iter().reduce(f64::min).unwrap_or(0.0);
    (last_ns, (SERVICE_GROWTH_MAX * first_ns).max(SERVICE_GROWTH_FLOOR_NS))
}

/// A server without CPU to spare, which could not have served the rate asked for whatever the client did. A client that
/// is late sends its requests in bursts, which a server serves more cheaply one by one than they would come on time; so
/// this holds all the more for a client that is not late.
fn beyond_capacity(report: &LoadReport, server: &ServerSide<'_>) -> Option<Check> {
    let ServerSide { counters, cpus, .. } = server;
    let requests = requests_answered(counters, report);
    // What came, which of a Poisson process is not just what was asked for.
    let planned_per_s = report.planned as f64 / (report.window_ns as f64 / 1e9);
    if report.rate_achieved_per_s >= RATE_SHARE_MIN * planned_per_s || requests == 0.0 {
        return None;
    }
    let needed = counters.cpu_ns() as f64 / requests * planned_per_s / 1e9;
    server.is_busy().then(|| {
        check(
            "CPUs that the server needs for the rate",
            needed,
            Bound::AtMost,
            *cpus as f64,
            "",
            VerdictKind::Saturated,
        )
    })
}

fn client_limits(report: &LoadReport, rate_per_s: f64) -> Vec<Check> {
    use VerdictKind::ClientLimited;
    let window_s = report.window_ns as f64 / 1e9;
    let interval_ns = 1e9 / rate_per_s;
    let lag_us = report.lag.distribution.p50_ns as f64 / 1e3;
    let lag_us_max = LAG_P50_NS.max(LAG_SHARE_MAX * interval_ns) / 1e3;
    let sent_min = (RATE_SHARE_MIN * report.planned as f64 - EDGE_REQUESTS) / window_s;
    let dropped = report.datagrams.as_ref().and_then(|datagrams| datagrams.dropped);
    let dropped = dropped.map(|dropped| {
        let share = dropped as f64 / report.planned.max(1) as f64;
        let what = "share of responses for which the client's sockets had no room";
        check(what, share, Bound::AtMost, LOST_SHARE_MAX, "", ClientLimited)
    });
    let mut checks = vec![check("median send delay", lag_us, Bound::AtMost, lag_us_max, "us", ClientLimited)];
    checks.extend(latest(report, LAG_P50_NS.max(LAG_SHARE_MAX * interval_ns)));
    checks.extend(delay_tails(report, 0.0));
    checks.extend(late_share(report));
    let what = "share of the window in which the client was receiving, without time to spare";
    let busy = report.receiver_busy_share;
    checks.extend(busy.map(|share| check(what, share, Bound::AtMost, RECEIVER_BUSY_SHARE_MAX, "", ClientLimited)));
    // Where connections come and go a request waits for the response before it, and a session for a connection: what is not
    // sent in time may be the server's doing.
    if report.churn.is_none() {
        let sent = report.rate_sent_per_s;
        checks.push(check("requests sent in time", sent, Bound::AtLeast, sent_min, "a second", ClientLimited));
    }
    checks.extend(dropped);
    let what = "distance of the sends from their plan";
    checks.extend(report.fit.as_ref().map(|fit| test(what, fit, FIT_DISTANCE_MAX, FIT_P_VALUE_MIN, ClientLimited)));
    checks
}

/// Whether the client sent, and could receive, nearly all of the time: with larger shares it may have made even the median.
fn late_share(report: &LoadReport) -> impl Iterator<Item = Check> {
    let late = report.late_sends();
    let share = late.count as f64 / late.sent.max(1) as f64;
    let sent = "share of requests sent late";
    let sent = check(sent, share, Bound::AtMost, LATE_SENDS_SHARE_MAX, "", VerdictKind::ClientLimited);
    [sent].into_iter().chain(stalled(report))
}

/// As [`late_share`], of a client whose threads sleep. The meter waits for a client that works as well: only where there is room
/// for the stall beside the client's own work was it kept from that.
fn stalled(report: &LoadReport) -> Option<Check> {
    let what = "share of the window in which the client was stalled";
    let of = |share| check(what, share, Bound::AtMost, LATE_SENDS_SHARE_MAX, "", VerdictKind::ClientLimited);
    let own = report.closed.as_ref().map(|closed| closed.busy_share).or(report.receiver_busy_share).unwrap_or(0.0);
    report.stalled_share().filter(|share| share + own <= 1.0).map(of)
}

/// Whether the tails of the send delay stay below those of the service time, and those of the client that was latest. Limits
/// are `least_ns` at least.
fn delay_tails(report: &LoadReport, least_ns: f64) -> Vec<Check> {
    let late = report.late_sends();
    let service = &report.service.distribution;
    // Behind a burst, requests on time wait as well: a p90 of most parts of the window has no part in that.
    let mut p90s_ns: Vec<u64> = report.service.p90_by_part_ns.iter().copied().filter(|&ns| ns > 0).collect();
    p90s_ns.sort_unstable();
    let usual_ns = p90s_ns.get(p90s_ns.len() / 2).copied().unwrap_or(u64::MAX);
    let p99_ns = late.on_time_p99_ns.unwrap_or(service.p99_ns).min(usual_ns) as f64;
    let p999_ns = late.on_time_p999_ns.unwrap_or(service.p999_ns) as f64;
    let p99_max_ms = p99_ns.max(DELAY_P99_NS).max(least_ns) / 1e6;
    let p999_max_ms = p999_ns.max(DELAY_P999_NS).max(least_ns) / 1e6;
    let at_most = |name: &str, delay_ns: u64, limit_ms: f64| {
        check(name, delay_ns as f64 / 1e6, Bound::AtMost, limit_ms, "ms", VerdictKind::ClientLimited)
    };
    let delay = &report.lag.distribution;
    let has_beyond = |count: u64, share: f64, min: f64| count as f64 * share >= min;
    let mut checks = Vec::new();
    if has_beyond(delay.count, 0.01, BEYOND_P99_MIN) {
        checks.push(at_most("send delay p99", delay.p99_ns, p99_max_ms));
    }
    let known = report.processes.iter().enumerate().filter(|(_, it)| has_beyond(it.lag.count, 0.01, BEYOND_P99_MIN));
    if let Some((at, latest)) = known.max_by_key(|(_, process)| process.lag.p99_ns) {
        let what = format!("send delay p99 of the client that was latest, {}", place(at, latest));
        checks.push(at_most(&what, latest.lag.p99_ns, p99_max_ms));
    }
    if has_beyond(delay.count, 0.001, BEYOND_P999_MIN) {
        checks.push(at_most("send delay p99.9", delay.p999_ns, p999_max_ms));
    }
    checks
}

/// Where a client ran, or which one it is.
fn place(at: usize, process: &ProcessReport) -> String {
    if process.place.is_empty() { format!("client {}", at + 1) } else { process.place.clone() }
}

/// Of a load that several processes divided: all of them together do not show that one was late.
fn latest(report: &LoadReport, lag_ns_max: f64) -> Option<Check> {
    let (at, latest) = report.processes.iter().enumerate().max_by_key(|(_, process)| process.lag.p50_ns)?;
    let what = format!("median send delay of the client that was latest, {}", place(at, latest));
    let lag_us = latest.lag.p50_ns as f64 / 1e3;
    Some(check(&what, lag_us, Bound::AtMost, lag_ns_max / 1e3, "us", VerdictKind::ClientLimited))
}

fn closed_client_limits(report: &LoadReport, closed: &ClosedReport, server: Option<&ServerSide<'_>>) -> Vec<Check> {
    let lag_us = report.lag.distribution.p50_ns as f64 / 1e3;
    let lag_us_max = LAG_P50_NS.max(LAG_SHARE_MAX * closed.think_ns as f64) / 1e3;
    let lag = check("median send delay", lag_us, Bound::AtMost, lag_us_max, "us", VerdictKind::ClientLimited);
    let tails = delay_tails(report, LAG_SHARE_MAX * closed.think_ns as f64);
    let lags = [lag].into_iter().chain(latest(report, lag_us_max * 1e3)).chain(tails);
    lags.chain(stalled(report)).chain([client_busy(closed, server)]).collect()
}

/// Whether the client of a closed loop had CPU to spare, or the server had none either.
fn client_busy(closed: &ClosedReport, server: Option<&ServerSide<'_>>) -> Check {
    use VerdictKind::ClientLimited;
    // One that spins is busy whatever comes.
    let of_server = server.filter(|server| !server.spins).map(ServerSide::busy_share);
    let of_server = of_server.filter(|share| *share >= SERVER_BUSY_SHARE_MIN);
    match of_server {
        // Neither had anything to spare: what more CPU for the client would give, the server could not.
        Some(share) if closed.busy_share > CLIENT_BUSY_SHARE_MAX => {
            let what = "share of the server's CPUs in use, with none of the client's to spare";
            check(what, share, Bound::AtLeast, SERVER_BUSY_SHARE_MIN, "", ClientLimited)
        }
        _ => {
            let what = "share of the client's CPUs in use, with some of the server's to spare";
            check(what, closed.busy_share, Bound::AtMost, CLIENT_BUSY_SHARE_MAX, "", ClientLimited)
        }
    }
}

/// Tests of how much was done in each of the window's parts.
fn part_steadiness(what: &str, parts: &[f64]) -> Vec<Check> {
    let limit = THROUGHPUT_CHANGE_MAX;
    let tests = [
        (format!("trend of the {what} over the window"), steadiness::trend(parts)),
        (format!("shift of the {what} in the window"), steadiness::change_point(parts).map(|it| it.result)),
        (format!("passing change of the {what}"), steadiness::excursion(parts, limit)),
    ];
    let of = |(what, result): (String, Option<TestResult>)| {
        result.map(|result| test(&what, &result, limit, STEADINESS_P_VALUE_MIN, VerdictKind::Unsteady))
    };
    tests.into_iter().filter_map(of).collect()
}

fn unsampled(report: &LoadReport, closed: &ClosedReport) -> Check {
    let share = closed.unsampled as f64 / report.planned.max(1) as f64;
    let what = "share of transactions that there was no memory to keep as samples (lower phases.measure)";
    check(what, share, Bound::AtMost, UNSAMPLED_SHARE_MAX, "", VerdictKind::Unsteady)
}

fn unanswered(report: &LoadReport) -> Check {
    let share = report.errors.timeout as f64 / report.planned.max(1) as f64;
    let limit = match report.transport {
        Transport::Tcp | Transport::Unix => TIMEOUT_SHARE_MAX,
        // Responses are matched in order: one that is lost gives its place to the next.
        Transport::Udp => 0.0,
    };
    check("share of requests that were not answered", share, Bound::AtMost, limit, "", VerdictKind::Failed)
}

/// Tests of the window's parts: whether their medians drift, step, or leave their level for a while, and whether their 90th
/// percentiles step, which medians do not show; and whether the server had its CPUs to itself, without which it may be
/// steadily slow.
fn steadiness(report: &LoadReport, server: Option<&ServerSide<'_>>) -> Vec<Check> {
    use VerdictKind::Unsteady;
    let known = |parts: &[u64]| -> Vec<f64> { parts.iter().filter(|&&ns| ns > 0).map(|&ns| ns as f64).collect() };
    let medians = known(&report.service.p50_by_part_ns);
    let p90s = known(&report.service.p90_by_part_ns);
    let shift = |values: &[f64]| steadiness::change_point(values).map(|it| it.result);
    let tests = [
        ("trend of the median service time over the window", steadiness::trend(&medians), SERVICE_CHANGE_MAX),
        ("shift of the median service time in the window", shift(&medians), SERVICE_CHANGE_MAX),
        (
            "passing change of the median service time",
            steadiness::excursion(&medians, SERVICE_CHANGE_MAX),
            SERVICE_CHANGE_MAX,
        ),
        ("shift of the 90th percentile of the service time in the window", shift(&p90s), SERVICE_P90_CHANGE_MAX),
    ];
    let of = |(what, result, limit): (&str, Option<TestResult>, f64)| {
        result.map(|result| test(what, &result, limit, STEADINESS_P_VALUE_MIN, Unsteady))
    };
    let taken = server
        .and_then(|server| server.taken)
        .map(|taken| check(Check::TAKEN_BY_OTHERS, taken, Bound::AtMost, TAKEN_SHARE_MAX, "", Unsteady));
    tests.into_iter().filter_map(of).chain(taken).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use load::config::{Pacing, Roles};
    use load::late::LateSends;
    use load::report::{ChurnReport, ClockFacts, DatagramReport, Errors, Measured, Outstanding, ProcessReport};
    use stats::Histogram;

    use super::*;

    /// Medians of tenths of the window: each part has that of the tenth in which it begins.
    fn measured(tenths_ns: [u64; 10]) -> Measured {
        let histogram: Histogram = tenths_ns.iter().flat_map(|&ns| [ns; 10]).collect();
        let p50_by_part_ns = std::array::from_fn(|part| tenths_ns[part * 10 / PARTS]);
        Measured { distribution: histogram.distribution(), p50_by_part_ns, p90_by_part_ns: p50_by_part_ns, histogram }
    }

    /// A healthy trial of 1 000 requests in a second.
    pub(crate) fn healthy() -> LoadReport {
        LoadReport {
            clock: ClockFacts {
                source: "tsc".into(),
                reason: String::new(),
                frequency_hz: 1e9,
                drift_ppm: 0.0,
                went_back: 0,
            },
            pacing: Some(Pacing::Spin),
            roles: Roles::OneLoop,
            transport: Transport::Tcp,
            connections: 10,
            active: 10,
            connect_ns: 0,
            window_ns: 1_000_000_000,
            rate_asked_per_s: Some(1_000.0),
            planned: 1_000,
            sent: 1_000,
            completed: 1_000,
            rate_achieved_per_s: 999.0,
            completed_by_part: None,
            rate_sent_per_s: 1_000.0,
            outstanding: Outstanding { at_start: 1, at_end: 2, after_drain: 0 },
            errors: Errors::default(),
            late: None,
            receiver_busy_share: None,
            stalled_ns: None,
            lag: measured([200; 10]),
            service: measured([50_000; 10]),
            response: measured([50_200; 10]),
            fit: Some(fit(0.02, 1.0)),
            closed: None,
            churn: None,
            datagrams: None,
            stream: None,
            kernel: None,
            memory_bytes_per_connection: 48.0,
            processes: Vec::new(),
            begun_late_ns: 0,
            cpu_ns: 0,
            involuntary_switches: 0,
        }
    }

    fn fit(effect: f64, p_value: f64) -> TestResult {
        TestResult { name: "a test".into(), statistic: effect, p_value, effect, count: 1_000 }
    }

    fn side(counters: &ServerCounters, cpus: usize) -> ServerSide<'_> {
        ServerSide { counters, cpus, late_ns: 0, taken: None, spins: false, took_in: None }
    }

    fn kind(change: impl FnOnce(&mut LoadReport)) -> VerdictKind {
        let mut report = healthy();
        change(&mut report);
        judge(&report, None).kind
    }

    /// A healthy trial of streams: 2 connections, 16 MB in a second.
    fn streaming() -> LoadReport {
        let closed = ClosedReport { unsampled: 0, busy_share: 0.5, cpus: 1, think_ns: 0 };
        let stream = StreamReport {
            bytes: 16_000_000,
            bytes_by_part: [500_000; PARTS],
            bytes_by_second: vec![16_000_000],
            fairness: 1.0,
            connection_bytes_min: 8_000_000,
            connection_bytes_max: 8_000_000,
            sent_bytes: 17_000_000,
            received_bytes: 96,
            ended: 2,
        };
        // No burst was whole: that is no failure.
        let report = LoadReport { rate_asked_per_s: None, connections: 2, planned: 0, completed: 0, ..healthy() };
        LoadReport { closed: Some(closed), stream: Some(stream), ..report }
    }

    #[test]
    fn streams_are_judged_by_their_bytes() {
        let kind = |change: &dyn Fn(&mut StreamReport)| {
            let mut report = streaming();
            report.stream.iter_mut().for_each(change);
            judge(&report, None)
        };
        assert_eq!(kind(&|_| ()).kind, VerdictKind::Valid);
        assert!(kind(&|_| ()).reason.starts_with("16 MB/s, fairness 1.000"));
        assert_eq!(kind(&|stream| stream.bytes = 0).kind, VerdictKind::Failed);
        let unended = kind(&|stream| stream.ended = 1);
        assert_eq!(
            (unended.kind, unended.reason.split(':').next().unwrap().contains("not ended")),
            (VerdictKind::Failed, true)
        );
        assert_eq!(kind(&|stream| stream.bytes_by_part[16..].fill(5_000_000)).kind, VerdictKind::Unsteady);
        // Where the server says what it took in, that counts, and not what its clients wrote.
        let counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
        let took_in = |last: f64| {
            let parts = std::array::from_fn(|part| if part < 16 { 16e6 } else { last });
            judge(&streaming(), Some(&ServerSide { took_in: Some(parts), ..side(&counters, 1) }))
        };
        assert_eq!(took_in(160e6).kind, VerdictKind::Unsteady);
        let steady = took_in(16e6);
        assert!(steady.kind == VerdictKind::Valid && steady.reason.starts_with("16 MB/s"), "{}", steady.reason);
        let mut report = streaming();
        report.closed.iter_mut().for_each(|closed| closed.busy_share = 0.99);
        assert_eq!(judge(&report, None).kind, VerdictKind::ClientLimited);
    }

    #[test]
    fn one_byte_of_difference_between_the_sides_fails_a_trial() {
        let (report, sizes) = (streaming(), Stream::default());
        let kind = |idle: u32, bytes_in: Option<u64>, bytes_out: u64| {
            let totals = Totals { bytes_in, bytes_out: Some(bytes_out), ..Totals::default() };
            with_bytes(judge(&report, None), sizes, idle, report.stream.as_ref().unwrap(), &totals).kind
        };
        assert_eq!(kind(0, Some(17_000_000), 96), VerdictKind::Valid);
        assert_eq!(kind(3, Some(17_000_000 + 3 * 8_192), 96 + 3 * 32), VerdictKind::Valid);
        for wrong in [kind(0, Some(16_999_999), 96), kind(0, Some(17_000_000), 97), kind(0, None, 96)] {
            assert_eq!(wrong, VerdictKind::Failed);
        }
        assert_eq!(kind(1, Some(17_000_000), 96), VerdictKind::Failed, "idle ones have sent something too");
    }

    #[test]
    fn numbers_that_cannot_be_fail_a_trial_and_say_which() {
        let told = |change: &dyn Fn(&mut LoadReport), fell: &[&str]| {
            let fell = fell.iter().map(|&name| name.to_owned()).collect();
            let counters = ServerCounters { window_ns: 1_000_000_000, fell, ..ServerCounters::default() };
            let mut report = healthy();
            change(&mut report);
            let verdict = judge(&report, Some(&side(&counters, 1)));
            (verdict.kind, verdict.reason)
        };
        assert_eq!(told(&|_| (), &[]).0, VerdictKind::Valid);
        assert_eq!(told(&|it| it.clock.drift_ppm = -900.0, &[]).0, VerdictKind::Valid);
        let lies = [
            (told(&|it| it.clock.went_back = 1, &[]), "the client's clock went backwards: 1 exceeds the limit of 0"),
            (told(&|it| it.clock.drift_ppm = -20_000.0, &[]), "drift of the client's clock"),
            (told(&|it| it.response.histogram.record(stats::histogram::VALUE_NS_MAX), &[]), "an hour or more"),
            (told(&|it| it.errors.wrong = 1, &[]), "errors of class wrong: 1"),
            (told(&|_| (), &["requests", "bytes in"]), "fell in the window (requests, bytes in): 2"),
        ];
        for ((kind, reason), words) in lies {
            assert!(kind == VerdictKind::Failed && reason.contains(words), "{words}: {reason}");
        }
    }

    #[test]
    fn a_server_that_was_counted_at_another_time_makes_a_trial_unsteady() {
        let judged = |report: &LoadReport, late_ns: u64| {
            let counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
            judge(report, Some(&ServerSide { late_ns, ..side(&counters, 1) }))
        };
        assert_eq!(judged(&healthy(), 90_000_000).kind, VerdictKind::Valid);
        let late = judged(&healthy(), 110_000_000);
        assert!(late.kind == VerdictKind::Unsteady && late.is_the_machine_s(), "{}", late.reason);
        assert_eq!(late.reason, format!("{} 110 ms exceeds the limit of 100 ms", Check::COUNTED_LATE));
        // A longer window bears more.
        let long = LoadReport { window_ns: 10_000_000_000, ..healthy() };
        assert!(judged(&long, 900_000_000).checks.iter().all(|it| it.passed || it.name != Check::COUNTED_LATE));
        // What is wrong besides is told first.
        let wrong = LoadReport { errors: Errors { wrong: 1, ..Errors::default() }, ..healthy() };
        assert_eq!(judged(&wrong, 110_000_000).kind, VerdictKind::Failed);
        let behind = LoadReport { lag: measured([5_000_000; 10]), ..healthy() };
        assert_eq!(judged(&behind, 110_000_000).kind, VerdictKind::ClientLimited);
    }

    #[test]
    fn a_window_that_is_mostly_beyond_the_memory_for_samples_is_not_known_to_be_steady() {
        let of = |unsampled: u64| {
            let closed = ClosedReport { unsampled, busy_share: 0.5, cpus: 1, think_ns: 0 };
            let parts = Some([31; PARTS]);
            let report = LoadReport { rate_asked_per_s: None, closed: Some(closed), ..healthy() };
            judge(&LoadReport { completed_by_part: parts, ..report }, None)
        };
        assert_eq!(of(500).kind, VerdictKind::Valid);
        let beyond = of(501);
        assert_eq!(beyond.kind, VerdictKind::Unsteady);
        assert!(beyond.reason.contains("no memory to keep as samples"), "{}", beyond.reason);
    }

    #[test]
    fn one_late_process_of_five_is_not_hidden_by_the_others() {
        let of = |lags_ns: [u64; 5]| {
            let mut report = healthy();
            report.processes = lags_ns
                .into_iter()
                .map(|lag_ns| ProcessReport {
                    place: format!("rank {}", lag_ns % 10),
                    connections: 2,
                    planned: 200,
                    completed: 200,
                    rate_sent_per_s: 200.0,
                    lag: measured([lag_ns; 10]).distribution,
                    service: report.service.distribution,
                    cpu_ns: 0,
                    begun_late_ns: 0,
                    cpu_taken_by_others: None,
                })
                .collect();
            judge(&report, None)
        };
        assert_eq!(of([1_001, 1_002, 1_003, 1_004, 1_005]).kind, VerdictKind::Valid);
        let late = of([1_001, 1_002, 9_000_003, 1_004, 1_005]);
        assert_eq!(late.kind, VerdictKind::ClientLimited);
        assert!(late.reason.contains("latest, rank 3"), "{}", late.reason);
    }

    #[test]
    fn a_rank_whose_cpus_others_took_is_told() {
        let judged = |taken: [Option<f64>; 2]| {
            let mut report = healthy();
            let process = |(number, cpu_taken_by_others): (usize, Option<f64>)| ProcessReport {
                place: format!("rank {number} on node{number}"),
                connections: 5,
                planned: 500,
                completed: 500,
                rate_sent_per_s: 500.0,
                lag: report.lag.distribution,
                service: report.service.distribution,
                begun_late_ns: 0,
                cpu_ns: 0,
                cpu_taken_by_others,
            };
            report.processes = taken.into_iter().enumerate().map(process).collect();
            with_clients(judge(&report, None), &report, PHASES)
        };
        assert_eq!(judged([None, None]).kind, VerdictKind::Valid);
        let quiet = judged([None, Some(0.2)]);
        assert_eq!((quiet.kind, &*quiet.checks.last().unwrap().name), (VerdictKind::Valid, TAKEN_FROM_RANK_1));
        let crowded = judged([Some(0.0), Some(0.4)]);
        assert!(crowded.kind == VerdictKind::ClientLimited && crowded.is_the_machine_s());
        assert_eq!(crowded.reason, format!("{TAKEN_FROM_RANK_1}: 0.400 exceeds the limit of 0.250"));
        let failed = Verdict::failed("x");
        assert_eq!(with_clients(failed.clone(), &healthy(), PHASES), failed);
    }

    /// Half a second before the window.
    const PHASES: Phases = Phases { ramp_ns: 200_000_000, hold_ns: 300_000_000, measure_ns: 1, drain_ns: 0 };

    #[test]
    fn a_client_that_is_told_too_late_when_to_begin_is_shown_and_beyond_what_can_be_made_up_for_the_limit() {
        let judged = |begun_late_ns: u64, phases: Phases| {
            let report = LoadReport { begun_late_ns, ..healthy() };
            with_clients(judge(&report, None), &report, phases)
        };
        let is_it = |check: &&Check| check.name.contains("too late when to begin");
        assert_eq!(judged(0, PHASES).checks.iter().find(is_it), None);
        let late = judged(250_000_000, PHASES);
        assert_eq!((late.kind, late.checks.iter().find(is_it).unwrap().value), (VerdictKind::Valid, 250.0));
        let late = judged(251_000_000, PHASES);
        assert_eq!(late.kind, VerdictKind::ClientLimited);
        assert!(late.reason.ends_with("when to begin 251 ms exceeds the limit of 250 ms"), "{}", late.reason);
        // The window begins at once.
        assert_eq!(judged(1, Phases { ramp_ns: 0, hold_ns: 0, ..PHASES }).kind, VerdictKind::ClientLimited);
    }

    const TAKEN_FROM_RANK_1: &str = "share of the client's CPUs taken by others, rank 1 on node1";

    #[test]
    fn a_healthy_trial_is_valid_and_so_is_one_with_a_hiccup() {
        assert_eq!(kind(|_| ()), VerdictKind::Valid);
        assert_eq!(kind(|r| r.lag = with_tail(200, 900, 9_000_000)), VerdictKind::Valid);
        assert_eq!(
            kind(|r| r.service.p50_by_part_ns[PARTS - 1] = 8_000_000),
            VerdictKind::Valid,
            "one part is no trend"
        );
        assert_eq!(kind(|r| r.outstanding.at_end = 9), VerdictKind::Valid);
    }

    #[test]
    fn requests_that_pile_up_are_the_server_s() {
        let kind_of = |r: &mut LoadReport| {
            r.rate_achieved_per_s = 600.0;
            r.outstanding = Outstanding { at_start: 50, at_end: 400, after_drain: 0 };
        };
        assert_eq!(kind(kind_of), VerdictKind::Saturated);
        let late_as_well = |r: &mut LoadReport| {
            kind_of(r);
            r.lag = measured([5_000_000; 10]);
        };
        let mut both = healthy();
        late_as_well(&mut both);
        let busy = |share: f64| ServerCounters {
            window_ns: 1_000_000_000,
            totals: server::metrics::counters::Totals { cpu_system_ns: (share * 1e9) as u64, ..Default::default() },
            ..Default::default()
        };
        assert_eq!(judge(&both, Some(&side(&busy(0.9), 1))).kind, VerdictKind::Saturated);
        assert_eq!(judge(&both, Some(&side(&busy(0.2), 1))).kind, VerdictKind::ClientLimited, "it had time to spare");
        assert_eq!(judge(&both, None).kind, VerdictKind::ClientLimited, "nobody is blamed without a proof");
        let growing = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|ms| ms * 1_000_000);
        assert_eq!(kind(|r| r.service = measured(growing)), VerdictKind::Saturated);
        assert_eq!(kind(|r| r.outstanding.after_drain = 100), VerdictKind::Saturated);
    }

    #[test]
    fn sessions_that_wait_for_a_connection_are_the_server_s() {
        let measured = measured([50_000; 10]);
        let churn = ChurnReport {
            calls_per_connection: 1,
            opened: 300,
            opened_per_s: 300.0,
            waited: 690,
            sources: 1,
            connect: measured.clone(),
            first_byte: measured,
        };
        let saturated = |churn: Option<ChurnReport>| {
            move |r: &mut LoadReport| {
                (r.rate_sent_per_s, r.rate_achieved_per_s, r.churn) = (300.0, 300.0, churn);
                (r.sent, r.completed) = (300, 300);
                r.outstanding = Outstanding { at_start: 10, at_end: 700, after_drain: 600 };
            }
        };
        assert_eq!(
            kind(saturated(Some(churn.clone()))),
            VerdictKind::Saturated,
            "what is sent late is not the client's"
        );
        assert_eq!(kind(saturated(None)), VerdictKind::ClientLimited, "where connections stay it is");
        let late = |r: &mut LoadReport| (r.churn, r.lag) = (Some(churn), tests::measured([2_000_000; 10]));
        assert_eq!(kind(late), VerdictKind::ClientLimited, "but that it is late is");
    }

    #[test]
    fn lateness_without_a_pile_is_the_client_s() {
        assert_eq!(kind(|r| r.lag = measured([2_000_000; 10])), VerdictKind::ClientLimited);
        let behind = |r: &mut LoadReport| {
            r.rate_sent_per_s = 900.0;
            r.rate_achieved_per_s = 899.0;
            r.lag.p50_by_part_ns[PARTS - 1] = 100_000_000;
        };
        assert_eq!(kind(behind), VerdictKind::ClientLimited);
    }

    /// A time of 100 000 requests, so many of which took longer.
    fn with_tail(usual_ns: u64, tail: u64, tail_ns: u64) -> Measured {
        let mut measured = measured([usual_ns; 10]);
        measured.histogram = (0..100_000).map(|at| if at < tail { tail_ns } else { usual_ns }).collect();
        measured.distribution = measured.histogram.distribution();
        measured
    }

    #[test]
    fn late_tail_of_sends_is_client_limited() {
        let verdict = |late: u64, delay_ns: u64| {
            let lag = with_tail(1_000, late, delay_ns);
            // The client's own bursts do not raise the limit.
            let late = LateSends {
                on_time_p99_ns: Some(60_000),
                ..LateSends::of(&lag.histogram, &healthy().service.histogram)
            };
            judge(
                &LoadReport { lag, late: Some(late), service: with_tail(50_000, 3_000, 90_000_000), ..healthy() },
                None,
            )
        };
        for delay_ns in [3_000_000, 44_000_000] {
            let late = verdict(1_100, delay_ns);
            assert_eq!(late.kind, VerdictKind::ClientLimited, "{}", late.reason);
            assert!(late.is_the_machine_s());
        }
        let reason = verdict(1_100, 44_000_000).reason;
        assert!(
            reason.starts_with("send delay p99 44") && reason.contains(" ms exceeds the limit of 1 ms"),
            "{reason}"
        );
        assert_eq!(verdict(90, 44_000_000).kind, VerdictKind::Valid, "a hiccup is no late client");
        assert_eq!(verdict(990, 44_000_000).kind, VerdictKind::Valid, "its p99.9 is as slow as the server's");
        let rare = LoadReport { lag: with_tail(1_000, 990, 44_000_000), ..healthy() };
        assert!(judge(&rare, None).reason.starts_with("send delay p99.9 44"), "it is not");
        assert_eq!(verdict(5_001, 200_000).kind, VerdictKind::ClientLimited, "many are a little late");
        assert_eq!(verdict(5_000, 200_000).kind, VerdictKind::Valid);
    }

    #[test]
    fn receiver_that_is_always_busy_limits_the_client() {
        let piled_up = |busy: f64, server: f64, spins: bool| {
            let mut report = healthy();
            report.outstanding = Outstanding { at_start: 5, at_end: 400, after_drain: 0 };
            report.receiver_busy_share = Some(busy);
            let counters = used(server);
            judge(&report, Some(&ServerSide { spins, ..side(&counters, 1) })).kind
        };
        assert_eq!(piled_up(0.5, 0.5, false), VerdictKind::Saturated);
        assert_eq!(piled_up(0.99, 0.5, false), VerdictKind::ClientLimited);
        assert_eq!(piled_up(0.99, 0.85, false), VerdictKind::ClientLimited, "the server has more to spare");
        assert_eq!(piled_up(0.99, 0.99, false), VerdictKind::Saturated, "neither has any");
        assert_eq!(piled_up(0.99, 0.99, true), VerdictKind::ClientLimited);
        assert_eq!(kind(|r| r.receiver_busy_share = Some(0.99)), VerdictKind::ClientLimited, "times wait there too");
    }

    #[test]
    fn late_process_is_not_hidden_in_the_p99_of_all() {
        let mut report = healthy();
        let process = |lag: Measured| ProcessReport {
            place: String::new(),
            connections: 2,
            planned: 200,
            completed: 200,
            rate_sent_per_s: 200.0,
            lag: lag.distribution,
            service: report.service.distribution,
            cpu_ns: 0,
            begun_late_ns: 0,
            cpu_taken_by_others: None,
        };
        report.processes = vec![process(with_tail(200, 0, 0)), process(with_tail(200, 2_000, 44_000_000))];
        let verdict = judge(&report, None);
        assert_eq!(verdict.kind, VerdictKind::ClientLimited);
        assert!(
            verdict.reason.starts_with("send delay p99 of the client that was latest, client 2 44"),
            "{}",
            verdict.reason
        );
    }

    #[test]
    fn tail_of_a_late_client_is_told_in_a_valid_trial() {
        let verdict = judge(&LoadReport { lag: with_tail(200, 900, 900_000), ..healthy() }, None);
        assert_eq!(verdict.kind, VerdictKind::Valid);
        assert!(
            verdict
                .reason
                .ends_with("its p99 may be the client's, which sent 0.90 % of the requests more than 0.1 ms late")
        );
        assert!(!judge(&healthy(), None).reason.contains("may be"));
    }

    #[test]
    fn stalled_client_is_limited_or_its_tails_are_marked() {
        let closed = ClosedReport { unsampled: 0, busy_share: 0.5, cpus: 1, think_ns: 0 };
        let closed = LoadReport { rate_asked_per_s: None, closed: Some(closed), ..healthy() };
        let two_threads = LoadReport { roles: Roles::TwoThreads, ..healthy() };
        for report in [closed, two_threads] {
            let stalled = |share: f64| LoadReport { stalled_ns: Some((share * 1e9) as u64), ..report.clone() };
            let verdict = judge(&stalled(0.1), None);
            assert_eq!(verdict.kind, VerdictKind::ClientLimited);
            let reason = "share of the window in which the client was stalled: 0.100 exceeds the limit of 0.050";
            assert_eq!(verdict.reason, reason);
            let (marked, clean) = (stalled(0.01), stalled(0.0));
            assert_eq!(judge(&marked, None).kind, VerdictKind::Valid);
            let reason = judge(&marked, None).reason;
            assert!(
                reason.ends_with("p99 may be the client's, which was stalled for 1.00 % of the window"),
                "{reason}"
            );
            assert!(marked.is_client_tail(0.99) && !marked.is_client_tail(0.5));
            assert!(!clean.is_client_tail(0.99) && !judge(&clean, None).reason.contains("may be"));
        }
        let mut working = LoadReport {
            rate_asked_per_s: None,
            closed: Some(ClosedReport { unsampled: 0, busy_share: 0.94, cpus: 1, think_ns: 0 }),
            stalled_ns: Some(300_000_000),
            ..healthy()
        };
        assert_eq!(judge(&working, None).kind, VerdictKind::Valid, "the meter waited for the client's own work");
        working.stalled_ns = Some(60_000_000);
        assert_eq!(judge(&working, None).kind, VerdictKind::ClientLimited);
        let streams = |share: f64| LoadReport { stalled_ns: Some((share * 1e9) as u64), ..streaming() };
        assert_eq!(
            [0.1, 0.01].map(|share| judge(&streams(share), None).kind),
            [VerdictKind::ClientLimited, VerdictKind::Valid]
        );
    }

    #[test]
    fn run_stored_earlier_has_its_quantiles_and_late_sends() {
        let report = LoadReport { lag: with_tail(200, 900, 900_000), ..healthy() };
        let mut old = serde_json::to_value(&report).unwrap();
        for name in ["p90_ns", "p95_ns"] {
            old["service"]["distribution"].as_object_mut().unwrap().remove(name).unwrap();
        }
        assert!(old.get("late").is_none() && old.get("receiver_busy_share").is_none());
        let read: LoadReport = serde_json::from_value(old).unwrap();
        assert_eq!(read.service.distribution, report.service.distribution);
        assert_eq!((read.late_sends().count, read.is_client_tail(0.99), read.is_client_tail(0.9)), (900, true, false));
    }

    #[test]
    fn spinning_server_is_not_blamed_for_a_late_client() {
        // A client that is stopped for five sixths of the time.
        let mut report = healthy();
        report.lag = measured([5_000_000; 10]);
        report.outstanding = Outstanding { at_start: 5, at_end: 400, after_drain: 0 };
        report.rate_achieved_per_s = 600.0;
        let counters = used(0.99);
        let of =
            |report: &LoadReport, spins: bool| judge(report, Some(&ServerSide { spins, ..side(&counters, 1) })).kind;
        assert_eq!(of(&report, false), VerdictKind::Saturated);
        assert_eq!(of(&report, true), VerdictKind::ClientLimited, "spinning is no proof of work");
        report.lag = measured([200; 10]);
        assert_eq!(of(&report, true), VerdictKind::Saturated, "the client was on time");
    }

    #[test]
    fn parts_without_requests_are_not_a_fast_beginning() {
        let judged = |parts: &dyn Fn(usize) -> u64| {
            let mut report = healthy();
            report.service.p50_by_part_ns = std::array::from_fn(parts);
            report.service.p90_by_part_ns = report.service.p50_by_part_ns;
            judge(&report, None)
        };
        let sparse = judged(&|part| if part < 2 { 0 } else { 20_000_000 });
        assert_eq!(sparse.kind, VerdictKind::Valid, "{}", sparse.reason);
        assert_eq!(judged(&|part| if part < 2 { 0 } else { 20_000_000 * part as u64 }).kind, VerdictKind::Saturated);
        assert_ne!(judged(&|part| if part < 23 { 20_000_000 } else { 0 }).kind, VerdictKind::Saturated);
        assert_eq!(judged(&|_| 0).kind, VerdictKind::Valid, "nothing is known of any");
        // Few requests: that two in a row are fast is chance.
        let few = judged(&|part| [0, 900_000, 800_000, 9_000_000, 0][part % 5] + 100_000 * u64::from(part > 25));
        assert_ne!(few.kind, VerdictKind::Saturated, "{}", few.reason);
    }

    #[test]
    fn a_server_beyond_its_capacity_is_saturated_though_the_client_is_late_too() {
        let mut report = healthy();
        report.rate_asked_per_s = Some(2_000.0);
        report.planned = 2_000;
        report.lag = measured([100_000_000; 10]);
        let counters = |busy: f64| {
            let mut counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
            counters.totals.requests = Some(1_000);
            counters.totals.cpu_system_ns = (busy * 1e9) as u64;
            counters
        };
        assert_eq!(judge(&report, Some(&side(&counters(0.9), 1))).kind, VerdictKind::Saturated);
        assert_eq!(
            judge(&report, Some(&side(&counters(0.3), 1))).kind,
            VerdictKind::ClientLimited,
            "it had time to spare"
        );
        assert_eq!(
            judge(&report, Some(&side(&counters(0.9), 2))).kind,
            VerdictKind::ClientLimited,
            "on one of two CPUs"
        );
        report.rate_asked_per_s = Some(1_000.0);
        report.planned = 1_000;
        report.lag = measured([200; 10]);
        assert_eq!(judge(&report, Some(&side(&counters(0.99), 1))).kind, VerdictKind::Valid, "busy, and keeps up");
    }

    #[test]
    fn errors_and_too_little_fail() {
        assert_eq!(kind(|r| r.errors.reset = 1), VerdictKind::Failed);
        assert_eq!(kind(|r| r.errors.wrong = 1), VerdictKind::Failed);
        assert_eq!(kind(|r| r.errors.timeout = 5), VerdictKind::Failed);
        assert_eq!(kind(|r| r.planned = 5), VerdictKind::Failed);
    }

    #[test]
    fn reasons_carry_the_numbers() {
        let mut report = healthy();
        report.outstanding = Outstanding { at_start: 50, at_end: 400, after_drain: 7 };
        let reason = judge(&report, None).reason;
        assert_eq!(reason, "requests added to the outstanding over the window: 350 exceeds the limit of 20");
    }

    #[test]
    fn sends_that_do_not_follow_their_plan_are_the_client_s() {
        assert_eq!(kind(|r| r.fit = Some(fit(0.4, 1e-9))), VerdictKind::ClientLimited);
        assert_eq!(kind(|r| r.fit = Some(fit(0.4, 0.2))), VerdictKind::Valid, "it may be chance");
        assert_eq!(kind(|r| r.fit = Some(fit(0.1, 1e-9))), VerdictKind::Valid, "too little to matter");
        assert_eq!(kind(|r| r.fit = None), VerdictKind::Valid, "too few to say");
    }

    #[test]
    fn a_server_that_slows_down_is_unsteady() {
        let slower = |factor: u64| {
            move |r: &mut LoadReport| {
                let tenths =
                    std::array::from_fn(|tenth| 50_000 + 100 * tenth as u64 * if tenth < 5 { 1 } else { factor });
                r.service = measured(tenths);
            }
        };
        assert_eq!(kind(slower(1)), VerdictKind::Valid, "a trend of 2 % is none that matters");
        assert_eq!(kind(slower(100)), VerdictKind::Unsteady);
        let step = [50, 51, 50, 49, 50, 90, 91, 90, 89, 90].map(|us| us * 1_000);
        let mut report = healthy();
        report.service = measured(step);
        let verdict = judge(&report, None);
        assert_eq!(verdict.kind, VerdictKind::Unsteady);
        assert!(verdict.reason.contains("Pettitt change-point test): 0.800 (p "), "{}", verdict.reason);
    }

    #[test]
    fn a_server_that_slows_down_for_a_while_is_unsteady() {
        // A third in the middle, a quarter at the end, an eighth at the beginning.
        for slow in [11..21, 24..32, 0..4] {
            let mut report = healthy();
            report.service.p50_by_part_ns =
                std::array::from_fn(
                    |part| if slow.contains(&part) { 500_000 } else { 50_000 + 500 * (part as u64 % 3) },
                );
            assert_eq!(judge(&report, None).kind, VerdictKind::Unsteady, "{slow:?}");
        }
    }

    #[test]
    fn many_slow_requests_that_leave_the_median_alone_are_seen() {
        let mut report = healthy();
        report.service.p90_by_part_ns = std::array::from_fn(|part| if part < PARTS / 2 { 60_000 } else { 500_000 });
        let verdict = judge(&report, None);
        assert_eq!(verdict.kind, VerdictKind::Unsteady);
        assert!(verdict.reason.starts_with("shift of the 90th percentile"), "{}", verdict.reason);
    }

    #[test]
    fn what_the_machine_did_says_nothing_against_the_server() {
        let mut late = healthy();
        late.lag = measured([2_000_000; 10]);
        assert!(judge(&late, None).is_the_machine_s());
        let counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
        assert!(judge(&healthy(), Some(&ServerSide { taken: Some(0.6), ..side(&counters, 1) })).is_the_machine_s());
        late.outstanding.at_end = 500;
        assert!(!judge(&late, None).is_the_machine_s(), "it may have been the server as well");
        assert!(!judge(&healthy(), None).is_the_machine_s(), "nothing was wrong");
    }

    #[test]
    fn a_server_whose_cpu_others_take_is_not_believed() {
        let counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
        let of = |taken| judge(&healthy(), Some(&ServerSide { taken, ..side(&counters, 1) })).kind;
        assert_eq!(
            [of(None), of(Some(0.1)), of(Some(0.6))],
            [VerdictKind::Valid, VerdictKind::Valid, VerdictKind::Unsteady]
        );
    }

    #[test]
    fn datagrams_that_are_lost_fail_the_trial() {
        let one = |r: &mut LoadReport| r.errors.timeout = 1;
        assert_eq!(kind(one), VerdictKind::Valid);
        let mut report = healthy();
        report.transport = Transport::Udp;
        one(&mut report);
        assert_eq!(judge(&report, None).kind, VerdictKind::Failed);
    }

    #[test]
    fn a_datagram_in_a_hundred_may_be_lost() {
        let report = |lost: u64, dropped: Option<u64>| {
            let mut report = healthy();
            report.transport = Transport::Udp;
            report.outstanding.after_drain = lost;
            report.datagrams = Some(DatagramReport { ports: 10, lost, duplicates: 0, reordered: 0, dropped });
            report
        };
        let planned = healthy().planned;
        let kind = |lost, dropped| judge(&report(lost, dropped), None).kind;
        assert_eq!(kind(planned / 100, Some(0)), VerdictKind::Valid);
        assert_eq!(kind(planned / 100 + 1, None), VerdictKind::Saturated);
        assert_eq!(kind(planned / 100 + 1, Some(planned)), VerdictKind::ClientLimited, "they came, and found no room");
        let mut unreachable = report(0, None);
        unreachable.errors.unreachable = 1;
        assert_eq!(judge(&unreachable, None).kind, VerdictKind::Failed);
    }

    #[test]
    fn a_trial_with_fewer_idle_connections_than_planned_is_another_trial() {
        let with = |alive| {
            let idle = IdleReport { held: 30, alive, processes: 1, ..IdleReport::default() };
            with_idle(judge(&healthy(), None), Some(&idle))
        };
        assert_eq!(with(30).kind, VerdictKind::Valid);
        let dead = with(29);
        assert_eq!(dead.kind, VerdictKind::Failed);
        assert_eq!(dead.reason, "idle connections alive at the end: 29 is below the limit of 30");
        let failed = with_idle(Verdict::failed("another reason"), Some(&IdleReport::default()));
        assert_eq!((failed.kind, failed.reason.as_str()), (VerdictKind::Failed, "another reason"));
    }

    #[test]
    fn a_trial_whose_relay_could_not_keep_up_does_not_count() {
        use crate::model::network::Measured;
        use crate::model::network::{Applied, Means};

        let asked = Network { delay: crate::spec::units::Time(10_000_000), ..Network::default() };
        let with_links = |links, relay| {
            let report = NetworkReport {
                applied: Applied { links, delay: Some(Means::Tun), loss: None, bandwidth: None },
                setup_ns: 1,
                measured: Measured {
                    round_trips: 200,
                    round_trip_p50_ns: 20_100_000,
                    round_trip_p99_ns: 20_500_000,
                    host: None,
                    sent: 2_000,
                    lost: 0,
                    bandwidth_bits_per_s: None,
                },
                relay,
            };
            with_network(judge(&healthy(), None), Some(&asked), Some(&report))
        };
        let with = |relay| with_links(Links::Tun, relay);
        let account = RelayCounts { packets: 20_000, lost: 0, dropped: 2, late_p50_ns: 60_000, late_p99_ns: 400_000 };
        let kept_up = with(Some(account));
        assert_eq!(kept_up.kind, VerdictKind::Valid);
        let of_relay: Vec<Check> = kept_up.checks.into_iter().filter(|it| it.name.contains("relay")).collect();
        insta::assert_snapshot!(listed(&of_relay));
        let by_kernel = with_links(Links::Veth, None);
        assert_eq!(by_kernel.kind, VerdictKind::Valid, "where the kernel does it all there is nothing to ask");
        let silent = with(None);
        assert_eq!(silent.kind, VerdictKind::Failed, "{}", silent.reason);
        for (worse, why) in [
            (
                RelayCounts { dropped: 57, ..account },
                "packets that the lab's relay dropped, unasked: 57 exceeds the limit of 2",
            ),
            (
                RelayCounts { late_p50_ns: 2_500_000, ..account },
                "median by which the lab's relay was late 2.5 ms exceeds the limit of 1.5 ms",
            ),
            (
                RelayCounts { late_p99_ns: 90_000_000, ..account },
                "99th percentile by which the lab's relay was late 90 ms exceeds the limit of 15 ms",
            ),
        ] {
            let verdict = with(Some(worse));
            assert_eq!((verdict.kind, verdict.reason.as_str()), (VerdictKind::Failed, why));
        }
    }

    #[test]
    fn a_client_s_host_that_is_cut_off_is_told_by_its_number() {
        use crate::model::network::Measured;
        use crate::model::network::{Applied, Means};

        let bandwidth = crate::spec::units::Bandwidth(100_000_000);
        let asked = Network { bandwidth: Some(bandwidth), .."lab:clients=5".parse().unwrap() };
        let reason = |host, lost, from_server| {
            let report = NetworkReport {
                applied: Applied { links: Links::Veth, delay: None, loss: None, bandwidth: Some(Means::Tbf) },
                setup_ns: 1,
                measured: Measured {
                    round_trips: 200,
                    round_trip_p50_ns: 100_000,
                    round_trip_p99_ns: 200_000,
                    host,
                    sent: 2_000,
                    lost,
                    bandwidth_bits_per_s: Some([99e6, from_server]),
                },
                relay: None,
            };
            with_network(judge(&healthy(), None), Some(&asked), Some(&report)).reason
        };
        assert!(!reason(Some(3), 0, 99e6).contains("lab"), "it does what was asked");
        let told = reason(Some(3), 200, 99e6);
        assert!(
            told.starts_with("share of datagrams that the lab lost (client's host 3): 0.100 exceeds the limit of "),
            "{told}"
        );
        let told = reason(Some(4), 0, 50e6);
        assert!(
            told.starts_with("bandwidth from the lab's server (client's host 4) 50 Mbit/s is below the limit of"),
            "{told}"
        );
        let told = reason(None, 0, 50e6);
        assert!(told.starts_with("bandwidth from the lab's server 50 Mbit/s is below the limit of"), "{told}");
    }

    /// A healthy trial of a closed loop.
    fn closed() -> LoadReport {
        let closed = ClosedReport { unsampled: 0, busy_share: 0.5, cpus: 1, think_ns: 0 };
        LoadReport {
            rate_asked_per_s: None,
            pacing: None,
            fit: None,
            completed_by_part: Some(std::array::from_fn(|part| 1_000 + part as u64 % 3)),
            closed: Some(closed),
            ..healthy()
        }
    }

    /// A server that used such a share of its one CPU.
    fn used(share: f64) -> ServerCounters {
        let mut counters = ServerCounters { window_ns: 1_000_000_000, ..ServerCounters::default() };
        counters.totals.cpu_system_ns = (share * 1e9) as u64;
        counters
    }

    #[test]
    fn a_closed_loop_is_the_client_s_when_it_alone_has_no_cpu_to_spare() {
        let of = |client: f64, server: Option<f64>| {
            let mut report = closed();
            report.closed.as_mut().unwrap().busy_share = client;
            let counters = server.map(used);
            judge(&report, counters.as_ref().map(|counters| side(counters, 1)).as_ref()).kind
        };
        assert_eq!(of(0.5, None), VerdictKind::Valid);
        assert_eq!(of(0.5, Some(0.99)), VerdictKind::Valid, "the server is what is measured");
        assert_eq!(of(0.5, Some(0.5)), VerdictKind::Valid, "it waits for something else than a CPU");
        assert_eq!(of(0.99, Some(0.5)), VerdictKind::ClientLimited);
        assert_eq!(of(0.99, Some(0.99)), VerdictKind::Valid, "the server had none either");
        assert_eq!(of(0.99, None), VerdictKind::ClientLimited, "nothing says that it was the server");
    }

    #[test]
    fn a_closed_loop_is_never_saturated_and_may_be_late_or_wrong() {
        let kind = |change: fn(&mut LoadReport)| {
            let mut report = closed();
            change(&mut report);
            judge(&report, Some(&side(&used(0.99), 1))).kind
        };
        assert_eq!(
            kind(|r| r.outstanding = Outstanding { at_start: 10, at_end: 500, after_drain: 0 }),
            VerdictKind::Valid
        );
        assert_eq!(kind(|r| r.lag = measured([200_000; 10])), VerdictKind::ClientLimited);
        let thinking = |r: &mut LoadReport| {
            r.lag = measured([200_000; 10]);
            r.closed.as_mut().unwrap().think_ns = 1_000_000;
        };
        assert_eq!(kind(thinking), VerdictKind::Valid, "little against the time to think");
        assert_eq!(kind(|r| r.errors.miss = 1), VerdictKind::Failed);
        assert_eq!(kind(|r| r.errors.rejected = 1), VerdictKind::Failed);
        assert_eq!(kind(|r| r.planned = 5), VerdictKind::Failed);
    }

    #[test]
    fn a_closed_loop_whose_rate_changes_is_unsteady() {
        let kind = |change: fn(usize) -> u64| {
            let mut report = closed();
            report.completed_by_part = Some(std::array::from_fn(change));
            judge(&report, None).kind
        };
        assert_eq!(kind(|part| 1_000 + part as u64), VerdictKind::Valid);
        assert_eq!(kind(|part| 1_000 + 40 * part as u64), VerdictKind::Unsteady, "it doubles");
        assert_eq!(kind(|part| if part < 16 { 1_000 } else { 600 }), VerdictKind::Unsteady, "it falls by 40 %");
        assert_eq!(kind(|part| if part < 16 { 1_000 } else { 800 }), VerdictKind::Valid);
        assert_eq!(kind(|part| if (11..21).contains(&part) { 300 } else { 1_000 }), VerdictKind::Unsteady);
        assert_eq!(kind(|part| if part == 7 { 100 } else { 1_000 }), VerdictKind::Valid, "a hiccup");
    }

    #[test]
    fn every_verdict_of_a_closed_loop_lists_every_check_with_its_limit() {
        insta::assert_snapshot!(listed(&judge(&closed(), None).checks));
    }

    #[test]
    fn every_verdict_lists_every_check_with_its_limit() {
        let checks = judge(&healthy(), None).checks;
        insta::assert_snapshot!(listed(&checks));
        assert!(checks.iter().all(|check| check.passed));
        let mut names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), checks.len());
    }

    fn listed(checks: &[Check]) -> String {
        let shown = checks
            .iter()
            .map(|c| format!("{}: {} {:?} {} {} -> {:?}", c.name, c.value, c.bound, c.limit, c.unit, c.decides));
        shown.collect::<Vec<_>>().join("\n")
    }
}
