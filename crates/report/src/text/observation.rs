//! The observed traffic of a server.

use stats::Distribution;
use traffic::observe::Observation;
use traffic::observe::estimate::{Connections, MessageSize, Requests};
use traffic::observe::traffic::SizeDistribution;

use crate::format::{bandwidth, bytes, digits, percent, time};
use crate::text::medium::hanging;
use crate::text::{Medium, table};

/// Renders the traffic, the traffic that the observation cannot see, and the next commands.
pub fn render(observation: &Observation, next: &[String], medium: Medium) -> String {
    let Observation { port, window_ns, connections, requests, .. } = observation;
    let mut rows = rows_of_connections(connections, *window_ns);
    rows.push(("bytes", rates_of_bytes(observation)));
    match requests {
        Some(requests) => rows.extend(rows_of_requests(requests)),
        None => rows.push(("requests", "none".to_owned())),
    }
    rows.extend(rows_of_times(observation));
    let rows = rows.into_iter().map(|(name, text)| vec![name.to_owned(), text]);
    let mut text = vec![
        medium.heading(&format!("Traffic of port {port}, observed for {}", time(*window_ns as f64))),
        String::new(),
        table::of_words(["figure", "value"], rows, medium),
        String::new(),
        medium.prose("Not visible:"),
    ];
    text.extend(
        observation.unseen.iter().map(|sentence| hanging("- ", sentence, medium.width()).trim_end().to_owned()),
    );
    if !next.is_empty() {
        text.extend([String::new(), medium.prose("Next:"), medium.verbatim(&indented(next))]);
    }
    medium.finished(text.join("\n") + "\n")
}

fn indented(commands: &[String]) -> String {
    commands.iter().map(|command| format!("  {command}")).collect::<Vec<_>>().join("\n")
}

