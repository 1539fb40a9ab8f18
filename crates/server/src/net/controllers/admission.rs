//! SEDA's admission control (Welsh and Culler, USITS 2003): a token bucket admits requests. Its rate rises by addition while the
//! 90th percentile of the response times is far below its target. It falls by division while the percentile exceeds the target.
//! The numbers are those of `ResponseTimeControllerMulticlass` in SandStorm.

use std::time::Instant;

use crate::metrics::workers::Gauges;
use crate::net::queue::lock;
use crate::spec::controllers::AdmissionControl;
use crate::sync::Mutex;
use crate::sync::atomic::Ordering::Relaxed;

/// The weight of older percentiles in the average.
const SMOOTHING: f64 = 0.7;
/// The errors, relative to the target, below which the rate rises and above which it falls.
const ERROR_OF_INCREASE: f64 = -0.5;
const ERROR_OF_DECREASE: f64 = 0.0;
/// The divisor of a decrease.
const DECREASE: f64 = 1.2;
/// The error at which an increase would be 0.
const INCREASE_OFFSET: f64 = -0.1;
/// The bucket holds the tokens of this time, and at least [`TOKENS_MIN`]. A network thread queues the requests of many
/// connections at once, so a bucket of one token would reject them below the admitted rate.
const BUCKET_S: f64 = 0.01;
const TOKENS_MIN: f64 = 10.0;

/// The state of the controller. It reads no clock: times are in nanoseconds after the start.
#[derive(Debug)]
pub(crate) struct Controller {
    control: AdmissionControl,
    /// The admitted requests per second. All are admitted until the first decrease, which begins at the measured rate.
    per_s: f64,
    tokens: f64,
    filled_ns: u64,
    /// The average of the 90th percentiles.
    p90_ns: f64,
    /// The response times since the last adjustment, and the time of the first of them.
    times_ns: Vec<u64>,
    begun_ns: u64,
}

impl Controller {
    pub(crate) fn new(control: AdmissionControl) -> Self {
        Self {
            control,
            per_s: f64::INFINITY,
            tokens: TOKENS_MIN,
            filled_ns: 0,
            p90_ns: 0.0,
            times_ns: Vec::new(),
            begun_ns: 0,
        }
    }

    /// Returns whether to admit a request.
    pub(crate) fn admit(&mut self, now_ns: u64) -> bool {
        if self.per_s.is_infinite() {
            return true;
        }
        let elapsed_s = now_ns.saturating_sub(self.filled_ns) as f64 / 1e9;
        self.filled_ns = self.filled_ns.max(now_ns);
        self.tokens = (self.tokens + elapsed_s * self.per_s).min((BUCKET_S * self.per_s).max(TOKENS_MIN));
        let is_admitted = self.tokens >= 1.0;
        if is_admitted {
            self.tokens -= 1.0;
        }
        is_admitted
    }

    /// Adds the response time of an admitted request. Adjusts the rate after enough of them, or enough time.
    pub(crate) fn complete(&mut self, now_ns: u64, response_ns: u64) {
        if self.times_ns.is_empty() {
            self.begun_ns = now_ns;
        }
        self.times_ns.push(response_ns);
        let elapsed_ns = now_ns.saturating_sub(self.begun_ns);
        if self.times_ns.len() >= self.control.requests as usize || elapsed_ns >= self.control.timeout_ns {
            self.adjust(elapsed_ns);
            self.times_ns.clear();
        }
    }

    fn adjust(&mut self, elapsed_ns: u64) {
        let count = self.times_ns.len();
        let (_, p90_ns, _) = self.times_ns.select_nth_unstable(count * 9 / 10);
        self.p90_ns = SMOOTHING * self.p90_ns + (1.0 - SMOOTHING) * *p90_ns as f64;
        let target_ns = self.control.target_ns as f64;
        let error = (self.p90_ns - target_ns) / target_ns;
        let weight = f64::from(self.control.increase_per_s);
        if error > ERROR_OF_DECREASE {
            let measured_per_s = count as f64 * 1e9 / elapsed_ns.max(1) as f64;
            let from_per_s = if self.per_s.is_finite() { self.per_s } else { measured_per_s };
            // Some requests must be admitted, or no response time would show that the load has gone.
            self.per_s = (from_per_s / DECREASE).max(weight);
        } else if error < ERROR_OF_INCREASE {
            self.per_s += weight * (INCREASE_OFFSET - error);
        }
    }

