//! A decision map as text.

use harness::record::Figure;

use super::medium::Medium;
use super::style::Style;
use super::table::{self, Column, column};
use crate::analysis::atlas::{Answer, Atlas, Cell, Map, Panel};
use crate::format;
use crate::list::distinct;

/// The most reasons for missing answers.
const REASONS_MAX: usize = 5;

/// A line of a panel.
struct Line {
    traffic: String,
    host: String,
    cell: Cell,
}

fn columns() -> [Column<Line>; 8] {
    [
        column("host", 0, |it: &Line| it.host.clone()),
        column("traffic", 0, |it: &Line| it.traffic.clone()),
        column("best", 0, |it: &Line| it.cell.words()).styled(|it| {
            Some(match it.cell.answer {
                Answer::Winner => Style::Best,
                Answer::Tie => Style::Good,
                Answer::None => Style::Doubtful,
            })
        }),
        column("next best", 1, |it: &Line| it.cell.lead_words()),
        column("P(best)", 2, |it: &Line| it.cell.probability()),
        column("p50 µs", 3, |it: &Line| {
            it.cell.winner().and_then(|it| it.figures[Figure::P50]).map_or("-".into(), format::us)
        }),
        column("CPU µs/req", 4, |it: &Line| {
            it.cell.winner().and_then(|it| it.figures[Figure::Cpu]).map_or("-".into(), format::us)
        }),
        column("repeats", 5, |it: &Line| it.cell.race.repeats.to_string()),
    ]
}

/// Renders the answers of all races.
pub fn render(atlas: &Atlas, medium: Medium) -> String {
    let mut lines = vec![medium.prose(&atlas.sentence)];
    lines.extend(atlas.about_hosts().iter().map(|host| medium.prose(host)));
    lines.extend(atlas.maps.iter().map(|map| of_map(atlas, map, medium)));
    medium.finished(lines.join("\n") + "\n")
}

fn of_map(atlas: &Atlas, map: &Map, medium: Medium) -> String {
    let Map { objective, common, panels } = map;
    let common = if common.is_empty() { String::new() } else { format!(" ({common})") };
    let mut lines = vec![String::new(), medium.heading(&format!("Best {objective}{common}"))];
    // One host needs no name.
    let columns = columns();
    let columns = if atlas.hosts.len() > 1 { &columns[..] } else { &columns[1..] };
    for panel in panels {
        lines.extend((!panel.title.is_empty()).then(|| medium.prose(&panel.title)));
        lines.push(table::with_dropped(columns, &of_panel(atlas, panel), medium));
    }
    let reasons = distinct(panels.iter().flat_map(Panel::cells).filter_map(Cell::reason));
    let (shown, others) = reasons.split_at(reasons.len().min(REASONS_MAX));
    lines.extend(shown.iter().map(|reason| medium.prose(&format!("No answer: {reason}."))));
    lines.extend((!others.is_empty()).then(|| medium.prose(&format!("{} more reasons are in --json.", others.len()))));
    lines.join("\n")
}

fn of_panel(atlas: &Atlas, panel: &Panel) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in &panel.rows {
        for (column, cells) in panel.columns.iter().zip(&row.cells) {
            lines.extend(cells.iter().map(|cell| Line {
                traffic: format!("{}, {column}", row.name),
                host: atlas.hosts[cell.host].letter.clone(),
                cell: cell.clone(),
            }));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Terminal;
    use crate::text::style::painted;

    #[test]
    fn map_is_shown_with_its_ties_and_reasons() {
        let atlas = crate::analysis::atlas::made_up();
        insta::assert_snapshot!("map", render(&atlas, 80.into()));
        insta::assert_snapshot!("map_markdown", render(&atlas, Medium::Markdown));
    }

    #[test]
    fn answers_are_coloured() {
        let terminal = Terminal { columns: 80, is_wide: true, has_legend: false, is_coloured: true };
        let text = painted(&render(&crate::analysis::atlas::made_up(), Medium::Terminal(terminal)));
        for words in [" \u{1b}[1mmt\u{1b}[0m ", " \u{1b}[32mtie: mt, ", " \u{1b}[33mnone\u{1b}[0m "] {
            assert!(text.contains(words), "{text}");
        }
    }
}
