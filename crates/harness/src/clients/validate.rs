//! Rejects impossible reports of clients, because merging adds their counts and renumbers their connections.

use load::Sample;
use load::result::merge::Account;
use serde_json::Value;
use traffic::samples::TIME_NS_MAX;

/// The limit of every number in a report. The sum of 2,000 such counts or times fits in 64 bits.
const FIGURE_MAX: f64 = TIME_NS_MAX as f64;

/// Checks a report and its samples. An error names the first impossible figure.
pub(super) fn check(account: &Account, samples: &[Sample]) -> Result<(), String> {
    let Account { config, report, .. } = account;
    let whole = serde_json::to_value(report).map_err(|error| error.to_string())?;
    check_figures("", &whole)?;
    if report.window_ns == 0 {
        return Err("window_ns is 0".to_owned());
    }
    if let Some(stalled_ns) = report.stalled_ns.filter(|&ns| ns > report.window_ns) {
        return Err(format!("stalled_ns is {stalled_ns}, longer than the window of {} ns", report.window_ns));
    }
    let connections = config.connections;
    for (name, count) in [
        ("connections", Some(report.connections)),
        ("active", Some(report.active)),
        // Each thread of a client has at least one connection.
        ("closed.cpus", report.closed.as_ref().map(|it| it.cpus)),
        ("datagrams.ports", report.datagrams.as_ref().map(|it| it.ports)),
        ("stream.ended", report.stream.as_ref().map(|it| it.ended)),
    ] {
        if let Some(count) = count.filter(|count| *count > connections) {
            return Err(format!("{name} is {count}, but the client has only {connections} connections"));
        }
    }
    if let Some(stream) = &report.stream {
        // The last second may be incomplete.
        let (count, seconds) = (stream.bytes_by_second.len(), report.window_ns.div_ceil(1_000_000_000));
        if count as u64 > seconds {
            return Err(format!("stream.bytes_by_second has {count} seconds, more than the {seconds} of the window"));
        }
        if !(stream.fairness > 0.0 && stream.fairness <= 1.0 + 1e-6) {
            return Err(format!("stream.fairness is {}, not between 0 and 1", stream.fairness));
        }
    }
    traffic::samples::check(samples, connections)
}

/// Checks that every number in a report is small enough to be added.
fn check_figures(name: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(figure) if figure.abs() <= FIGURE_MAX => Ok(()),
            _ => Err(format!("{name} is {number}")),
        },
        Value::Array(all) => all.iter().try_for_each(|it| check_figures(name, it)),
        Value::Object(all) => all.iter().try_for_each(|(key, it)| {
            let dot = if name.is_empty() { "" } else { "." };
            check_figures(&format!("{name}{dot}{key}"), it)
        }),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use load::result::{ClosedResult, Outstanding, StreamResult};

    use load::{LoadConfig, LoadResult};

    use super::*;
    use crate::judge::tests::healthy;

    fn account(report: LoadResult) -> Account {
        let config = LoadConfig::small(([127, 0, 0, 1], 80)).with(|it| it.connections = 10);
        Account { config, machine: "a".into(), place: String::new(), report, cpus_used: None }
    }

    fn stream() -> StreamResult {
        StreamResult {
            bytes: 1_000,
            bytes_by_part: [0; load::result::PARTS],
            bytes_by_second: vec![1_000],
            fairness: 1.0,
            connection_bytes_min: 100,
            connection_bytes_max: 100,
            sent_bytes: 1_000,
            received_bytes: 10,
            ended: 10,
        }
    }

    #[test]
    fn impossible_figure_is_named() {
        let checked = |report| check(&account(report), &[]);
        assert_eq!(checked(healthy()), Ok(()));
        let with = |stream| LoadResult { stream: Some(stream), ..healthy() };
        assert_eq!(checked(with(stream())), Ok(()));
        let closed = |cpus| ClosedResult { unsampled: 0, busy_share: 0.5, cpus, think_ns: 0 };
        assert_eq!(checked(LoadResult { closed: Some(closed(10)), ..healthy() }), Ok(()));
        for (report, expected) in [
            (LoadResult { planned: u64::MAX, ..healthy() }, "planned is 18446744073709551615"),
            (LoadResult { rate_sent_per_s: 1e300, ..healthy() }, "rate_sent_per_s is 1e"),
            (
                LoadResult { outstanding: Outstanding { at_end: 1 << 54, ..Outstanding::default() }, ..healthy() },
                "outstanding.at_end is",
            ),
            (LoadResult { window_ns: 0, ..healthy() }, "window_ns is 0"),
            (LoadResult { stalled_ns: Some(1_000_000_001), ..healthy() }, "stalled_ns is 1000000001"),
            (LoadResult { connections: 11, ..healthy() }, "connections is 11, but the client has only 10"),
            (LoadResult { active: u32::MAX, ..healthy() }, "active is 4294967295"),
            (LoadResult { closed: Some(closed(u32::MAX)), ..healthy() }, "closed.cpus is 4294967295"),
            (with(StreamResult { ended: 11, ..stream() }), "stream.ended is 11"),
            (with(StreamResult { fairness: 0.0, ..stream() }), "stream.fairness is 0"),
            (with(StreamResult { bytes_by_second: vec![0; 2], ..stream() }), "stream.bytes_by_second has 2 seconds"),
            (with(StreamResult { bytes_by_second: vec![u64::MAX], ..stream() }), "stream.bytes_by_second is"),
        ] {
            let why = checked(report).unwrap_err();
            assert!(why.starts_with(expected), "expected {expected}: {why}");
        }
    }

    #[test]
    fn sample_with_impossible_number_or_time_is_rejected() {
        let checked = |sample| check(&account(healthy()), &[sample]);
        let sample = Sample { planned_ns: -5, sent_ns: 7, connection: 9, ..Sample::UNKNOWN };
        assert_eq!(checked(sample), Ok(()));
        assert!(checked(Sample { connection: 10, ..sample }).unwrap_err().contains("connection 10"));
        for ns in [i64::MIN, i64::MAX - 1, -(1 << 54)] {
            assert!(checked(Sample { planned_ns: ns, ..sample }).unwrap_err().contains(&ns.to_string()));
            assert!(checked(Sample { arrived_ns: ns, ..sample }).is_err());
        }
    }
}
