//! Resources of the host that run out or change.

use super::*;

/// Runs muxbench with a resource limit that prlimit(1) sets.
fn limited(limit: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("prlimit");
    command.arg(limit).arg(env!("CARGO_BIN_EXE_muxbench")).args(arguments).output().unwrap()
}

fn exhausted_resource_is_named_with_a_remedy() {
    /// Arguments of a client. Its timeout is long enough for a busy machine.
    const LOAD: [&str; 7] = ["load", "--request", "1B", "--response", "1B", "--timeout", "60s"];
    let serve = Serve::start("epoll".parse().unwrap(), 1, 1);
    let target = serve.address.to_string();
    let load = |more: &[&'static str]| [&LOAD, &["--target", target.as_str()][..], more].concat();
    let assert_fails = |limit: &str, arguments: &[&str], words: &[&str]| {
        let message = printed(&limited(limit, arguments), &[1]);
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
    };
    assert_fails(
        "--nofile=64:64",
        &load(&["--connections", "200"]),
        &["200 connections need 264 descriptors", "raise the limit"],
    );
    let memory = ["MiB of memory, but ", "lower workload.connections, workload.rate or phases.measure"];
    assert_fails(
        "--as=2147483648",
        &load(&["--rate", "1000000", "--measure", "200s", "--ramp", "0", "--warm-up", "0"]),
        &memory,
    );
    // Even with enough memory, the requests exceed the largest request number.
    let numbers = ["exceeds 4 294 967 294 requests for one client; lower the rate"];
    assert_fails(
        "--as=unlimited",
        &load(&["--rate", "10000000", "--measure", "2000s", "--ramp", "0", "--warm-up", "0"]),
        &numbers,
    );
    let room = ["serve", "--arch", "mt", "--connections-max", "100000000"];
    assert_fails("--as=1073741824", &room, &["no memory for counters", "lower the connections"]);
    // The server still serves later clients.
    let brief = load(&["--connections", "5", "--measure", "100ms", "--cool-down", "60s"]);
    let output = crate::common::load().args(&brief[1..]).output().unwrap();
    let message = printed(&output, &[0, 3]);
    assert!(message.contains("requests completed") && message.contains(" 0 errors"), "{message}");
}

/// A script that leaves ten ports for outgoing connections in its network namespace, then runs muxbench.
const FEW_PORTS: &str = r#"
ip link set lo up && echo "40000 40009" > /proc/sys/net/ipv4/ip_local_port_range || exit 9
exec "$0" compare --arch epoll --connections 30 --rate 200 --ramp 0 --warm-up 0 --measure 200ms --cool-down 60s --timeout 60s \
    --repeats 1 --json "$@"
"#;

fn plan_with_exhausted_ports_uses_other_addresses_or_fails() {
    let few = |more: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = unshare("--net")?;
        command.args(["sh", "-c", FEW_PORTS, env!("CARGO_BIN_EXE_muxbench")]).args(more).current_dir(folder.path());
        let output = command.output().unwrap();
        if output.status.code() == Some(9) {
            skipped(&format!("exhausted ports: the port range cannot be changed: {}", text(&output.stderr)));
            return None;
        }
        Some(output)
    };
    let Some(output) = few(&[]) else { return };
    let message = printed(&output, &[0, 3]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {message}"));
    let load = &result["trials"][0]["load"];
    assert!(load["completed"].as_u64().is_some_and(|count| count > 0), "{}", result["trials"][0]["verdict"]);
    assert_eq!(load["errors"]["no_addresses"], 0, "the client also uses 127.0.0.2 and following addresses");
    // IPv6 has only one loopback address.
    let message = printed(&few(&["--transport", "tcp6"]).unwrap(), &[1]);
    assert!(message.contains("no trial can run on this host") && message.contains("ip_local_port_range"), "{message}");
}

/// A script for bash that connects without a route, and then without a free port.
const NO_WAY: &str = r#"
"$0" load http://192.0.2.1/
ip link set lo up && echo "40000 40003" > /proc/sys/net/ipv4/ip_local_port_range || exit 9
"$0" serve --arch epoll --listen '[::1]:7007' > served &
until grep -q listens served; do sleep 0.1; done
exec 11<>/dev/tcp/::1/7007 12<>/dev/tcp/::1/7007 13<>/dev/tcp/::1/7007 14<>/dev/tcp/::1/7007 || exit 8
"$0" load 'tcp://[::1]:7007'
kill %1
"#;

fn unreachable_address_and_used_up_ports_have_remedies() {
    let Some(mut command) = unshare("--net") else { return };
    let folder = tempfile::tempdir().unwrap();
    command.args(["bash", "-c", NO_WAY, env!("CARGO_BIN_EXE_muxbench")]).current_dir(folder.path());
    let output = command.output().unwrap();
    let message = text(&output.stderr);
    if output.status.code() == Some(9) {
        return skipped(&format!("used-up ports: the port range cannot be changed: {message}"));
    }
    for words in ["192.0.2.1:80: Network is unreachable", "check the network", "all local ports are in use"] {
        assert!(message.contains(words), "{words}: {message}");
    }
}

/// A library for LD_PRELOAD whose wall clock is alternately 90 minutes fast and slow. It affects the standard library and jiff.
/// muxbench reads its own clocks by system calls, and measures nothing by the wall clock (xtask/tests/it/tidy.rs).
const JUMPING: &str = r#"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long jump(void) {
    static int calls;
    return __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % 2 ? 5400 : -5400;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
    return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec time;
    int result = clock_gettime(CLOCK_REALTIME, &time);
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return result;
}
time_t time(time_t *now) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    if (now) *now = time.tv_sec;
    return time.tv_sec;
}
"#;

