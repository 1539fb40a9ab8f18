//! Flags of servers, workload and client, shared by all commands that build an experiment.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::bail;
use clap::Args;
use harness::plan::grid::{self, GridValues};
use harness::record::{LatencyLimit, SearchGoal};
use harness::spec::interleave::Interleave;
use harness::spec::transport::Transport;
use harness::spec::units::{Rate, Share, Size, Time, UnitError, Work, count};
use harness::spec::{Candidate, Experiment, OneOrMany, Phases, Service, stream};
use load::config::{Popularity, Schedule};
use server::Architecture;

use super::experiment::BaseArgs;
use super::servers::{Builds, Servers, ServersArgs};
use super::settings::{ClientArgs, NetworkArgs, PhaseArgs, PlacementArgs, ServerArgs};
use super::traffic::{TrafficArgs, check_single};
use super::{named, set, set_list};

#[derive(Clone, Debug, clap::Args)]
pub struct SetupArgs {
    #[command(flatten)]
    servers: ServersArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    server: ServerArgs,
    /// Have the kernel count built-in servers' system calls; makes each call more expensive. `muxbench report` shows the counts:
    /// --explain, or for `capacity` --csv
    #[arg(long, help_heading = "Server settings")]
    count_syscalls: bool,
    /// Folder that `http` serves; without one it serves /bytes/N, a body of N bytes
    #[arg(long, value_name = "FOLDER", help_heading = "HTTP")]
    folder: Option<PathBuf>,
    /// Simulated work of the server for each request, fixed or random: cpu=50us, busy=50us (by the clock), sleep=1ms,
    /// cpu=50us,exponential; none [default: none]
    #[arg(long, value_name = "WORK", help_heading = "Server settings")]
    simulated_work: Vec<MaybeWork>,
    /// Load all servers of a workload in turns: auto (those that can share a window), always, never [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = named::<Interleave>, help_heading = "Trials")]
    interleave: Option<Interleave>,
    /// Length of the slices of interleaved trials [default: from the workload]
    #[arg(long, value_name = "TIME", help_heading = "Trials")]
    slice: Option<Time>,
    /// Run the first architecture a second time: its ratio to the first shows the noise
    #[arg(long, help_heading = "Trials")]
    placebo: bool,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Simulated work, or `none`.
#[derive(Clone, Copy, Debug)]
struct MaybeWork(Option<Work>);

impl FromStr for MaybeWork {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "none" { Ok(Self(None)) } else { text.parse().map(|work| Self(Some(work))) }
    }
}

/// Flags of the load, apart from its rate.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Transport: tcp, tcp6 (over IPv6), unix (Unix sockets) [default: tcp, or as the URL of a target selects]
    #[arg(long, value_name = "TRANSPORT", value_parser = named::<Transport>)]
    transport: Option<Transport>,
    /// Open connections, as in 10k
    ///
    /// Several numbers, comma-separated, make several workloads
    #[arg(long, short, value_name = "N", value_delimiter = ',', value_parser = count::<NonZeroU32>)]
    connections: Vec<NonZeroU32>,
    /// Ports of a `udp` server, in place of connections, comma-separated [default: 10; `compare` and `atlas`: 10,1000]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = count::<NonZeroU32>)]
    ports: Vec<NonZeroU32>,
    /// Send times, as in poisson [default: slot-random]
    ///
    /// Comma-separated: slot-random (at a random moment of each slot of equal length), constant, poisson (open loop); closed
    /// (closed loop: send when the response has arrived; the default of `stream`). Several clients with constant intervals take
    /// turns (constant), start at random times (constant-drawn) or send at the same time (constant-together)
    #[arg(long, value_name = "SCHEDULE", value_delimiter = ',', value_parser = named::<Schedule>)]
    schedule: Vec<Schedule>,
    /// Share of the connections that carry requests, such as 1/16 or 6.25%, comma-separated [default: 1]
    #[arg(long, value_name = "SHARE", value_delimiter = ',')]
    active: Vec<Share>,
    /// Additional idle connections, held by a separate process, comma-separated [default: 0]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = count::<u32>)]
    idle: Vec<u32>,
    /// Connection popularity: uniform, zipf (exponent 1), zipf:0.8 [default: uniform]
    #[arg(long, value_name = "POPULARITY")]
    popularity: Option<Popularity>,
    /// Seed of all random numbers: the order of trials, the schedules [default: 1]
    #[arg(long, value_name = "SEED", help_heading = "Trials")]
    seed: Option<u64>,
    #[command(flatten)]
    pub traffic: TrafficArgs,
    #[command(flatten)]
    phases: PhaseArgs,
    #[command(flatten)]
    placement: PlacementArgs,
    #[command(flatten)]
    client: ClientArgs,
    /// Client processes, which share connections and rate; each has --clients [default: 1; in a lab one per client host]
    #[arg(long, value_name = "N", help_heading = "Client", value_parser = count::<NonZeroU32>)]
    client_processes: Option<NonZeroU32>,
}

