//! Send deviations as CSV.

use stats::Deviation;

use super::csv::finished;
use crate::format;
use crate::model::deviation::{Deviations, Point, SHARES};

/// As CSV: a row a trial.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn csv(deviations: &Deviations) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed = "trial,repeat,architecture,connections,active,rate_asked_per_s,schedule,verdict,missing,sends,unsent,\
                 stddev_ns,median_ns,max_ns,min_ns,within_1us_of_median";
    let tails = SHARES.iter().map(|share| format!("p{}_ns", (share * 1_000.0).round() / 10.0));
    writer.write_record(fixed.split(',').map(str::to_owned).chain(tails))?;
    for trial in &deviations.trials {
        let figure = |figure: fn(&Deviation) -> f64| {
            trial.figures.as_ref().map_or(String::new(), |figures| figure(figures).to_string())
        };
        let mut fields = vec![
            trial.trial.to_string(),
            trial.repeat.to_string(),
            trial.architecture.clone(),
            trial.workload.connections.to_string(),
            trial.workload.active.to_string(),
            format::rate(trial.workload.rate_per_s),
            format::name(&trial.workload.schedule),
            format::verdict(trial.verdict).into(),
            trial.missing.clone().unwrap_or_default(),
            figure(|it| it.count as f64),
            trial.unsent.to_string(),
            figure(|it| it.stddev_ns),
            figure(|it| it.median_ns),
            figure(|it| it.max_ns),
            figure(|it| it.min_ns),
            figure(|it| it.within_1us_of_median),
        ];
        let tail = |at| trial.tails.get(at).map_or(String::new(), |point: &Point| point.deviation_ns.to_string());
        fields.extend((0..SHARES.len()).map(tail));
        writer.write_record(fields)?;
    }
    finished(writer)
}
