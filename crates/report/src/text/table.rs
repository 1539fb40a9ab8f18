//! Tables that fit their medium: a narrow terminal gets the most important columns only.

use crate::format::listed;
use crate::text::Medium;
use crate::text::medium::{Terminal, wrap};
use crate::text::style::Style;

/// A column of rows of `T`.
pub(crate) struct Column<T> {
    pub(crate) heading: String,
    /// The rank: a narrow terminal drops high ranks first. Columns of rank 0 are always shown.
    rank: u8,
    pub(crate) text: Box<dyn Fn(&T) -> String>,
    /// The style of a cell. The style of a cell in the first column is that of the whole row.
    style: fn(&T) -> Option<Style>,
}

impl<T> Column<T> {
    /// Returns the column with styles.
    pub(crate) fn styled(self, style: fn(&T) -> Option<Style>) -> Self {
        Self { style, ..self }
    }
}

/// Returns a column with this heading, rank and text.
pub(crate) fn column<T>(heading: impl Into<String>, rank: u8, text: impl Fn(&T) -> String + 'static) -> Column<T> {
    Column { heading: heading.into(), rank, text: Box::new(text), style: |_| None }
}

/// A text with its style.
type Cell = (String, Option<Style>);

/// Returns a table with as many of `columns` as fit. The line below names the dropped columns and the flag that shows them.
pub(crate) fn with_dropped<'a, T: 'a>(
    columns: &[Column<T>],
    rows: impl IntoIterator<Item = &'a T> + Clone,
    medium: Medium,
) -> String {
    let (table, dropped) = of(columns, rows, medium);
    match dropped.as_slice() {
        [] => table,
        dropped => format!("{table}\n{}", medium.prose(&too_narrow(dropped))),
    }
}

/// Names the first dropped columns, counts the others, and names the flag that shows them.
pub(crate) fn too_narrow(dropped: &[&str]) -> String {
    const NAMED: usize = 3;
    let (named, others) = dropped.split_at(dropped.len().min(NAMED));
    let others = Some(others.len()).filter(|count| *count > 0).map(|count| format!("{count} more"));
    let named: Vec<String> = named.iter().map(|it| (*it).to_owned()).chain(others).collect();
    format!("(too narrow for {}: --wide)", listed(&named))
}

/// Returns a table with as many of `columns` as fit, and the headings of the dropped columns. Columns are added by their rank, and
/// from left to right. If those of rank 0 do not fit, the cells of the first column wrap between words.
pub(crate) fn of<'a, 'b, T: 'a>(
    columns: &'b [Column<T>],
    rows: impl IntoIterator<Item = &'a T> + Clone,
    medium: Medium,
) -> (String, Vec<&'b str>) {
    let cells = |column: &Column<T>| -> Vec<Cell> {
        let cells = rows.clone().into_iter().map(|row| ((column.text)(row), (column.style)(row)));
        [(column.heading.clone(), None)].into_iter().chain(cells).collect()
    };
    let mut cells: Vec<Vec<Cell>> = columns.iter().map(cells).collect();
    let total = |cells: &[Vec<Cell>], is_shown: &[bool]| {
        let shown = cells.iter().zip(is_shown).filter(|(_, is_shown)| **is_shown);
        let width = |cells: &[Cell]| cells.iter().map(|(text, _)| widest(text)).max().unwrap_or(0);
        shown.map(|(cells, _)| width(cells) + GAP.len()).sum::<usize>().saturating_sub(GAP.len())
    };
    let mut is_shown: Vec<bool> = columns.iter().map(|column| column.rank == 0).collect();
    let excess = total(&cells, &is_shown).saturating_sub(medium.table_width());
    if let Some(names) = cells.first_mut() {
        wrap_names(names, excess);
    }
    let mut further: Vec<usize> = (0..columns.len()).filter(|at| !is_shown[*at]).collect();
    further.sort_by_key(|at| columns[*at].rank);
    for at in further {
        is_shown[at] = true;
        if total(&cells, &is_shown) > medium.table_width() {
            is_shown[at] = false;
            break;
        }
    }
    let shown: Vec<&Vec<Cell>> = cells.iter().zip(&is_shown).filter(|it| *it.1).map(|it| it.0).collect();
    let lines = 0..shown.first().map_or(0, |cells| cells.len());
    let lines: Vec<Vec<Cell>> = lines.map(|at| shown.iter().map(|cells| cells[at].clone()).collect()).collect();
    let dropped = columns.iter().zip(&is_shown).filter(|(_, is_shown)| !**is_shown);
    (layout(&lines, true, medium), dropped.map(|(column, _)| column.heading.as_str()).collect())
}

/// The space between columns.
const GAP: &str = "  ";

/// Wraps the names of rows between words, so that they are narrower by `excess`, but not narrower than their heading.
fn wrap_names(cells: &mut [Cell], excess: usize) {
    let (heading, longest) = (widest(&cells[0].0), cells.iter().map(|(text, _)| widest(text)).max().unwrap_or(0));
    if excess > 0 {
        cells.iter_mut().for_each(|(text, _)| *text = wrap(text, longest.saturating_sub(excess).max(heading)));
    }
}

