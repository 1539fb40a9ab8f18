//! Tables that fit their medium: a narrow terminal gets the most important columns only.

use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::text::Medium;

/// The highest rank: a narrow terminal drops these columns first.
const RANK_MAX: u8 = 5;

/// A column of rows of `T`.
pub(crate) struct Column<T> {
    pub(crate) heading: &'static str,
    /// The importance. Columns of rank 0 are always shown.
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
    medium: impl Into<Medium>,
) -> (String, Vec<&'static str>) {
    let (text, rank_max) = fit(medium, |rank_max| {
        let shown = || columns.iter().filter(|column| column.rank <= rank_max);
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(shown().map(|column| column.heading));
        for row in rows.clone() {
            table.add_row(shown().map(|column| Cell::new((column.text)(row))));
        }
        align(&mut table);
        table
    });
    let dropped = columns.iter().filter(|column| column.rank > rank_max).map(|column| column.heading);
    (text, dropped.collect())
}

/// Returns the widest table that fits, and the rank of its last columns; `build` makes a table of the columns up to a
/// rank.
pub(crate) fn fit(medium: impl Into<Medium>, build: impl Fn(u8) -> Table) -> (String, u8) {
    let medium = medium.into();
    let built = |rank: u8| (medium.table(&build(rank)), rank);
    let fits = |(text, _): &(String, u8)| text.lines().all(|line| line.chars().count() <= medium.width());
    (0..=RANK_MAX).rev().map(built).find(fits).unwrap_or_else(|| built(0))
}

/// Returns a table of text below these headings.
pub fn of_text(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>, medium: Medium) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headings).add_rows(rows);
    align(&mut table);
    medium.table(&table)
}

/// Aligns the first column to the left and the others, which are numbers, to the right.
pub(crate) fn align(table: &mut Table) {
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
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(lead.iter().chain(&columns[from..to]));
        for (of, cells) in rows {
            table.add_row(of.iter().chain(&cells[from..to]).map(Cell::new));
        }
        align(&mut table);
        medium.table(&table)
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
