//! Tables that fit their medium: a narrow terminal gets the most important columns only.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::text::Medium;
use crate::text::medium::Terminal;
use crate::text::style::Style;

/// A column of rows of `T`.
pub(crate) struct Column<T> {
    pub(crate) heading: &'static str,
    /// The rank: a narrow terminal drops high ranks first. Columns of rank 0 are always shown.
    pub(crate) rank: u8,
    pub(crate) text: fn(&T) -> String,
    /// The style of a cell. The style of a cell in the first column is that of the whole row.
    pub(crate) style: fn(&T) -> Option<Style>,
}

impl<T> Column<T> {
    /// Returns the column with styles.
    pub(crate) const fn styled(self, style: fn(&T) -> Option<Style>) -> Self {
        Self { style, ..self }
    }
}

/// Returns a column with this heading, rank and text.
pub(crate) const fn column<T>(heading: &'static str, rank: u8, text: fn(&T) -> String) -> Column<T> {
    Column { heading, rank, text, style: |_| None }
}

/// Returns a table with as many of `columns` as fit. The line below names the dropped columns and the flag that shows them.
pub(crate) fn with_dropped<'a, T: 'a>(
    columns: &[Column<T>],
    rows: impl IntoIterator<Item = &'a T> + Clone,
    medium: Medium,
) -> String {
    let (table, dropped) = of(columns, rows, medium);
    match dropped.as_slice() {
        [] => table,
        dropped => {
            format!("{table}\n{}", medium.prose(&format!("(too narrow for: {}; see --wide)", dropped.join(", "))))
        }
    }
}

/// Returns a table with as many of `columns` as fit, and the headings of the dropped columns. Columns are added by their rank, and
/// from left to right.
pub(crate) fn of<'a, T: 'a>(
    columns: &[Column<T>],
    rows: impl IntoIterator<Item = &'a T> + Clone,
    medium: Medium,
) -> (String, Vec<&'static str>) {
    let mut is_shown: Vec<bool> = columns.iter().map(|column| column.rank == 0).collect();
    let shown = |is_shown: &[bool]| -> Vec<&Column<T>> {
        columns.iter().zip(is_shown).filter(|(_, is_shown)| **is_shown).map(|(column, _)| column).collect()
    };
    let table = |shown: &[&Column<T>]| {
        let cells = |row: &T| shown.iter().map(|column| (column.text)(row)).collect();
        of_text(shown.iter().map(|column| column.heading), rows.clone().into_iter().map(cells), medium)
    };
    let fits = |text: &str| text.lines().all(|line| line.chars().count() <= medium.table_width());
    let mut further: Vec<usize> = (0..columns.len()).filter(|at| !is_shown[*at]).collect();
    further.sort_by_key(|at| columns[*at].rank);
    let mut text = table(&shown(&is_shown));
    for at in further {
        is_shown[at] = true;
        let wider = table(&shown(&is_shown));
        if !fits(&wider) {
            is_shown[at] = false;
            break;
        }
        text = wider;
    }
    let dropped = columns.iter().zip(&is_shown).filter(|(_, is_shown)| !**is_shown).map(|(column, _)| column.heading);
    if medium.is_coloured() {
        text = with_styles(&text, &shown(&is_shown), rows, medium);
    }
    (text, dropped.collect())
}

/// Marks the styles of cells and rows in the text of a table, whose first line has the headings. A cell ends where its heading
/// ends; the same text in another column stays plain.
fn with_styles<'a, T: 'a>(
    text: &str,
    columns: &[&Column<T>],
    rows: impl IntoIterator<Item = &'a T>,
    medium: Medium,
) -> String {
    let (headings, lines) = text.split_once('\n').unwrap_or((text, ""));
    let ends = ends(headings, columns.iter().map(|column| column.heading));
    let marked = lines.lines().zip(rows).map(|(line, row)| {
        let mut line = line.to_owned();
        // From right to left, because a mark moves the text behind it.
        for (column, end) in columns.iter().zip(&ends).skip(1).rev() {
            let Some(style) = (column.style)(row) else { continue };
            let cell = (column.text)(row);
            let is_at_end = |at: &usize| line[..at + cell.len()].chars().count() == *end;
            let found = line.rmatch_indices(cell.as_str()).map(|(at, _)| at).find(is_at_end);
            if let Some(at) = found {
                line.replace_range(at..at + cell.len(), &medium.styled(&cell, Some(style)));
            }
        }
        medium.styled(&line, columns.first().and_then(|column| (column.style)(row)))
    });
    [headings.to_owned()].into_iter().chain(marked).collect::<Vec<_>>().join("\n")
}

