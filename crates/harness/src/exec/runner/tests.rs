use std::path::Path;

use load::config::Slices;

use super::*;
use crate::exec::fake::{self, FakeClient, FakeMachine, Fault};
use crate::host::Host;
use crate::record::{LatencyLimit, Run, SearchGoal, Strategy, SweepGoal, Varied, VerdictKind};
use crate::spec::ServerSpec;
use crate::spec::interleave::Interleave;
use crate::spec::presets;
use crate::{plan, store};

fn header(trials: Vec<Trial>) -> RunHeader {
    let plan = plan::plan(&presets::find("smoke").unwrap().experiment(), &Host::made_up()).unwrap();
    RunHeader { trials, interleave: Interleave::Auto, ..RunHeader::made_up(plan) }
}

/// Runs `trials` with fake processes.
fn run_on(
    machine: &FakeMachine,
    trials: Vec<Trial>,
    stop: &Stop,
    folder: &Path,
    on_event: &mut dyn FnMut(RunEvent<'_>),
) -> (anyhow::Result<RunEnd>, Run) {
    let header = header(trials);
    let store = Store::create(folder, &header).unwrap();
    let options = Options { launch: machine, stop };
    let end = run(&header, &[], &store, &options, &mut FakeClient::on(machine), on_event);
    drop(store);
    (end, store::read(folder).unwrap())
}

/// Trials that form one heat.
fn heat(contestants: u32) -> Vec<Trial> {
    let mut trials = fake::trials(contestants);
    for (contestant, trial) in (0..).zip(&mut trials) {
        trial.architecture = ["epoll", "mt", "mp"][contestant as usize].parse().unwrap();
        let (slice_ns, guard_ns) = (5_000_000, 1_000_000);
        trial.client.slices = Some(Slices { heat: 0, contestants, contestant, slice_ns, gap_ns: 0, guard_ns, seed: 1 });
    }
    trials
}

/// Runs a heat of three with a fault. Returns the contestants of each record's heat, why they ran separately, and the log.
fn run_heat_with(fault: Option<Fault>) -> (Vec<(u32, VerdictKind, Option<u32>)>, Vec<Option<String>>, String) {
    let folder = tempfile::tempdir().unwrap();
    let machine = FakeMachine::default();
    machine.fault.set(fault);
    let mut finished = Vec::new();
    let (end, run) = run_on(&machine, heat(3), &Stop::default(), &folder.path().join("run"), &mut |event| {
        if let RunEvent::Finished(record) = event {
            let contestants = record.trial.client.slices.map(|slices| slices.contestants);
            finished.push((record.trial.index, record.verdict.kind, contestants));
        }
    });
    assert_eq!((end.unwrap(), run.records.len()), (RunEnd::Complete, 3));
    (finished, run.records.into_iter().map(|record| record.separated).collect(), machine.take_log().join(" "))
}

#[test]
fn contestants_of_a_heat_are_up_at_the_same_time() {
    let (finished, _, log) = run_heat_with(None);
    assert_eq!(finished.iter().map(|it| (it.0, it.2)).collect::<Vec<_>>(), [(0, Some(3)), (1, Some(3)), (2, Some(3))]);
    let start = ["server starts", "idle starts", "client starts"].join(" ");
    let expected = [
        [start.as_str(); 3].join(" "),
        "client begins".into(),
        ["client reports"; 3].join(" "),
        ["idle ends"; 3].join(" "),
        ["client ends"; 3].join(" "),
        ["server ends"; 3].join(" "),
    ];
    assert_eq!(log, expected.join(" "));
}

#[test]
fn failed_contestant_leaves_the_heat() {
    let (finished, ..) = run_heat_with(Some(Fault::Refused));
    assert_eq!(finished[0], (0, VerdictKind::Failed, Some(3)));
    assert_eq!(finished[1..].iter().map(|it| (it.0, it.2)).collect::<Vec<_>>(), [(1, Some(2)), (2, Some(2))]);
}

#[test]
fn contestant_that_overruns_its_slices_runs_alone() {
    let (finished, separated, log) = run_heat_with(Some(Fault::Overrun));
    assert_eq!(finished.iter().map(|it| (it.0, it.2)).collect::<Vec<_>>(), [(0, None), (1, Some(2)), (2, Some(2))]);
    assert_eq!(log.matches("server starts").count(), 3 + 1 + 2);
    let overran = "share of slices with responses after the next guard: 1 exceeds the limit of 0.250";
    assert_eq!(separated, [Some(overran.into()), None, None]);
}

#[test]
fn heat_that_the_host_disturbed_runs_again_as_a_heat() {
    let (finished, separated, log) = run_heat_with(Some(Fault::OverrunOfAll));
    assert_eq!(finished.iter().map(|it| (it.0, it.2)).collect::<Vec<_>>(), [0, 1, 2].map(|index| (index, Some(3))));
    assert_eq!((separated, log.matches("server starts").count()), (vec![None; 3], 3 + 3));
}

/// Runs three probes of a search, or two planned trials, of an external server. Returns whether each used a server that was warm
/// already, and the log.
fn with_external_server(strategy: Strategy, fault: Option<Fault>) -> (Vec<Option<bool>>, String) {
    let folder = tempfile::tempdir().unwrap();
    let run_folder = folder.path().join("run");
    let (machine, stop) = (FakeMachine::default(), Stop::default());
    let mut trials = fake::trials(if strategy.is_search() { 1 } else { 2 });
    let command =
        r#"{"command":["x","{port}"],"listen":"127.0.0.1:0","environment":{},"cpus":[],"start_timeout_ns":1}"#;
    trials.iter_mut().for_each(|trial| trial.serve = ServerSpec::External(serde_json::from_str(command).unwrap()));
    let header = RunHeader { strategy, ..header(trials) };
    let store = Store::create(&run_folder, &header).unwrap();
    let options = Options { launch: &machine, stop: &stop };
    let (mut finished, mut log) = (Vec::new(), Vec::new());
    run(&header, &[], &store, &options, &mut FakeClient::on(&machine), &mut |event| {
        let RunEvent::Finished(record) = event else { return };
        finished.push(record.warm_up.map(|warm_up| warm_up.is_earlier));
        log.extend(machine.take_log().into_iter().filter(|event| event.starts_with("server")));
        // The second probe has the fault.
        machine.fault.set(fault.filter(|_| finished.len() == 1));
        if finished.len() == 3 {
            stop.request();
        }
    })
    .unwrap();
    log.extend(machine.take_log());
    (finished, log.join(" "))
}

#[test]
fn search_keeps_an_external_server_until_it_fails() {
    let goal = SearchGoal {
        limits: vec![LatencyLimit { quantile: 0.5, max_ns: 1_000_000_000 }],
        varied: Varied::Rate,
        from: 1_000.0,
        most: 1e6,
        precision: 0.1,
        time_max_ns: u64::MAX,
    };
    let search = || Strategy::Capacity(goal.clone());
    let whole = "server starts server ends";
    assert_eq!(with_external_server(search(), None), (vec![Some(false), Some(true), Some(true)], whole.into()));
    let restarted = vec![Some(false), Some(true), Some(false)];
    assert_eq!(with_external_server(search(), Some(Fault::ServerKilled)), (restarted, [whole; 2].join(" ")));
    assert_eq!(with_external_server(Strategy::Whole, None), (vec![Some(false); 2], [whole; 2].join(" ")));
}

#[test]
fn lost_cpus_and_overruns_of_most_repeat_a_heat_once() {
    let heat = heat(3);
    // The sizes of the heats that replace one in which some contestants overran.
    let sizes = |overran: usize, has_lost_cpus, is_search, is_repeat| {
        let alone = heat[..overran].iter().map(|it| (vec![it.alone()], Some("it overran".to_owned()))).collect();
        let replacements = replacements((&heat, is_repeat), alone, has_lost_cpus, is_search);
        replacements.iter().map(|(heat, _)| heat.len()).collect::<Vec<_>>()
    };
    let first = [0, 1, 2].map(|overran| sizes(overran, false, false, false));
    assert_eq!(first, [vec![], vec![1], vec![3]]);
    let taken = [0, 1].map(|overran| sizes(overran, true, false, false));
    assert_eq!(taken, [vec![], vec![3]], "others took the CPUs");
    assert_eq!(sizes(2, false, true, false), [1, 1], "probes near the capacity");
    assert_eq!(sizes(2, false, false, true), [1, 1], "the repeat shows that the slices are too short");
    assert_eq!(sizes(2, true, false, true), [0; 0], "separate trials would lose the CPUs too");
}

/// Runs two trials, the first with a fault. Returns both verdicts with their reasons, and the log.
fn with_fault(fault: Fault) -> ([(VerdictKind, String); 2], Vec<&'static str>) {
    let folder = tempfile::tempdir().unwrap();
    let machine = FakeMachine::default();
    machine.fault.set(Some(fault));
    let (end, run) = run_on(&machine, fake::trials(2), &Stop::default(), &folder.path().join("run"), &mut |_| {});
    assert_eq!(end.unwrap(), RunEnd::Complete, "{fault:?}");
    let verdicts = run.records.into_iter().map(|record| (record.verdict.kind, record.verdict.reason));
    (verdicts.collect::<Vec<_>>().try_into().unwrap(), machine.take_log())
}

const WHOLE_TRIAL: [&str; 9] = [
    "server starts",
    "idle starts",
    "client starts",
    "client begins",
    "client reports",
    "idle ends",
    "client ends",
    "server ends",
    "committed",
];

#[test]
fn processes_start_and_end_in_order_before_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    let machine = FakeMachine::default();
    let mut log = Vec::new();
    let (end, run) =
        run_on(&machine, fake::trials(2), &Stop::default(), &folder.path().join("run"), &mut |event| match event {
            RunEvent::Started(_) => assert_eq!(machine.take_log(), [""; 0]),
            RunEvent::Finished(_) => log.extend(machine.take_log().into_iter().chain(["committed"])),
            _ => {}
        });
    assert_eq!(end.unwrap(), RunEnd::Complete);
    assert_eq!(log, [WHOLE_TRIAL, WHOLE_TRIAL].concat());
    for record in &run.records {
        assert_ne!(record.verdict.kind, VerdictKind::Failed, "{}", record.verdict.reason);
        let server = record.server.as_ref().unwrap();
        // A busy machine reads the first mark late.
        assert!(server.window_ns > 0, "the marks are in order");
        assert_eq!(record.idle.as_ref().unwrap().alive, 1);
    }
}

