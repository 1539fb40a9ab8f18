//! The table of options: one row for each flag that sets a key of an experiment, or that several commands share.
//!
//! Parser, help, `muxbench reference`, defaults of commands and error messages follow from the rows.

use std::num::NonZeroU32;

use harness::spec::busy_poll::BusyPolling;
use harness::spec::controllers::{Admission, BatchControl, PoolControl};
use harness::spec::idle_cpus::IdleCpus;
use harness::spec::interleave::Interleave;
use harness::spec::profile::Profile;
use harness::spec::requests::{Header, Length};
use harness::spec::stall::Stall;
use harness::spec::trace::TraceStart;
use harness::spec::transport::Transport;
use harness::spec::units::{Bandwidth, Budget, Cpus, Loss, Rate, Share, Size, Sizes, Think, Time};
use harness::spec::{Schedule, Service};
use load::config::{ClockChoice, ExpectedStatus, Pacing, Popularity, Roles, Timestamps};
use server::Accept;
use traffic::trace::Column;
use wire::Address;
use wire::stream::Direction;

use super::command::{Command, RESUMED};
pub use super::row::Row;
use super::row::{
    above_0, architecture, bins, body, body_file, boolean, empty_table, exec, exec_config, factor, lost_worker, name,
    network, number, on_off, precision, secret_value, switch, target, target_pid, text, value, whole, work,
};

