use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Barrier};

use load::LoadReport;

use super::super::launcher::Membership;
use super::super::secret::Secret;
use super::*;

/// Long enough for the slowest machine: only a failing test waits for it.
const LONG: Duration = Duration::from_secs(300);
const PATIENT: Timeouts = Timeouts { meeting: LONG, connecting: LONG, greeting: LONG, client: LONG, rank: LONG };

fn place(rank: u32, port: u16, secret: &str) -> Membership {
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

/// Where the first rank listens, and its port.
fn meeting() -> (TcpListener, u16) {
    let listener = listen(0).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Starts ranks as they are told, each in a thread, and meets them as the first.
fn met(others: &[(u32, &'static str)], patience: Timeouts) -> (anyhow::Result<Workers>, Vec<anyhow::Result<()>>) {
    let (listener, port) = meeting();
    let follow = |&(rank, secret): &(u32, &'static str)| {
        thread::spawn(move || worker::follow_within(&place(rank, port, secret), Path::new("/nonexistent"), patience))
    };
    let others: Vec<_> = others.iter().map(follow).collect();
    let first = Workers::meet_on(&listener, &place(0, port, "open sesame"), LossPolicy::EndRun, patience);
    drop(listener);
    let Ok(ranks) = first else {
        return (first, others.into_iter().map(|other| other.join().unwrap()).collect());
    };
    assert!(ranks.sentence().contains("(2)"), "{}", ranks.sentence());
    assert_eq!((ranks.count(), ranks.are_all_remote()), (2, false));
    assert_eq!(ranks.server_ip(), Some(Ipv4Addr::LOCALHOST.into()));
    let facts = ranks.facts();
    assert_eq!((facts.here, facts.elsewhere_cpus), (2, None));
    assert_eq!(facts.ways, [IpAddr::from(Ipv4Addr::LOCALHOST)]);
    assert_eq!((facts.lab, facts.beside_server), (None, vec![1, 2]));
    // All that is over is heard by the others when it is dropped.
    drop(ranks);
    (Err(anyhow!("they met")), others.into_iter().map(|other| other.join().unwrap()).collect())
}

#[test]
fn ranks_meet_in_whatever_order_they_come() {
    let (first, others) = met(&[(2, "open sesame"), (1, "open sesame")], PATIENT);
    assert_eq!(first.err().unwrap().to_string(), "they met");
    assert!(others.iter().all(Result::is_ok), "{others:?}");
}

#[test]
fn a_stranger_is_refused_and_who_is_missing_is_told() {
    let brief = Duration::from_secs(3);
    let patience = Timeouts { meeting: brief, greeting: brief, ..PATIENT };
    let (first, others) = met(&[(1, "open sesame"), (2, "open")], patience);
    let why = first.err().unwrap().to_string();
    // On a busy machine the first may be missing as well.
    assert!(why.starts_with("of 3 ranks, ") && why.contains("2 did not come to port"), "{why}");
    let why = format!("{:#}", others[1].as_ref().unwrap_err());
    assert!(why.contains("rank 2 on") && why.contains("cannot meet the first one within 3 s"), "{why}");
}

#[test]
fn rank_with_another_secret_is_told_so() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let first =
        thread::spawn(move || greet(&listener.accept().unwrap().0, &place(0, port, "open sesame"), LONG).map(drop));
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let why = worker::greet(stream, &place(1, port, "open"), LONG).err().unwrap().to_string();
    assert!(why.contains("this job has another secret; set MUXBENCH_SECRET"), "{why}");
    let why = first.join().unwrap().unwrap_err().to_string();
    assert!(why.contains("does not know this job's secret"), "{why}");
}

/// Everything that comes until the other side has ended or says nothing more.
fn heard_by_a_stranger(mut stream: &TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let _ = std::io::Read::read_to_end(&mut stream, &mut heard);
    heard
}

/// What a rank says of itself, as it is sent.
fn hello(nonce: secret::Nonce) -> Vec<u8> {
    let (machine, network, (cpus, cpus_of_host)) = (worker::machine(), worker::network(), worker::cpus());
    let hello = Hello { rank: 1, ranks: 3, host: worker::host(), machine, network, cpus, cpus_of_host, nonce };
    postcard::to_stdvec(&hello).unwrap()
}

/// One who greets the first rank of a job whose secret is "open sesame", and makes of its challenge what it claims; what the
/// first rank says to that, and whether that takes it for a rank.
fn greeted_by_a_stranger(claim: impl FnOnce(secret::Nonce) -> HandshakeMessage) -> (Vec<u8>, bool) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let place = place(0, port, "open sesame");
    let first = thread::spawn(move || greet(&listener.accept().unwrap().0, &place, LONG).map(drop));
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    message::compare_versions(&mut stream).unwrap();
    let HandshakeMessage::Challenge { nonce } = message::hear_greeting(&mut stream).unwrap() else {
        panic!("no challenge")
    };
    message::greet(&mut stream, &claim(nonce)).unwrap();
    let heard = [&nonce[..], &heard_by_a_stranger(&stream)].concat();
    (heard, first.join().unwrap().is_ok())
}

#[test]
fn stranger_gets_nothing_made_with_the_secret() {
    let (mut challenge, hello) = ([0; 32], hello([7; 32]));
    let (heard, is_met) = greeted_by_a_stranger(|nonce| {
        challenge = nonce;
        HandshakeMessage::Claim { hello: hello.clone(), proof: [7; 32] }
    });
    assert!(!is_met && heard.len() > challenge.len(), "it is told that it is refused");
    let transcript = Transcript::new(&message::preamble(), &challenge, &hello);
    for side in [Side::First, Side::Other] {
        let made = Secret::new("open sesame").prove(side, &transcript);
        assert!(!heard.windows(made.len()).any(|it| it == made), "a secret can be guessed with that");
    }
}

#[test]
fn claim_is_of_one_challenge_and_of_every_byte_of_its_hello() {
    let claim = |said: Vec<u8>, nonce, proven: &[u8]| {
        let transcript = Transcript::new(&message::preamble(), &nonce, proven);
        HandshakeMessage::Claim { hello: said, proof: Secret::new("open sesame").prove(Side::Other, &transcript) }
    };
    let hello = hello([7; 32]);
    assert!(greeted_by_a_stranger(|nonce| claim(hello.clone(), nonce, &hello)).1);
    assert!(!greeted_by_a_stranger(|_| claim(hello.clone(), [7; 32], &hello)).1, "heard in another session");
    for at in [0, 1, hello.len() / 2, hello.len() - 1] {
        let mut changed = hello.clone();
        changed[at] ^= 1;
        assert!(!greeted_by_a_stranger(|nonce| claim(changed, nonce, &hello)).1, "byte {at}");
    }
}

#[test]
fn first_rank_that_proves_nothing_is_not_followed() {
    let secret = || Secret::new("open sesame");
    // What one who does not know the secret has: a rank's own proof, and random bytes.
    for is_sent_back in [true, false] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let impostor = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            message::compare_versions(&mut stream).unwrap();
            message::greet(&mut stream, &HandshakeMessage::Challenge { nonce: [7; 32] }).unwrap();
            let HandshakeMessage::Claim { hello, proof } = message::hear_greeting(&mut stream).unwrap() else {
                panic!("no claim")
            };
            let transcript = Transcript::new(&message::preamble(), &[7; 32], &hello);
            assert!(secret().is_proven(Side::Other, &transcript, &proof));
            let proof = if is_sent_back { proof } else { [7; 32] };
            message::greet(&mut stream, &HandshakeMessage::Welcome { proof }).unwrap();
        });
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let why = worker::greet(stream, &place(1, port, "open sesame"), LONG).err().unwrap().to_string();
        assert!(why.contains("does not know this job's secret; set MUXBENCH_SECRET"), "{why}");
        impostor.join().unwrap();
    }
}

