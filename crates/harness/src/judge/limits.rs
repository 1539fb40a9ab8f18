//! Limits of the checks. They leave room for the effects of a shared machine on a healthy trial: a neighbour that takes the CPU
//! for some milliseconds must not change the verdict.

use load::result::PARTS;

// Saturation of an open loop.

/// The lowest share of the requested rate that the server must answer, and of the plan that the client must send.
pub(super) const RATE_SHARE_MIN: f64 = 0.98;
/// The highest increase of outstanding requests over the window, as a share of the planned ones.
pub(super) const PILE_UP_SHARE_MAX: f64 = 0.02;
/// The tolerated number of requests on either side of an edge of the window. At a low rate they are a large share.
pub(super) const EDGE_REQUESTS: f64 = 10.0;
/// Service time grows without bound if the medians of all last parts are this many times as high as those of all first parts.
pub(super) const SERVICE_GROWTH_MAX: f64 = 3.0;
pub(super) const SERVICE_GROWTH_FIRST: usize = 2;
/// The number of first parts if parts have fewer than [`SERVICE_GROWTH_REQUESTS`] requests on average. With exponentially
/// distributed service times, chance alone then fails one trial in 30 000. With two parts it would fail one in 400.
pub(super) const SERVICE_GROWTH_FIRST_OF_FEW: usize = 4;
pub(super) const SERVICE_GROWTH_REQUESTS: u64 = 4;
/// The number of last parts.
pub(super) const SERVICE_GROWTH_PARTS: usize = PARTS * 3 / 10;
/// The lowest limit of the service time at the end, in nanoseconds. Shorter times are noise of the machine.
pub(super) const SERVICE_GROWTH_FLOOR_NS: f64 = 1_000_000.0;
/// The highest share of lost datagrams.
pub(crate) const LOST_SHARE_MAX: f64 = 0.01;
/// Once the server is this busy, batching has had its effect: more requests will cost the same CPU time each.
pub(super) const BUSY_SHARE_MIN: f64 = 0.8;

// Interleaved trials.

/// The highest share of a contestant's slices whose responses may arrive after the guard of the next slice. On a virtual machine
/// pauses of the host cause some of them: 0.02 for epoll, 0.11 for poll at a third of its capacity.
pub(super) const OVERRUN_SHARE_MAX: f64 = 0.25;
/// The highest CPU time that a server may use in the turns of others, as a share of its own turns. Done in its own turns, such work
/// would delay about this share of its requests.
pub(super) const OUTSIDE_SHARE_MAX: f64 = 0.02;
/// The longest time in which a queue of Poisson arrivals may settle, in guards. In simulations of M/D/1 and M/M/1 the p99 is then at
/// most 3 % too low.
pub(super) const SETTLING_GUARDS_MAX: f64 = 4.0 / 3.0;
/// The highest share of the server's CPUs that other processes may take. They slow all contestants alike.
pub(crate) const TAKEN_SHARE_MAX_INTERLEAVED: f64 = 0.5;
/// The highest share of rounds that may be left out because a client paused. Beyond it, all rounds are measured.
pub(super) const LEFT_OUT_SHARE_MAX: f64 = 0.5;
/// The highest deviation of a closed loop's responses from the interactive response time law, beside chance. It is 0.01 in separate
/// trials, and with slices up to 0.14, for 400 processes, or 0.17 if other programs use all CPUs.
pub(super) const LAW_DEVIATION_MAX: f64 = 0.2;
/// The allowance for chance in the number of requests, in standard deviations of a Poisson process.
pub(super) const LAW_DEVIATIONS: f64 = 3.0;
/// The queue of a server grows within slices if the median of their second half is this many times that of their first half.
pub(super) const SLICE_GROWTH_MAX: f64 = 2.0;

// The client.

/// The limit of the median send delay is the higher of this share of the interval between requests...
pub(super) const SEND_DELAY_SHARE_MAX: f64 = 0.5;
/// ...and this time, five times the paper's p99 (kawai2008 section 5.3).
pub(super) const SEND_DELAY_P50_NS: f64 = 100_000.0;
/// The lowest limit of the send delay's p99. Long service times raise the limit.
pub(super) const DELAY_P99_NS: f64 = 1_000_000.0;
/// The lowest limit of the p99.9. Now and then, a neighbour takes the CPU for this long.
pub(super) const DELAY_P999_NS: f64 = 10_000_000.0;
/// A percentile of the send delay is checked if this many requests are beyond it. One stall must not decide the p99.9.
pub(super) const BEYOND_P99_MIN: f64 = 1.0;
pub(super) const BEYOND_P999_MIN: f64 = 10.0;
/// If the receiver is busy for a larger share of the window, responses wait for it, as if requests piled up at the server.
pub(super) const RECEIVER_BUSY_SHARE_MAX: f64 = 0.95;
/// The largest distance between the planned and the actual distribution of intervals between sends (stats::fit). With a send
/// delay p99 of 20 us, it is below 0.1 at all rates. On a quiet virtual machine the largest of 83 trials was 0.13; under load
/// the median was 0.19.
pub(super) const FIT_DISTANCE_MAX: f64 = 0.2;
/// A test of the sends fails only below this p-value. With many sends, any client's p-value is lower, and the distance decides.
pub(super) const FIT_P_VALUE_MIN: f64 = 0.001;
/// A client of a closed loop has spare CPU time below this share of the CPUs that its threads can use.
pub(super) const CLIENT_BUSY_SHARE_MAX: f64 = 0.95;
/// If the client has no spare CPU time, the server is the limit only above this share of its CPUs.
pub(super) const SERVER_BUSY_SHARE_MIN: f64 = 0.9;
/// The highest delay of a client's start order, as a share of the time before the window.
pub(super) const LATE_SHARE_MAX: f64 = 0.5;
/// The highest share of CPUs, the server's or a client's, that other processes may take.
pub(super) const TAKEN_SHARE_MAX: f64 = 0.25;

