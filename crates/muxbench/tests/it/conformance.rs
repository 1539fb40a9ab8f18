//! Behaviour that all architectures share, and behaviour of pools.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::cases::{Cases, case};
use crate::common::{Serve, eventually, exchange, is_alive};
use rustix::net::sockopt;
use server::spec::mechanism::Spins;
use server::spec::model::PerConnection;
use server::{Accept, Architecture};

fn each_request_gets_a_whole_response(architecture: Architecture) {
    let serve = Serve::start(architecture, 128, 10_240);
    let mut streams: Vec<_> = (0..10).map(|_| serve.connect()).collect();
    for _ in 0..3 {
        for stream in &mut streams {
            exchange(stream, 128, 10_240);
        }
    }
    serve.settle();
    drop(streams);
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(totals["requests"], 30);
    assert_eq!(totals["accepted"], 10);
    assert_eq!(totals["bytes_in"], 30 * 128);
    assert_eq!(totals["bytes_out"], 30 * 10_240);
    for (syscall, operation) in [("read", "receive"), ("write", "send")] {
        let calls = totals["syscalls"][syscall].as_u64();
        // muxbench could count only a part of a runtime's calls, so it reports none.
        assert_eq!(calls.is_some(), architecture.model.counts_syscalls, "{architecture}");
        // Each transfer takes a system call or an operation of a completion mechanism.
        let done = calls.map(|calls| calls + totals["completions"][operation].as_u64().unwrap_or(0));
        assert!(done.is_none_or(|done| done >= 30), "{architecture}: {done:?}");
    }
}

fn partial_request_gets_no_response(architecture: Architecture) {
    let serve = Serve::start(architecture, 10, 5);
    let mut stream = serve.connect();
    stream.write_all(&[1; 9]).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(stream.read(&mut [0; 1]).is_err(), "9 of the 10 bytes of a request get no response");
    stream.set_read_timeout(Some(crate::common::TIMEOUT)).unwrap();
    stream.write_all(&[1]).unwrap();
    stream.read_exact(&mut [0; 5]).unwrap();
}

fn request_in_single_bytes_is_answered(architecture: Architecture) {
    let serve = Serve::start(architecture, 50, 3);
    let mut stream = serve.connect();
    for _ in 0..2 {
        for _ in 0..50 {
            stream.write_all(&[1]).unwrap();
        }
        stream.read_exact(&mut [0; 3]).unwrap();
    }
}

fn pipelined_requests_are_all_answered(architecture: Architecture) {
    let serve = Serve::start(architecture, 100, 300);
    let mut stream = serve.connect();
    // Send 1 000 requests and half of another, which is answered when its second half arrives.
    stream.write_all(&[1; 100_050]).unwrap();
    stream.read_exact(&mut vec![0; 300_000]).unwrap();
    stream.write_all(&[1; 50]).unwrap();
    stream.read_exact(&mut [0; 300]).unwrap();
}

fn flooded_connection_leaves_others_served(architecture: Architecture) {
    const REQUEST: usize = 1 << 20;
    let serve = Serve::start(architecture, REQUEST as u32, 1);
    let mut flood = serve.connect();
    let flooding = std::thread::spawn(move || while flood.write_all(&[1; 256 << 10]).is_ok() {});
    let mut other = serve.connect();
    for _ in 0..5 {
        exchange(&mut other, REQUEST, 1);
    }
    drop(serve);
    flooding.join().unwrap();
}

fn read_budget_bounds_each_read(architecture: Architecture) {
    const REQUEST: usize = 256 << 10;
    // Runtimes do not count their reads; `read_budget_bounds_reads_of_runtimes` uses the kernel's count.
    for (flag, budget) in [("1000B", 1_000), ("1MiB", 1 << 20)] {
        let serve = Serve::start_with(architecture, REQUEST as u32, 1, &["--read-budget", flag], None);
        let mut stream = serve.connect();
        exchange(&mut stream, REQUEST, 1);
        serve.settle();
        drop(stream);
        let (status, totals) = serve.stop();
        assert!(status.success(), "{architecture}: {status}");
        let reads = totals["syscalls"]["read"].as_u64().unwrap();
        let reads = reads + totals["completions"]["receive"].as_u64().unwrap_or(0);
        assert!(reads >= REQUEST.div_ceil(budget) as u64, "{architecture}, {flag}: {reads} reads");
    }
}

