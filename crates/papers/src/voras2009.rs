//! I. Voras and M. Žagar, "Characteristics of multithreading models for high-performance IO driven network
//! applications" (AFRICON 2009): Figures 1 to 7, and the claims about them.

use harness::record::Workload;
use harness::spec::transport::Transport;
use load::config::{ClientConfig, KvTraffic, Popularity, Think};

use crate::claims::{Claim, Dimension, Is, RATE, Statement};
use crate::figure::{Curves, Here, PaperFigure, Scale, is_plain, positions, rate, with_levels};
use report::plot::chart::{Chart, Panel, Point, Series, Shape};

const SPED: &[&str] = range(0, 1);
const SEDA: &[&str] = range(1, 2);
const AMPED: &[&str] = range(2, 10);
const SEDA_S: &[&str] = range(10, 14);
const SYMPED: &[&str] = range(14, 19);

/// Returns the configurations in [`ALL`] from the index `from` up to, but not including, `to`.
const fn range(from: usize, to: usize) -> &'static [&'static str] {
    ALL.split_at(to).0.split_at(from).1
}

/// The largest factor between peaks that count as equal. The paper rounds to 5 000, about 5 % of the rates of SPED and SEDA.
const SAME: f64 = 1.05;
/// The factor by which rounding to 5 000 may hide or feign a difference between rates of 230 000 and more.
pub(super) const ROUNDED: f64 = 1.02;
/// The factor by which growth may miss the ideal and still count as linear.
const LINEAR: f64 = 1.1;
/// The number of CPUs of the paper's machine.
const CPUS: usize = 8;

/// The records of section III. The paper prints neither the share of reads nor the popularity of keys.
const TRAFFIC: KvTraffic = KvTraffic {
    records: 30_000,
    value_bytes_min: 10,
    value_bytes_max: 1_000,
    get_share: 0.9,
    keys: Popularity::Uniform,
};

fn closed(workload: &Workload) -> bool {
    is_of_transport(workload, Transport::Unix)
}

/// Returns whether a workload is the paper's but for its transport, so that clients can have a host of their own.
fn closed_over_tcp(workload: &Workload) -> bool {
    is_of_transport(workload, Transport::Tcp)
}

fn is_of_transport(workload: &Workload, transport: Transport) -> bool {
    let is_kv = workload.kv.as_ref() == Some(&TRAFFIC) && workload.transport == transport;
    let is_kept = workload.requests_per_connection().is_none() && workload.idle == 0;
    is_plain(workload) && is_kv && is_kept && workload.is_closed() && workload.think() == Think::default()
}

/// Returns whether a client has the paper's number of threads.
pub(super) fn is_client(client: &ClientConfig) -> bool {
    client.all_clients() == 4
}

/// Returns a statement about the peak rate of some architectures.
const fn peak(of: &'static [&'static str], is: Is) -> Statement {
    Statement::of(of, &RATE, closed, is)
}

/// The names of series over Unix sockets, then those of the same series over TCP.
macro_rules! series {
    ($($name:literal)+) => {
        &[$($name,)+ $(concat!($name, ", TCP"),)+]
    };
}

/// All configurations, then the models; the same over TCP. The series of a model shows the best of its configurations.
pub(super) const ALL: &[&str] = series![
    "epoll"
    "seda:2+4/epoll"
    "amped:0+1/epoll"
    "amped:0+2/epoll"
    "amped:0+3/epoll"
    "amped:0+4/epoll"
    "amped:1+1/epoll"
    "amped:1+2/epoll"
    "amped:1+3/epoll"
    "amped:1+4/epoll"
    "seda-s:1/epoll"
    "seda-s:2/epoll"
    "seda-s:3/epoll"
    "seda-s:4/epoll"
    "symped:1/epoll"
    "symped:2/epoll"
    "symped:3/epoll"
    "symped:4/epoll"
    "symped:5/epoll"
    "sped"
    "seda"
    "amped"
    "seda-s"
    "symped"
];
/// The index of the first series over TCP.
const TCP: usize = ALL.len() / 2;
/// The models of Figure 7, in the paper's order.
const MODELS: &[(&str, &[&str])] =
    &[("sped", SPED), ("seda", SEDA), ("amped", AMPED), ("seda-s", SEDA_S), ("symped", SYMPED)];