#[test]
fn silent_strangers_hold_up_no_rank() {
    let (listener, port) = meeting();
    let patience = Timeouts { meeting: Duration::from_secs(20), ..PATIENT };
    let silent: Vec<TcpStream> = (0..10).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
    let first = thread::spawn(move || {
        Workers::meet_on(&listener, &place(0, port, "open sesame"), LossPolicy::EndRun, patience)
    });
    let more: Vec<TcpStream> = (0..256).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
    let others = [1, 2].map(|rank| thread::spawn(move || worker::meet(&place(rank, port, "open sesame"), patience)));
    let met = first.join().unwrap();
    drop((silent, more));
    assert!(met.is_ok(), "{}", met.err().unwrap());
    others.into_iter().for_each(|other| drop(other.join().unwrap().unwrap()));
}

#[test]
fn ranks_that_may_not_use_all_cpus_are_told_together() {
    let told = |ranks: &[(u32, &str, Vec<usize>, u32)]| {
        let kept = |(rank, host, cpus, of_host): &(u32, &str, Vec<usize>, u32)| {
            kept_to_cpus(std::iter::once(CpuLimit { rank: *rank, host, cpus, of_host: *of_host })).is_some()
        };
        let all =
            ranks.iter().map(|(rank, host, cpus, of_host)| CpuLimit { rank: *rank, host, cpus, of_host: *of_host });
        (ranks.iter().filter(|it| kept(it)).count(), kept_to_cpus(all).unwrap_or_default())
    };
    let all = [(0, "a", vec![0, 1], 2), (1, "b", vec![], 4), (2, "c", vec![0, 1], 0)];
    assert_eq!(told(&all), (0, String::new()), "all may use all, or it is not known");
    let some = [(0, "a", vec![4, 0, 1], 8), (1, "b", vec![0], 2), (2, "b", vec![0], 2), (3, "b", vec![0, 1], 2)];
    let (kept, words) = told(&some);
    let expected = "rank 0 may use CPU 0-1,4 of the 8 of a; ranks 1, 2 may use CPU 0 of the 2 of b: who started them";
    assert!(kept == 3 && words.starts_with(expected), "{words}");
    let many: Vec<_> = (0..20).map(|rank| (rank, "a", vec![rank as usize], 64)).collect();
    let (kept, words) = told(&many);
    assert!(
        kept == 20 && words.contains("; rank 7 may use CPU 7 of the 64 of a; and so it is with 12 more: "),
        "{words}"
    );
}

