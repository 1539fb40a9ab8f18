//! Architecture names: `MODEL[:THREADS][/MECHANISM]`, where THREADS is `N` or `NETWORK+PAYLOAD`.

use std::fmt;
use std::str::FromStr;

use wire::{Address, ServiceSpec, names};

use crate::platform;
use crate::registry::{BUFFERED, MECHANISMS, MODELS, MechanismRow, Model, find_mechanism, find_model};
use crate::runtimes;
use crate::socket::steering;
use crate::spec::accept::Accept;
use crate::spec::busy_poll::BusyPoll;
use crate::spec::controllers::Controllers;
use crate::spec::datagrams::DatagramOptions;
use crate::spec::mechanism::{BusyPolls, DEFAULT, Family, NEEDS_NETWORK};
use crate::spec::model::{ModelRow, PayloadStage, PerConnection, THREADS_MAX, Threads};
use crate::spec::options::Stall;
use crate::spec::read_budget::ReadBudget;

/// A name for several architectures.
#[derive(Debug)]
pub struct Group {
    /// The name in `--arch`.
    pub name: &'static str,
    /// One line for `muxbench list`.
    pub about: &'static str,
    /// Tests whether a model belongs to the group.
    has: fn(&ModelRow) -> bool,
}

/// All groups.
pub const GROUPS: &[Group] = &[
    Group { name: "all", about: "every architecture above", has: |_| true },
    Group {
        name: "processes",
        about: "a process for each connection: mp and its pool",
        has: |model| model.per_connection == PerConnection::Process,
    },
    Group {
        name: "threads",
        about: "a thread for each connection: mt and its pool",
        has: |model| model.per_connection == PerConnection::Thread,
    },
    Group { name: "runtimes", about: "the async runtimes", has: |model| model.is_runtime() },
];

/// The bits of the map of eligible workers.
const HERMES_WORKERS_MAX: u32 = u64::BITS;

/// The end of the error for an unknown name; empty on Linux.
const ELSEWHERE: &str = if cfg!(target_os = "linux") { "" } else { " on this system (some need Linux)" };

/// A model with its mechanism. Architectures with the same name are equal.
#[derive(Clone, Copy)]
pub struct Architecture {
    /// The row of [`MODELS`].
    pub model: &'static Model,
    /// The numbers of threads or processes in the name, or the defaults of the model; `None` if there are neither.
    pub threads: Option<Threads>,
    /// The row of [`MECHANISMS`]; `None` for models without a mechanism.
    pub mechanism: Option<&'static MechanismRow>,
}

impl Architecture {
    /// A one-line description.
    pub fn about(&self) -> String {
        match self.mechanism {
            None => self.model.about.to_owned(),
            Some(mechanism) => format!("{}: {}", self.model.about, mechanism.about),
        }
    }

