//! The medium of a report: a terminal or Markdown. Both media show the same headings, tables and prose.

use super::style::Style;

/// The medium of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A terminal or a file: tables drop their least important columns, and prose is wrapped.
    Terminal(Terminal),
    /// GitHub's Markdown, for an issue or a wiki. Tables have all their columns.
    Markdown,
}

/// The properties of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// The number of columns of prose and figures and, unless `is_wide`, of tables.
    pub columns: usize,
    /// Whether tables have all their columns.
    pub is_wide: bool,
    /// Whether tables are followed by the meaning of their columns.
    pub has_legend: bool,
    /// Whether the text has the marks that [`super::style::painted`] replaces.
    pub is_coloured: bool,
}

impl From<usize> for Medium {
    fn from(columns: usize) -> Self {
        Self::Terminal(Terminal { columns, is_wide: false, has_legend: false, is_coloured: false })
    }
}

impl Medium {
    /// Returns the number of columns that fit.
    pub fn width(self) -> usize {
        match self {
            Self::Terminal(terminal) => terminal.columns,
            Self::Markdown => usize::MAX,
        }
    }

    /// Returns the number of columns of a table.
    pub(crate) fn table_width(self) -> usize {
        match self {
            Self::Terminal(Terminal { is_wide: false, columns, .. }) => columns,
            Self::Terminal(_) | Self::Markdown => usize::MAX,
        }
    }

    /// Tests whether tables that have nothing unusual are left out.
    pub(crate) fn is_brief(self) -> bool {
        matches!(self, Self::Terminal(Terminal { is_wide: false, .. }))
    }

    /// Tests whether the medium has colours.
    pub(crate) fn is_coloured(self) -> bool {
        matches!(self, Self::Terminal(Terminal { is_coloured: true, .. }))
    }

    /// Marks text with a style, if the medium has colours.
    pub(crate) fn styled(self, text: &str, style: Option<Style>) -> String {
        style.filter(|_| self.is_coloured()).map_or_else(|| text.to_owned(), |style| style.marked(text))
    }

    /// Formats a heading above a table.
    pub fn heading(self, text: &str) -> String {
        match self {
            Self::Terminal(terminal) => wrap(text, terminal.columns),
            Self::Markdown => format!("### {}\n", escaped(text)),
        }
    }

    /// Formats paragraphs, one per line of `text`.
    pub fn prose(self, text: &str) -> String {
        match self {
            Self::Terminal(terminal) => wrap(text, terminal.columns),
            Self::Markdown => text.lines().map(|line| escaped(line) + "\n").collect::<Vec<_>>().join("\n"),
        }
    }

    /// Formats what explains columns, and is the same for every run. Readers of Markdown cannot ask for it, so they always get it.
    pub(crate) fn legend(self, text: &str) -> Option<String> {
        let is_hidden = matches!(self, Self::Terminal(Terminal { has_legend: false, .. }));
        (!is_hidden).then(|| self.prose(text))
    }

    /// Formats a table in Markdown: the headings, the line that aligns all columns but the first, and the rows.
    pub(crate) fn table<'a>(lines: impl Iterator<Item = impl Iterator<Item = &'a str>>, are_numbers: bool) -> String {
        let mut text = String::new();
        for (at, line) in lines.enumerate() {
            let cells: Vec<String> = line.map(escaped).collect();
            text += &format!("| {} |\n", cells.join(" | "));
            if at == 0 {
                let side = if are_numbers { " --: |" } else { " --- |" };
                text += &format!("| --- |{}\n", side.repeat(cells.len() - 1));
            }
        }
        text
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

/// Wraps lines between words, and keeps their indentation. A word longer than a line stays whole, so that it can be copied.
pub fn wrap(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let words = paragraph.trim_start_matches(' ');
        let margin = &paragraph[..paragraph.len() - words.len()];
        let mut line = String::new();
        for word in words.split(' ') {
            if !line.is_empty() && margin.len() + line.chars().count() + 1 + word.chars().count() > width {
                lines.push(format!("{margin}{}", std::mem::take(&mut line)));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(format!("{margin}{line}"));
    }
    lines.join("\n")
}

/// Puts `text` after `lead`, and aligns its further lines with its first line.
pub fn hanging(lead: &str, text: &str, width: usize) -> String {
    let margin = lead.chars().count();
    let wrapped = wrap(text, width.saturating_sub(margin).max(20));
    format!("{lead}{}\n", wrapped.replace('\n', &format!("\n{:margin$}", "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_for_markdown() {
        let table = [["a|b", "c"], ["*1", "<2>\\"], ["![x](y)", "`&lt;`"]].map(IntoIterator::into_iter);
        let shown = "| a\\|b | c |\n| --- | --: |\n| \\*1 | &lt;2>\\\\ |\n| !\\[x\\](y) | \\`&amp;lt;\\` |\n";
        assert_eq!(Medium::table(table.into_iter(), true), shown);
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
        assert_eq!(Medium::from(9).prose("one and two"), "one and\ntwo");
        assert_eq!(Medium::from(9).prose("  one and two"), "  one and\n  two");
        assert_eq!(hanging("name  ", "one two three four five", 20), "name  one two three four\n      five\n");
    }
}