#[test]
fn ranks_that_may_not_use_what_a_plan_has_for_them_are_told() {
    let told = |ranks: &[(u32, &[usize])]| missing_planned_cpus(&[2, 3], ranks.iter().copied()).unwrap_or_default();
    assert_eq!(told(&[(1, &[0, 1, 2, 3]), (2, &[2, 3]), (3, &[])]), "");
    assert_eq!(
        told(&[(1, &[0, 1]), (2, &[2]), (3, &[0, 1])]),
        "the plan has clients on CPU 2-3 of the server's host, and ranks 1, 3 may use none of them, but CPU 0-1; rank 2 \
         may use CPU 2 alone"
    );
}

#[test]
fn so_many_of_the_refused_are_told() {
    let mut refused = Refusals::default();
    assert_eq!(refused.to_string(), "");
    for number in [1, 1, 2] {
        refused.push(format!("a{number}"));
    }
    assert_eq!(refused.to_string(), "; refused: a1; refused: a2");
    (0..100).for_each(|number| refused.push(format!("b{number}")));
    let told = refused.to_string();
    assert!(told.ends_with("; refused: b5; refused: 94 more"), "{told}");
}

#[test]
fn a_stranger_who_says_a_byte_now_and_then_keeps_nobody_waiting() {
    let ((listener, port), is_there) = (meeting(), Arc::new(Barrier::new(3)));
    let (over, is_over) = mpsc::channel::<()>();
    let came = is_there.clone();
    let stranger = thread::spawn(move || {
        let mut stranger = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        came.wait();
        while is_over.recv_timeout(Duration::from_secs(10)) == Err(RecvTimeoutError::Timeout) {
            let _ = stranger.write_all(b"m");
        }
    });
    // A greeting could go on for longer than ranks are waited for.
    let patience = Timeouts { greeting: 2 * LONG, ..PATIENT };
    let follow = |rank| {
        let is_there = is_there.clone();
        thread::spawn(move || {
            is_there.wait();
            worker::follow_within(&place(rank, port, "open sesame"), Path::new("/nonexistent"), patience)
        })
    };
    let others = [1, 2].map(follow);
    drop(Workers::meet_on(&listener, &place(0, port, "open sesame"), LossPolicy::EndRun, patience).unwrap());
    assert!(others.into_iter().all(|other| other.join().unwrap().is_ok()));
    drop(over);
    stranger.join().unwrap();
}

