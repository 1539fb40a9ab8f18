//! Sweeps and searches, as a user runs them. Simulated work per request limits the capacity on any machine.

use std::path::Path;
use std::process::Output;

use crate::cases::{Cases, case};
use crate::common::{assert_interleaved, json, muxbench, store, text};

/// Flags of short trials, with 2 ms of simulated work per request: the server handles at most 500 requests per second.
const SMALL: &[&str] = &[
    "--connections",
    "10",
    "--request",
    "1B",
    "--response",
    "100B",
    "--simulated-work",
    "cpu=2ms",
    "--ramp",
    "0",
    "--warm-up",
    "50ms",
    "--cool-down",
    "300ms",
    "--quiet",
];

const AUTOBENCH: &str =
    "dem_req_rate,req_rate,con_rate,min_rep_rate,avg_rep_rate,max_rep_rate,stddev_rep_rate,resp_time,net_io,errors";

/// Runs muxbench in `folder`. Panics with all output unless the exit code is one of `codes`.
fn run(folder: &Path, arguments: &[&str], codes: &[i32]) -> Output {
    let output = muxbench().args(arguments).current_dir(folder).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{arguments:?}\n{out}\n{err}");
    output
}

fn sweep_stops_past_saturation_and_writes_autobench_columns() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = ["sweep", "--arch", "epoll", "--rate", "100,2k..6k+1k", "--measure", "1s", "--output", "here"];
    let files = ["--csv", "steps.csv", "--tsv", "steps.tsv"];
    let out = text(&run(folder.path(), &[&sweep[..], &files, SMALL].concat(), &[0, 3]).stdout);
    // All rates except the first exceed the capacity. On a busy machine the first may exceed it, too.
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("not run: lower rates already exceeded"), "{out}");
    assert!(out.contains("dem_req_rate"), "{out}");

    let csv = std::fs::read_to_string(folder.path().join("steps.csv")).unwrap();
    assert!(
        csv.lines().count() == 7 && AUTOBENCH.split(',').all(|name| csv.contains(&format!("step.{name}"))),
        "{csv}"
    );
    let whole = json(&run(folder.path(), &["report", "here", "--json"], &[0]));
    let curve = &whole["sweep"]["curves"][0];
    assert_eq!((&curve["architecture"], &curve["workload"]["connections"]), (&"epoll".into(), &10.into()));
    let steps = curve["steps"].as_array().unwrap();
    let rates: Vec<f64> = steps.iter().filter_map(|step| step["dem_req_rate"].as_f64()).collect();
    assert_eq!(rates, [100.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0]);
    let run_count = steps.iter().filter(|step| !step["verdict"].is_null()).count();
    assert!((2..=3).contains(&run_count), "{curve}");
    assert!(steps.iter().enumerate().all(|(at, step)| step["avg_rep_rate"].is_null() == (at >= run_count)), "{curve}");
    // A server without CPU time may answer no request of a step in time.
    let answered = || steps[..run_count].iter().filter(|step| step["resp_time"].as_f64().is_some_and(|ms| ms > 0.0));
    // The chart omits a p99 that the client may have caused, as on a busy machine.
    let drawn = answered().filter(|step| step["clients_from"].as_str().is_none_or(|it| it == "p99.9")).count();
    assert_eq!(out.contains("p99 of the response time"), drawn > 1, "{out}");
    for step in &steps[..run_count] {
        let number = |name: &str| step[name].as_f64().unwrap();
        assert!(number("avg_rep_rate") <= 1000.0 && number("con_rate") == 0.0, "{step}");
        assert!((number("min_rep_rate")..=number("max_rep_rate")).contains(&number("avg_rep_rate")), "{step}");
    }
    // Simulated work takes 2 ms, or less if the CPU has become faster since the work was calibrated.
    assert!(answered().all(|step| step["resp_time"].as_f64() >= Some(1.0)), "{curve}");

    let tsv = std::fs::read_to_string(folder.path().join("steps.tsv")).unwrap();
    assert_eq!(
        tsv.lines().next().unwrap().replace('\t', ","),
        AUTOBENCH,
        "one architecture has autobench's ten columns"
    );
    assert_eq!(tsv.lines().count(), 7);

    // `report` prints the stored run again, and `--resume` of a finished run writes its rows again.
    let again = text(&run(folder.path(), &["report", "here"], &[0]).stdout);
    assert!(out.starts_with(&again), "{out}\n{again}");
    run(folder.path(), &["sweep", "--resume", "here", "--csv", "again.csv", "--quiet"], &[0, 3]);
    assert_eq!(std::fs::read_to_string(folder.path().join("again.csv")).unwrap(), csv);
}

