//! The datagram client against servers that lose, duplicate, delay, corrupt and refuse datagrams.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use muxbench_load::config::{LoadConfig, Pacing, Phases, RateProfile, Segment};
use muxbench_load::{LoadResult, Outcome, Sample};
use wire::udp::{ID_BYTES, Udp};
use wire::{Ports, ServiceSpec};

const REQUEST: u32 = 24;
const RESPONSE: u32 = 60;
const PORTS: u32 = 4;

/// The responses to one request.
type Replies = Vec<Vec<u8>>;

/// A server with one thread per port. `answer` returns the responses to one request. Its arguments are the number of earlier
/// requests to the port, and the correct response. The number is `None` for a greeting, which the client may repeat.
struct Server {
    targets: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    fn start(answer: impl Fn(Option<u64>, Vec<u8>) -> Replies + Clone + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let sockets: Vec<UdpSocket> = (0..PORTS).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let targets = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
        let serve = |socket: UdpSocket| {
            let (stop, answer) = (stop.clone(), answer.clone());
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            thread::spawn(move || {
                let udp = Udp::new(REQUEST, RESPONSE);
                let mut inbox = [0; 100];
                let (mut greeting, mut count) = (None, 0);
                while !stop.load(Relaxed) {
                    let Ok((bytes, from)) = socket.recv_from(&mut inbox) else { continue };
                    let id = udp.request_id(&inbox[..bytes], bytes).expect("requests are whole");
                    let mut response = udp.response();
                    response[..ID_BYTES].copy_from_slice(&id);
                    let is_greeting = *greeting.get_or_insert(id) == id;
                    for reply in answer((!is_greeting).then_some(count), response) {
                        socket.send_to(&reply, from).unwrap();
                    }
                    count += u64::from(!is_greeting);
                }
            })
        };
        let threads = sockets.into_iter().map(serve).collect();
        Self { targets, stop, threads }
    }

