//! The medium of a report: a terminal or Markdown. Both media show the same headings, tables and prose.

use comfy_table::Table;

/// The medium of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A terminal with this many columns: tables drop their least important columns, and prose is wrapped.
    Terminal(usize),
    /// GitHub's Markdown, for an issue or a wiki. Tables have all their columns.
    Markdown,
}

impl From<usize> for Medium {
    fn from(width: usize) -> Self {
        Self::Terminal(width)
    }
}

impl Medium {
    /// Returns the number of columns that fit.
    pub fn width(self) -> usize {
        match self {
            Self::Terminal(width) => width,
            Self::Markdown => usize::MAX,
        }
    }

    /// Formats a heading above a table.
    pub fn heading(self, text: &str) -> String {
        match self {
            Self::Terminal(width) => wrap(text, width),
            Self::Markdown => format!("### {}\n", escaped(text)),
        }
    }

    /// Formats paragraphs, one per line of `text`.
    pub fn prose(self, text: &str) -> String {
        match self {
            Self::Terminal(width) => wrap(text, width),
            Self::Markdown => text.lines().map(|line| escaped(line) + "\n").collect::<Vec<_>>().join("\n"),
        }
    }

    /// Formats a table of numbers below a first column of names.
    pub(crate) fn table(self, table: &Table) -> String {
        self.table_of(table, "--:")
    }

    /// Formats a table of phrases.
    pub(crate) fn table_of_words(self, table: &Table) -> String {
        self.table_of(table, "---")
    }

    /// Formats a table. `side` aligns all columns but the first in Markdown.
    fn table_of(self, table: &Table, side: &str) -> String {
        match self {
            Self::Terminal(_) => table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n"),
            Self::Markdown => markdown(table, side),
        }
    }

    /// Formats text whose spaces matter.
    pub fn verbatim(self, text: &str) -> String {
        match self {
            Self::Terminal(_) => text.to_owned(),
            Self::Markdown => {
                // Choose a fence longer than any run of backticks in the text.
                let fence = "`".repeat(text.split(|c| c != '`').map(str::len).max().unwrap_or(0).max(2) + 1);
                format!("{fence}text\n{}\n{fence}\n", text.trim_end())
            }
        }
    }

    /// Finishes a whole report; in Markdown, merges consecutive blank lines.
    pub fn finished(self, text: String) -> String {
        if self != Self::Markdown {
            return text;
        }
        let mut finished = String::new();
        for line in text.trim_end().lines() {
            if !(line.is_empty() && finished.ends_with("\n\n")) {
                finished = finished + line + "\n";
            }
        }
        finished
    }
}

/// Formats the headings, the line that aligns all columns but the first to a side, and the rows.
fn markdown(table: &Table, side: &str) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let cells = |row: &comfy_table::Row| row.cell_iter().map(|cell| escaped(&cell.content())).collect::<Vec<_>>();
    let headings = table.header().map(cells).unwrap_or_default();
    let sides = (0..headings.len()).map(|at| if at == 0 { "---" } else { side }.to_owned()).collect();
    [line(headings), line(sides)].into_iter().chain(table.row_iter().map(|row| line(cells(row)))).collect()
}

/// Escapes the Markdown syntax of cells, code, links and HTML, and of emphasis with `*`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '|' | '*' | '`' | '[' | ']' => escaped.extend(['\\', c]),
            '<' => escaped += "&lt;",
            '&' => escaped += "&amp;",
            c => escaped.push(c),
        }
    }
    escaped
}

/// Wraps lines between words. A word longer than a line stays whole, so that it can be copied.
pub fn wrap(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_for_markdown() {
        let mut table = Table::new();
        table.set_header(["a|b", "c"]).add_row(["*1", "<2>\\"]).add_row(["![x](y)", "`&lt;`"]);
        let shown = "| a\\|b | c |\n| --- | --: |\n| \\*1 | &lt;2>\\\\ |\n| !\\[x\\](y) | \\`&amp;lt;\\` |\n";
        assert_eq!(Medium::Markdown.table(&table), shown);
        assert_eq!(Medium::Markdown.verbatim("a\n```\nb\n"), "````text\na\n```\nb\n````\n");
        assert_eq!(Medium::Markdown.verbatim("a"), "```text\na\n```\n");
    }

    #[test]
    fn reports_in_markdown_keep_all_columns() {
        for (name, run) in
            [("whole", testkit::run()), ("sweep", testkit::sweep_run()), ("capacity", testkit::capacity_run())]
        {
            let text = crate::text::render(&run, Medium::Markdown);
            assert!(!text.contains("\n\n\n") && !text.contains("too narrow"), "{text}");
            insta::assert_snapshot!(name, text);
        }
    }

    #[test]
    fn one_blank_line_separates_paragraphs() {
        let text = Medium::Markdown.heading("x") + "\n" + &Medium::Markdown.prose("one\ntwo") + "\n\n";
        assert_eq!(Medium::Markdown.finished(text), "### x\n\none\n\ntwo\n");
        assert_eq!(Medium::Terminal(9).prose("one and two"), "one and\ntwo");
    }
}