/// Returns the number of characters of the longest line.
fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// Lays out lines of cells, of which the first has the headings. The first column is on the left of its place; the others are on the
/// right if they are numbers.
fn layout(lines: &[Vec<Cell>], are_numbers: bool, medium: Medium) -> String {
    if medium == Medium::Markdown {
        return Medium::table(lines.iter().map(|line| line.iter().map(|(text, _)| text.as_str())), are_numbers);
    }
    let columns = lines.first().map_or(0, Vec::len);
    let width = |at: usize| lines.iter().map(|line| widest(&line[at].0)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut shown = Vec::new();
    for cells in lines {
        let height = cells.iter().map(|(text, _)| text.lines().count()).max().unwrap_or(0).max(1);
        for part in 0..height {
            let mut line = String::new();
            for (at, (text, style)) in cells.iter().enumerate() {
                let text = text.lines().nth(part).unwrap_or("");
                let room = " ".repeat(widths[at] - text.chars().count());
                let text = medium.styled(text, style.filter(|_| at > 0 && !text.is_empty()));
                let gap = if at > 0 { GAP } else { "" };
                line += &if at > 0 && are_numbers { [gap, &room, &text] } else { [gap, &text, &room] }.concat();
            }
            shown.push(medium.styled(line.trim_end(), cells.first().and_then(|(_, style)| *style)));
        }
    }
    shown.join("\n")
}

/// Returns a table of phrases, which wrap within their cells on a terminal.
pub fn of_words(
    headings: impl IntoIterator<Item: ToString>,
    rows: impl IntoIterator<Item = Vec<String>>,
    medium: Medium,
) -> String {
    let mut lines = lines(headings, rows);
    let mut widths: Vec<usize> =
        (0..lines[0].len()).map(|at| lines.iter().map(|line| widest(&line[at].0)).max().unwrap_or(0)).collect();
    if let Medium::Terminal(Terminal { columns, is_wide: false, .. }) = medium {
        let mut excess = (widths.iter().sum::<usize>() + GAP.len() * (widths.len() - 1)).saturating_sub(columns);
        while let Some(width) = widths.iter_mut().max().filter(|width| excess > 0 && **width > 1) {
            (*width, excess) = (*width - 1, excess - 1);
        }
        for line in &mut lines {
            line.iter_mut().zip(&widths).for_each(|((text, _), width)| *text = wrap(text, *width));
        }
    }
    layout(&lines, false, medium)
}

fn lines(headings: impl IntoIterator<Item: ToString>, rows: impl IntoIterator<Item = Vec<String>>) -> Vec<Vec<Cell>> {
    let headings = headings.into_iter().map(|it| it.to_string()).collect();
    let lines = [headings].into_iter().chain(rows);
    lines.map(|line: Vec<String>| line.into_iter().map(|text| (text, None)).collect()).collect()
}

/// Returns a table with a row for each named value, and those columns that some value has.
pub(crate) fn of_known<T>(rows: &[(&str, &T)], columns: &[(&str, fn(&T) -> Option<String>)], medium: Medium) -> String {
    let is_known = |cell: fn(&T) -> Option<String>| rows.iter().any(|(_, value)| cell(value).is_some());
    let columns: Vec<_> = columns.iter().filter(|(_, cell)| is_known(*cell)).collect();
    let cells = |&(name, value): &(&str, &T)| {
        let cells = columns.iter().map(|(_, cell)| cell(value).unwrap_or_else(|| "-".into()));
        [name.to_owned()].into_iter().chain(cells).collect()
    };
    let headings = ["architecture"].into_iter().chain(columns.iter().map(|(heading, _)| *heading));
    of_parts(1, headings, rows.iter().map(cells), medium)
}

/// Returns a table whose first `lead` columns name the rows. If it is wider than the medium, returns several tables, each with some of
/// the other columns. If one of these columns does not fit, the cells of the first column wrap between words.
pub fn of_parts(
    lead: usize,
    headings: impl IntoIterator<Item: ToString>,
    rows: impl IntoIterator<Item = Vec<String>>,
    medium: Medium,
) -> String {
    let mut lines = lines(headings, rows);
    let columns = lines[0].len() - lead;
    let parts = |lines: &[Vec<Cell>], count: usize| -> Vec<String> {
        let part = |from: usize| {
            let cells = |line: &Vec<Cell>| [&line[..lead], &line[from..(from + count).min(line.len())]].concat();
            layout(&lines.iter().map(cells).collect::<Vec<_>>(), true, medium)
        };
        (lead..lead + columns).step_by(count.max(1)).map(part).collect()
    };
    let narrowest = parts(&lines, 1).iter().map(|part| widest(part)).max().unwrap_or(0);
    let mut names: Vec<Cell> = lines.iter().map(|line| line[0].clone()).collect();
    wrap_names(&mut names, narrowest.saturating_sub(medium.table_width()));
    lines.iter_mut().zip(names).for_each(|(line, name)| line[0] = name);
    let fits = |parts: &[String]| parts.iter().all(|part| widest(part) <= medium.table_width());
    let fitting = (2..=columns).rev().map(|count| parts(&lines, count)).find(|parts| fits(parts));
    fitting.unwrap_or_else(|| parts(&lines, 1)).join("\n\n")
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
        let terminal = Terminal { columns: 80, is_wide: false, has_legend: false, is_coloured: true };
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
        let medium =
            |is_coloured| Medium::Terminal(Terminal { columns: 50, is_wide: false, has_legend: false, is_coloured });
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
