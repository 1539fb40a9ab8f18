//! Limits of the checks. They leave room for the effects of a shared machine on a healthy trial: a neighbour that takes the CPU
//! for some milliseconds must not change the verdict.

use load::report::PARTS;

// Saturation of an open loop.

/// A server keeps up if it answers at least this share of the requested rate; a client, if it sends this share.
pub(super) const RATE_SHARE_MIN: f64 = 0.98;
/// Requests pile up if this share of the planned ones is added to the outstanding over the window.
pub(super) const PILE_UP_SHARE_MAX: f64 = 0.02;
/// Requests on either side of an edge of the window; at a low rate they are a large share.
pub(super) const EDGE_REQUESTS: f64 = 10.0;
/// Service time grows without bound if the median of each of the last [`SERVICE_GROWTH_PARTS`] exceeds the largest of the first
/// parts by this factor.
pub(super) const SERVICE_GROWTH_MAX: f64 = 3.0;
/// The number of first parts...
pub(super) const SERVICE_GROWTH_FIRST: usize = 2;
/// ...and their number where parts have fewer than [`SERVICE_GROWTH_REQUESTS`] requests on average. With times that vary as
/// waiting times do, chance alone then fails one trial in 30 000; with two parts it would fail one in 400.
pub(super) const SERVICE_GROWTH_FIRST_OF_FEW: usize = 4;
/// See [`SERVICE_GROWTH_FIRST_OF_FEW`].
pub(super) const SERVICE_GROWTH_REQUESTS: u64 = 4;
/// The number of last parts.
pub(super) const SERVICE_GROWTH_PARTS: usize = PARTS * 3 / 10;
/// Smaller service times, in nanoseconds, are noise of the machine.
pub(super) const SERVICE_GROWTH_FLOOR_NS: f64 = 1_000_000.0;
/// The share of datagrams that may be lost: of a hundred requests one.
pub(crate) const LOST_SHARE_MAX: f64 = 0.01;
/// The CPU time of a request is representative of more requests once the server is this busy: batching has had its effect.
pub(super) const BUSY_SHARE_MIN: f64 = 0.8;

// The client.

/// The median send delay must stay below this share of the interval between requests...
pub(super) const SEND_DELAY_SHARE_MAX: f64 = 0.5;
/// ...or below this, in nanoseconds: five times the paper's p99 (kawai2008 section 5.3).
pub(super) const SEND_DELAY_P50_NS: f64 = 100_000.0;
/// The p99 of the send delay must stay below this, in nanoseconds, or below the p99 of the service time of requests sent on time:
/// a send delay is part of the response time, and a burst after it adds to the service time...
pub(super) const DELAY_P99_NS: f64 = 1_000_000.0;
/// ...and its p99.9 below this, or below that p99.9: a neighbour takes the CPU for this long now and then.
pub(super) const DELAY_P999_NS: f64 = 10_000_000.0;
/// A percentile of the send delay needs this many requests beyond it; for p99.9 more, or a single stall would decide it.
pub(super) const BEYOND_P99_MIN: f64 = 1.0;
/// See [`BEYOND_P99_MIN`].
pub(super) const BEYOND_P999_MIN: f64 = 10.0;
/// Responses to a receiver that is busier than this share of the window wait at the client, and look like a pile at the server.
pub(super) const RECEIVER_BUSY_SHARE_MAX: f64 = 0.95;
/// The largest distance between the planned and the actual distribution of the times between sends. A client whose send delay
/// p99 is 20 us stays below 0.1 at all rates (stats::fit). Of 83 trials on a quiet virtual machine the largest was 0.13; under
/// load the median was 0.19.
pub(super) const FIT_DISTANCE_MAX: f64 = 0.2;
/// A test of the sends fails only below this p-value: with so many sends it detects any client.
pub(super) const FIT_P_VALUE_MIN: f64 = 0.001;
/// A client of a closed loop has CPU to spare below this share of the CPUs that its threads can use; it sleeps when idle.
pub(super) const CLIENT_BUSY_SHARE_MAX: f64 = 0.95;
/// A client without CPU to spare does not limit a server that has used this share of its own CPUs.
pub(super) const SERVER_BUSY_SHARE_MIN: f64 = 0.9;
/// A client that receives its start order late has this share of the time before the window to catch up.
pub(super) const LATE_SHARE_MAX: f64 = 0.5;
/// The share of CPUs, the server's or a client's, that others may take.
pub(super) const TAKEN_SHARE_MAX: f64 = 0.25;

