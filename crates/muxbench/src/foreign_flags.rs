//! Flags that users of other tools type.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags of wrk, oha, hyperfine, fio and curl, and the remedy. It replaces clap's tip, the flag with the most similar name. The first
/// row applies whose remedy names only flags of the command.
const FOREIGN_FLAGS: &[(&[&str], &str)] = &[
    (&["-t", "--threads"], "the client needs no number of threads; --clients N adds clients"),
    (&["-t", "--threads"], "the architecture sets the number of threads, as in --arch symped:4"),
    (&["-n", "--requests"], "a window has a duration and a rate, not a number of requests: try -z TIME -r RATE"),
    (&["-n", "--requests"], "a window has a duration, not a number of requests: try -z TIME"),
    (&["--duration", "--time", "--runtime"], "-z TIME sets the duration of the window"),
    (&["-z", "--duration"], "--time TIME sets the duration"),
    (&["--concurrency"], "-c N sets the number of connections"),
    (&["--latency"], "no flag is needed: reports have percentiles"),
    (&["--closed"], "--schedule closed makes a closed loop"),
    (&["--data", "--data-binary"], "-d BODY sets the body of each request"),
    (&["-p", "--port"], "--listen 127.0.0.1:PORT sets the address"),
    (&["--runs"], "--repeats N sets the number of repeats"),
];

/// Replaces clap's tip for a flag of another tool, in an error of this command.
pub fn with_remedy(mut error: clap::Error, command: &mut clap::Command) -> clap::Error {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let row = FOREIGN_FLAGS.iter().find(|(flags, remedy)| flags.contains(&flag.as_str()) && fits(remedy, command));
    if let Some((_, remedy)) = row.filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        let usage = command.render_usage();
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![(*remedy).into()]));
        // Clap's usage contains the suggested flag.
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    error
}

/// Whether a command has all flags that a remedy names.
fn fits(remedy: &str, command: &clap::Command) -> bool {
    let has = |flag: &str| {
        command.get_arguments().any(|arg| {
            arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long))
                || arg.get_short().is_some_and(|short| flag.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4])))
        })
    };
    remedy.split(' ').filter(|word| word.starts_with('-')).all(has)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::{Cli, chosen};

    /// Parses an invalid command line, and returns the error with its remedy.
    fn error_with_remedy(line: &str) -> String {
        let mut command = Cli::command();
        let error = command.try_get_matches_from_mut(line.split(' ')).unwrap_err();
        with_remedy(error, chosen(&mut command, line.split(' ').nth(1).map(OsString::from))).to_string()
    }

    #[test]
    fn flags_of_other_tools_get_a_remedy() {
        for (line, words) in [
            ("load http://h/ -t 4", "--clients N"),
            ("load http://h/ --requests 1000", "try -z TIME -r RATE"),
            ("capacity --p99 1ms --requests 1000", "try -z TIME\n"),
            ("load http://h/ --duration 10s", "-z TIME"),
            ("idle http://h/ --duration 10s", "--time TIME"),
            ("load http://h/ --latency", "no flag is needed"),
            ("serve --port 8080", "--listen 127.0.0.1:PORT"),
            ("serve -t 4", "--arch symped:4"),
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
    fn each_remedy_fits_a_command() {
        let tool = Cli::command();
        for (flags, remedy) in FOREIGN_FLAGS {
            assert!(tool.get_subcommands().any(|command| fits(remedy, command)), "{flags:?}: {remedy}");
        }
    }
}
