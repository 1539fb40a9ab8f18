//! Flags that overwrite single settings of an experiment.

use std::fmt::Display;
use std::num::NonZeroU32;

use anyhow::bail;
use harness::spec::busy_poll::BusyPolling;
use harness::spec::controllers::{Admission, BatchControl, PoolControl};
use harness::spec::idle_cpus::IdleCpus;
use harness::spec::network::Network;
use harness::spec::stall::Stall;
use harness::spec::stream::Stream;
use harness::spec::units::{Bandwidth, Budget, Cpus, Loss, Share, Size, Sizes, Time, count};
use harness::spec::{Client, Kv, OneOrMany, Phases, Placement, Server};
use load::config::{ClockChoice, Pacing, Popularity, Roles, Timestamps};
use serde::de::DeserializeOwned;
use server::Accept;
use wire::stream::Direction;

use super::{named, repeated, set};

/// Declares a group of optional flags under a heading, and a method that applies them. A row has the name that the flag
/// shares with its setting, their type, the name of the value in the help, and further attributes.
macro_rules! flags {
    ($group:ident, $settings:ty, $heading:literal:
     $($(#[$help:meta])* $flag:ident: $kind:ty = $value:literal $([$($more:tt)*])?;)*) => {
        #[derive(Clone, Debug, Default, clap::Args)]
        pub struct $group {
            $($(#[$help])*
            #[arg(long, value_name = $value, help_heading = $heading $(, $($more)*)?)]
            pub $flag: Option<$kind>,)*
        }

        impl $group {
            /// Overwrites the settings whose flags the user gave.
            pub fn apply(&self, settings: &mut $settings) {
                $(set(&mut settings.$flag, self.$flag.clone());)*
            }
        }
    };
}

/// Parses different values separated by commas.
fn list<T: DeserializeOwned + Display + PartialEq>(text: &str) -> Result<OneOrMany<T>, String> {
    let values: Vec<T> = text.split(',').map(named).collect::<Result<_, _>>()?;
    match repeated(&values) {
        Some(value) => Err(format!("{value} appears twice; remove one")),
        None => Ok(OneOrMany(values)),
    }
}

flags! {
    ServerArgs, Server, "Server settings":
    /// Accept strategy, see `muxbench list` [default: single; for a pool shared]
    ///
    /// Any of single, shared, exclusive, reuseport, reuseport-cpu, incoming-cpu, reuseport-least and hermes. An experiment takes
    /// several, such as exclusive,hermes, and runs each architecture with each of them
    accept: OneOrMany<Accept> = "ACCEPT" [value_parser = list::<Accept>];
    /// Bytes that a server reads from one connection before it serves the next, 1B to 1MiB [default: 64KiB]
    read_budget: Budget = "SIZE";
    /// SEDA's thread-pool controller for payload threads: on, or max=20,queue=100,interval=2s,idle=5s
    pool_control: PoolControl = "SETTINGS";
    /// SEDA's batching controller for payload threads: on, or min=8,max=1000,interval=1s
    batch_control: BatchControl = "SETTINGS";
    /// SEDA's admission control: reject requests while the 90th percentile of response times exceeds a target, such as
    /// target=10ms,requests=100,timeout=1s,increase=2
    admission: Admission = "SETTINGS";
    /// Stalls of the first network thread, such as every=1s,for=200ms: it then serves nothing
    stall: Stall = "SETTINGS";
    /// Busy polling of the network interface: off, 50us, 50us:budget=16, 50us:prefer or 50us:suspend=20ms [default: off]
    ///
    /// A waiting thread polls for this time before it sleeps. An experiment takes several values, such as off,50us, and runs each
    /// architecture with each of them. Loopback cannot be polled: use --network lab
    busy_poll: OneOrMany<BusyPolling> = "TIME" [value_parser = list::<BusyPolling>];
    /// Most messages of `udp` that the server receives or sends with a system call, 1 to 1024 [default: 1]
    datagram_batch: NonZeroU32 = "N" [value_parser = count::<NonZeroU32>];
    /// Let the kernel coalesce received datagrams and segment sent ones (UDP_GRO, UDP_SEGMENT)
    datagram_offload: bool = "BOOL" [num_args = 0..=1, require_equals = true, default_missing_value = "true"];
    /// CPUs of the accept thread of a staged server, a subset of the server's CPUs [default: all of them]
    accept_cpus: Cpus = "CPUS";
    /// CPUs of the network threads of a staged server
    network_cpus: Cpus = "CPUS";
    /// CPUs of the payload threads of a staged server
    payload_cpus: Cpus = "CPUS";
}

flags! {
    ClientArgs, Client, "Client":
    /// Method to wait for the next planned send time: auto, yield, spin, sleep-spin [default: auto]
    ///
    /// spin reads the clock without pause, yield offers the CPU to other threads between readings, and sleep-spin sleeps until
    /// shortly before. auto is spin if each thread has its own CPU, yield if threads share assigned CPUs, and otherwise sleep-spin
    pacing: Pacing = "PACING" [value_parser = named::<Pacing>];
    /// Threads for sending and receiving: auto, one-loop, two-threads [default: auto]
    roles: Roles = "ROLES" [value_parser = named::<Roles>];
    /// Independent clients, which share connections and rate evenly [default: 1; in a closed loop one per CPU]
    clients: NonZeroU32 = "N" [value_parser = count::<NonZeroU32>];
    /// Clock of the timestamps: auto, tsc, monotonic [default: auto]
    clock: ClockChoice = "CLOCK" [value_parser = named::<ClockChoice>];
    /// Source of the timestamps: client; kernel, which records when a request left the host [default: client]
    timestamps: Timestamps = "SOURCE" [value_parser = named::<Timestamps>];
    /// Longest time to connect and get the first response; a slower connection fails the trial [default: 10s]
    timeout: Time = "TIME";
    /// Time limit of a request, as in 1s
    ///
    /// In an open loop, from the send to the last byte of the response. A later response counts as a timeout [default: none;
    /// `overload`: 1s]
    request_timeout: Time = "TIME";
    /// Retries of a failed request [default: 0]
    ///
    /// After a timeout or a lost connection, on the next connection that works. Needs --request-timeout (`overload` has one). The
    /// response time runs from the planned first send
    retries: u32 = "N" [value_parser = count::<u32>];
    /// Most retries, as a share of the requests [default: all]
    ///
    /// Each request allows this share of a retry; at most 100 are saved up
    retry_budget: Share = "SHARE" [requires = "retries"];
}

flags! {
    PlacementArgs, Placement, "Placement":
    /// CPUs of the server, such as 0-1,3 [default: one half]
    server: Cpus = "CPUS" [long = "server-cpus"];
    /// CPUs of the client [default: the other half]
    client: Cpus = "CPUS" [long = "client-cpus"];
    /// Let server and client share all CPUs, and let the kernel place their threads
    shared: bool = "BOOL" [long = "share-cpus", num_args = 0..=1, require_equals = true, default_missing_value = "true"];
    /// Idle CPUs of this host: poll (they wake fast and evenly), sleep (as the system is configured), auto (poll on virtual
    /// machines, as root) [default: auto]
    idle_cpus: IdleCpus = "HOW" [value_parser = named::<IdleCpus>];
}

flags! {
    PhaseArgs, Phases, "Load":
    /// Duration in which the rate grows exponentially to its target
    ramp: Time = "TIME";
    /// Duration at the target rate before the measurement
    warm_up: Time = "TIME";
    /// Duration of the measured window
    ///
    /// The requests planned in it are measured
    measure: Time = "TIME" [short = 'z'];
    /// Mean number of sessions in the window, which lasts no longer than --measure; needs --requests-per-connection
    sessions: NonZeroU32 = "N" [value_parser = count::<NonZeroU32>];
    /// Longest wait for outstanding responses after the window
    cool_down: Time = "TIME";
}

flags! {
    ConditionArgs, Network, "Network":
    /// Delay of each packet in each direction [default: 0]
    delay: Time = "TIME";
    /// Largest random deviation from --delay [default: 0]
    jitter: Time = "TIME";
    /// Packets lost in each direction, as in 0.1% [default: 0]
    loss: Loss = "SHARE";
    /// Bandwidth of each host's link [default: unlimited]
    ///
    /// Such as 1Gbit or 100Mbit
    bandwidth: Bandwidth = "BANDWIDTH";
    /// Bytes that an idle host may send at once before --bandwidth limits it [default: 1 ms of bandwidth, at least two packets]
    burst: Size = "SIZE";
}

flags! {
    KvArgs, Kv, "Key-value store":
    /// Records of `kv` and `redis`, all stored before the ramp [default: 30000]
    records: NonZeroU32 = "N" [value_parser = count::<NonZeroU32>];
    /// Range of value sizes, log-uniform [default: 10B..1000B]
    value_size: Sizes = "SIZE..SIZE";
    /// Share of the requests that get a record; the other requests set a record [default: 90%]
    get_share: Share = "SHARE";
    /// Key popularity: uniform, zipf (exponent 1), zipf:0.99 [default: uniform]
    keys: Popularity = "POPULARITY";
    /// Memory of the server for records [default: 64MiB]
    memory: Size = "SIZE";
    /// Largest record, at most a quarter of --memory [default: 1MiB]
    item_max: Size = "SIZE";
}

flags! {
    StreamArgs, Stream, "Streams":
    /// Packet size of `stream` [default: 8KiB]
    packet: Size = "SIZE";
    /// Packets of a burst [default: 1000]
    packets: NonZeroU32 = "N" [value_parser = count::<NonZeroU32>];
    /// Size of the acknowledgement of a burst; with --direction out, of the request for a burst [default: 32B]
    ack: Size = "SIZE";
    /// Sender of the bursts: in (the clients), out (the server) [default: in]
    direction: Direction = "DIRECTION" [value_parser = named::<Direction>];
    /// Read and write at most one packet at once, instead of --read-budget and 128 KiB
    by_packet: bool = "BOOL" [num_args = 0..=1, require_equals = true, default_missing_value = "true"];
}

/// A lab and its conditions.
#[derive(Clone, Debug, clap::Args)]
pub struct NetworkArgs {
    /// Lab of network namespaces: lab, lab:clients=5, each also with :napi [default: loopback]
    ///
    /// A lab has a namespace for the server and one for each client host. Needs root
    #[arg(long, value_name = "NETWORK", help_heading = "Network")]
    network: Option<Network>,
    #[command(flatten)]
    conditions: ConditionArgs,
}

impl NetworkArgs {
    /// Overwrites the lab and the conditions whose flags the user gave.
    pub fn apply(&self, network: &mut Option<Network>) -> anyhow::Result<()> {
        if let Some(Network { clients, napi, .. }) = self.network {
            let lab = network.get_or_insert_default();
            (lab.clients, lab.napi) = (clients, napi);
        }
        let changed = |mut lab: Network| {
            self.conditions.apply(&mut lab);
            lab
        };
        if network.is_none() && changed(Network::default()) != Network::default() {
            bail!("--delay, --jitter, --loss, --bandwidth and --burst are conditions of a lab; add --network lab");
        }
        *network = network.take().map(changed);
        Ok(())
    }
}