/// A rank that says what a test has it say.
struct Puppet(Channel);

impl Puppet {
    /// Meets the first rank.
    fn met(place: &Membership) -> Self {
        Self(Channel::new(worker::meet(place, PATIENT).unwrap(), |_| ()).unwrap())
    }

    fn hear(&self) -> Message {
        self.0.hear(Instant::now() + LONG).unwrap().expect("something is said")
    }

    fn tell(&self, trial: u32, event: &Event) {
        self.0.say(&Message::Event { trial, event: serde_json::to_string(event).unwrap() }).unwrap();
    }

    /// Does what it is told until its client has begun; which trial that is.
    fn begin(&self) -> u32 {
        loop {
            match self.hear() {
                Message::Order { trial, .. } => self.tell(trial, &Event::Ready),
                Message::Ping { number } => {
                    self.0.say(&Message::Pong { number, monotonic_ns: monotonic_ns() }).unwrap();
                }
                Message::Begin { trial, .. } => return trial,
                frame => panic!("{frame:?}"),
            }
        }
    }
}

fn trial() -> crate::model::Trial {
    let experiment = crate::spec::presets::find("compare").unwrap().experiment();
    crate::plan::plan(&experiment, &crate::host::Host::made_up()).unwrap().trials.remove(0)
}

fn look_now_and_then(_: Option<&Event>) -> anyhow::Result<Instant> {
    Ok(Instant::now() + Duration::from_millis(200))
}

#[test]
fn nobody_is_asked_for_an_account_before_all_have_ended() {
    let (listener, port) = meeting();
    let (first_waits, second_ends) = mpsc::channel::<()>();
    let (first_is_through, second_is_asked) = mpsc::channel::<()>();
    let account = |puppet: &Puppet, trial| {
        assert_eq!(puppet.hear(), Message::Collect { trial });
        puppet.tell(trial, &Event::Finished { report: Box::new(crate::judge::tests::healthy()) });
        puppet.0.say(&Message::Samples { trial, bytes: Vec::new() }).unwrap();
    };
    let first = thread::spawn(move || {
        let puppet = Puppet::met(&place(1, port, "open sesame"));
        let trial = puppet.begin();
        puppet.0.say(&Message::Ended { trial, used_ppm: Some(250_000) }).unwrap();
        assert_eq!(puppet.0.hear(Instant::now() + Duration::from_millis(500)).unwrap(), None, "others measure");
        first_waits.send(()).unwrap();
        account(&puppet, trial);
        first_is_through.send(()).unwrap();
        assert_eq!(puppet.hear(), Message::Dismiss { trial });
    });
    let second = thread::spawn(move || {
        let puppet = Puppet::met(&place(2, port, "open sesame"));
        let trial = puppet.begin();
        second_ends.recv().unwrap();
        puppet.0.say(&Message::Ended { trial, used_ppm: None }).unwrap();
        account(&puppet, trial);
        // The first one's samples are all there by then, or this waits for what does not come.
        second_is_asked.recv_timeout(LONG).unwrap();
        assert_eq!(puppet.hear(), Message::Dismiss { trial });
    });
    let folder = tempfile::tempdir().unwrap();
    let mut ranks = Workers::meet_on(&listener, &place(0, port, "open sesame"), LossPolicy::EndRun, PATIENT).unwrap();
    let mut trial = trial();
    if let server::ServerSpec::Ours(serve) = &mut trial.serve {
        // What was in use of CPUs that the server has too would not be told.
        serve.cpus = vec![usize::MAX];
    }
    let order = LoadOrder::new(trial.load.clone(), trial);
    ranks.broadcast(&order, &folder.path().join("draft")).unwrap();
    ranks.barrier(&mut look_now_and_then).unwrap();
    let gathered = ranks.gather(&mut look_now_and_then).unwrap();
    ranks.dismiss();
    let used: Vec<Option<f64>> = gathered.iter().map(|it| it.account.cpus_used).collect();
    assert_eq!(used, [Some(0.25), None]);
    first.join().unwrap();
    second.join().unwrap();
}

