//! Rates that change over the window, and replays of recorded arrivals, as a user runs them.

use std::path::Path;

use crate::cases::{Cases, case};
use crate::common::{Serve, muxbench};
use harness::record::TrialRecord;

/// Flags of trials that take half a second. A client that spins would take CPU time from other tests.
const SMALL: &[&str] = &[
    "--connections",
    "20",
    "--ramp",
    "0",
    "--warm-up",
    "50ms",
    "--cool-down",
    "60s",
    "--pacing",
    "sleep-spin",
    "--quiet",
];

/// Runs muxbench in `folder`. Returns the words of its output. Also accepts exit code 3, because a busy machine may delay the client.
fn run(folder: &Path, arguments: &[&str]) -> String {
    let output = muxbench().args(arguments).current_dir(folder).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{arguments:?}\n{out}\n{err}");
    // Without the line breaks of a narrow output.
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The planned times of a trial in nanoseconds after the start of the window, and the trial.
fn planned(run: &Path) -> (Vec<i64>, TrialRecord) {
    let samples = traffic::samples::read(&harness::store::samples_path(run, 0)).unwrap();
    let record = harness::store::read(run).unwrap().records.remove(0);
    (samples.iter().map(|sample| sample.planned_ns).collect(), record)
}

fn profile_is_sent_and_its_samples_are_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let profile = "hold:200:200ms,step:500..1000+500:100ms,ramp:1000..0:100ms,hold:0:100ms";
    let sizes = ["--request", "1B", "--response", "100B"];
    let compare = ["compare", "--arch", "epoll,mt", "--rate-profile", profile, "--output", "first"];
    let out = run(folder.path(), &[&compare[..], &sizes, SMALL].concat());
    // 40 + 50 + 100 + 50 requests in 600 ms.
    assert!(out.contains("400 requests/s on average (5 segments, at most 1000/s, in 600ms)"), "{out}");
    let (times, record) = planned(&folder.path().join("first"));
    let load = record.load.as_ref().unwrap();
    assert_eq!((times.len(), load.planned, load.window_ns), (240, 240, 600_000_000));
    assert!(times.iter().all(|&ns| ns < 500_000_000), "the last segment is a pause");
    let by_part = load.planned_by_part.unwrap();
    assert_eq!((by_part.iter().sum::<u64>(), by_part[31]), (240, 0));
    run(folder.path(), &["report", "first", "--html", "page.html"]);
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("Offered and achieved rate over the window"), "the page has the figure");

    let serve = Serve::start("epoll".parse().unwrap(), 1, 100);
    let address = serve.address.to_string();
    let replay =
        ["load", "--target", &address, "--trace", "first/samples/0000.parquet", "--speed", "0.5", "--output", "again"];
    let out = run(folder.path(), &[&replay[..], &sizes, SMALL].concat());
    assert!(out.contains("over the window: 240 arrivals of 0000.parquet at 0.5x speed"), "{out}");
    let (again, record) = planned(&folder.path().join("again"));
    let expected: Vec<i64> = times.iter().map(|ns| 2 * (ns - times[0])).collect();
    let interval_ns = 1e9 / record.trial.workload.rate_per_s().unwrap();
    let test = stats::fit::sends_against_plan(&expected, &again, interval_ns).unwrap();
    assert!(again.len() == 240 && test.effect < 0.02, "{test:?}");
    let furthest_ns = expected.iter().zip(&again).map(|(expected, ns)| (expected - ns).abs()).max();
    assert!(furthest_ns <= Some(1_000), "{furthest_ns:?}");
    assert!(record.load.unwrap().fit.is_some(), "the sends are tested against the file");
}

fn recorded_sizes_and_connections_are_replayed_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    // A part at double speed: 100 requests in 200 ms.
    let row = |at: u64| format!("{},{},{},{}\n", 7_000 + at * 4, at % 7, at % 3 * 50, 10 + at % 2 * 990);
    let rows: String = (0..300).map(row).collect();
    std::fs::write(folder.path().join("day.csv"), format!("time_ms,connection,request_bytes,response_bytes\n{rows}"))
        .unwrap();
    let part = "--trace day.csv --speed 2 --trace-from 100ms --trace-length 400ms";
    let compare = |flags: &str| format!("compare --arch epoll {part} {flags}");
    let http = compare("--service http --output run");
    let out = run(folder.path(), &[&http.split(' ').collect::<Vec<_>>()[..], SMALL].concat());
    assert!(out.contains("100 arrivals of day.csv with their 6 sizes from 100ms at 2x speed"), "{out}");
    let samples = traffic::samples::read(&harness::store::samples_path(&folder.path().join("run"), 0)).unwrap();
    // The part begins with the 25th row.
    let expected: Vec<u32> = (25..125).map(|at| at % 7).collect();
    assert_eq!(samples.iter().map(|sample| sample.connection).collect::<Vec<_>>(), expected);
    let load = harness::store::read(&folder.path().join("run")).unwrap().records.remove(0).load.unwrap();
    assert_eq!((load.planned, load.completed, load.errors.total()), (100, 100, 0), "{:?}", load.errors);

    let fixed = compare("--trace-ignore request_bytes --output fixed");
    let output = muxbench().args(fixed.split(' ')).args(SMALL).current_dir(folder.path()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(error.contains("cannot replay the column response_bytes of "), "{error}");
    assert!(error.contains("use --service http; or ignore it with --trace-ignore response_bytes"), "{error}");
    assert!(!folder.path().join("fixed").exists(), "nothing has started");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(recorded_sizes_and_connections_are_replayed_or_refused));
    cases.once(case!(profile_is_sent_and_its_samples_are_replayed));
}
