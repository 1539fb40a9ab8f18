//! Tests of the command line: what it accepts, and what it refuses.

use clap::builder::StyledStr;
use xtask::commands::{self, Shown};

use super::*;

/// Parses a command line, and returns its conflict.
fn conflict_of(line: &str) -> Option<String> {
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(line.split_whitespace()).unwrap();
    let (name, matches) = matches.subcommand().unwrap();
    conflict(command.find_subcommand(name).unwrap(), matches)
}

#[test]
fn resume_rejects_flags_that_change_the_experiment() {
    for (line, names) in [
        ("muxbench run smoke --resume here --quick", "FILE and --quick cannot"),
        ("muxbench run --resume here --count-syscalls", "--count-syscalls cannot"),
        ("muxbench run --resume here --output there", "--output cannot"),
        ("muxbench compare --resume --arch epoll --connections 1 --rate 2", "--arch, --rate and --connections cannot"),
        ("muxbench compare --resume --print-experiment", "--print-experiment cannot"),
        ("muxbench compare profile.toml --resume here", "FILE cannot"),
        ("muxbench compare --resume --network lab --delay 1ms", "--network and --delay cannot"),
        ("muxbench sweep --resume here --rate 1..2+1 --past 3", "--rate and --past cannot"),
        ("muxbench capacity --resume here --p99 1ms", "--p99 cannot"),
        ("muxbench advise --resume here --budget 9s", "--budget cannot"),
        ("muxbench gate mt poll profile.toml --resume here", "OLD, NEW and FILE cannot"),
        ("muxbench atlas --resume here --rate 1", "--rate cannot"),
        ("muxbench atlas --resume here --merge there", "--merge cannot"),
    ] {
        let error = conflict_of(line).unwrap_or_else(|| panic!("{line}"));
        let has_folder = error.contains("without --resume (the folder of a run follows --resume directly)");
        assert!(error.starts_with(names) && has_folder == names.contains("FILE"), "{line}: {error}");
        assert!(error.contains("--json") && !error.contains(", --resume"), "{error}");
        assert!(
            conflict_of(&line.replace("--resume here", "").replace("--resume", "")).is_none(),
            "{line}: the flags are valid without --resume"
        );
    }
    assert!(conflict_of("muxbench capacity --resume --p99 1ms").unwrap().contains("--resume allows --time-max, "));
}

#[test]
fn resume_allows_flags_of_execution_and_output() {
    for line in [
        "muxbench run --resume",
        "muxbench run --resume here --allow-exec --strict --distributed --lost-worker continue --explain -q",
        "muxbench run --resume here --json",
        "muxbench compare --resume here --budget 2min --markdown",
        "muxbench capacity --resume --time-max 1h",
        "muxbench sweep --resume here --csv a.csv --tsv a.tsv",
        "muxbench atlas --resume --budget 1h --html map.html --json",
        "muxbench list --json",
    ] {
        assert_eq!(conflict_of(line), None, "{line}");
    }
}

#[test]
fn command_takes_only_options_that_fit_it() {
    for line in [
        "capacity --p99 1ms --explain",
        "overload --capacity 400 --explain",
        "advise --placebo",
        "advise --distributed",
        "atlas --placebo",
        "gate old new --placebo",
        "calibrate --request-timeout 1s",
        "calibrate --share-cpus",
        "sweep --rate 1k --think 1ms",
        "overload --capacity 400 --sessions 2 --requests-per-connection 2",
        "load http://h/ --explain",
        "load http://h/ --allow-exec",
        "idle http://h/ --pipeline 2",
        "capacity --p99 1ms --sessions 2 --requests-per-connection 2",
        "serve --think 1ms",
    ] {
        let error = Cli::try_parse_from(format!("muxbench {line}").split(' ')).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{line}: {error}");
    }
}

#[test]
fn page_of_distributed_runs_names_all_its_commands() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/distributed.md");
    let page = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{page}: {error}"));
    for command in command().get_subcommands() {
        let has_flag = command.get_arguments().any(|arg| arg.get_id() == "distributed" && !arg.is_hide_set());
        let name = command.get_name();
        let is_named =
            page.contains(&format!("`{name}`")) || page.contains(&format!("muxbench {name} FILE --distributed"));
        assert!(is_named || !has_flag, "{name}");
    }
}

#[test]
fn rows_of_commands_name_their_flags() {
    let command = Cli::command();
    for row in crate::options::command::COMMANDS {
        let command = command.find_subcommand(row.name).unwrap();
        assert!(row.resumes.iter().all(|it| command.get_arguments().any(|arg| arg.get_id() == it)), "{}", row.name);
    }
}

/// Parses an invalid command line, and returns the error with its remedy.
fn error_with_remedy(line: &str) -> String {
    let mut command = Cli::command();
    let error = command.try_get_matches_from_mut(line.split(' ')).unwrap_err();
    with_remedy(error, chosen(&mut command, line.split(' ').nth(1).map(OsString::from))).to_string()
}

