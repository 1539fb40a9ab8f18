//! The loops of the two roles: both in one thread, or one thread each.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use crate::config::Pacing;
use crate::driver::{SPIN_NS, Sleeper, StopCondition, Turns};
use crate::io::poller::{EVENTS_MAX, Events};
use crate::loops::open::receive::Receiver;
use crate::loops::open::reconnect::Handover;
use crate::loops::open::send::Sender;
use crate::protocol::ClientProtocol;
use crate::time::clock::Clock;
use crate::time::slices::OwnSlices;

/// The longest sleep of either role before it checks whether it must end.
const SLEEP_MS: u64 = 5;

/// Runs both roles in one loop. A due request waits for at most one response, and a response for at most one request.
pub fn one_loop<P: ClientProtocol>(
    clock: &Clock,
    pacing: Pacing,
    until: &StopCondition<'_>,
    mut slices: OwnSlices,
    sender: &mut Sender<'_, P>,
    receiver: &mut Receiver<'_, P>,
) -> Turns {
    let mut events = Events::with_capacity(EVENTS_MAX);
    let mut turns = slices.watch_pauses(Turns::new(until.window.clone()), clock);
    let mut is_spare = false;
    loop {
        let now = clock.now();
        turns.begin(now, is_spare);
        let late = sender.is_due(now);
        if late {
            sender.send();
        } else {
            sender.retry(now);
            sender.resend(now);
            if sender.is_done() {
                until.progress.set_done();
            }
        }
        if receiver.alive() == 0 || until.may_end(now) {
            return turns;
        }
        let sleep = |ns| receiver.sleep_precise(ns);
        if !late {
            let planned = pause(clock, pacing, &mut slices, sender, now, sleep);
            planned.inspect(|planned| turns.slept(clock.now(), *planned));
        }
        receiver.wait(&mut events, 0);
        is_spare = !late && events.iter().next().is_none();
        for event in events.iter() {
            receiver.handle(event);
            sender.release(event.0);
            if sender.is_due(clock.now()) {
                sender.send();
            }
        }
    }
}

/// Waits while no request is due. Calls `sleep` with nanoseconds outside of the client's slices, and if `sleep-spin` may sleep.
/// Returns the planned time of waking, if it slept.
#[inline]
fn pause<P: ClientProtocol>(
    clock: &Clock,
    pacing: Pacing,
    slices: &mut OwnSlices,
    sender: &Sender<'_, P>,
    now: u64,
    sleep: impl Fn(i64),
) -> Option<u64> {
    // A request that is partly written is finished beyond the end of the slice.
    let end_of_slice = if sender.has_unsent() { None } else { slices.sleep(clock, now, &sleep) };
    if end_of_slice.is_some() {
        return end_of_slice;
    }
    let longest_ns = SLEEP_MS as i64 * 1_000_000;
    let ahead_ns = match pacing {
        Pacing::Yield => {
            thread::yield_now();
            return None;
        }
        Pacing::Spin | Pacing::Auto => return None,
        Pacing::SleepSpin => sender.due().map_or(longest_ns, |due| clock.between_ns(now, due) - SPIN_NS),
    };
    // Wake for the next attempt to write to a full socket, and for the next retry.
    let ahead_ns = sender.wake_at().map_or(ahead_ns, |retry| ahead_ns.min(clock.between_ns(now, retry)));
    let ns = ahead_ns.min(longest_ns);
    (ns > 0).then(|| {
        sleep(ns);
        now + clock.ticks(ns as f64)
    })
}

