//! Behaviour of a client that no real server triggers reliably.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::*;
use crate::config::{ClockChoice, Loop, Pace, Schedule, Think};
use crate::protocol::Fixed;

const OPEN: Loop = Loop::Sessions {
    requests_per_connection: 2,
    pace: Pace { rate_per_s: Some(1_000.0), schedule: Schedule::Constant, rate_profile: None },
};

const fn closed(mean_ns: u64) -> Loop {
    Loop::ClosedSessions { requests_per_connection: 2, think: Think { mean_ns, exponential: false } }
}

/// A load to a Unix socket without a listener.
fn config(the_loop: Loop) -> LoadConfig {
    let service = wire::ServiceSpec::Fixed { request_bytes: 8, response_bytes: 8 };
    LoadConfig::new(wire::Address::Unix("/nobody/listens/here".into()), service).with(|it| {
        it.connections = 4;
        it.the_loop = the_loop;
    })
}

/// Creates a client of the load `config` and passes it to `check`. The window begins immediately.
fn churner(config: &LoadConfig, check: impl FnOnce(Churner<'_, Fixed>)) {
    let (clock, protocol, progress) =
        (Clock::calibrate(ClockChoice::Auto).unwrap(), Fixed::new(8, 8), Progress::default());
    let dialer = Dialer::new(config, &[]).unwrap();
    let pacing = (!config.is_closed()).then_some(Pacing::Spin);
    let mut churner = Churner::new((clock, &protocol, config), 0, 0..4, &dialer, pacing, &progress).unwrap();
    let start = clock.now();
    churner.begin(Times { start, window: start..start + clock.ticks(1e12), drained: u64::MAX, begun_late_ns: 0 });
    check(churner);
}

#[test]
fn request_whose_write_fails_counts_as_sent() {
    churner(&config(OPEN), |mut churner| {
        let (io, peer) = UnixStream::pair().unwrap();
        drop(peer);
        let due = churner.now();
        let slot = &mut churner.slots[0];
        (slot.io, slot.state, slot.requests) = (Some(Socket::from(OwnedFd::from(io))), State::Open, 1);
        churner.send(0, due);
        let Recording { transactions, counts } = churner.engine.recorder.close();
        assert_eq!((counts.sent, counts.errors.reset, counts.errors.total()), (1, 1, 1));
        let kept: Vec<_> = transactions.iter().map(|it| (it.due, it.sent >= due, it.complete)).collect();
        assert_eq!(kept, [(due, true, 0)]);
    });
}

#[test]
fn closed_loop_counts_connections_beyond_its_memory() {
    let mut config = config(closed(0)).with(|it| it.client.clients = 1_024);
    // A year.
    config.phases.measure_ns = 365 * 86_400 * 1_000_000_000;
    churner(&config, |mut churner| {
        let room = churner.opened.capacity() as u64;
        assert!((1..=1 << 20).contains(&room), "{room}");
        for _ in 0..room + 3 {
            let now = churner.now();
            churner.slots[1].opened = [now, now, 0];
            churner.note_first_byte(1, now);
        }
        assert_eq!((churner.opened.len() as u64, churner.opened_count), (room, room + 3));
    });
}

#[test]
fn sessions_due_at_once_delay_each_other() {
    churner(&config(OPEN), |mut churner| {
        // The delay exceeds 32 bits.
        churner.sessions.iter_mut().for_each(|(planned, _)| *planned = 1);
        churner.arrive(churner.now());
        let late: Vec<u64> = churner.sessions[..churner.arrived].iter().map(|&(_, late)| late).collect();
        assert!(late.len() > 100 && late.iter().all(|&late| late > u64::from(u32::MAX)), "{late:?}");
        assert!(late.is_sorted_by(|before, after| before <= after) && late[0] < late[3], "{late:?}");
    });
}

#[test]
fn timer_ends_with_its_connection() {
    churner(&config(closed(1_000_000_000)), |mut churner| {
        let (io, _peer) = UnixStream::pair().unwrap();
        let now = churner.now();
        let slot = &mut churner.slots[0];
        (slot.io, slot.state, slot.requests) = (Some(Socket::from(OwnedFd::from(io))), State::Open, 1);
        churner.wake_at(0, now + 1_000);
        churner.fail(0, Class::Reset);
        let due = churner.slots[0].exchange.due;
        assert!(due > now + 1_000, "a pause follows a failure");
        churner.wake_due(now + 2_000);
        let slot = &churner.slots[0];
        assert_eq!(
            (slot.state, slot.exchange.due, slot.opened),
            (State::Closed, due, [0; 3]),
            "the next connection is due later"
        );
    });
}
