//! A replay of a million recorded arrivals in a minute: the sends against the file.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::process::{CLIENT_CPU, CONNECTIONS, MEASURED, Server, example, muxbench, printed};
use super::spread::{Bound, rounds};
use crate::command;

/// The largest distance of the sends from the file. Delays between 0 and 20 µs give about 0.01.
const DISTANCE_MAX: f64 = 0.02;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Trace {
    /// Recorded arrivals
    #[arg(long, default_value_t = 1_000_000)]
    requests: usize,
    /// Length of the recording in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

pub(super) fn run(count: usize, &Trace { requests, seconds }: &Trace) -> anyhow::Result<()> {
    let (binary, folder) = (muxbench()?, tempfile::tempdir()?);
    println!(
        "replay of {requests} arrivals in {seconds} s, {CONNECTIONS} connections, 1 B -> 1 B, epoll; {count} rounds"
    );
    let [distance, p50, p99, max] = rounds(count, || {
        let arrivals_ns = arrivals_ns(requests, seconds);
        let file = folder.path().join("trace.csv");
        write(&file, &arrivals_ns).with_context(|| file.display().to_string())?;
        let sends_ns = replay(&binary, &file)?;
        ensure!(sends_ns.len() == requests, "{} of {requests} requests were sent", sends_ns.len());
        let interval_ns = f64::from(seconds) * 1e9 / requests as f64;
        let fit = stats::sends_against_plan(&arrivals_ns, &sends_ns, interval_ns).context("too few arrivals")?;
        let mut delays_us: Vec<f64> =
            sends_ns.iter().zip(&arrivals_ns).map(|(sent, due)| (sent - due + arrivals_ns[0]) as f64 / 1e3).collect();
        delays_us.sort_by(f64::total_cmp);
        let at = |share| stats::quantile(&delays_us, share).unwrap_or(f64::NAN);
        Ok([fit.effect, at(0.5), at(0.99), at(1.0)])
    })?;
    println!(
        "  Kolmogorov-Smirnov distance of the sends from the file {}",
        distance.check(Bound::AtMost(DISTANCE_MAX))
    );
    println!("  send after the recorded time in µs: p50 {p50}; p99 {p99}; max {max}");
    Ok(())
}

/// Draws a recording: a Poisson process whose rate swings by half around its mean, three times a minute.
fn arrivals_ns(count: usize, seconds: u32) -> Vec<i64> {
    let (mean_s, mut at_s) = (f64::from(seconds) / count as f64, 0.0);
    (0..count as u64)
        .map(|number| {
            // SplitMix64 (Steele, Lea and Flood 2014).
            let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let uniform = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
            let rate = 1.0 + 0.5 * (at_s * std::f64::consts::TAU / 20.0).sin();
            at_s -= (1.0 - uniform).ln() * mean_s / rate;
            (at_s * 1e9) as i64
        })
        .collect()
}

fn write(file: &Path, times_ns: &[i64]) -> std::io::Result<()> {
    let mut out = BufWriter::new(fs::File::create(file)?);
    writeln!(out, "time_ns")?;
    times_ns.iter().try_for_each(|ns| writeln!(out, "{ns}"))?;
    out.flush()
}

/// Replays a file, and returns the send times after the start of the window in ascending order.
fn replay(binary: &Path, file: &Path) -> anyhow::Result<Vec<i64>> {
    let (server, samples) = (Server::ours("epoll", (1, 1))?, file.with_extension("parquet"));
    let mut command = Command::new(binary);
    command.args(["load", &format!("tcp://{}", server.address), "--request", "1B", "--response", "1B", "--quiet"]);
    command.args(["--connections", &CONNECTIONS.to_string(), "--client-cpus", &CLIENT_CPU.to_string(), "--trace"]);
    command.arg(file).arg("--samples").arg(&samples).arg("--output").arg(file.with_extension("run"));
    // A disturbed trial is not valid, but its sends are as the client made them.
    printed(&mut command, MEASURED)?;
    fs::remove_dir_all(file.with_extension("run"))?;
    let text = command::output(example("muxbench-traffic", "sends").arg(&samples)).context("the example `sends`")?;
    let mut sends_ns: Vec<i64> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
    sends_ns.sort_unstable();
    Ok(sends_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_is_ordered_and_has_its_rate() {
        let arrivals_ns = arrivals_ns(100_000, 60);
        assert!(arrivals_ns.is_sorted());
        let last_s = *arrivals_ns.last().unwrap() as f64 / 1e9;
        assert!((58.0..62.0).contains(&last_s), "{last_s}");
        let gaps = arrivals_ns.windows(2).map(|pair| (pair[1] - pair[0]) as f64);
        let (mean, long) = gaps.fold((0.0, 0), |(sum, long), gap| (sum + gap, long + usize::from(gap > 1_800_000.0)));
        // A Poisson process has gaps of three times the mean in 5 % of cases.
        assert!((mean / 1e5 / 6e5 - 1.0).abs() < 0.05 && (3_000..8_000).contains(&long), "{mean} {long}");
    }
}