fn wall_clock_step_changes_no_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("jumping.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-xc", "-", "-o"]).arg(&library).stdin(Stdio::piped());
    let mut compiler = compiler.spawn().expect("a C compiler is installed; README.md requires one");
    compiler.stdin.take().unwrap().write_all(JUMPING.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    for (schedule, more) in [("slot-random", "--rate 200 --pacing sleep-spin"), ("closed", "--think 5ms")] {
        let flags = "compare --arch epoll,mp --connections 5 --repeats 1 --ramp 100ms --warm-up 100ms --measure 500ms \
                     --cool-down 60s --timeout 60s --quiet";
        let mut command = muxbench();
        command.args(flags.split_whitespace()).args(["--schedule", schedule]).args(more.split(' '));
        let output = command.args(["--output", schedule]).current_dir(folder.path()).env("LD_PRELOAD", &library);
        printed(&output.output().unwrap(), &[0, 3]);
        let run = store::read(&folder.path().join(schedule)).unwrap();
        assert_eq!(run.records.len(), 2);
        for record in &run.records {
            let started: jiff::Timestamp = record.started_at.parse().unwrap();
            let apart = jiff::Timestamp::now().duration_since(started);
            assert!(apart.as_secs().abs() > 1_000, "the wall clock has stepped: {apart:?}");
            let reason = &record.verdict.reason;
            assert_ne!(record.verdict.kind, VerdictKind::Failed, "{reason}");
            let load = record.load.as_ref().unwrap_or_else(|| panic!("{reason}"));
            assert!(load.completed > 0 && load.completed == load.planned && load.errors.total() == 0, "{reason}");
            // No measured time includes the step.
            let server_ns = record.server.as_ref().map_or(0, |server| server.window_ns);
            let times_ns =
                [load.response.distribution.max_ns, load.send_delay.distribution.max_ns, record.elapsed_ns, server_ns];
            assert!(times_ns.iter().all(|&ns| ns > 0 && ns < 1_000_000_000_000), "{times_ns:?}");
            // Guards of interleaved slices do not count, nor do rounds in which the client paused.
            let measured = record.trial.client.slices.map_or(1.0, |slices| slices.measured_share());
            assert!((1..=(500_000_000.0 * measured) as u64).contains(&load.window_ns), "{}", load.window_ns);
            assert_eq!(load.clock.went_back, 0);
        }
    }
}

