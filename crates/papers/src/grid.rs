//! Tables as plain data: a paper's own table, or the numbers of a figure's panel beside the published values; the points of figures
//! as CSV.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::figure::{PaperFigure, positions};
use report::analysis::deviation::SHARES;
use report::export::csv::of_records;
use report::format;
use report::plot::chart::{Axis, Chart, Form, Mark, Panel, Point, Published, Shape};
use report::text::{Medium, table, tail_mark};

/// A table whose first columns identify the row.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Grid {
    pub title: String,
    /// The headings of the leading columns.
    pub lead: Vec<String>,
    pub columns: Vec<String>,
    pub rows: Vec<GridRow>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GridRow {
    pub lead: Vec<String>,
    pub cells: Vec<String>,
}

/// A table of a paper.
#[derive(Debug)]
pub struct PaperTable {
    /// The number in the paper.
    pub number: &'static str,
    /// The experiments of the paper that the table uses.
    pub experiments: &'static [&'static str],
}

/// A paper's tables, filled from a run.
#[derive(Debug)]
pub struct PaperTables {
    /// The tables with their numbers.
    pub grids: Vec<(&'static str, Grid)>,
    /// An object.
    pub json: Value,
    /// Every published value beside ours.
    pub csv: String,
}

impl Grid {
    /// Renders the table as text. Divides the columns among several tables if one is too wide for the medium.
    pub fn render(&self, medium: Medium) -> String {
        let rows = self.rows.iter().map(|row| [row.lead.as_slice(), &row.cells].concat());
        table::of_parts(self.lead.len(), self.lead.iter().chain(&self.columns), rows, medium)
    }

    /// Returns whether any cell has a result of the run. Rows of the paper end their leading columns with `paper`.
    pub fn has_results(&self) -> bool {
        let mut ours = self.rows.iter().filter(|row| row.lead.last().is_none_or(|whose| whose != "paper"));
        ours.any(|row| row.cells.iter().any(|cell| cell != "-"))
    }