/// A payload thread finds a full socket and notifies the network thread. By then, the socket may have room again.
fn responses_that_fill_the_socket_buffer_arrive_whole(architecture: Architecture) {
    const RESPONSE: usize = 4 << 20;
    let serve = Serve::start(architecture, 1, RESPONSE as u32);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut stream = serve.connect();
            scope.spawn(move || (0..8).for_each(|_| exchange(&mut stream, 1, RESPONSE)));
        }
    });
}

/// A client with endless requests does not monopolise a payload thread.
fn flood_of_simulated_work_leaves_others_served(architecture: Architecture) {
    let serve = Serve::start_with(architecture, 100, 1, &["--simulated-work", "cpu=20us"], None);
    let mut flood = serve.connect();
    let mut answers = flood.try_clone().unwrap();
    let flooding = std::thread::spawn(move || while flood.write_all(&[1; 10_000]).is_ok() {});
    let reading = std::thread::spawn(move || while answers.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {});
    let mut other = serve.connect();
    for _ in 0..5 {
        exchange(&mut other, 100, 1);
    }
    drop(serve);
    flooding.join().unwrap();
    reading.join().unwrap();
}

fn stopped_server_skips_queued_work(architecture: Architecture) {
    let serve = Serve::start_with(architecture, 1, 1, &["--simulated-work", "sleep=200ms"], None);
    let mut streams: Vec<_> = (0..4).map(|_| serve.connect()).collect();
    streams.iter_mut().for_each(|stream| stream.write_all(&[1; 600]).unwrap());
    std::thread::sleep(Duration::from_millis(20));
    let started = Instant::now();
    drop(serve.stop());
    assert!(started.elapsed() < Duration::from_secs(60), "{architecture} stopped only after {:?}", started.elapsed());
}

