//! Colours of reports. A report marks its text, and the program replaces the marks after it has escaped control characters.

use harness::record::VerdictKind;

/// A meaning that a terminal shows as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// The best row of a table.
    Best,
    /// A valid result.
    Good,
    /// A result without a rank.
    Doubtful,
    /// A failure.
    Bad,
}

/// The end of marked text, from Unicode's private use area, as are all marks.
const END: char = '\u{f8d0}';

impl Style {
    const ALL: [Self; 4] = [Self::Best, Self::Good, Self::Doubtful, Self::Bad];

    /// Returns the style of a verdict.
    pub(crate) fn of(verdict: VerdictKind) -> Self {
        match verdict {
            VerdictKind::Valid => Self::Good,
            VerdictKind::Saturated | VerdictKind::ClientLimited | VerdictKind::Unsteady => Self::Doubtful,
            VerdictKind::Failed => Self::Bad,
        }
    }

    fn mark(self) -> char {
        match self {
            Self::Best => '\u{f8d1}',
            Self::Good => '\u{f8d2}',
            Self::Doubtful => '\u{f8d3}',
            Self::Bad => '\u{f8d4}',
        }
    }

    /// Returns the control sequence: bold, green, yellow or red.
    fn sequence(self) -> &'static str {
        match self {
            Self::Best => "\u{1b}[1m",
            Self::Good => "\u{1b}[32m",
            Self::Doubtful => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
        }
    }

    pub(super) fn marked(self, text: &str) -> String {
        format!("{}{text}{END}", self.mark())
    }
}

/// Replaces the marks of a report by control sequences of a terminal.
pub fn painted(text: &str) -> String {
    let unmarked = |text: String, style: Style| text.replace(style.mark(), style.sequence());
    Style::ALL.into_iter().fold(text.replace(END, "\u{1b}[0m"), unmarked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Medium, Terminal, render};

    #[test]
    fn best_row_and_verdicts_are_coloured() {
        let plain = Terminal { columns: 80, is_wide: false, has_legend: false, is_coloured: false };
        let coloured = Medium::Terminal(Terminal { is_coloured: true, ..plain });
        for run in [testkit::run(), testkit::sweep_run(), testkit::capacity_run()] {
            let (text, plain) = (painted(&render(&run, coloured)), render(&run, Medium::Terminal(plain)));
            let sequences = ["\u{1b}[0m"].into_iter().chain(Style::ALL.map(Style::sequence));
            let stripped = sequences.fold(text.clone(), |text, sequence| text.replace(sequence, ""));
            assert_eq!(stripped, plain, "colours change nothing else");
            assert_ne!(text, plain);
        }
        let text = painted(&render(&testkit::run(), coloured));
        assert!(text.lines().any(|line| line.starts_with("\u{1b}[1mepoll ")), "{text}");
        assert!(text.contains("\u{1b}[33msaturated 0/4\u{1b}[0m"), "{text}");
        assert!(!text.contains("\u{1b}[1mmt "), "only the best row is bold: {text}");
    }
}
