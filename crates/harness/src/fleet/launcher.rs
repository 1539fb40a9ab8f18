//! Which rank this process is, and where the first one is to be met: from the environment that an engine gives to what it
//! starts. The engine places, starts, watches and ends processes; nothing here does.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::Command;
use std::time::{Duration, Instant};

use super::secret::Secret;
use crate::spec::transport::Transport;

/// The variable with a job's secret.
const SECRET: &str = "MUXBENCH_SECRET";
/// Why a secret that the user has set may be known to others.
const SHORT: &str = "a MUXBENCH_SECRET of fewer than 16 characters can be found by trying";
/// The variable in which Open MPI keeps the key that it draws for a job, for the transports between its ranks. Its prefix differs
/// between versions.
const OPEN_MPI_KEY: &str = "precondition_transports";

/// Whether a variable has what only ranks are to know: our secret, what an engine would have us make it of, or what lets its owner
/// act as the user towards an engine.
pub(crate) fn is_secret(variable: &str) -> bool {
    const ENGINES: [&str; 8] = ["OMPI_", "OPAL_", "ORTE_", "PRTE_", "PMIX_", "PMI_", "SLURM", "HYDRA_"];
    const SECRETS: [&str; 5] = ["KEY", "SECRET", "TOKEN", "JWT", "PASSWORD"];
    let is_of_engine = ENGINES.iter().any(|engine| variable.starts_with(engine));
    variable == SECRET
        || is_of_engine
            && (variable.ends_with(OPEN_MPI_KEY) || SECRETS.iter().any(|it| variable.to_ascii_uppercase().contains(it)))
}

/// Ports below those that systems choose by themselves, one of which a job's number stands for.
const PORTS: std::ops::Range<u32> = 20_000..30_000;

/// A rank's place in its job.
#[derive(Clone, Debug, PartialEq)]
pub struct Membership {
    /// Who started it, for the reader.
    pub launcher: &'static str,
    /// Which one it is, from 0.
    pub rank: u32,
    /// How many there are.
    pub ranks: u32,
    /// Where the first rank listens: names or addresses of its host, which are tried in turn.
    pub hosts: Vec<String>,
    /// Its port.
    pub port: u16,
    /// What all of them know.
    pub secret: Secret,
    /// Why others than this job's ranks might know that, too.
    pub weakness: Option<&'static str>,
    /// How requests are to get to the server, where that is known: it listens where the ranks have reached the first one.
    pub transport: Option<Transport>,
}

/// An engine: how it is told, and what it says.
type Engine = fn(&dyn Fn(&str) -> Option<String>) -> Option<Result<Membership, String>>;

/// In the order in which they are asked: what was said by hand is first; and Slurm's `srun` may start what `mpirun` of Open MPI
/// then divides.
const ENGINES: &[Engine] = &[by_hand, open_mpi, slurm, kubernetes];