fn requests_during_an_unsent_response_are_answered(architecture: Architecture) {
    const RESPONSE: usize = 10 << 20;
    let serve = Serve::start(architecture, 1, RESPONSE as u32);
    let mut stream = serve.connect();
    stream.write_all(&[1]).unwrap();
    stream.read_exact(&mut [0; 1]).unwrap();
    // The first response fills the socket buffers. A server that is notified of the next requests cannot serve them yet.
    std::thread::sleep(Duration::from_millis(20));
    stream.write_all(&[1]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    stream.write_all(&[1]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 3 * RESPONSE - 1, "{architecture}: three whole responses before the end");
}

fn slow_reader_gets_ten_mebibytes_while_others_are_served(architecture: Architecture) {
    const RESPONSE: usize = 10 << 20;
    let serve = Serve::start(architecture, 1, RESPONSE as u32);
    let mut slow = serve.connect();
    // The response exceeds the socket buffers and the client does not read, so the server's write is partial.
    slow.write_all(&[1]).unwrap();
    let mut other = serve.connect();
    exchange(&mut other, 1, RESPONSE);
    slow.read_exact(&mut vec![0; RESPONSE]).unwrap();
    // The connection still works.
    exchange(&mut slow, 1, RESPONSE);
}

fn server_stops_reading_client_that_never_reads(architecture: Architecture) {
    // Far more than the socket buffers and the server hold.
    const ENOUGH: usize = 512 << 20;
    let serve = Serve::start(architecture, 1, 1 << 20);
    let mut greedy = serve.connect();
    greedy.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut written = 0;
    while let Ok(count) = greedy.write(&[1; 64 << 10]) {
        written += count;
        assert!(written < ENOUGH, "{architecture} read {written} bytes while its responses were unsent");
    }
    exchange(&mut serve.connect(), 1, 1 << 20);
    // Requests that were read are answered as soon as there is room.
    greedy.read_exact(&mut vec![0; 32 << 20]).unwrap();
}

fn requests_before_a_half_close_are_answered(architecture: Architecture) {
    let serve = Serve::start(architecture, 4, 100_000);
    let mut stream = serve.connect();
    stream.write_all(&[1; 12]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 300_000, "{architecture}: three whole responses before the end");
}

/// Closes a connection with a reset.
fn reset(stream: TcpStream) {
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

fn reset_ends_one_connection_only(architecture: Architecture) {
    let serve = Serve::start(architecture, 1, 5 << 20);
    let mut served = serve.connect();
    let mut aborted = serve.connect();
    // Reset one connection during a response and one without a request.
    aborted.write_all(&[1]).unwrap();
    aborted.read_exact(&mut [0; 1000]).unwrap();
    reset(aborted);
    reset(serve.connect());
    exchange(&mut served, 1, 5 << 20);
    exchange(&mut serve.connect(), 1, 5 << 20);
}

/// A server whose loop wakes for nothing takes CPU time from its neighbours, and spoils its own figure.
fn idle_server_takes_no_cpu_time(architecture: Architecture) {
    let serve = Serve::start(architecture, 1, 1);
    let mut idle = serve.connect();
    exchange(&mut idle, 1, 1);
    serve.settle();
    let before = serve.cpu_ticks();
    thread::sleep(Duration::from_secs(1));
    let used = serve.cpu_ticks() - before;
    assert!(used <= 10, "{architecture}: {used} ticks of 10 ms in an idle second");
}

fn ready_server_has_all_its_descriptors(architecture: Architecture) {
    // Opening a descriptor later could fail, or take the spare one.
    let serve = Serve::start(architecture, 1, 1);
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", serve.pid())).unwrap().count();
    let ready = descriptors();
    let mut stream = serve.connect();
    exchange(&mut stream, 1, 1);
    serve.settle();
    let per_connection = usize::from(architecture.model.per_connection != PerConnection::Process);
    // compio opens a ring to query the kernel's features and closes it again.
    assert!(descriptors() <= ready + per_connection, "{architecture}");
}

fn closed_descriptors_are_reused(architecture: Architecture) {
    // There are far more connections, one after the other, than descriptors.
    let serve = Serve::start_with(architecture, 1, 1, &["--connections-max", "16"], Some(64));
    for _ in 0..300 {
        exchange(&mut serve.connect(), 1, 1);
    }
    serve.settle();
    let (_, totals) = serve.stop();
    assert_eq!(totals["requests"], 300);
}

fn server_works_past_1024_descriptors(architecture: Architecture) {
    let serve = Serve::start_with(architecture, 1, 1, &["--connections-max", "1200"], None);
    let mut streams: Vec<_> = (0..1_100).map(|_| serve.connect()).collect();
    // Do not wait for each response: a server that polls all its connections needs a pass for each wait.
    for _ in 0..2 {
        streams.iter_mut().for_each(|stream| stream.write_all(&[7]).unwrap());
        streams.iter_mut().for_each(|stream| stream.read_exact(&mut [0]).unwrap());
    }
    serve.settle();
    let (_, totals) = serve.stop();
    assert_eq!(totals["requests"], 2_200);
    assert_eq!(totals["refused"], 0);
}

/// Returns a new connection after one exchange; `None` if the server refused the connection.
fn served_connection(serve: &Serve) -> Option<TcpStream> {
    serve.try_exchange(1, 1)
}

fn server_without_descriptors_refuses_until_one_is_free(architecture: Architecture) {
    // `cases` omits pools of threads, which need a descriptor per thread to start.
    let serve = Serve::start_with(architecture, 1, 1, &[], Some(36));
    // With a process per connection, each process has its own descriptors, so the limit does not restrict connections.
    let tries: Vec<_> = (0..40).map(|_| served_connection(&serve)).collect();
    let served = tries.iter().flatten().count();
    let has_limit = architecture.model.per_connection != PerConnection::Process;
    assert_eq!(has_limit, served < 40, "{architecture} served {served} of 40 with 36 descriptors");
    assert!(served >= 10, "{architecture} served {served}");
    drop(tries);
    eventually("a new connection is served again", || served_connection(&serve).is_some());
    let (_, totals) = serve.stop();
    assert_eq!(has_limit, totals["refused"].as_u64().unwrap() > 0);
}

fn each_accepting_network_thread_refuses_connections(architecture: Architecture, accept: Accept) {
    let serve = Serve::start_with(architecture, 1, 1, &["--accept", &accept.to_string()], Some(48));
    // Connect concurrently, so that each thread refuses a connection.
    let clients = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (0..15).map(|_| served_connection(&serve)).collect::<Vec<_>>())).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let served = clients.iter().flatten().count();
    assert!((10..48).contains(&served), "{architecture} {accept} served {served} of 60 with 48 descriptors");
    drop(clients);
    eventually("a new connection is served again", || served_connection(&serve).is_some());
    let (_, totals) = serve.stop();
    assert!(totals["refused"].as_u64().unwrap() > 0, "{architecture} {accept}: {totals}");
}