    pub fn csv(&self) -> String {
        let heading = self.lead.iter().chain(&self.columns);
        let rows = self.rows.iter().map(|row| row.lead.iter().chain(&row.cells));
        of_records([heading].into_iter().chain(rows))
    }
}

/// The note of a table in which [`marked`] put values in parentheses.
pub const INVALID: &str = "Values in parentheses are not valid, so they are not ranked.";

/// Returns the text of a value, in parentheses if the value is not valid.
pub fn marked(text: String, is_valid: bool) -> String {
    if is_valid || text.is_empty() { text } else { format!("({text})") }
}

/// Returns a table for each panel of a figure. Rows are positions along the horizontal axis, or shares of a
/// distribution. Each series has a column. Invalid values are in parentheses.
pub fn of(chart: &Chart, names: &[String]) -> Vec<Grid> {
    chart.panels.iter().map(|panel| of_panel(chart, panel, names)).collect()
}

fn of_panel(chart: &Chart, panel: &Panel, names: &[String]) -> Grid {
    let (x, y) = chart.axes(panel);
    let along = if chart.shape == Shape::Line { By::Y(x, y) } else { By::X(x, y) };
    let points = |points: &[(f64, f64)]| points.iter().map(|&(x, y)| Point::new(x, y)).collect::<Vec<_>>();
    let ours = panel.series.iter().map(|it| (names[it.architecture].clone(), it.points.clone()));
    // Published values of several architectures can have the same label (`medians of Table 5`). Each position then has a second
    // row, `paper`, with the values in the columns of their architectures. Published values with any other label have their own
    // column.
    let printed = || panel.published.iter().filter(|it| it.mark == Mark::Points);
    let is_below =
        |it: &&Published| it.architecture.is_some() && printed().filter(|other| other.label == it.label).count() > 1;
    let below: Vec<&Published> = printed().filter(is_below).collect();
    let theirs = printed().filter(|it| !is_below(it));
    let theirs = theirs.map(|it| (format!("paper: {}", it.label), points(&it.points)));
    let columns: Vec<(String, Vec<Point>)> = ours.chain(theirs).collect();
    let places = match along {
        By::X(..) => positions(columns.iter().flat_map(|(_, points)| points).map(|point| point.x)),
        By::Y(..) => SHARES.to_vec(),
    };
    let cell = |points: &[Point], at: f64| {
        let here: Vec<String> = points.iter().filter(|it| along.is_at(it, at)).map(|it| along.text(it)).collect();
        if here.is_empty() { "-".to_owned() } else { here.join(" ") }
    };
    let lead =
        |at: String, whose: &str| [Some(at), (!below.is_empty()).then(|| whose.to_owned())].into_iter().flatten();
    let mut rows = Vec::new();
    for &at in &places {
        rows.push(GridRow {
            lead: lead(along.place(at), "here").collect(),
            cells: columns.iter().map(|(_, points)| cell(points, at)).collect(),
        });
        let of = |name: &str| below.iter().find(|it| it.architecture.is_some_and(|place| names[place] == *name));
        let cells: Vec<String> =
            columns.iter().map(|(name, _)| of(name).map_or("-".into(), |it| cell(&points(&it.points), at))).collect();
        if cells.iter().any(|cell| cell != "-") {
            rows.push(GridRow { lead: lead(String::new(), "paper").collect(), cells });
        }
    }
    let lines = panel.published.iter().filter(|it| it.mark != Mark::Points);
    let mut notes: Vec<String> = lines.map(|it| format!("paper: {}", it.label)).collect();
    notes.dedup();
    let what = match (along, chart.shape) {
        (By::Y(..), _) => format!("{}{}", x.label, unit(x.form)),
        (By::X(..), Shape::Percentiles) => format!("{}{}: p1/p25/p50/p75/p99", y.label, unit(y.form)),
        (By::X(..), _) => format!("{}{}", y.label, unit(y.form)),
    };
    Grid {
        title: if panel.title.is_empty() { what } else { format!("{}: {what}", panel.title) },
        lead: lead(if chart.shape == Shape::Line { y.label.clone() } else { x.label.clone() }, "").collect(),
        columns: columns.iter().map(|(name, _)| name.clone()).collect(),
        rows,
        notes,
    }
}

/// The axis whose positions identify the rows: `Y` for a distribution. Both variants hold the x axis, then the y axis.
#[derive(Clone, Copy)]
enum By<'a> {
    X(&'a Axis, &'a Axis),
    Y(&'a Axis, &'a Axis),
}

impl By<'_> {
    fn is_at(self, point: &Point, at: f64) -> bool {
        match self {
            Self::X(..) => point.x == at,
            Self::Y(..) => (point.y - at).abs() < 1e-9,
        }
    }

    fn place(self, at: f64) -> String {
        match self {
            Self::X(x, _) => place(x, at),
            Self::Y(_, y) => match y.form {
                Form::Share => format::percent(at),
                form => form.text(at),
            },
        }
    }

    fn text(self, point: &Point) -> String {
        let text = match (self, point.spread.as_slice()) {
            (Self::Y(x, _), _) => number(x.form, point.x),
            (Self::X(_, y), [p1, p25, p75, rest @ ..]) => {
                let tail = rest.first().map_or(tail_mark::MARK.to_owned(), |p99| number(y.form, *p99));
                [*p1, *p25, point.y, *p75].map(|value| number(y.form, value)).join("/") + "/" + &tail
            }
            (Self::X(_, y), _) => number(y.form, point.y),
        };
        marked(text, point.is_valid())
    }
}

/// Formats the number of a cell, in the unit of its table.
fn number(form: Form, value: f64) -> String {
    match form {
        Form::Time => format::significant(value / 1e3),
        _ => format::significant(value),
    }
}

fn unit(form: Form) -> &'static str {
    match form {
        Form::Time => " in µs",
        Form::Bytes => " in bytes",
        _ => "",
    }
}

const COLUMNS: &str = "figure,panel,whose,series,x,y,p1_or_low,p25,p75,p99_or_high,verdict";

/// Returns the points of figures and the published values in the units of the axes. Times are in nanoseconds.
pub fn points_csv(names: &[String], figures: &[(&PaperFigure, Chart)]) -> String {
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
fn place(axis: &Axis, x: f64) -> String {
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
