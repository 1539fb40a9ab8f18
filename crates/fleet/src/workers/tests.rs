use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier};
use std::thread;

use load::{Event, LoadResult};

use super::super::channel::Channel;
use super::super::secret::Secret;
use super::super::worker;
use super::*;

/// Long enough for the slowest machine. Only a failing test waits so long.
pub(crate) const LONG: Duration = Duration::from_secs(300);
const PATIENT: Timeouts = Timeouts { joining: LONG, connecting: LONG, handshake: LONG, client: LONG, worker: LONG };
const SECRET: &str = "open sesame";

/// The membership of one of three workers.
pub(crate) fn membership(rank: u32, port: u16, secret: &str) -> Membership {
    Membership {
        launcher: "a test",
        rank,
        ranks: 3,
        hosts: vec!["127.0.0.1".into()],
        port,
        secret: Secret::new(secret),
        weakness: None,
        transport: None,
    }
}

/// The listener of a first worker, and its port.
fn listener() -> (TcpListener, u16) {
    let listener = join::listen(0).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Starts workers with these ranks and secrets, each in a thread, and accepts them as the first worker.
fn run_workers(others: &[(u32, &'static str)], timeouts: Timeouts) -> (anyhow::Result<()>, Vec<anyhow::Result<()>>) {
    let (listener, port) = listener();
    let run = |&(rank, secret): &(u32, &'static str)| {
        let membership = membership(rank, port, secret);
        thread::spawn(move || worker::run_within(&membership, Path::new("/nonexistent"), timeouts))
    };
    let others: Vec<_> = others.iter().map(run).collect();
    let first = Workers::accept_on(&listener, &membership(0, port, SECRET), LossPolicy::EndRun, timeouts);
    drop(listener);
    // Dropping `workers` ends the run in the other threads.
    let first = first.map(|workers| {
        assert!(workers.sentence().contains("(2)"), "{}", workers.sentence());
        assert_eq!((workers.count(), workers.are_all_remote()), (2, false));
        assert_eq!(workers.server_ip(), Some(Ipv4Addr::LOCALHOST.into()));
        let facts = workers.facts();
        assert_eq!((facts.here, facts.elsewhere_cpus), (2, None));
        assert_eq!(facts.addresses, [IpAddr::from(Ipv4Addr::LOCALHOST)]);
        assert_eq!((facts.lab, facts.beside_server), (None, vec![1, 2]));
    });
    (first, others.into_iter().map(|other| other.join().unwrap()).collect())
}

#[test]
fn workers_join_in_any_order() {
    let (first, others) = run_workers(&[(2, SECRET), (1, SECRET)], PATIENT);
    first.unwrap();
    assert!(others.iter().all(Result::is_ok), "{others:?}");
}

#[test]
fn stranger_is_refused_and_missing_workers_are_named() {
    let brief = Duration::from_secs(3);
    let timeouts = Timeouts { joining: brief, handshake: brief, ..PATIENT };
    let (first, others) = run_workers(&[(1, SECRET), (2, "open")], timeouts);
    let why = first.unwrap_err().to_string();
    // On a busy machine worker 1 may be missing too.
    assert!(why.starts_with("no connection to port") && why.contains("2 (this job has 3 workers"), "{why}");
    let why = format!("{:#}", others[1].as_ref().unwrap_err());
    assert!(why.contains("worker 2 on") && why.contains("cannot join the first worker within 3 s"), "{why}");
}

#[test]
fn silent_strangers_delay_no_worker() {
    let (listener, port) = listener();
    // If a stranger's handshake delayed a worker's, the time to join would be over first.
    let timeouts = Timeouts { handshake: 2 * LONG, ..PATIENT };
    let connect = |count: usize| -> Vec<TcpStream> {
        (0..count).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect()
    };
    let silent = connect(10);
    let first = thread::spawn(move || {
        Workers::accept_on(&listener, &membership(0, port, SECRET), LossPolicy::EndRun, timeouts)
    });
    let more = connect(256);
    let others = [1, 2].map(|rank| thread::spawn(move || worker::join(&membership(rank, port, SECRET), timeouts)));
    let joined = first.join().unwrap();
    drop((silent, more));
    assert!(joined.is_ok(), "{}", joined.err().unwrap());
    others.into_iter().for_each(|other| drop(other.join().unwrap().unwrap()));
}

#[test]
fn stranger_that_trickles_bytes_delays_nobody() {
    let ((listener, port), is_there) = (listener(), Arc::new(Barrier::new(3)));
    let (over, is_over) = mpsc::channel::<()>();
    let connected = is_there.clone();
    let stranger = thread::spawn(move || {
        let mut stranger = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        connected.wait();
        while is_over.recv_timeout(Duration::from_secs(10)) == Err(RecvTimeoutError::Timeout) {
            let _ = stranger.write_all(b"m");
        }
    });
    // The stranger's handshake times out only after `joining`, so the workers can join only if it does not block them.
    let timeouts = Timeouts { handshake: 2 * LONG, ..PATIENT };
    let run = |rank| {
        let is_there = is_there.clone();
        thread::spawn(move || {
            is_there.wait();
            worker::run_within(&membership(rank, port, SECRET), Path::new("/nonexistent"), timeouts)
        })
    };
    let others = [1, 2].map(run);
    drop(Workers::accept_on(&listener, &membership(0, port, SECRET), LossPolicy::EndRun, timeouts).unwrap());
    assert!(others.into_iter().all(|other| other.join().unwrap().is_ok()));
    drop(over);
    stranger.join().unwrap();
}

/// A worker that a test controls.
struct Puppet(Channel);

impl Puppet {
    /// Joins the first worker.
    fn join(membership: &Membership) -> Self {
        Self(Channel::new(worker::join(membership, PATIENT).unwrap()).unwrap())
    }

    fn receive(&self) -> Message {
        self.0.receive(Instant::now() + LONG).unwrap().expect("a message")
    }

    fn send_event(&self, trial: u32, event: &Event) {
        self.0.send(&Message::Event { trial, event: serde_json::to_string(event).unwrap() }).unwrap();
    }

    /// Obeys orders until the client must start. Returns the trial's number.
    fn begin(&self) -> u32 {
        loop {
            match self.receive() {
                Message::Order { trial, .. } => self.send_event(trial, &Event::Ready),
                Message::Ping { number } => {
                    self.0.send(&Message::Pong { number, monotonic_ns: monotonic_ns() }).unwrap();
                }
                Message::Begin { trial, .. } => return trial,
                message => panic!("{message:?}"),
            }
        }
    }
}

fn trial() -> harness::record::Trial {
    let experiment = harness::spec::presets::find("compare").unwrap().experiment();
    harness::plan::plan(&experiment, &harness::host::Host::made_up()).unwrap().trials.remove(0).alone()
}

fn poll_hook(_: Option<&Event>) -> anyhow::Result<Instant> {
    Ok(Instant::now() + Duration::from_millis(200))
}

fn barrier(workers: &mut Workers, hook: &mut WaitHook<'_>) -> anyhow::Result<u64> {
    workers.await_ready(hook).and_then(|()| workers.begin(hook))
}

#[test]
fn reports_are_collected_after_all_clients_ended() {
    let (listener, port) = listener();
    let (first_waits, second_ends) = mpsc::channel::<()>();
    let (first_has_reported, first_report_sent) = mpsc::channel::<()>();
    let report = |puppet: &Puppet, trial| {
        assert_eq!(puppet.receive(), Message::Collect { trial });
        puppet.send_event(trial, &Event::Finished { report: Box::new(testkit::load_result()) });
        puppet.0.send(&Message::Samples { trial, bytes: Vec::new() }).unwrap();
    };
    let first = thread::spawn(move || {
        let puppet = Puppet::join(&membership(1, port, SECRET));
        let trial = puppet.begin();
        puppet.0.send(&Message::Ended { trial, used_ppm: Some(250_000) }).unwrap();
        assert_eq!(
            puppet.0.receive(Instant::now() + Duration::from_millis(500)).unwrap(),
            None,
            "no collection while the other client measures"
        );
        first_waits.send(()).unwrap();
        report(&puppet, trial);
        first_has_reported.send(()).unwrap();
        assert_eq!(puppet.receive(), Message::Dismiss { trial });
    });
    let second = thread::spawn(move || {
        let puppet = Puppet::join(&membership(2, port, SECRET));
        let trial = puppet.begin();
        second_ends.recv().unwrap();
        puppet.0.send(&Message::Ended { trial, used_ppm: None }).unwrap();
        report(&puppet, trial);
        // Worker 1 is collected first, so wait for its thread to confirm that it has reported.
        first_report_sent.recv_timeout(LONG).unwrap();
        assert_eq!(puppet.receive(), Message::Dismiss { trial });
    });
    let folder = tempfile::tempdir().unwrap();
    let mut workers = Workers::accept_on(&listener, &membership(0, port, SECRET), LossPolicy::EndRun, PATIENT).unwrap();
    let mut trial = trial();
    if let harness::spec::ServerSpec::Ours(serve) = &mut trial.serve {
        // Give the server a CPU that no client uses: the usage of shared CPUs is reported as unknown.
        serve.cpus = vec![usize::MAX];
    }
    let order = LoadOrder::new(trial.load(), trial);
    workers.broadcast(&order, &folder.path().join("draft")).unwrap();
    barrier(&mut workers, &mut poll_hook).unwrap();
    let gathered = workers.gather(0, &mut poll_hook).unwrap();
    workers.dismiss();
    let used: Vec<Option<f64>> = gathered.iter().map(|it| it.account.cpus_used).collect();
    assert_eq!(used, [Some(0.25), None]);
    first.join().unwrap();
    second.join().unwrap();
}

#[test]
fn workers_of_one_host_share_the_ports_of_a_datagram_server() {
    let (listener, port) = listener();
    let run = |rank| {
        thread::spawn(move || {
            let puppet = Puppet::join(&membership(rank, port, SECRET));
            let Message::Order { order, .. } = puppet.receive() else { panic!("no order") };
            serde_json::from_str::<LoadOrder>(&order).unwrap().config
        })
    };
    let others = [1, 2].map(run);
    let mut workers = Workers::accept_on(&listener, &membership(0, port, SECRET), LossPolicy::EndRun, PATIENT).unwrap();
    let (trial, folder) = (trial(), tempfile::tempdir().unwrap());
    let service = wire::ServiceSpec::Udp { ports: 4, request_bytes: 8, response_bytes: 8 };
    let config = trial.load().with(|it| {
        it.the_loop = load::config::Loop::of(&service);
        (it.service, it.connections, it.client.processes) = (service, 4, 2);
    });
    workers.broadcast(&LoadOrder::new(config, trial), &folder.path().join("draft")).unwrap();
    for config in others.map(|other| other.join().unwrap()) {
        let broken = load::config::validate::broken(&config).map(ToString::to_string);
        assert_eq!((broken, config.connections, config.idle), (None, 2, 0));
    }
}

#[test]
fn slow_clock_comparisons_run_in_parallel_and_only_once() {
    let (listener, port) = listener();
    let all_are_asked = Arc::new(Barrier::new(2));
    let run = |rank| {
        let all_are_asked = all_are_asked.clone();
        thread::spawn(move || {
            let puppet = Puppet::join(&membership(rank, port, SECRET));
            assert!(matches!(puppet.receive(), Message::Order { .. }));
            puppet.send_event(1, &Event::Ready);
            assert_eq!(puppet.receive(), Message::Ping { number: 0 });
            all_are_asked.wait();
            thread::sleep(PINGS_MAX);
            puppet.0.send(&Message::Pong { number: 0, monotonic_ns: monotonic_ns() }).unwrap();
            assert!(matches!(puppet.receive(), Message::Begin { trial: 1, .. }), "no second comparison follows");
        })
    };
    let others = [1, 2].map(run);
    let mut workers = Workers::accept_on(&listener, &membership(0, port, SECRET), LossPolicy::EndRun, PATIENT).unwrap();
    let (trial, folder, before_ns) = (trial(), tempfile::tempdir().unwrap(), monotonic_ns());
    let order = LoadOrder::new(trial.load(), trial);
    workers.broadcast(&order, &folder.path().join("draft")).unwrap();
    let start_ns = barrier(&mut workers, &mut poll_hook).unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
    // The comparison takes one round trip, and the start is at least two more round trips later (`clocks::lead_ns`).
    assert!(start_ns - before_ns >= 3 * PINGS_MAX.as_nanos() as u64);
}

#[test]
fn hanging_worker_is_lost_and_named() {
    let (listener, port) = listener();
    let membership = move |rank| Membership { ranks: 2, ..membership(rank, port, SECRET) };
    let hanging = thread::spawn(move || {
        let puppet = Puppet::join(&membership(1));
        assert!(matches!(puppet.receive(), Message::Order { .. }));
        let received = puppet.0.receive(Instant::now() + LONG);
        assert!(received.is_err(), "the first worker closes the connection: {received:?}");
    });
    let brief = Duration::from_millis(200);
    let timeouts = Timeouts { client: brief, worker: brief, ..PATIENT };
    let mut workers = Workers::accept_on(&listener, &membership(0), LossPolicy::EndRun, timeouts).unwrap();
    let trial = trial();
    let config = trial.load().with(|it| it.client.timeout_ns = 0);
    let folder = tempfile::tempdir().unwrap();
    workers.broadcast(&LoadOrder::new(config, trial), &folder.path().join("draft")).unwrap();
    let why = barrier(&mut workers, &mut poll_hook).unwrap_err().to_string();
    assert!(why.starts_with("worker 1 on ") && why.contains("it hangs"), "{why}");
    assert!(workers.must_end_run());
    hanging.join().unwrap();
}

/// The number of requests of each client.
const SAMPLES: i64 = 10_000;

/// A program that acts as a client with a prepared report and prepared samples.
fn client(folder: &Path) -> std::path::PathBuf {
    let samples = |at| load::Sample {
        planned_ns: at * 1_000,
        sent_ns: at * 1_000 + 7,
        complete_ns: at * 1_000 + 50_000 + at * at % 7_919,
        connection: (at % 2) as u32,
        ..load::Sample::UNKNOWN
    };
    let samples: Vec<load::Sample> = (0..SAMPLES).map(samples).collect();
    harness::samples::write(&folder.join("samples"), &samples, &[]).unwrap();
    let window_ns = SAMPLES as u64 * 1_000;
    let measured =
        |difference: fn(&load::Sample) -> Option<i64>| load::result::samples::measured(&samples, window_ns, difference);
    let report = LoadResult {
        window_ns,
        planned: SAMPLES as u64,
        connections: 2,
        active: 2,
        send_delay: measured(load::result::samples::send_delay_ns),
        service: measured(load::result::samples::service_ns),
        response: measured(load::result::samples::response_ns),
        ..testkit::load_result()
    };
    let text = serde_json::to_string(&Event::Finished { report: Box::new(report) }).unwrap();
    std::fs::write(folder.join("report"), text + "\n").unwrap();
    let (ready, place) = (serde_json::to_string(&Event::Ready).unwrap(), folder.display());
    // The client hangs if the file `hangs` exists.
    let script = format!(
        "#!/bin/sh\nread order\necho '{ready}'\nread begin\n[ ! -e {place}/hangs ] || exec sleep 1000\n\
         cp {place}/samples \"$4\"\ncat {place}/report\nread end\n"
    );
    let path = folder.join("client");
    crate::tests::write_program(&path, &script);
    path
}

#[test]
fn reports_and_samples_of_five_workers_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let (program, (listener, port)) = (client(folder.path()), listener());
    let membership = move |rank| Membership { ranks: 6, ..membership(rank, port, SECRET) };
    let run = |rank| {
        let program = program.clone();
        thread::spawn(move || worker::run_within(&membership(rank), &program, PATIENT))
    };
    let others: Vec<_> = (1..6).map(run).collect();
    let mut workers = Workers::accept_on(&listener, &membership(0), LossPolicy::EndRun, PATIENT).unwrap();
    let trial = trial();
    let config = trial.load().with(|it| (it.connections, it.client.processes) = (10, 5));
    let order = LoadOrder::new(config, trial);
    let draft = folder.path().join("draft");
    let mut hook = poll_hook;
    for _ in 0..2 {
        workers.broadcast(&order, &draft).unwrap();
        let before_ns = monotonic_ns();
        assert!(barrier(&mut workers, &mut hook).unwrap() > before_ns);
        let gathered = workers.gather(0, &mut hook).unwrap();
        workers.dismiss();
        let started = Instant::now();
        let report = harness::clients::merge(&order, gathered, &draft).unwrap();
        println!("{} samples merged in {:?}", report.planned, started.elapsed());
        assert_eq!((report.planned, report.send_delay.distribution.count), (5 * SAMPLES as u64, 5 * SAMPLES as u64));
        assert_eq!(report.processes.len(), 5);
        let samples = traffic::samples::read(&draft).unwrap();
        assert_eq!(samples.len() as u64, report.planned);
        assert!((0..5).all(|client| samples.iter().filter(|it| it.client == client).count() as i64 == SAMPLES));
        assert!(samples.iter().all(|it| it.connection / 2 == it.client));
    }
    drop(workers);
    assert!(others.into_iter().all(|other| other.join().unwrap().is_ok()));
}

#[test]
fn contestants_of_a_heat_share_each_worker() {
    let folder = tempfile::tempdir().unwrap();
    let (program, (listener, port)) = (client(folder.path()), listener());
    let run = |rank| {
        let program = program.clone();
        thread::spawn(move || worker::run_within(&membership(rank, port, SECRET), &program, PATIENT))
    };
    let others = [1, 2].map(run);
    let mut workers = Workers::accept_on(&listener, &membership(0, port, SECRET), LossPolicy::EndRun, PATIENT).unwrap();
    assert_eq!(workers.facts().clock_error_ns, None);
    workers.measure_clocks().unwrap();
    assert!(workers.facts().clock_error_ns.is_some());
    let trial = trial();
    let (mut hook, drafts) = (poll_hook, ["a", "b", "c"].map(|name| folder.path().join(name)));
    let mut heat = |guard_ns: u64| -> anyhow::Result<Vec<u64>> {
        let slices =
            load::config::Slices { heat: 0, contestants: 3, contestant: 0, slice_ns: 1, gap_ns: 0, guard_ns, seed: 1 };
        let order = |contestant| {
            let slices = Some(load::config::Slices { contestant, ..slices });
            let config =
                trial.load().with(|it| (it.connections, it.client.processes, it.client.slices) = (4, 2, slices));
            LoadOrder::new(config, trial.clone())
        };
        let orders = [0, 1, 2].map(order);
        for (order, draft) in orders.iter().zip(&drafts) {
            workers.broadcast(order, draft)?;
            workers.await_ready(&mut hook)?;
        }
        let outcome = workers.begin(&mut hook).and_then(|_| {
            let gathered = (0..3).map(|contestant| workers.gather(contestant, &mut hook));
            gathered.collect::<anyhow::Result<Vec<_>>>()
        });
        workers.dismiss();
        let merged = outcome?.into_iter().zip(&orders).zip(&drafts);
        merged.map(|((gathered, order), draft)| Ok(harness::clients::merge(order, gathered, draft)?.planned)).collect()
    };
    let hour_ns = 3_600_000_000_000;
    assert_eq!(heat(hour_ns).unwrap(), [2 * SAMPLES as u64; 3]);
    let why = heat(0).unwrap_err().to_string();
    assert!(why.starts_with("the clock of worker ") && why.contains("slices need 0"), "{why}");
    assert_eq!(heat(hour_ns).unwrap(), [2 * SAMPLES as u64; 3], "a refused heat leaves nothing behind");
    drop(workers);
    assert!(others.into_iter().all(|other| other.join().unwrap().is_ok()));
}

#[test]
fn hanging_client_fails_only_its_trial() {
    let folder = tempfile::tempdir().unwrap();
    let (program, (listener, port)) = (client(folder.path()), listener());
    let membership = move |rank| Membership { ranks: 2, ..membership(rank, port, SECRET) };
    let timeouts = Timeouts { client: Duration::from_secs(1), ..PATIENT };
    let other = thread::spawn(move || worker::run_within(&membership(1), &program, timeouts));
    let mut workers = Workers::accept_on(&listener, &membership(0), LossPolicy::EndRun, PATIENT).unwrap();
    let (trial, draft) = (trial(), folder.path().join("draft"));
    // A client's time limit grows with its cool-down. A long cool-down gives even a slow machine enough time.
    let phases =
        |cool_down_ns| load::config::Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: 30_000_000, cool_down_ns };
    let order = |cool_down_ns| {
        let config =
            trial.load().with(|it| (it.client.timeout_ns, it.phases) = (LONG.as_nanos() as u64, phases(cool_down_ns)));
        LoadOrder::new(config, trial.clone())
    };
    let hangs = folder.path().join("hangs");
    std::fs::write(&hangs, "").unwrap();
    workers.broadcast(&order(0), &draft).unwrap();
    barrier(&mut workers, &mut poll_hook).unwrap();
    let why = workers.gather(0, &mut poll_hook).err().unwrap().to_string();
    assert!(why.starts_with("worker 1 on ") && why.contains("it hangs") && why.contains("SIGKILL"), "{why}");
    workers.dismiss();
    assert!(!workers.must_end_run());

    std::fs::remove_file(&hangs).unwrap();
    let order = order(LONG.as_nanos() as u64);
    workers.broadcast(&order, &draft).unwrap();
    barrier(&mut workers, &mut poll_hook).unwrap();
    let gathered = workers.gather(0, &mut poll_hook).unwrap();
    workers.dismiss();
    assert_eq!(harness::clients::merge(&order, gathered, &draft).unwrap().planned, SAMPLES as u64);
    drop(workers);
    other.join().unwrap().unwrap();
}

#[test]
fn worker_joins_again_only_after_its_connection_ended() {
    let (listener, port) = listener();
    let membership = move |rank| membership(rank, port, SECRET);
    let first = thread::spawn(move || Workers::accept_on(&listener, &membership(0), LossPolicy::EndRun, PATIENT));
    let one = Puppet::join(&membership(1));
    let timeouts = Timeouts { joining: Duration::from_secs(1), ..PATIENT };
    let why = format!("{:#}", worker::join(&membership(1), timeouts).err().unwrap());
    assert!(why.contains("worker 1 has already joined"), "{why}");
    drop(one);
    let others = [1, 2].map(|rank| Puppet::join(&membership(rank)));
    let workers = first.join().unwrap().unwrap();
    assert!(workers.workers.iter().all(|worker| worker.channel.is_connected()));
    drop(workers);
    assert!(others.iter().all(|other| other.receive() == Message::End));
}