impl SetupArgs {
    /// Returns an experiment, changed by the flags.
    pub fn experiment(&self, base: &BaseArgs) -> anyhow::Result<Experiment> {
        self.changed(base.read()?, base.has_file(), &self.servers)
    }

    fn changed(&self, experiment: Experiment, has_file: bool, servers: &ServersArgs) -> anyhow::Result<Experiment> {
        let servers = servers.parse(&experiment)?;
        let mut experiment = self.load.change(experiment, has_file, &servers)?;
        set(&mut experiment.interleave, self.interleave);
        experiment.placebo |= self.placebo;
        experiment.slice = self.slice.or(experiment.slice);
        check_single("--simulated-work", &self.simulated_work)?;
        set(&mut experiment.workload.simulated_work, self.simulated_work.first().map(|it| it.0));
        if self.folder.is_some() {
            experiment.workload.http.get_or_insert_default().folder.clone_from(&self.folder);
        }
        self.network.apply(&mut experiment.network)?;
        self.server.apply(&mut experiment.server);
        experiment.server.count_syscalls |= self.count_syscalls;
        Ok(experiment)
    }

    /// Returns an experiment for many rates: by default one short repeat each, with the first number of connections.
    pub fn experiment_of_rates(&self, base: &BaseArgs, name: &str, measure: Time) -> anyhow::Result<Experiment> {
        let mut experiment = self.experiment(base)?;
        experiment.name = name.into();
        let workload = &experiment.workload;
        if workload.is_closed() {
            bail!(
                "{name} needs an open loop, because it sets the rate; choose another --schedule, or another --service than stream"
            );
        }
        if workload.trace.is_some() {
            bail!(
                "{name} sets the rate, and a trace has a rate of its own; remove the trace, or try `muxbench compare`"
            );
        }
        self.load.shorten(&mut experiment, phases_of_rates(measure));
        Ok(experiment)
    }

    /// Returns an experiment for many short repeats of servers, by default of all architectures and with the first number of
    /// connections. `window` returns the default window.
    pub fn experiment_of_race(
        &self,
        base: &BaseArgs,
        window: impl Fn(&Experiment) -> Time,
    ) -> anyhow::Result<Experiment> {
        let mut experiment = self.experiment(base)?;
        experiment.name = "advise".into();
        if !self.servers.has_architectures() {
            let external = experiment.architectures.0.into_iter().filter(|it| it.ours().is_none());
            let all = Architecture::all().into_iter().map(Candidate::from);
            experiment.architectures = OneOrMany(external.chain(all).collect());
        }
        check_options(&experiment, ONE_SERVER_EACH)?;
        // A race tells noise from differences without it.
        experiment.placebo = false;
        let measure = window(&experiment);
        self.load.shorten(&mut experiment, Phases { measure, ..PHASES_OF_RACE });
        Ok(experiment)
    }

    /// Returns the experiment of each race of a grid, in an order whose beginning covers the grid coarsely. Without a file, dimensions
    /// without flags have default values. `window` returns the default window of a race, given the number of races.
    pub fn experiments_of_grid(
        &self,
        base: &BaseArgs,
        rates: &[Rate],
        window: impl Fn(&Experiment, usize) -> Time,
    ) -> anyhow::Result<Vec<Experiment>> {
        let mut first = self.clone();
        let traffic = &mut first.load.traffic;
        traffic.request.truncate(1);
        traffic.response.truncate(1);
        first.simulated_work.truncate(1);
        let mut experiment = first.experiment(base)?;
        check_options(&experiment, ONE_SERVER_EACH)?;
        // A race tells noise from differences without it.
        experiment.placebo = false;
        experiment.name = "atlas".into();
        let mut more = GridValues {
            requests: self.load.traffic.request.clone(),
            responses: self.load.traffic.response.clone(),
            works: self.simulated_work.iter().map(|it| it.0).collect(),
        };
        if !base.has_file() {
            self.add_defaults(&mut experiment, &mut more, rates);
        }
        if !rates.is_empty() {
            experiment.workload.rate = Some(OneOrMany(rates.to_vec()));
        }
        // A list may have mistakes that no cell has.
        checked(&experiment, base)?;
        let mut cells = grid::cells(&experiment, &more);
        let count = cells.len();
        for cell in &mut cells {
            let measure = window(cell, count);
            self.load.shorten(cell, Phases { measure, ..PHASES_OF_RACE });
        }
        Ok(cells)
    }