type Row = (&'static str, String);

fn rows_of_connections(connections: &Connections, window_ns: u64) -> Vec<Row> {
    let Connections { open, opened, ended, persistent, moved, active_share } = connections;
    let per_s = |count: &usize| digits(*count as f64 * 1e9 / window_ns.max(1) as f64);
    let mut rows = vec![
        ("connections", format!("{} at the start, {} at the end, at most {}", open.start, open.end, open.max)),
        ("new, ended", format!("{}/s, {}/s ({opened} and {ended})", per_s(opened), per_s(ended))),
    ];
    if let Some(share) = active_share {
        let share = percent((share * 1e3).round() / 1e3);
        rows.push(("active share", format!("{share}: {moved} of {persistent} lasting connections moved data")));
    }
    rows
}

fn rates_of_bytes(observation: &Observation) -> String {
    let Observation { window_ns, received_bytes, sent_bytes, .. } = observation;
    let per_s = |count: u64| bandwidth(count as f64 * 1e9 / (*window_ns).max(1) as f64);
    format!("{} received, {} sent", per_s(*received_bytes), per_s(*sent_bytes))
}

fn rows_of_requests(requests: &Requests) -> Vec<Row> {
    let Requests { count, rate_per_s, request, response, short_lived_share, per_connection } = requests;
    let mut rows = vec![("requests", format!("{}/s ({count})", digits(*rate_per_s)))];
    for (name, name_of_sizes, it) in [("request", "request sizes", request), ("response", "response sizes", response)] {
        rows.push((name, message(it)));
        rows.extend(it.sizes.filter(|_| !it.is_constant).map(|it| (name_of_sizes, sizes(&it))));
    }
    if let Some(per_connection) = per_connection {
        let share = percent((short_lived_share * 1e3).round() / 1e3);
        rows.push(("short-lived", format!("{share} of the requests, {} a connection", digits(*per_connection))));
    }
    rows
}

fn message(message: &MessageSize) -> String {
    let size = bytes(message.bytes);
    let exact = if message.bytes < 1024.0 { size } else { format!("{size} ({:.0} B)", message.bytes) };
    let law = if message.is_constant { "each" } else { "on average" };
    format!("{exact} {law}, in {} segments", digits(message.segments))
}

/// Formats sizes in bytes, because they are exact.
fn sizes(sizes: &SizeDistribution) -> String {
    let SizeDistribution { min_bytes, p50_bytes, p90_bytes, p95_bytes, p99_bytes, max_bytes, .. } = sizes;
    format!("min {min_bytes}, p50 {p50_bytes}, p90 {p90_bytes}, p95 {p95_bytes}, p99 {p99_bytes}, max {max_bytes} B")
}

fn quantiles(times: &Distribution) -> String {
    let Distribution { p50_ns, p90_ns, p95_ns, p99_ns, .. } = times;
    let quantiles = [("p50", p50_ns), ("p90", p90_ns), ("p95", p95_ns), ("p99", p99_ns)];
    quantiles.map(|(name, ns)| format!("{name} {}", time(*ns as f64))).join(", ")
}

fn rows_of_times(observation: &Observation) -> Vec<Row> {
    let Observation { round_trip_ns, pause_mean_ns, pause, service, .. } = observation;
    let mut rows = Vec::new();
    rows.extend(round_trip_ns.map(|ns| ("round trip", format!("{}, the median", time(ns as f64)))));
    rows.extend(service.map(|it| ("service time", quantiles(&it))));
    rows.extend(match (pause, pause_mean_ns) {
        (Some(pause), _) => Some(("pause", quantiles(pause) + " from a response to the next request")),
        (None, Some(mean)) => {
            Some(("pause", format!("{} on average from a response to the next request", time(*mean))))
        }
        (None, None) => None,
    });
    rows
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use stats::Histogram;
    use traffic::observe::traffic::{Connection, Moves, OpenCounts, Traffic, Volume};

    use super::*;

    fn observed() -> Observation {
        let connection = |requests: u64| Connection {
            received: Volume { bytes: 128 * requests, segments: requests, turns: 0 },
            sent: Volume { bytes: 10_240 * requests + requests / 3, segments: 8 * requests, turns: 0 },
            round_trip_ns: Some(85_000),
            ..Connection::default()
        };
        let short = Connection { is_new: true, has_ended: true, ..connection(2) };
        let connections = [vec![connection(100); 100], vec![connection(0); 300], vec![short; 50]].concat();
        let open = OpenCounts { start: 400, end: 400, mean: 400.0, max: 402 };
        let mut traffic =
            Traffic { window_ns: 10_000_000_000, connections, open, awaiting: Some(0.5), ..Traffic::default() };
        traffic.received.add(128);
        (0..40).for_each(|at| traffic.sent.add(1_000 + at * at));
        Observation::of(NonZeroU16::new(8080).unwrap(), &traffic)
    }

    #[test]
    fn capture_shows_varied_sizes_and_all_percentiles() {
        let mut observed = observed();
        let requests = observed.requests.as_mut().unwrap();
        let mut moves = Moves::default();
        (1..=100).for_each(|at| moves.add(100 * at));
        requests.response.sizes = moves.sizes();
        observed.service = Some((1..=1_000).map(|at| at * 1_000).collect::<Histogram>().distribution());
        let text = render(&observed, &[], 120.into());
        let sizes = "min 100, p50 5000, p90 9000, p95 9500, p99 9900, max 10000 B";
        assert!(text.contains(&format!("response sizes  {sizes}\n")) && !text.contains("request sizes"), "{text}");
        assert!(text.contains("service time    p50 500 µs, p90 900 µs, p95 950 µs, p99 990 µs"), "{text}");
        let text = render(&observed, &[], 80.into());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn observation_fits_80_columns() {
        let next =
            ["muxbench compare observed.toml".to_owned(), "muxbench capacity observed.toml --p99 1ms".to_owned()];
        insta::assert_snapshot!(render(&observed(), &next, 80.into()));
    }

    #[test]
    fn observation_in_markdown_is_a_table_and_lists() {
        insta::assert_snapshot!(render(&observed(), &[], Medium::Markdown));
    }
}
