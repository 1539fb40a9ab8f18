//! All figures, in the order of the page. Each figure is one file and one row of [`FIGURES`].

mod bandwidth_over_time;
mod cpu;
mod cpu_gigabyte;
mod distribution;
mod fairness;
mod kernel;
mod lag;
mod latency;
mod memory;
mod ranking;
mod rate;
mod service;
mod streams;
mod switches;
mod syscalls;
mod throughput;
mod time;

use super::chart::Chart;
use super::plot_data::PlotData;

/// A row of [`FIGURES`].
#[derive(Debug)]
pub struct FigureSpec {
    /// The name, for file names and the page's address.
    pub name: &'static str,
    /// The heading.
    pub title: &'static str,
    /// How to read the figure.
    pub about: &'static str,
    /// The runs that have this figure.
    pub needs: &'static str,
    /// Draws the figure; `None` if the run lacks the data.
    pub draw: fn(&PlotData<'_>) -> Option<Chart>,
}

/// All figures.
pub const FIGURES: &[FigureSpec] = &[
    FigureSpec {
        name: "ranking",
        title: "Against the best",
        about: "Each architecture's metric divided by that of the best under the same workload, with its 95 % interval over \
                repeats. An interval that reaches 1x is not significantly different from the best.",
        needs: "two architectures that are ranked",
        draw: ranking::draw,
    },
    FigureSpec {
        name: "bandwidth",
        title: "Bandwidth",
        about: "Bytes of bursts that all connections together moved in a second, counted where they arrive: the median of \
                valid repeats, with its 95 % interval; the mean where it is not ranked.",
        needs: "streams",
        draw: streams::draw,
    },
    FigureSpec {
        name: "bandwidth-idle",
        title: "Bandwidth against idle connections",
        about: "The same, against connections on which nothing is sent.",
        needs: "streams beside different numbers of idle connections, and on different numbers of others",
        draw: streams::draw_idle,
    },
    FigureSpec {
        name: "fairness",
        title: "Fairness among connections",
        about: "Jain's index of what each connection moved, of the repeat in which it is least: 100 % where all moved the same; \
                where one of n has everything, a share of 1/n.",
        needs: "streams",
        draw: fairness::draw,
    },
    FigureSpec {
        name: "throughput",
        title: "Transactions a second",
        about: "What closed loops completed in a second: the median of repeats, with its 95 % interval.",
        needs: "a closed loop of transactions",
        draw: throughput::draw,
    },
    FigureSpec {
        name: "bandwidth-over-time",
        title: "Bandwidth over the window",
        about: "What the server counted in each 32nd part of the measured window; the median of repeats.",
        needs: "streams",
        draw: bandwidth_over_time::draw,
    },
    FigureSpec {
        name: "service-time",
        title: "Service time",
        about: "Against connections, or idle ones or ports where these differ: from a request's write to the last byte of its response. Each mark has five percentiles: the thin line goes \
                from p1 to p99, the broad one from p25 to p75, and the marker is the median. Where the client may have made the \
                p99, the thin line ends at p75.",
        needs: "requests that were answered",
        draw: service::draw,
    },
    FigureSpec {
        name: "latency",
        title: "Service time against the rate",
        about: "The same five percentiles, against the requests a second that were asked for.",
        needs: "two rates under otherwise the same workload",
        draw: latency::draw,
    },
    FigureSpec {
        name: "distribution",
        title: "Distribution of service times",
        about: "The share of requests that were answered within a time. Every step upwards is another nine: 90 %, 99 %, up to \
                99.999 % where there are as many requests.",
        needs: "requests that were answered",
        draw: distribution::draw,
    },
    FigureSpec {
        name: "time",
        title: "Service time over the window",
        about: "The median of each 32nd part of the measured window, and fainter the 90th percentile; the median of repeats. A \
                line that climbs is of a server that does not keep up.",
        needs: "requests that were answered",
        draw: time::draw,
    },
    FigureSpec {
        name: "lag",
        title: "Send delay of the client",
        about: "The time from the planned to the actual send, by the same five percentiles. It should be small against the \
                service time, and the same for every architecture.",
        needs: "an open loop",
        draw: lag::draw,
    },
    FigureSpec {
        name: "rate",
        title: "Rate achieved of the rate asked",
        about: "Responses a second as a share of the requests a second that were asked for. Below 98 % a trial is saturated, or \
                its client limited.",
        needs: "an open loop",
        draw: rate::draw,
    },
    FigureSpec {
        name: "cpu",
        title: "CPU time a request",
        about: "Of all threads and processes of the server together.",
        needs: "servers that say what they used",
        draw: cpu::draw,
    },
    FigureSpec {
        name: "cpu-gigabyte",
        title: "CPU time a gigabyte",
        about: "Of all threads and processes of the server together, for 1 000 000 000 bytes of streams.",
        needs: "streams",
        draw: cpu_gigabyte::draw,
    },
    FigureSpec {
        name: "switches",
        title: "Context switches a request",
        about: "Voluntary and involuntary ones of the server.",
        needs: "servers that say what they used",
        draw: switches::draw,
    },
    FigureSpec {
        name: "syscalls",
        title: "System calls a request",
        about: "As the server counts them; those of runtimes are out of its sight.",
        needs: "servers that count their system calls",
        draw: syscalls::draw,
    },
    FigureSpec {
        name: "memory",
        title: "Memory a connection",
        about: "The server's user memory, and the host's kernel memory for both ends of a connection, where other doings of the \
                host do not hide it.",
        needs: "servers that say what they used",
        draw: memory::draw,
    },
    FigureSpec {
        name: "kernel",
        title: "Times by the kernel's timestamps",
        about: "From the client's time of sending to the driver's (t2k − t2), from the response's arrival to the client's time \
                of it (t3 − t3k), and between the two the service time that the kernel saw; five percentiles each.",
        needs: "kernel timestamps (--timestamps kernel)",
        draw: kernel::draw,
    },
];