/// The peak of SYMPED, which the paper prints in section IV and in its conclusion.
const PEAK: (f64, &str) = (450_000.0, "SYMPED's peak: 450 000, rounded to 5 000");
const NEXT: (f64, &str) =
    (450_000.0 / 1.54, "next best model: about 290 000 (SYMPED's peak, rounded to 5 000, is 54 % higher)");

const CLIENTS: Scale = Scale::numbers("clients");
const TRANSACTIONS: Scale = Scale::numbers("transactions/s");

pub(super) const FIGURES: &[PaperFigure] = &[
    PaperFigure {
        number: "1",
        title: "SPED",
        about: "Voras and Žagar 2009, Figure 1: one thread does everything, by the number of simultaneous clients. The paper's \
                event queue is kqueue. It rounds its rates to 5 000 and prints only two of them, in Figures 5 to 7. Runs over TCP, as \
                with clients on a host of their own, have series of their own in all figures.",
        experiments: &["voras2009"],
        draw: |here, _| model(here, SPED, &[]),
    },
    PaperFigure {
        number: "2",
        title: "SEDA, two network threads and four payload threads",
        about: "Voras and Žagar 2009, Figure 2.",
        experiments: &["voras2009"],
        draw: |here, _| model(here, SEDA, &[]),
    },
    PaperFigure {
        number: "3",
        title: "AMPED, zero or one network thread and one to four payload threads",
        about: "Voras and Žagar 2009, Figure 3: amped:NETWORK+PAYLOAD. Without network threads the accept thread does their \
                work.",
        experiments: &["voras2009"],
        draw: |here, _| model(here, AMPED, &[]),
    },
    PaperFigure {
        number: "4",
        title: "SEDA-S, one to four pairs of threads",
        about: "Voras and Žagar 2009, Figure 4: each network thread has a payload thread of its own.",
        experiments: &["voras2009"],
        draw: |here, _| model(here, SEDA_S, &[]),
    },
    PaperFigure {
        number: "5",
        title: "SYMPED, one to five threads",
        about: "Voras and Žagar 2009, Figure 5: each thread does the network and payload work of its own connections.",
        experiments: &["voras2009"],
        draw: |here, _| model(here, SYMPED, &[PEAK]),
    },
    PaperFigure {
        number: "6",
        title: "SYMPED by number of threads",
        about: "Voras and Žagar 2009, Figure 6: the highest rate of each number of threads, over all numbers of clients. In \
                the paper it grows linearly up to 4 threads, half of the CPUs.",
        experiments: &["voras2009"],
        draw: |here, _| {
            let series = of_both(|only| {
                let points = SYMPED.iter().zip(1u32..).filter_map(|(name, threads)| {
                    let points = here.points(&closed_loops(only, &[name]), name);
                    most(points.into_iter().map(|point| Point { x: threads.into(), ..point }))
                });
                vec![Series { architecture: here.place("symped"), of: "", points: points.collect() }]
            });
            chart(here, Scale::numbers("server threads"), series, &[PEAK])
        },
    },
    PaperFigure {
        number: "7",
        title: "The best of each model",
        about: "Voras and Žagar 2009, Figure 7: for each number of clients, the highest rate of any configuration of a model. \
                A marker is hollow where no configuration of the model is valid.",
        experiments: &["voras2009"],
        draw: |here, _| {
            let best = |only: Loops, &(model, names): &(&str, &'static [&'static str])| {
                let points = || names.iter().flat_map(|name| here.points(&closed_loops(only, names), name));
                let clients = positions(points().map(|point| point.x)).into_iter();
                let best = clients.filter_map(|at| most(points().filter(|point| point.x == at)));
                Series { architecture: here.place(model), of: "", points: best.collect() }
            };
            let series = of_both(|only| MODELS.iter().map(|model| best(only, model)).collect());
            chart(here, CLIENTS, series, &[PEAK, NEXT])
        },
    },
];