fn connections_beyond_the_limit_are_refused(architecture: Architecture) {
    // `cases` omits pools, because a full pool lets connections wait.
    let serve = Serve::start_with(architecture, 1, 1, &["--connections-max", "3"], None);
    let kept: Vec<_> =
        (0..3).map(|_| served_connection(&serve).expect("a connection within the limit is served")).collect();
    assert!(served_connection(&serve).is_none(), "{architecture} refuses a fourth connection");
    drop(kept);
    eventually("a new connection is served again", || served_connection(&serve).is_some());
}

fn busy_server_stops_and_leaves_no_child(architecture: Architecture) {
    let serve = Serve::start_with(architecture, 1, 10 << 20, &["--connections-max", "8"], None);
    let mut streams: Vec<_> = (0..5).map(|_| serve.connect()).collect();
    for stream in &mut streams {
        stream.write_all(&[1]).unwrap();
        stream.read_exact(&mut [0; 1]).unwrap();
    }
    let children = serve.children();
    let expected = match architecture.model.per_connection {
        PerConnection::Process => architecture.pool_size(8).unwrap_or(5),
        PerConnection::Thread | PerConnection::Nothing | PerConnection::Stack => 0,
    };
    assert_eq!(children.len(), expected as usize, "{architecture}");
    let (status, _) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    eventually("the children have ended", || !children.iter().any(|&child| is_alive(child)));
}

fn killed_server_leaves_no_child(architecture: Architecture) {
    let serve = Serve::start(architecture, 1, 1);
    let mut streams: Vec<_> = (0..5).map(|_| serve.connect()).collect();
    for stream in &mut streams {
        exchange(stream, 1, 1);
    }
    let children = serve.children();
    drop(serve);
    eventually("the children have ended", || !children.iter().any(|&child| is_alive(child)));
}