    /// Required kernel features, beyond those of every supported Linux; empty for most.
    pub fn needs(&self) -> String {
        let needs = [self.model.needs, self.mechanism.map_or("", |row| row.needs)];
        needs.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// Checks whether the architecture can run on this host.
    pub fn can_run(&self) -> Result<(), String> {
        (self.model.can_run)()?;
        self.mechanism.map_or(Ok(()), |row| (row.can_run)())
    }

    /// Checks whether the architecture can serve `service`.
    pub fn can_serve(&self, service: &ServiceSpec) -> Result<(), String> {
        let (model, name, has_datagrams) = (self.model.name, service.name(), service.ports().is_some());
        Err(if has_datagrams && self.is_buffered() {
            format!(
                "`{self}` cannot serve `{name}`: it buffers only connections; choose the architecture without `-buffered`"
            )
        } else if has_datagrams && !self.model.serves_datagrams() {
            format!(
                "`{model}` cannot serve `{name}`: datagrams have no connections to hand over; choose sped over any mechanism \
                 (`epoll`, `poll`), symped with the accept strategy reuseport, `mt` or `mp`"
            )
        } else if let (true, Some(MechanismRow { name: mechanism, serves_datagrams: false, .. })) =
            (has_datagrams, self.mechanism)
        {
            format!("`{mechanism}` cannot serve `{name}`: its property acts only on connections; choose io_uring")
        } else if service.is_shared() && self.model.per_connection == PerConnection::Process {
            format!(
                "`{model}` cannot serve `{name}`: its processes share no memory, so each would have its own store; choose \
                 `mt` or `mt-pool`"
            )
        } else {
            return Ok(());
        })
    }

    /// Checks whether the architecture keeps to `budget` with `service`.
    pub fn can_bound_reads(&self, budget: ReadBudget, service: &ServiceSpec) -> Result<(), String> {
        match self.mechanism {
            Some(MechanismRow { name, bounds_reads: false, .. }) if !budget.of(service).is_default() => Err(format!(
                "`{name}` cannot keep to a read budget: one receive may report all bytes that have arrived; choose io_uring, or \
                 omit the budget and by-packet"
            )),
            _ => Ok(()),
        }
    }

    /// Checks whether the architecture, on this host, can receive and send datagrams in this way.
    pub fn can_batch(&self, options: DatagramOptions) -> Result<(), String> {
        match self.mechanism {
            _ if options.is_default() => Ok(()),
            Some(MechanismRow { family: Family::Completion, .. }) => Err(format!(
                "`{self}` cannot batch datagrams: each request to io_uring has one message, and its queue is the batch; choose epoll \
                 or another readiness mechanism, `mt` or `mp`"
            )),
            _ => platform::can_batch_datagrams(options.offload),
        }
    }

    /// The system calls that can poll the network interface.
    pub(crate) fn busy_polls(&self) -> BusyPolls {
        match (self.mechanism, self.model.per_connection) {
            (Some(row), _) => row.busy_polls,
            (None, PerConnection::Thread | PerConnection::Process) => BusyPolls::Receives,
            (None, PerConnection::Nothing | PerConnection::Stack) => BusyPolls::Nothing,
        }
    }

    /// Checks whether the architecture, on this host, can poll the network interface.
    pub fn can_busy_poll(&self, poll: BusyPoll) -> Result<(), String> {
        match self.busy_polls() {
            BusyPolls::Nothing => Err(format!(
                "`{self}` cannot poll the network interface: its waits cannot, or do so only by a setting of the whole host \
                 (net.core.busy_poll); choose epoll, io_uring, io_uring-poll, spin, mt or mp, or omit the option"
            )),
            BusyPolls::Ring if poll.budget != BusyPoll::BUDGET => Err(format!(
                "`{self}` cannot poll with a budget of {}: the kernel sets the budget of io_uring; omit it, or choose epoll",
                poll.budget
            )),
            by => platform::busy_poll::can_busy_poll(by, poll),
        }
    }

    /// Whether a layer above the sockets copies each packet ([`BUFFERED`], or `mt-buffered`).
    pub fn is_buffered(&self) -> bool {
        self.model.is_buffered
            || self.mechanism.is_some_and(|row| BUFFERED.iter().any(|buffered| buffered.name == row.name))
    }

    /// Checks whether the architecture can serve connections to `listen`.
    pub fn can_listen(&self, listen: &Address) -> Result<(), String> {
        match (listen, self.mechanism) {
            (Address::Unix(_), Some(MechanismRow { name, .. })) if NEEDS_NETWORK.contains(name) => Err(format!(
                "`{name}` cannot serve a Unix socket: the kernel has no zero-copy sends for it; choose another mechanism, or \
                 listen on TCP"
            )),
            (Address::Unix(_), _) if self.model.has_own_listeners && self.network_threads() > 1 => Err(format!(
                "`{self}` cannot serve a Unix socket: each thread needs a listener of its own, and the kernel distributes only TCP \
                 connections over several; choose {}, or listen on TCP",
                self.model.name
            )),
            _ => Ok(()),
        }
    }

    /// The pool's largest size, by default `connections_max`; `None` for a model without a pool.
    pub fn pool_size(&self, connections_max: u32) -> Option<u32> {
        let most = |threads: Threads| threads.most.unwrap_or(threads.network);
        self.model.is_pool().then(|| self.threads.map_or(connections_max, most))
    }

    /// The highest number of serving threads that can use CPUs at once; `None` if it depends on the connections.
    pub fn threads_at_once(&self) -> Option<u32> {
        let network = self.network_threads();
        match self.model.stages.map(|stages| stages.payload) {
            Some(PayloadStage::InNetwork) => Some(network),
            Some(PayloadStage::Threads | PayloadStage::Offloading) => {
                Some(network + self.threads.and_then(|threads| threads.payload).unwrap_or(1))
            }
            Some(PayloadStage::Paired) => Some(2 * network),
            None if self.model.is_runtime() => Some(network),
            None => self.threads.map(|threads| threads.most.unwrap_or(threads.network)),
        }
    }

    /// The number of network threads; 1 if the accept thread is the only one.
    fn network_threads(&self) -> u32 {
        self.threads.unwrap_or_default().network.max(1)
    }

    /// The members of the group `name`; `None` without such a group.
    pub fn group(name: &str) -> Option<Vec<Self>> {
        let group = GROUPS.iter().find(|group| group.name == name)?;
        Some(Self::all().into_iter().filter(|row| (group.has)(row.model)).collect())
    }

    /// `sped` with every mechanism, and every other model with its default threads and mechanism.
    pub fn all() -> Vec<Self> {
        let is_short = |row: &Self| row.model.name == "sped" || row.mechanism.is_none_or(|row| row.name == DEFAULT);
        Self::every().into_iter().filter(is_short).collect()
    }

    /// Every model with every mechanism that it supports, with default threads, in the order of the tables. Omits those
    /// with a buffering layer.
    pub fn every() -> Vec<Self> {
        Self::over(MECHANISMS).into_iter().filter(|row| !row.is_buffered()).collect()
    }

    /// The models with a buffering layer, and `sped` with each mechanism of [`BUFFERED`].
    pub fn buffered() -> Vec<Self> {
        let is_short = |row: &Self| row.model.is_buffered || row.model.name == "sped";
        Self::over(BUFFERED).into_iter().filter(is_short).collect()
    }

    fn over(mechanisms: &'static [MechanismRow]) -> Vec<Self> {
        let mut every = Vec::new();
        for model in MODELS {
            let threads = Threads::default_of(model);
            if model.multiplexes() {
                let mechanisms = mechanisms.iter().filter(|row| fits(model, row).is_ok());
                every.extend(mechanisms.map(|row| Self { model, threads, mechanism: Some(row) }));
            } else {
                every.push(Self { model, threads, mechanism: None });
            }
        }
        every
    }
}

impl Accept {
    /// Checks whether `architecture` supports this strategy.
    pub fn check(self, architecture: Architecture) -> Result<(), String> {
        let Architecture { model, mechanism, .. } = architecture;
        let wakes_exclusively = mechanism.is_some_and(|row| row.wakes_exclusively);
        match self {
            Self::Single if model.is_pool() && model.per_connection == PerConnection::Process => Err(format!(
                "`{architecture}` cannot use the accept strategy `single`: it does not pass descriptors between processes; choose \
                 shared or exclusive, or `mt-pool`"
            )),
            _ if self != Self::Shared && architecture.threads.is_some_and(|threads| threads.most.is_some()) => {
                Err(format!(
                    "`{architecture}` cannot use the accept strategy `{self}`: the threads of a pool that grows accept from one \
                 listener; choose shared, or a pool of one size"
                ))
            }
            // SO_REUSEPORT distributes connections over listeners only on Linux.
            Self::Reuseport if model.has_network_threads() && cfg!(target_os = "linux") => Ok(()),
            Self::Exclusive if model.has_network_threads() && wakes_exclusively => Ok(()),
            // Only network threads report their state, and only their CPUs are fixed.
            Self::ReuseportCpu | Self::IncomingCpu | Self::ReuseportLeast | Self::Hermes
                if !model.has_network_threads() || !cfg!(target_os = "linux") =>
            {
                Err(format!(
                    "`{architecture}` cannot use the accept strategy `{self}`: the kernel steers connections only to network \
                     threads, and only on Linux; choose symped, seda or seda-s"
                ))
            }
            Self::Hermes if architecture.network_threads() > HERMES_WORKERS_MAX => Err(format!(
                "`{architecture}` cannot use the accept strategy `hermes`: it steers to at most {HERMES_WORKERS_MAX} network \
                 threads; choose fewer, or reuseport-least"
            )),
            Self::Exclusive if model.has_network_threads() => Err(format!(
                "`{architecture}` cannot use the accept strategy `exclusive`: every connection would wake all its \
                 threads; choose epoll or epoll-et, or reuseport"
            )),
            Self::Shared | Self::Reuseport | Self::Exclusive if !model.is_pool() => Err(format!(
                "`{architecture}` cannot use the accept strategy `{self}`: one thread accepts for all; omit the strategy, or \
                 choose mp-prefork or mt-pool (symped, seda and seda-s also support reuseport and, over epoll, exclusive)"
            )),
            _ => Ok(()),
        }
    }

