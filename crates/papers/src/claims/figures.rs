//! The values of a metric for each architecture and workload, one block per repeat of separate trials.

use std::cell::LazyCell;

use harness::model::{Run, Trial, VerdictKind, Workload};
use stats::{Block, Estimate, Interval, Ratio};

use super::{Dimension, Metric};
use crate::queue;
use harness::model::blocks::{RunBlocks, heat};
use report::model::deviation::DeviationOf;
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
    pub values: Vec<Block>,
    pub verdicts: Vec<VerdictKind>,
    /// The number of trials that the plan rejects.
    pub infeasible: usize,
}

impl Cell {
    pub fn estimate(&self) -> Found {
        let values: Vec<f64> = self.values.iter().map(|block| block.value).collect();
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
        // Only interleaved trials need the links between the trials of a run.
        let of_run = LazyCell::new(|| RunBlocks::new(&run.records));
        for record in run.records.iter().filter(|record| belongs(&record.trial)) {
            let cell = place(&mut cells, run, &record.trial);
            cell.verdicts.push(record.verdict.kind);
            if (metric.counts)(record.verdict.kind) || record.verdict.belongs_in_estimates() {
                let whole = |value| Block { heat: heat(&record.trial), number: 0, value };
                let blocks = match metric.figure {
                    Some(figure) if record.trial.load.slices.is_some() => of_run.of(&[record], figure),
                    _ => (metric.of)(record, deviation_of).map(whole).into_iter().collect(),
                };
                // The linked blocks of a group have the heat of the first group.
                let heat = (at_run, blocks.first().map_or(0, |block| block.heat));
                let at_heat = heats.iter().position(|other| *other == heat).unwrap_or(heats.len());
                if at_heat == heats.len() {
                    heats.push(heat);
                }
                cell.values.extend(blocks.into_iter().map(|block| Block { heat: at_heat as u32, ..block }));
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
    cells.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| report::model::workload::order(&a.workload, &b.workload)));
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
