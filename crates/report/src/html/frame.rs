//! What every page of ours has around its content: switches, data, the library that draws, style and script.

use serde::Serialize;

use super::chart::Chart;
use super::style::{self, Style};

/// plotly.js, the bundle with lines and markers alone: a quarter of the whole one.
pub(crate) const PLOTLY: &str = include_str!("../../assets/plotly-basic.min.js");

const CSS: &str = include_str!("../../templates/report.css");
const SCRIPT: &str = include_str!("../../templates/report.js");

/// It, as the templates' common parts take it.
pub(crate) struct Frame {
    pub(crate) architectures: Vec<Switch>,
    pub(crate) data: String,
    pub(crate) raw: String,
    pub(crate) plotly: &'static str,
    pub(crate) css: &'static str,
    pub(crate) script: &'static str,
}

impl Frame {
    /// Of architectures by their places, what is drawn of them, and what is downloaded.
    ///
    /// # Errors
    /// None that is known: everything is held in memory.
    pub(crate) fn of(
        architectures: &[String],
        figures: Vec<Drawing<'_>>,
        raw: &impl Serialize,
    ) -> anyhow::Result<Self> {
        let styles = (0..architectures.len()).map(style::style).collect();
        Ok(Self {
            architectures: switches(architectures),
            data: embedded(&Data { architectures, styles, figures })?,
            raw: embedded(raw)?,
            plotly: PLOTLY,
            css: CSS,
            script: SCRIPT,
        })
    }
}

/// An architecture among the switches.
pub(crate) struct Switch {
    pub(crate) name: String,
    /// In the list of all.
    pub(crate) place: usize,
    pub(crate) style: Style,
    pub(crate) swatch: String,
}

fn switches(architectures: &[String]) -> Vec<Switch> {
    let one = |(place, name): (usize, &String)| Switch {
        name: name.clone(),
        place,
        style: style::style(place),
        swatch: style::swatch(place),
    };
    architectures.iter().enumerate().map(one).collect()
}

/// What the script draws.
#[derive(Serialize)]
struct Data<'a> {
    architectures: &'a [String],
    styles: Vec<Style>,
    figures: Vec<Drawing<'a>>,
}

/// One of its figures.
#[derive(Serialize)]
pub(crate) struct Drawing<'a> {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    #[serde(flatten)]
    pub(crate) chart: &'a Chart,
}

/// JSON that no script element ends in.
fn embedded(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(value)?.replace('<', "\\u003c"))
}