#[test]
fn ranks_are_told_so_early_that_all_hear_it_in_time() {
    let answers = |ms: &[u64]| {
        let answer = |ms: &u64| ClockSample { round_trip_ns: ms * 1_000_000, ahead_ns: 7 };
        ClockSamples(ms.iter().map(answer).collect())
    };
    let ms = |all: &[ClockSamples], has_loss| lead_ns(all, has_loss) / 1_000_000;
    assert_eq!(ms(&[answers(&[0; 8]), answers(&[0; 8])], false), 60, "as before there were networks with delays");
    // The best of each, and of these the greatest.
    assert_eq!(ms(&[answers(&[200, 299]), answers(&[3, 4])], false), 60 + 400);
    assert_eq!(ms(&[answers(&[200, 299]), answers(&[3, 103])], false), 60 + 400 + 500, "something was lost");
    assert_eq!(ms(&[answers(&[1])], true), 55 + 2 + 500);
}

#[test]
fn all_are_asked_for_their_time_before_any_has_answered_and_not_for_long() {
    let (listener, port) = meeting();
    let all_are_asked = Arc::new(Barrier::new(2));
    let rank = |rank| {
        let all_are_asked = all_are_asked.clone();
        thread::spawn(move || {
            let puppet = Puppet::met(&place(rank, port, "open sesame"));
            assert!(matches!(puppet.hear(), Message::Order { .. }));
            puppet.tell(1, &Event::Ready);
            assert_eq!(puppet.hear(), Message::Ping { number: 0 });
            all_are_asked.wait();
            thread::sleep(PINGS_MAX);
            puppet.0.say(&Message::Pong { number: 0, monotonic_ns: monotonic_ns() }).unwrap();
            assert!(matches!(puppet.hear(), Message::Begin { trial: 1, .. }), "it took long enough");
        })
    };
    let others = [1, 2].map(rank);
    let mut ranks = Workers::meet_on(&listener, &place(0, port, "open sesame"), LossPolicy::EndRun, PATIENT).unwrap();
    let (trial, folder, before_ns) = (trial(), tempfile::tempdir().unwrap(), monotonic_ns());
    let order = LoadOrder::new(trial.load.clone(), trial);
    ranks.broadcast(&order, &folder.path().join("draft")).unwrap();
    let start_ns = ranks.barrier(&mut look_now_and_then).unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
    // What the answers took, and twice that.
    assert!(start_ns - before_ns >= 3 * PINGS_MAX.as_nanos() as u64);
}