fn sweeps_of_sessions_and_datagrams_have_all_columns() {
    let folder = tempfile::tempdir().unwrap();
    let traffics: [(&[&str], bool); 2] = [
        (&["--arch", "epoll", "--rate", "100", "--requests-per-connection", "2", "--connections", "10"], true),
        (&["--arch", "epoll,mt", "--rate", "1000", "--service", "udp", "--ports", "10", "--output", "udp"], false),
    ];
    for (traffic, connects) in traffics {
        let sweep = ["sweep", "--measure", "500ms", "--ramp", "0", "--warm-up", "50ms"];
        // A client that spins would take CPU time from other tests.
        let more = ["--cool-down", "300ms", "--pacing", "sleep-spin", "--quiet", "--tsv", "steps.tsv"];
        run(folder.path(), &[&sweep[..], &more, traffic].concat(), &[0, 3]);
        let tsv = std::fs::read_to_string(folder.path().join("steps.tsv")).unwrap();
        let step = tsv.lines().nth(1).unwrap().split('\t').map(|cell| cell.parse::<f64>());
        let step: Vec<f64> = step.collect::<Result<_, _>>().unwrap_or_else(|_| panic!("a cell is empty: {tsv}"));
        let value = |column: &str| step[AUTOBENCH.split(',').position(|name| name == column).unwrap()];
        assert_eq!(value("con_rate") > 0.0, connects, "{tsv}");
        assert!(
            value("min_rep_rate") <= value("avg_rep_rate") && value("avg_rep_rate") <= value("max_rep_rate"),
            "{tsv}"
        );
    }
    assert_interleaved(&harness::store::read(&folder.path().join("udp")).unwrap());
}

fn capacity_is_below_the_computed_limit() {
    let folder = tempfile::tempdir().unwrap();
    let capacity = ["capacity", "--p50", "20ms", "--arch", "epoll", "--from", "400", "--measure", "200ms"];
    let limits = ["--precision", "50%", "--time-max", "15s", "--output", "here"];
    let out = text(&run(folder.path(), &[&capacity[..], &limits, SMALL].concat(), &[0, 3]).stdout);
    assert!(out.contains("Highest rate with p50 <= 20ms: 10 connections"), "{out}");
    let again = text(&run(folder.path(), &["report", "here"], &[0]).stdout);
    assert!(out.starts_with(&again), "{out}\n{again}");
    let whole = json(&run(folder.path(), &["report", "here", "--json"], &[0]));
    let row = &whole["capacity"]["rows"][0];
    let trials = whole["trials"].as_array().unwrap();
    let probes: u64 = row["probes"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(probes, trials.len() as u64);
    // The capacity is 500 requests/s, or at most twice as many if the CPU has become faster since the work was calibrated. The
    // upper end of the interval depends on the probes and is bounded only for a precise result.
    if let Some(answer) = row["answer"].get("server") {
        let [low, high] = ["low", "high"].map(|end| answer["interval"][end].as_f64().unwrap());
        let rate = answer["most"].as_f64().unwrap();
        assert!(0.0 < low && low <= rate && rate <= high && low <= 1000.0, "{row}");
        assert!(row["ended"] != "precise" || (rate < 1000.0 && high <= rate * 1.5), "{row}");
    } else if let Some(least) = row["answer"].get("at-least") {
        assert!(least["most"].as_f64().unwrap() <= 1000.0, "{row}");
    } else {
        assert_eq!(row["probes"]["met"], 0, "without an answer no probe met the limit: {row}");
    }
    let rates: Vec<f64> = trials.iter().map(|it| it["trial"]["workload"]["rate_per_s"].as_f64().unwrap()).collect();
    assert!(rates[0] == 400.0 && rates.iter().all(|rate| *rate <= 1600.0), "no rate above 1600 is probed: {rates:?}");
}

fn most_connections_at_a_rate_are_found_without_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let search = ["capacity", "--at-rate", "100", "--arch", "epoll", "--from", "4", "--to", "8", "--json"];
    let phases = ["--ramp", "0", "--warm-up", "50ms", "--measure", "500ms", "--pacing", "sleep-spin"];
    let more = ["--time-max", "20s", "--quiet"];
    let whole = json(&run(folder.path(), &[&search[..], &phases, &more].concat(), &[0, 3]));
    let row = &whole["capacity"]["rows"][0];
    // Only a machine that is too busy for 100 requests/s ends the search in another way.
    if row["ended"] == "all-met" {
        assert_eq!(row["answer"]["at-least"]["most"], 8.0, "{row}");
    } else {
        assert_ne!(row["ended"], "precise", "{row}");
    }
    let workloads = whole["trials"].as_array().unwrap().iter().map(|it| &it["trial"]["workload"]);
    let probes: Vec<_> = workloads.map(|it| (it["connections"].as_u64().unwrap(), &it["rate_per_s"])).collect();
    assert!(probes[0].0 == 4 && probes.iter().all(|(connections, _)| *connections <= 8), "{probes:?}");
    assert!(probes.iter().all(|(_, rate_per_s)| **rate_per_s == 100.0), "{probes:?}");
}