#[test]
fn fault_fails_only_its_trial_and_leaves_no_process() {
    let server = "server starts server ends";
    let idle = "server starts idle starts idle ends server ends";
    let connecting = "server starts idle starts client starts idle ends client ends server ends";
    let reported =
        "server starts idle starts client starts client begins client reports idle ends client ends server ends";
    let measuring = "server starts idle starts client starts client begins idle ends client ends server ends";
    for (fault, reason, log) in [
        (Fault::ServerStart, "cannot start `muxbench`", ""),
        (Fault::ServerKilledStarting, "the server ended: signal: 9", server),
        (Fault::ServerReady, "the server: the port is in use", server),
        (Fault::ServerKilledConnecting, "the server ended: signal: 9", connecting),
        (Fault::ServerKilled, "the server ended: signal: 9", measuring),
        (Fault::ServerKilledCoolingDown, "the server ended: signal: 9", reported),
        (Fault::ServerEnd, "the server ended: signal: 9", reported),
        (Fault::Idle, "idle connections: connection refused", idle),
        (Fault::IdleKilled, "idle connections: the process ended: signal: 9", reported),
        (Fault::Refused, "connection reset; the server refused 2 connections", connecting),
        (Fault::ClientKilledConnecting, "the client ended: signal: 9", connecting),
        (Fault::Client, "the client ended: signal: 11", measuring),
    ] {
        let ([first, second], full_log) = with_fault(fault);
        assert_eq!(first.0, VerdictKind::Failed, "{fault:?}");
        assert!(first.1.starts_with(reason), "{fault:?}: {}", first.1);
        assert_ne!(second.0, VerdictKind::Failed, "{fault:?}: {}", second.1);
        let next = &WHOLE_TRIAL[..8];
        let first_log = full_log.strip_suffix(next).unwrap_or_else(|| panic!("{fault:?}: {full_log:?}"));
        assert_eq!(first_log.join(" "), log, "{fault:?}");
    }
}