    /// Sets the default values of the dimensions that the traffic has and no flag sets.
    fn add_defaults(&self, experiment: &mut Experiment, more: &mut GridValues, rates: &[Rate]) {
        let workload = &mut experiment.workload;
        let is_open = !workload.is_closed();
        let are_built_in = experiment.architectures.0.iter().all(|it| it.ours().is_some());
        let has_messages = !matches!(workload.service, Service::Udp | Service::Stream);
        if has_messages && self.load.connections.is_empty() {
            workload.connections = OneOrMany(GRID_CONNECTIONS.into_iter().filter_map(NonZeroU32::new).collect());
        }
        if has_messages && is_open && workload.requests_per_connection.is_none() && self.load.active.is_empty() {
            workload.active = OneOrMany(GRID_ACTIVE.map(Share).to_vec());
        }
        if is_open && rates.is_empty() {
            workload.rate = Some(OneOrMany(GRID_RATES_PER_S.map(Rate).to_vec()));
        }
        // The preset's response of `udp` fits in one packet.
        if are_built_in && has_messages && workload.response.is_some() && more.responses.is_empty() {
            more.responses = GRID_RESPONSES_BYTES.map(Size).to_vec();
        }
        if are_built_in && has_messages && more.works.is_empty() {
            more.works = vec![None, Some(GRID_WORK)];
        }
    }

    /// Adds two builds of a server to the flags.
    pub fn builds(&self, old: &str, new: &str, base: &BaseArgs) -> anyhow::Result<Builds> {
        let base = base.read_or("put it in place of OLD or NEW, as in muxbench gate OLD ")?;
        self.servers.with_builds(old, new, base)
    }

    /// Returns an experiment for many short repeats of two builds, by default with the first number of connections.
    pub fn experiment_of_builds(&self, builds: &Builds, base: &BaseArgs) -> anyhow::Result<Experiment> {
        let mut experiment = self.changed(builds.base.clone(), base.has_file(), &builds.servers)?;
        experiment.name = "gate".into();
        experiment.placebo = builds.are_same;
        self.load.shorten(&mut experiment, PHASES_OF_BUILDS);
        Ok(experiment)
    }
}

impl LoadArgs {
    /// The flags of connections and of traffic, without others.
    pub fn of(connections: Option<NonZeroU32>, traffic: &TrafficArgs) -> Self {
        Self { connections: connections.into_iter().collect(), traffic: traffic.clone(), ..Self::default() }
    }

    /// Returns the preset `compare` with these servers, changed by the flags.
    pub fn experiment(&self, servers: &Servers) -> anyhow::Result<Experiment> {
        self.change(BaseArgs::default().read()?, false, servers)
    }

    /// Changes an experiment, which may come from a file, to these servers, and by the flags.
    fn change(&self, mut experiment: Experiment, has_file: bool, servers: &Servers) -> anyhow::Result<Experiment> {
        servers.apply(&mut experiment);
        set(&mut experiment.seed, self.seed);
        let workload = &mut experiment.workload;
        let service = workload.service;
        servers.apply_urls(workload);
        set(&mut workload.transport, self.transport);
        set_list(&mut workload.connections, &self.connections);
        set_list(&mut workload.schedule, &self.schedule);
        set_list(&mut workload.active, &self.active);
        set_list(&mut workload.idle, &self.idle);
        set(&mut workload.popularity, self.popularity);
        self.traffic.apply(workload, has_file)?;
        if workload.service == Service::Http && servers.have_target() && self.traffic.response.is_empty() {
            // The content of a target may have any length.
            workload.response = None;
        }
        set_list(&mut workload.ports, &self.ports);
        if workload.service == Service::Udp {
            // Drop the preset's connections; the check rejects connections from a flag.
            workload.connections = OneOrMany(self.connections.clone());
            let known = servers.ports().map(|count| vec![count]);
            if self.ports.is_empty()
                && let Some(counts) = known.or_else(|| (service != Service::Udp).then(|| vec![10, 1_000]))
            {
                workload.ports = OneOrMany(counts.into_iter().filter_map(NonZeroU32::new).collect());
            }
        }
        if workload.service == Service::Stream && service != Service::Stream {
            if self.schedule.is_empty() {
                workload.schedule = OneOrMany(vec![Schedule::Closed]);
            }
            experiment.phases.cool_down = stream::COOL_DOWN;
        }
        if workload.is_closed() {
            // Drop the preset's rate; the check rejects a rate from a flag.
            workload.rate = None;
        }
        let workload = &experiment.workload;
        if self.phases.measure.is_some() && (workload.profile.is_some() || workload.trace.is_some()) {
            bail!("--measure: the window lasts as long as the rate profile or the trace of FILE; omit it");
        }
        self.phases.apply(&mut experiment.phases);
        self.placement.apply(&mut experiment.placement);
        self.client.apply(&mut experiment.client);
        set(&mut experiment.client.processes, self.client_processes);
        Ok(experiment)
    }