#[test]
fn flags_of_other_tools_get_a_remedy() {
    for (line, words) in [
        ("load http://h/ -t 4", "tip: --clients N: Independent clients"),
        ("load http://h/ --requests 1000", "tip: -z TIME: Duration of the measured window"),
        ("load http://h/ --duration 10s", "tip: -z TIME"),
        ("idle http://h/ --duration 10s", "tip: --time TIME"),
        ("serve --port 8080", "tip: --listen ADDRESS"),
        ("serve -t 4", "tip: --arch ARCH"),
    ] {
        let error = error_with_remedy(&format!("muxbench {line}"));
        let usage = format!("Usage: muxbench {} [OPTIONS]", line.split(' ').next().unwrap());
        assert!(error.contains(words) && error.contains(&usage), "{error}");
        assert_eq!(error.matches("tip:").count(), 1, "{error}");
    }
    assert!(error_with_remedy("muxbench compare --conections 1").contains("'--connections'"));
    assert!(error_with_remedy("muxbench run smoke --duration 1s").contains("'--duration' found"));
}

#[test]
fn invalid_value_is_rejected_with_valid_ones() {
    for (line, words) in [
        ("compare --request 128", "such as 128B"),
        ("compare --measure 10", "such as 30s"),
        ("compare --rate 0", "above 0, such as 2000"),
        ("compare --connections 0", "--connections"),
        ("compare --active 2", "such as 1/16"),
        ("compare --popularity pareto", "expected uniform, zipf"),
        ("compare --schedule random", "expected one of `slot-random`"),
        ("compare --pacing fast", "expected one of `auto`"),
        ("compare --network wan", "lab:clients=5"),
        ("compare --network lab --bandwidth 1GB", "1Gbit"),
        ("compare --network lab --loss 0.1", "0.1 alone could mean 0.1% or 10%"),
        ("compare --service htp", "did you mean `http`?"),
        ("compare -c 1.5", "such as 400, 10k or 1M"),
        ("compare --rate-profile ramp:1k:5s", "expected ramp:RATE..RATE:TIME, such as ramp:2000..8000:5s"),
        ("compare --target http://127.0.0.1:9/", "as in mine=http://127.0.0.1:9/"),
        ("compare --exec mine='{port}", "a quotation mark has no partner"),
        ("sweep", "--rate"),
        ("sweep --rate 1..5", "such as 10000..45000+5000"),
        ("sweep --rate 100 --past 0", "expected a number above 0, or never"),
        ("capacity --p99 1", "such as 1ms or 30s"),
        ("capacity --p99 0", "expected a time above 0"),
        ("compare --arch EPOLL", "no model `EPOLL`; did you mean `epoll`?"),
        ("compare --response 1B,2B", "such as 128B"),
        ("capacity", "--p99 <TIME>"),
        ("overload", "--capacity <RATE>"),
        ("capacity --p99 1ms --precision 60%", "expected a share from 0.5% to 50%"),
        ("overload --capacity 400 --pulse-length 150ms", "expected a multiple of 100ms; try 200ms"),
        ("gate epoll mt --arch poll", "unexpected argument '--arch'"),
        ("compare --json --explain", "cannot be used with"),
        ("capacity --at-rate 100 --connections 5", "cannot be used with"),
        ("overload --capacity 400 --pulse 0", "expected a number above 0, such as 1.5"),
        ("gate epoll mt --budget 0s", "expected a time above 0"),
        ("compare --budget 0s", "expected a time above 0"),
        ("calibrate --hold 1ms,0us", "expected a time above 0"),
        ("advise --budget 0", "expected a time above 0"),
        ("atlas --resume --budget 0s", "expected a time above 0"),
        ("capacity --p99 1ms --time-max 0s", "expected a time above 0"),
        ("advise --objective p98", "did you mean"),
        ("advise --limit p99=2", "such as 30s"),
        ("atlas --response 1KiB,2", "such as 128B"),
        ("atlas --simulated-work cpu", "such as cpu=50us"),
        ("plan - --hosts --client-host-cpus 0", "invalid count `0`: expected a whole number from 1"),
        ("observe", "--port <PORT>|--pid <PID>|--pcap <FILE>"),
        ("compare --target mine=http://h/ --target-pid mine=a", "invalid process ID `a`: expected a number above 0"),
        ("compare --exec ./server{port}", "as in mine=./server{port}"),
        ("compare --target http://h/?a=1", "as in mine=http://h/?a=1"),
        ("observe --port 0", "--port"),
        ("observe --port http", "expected a port from 1 to 65535"),
        ("observe --port 80 --pid 1", "cannot be used with"),
        ("serve --service stream --packet 0B", "0B"),
        ("serve --tls-cert a", "--tls-key <FILE>"),
        ("load --target 127.0.0.1", "127.0.0.1"),
        ("load http://127.0.0.1:1/ --target 127.0.0.1:1", "cannot be used with"),
        ("load http://127.0.0.1:1/ --header Accept", "invalid header"),
    ] {
        let error = Cli::try_parse_from(format!("muxbench {line}").split(' ')).unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().contains(words), "{line}: {error}");
    }
}

