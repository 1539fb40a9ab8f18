//! All figures of a run, in the order of the page.

mod distribution;
mod over_window;
mod overload;
mod ranking;

use harness::record::{Figure, Workload};

use super::chart::{Chart, Form, Shape};
use super::plot_data::{Dimension, NO_INTERVALS, PlotData, Value, estimate, percentiles, servers, service};
use crate::analysis::stream;
use crate::analysis::summary::Row;

/// The name of the figure with the ratios to the best.
pub const RANKING: &str = "ranking";

/// The number of figures that follow the ranking at the top of a page.
pub const FIRST: usize = 4;

/// A row of [`FIGURES`].
#[derive(Debug)]
pub struct FigureSpec {
    /// The name, for file names and the page's address.
    pub name: &'static str,
    /// The heading.
    pub title: &'static str,
    /// How to read the figure.
    pub about: &'static str,
    /// Draws the figure; `None` if the run lacks the data.
    pub draw: fn(&PlotData<'_>) -> Option<Chart>,
}

/// All figures. A page opens with the ranking and the first [`FIRST`] of the others that its run has.
pub const FIGURES: &[FigureSpec] = &[
    FigureSpec {
        name: RANKING,
        title: "Ratio to the best",
        about: "Each architecture's metric divided by the best metric under the same workload, the best first. The bar is the \
                95 % interval; a marker without a bar has none. The vertical line is at the best, 1x. If a bar crosses it, the \
                architecture is not significantly different from the best. If it does not, the conclusion says whether the \
                difference remains significant among all pairs.",
        draw: ranking::ratios,
    },
    FigureSpec {
        name: "added",
        title: "Time added to the best",
        about: "The median service time less that of the best architecture under the same workload, with its 95 % interval. Costs \
                add, so this carries to another state of the host better than the ratio. If a bar crosses 0, the architecture is \
                not significantly different from the best.",
        draw: ranking::added,
    },
    FigureSpec {
        name: "bandwidth",
        title: "Bandwidth",
        about: "Bytes of bursts per second over all connections, counted at the receiver, with the 95 % interval. Rows that are not \
                ranked have none.",
        draw: |data| data.points(data.size(), ("bandwidth", Form::Bandwidth), bandwidth, |pair| Some(pair.ratio)),
    },
    FigureSpec {
        name: "throughput",
        title: "Transactions per second",
        about: "The rate of a closed loop, with its 95 % interval. Rows that are not ranked have none.",
        draw: |data| {
            let data = data.without_streams().filter(|data| data.is_closed())?;
            data.points(data.size(), ("transactions per second", Form::Number), rate, |pair| pair.ratios[Figure::Rate])
        },
    },
    FigureSpec {
        name: "overload",
        title: "Goodput under overload",
        about: "Requests answered in time per second, relative to the capacity of the server, and as a fainter line the offered rate. \
                Each request counts at its planned time. A server that degrades gracefully stays near 100 % during the pulse, and \
                returns to the offered rate soon after it.",
        draw: overload::draw,
    },
    FigureSpec {
        name: "service-time",
        title: "Service time",
        about: "The time from a request's write to the last byte of its response, against connections (or ports, or idle \
                connections if only these differ). Each mark has five percentiles: the thin line goes from p1 to p99, the broad \
                one from p25 to p75, and the marker is the median. If the client may have caused the p99, the thin line ends at \
                p75.",
        draw: |data| data.percentiles(data.size(), "service time", &SERVICE, |pair| pair.ratios[Figure::P50]),
    },
    FigureSpec {
        name: "latency",
        title: "Service time against the rate",
        about: "Five percentiles of the service time against the planned rate.",
        draw: |data| {
            data.open()
                .filter(|data| data.groups(Some(Dimension::Rate)).iter().any(|group| group.members.len() > 1))?;
            data.percentiles(Dimension::Rate, "service time", &SERVICE, |pair| pair.ratios[Figure::P50])
        },
    },
    FigureSpec {
        name: "cpu",
        title: "CPU time per request",
        about: "The sum over all threads and processes of the server.",
        draw: |data| {
            let cpu_ns = |_: &Workload, row: &Row| plain(Some(row.cost.as_ref()?.cpu_ns_per_request));
            data.without_streams()?
                .points(data.size(), ("CPU time per request", Form::Time), cpu_ns, |pair| pair.ratios[Figure::Cpu])
        },
    },
    FigureSpec {
        name: "cpu-gigabyte",
        title: "CPU time per gigabyte",
        about: "The sum over all threads and processes of the server, for 1 000 000 000 bytes of streams.",
        draw: |data| {
            let cpu_ns = |_: &Workload, row: &Row| plain(row.stream?.cpu_ns_per_gigabyte);
            data.points(data.size(), ("CPU time per gigabyte", Form::Time), cpu_ns, NO_INTERVALS)
        },
    },
    FigureSpec {
        name: "memory",
        title: "Memory per connection",
        about: "User memory of the server, and kernel memory of the host for both ends of a connection, unless other activity \
                of the host hides it.",
        draw: |data| {
            data.rows(data.size(), Shape::Points, ("memory per connection", Form::Bytes), &MEMORY, NO_INTERVALS)
        },
    },
    FigureSpec {
        name: "distribution",
        title: "Distribution of service times",
        about: "The share of requests that were answered within a time. Each step upwards adds a nine: 90 %, 99 %, up to \
                99.999 % with enough requests.",
        draw: distribution::draw,
    },
    FigureSpec {
        name: "bandwidth-idle",
        title: "Bandwidth against idle connections",
        about: "The total bandwidth against the number of connections without traffic.",
        draw: |data| {
            let differ = data.groups(Some(Dimension::Idle)).iter().any(|group| group.members.len() > 1);
            let is_drawn = data.size() == Dimension::Idle || !differ;
            if is_drawn {
                return None;
            }
            data.points(Dimension::Idle, ("bandwidth", Form::Bandwidth), bandwidth, |pair| Some(pair.ratio))
        },
    },
    FigureSpec {
        name: "fairness",
        title: "Fairness among connections",
        about: "Jain's index of the bytes of each connection, in the least fair repeat: 100 % if all connections moved the \
                same number of bytes, 1/n if one of n connections moved all.",
        draw: |data| {
            let fairness = |_: &Workload, row: &Row| plain(row.stream.map(|it| it.fairness));
            data.points(data.size(), ("fairness", Form::Share), fairness, NO_INTERVALS)
        },
    },
    FigureSpec {
        name: "bandwidth-over-time",
        title: "Bandwidth over the window",
        about: "The server's count in each 32nd part of the measured window: the median of repeats.",
        draw: over_window::bandwidth,
    },
    FigureSpec {
        name: "time",
        title: "Service time over the window",
        about: "The median in each 32nd part of the measured window and, as a fainter line, the 90th percentile. Both are medians of \
                repeats. The lines of a server that does not keep up rise.",
        draw: over_window::service_time,
    },
    FigureSpec {
        name: "rates",
        title: "Offered and achieved rate over the window",
        about: "Responses per second in each 32nd part of the measured window and, as a fainter line, planned requests per second. \
                Both are medians of repeats. Only for a rate that changes over the window.",
        draw: over_window::rates,
    },
    FigureSpec {
        name: "send-delay",
        title: "Send delay of the client",
        about: "Five percentiles of the time from the planned to the actual send. This time should be small compared with the \
                service time, and equal for all architectures.",
        draw: |data| {
            let send_delay: [(&str, Value); 1] = [("", |_, row| percentiles(row.send_delay))];
            data.open()?.percentiles(data.size(), "send delay", &send_delay, NO_INTERVALS)
        },
    },
    FigureSpec {
        name: "rate",
        title: "Achieved rate relative to the planned rate",
        about: "Responses per second divided by planned requests per second. Below 98 % a trial is saturated or \
                client-limited.",
        draw: |data| {
            let share = |workload: &Workload, row: &Row| plain(Some(row.rate_achieved_per_s? / workload.rate_per_s()?));
            data.open()?.points(Dimension::Rate, ("achieved / planned rate", Form::Share), share, NO_INTERVALS)
        },
    },
    FigureSpec {
        name: "switches",
        title: "Context switches per request",
        about: "Voluntary and involuntary context switches of the server.",
        draw: |data| {
            let switches = |_: &Workload, row: &Row| plain(Some(row.cost.as_ref()?.switches_per_request));
            data.without_streams()?.points(data.size(), ("switches per request", Form::Number), switches, NO_INTERVALS)
        },
    },
    FigureSpec {
        name: "syscalls",
        title: "System calls per request",
        about: "The server's own count, which excludes calls of async runtimes.",
        draw: |data| {
            let syscalls = |_: &Workload, row: &Row| plain(row.cost.as_ref()?.syscalls_per_request);
            data.without_streams()?.points(
                data.size(),
                ("system calls per request", Form::Number),
                syscalls,
                NO_INTERVALS,
            )
        },
    },
    FigureSpec {
        name: "kernel",
        title: "Times by the kernel's timestamps",
        about: "From the client's time of sending to the driver's (t2k − t2), from the response's arrival to the client's \
                reading of it (t3 − t3k), and the service time between the two kernel timestamps; five percentiles each.",
        draw: |data| data.percentiles(data.size(), "time", &KERNEL, NO_INTERVALS),
    },
];

const SERVICE: [(&str, Value); 1] = [("", |_, row| service(row))];

const MEMORY: [(&str, Value); 2] = [
    ("user memory", |_, row| plain(Some(row.cost.as_ref()?.memory_user_bytes_per_connection?.max(1.0)))),
    ("kernel memory", |_, row| plain(Some(row.cost.as_ref()?.memory_kernel_bytes_per_connection?.max(1.0)))),
];

const KERNEL: [(&str, Value); 3] = [
    ("t2k − t2", |_, row| percentiles(row.kernel.as_ref().map(|kernel| kernel.to_driver))),
    ("t3 − t3k", |_, row| percentiles(row.kernel.as_ref().map(|kernel| kernel.from_arrival))),
    ("service time", |_, row| servers(row, row.kernel.as_ref().map(|kernel| kernel.service))),
];

/// Returns a value without spread.
fn plain(value: Option<f64>) -> Option<(f64, Vec<f64>)> {
    Some((value?, Vec::new()))
}

/// Returns the rate of a ranked row with its interval, or the mean rate of any other row.
fn rate(_: &Workload, row: &Row) -> Option<(f64, Vec<f64>)> {
    let ranked = row.estimate(Figure::Rate).filter(|_| row.is_ranked()).map(|rate| estimate(rate.value, rate.interval));
    ranked.or_else(|| plain(row.rate_achieved_per_s))
}

/// Converts [`rate`] to bytes per second; `None` unless the service is a stream.
fn bandwidth(workload: &Workload, row: &Row) -> Option<(f64, Vec<f64>)> {
    let bytes_per_s = |rate_per_s: f64| Some(stream::megabytes_per_s(workload, rate_per_s)? * 1e6);
    let (value, interval) = rate(workload, row)?;
    Some((bytes_per_s(value)?, interval.into_iter().filter_map(bytes_per_s).collect()))
}
