//! Event-driven servers in stages (voras2009). One thread accepts, unless the network threads do. The network stage runs in the
//! accept thread or in network threads, the payload stage in the same threads or in payload threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc;
use std::thread::{self, Scope};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use wire::Wait;

use super::connection::Connect;
use super::controllers::{self, Admission, Pool, ThreadControl};
use super::offload::{self, Calls};
use super::payload::{self, Ended, HandOff, Message};
use super::queue::{Jobs, Mailbox, lock};
use super::stall;
use super::timers::Timers;
use super::{ACCEPTS, OnDrop, ServerContext, StartSignal};
use crate::metrics::workers::{Counters, Syscall};
use crate::platform::{self, pin};
use crate::service::limits;
use crate::socket::steering::{Steering, WorkerState};
use crate::socket::{self, Accepted, Acceptor, PAUSE};
use crate::spec::accept::Accept;
use crate::spec::model::{DESCRIPTORS_PER_NETWORK, NetworkStage, PayloadStage};
use crate::sync::Mutex;
use crate::sync::atomic::Ordering::Relaxed;
use crate::token::Token;

/// The parameters of a network thread. Without a mailbox it gets no messages; without a listener it does not accept.
#[derive(Clone, Copy)]
pub(super) struct NetworkContext<'a> {
    pub(super) service: &'a dyn Connect,
    pub(super) listener: Option<&'a OwnedFd>,
    pub(super) shares_listener: bool,
    /// The state by which the kernel steers connections to this thread.
    pub(super) steering: Option<(&'a Steering, usize)>,
    /// Readable when the server must stop; `None` in threads that get a message instead.
    pub(super) stop: Option<BorrowedFd<'a>>,
    pub(super) mailbox: Option<&'a Mailbox<Message>>,
    /// The queue of the threads that make this thread's blocking calls, and its number there.
    pub(super) calls: Option<(&'a Calls, usize)>,
    pub(super) context: &'a ServerContext<'a>,
    /// All descriptors are below this number, because the kernel hands out the lowest free one.
    pub(super) descriptors_max: usize,
    pub(super) counters: &'static Counters,
    pub(super) started: &'a StartSignal<'a>,
}

impl<'a> NetworkContext<'a> {
    /// Opens the acceptor of a thread with a listener. io_uring's accepts wait only on a blocking listener.
    pub(super) fn acceptor(&self, nonblocking: bool) -> io::Result<Option<Acceptor<'a>>> {
        let Some(listener) = self.listener else { return Ok(None) };
        rustix::io::ioctl_fionbio(listener, nonblocking)?;
        Acceptor::new(listener, nonblocking, self.counters).map(Some)
    }

    pub(super) fn worker_state(&self) -> Option<WorkerState<'a>> {
        self.steering.map(|(steering, number)| steering.worker(number))
    }

    /// Whether the server is full. Always false in a thread without a mailbox: its table enforces the limit.
    pub(super) fn is_full(&self) -> bool {
        self.mailbox.is_some() && self.context.is_full()
    }

    /// Lets a connection wait, by a timer of its loop or in the pool.
    pub(super) fn begin_wait(&self, wait: Wait, token: Token, timers: &mut Timers) {
        match (wait.until, self.calls) {
            (Some(until), _) => timers.add(until, token),
            (None, Some((calls, number))) => calls.send((number, token), self.counters),
            (None, None) => unreachable!("only a model with a pool has such waits"),
        }
    }

    pub(super) fn refuse(&self, io: impl AsFd) {
        self.counters.refused.add(1);
        socket::reset(io);
    }
}

/// The loop of a network thread over one mechanism. A thread calls it once, so the rest of this file is compiled only once.
pub(super) trait NetworkLoop: Sync {
    fn is_nonblocking(&self) -> bool;

    /// Runs with the payload stage in the network thread.
    fn inline(&self, network: NetworkContext<'_>) -> io::Result<()>;

    /// Runs with the payload stage in other threads.
    fn hand_off<'a>(&self, network: NetworkContext<'a>, payload: HandOff<'_, 'a>) -> io::Result<()>;
}