#[test]
fn a_rank_that_hangs_is_lost_and_told_by_its_name() {
    let (listener, port) = meeting();
    let place = move |rank| Membership { ranks: 2, ..place(rank, port, "open sesame") };
    let hanging = thread::spawn(move || {
        let puppet = Puppet::met(&place(1));
        assert!(matches!(puppet.hear(), Message::Order { .. }));
        // Had it slept, it would find this when it wakes.
        let is_over = |heard: anyhow::Result<Option<Message>>| heard.is_err();
        assert!(is_over(puppet.0.hear(Instant::now() + LONG)));
    });
    let brief = Duration::from_millis(200);
    let patience = Timeouts { client: brief, rank: brief, ..PATIENT };
    let mut ranks = Workers::meet_on(&listener, &place(0), LossPolicy::EndRun, patience).unwrap();
    let trial = trial();
    let config = LoadConfig { timeout_ns: 0, ..trial.load.clone() };
    let folder = tempfile::tempdir().unwrap();
    ranks.broadcast(&LoadOrder::new(config, trial), &folder.path().join("draft")).unwrap();
    let why = ranks.barrier(&mut look_now_and_then).unwrap_err().to_string();
    assert!(why.starts_with("rank 1 on ") && why.contains("it hangs"), "{why}");
    assert!(ranks.must_end_run());
    hanging.join().unwrap();
}

/// Requests of each client, whose samples take many frames.
const SAMPLES: i64 = 30_000;

/// A program that does as a client does: it is ready, begins when told, and gives an account, and samples, that are there.
fn client(folder: &Path) -> std::path::PathBuf {
    let samples = |at| load::Sample {
        planned_ns: at * 1_000,
        sent_ns: at * 1_000 + 7,
        complete_ns: at * 1_000 + 50_000 + at * at % 7_919,
        connection: (at % 2) as u32,
        ..load::Sample::UNKNOWN
    };
    let samples: Vec<load::Sample> = (0..SAMPLES).map(samples).collect();
    crate::samples::write(&folder.join("samples"), &samples, &[]).unwrap();
    let window_ns = SAMPLES as u64 * 1_000;
    let measured =
        |difference: fn(&load::Sample) -> Option<i64>| load::summary::measured(&samples, window_ns, difference);
    let report = LoadReport {
        window_ns,
        planned: SAMPLES as u64,
        connections: 2,
        active: 2,
        lag: measured(load::summary::lag_ns),
        service: measured(load::summary::service_ns),
        response: measured(load::summary::response_ns),
        ..crate::judge::tests::healthy()
    };
    let said = serde_json::to_string(&Event::Finished { report: Box::new(report) }).unwrap();
    std::fs::write(folder.join("said"), said + "\n").unwrap();
    let (ready, place) = (serde_json::to_string(&Event::Ready).unwrap(), folder.display());
    // Where a file says so, it hangs.
    let script = format!(
        "#!/bin/sh\nread order\necho '{ready}'\nread begin\n[ ! -e {place}/hangs ] || exec sleep 1000\n\
         cp {place}/samples \"$4\"\ncat {place}/said\nread end\n"
    );
    let path = folder.join("client");
    crate::process::child::write_program(&path, &script);
    path
}

#[test]
fn what_five_ranks_saw_is_gathered_whole_in_each_trial() {
    let folder = tempfile::tempdir().unwrap();
    let (program, (listener, port)) = (client(folder.path()), meeting());
    let place = move |rank| Membership { ranks: 6, ..place(rank, port, "open sesame") };
    let follow = |rank| {
        let program = program.clone();
        thread::spawn(move || worker::follow_within(&place(rank), &program, PATIENT))
    };
    let others: Vec<_> = (1..6).map(follow).collect();
    let mut ranks = Workers::meet_on(&listener, &place(0), LossPolicy::EndRun, PATIENT).unwrap();
    let trial = trial();
    let config = LoadConfig { connections: 10, processes: 5, ..trial.load.clone() };
    let order = LoadOrder::new(config, trial);
    let draft = folder.path().join("draft");
    let mut look = look_now_and_then;
    for _ in 0..2 {
        ranks.broadcast(&order, &draft).unwrap();
        let before_ns = monotonic_ns();
        assert!(ranks.barrier(&mut look).unwrap() > before_ns);
        let gathered = ranks.gather(&mut look).unwrap();
        ranks.dismiss();
        let started = Instant::now();
        let report = super::super::merge(&order, gathered, &draft).unwrap();
        println!("{} samples merged in {:?}", report.planned, started.elapsed());
        assert_eq!((report.planned, report.lag.distribution.count), (5 * SAMPLES as u64, 5 * SAMPLES as u64));
        assert_eq!(report.processes.len(), 5);
        let samples = crate::samples::read(&draft).unwrap();
        assert_eq!(samples.len() as u64, report.planned);
        assert!((0..5).all(|client| samples.iter().filter(|it| it.client == client).count() as i64 == SAMPLES));
        assert!(samples.iter().all(|it| it.connection / 2 == it.client));
    }
    drop(ranks);
    assert!(others.into_iter().all(|other| other.join().unwrap().is_ok()));
}