/// Declares groups of options. A group has a bit, a heading and a table of the experiment file. A row has its help, its name, the name of
/// its value, its parser and further properties. Its key is that of its name in the group's table, unless `key` sets another.
macro_rules! rows {
    ($($group:ident $heading:literal $table:literal {
        $($(#[doc = $help:literal])+ $name:literal $value:literal $parse:expr $(, $property:ident: $setting:expr)*;)+
    })+) => {
        pub const ROWS: &[Row] = &[$($(Row {
            group: super::command::$group,
            heading: $heading,
            name: $name,
            key_of_name: concat!($table, $name),
            value: $value,
            parse: $parse,
            help: &[$($help),+],
            $($property: $setting,)*
            ..Row::EMPTY
        },)+)+];
    };
}

impl Command {
    /// Whether `--resume` allows a flag.
    pub fn can_resume_with(&self, flag: &str) -> bool {
        let is_resumed = |row: &Row| row.name == flag && row.group & RESUMED != 0;
        self.resumes.contains(&flag) || ROWS.iter().any(is_resumed)
    }
}

rows! {
    ARCHITECTURES "Servers" "" {
        /// Architectures or groups, see `muxbench list`
        ///
        /// Comma-separated. An architecture is `MODEL[:THREADS][/MECHANISM]`, and a group is all, processes, threads or runtimes
        /// [default: mp, mt, select, poll, epoll, io_uring, tokio; advise: all]
        "arch" "ARCH" architecture, is_list: true, key: Some("architectures"), basic: "*", foreign: "-t --threads";
    }
    SERVERS "Servers" "" {
        /// Running server, as in nginx=http://localhost:8080/
        ///
        /// Also https://HOST, memcached://HOST, redis://HOST, tcp://HOST:PORT, udp://HOST:PORT and unix:/PATH. May be repeated.
        /// Without --arch, only the named servers run; `advise` adds all architectures
        "target" "NAME=URL" target, is_repeated: true, basic: "*";
        /// Process of a target on this host, whose CPU time and kernel memory muxbench then measures
        "target-pid" "NAME=PID" target_pid, is_repeated: true, key: Some("target");
        /// Server to start, as in go='./server {port}'
        ///
        /// A command that runs without a shell. May be repeated; needs --allow-exec. Placeholders are {port}, {address}, {socket},
        /// {request}, {response}, {cpus} (their number), {folder} (that of --folder) and {dir} (a private folder)
        "exec" "NAME=COMMAND" exec, is_repeated: true;
        /// Template of a command's configuration file, such as `nginx=nginx.conf.in`. It contains the same placeholders; {config} in
        /// the command is the path of the file
        "exec-config" "NAME=FILE" exec_config, is_repeated: true, key: Some("exec");
    }
    RATE "Load" "workload." {
        /// Requests/s, as in 2k or 2000/s [default: 2000]
        ///
        /// Several rates, comma-separated, make several workloads
        "rate" "RATE" value::<Rate>, is_list: true, short: Some('r'), basic: "*";
    }
    OVER_TIME "Load" "workload." {
        /// Rates over the window, as in ramp:1k..9k:30s
        ///
        /// Comma-separated segments: hold:RATE:TIME, ramp:RATE..RATE:TIME, growth:RATE..RATE:TIME (exponential),
        /// step:RATE..RATE+RATE:TIME (the time of each step), spike:RATE..RATE:TIME (up and back), sine:RATE..RATE:PERIOD:TIME. The
        /// window lasts as long as the rate profile. With --rate, the profile is scaled to that mean rate
        "rate-profile" "RATES" value::<Profile>, basic: "load";
        /// Replay arrivals from a CSV or Parquet file
        ///
        /// The file has a column of times in ascending order: time_s, time_ms, time_us, time_ns, timestamp (also of dates, as
        /// 2023-11-16 18:17:03.97), or the planned_ns of muxbench's samples. A column `connection` selects the connections. With
        /// `http`, a column response_bytes selects the paths /bytes/N, and request_bytes gives each request a body. Other services have
        /// one size: see --trace-ignore. The window lasts as long as the replay
        "trace" "FILE" text, key: Some("workload.trace.file"), basic: "load";
        /// Columns of the trace not to replay, comma-separated: connection, request_bytes, response_bytes
        "trace-ignore" "COLUMN" name::<Column>, is_list: true, key: Some("workload.trace.ignore");
        /// Speed of the replay: 2 halves its duration [default: 1]
        "speed" "FACTOR" number, key: Some("workload.trace.speed");
        /// Start of the replayed part, after the first arrival, or `peak` for the busiest part [default: 0]
        "trace-from" "TIME" value::<TraceStart>, key: Some("workload.trace.from");
        /// Length of the replayed part in the recording [default: up to the last arrival]
        "trace-length" "TIME" value::<Time>, key: Some("workload.trace.length");
    }
    LOAD "Load" "workload." {
        /// Transport: tcp, tcp6 (over IPv6), unix (Unix sockets) [default: tcp, or as the URL of a target selects]
        "transport" "TRANSPORT" name::<Transport>;
    }
    CONNECTIONS "Load" "workload." {
        /// Open connections, as in 10k
        ///
        /// Several numbers, comma-separated, make several workloads
        "connections" "N" whole::<NonZeroU32>, is_list: true, short: Some('c'), basic: "*",
            defaults: &[("compare sweep capacity overload advise gate load idle", "400"), ("atlas", "50,400,2000")],
            foreign: "--concurrency";
    }
    PORTS "Load" "workload." {
        /// Ports of a `udp` server, in place of connections, comma-separated [default: 10; `compare` and `atlas`: 10,1000]
        "ports" "N" whole::<NonZeroU32>, is_list: true, basic: "serve";
    }
    LOAD "Load" "workload." {
        /// Send times, as in poisson [default: slot-random]
        ///
        /// Comma-separated: slot-random (at a random moment of each slot of equal length), constant, poisson (open loop); closed
        /// (closed loop: send when the response has arrived; the default of `stream`). Several clients with constant intervals take
        /// turns (constant), start at random times (constant-drawn) or send at the same time (constant-together)
        "schedule" "SCHEDULE" name::<Schedule>, is_list: true, foreign: "--closed";
        /// Share of the connections that carry requests, such as 1/16 or 6.25%, comma-separated [default: 1]
        "active" "SHARE" value::<Share>, is_list: true;
        /// Additional idle connections, held by a separate process, comma-separated [default: 0]
        "idle" "N" whole::<u32>, is_list: true;
        /// Connection popularity: uniform, zipf (exponent 1), zipf:0.8 [default: uniform]
        "popularity" "POPULARITY" value::<Popularity>;
        /// Send each request of an open loop on a free connection, as wrk2 does
        ///
        /// Without a free connection it waits, and its response time includes the wait. By default requests leave at their planned times,
        /// so several may be in flight on a connection, which a server that handles one at a time answers late
        "no-overlap" "" switch;
    }
    CLOSED "Load" "workload." {
        /// Think time of a connection in a closed loop, fixed or random: 1ms, or 1ms,exponential [default: 0]
        "think" "THINK" value::<Think>;
        /// Requests that each connection of a closed loop sends at once; the next ones follow the last response [default: 1]
        "pipeline" "N" whole::<NonZeroU32>;
    }
    SESSIONS "Load" "workload." {
        /// Requests on each connection before a new connection replaces it. In an open loop the schedule starts sessions with
        /// this number of requests, and --connections limits the open sessions [default: unlimited]
        "requests-per-connection" "N" whole::<NonZeroU32>;
    }
    SERVICE "Load" "workload." {
        /// fixed, kv, redis, http, udp, stream [default: fixed]
        ///
        /// Messages of fixed size (fixed), a key-value store (kv), HTTP, datagrams to many ports (udp), or bursts at full speed
        /// (stream). The URL of a target may select the service
        "service" "SERVICE" name::<Service>, basic: "compare sweep capacity serve idle";
        /// Request size of `fixed` and `udp` [default: 128B]
        "request" "SIZE" value::<Size>, is_grid: true, basic: "compare sweep capacity serve";
        /// Response size [default: 10KiB; udp: 128B]
        ///
        /// The size of responses of `fixed` and `udp`, and of the bodies of `http`. Without --folder, built-in servers of `http` answer
        /// each path with it, such as that of a --target
        "response" "SIZE" value::<Size>, is_grid: true, basic: "compare sweep capacity serve";
    }
    TLS "Load" "workload.tls." {
        /// Use TLS on all connections, except to http:// targets
        ///
        /// Built-in servers make a certificate when they start, which the client trusts. https:// targets have TLS without this flag.
        /// With --requests-per-connection 1, each request has a handshake
        "tls" "" empty_table, key: Some("workload.tls");
        /// Trusted certificates [default: this host's]
        ///
        /// A file in PEM format; implies --tls
        "cacert" "FILE" text;
        /// Certificate that the client shows
        ///
        /// A file in PEM format; implies --tls
        "cert" "FILE" text;
        /// Key of that certificate [default: in its file]
        "key" "FILE" text;
        /// Accept any certificate
        ///
        /// The client then cannot know whether it measures the right server; implies --tls
        "insecure" "" switch, short: Some('k'), basic: "load";
        /// Make a full TLS handshake on each connection, instead of resuming sessions; implies --tls
        "full-handshakes" "" switch;
    }
    PHASES "Load" "phases." {
        /// Duration in which the rate grows exponentially to its target
        "ramp" "TIME" value::<Time>,
            defaults: &[("compare gate", "100ms"), ("sweep capacity overload", "200ms"), ("advise atlas", "50ms"), ("load", "1s")];
        /// Duration at the target rate before the measurement
        "warm-up" "TIME" value::<Time>,
            defaults: &[("compare advise atlas", "100ms"), ("sweep capacity overload", "300ms"), ("gate", "200ms"), ("load", "1s")];
        /// Duration of the measured window
        ///
        /// The requests planned in it are measured
        "measure" "TIME" value::<Time>, short: Some('z'), basic: "compare sweep load",
            defaults: &[("compare", "300ms"), ("sweep", "2s"), ("capacity overload", "1s"), ("advise atlas", "from --budget"),
                ("gate", "1500ms"), ("load", "5s")], foreign: "-n --requests --duration --time --runtime";
    }
    SESSION_WINDOW "Load" "phases." {
        /// Mean number of sessions in the window, which lasts no longer than --measure; needs --requests-per-connection
        "sessions" "N" whole::<NonZeroU32>;
    }
    PHASES "Load" "phases." {
        /// Longest wait for outstanding responses after the window
        "cool-down" "TIME" value::<Time>,
            defaults: &[("compare", "100ms"), ("sweep capacity overload advise atlas gate", "1s"), ("load", "2s")];
    }
    HTTP "HTTP" "workload.http." {
        /// Path to request; several are requested in turn, or by weight: --path '/a x3' [default: /bytes/N, N from --response; / with a --target]
        "path" "PATH" text, is_repeated: true, key: Some("workload.http.paths");
        /// Method of each request [default: GET; with a body POST]
        "method" "METHOD" text, short: Some('X'), basic: "load";
        /// Header, such as `Accept: text/html`, or @FILE
        ///
        /// May be repeated. The file has a header on each line. `${NAME}` in a value is a variable of the environment, as in
        /// 'Authorization: Bearer ${TOKEN}'. Values of variables, and of headers such as Authorization and Cookie, are stored and shown
        /// only as a digest
        "header" "HEADER" value::<Header>, is_repeated: true, short: Some('H'), key: Some("workload.http.headers"), basic: "load";
        /// Body of each request, or @FILE for a file's content
        ///
        /// Several bodies are sent in turn
        "body" "BODY" body, is_repeated: true, short: Some('d'), basic: "load", foreign: "--data --data-binary";
        /// File with the body of each request
        "body-file" "FILE" body_file, is_repeated: true, short: Some('D'), key: Some("workload.http.body");
        /// File with a body on each line; the bodies are sent in turn
        "body-lines" "FILE" text;
        /// Store and show only a digest of each body
        "secret-body" "" switch;
        /// File with a request on each line, instead of --path: `[METHOD] PATH [xWEIGHT]`, or a JSON object with the keys
        /// path, method, headers, body, weight, status, length
        "requests-file" "FILE" text;
        /// Expected status of each response: 200, 2xx, any [default: 200 for GET and HEAD, otherwise 2xx]
        "expect-status" "STATUS" value::<ExpectedStatus>, key: Some("workload.http.status");
        /// Expected length of each response's content: 10KiB, same (as the first), any [default: same for GET and HEAD, otherwise any]
        "expect-length" "LENGTH" value::<Length>, key: Some("workload.http.length");
    }
    FOLDER "HTTP" "workload.http." {
        /// Folder that `http` serves; without one it serves /bytes/N, a body of N bytes
        "folder" "FOLDER" text, basic: "serve";
    }
    KV "Key-value store" "workload.kv." {
        /// Records of `kv` and `redis`, all stored before the ramp [default: 30000]
        "records" "N" whole::<NonZeroU32>;
        /// Range of value sizes, log-uniform [default: 10B..1000B]
        "value-size" "SIZE..SIZE" value::<Sizes>;
    }
    KV_REQUESTS "Key-value store" "workload.kv." {
        /// Share of the requests that get a record; the other requests set a record [default: 90%]
        "get-share" "SHARE" value::<Share>;
        /// Key popularity: uniform, zipf (exponent 1), zipf:0.99 [default: uniform]
        "keys" "POPULARITY" value::<Popularity>;
    }
    KV_SERVER "Key-value store" "workload.kv." {
        /// Memory of the server for records, which it evicts when it is full [default: 64MiB]
        "memory" "SIZE" value::<Size>;
        /// Largest record, at most a quarter of --memory [default: 1MiB]
        "item-max" "SIZE" value::<Size>;
    }
    STREAM "Streams" "workload.stream." {
        /// Packet size of `stream` [default: 8KiB]
        "packet" "SIZE" value::<Size>;
        /// Packets of a burst [default: 1000]
        "packets" "N" whole::<NonZeroU32>;
        /// Size of the acknowledgement of a burst; with --direction out, of the request for a burst [default: 32B]
        "ack" "SIZE" value::<Size>;
        /// Sender of the bursts: in (the clients), out (the server) [default: in]
        "direction" "DIRECTION" name::<Direction>;
        /// Read and write at most one packet at once, instead of --read-budget and 128 KiB
        "by-packet" "BOOL" boolean;
    }
    SERVER "Server settings" "server." {
        /// Accept strategy, see `muxbench list` [default: single; for a pool shared]
        ///
        /// Any of single, shared, exclusive, reuseport, reuseport-cpu, incoming-cpu, reuseport-least and hermes. An experiment takes
        /// several, such as exclusive,hermes, and runs each architecture with each of them
        "accept" "ACCEPT" name::<Accept>, is_list: true;
        /// Bytes that a server reads from one connection before it serves the next, 1B to 1MiB [default: 64KiB]
        "read-budget" "SIZE" value::<Budget>;
        /// SEDA's thread-pool controller for payload threads: on, or max=20,queue=100,interval=2s,idle=5s
        "pool-control" "SETTINGS" value::<PoolControl>;
        /// SEDA's batching controller for payload threads: on, or min=8,max=1000,interval=1s
        "batch-control" "SETTINGS" value::<BatchControl>;
        /// SEDA's admission control: reject requests while the 90th percentile of response times exceeds a target, such as
        /// target=10ms,requests=100,timeout=1s,increase=2
        "admission" "SETTINGS" value::<Admission>;
        /// Stalls of the first network thread, such as every=1s,for=200ms: it then serves nothing
        "stall" "SETTINGS" value::<Stall>;
        /// Busy polling of the network interface: off, 50us, 50us:budget=16, 50us:prefer or 50us:suspend=20ms [default: off]
        ///
        /// A waiting thread polls for this time before it sleeps. An experiment takes several values, such as off,50us, and runs each
        /// architecture with each of them. Loopback cannot be polled: use --network lab
        "busy-poll" "TIME" value::<BusyPolling>, is_list: true;
    }
    DATAGRAM_SERVER "Server settings" "server." {
        /// Most messages of `udp` that the server receives or sends with a system call, 1 to 1024 [default: 1]
        "datagram-batch" "N" whole::<NonZeroU32>;
        /// Let the kernel coalesce received datagrams and segment sent ones (UDP_GRO, UDP_SEGMENT)
        "datagram-offload" "BOOL" boolean;
    }
    SERVER "Server settings" "server." {
        /// CPUs of the accept thread of a staged server, a subset of the server's CPUs [default: all of them]
        "accept-cpus" "CPUS" value::<Cpus>;
        /// CPUs of the network threads of a staged server
        "network-cpus" "CPUS" value::<Cpus>;
        /// CPUs of the payload threads of a staged server
        "payload-cpus" "CPUS" value::<Cpus>;
        /// Simulated work of the server for each request, fixed or random: cpu=50us, busy=50us (by the clock), sleep=1ms (blocks the
        /// thread), wait=10ms (frees it), cpu=20us,wait=5ms,exponential, wait=1ms:90%,100ms:10%; none [default: none]
        "simulated-work" "WORK" work, is_repeated: true, is_grid: true, key: Some("workload.simulated-work");
    }
    SYSCALLS "Server settings" "server." {
        /// Have the kernel count built-in servers' system calls; makes each call more expensive. `muxbench report` shows the counts:
        /// --explain, or for `capacity` --csv
        "count-syscalls" "" switch;
    }
    SEARCH "Search" "" {
        /// Limit of the median response time
        "p50" "TIME" above_0, key: Some("");
        /// Limit of the 90th percentile
        "p90" "TIME" above_0, key: Some("");
        /// Limit of the 95th percentile
        "p95" "TIME" above_0, key: Some("");
        /// Limit of the 99th percentile
        "p99" "TIME" above_0, key: Some(""), basic: "capacity overload";
        /// Limit of the 99.9th percentile
        "p999" "TIME" above_0, key: Some("");
        /// Half width of the final interval, as a share of the result
        "precision" "SHARE" precision, key: Some(""), defaults: &[("capacity", "5%"), ("overload", "10%")];
        /// Longest search
        ///
        /// No probe starts later. For all searches together; `capacity --resume` may change it
        "time-max" "TIME" above_0, key: Some(""), defaults: &[("capacity", "5min"), ("overload", "3min")];
    }
    AT_RATE "Search" "" {
        /// Search for the most connections at this rate, not for the highest rate; servers then never share a window
        "at-rate" "RATE" value::<Rate>, key: Some(""), conflicts: Some("connections");
    }
    PULSE "Search" "" {
        /// Capacity of all servers, instead of a search
        ///
        /// In requests per second
        "capacity" "RATE" value::<Rate>, key: Some(""), basic: "overload";
    }
    SEARCH "Search" "" {
        /// First rate, in requests per second (`capacity --at-rate`: number of connections)
        "from" "N" value::<Rate>, key: Some(""), defaults: &[("capacity overload", "1000")];
        /// Highest rate to try [default: as memory allows] (`capacity --at-rate`: number of connections [default: 10000])
        "to" "N" value::<Rate>, key: Some("");
    }
    PULSE "Load" "" {
        /// Rate before and after the pulse, as a multiple of the capacity
        "base" "FACTOR" factor, key: Some(""), defaults: &[("overload", "0.7")];
        /// Pulse, as a multiple of the capacity
        "pulse" "FACTOR" factor, key: Some(""), defaults: &[("overload", "1.5")], basic: "overload";
        /// Time before the pulse
        "before" "TIME" bins, key: Some(""), defaults: &[("overload", "10s")];
        /// Time of the pulse
        "pulse-length" "TIME" bins, key: Some(""), defaults: &[("overload", "5s")];
        /// Time after the pulse
        "after" "TIME" bins, key: Some(""), defaults: &[("overload", "20s")];
    }
    HOLD "Load" "" {
        /// Duration, such as 1min [default: until Ctrl-C]
        "time" "TIME" value::<Time>, key: Some(""), basic: "*", foreign: "-z --duration";
    }
    LISTEN "Server" "" {
        /// Address; port 0 is a free port
        ///
        /// `127.0.0.1:7007`, `[::1]:7007` or `unix:/tmp/muxbench.sock`
        "listen" "ADDRESS" value::<Address>, key: Some(""), basic: "*", defaults: &[("serve", "127.0.0.1:0")], foreign: "-p --port";
    }
    REPEATS "Trials" "" {
        /// Repeats of each architecture and workload [default: 3; `sweep`, --rate-profile and --trace: 1]
        ///
        /// With --until or --budget the highest number of repeats, by default 20; `repeats` of FILE does not count then
        "repeats" "N" whole::<NonZeroU32>, foreign: "--runs";
    }
    TRIALS "Trials" "" {
        /// Load all servers of a workload in turns: auto (those that can share a window), always, never [default: auto]
        "interleave" "WHEN" name::<Interleave>;
    }
    SLICES "Trials" "" {
        /// Length of the slices of interleaved trials [default: from the workload]
        "slice" "TIME" value::<Time>;
    }
    PLACEBO "Trials" "" {
        /// Run the first architecture a second time: its ratio to the first shows the noise
        "placebo" "" switch;
    }
    PROFILE "Trials" "" {
        /// Show where a request's CPU time goes, by sampled stacks
        ///
        /// Runs each heat once more, at least 5 s long, and samples the stacks of the servers in their turns. The measured figures stay
        /// untouched. Needs Linux, and root or kernel.perf_event_paranoid=-1
        "profile" "" switch;
    }
    LOAD "Trials" "" {
        /// Seed of all random numbers: the order of trials, the schedules [default: 1]
        "seed" "SEED" whole::<u64>;
    }
    PLACEMENT "Placement" "placement." {
        /// CPUs of the server, such as 0-1,3 [default: one half]
        "server-cpus" "CPUS" value::<Cpus>, key: Some("placement.server");
        /// CPUs of the client [default: the other half]
        "client-cpus" "CPUS" value::<Cpus>, key: Some("placement.client");
        /// Idle CPUs of this host: poll (they wake fast and evenly), sleep (as the system is configured), auto (poll on virtual
        /// machines, as root) [default: auto]
        "idle-cpus" "HOW" name::<IdleCpus>;
    }
    SHARED "Placement" "placement." {
        /// Let server and client share all CPUs, and let the kernel place their threads
        "share-cpus" "BOOL" boolean, key: Some("placement.shared");
    }
    CLIENT "Client" "client." {
        /// Method to wait for the next planned send time: auto, yield, spin, sleep-spin [default: auto]
        ///
        /// spin reads the clock without pause, yield offers the CPU to other threads between readings, and sleep-spin sleeps until
        /// shortly before. auto is spin if each thread has its own CPU, yield if threads share assigned CPUs, and otherwise sleep-spin
        "pacing" "PACING" name::<Pacing>;
        /// Threads for sending and receiving: auto, one-loop, two-threads [default: auto]
        "roles" "ROLES" name::<Roles>;
        /// Independent clients, which share connections and rate evenly [default: 1; in a closed loop one per CPU]
        "clients" "N" whole::<NonZeroU32>, foreign: "-t --threads";
        /// TCP_NODELAY of the client's sockets: on, off (Nagle's algorithm delays small requests) [default: on]
        "tcp-nodelay" "on|off" on_off;
        /// Clock of the timestamps: auto, tsc, monotonic [default: auto]
        "clock" "CLOCK" name::<ClockChoice>;
        /// Source of the timestamps: client; kernel, which records when a request left the host [default: client]
        "timestamps" "SOURCE" name::<Timestamps>;
        /// Longest time to connect and get the first response; a slower connection fails the trial [default: 10s]
        "timeout" "TIME" value::<Time>;
    }
    RETRIES "Client" "client." {
        /// Time limit of a request, as in 1s
        ///
        /// In an open loop, from the send to the last byte of the response. A later response counts as a timeout [default: none;
        /// `overload`: 1s]
        "request-timeout" "TIME" value::<Time>, basic: "overload";
        /// Retries of a failed request [default: 0]
        ///
        /// After a timeout or a lost connection, on the next connection that works. Needs --request-timeout (`overload` has one). The
        /// response time runs from the planned first send
        "retries" "N" whole::<u32>, basic: "overload";
        /// Most retries, as a share of the requests [default: all]
        ///
        /// Each request allows this share of a retry; at most 100 are saved up
        "retry-budget" "SHARE" value::<Share>;
        /// Client processes, which share connections and rate; each has --clients [default: 1; in a lab one per client host]
        "client-processes" "N" whole::<NonZeroU32>, key: Some("client.processes");
    }
    LAB "Network" "" {
        /// Lab of network namespaces: lab, lab:clients=5, each also with :napi [default: loopback]
        ///
        /// A lab has a namespace for the server and one for each client host. Needs root
        "network" "NETWORK" network;
    }
    CONDITIONS "Network" "network." {
        /// Delay of each packet in each direction; implies a lab [default: 0]
        "delay" "TIME" value::<Time>, basic: "lab";
        /// Largest random deviation from --delay [default: 0]
        "jitter" "TIME" value::<Time>, basic: "lab";
        /// Packets lost in each direction, as in 0.1%; implies a lab [default: 0]
        "loss" "SHARE" value::<Loss>, basic: "lab";
        /// Bandwidth of each host's link; implies a lab [default: unlimited]
        ///
        /// Such as 1Gbit or 100Mbit
        "bandwidth" "BANDWIDTH" value::<Bandwidth>, basic: "lab";
        /// Bytes that an idle host may send at once before --bandwidth limits it [default: 1 ms of bandwidth, at least two packets]
        "burst" "SIZE" value::<Size>;
    }
    ALLOWED "Servers" "" {
        /// Start the commands of --exec and of `exec` tables
        ///
        /// Without this flag muxbench only shows the commands
        "allow-exec" "" switch, key: Some(""), basic: "advise run";
    }
    DISTRIBUTED "Distributed run" "" {
        /// Join a distributed run (Slurm, MPI, Kubernetes)
        ///
        /// Under srun, mpirun or Kubernetes, each process is a worker. The first worker runs the servers and stores the results, and
        /// the others share connections and rate
        "distributed" "" switch, key: Some(""), basic: "run";
        /// Action after a worker is lost and its trial has failed: end (the run), continue (with the other workers) [default: end]
        "lost-worker" "ACTION" lost_worker, key: Some("");
    }
    STORE "Results" "" {
        /// Folder for the results [default: results/TIME-NAME]
        "output" "FOLDER" text, key: Some(""), is_path: true;
    }
    RUN "Results" "" {
        /// Finish a stopped run [default: the newest]
        ///
        /// The experiment comes from the run's folder; flags cannot change it
        "resume" "FOLDER" text, key: Some(""), is_path: true, is_optional: true, basic: "*";
        /// Secret of the run that --resume finishes, of which it stores only a digest: VALUE, ${NAME} or @FILE; may be repeated
        "secret" "VALUE" secret_value, key: Some(""), is_repeated: true;
        /// Print no progress
        "quiet" "" switch, key: Some(""), short: Some('q');
    }
    STRICT "Results" "" {
        /// Exit with 3 unless every trial is valid
        ///
        /// For `sweep`, a trial may also be past saturation. For `capacity`, every search must be precise. For `overload`, the
        /// recovery of every server must be known, without doubts. `load` does so without this flag, unless it has several workloads
        "strict" "" switch, key: Some("");
    }
    EXPLAIN "Results" "" {
        /// Say why: system calls, switches, CPU per request
        ///
        /// System calls, events, context switches and CPU time per request, and what sets each architecture apart from the best
        "explain" "" switch, key: Some(""), conflicts: Some("json"), basic: "compare run report";
    }
    VERSUS "Results" "" {
        /// Print ratios and added times to this row, not to the best
        ///
        /// A name of the first column; of an external server also NAME without exec: or target:. `pairs` of --json has all ratios
        "versus" "ROW" text, key: Some(""), conflicts: Some("json");
    }
}
