//! Curves as text: a time, on a logarithmic scale, against a rate.

use super::medium::wrap;
use crate::format;
use crate::list::ends;

/// Rows of the plot.
const HEIGHT: usize = 12;
/// The largest number of columns of the plot.
const WIDTH_MAX: usize = 72;
/// Columns of the labels at the left.
const LABEL: usize = 10;
/// The marks of the curves, in turn.
const MARKS: &[u8] = b"abcdefghijklmnopqrstuvwxyz";

/// A curve: its name, and pairs of a rate and a time in nanoseconds, at ascending rates.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws the curves within `width` columns, with a legend; `None` without room or with fewer than two rates.
pub(crate) fn draw(what: &str, against: &str, lines: &[Line], width: usize) -> Option<String> {
    let columns = width.checked_sub(LABEL + 3)?.min(WIDTH_MAX);
    let points = || lines.iter().flat_map(|line| &line.points).filter(|(_, ns)| *ns > 0.0);
    let (left, right) = ends(points().map(|(rate, _)| *rate))?;
    let (low, high) = ends(points().map(|(_, ns)| ns.log10()))?;
    if columns < 20 || left == right {
        return None;
    }
    // Span at least a factor of ten, so that noise looks flat.
    let (low, high) = (low.min((low + high - 1.0) / 2.0), high.max((low + high + 1.0) / 2.0));
    let column = |rate: f64| ((rate - left) / (right - left) * (columns - 1) as f64).round() as usize;
    let row = |ns: f64| ((high - ns.log10()) / (high - low) * (HEIGHT - 1) as f64).round() as usize;
    let mark = |at: usize| char::from(MARKS[at % MARKS.len()]);
    let mut plot = vec![vec![' '; columns]; HEIGHT];
    let mut put = |at: (usize, usize), mark: char| {
        let cell = &mut plot[at.1][at.0];
        *cell = match *cell {
            ' ' | '.' => mark,
            there if mark == '.' || there == mark => there,
            _ => '*',
        };
    };
    for line in lines {
        for pair in line.points.windows(2).filter(|pair| pair.iter().all(|(_, ns)| *ns > 0.0)) {
            let ends = (column(pair[0].0), column(pair[1].0));
            for x in ends.0 + 1..ends.1 {
                let part = (x - ends.0) as f64 / (ends.1 - ends.0) as f64;
                let log = pair[0].1.log10() + part * (pair[1].1.log10() - pair[0].1.log10());
                put((x, row(10f64.powf(log))), '.');
            }
        }
    }
    for (at, line) in lines.iter().enumerate() {
        let known = line.points.iter().filter(|(_, ns)| *ns > 0.0);
        known.for_each(|(rate, ns)| put((column(*rate), row(*ns)), mark(at)));
    }
    let mut text = vec![format!("{:LABEL$}   {what}", "")];
    for (at, cells) in plot.iter().enumerate() {
        let is_labelled = [0, HEIGHT / 2, HEIGHT - 1].contains(&at);
        let ns = 10f64.powf(high - at as f64 / (HEIGHT - 1) as f64 * (high - low));
        let label = if is_labelled { format::time(ns) } else { String::new() };
        text.push(format!("{label:>LABEL$} | {}", cells.iter().collect::<String>()).trim_end().to_owned());
    }
    text.push(format!("{:LABEL$} +-{}", "", "-".repeat(columns)));
    let (from, to) = (format::digits(left), format::digits(right));
    let room = columns.saturating_sub(from.len() + to.len());
    text.push(format!("{:LABEL$}   {from}{against:^room$}{to}", ""));
    let marks = lines.iter().enumerate().map(|(at, line)| format!("{} {}", mark(at), line.name));
    let legend = marks.chain((lines.len() > 1).then(|| "* several".to_owned())).collect::<Vec<_>>().join("   ");
    let legend = wrap(&legend, width.saturating_sub(LABEL + 3));
    text.extend(legend.lines().map(|line| format!("{:LABEL$}   {line}", "")));
    Some(text.join("\n"))
}

/// The characters of a one-line curve, from the lowest to the highest level.
const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The smallest span of a curve, as a ratio, so that noise stays flat.
const SPARKS_SPAN: f64 = 1.5;

/// Draws a curve in one line: a logarithmic level for each value, and a blank for each missing value.
pub(crate) fn sparks(values: &[Option<f64>]) -> String {
    let logarithm = |value: &Option<f64>| value.filter(|value| *value > 0.0).map(f64::ln);
    levels(&values.iter().map(logarithm).collect::<Vec<_>>(), SPARKS_SPAN.ln())
}

/// Draws a curve in one line: a level for each value, and a blank for each missing value. Values within `span` look flat.
pub(crate) fn levels(values: &[Option<f64>], span: f64) -> String {
    let Some((low, high)) = ends(values.iter().flatten().copied()) else { return " ".repeat(values.len()) };
    let room = ((span - (high - low)) / 2.0).max(0.0);
    let (low, high) = (low - room, high + room);
    let level = |value: f64| ((value - low) / (high - low) * (SPARKS.len() - 1) as f64).round() as usize;
    values.iter().map(|value| value.map_or(' ', |value| SPARKS[level(value)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, points: &[(f64, f64)]) -> Line {
        Line { name: name.into(), points: points.to_vec() }
    }

    #[test]
    fn curves_are_drawn_in_plain_text() {
        let lines = [
            line("epoll", &[(1e4, 1e5), (2e4, 1.1e5), (3e4, 2e5), (4e4, 9e7)]),
            line("mt", &[(1e4, 1.2e5), (2e4, 8e6), (3e4, 2e8)]),
        ];
        insta::assert_snapshot!(draw("p99", "requests/s", &lines, 70).unwrap());
    }

    #[test]
    fn sparks_draw_a_level_for_each_value() {
        let values = [Some(10.0), None, Some(20.0), Some(40.0), Some(80.0), Some(0.0)];
        assert_eq!(sparks(&values), "▁ ▃▆█ ");
        assert_eq!(sparks(&[Some(100.0), Some(101.0)]), "▄▅", "noise looks flat");
        assert_eq!(levels(&[Some(0.0), Some(-0.02), None, Some(0.02)], 0.02), "▅▁ █");
        assert_eq!((sparks(&[Some(7.0)]).chars().count(), sparks(&[None, None])), (1, "  ".into()));
    }

    #[test]
    fn no_chart_without_room_or_two_rates() {
        let one = [line("epoll", &[(1e4, 1e5)])];
        assert!(draw("p99", "requests/s", &one, 80).is_none());
        let two = [line("epoll", &[(1e4, 1e5), (2e4, 1e5)])];
        assert!(draw("p99", "requests/s", &two, 80).is_some());
        assert!(draw("p99", "requests/s", &two, 20).is_none() && draw("p99", "requests/s", &[], 80).is_none());
    }
}