fn server_does_not_outlive_its_parent(architecture: Architecture) {
    // A shell that starts a server, prints its process id, and waits.
    let script = format!("{} serve --json --arch {architecture} & echo $!; wait", env!("CARGO_BIN_EXE_muxbench"));
    let mut shell =
        std::process::Command::new("sh").args(["-c", &script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(shell.stdout.take().unwrap()));
    let mut next = || lines.next().unwrap().unwrap();
    let (first, second) = (next(), next());
    // The two lines may arrive in either order.
    let pid =
        [&first, &second].iter().find_map(|line| line.parse().ok()).and_then(rustix::process::Pid::from_raw).unwrap();
    shell.kill().unwrap();
    shell.wait().unwrap();
    eventually("the server has ended", || !is_alive(pid));
}

fn start_pool(pool: Architecture, accept: Accept) -> Serve {
    Serve::start_with(pool, 1, 1, &["--accept", &accept.to_string()], None)
}

fn pool_with_each_accept_strategy_leaves_no_child(pool: Architecture, accept: Accept) {
    let serve = start_pool(pool, accept);
    // Connect one after the other: a hash may give two concurrent connections to one worker.
    for _ in 0..20 {
        exchange(&mut serve.connect(), 1, 1);
    }
    let children = serve.children();
    assert_eq!(children.len(), if pool.model.per_connection == PerConnection::Process { 4 } else { 0 });
    drop(serve);
    eventually("the children have ended", || !children.iter().any(|&child| is_alive(child)));

    let serve = start_pool(pool, accept);
    let mut stream = serve.connect();
    exchange(&mut stream, 1, 1);
    let children = serve.children();
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{pool} {accept}: {status}");
    assert_eq!((&totals["requests"], &totals["accepted"]), (&1.into(), &1.into()));
    assert_eq!((&totals["syscalls"]["spawn"], &totals["crashed"]), (&4.into(), &0.into()));
    eventually("the children have ended", || !children.iter().any(|&child| is_alive(child)));
}

fn network_threads_accept_by_themselves(architecture: Architecture, accept: Accept) {
    let serve = Serve::start_with(architecture, 1, 1, &["--accept", &accept.to_string()], None);
    for _ in 0..20 {
        exchange(&mut serve.connect(), 1, 1);
    }
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture} {accept}: {status}");
    assert_eq!((&totals["requests"], &totals["accepted"]), (&20.into(), &20.into()));
}

fn steered_connections_reach_each_network_thread(architecture: Architecture, accept: Accept) {
    const CONNECTIONS: usize = 40;
    let serve = Serve::start_with(architecture, 1, 1, &["--accept", &accept.to_string()], None);
    // Of 40 connections, 10 end before the last 10 begin.
    let mut open: Vec<_> = (0..CONNECTIONS - 10).map(|_| served_connection(&serve).unwrap()).collect();
    drop(open.drain(..10));
    serve.settle();
    open.extend((0..10).map(|_| served_connection(&serve).unwrap()));
    let (status, snapshot) = serve.stop_with_snapshot();
    assert!(status.success(), "{architecture} {accept}: {status}");
    let figures = |name: &str| -> Vec<u64> {
        let threads = snapshot["network_threads"].as_array().expect("two network threads");
        threads.iter().map(|thread| thread[name].as_u64().unwrap()).collect()
    };
    let (connections, assigned) = (figures("connections"), figures("assigned"));
    assert_eq!((connections.len(), connections.iter().sum::<u64>()), (2, open.len() as u64), "{snapshot}");
    assert_eq!(assigned.iter().sum::<u64>(), CONNECTIONS as u64, "{snapshot}");
    assert!(figures("cpu_ns").iter().all(|ns| *ns > 0), "{snapshot}");
    let steering_ns = ["steering_ns", "steering_program_ns"].map(|name| snapshot["totals"][name].as_u64());
    assert_eq!(steering_ns[0].is_some_and(|ns| ns > 0), accept == Accept::Hermes, "{snapshot}");
    assert!(steering_ns[1] != Some(0) && (accept.steers_by_state() || steering_ns[1].is_none()), "{snapshot}");
    match accept {
        Accept::ReuseportLeast => assert_eq!(connections, [15, 15], "{architecture}: the fewest get the next"),
        // The hash chooses, but no thread may have more than one and a half times the mean, and one. States may be old.
        Accept::Hermes => {
            assert!(connections.iter().all(|it| (3..=27).contains(it)), "{architecture}: {connections:?}")
        }
        _ => {}
    }
}

