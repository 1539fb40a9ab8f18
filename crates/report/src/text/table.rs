//! Tables that fit their medium: a narrow terminal gets the most important columns only.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::text::Medium;
use crate::text::medium::{Terminal, wrap};
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
/// from left to right. If those of rank 0 do not fit, the cells of the first column wrap between words.
pub(crate) fn of<'a, T: 'a>(
    columns: &[Column<T>],
    rows: impl IntoIterator<Item = &'a T> + Clone,
    medium: Medium,
) -> (String, Vec<&'static str>) {
    let mut is_shown: Vec<bool> = columns.iter().map(|column| column.rank == 0).collect();
    let shown = |is_shown: &[bool]| -> Vec<&Column<T>> {
        columns.iter().zip(is_shown).filter(|(_, is_shown)| **is_shown).map(|(column, _)| column).collect()
    };
    let table = |shown: &[&Column<T>], name_width: usize| {
        let cells = |row: &T| with_wrapped_name(shown.iter().map(|column| (column.text)(row)).collect(), name_width);
        of_text(shown.iter().map(|column| column.heading), rows.clone().into_iter().map(cells), medium)
    };
    let mut further: Vec<usize> = (0..columns.len()).filter(|at| !is_shown[*at]).collect();
    further.sort_by_key(|at| columns[*at].rank);
    let always = shown(&is_shown);
    let name_width = always.first().map_or(usize::MAX, |first| {
        let names = rows.clone().into_iter().map(|row| (first.text)(row));
        name_width(&table(&always, usize::MAX), first.heading, names, medium)
    });
    let mut text = table(&always, name_width);
    for at in further {
        is_shown[at] = true;
        let wider = table(&shown(&is_shown), name_width);
        if widest(&wider) > medium.table_width() {
            is_shown[at] = false;
            break;
        }
        text = wider;
    }
    let dropped = columns.iter().zip(&is_shown).filter(|(_, is_shown)| !**is_shown).map(|(column, _)| column.heading);
    if medium.is_coloured() {
        text = with_styles(&text, &shown(&is_shown), rows, name_width, medium);
    }
    (text, dropped.collect())
}

/// Wraps the first cell of a row, its name, between words.
fn with_wrapped_name(mut cells: Vec<String>, width: usize) -> Vec<String> {
    if let Some(name) = cells.first_mut() {
        *name = wrap(name, width);
    }
    cells
}

/// Returns the width at which names of rows wrap, so that a table with this text fits the medium: at least that of their heading.
/// If the table fits, names do not wrap.
fn name_width(text: &str, heading: &str, names: impl Iterator<Item: AsRef<str>>, medium: Medium) -> usize {
    let excess = widest(text).saturating_sub(medium.table_width());
    if excess == 0 {
        return usize::MAX;
    }
    let longest = names.map(|name| name.as_ref().chars().count()).max().unwrap_or(0);
    longest.saturating_sub(excess).max(heading.chars().count())
}

/// Returns the number of characters of the longest line.
fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// Marks the styles of cells and rows in the text of a table, whose first line has the headings. A cell ends where its heading
/// ends; the same text in another column stays plain.
fn with_styles<'a, T: 'a>(
    text: &str,
    columns: &[&Column<T>],
    rows: impl IntoIterator<Item = &'a T>,
    name_width: usize,
    medium: Medium,
) -> String {
    let (headings, lines) = text.split_once('\n').unwrap_or((text, ""));
    let ends = ends(headings, columns.iter().map(|column| column.heading));
    let lines_of =
        |row: &T| columns.first().map_or(1, |name| wrap(&(name.text)(row), name_width).lines().count().max(1));
    let rows = rows.into_iter().flat_map(|row| std::iter::repeat_n(row, lines_of(row)));
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
/// each with some of the other columns. If one of these columns does not fit, the cells of the first column wrap between words.
pub fn in_parts(lead: &[String], columns: &[String], rows: &[(&[String], &[String])], medium: Medium) -> String {
    let part = |from: usize, to: usize, name_width: usize| {
        let rows = rows.iter().map(|(of, cells)| with_wrapped_name([of, &cells[from..to]].concat(), name_width));
        of_text(lead.iter().chain(&columns[from..to]), rows, medium)
    };
    let parts = |count: usize, name_width: usize| -> Vec<String> {
        let starts = (0..columns.len()).step_by(count);
        starts.map(|from| part(from, (from + count).min(columns.len()), name_width)).collect()
    };
    let name_width = lead.first().map_or(usize::MAX, |heading| {
        let names = rows.iter().filter_map(|(of, _)| of.first());
        name_width(&parts(1, usize::MAX).join("\n"), heading, names, medium)
    });
    let fits = |parts: &[String]| parts.iter().all(|part| widest(part) <= medium.table_width());
    let fitting = (2..=columns.len()).rev().map(|count| parts(count, name_width)).find(|parts| fits(parts));
    fitting.unwrap_or_else(|| parts(1, name_width)).join("\n\n")
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

    const NAMES: [&str; 2] = ["symped:4 (exclusive, stall every=1s,for=200ms)", "epoll"];

    #[test]
    fn long_names_wrap_so_that_the_table_fits() {
        let columns = [
            column("architecture", 0, |row: &usize| NAMES[*row].to_owned()),
            column("p50 µs", 0, |_| "40.1".to_owned()),
            column("verdict", 0, |_: &usize| "valid 3/3".to_owned()).styled(|_| Some(Style::Good)),
            column("memory", 1, |_| "10 KiB".to_owned()),
        ];
        let medium = |is_coloured| Medium::Terminal(Terminal { columns: 50, is_wide: false, is_coloured });
        let expected = "architecture                p50 µs    verdict\n\
                        symped:4 (exclusive, stall    40.1  valid 3/3\n\
                        every=1s,for=200ms)\n\
                        epoll                         40.1  valid 3/3";
        assert_eq!(of(&columns, &[0, 1], medium(false)), (expected.to_owned(), vec!["memory"]));
        let coloured = expected.replace("valid 3/3", "\u{1b}[32mvalid 3/3\u{1b}[0m");
        assert_eq!(painted(&of(&columns, &[0, 1], medium(true)).0), coloured);
        let wide = of(&columns, &[0, 1], 80.into()).0;
        assert!(wide.contains(NAMES[0]) && wide.contains("memory"), "{wide}");
    }

    #[test]
    fn long_names_of_a_table_in_parts_wrap() {
        let calls = "wait 1.00 read 1.00 write 1.00";
        let rows = NAMES.map(|name| [name, "4", calls].map(str::to_owned).to_vec());
        let text = of_parts(1, ["architecture", "threads", "calls"], rows, 70.into());
        assert!(text.lines().all(|line| line.chars().count() <= 70), "{text}");
        let one_line = |line: &str| line.starts_with("epoll ") && line.ends_with(calls) && line.contains(" 4 ");
        assert!(text.contains("every=1s,for=200ms)") && text.lines().any(one_line), "{text}");
    }
}
