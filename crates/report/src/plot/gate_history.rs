//! Figures of the history of a gate: a panel for each pair of builds and workload, with the gates along the horizontal axis.

use harness::record::Figure;

use crate::analysis::gate_history::{GateHistory, GateSeries};
use crate::list::{distinct, ends};
use crate::plot::chart::{Axis, Chart, Form, Panel, Point, Series, Shape};

/// The names of the series.
const SERIES: [&str; 2] = ["gate", "mean between shifts"];
/// The room above and below the values, as a share of 1.
const ROOM: f64 = 0.01;

/// A figure of a history.
#[derive(Debug)]
pub struct GateChart {
    /// The name, for file names.
    pub name: String,
    /// The heading.
    pub title: String,
    /// The figure.
    pub chart: Chart,
}

/// Returns the names of the series, and the figures.
pub fn drawn(history: &GateHistory) -> (Vec<String>, Vec<GateChart>) {
    let figures = distinct(history.series.iter().map(|series| series.figure));
    (SERIES.map(str::to_owned).into(), figures.into_iter().filter_map(|figure| draw(history, figure)).collect())
}

fn draw(history: &GateHistory, figure: Figure) -> Option<GateChart> {
    let is_drawn = |series: &&GateSeries| series.figure == figure;
    let drawn: Vec<&GateSeries> = history.series.iter().filter(is_drawn).collect();
    let values = drawn.iter().flat_map(|series| &series.points).flat_map(|point| {
        let interval = point.interval.map_or([point.ratio; 2], |it| [it.low, it.high]);
        [point.ratio, interval[0], interval[1]]
    });
    let (low, high) = ends(values)?;
    let (label, form) = match figure {
        Figure::Errors => ("errors, new - old", Form::Share),
        _ => ("new / old", Form::Times),
    };
    let y = Axis::around(&format!("{} {label}", figure.name()), form, [low - ROOM, high + ROOM]);
    let names: Vec<String> = history.entries.iter().map(|entry| entry.label.clone()).collect();
    let panels = drawn.into_iter().map(panel).collect();
    let chart =
        Chart { words: history.sentence.clone(), shape: Shape::Points, x: Axis::names("gate", &names), y, panels };
    let name = figure.name();
    Some(GateChart { name: format!("gate-{name}"), title: format!("Gate: {name} from build to build"), chart })
}

fn panel(series: &GateSeries) -> Panel {
    let at = |index: usize| series.points[index].entry as f64;
    let gates = series.points.iter().map(|point| Point {
        spread: point.interval.map_or_else(Vec::new, |it| vec![it.low, it.high]),
        ..Point::new(point.entry as f64, point.ratio)
    });
    let levels = series.levels().into_iter().flat_map(|(first, last, mean)| [(at(first), mean), (at(last), mean)]);
    let levels = levels.map(|(x, mean)| Point::new(x, mean));
    let series_of = |architecture: usize, points: Vec<Point>| Series { architecture, of: "", points };
    Panel::new(series.place(), vec![series_of(0, gates.collect()), series_of(1, levels.collect())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::svg;

    #[test]
    fn shift_of_a_figure_is_drawn() {
        let history = GateHistory::of(crate::analysis::gate_history::tests::history());
        let (names, figures) = drawn(&history);
        let p50 = figures.iter().find(|figure| figure.name == "gate-p50").unwrap();
        assert_eq!(figures.len(), history.series.len());
        let [gates, levels] = p50.chart.panels[0].series.as_slice() else { panic!("two series") };
        assert_eq!((gates.points.len(), levels.points.len()), (40, 4));
        assert!(levels.points[2].x == 25.0 && levels.points[2].y > 1.07, "{levels:?}");
        insta::assert_snapshot!(svg::svg(&p50.title, &p50.chart, &names));
    }
}
