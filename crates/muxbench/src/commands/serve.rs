//! `muxbench serve`: one server, until it is told to stop.

use std::io::BufRead;
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;
use std::{io, thread};

use anyhow::{Context, bail};
#[cfg(target_os = "linux")]
use server::ExternalServer;
use server::control::Event;
use server::{Accept, Architecture, Limits, ServeConfig, Server, ServerCounters, ServerSpec};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wire::udp::DATAGRAM_BYTES_MAX;
use wire::{Address, Ports, ServiceSpec};

use harness::description::{self, Description};
use harness::spec::Service;
use harness::spec::stream::Stream;
use harness::spec::units::{Budget, Cpus, Limit, Size, Work};

use crate::options::named;
use crate::options::stages::StageArgs;
use crate::options::traffic::StreamArgs;
use crate::output;

/// Run one server until SIGTERM or Ctrl-C, then print its counters
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench serve --arch epoll --request 128B --response 10KiB --listen 127.0.0.1:7007
  muxbench serve --arch mt-pool:64 --accept exclusive
  muxbench serve --arch epoll --listen unix:/tmp/muxbench.sock
  muxbench serve --arch symped:2/epoll --service kv --listen 127.0.0.1:11211
  muxbench serve --arch epoll --service http --folder ./public --listen 127.0.0.1:8080
  muxbench serve --arch epoll --service udp --ports 1000 --listen 127.0.0.1:20000
  muxbench serve --arch epoll --service stream --listen 127.0.0.1:7007
  muxbench serve --arch mt --json        # a free port; address and counters as JSON lines")]
pub struct Args {
    /// How the server is built: `MODEL[:THREADS][/MECHANISM]`; `muxbench list` names them all
    #[arg(long, default_value = server::spec::mechanism::DEFAULT, value_name = "ARCH")]
    arch: Architecture,
    /// How a pool accepts: single, shared, reuseport, exclusive [default: shared]
    #[arg(long, value_name = "ACCEPT", value_parser = named::<Accept>)]
    accept: Option<Accept>,
    /// Most bytes that one read takes from a connection before others have their turn, 1B to 1MiB [default: 64KiB]
    #[arg(long, value_name = "SIZE")]
    read_budget: Option<Budget>,
    /// What it does with bytes: fixed, kv, http, udp or stream
    #[arg(long, default_value = "fixed", value_name = "SERVICE", value_parser = named::<Service>)]
    service: Service,
    /// Ports of `udp`, from that of the address on; where that is 0, any that are free, and in a row if there are such
    #[arg(long, default_value = "10", value_name = "N")]
    ports: NonZeroU32,
    /// Size of a request, of `fixed` and `udp`
    #[arg(long, default_value = "128B", value_name = "SIZE")]
    request: Size,
    /// Size of a response, of `fixed` and `udp` [default: 10KiB, of udp 128B]
    #[arg(long, value_name = "SIZE")]
    response: Option<Size>,
    /// Memory for the items of `kv`; beyond it items are evicted
    #[arg(long, default_value = "64MiB", value_name = "SIZE")]
    memory: Size,
    /// Most that an item of `kv` may take, at most a quarter of the memory
    #[arg(long, default_value = "1MiB", value_name = "SIZE")]
    item_max: Size,
    /// Files that `http` serves, all of which are read into memory first, 1 GiB at most [default: /bytes/N has N bytes]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// How long a client of `http` may take for a request, and stop in taking a response, before it is cut off; or off
    #[arg(long, default_value = "60s", value_name = "TIME")]
    request_timeout: Limit,
    /// How long a client of `http` may be silent after a response; or off
    #[arg(long, default_value = "75s", value_name = "TIME")]
    keepalive_timeout: Limit,
    /// Work that each request is besides: cpu=50us or sleep=1ms, and with random times cpu=50us,exponential
    #[arg(long, value_name = "WORK", alias = "work")]
    simulated_work: Option<Work>,
    #[command(flatten)]
    stream: StreamArgs,
    #[command(flatten)]
    stages: StageArgs,
    /// Address to listen on, `127.0.0.1:7007`, `[::1]:7007` or `unix:/tmp/muxbench.sock`; port 0 takes a free one, and with it the
    /// next, where it says what it serves
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: Address,
    /// CPUs to run on, as in 0-1,3
    #[arg(long, value_name = "CPUS")]
    cpus: Option<Cpus>,
    /// Connections to have room for, and the size of a pool that names none; the next one is refused, or waits for the
    /// pool [default: 20000; for such a pool 256]
    #[arg(long, value_name = "N")]
    connections_max: Option<u32>,
    /// Have the kernel count its system calls too, of a runtime as well; each call becomes dearer
    #[arg(long)]
    count_syscalls: bool,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
    /// Take the configuration, `mark`s and `moved`s as lines on standard input, and stop when it ends
    #[arg(long, hide = true)]
    control: bool,
}

