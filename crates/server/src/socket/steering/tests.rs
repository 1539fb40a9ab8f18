//! Steering of real connections by the kernel, over loopback.

use std::net::TcpStream;
use std::os::fd::AsFd;

use super::*;
use crate::skipped::skipped;
use crate::socket::{self, is_readable};

/// Listeners at one address, and the programs' state, if this process may load programs.
struct Group {
    address: std::net::SocketAddr,
    listeners: Vec<OwnedFd>,
    steering: Option<Steering>,
    time: OnceLock<ProgramTime>,
    _holder: OwnedFd,
}

impl Group {
    fn start(accept: Accept, workers: usize) -> Option<Self> {
        if let Err(reason) = can_load(accept, workers) {
            skipped(&reason);
            return None;
        }
        let holder = socket::reserve_address(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let listeners: Vec<OwnedFd> = (0..workers).map(|_| socket::listen_reuseport(&holder.socket).unwrap()).collect();
        let time = OnceLock::new();
        let steering = Steering::start(accept, &listeners, &time).unwrap();
        Some(Self { address: holder.address.ip().unwrap(), listeners, steering, time, _holder: holder.socket })
    }

    fn rows(&self) -> &[Row] {
        self.steering.as_ref().unwrap().table.rows()
    }

    /// Connects, and returns the number of the worker that got the connection, with both ends.
    fn connect(&self) -> (usize, TcpStream, OwnedFd) {
        let client = TcpStream::connect(self.address).unwrap();
        let has_one = |listener: &&OwnedFd| is_readable(listener.as_fd(), Some(Duration::ZERO)).unwrap();
        let number =
            self.listeners.iter().position(|listener| has_one(&listener)).expect("a listener has a connection");
        (number, client, rustix::net::accept(&self.listeners[number]).unwrap())
    }

    /// Makes this number of connections, and returns how many each worker got.
    fn connect_many(&self, count: usize) -> Vec<u64> {
        let mut counts = vec![0; self.listeners.len()];
        (0..count).for_each(|_| counts[self.connect().0] += 1);
        counts
    }
}

#[test]
fn least_steers_to_the_worker_with_fewest_connections() {
    for workers in [2, 3, 7] {
        let Some(group) = Group::start(Accept::ReuseportLeast, workers) else { return };
        assert_eq!(group.connect_many(10 * workers), vec![10; workers], "equal without ends");
        // Six connections of worker 1 end.
        group.rows()[1].settled.store(6, Relaxed);
        let mut expected = vec![0; workers];
        expected[1] = 6;
        assert_eq!(group.connect_many(6), expected);
        // More ended than were steered: they count as none, not as the most.
        group.rows()[0].settled.store(100, Relaxed);
        assert_eq!(group.connect().0, 0);
    }
}

#[test]
fn least_chooses_among_equals_by_the_hash() {
    let Some(group) = Group::start(Accept::ReuseportLeast, 4) else { return };
    let mut first = [0; 4];
    for _ in 0..200 {
        first[group.connect().0] += 1;
        group.rows().iter().for_each(|row| row.settled.store(row.steered.load(Relaxed), Relaxed));
    }
    assert!(first.iter().all(|count| *count > 10), "each of four idle workers gets some of 200: {first:?}");
}

#[test]
fn largest_group_of_workers_is_accepted_by_the_kernel() {
    if let Err(reason) = can_load(Accept::ReuseportLeast, 1) {
        return skipped(&reason);
    }
    can_load(Accept::ReuseportLeast, state::WORKERS_MAX).unwrap();
    can_load(Accept::Hermes, 64).unwrap();
}

#[test]
fn hermes_steers_to_eligible_workers_only() {
    let Some(group) = Group::start(Accept::Hermes, 64) else { return };
    let eligible = group.steering.as_ref().unwrap().table.eligible();
    for bits in [1, 1 << 63, 1 << 5 | 1 << 6 | 1 << 40, u64::MAX >> 32, u64::MAX] {
        eligible.store(bits, Relaxed);
        let counts = group.connect_many(300);
        for (number, count) in counts.iter().enumerate() {
            assert!(*count == 0 || bits >> number & 1 == 1, "worker {number} of {bits:b}: {counts:?}");
        }
        let expected = 300 / u64::from(bits.count_ones());
        let highest = counts.iter().max().unwrap();
        assert!(*highest <= 3 * expected + 15, "the hash spreads the connections: {counts:?}");
    }
    // Without an eligible worker the kernel's hash chooses among all.
    eligible.store(0, Relaxed);
    assert!(group.connect_many(300).iter().filter(|count| **count > 0).count() > 32);
}

#[test]
fn hung_worker_gets_no_connection_from_hermes() {
    let Some(group) = Group::start(Accept::Hermes, 3) else { return };
    let steering = group.steering.as_ref().unwrap();
    let (counters, mut state) = (Counters::default(), steering.worker(0));
    let before_ns = monotonic_ns();
    state.begin_turn(7);
    assert!(group.rows()[0].entered_ns.load(Relaxed) >= before_ns);
    assert_eq!(group.rows()[0].pending.load(Relaxed), 7);
    state.end_turn(&counters);
    assert_eq!(steering.table.eligible().load(Relaxed), 0b111);
    // Worker 2 has begun a turn long ago.
    group.rows()[2].entered_ns.store(1, Relaxed);
    state.end_turn(&counters);
    let counts = group.connect_many(60);
    assert!(counts[0] > 0 && counts[1] > 0 && counts[2] == 0, "{counts:?}");
}

#[test]
fn time_of_steering_grows_with_connections_and_turns() {
    for accept in [Accept::ReuseportLeast, Accept::Hermes] {
        let Some(group) = Group::start(accept, 2) else { return };
        let Some(time) = group.time.get() else { return skipped("statistics of BPF programs (CAP_SYS_ADMIN)") };
        group.connect_many(5);
        let early_ns = time.read_ns().unwrap();
        group.connect_many(50);
        let (late_ns, counters) = (time.read_ns().unwrap(), Counters::default());
        assert!(0 < early_ns && early_ns < late_ns, "{accept}: {early_ns} ns, then {late_ns} ns");
        let mut state = group.steering.as_ref().unwrap().worker(0);
        (0..1_000).for_each(|_| state.end_turn(&counters));
        let spent_ns = counters.steering_ns.get();
        assert_eq!(spent_ns > 0, accept == Accept::Hermes, "{accept}: {spent_ns} ns");
        assert!(spent_ns <= 1_000 * TURN_END_NS_MAX, "{accept}: {spent_ns} ns");
    }
}

#[test]
fn worker_reports_ended_connections_to_least() {
    let Some(group) = Group::start(Accept::ReuseportLeast, 2) else { return };
    let (counters, mut state) = (Counters::default(), group.steering.as_ref().unwrap().worker(1));
    group.connect_many(4);
    counters.accepted.add(2);
    counters.ended.add(2);
    state.end_turn(&counters);
    assert_eq!(group.connect_many(2), [0, 2]);
}

#[test]
fn program_by_cpu_steers_to_the_client_s_cpu() {
    let allowed = crate::platform::cpus();
    let Some(&last) = allowed.last() else { return skipped("known CPUs") };
    for accept in [Accept::ReuseportCpu, Accept::IncomingCpu] {
        let workers = last + 1;
        let holder = socket::reserve_address(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let listeners: Vec<OwnedFd> = (0..workers).map(|_| socket::listen_reuseport(&holder.socket).unwrap()).collect();
        let time = OnceLock::new();
        assert!(Steering::start(accept, &listeners, &time).unwrap().is_none() && time.get().is_none());
        let address = holder.address.ip().unwrap();
        let group = Group { address, listeners, steering: None, time, _holder: holder.socket };
        for &cpu in &allowed {
            // Over loopback, the CPU that sends a packet also receives it.
            let counts = std::thread::scope(|scope| {
                let connect = || {
                    crate::platform::pin(&[cpu]).unwrap();
                    group.connect_many(20)
                };
                scope.spawn(connect).join().unwrap()
            });
            assert_eq!(counts[cpu], 20, "{accept}, CPU {cpu}: {counts:?}");
        }
    }
}