fn stalled_thread_serves_later_and_counts_its_connections(architecture: Architecture) {
    let flags = ["--accept", "reuseport-least", "--stall", "every=60ms,for=30ms"];
    let serve = Serve::start_with(architecture, 1, 1, &flags, None);
    let mut streams = [serve.connect(), serve.connect()];
    let (begun, mut slow) = (Instant::now(), 0);
    while slow < 5 {
        let started = Instant::now();
        streams.iter_mut().for_each(|stream| stream.write_all(&[1]).unwrap());
        streams.iter_mut().for_each(|stream| stream.read_exact(&mut [0; 1]).unwrap());
        slow += u32::from(started.elapsed() > Duration::from_millis(25));
        assert!(begun.elapsed() < crate::common::TIMEOUT, "{architecture}: {slow} exchanges lasted as long as a stall");
    }
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert!(totals["hung"].as_u64() > Some(0), "{architecture}: {totals}");
}

fn full_pool_queues_the_next_connection(pool: Architecture, accept: Accept) {
    // One worker, so that one connection fills the pool with every strategy.
    let serve = start_pool(pool, accept);
    let mut first = serve.connect();
    exchange(&mut first, 1, 1);
    let mut next = serve.connect();
    next.write_all(&[1]).unwrap();
    next.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(next.read(&mut [0; 1]).is_err(), "{pool} {accept} serves one connection at a time");
    exchange(&mut first, 1, 1);
    drop(first);
    next.set_read_timeout(Some(crate::common::TIMEOUT)).unwrap();
    next.read_exact(&mut [0; 1]).unwrap();
    exchange(&mut next, 1, 1);
}

fn pool_stops_while_connections_wait(pool: Architecture, accept: Accept) {
    let serve = start_pool(pool, accept);
    let mut first = serve.connect();
    exchange(&mut first, 1, 1);
    let waiting: Vec<_> = (0..5).map(|_| serve.connect()).collect();
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{pool} {accept}: {status}");
    assert_eq!(totals["requests"], 1);
    drop(waiting);
}

fn pool_grows_while_connections_need_threads(pool: Architecture) {
    let serve = Serve::start(pool, 1, 1);
    let threads = || std::fs::read_dir(format!("/proc/{}/task", serve.pid())).unwrap().count();
    let fewest = threads();
    let mut streams: Vec<_> = (0..4).map(|_| serve.connect()).collect();
    streams.iter_mut().for_each(|stream| exchange(stream, 1, 1));
    assert_eq!(threads(), fewest + 3, "{pool}: each of four connections has a thread");
    let mut next = serve.connect();
    next.write_all(&[1]).unwrap();
    next.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(next.read(&mut [0; 1]).is_err(), "{pool} has its most threads");
    drop(streams);
    next.set_read_timeout(Some(crate::common::TIMEOUT)).unwrap();
    next.read_exact(&mut [0; 1]).unwrap();
    drop(next);
    eventually("idle threads end", || threads() == fewest);
    exchange(&mut serve.connect(), 1, 1);
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{pool}: {status}");
    assert_eq!((&totals["requests"], &totals["accepted"]), (&6.into(), &6.into()), "{pool}");
}

fn kill(child: rustix::process::Pid) {
    rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
}

fn crashed_prefork_child_is_replaced_and_counted(pool: Architecture, accept: Accept) {
    let serve = start_pool(pool, accept);
    let mut served = serve.connect();
    exchange(&mut served, 1, 1);
    let crashed = serve.children();
    crashed.iter().copied().for_each(kill);
    assert!(!matches!(served.read(&mut [0; 1]), Ok(1..)), "the connection of a crashed process ends");
    eventually("crashed processes are replaced", || {
        let children = serve.children();
        children.len() == 2 && !children.iter().any(|child| crashed.contains(child))
    });
    eventually("a new connection is served", || served_connection(&serve).is_some());
    let (status, totals) = serve.stop();
    assert!(status.success(), "{pool} {accept}: {status}");
    assert_eq!((&totals["crashed"], &totals["syscalls"]["spawn"]), (&2.into(), &4.into()), "{pool} {accept}");
    assert!(totals["cpu_children_ns"].as_u64().unwrap() > 0);
}

