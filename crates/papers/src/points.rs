//! Every point of a paper's figures as CSV.

use super::Paper;
use super::figure::PaperFigure;
use report::format;
use report::plot::chart::{Axis, Chart, Form, Mark, Point};

const COLUMNS: &str = "figure,panel,whose,series,x,y,p1_or_low,p25,p75,p99_or_high,verdict";

/// The points of figures, and what the paper prints, in units of the axes: nanoseconds, where these are of time.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn csv(paper: &Paper, figures: &[(&PaperFigure, Chart)]) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS.split(','))?;
    for (figure, chart) in figures {
        for panel in &chart.panels {
            let (axis, _) = chart.axes(panel);
            let of = |whose, series| [figure.number, panel.title.as_str(), whose, series].map(str::to_owned);
            for series in &panel.series {
                for point in &series.points {
                    let values = values(axis, point);
                    writer.write_record(of("here", paper.series[series.architecture]).iter().chain(&values))?;
                }
            }
            for published in &panel.published {
                for &(x, y) in &published.points {
                    let (x, y) = match published.mark {
                        Mark::Points => (place(axis, x), y.to_string()),
                        Mark::Level => (String::new(), y.to_string()),
                        Mark::Limit => (x.to_string(), String::new()),
                    };
                    let values = [x, y].into_iter().chain(std::iter::repeat_n(String::new(), 5)).collect::<Vec<_>>();
                    writer.write_record(of("paper", &published.label).iter().chain(&values))?;
                }
            }
        }
    }
    report::export::csv::finished(writer)
}

fn place(axis: &Axis, x: f64) -> String {
    if axis.form == Form::Names { axis.ticks[x as usize].1.clone() } else { x.to_string() }
}

/// From x to the verdict.
fn values(axis: &Axis, point: &Point) -> Vec<String> {
    let spread = match point.spread.as_slice() {
        [low, high] => [Some(*low), None, None, Some(*high)],
        [p1, p25, p75, p99] => [p1, p25, p75, p99].map(|it| Some(*it)),
        [p1, p25, p75] => [Some(*p1), Some(*p25), Some(*p75), None],
        _ => [None; 4],
    };
    let spread = spread.map(|it| it.map_or_else(String::new, |it| it.to_string()));
    let mut values = vec![place(axis, point.x), point.y.to_string()];
    values.extend(spread);
    values.push(format::verdict(point.verdict).to_owned());
    values
}