    /// Checks whether this host and this process's privileges allow the strategy, for an architecture that supports it.
    pub fn can_run(self, architecture: Architecture) -> Result<(), String> {
        let workers = architecture.network_threads();
        if self.steers_by_state() {
            return steering::can_load(self, workers as usize);
        }
        let cpus = platform::cpus_online();
        if self.chooses_by_cpu() && workers as usize > cpus {
            return Err(format!(
                "`{self}` gives each connection to the worker of a CPU, so that of the {workers} workers of `{architecture}` only \
                 {cpus} would get connections; choose at most {cpus}, or reuseport-least"
            ));
        }
        Ok(())
    }
}

impl Stall {
    /// Checks whether a server of `architecture` and `service` has a network thread to hold up.
    pub fn check(self, architecture: Architecture, service: &ServiceSpec) -> Result<(), String> {
        if service.ports().is_some() {
            return Err(format!(
                "cannot stall a server of `{}`: a stall holds up connections; omit the stalls, or choose another service",
                service.name()
            ));
        }
        if architecture.model.has_network_threads() {
            return Ok(());
        }
        Err(format!(
            "`{architecture}` has no network threads to stall; omit the stalls, or choose symped, seda or seda-s"
        ))
    }
}

impl Controllers {
    /// Checks whether `architecture` supports the controllers. An error names the remedy.
    pub fn check(&self, architecture: Architecture) -> Result<(), String> {
        if self.is_none() {
            return Ok(());
        }
        if !architecture.model.has_payload_threads() {
            return Err(format!(
                "`{architecture}` has no payload threads to control; omit the controllers, or choose seda, seda-s or amped"
            ));
        }
        let first = architecture.threads.and_then(|threads| threads.payload).unwrap_or(1);
        match self.pool {
            Some(pool) if !(first..=THREADS_MAX).contains(&pool.threads_max) => Err(format!(
                "a pool that starts with {first} threads cannot have at most {}; choose {first} to {THREADS_MAX}",
                pool.threads_max
            )),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.threads.map(|threads| format!(":{threads}")).unwrap_or_default();
        match self.mechanism {
            None => f.pad(&format!("{}{threads}", self.model.name)),
            // A mechanism without a model is the short name of `sped` over this mechanism.
            Some(mechanism) if self.model.name == "sped" => f.pad(mechanism.name),
            Some(mechanism) => f.pad(&format!("{}{threads}/{}", self.model.name, mechanism.name)),
        }
    }
}

impl fmt::Debug for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Checks whether `model` can run over `mechanism`.
fn fits(model: &ModelRow, mechanism: &MechanismRow) -> Result<(), String> {
    if model.has_payload_threads() && mechanism.family == Family::Completion {
        return Err(format!(
            "`{}` cannot run over `{}`: its payload threads write responses, but with this mechanism the kernel writes \
             them; choose symped, or io_uring-poll",
            model.name, mechanism.name
        ));
    }
    Ok(())
}

/// Returns the error for a mechanism in the place of the model, with a model that fits the number of threads.
fn misplaced_mechanism(mechanism: &MechanismRow, threads: Option<&str>) -> String {
    let MechanismRow { name, .. } = mechanism;
    let Some(threads) = threads else {
        return format!("`{name}` is a mechanism, which follows a model; try symped/{name}");
    };
    let named = ["symped", "seda"].map(|model| format!("{model}:{threads}/{name}"));
    let known = named.into_iter().find(|it| it.parse::<Architecture>().is_ok());
    let known = known.unwrap_or_else(|| format!("symped:2/{name}"));
    format!("`{name}` is a single loop and takes no number of threads; try {known}")
}

/// The reason why a name is not an architecture.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown architecture `{name}`: {problem}")]
pub struct UnknownArchitecture {
    name: String,
    problem: String,
}

impl FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let wrong = |problem: String| UnknownArchitecture { name: name.to_owned(), problem };
        let unknown = |problem: String, part: &str| {
            let known = || {
                let known: Vec<String> = Self::all().iter().map(Self::to_string).collect();
                format!("; known: {}", known.join(", "))
            };
            let mechanisms = MECHANISMS.iter().chain(BUFFERED).map(|row| row.name);
            let names =
                MODELS.iter().map(|row| row.name).chain(mechanisms).chain(GROUPS.iter().map(|group| group.name));
            wrong(problem + &names::suggestion_or(part, names, known))
        };
        let split = |text, at| str::split_once(text, at).map_or((text, None), |(head, tail)| (head, Some(tail)));
        let (model_name, mechanism_name) =
            if find_mechanism(name).is_some() { ("sped", Some(name)) } else { split(name, '/') };
        let (model_name, threads) = split(model_name, ':');
        let model = find_model(model_name).ok_or_else(|| {
            if runtimes::FEATURES.contains(&model_name) {
                wrong(format!("`{model_name}` is not compiled in; build with `--features {model_name}`"))
            } else if GROUPS.iter().any(|group| group.name == model_name) {
                wrong(format!("`{model_name}` is a group, which only --arch accepts; name its architectures"))
            } else if let Some(mechanism) = find_mechanism(model_name) {
                wrong(misplaced_mechanism(mechanism, threads))
            } else {
                unknown(format!("no model `{model_name}`{ELSEWHERE}"), model_name)
            }
        })?;
        let threads = match threads {
            Some(threads) => Some(Threads::parse(threads, model).map_err(wrong)?),
            None => Threads::default_of(model),
        };
        let mechanism = match (model.multiplexes(), mechanism_name) {
            (false, None) => None,
            (false, Some(_)) => return Err(wrong(format!("`{model_name}` takes no mechanism"))),
            (true, name) => {
                let name = name.unwrap_or(DEFAULT);
                let mechanism = find_mechanism(name);
                Some(mechanism.ok_or_else(|| unknown(format!("no mechanism `{name}`{ELSEWHERE}"), name))?)
            }
        };
        mechanism.map_or(Ok(()), |row| fits(model, row)).map_err(wrong)?;
        Ok(Self { model, threads, mechanism })
    }
}