/// Stops a run of three trials while the second is measured.
fn stopped(request: fn(&Stop)) -> (RunEnd, usize, Vec<&'static str>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let (machine, stop) = (FakeMachine::default(), Stop::default());
    let mut started = 0;
    let run_folder = folder.path().join("run");
    let (end, run) = run_on(&machine, fake::trials(3), &stop, &run_folder, &mut |event| match event {
        RunEvent::Started(trial) => {
            machine.take_log();
            started = trial.index;
        }
        RunEvent::Load(load::Event::Ready) if started == 1 => request(&stop),
        _ => {}
    });
    let has_draft = run_folder.join("samples/0001.part").exists();
    (end.unwrap(), run.records.len(), machine.take_log(), has_draft)
}

#[test]
fn first_stop_finishes_the_trial_and_second_aborts_it() {
    let (end, records, log, has_draft) = stopped(Stop::request);
    assert_eq!((end, records, has_draft), (RunEnd::Stopped, 2, false));
    assert_eq!(log, &WHOLE_TRIAL[..8]);
    let (end, records, log, has_draft) = stopped(Stop::abort);
    assert_eq!((end, records, has_draft), (RunEnd::Stopped, 1, false));
    assert_eq!(log, ["server starts", "idle starts", "client starts", "idle ends", "client ends", "server ends"]);
}

