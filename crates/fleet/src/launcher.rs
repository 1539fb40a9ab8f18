//! Reads the number of this worker and the address of the first worker from the environment that a launcher sets. The launcher
//! places, starts, watches and ends the workers.

use harness::spec::transport::Transport;
use process::secrets::{OPEN_MPI_KEY, SECRET};

use super::secret::Secret;

const SHORT: &str = "a MUXBENCH_SECRET of fewer than 16 characters can be guessed";
/// Ports below the ephemeral ports. A job's number selects one of them.
const PORTS: std::ops::Range<u32> = 20_000..30_000;

/// The membership of this process in a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Membership {
    /// The launcher's name.
    pub launcher: &'static str,
    /// The number of this worker, from 0.
    pub rank: u32,
    /// The number of workers.
    pub ranks: u32,
    /// Names or addresses of the first worker's host, tried in turn.
    pub hosts: Vec<String>,
    /// The port that the first worker listens on.
    pub port: u16,
    /// The secret of the job.
    pub secret: Secret,
    /// The reason why strangers might know the secret.
    pub weakness: Option<&'static str>,
    /// The transport of requests, if known. A worker prefers to join at an address of its family, as requests go there too.
    pub transport: Option<Transport>,
}

/// Returns the value of an environment variable by its name.
type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Launchers, each with a variable that it sets for its processes. The first match counts. Open MPI precedes Slurm, as a Slurm
/// job may run `mpirun`. Kubernetes sets only a pod's index; the manifest sets muxbench's variables.
const LAUNCHERS: &[(&str, fn(&Environment<'_>) -> Result<Membership, String>)] = &[
    ("MUXBENCH_RANK", |variable| from_our_variables("hand", "MUXBENCH_RANK", variable)),
    ("OMPI_COMM_WORLD_RANK", open_mpi),
    ("SLURM_PROCID", slurm),
    ("JOB_COMPLETION_INDEX", |variable| from_our_variables("Kubernetes", "JOB_COMPLETION_INDEX", variable)),
];

/// The membership that this process's environment defines.
pub fn membership() -> Result<Membership, String> {
    membership_in(&|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// The membership that an environment defines.
pub fn membership_in(variable: &Environment<'_>) -> Result<Membership, String> {
    let launcher = LAUNCHERS.iter().find(|(name, _)| variable(name).is_some()).ok_or(
        "--distributed: no launcher started this process; start it by srun, mpirun or as a Kubernetes indexed job, or set \
         MUXBENCH_RANK, MUXBENCH_RANKS, MUXBENCH_RENDEZVOUS (HOST:PORT of worker 0) and MUXBENCH_SECRET",
    )?;
    let mut membership = launcher.1(variable)?;
    if let Some(rendezvous) = variable("MUXBENCH_RENDEZVOUS") {
        (membership.hosts, membership.port) = host_and_port(&rendezvous)?;
    }
    if let Some(secret) = variable(SECRET) {
        membership.secret = Secret::new(&secret);
        membership.weakness = membership.secret.is_short().then_some(SHORT);
    }
    let Membership { rank, ranks, .. } = membership;
    if ranks < 2 || rank >= ranks {
        return Err(format!(
            "--distributed: this is worker {rank} of {ranks}; start at least 2, the first for the server, the others for clients"
        ));
    }
    Ok(membership)
}

/// Parses `HOST:PORT` or `[ADDRESS]:PORT`.
fn host_and_port(text: &str) -> Result<(Vec<String>, u16), String> {
    let invalid = || format!("MUXBENCH_RENDEZVOUS: invalid address `{text}`: expected HOST:PORT, such as node1:20000");
    let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(invalid());
    }
    Ok((vec![host.to_owned()], port.parse().map_err(|_| invalid())?))
}

fn number(variable: &Environment<'_>, name: &str) -> Result<u32, String> {
    let value =
        variable(name).ok_or_else(|| format!("--distributed: {name} is not set; the launcher should set it"))?;
    value.parse().map_err(|_| format!("{name}: invalid value `{value}`: expected a number"))
}

/// The port of a job. A multiplicative hash gives simultaneous jobs on one host mostly different ports.
fn port_of(job: u64) -> u16 {
    let mixed = job.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (PORTS.start + mixed as u32 % (PORTS.end - PORTS.start)) as u16
}

fn from_our_variables(launcher: &'static str, rank: &str, variable: &Environment<'_>) -> Result<Membership, String> {
    let missing = |name| format!("--distributed: {name} is not set; set it to the same value in all workers");
    let (hosts, port) = host_and_port(&variable("MUXBENCH_RENDEZVOUS").ok_or_else(|| missing("MUXBENCH_RENDEZVOUS"))?)?;
    let secret = Secret::new(&variable(SECRET).ok_or_else(|| missing(SECRET))?);
    let (rank, ranks) = (number(variable, rank)?, number(variable, "MUXBENCH_RANKS")?);
    Ok(Membership { launcher, rank, ranks, hosts, port, secret, weakness: None, transport: None })
}

/// The membership in a Slurm job, whose first task runs on the step's first node.
fn slurm(variable: &Environment<'_>) -> Result<Membership, String> {
    let job = number(variable, "SLURM_JOB_ID")?;
    let step = variable("SLURM_STEP_ID").unwrap_or_default();
    let nodes = variable("SLURM_STEP_NODELIST").or_else(|| variable("SLURM_JOB_NODELIST"));
    let nodes = nodes.ok_or("--distributed: SLURM_STEP_NODELIST is not set; start this process by srun")?;
    let ranks = if variable("SLURM_STEP_NUM_TASKS").is_some() { "SLURM_STEP_NUM_TASKS" } else { "SLURM_NTASKS" };
    Ok(Membership {
        launcher: "Slurm",
        rank: number(variable, "SLURM_PROCID")?,
        ranks: number(variable, ranks)?,
        hosts: vec![first_host(&nodes)],
        port: port_of(u64::from(job) << 32 | u64::from(step.parse::<u32>().unwrap_or(0))),
        secret: Secret::new(&format!("slurm {job} {step} {nodes}")),
        weakness: Some("users of the cluster can see the number and the nodes of a Slurm job"),
        transport: None,
    })
}

/// The first host of a list in Slurm's notation, such as `node[03-05,9]-ib,other`.
fn first_host(list: &str) -> String {
    let (mut host, mut rest) = (String::new(), list);
    while let Some(at) = rest.find(['[', ',']) {
        host += &rest[..at];
        let Some(inside) = rest[at..].strip_prefix('[') else { return host };
        let (numbers, after) = inside.split_once(']').unwrap_or((inside, ""));
        host += numbers.split([',', '-']).next().unwrap_or_default();
        rest = after;
    }
    host + rest
}

/// The membership in a job of Open MPI 4, which passes the addresses of `mpirun`'s host and a random key to workers. If that
/// host is not first in the hostfile, worker 0 runs elsewhere, and the user must set MUXBENCH_RENDEZVOUS.
fn open_mpi(variable: &Environment<'_>) -> Result<Membership, String> {
    let job = variable("OMPI_MCA_ess_base_jobid").or_else(|| variable("PMIX_NAMESPACE")).unwrap_or_default();
    let hosts = variable("OMPI_MCA_orte_hnp_uri").map(|uri| hosts_of(&uri)).unwrap_or_default();
    if hosts.is_empty() && variable("MUXBENCH_RENDEZVOUS").is_none() {
        return Err("--distributed: this mpirun does not publish its address; set MUXBENCH_RENDEZVOUS to HOST:PORT of worker 0, with \
                    `mpirun -x MUXBENCH_RENDEZVOUS`"
            .to_owned());
    }
    let key = variable(&format!("OMPI_MCA_orte_{OPEN_MPI_KEY}"));
    Ok(Membership {
        launcher: "Open MPI",
        rank: number(variable, "OMPI_COMM_WORLD_RANK")?,
        ranks: number(variable, "OMPI_COMM_WORLD_SIZE")?,
        hosts,
        port: port_of(job.bytes().fold(0, |job, byte| job << 5 ^ job >> 59 ^ u64::from(byte))),
        weakness: key.is_none().then_some("the number of an mpirun job can be guessed"),
        secret: Secret::new(&format!("open-mpi {job} {}", key.unwrap_or_default())),
        transport: None,
    })
}

/// The addresses in a URI such as `123.0;tcp://10.0.0.1,172.17.0.2:4711;tcp6://[fd00::2]:4712`.
fn hosts_of(uri: &str) -> Vec<String> {
    let parts = uri.split(';').filter_map(|part| part.strip_prefix("tcp://").or(part.strip_prefix("tcp6://")));
    let hosts = parts.filter_map(|part| part.rsplit_once(':')).flat_map(|(hosts, _)| hosts.split(','));
    hosts.map(|host| host.trim_start_matches('[').trim_end_matches(']').to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership_of(environment: &[(&str, &str)]) -> Result<Membership, String> {
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
    fn first_host_of_a_list_is_expanded() {
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
    fn slurm_job_needs_no_muxbench_variables() {
        let membership = membership_of(SLURM).unwrap();
        assert_eq!((membership.rank, membership.ranks, membership.hosts.join(" ")), (2, 6, "node03".into()));
        assert!(PORTS.contains(&membership.port.into()) && membership.weakness.is_some());
        let other = membership_of(&[&[("SLURM_STEP_ID", "1")], SLURM].concat()).unwrap();
        assert_ne!(
            (other.port, other.secret),
            (membership.port, membership.secret.clone()),
            "another step of the job has another port and secret"
        );
        let changed =
            membership_of(&[&[("MUXBENCH_SECRET", "x"), ("MUXBENCH_RENDEZVOUS", "[fd00::2]:7")], SLURM].concat());
        let changed = changed.unwrap();
        assert_eq!((changed.hosts.join(" "), changed.port, changed.weakness), ("fd00::2".into(), 7, Some(SHORT)));
        assert_ne!(changed.secret, membership.secret);
        let changed = membership_of(&[&[("MUXBENCH_SECRET", "0123456789abcdef")], SLURM].concat()).unwrap();
        assert_eq!(changed.weakness, None);
    }

    #[test]
    fn short_secret_is_a_weakness() {
        let by_hand = [
            ("MUXBENCH_RANK", "1"),
            ("MUXBENCH_RANKS", "2"),
            ("MUXBENCH_RENDEZVOUS", "node1:20000"),
            ("SLURM_PROCID", "2"),
        ];
        for launcher in [SLURM, &by_hand] {
            let weakness =
                |secret: &str| membership_of(&[&[("MUXBENCH_SECRET", secret)], launcher].concat()).unwrap().weakness;
            assert_eq!([weakness("open sesame"), weakness("0123456789abcde")], [Some(SHORT); 2]);
            assert_eq!(weakness("0123456789abcdef"), None);
        }
    }

    #[test]
    fn open_mpi_publishes_the_host_of_mpirun() {
        let environment = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_MCA_ess_base_jobid", "2129199105"),
            ("OMPI_MCA_orte_hnp_uri", "2129199104.0;tcp://192.0.2.2,10.0.0.1:57189;tcp6://[fd00::2]:44197"),
            ("OMPI_MCA_orte_precondition_transports", "49f14dd8d0400a60-00d8199dda20d35d"),
        ];
        let membership = membership_of(&environment).unwrap();
        assert_eq!(membership.hosts, ["192.0.2.2", "10.0.0.1", "fd00::2"]);
        assert_eq!((membership.rank, membership.ranks, membership.weakness), (1, 2, None));
        assert!(membership_of(&environment[..3]).unwrap_err().contains("mpirun -x MUXBENCH_RENDEZVOUS"));
    }

    #[test]
    fn missing_variables_are_named() {
        assert!(membership_of(&[]).unwrap_err().contains("srun, mpirun"));
        let index = ("JOB_COMPLETION_INDEX", "3");
        let all = [
            index,
            ("MUXBENCH_RANKS", "6"),
            ("MUXBENCH_RENDEZVOUS", "muxbench-0.workers:20000"),
            ("MUXBENCH_SECRET", "x"),
        ];
        let membership = membership_of(&all).unwrap();
        assert_eq!(
            (membership.launcher, membership.rank, membership.ranks, membership.port),
            ("Kubernetes", 3, 6, 20_000)
        );
        for at in 1..4 {
            let (missing, others) = (all[at].0, all.iter().enumerate().filter(|(it, _)| *it != at));
            let others: Vec<_> = others.map(|(_, variable)| *variable).collect();
            assert!(membership_of(&others).unwrap_err().contains(missing), "{missing}");
        }
        let alone = [("MUXBENCH_RANK", "0"), ("MUXBENCH_RANKS", "1"), all[2], all[3]];
        assert!(membership_of(&alone).unwrap_err().contains("at least 2"));
        let nonsense = [("MUXBENCH_RANK", "0"), ("MUXBENCH_RANKS", "2"), ("MUXBENCH_RENDEZVOUS", "node"), all[3]];
        assert!(membership_of(&nonsense).unwrap_err().contains("expected HOST:PORT"));
    }
}