pub(super) fn run(
    network_loop: &dyn NetworkLoop,
    context: &ServerContext<'_>,
    service: &dyn Connect,
) -> io::Result<()> {
    let stages = context.model.stages.expect("a model that multiplexes has stages");
    let threads = context.threads.unwrap_or_default();
    let in_accept = threads.network == 0 || stages.network == NetworkStage::InAccept;
    let networks = if in_accept { 1 } else { threads.network as usize };
    let controllers = &context.options.controllers;
    let payloads = threads.payload.unwrap_or(1);
    let (queues, threads_each) = match stages.payload {
        PayloadStage::InNetwork | PayloadStage::Offloading => (0, 0),
        PayloadStage::Threads if controllers.shares_queues() => (1, payloads),
        PayloadStage::Threads => (payloads as usize, 1),
        PayloadStage::Paired => (networks, 1),
    };
    let hands_over = !in_accept && context.options.accept == Accept::Single;
    let started = StartSignal::new(context, networks + usize::from(hands_over));
    // The accept thread's parameters; those of other threads are derived from them.
    let network = NetworkContext {
        service,
        listener: Some(context.listener),
        shares_listener: false,
        steering: None,
        stop: Some(context.stop),
        mailbox: None,
        calls: None,
        context,
        descriptors_max: context.connections_max + OTHER_DESCRIPTORS + networks * DESCRIPTORS_PER_NETWORK as usize,
        counters: context.workers.accept(),
        started: &started,
    };
    let tick = service.check_interval();
    let offloads = context.model.offloads();
    if in_accept && queues == 0 && !offloads && tick.is_none() {
        // One thread for everything needs no mailbox.
        pin(&context.cpus.accept)?;
        return network_loop.inline(network);
    }
    let mailboxes = (0..networks).map(|_| Mailbox::new()).collect::<io::Result<Vec<_>>>()?;
    let own = if context.options.accept.has_own_listeners() { networks } else { 0 };
    let shares_listener = context.options.accept == Accept::Exclusive;
    let listeners = (0..own).map(|_| context.listen_reuseport()).collect::<io::Result<Vec<_>>>()?;
    let steering = Steering::start(context.options.accept, &listeners, context.program_time)?;
    let steering = steering.as_ref();
    let cpus_of = |number: usize| cpus_of_network(context, number);
    let cpus: Vec<Vec<usize>> = (0..networks).map(cpus_of).collect();
    let calls = if offloads { Some(Calls::new()) } else { None };
    let calls = calls.as_ref();
    let queues: Vec<Jobs<_>> = (0..queues).map(|_| Jobs::new()).collect();
    let pools: Vec<Pool> = controllers
        .pool
        .iter()
        .flat_map(|&control| queues.iter().map(move |_| Pool::new(control, threads_each)))
        .collect();
    let gauges = context.workers.gauges();
    gauges.batch_jobs.store(controllers::first_batch_jobs(controllers), Relaxed);
    let admission = controllers.admission.map(|control| Admission::new(control, gauges));
    let admission = admission.as_ref();
    let control = |queue: usize| ThreadControl {
        pool: pools.get(queue),
        gauges: controllers.shares_queues().then_some(gauges),
        admission,
    };
    let closings = if stages.coalesces && hands_over { Some(Mailbox::new()?) } else { None };
    let closings = closings.as_ref();
    let group = ThreadGroup::new(context);
    thread::scope(|scope| {
        let _stop = OnDrop(|| {
            mailboxes.iter().for_each(|mailbox| mailbox.send(Message::Stop, context.workers.accept()));
            queues.iter().for_each(Jobs::close);
            calls.iter().for_each(|calls| calls.close());
        });
        // The end of this scope drops the sender, which stops the ticks.
        let (_running, running) = mpsc::channel();
        if let Some(tick) = tick {
            let notify =
                || mailboxes.iter().for_each(|mailbox| mailbox.send(Message::CheckLimits, &Counters::default()));
            let count = move || limits::count_ticks(tick, context.workers.ticks(), &running, notify);
            thread::Builder::new().name("limits".into()).spawn_scoped(scope, count)?;
        }
        let (_stalling, stalling) = mpsc::channel();
        if let (Some(stall), Some(mailbox)) = (context.options.stall, mailboxes.first()) {
            let request = move || stall::request_stalls(stall, mailbox, &stalling);
            thread::Builder::new().name("stalls".into()).spawn_scoped(scope, request)?;
        }
        let mut cursor = 0;
        let (group, queues, pools, control) = (&group, &queues, &pools, &control);
        let start_payload = move |cursor: &mut usize, at: usize| {
            let (queue, control) = (&queues[at], control(at));
            group.start(scope, cursor, format!("payload-{at}"), &context.cpus.payload, move |counters| {
                Ok(payload::work(queue, control, counters))
            })
        };
        for at in 0..queues.len() {
            (0..threads_each).try_for_each(|_| start_payload(&mut cursor, at))?;
        }
        for (calls, _) in calls.into_iter().flat_map(|calls| (0..payloads).map(move |number| (calls, number))) {
            let mailboxes = &mailboxes;
            group.start(scope, &mut cursor, "blocking".into(), &context.cpus.payload, move |counters| {
                offload::work(calls, mailboxes, service, counters);
                Ok(Ended::Stopped)
            })?;
        }
        for (number, mailbox) in mailboxes.iter().enumerate().filter(|_| !in_accept) {
            let listener = listeners.get(number).or(shares_listener.then_some(context.listener));
            let mailbox = Some(mailbox);
            let queues = match stages.payload {
                PayloadStage::InNetwork | PayloadStage::Offloading => &[],
                PayloadStage::Threads => &queues[..],
                PayloadStage::Paired => &queues[number..=number],
            };
            let steering = steering.map(|steering| (steering, number));
            group.start(scope, &mut cursor, format!("network-{number}"), &cpus[number], move |counters| {
                let own = NetworkContext {
                    listener,
                    shares_listener,
                    steering,
                    stop: None,
                    mailbox,
                    calls: calls.map(|calls| (calls, number)),
                    counters,
                    ..network
                };
                run_network(network_loop, own, queues, closings, admission).map(|()| Ended::Stopped)
            })?;
        }
        // The end of this scope drops the sender, which stops the controllers.
        let (_controlled, controlled) = mpsc::channel();
        if controllers.shares_queues() {
            let run = move || {
                let (length, requests) = (|at: usize| queues[at].len(), || context.workers.requests());
                controllers::run(controllers, pools, gauges, &controlled, length, requests, |at| {
                    start_payload(&mut cursor, at)
                });
            };
            thread::Builder::new().name("controllers".into()).spawn_scoped(scope, run)?;
        }
        // Pin this thread last: new threads would inherit its CPUs.
        pin(&context.cpus.accept)?;
        if in_accept {
            return run_network(
                network_loop,
                NetworkContext { mailbox: mailboxes.first(), calls: calls.map(|calls| (calls, 0)), ..network },
                queues,
                None,
                admission,
            );
        }
        match closings {
            Some(closings) => hand_over_and_close(context, &mailboxes, closings, &started),
            None if hands_over => hand_over(context, &mailboxes, network_loop.is_nonblocking(), &started),
            None => context.wait_for_stop(),
        }
    })?;
    group.failure()
}

