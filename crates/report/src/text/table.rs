//! Tables that fit their medium: a narrow terminal gets the most important columns only.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::text::Medium;

/// The highest rank: a narrow terminal drops these columns first.
const RANK_MAX: u8 = 5;

/// A column of rows of `T`.
pub(crate) struct Column<T> {
    pub(crate) heading: &'static str,
    /// The rank: a narrow terminal drops high ranks first. Columns of rank 0 are always shown.
    pub(crate) rank: u8,
    pub(crate) text: fn(&T) -> String,
}

/// Returns a column with this heading, rank and text.
pub(crate) const fn column<T>(heading: &'static str, rank: u8, text: fn(&T) -> String) -> Column<T> {
    Column { heading, rank, text }
}

/// Returns a table with as many of `columns` as fit. The line below names the dropped columns and the `flag` that
/// shows them.
pub(crate) fn with_dropped<'a, T: 'a>(
    columns: &[Column<T>],
    rows: impl IntoIterator<Item = &'a T> + Clone,
    medium: Medium,
    flag: &str,
) -> String {
    let (table, dropped) = of(columns, rows, medium);
    match dropped.as_slice() {
        [] => table,
        dropped => {
            format!("{table}\n{}", medium.prose(&format!("(too narrow for: {}; see {flag})", dropped.join(", "))))
        }
    }
}

/// Returns a table with as many of `columns` as fit, and the headings of the dropped columns.
pub(crate) fn of<'a, T: 'a>(
    columns: &[Column<T>],
    rows: impl IntoIterator<Item = &'a T> + Clone,
    medium: Medium,
) -> (String, Vec<&'static str>) {
    let built = |rank_max: u8| {
        let (shown, dropped): (Vec<_>, Vec<_>) = columns.iter().partition(|column| column.rank <= rank_max);
        let cells = |row: &T| shown.iter().map(|column| (column.text)(row)).collect();
        let table = of_text(shown.iter().map(|column| column.heading), rows.clone().into_iter().map(cells), medium);
        (table, dropped.iter().map(|column| column.heading).collect())
    };
    let fits = |(text, _): &(String, _)| text.lines().all(|line| line.chars().count() <= medium.width());
    (0..=RANK_MAX).rev().map(built).find(fits).unwrap_or_else(|| built(0))
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
    if let Medium::Terminal(width) = medium {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.try_into().unwrap_or(u16::MAX));
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
        parts.iter().flat_map(|part| part.lines()).all(|line| line.chars().count() <= medium.width())
    };
    let fitting = (2..=columns.len()).rev().map(parts).find(|parts| fits(parts));
    fitting.unwrap_or_else(|| parts(1)).join("\n\n")
}