    /// Sets one repeat and other default phases, and by default only the first number of connections or ports.
    pub fn shorten(&self, experiment: &mut Experiment, phases: Phases) {
        experiment.repeats = NonZeroU32::MIN;
        experiment.phases = phases;
        self.phases.apply(&mut experiment.phases);
        if self.connections.is_empty() {
            experiment.workload.connections.0.truncate(1);
        }
        if self.ports.is_empty() {
            experiment.workload.ports.0.truncate(1);
        }
    }
}

/// The phases of the many short repeats of two builds.
pub const PHASES_OF_BUILDS: Phases = Phases {
    ramp: Time(100_000_000),
    warm_up: Time(200_000_000),
    measure: Time(1_500_000_000),
    sessions: None,
    cool_down: Time(1_000_000_000),
};

/// The phases of the short repeats of many servers. The window follows from the budget.
pub const PHASES_OF_RACE: Phases = Phases { ramp: Time(50_000_000), warm_up: Time(100_000_000), ..PHASES_OF_BUILDS };

/// The limit of the options of a race.
const ONE_SERVER_EACH: &str = "a race has one server of each architecture";

/// The default values of a grid: 48 races.
pub const GRID_CONNECTIONS: [u32; 3] = [50, 400, 2_000];
const GRID_ACTIVE: [f64; 2] = [1.0 / 16.0, 1.0];
const GRID_RATES_PER_S: [f64; 2] = [500.0, 5_000.0];
const GRID_RESPONSES_BYTES: [u32; 2] = [128, 10_240];
const GRID_WORK: Work = Work(server::Work {
    kind: server::service::work::Kind::Cpu,
    time_ns: 50_000,
    exponential: false,
    connections: None,
});

/// Lets servers run one at a time, as `flag` requires.
pub fn separate(experiment: &mut Experiment, flag: &str) -> anyhow::Result<()> {
    if experiment.interleave == Interleave::Always {
        bail!("{flag}: the servers run one at a time; remove `interleave` from FILE");
    }
    experiment.interleave = Interleave::Never;
    Ok(())
}

/// Sets the slices of a search. It changes the rate, and slices of constant sends fit only one rate, so such servers run one at a time.
pub fn set_slices_of_search(experiment: &mut Experiment, limits: &[LatencyLimit]) -> anyhow::Result<()> {
    let constant = [Schedule::Constant, Schedule::ConstantDrawn, Schedule::ConstantTogether];
    if experiment.workload.schedule.0.iter().any(|schedule| constant.contains(schedule)) {
        if experiment.interleave == Interleave::Always {
            bail!(
                "a search cannot interleave constant sends, because its rate changes; remove `interleave = \"always\"`, or try \
                 --schedule poisson"
            );
        }
        experiment.interleave = Interleave::Never;
        return Ok(());
    }
    experiment.slice.get_or_insert(Time(SearchGoal::slice_ns(limits)));
    Ok(())
}

/// Returns the default phases of an experiment for many rates.
pub fn phases_of_rates(measure: Time) -> Phases {
    let (ramp, warm_up, cool_down) = (Time(200_000_000), Time(300_000_000), Time(1_000_000_000));
    Phases { ramp, warm_up, measure, sessions: None, cool_down }
}