// Plausible and sufficient figures.

/// Fewer samples have no meaningful quartiles.
pub(super) const SAMPLES_MIN: f64 = 20.0;
/// The share of requests that may time out on a server that is not saturated.
pub(super) const TIMEOUT_SHARE_MAX: f64 = 0.001;
/// The largest drift of the client's clock against the kernel's, in parts per million. Beyond it the clock is not the calibrated
/// one; observed drifts were below a hundred.
pub(super) const DRIFT_PPM_MAX: f64 = 10_000.0;
/// The share of a closed loop's transactions that may have no sample. Steadiness is known only of those with one.
pub(super) const UNSAMPLED_SHARE_MAX: f64 = 0.5;
/// The server's counters may be read late by this share of the window...
pub(super) const COUNTED_LATE_SHARE_MAX: f64 = 0.1;
/// ...or by this, in nanoseconds: a busy machine delays any process that long.
pub(super) const COUNTED_LATE_NS: f64 = 100_000_000.0;

// Steadiness.

/// The median service time may change by this share over the window, or by chance. Of 145 trials on a quiet virtual machine the
/// largest change that was not chance was 0.36, caused by a neighbour.
pub(super) const SERVICE_CHANGE_MAX: f64 = 0.5;
/// The same for the 90th percentile.
pub(super) const SERVICE_P90_CHANGE_MAX: f64 = 1.0;
/// The same for the throughput of a closed loop, which is the inverse of the service time.
pub(super) const THROUGHPUT_CHANGE_MAX: f64 = 1.0 - 1.0 / (1.0 + SERVICE_CHANGE_MAX);
/// A test of steadiness fails only below this p-value; a window has few parts.
pub(super) const STEADINESS_P_VALUE_MIN: f64 = 0.01;

// The network of a lab.

/// The median round trip may be this share shorter than requested...
pub(super) const ROUND_TRIP_SHORT_SHARE_MAX: f64 = 0.02;
/// ...or this share longer...
pub(super) const ROUND_TRIP_LONG_SHARE_MAX: f64 = 0.1;
/// ...plus this, in milliseconds, for the network stacks of two hosts and a relay.
pub(super) const ROUND_TRIP_BESIDE_MS: f64 = 1.0;
/// Bits of a probe datagram with all headers, rounded up.
pub(super) const ROUND_TRIP_BITS: f64 = 100.0 * 8.0;
/// The loss may deviate from the requested one by this many standard deviations of the counted datagrams...
pub(super) const LOSS_DEVIATIONS_MAX: f64 = 5.0;
/// ...plus this share: on a busy machine a socket buffer overflows now and then.
pub(super) const LOSS_BESIDE: f64 = 0.002;
/// The bandwidth may deviate by this share.
pub(super) const BANDWIDTH_SHARE_MAX: f64 = 0.15;
/// The kernel may refill a token bucket this many microseconds late, which matters for small buckets.
pub(super) const BURST_LATE_US: f64 = 100.0;
/// The share of packets that a relay may drop in addition. At a response of ten packets it affects one in a thousand.
pub(super) const RELAY_DROPPED_SHARE_MAX: f64 = 0.0001;
/// The median delay of a relay, in milliseconds, plus [`RELAY_LATE_SHARE_MAX`] of the requested delay: half of the tolerance of
/// a round trip.
pub(super) const RELAY_LATE_MS_MAX: f64 = ROUND_TRIP_BESIDE_MS / 2.0;
/// See [`RELAY_LATE_MS_MAX`].
pub(super) const RELAY_LATE_SHARE_MAX: f64 = ROUND_TRIP_LONG_SHARE_MAX;
/// The 99th percentile of that delay may be this many times the limit of the median: a relay that keeps up still has hiccups.
pub(super) const RELAY_LATE_P99_TIMES: f64 = 10.0;