/// Valid command lines that their commands refuse, with the exit code and words of the error. `tool::errors` runs the program for
/// a few others.
const REFUSED: &[(&str, i32, &str)] = &[
    ("run", 1, "name an experiment file"),
    ("run absent.toml", 1, "absent.toml: neither a file nor a preset"),
    ("run smok", 1, "did you mean `smoke`?"),
    ("run smoke --quick", 1, "has no [quick] table"),
    // Servers.
    ("compare --target mine=http://h/ --target mine=http://h/", 1, "--target mine: the name appears twice"),
    ("compare --arch epoll,target:mine", 1, "target:mine is not defined; add a table [target.mine]"),
    ("compare --target mine=http://h/ --target-pid other=1", 1, "target.other: missing field `url`"),
    ("sweep -r 1k --csv a.csv --tsv ./a.csv", 1, "--csv and --tsv: both are a.csv"),
    ("compare --target mine=http://h/ --service fixed", 1, "but the service is `fixed`"),
    ("compare --exec mine={port} --exec-config other=x", 1, "exec.other: missing field `command`"),
    ("atlas --print-plan -c 10,10", 1, "workload.connections: 10 appears twice"),
    ("atlas --print-plan --request 9B,9B", 1, "two races have the same traffic"),
    ("atlas --print-plan --schedule closed,constant", 1, "a closed loop has no rate, but open loops need one"),
    ("calibrate -r 1 -z 100ms", 1, "about 0 requests are too few for a calibration"),
    ("compare --repeats 100k", 1, "repeats: 100000 exceeds the limit of 10000; lower it"),
    ("compare --server-cpus 4000", 1, "may not use CPU 4000"),
    // Loads.
    ("compare --connections 4000000000", 1, "no trial can run on this host"),
    ("compare --connections 31 --client-processes 32", 1, "cannot divide 31 connections"),
    ("compare --arch epoll -c 8 -r 50 -z 300ms", 1, "about 15 requests in the window are too few for a verdict"),
    ("compare --trace absent.csv", 1, "absent.csv: No such file"),
    ("compare --trace Cargo.toml --speed 0", 1, "workload.trace.speed: must be a finite number above 0"),
    ("compare --arch epoll --service http --body x", 1, "a body (-d) makes POST the default method"),
    ("compare --arch epoll --service udp --tls", 1, "workload.tls: datagrams have no TLS; remove it"),
    ("compare --arch epoll --service stream --tls", 1, "workload.tls: streams measure the bandwidth of plain text"),
    // Searches.
    ("capacity --p99 1ms --from 1", 1, "too few requests for a percentile"),
    ("capacity --p999 1ms --to 10", 1, "exceeds the highest value, 10"),
    ("capacity --p99 1ms --schedule closed", 1, "capacity needs an open loop"),
    ("sweep --rate 1k --service stream", 1, "sweep needs an open loop"),
    ("capacity --at-rate 1", 1, "--at-rate 1: too few requests"),
    ("capacity --at-rate 100 --to 2000.5", 1, "expected a number of connections"),
    ("capacity --at-rate 100 --to 4000000000", 1, "no trial can run on this host"),
    ("overload --capacity 400 --pulse 0.5", 1, "above that before the pulse, --base 0.7; try 1.4"),
    ("overload --capacity 400 --after 10min", 1, "together more than 100s"),
    ("overload --capacity 400 --schedule closed", 1, "choose another --schedule"),
    ("overload --capacity 400 --service udp", 1, "only requests over lasting connections"),
    ("overload --capacity 400 --retries 11", 1, "client.retries: more than 10 retries"),
    ("overload --capacity 100M --connections 8", 1, "the limit of memory"),
    // Races.
    ("advise --arch epoll", 1, "a race needs two servers"),
    ("advise --arch epoll,mt -r 500 --limit rate=1k", 1, "no server answers more than the planned 500 requests/s"),
    ("atlas -c 10 -r 500,800 --limit rate=1k", 1, "no server answers more than the planned 800 requests/s"),
    ("advise --arch epoll,mt -c 1,2", 1, "a race has one workload, and this experiment has 2"),
    ("advise --arch epoll,mt --service udp --ports 10,20", 1, "give one value of --connections, --ports"),
    ("advise --arch epoll,mt --busy-poll off,50us", 1, "--busy-poll: a race has one server of each architecture"),
    ("advise --resume absent", 1, "cannot resume absent"),
    ("atlas --accept shared,reuseport --print-plan", 1, "--accept: a race has one server of each architecture"),
    (
        "atlas --arch epoll -c 10,20 --active 1 -r 100 --response 1B --simulated-work none --print-plan",
        1,
        "a race needs two servers",
    ),
    ("atlas --merge src", 1, "contains no races"),
    ("atlas --resume src", 1, "contains no races"),
    // Single servers.
    ("load", 2, "--target"),
    ("load https://127.0.0.1:1/", 1, "start the server, or correct the address"),
    ("load --target 127.0.0.1:1 --samples absent/x", 1, "cannot write absent/x: its folder does not exist"),
    ("calibrate --hold 1ms,10s", 1, "--hold 10s: a client waits for the first response only for 10s (--timeout)"),
    ("calibrate --hold 1s --timeout 500ms", 1, "try a shorter hold, or a longer --timeout"),
    ("observe --port 1 --duration 10ms", 1, "expected a time from 1s to 10min"),
    ("observe --port 1 --output /none/x.toml", 1, "cannot write /none/x.toml"),
];

