//! T. Pan et al., "Hermes: Enhancing Layer-7 Cloud Load Balancers with Userspace-Directed I/O Event Notification" (SIGCOMM 2025):
//! balance of connections and CPU time, latency, a thread that hangs, and the cost of steering.
//!
//! The published values are those that the independent reproduction Micro-Hermes (University of St Andrews, 2026) quotes. The claims
//! were written down before the first run.

use harness::record::Workload;
use harness::spec::transport::Transport;
use report::plot::chart::{Form, Panel, Series, Shape};

use crate::claims::{
    self, CONNECTION_SPREAD, CPU_PER_REQUEST, CPU_SPREAD, Claim, Dimension, HUNG, Is, Metric, NEAR, SERVICE_MEAN,
    SERVICE_P99, STEERING, Statement,
};
use crate::figure::{Here, Kind, PaperFigure, Scale, has_only_traffic_of_papers, with_levels};
use report::analysis::deviation::DeviationOf;

/// The accept strategies.
pub(super) const ALL: &[&str] = &["exclusive", "reuseport", "reuseport-least", "hermes"];
/// The labels of their servers, in the same order.
const SERVERS: &[&str] = &[EXCLUSIVE, REUSEPORT, "symped:4/epoll (reuseport-least)", HERMES];
const EXCLUSIVE: &str = "symped:4/epoll (exclusive)";
const REUSEPORT: &str = "symped:4/epoll (reuseport)";
const HERMES: &str = "symped:4/epoll (hermes)";
/// The same with a thread that hangs.
const STALLED: &[&str] = &[
    STALLED_EXCLUSIVE,
    STALLED_REUSEPORT,
    "symped:4/epoll (reuseport-least, stall every=1s,for=200ms)",
    "symped:4/epoll (hermes, stall every=1s,for=200ms)",
];
const STALLED_EXCLUSIVE: &str = "symped:4/epoll (exclusive, stall every=1s,for=200ms)";
const STALLED_REUSEPORT: &str = "symped:4/epoll (reuseport, stall every=1s,for=200ms)";
const STALLED_HERMES: &str = STALLED[3];

/// The standard deviations over two days of production, of connections and of CPU time.
pub(super) const CONNECTIONS_IN_PRODUCTION: [(&str, f64); 3] =
    [("exclusive", 3_200.0), ("reuseport", 50.0), ("hermes", 20.0)];
pub(super) const CPU_IN_PRODUCTION: [(&str, f64); 3] = [("exclusive", 0.26), ("reuseport", 0.027), ("hermes", 0.027)];
/// The mean latency of case 1 under heavy load, in milliseconds.
pub(super) const MEAN_MS: [(&str, f64); 3] = [("exclusive", 7.09), ("reuseport", 5.10), ("hermes", 5.02)];
/// The share of all CPU time that Hermes takes under light and under heavy load: counters, scheduler, system calls and program.
pub(super) const OVERHEAD: [(&str, f64); 2] = [("light", 0.006_74), ("heavy", 0.024_36)];

/// The factor between balances that the paper calls an order of magnitude.
const ORDER: f64 = 10.0;
/// The factor by which Hermes shortens the time in which a thread that hangs gets connections: of each 200 ms, it gets some for 20 ms,
/// and until the next thread's wait of 5 ms ends.
pub(super) const AVOIDED: f64 = 200.0 / 25.0 / NEAR;

fn is_plain(workload: &Workload) -> bool {
    let is_open_over_tcp = workload.transport == Transport::Tcp && !workload.is_closed();
    workload.network.is_none() && is_open_over_tcp && has_only_traffic_of_papers(workload)
}

/// Case 1.
fn short(workload: &Workload) -> bool {
    is_plain(workload) && workload.requests_per_connection() == Some(1) && workload.work.is_none()
}

/// Case 2.
fn busy(workload: &Workload) -> bool {
    let is_expensive = workload.work.as_ref().is_some_and(|work| work.connections.is_none());
    is_plain(workload) && workload.requests_per_connection() == Some(1) && is_expensive
}

/// Case 3.
fn long(workload: &Workload) -> bool {
    is_plain(workload) && workload.requests_per_connection().is_none() && workload.work.is_none()
}

/// Case 4.
fn mixed(workload: &Workload) -> bool {
    let is_mixed = workload.work.as_ref().is_some_and(|work| work.connections == Some(0.1));
    is_plain(workload) && workload.requests_per_connection() == Some(10) && is_mixed
}

const RATE: Scale = Scale::numbers("requests/s");
const CONNECTIONS: Scale = Scale::numbers("connections");

