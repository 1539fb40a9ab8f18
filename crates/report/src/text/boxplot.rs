//! Service times as text, a line for each architecture: five percentiles on one logarithmic scale, as in Figure 7 of
//! kawai2008.

use crate::analysis::summary::{Comparison, Row};
use crate::format;
use crate::list::ends;
use crate::text::Medium;

/// The highest number of columns of the scale.
const WIDTH_MAX: usize = 72;
const LEGEND: &str = "p1 ─ p25 ━ p50 ● ━ p75 ─ p99";
/// The gap between the names and the scale.
const GAP: usize = 2;

/// Returns the scale and the lines. `None` with fewer than two architectures, without room, or for streams.
pub(crate) fn of(comparison: &Comparison, medium: Medium) -> Option<String> {
    let rows: Vec<(&Row, [f64; 5])> = comparison.rows.iter().filter_map(|row| Some((row, percentiles(row)?))).collect();
    if rows.len() < 2 || comparison.workload.service.stream().is_some() {
        return None;
    }
    let names = rows.iter().map(|(row, _)| row.label().chars().count()).max()?;
    let columns = medium.width().checked_sub(names + GAP)?.min(WIDTH_MAX);
    let (low, high) = ends(rows.iter().flat_map(|(_, ns)| *ns))?;
    // Span at least a factor of 4, so that noise does not look like a difference.
    let room = (2.0 / (high / low).sqrt()).max(1.0);
    let (low, high) = (low / room, high * room);
    let place = |ns: f64| ((ns / low).ln() / (high / low).ln() * (columns - 1) as f64).round() as usize;
    let (from, to) = (format::time(low), format::time(high));
    let between = columns.saturating_sub(from.chars().count() + to.chars().count());
    if between < LEGEND.chars().count() + GAP {
        return None;
    }
    let scale = format!("{:names$}  {from}{LEGEND:^between$}{to}", "");
    let lines = rows.iter().map(|(row, ns)| {
        let at = ns.map(place);
        let mark = |column: usize| match column {
            it if it == at[2] && row.is_ranked() => '●',
            it if it == at[2] => '○',
            it if (at[1]..=at[3]).contains(&it) => '━',
            it if (at[0]..=at[4]).contains(&it) => '─',
            _ => ' ',
        };
        let line = format!("{:names$}  {}", row.label(), (0..columns).map(mark).collect::<String>());
        line.trim_end().to_owned()
    });
    let text = [scale].into_iter().chain(lines).collect::<Vec<_>>().join("\n");
    Some(medium.verbatim(&text))
}

/// Returns p1, p25, p50, p75 and p99 in nanoseconds, at least 1 each. If the client may have caused the p99, the last
/// value is the p75. If the client may have caused the p75 too, the last two values are the p50.
fn percentiles(row: &Row) -> Option<[f64; 5]> {
    let time = row.service?;
    let [p75_ns, last_ns] = match row {
        row if !row.is_client_tail(0.99) => [time.p75_ns, time.p99_ns],
        row if !row.is_client_tail(0.75) => [time.p75_ns; 2],
        _ => [time.p50_ns; 2],
    };
    Some([time.p1_ns, time.p25_ns, time.p50_ns, p75_ns, last_ns].map(|ns| ns.max(1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Summary;

    #[test]
    fn percentiles_are_drawn_on_one_scale() {
        let summary = Summary::of(&testkit::run());
        let text = of(&summary.comparisons[1], 60.into()).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn boxplot_without_room_or_two_rows_is_absent() {
        let summary = Summary::of(&testkit::run());
        assert_eq!(of(&summary.comparisons[0], 20.into()), None);
        for width in 20..80 {
            let text = of(&summary.comparisons[1], width.into()).unwrap_or_default();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
        let mut one = summary.comparisons[0].clone();
        one.rows.truncate(1);
        assert_eq!(of(&one, 100.into()), None);
    }
}
