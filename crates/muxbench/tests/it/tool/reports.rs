//! Views of stored runs.

use super::*;

fn report_repeats_the_table_of_compare() {
    let folder = tempfile::tempdir().unwrap();
    let output = measure(folder.path(), &[SMALL, SEPARATE].concat());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("20 connections, 1000 requests/s, 1B -> 100B"), "{out}");
    for word in ["epoll", "mt", "p50 µs", "send delay p99", "CPU µs/req", "verdict", "seed 1", "Results: "] {
        assert!(out.contains(word), "{word}: {out}");
    }
    assert_eq!(err.lines().count(), 4, "a line of progress for each trial: {err}");
    let again = text(&run(folder.path(), &["report"], 0).stdout);
    assert!(out.starts_with(&again), "{out}\n{again}");

    let whole = json(&run(folder.path(), &["report", "--json"], 0));
    assert_eq!(whole["trials"].as_array().unwrap().len(), 4);
    for trial in whole["trials"].as_array().unwrap() {
        assert_eq!(trial["load"]["planned"], 200, "the client plans 1000 requests/s for 200 ms");
        assert_eq!(trial["load"]["connections"], 20);
        assert_eq!(trial["server"]["connections"], 20);
    }
    let requests = |trial: &Value| trial["server"]["totals"]["requests"].as_u64().unwrap();
    // If the machine pauses for a whole window, the server counts its requests after the window.
    assert!(whole["trials"].as_array().unwrap().iter().filter(|trial| requests(trial) > 0).count() >= 2, "{whole}");
    let csv = text(&run(folder.path(), &["report", "--csv"], 0).stdout);
    assert_eq!(csv.lines().count(), 5);

    let results = std::fs::read_dir(folder.path().join("results")).unwrap().next().unwrap().unwrap().path();
    for trial in 0..4 {
        let samples = traffic::samples::read(&harness::store::samples_path(&results, trial)).unwrap();
        assert_eq!(samples.len(), 200);
        assert!(
            samples.iter().all(|sample| sample.planned_ns <= sample.sent_ns && sample.sent_ns < sample.complete_ns)
        );
    }
    assert_eq!(
        std::fs::read_dir(results.join("samples")).unwrap().count(),
        4,
        "each trial has one file, and no temporary file is left"
    );
    for trial in 0..4 {
        let log = std::fs::read_to_string(harness::store::histograms_path(&results, trial)).unwrap();
        assert!(log.contains(" 20 connections, 1000 requests/s, repeat "), "{log}");
        for time in ["send_delay", "service", "response"] {
            assert!(log.contains(&format!("\nTag={time},0.000,0.200,")), "{log}");
        }
    }
    assert_eq!(
        std::fs::read_dir(results.join("histograms")).unwrap().count(),
        4,
        "each trial has one file, and no temporary file is left"
    );
}