    fn config(&self) -> LoadConfig {
        let ports: Vec<u16> = self.targets.iter().map(SocketAddr::port).collect();
        config(Ports::list(&ports))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// 200 requests in half a second.
fn config(ports: Ports) -> LoadConfig {
    let service = ServiceSpec::Udp { ports: ports.count(), request_bytes: REQUEST, response_bytes: RESPONSE };
    LoadConfig::new(([127, 0, 0, 1], 0), service).with(|it| {
        it.connections = ports.count();
        it.ports = Some(ports);
        it.set_rate(Some(400.0));

        // The client uses the whole cool-down only if a datagram is lost.

        it.phases = Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: 500_000_000, cool_down_ns: 2_000_000_000 };
        it.client.timeout_ns = 10_000_000_000;
    })
}

fn run(config: &LoadConfig) -> (LoadResult, Vec<Sample>) {
    let Outcome { report, samples, .. } = muxbench_load::run(config, &mut |_| ()).unwrap();
    (report, samples)
}

fn honest(_: Option<u64>, response: Vec<u8>) -> Replies {
    vec![response]
}

#[test]
fn all_requests_are_answered() {
    for (clients, pacing) in [(1, Pacing::SleepSpin), (2, Pacing::Yield), (4, Pacing::SleepSpin)] {
        let server = Server::start(honest);
        let (report, samples) =
            run(&server.config().with(|it| (it.client.clients, it.client.pacing) = (clients, pacing)));
        assert_eq!((report.planned, report.sent, report.completed), (200, 200, 200));
        assert_eq!(report.errors.total(), 0, "{:?}", report.errors);
        let datagrams = report.datagrams.unwrap();
        assert_eq!((datagrams.ports, datagrams.lost, datagrams.duplicates, datagrams.reordered), (PORTS, 0, 0, 0));
        assert_eq!(report.outstanding.after_cool_down, 0);
        assert_eq!(report.response.distribution.count, 200);
        let by_part: u64 = report.completed_by_part.iter().sum();
        assert_eq!(
            (by_part as f64 / 0.5, by_part > 0),
            (report.rate_achieved_per_s, true),
            "the rate counts responses in the window"
        );
        assert!(samples.iter().all(|it| it.planned_ns <= it.sent_ns && it.sent_ns < it.complete_ns));
        // With this seed, each port gets requests.
        assert!((0..PORTS).all(|port| samples.iter().any(|it| it.connection == port)));
    }
}

#[test]
fn window_of_datagrams_lasts_as_long_as_its_profile() {
    let server = Server::start(honest);
    let segments = vec![Segment::hold(1_000.0, 100_000_000), Segment::hold(0.0, 400_000_000)];
    let started = Instant::now();
    let (report, _) =
        run(&server.config().with(|it| it.pace_mut().unwrap().rate_profile = Some(RateProfile { segments })));
    assert!(started.elapsed() >= Duration::from_millis(500), "{:?}", started.elapsed());
    assert!(report.completed > 0 && report.completed == report.planned, "{report:?}");
}

#[test]
fn unanswered_request_is_lost() {
    let is_lost = |count: u64| count.is_multiple_of(5);
    let server = Server::start(move |count, response| if count.is_some_and(is_lost) { vec![] } else { vec![response] });
    let (report, samples) = run(&server.config());
    let datagrams = report.datagrams.unwrap();
    let never = samples.iter().filter(|it| it.complete_ns == Sample::NEVER).count() as u64;
    assert_eq!((datagrams.lost, report.completed), (never, 200 - never));
    // A fifth of the requests, rounded up per port.
    assert!((40..=44).contains(&never), "{never}");
    assert_eq!(report.outstanding.after_cool_down, never);
    assert_eq!(report.errors.total(), 0, "a lost request is no error: {:?}", report.errors);
}

#[test]
fn late_response_is_lost() {
    let server = Server::start(|count, response| {
        if count.is_some() {
            thread::sleep(Duration::from_millis(1_600));
        }
        vec![response]
    });
    let phases = Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: 100_000_000, cool_down_ns: 10_000_000_000 };
    let slow = server
        .config()
        .with(|it| (it.phases, it.client.timeout_ns) = (phases, 1_500_000_000))
        .with(|it| it.set_rate(Some(40.0)));
    let (report, _) = run(&slow);
    assert_eq!((report.completed, report.datagrams.unwrap().lost), (0, 4));
    let (report, _) = run(&slow.with(|it| it.client.timeout_ns = 10_000_000_000));
    assert_eq!((report.completed, report.datagrams.unwrap().lost), (4, 0));
}

#[test]
fn repeated_response_is_a_duplicate() {
    let server = Server::start(|count, response| match count {
        None => vec![response],
        Some(count) => vec![response; 2 + (count % 2) as usize],
    });
    let (report, _) = run(&server.config());
    let datagrams = report.datagrams.unwrap();
    assert_eq!((report.completed, datagrams.lost), (200, 0));
    // One duplicate for every other request, two for the rest.
    assert!((298..=302).contains(&datagrams.duplicates), "{datagrams:?}");
    assert_eq!((datagrams.reordered, report.errors.total()), (0, 0));
}

#[test]
fn overtaken_response_is_reordered() {
    let held = std::sync::Mutex::new(std::collections::HashMap::<thread::ThreadId, Vec<u8>>::new());
    let held = Arc::new(held);
    // Every second response overtakes the one before it.
    let server = Server::start(move |count, response| {
        let mut held = held.lock().unwrap();
        if count.is_none() {
            return vec![response];
        }
        match held.remove(&thread::current().id()) {
            Some(before) => vec![response, before],
            None => {
                held.insert(thread::current().id(), response);
                vec![]
            }
        }
    });
    let (report, _) = run(&server.config());
    let datagrams = report.datagrams.unwrap();
    // The last response of a port may stay delayed forever.
    assert!(datagrams.lost <= u64::from(PORTS), "{datagrams:?}");
    assert_eq!(report.completed, 200 - datagrams.lost);
    assert_eq!(datagrams.reordered, report.completed / 2, "{datagrams:?}");
    assert_eq!((datagrams.duplicates, report.errors.total()), (0, 0));
}