/// Returns the number of characters before the end of each heading.
fn ends(line: &str, headings: impl Iterator<Item = &'static str>) -> Vec<usize> {
    let mut end = 0;
    let mut ends = Vec::new();
    for heading in headings {
        end += line[end..].find(heading).map_or(0, |at| at + heading.len());
        ends.push(line[..end].chars().count());
    }
    ends
}

/// Returns a table of text below these headings.
pub fn of_text(
    headings: impl IntoIterator<Item: ToString>,
    rows: impl IntoIterator<Item = Vec<String>>,
    medium: Medium,
) -> String {
    let mut table = plain(headings, rows);
    align(&mut table);
    medium.table(&table)
}

/// Returns a table of phrases, which wrap within their cells on a terminal.
pub fn of_words(
    headings: impl IntoIterator<Item: ToString>,
    rows: impl IntoIterator<Item = Vec<String>>,
    medium: Medium,
) -> String {
    let mut table = plain(headings, rows);
    if let Medium::Terminal(Terminal { columns, is_wide: false, .. }) = medium {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns.try_into().unwrap_or(u16::MAX));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    medium.table_of_words(&table)
}

/// Returns a table without borders.
fn plain(headings: impl IntoIterator<Item: ToString>, rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headings.into_iter().map(|it| it.to_string())).add_rows(rows);
    table
}

/// Aligns the first column to the left, and all other columns, which hold numbers, to the right.
fn align(table: &mut Table) {
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if at == 0 { 0 } else { 1 }, 1));
        if at > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Returns a table whose first `lead` columns name the rows. If it is wider than the medium, returns several tables, each with some
/// of the other columns.
pub fn of_parts(
    lead: usize,
    headings: impl IntoIterator<Item: ToString>,
    rows: impl IntoIterator<Item = Vec<String>>,
    medium: Medium,
) -> String {
    let headings: Vec<String> = headings.into_iter().map(|it| it.to_string()).collect();
    let rows: Vec<Vec<String>> = rows.into_iter().collect();
    let split: Vec<_> = rows.iter().map(|row| row.split_at(lead)).collect();
    in_parts(&headings[..lead], &headings[lead..], &split, medium)
}

/// Returns a table whose rows begin with the `lead` columns. If it is wider than the medium, returns several tables,
/// each with some of the other columns.
pub fn in_parts(lead: &[String], columns: &[String], rows: &[(&[String], &[String])], medium: Medium) -> String {
    let part = |from: usize, to: usize| {
        let rows = rows.iter().map(|(of, cells)| [of, &cells[from..to]].concat());
        of_text(lead.iter().chain(&columns[from..to]), rows, medium)
    };
    let parts = |count: usize| -> Vec<String> {
        let starts = (0..columns.len()).step_by(count);
        starts.map(|from| part(from, (from + count).min(columns.len()))).collect()
    };
    let fits = |parts: &[String]| {
        parts.iter().flat_map(|part| part.lines()).all(|line| line.chars().count() <= medium.table_width())
    };
    let fitting = (2..=columns.len()).rev().map(parts).find(|parts| fits(parts));
    fitting.unwrap_or_else(|| parts(1)).join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::style::painted;

    #[test]
    fn style_marks_only_the_cell_of_its_column() {
        let columns = [
            column("traffic", 0, |_: &u32| "epoll".to_owned()),
            column("best µs", 0, |_: &u32| "epoll".to_owned()).styled(|_| Some(Style::Best)),
            column("next", 0, |_: &u32| "symped:2/epoll".to_owned()),
            column("finding", 0, |_: &u32| "winner".to_owned()).styled(|_| Some(Style::Good)),
        ];
        let terminal = Terminal { columns: 80, is_wide: false, is_coloured: true };
        let (text, dropped) = of(&columns, &[0], Medium::Terminal(terminal));
        let row = "epoll      \u{1b}[1mepoll\u{1b}[0m  symped:2/epoll   \u{1b}[32mwinner\u{1b}[0m";
        assert_eq!((painted(&text).lines().nth(1), dropped.len()), (Some(row), 0), "{text}");
    }
}