/// The CPUs of a network thread: those of its stage or, if connections are chosen by CPU, its own.
fn cpus_of_network(context: &ServerContext<'_>, number: usize) -> Vec<usize> {
    let is_own = context.options.accept.chooses_by_cpu() && platform::cpus().contains(&number);
    if context.cpus.network.is_empty() && is_own { vec![number] } else { context.cpus.network.clone() }
}

/// Descriptors besides those of connections and network threads, such as the listener and inherited ones.
const OTHER_DESCRIPTORS: usize = 1024;

fn run_network<'a>(
    network_loop: &dyn NetworkLoop,
    network: NetworkContext<'a>,
    queues: &[Jobs<payload::Job<'a>>],
    closings: Option<&Mailbox<payload::Job<'a>>>,
    admission: Option<&Admission<'_>>,
) -> io::Result<()> {
    match network.mailbox {
        Some(home) if !queues.is_empty() => {
            let hand_off = HandOff::new(queues, home, network.context.options.read_budget_bytes).admitted_by(admission);
            let coalesces = network.context.model.stages.is_some_and(|stages| stages.coalesces);
            network_loop.hand_off(network, if coalesces { hand_off.coalesced(closings) } else { hand_off })
        }
        _ => network_loop.inline(network),
    }
}

/// The threads of a server, with the first failure among them.
pub(super) struct ThreadGroup<'a, 'context> {
    context: &'a ServerContext<'context>,
    failure: Mutex<Option<io::Error>>,
}

impl<'a, 'context> ThreadGroup<'a, 'context> {
    pub(super) fn new(context: &'a ServerContext<'context>) -> Self {
        Self { context, failure: Mutex::new(None) }
    }