/// How often a server is started at two free ports in a row, before it takes any.
const TRIES: u32 = 32;

/// What the main thread waits for.
enum Message {
    Line(String),
    EndOfInput,
    Stop,
    /// Somebody else's server has ended.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "commands are Linux's"))]
    Ended,
}

/// Serves until stopped.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (sender, messages) = mpsc::channel();
    listen_to_signals(sender.clone())?;
    if !args.control {
        listen_to_parent(sender)?;
        return by_hand(args, &messages);
    }
    end_with_runner()?;
    listen_to_input(sender.clone())?;
    match controlled(&sender, &messages) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            say(&Event::Failed { reason: format!("{error:#}") });
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Started by hand: says where it listens, and at the end what it did.
fn by_hand(args: &Args, messages: &mpsc::Receiver<Message>) -> anyhow::Result<ExitCode> {
    let mut stages = harness::spec::Server::default();
    args.stages.apply(&mut stages);
    let config = ServeConfig {
        architecture: args.arch,
        accept: args.accept.unwrap_or_else(|| Accept::default_of(args.arch.model)),
        service: service(args)?,
        work: args.simulated_work.map(|work| work.0),
        listen: args.listen.clone(),
        cpus: args.cpus.clone().map(|cpus| cpus.0).unwrap_or_default(),
        stage_cpus: stages.stage_cpus(),
        read_budget_bytes: args.read_budget.map_or_else(Default::default, |budget| budget.0),
        connections_max: match args.service {
            Service::Udp => args.ports.get(),
            Service::Fixed | Service::Kv | Service::Http | Service::Stream => {
                args.connections_max.unwrap_or_else(|| room_of(args.arch))
            }
        },
        limits: Limits { request_ns: args.request_timeout.0, keepalive_ns: args.keepalive_timeout.0 },
        count_syscalls: args.count_syscalls,
    };
    let (server, listener) = start(&config)?;
    let ready = server.ready().clone();
    let described = Description::of(config.service.clone(), server.ports().cloned());
    let offered = listener.and_then(|it| it.map_or(Ok(()), |listener| description::offer(listener, &described)));
    if let Err(why) = offered {
        output::tell(format_args!("muxbench: clients have to be told what is served, by flags: {why}"));
    }
    if args.json {
        say(&ready_event(&server));
    } else {
        let served = match args.service {
            Service::Fixed => format!("fixed: {} -> {}", args.request, response(args)),
            Service::Kv => format!("kv: {}", args.memory),
            Service::Http => match &args.folder {
                Some(folder) => format!("http: {}", folder.display()),
                None => "http: /bytes/N".into(),
            },
            Service::Stream => stream(args).to_string(),
            Service::Udp => format!(
                "udp: {} -> {}, ports {}",
                args.request,
                response(args),
                server.ports().map(ToString::to_string).unwrap_or_default()
            ),
        };
        let (architecture, address) = (config.architecture, server.address());
        output::print(&format!("{architecture} listens on {address} ({served}); stop it with Ctrl-C\n"))?;
        let who = match server.address().ip() {
            Some(address) if address.ip().is_loopback() => {
                let (all, port) = (if address.is_ipv4() { "0.0.0.0" } else { "[::]" }, address.port());
                format!("Only this host reaches it: --listen {all}:{port} lets others in\n")
            }
            Some(_) => "Whoever reaches this host can use it: without --listen only this host can\n".to_owned(),
            // Who may is for the socket's folder to say.
            None => String::new(),
        };
        output::print(&who)?;
    }
    wait_for_stop(&server, messages)?;
    let end = server.snapshot();
    server.stop()?;
    if args.json {
        say(&Event::Mark { snapshot: end });
    } else {
        let counters = ServerCounters::between(&ready, &ready, &end);
        output::print_json(&counters.totals)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts a server, and listens where it describes itself: where any port will do, on one whose next is free too.
///
/// # Errors
/// When it does not start.
fn start(config: &ServeConfig) -> anyhow::Result<(Server, Result<Option<TcpListener>, String>)> {
    let any = config.listen.ip().filter(|address| address.port() == 0);
    for _ in 0..TRIES {
        let Some((address, listener)) = any.and_then(description::free_pair) else { break };
        if Ports::consecutive(address.port(), config.service.ports().unwrap_or(1)).is_none() {
            // Too few come after it.
            continue;
        }
        match Server::start(&ServeConfig { listen: address.into(), ..config.clone() }) {
            Ok(server) => return Ok((server, Ok(Some(listener)))),
            // Another was quicker, or has one of the datagrams' ports.
            Err(error) if error.is_in_use() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let server = Server::start(config)?;
    let listener = description::listen(server.address());
    Ok((server, listener))
}

fn ready_event(server: &Server) -> Event {
    Event::Ready { address: server.address().clone(), ports: server.ports().cloned(), snapshot: server.ready().clone() }
}

/// Of datagrams, what fits in one packet of any network.
fn response(args: &Args) -> Size {
    args.response.unwrap_or(Size(if args.service == Service::Udp { 128 } else { 10 << 10 }))
}

fn stream(args: &Args) -> Stream {
    let mut stream = Stream::default();
    args.stream.apply(&mut stream);
    stream
}

fn service(args: &Args) -> anyhow::Result<ServiceSpec> {
    if args.folder.is_some() && args.service != Service::Http {
        bail!("--folder: only http serves files; add --service http, or leave it out");
    }
    if args.service != Service::Stream && stream(args) != Stream::default() {
        bail!("--packet, --packets, --ack and --direction are of streams; add --service stream, or leave them out");
    }
    Ok(match args.service {
        Service::Fixed => ServiceSpec::Fixed { request_bytes: args.request.0, response_bytes: response(args).0 },
        Service::Udp => {
            if let Some(size) = [args.request, response(args)].into_iter().find(|size| !wire::udp::is_size(size.0)) {
                bail!("--request, --response: a datagram has from 8 to {DATAGRAM_BYTES_MAX} bytes, not {size}");
            }
            ServiceSpec::Udp {
                ports: args.ports.get(),
                request_bytes: args.request.0,
                response_bytes: response(args).0,
            }
        }
        Service::Kv => {
            if args.item_max.0 > args.memory.0 / 4 {
                bail!("--item-max: {} is more than a quarter of --memory ({}); lower it", args.item_max, args.memory);
            }
            ServiceSpec::Kv { memory_max_bytes: args.memory.0.into(), item_max_bytes: args.item_max.0 }
        }
        Service::Http => ServiceSpec::Http { folder: args.folder.clone() },
        Service::Stream => stream(args).service(),
    })
}

/// Room for as many connections as any machine's first try has; a pool of that size would take seconds to make.
fn room_of(architecture: Architecture) -> u32 {
    const POOL: u32 = 256;
    const ROOM: u32 = 20_000;
    if architecture.pool_size(POOL) == Some(POOL) { POOL } else { ROOM }
}

fn wait_for_stop(server: &Server, messages: &mpsc::Receiver<Message>) -> anyhow::Result<()> {
    loop {
        match messages.recv_timeout(Duration::from_millis(500)) {
            Ok(Message::Stop) => return Ok(()),
            _ if server.has_ended() => return Ok(()),
            _ => {}
        }
    }
}

/// Started by a runner: the configuration comes as one line of JSON, then `mark` as often as it likes.
fn controlled(sender: &mpsc::Sender<Message>, messages: &mpsc::Receiver<Message>) -> anyhow::Result<()> {
    let Message::Line(line) = messages.recv()? else { bail!("no configuration came on standard input") };
    match serde_json::from_str(&line).context("the configuration on standard input")? {
        ServerSpec::Ours(config) => ours(&config, messages),
        #[cfg(not(target_os = "linux"))]
        ServerSpec::External(_) => {
            let _ = sender;
            bail!("somebody else's server needs Linux, to be measured from outside")
        }
        #[cfg(target_os = "linux")]
        ServerSpec::External(config) => {
            let sender = sender.clone();
            let ended = move || {
                let _ = sender.send(Message::Ended);
            };
            let is_stopped = || matches!(messages.try_recv(), Ok(Message::Stop | Message::EndOfInput));
            somebody_else_s(ExternalServer::start(&config, ended, &is_stopped)?, messages)
        }
    }
}

/// Keeps a command until it is told to stop; all that came of it ends with it.
#[cfg(target_os = "linux")]
fn somebody_else_s(mut exec: ExternalServer, messages: &mpsc::Receiver<Message>) -> anyhow::Result<()> {
    say(&Event::Ready { address: exec.address().clone(), ports: None, snapshot: exec.ready().clone() });
    loop {
        match messages.recv()? {
            Message::Line(line) if line == "mark" => say(&Event::Mark { snapshot: exec.snapshot() }),
            Message::Line(line) => bail!("unknown word on standard input: `{line}`; `mark` is the only one"),
            // Of one that ended while another port was tried, if another serves.
            Message::Ended if !exec.has_ended() => {}
            Message::Ended => bail!("the command ended: {}", exec.last_words()),
            Message::EndOfInput | Message::Stop => return Ok(()),
        }
    }
}

fn ours(config: &ServeConfig, messages: &mpsc::Receiver<Message>) -> anyhow::Result<()> {
    let server = Server::start(config)?;
    say(&ready_event(&server));
    loop {
        match messages.recv()? {
            Message::Line(line) if line == "mark" => say(&Event::Mark { snapshot: server.snapshot() }),
            Message::Line(line) if line == "moved" => say(&Event::Moved { moved: server.moved() }),
            Message::Line(line) => bail!("unknown word on standard input: `{line}`; write `mark` or `moved`"),
            Message::EndOfInput | Message::Stop | Message::Ended => break,
        }
        if server.has_ended() {
            break;
        }
    }
    Ok(server.stop()?)
}

/// One line of JSON. Whoever does not read it any more will soon stop us.
fn say(event: &Event) {
    let _ = output::print_line(event);
}

/// Asks for SIGTERM when the runner's thread ends that forked this process, which lives as long as the runner
/// (`server::external::spawn`). Where the system has no such signal, a runner's server ends with its standard input.
fn end_with_runner() -> anyhow::Result<()> {
    server::platform::die_with_parent(rustix::process::Signal::TERM)
        .context("cannot ask to be told of the parent's end")
}

/// Stops the server when its parent process ends. Any program may be the parent, and its thread that forked may end long
/// before it does: a signal at the thread's end (PR_SET_PDEATHSIG) would stop a server that is in use.
#[cfg(target_os = "linux")]
fn listen_to_parent(sender: mpsc::Sender<Message>) -> anyhow::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::{Errno, retry_on_intr};
    use rustix::process::{PidfdFlags, getppid, pidfd_open};

    // There is none in this namespace of processes, or it has just ended.
    let Some(parent) = getppid() else { return Ok(()) };
    let parent = match pidfd_open(parent, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(()),
        parent => parent.context("cannot watch the parent process; Linux has pidfd_open since 5.3")?,
    };
    let listen = move || {
        if retry_on_intr(|| poll(&mut [PollFd::new(&parent, PollFlags::IN)], None)).is_ok() {
            let _ = sender.send(Message::Stop);
        }
    };
    thread::Builder::new().name("parent".into()).spawn(listen)?;
    Ok(())
}

/// Elsewhere a signal, if the system has one, is of the process.
#[cfg(not(target_os = "linux"))]
fn listen_to_parent(_sender: mpsc::Sender<Message>) -> anyhow::Result<()> {
    end_with_runner()
}

fn listen_to_signals(sender: mpsc::Sender<Message>) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
    let listen = move || {
        for _ in signals.forever() {
            if sender.send(Message::Stop).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen)?;
    Ok(())
}

fn listen_to_input(sender: mpsc::Sender<Message>) -> anyhow::Result<()> {
    let listen = move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(Message::Line(line)).is_err() {
                return;
            }
        }
        let _ = sender.send(Message::EndOfInput);
    };
    thread::Builder::new().name("input".into()).spawn(listen)?;
    Ok(())
}