/// Rejects several values of an option of built-in servers, because each value makes another server. `limit` says how many servers
/// there may be.
pub fn check_options(experiment: &Experiment, limit: &str) -> anyhow::Result<()> {
    let server = &experiment.server;
    let has_built_in = experiment.architectures.0.iter().any(|it| it.ours().is_some());
    let accepts = server.accept.as_ref().map_or(1, |accepts| accepts.0.len());
    for (flag, count) in [("--accept", accepts), ("--busy-poll", server.busy_polls().len())] {
        if has_built_in && count > 1 {
            bail!("{flag}: {limit}, and this experiment has {count} values; give one, or try `muxbench compare`");
        }
    }
    Ok(())
}

/// Checks an experiment as if it came from a file, and returns it with the text of such a file. Errors show no line of this text,
/// but the key, and its flag unless the key comes from the file of `base`. Leaves out `[quick]`: its changes may not fit flags.
pub fn checked(experiment: &Experiment, base: &BaseArgs) -> anyhow::Result<(Experiment, String)> {
    checked_with_quick(&Experiment { quick: None, ..experiment.clone() }, base)
}

/// The same with `[quick]`.
pub fn checked_with_quick(experiment: &Experiment, base: &BaseArgs) -> anyhow::Result<(Experiment, String)> {
    let text = toml::to_string(experiment)?;
    let experiment = Experiment::parse(&text, "flags")
        .map_err(|error| anyhow::Error::msg(with_flag(error.without_place(), base)))?;
    Ok((experiment, text))
}

/// Keys whose last part is not the name of their flag, and the flag. All others have a flag of this name, or none.
const FLAGS_OF_KEYS: [(&str, &str); 11] = [
    ("architectures", "arch"),
    ("client.processes", "client-processes"),
    ("network.clients", "network"),
    ("placement.client", "client-cpus"),
    ("placement.server", "server-cpus"),
    ("placement.shared", "share-cpus"),
    ("workload.http.headers", "header"),
    ("workload.http.length", "expect-length"),
    ("workload.http.paths", "path"),
    ("workload.http.requests", "requests-file"),
    ("workload.http.status", "expect-status"),
];

