use harness::host::interrupts;
use harness::record::Trial;
use load::config::{Loop, Slices};

use super::*;
use crate::analysis::RunDiff;
use crate::text::Terminal;
use crate::text::host::host;

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

/// Returns an interleaved run of the seven default servers under one workload, with all that a virtual machine adds: late sends, rounds
/// that are left out, memory monitors, and CPU time that lacks interrupts.
fn run_of_seven() -> Run {
    let names = ["io_uring", "epoll", "epoll-et", "mt", "mp", "poll", "select"];
    let service_ns = |name: &str, repeat: u32| {
        let place = names.iter().position(|it| *it == name).unwrap() as u64;
        [28_000, 28_200, 29_000, 29_600, 33_800, 80_300, 80_700][place as usize]
            + u64::from(repeat) * 150 % 700
            + (u64::from(repeat) * 7 + place * 5) % 3 * 400
    };
    let mut run = testkit::run_of(&names, |name, _, repeat| service_ns(name, repeat));
    run.header.trials.retain(|trial| trial.workload.connections == 400);
    run.records.retain(|record| record.trial.workload.connections == 400);
    let turns = testkit::interleaved_run().records.swap_remove(0);
    for record in &mut run.records {
        record.trial.client.slices = turns.trial.client.slices.map(|it| Slices { heat: record.trial.repeat, ..it });
        let load = record.load.as_mut().unwrap();
        load.slices = turns.load.as_ref().unwrap().slices.clone();
        load.late = LateSends { bound_ns: 100_000, count: 3, sent: 200, ..LateSends::default() };
        load.monitor_share = Some(0.005);
    }
    run.header.host.insert(interrupts::FACT.into(), interrupts::CHARGED_TO_NOBODY.into());
    run.header.host.insert("memory monitors".into(), "on".into());
    let command = "muxbench compare -c 400 --arch io_uring,epoll,epoll-et,mt,mp,poll,select --seed 2";
    run.header.command = command.split(' ').map(str::to_owned).collect();
    run
}

#[test]
fn seven_servers_fit_forty_lines_of_a_terminal() {
    let mut run = run_of_seven();
    let text = render(&run, 80.into());
    // The last two lines are the place of the results. A command is not wrapped, so that it can be copied.
    let height = |text: &str| text.lines().map(|line| line.chars().count().div_ceil(80).max(1)).sum::<usize>() + 2;
    assert!(height(&text) <= 40, "{}: {text}", height(&text));
    for words in ["(all rows)", "DAMON", "12 of 150 rounds are left out: a", "To decide them, run:"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for load in run.records.iter_mut().filter_map(|it| it.load.as_mut()) {
        load.http = Some(HttpResult { statuses: [(200, 9)].into(), ..Default::default() });
    }
    let text = render(&run, 80.into());
    assert!(height(&text) <= 40 && text.contains("All responses had status 200."), "{text}");
    run.records[0].load.as_mut().unwrap().http.as_mut().unwrap().statuses = [(200, 8), (503, 1)].into();
    assert!(render(&run, 80.into()).contains("responses by status"));
}

#[test]
fn legend_explains_the_columns_on_request() {
    let run = testkit::run();
    let with = |has_legend| {
        render(&run, Medium::Terminal(Terminal { columns: 80, is_wide: false, has_legend, is_coloured: false }))
    };
    for words in ["Service time (p1 to p99", "Memory: user memory", "corrected for all"] {
        assert!(with(true).contains(words) && !with(false).contains(words), "{words}: {}", with(true));
    }
    for words in ["epoll's median was", "Host: A Processor", "poll saturated: 120 of 200", "26 of 28 trials"] {
        assert!(with(false).contains(words), "what differs from run to run stays: {}", with(false));
    }
}

#[test]
fn notes_on_cpu_time_stand_beside_its_column() {
    let mut run = testkit::run();
    run.header.host.insert(interrupts::FACT.into(), interrupts::CHARGED_TO_NOBODY.into());
    assert!(render(&run, 200.into()).contains("CPU time lacks interrupts"));
    assert!(!render(&run, 80.into()).contains("interrupts"));
}

#[test]
fn ratios_refer_to_the_chosen_row() {
    let run = testkit::run();
    let all = render_versus(&run, Some("mp"), 160.into());
    let text = all.split("\n\n").next().unwrap();
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(text.contains("  vs mp  ") && !text.contains("vs best") && !text.contains("  range  "), "{text}");
    assert!(row("epoll ").contains("-30.0 ±0.21  0.57 (0.57-0.58)"), "{text}");
    assert!(row("mp ").contains("-              1.00"), "{text}");
    assert!(row("poll ").contains("+20.0 ±0.22  1.29 (1.28-1.29)"), "{text}");
    assert!(all.contains("mp is not ranked here, so the ratios are those to the best."), "{text}");
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
fn closed_connections_are_named_with_their_servers() {
    let mut run = testkit::run();
    let mut with = |count: u64| {
        for load in run.records.iter_mut().filter(|it| it.trial.repeat == 0).filter_map(|it| it.load.as_mut()) {
            load.closed_by_server = count;
        }
        render(&run, 160.into())
    };
    assert!(!with(0).contains("closed by the server"));
    let text = with(7);
    assert!(
        text.contains("Connections closed by the server, and opened again: ") && text.contains("epoll 7"),
        "{text}"
    );
}

#[test]
fn requests_that_queue_for_their_connections_are_said() {
    let with = |share: f64, no_overlap: bool| {
        let mut run = testkit::run();
        let set = |trial: &mut Trial| match &mut trial.workload.the_loop {
            Loop::Open { no_overlap: it, .. } => *it = no_overlap,
            _ => unreachable!(),
        };
        run.header.trials.iter_mut().for_each(set);
        for record in &mut run.records {
            set(&mut record.trial);
            record.load.iter_mut().for_each(|load| load.queued_share = Some(share));
        }
        render(&run, 1_000.into())
    };
    let few = with(0.004, false);
    assert!(!few.contains("unanswered") && !few.contains("no overlap"), "{few}");
    let many = with(0.38, false);
    assert!(many.contains("of their connection was unanswered: ") && many.contains("epoll 38 %"), "{many}");
    assert!(many.contains("with --no-overlap they go to free connections"), "{many}");
    let free = with(0.004, true);
    assert!(free.contains("no overlap, ") && free.contains("waited for a free connection: "), "{free}");
    assert!(free.contains("epoll 0.4 %"), "{free}");
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