/// A selection of workloads: over Unix sockets, or over TCP.
type Loops = &'static dyn Fn(&Workload) -> bool;

fn closed_loops<'a>(only: Loops, of: &'a [&'static str]) -> Curves<'a> {
    Curves { only, of, along: Dimension::Connections, value: rate }
}

/// Returns the series over Unix sockets, as in the paper, and those over TCP, without empty ones.
fn of_both(series: impl Fn(Loops) -> Vec<Series>) -> Vec<Series> {
    let over_tcp = series(&closed_over_tcp).into_iter();
    let over_tcp = over_tcp.map(|it| Series { architecture: TCP + it.architecture, ..it });
    series(&closed).into_iter().chain(over_tcp).filter(|series| !series.points.is_empty()).collect()
}

fn model(here: &Here<'_>, of: &[&'static str], printed: &[(f64, &str)]) -> Option<Chart> {
    chart(here, CLIENTS, of_both(|only| here.series(&closed_loops(only, of))), printed)
}

fn chart(here: &Here<'_>, x: Scale, series: Vec<Series>, printed_per_s: &[(f64, &str)]) -> Option<Chart> {
    let panel = with_levels(Panel::new(String::new(), series), printed_per_s);
    here.chart(Shape::Points, x, TRANSACTIONS, vec![panel])
}

/// Returns the highest valid point, or the highest of all if none is valid.
fn most(points: impl Iterator<Item = Point>) -> Option<Point> {
    points.max_by(|a, b| a.is_valid().cmp(&b.is_valid()).then(a.y.total_cmp(&b.y)))
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        says: "The peaks rise in the order SPED and SEDA (about equal), AMPED, SEDA-S, SYMPED. SYMPED's peak is 54 % above the next.",
        cpus_min: CPUS,
        statements: &[
            peak(SEDA, Is::Peaks(SAME, SPED)),
            peak(AMPED, Is::Above(1.0 / ROUNDED, SEDA)),
            peak(SEDA_S, Is::Above(1.0 / ROUNDED, AMPED)),
            peak(SYMPED, Is::Above(1.54 / SAME, SEDA_S)),
        ],
    },
    Claim {
        says: "SYMPED grows linearly up to 4 threads, half of the cores.",
        cpus_min: CPUS,
        statements: &[
            peak(&["symped:2/epoll"], Is::Above(2.0 / LINEAR, &["symped:1/epoll"])),
            peak(&["symped:4/epoll"], Is::Above(4.0 / LINEAR, &["symped:1/epoll"])),
        ],
    },
    Claim {
        says: "AMPED is best with one network thread and two payload threads: more threads only add switching. (The paper rounds \
               to 5 000, so a peak up to 2 % lower counts as equal.)",
        cpus_min: CPUS,
        statements: &[peak(
            &["amped:1+2/epoll"],
            Is::Above(
                1.0 / ROUNDED,
                &[
                    "amped:0+1/epoll",
                    "amped:0+2/epoll",
                    "amped:0+3/epoll",
                    "amped:0+4/epoll",
                    "amped:1+1/epoll",
                    "amped:1+3/epoll",
                    "amped:1+4/epoll",
                ],
            ),
        )],
    },
    Claim {
        says: "SEDA-S is best with three network threads and three payload threads. (The paper rounds to 5 000, so a peak up to 2 % \
               lower counts as equal.)",
        cpus_min: CPUS,
        statements: &[peak(
            &["seda-s:3/epoll"],
            Is::Above(1.0 / ROUNDED, &["seda-s:1/epoll", "seda-s:2/epoll", "seda-s:4/epoll"]),
        )],
    },
];