impl PartialEq for Architecture {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Architecture {}

wire::serde_as_text!(Architecture);
wire::schema_as!(Architecture, "Architecture", String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_show_defaults() {
        for architecture in Architecture::every().into_iter().chain(Architecture::buffered()) {
            assert_eq!(architecture.to_string().parse(), Ok(architecture), "{architecture}");
        }
        assert!(Architecture::every().iter().all(|architecture| !architecture.is_buffered()));
        assert!(Architecture::buffered().iter().all(Architecture::is_buffered));
        for (name, whole) in [
            ("sped/poll", "poll"),
            ("symped/poll", "symped:2/poll"),
            ("symped:4/spin", "symped:4/spin"),
            ("amped:0+3/select", "amped:0+3/select"),
            ("seda/select", "seda:2+4/select"),
            ("seda-s:3/poll", "seda-s:3/poll"),
        ] {
            assert_eq!(name.parse::<Architecture>().unwrap().to_string(), whole);
        }
    }

    #[test]
    fn invalid_architecture_names_are_refused_with_the_reason() {
        for (name, why) in [
            ("symped:0", "a whole number above 0, as in symped:4"),
            ("symped:1+2", "a whole number above 0"),
            ("symped:1025", "a whole number above 0"),
            ("amped:2+1", "NETWORK from 0 to 1, as in amped:1+2"),
            ("amped:1", "NETWORK+PAYLOAD"),
            ("seda:0+2", "NETWORK from 1 to"),
            ("seda:1+0", "NETWORK+PAYLOAD"),
            ("sped:2", "takes no number"),
            ("mt/poll", "takes no mechanism"),
            ("symped/nothing", "no mechanism `nothing`"),
            ("nothing", "known: "),
            ("pol", "; did you mean `poll`?"),
            ("symped:2/pol", "; did you mean `poll`?"),
            ("threads", "a group"),
            ("poll:2", "`poll` is a single loop and takes no number of threads; try symped:2/poll"),
            ("poll:1+3", "try seda:1+3/poll"),
            ("poll:0", "try symped:2/poll"),
            ("poll/select", "`poll` is a mechanism, which follows a model; try symped/poll"),
            #[cfg(target_os = "linux")]
            ("amped/io_uring", "cannot run over"),
        ] {
            let error = name.parse::<Architecture>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn rows_without_a_difference_or_a_bound_are_refused() {
        let [plain, bundle, files] =
            ["io_uring", "io_uring-bundle", "io_uring-files"].map(|name| name.parse::<Architecture>().unwrap());
        let udp = ServiceSpec::Udp { ports: 1, request_bytes: 8, response_bytes: 8 };
        assert_eq!(plain.can_serve(&udp), Ok(()));
        assert!(files.can_serve(&udp).unwrap_err().starts_with("`io_uring-files` cannot serve `udp`"));
        let fixed = ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        let [small, default] = [ReadBudget::new(1_000).unwrap(), ReadBudget::default()];
        assert_eq!(plain.can_bound_reads(small, &fixed), Ok(()));
        assert_eq!(bundle.can_bound_reads(default, &fixed), Ok(()));
        assert!(bundle.can_bound_reads(small, &fixed).unwrap_err().contains("choose io_uring"));
        let by_packet = ServiceSpec::Stream(wire::stream::Stream { by_packet: true, ..Default::default() });
        assert!(bundle.can_bound_reads(default, &by_packet).is_err());
    }

    #[test]
    fn groups_have_the_models_of_their_kind() {
        let names = |group: &str| -> Vec<&str> {
            Architecture::group(group).unwrap().iter().map(|architecture| architecture.model.name).collect()
        };
        assert!(names("processes").starts_with(&["mp"]) && names("threads").starts_with(&["mt"]));
        assert!(names("threads").iter().all(|name| name.starts_with("mt")), "{:?}", names("threads"));
        assert_eq!(Architecture::group("all"), Some(Architecture::all()));
        assert_eq!(Architecture::group("mt"), None);
        assert!(GROUPS.iter().all(|group| group.name.parse::<Architecture>().is_err()), "no architecture has the name");
    }

    #[test]
    fn default_accept_strategy_suits_its_model() {
        for architecture in Architecture::every() {
            assert_eq!(Accept::default_of(architecture.model).check(architecture), Ok(()), "{architecture}");
        }
    }

    #[test]
    fn serving_threads_are_counted() {
        for (name, threads) in [
            ("poll", Some(1)),
            ("amped:0+2/poll", Some(3)),
            ("seda:2+4/poll", Some(6)),
            ("seda-s:3/poll", Some(6)),
            ("mt", None),
        ] {
            assert_eq!(name.parse::<Architecture>().unwrap().threads_at_once(), threads, "{name}");
        }
    }
}