#[test]
fn a_client_that_hangs_fails_its_trial_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (program, (listener, port)) = (client(folder.path()), meeting());
    let place = move |rank| Membership { ranks: 2, ..place(rank, port, "open sesame") };
    let patience = Timeouts { client: Duration::from_secs(1), ..PATIENT };
    let other = thread::spawn(move || worker::follow_within(&place(1), &program, patience));
    let mut ranks = Workers::meet_on(&listener, &place(0), LossPolicy::EndRun, PATIENT).unwrap();
    let (trial, draft) = (trial(), folder.path().join("draft"));
    // How long a client may take after it has begun: in a trial with a long drain, long enough for any machine.
    let phases = |drain_ns| load::config::Phases { ramp_ns: 0, hold_ns: 0, measure_ns: 30_000_000, drain_ns };
    let order = |drain_ns| {
        let config = LoadConfig { timeout_ns: LONG.as_nanos() as u64, phases: phases(drain_ns), ..trial.load.clone() };
        LoadOrder::new(config, trial.clone())
    };
    let hangs = folder.path().join("hangs");
    std::fs::write(&hangs, "").unwrap();
    ranks.broadcast(&order(0), &draft).unwrap();
    ranks.barrier(&mut look_now_and_then).unwrap();
    let why = ranks.gather(&mut look_now_and_then).err().unwrap().to_string();
    assert!(why.starts_with("rank 1 on ") && why.contains("it hangs") && why.contains("SIGKILL"), "{why}");
    ranks.dismiss();
    assert!(!ranks.must_end_run());

    std::fs::remove_file(&hangs).unwrap();
    let order = order(LONG.as_nanos() as u64);
    ranks.broadcast(&order, &draft).unwrap();
    ranks.barrier(&mut look_now_and_then).unwrap();
    let gathered = ranks.gather(&mut look_now_and_then).unwrap();
    ranks.dismiss();
    assert_eq!(super::super::merge(&order, gathered, &draft).unwrap().planned, SAMPLES as u64);
    drop(ranks);
    other.join().unwrap().unwrap();
}

#[test]
fn one_rank_comes_once_unless_it_is_gone() {
    let (listener, port) = meeting();
    let place = move |rank| place(rank, port, "open sesame");
    let first = thread::spawn(move || Workers::meet_on(&listener, &place(0), LossPolicy::EndRun, PATIENT));
    let one = Puppet::met(&place(1));
    let patience = Timeouts { meeting: Duration::from_secs(1), ..PATIENT };
    let why = format!("{:#}", worker::meet(&place(1), patience).err().unwrap());
    assert!(why.contains("is there already"), "{why}");
    drop(one);
    let others = [1, 2].map(|rank| Puppet::met(&place(rank)));
    let ranks = first.join().unwrap().unwrap();
    assert!(ranks.members.iter().all(|member| member.line.is_there()));
    drop(ranks);
    assert!(others.iter().all(|other| other.hear() == Message::End));
}