type Case = (&'static str, fn(&Workload) -> bool);

const SHORT: Case = ("case 1, many cheap connections", short);
const BUSY: Case = ("case 2, many expensive connections", busy);
const LONG: Case = ("", long);
const MIXED: Case = ("case 4, a tenth of the connections expensive", mixed);

pub(super) const FIGURES: &[PaperFigure] = &[
    PaperFigure {
        number: "1",
        title: "Balance of connections",
        about: "Pan et al. 2025, case 3: standard deviation over the threads of long-lived connections. Lines: 32 processes in \
                production, over two days.",
        experiments: &["hermes2025-long"],
        draw: |here, deviation_of| {
            let y = Scale { label: "standard deviation of connections", form: Form::Number, kind: Kind::Log };
            let panel = panel(here, deviation_of, SERVERS, LONG, &CONNECTION_SPREAD, Dimension::Connections);
            let printed = CONNECTIONS_IN_PRODUCTION.map(|(name, it)| (it, format!("{name} in production: {it}")));
            here.chart(Shape::Points, CONNECTIONS, y, vec![with_levels(panel, &printed)])
        },
    },
    PaperFigure {
        number: "2",
        title: "Balance of CPU time",
        about: "Pan et al. 2025, case 3: standard deviation over the threads of the share of a CPU that each uses. Lines: as in \
                Figure 1.",
        experiments: &["hermes2025-long"],
        draw: |here, deviation_of| {
            let y = Scale { label: "standard deviation of CPU use", form: Form::Share, kind: Kind::Log };
            let panel = panel(here, deviation_of, SERVERS, LONG, &CPU_SPREAD, Dimension::Connections);
            let printed =
                CPU_IN_PRODUCTION.map(|(name, it)| (it, format!("{name} in production: {:.1} %", 100.0 * it)));
            here.chart(Shape::Points, CONNECTIONS, y, vec![with_levels(panel, &printed)])
        },
    },
    PaperFigure {
        number: "3",
        title: "Mean latency",
        about: "Pan et al. 2025, cases 1, 2 and 4: mean time from a request to its response. Lines: case 1 under heavy load on the \
                paper's machine.",
        experiments: &["hermes2025-short", "hermes2025-busy", "hermes2025-mixed"],
        draw: |here, deviation_of| {
            let y = Scale { label: "mean service time", form: Form::Time, kind: Kind::Log };
            let mut panels = by_rate(here, deviation_of, &[SHORT, BUSY, MIXED], &SERVICE_MEAN);
            let printed = MEAN_MS.map(|(name, ms)| (ms * 1e6, format!("{name} under heavy load: {ms:.2} ms")));
            panels[0] = with_levels(panels[0].clone(), &printed);
            here.chart(Shape::Points, RATE, y, panels)
        },
    },
    PaperFigure {
        number: "4",
        title: "99th percentile of latency",
        about: "Pan et al. 2025, cases 1, 2 and 4. We know only the order of the paper's values.",
        experiments: &["hermes2025-short", "hermes2025-busy", "hermes2025-mixed"],
        draw: |here, deviation_of| {
            let y = Scale { label: "service time, p99", form: Form::Time, kind: Kind::Log };
            let panels = by_rate(here, deviation_of, &[SHORT, BUSY, MIXED], &SERVICE_P99);
            here.chart(Shape::Points, RATE, y, panels)
        },
    },
    PaperFigure {
        number: "5",
        title: "A thread that hangs",
        about: "Share of the connections that waited for a thread that hung for 200 ms of each second. With reuseport about 5 % do: a \
                quarter of the connections, for a fifth of the time. The paper counts hangs of processes: 99.8 % fewer a day.",
        experiments: &["hermes2025-stall"],
        draw: |here, deviation_of| {
            let y = Scale { label: "share of hung connections", form: Form::Share, kind: Kind::Linear };
            let panel = panel(here, deviation_of, STALLED, ("", short), &HUNG, Dimension::Rate);
            here.chart(Shape::Points, RATE, y, vec![panel])
        },
    },
    PaperFigure {
        number: "6",
        title: "CPU time of a request",
        about: "CPU time of the server for each request, with the connection's share. The paper's unit cost of the infrastructure, \
                18.9 % less, contains more.",
        experiments: &["hermes2025-short", "hermes2025-mixed"],
        draw: |here, deviation_of| {
            let y = Scale { label: "CPU time per request", form: Form::Time, kind: Kind::Linear };
            let panels = by_rate(here, deviation_of, &[SHORT, MIXED], &CPU_PER_REQUEST);
            here.chart(Shape::Points, RATE, y, panels)
        },
    },
    PaperFigure {
        number: "7",
        title: "CPU time of steering",
        about: "Pan et al. 2025, case 1: share of the server's CPU time that steering takes, in the threads and in the kernel's \
                program. Needs root. Lines: the paper's machine. Its processes write their choice by a system call, our threads to \
                shared memory. Micro-Hermes could not measure this share, because its threads sleep.",
        experiments: &["hermes2025-short"],
        draw: |here, deviation_of| {
            let y = Scale { label: "share of CPU time", form: Form::Share, kind: Kind::Linear };
            let panel = panel(here, deviation_of, SERVERS, ("", short), &STEERING, Dimension::Rate);
            let printed = OVERHEAD.map(|(load, it)| (it, format!("hermes under {load} load: {:.3} %", 100.0 * it)));
            here.chart(Shape::Points, RATE, y, vec![with_levels(panel, &printed)])
        },
    },
];

/// Returns a panel with a series for each accept strategy. `labels` has the servers in the order of [`ALL`].
fn panel(
    here: &Here<'_>,
    deviation_of: &mut [&mut DeviationOf<'_>],
    labels: &[&str],
    (title, only): Case,
    metric: &Metric,
    along: Dimension,
) -> Panel {
    let series = ALL.iter().zip(labels).map(|(name, label)| Series {
        architecture: here.place(name),
        of: "",
        points: claims::points(here.runs, deviation_of, label, only, metric, along),
    });
    Panel::new(title.into(), series.filter(|series| !series.points.is_empty()).collect())
}

fn by_rate(here: &Here<'_>, deviation_of: &mut [&mut DeviationOf<'_>], cases: &[Case], metric: &Metric) -> Vec<Panel> {
    cases.iter().map(|&case| panel(here, deviation_of, SERVERS, case, metric, Dimension::Rate)).collect()
}

const fn of(servers: &'static [&'static str], metric: &'static Metric, case: Case, is: Is) -> Statement {
    Statement::of(servers, metric, case.1, is)
}