#[test]
fn resumed_run_keeps_finished_trials_and_repeats_aborted_ones() {
    for strategy in [Strategy::Whole, Strategy::Sweep(SweepGoal { past: None })] {
        let folder = tempfile::tempdir().unwrap();
        let run_folder = folder.path().join("run");
        let machine = FakeMachine::default();
        let header = RunHeader { strategy, ..header(fake::trials(4)) };
        let mut store = Store::create(&run_folder, &header).unwrap();
        let (mut started, mut ends, mut done) = (Vec::new(), Vec::new(), Vec::<TrialRecord>::new());
        for (stop_at, request) in [(1, Stop::request as fn(&Stop)), (2, Stop::abort), (4, Stop::abort)] {
            let stop = Stop::default();
            let options = Options { launch: &machine, stop: &stop };
            let end = run(&header, &done, &store, &options, &mut FakeClient::on(&machine), &mut |event| match event {
                RunEvent::Started(trial) => started.push(trial.index),
                RunEvent::Load(load::Event::Ready) if started.last() == Some(&stop_at) => request(&stop),
                _ => {}
            });
            ends.push(end.unwrap());
            drop(store);
            let (resumed, run) = Store::resume(&run_folder).unwrap();
            let start_times = |records: &[TrialRecord]| -> Vec<String> {
                records.iter().map(|record| record.started_at.clone()).collect()
            };
            assert!(start_times(&run.records).starts_with(&start_times(&done)), "finished trials are kept");
            (store, done) = (resumed, run.records);
        }
        assert_eq!(ends, [RunEnd::Stopped, RunEnd::Stopped, RunEnd::Complete]);
        assert_eq!((started, done.len()), (vec![0, 1, 2, 2, 3], 4));
    }
}