#[test]
fn refused_command_names_a_remedy() {
    for (line, code, words) in REFUSED {
        let cli = Cli::try_parse_from(format!("muxbench {line}").split(' ')).unwrap_or_else(|error| panic!("{error}"));
        let Err(error) = cli.command.run() else { panic!("{line}: not refused") };
        let actual = error.downcast_ref::<clap::Error>().map_or(1, clap::Error::exit_code);
        let error = format!("{error:#}");
        assert!(actual == *code && error.contains(words), "{line}: {actual}: {error}");
    }
}

#[test]
fn short_flags_and_quantities_of_other_tools_are_read() {
    for (short, long) in [
        ("compare -c 10K -r 2000/s -z 10m", "compare --connections 10000 --rate 2000 --measure 10min"),
        ("sweep -r 1k -c 5", "sweep --rate 1000 --connections 5"),
        ("load unix:s -c 1k -r 8k -z 1m", "load unix:s --connections 1000 --rate 8000 --measure 60s"),
        ("idle unix:s -c 2k", "idle unix:s --connections 2000"),
    ] {
        assert_eq!(parsed(&format!("muxbench {short}")), parsed(&format!("muxbench {long}")), "{short}");
    }
}

fn parsed(line: &str) -> String {
    format!("{:?}", Cli::try_parse_from(line.split(' ')).unwrap())
}

#[test]
fn network_conditions_need_no_network_in_lab() {
    assert_eq!(parsed("muxbench lab --delay 1ms -- sh"), parsed("muxbench lab --network lab --delay 1ms -- sh"));
}

#[test]
fn usage_is_that_of_the_command() {
    let mut tool = Cli::command();
    tool.build();
    for (name, usage) in [("load", "Usage: muxbench load "), ("other", "Usage: muxbench <COMMAND>")] {
        let error = clap::Error::raw(ErrorKind::MissingRequiredArgument, "a reason");
        let error = error.format(chosen(&mut tool, Some(name.into()))).to_string();
        assert!(error.contains(usage), "{error}");
    }
}

/// Returns the examples in the help of all commands.
fn examples() -> Vec<Shown> {
    let all = Cli::command();
    let helps = all.get_subcommands().map(|command| (command.get_name(), command.get_after_help()));
    let with_prompts = |help: &StyledStr| {
        let line = |line: &str| match line.trim() {
            line if line.starts_with("muxbench ") || line.starts_with("sudo ") => format!("$ {line}\n"),
            line => format!("{line}\n"),
        };
        help.to_string().lines().map(line).collect::<String>()
    };
    let helps = helps.chain([("help", all.get_after_long_help())]);
    let found = helps.filter_map(|(name, help)| Some((name, with_prompts(help?))));
    found.flat_map(|(name, lines)| commands::of_text(name, &format!("```console\n{lines}```\n"))).collect()
}

#[test]
fn commands_of_documents_and_help_are_valid() {
    let examples = examples();
    assert!(examples.len() > 50, "only {} examples", examples.len());
    let shown = commands::of_documents().unwrap().into_iter().chain(examples);
    let shown = shown.filter(|shown| shown.program == "muxbench");
    let shown: Vec<_> = shown.filter(|shown| !shown.arguments.is_empty()).collect();
    assert!(shown.len() > 100, "only {} commands are shown", shown.len());
    let mut command = Cli::command();
    for shown in shown {
        let Some(matches) = shown.parse(&mut command).unwrap_or_else(|error| panic!("{error}")) else { continue };
        let (name, matches) = matches.subcommand().unwrap();
        let conflict = conflict(command.find_subcommand(name).unwrap(), matches);
        assert_eq!(conflict, None, "{}: {:?}", shown.source, shown.arguments);
    }
}
