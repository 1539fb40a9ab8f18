//! Rows with profiles: their differences, in tables and sentences.

use profile::Category;
use profile::categories::CATEGORIES;

use super::profile::{Part, RowProfile};
use super::row::{Comparison, Row};
use crate::format;

/// Adds the differences to the best row, which is the first one.
pub(crate) fn compare(rows: &mut [Row]) {
    let Some(best) = rows.first().filter(|row| row.is_ranked()).and_then(|row| row.profile.clone()) else { return };
    rows.iter_mut().skip(1).filter_map(|row| row.profile.as_mut()).for_each(|profile| profile.compare(&best));
}

/// Returns the rows with a profile.
pub(crate) fn rows(comparison: &Comparison) -> Vec<(&Row, &RowProfile)> {
    comparison.rows.iter().filter_map(|row| Some((row, row.profile.as_ref()?))).collect()
}

/// Categories that take less than this share of the CPU time in every row are not shown.
const SHOWN_SHARE_MIN: f64 = 0.002;

/// Returns the categories of tables; the last one has what no rule explains.
pub(crate) fn categories(rows: &[(&Row, &RowProfile)]) -> Vec<Option<Category>> {
    let is_shown = |category: &Option<Category>| {
        let part = |profile: &RowProfile| profile.part(*category).map_or(0.0, |part| part.estimate.value);
        rows.iter().any(|(_, profile)| part(profile) >= SHOWN_SHARE_MIN * profile.cpu_ns_per_request)
    };
    CATEGORIES.iter().map(|(category, ..)| Some(*category)).filter(is_shown).chain([None]).collect()
}

/// The number of differences in a sentence, in each direction.
const NAMED: usize = 2;
/// Sentences name differences of at least this share of the best row's CPU time.
const NAMED_SHARE_MIN: f64 = 0.01;
/// A difference of idle shares that a sentence names.
const IDLE_MIN: f64 = 0.05;

/// Returns a sentence for each row that has intervals to the best one, with the largest significant differences.
pub(crate) fn sentences(comparison: &Comparison) -> Vec<String> {
    let Some(best) = comparison.rows.first().filter(|row| row.is_ranked()) else { return Vec::new() };
    let Some(base) = &best.profile else { return Vec::new() };
    let sentence = |(row, profile): &(&Row, &RowProfile)| {
        let differs = |part: &&Part| {
            let added = part.added_ns.map_or(0.0, |it| it.value);
            part.differs() && added.abs() >= NAMED_SHARE_MIN * base.cpu_ns_per_request
        };
        let mut parts: Vec<(f64, &str)> = profile
            .parts
            .iter()
            .filter(differs)
            .filter_map(|part| {
                Some((part.added_ns?.value, part.category.map_or("what no rule explains", Category::words)))
            })
            .collect();
        parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        let side = |is_more: bool| {
            let parts = parts.iter().filter(|(added, _)| (*added > 0.0) == is_more).take(NAMED);
            let word = if is_more { "more" } else { "less" };
            let parts: Vec<String> =
                parts.map(|(added, words)| format!("{} µs {word} for {words}", format::us(added.abs()))).collect();
            (!parts.is_empty()).then(|| format::listed(&parts))
        };
        let sides: Vec<String> = [true, false].into_iter().filter_map(side).collect();
        let (name, best) = (&row.label, &best.label);
        let idle = (profile.idle_share - base.idle_share).abs() >= IDLE_MIN;
        let [own, its] = [profile, base].map(|it| format!("{:.0} %", 100.0 * it.idle_share));
        let idle = idle.then(|| format!("its CPUs were idle for {own} of its turns, those of {best} for {its}"));
        let differences = match sides.as_slice() {
            [] => format!("no category differs significantly by {:.0} % or more", 100.0 * NAMED_SHARE_MIN),
            sides => format!("it spends per request {}", sides.join(", and ")),
        };
        format!("{name} against {best}: {differences}{}.", idle.map_or(String::new(), |it| format!("; {it}")))
    };
    let has_intervals = |profile: &RowProfile| {
        profile.parts.iter().any(|part| part.added_ns.is_some_and(|added| added.interval.is_some()))
    };
    let is_compared = |(row, profile): &&(&Row, &RowProfile)| !row.is_placebo && has_intervals(profile);
    rows(comparison).iter().filter(is_compared).map(sentence).collect()
}