/// Runs the send role in its own thread (kawai2008 Figure 3). Returns its turns, without a share of work.
pub fn send_loop<P: ClientProtocol>(
    clock: &Clock,
    pacing: Pacing,
    until: &StopCondition<'_>,
    mut slices: OwnSlices,
    sender: &mut Sender<'_, P>,
) -> Turns {
    let mut turns = slices.watch_pauses(Turns::new(until.window.clone()), clock);
    sender.handover().into_iter().for_each(Handover::wake_this_thread);
    let mut pause = |turns: &mut Turns, sender: &Sender<'_, P>, now: u64| {
        let sleep = |ns| thread::park_timeout(Duration::from_nanos(ns as u64));
        match pause(clock, pacing, &mut slices, sender, now, sleep) {
            Some(planned) => turns.slept(clock.now(), planned),
            None => std::hint::spin_loop(),
        }
    };
    while let Some(due) = sender.due() {
        let now = clock.now();
        turns.begin(now, false);
        if until.is_over(now) {
            break;
        }
        if now < due {
            sender.retry(now);
            sender.resend(now);
            pause(&mut turns, sender, now);
            continue;
        }
        sender.send();
        if pacing == Pacing::Yield {
            // Yield after a send as in kawai2008, so that other threads run and requests do not leave in bursts.
            thread::yield_now();
        }
    }
    while !sender.is_done() {
        let now = clock.now();
        if until.is_over(now) {
            break;
        }
        sender.retry(now);
        sender.resend(now);
        pause(&mut turns, sender, now);
    }
    until.progress.set_done();
    // Continue to write partly sent requests, and those of ended connections, while responses are outstanding.
    while (sender.has_unsent() || sender.handover().is_some()) && until.progress.is_outstanding() {
        let now = clock.now();
        if until.is_over(now) {
            break;
        }
        sender.retry(now);
        pause(&mut turns, sender, now);
    }
    turns
}

/// Runs the receive role in its own thread. Returns the share of the window in which it was busy.
pub fn receive_loop<P: ClientProtocol>(
    clock: &Clock,
    until: &StopCondition<'_>,
    mut slices: OwnSlices,
    receiver: &mut Receiver<'_, P>,
) -> Option<f64> {
    let mut sleeper = Sleeper::new(until.window.clone());
    let mut events = Events::with_capacity(EVENTS_MAX);
    let mut has_lost_late = false;
    loop {
        // Do not wake during the slices of other contestants, except for responses and reconnects.
        let planned = slices.sleep(clock, clock.now(), |ns| receiver.sleep_precise(ns));
        receiver.wait(&mut events, if planned.is_some() { 0 } else { SLEEP_MS });
        for event in events.iter() {
            receiver.handle(event);
        }
        if receiver.alive() == 0 {
            // No connection is left for sending.
            until.stop.store(true, Relaxed);
        }
        if !has_lost_late && until.progress.is_done() {
            has_lost_late = true;
            receiver.lose_late();
        }
        let now = clock.now();
        sleeper.tick(now);
        if until.may_end(now) {
            let window_ns = clock.between_ns(until.window.start, until.window.end) as u64;
            return sleeper.busy_share(now, window_ns);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::config::ClockChoice;
    use crate::protocol::Fixed;
    use crate::record::progress::Progress;
    use crate::record::request::{Link, Record, Shared, Tail};
    use crate::socket::Socket;

    #[test]
    fn request_on_a_connection_that_ends_meanwhile_is_lost() {
        let clock = Clock::calibrate(ClockChoice::Monotonic).unwrap();
        let (protocol, progress, stop) = (&Fixed::new(1, 1), &Progress::default(), &AtomicBool::new(false));
        let (records, links) = ([Record::new(0, 0)], [Link::default(), Link::default()]);
        let (records, links) = (&records[..], &links[..]);
        let shared =
            Shared { clock, protocol, first: 0, records, retries: &[], numbers: &[], links, transfers: &[], progress };
        let [(own, peer), (other, _peer)] = [(); 2].map(|()| UnixStream::pair().unwrap());
        let sockets = [own, other].map(|socket| Arc::new(Socket::from(OwnedFd::from(socket)))).to_vec();
        let mut receiver = Receiver::new(shared, sockets, None, None).unwrap();
        drop(peer);
        let mut events = Events::with_capacity(EVENTS_MAX);
        receiver.wait(&mut events, 1_000);
        events.iter().for_each(|event| receiver.handle(event));
        assert!(links[0].is_dead() && !links[1].is_dead());
        // The send role has found the connection working before it ended.
        Tail::default().push(&links[0], records, 0);
        progress.add_sent();
        progress.set_done();
        let now = clock.now();
        let drained = now + clock.ticks(200e6);
        let until = StopCondition { window: &(now..drained), drained, stop, progress };
        receive_loop(&clock, &until, OwnSlices::default(), &mut receiver);
        assert_eq!((progress.lost(), progress.is_outstanding()), (1, false));
    }
}
