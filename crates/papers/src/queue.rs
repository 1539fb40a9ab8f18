//! The event queue of a system. Figures and claims name epoll; runs on other systems have their own in its place.

use std::borrow::Cow;

use harness::record::Run;

/// The event queues: a mechanism whose kernel keeps the interest list. Each system has one; epoll is Linux's.
pub const QUEUES: [&str; 3] = ["epoll", "kqueue", "event-ports"];

/// Returns a label with epoll in place of another system's queue, as in `symped:4/epoll` and `epoll-buffered`.
fn with_epoll(label: &str) -> Cow<'_, str> {
    let at = label.rfind('/').map_or(0, |at| at + 1);
    let mechanism = &label[at..];
    let is_queue =
        |queue: &&&str| mechanism.strip_prefix(**queue).is_some_and(|it| it.is_empty() || it.starts_with('-'));
    match QUEUES[1..].iter().find(is_queue) {
        Some(queue) => format!("{}{}{}", &label[..at], QUEUES[0], &mechanism[queue.len()..]).into(),
        None => label.into(),
    }
}

/// Returns whether a run's label is this series.
pub fn is(label: &str, series: &str) -> bool {
    with_epoll(label) == series
}

/// Returns the index of the series of a run's label.
pub fn position(series: &[&str], label: &str) -> Option<usize> {
    let label = with_epoll(label);
    series.iter().position(|name| *name == label)
}

/// Returns the event queues of runs.
pub fn of<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Vec<&'static str> {
    let trials = runs.into_iter().flat_map(|run| &run.header.trials);
    let names: Vec<String> = trials.map(|trial| trial.architecture.to_string()).collect();
    let is_run = |queue: &&str| names.iter().any(|name| name.rsplit('/').next() == Some(queue));
    QUEUES.into_iter().filter(is_run).collect()
}

/// Returns the names of series with the event queue of runs; with epoll if they have several or none.
pub fn shown(series: &[&str], runs: &[Run]) -> Vec<String> {
    named(series, &of(runs))
}

fn named(series: &[&str], queues: &[&str]) -> Vec<String> {
    let queue = match queues {
        [one] => one,
        _ => QUEUES[0],
    };
    series.iter().map(|name| name.replace(QUEUES[0], queue)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_other_systems_match_the_series_of_epoll() {
        for (label, series) in [
            ("kqueue", "epoll"),
            ("kqueue-buffered", "epoll-buffered"),
            ("symped:4/kqueue", "symped:4/epoll"),
            ("seda:2+4/event-ports", "seda:2+4/epoll"),
            ("epoll", "epoll"),
            ("poll", "poll"),
        ] {
            assert!(is(label, series), "{label}");
        }
        assert!(!is("kqueue2", "epoll") && !is("poll", "epoll"));
    }

    #[test]
    fn series_are_named_after_the_queue_of_the_runs() {
        let names = ["mt", "epoll", "symped:4/epoll", "epoll, five hosts"];
        assert_eq!(shown(&names, &[testkit::run()]), names);
        assert_eq!(named(&names, &["kqueue"]), ["mt", "kqueue", "symped:4/kqueue", "kqueue, five hosts"]);
        assert_eq!(named(&names, &["epoll", "kqueue"]), names);
        assert_eq!(position(&names, "symped:4/kqueue"), Some(2));
    }
}