fn two_runs_are_compared_by_row() {
    let folder = tempfile::tempdir().unwrap();
    measure(folder.path(), &[SMALL, &["--output", "a", "--quiet"]].concat());
    let longer = [&SMALL[..2], &["epoll,select"], &SMALL[3..], &["--measure", "300ms", "--output", "b", "--quiet"]];
    let longer = longer.concat();
    let at = longer.iter().position(|argument| *argument == "--measure").unwrap();
    measure(folder.path(), &[&longer[..at], &longer[at + 2..]].concat());

    let same = json(&run(folder.path(), &["report", "a", "a", "--json"], 0));
    let pairs = same["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 2);
    for pair in pairs {
        assert_eq!(pair["phases_b"], Value::Null);
        let valid = pair["a"]["repeats_valid"].as_u64().unwrap();
        assert_eq!(pair["a"], pair["b"]);
        // On a busy machine there may be no valid repeat, or the client may have caused the percentiles.
        let known = pair["a"]["figures"].as_object().unwrap();
        assert!(valid > 0 || known.is_empty(), "{pair}");
        for figure in known.keys().filter(|it| *it != "rate") {
            assert_eq!(pair["changes"][figure]["ratio"], 1.0, "{pair}");
        }
    }
    assert_eq!(same["host_differences"].as_array().unwrap().len(), 0, "{}", same["host_differences"]);
    assert_eq!((&same["only_a"], &same["only_b"]), (&Value::Array(vec![]), &Value::Array(vec![])));

    let text_of_both = text(&run(folder.path(), &["report", "a", "b"], 0).stdout);
    for words in
        ["A: a, muxbench", "B: b, muxbench", "Only in A: mt at 20 ", "Only in B: select at ", "The phases differ"]
    {
        assert!(text_of_both.contains(words), "{words}: {text_of_both}");
    }
    let csv = text(&run(folder.path(), &["report", "a", "b", "--csv"], 0).stdout);
    let column = csv.lines().next().unwrap().split(',').position(|name| name == "runs").unwrap();
    assert_eq!(csv.lines().count(), 4, "{csv}");
    assert!(
        csv.lines().skip(1).zip(["both", "a", "b"]).all(|(line, runs)| line.split(',').nth(column) == Some(runs)),
        "{csv}"
    );
    let many = text(&run(folder.path(), &["report", "a", "b", "a"], 0).stdout);
    assert!(
        many.starts_with("Runs, the oldest first") && many.contains("epoll"),
        "more than two runs are shown as a history: {many}"
    );
    let error = text(&run(folder.path(), &["report", "a", "absent"], 1).stderr);
    assert!(error.contains("absent: contains no run"), "{error}");
}

fn history_of_races_shows_their_answers() {
    let folder = tempfile::tempdir().unwrap();
    let race = testkit::advise_run(10);
    ["a", "b", "c"].iter().for_each(|name| store(&folder.path().join(name), &race));
    let history = json(&run(folder.path(), &["report", "a", "b", "c", "--json"], 0));
    for entry in history["runs"].as_array().unwrap() {
        assert!(entry["sentence"].as_str().unwrap().contains("is the best"), "{entry}");
        assert_eq!(entry["planned"], entry["finished"], "the trials that ran count as planned");
    }
}

fn send_deviation_is_computed_from_stored_samples() {
    let folder = tempfile::tempdir().unwrap();
    let even = [SMALL, SEPARATE, &["--schedule", "constant", "--output", "even", "--quiet"]].concat();
    measure(folder.path(), &even);
    let report = ["report", "even", "--send-deviation"];
    let deviations = json(&run(folder.path(), &[&report[..], &["--json"]].concat(), 0));
    let trials = deviations["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4);
    for trial in trials {
        assert_eq!(trial["workload"]["schedule"], "constant");
        assert_eq!(trial["interval_ns"], 1e6, "the interval of 1000 requests/s");
        let figures = &trial["figures"];
        assert_eq!((&figures["count"], &trial["unsent"]), (&200.into(), &0.into()));
        let [min, median, max] = ["min_ns", "median_ns", "max_ns"].map(|name| figures[name].as_f64().unwrap());
        assert!(min <= median && median <= max && min <= 0.0 && 0.0 <= max, "the mean deviation is 0: {figures}");
        let cdf = trial["cdf"].as_array().unwrap();
        assert_eq!(cdf.len(), 101);
        let ends = [&cdf[0], &cdf[100]].map(|point| point["deviation_ns"].as_f64().unwrap());
        assert_eq!(ends, [min, max]);
        assert!((0.0..=1.0).contains(&figures["within_1us_of_median"].as_f64().unwrap()));
    }
    let printed = text(&run(folder.path(), &report, 0).stdout);
    assert!(printed.contains("stddev µs") && !printed.contains("presumes constant intervals"), "{printed}");

    std::fs::remove_file(harness::store::samples_path(&folder.path().join("even"), 2)).unwrap();
    let printed = text(&run(folder.path(), &report, 0).stdout);
    assert!(printed.contains("0002.parquet"), "the missing file is named: {printed}");
    let csv = text(&run(folder.path(), &[&report[..], &["--csv"]].concat(), 0).stdout);
    assert_eq!(csv.lines().count(), 5);

    store(&folder.path().join("interleaved"), &testkit::interleaved_run());
    let error = text(&run(folder.path(), &["report", "interleaved", "--send-deviation"], 1).stderr);
    assert!(error.contains("pause while other servers") && error.contains("--interleave never"), "{error}");

    let cases: &[(&[&str], i32, &str)] = &[
        (&["report", "even", "--paper", "kawai2006"], 1, "no trial of this run has a workload of kawai2006"),
        (
            &["report", "even", "--paper", "nonsense"],
            2,
            "[possible values: kawai2008, kawai2006, maharjan2012, voras2009, welsh2001, hermes2025]",
        ),
        (&["report", "even", "--paper", "kawai2006", "--send-deviation"], 2, "cannot be used with"),
        (&["report", "even", "even", "--paper", "kawai2006"], 2, "show one run, but there are several"),
        (&["report", "even", "even", "--send-deviation"], 2, "show one run, but there are several"),
    ];
    for (arguments, code, words) in cases {
        let error = text(&run(folder.path(), arguments, *code).stderr);
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
}

fn paper_experiment_prints_the_tables_of_the_paper() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = harness::spec::presets::find("kawai2006").unwrap().text;
    let small_experiment = experiment
        .replace("[400, 2000, 10000]", "400")
        .replace("[\"1\", \"1/4\", \"1/16\", \"1/64\"]", "\"1\"")
        .replace("[125, 500, 2000]", "500")
        .replace("[\"mp\", \"mt\", \"select\", \"poll\", \"epoll\"]", "\"epoll\"")
        .replace("[\"1\", \"1/64\"]", "[\"1\"]")
        .replace("[125, 2000]", "[500]")
        .replace("repeats = 3", "repeats = 1")
        .replace("measure = \"2s\"", "measure = \"200ms\"");
    std::fs::write(folder.path().join("one.toml"), small_experiment).unwrap();
    let printed = text(&measure(folder.path(), &["run", "one.toml", "--quick", "--quiet", "--output", "here"]).stdout);
    assert!(printed.ends_with("Beside the paper: muxbench report here --paper kawai2006\n"), "{printed}");
    let report = ["report", "here", "--paper", "kawai2006"];
    let tables = json(&run(folder.path(), &[&report[..], &["--json"]].concat(), 0));
    let cells = tables["service_time"].as_array().unwrap();
    assert_eq!(cells.len(), 90);
    let finished: Vec<&Value> = cells.iter().filter(|cell| !cell["here"].is_null()).collect();
    assert_eq!(finished.len(), 1);
    // On a busy machine the trial may be invalid. It then has no times.
    let here = &finished[0]["here"];
    assert_eq!(here["times"].is_object(), here["verdict"] == "valid", "{here}");
    let printed = text(&run(folder.path(), &report, 0).stdout);
    for words in ["Table 3.", "Table 4.", "Table 5.", "Figure 2", "0.565/0.563/0.126"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
}

/// Computes the percentiles of tables from the stored samples, in turns and in separate trials.
fn percentiles_of_tables_are_those_of_stored_samples() {
    let interpreter = prepared("MUXBENCH_PYTHON", "python");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/check_figures.py");
    for how in ["auto", "never"] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["--interleave", how, "--output", "here", "--quiet"];
        measure(folder.path(), &[SMALL, &arguments].concat());
        let report = run(folder.path(), &["report", "here", "--json"], 0).stdout;
        std::fs::write(folder.path().join("report.json"), report).unwrap();
        let mut check = std::process::Command::new(&interpreter);
        let output = check.arg(script).args(["here", "report.json"]).current_dir(folder.path()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let compared: u32 = text(&output.stdout).trim().parse().unwrap_or_else(|_| panic!("{errors}"));
        assert!(compared >= 16, "p1 to p75 of two times and two servers at least: {compared}");
    }
}

fn public_tools_read_samples_and_histograms() {
    let interpreter = prepared("MUXBENCH_PYTHON", "python");
    let folder = tempfile::tempdir().unwrap();
    measure(folder.path(), &[SMALL, SEPARATE, &["--output", "here", "--quiet"]].concat());
    let report = json(&run(folder.path(), &["report", "here", "--json"], 0));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read_results.py");
    let metrics = text(&run(folder.path(), &["report", "here", "--openmetrics"], 0).stdout);
    std::fs::write(folder.path().join("here.om"), metrics).unwrap();
    let mut command = std::process::Command::new(&interpreter);
    let output = command.args([script, "here", "here.om"]).current_dir(folder.path()).output();
    let output = output
        .unwrap_or_else(|error| panic!("MUXBENCH_PYTHON, {}: {error}; run `cargo xtask test`", interpreter.display()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = json(&output);
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4);
    for tool in ["duckdb", "polars", "hdrhistogram"] {
        assert_eq!(read[tool].as_object().unwrap().len(), trials.len(), "{tool} reads a file for each trial");
    }
    assert_eq!(read["prometheus"]["types"]["muxbench_trial_verdict"], "stateset");
    for (index, trial) in trials.iter().enumerate() {
        let file = format!("{index:04}");
        let p50_s = read["prometheus"]["p50_s"][index.to_string()].as_f64().unwrap();
        let p50_ns = trial["load"]["service"]["distribution"]["p50_ns"].as_f64().unwrap();
        assert!((p50_s * 1e9 - p50_ns).abs() < 0.5, "trial {index}: {p50_s} s, {p50_ns} ns");
        assert_eq!(read["polars"][&file]["rows"], trial["load"]["planned"]);
        assert_eq!(
            read["duckdb"][&file]["parameters"], trial["trial"],
            "the file contains all parameters of the trial"
        );
        for time in ["send_delay", "service", "response"] {
            let reported = &trial["load"][time]["distribution"];
            for tool in ["duckdb", "polars", "hdrhistogram"] {
                let read = &read[tool][&file]["times"][time];
                assert_eq!(read["count"], reported["count"], "{tool}, trial {index}, {time}");
                for figure in ["p50_ns", "max_ns"] {
                    let (read, reported) = (read[figure].as_f64().unwrap(), reported[figure].as_f64().unwrap());
                    // Reported values come from a histogram with an error of 0.1 %; samples are exact.
                    let tolerance = if tool == "hdrhistogram" { 0.0 } else { reported * 0.001 + 1.0 };
                    let message = format!("{tool}, trial {index}, {time} {figure}: {read}, reported {reported}");
                    assert!((read - reported).abs() <= tolerance, "{message}");
                }
            }
            let interval = &read["hdrhistogram"][&file]["times"][time];
            assert_eq!(interval["window_ms"].as_f64().unwrap().round(), 200.0);
            assert!(interval["start_ms"].as_f64().unwrap() > 1.7e12, "the start is a Unix time: {interval}");
        }
    }
}

fn single_figure_runs_only_its_experiments() {
    let folder = tempfile::tempdir().unwrap();
    let stored = testkit::run_of_experiment("kawai2008-minimised");
    store(&folder.path().join("here/kawai2008-minimised"), &stored);
    let reproduce = ["reproduce", "kawai2008", "--figure", "8", "--output", "here", "--quiet"];
    let printed = text(&run(folder.path(), &reproduce, 0).stdout);
    assert!(printed.contains("Figure 8. ") && printed.contains("Page: here/kawai2008-figure-8.html"), "{printed}");
    let page = std::fs::read_to_string(folder.path().join("here/kawai2008-figure-8.html")).unwrap();
    assert!(page.contains("muxbench reproduce kawai2008 --quick --output here --figure 8"));
    assert!(!folder.path().join("here/kawai2008-http").exists(), "an experiment without this figure does not run");

    let base = ["report", "here/kawai2008-minimised", "--paper", "kawai2008"];
    let report = |more: &[&str], code: i32| run(folder.path(), &[&base[..], more].concat(), code);
    let printed = text(&report(&["--figure", "8"], 0).stdout);
    assert!(printed.contains("Figure 8. ") && printed.contains("epoll: about 200 µs"), "{printed}");
    assert!(!printed.contains("Figure 11") && !printed.contains("Claims"), "{printed}");
    let figures = json(&report(&["--figure", "8", "--json"], 0));
    assert_eq!(figures["figures"][0]["number"], "8");
    assert!(figures["claims"].is_null());
    let csv = text(&report(&["--figure", "8", "--csv"], 0).stdout);
    assert!(csv.starts_with("figure,panel,whose,series,x,y,") && csv.contains("\n8,125 requests/s,paper,"), "{csv}");
    let whole = text(&report(&[], 0).stdout);
    assert!(whole.contains("Figure 11. ") && whole.contains("Claims"), "{whole}");
    let pasted = text(&report(&["--figure", "8", "--markdown"], 0).stdout);
    assert!(pasted.contains("### Figure 8. ") && pasted.contains("\n| --- |"), "{pasted}");
    report(&["--figure", "8", "--html", "--figures", "plots"], 0);
    for file in ["here/kawai2008-minimised/kawai2008-figure-8.html", "plots/kawai2008-figure-8.svg"] {
        assert!(std::fs::read_to_string(folder.path().join(file)).unwrap().contains("Figure 8"), "{file}");
    }
    let page = std::fs::read_to_string(folder.path().join("here/kawai2008-minimised/kawai2008-figure-8.html")).unwrap();
    let only = "<code>muxbench report here/kawai2008-minimised --paper kawai2008 --figure 8</code>";
    assert!(page.contains(only), "{only}");

    let error_of = |more: &[&str]| text(&report(more, 1).stderr);
    let printed = error_of(&["--figure", "6"]);
    assert!(
        printed.contains("uses trials of kawai2008-http") && printed.contains("reproduce kawai2008 --figure 6"),
        "{printed}"
    );
    let printed = error_of(&["--figure", "7"]);
    let expected = "invalid --figure `7`: kawai2008 has Figures 6, 8, 10, 11, A.1; no tables";
    assert!(printed.contains(expected), "{printed}");
    assert!(error_of(&["--table", "1"]).contains("invalid --table `1`"));
    let printed = text(&run(folder.path(), &["report", "here/kawai2008-minimised", "--figure", "8"], 2).stderr);
    assert!(printed.contains("--paper"), "{printed}");
}

fn finished_paper_is_shown_and_not_run_again() {
    let folder = tempfile::tempdir().unwrap();
    for experiment in ["kawai2008-http", "kawai2008-minimised", "kawai2008-saturated", "kawai2008-synchronisation"] {
        failed_run(&folder.path().join("here").join(experiment), experiment);
    }
    let reproduce = |more: &[&str], code: i32| {
        let arguments = [&["reproduce", "kawai2008", "--output", "here", "--quiet"][..], more].concat();
        run(folder.path(), &arguments, code)
    };
    let without_figures = reproduce(&["--figures", "plots"], 1);
    let (printed, error) = (text(&without_figures.stdout), text(&without_figures.stderr));
    assert!(error.contains("cannot write figures to plots: no figure has data"), "{error}");
    assert!(!folder.path().join("plots").exists(), "no empty folder");
    assert!(printed.contains("No data for Figure 6 (experiment kawai2008-http), Figure 8"), "{printed}");
    assert!(printed.contains("Page: here/kawai2008.html"), "{printed}");
    let page = std::fs::read_to_string(folder.path().join("here/kawai2008.html")).unwrap();
    assert!(page.contains("8 claims of kawai2008: 8 are not testable here"));
    assert!(page.contains("muxbench reproduce kawai2008 --quick --output here"));
    assert!(page.contains("muxbench report here/kawai2008-minimised --html"));
    assert!(page.contains("Figure 10. Send delay of the client, HTTP-like traffic: these runs have no data for it"));
    let pasted = reproduce(&["--markdown"], 0);
    let (printed, notes) = (text(&pasted.stdout), text(&pasted.stderr));
    assert!(printed.contains("### Claims\n") && !printed.contains("Page:"), "{printed}");
    assert!(notes.contains("Page: here/kawai2008.html"), "{notes}");
    assert!(text(&reproduce(&["--markdown", "--csv"], 2).stderr).contains("cannot be used with"));
    let printed = text(&reproduce(&["--full"], 1).stderr);
    assert!(printed.contains("try the other scale, or another folder with --output"), "{printed}");
    let printed = text(&reproduce(&["--figure", "10"], 1).stderr);
    assert!(printed.contains("no data for Figure 10 of kawai2008"), "{printed}");
    let printed = text(&reproduce(&["--figure", "1"], 1).stderr);
    assert!(printed.contains("invalid --figure `1`: kawai2008 has Figures"), "{printed}");
    assert!(text(&reproduce(&["--figure", "6", "--table", "1"], 2).stderr).contains("cannot be used with"));
}

fn reproduction_checks_every_plan_before_the_first_trial() {
    let folder = tempfile::tempdir().unwrap();
    failed_run(&folder.path().join("here/kawai2008-minimised"), "kawai2008-minimised");
    // An earlier experiment would fail here, too: this file is in the way of its folder.
    std::fs::write(folder.path().join("here/kawai2008-http"), "").unwrap();
    let output = run(folder.path(), &["reproduce", "kawai2008", "--full", "--output", "here", "--quiet"], 1);
    let printed = text(&output.stderr);
    assert!(printed.contains("cannot finish the run in here/kawai2008-minimised: its plan differs"), "{printed}");
}

fn reproduction_rejects_the_folder_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("here");
    failed_run(&at, "kawai2008-http");
    // A file is in the way of the experiment's folder, so that nothing is measured in any case.
    std::fs::write(at.join("kawai2006"), "").unwrap();
    let output = run(folder.path(), &["reproduce", "kawai2006", "--output", "here", "--quiet"], 1);
    assert!(text(&output.stderr).contains("here: contains a run already"), "{}", text(&output.stderr));
}

/// Counts Markdown tables, and checks that each row has as many cells as its heading.
fn tables(markdown: &str) -> usize {
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut tables = 0;
    let mut lines = markdown.lines().peekable();
    while let Some(heading) = lines.next() {
        if !heading.starts_with('|') {
            continue;
        }
        let line = lines.next().unwrap_or_default();
        assert!(line.starts_with("| --- |") && cells(line) == cells(heading), "{heading}\n{line}");
        while let Some(row) = lines.next_if(|row| row.starts_with('|')) {
            assert_eq!(cells(row), cells(heading), "{heading}\n{row}");
        }
        assert!(lines.peek().is_none_or(|after| after.is_empty()), "{heading}");
        tables += 1;
    }
    tables
}

fn every_table_prints_as_markdown() {
    let folder = tempfile::tempdir().unwrap();
    for (name, run) in [
        ("whole", testkit::run()),
        ("sweep", testkit::sweep_run()),
        ("capacity", testkit::capacity_run()),
        ("streams", testkit::bandwidth_run()),
    ] {
        store(&folder.path().join(name), &run);
    }
    for (arguments, least) in [
        ("list", 7),
        ("plan smoke", 1),
        ("report whole", 2),
        ("report whole --explain", 4),
        ("report whole --send-deviation", 1),
        ("report sweep", 1),
        ("report capacity", 1),
        ("report streams", 11),
        ("report whole streams", 0),
        ("report .", 1),
    ] {
        let words: Vec<&str> = arguments.split(' ').chain(["--markdown"]).collect();
        let markdown = text(&run(folder.path(), &words, 0).stdout);
        assert!(tables(&markdown) >= least, "{arguments}: {markdown}");
        let both: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        assert!(text(&run(folder.path(), &both, 2).stderr).contains("cannot be used with"), "{arguments}");
    }
    let pasted =
        text(&measure(folder.path(), &[SMALL, &["--markdown", "--quiet", "--output", "pasted"]].concat()).stdout);
    assert!(tables(&pasted) == 1 && !pasted.contains("Results:"), "{pasted}");
}

fn reports_without_a_terminal_have_80_columns() {
    let folder = tempfile::tempdir().unwrap();
    store(&folder.path().join("whole"), &testkit::run());
    let report = |variables: &[(&str, &str)], flags: &[&str]| {
        let mut command = muxbench();
        for name in ["COLUMNS", "NO_COLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied()).args(["report", "whole"]).args(flags);
        text(&command.current_dir(folder.path()).output().unwrap().stdout)
    };
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
    let usual = report(&[], &[]);
    assert!((70..=80).contains(&widest(&usual)) && usual.contains("--wide)") && !usual.contains('\u{1b}'), "{usual}");
    assert!((100..=120).contains(&widest(&report(&[("COLUMNS", "120")], &[]))));
    let wide = report(&[], &["--wide"]);
    assert!(widest(&wide) > 120 && !wide.contains("too narrow"), "{wide}");

    let coloured = report(&[("CLICOLOR_FORCE", "1")], &[]);
    assert!(coloured.contains("\u{1b}[32mvalid 4/4\u{1b}[0m"), "{coloured}");
    assert_eq!(report(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], &[]), usual);
    let json: Value = serde_json::from_str(&report(&[("CLICOLOR_FORCE", "1")], &["--json"])).unwrap();
    assert!(json["trials"].is_array(), "{json}");
}

#[cfg(target_os = "linux")]
fn doctor_prints_markdown() {
    let folder = tempfile::tempdir().unwrap();
    let markdown = text(&run(folder.path(), &["doctor", "--markdown"], 0).stdout);
    assert_eq!(tables(&markdown), 1, "{markdown}");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(report_repeats_the_table_of_compare));
    cases.once(case!(two_runs_are_compared_by_row));
    cases.once(case!(history_of_races_shows_their_answers));
    cases.once(case!(send_deviation_is_computed_from_stored_samples));
    cases.once(case!(paper_experiment_prints_the_tables_of_the_paper));
    cases.once(case!(percentiles_of_tables_are_those_of_stored_samples));
    cases.once(case!(public_tools_read_samples_and_histograms));
    cases.once(case!(single_figure_runs_only_its_experiments));
    cases.once(case!(finished_paper_is_shown_and_not_run_again));
    cases.once(case!(reproduction_checks_every_plan_before_the_first_trial));
    cases.once(case!(reproduction_rejects_the_folder_of_a_run));
    cases.once(case!(every_table_prints_as_markdown));
    cases.once(case!(reports_without_a_terminal_have_80_columns));
    cases.once(case!(doctor_prints_markdown));
}
