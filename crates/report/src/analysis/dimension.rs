//! The dimensions in which workloads differ. Tables, figures and claims show curves along one dimension.

use harness::record::Workload;
use harness::spec::units::{Share, Size};
use wire::ServiceSpec;

use crate::analysis::summary::{Comparison, Summary};
use crate::format;
use crate::list::grouped;

/// A dimension in which workloads differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Connections, without idle ones.
    Connections,
    /// Requests per second.
    Rate,
    /// The share of connections that carry requests.
    Active,
    /// Connections without requests.
    Idle,
    /// Ports that a datagram server watches.
    Ports,
    /// Bytes per response; the request size may differ too.
    Response,
}

impl Dimension {
    /// Returns a workload's position in the dimension.
    pub fn at(self, workload: &Workload) -> f64 {
        match self {
            Self::Connections => workload.connections.into(),
            Self::Rate => workload.rate_per_s().unwrap_or(f64::INFINITY),
            Self::Active => workload.active(),
            Self::Idle => workload.idle.into(),
            Self::Ports => workload.service.ports().unwrap_or(0).into(),
            Self::Response => workload.service.fixed().map_or(0.0, |(_, response_bytes)| response_bytes.into()),
        }
    }

    /// Returns the workload with this dimension cleared. Workloads with equal results differ at most in this dimension.
    pub fn apart_from(self, workload: &Workload) -> Workload {
        let mut rest = workload.clone();
        match self {
            Self::Connections => rest.connections = 0,
            Self::Rate => rest = rest.without_rate(),
            Self::Active => rest.requests_mut().into_iter().for_each(|it| it.active = 1.0),
            Self::Idle => rest.idle = 0,
            Self::Ports => {
                rest.connections = 0;
                if let ServiceSpec::Udp { ports, .. } = &mut rest.service {
                    *ports = 0;
                }
            }
            Self::Response => rest.service = ServiceSpec::Fixed { request_bytes: 0, response_bytes: 0 },
        }
        rest
    }

    /// Returns a workload's position in words, as titles of workloads write it.
    pub fn words(self, workload: &Workload) -> String {
        let place = match self {
            Self::Rate => format::rate(workload.rate_per_s()),
            Self::Active => Share(workload.active()).to_string(),
            Self::Response => match workload.service.fixed() {
                Some((request_bytes, response_bytes)) => format!("{} -> {}", Size(request_bytes), Size(response_bytes)),
                None => workload.service.name().to_owned(),
            },
            _ => self.at(workload).to_string(),
        };
        place + self.unit()
    }

    /// Returns the words that follow a position.
    fn unit(self) -> &'static str {
        match self {
            Self::Connections => " connections",
            Self::Rate => " requests/s",
            Self::Active => " active",
            Self::Idle => " idle connections",
            Self::Ports => " ports",
            Self::Response => "",
        }
    }

    /// Returns the label of an axis that shows the dimension.
    pub fn label(self) -> &'static str {
        match self {
            Self::Rate => "planned requests/s",
            Self::Active => "active share of the connections",
            Self::Response => "bytes of a response",
            _ => self.unit().trim_start(),
        }
    }

    /// Returns whether a part of a workload's title states the position in this dimension.
    pub fn is_stated_by(self, words: &str) -> bool {
        match self {
            Self::Response => words.contains(" -> "),
            // "1000 idle connections" is no number of connections.
            _ => words
                .strip_suffix(self.unit())
                .is_some_and(|it| it.starts_with(|first: char| first.is_ascii_digit()) && !it.contains(' ')),
        }
    }

    /// Returns the dimension along which a run's workloads grow: ports if any server watches ports; idle connections if
    /// only their number differs; otherwise connections.
    pub fn of_size(summary: &Summary) -> Self {
        let workloads = || summary.comparisons.iter().map(|comparison| &comparison.workload);
        let differ = |along: Self| workloads().any(|it| workloads().any(|other| along.at(it) != along.at(other)));
        if workloads().any(|it| it.service.ports().is_some()) {
            Self::Ports
        } else if !differ(Self::Connections) && differ(Self::Idle) {
            Self::Idle
        } else {
            Self::Connections
        }
    }

    /// Groups the workloads that differ only in this dimension, in their order.
    pub(crate) fn groups<'a>(self, comparisons: impl Iterator<Item = &'a Comparison>) -> Vec<Vec<&'a Comparison>> {
        grouped(comparisons, |a, b| self.apart_from(&a.workload) == self.apart_from(&b.workload))
    }
}

/// For each group, returns the parts of its title that some other group lacks, without the position in `along`.
pub(crate) fn apart(groups: &[Vec<&Comparison>], along: Option<Dimension>) -> Vec<String> {
    let is_stated = |words: &str| along.is_some_and(|along| along.is_stated_by(words));
    let words = |group: &Vec<&Comparison>| -> Vec<String> {
        group[0].title.split(", ").filter(|words| !is_stated(words)).map(str::to_owned).collect()
    };
    let all: Vec<Vec<String>> = groups.iter().map(words).collect();
    let is_common = |word: &String| all.iter().all(|words| words.contains(word));
    let title = |words: &Vec<String>| {
        let apart: Vec<&str> = words.iter().filter(|word| !is_common(word)).map(String::as_str).collect();
        apart.join(", ")
    };
    all.iter().map(title).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::workload::title;

    #[test]
    fn titles_state_the_position_in_each_dimension() {
        for run in [testkit::run(), testkit::kawai2006_run(), testkit::datagram_run()] {
            let summary = Summary::of(&run);
            let along = Dimension::of_size(&summary);
            for comparison in &summary.comparisons {
                let title = title(&comparison.workload);
                let words: Vec<&str> = title.split(", ").filter(|words| along.is_stated_by(words)).collect();
                assert_eq!(words, [along.words(&comparison.workload)], "{title}");
            }
        }
        assert!(!Dimension::Connections.is_stated_by("1000 idle connections"));
        let mut run = testkit::run_of(&["epoll"], |_, _, _| 1_000);
        for (at, trial) in run.header.trials.iter_mut().enumerate() {
            (trial.workload.connections, trial.workload.idle) = (400, 1_000 * at as u32);
        }
        let summary = Summary::of(&run);
        assert_eq!(Dimension::of_size(&summary), Dimension::Idle);
        assert_eq!(Dimension::Idle.groups(summary.comparisons.iter()).len(), 1);
        assert_eq!(Dimension::Connections.groups(summary.comparisons.iter()).len(), 6);
        let title = title(&summary.comparisons[1].workload);
        assert!(title.split(", ").any(|words| Dimension::Idle.is_stated_by(words)), "{title}");
    }
}