fn lost_cpu_ends_run_and_records_no_trial() {
    let folder = tempfile::tempdir().unwrap();
    for side in ["server", "client"] {
        let mut header = header(trials("epoll", "tcp", QUICK, 2));
        for trial in &mut header.trials {
            match (&mut trial.serve, side) {
                (harness::spec::ServerSpec::Ours(serve), "server") => serve.cpus = vec![4_000],
                _ => trial.client.cpus = vec![4_000],
            }
        }
        drop(Store::create(&folder.path().join(side), &header).unwrap());
        // A process that a concurrent test forks holds the lock's descriptor until its exec.
        eventually("the run is unlocked", || Store::resume(&folder.path().join(side)).is_ok());
        let output = muxbench().args(["run", "--resume", side]).current_dir(folder.path()).output().unwrap();
        let message = printed(&output, &[1]);
        assert!(message.contains("cannot run trial 0: its CPU 4000 is off-line"), "{message}");
        assert!(message.contains("make it available again"), "{message}");
        assert_eq!(store::read(&folder.path().join(side)).unwrap().records.len(), 0, "no trial is recorded as failed");
    }

    // If a CPU is lost during a trial, the run discards the trial, because it did not run on the planned CPUs.
    let header = header(trials("epoll", "tcp", &QUICK.replace("300ms", "1s"), 2));
    let cpus: Vec<usize> = header.trials[0].serve.cpus().iter().chain(&header.trials[0].client.cpus).copied().collect();
    let (before, mut rest) = (rustix::thread::sched_getaffinity(None).unwrap(), rustix::thread::CpuSet::new());
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|&cpu| before.is_set(cpu) && cpu != cpus[0])
        .for_each(|cpu| rest.set(cpu));
    if rest.count() == 0 {
        skipped("a lost CPU: this host has only one");
    } else {
        link_muxbench(folder.path());
        let store = Store::create(&folder.path().join("run"), &header).unwrap();
        let program = folder.path().join("muxbench");
        let options = Options { launch: &Muxbench { program: program.clone() }, stop: &Stop::default() };
        let outcome = runner::run(&header, &[], &store, &options, &mut Local::new(program), &mut |event| {
            if matches!(event, RunEvent::Load(load::Event::Progress { .. })) {
                rustix::thread::sched_setaffinity(None, &rest).unwrap();
            }
        });
        rustix::thread::sched_setaffinity(None, &before).unwrap();
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains(&format!("cannot run trial 0: its CPU {}", cpus[0])), "{message}");
        drop(store);
        assert_eq!(
            store::read(&folder.path().join("run")).unwrap().records.len(),
            0,
            "the disturbed trial is not stored"
        );
        assert_eq!(temporary_files(&folder.path().join("run")), Vec::<PathBuf>::new());
        eventually("all processes of the run end", || processes(folder.path(), "").is_empty());
    }
    let serve = Serve::start("epoll".parse().unwrap(), 1, 1);
    let target = serve.address.to_string();
    for arguments in [&["serve", "--cpus", "4000"][..], &["load", "--target", &target, "--client-cpus", "4000"]] {
        let message = printed(&muxbench().args(arguments).output().unwrap(), &[1]);
        assert!(message.contains("4000"), "{message}");
    }
}

fn taken_port_is_reported_and_left_alone() {
    let serve = Serve::start("epoll".parse().unwrap(), 1, 1);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = [(serve.address.to_string(), "fixed"), (udp.local_addr().unwrap().to_string(), "udp")];
    for (address, service) in taken {
        let arguments = ["serve", "--arch", "epoll", "--service", service, "--listen", &address];
        let message = printed(&muxbench().args(arguments).output().unwrap(), &[1]);
        assert!(
            message.contains(&format!("cannot listen on {address}: ")) && message.contains("already in use"),
            "{message}"
        );
        assert!(message.contains("choose another address or port"), "{message}");
    }
    crate::common::exchange(&mut serve.connect(), 1, 1);
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(exhausted_resource_is_named_with_a_remedy));
    cases.once(case!(plan_with_exhausted_ports_uses_other_addresses_or_fails));
    cases.once(case!(unreachable_address_and_used_up_ports_have_remedies));
    cases.once(case!(wall_clock_step_changes_no_measurement));
    cases.once(case!(lost_cpu_ends_run_and_records_no_trial));
    cases.once(case!(taken_port_is_reported_and_left_alone));
}