    /// Returns the first failure after the end of all threads.
    pub(super) fn failure(&self) -> io::Result<()> {
        lock(&self.failure).take().map_or(Ok(()), Err)
    }

    /// Starts a thread on the CPUs of its stage. The server ends with the thread, unless the thread was idle.
    pub(super) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        cursor: &mut usize,
        name: String,
        cpus: &'scope [usize],
        work: impl FnOnce(&'static Counters) -> io::Result<Ended> + Send + 'scope,
    ) -> io::Result<()> {
        let slot = self.context.workers.claim(cursor).ok_or_else(|| io::Error::other("more threads than counters"))?;
        // Count in the new thread's slot, which has no other writer yet: the controllers' thread starts threads too.
        slot.counters.syscall(Syscall::Spawn);
        let thread = thread::Builder::new().name(name).spawn_scoped(scope, move || {
            // Do this even after a panic: otherwise the server would continue without this thread.
            let end = OnDrop(|| {
                self.context.end_early();
                slot.release();
            });
            match pin(cpus).and_then(|()| work(&slot.counters)) {
                Ok(Ended::Idle) => {
                    std::mem::forget(end);
                    slot.release();
                }
                Ok(Ended::Stopped) => {}
                Err(error) => _ = lock(&self.failure).get_or_insert(error),
            }
        });
        thread.map(drop).inspect_err(|_| slot.release())
    }
}

/// Runs the accept stage in the calling thread, and distributes connections to the network threads in turn.
fn hand_over(
    context: &ServerContext<'_>,
    mailboxes: &[Mailbox<Message>],
    nonblocking: bool,
    started: &StartSignal<'_>,
) -> io::Result<()> {
    let acceptor = Acceptor::for_hand_over(context.listener, nonblocking, context.workers.accept())?;
    started.thread_ready();
    context.accept_each(acceptor, distributor(context, mailboxes))
}

/// Returns a function that gives connections to the network threads in turn, and returns a connection beyond the limit.
fn distributor(
    context: &ServerContext<'_>,
    mailboxes: &[Mailbox<Message>],
) -> impl FnMut(OwnedFd) -> Result<(), OwnedFd> {
    let counters = context.workers.accept();
    let mut turns = mailboxes.iter().cycle();
    move |connection| {
        if context.is_full() {
            return Err(connection);
        }
        counters.accepted.add(1);
        let mailbox = turns.next().expect("a model with network threads has one");
        mailbox.send(Message::Connection(connection), counters);
        Ok(())
    }
}

/// Like [`hand_over`], and closes the connections that the network threads have finished with.
fn hand_over_and_close<T>(
    context: &ServerContext<'_>,
    mailboxes: &[Mailbox<Message>],
    closings: &Mailbox<T>,
    started: &StartSignal<'_>,
) -> io::Result<()> {
    let counters = context.workers.accept();
    // This thread waits for two descriptors, so neither may block it.
    rustix::io::ioctl_fionbio(context.listener, true)?;
    let mut acceptor = Acceptor::new(context.listener, true, counters)?;
    let mut distribute = distributor(context, mailboxes);
    let mut closed = Vec::new();
    let descriptors = [context.listener.as_fd(), closings.descriptor(), context.stop];
    let mut ready = descriptors.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
    started.thread_ready();
    loop {
        counters.syscall(Syscall::Wait);
        match rustix::event::poll(&mut ready, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let [accepts, closes, stops] = ready.each_ref().map(|it| !it.revents().is_empty());
        if stops {
            return Ok(());
        }
        if closes {
            closings.take(&mut closed, counters);
            closed.clear();
        }
        if accepts && accept_some(&mut acceptor, &mut distribute)? {
            return Ok(());
        }
    }
}

/// Accepts up to [`ACCEPTS`] connections; returns whether the listener is shut down.
fn accept_some(
    acceptor: &mut Acceptor<'_>,
    distribute: &mut impl FnMut(OwnedFd) -> Result<(), OwnedFd>,
) -> io::Result<bool> {
    for _ in 0..ACCEPTS {
        match acceptor.accept()? {
            Accepted::Connection(connection) => {
                let _ = distribute(connection).map_err(|connection| acceptor.refuse(connection));
            }
            Accepted::None => {}
            Accepted::WouldBlock => break,
            Accepted::Later => {
                thread::sleep(PAUSE);
                break;
            }
            Accepted::Shutdown => return Ok(true),
        }
    }
    Ok(false)
}