#[test]
fn abort_while_the_testbed_starts_keeps_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let (machine, stop) = (FakeMachine::default(), Stop::default());
    let mut trials = fake::trials(1);
    trials[0].workload.network = Some(Default::default());
    let (end, run) = run_on(&machine, trials, &stop, &folder.path().join("run"), &mut |_| {});
    assert_eq!((end.unwrap(), run.records.len()), (RunEnd::Stopped, 0));
    assert_eq!(machine.take_log(), [""; 0], "no process starts");
}

#[test]
fn abort_while_idle_connections_hang_keeps_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let machine = FakeMachine::default();
    machine.fault.set(Some(Fault::IdleHung));
    let (end, run) = run_on(&machine, fake::trials(2), &machine.stop, &folder.path().join("run"), &mut |_| {});
    assert_eq!((end.unwrap(), run.records.len()), (RunEnd::Stopped, 0));
    assert_eq!(machine.take_log(), &WHOLE_TRIAL[..8], "all processes end");
}

#[test]
fn stop_before_the_first_trial_starts_no_process() {
    for request in [Stop::request, Stop::abort] {
        let folder = tempfile::tempdir().unwrap();
        let (machine, stop) = (FakeMachine::default(), Stop::default());
        request(&stop);
        let (end, run) = run_on(&machine, fake::trials(1), &stop, &folder.path().join("run"), &mut |_| {});
        assert_eq!((end.unwrap(), run.records.len()), (RunEnd::Stopped, 0));
        assert_eq!(machine.take_log(), [""; 0]);
    }
}

#[test]
fn failed_commit_ends_the_run_without_the_trial() {
    let folder = tempfile::tempdir().unwrap();
    let run_folder = folder.path().join("run");
    let machine = FakeMachine::default();
    let (end, run) = run_on(&machine, fake::trials(3), &Stop::default(), &run_folder, &mut |event| {
        if matches!(event, RunEvent::Started(trial) if trial.index == 1) {
            // Put a file in place of the folder of histograms.
            std::fs::remove_dir_all(run_folder.join("histograms")).unwrap();
            std::fs::write(run_folder.join("histograms"), "").unwrap();
        }
    });
    let error = format!("{:#}", end.unwrap_err());
    assert!(error.contains("cannot commit trial 1"), "{error}");
    assert_eq!(run.records.len(), 1);
    assert!(!run_folder.join("samples/0001.part").exists() && !run_folder.join("samples/0001.parquet").exists());
    assert_eq!(machine.take_log().last(), Some(&"server ends"), "the processes of the trial have ended");
}

#[test]
fn failed_commit_removes_drafts_of_the_whole_heat() {
    let folder = tempfile::tempdir().unwrap();
    let run_folder = folder.path().join("run");
    let (end, run) = run_on(&FakeMachine::default(), heat(3), &Stop::default(), &run_folder, &mut |event| {
        if matches!(event, RunEvent::Started(_)) {
            // Put a folder in place of the histograms of the second trial.
            std::fs::create_dir_all(store::histograms_path(&run_folder, 1).join("in its place")).unwrap();
        }
    });
    let error = format!("{:#}", end.unwrap_err());
    assert!(error.contains("cannot commit trial 1"), "{error}");
    assert_eq!(run.records.len(), 1, "the first trial is kept");
    let samples = std::fs::read_dir(run_folder.join("samples")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(samples.collect::<Vec<_>>(), ["0000.parquet"]);
}

#[test]
fn samples_that_cannot_be_written_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let run_folder = folder.path().join("run");
    let machine = FakeMachine::default();
    machine.fault.set(Some(Fault::Samples));
    let (end, run) = run_on(&machine, fake::trials(2), &Stop::default(), &run_folder, &mut |_| {});
    assert_eq!(end.unwrap_err().to_string(), "cannot write samples");
    assert_eq!(run.records.len(), 0, "a resumed run repeats the trial");
    assert!(!run_folder.join("samples/0000.part").exists());
}
