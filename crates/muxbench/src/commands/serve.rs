//! `muxbench serve`: runs one server until a signal stops it.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use std::{io, iter, thread};

use anyhow::{Context, bail};
use harness::host::placement;
use harness::plan::stage_cpus;
use harness::spec::units::{Cpus, Size, TimeLimit, count};
use harness::spec::{Experiment, OneOrMany, ServerSpec, Service, WorkloadSpec};
use load::time::clock::monotonic_ns;
#[cfg(target_os = "linux")]
use server::ExternalServer;
use server::control::ServerEvent;
#[cfg(target_os = "linux")]
use server::external::procfs_stats::{ProcfsStats, Root};
#[cfg(target_os = "linux")]
use server::metrics::counters::Totals;
use server::{
    Architecture, CertificateFiles, Limits, ServeConfig, Server, ServerCounters, Snapshot, TargetConfig, Tls,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wire::ServiceSpec;

use crate::options::experiment::BaseArgs;
use crate::options::given::{Actions, Options};
use crate::options::setup::checked;
use crate::output;

/// Run one server until SIGTERM or Ctrl-C, then print its counters
///
/// On Linux and FreeBSD it also stops when its parent process ends, such as a script.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
#[command(after_help = "Examples:
  muxbench serve --arch epoll --request 128B --listen 127.0.0.1:7007
  muxbench serve --arch mt-pool:64 --accept exclusive
  muxbench serve --arch epoll --listen unix:/tmp/muxbench.sock
  muxbench serve --arch symped:2/epoll --service kv --listen 127.0.0.1:11211
  muxbench serve --service http --folder ./public --listen 127.0.0.1:8080
  muxbench serve --service udp --ports 1000 --listen 127.0.0.1:20000
  muxbench serve --arch mt --json   # a free port; address and counters as JSON")]
pub struct Args {
    /// Architecture, see `muxbench list`
    ///
    /// `MODEL[:THREADS][/MECHANISM]`
    #[arg(long, default_value = server::spec::mechanism::DEFAULT, value_name = "ARCH")]
    arch: Architecture,
    #[command(flatten)]
    options: Options,
    /// Longest time for a client of `http` to send a request or to pause while it reads a response, or off
    #[arg(long, help_heading = "HTTP", default_value = "60s", value_name = "TIME", hide_short_help = true)]
    request_timeout: TimeLimit,
    /// Longest idle time of a connection of `http` after a response, or off
    #[arg(long, help_heading = "HTTP", default_value = "75s", value_name = "TIME", hide_short_help = true)]
    keepalive_timeout: TimeLimit,
    #[command(flatten)]
    actions: Actions,
    /// Use TLS, with a certificate that the server makes [default: plain text]
    ///
    /// Its clients need --insecure, or the certificate that --json prints
    #[arg(long, help_heading = "TLS", hide_short_help = true)]
    tls: bool,
    /// Certificate of the server, and those of its authorities, in PEM format; implies --tls
    #[arg(long, value_name = "FILE", help_heading = "TLS", requires = "tls_key", hide_short_help = true)]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, in PEM format
    #[arg(long, value_name = "FILE", help_heading = "TLS", requires = "tls_cert", hide_short_help = true)]
    tls_key: Option<PathBuf>,
    /// CPUs of the server, such as 0-1,3 [default: all]
    #[arg(long, value_name = "CPUS")]
    cpus: Option<Cpus>,
    /// Maximum number of connections, and size of a pool without :THREADS. The server refuses further connections; a pool
    /// lets them wait [default: 20000; for a pool 256]
    #[arg(long, value_name = "N", help_heading = "Server settings", value_parser = count::<NonZeroU32>, hide_short_help = true)]
    connections_max: Option<NonZeroU32>,
    /// Print JSON lines
    #[arg(long, help_heading = "Results")]
    json: bool,
    /// Read the configuration, `mark` and `moved` as lines on standard input, and stop at its end
    #[arg(long, hide = true)]
    control: bool,
}

/// Default size of a pool.
const POOL: u32 = 256;
/// The interval between checks whether a server has ended by itself.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

enum Message {
    Line(String),
    EndOfInput,
    Stop,
    /// An external server has ended.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "external servers need Linux"))]
    Ended,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (sender, messages) = mpsc::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot handle signals")?;
    forward("signals", sender.clone(), move || iter::from_fn(move || signals.forever().next().map(|_| Message::Stop)))?;
    if !args.control {
        listen_to_parent(sender)?;
        return for_user(args, &messages);
    }
    end_with_runner()?;
    let lines = || io::stdin().lines().map_while(Result::ok).map(Message::Line).chain([Message::EndOfInput]);
    forward("input", sender.clone(), lines)?;
    match for_runner(sender, &messages) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            send(&ServerEvent::Failed { reason: format!("{error:#}") });
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Starts a thread that sends messages to the main thread.
fn forward<I: Iterator<Item = Message>>(
    name: &str,
    sender: Sender<Message>,
    messages: impl FnOnce() -> I + Send + 'static,
) -> anyhow::Result<()> {
    let send_all = move || messages().all(|message| sender.send(message).is_ok());
    thread::Builder::new().name(name.into()).spawn(send_all)?;
    Ok(())
}

fn service(experiment: &Experiment) -> anyhow::Result<ServiceSpec> {
    let workload = &experiment.workload;
    if workload.service == Service::Http {
        // Any client may come, so each path has the size.
        return Ok(workload.http.clone().unwrap_or_default().service(workload.response));
    }
    let loads = experiment.unread_loads().map_err(anyhow::Error::msg)?;
    let [load] = &loads[..] else { bail!("--ports: a server has one number of ports, not {}; name one", loads.len()) };
    Ok(load.service.clone())
}

/// Serves for a user: prints the address first, and the counters at the end.
fn for_user(args: &Args, messages: &Receiver<Message>) -> anyhow::Result<ExitCode> {
    let experiment = experiment(args)?;
    let (options, workload) = (&experiment.server, &experiment.workload);
    let accepts = options.accepts(args.arch);
    let &[accept] = &accepts[..] else { bail!("--accept: a server has one strategy, not {}; name one", accepts.len()) };
    let polls = options.busy_polls();
    let &[busy_poll] = &polls[..] else { bail!("--busy-poll: a server has one value, not {}; name one", polls.len()) };
    if busy_poll.is_some_and(|poll| poll.suspend_ns.is_some()) {
        bail!(
            "--busy-poll: `serve` does not set the suspension of interrupts; set it for your interface, and write `prefer`"
        );
    }
    let service = service(&experiment)?;
    let config = ServeConfig {
        architecture: args.arch,
        accept,
        connections_max: match service.ports() {
            Some(ports) => ports,
            // The default of a pool is lower, because its workers take long to start.
            None if args.arch.pool_size(POOL) == Some(POOL) => args.connections_max.map_or(POOL, NonZeroU32::get),
            None => args.connections_max.map_or(20_000, NonZeroU32::get),
        },
        service,
        work: workload.simulated_work.clone().map(|work| work.0),
        listen: args.actions.get_or_default("listen", "serve"),
        cpus: args.cpus.clone().map(|cpus| cpus.0).unwrap_or_default(),
        stage_cpus: options.stage_cpus(),
        read_budget_bytes: options.read_budget.map_or_else(Default::default, |budget| budget.0),
        controllers: options.controllers(),
        stall: options.stall.map(|stall| stall.0),
        datagrams: options.datagrams(workload.service),
        busy_poll,
        limits: Limits { request_ns: args.request_timeout.0, keepalive_ns: args.keepalive_timeout.0 },
        tls: tls(args),
        count_syscalls: options.count_syscalls,
    };
    check_cpus(&config)?;
    let server = Server::start(&config)?;
    let ready = server.ready().clone();
    if args.json {
        send(&ready_event(&server));
    } else {
        output::print(&greeting(&config, workload, &server))?;
    }
    while !server.has_ended() && !matches!(messages.recv_timeout(POLL_INTERVAL), Ok(Message::Stop)) {}
    let end = server.snapshot();
    server.stop()?;
    if args.json {
        send(&ServerEvent::Mark { snapshot: end });
    } else {
        output::print_json(&ServerCounters::between(&ready, None, &ready, &end).totals)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks that this process may use the server's CPUs, and that those of stages are among them.
fn check_cpus(config: &ServeConfig) -> anyhow::Result<()> {
    let allowed = server::platform::cpus();
    placement::check_allowed("--cpus", &config.cpus, &allowed).map_err(anyhow::Error::msg)?;
    let allowed = if config.cpus.is_empty() { allowed } else { config.cpus.clone() };
    let foreign = stage_cpus::check(&config.stage_cpus, &allowed).err();
    match foreign {
        Some(reason) => bail!("{}", reason.replacen("server.", "--", 1)),
        None => Ok(()),
    }
}

/// Returns an experiment with this server, whose other settings are those of the options. Names the options without effect.
fn experiment(args: &Args) -> anyhow::Result<Experiment> {
    let mut experiment = BaseArgs::default().read()?;
    (experiment.workload, experiment.architectures) = (WorkloadSpec::default(), OneOrMany(vec![args.arch.into()]));
    args.options.apply(&mut experiment, "")?;
    for sentence in experiment.unused() {
        output::note(args.options.with_flag(sentence, false));
    }
    let response = experiment.workload.response;
    let mut experiment = checked(&experiment, &args.options, false)?.0;
    if experiment.workload.service == Service::Http {
        // The default is the size that a client asks for.
        experiment.workload.response = response;
    }
    Ok(experiment)
}

fn greeting(config: &ServeConfig, workload: &WorkloadSpec, server: &Server) -> String {
    let ServeConfig { architecture, service, .. } = config;
    let sizes = |(request, response): (u32, u32)| format!("{} -> {}", Size(request), Size(response));
    let sizes = service.fixed().map(sizes).unwrap_or_default();
    let folder = workload.http.as_ref().and_then(|http| http.folder.as_ref());
    let memory = || workload.kv.clone().unwrap_or_default().memory;
    let service = match (workload.service, folder, server.ports()) {
        (Service::Fixed, ..) => format!("fixed: {sizes}"),
        (Service::Kv, ..) => format!("kv: {}", memory()),
        (Service::Redis, ..) => format!("redis: {}", memory()),
        (Service::Http, Some(folder), _) => format!("http: {}", folder.display()),
        (Service::Http, None, _) => match workload.response {
            Some(response) => format!("http: {response} at each path, /bytes/N"),
            None => "http: /bytes/N".into(),
        },
        (Service::Stream, ..) => workload.stream.clone().unwrap_or_default().to_string(),
        (Service::Udp, _, ports) => {
            format!("udp: {sizes}, ports {}", ports.map(ToString::to_string).unwrap_or_default())
        }
    };
    let service = if server.certificates().is_some() { service + ", TLS" } else { service };
    let reachable = match server.address().ip() {
        Some(address) if address.ip().is_loopback() => {
            let (all, port) = (if address.is_ipv4() { "0.0.0.0" } else { "[::]" }, address.port());
            format!("Only this host can connect; --listen {all}:{port} admits other hosts\n")
        }
        Some(_) => "All hosts that reach this one can connect; without --listen only this host can\n".to_owned(),
        // The folder's permissions decide who can connect to a Unix socket.
        None => String::new(),
    };
    let address = server.address();
    format!("{architecture} listens on {address} ({service}); stop it with Ctrl-C\n{reachable}")
}

fn ready_event(server: &Server) -> ServerEvent {
    ServerEvent::Ready {
        address: server.address().clone(),
        ports: server.ports().cloned(),
        certificates: server.certificates().map(str::to_owned),
        snapshot: server.ready().clone(),
    }
}

fn tls(args: &Args) -> Option<Tls> {
    let files = args.tls_cert.clone().zip(args.tls_key.clone());
    let files = files.map(|(certificate, key)| CertificateFiles { certificate, key });
    (args.tls || files.is_some()).then_some(Tls { files })
}

/// Serves for a runner, which sends the configuration as one line of JSON, then `mark` and `moved`.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "external servers need Linux"))]
fn for_runner(sender: Sender<Message>, messages: &Receiver<Message>) -> anyhow::Result<()> {
    let Message::Line(line) = messages.recv()? else { bail!("standard input has no configuration") };
    match serde_json::from_str(&line).context("cannot read the configuration on standard input")? {
        ServerSpec::Ours(config) => serve_own(&config, messages),
        ServerSpec::Target(config) => watch(&config, messages),
        #[cfg(not(target_os = "linux"))]
        ServerSpec::External(_) => bail!("external servers need Linux"),
        #[cfg(target_os = "linux")]
        ServerSpec::External(config) => {
            let ended = move || {
                let _ = sender.send(Message::Ended);
            };
            let is_stopped = || matches!(messages.try_recv(), Ok(Message::Stop | Message::EndOfInput));
            let exec = ExternalServer::start(&config, ended, &is_stopped).map_err(anyhow::Error::msg)?;
            serve_external(exec, messages)
        }
    }
}

/// Runs an external server until it is stopped, and ends all its processes.
#[cfg(target_os = "linux")]
fn serve_external(mut server: ExternalServer, messages: &Receiver<Message>) -> anyhow::Result<()> {
    send(&ServerEvent::Ready {
        address: server.address.clone(),
        ports: None,
        certificates: None,
        snapshot: server.ready.clone(),
    });
    loop {
        match messages.recv()? {
            Message::Line(line) if line == "mark" => send(&ServerEvent::Mark { snapshot: server.snapshot() }),
            Message::Line(line) => bail!("unknown order `{line}` on standard input; expected `mark`"),
            // The message is about an earlier attempt, whose port was in use.
            Message::Ended if !server.has_ended() => {}
            Message::Ended => bail!("the command ended: {}", server.last_words()),
            Message::EndOfInput | Message::Stop => return Ok(()),
        }
    }
}

/// Reads the counters of a target until the runner stops. The target itself goes on.
fn watch(config: &TargetConfig, messages: &Receiver<Message>) -> anyhow::Result<()> {
    config.check().map_err(anyhow::Error::msg)?;
    let mut read = counters(config);
    let mut snapshot = || match config.check_process() {
        Ok(()) => Ok(read()),
        Err(reason) => bail!("the server has ended: {reason}"),
    };
    let (address, ports) = (config.address.clone(), config.ports.clone());
    send(&ServerEvent::Ready { address, ports, certificates: None, snapshot: snapshot()? });
    loop {
        match messages.recv()? {
            Message::Line(line) if line == "mark" => send(&ServerEvent::Mark { snapshot: snapshot()? }),
            Message::Line(line) => bail!("unknown order `{line}` on standard input; expected `mark`"),
            Message::EndOfInput | Message::Stop | Message::Ended => return Ok(()),
        }
    }
}

/// Returns a reader of a target's counters. They are empty if the process of the target is unknown.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only Linux has the counters"))]
fn counters(config: &TargetConfig) -> impl FnMut() -> Snapshot {
    #[cfg(target_os = "linux")]
    let mut stats = config.pid.map(|pid| ProcfsStats::new(Root::Server(pid), config.address.clone()));
    move || {
        #[cfg(target_os = "linux")]
        if let Some(stats) = &mut stats {
            return stats.snapshot(&Totals::default());
        }
        Snapshot { at_ns: monotonic_ns(), ..Snapshot::default() }
    }
}

/// Runs one of muxbench's own servers until it is stopped.
fn serve_own(config: &ServeConfig, messages: &Receiver<Message>) -> anyhow::Result<()> {
    let server = Server::start(config)?;
    send(&ready_event(&server));
    while !server.has_ended() {
        match messages.recv()? {
            Message::Line(line) if line == "mark" => send(&ServerEvent::Mark { snapshot: server.snapshot() }),
            Message::Line(line) if line == "moved" => send(&ServerEvent::Moved { moved: server.moved() }),
            Message::Line(line) => bail!("unknown order `{line}` on standard input; expected `mark` or `moved`"),
            Message::EndOfInput | Message::Stop | Message::Ended => break,
        }
    }
    Ok(server.stop()?)
}

/// Sends an event. Ignores a closed pipe, because the end of standard input stops the server.
fn send(event: &ServerEvent) {
    let _ = output::print_line(event);
}

/// Asks the system to send SIGTERM when the runner ends. Linux sends it when the forking thread ends, and that thread lives
/// as long as the runner (`server::external::spawn`). Systems without such a signal rely on the end of standard input.
fn end_with_runner() -> anyhow::Result<()> {
    server::platform::die_with_parent(rustix::process::Signal::TERM).context("cannot watch the parent process")
}

/// Stops the server when its parent process ends. PR_SET_PDEATHSIG would signal the end of the forking thread, which may
/// end long before the parent process.
#[cfg(target_os = "linux")]
fn listen_to_parent(sender: Sender<Message>) -> anyhow::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::{Errno, retry_on_intr};
    use rustix::process::{PidfdFlags, getppid, pidfd_open};

    // There is no parent if it has just ended or is in another PID namespace.
    let Some(parent) = getppid() else { return Ok(()) };
    let parent = match pidfd_open(parent, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(()),
        parent => parent.context("cannot watch the parent process; pidfd_open needs Linux 5.3")?,
    };
    let ended = move || retry_on_intr(|| poll(&mut [PollFd::new(&parent, PollFlags::IN)], None)).ok();
    forward("parent", sender, move || iter::once_with(ended).flatten().map(|_| Message::Stop))
}

/// Asks the system to send SIGTERM when the parent process ends. macOS has no such signal.
#[cfg(not(target_os = "linux"))]
fn listen_to_parent(_sender: Sender<Message>) -> anyhow::Result<()> {
    end_with_runner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parsed;

    #[test]
    fn http_has_the_size_of_responses_at_each_path() {
        let workload = |flags: &str| {
            let experiment = experiment(&parsed("serve", flags)).unwrap();
            assert_eq!(experiment.unused(), [""; 0]);
            service(&experiment).unwrap()
        };
        let sized = workload("--service http --response 128B");
        assert_eq!(sized, ServiceSpec::Http { folder: None, response_bytes: Some(128) });
        assert_eq!(workload("--service http"), ServiceSpec::HTTP);
    }

    #[test]
    fn refused_server_names_a_remedy() {
        for (flags, words) in [
            ("--service http --folder /none", "/none: No such file or directory"),
            ("--listen unix:no/such/folder", "No such file"),
            ("--listen unix:s --arch mt-pool:4 --accept reuseport", "choose shared or exclusive"),
            ("--listen unix:s --arch io_uring-zc", "choose another mechanism"),
            ("--tls --service udp", "the service `udp` has no TLS; omit --tls"),
            ("--tls --service stream", "the service `stream` has no TLS; omit --tls"),
            ("--tls-cert /none --tls-key /none", "cannot use TLS: /none: No such file"),
            ("--arch seda --cpus 0 --payload-cpus 1", "--payload-cpus: the server may not use CPU 1; choose from 0"),
            ("--cpus 0,4000", "--cpus: this process may not use CPU 4000; choose from 0"),
            ("--busy-poll 50us", "cannot poll loopback"),
            ("--arch epoll --stall every=1s,for=10ms", "`epoll` has no network threads to stall"),
            ("--arch symped:1000 --accept reuseport-cpu", "gives each connection to the worker of a CPU"),
            ("--service udp --arch io_uring --datagram-batch 8", "`io_uring` cannot batch datagrams"),
            (
                "--service udp --arch epoll --accept reuseport",
                "`epoll` cannot use the accept strategy `reuseport`: one thread accepts for all",
            ),
            ("--service udp --arch symped:2 --accept reuseport-cpu", "choose reuseport"),
            (
                "--service udp --arch symped:2 --accept reuseport --stall every=1s,for=10ms",
                "cannot stall a server of `udp`",
            ),
        ] {
            let args: Args = parsed("serve", flags);
            // A server that starts nevertheless stops at once.
            let (sender, messages) = mpsc::channel();
            sender.send(Message::Stop).unwrap();
            let Err(error) = for_user(&args, &messages) else { panic!("{flags}: not refused") };
            assert!(format!("{error:#}").contains(words), "{flags}: {error:#}");
        }
    }
}
