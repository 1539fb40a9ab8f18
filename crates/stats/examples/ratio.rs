//! Compares two servers by the medians of four repeats.

use muxbench_stats::{Histogram, Ratio, Repeat};

/// Prints quantiles, and a ratio with its interval.
pub fn main() {
    let mut histogram = Histogram::new();
    (1..=1000).for_each(|us| histogram.record(us * 1000));
    println!("p99 {} µs", histogram.quantile(0.99) / 1000);

    // Repeats in which both servers ran at the same time have the same number.
    let repeats = |medians_us: [f64; 4]| -> Vec<Repeat> {
        (0..).zip(medians_us).map(|(heat, value)| Repeat::new(heat, value)).collect()
    };
    let (threads, epoll) = (repeats([18.9, 19.4, 18.7, 19.1]), repeats([15.1, 15.6, 15.0, 15.2]));
    let ratio = Ratio::of(&threads, &epoll).expect("all medians are positive");
    let interval = ratio.interval.expect("four repeats have an interval");
    assert!(interval.low > 1.2 && interval.high < 1.3);
    println!("threads / epoll: {:.3} ({:.3} to {:.3})", ratio.ratio, interval.low, interval.high);
}
