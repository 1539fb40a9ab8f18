//! The values of a metric for each architecture and workload, one per repeat.

use harness::record::{Run, Trial, TrialRecord, VerdictKind, Workload};
use stats::{Estimate, Interval, Ratio, Repeat};

use super::{Dimension, Metric};
use crate::queue;
use harness::record::figures::{RunFigures, heat};
use report::analysis::deviation::DeviationOf;
use report::plot::chart::Point;
use report::plot::plot_data::estimate;

/// A value with its interval; `None` without valid trials.
pub(super) type Found = Option<(f64, Option<Interval>)>;

/// An architecture under a workload.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub architecture: String,
    pub workload: Workload,
    /// The first experiment that has this workload.
    pub experiment: String,
    /// The metric of each repeat that counts or belongs in estimates; empty unless most repeats count.
    pub values: Vec<Repeat>,
    pub verdicts: Vec<VerdictKind>,
    /// The number of trials that the plan rejects.
    pub infeasible: usize,
}

impl Cell {
    pub fn estimate(&self) -> Found {
        let values: Vec<f64> = self.values.iter().map(|repeat| repeat.value).collect();
        // A share may be 0, which has no logarithm.
        let has_zero = values.contains(&0.0);
        let estimate = if has_zero { Estimate::arithmetic(&values) } else { Estimate::of(&self.values) };
        estimate.map(|it| (it.value, it.interval))
    }

    /// Returns the ratio to another cell.
    pub fn against(&self, base: &Self) -> Found {
        Ratio::of(&self.values, &base.values).map(|it| (it.ratio, it.interval))
    }
}

/// Returns the cell of a trial. Adds an empty one for the first trial of its architecture and workload.
fn place<'a>(cells: &'a mut Vec<Cell>, run: &Run, trial: &Trial) -> &'a mut Cell {
    let (architecture, workload) = (trial.label(), &trial.workload);
    let at = cells.iter().position(|cell| cell.architecture == architecture && cell.workload == *workload);
    let at = at.unwrap_or_else(|| {
        let (workload, experiment) = (workload.clone(), run.header.experiment.clone());
        let (values, verdicts) = (Vec::new(), Vec::new());
        cells.push(Cell { architecture, workload, experiment, values, verdicts, infeasible: 0 });
        cells.len() - 1
    });
    &mut cells[at]
}

/// Returns the cells of these architectures with finished or infeasible trials, in the order of `architectures`.
pub(super) fn cells(
    runs: &[Run],
    deviation_of: &mut [&mut DeviationOf<'_>],
    architectures: &[&str],
    only: fn(&Workload) -> bool,
    metric: &Metric,
) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    // Compare labels, which name unusual options: claims cover only the default options.
    let belongs = |trial: &Trial| only(&trial.workload) && queue::position(architectures, &trial.label()).is_some();
    // Heats of different runs may have the same number.
    let mut heats: Vec<(usize, u32)> = Vec::new();
    for (at_run, (run, deviation_of)) in runs.iter().zip(deviation_of).enumerate() {
        let rejected = run.header.trials.iter().filter(|trial| !trial.infeasible.is_empty() && belongs(trial));
        rejected.for_each(|trial| place(&mut cells, run, trial).infeasible += 1);
        let mut counted: Vec<(usize, Vec<&TrialRecord>)> = Vec::new();
        for record in run.records.iter().filter(|record| belongs(&record.trial)) {
            let cell = place(&mut cells, run, &record.trial);
            cell.verdicts.push(record.verdict.kind);
            let (architecture, workload) = (cell.architecture.clone(), cell.workload.clone());
            let is_cell = |cell: &Cell| cell.architecture == architecture && cell.workload == workload;
            let at = cells.iter().position(is_cell).expect("the cell was placed");
            if (metric.counts)(record.verdict.kind) || record.verdict.belongs_in_estimates() {
                match counted.iter_mut().find(|(of, _)| *of == at) {
                    Some((_, records)) => records.push(record),
                    None => counted.push((at, vec![record])),
                }
            }
        }
        let figures = RunFigures::new(&run.records);
        for (at, records) in counted {
            let values = records.into_iter().map(|record| Some((record, (metric.of)(record, deviation_of)?)));
            let known: Vec<(&TrialRecord, f64)> = values.flatten().collect();
            let repeats: Vec<Repeat> = match metric.figure {
                Some(figure) => figures.of(&known.iter().map(|it| it.0).collect::<Vec<_>>(), figure),
                None => known.iter().map(|(record, value)| Repeat::new(heat(&record.trial), *value)).collect(),
            };
            for repeat in repeats {
                let heat = (at_run, repeat.heat);
                let at_heat = heats.iter().position(|other| *other == heat).unwrap_or(heats.len());
                if at_heat == heats.len() {
                    heats.push(heat);
                }
                cells[at].values.push(Repeat { heat: at_heat as u32, ..repeat });
            }
        }
    }
    // If at least half of the repeats do not count, those that do are likely outliers.
    for cell in &mut cells {
        let counted = cell.verdicts.iter().filter(|kind| (metric.counts)(**kind)).count();
        if 2 * counted <= cell.verdicts.len() {
            cell.values.clear();
        }
    }
    let rank = |cell: &Cell| queue::position(architectures, &cell.architecture);
    cells.sort_by(|a, b| {
        rank(a).cmp(&rank(b)).then_with(|| report::analysis::workload::order(&a.workload, &b.workload))
    });
    cells
}

/// Returns the estimates of a metric for one server along a dimension, as points of a figure.
pub fn points(
    runs: &[Run],
    deviation_of: &mut [&mut DeviationOf<'_>],
    label: &str,
    only: fn(&Workload) -> bool,
    metric: &Metric,
    along: Dimension,
) -> Vec<Point> {
    let point = |cell: &Cell| {
        let (value, interval) = cell.estimate()?;
        let (y, spread) = estimate(value, interval);
        // As in a row of a run: one saturated or failed repeat disqualifies it, unless the metric counts such repeats.
        let disqualifies = |kind: &&VerdictKind| {
            matches!(kind, VerdictKind::Saturated | VerdictKind::Failed) && !(metric.counts)(**kind)
        };
        let verdict = cell.verdicts.iter().filter(disqualifies).max().copied().unwrap_or(VerdictKind::Valid);
        Some(Point { spread, verdict, ..Point::new(along.at(&cell.workload), y) })
    };
    cells(runs, deviation_of, &[label], only, metric).iter().filter_map(point).collect()
}
