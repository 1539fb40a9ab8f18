//! The page of a decision map.

use askama::Template;
use harness::record::Figure;
use serde_json::json;

use crate::analysis::atlas::{Answer, Atlas, Cell};
use crate::format;
use crate::html::frame::{Frame, Switch};

#[derive(Template)]
#[template(path = "atlas.html")]
struct Page<'a> {
    atlas: &'a Atlas,
    hosts: Vec<String>,
    frame: &'a Frame,
}

impl Page<'_> {
    fn kind(&self, cell: &Cell) -> &'static str {
        match cell.answer {
            Answer::Winner => "winner",
            Answer::Tie => "tie",
            Answer::None => "none",
        }
    }

    fn host(&self, cell: &Cell) -> &str {
        &self.atlas.hosts[cell.host].letter
    }

    /// Returns the best servers of a cell with their looks.
    fn best(&self, cell: &Cell) -> Vec<&Switch> {
        let look = |name: &String| self.frame.architectures.iter().find(|it| it.name == *name);
        cell.best().iter().filter_map(look).collect()
    }

    /// Returns the figures of a cell's winner.
    fn figures(&self, cell: &Cell) -> [String; 4] {
        [Figure::P50, Figure::P99, Figure::Cpu, Figure::Memory].map(|figure| {
            let value = cell.winner().and_then(|it| it.figures[figure]);
            value.map_or_else(|| "-".to_owned(), |value| format::figure(figure, value))
        })
    }
}

/// Renders the page.
pub fn page(atlas: &Atlas) -> anyhow::Result<String> {
    let raw = json!({ "name": "atlas", "json": atlas });
    let frame = Frame::new(&atlas.best(), Vec::new(), &raw)?;
    frame.document("Decision map", &Page { atlas, hosts: atlas.about_hosts(), frame: &frame })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_each_answer_and_loads_nothing() {
        let page = page(&crate::analysis::atlas::made_up()).unwrap();
        for words in [
            "<h1>4 races on 2 hosts: 2 have one winner, 1 is a tie and 1 has no answer.",
            "Host A: made up, Linux 6.1.0.",
            "<em>mt</em>",
            "<p class=\"best tie\">A: ",
            "B: <em>none: not measured</em>",
            "<summary>6.1.0/400</summary>It is a tie between ",
            "data-save=\"json\"",
        ] {
            assert!(page.contains(words), "{words}: {}", &page[page.find("<header>").unwrap()..]);
        }
        assert!(!page.contains("src=") && page.len() < 200_000, "a page without figures has no plotting library");
    }
}
