//! What a churner does that no server can be made to show for sure.

use std::os::unix::net::UnixStream;

use super::*;
use crate::config::ClockChoice;
use crate::speak::Fixed;

/// A load of two requests a connection, on a Unix socket where nobody listens.
fn config(schedule: Schedule) -> LoadConfig {
    let service = wire::ServiceSpec::Fixed { request_bytes: 8, response_bytes: 8 };
    LoadConfig {
        connections: 4,
        calls_per_connection: Some(2),
        rate_per_s: Some(1_000.0),
        schedule,
        ..LoadConfig::new(wire::Address::Unix("/nobody/listens/here".into()), service)
    }
}

/// Has `check` look at the first churner of such a load, whose window begins at once.
fn churner(config: &LoadConfig, check: impl FnOnce(Churner<'_, Fixed>)) {
    let (clock, speaker, progress) =
        (Clock::calibrate(ClockChoice::Auto).unwrap(), Fixed::new(8, 8), Progress::default());
    let dialer = Dialer::new(config, &[]).unwrap();
    let pacing = (config.schedule != Schedule::Closed).then_some(Pacing::Spin);
    let mut churner = Churner::new((clock, &speaker, config), 0, 0..4, &dialer, pacing, &progress).unwrap();
    let start = clock.now();
    churner.begin(Times { start, window: start..start + clock.ticks(1e12), drained: u64::MAX });
    check(churner);
}

#[test]
fn a_request_whose_write_fails_was_sent() {
    churner(&config(Schedule::Constant), |mut churner| {
        let (io, peer) = UnixStream::pair().unwrap();
        drop(peer);
        let due = churner.clock.now();
        let slot = &mut churner.slots[0];
        (slot.io, slot.state, slot.calls) = (Some(io.into()), State::Thinking, 1);
        churner.ask(0, due, false);
        let (transactions, tally) = churner.ledger.close();
        assert_eq!((tally.sent, tally.errors.reset, tally.errors.total()), (1, 1, 1));
        let kept: Vec<_> = transactions.iter().map(|it| (it.due, it.sent >= due, it.complete)).collect();
        assert_eq!(kept, [(due, true, 0)]);
    });
}

#[test]
fn memory_does_not_grow_with_a_closed_loop_s_window_and_nothing_is_uncounted() {
    let mut config = LoadConfig { clients: 1_024, ..config(Schedule::Closed) };
    // A year.
    config.phases.measure_ns = 365 * 86_400 * 1_000_000_000;
    churner(&config, |mut churner| {
        let room = churner.opened.capacity() as u64;
        assert!((1..=1 << 20).contains(&room), "{room}");
        for _ in 0..room + 3 {
            let now = churner.clock.now();
            churner.slots[1].opened = [now, now, 0];
            churner.first_byte(1, now);
        }
        assert_eq!((churner.opened.len() as u64, churner.opened_count), (room, room + 3));
    });
}

#[test]
fn of_sessions_that_are_due_at_once_each_is_later_than_the_one_before() {
    churner(&config(Schedule::Constant), |mut churner| {
        // So long ago that no 32 bits have it.
        churner.sessions.iter_mut().for_each(|(planned, _)| *planned = 1);
        churner.arrive(churner.clock.now());
        let late: Vec<u64> = churner.sessions[..churner.arrived].iter().map(|&(_, late)| late).collect();
        assert!(late.len() > 100 && late.iter().all(|&late| late > u64::from(u32::MAX)), "{late:?}");
        assert!(late.is_sorted_by(|before, after| before <= after) && late[0] < late[3], "{late:?}");
    });
}

#[test]
fn a_timer_ends_with_its_connection() {
    let think = Think { mean_ns: 1_000_000_000, exponential: false };
    churner(&LoadConfig { think, ..config(Schedule::Closed) }, |mut churner| {
        let (io, _peer) = UnixStream::pair().unwrap();
        let now = churner.clock.now();
        let slot = &mut churner.slots[0];
        (slot.io, slot.state, slot.calls) = (Some(io.into()), State::Thinking, 1);
        churner.wake_at(0, now + 1_000);
        churner.fail(0, Class::Reset);
        let due = churner.slots[0].due;
        assert!(due > now + 1_000, "a pause follows");
        churner.go_on(now + 2_000);
        let slot = &churner.slots[0];
        assert_eq!(
            (slot.state, slot.due, slot.opened),
            (State::Closed, due, [0; 3]),
            "it is the next one's turn later"
        );
    });
}