fn crashed_child_frees_its_connection_slots() {
    let serve = Serve::start_with("mp".parse().unwrap(), 1, 1, &["--connections-max", "1"], None);
    for _ in 0..3 {
        let mut served = None;
        eventually("a connection is served", || {
            served = served_connection(&serve);
            served.is_some()
        });
        assert!(served_connection(&serve).is_none(), "a second connection is refused");
        // Kill the process of the open connection, and with it any processes of earlier rounds that are not reaped yet.
        serve.children().into_iter().for_each(kill);
        drop(served);
    }
    eventually("the last process is reaped", || serve.children().is_empty());
    let (_, totals) = serve.stop();
    assert_eq!(totals["crashed"], 3);
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.each(case!(each_request_gets_a_whole_response));
    cases.each(case!(partial_request_gets_no_response));
    cases.each(case!(request_in_single_bytes_is_answered));
    cases.each(case!(pipelined_requests_are_all_answered));
    cases.each(case!(flooded_connection_leaves_others_served));
    let bounds_reads = |it: &Architecture| it.mechanism.is_none_or(|row| row.bounds_reads);
    cases.each_that(|it| it.model.counts_syscalls && bounds_reads(it), case!(read_budget_bounds_each_read));
    cases.each(case!(responses_that_fill_the_socket_buffer_arrive_whole));
    cases.each_that(|it| it.model.has_payload_threads(), case!(flood_of_simulated_work_leaves_others_served));
    cases.each(case!(stopped_server_skips_queued_work));
    cases.each(case!(requests_during_an_unsent_response_are_answered));
    cases.each(case!(slow_reader_gets_ten_mebibytes_while_others_are_served));
    cases.each(case!(server_stops_reading_client_that_never_reads));
    cases.each(case!(requests_before_a_half_close_are_answered));
    cases.each(case!(reset_ends_one_connection_only));
    let sleeps = |it: &Architecture| it.mechanism.is_none_or(|row| row.spins == Spins::Nothing);
    cases.each_that(sleeps, case!(idle_server_takes_no_cpu_time));
    cases.each(case!(ready_server_has_all_its_descriptors));
    cases.each(case!(closed_descriptors_are_reused));
    cases.each_that(|it| it.model.per_connection != PerConnection::Process, case!(server_works_past_1024_descriptors));
    cases.each_that(
        |it| !(it.model.is_pool() && it.model.per_connection == PerConnection::Thread),
        case!(server_without_descriptors_refuses_until_one_is_free),
    );
    cases.accepting(case!(each_accepting_network_thread_refuses_connections));
    cases.each_that(|it| !it.model.is_pool(), case!(connections_beyond_the_limit_are_refused));
    cases.each(case!(busy_server_stops_and_leaves_no_child));
    cases.each(case!(killed_server_leaves_no_child));
    cases.each(case!(server_does_not_outlive_its_parent));
    cases.pools(&["mt-pool:4", "mp-prefork:4"], case!(pool_with_each_accept_strategy_leaves_no_child));
    cases.accepting(case!(network_threads_accept_by_themselves));
    let (name, check) = case!(steered_connections_reach_each_network_thread);
    cases.steered(Accept::ReuseportLeast, case!(stalled_thread_serves_later_and_counts_its_connections));
    for accept in [Accept::Single, Accept::ReuseportLeast, Accept::Hermes] {
        cases.steered(accept, (&format!("{name}::{accept}"), move |it| check(it, accept)));
    }
    cases.named(&["mt-pool:1..4"], case!(pool_grows_while_connections_need_threads));
    cases.pools(&["mt-pool:1", "mp-prefork:1"], case!(full_pool_queues_the_next_connection));
    cases.pools(&["mt-pool:1", "mp-prefork:1"], case!(pool_stops_while_connections_wait));
    cases.pools(&["mp-prefork:2"], case!(crashed_prefork_child_is_replaced_and_counted));
    cases.once(case!(crashed_child_frees_its_connection_slots));
}