/// This process's place, as its environment says.
///
/// # Errors
/// When it does not, or not enough: what is missing.
pub fn membership() -> Result<Membership, String> {
    membership_in(&|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// The place of a process with such an environment.
///
/// # Errors
/// As [`place`].
pub fn membership_in(variable: &dyn Fn(&str) -> Option<String>) -> Result<Membership, String> {
    let found = ENGINES.iter().find_map(|engine| engine(variable));
    let mut place = found.unwrap_or_else(|| {
        Err("--fleet: no engine has started this: start it by srun, mpirun or as a Kubernetes indexed job, or set \
             MUXBENCH_RANK, MUXBENCH_RANKS, MUXBENCH_RENDEZVOUS (HOST:PORT of rank 0) and MUXBENCH_SECRET"
            .into())
    })?;
    if let Some(meeting) = variable("MUXBENCH_RENDEZVOUS") {
        (place.hosts, place.port) = rendezvous(&meeting)?;
    }
    if let Some(secret) = variable(SECRET) {
        place.secret = Secret::new(&secret);
        place.weakness = place.secret.is_short().then_some(SHORT);
    }
    let Membership { rank, ranks, .. } = place;
    if ranks < 2 || rank >= ranks {
        return Err(format!(
            "--fleet: this is rank {rank} of {ranks}; a fleet has at least 2, the first for the server, the others clients"
        ));
    }
    Ok(place)
}

/// Where a place is written as `HOST:PORT`, or `[ADDRESS]:PORT`.
fn rendezvous(text: &str) -> Result<(Vec<String>, u16), String> {
    let wrong = || format!("MUXBENCH_RENDEZVOUS: `{text}` is no HOST:PORT; write one like node1:20000");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(wrong());
    }
    Ok((vec![host.to_owned()], port.parse().map_err(|_| wrong())?))
}

/// A variable's number.
fn number(variable: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<u32, String> {
    let value =
        variable(name).ok_or_else(|| format!("--fleet: {name} is not set, which says a part of this rank's place"))?;
    value.parse().map_err(|_| format!("{name}: `{value}` is no number"))
}

/// The port that stands for a job: two that run at the same time on one host have other ones, most of the time.
fn port_of(job: u64) -> u16 {
    // A multiplicative hash is enough.
    let mixed = job.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (PORTS.start + mixed as u32 % (PORTS.end - PORTS.start)) as u16
}

fn by_hand(variable: &dyn Fn(&str) -> Option<String>) -> Option<Result<Membership, String>> {
    variable("MUXBENCH_RANK")?;
    Some(described("hand", variable, ["MUXBENCH_RANK", "MUXBENCH_RANKS"]))
}

/// An indexed job's pods know which they are, and nothing else: the manifest says the rest.
fn kubernetes(variable: &dyn Fn(&str) -> Option<String>) -> Option<Result<Membership, String>> {
    variable("JOB_COMPLETION_INDEX")?;
    Some(described("Kubernetes", variable, ["JOB_COMPLETION_INDEX", "MUXBENCH_RANKS"]))
}

/// Where the engine says only the rank, or not even that.
fn described(
    engine: &'static str,
    variable: &dyn Fn(&str) -> Option<String>,
    [rank, ranks]: [&str; 2],
) -> Result<Membership, String> {
    let missing = |name| format!("--fleet: {name} is not set; set it to the same in all ranks");
    let (hosts, port) = rendezvous(&variable("MUXBENCH_RENDEZVOUS").ok_or_else(|| missing("MUXBENCH_RENDEZVOUS"))?)?;
    let secret = Secret::new(&variable(SECRET).ok_or_else(|| missing(SECRET))?);
    let (rank, ranks) = (number(variable, rank)?, number(variable, ranks)?);
    Ok(Membership { launcher: engine, rank, ranks, hosts, port, secret, weakness: None, transport: None })
}

/// Slurm: the first task runs on the step's first node.
fn slurm(variable: &dyn Fn(&str) -> Option<String>) -> Option<Result<Membership, String>> {
    variable("SLURM_PROCID")?;
    let read = || {
        let job = number(variable, "SLURM_JOB_ID")?;
        let step = variable("SLURM_STEP_ID").unwrap_or_default();
        let nodes = variable("SLURM_STEP_NODELIST").or_else(|| variable("SLURM_JOB_NODELIST"));
        let nodes = nodes.ok_or("--fleet: SLURM_STEP_NODELIST is not set; start it by srun")?;
        let ranks = if variable("SLURM_STEP_NUM_TASKS").is_some() { "SLURM_STEP_NUM_TASKS" } else { "SLURM_NTASKS" };
        Ok(Membership {
            launcher: "Slurm",
            rank: number(variable, "SLURM_PROCID")?,
            ranks: number(variable, ranks)?,
            hosts: vec![first_host(&nodes).to_owned()],
            port: port_of(u64::from(job) << 32 | u64::from(step.parse::<u32>().unwrap_or(0))),
            secret: Secret::new(&format!("slurm {job} {step} {nodes}")),
            weakness: Some("the number of a Slurm job and its nodes are no secret to users of the cluster"),
            transport: None,
        })
    };
    Some(read())
}

/// The first of a list of hosts as Slurm writes it: `node[03-05,9]-ib,other`.
fn first_host(list: &str) -> String {
    let (mut host, mut rest) = (String::new(), list);
    while let Some(at) = rest.find(['[', ',']) {
        host += &rest[..at];
        let Some(inside) = rest[at..].strip_prefix('[') else { return host };
        let (numbers, after) = inside.split_once(']').unwrap_or((inside, ""));
        host += numbers.split([',', '-']).next().unwrap_or_default();
        // What follows may have brackets of its own.
        rest = after;
    }
    host + rest
}

/// Open MPI 4: ranks know where `mpirun` runs, and share a key that it drew for them. ConnectedWorker 0 has to run there, too, as it does
/// when that host is the first in the hostfile; if not, MUXBENCH_RENDEZVOUS says where it does.
fn open_mpi(variable: &dyn Fn(&str) -> Option<String>) -> Option<Result<Membership, String>> {
    variable("OMPI_COMM_WORLD_RANK")?;
    let read = || {
        let job = variable("OMPI_MCA_ess_base_jobid").or_else(|| variable("PMIX_NAMESPACE")).unwrap_or_default();
        let hosts = variable("OMPI_MCA_orte_hnp_uri").map(|uri| hosts_of(&uri)).unwrap_or_default();
        if hosts.is_empty() && variable("MUXBENCH_RENDEZVOUS").is_none() {
            return Err(
                "--fleet: this mpirun does not say where it runs; set MUXBENCH_RENDEZVOUS to HOST:PORT of rank 0, \
                        with `mpirun -x MUXBENCH_RENDEZVOUS`"
                    .to_owned(),
            );
        }
        let key = variable(&format!("OMPI_MCA_orte_{OPEN_MPI_KEY}"));
        let weakness = "the number of an mpirun's job can be guessed";
        Ok(Membership {
            launcher: "Open MPI",
            rank: number(variable, "OMPI_COMM_WORLD_RANK")?,
            ranks: number(variable, "OMPI_COMM_WORLD_SIZE")?,
            hosts,
            port: port_of(job.bytes().fold(0, |job, byte| job << 5 ^ job >> 59 ^ u64::from(byte))),
            weakness: key.is_none().then_some(weakness),
            secret: Secret::new(&format!("open-mpi {job} {}", key.unwrap_or_default())),
            transport: None,
        })
    };
    Some(read())
}

/// The addresses in `123.0;tcp://10.0.0.1,172.17.0.2:4711;tcp6://[fd00::2]:4712`.
fn hosts_of(uri: &str) -> Vec<String> {
    let parts = uri.split(';').filter_map(|part| part.strip_prefix("tcp://").or(part.strip_prefix("tcp6://")));
    let hosts = parts.filter_map(|part| part.rsplit_once(':')).flat_map(|(hosts, _)| hosts.split(','));
    hosts.map(|host| host.trim_start_matches('[').trim_end_matches(']').to_owned()).collect()
}

/// Names are looked up so often at most while nobody answers.
const LOOK_UP_EVERY: Duration = Duration::from_secs(1);

/// Where the first rank may be reached, as names are known by now.
pub(super) struct Addresses<'a> {
    place: &'a Membership,
    known: Vec<SocketAddr>,
    /// What Slurm said of nodes, which stays so.
    nodes: BTreeMap<&'a str, String>,
    looked_up: Option<Instant>,
}

impl<'a> Addresses<'a> {
    pub(super) fn of(place: &'a Membership) -> Self {
        Self { place, known: Vec::new(), nodes: BTreeMap::new(), looked_up: None }
    }

    /// Those at this moment, first where the first rank may be reached by the transport.
    pub(super) fn at(&mut self, now: Instant) -> &[SocketAddr] {
        self.at_by(now, &mut address_of_node)
    }

    fn at_by(&mut self, now: Instant, address_of_node: &mut dyn FnMut(&str) -> Option<String>) -> &[SocketAddr] {
        if self.looked_up.is_none_or(|before| now >= before + LOOK_UP_EVERY) {
            self.looked_up = Some(now);
            self.known = self.look_up(address_of_node);
        }
        &self.known
    }

    fn look_up(&mut self, address_of_node: &mut dyn FnMut(&str) -> Option<String>) -> Vec<SocketAddr> {
        let place = self.place;
        let of = |host: &str| (host, place.port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let mut addresses = Vec::new();
        for host in &place.hosts {
            if let Ok(found) = of(host) {
                addresses.extend(found);
            } else if place.launcher == "Slurm" {
                // A node's name is Slurm's, and needs not be known to anybody else.
                if !self.nodes.contains_key(host.as_str()) {
                    self.nodes.extend(address_of_node(host).map(|address| (host.as_str(), address)));
                }
                addresses.extend(self.nodes.get(host.as_str()).and_then(|it| of(it).ok()).unwrap_or_default());
            }
        }
        addresses.sort_by_key(|address| match place.transport {
            Some(Transport::Tcp) => address.is_ipv6(),
            Some(Transport::Tcp6) => address.is_ipv4(),
            Some(Transport::Unix) | None => false,
        });
        addresses
    }
}

/// What Slurm knows of a node.
fn address_of_node(name: &str) -> Option<String> {
    let output = Command::new("scontrol").args(["show", "node", "--oneliner", name]).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.split_whitespace().find_map(|word| word.strip_prefix("NodeAddr=")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(environment: &[(&str, &str)]) -> Result<Membership, String> {
        membership_in(&|name| environment.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned()))
    }

    const SLURM: &[(&str, &str)] = &[
        ("SLURM_PROCID", "2"),
        ("SLURM_NTASKS", "6"),
        ("SLURM_JOB_ID", "4711"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_STEP_NODELIST", "node[03-05,9]"),
    ];

    #[test]
    fn a_list_s_first_host() {
        for (list, first) in [
            ("node1", "node1"),
            ("a,b", "a"),
            ("node[03-05,9],x", "node03"),
            ("node[7,9]-ib", "node7-ib"),
            ("r[1-2]n[3-4]", "r1n3"),
            ("node[", "node"),
            (&"[".repeat(100_000), &"[".repeat(99_999)),
        ] {
            assert_eq!(first_host(list), first, "{list}");
        }
    }

    #[test]
    fn slurm_says_all_that_is_needed() {
        let place = place_of(SLURM).unwrap();
        assert_eq!((place.rank, place.ranks, place.hosts.join(" ")), (2, 6, "node03".into()));
        assert!(PORTS.contains(&place.port.into()) && place.weakness.is_some());
        let other = place_of(&[&[("SLURM_STEP_ID", "1")], SLURM].concat()).unwrap();
        assert_ne!((other.port, other.secret), (place.port, place.secret.clone()), "another step of the job");
        let told = place_of(&[&[("MUXBENCH_SECRET", "x"), ("MUXBENCH_RENDEZVOUS", "[fd00::2]:7")], SLURM].concat());
        let told = told.unwrap();
        assert_eq!((told.hosts.join(" "), told.port, told.weakness), ("fd00::2".into(), 7, Some(SHORT)));
        assert_ne!(told.secret, place.secret);
        let told = place_of(&[&[("MUXBENCH_SECRET", "0123456789abcdef")], SLURM].concat()).unwrap();
        assert_eq!(told.weakness, None);
    }

    #[test]
    fn short_secret_is_a_weakness() {
        let by_hand = [
            ("MUXBENCH_RANK", "1"),
            ("MUXBENCH_RANKS", "2"),
            ("MUXBENCH_RENDEZVOUS", "node1:20000"),
            ("SLURM_PROCID", "2"),
        ];
        for engine in [SLURM, &by_hand] {
            let of = |secret: &str| place_of(&[&[("MUXBENCH_SECRET", secret)], engine].concat()).unwrap().weakness;
            assert_eq!([of("open sesame"), of("0123456789abcde")], [Some(SHORT); 2]);
            assert_eq!(of("0123456789abcdef"), None);
        }
    }

    #[test]
    fn variable_of_a_key_or_a_secret_is_known_by_its_name() {
        let secrets = "MUXBENCH_SECRET OMPI_MCA_orte_precondition_transports PRTE_MCA_prte_precondition_transports SLURM_JWT \
                       PMIX_SECURITY_KEY";
        let others = "MUXBENCH_RANK OMPI_COMM_WORLD_RANK OMPI_MCA_orte_hnp_uri SLURM_PROCID SLURM_JOB_ID PATH SSH_AUTH_SOCK \
                      DATABASE_KEY";
        for (variables, expected) in [(secrets, true), (others, false)] {
            assert!(variables.split_whitespace().all(|it| is_secret(it) == expected), "{variables}");
        }
    }

    #[test]
    fn open_mpi_says_where_mpirun_runs() {
        let environment = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_MCA_ess_base_jobid", "2129199105"),
            ("OMPI_MCA_orte_hnp_uri", "2129199104.0;tcp://192.0.2.2,10.0.0.1:57189;tcp6://[fd00::2]:44197"),
            ("OMPI_MCA_orte_precondition_transports", "49f14dd8d0400a60-00d8199dda20d35d"),
        ];
        let place = place_of(&environment).unwrap();
        assert_eq!(place.hosts, ["192.0.2.2", "10.0.0.1", "fd00::2"]);
        assert_eq!((place.rank, place.ranks, place.weakness), (1, 2, None));
        let hosts = |transport| {
            let place = Membership { transport, ..place.clone() };
            Addresses::of(&place).at(Instant::now()).iter().map(|it| it.ip().to_string()).collect::<Vec<_>>()
        };
        for transport in [None, Some(Transport::Tcp), Some(Transport::Unix)] {
            assert_eq!(hosts(transport), place.hosts);
        }
        assert_eq!(hosts(Some(Transport::Tcp6)), ["fd00::2", "192.0.2.2", "10.0.0.1"]);
        assert!(place_of(&environment[..3]).unwrap_err().contains("mpirun -x MUXBENCH_RENDEZVOUS"));
    }

    #[test]
    fn slurm_is_asked_for_a_node_until_it_says_and_each_second_at_most() {
        let place = place_of(SLURM).unwrap();
        // No resolver is even asked for it.
        let place = Membership { hosts: vec!["node\0".into()], ..place };
        let (started, mut addresses) = (Instant::now(), Addresses::of(&place));
        let mut asked_ms = Vec::new();
        for ms in (0..10_000).step_by(100) {
            let found = addresses.at_by(started + Duration::from_millis(ms), &mut |node| {
                assert_eq!(node, "node\0");
                asked_ms.push(ms);
                (asked_ms.len() == 3).then(|| "192.0.2.7".to_owned())
            });
            let expected = [SocketAddr::from(([192, 0, 2, 7], place.port))];
            assert_eq!(found, if ms < 2_000 { &[][..] } else { &expected }, "{ms}");
        }
        assert_eq!(asked_ms, [0, 1_000, 2_000]);
    }

    #[test]
    fn what_no_engine_says_is_to_be_set() {
        assert!(place_of(&[]).unwrap_err().contains("srun, mpirun"));
        let index = ("JOB_COMPLETION_INDEX", "3");
        let all = [
            index,
            ("MUXBENCH_RANKS", "6"),
            ("MUXBENCH_RENDEZVOUS", "muxbench-0.fleet:20000"),
            ("MUXBENCH_SECRET", "x"),
        ];
        let place = place_of(&all).unwrap();
        assert_eq!((place.launcher, place.rank, place.ranks, place.port), ("Kubernetes", 3, 6, 20_000));
        for at in 1..4 {
            let (missing, others) = (all[at].0, all.iter().enumerate().filter(|(it, _)| *it != at));
            let others: Vec<_> = others.map(|(_, variable)| *variable).collect();
            assert!(place_of(&others).unwrap_err().contains(missing), "{missing}");
        }
        let alone = [("MUXBENCH_RANK", "0"), ("MUXBENCH_RANKS", "1"), all[2], all[3]];
        assert!(place_of(&alone).unwrap_err().contains("at least 2"));
        let nonsense = [("MUXBENCH_RANK", "0"), ("MUXBENCH_RANKS", "2"), ("MUXBENCH_RENDEZVOUS", "node"), all[3]];
        assert!(place_of(&nonsense).unwrap_err().contains("no HOST:PORT"));
    }
}
