//! What runs hold of each architecture under each workload, one value a repeat.

use lab::record::{Run, VerdictKind, Workload};
use stats::{Estimate, Ratio};
use wire::ServiceSpec;

use super::{Axis, Metric};
use crate::deviation::SendsOf;

/// An architecture under a workload.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub architecture: String,
    pub workload: Workload,
    /// The metric of each valid repeat that has it.
    pub values: Vec<f64>,
    /// The verdicts of all finished repeats.
    pub verdicts: Vec<VerdictKind>,
    seed: u64,
}

impl Cell {
    pub fn estimate(&self) -> Option<Estimate> {
        Estimate::of(&self.values, self.seed)
    }

    pub fn against(&self, base: &Self) -> Option<Ratio> {
        Ratio::of(&self.values, &base.values, self.seed)
    }
}

/// The cells of these architectures, as far as trials of them are finished, in the order of `architectures`.
pub(super) fn cells(
    runs: &[Run],
    sends_of: &mut [&mut SendsOf<'_>],
    architectures: &[&str],
    only: fn(&Workload) -> bool,
    metric: &Metric,
) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for (run, sends_of) in runs.iter().zip(sends_of) {
        for record in &run.records {
            let (name, workload) = (record.trial.architecture.to_string(), &record.trial.workload);
            if !architectures.contains(&name.as_str()) || !only(workload) {
                continue;
            }
            let at = cells.iter().position(|cell| cell.architecture == name && cell.workload == *workload);
            let at = at.unwrap_or_else(|| {
                let (values, verdicts, seed) = (Vec::new(), Vec::new(), run.header.seed);
                cells.push(Cell { architecture: name, workload: workload.clone(), values, verdicts, seed });
                cells.len() - 1
            });
            cells[at].verdicts.push(record.verdict.kind);
            if record.verdict.kind == VerdictKind::Valid {
                cells[at].values.extend((metric.of)(record, sends_of));
            }
        }
    }
    let rank = |cell: &Cell| architectures.iter().position(|&name| name == cell.architecture);
    cells.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| crate::summary::order(&a.workload, &b.workload)));
    cells
}

impl Axis {
    /// Where a workload is on it.
    pub(super) fn at(self, workload: &Workload) -> f64 {
        match self {
            Self::Connections => workload.connections.into(),
            Self::Rate => workload.rate_per_s.unwrap_or(f64::INFINITY),
            Self::Active => workload.active,
            Self::Idle => workload.idle.into(),
            Self::Ports => workload.service.ports().unwrap_or(0).into(),
            Self::Response => workload.service.fixed().map_or(0.0, |(_, response_bytes)| response_bytes.into()),
        }
    }

    /// The workload without it: two that agree in this differ on the axis alone.
    pub(super) fn apart_from(self, workload: &Workload) -> Workload {
        let mut rest = workload.clone();
        match self {
            Self::Connections => rest.connections = 0,
            Self::Rate => rest.rate_per_s = None,
            Self::Active => rest.active = 1.0,
            Self::Idle => rest.idle = 0,
            Self::Ports => (rest.service, rest.connections) = (with_ports(&rest.service, 0), 0),
            Self::Response => rest.service = ServiceSpec::Fixed { request_bytes: 0, response_bytes: 0 },
        }
        rest
    }

    /// A place on it, in words.
    pub(super) fn words(self, workload: &Workload) -> String {
        match self {
            Self::Connections => format!("{} connections", workload.connections),
            Self::Rate => format!("{} requests/s", crate::format::rate(workload.rate_per_s)),
            Self::Active => format!("{} active", lab::units::Share(workload.active)),
            Self::Idle => format!("{} idle connections", workload.idle),
            Self::Ports => format!("{} ports", workload.service.ports().unwrap_or(0)),
            Self::Response => match workload.service.fixed() {
                Some((request_bytes, response_bytes)) => {
                    format!("{} -> {}", lab::units::Size(request_bytes), lab::units::Size(response_bytes))
                }
                None => workload.service.name().to_owned(),
            },
        }
    }
}

fn with_ports(service: &ServiceSpec, ports: u32) -> ServiceSpec {
    match *service {
        ServiceSpec::Udp { request_bytes, response_bytes, .. } => {
            ServiceSpec::Udp { ports, request_bytes, response_bytes }
        }
        ref other => other.clone(),
    }
}