#[test]
fn unexpected_datagram_is_wrong() {
    let server = Server::start(|count, response| {
        let mut strange = response.clone();
        strange[5] ^= 0xff;
        match count {
            None => vec![response],
            Some(_) => vec![strange, response[..59].to_vec(), vec![], [response.as_slice(), &[0]].concat(), response],
        }
    });
    let (report, _) = run(&server.config());
    assert_eq!((report.completed, report.errors.wrong, report.errors.total()), (200, 800, 800));
    assert_eq!(report.datagrams.unwrap().lost, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn closed_port_is_unreachable() {
    // Each port answers its greeting. Two ports close at their first request.
    let sockets: Vec<UdpSocket> = (0..PORTS).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<u16> = sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
    // The handle of an ended thread holds its socket.
    let _held: Vec<_> = sockets
        .into_iter()
        .enumerate()
        .map(|(port, socket)| {
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            thread::spawn(move || {
                let (udp, mut inbox, mut greeting) = (Udp::new(REQUEST, RESPONSE), [0; 100], None);
                while let Ok((bytes, from)) = socket.recv_from(&mut inbox) {
                    let id = udp.request_id(&inbox[..bytes], bytes).unwrap();
                    if port % 2 == 1 && *greeting.get_or_insert(id) != id {
                        // A bound socket reserves the port. Connected to itself, it refuses other peers.
                        socket.connect(socket.local_addr().unwrap()).unwrap();
                        break;
                    }
                    let mut response = udp.response();
                    response[..ID_BYTES].copy_from_slice(&id);
                    socket.send_to(&response, from).unwrap();
                }
                socket
            })
        })
        .collect();
    let config = config(Ports::list(&ports));
    // Time for the ports to close before the window.
    let phases = Phases { warm_up_ns: 2_000_000_000, ..config.phases };
    let (report, samples) = run(&config.with(|it| it.phases = phases));
    let to_closed = samples.iter().filter(|it| it.connection % 2 == 1).count() as u64;
    assert!(to_closed > 50, "{to_closed}");
    assert_eq!(report.completed, 200 - to_closed);
    // Requests of the warm-up are errors too, except those before the port closed.
    assert!(report.errors.unreachable >= to_closed, "{:?}", report.errors);
    assert_eq!(report.errors.total(), report.errors.unreachable, "{:?}", report.errors);
    assert_eq!(report.datagrams.unwrap().lost, 0, "a request reported by ICMP does not also count as lost");
}

#[test]
fn silent_or_closed_port_is_named_before_the_start() {
    let silent = Server::start(|_, _| vec![]);
    let error =
        muxbench_load::run(&silent.config().with(|it| it.client.timeout_ns = 300_000_000), &mut |_| ()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("timeout") && error.contains(&silent.targets[0].to_string()), "{error}");
    if cfg!(target_os = "linux") {
        // With several ports, a send to one port may return the ICMP error of another.
        for count in [1, 2, 3] {
            let gone: Vec<_> = (0..count).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
            let ports: Vec<u16> = gone.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
            // A bound socket reserves the port. Connected to itself, it refuses other peers.
            gone.iter().for_each(|socket| socket.connect(socket.local_addr().unwrap()).unwrap());
            let error = muxbench_load::run(&config(Ports::list(&ports)), &mut |_| ()).unwrap_err().to_string();
            let named = ports.iter().any(|port| error.contains(&format!("127.0.0.1:{port}")));
            assert!(error.contains("unreachable") && named, "{error}");
        }
    }
}