    /// The admitted requests per second; `None` while all are admitted.
    pub(crate) fn admitted_per_s(&self) -> Option<u64> {
        self.per_s.is_finite().then_some(self.per_s as u64)
    }
}

/// The controller that all threads of a server share, with its clock.
#[derive(Debug)]
pub(crate) struct Admission<'a> {
    started: Instant,
    controller: Mutex<Controller>,
    gauges: &'a Gauges,
}

impl<'a> Admission<'a> {
    pub(crate) fn new(control: AdmissionControl, gauges: &'a Gauges) -> Self {
        Self { started: Instant::now(), controller: Mutex::new(Controller::new(control)), gauges }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Returns whether to admit a request.
    pub(crate) fn admit(&self, now_ns: u64) -> bool {
        lock(&self.controller).admit(now_ns)
    }

    /// Adds the response time of a request that was admitted at `admitted_ns`.
    pub(crate) fn complete(&self, admitted_ns: u64) {
        let now_ns = self.now_ns();
        let mut controller = lock(&self.controller);
        controller.complete(now_ns, now_ns.saturating_sub(admitted_ns));
        if let Some(per_s) = controller.admitted_per_s() {
            self.gauges.admitted_per_s.store(per_s, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn controller() -> Controller {
        Controller::new(AdmissionControl { increase_per_s: 100, ..AdmissionControl::of_target(10 * MS) })
    }

    /// Offers 2 000 requests per second, and returns the share that was admitted.
    fn offer(controller: &mut Controller, from_s: u64, seconds: u64, response_ns: u64) -> f64 {
        let times = (from_s * 2_000..(from_s + seconds) * 2_000).map(|half_ms| half_ms * MS / 2);
        let mut admitted = 0;
        for now_ns in times {
            if controller.admit(now_ns) {
                admitted += 1;
                controller.complete(now_ns, response_ns);
            }
        }
        f64::from(admitted) / (seconds * 2_000) as f64
    }

    #[test]
    fn requests_are_admitted_under_the_target_and_rejected_over_it() {
        let mut controller = controller();
        assert_eq!(offer(&mut controller, 0, 2, 4 * MS), 1.0);
        assert_eq!(controller.admitted_per_s(), None);
        let over = offer(&mut controller, 2, 4, 30 * MS);
        assert!(over < 0.5, "{over} of the requests were admitted over the target");
        let rate = controller.admitted_per_s().unwrap();
        assert!(rate < 1_000, "{rate}");
        let under = offer(&mut controller, 6, 60, 2 * MS);
        assert!(under > 2.0 * over, "{under} of the requests were admitted under the target again");
        assert_eq!(offer(&mut controller, 66, 5, 2 * MS), 1.0, "the rate has risen above the load");
    }

    #[test]
    fn first_decrease_begins_at_the_measured_rate_after_a_pause() {
        let mut controller = controller();
        for at in 0..100 {
            controller.complete(1_000_000 * MS + at * MS, 200 * MS);
        }
        // 100 responses in 99 ms, and one decrease.
        assert_eq!(controller.admitted_per_s(), Some(841));
    }

    #[test]
    fn rate_stays_between_half_the_target_and_the_target() {
        let mut controller = controller();
        offer(&mut controller, 0, 4, 30 * MS);
        // The average percentile needs some adjustments to reach the new response time.
        offer(&mut controller, 4, 60, 8 * MS);
        let rate = controller.admitted_per_s();
        offer(&mut controller, 64, 20, 8 * MS);
        assert_eq!(controller.admitted_per_s(), rate);
    }

    #[test]
    fn some_requests_are_admitted_however_slow_they_are() {
        let mut controller = controller();
        offer(&mut controller, 0, 30, 1_000 * MS);
        assert_eq!(controller.admitted_per_s(), Some(100));
        assert!(offer(&mut controller, 30, 10, 1_000 * MS) > 0.0);
    }
}
