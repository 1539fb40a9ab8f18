//! Each controller beside static stages, A B A B, at shares of the static server's highest rate.
//!
//! The servers are not interleaved in slices: a controller would see the pauses between its slices as changes of the load.

use anyhow::ensure;
use load::LoadReport;
use load::config::{HttpTarget, HttpTraffic, LoadConfig, Phases, Schedule};
use wire::ServiceSpec;

use crate::bench::loads::config;
use crate::bench::process::Server;
use crate::bench::spread::{Spread, rounds};

const SHARES: [f64; 3] = [0.7, 1.0, 1.5];
/// The time before the window in which the controllers reach their values.
const WARM_UP_NS: u64 = 3_000_000_000;

/// A comparison of two servers that differ in one controller.
struct Case<'a> {
    architecture: &'a str,
    service: ServiceSpec,
    /// The flags of both servers.
    flags: &'a [&'a str],
    /// The flags of the controlled server.
    controller: [&'a str; 2],
}

const FIXED: ServiceSpec = ServiceSpec::Fixed { request_bytes: 128, response_bytes: 128 };

pub(super) fn pool(count: usize, seconds: u64) -> anyhow::Result<()> {
    // Work that sleeps: more threads serve more requests at once, also on one CPU.
    let flags = ["--request", "128B", "--response", "128B", "--simulated-work", "sleep=1ms"];
    let controller = ["--pool-control", "max=20,queue=100,interval=100ms"];
    Case { architecture: "seda:1+2/epoll", service: FIXED, flags: &flags, controller }.run(count, seconds)
}

pub(super) fn batch(count: usize, seconds: u64) -> anyhow::Result<()> {
    let flags = ["--request", "128B", "--response", "128B"];
    let controller = ["--batch-control", "min=1,max=1000,interval=10ms"];
    Case { architecture: "seda:1+4/epoll", service: FIXED, flags: &flags, controller }.run(count, seconds)
}

pub(super) fn admission(count: usize, seconds: u64) -> anyhow::Result<()> {
    // `http` has a status for rejections. The work makes the server as slow as the servers that the default increase suits.
    let flags = ["--service", "http", "--simulated-work", "cpu=200us"];
    let service = ServiceSpec::Http { folder: None };
    for settings in ["target=20ms", "target=20ms,increase=200"] {
        let (architecture, service) = ("seda:1+2/epoll", service.clone());
        Case { architecture, service, flags: &flags, controller: ["--admission", settings] }.run(count, seconds)?;
    }
    Ok(())
}

impl Case<'_> {
    /// Prints the ratios of the controlled server to the static one as Markdown.
    fn run(&self, count: usize, seconds: u64) -> anyhow::Result<()> {
        let [capacity] = rounds(count, || Ok([self.load(false, None, 1)?.rate_achieved_per_s]))?;
        let per_s = capacity.median();
        println!(
            "\n`{} {}` / without it, {}; highest rate without it {capacity} requests/s; medians of {count} rounds (lowest to \
             highest)\n",
            self.architecture,
            self.controller.join(" "),
            self.flags.join(" ")
        );
        println!(
            "| load / highest rate | answered a second | p50 | p90 | p99 | rejected | p90 without, ms | p90 with, ms |\n|--:|{}",
            "--:|".repeat(7)
        );
        for share in SHARES {
            let figures: [Spread; 7] = rounds(count, || {
                let [without, with] =
                    [false, true].map(|is_controlled| self.load(is_controlled, Some(share * per_s), seconds));
                let (without, with) = (without?, with?);
                let ratio = |figure: &dyn Fn(&LoadReport) -> f64| figure(&with) / figure(&without);
                let p90_ms = |report: &LoadReport| report.response.distribution.p90_ns as f64 / 1e6;
                Ok([
                    ratio(&|it| it.rate_achieved_per_s),
                    ratio(&|it| it.response.distribution.p50_ns as f64),
                    ratio(&p90_ms),
                    ratio(&|it| it.response.distribution.p99_ns as f64),
                    with.errors.rejected as f64 / (with.errors.rejected + with.completed).max(1) as f64,
                    p90_ms(&without),
                    p90_ms(&with),
                ])
            })?;
            println!("| {share} | {} |", figures.map(|figure| figure.to_string()).join(" | "));
        }
        Ok(())
    }

    /// Loads a new server: an open loop at a rate, or a closed loop. Only rejections and missing responses may fail.
    fn load(&self, is_controlled: bool, rate_per_s: Option<f64>, seconds: u64) -> anyhow::Result<LoadReport> {
        let controller = if is_controlled { &self.controller[..] } else { &[] };
        let server = Server::with_flags(self.architecture, &[self.flags, controller].concat())?;
        let usual = config(server.address, (128, 128));
        let http = matches!(self.service, ServiceSpec::Http { .. })
            .then(|| HttpTraffic::new(vec![HttpTarget::get("/bytes/128", Some(128))]));
        let phases = Phases {
            ramp_ns: 500_000_000,
            warm_up_ns: WARM_UP_NS,
            measure_ns: seconds * 1_000_000_000,
            cool_down_ns: 1_000_000_000,
        };
        let schedule = if rate_per_s.is_none() { Schedule::Closed } else { usual.schedule };
        let config = LoadConfig { rate_per_s, schedule, phases, service: self.service.clone(), http, ..usual };
        let report = load::run(&config, &mut |_| ())?.report;
        let failed = report.errors.total() - report.errors.rejected - report.errors.timeout;
        ensure!(failed == 0, "requests failed: {:?}", report.errors);
        Ok(report)
    }
}
