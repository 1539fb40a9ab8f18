//! `advise` against a long comparison of the same architectures under the same traffic.

use std::process::Command;
use std::time::Instant;

use serde::Deserialize;

use super::numbers::Numbers;
use super::process::{MEASURED, answer, muxbench};
use super::results::{compare, shown};
use super::spread::{Bound, Spread};

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub struct Advise {
    /// Workloads, as in 1-3,7
    #[arg(long, default_value = "1-20")]
    workloads: Numbers,
    /// Architectures, with commas, or all
    #[arg(long, default_value = "all")]
    arch: String,
    /// Budget of `advise`
    #[arg(long, default_value = "90s")]
    budget: String,
    /// Seconds of load of each architecture in each repeat of the long comparison
    #[arg(long, default_value_t = 2)]
    seconds: u32,
}

/// The flags of the traffic.
const WORKLOADS: [&str; 20] = [
    "--connections 400 --rate 2000",
    "--connections 50 --rate 500 --request 1B --response 1B",
    "--connections 400 --rate 8000 --request 1B --response 1B",
    "--connections 2000 --rate 1000",
    "--connections 2000 --rate 1000 --active 1/64 --response 128B",
    "--connections 5000 --rate 2000 --active 1/16 --response 128B",
    "--connections 100 --rate 1000 --response 100KiB",
    "--connections 100 --rate 4000 --request 4KiB --response 128B",
    "--connections 400 --rate 1000 --simulated-work cpu=50us",
    "--connections 200 --rate 500 --simulated-work cpu=200us,exponential",
    "--connections 400 --rate 500 --simulated-work sleep=1ms",
    "--connections 400 --rate 2000 --schedule poisson",
    "--connections 400 --rate 2000 --popularity zipf",
    "--connections 200 --rate 2000 --idle 2000",
    "--connections 100 --rate 1000 --requests-per-connection 1 --response 128B",
    "--connections 400 --rate 2000 --service http --response 1KiB",
    "--connections 400 --rate 4000 --service kv",
    "--connections 100 --schedule closed --request 128B --response 128B",
    "--connections 100 --schedule closed --pipeline 16 --request 128B --response 128B",
    "--connections 10 --schedule closed --response 256KiB",
];

#[derive(Deserialize)]
struct Advice {
    winner: Option<String>,
    tied: Vec<String>,
}

pub(super) fn run(count: usize, args: &Advise) -> anyhow::Result<()> {
    let binary = muxbench()?;
    println!("advise --budget {} against {count} repeats of {} s of each architecture", args.budget, args.seconds);
    let (mut agreeing, mut ratios) = (0, Vec::new());
    for (number, traffic) in args.workloads.choose(&WORKLOADS)? {
        let started = Instant::now();
        let flags = format!("{traffic} --arch {} --budget {}", args.arch, args.budget);
        let advice: Advice =
            answer(Command::new(&binary).args(["advise", "--json", "--quiet"]).args(flags.split(' ')), MEASURED)?;
        let advise_s = started.elapsed().as_secs_f64();
        let started = Instant::now();
        let phases = format!("--repeats {count} --ramp 100ms --warm-up 200ms --measure {}s", args.seconds);
        let long = compare(&binary, &format!("{traffic} --arch {} {phases}", args.arch))?;
        let long_s = started.elapsed().as_secs_f64();
        let best = long.rows.iter().find(|row| row.repeats_valid > 0).map(|row| row.label.as_str());
        let finding = match (&advice.winner, best) {
            (Some(winner), Some(best)) if winner == best => "agree".to_owned(),
            (Some(_), Some(best)) if advice.tied.iter().any(|it| it == best) => format!("tie with {best}"),
            (Some(winner), Some(best)) => {
                let why = match long.ratio(winner, best) {
                    Ok(ratio) => format!("its ratio of {winner} to {best} is {}", shown(ratio)),
                    Err(reason) => format!("{reason:#}"),
                };
                format!("DIFFER: the long comparison has {best}; {why}")
            }
            _ => format!("DIFFER: the long comparison has {}", best.unwrap_or("no valid row")),
        };
        agreeing += usize::from(!finding.starts_with("DIFFER"));
        ratios.push(advise_s / long_s);
        println!(
            "  {number:2} {traffic}\n     {} ({advise_s:.0} s), tied: {}; {finding} ({long_s:.0} s)",
            advice.winner.as_deref().unwrap_or("no winner"),
            if advice.tied.is_empty() { "none".into() } else { advice.tied.join(", ") },
        );
    }
    let share = Spread::share(agreeing, ratios.len()).check(Bound::AtLeast(0.95));
    println!("  agree or tie: {agreeing} of {}; share {share}", ratios.len());
    println!("  time / time of the long comparison {}", Spread::of(ratios).check(Bound::AtMost(1.0 / 3.0)));
    Ok(())
}
