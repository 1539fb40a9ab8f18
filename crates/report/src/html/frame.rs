//! The frame of every page: switches, data, plotting library (only with figures), style and script.

use askama::Template;
use serde::Serialize;

use crate::plot::chart::Chart;
use crate::plot::style::{self, SeriesStyle};

/// The basic bundle of plotly.js (1.2 MB), which has the lines and markers that the figures need.
pub(crate) const PLOTLY: &str = include_str!("../../assets/plotly-basic.min.js");

const CSS: &str = include_str!("../../templates/report.css");
const SCRIPT: &str = include_str!("../../templates/report.js");

/// The data of a page, and the architectures that its switches show and hide.
pub struct Frame {
    /// A switch for each architecture.
    pub architectures: Vec<Switch>,
    has_figures: bool,
    data: String,
    raw: String,
}

#[derive(Template)]
#[template(path = "document.html")]
struct Document<'a> {
    title: &'a str,
    content: &'a str,
    frame: &'a Frame,
}

#[derive(Template)]
#[template(path = "switches.html")]
struct Switches<'a> {
    frame: &'a Frame,
}

#[derive(Template)]
#[template(path = "panels.html")]
struct Panels<'a> {
    number: usize,
    heading: &'a str,
    chart: &'a Chart,
}

/// Returns the elements in which the script draws a chart. `number` is the chart's index among the page's figures.
pub fn panels(number: usize, heading: &str, chart: &Chart) -> anyhow::Result<String> {
    Ok(Panels { number, heading, chart }.render()?)
}

impl Frame {
    /// Creates a frame from the architectures, the figures, and the data for download.
    pub fn new(architectures: &[String], figures: Vec<Drawing<'_>>, raw: &impl Serialize) -> anyhow::Result<Self> {
        let styles = (0..architectures.len()).map(style::style).collect();
        let has_figures = !figures.is_empty();
        let data = embedded(&Data { architectures, styles, figures })?;
        let switch = |(place, name): (usize, &String)| Switch {
            name: name.clone(),
            place,
            style: style::style(place),
            swatch: style::swatch(place),
        };
        let switches = architectures.iter().enumerate().map(switch).collect();
        Ok(Self { architectures: switches, has_figures, data, raw: embedded(raw)? })
    }

    /// The switches as HTML; empty without architectures.
    pub fn switches(&self) -> anyhow::Result<String> {
        if self.architectures.is_empty() { Ok(String::new()) } else { Ok(Switches { frame: self }.render()?) }
    }

    /// Returns the whole page around its content.
    pub fn document(&self, title: &str, content: &impl Template) -> anyhow::Result<String> {
        let content = &content.render()?;
        Ok(Document { title, content, frame: self }.render()?)
    }
}

/// The switch of an architecture.
pub struct Switch {
    pub(crate) name: String,
    /// The architecture's index in the list of all architectures.
    pub place: usize,
    pub(crate) style: SeriesStyle,
    /// A line with its marker, as SVG.
    pub(crate) swatch: String,
}

/// The data that the script draws.
#[derive(Serialize)]
struct Data<'a> {
    architectures: &'a [String],
    styles: Vec<SeriesStyle>,
    figures: Vec<Drawing<'a>>,
}

/// A figure of a page.
#[derive(Serialize)]
pub struct Drawing<'a> {
    /// The name.
    pub name: &'a str,
    /// The heading.
    pub title: &'a str,
    /// The chart.
    #[serde(flatten)]
    pub chart: &'a Chart,
}

/// Returns the value as JSON that contains no `</script>`.
pub(super) fn embedded(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(value)?.replace('<', "\\u003c"))
}
