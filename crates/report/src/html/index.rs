//! The index: the page of many runs.

use askama::Template;
use serde_json::json;

use crate::analysis::history::{Entry, History};
use crate::export::csv;
use crate::html::frame::{Drawing, Frame};
use crate::plot::chart::Chart;
use crate::plot::trends::{TrendFigure, drawn};

#[derive(Template)]
#[template(path = "index.html")]
struct Index<'a> {
    history: &'a History,
    rows: Vec<RunRow<'a>>,
    hosts: Vec<String>,
    frame: &'a Frame,
    figures: &'a [(TrendFigure, Chart)],
}

/// A run, and the link to its page or folder.
struct RunRow<'a> {
    entry: &'a Entry,
    link: &'a str,
    began: String,
    host: &'a str,
    trials: String,
}

/// Renders the page. The row of each run links to the element of `links` with the same index.
pub fn page(history: &History, links: &[String]) -> anyhow::Result<String> {
    let (architectures, figures) = drawn(history);
    let drawings = figures.iter().map(|(figure, chart)| Drawing { name: &figure.name, title: &figure.title, chart });
    let raw = json!({ "name": "index", "csv": csv::of_rows(history.rows()), "json": history });
    let rows = history.runs.iter().enumerate().map(|(at, entry)| RunRow {
        entry,
        link: links.get(at).map_or("", String::as_str),
        began: entry.started_at.replace('T', " ").replace('Z', ""),
        host: &history.hosts[entry.host].letter,
        trials: entry.counts(),
    });
    let frame = Frame::new(&architectures, drawings.collect(), &raw)?;
    let page = Index { history, rows: rows.collect(), hosts: history.about_hosts(), frame: &frame, figures: &figures };
    frame.document(&format!("{} runs", history.runs.len()), &page)
}