const fn hung(servers: &'static [&'static str]) -> Statement {
    Statement::of(servers, &HUNG, short, Is::Above(AVOIDED, &[STALLED_HERMES]))
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        says: "Exclusive wake-ups give long-lived connections to few threads. Hermes balances them better than reuseport, and by an \
               order of magnitude better than exclusive wake-ups. (A standard deviation 1.25 times reuseport's counts as equal.)",
        cpus_min: 0,
        statements: &[
            of(&[EXCLUSIVE], &CONNECTION_SPREAD, LONG, Is::Above(ORDER, &[HERMES])),
            of(&[REUSEPORT], &CONNECTION_SPREAD, LONG, Is::Above(1.0 / NEAR, &[HERMES])),
        ],
    },
    Claim {
        says: "It balances CPU time as well as reuseport. The standard deviation of exclusive wake-ups is 9.6 times as large (26 % and \
               2.7 %).",
        cpus_min: 0,
        statements: &[
            of(&[EXCLUSIVE], &CPU_SPREAD, LONG, Is::Above(26.0 / 2.7 / NEAR, &[HERMES])),
            of(&[REUSEPORT], &CPU_SPREAD, LONG, Is::Above(1.0 / NEAR, &[HERMES])),
        ],
    },
    Claim {
        says: "Many cheap connections: under heavy load the mean latency is lowest with Hermes. Exclusive wake-ups take 41 % longer \
               (7.09, 5.10 and 5.02 ms).",
        cpus_min: 0,
        statements: &[
            of(&[EXCLUSIVE], &SERVICE_MEAN, SHORT, Is::Above(7.09 / 5.02 / NEAR, &[HERMES])),
            of(&[REUSEPORT], &SERVICE_MEAN, SHORT, Is::Above(5.10 / 5.02 / NEAR, &[HERMES])),
        ],
    },
    Claim {
        says: "Many expensive connections: under heavy load Hermes has the lowest p99, and reuseport the highest.",
        cpus_min: 0,
        statements: &[
            of(&[EXCLUSIVE], &SERVICE_P99, BUSY, Is::Above(1.0, &[HERMES])),
            of(&[REUSEPORT], &SERVICE_P99, BUSY, Is::Above(1.0, &[EXCLUSIVE])),
        ],
    },
    Claim {
        says: "Few connections, some of them expensive: p99 with Hermes is near that of exclusive wake-ups, and that of reuseport is \
               clearly higher. (1.25 times is the limit of both.)",
        cpus_min: 0,
        statements: &[
            of(&[EXCLUSIVE], &SERVICE_P99, MIXED, Is::Above(1.0 / NEAR, &[HERMES])),
            of(&[REUSEPORT], &SERVICE_P99, MIXED, Is::Above(NEAR, &[HERMES])),
        ],
    },
    Claim {
        says: "With reuseport the kernel goes on giving connections to a thread that hangs; Hermes stops when it notices. (Our limit: \
               it notices after 25 of 200 ms.)",
        cpus_min: 0,
        statements: &[hung(&[STALLED_REUSEPORT])],
    },
    Claim {
        says: "Exclusive wake-ups avoid a thread that hangs, too.",
        cpus_min: 0,
        statements: &[Statement::of(&[STALLED_REUSEPORT], &HUNG, short, Is::Above(AVOIDED, &[STALLED_EXCLUSIVE]))],
    },
    Claim {
        says: "Steering takes little CPU time: 0.674 % under light and 2.436 % under heavy load.",
        cpus_min: 0,
        statements: &[of(&[HERMES], &STEERING, SHORT, Is::AtMost(0.024_36 * NEAR))],
    },
];
