use harness::host::interrupts;

use super::*;
use crate::analysis::RunDiff;

#[test]
fn run_is_rendered_in_full() {
    insta::assert_snapshot!(render(&testkit::run(), 160.into()));
}

#[test]
fn missing_interrupts_in_cpu_time_are_stated() {
    let mut run = testkit::run();
    assert!(!host(&run).contains("interrupts"), "the run has no such fact");
    run.header.host.insert(interrupts::FACT.into(), "charged to the process they interrupt".into());
    assert!(!host(&run).contains("interrupts"));
    run.header.host.insert(interrupts::FACT.into(), interrupts::CHARGED_TO_NOBODY.into());
    assert!(host(&run).contains("CPU time lacks interrupts"), "{}", host(&run));
    for server in run.records.iter_mut().filter_map(|record| record.server.as_mut()) {
        server.interrupts_ns = Some(1);
    }
    assert!(host(&run).contains("CPU time includes interrupts"), "{}", host(&run));
}

#[test]
fn narrow_terminal_gets_fewer_columns() {
    let text = render(&testkit::run(), 80.into());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn rows_with_another_accept_strategy_are_labelled() {
    let mut run = testkit::run();
    let pool: server::Architecture = "mt-pool".parse().unwrap();
    for (record, trial) in run.records.iter_mut().zip(&mut run.header.trials) {
        let accept = match record.trial.architecture.to_string().as_str() {
            "mt" => server::Accept::Exclusive,
            "mp" => server::Accept::Shared,
            _ => continue,
        };
        for trial in [&mut record.trial, trial] {
            let harness::spec::ServerSpec::Ours(serve) = &mut trial.serve else { continue };
            (serve.architecture, serve.accept) = (pool, accept);
            trial.architecture = pool.into();
        }
    }
    let text = render(&run, 160.into());
    let rows = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert!(rows("mt-pool (exclusive) ") > 0 && rows("mt-pool  ") > 0, "{text}");
}

#[test]
fn rows_with_another_read_budget_are_labelled() {
    let mut run = testkit::run();
    for (record, trial) in run.records.iter_mut().zip(&mut run.header.trials) {
        if record.trial.architecture.to_string() != "epoll" || trial.repeat > 0 {
            continue;
        }
        for trial in [&mut record.trial, trial] {
            let harness::spec::ServerSpec::Ours(serve) = &mut trial.serve else { continue };
            serve.read_budget_bytes = server::ReadBudget::new(256 << 10).unwrap();
        }
    }
    let text = render(&run, 160.into());
    let rows = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert!(rows("epoll (256KiB reads) ") > 0 && rows("epoll  ") > 0, "{text}");
}

#[test]
fn closed_loop_is_ranked_by_throughput() {
    for width in [160, 80] {
        let text = render(&testkit::closed_run(), width.into());
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        insta::assert_snapshot!(format!("closed_{width}"), text);
    }
}

#[test]
fn datagram_run_is_rendered_with_lost_datagrams() {
    for width in [170, 80] {
        let text = render(&testkit::datagram_run(), width.into());
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        insta::assert_snapshot!(format!("datagrams_{width}"), text);
    }
}

#[test]
fn streams_are_ranked_by_bandwidth() {
    for width in [160, 80] {
        let text = render(&testkit::bandwidth_run(), width.into());
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        insta::assert_snapshot!(format!("streams_{width}"), text);
    }
}

#[test]
fn run_without_records_ranks_nothing() {
    let mut run = testkit::run();
    run.records.clear();
    insta::assert_snapshot!(render(&run, 100.into()));
}

#[test]
fn kernel_timestamps_fit_the_width() {
    let mut run = testkit::run();
    testkit::add_kernel(&mut run);
    for width in [160, 80] {
        let text = render(&run, width.into());
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        let lines = text.lines().skip_while(|line| !line.starts_with("Kernel timestamps on"));
        insta::assert_snapshot!(format!("kernel_{width}"), lines.take(8).collect::<Vec<_>>().join("\n"));
    }
}

#[test]
fn reconnects_are_named_with_their_servers() {
    let mut run = testkit::run();
    let mut with = |reconnects: u64| {
        for load in run.records.iter_mut().filter(|it| it.trial.repeat == 0).filter_map(|it| it.load.as_mut()) {
            load.http = Some(load::result::HttpResult { reconnects, ..Default::default() });
        }
        render(&run, 160.into())
    };
    assert!(!with(0).contains("Reconnects"));
    let text = with(7);
    assert!(text.contains("Reconnects after the server closed a connection: ") && text.contains("epoll 7"), "{text}");
}

#[test]
fn commands_are_quoted_for_a_shell() {
    let mut run = testkit::run();
    run.header.command = ["muxbench", "compare", "--exec", "py=python3 {port}"].map(str::to_owned).into();
    let diff = crate::text::run_diff::render(&RunDiff::of(&run, &run), 1_000.into());
    for text in [render(&run, 1_000.into()), diff] {
        assert!(text.contains("muxbench compare --exec 'py=python3 {port}'"), "{text}");
    }
}
