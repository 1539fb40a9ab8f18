//! Bandwidth of streams against connections and against idle connections: the graphs of welsh2001.

use harness::model::Workload;
use stats::Interval;

use crate::model::stream;
use crate::model::summary::Row;
use crate::plot::chart::{Chart, Form, Shape};
use crate::plot::plot_data::{Along, PlotData, Vertical, estimate};

/// The median of valid repeats with its interval; for rows that are not ranked, the mean.
fn bandwidth(workload: &Workload, row: &Row) -> Option<(f64, Vec<f64>)> {
    let bytes_per_s = |rate_per_s: f64| Some(stream::megabytes_per_s(workload, rate_per_s)? * 1e6);
    let Some(rate) = row.rate_per_s.filter(|_| row.is_ranked()) else {
        return Some((bytes_per_s(row.rate_achieved_per_s?)?, Vec::new()));
    };
    let ends = |ends: Interval| Some(Interval { low: bytes_per_s(ends.low)?, high: bytes_per_s(ends.high)? });
    Some(estimate(bytes_per_s(rate.value)?, rate.interval.and_then(ends)))
}

fn along(data: &PlotData<'_>, along: Along) -> Option<Chart> {
    let y = Vertical { label: "bandwidth", form: Form::Bandwidth, log: false };
    data.rows(along, Shape::Points, y, &[("", bandwidth)])
}

/// Draws bandwidth against the axis along which workloads grow.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    along(data, data.size())
}

/// Draws bandwidth against idle connections, unless [`draw`] does.
pub(super) fn draw_idle(data: &PlotData<'_>) -> Option<Chart> {
    let differ = data.groups(Some(Along::Idle)).iter().any(|group| group.members.len() > 1);
    if data.size() == Along::Idle || !differ { None } else { along(data, Along::Idle) }
}
