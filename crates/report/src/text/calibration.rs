//! The accuracy of the client: its measurements of a server that holds each response for a known time.

use harness::calibration::{Calibration, Condition, Recovered};
use load::config::Transport;

use crate::format;
use crate::text::Medium;
use crate::text::table::of_parts;

/// Renders the table and its meaning.
pub fn render(calibration: &Calibration, medium: Medium) -> String {
    let Calibration { transport, rate_per_s, connections, client, rounds, conditions } = calibration;
    let headings = [
        "hold time",
        "timestamps",
        "held p50 µs",
        "recovered p50 µs",
        "bias µs (95 %)",
        "spread p1 p25 p75 p99 µs",
        "send delay p99 µs",
        "bias limit",
    ];
    let rows = conditions.iter().flat_map(|condition| {
        let kernel = condition.kernel.as_ref().map(|kernel| row(condition, "kernel", kernel));
        [row(condition, "client", &condition.client)].into_iter().chain(kernel)
    });
    let table = of_parts(2, headings, rows, medium);
    let transport = match transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
        Transport::Unix => "Unix sockets",
    };
    let round_trip = conditions.first().map_or(f64::NAN, |null| null.service_p50_ns - null.held_p50_ns);
    let about = format!(
        "The client ({client}) sent {rate_per_s} requests/s over {connections} connections ({transport}) to a server that \
         holds each response for a known time, in {rounds} rounds per hold time. The service time is the hold time plus a round \
         trip of {} (median without hold time). The bias is the measured service time minus this sum. The spread is that of \
         single requests around the bias. The interval of the bias is a 95 % Student t interval over rounds.",
        format::time(round_trip)
    );
    let missed: Vec<String> = conditions.iter().filter(|condition| !condition.is_recovered()).map(hold).collect();
    let verdict = if missed.is_empty() {
        "Every hold time was recovered within the bias limit.".to_owned()
    } else {
        format!(
            "Not recovered within the bias limit: {}. If other programs disturb the host, repeat with more --rounds; see \
             `muxbench doctor`.",
            missed.join(", ")
        )
    };
    let text = format!("{table}\n\n{}\n{}\n", medium.prose(&about), medium.prose(&verdict));
    medium.finished(text)
}

fn hold(condition: &Condition) -> String {
    match condition.hold.mean_ns {
        0 => "none".into(),
        mean_ns => format!("{} {}", format::time(mean_ns as f64), condition.hold.law.name()),
    }
}

fn row(condition: &Condition, timestamps: &str, recovered: &Recovered) -> Vec<String> {
    let us = |ns: f64| format!("{:+.2}", ns / 1e3);
    let bias = recovered.bias_ns;
    let interval = bias.interval.map(|interval| format!(" ({} to {})", us(interval.low), us(interval.high)));
    vec![
        hold(condition),
        timestamps.into(),
        format::us(condition.held_p50_ns),
        format::us(recovered.p50_ns),
        us(bias.value) + &interval.unwrap_or_default(),
        recovered.spread_ns.map(us).join(" "),
        format::us(condition.send_delay_p99_ns),
        format!("±{:.0}", condition.bias_ns_max / 1e3),
    ]
}

#[cfg(test)]
mod tests {
    use harness::calibration::{Hold, Law};
    use stats::{Estimate, Interval};

    use super::*;

    #[test]
    fn calibration_states_bias_and_missed_limits() {
        let recovered = |p50_ns, bias_ns, interval| Recovered {
            p50_ns,
            bias_ns: Estimate { value: bias_ns, interval },
            spread_ns: [-2_000.0, -300.0, 400.0, 9_000.0],
        };
        let condition = |mean_ns, law, bias_ns, kernel| Condition {
            hold: Hold { mean_ns, law },
            count: 1_000,
            held_p50_ns: mean_ns as f64 + 150.0,
            service_p50_ns: mean_ns as f64 + 12_000.0,
            send_delay_p99_ns: 7_000.0,
            client: recovered(
                mean_ns as f64 + bias_ns,
                bias_ns,
                Some(Interval { low: bias_ns - 200.0, high: bias_ns + 300.0 }),
            ),
            kernel,
            bias_ns_max: 2_000.0,
        };
        let calibration = Calibration {
            transport: Transport::Tcp,
            rate_per_s: 1_000.0,
            connections: 16,
            client: "one-loop, spin".into(),
            rounds: 5,
            conditions: vec![
                condition(0, Law::Fixed, 0.0, None),
                condition(100_000, Law::Fixed, 250.0, Some(recovered(100_000.0, 80.0, None))),
                condition(100_000, Law::Exponential, -2_500.0, None),
            ],
        };
        insta::assert_snapshot!(render(&calibration, 120.into()));
    }
}
