//! The table of commands: the groups of options that each takes, what its `--resume` allows, and its exit codes.

use crate::exit::{COULD_NOT_RUN, Meaning, NO_VALID_TRIAL, SLOWER, STOPPED, UNDECIDED};

pub(super) const RATE: u64 = 1;
pub(super) const CONNECTIONS: u64 = 1 << 1;
pub(super) const LOAD: u64 = 1 << 2;
pub(super) const OVER_TIME: u64 = 1 << 3;
pub(super) const CLOSED: u64 = 1 << 4;
pub(super) const SESSIONS: u64 = 1 << 5;
pub(super) const SESSION_WINDOW: u64 = 1 << 6;
pub(super) const SERVICE: u64 = 1 << 7;
pub(super) const TLS: u64 = 1 << 8;
pub(super) const HTTP: u64 = 1 << 9;
pub(super) const FOLDER: u64 = 1 << 10;
pub(super) const KV: u64 = 1 << 11;
pub(super) const KV_REQUESTS: u64 = 1 << 12;
pub(super) const KV_SERVER: u64 = 1 << 13;
pub(super) const STREAM: u64 = 1 << 14;
pub(super) const PORTS: u64 = 1 << 15;
pub(super) const DATAGRAM_SERVER: u64 = 1 << 16;
pub(super) const PHASES: u64 = 1 << 17;
pub(super) const PLACEMENT: u64 = 1 << 18;
pub(super) const SHARED: u64 = 1 << 19;
pub(super) const CLIENT: u64 = 1 << 20;
pub(super) const RETRIES: u64 = 1 << 21;
pub(super) const SERVER: u64 = 1 << 22;
pub(super) const SYSCALLS: u64 = 1 << 23;
pub(super) const TRIALS: u64 = 1 << 24;
pub(super) const SLICES: u64 = 1 << 25;
pub(super) const PLACEBO: u64 = 1 << 26;
pub(super) const LAB: u64 = 1 << 27;
pub(super) const CONDITIONS: u64 = 1 << 28;
pub(super) const EXPLAIN: u64 = 1 << 29;
pub(super) const ALLOWED: u64 = 1 << 30;
pub(super) const DISTRIBUTED: u64 = 1 << 31;
pub(super) const VERSUS: u64 = 1 << 32;
pub(super) const ARCHITECTURES: u64 = 1 << 33;
pub(super) const SERVERS: u64 = 1 << 34;
pub(super) const SEARCH: u64 = 1 << 35;
pub(super) const AT_RATE: u64 = 1 << 36;
pub(super) const PULSE: u64 = 1 << 37;
pub(super) const REPEATS: u64 = 1 << 38;
pub(super) const STORE: u64 = 1 << 39;
pub(super) const RUN: u64 = 1 << 40;
pub(super) const STRICT: u64 = 1 << 41;
pub(super) const HOLD: u64 = 1 << 42;
pub(super) const LISTEN: u64 = 1 << 43;
pub(super) const PROFILE: u64 = 1 << 44;

/// The groups of each load with a client.
const TRAFFIC: u64 =
    CONNECTIONS | LOAD | SERVICE | TLS | HTTP | KV | KV_REQUESTS | PHASES | PLACEMENT | SHARED | CLIENT | RETRIES;
/// The groups of each comparison of servers.
const SETUP: u64 =
    TRAFFIC | SERVERS | FOLDER | KV_SERVER | SERVER | SYSCALLS | TRIALS | SLICES | LAB | CONDITIONS | ALLOWED;
/// The groups of each comparison of any number of servers.
const SERIES: u64 = SETUP | ARCHITECTURES;
/// The groups of commands that also take traffic without a rate.
const ANY_LOOP: u64 = RATE | CLOSED | STREAM | SESSIONS | SESSION_WINDOW | PORTS;

/// The groups of each command that stores a run.
const STORED: u64 = STORE | RUN | STRICT;
/// The groups whose options `--resume` allows.
pub(super) const RESUMED: u64 = RUN | STRICT | ALLOWED | DISTRIBUTED | EXPLAIN | VERSUS;

/// A command.
pub struct Command {
    pub name: &'static str,
    /// The groups that it takes.
    groups: u64,
    /// The other flags that its `--resume` allows, because they extend a search or write files.
    pub resumes: &'static [&'static str],
    /// Its exit codes, besides or instead of those of all commands.
    pub exits: &'static [Meaning],
}

const fn command(
    name: &'static str,
    groups: u64,
    resumes: &'static [&'static str],
    exits: &'static [Meaning],
) -> Command {
    Command { name, groups, resumes, exits }
}