/// Appends the flag of the key with which an error begins, unless the error names it or the key comes from a file. Rates, profiles and
/// traces have flags of single commands.
fn with_flag(message: String, base: &BaseArgs) -> String {
    let key = message.split(':').next().unwrap_or_default();
    let row = FLAGS_OF_KEYS.iter().find(|(of, _)| *of == key);
    let name = row.map_or(key.rsplit('.').next().unwrap_or_default(), |(_, flag)| *flag);
    let flags = SetupArgs::augment_args(clap::Command::default());
    let is_flag = flags.get_arguments().any(|arg| arg.get_long() == Some(name) && base.has_key_of(arg.get_id()));
    let flag = format!("--{name}");
    if is_flag && !message.contains(&flag) { format!("{message} (flag {flag})") } else { message }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;
    use load::config::validate::RULES;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        base: BaseArgs,
        #[command(flatten)]
        setup: SetupArgs,
    }

    #[test]
    fn errors_of_keys_from_a_file_name_no_flag() {
        for (line, has_flag) in [
            ("compare", true),
            ("compare mine.toml", false),
            ("compare mine.toml --connections 9", false),
            ("compare mine.toml --connections 9 --think 1ms", true),
        ] {
            let Line { base, .. } = Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}"));
            let message = with_flag("workload.think: only a closed loop has think times".to_owned(), &base);
            assert_eq!(message.ends_with("(flag --think)"), has_flag, "{line}: {message}");
        }
    }

    /// Returns the command line of a file, and the folder of this file, which has two servers, a placebo, a lab, and the lines of `[workload]`.
    fn with_file(workload: &str, flags: &str) -> (tempfile::TempDir, Line) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        let lab = "[network]\nclients = 2\ndelay = '1ms'";
        let text = format!("architectures = ['epoll', 'mt']\nplacebo = true\n{lab}\n[workload]\n{workload}\n");
        std::fs::write(&file, text).unwrap();
        let line = format!("compare {} {flags}", file.display());
        let line = Line::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}"));
        (folder, line)
    }

    #[test]
    fn flags_of_a_lab_keep_the_other_conditions_of_a_file() {
        for (flags, words) in [
            ("", r#"{"clients":2,"delay":"1ms"}"#),
            ("--jitter 500us", r#"{"clients":2,"delay":"1ms","jitter":"500us"}"#),
            ("--network lab:clients=3 --loss 1%", r#"{"clients":3,"delay":"1ms","loss":"1/100"}"#),
        ] {
            let (_folder, Line { base, setup }) = with_file("rate = 9", flags);
            let network = setup.experiment(&base).unwrap().network.unwrap();
            assert_eq!(serde_json::to_string(&network).unwrap(), words, "{flags}");
        }
    }

    #[test]
    fn datagrams_keep_the_response_size_of_a_file() {
        let sizes = |Line { base, setup }: &Line| {
            let workload = setup.experiment(base).unwrap().workload;
            (workload.request, workload.response)
        };
        let (_folder, line) = with_file("request = '64B'\nresponse = '2KiB'", "--service udp");
        assert_eq!(sizes(&line), (Some(Size(64)), Some(Size(2 << 10))));
        let (_folder, line) = with_file("request = '64B'\nresponse = '2KiB'", "--service udp --response 9B");
        assert_eq!(sizes(&line), (Some(Size(64)), Some(Size(9))));
        let line = Line::try_parse_from(["compare", "--service", "udp"]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(sizes(&line), (Some(Size(128)), Some(Size(128))), "without a file, a response fits in one packet");
    }

    #[test]
    fn grid_of_datagrams_has_small_responses_unless_given() {
        for (flags, expected) in [("", &[128][..]), ("--response 64B,9B", &[9, 64][..])] {
            let line = format!("atlas --service udp {flags}");
            let line = Line::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}"));
            let cells = line.setup.experiments_of_grid(&line.base, &[], |_, _| Time(1_000_000_000)).unwrap();
            let sizes: BTreeSet<u32> =
                cells.iter().filter_map(|cell| cell.workload.response).map(|size| size.0).collect();
            assert!(sizes.iter().eq(expected), "{flags}: {sizes:?}");
        }
    }

    #[test]
    fn content_of_a_target_of_http_may_have_any_length() {
        for url in ["http://127.0.0.1:1", "unix:/tmp/x"] {
            let response = |flags: &str| {
                let line = format!("compare --target a={url} --service http {flags}");
                let line = Line::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}"));
                line.setup.experiment(&line.base).unwrap().workload.response
            };
            assert_eq!((response(""), response("--response 1KiB")), (None, Some(Size(1 << 10))), "{url}");
        }
    }

    #[test]
    fn constant_sends_of_a_search_run_one_at_a_time() {
        for (schedule, interleave) in [("constant", Interleave::Never), ("poisson", Interleave::Auto)] {
            let (_folder, line) = with_file(&format!("schedule = '{schedule}'"), "");
            let mut experiment = line.setup.experiment(&line.base).unwrap();
            set_slices_of_search(&mut experiment, &[]).unwrap();
            assert_eq!(experiment.interleave, interleave);
        }
    }

    #[test]
    fn race_has_no_placebo() {
        let (_folder, Line { base, setup }) = with_file("rate = 9", "");
        assert!(setup.experiment(&base).unwrap().placebo);
        assert!(!setup.experiment_of_race(&base, |_| Time(1_000_000_000)).unwrap().placebo);
        assert!(!setup.experiments_of_grid(&base, &[Rate(9.0)], |_, _| Time(1_000_000_000)).unwrap()[0].placebo);
    }

    #[test]
    fn traffic_with_its_own_rate_is_refused_by_commands_that_set_it() {
        for (workload, words) in
            [("schedule = 'closed'", "sweep needs an open loop"), ("trace = { file = 'x.csv' }", "remove the trace")]
        {
            let (_folder, Line { base, setup }) = with_file(workload, "");
            let error = setup.experiment_of_rates(&base, "sweep", Time(1)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn errors_of_keys_name_their_flags() {
        let with_flag = |message| with_flag(message, &BaseArgs::default());
        for (message, flag) in [
            ("workload.think: only a closed loop has think times", Some("--think")),
            ("architectures: \"mt\" appears twice", Some("--arch")),
            ("workload.tls: remove the TLS settings (--tls)", None),
            ("workload.kv: remove it", None),
            ("expected a rate", None),
        ] {
            let expected = flag.map_or(message.to_owned(), |flag| format!("{message} (flag {flag})"));
            assert_eq!(with_flag(message.to_owned()), expected);
        }
        for (key, flag) in FLAGS_OF_KEYS {
            assert_eq!(with_flag(format!("{key}: x")), format!("{key}: x (flag --{flag})"));
        }
        // Tables, and the flags of single commands.
        let none = "workload.http workload.kv workload.stream workload.rate workload.profile workload.trace \
                    workload.trace.speed";
        for rule in RULES {
            let has_flag = with_flag(format!("{}: x", rule.key)).contains("--");
            assert_eq!(has_flag, !none.split(' ').any(|key| key == rule.key), "{rule}");
        }
    }
}
