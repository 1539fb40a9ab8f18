//! The index page.

use askama::Template;
use serde_json::json;

use super::{Entry, History, Trended, csv, drawn};
use crate::html::chart::Chart;
use crate::html::page::{CSS, Data, Drawing, PLOTLY, SCRIPT, Switch, embedded, switches};

#[derive(Template)]
#[template(path = "index.html")]
struct Index<'a> {
    history: &'a History,
    rows: Vec<RunRow<'a>>,
    hosts: Vec<String>,
    architectures: Vec<Switch>,
    figures: &'a [(&'static Trended, Chart)],
    data: String,
    raw: String,
    plotly: &'static str,
    css: &'static str,
    script: &'static str,
}

/// A run, and where its page or folder is.
struct RunRow<'a> {
    entry: &'a Entry,
    link: &'a str,
    began: String,
    host: &'a str,
    trials: String,
}

/// The document; each run's row leads to the link that stands at its place.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn page(history: &History, links: &[String]) -> anyhow::Result<String> {
    let (architectures, figures) = drawn(history);
    let drawings = figures.iter().map(|(figure, chart)| Drawing { name: figure.name, title: figure.title, chart });
    let data = Data::of(&architectures, drawings.collect());
    let raw = json!({ "name": "index", "csv": csv(history)?, "json": history });
    let rows = history.runs.iter().enumerate().map(|(at, entry)| RunRow {
        entry,
        link: links.get(at).map_or("", String::as_str),
        began: entry.started_at.replace('T', " ").replace('Z', ""),
        host: &history.hosts[entry.host].letter,
        trials: entry.of_trials(),
    });
    let page = Index {
        history,
        rows: rows.collect(),
        hosts: history.about_hosts(),
        architectures: switches(&architectures),
        figures: &figures,
        data: embedded(&data)?,
        raw: embedded(&raw)?,
        plotly: PLOTLY,
        css: CSS,
        script: SCRIPT,
    };
    Ok(page.render()?)
}