fn probes_that_shared_a_window_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut searches = testkit::capacity_run();
    let slices = testkit::interleaved_run().header.trials[0].client.slices;
    searches.records[..2].iter_mut().for_each(|record| record.trial.client.slices = slices);
    store(&folder.path().join("searches"), &searches);
    let whole = json(&run(folder.path(), &["report", "searches", "--json"], &[0]));
    let rows = whole["capacity"]["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["interleaved"].as_u64().unwrap()).sum::<u64>(), 2);
    let out = text(&run(folder.path(), &["report", "searches"], &[0]).stdout);
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    let count = searches.records.len();
    assert!(words.contains(&format!("In 2 of {count} probes the servers shared a window")), "{out}");
}

fn search_out_of_time_resumes_up_to_its_highest_rate() {
    let folder = tempfile::tempdir().unwrap();
    let capacity = ["capacity", "--p50", "10s", "--arch", "epoll", "--from", "100", "--to", "200"];
    let phases = ["--connections", "10", "--ramp", "0", "--warm-up", "50ms", "--measure", "250ms"];
    let more = ["--pacing", "sleep-spin", "--time-max", "1ms", "--output", "here", "--quiet"];
    run(folder.path(), &[&capacity[..], &phases, &more].concat(), &[0, 3]);
    let stored = || harness::store::read(&folder.path().join("here")).unwrap();
    assert_eq!(stored().records.len(), 1, "no probe starts after the first");
    let resume = ["capacity", "--resume", "here", "--quiet"];
    run(folder.path(), &resume, &[0, 3]);
    assert_eq!(stored().records.len(), 1, "no probe starts after the time limit");
    let whole = json(&run(folder.path(), &[&resume[..], &["--time-max", "20s", "--json"]].concat(), &[0, 3]));
    let resumed = stored();
    assert!(resumed.records.len() > 1, "the search continues");
    let harness::record::Strategy::Capacity(question) = resumed.header.strategy else { panic!("the run is a search") };
    assert_eq!(question.time_max_ns, 20_000_000_000, "the new time limit is stored");
    let row = &whole["capacity"]["rows"][0];
    // Only a machine that is too busy for 200 requests/s ends the search in another way.
    if row["ended"] == "all-met" {
        assert_eq!(row["answer"]["at-least"]["most"], 200.0, "{row}");
    } else {
        assert_ne!(row["ended"], "precise", "{row}");
    }
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.alone(case!(sweep_stops_past_saturation_and_writes_autobench_columns));
    cases.once(case!(sweeps_of_sessions_and_datagrams_have_all_columns));
    cases.alone(case!(capacity_is_below_the_computed_limit));
    cases.once(case!(most_connections_at_a_rate_are_found_without_a_limit));
    cases.once(case!(probes_that_shared_a_window_are_counted));
    cases.once(case!(search_out_of_time_resumes_up_to_its_highest_rate));
}
