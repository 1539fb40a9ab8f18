//! Exit codes.

use std::process::ExitCode;

use crate::output;

/// A run has no valid trial or lost a worker, a result fails `--strict`, the trial of `load` is not valid, or `idle` lost a
/// connection.
pub const NO_VALID_TRIAL: u8 = 3;
/// The new build is slower, or worse by another figure (`gate`).
pub const SLOWER: u8 = 1;
/// A gate is undecided.
pub const UNDECIDED: u8 = 4;
/// A gate could not run. 1 is the code of a slower build.
pub const GATE_FAILED: u8 = 5;
/// A signal stopped the command; shells report this code for SIGINT.
pub const STOPPED: u8 = 130;

type Meaning = (u8, &'static str);

const RESUMABLE: Meaning = (STOPPED, "stopped by a signal; finished trials are saved, and --resume continues");

/// The codes of all commands.
const EVERY: [Meaning; 3] = [(0, "done"), (1, "failed"), (2, "wrong usage")];

/// The codes of commands, besides or instead of those of all commands.
const OWN: [(&[&str], &[Meaning]); 11] = [
    (
        &["compare", "sweep", "run"],
        &[(NO_VALID_TRIAL, "no valid trial, a lost worker, or a result that --strict rejects"), RESUMABLE],
    ),
    (
        &["capacity"],
        &[(NO_VALID_TRIAL, "no probe met the limits, a lost worker, or a result that --strict rejects"), RESUMABLE],
    ),
    (
        &["overload"],
        &[
            (NO_VALID_TRIAL, "no server has a known recovery, a lost worker, or a result that --strict rejects"),
            RESUMABLE,
        ],
    ),
    (&["advise"], &[(NO_VALID_TRIAL, "no winner, or a result that --strict rejects"), RESUMABLE]),
    (&["atlas"], &[(NO_VALID_TRIAL, "no race has an answer"), RESUMABLE]),
    (
        &["gate"],
        &[
            (0, "the new build is not slower"),
            (SLOWER, "the new build is slower, or worse by another figure"),
            (NO_VALID_TRIAL, "a lost worker, or with --strict: not all trials are valid"),
            (UNDECIDED, "undecided at the end of the budget"),
            (GATE_FAILED, "failed: the gate could not run"),
            RESUMABLE,
        ],
    ),
    (&["load"], &[(NO_VALID_TRIAL, "the trial is not valid"), RESUMABLE]),
    (&["reproduce"], &[(STOPPED, "stopped by a signal; a second call continues")]),
    (&["calibrate"], &[(NO_VALID_TRIAL, "with --strict: a bias exceeds its limit")]),
    (&["idle"], &[(NO_VALID_TRIAL, "a connection was not alive at the end"), (STOPPED, "stopped by a second signal")]),
    (&["observe"], &[(STOPPED, "stopped by a second signal")]),
];

/// Lists the exit codes of a command for its help.
pub fn described(command: &str) -> String {
    let own = OWN.iter().find(|(commands, _)| commands.contains(&command)).map_or(&[][..], |(_, own)| own);
    let is_common = |(code, _): &&Meaning| own.iter().all(|(other, _)| other != code);
    let mut all: Vec<&Meaning> = EVERY.iter().filter(is_common).chain(own).collect();
    all.sort_by_key(|(code, _)| *code);
    let codes = all.into_iter().map(|(code, meaning)| format!("\n  {code:3}  {meaning}"));
    let of_child = if command == "lab" { "\n       otherwise the code of the command in the lab" } else { "" };
    format!("Exit codes:{}{of_child}", codes.collect::<String>())
}

/// Returns all exit codes as a table in Markdown.
pub fn table() -> String {
    let row = |commands: &str, (code, meaning): &Meaning| format!("| {commands} | {code} | {meaning} |\n");
    let quoted = |commands: &[&str]| commands.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let every = EVERY.iter().map(|meaning| row("all, unless listed below", meaning));
    let own = OWN.iter().flat_map(|(commands, own)| own.iter().map(move |meaning| row(&quoted(commands), meaning)));
    let lab = "| `lab` | other | the code of the command in the lab |\n";
    format!("| command | code | meaning |\n|---|---|---|\n{}{lab}", every.chain(own).collect::<String>())
}

/// Prints the command that finishes an interrupted run, and returns the exit code.
pub fn stopped(command: &str) -> ExitCode {
    output::note(format_args!("stopped; finished trials are saved. Finish the run with: {command}"));
    ExitCode::from(STOPPED)
}

pub fn of_validity(is_valid: bool) -> ExitCode {
    if is_valid { ExitCode::SUCCESS } else { ExitCode::from(NO_VALID_TRIAL) }
}
