//! The points of a paper's figures as CSV.

use super::figure::PaperFigure;
use report::export::csv::of_records;
use report::format;
use report::plot::chart::{Axis, Chart, Form, Mark, Point};

const COLUMNS: &str = "figure,panel,whose,series,x,y,p1_or_low,p25,p75,p99_or_high,verdict";

/// Returns the points of figures and the published values in the units of the axes. Times are in nanoseconds.
pub fn csv(names: &[String], figures: &[(&PaperFigure, Chart)]) -> String {
    let mut records = vec![COLUMNS.split(',').map(str::to_owned).collect::<Vec<_>>()];
    for (figure, chart) in figures {
        for panel in &chart.panels {
            let (axis, _) = chart.axes(panel);
            let of =
                |whose: &str, series: &str| [figure.number, &panel.title, whose, series].map(str::to_owned).to_vec();
            for series in &panel.series {
                let points = series.points.iter().map(|point| values(axis, point));
                records.extend(points.map(|values| [of("here", &names[series.architecture]), values].concat()));
            }
            for published in &panel.published {
                for &(x, y) in &published.points {
                    let (x, y) = match published.mark {
                        Mark::Points => (place(axis, x), y.to_string()),
                        Mark::Level => (String::new(), y.to_string()),
                        Mark::Limit => (x.to_string(), String::new()),
                    };
                    records.push([of("paper", &published.label), vec![x, y], vec![String::new(); 5]].concat());
                }
            }
        }
    }
    of_records(records)
}

/// Returns the name or the number of a position.
pub fn place(axis: &Axis, x: f64) -> String {
    if axis.form == Form::Names { axis.ticks[x as usize].1.clone() } else { x.to_string() }
}

/// Returns the fields from `x` to `verdict`.
fn values(axis: &Axis, point: &Point) -> Vec<String> {
    let spread = match *point.spread.as_slice() {
        [low, high] => [Some(low), None, None, Some(high)],
        ref all => [0, 1, 2, 3].map(|at| all.get(at).copied()),
    };
    let spread = spread.map(|it| it.map_or_else(String::new, |it| it.to_string()));
    let mut values = vec![place(axis, point.x), point.y.to_string()];
    values.extend(spread);
    values.push(format::verdict(point.verdict).to_owned());
    values
}