// Plausible and sufficient figures.

/// The highest share of requests that may time out; 0 for datagrams.
pub(super) const TIMEOUT_SHARE_MAX: f64 = 0.001;
/// The largest drift of the client's clock against the kernel's, in parts per million. Observed drifts were below 100.
pub(super) const DRIFT_PPM_MAX: f64 = 10_000.0;
/// The highest share of a closed loop's transactions without a sample. The tests of steadiness use only samples.
pub(super) const UNSAMPLED_SHARE_MAX: f64 = 0.5;
/// The limit for a late reading of the server's counters is the higher of this share of the window...
pub(super) const COUNTED_LATE_SHARE_MAX: f64 = 0.1;
/// ...and this time. A busy machine delays any process that long.
pub(super) const COUNTED_LATE_NS: f64 = 100_000_000.0;

// Steadiness.

/// The largest tolerated change of the median service time over the window. In 145 trials on a quiet virtual machine, the
/// largest change was 0.36, caused by a neighbour.
pub(super) const SERVICE_CHANGE_MAX: f64 = 0.5;
pub(super) const SERVICE_P90_CHANGE_MAX: f64 = 1.0;
/// The largest fall of the median service time of a server that may compile its code as it runs, and in an interleaved trial the
/// largest fall relative to its rivals, whose times have the same drift of the host.
pub(super) const SERVICE_FALL_MAX: f64 = 0.25;
pub(super) const SERVICE_FALL_MAX_INTERLEAVED: f64 = 0.1;
/// The corresponding change of a closed loop's throughput, which is inverse to the service time.
pub(super) const THROUGHPUT_CHANGE_MAX: f64 = 1.0 - 1.0 / (1.0 + SERVICE_CHANGE_MAX);
/// A test of steadiness fails only below this p-value, because a window has few parts and a large change may be chance.
pub(super) const STEADINESS_P_VALUE_MIN: f64 = 0.01;

// The network of a lab.

/// The median round trip may be this share shorter than configured...
pub(super) const ROUND_TRIP_SHORT_SHARE_MAX: f64 = 0.02;
/// ...or this share longer...
pub(super) const ROUND_TRIP_LONG_SHARE_MAX: f64 = 0.1;
/// ...plus this time for the network stacks of two hosts and a relay.
pub(super) const ROUND_TRIP_BESIDE_MS: f64 = 1.0;
/// Bits of a probe datagram with all headers, rounded up.
pub(super) const ROUND_TRIP_BITS: f64 = 100.0 * 8.0;
/// The loss may deviate from the configured one by this many standard deviations of the counted datagrams...
pub(super) const LOSS_DEVIATIONS_MAX: f64 = 5.0;
/// ...plus this share. On a busy machine, socket buffers overflow now and then.
pub(super) const LOSS_BESIDE: f64 = 0.002;
/// The largest deviation of the bandwidth from the configured one.
pub(super) const BANDWIDTH_SHARE_MAX: f64 = 0.15;
/// The kernel may refill a token bucket this late, which matters for small buckets.
pub(super) const BURST_LATE_US: f64 = 100.0;
/// The highest share of packets that a relay drops besides the configured loss. With responses of ten packets, it affects one
/// response in a thousand.
pub(super) const RELAY_DROPPED_SHARE_MAX: f64 = 0.0001;
/// The highest median delay that a relay adds: this time (half the tolerance of a round trip), plus a share of the delay.
pub(super) const RELAY_LATE_MS_MAX: f64 = ROUND_TRIP_BESIDE_MS / 2.0;
pub(super) const RELAY_LATE_SHARE_MAX: f64 = ROUND_TRIP_LONG_SHARE_MAX;
/// The limit of the relay's p99 delay, as a multiple of the limit of its median delay.
pub(super) const RELAY_LATE_P99_TIMES: f64 = 10.0;