const NO_RESULT: Meaning = (NO_VALID_TRIAL, "no valid trial, a lost worker, or a result that --strict rejects");
const ABSENT: Meaning = (COULD_NOT_RUN, "a server ran in no trial; the results are those of the others");
const RESUMABLE: Meaning = (STOPPED, "stopped by a signal; finished trials are saved, and --resume continues");

/// The commands with options of the table, or with exit codes of their own.
pub const COMMANDS: &[Command] = &[
    command(
        "compare",
        SERIES
            | STORED
            | ANY_LOOP
            | DATAGRAM_SERVER
            | OVER_TIME
            | REPEATS
            | PLACEBO
            | EXPLAIN
            | VERSUS
            | PROFILE
            | DISTRIBUTED,
        &["budget"],
        &[NO_RESULT, ABSENT, RESUMABLE],
    ),
    command(
        "sweep",
        SERIES
            | STORED
            | SESSIONS
            | SESSION_WINDOW
            | PORTS
            | DATAGRAM_SERVER
            | REPEATS
            | PLACEBO
            | EXPLAIN
            | PROFILE
            | DISTRIBUTED,
        &["csv", "tsv"],
        &[NO_RESULT, ABSENT, RESUMABLE],
    ),
    command(
        "capacity",
        SERIES | STORED | SEARCH | AT_RATE | SESSIONS | PORTS | DATAGRAM_SERVER | PLACEBO | DISTRIBUTED,
        &["time-max"],
        &[(NO_VALID_TRIAL, "no probe met the limits, a lost worker, or a result that --strict rejects"), RESUMABLE],
    ),
    command(
        "overload",
        SERIES | STORED | SEARCH | PULSE | PLACEBO | DISTRIBUTED,
        &[],
        &[
            (NO_VALID_TRIAL, "no server has a known recovery, a lost worker, or a result that --strict rejects"),
            RESUMABLE,
        ],
    ),
    command(
        "advise",
        SERIES | STORED | ANY_LOOP | DATAGRAM_SERVER | EXPLAIN,
        &[],
        &[(NO_VALID_TRIAL, "no winner, or a result that --strict rejects"), RESUMABLE],
    ),
    command(
        "atlas",
        SERIES | STORE | RUN | ANY_LOOP | DATAGRAM_SERVER,
        &["budget", "html"],
        &[(NO_VALID_TRIAL, "no race has an answer"), RESUMABLE],
    ),
    command(
        "gate",
        SETUP | STORED | ANY_LOOP | DATAGRAM_SERVER | EXPLAIN | PROFILE | DISTRIBUTED,
        &["junit", "history", "label"],
        &[
            (0, "the new build is not slower"),
            (SLOWER, "the new build is slower, or worse by another figure"),
            (NO_VALID_TRIAL, "a lost worker, or with --strict: not all trials are valid"),
            (UNDECIDED, "undecided at the end of the budget"),
            (COULD_NOT_RUN, "failed: the gate could not run"),
            RESUMABLE,
        ],
    ),
    command(
        "run",
        STORED | SYSCALLS | TRIALS | EXPLAIN | VERSUS | PROFILE | ALLOWED | DISTRIBUTED,
        &[],
        &[NO_RESULT, ABSENT, RESUMABLE],
    ),
    command(
        "load",
        STORED | TRAFFIC | ANY_LOOP | OVER_TIME | DISTRIBUTED,
        &["samples"],
        &[(NO_VALID_TRIAL, "the trial is not valid"), RESUMABLE],
    ),
    command("plan", SYSCALLS | TRIALS, &[], &[]),
    command("report", EXPLAIN | VERSUS, &[], &[]),
    command("reproduce", 0, &[], &[(STOPPED, "stopped by a signal; a second call continues")]),
    command("calibrate", PLACEMENT | CLIENT, &[], &[(NO_VALID_TRIAL, "with --strict: a bias exceeds its limit")]),
    command(
        "serve",
        LISTEN | SERVER | SYSCALLS | DATAGRAM_SERVER | PORTS | SERVICE | STREAM | KV_SERVER | FOLDER,
        &[],
        &[],
    ),
    command("observe", 0, &[], &[(STOPPED, "stopped by a second signal")]),
    command(
        "idle",
        HOLD | CONNECTIONS | SERVICE | TLS | HTTP | KV | STREAM,
        &[],
        &[(NO_VALID_TRIAL, "a connection was not alive at the end"), (STOPPED, "stopped by a second signal")],
    ),
    command("lab", CONDITIONS, &[], &[]),
];

impl Command {
    /// Returns the row of a command, if it has one.
    pub fn named(name: &str) -> Option<&'static Self> {
        COMMANDS.iter().find(|row| row.name == name)
    }
}

/// Returns the groups of a command; all for another word.
pub fn groups_of(command: &str) -> u64 {
    Command::named(command).map_or(u64::MAX, |row| row.groups)
}
