//! Flags that have no meaning for some commands of their group, or for some services of `serve`.

use clap::ArgMatches;

use crate::options::is_given;

/// Commands, the flags that they refuse, and the reason with the remedy. Help does not show these flags.
const REFUSED_FLAGS: &[(&[&str], &[&str], &str)] = &[
    (
        &["capacity", "overload"],
        &["explain"],
        "compares trials under one load, and these trials differ in load; try `muxbench compare --explain`",
    ),
    (
        &["sweep", "capacity", "overload"],
        &["think", "pipeline", "packet", "packets", "ack", "direction", "by_packet"],
        "only a closed loop has it, and this command needs a rate; omit it, or try `muxbench compare`",
    ),
    (&["capacity"], &["sessions"], "the window of a probe follows from its rate; omit it"),
    (
        &["overload"],
        &["ports", "datagram_batch", "datagram_offload", "requests_per_connection", "sessions"],
        "an overload has requests over lasting connections; omit it, or try `muxbench capacity`",
    ),
    (&["advise", "atlas"], &["placebo"], "a race tells noise from differences without it; omit it"),
    (
        &["advise"],
        &["distributed", "lost_worker"],
        "a race runs on this host; omit it, or try `muxbench compare --distributed`",
    ),
    (&["gate"], &["placebo"], "a gate has two builds; to see the noise, give the same build twice"),
    (&["gate"], &["arch"], "a gate compares OLD with NEW; omit it"),
    (
        &["load"],
        &["explain"],
        "the server's counters are unknown; try `muxbench compare` with --target and --target-pid",
    ),
    (&["load"], &["allow_exec"], "the server runs already; omit it"),
    (
        &["idle"],
        &["think", "pipeline", "requests_per_connection", "get_share", "keys"],
        "an idle connection has a first and a last request only; omit it",
    ),
    (&["calibrate"], &["request_timeout", "retries", "retry_budget"], "a calibration waits for all responses; omit it"),
    (
        &["calibrate"],
        &["shared"],
        "the calibration server polls all the time, so each side needs CPUs of its own; omit it",
    ),
];

/// Flags of `serve`, and the services that have them.
const FLAGS_OF_SERVICES: &[(&[&str], &[&str])] = &[
    (&["request", "response"], &["fixed", "udp"]),
    (&["ports"], &["udp"]),
    (&["memory", "item_max"], &["kv", "redis"]),
    (&["folder", "request_timeout", "keepalive_timeout"], &["http"]),
    (&["packet", "packets", "ack", "direction", "by_packet"], &["stream"]),
    (&["connections_max"], &["fixed", "kv", "redis", "http", "stream"]),
];

/// Pairs of flags of which the first refuses the second, and the reason with the remedy.
const REFUSED_PAIRS: &[(&str, &str, &str)] = &[
    ("distributed", "client_processes", "the launcher of --distributed starts the client processes; omit it"),
    ("capacity", "measure", "the pulse lasts for --before, --pulse-length and --after; omit it"),
];

/// The refused flags of a command, each with the reason and the remedy.
pub fn of(command: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = REFUSED_FLAGS.iter().filter(move |(commands, ..)| commands.contains(&command));
    rows.flat_map(|(_, flags, reason)| flags.iter().map(|flag| (*flag, *reason)))
}

/// Returns an error for the first refused flag of a command that the user gave.
pub fn error(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let is_given = |id: &&str| is_given(matches, id);
    let exists = |id: &&str| command.get_arguments().any(|arg| arg.get_id() == *id);
    let are_given = |one: &&str, other: &&str| [one, other].into_iter().all(|id| exists(id) && is_given(id));
    let pair = || REFUSED_PAIRS.iter().find(|(one, other, _)| are_given(one, other)).map(|row| (row.1, row.2));
    let refused = || {
        let alone = of(command.get_name()).find(|(id, _)| is_given(id));
        alone.or_else(pair).map(|(id, reason)| (id, reason.to_owned()))
    };
    let unknown_to_service = || {
        let service = matches.get_raw("service")?.next()?.to_str()?;
        let others = FLAGS_OF_SERVICES.iter().filter(|(_, services)| !services.contains(&service));
        let mut flags = others.flat_map(|(flags, services)| flags.iter().map(move |flag| (*flag, services)));
        let (id, services) = flags.find(|(id, _)| is_given(id))?;
        Some((id, format!("`{service}` does not have it; omit it, or choose --service {}", services.join(" or "))))
    };
    let (id, reason) = if command.get_name() == "serve" { unknown_to_service()? } else { refused()? };
    let flag = command.get_arguments().find(|arg| arg.get_id() == id)?.get_long()?;
    Some(format!("--{flag}: {reason}"))
}
