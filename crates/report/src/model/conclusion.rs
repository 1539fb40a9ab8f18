//! The conclusion in a sentence: the best architecture for this traffic, by how much, and how certain that is.

use harness::model::VerdictKind;
use harness::spec::units::Share;

use super::stream;
use super::summary::{Comparison, MARGIN, Row, Summary};
use crate::format;

/// One sentence for the whole run.
pub fn overall(summary: &Summary) -> String {
    let best: Vec<(&Comparison, Vec<&str>)> = summary
        .comparisons
        .iter()
        .filter(|comparison| comparison.rows.first().is_some_and(Row::is_ranked))
        .map(|comparison| (comparison, equals_of_best(comparison)))
        .collect();
    if best.is_empty() {
        return "No architecture can be called best: no trial is valid.".into();
    }
    // Architectures that are best, or not told apart from the best, under every workload that has a ranking.
    let everywhere: Vec<&str> =
        best[0].1.iter().copied().filter(|name| best.iter().all(|(_, equals)| equals.contains(name))).collect();
    let mut unranked = match summary.comparisons.len() - best.len() {
        0 => String::new(),
        count => format!(" ({count} of {} workloads have no valid trial)", summary.comparisons.len()),
    };
    if best.iter().any(|(comparison, _)| has_no_interval(comparison)) {
        unranked.push_str(" (by single repeats, which do not say how sure that is; see --repeats)");
    }
    if everywhere.is_empty() {
        let each: Vec<String> = best
            .iter()
            .map(|(comparison, equals)| format!("{} at {}", equals.join(" or "), place(comparison)))
            .collect();
        return format!("It depends on the traffic: {}{unranked}.", each.join("; "));
    }
    let under = if best.len() == 1 { "for this traffic" } else { "under every workload tried" };
    match everywhere.as_slice() {
        [one] => format!("Best {under}: {one}{unranked}."),
        several => format!("Best {under}: {}, which these repeats do not tell apart{unranked}.", several.join(", ")),
    }
}

/// One or two sentences for a workload.
pub fn of(comparison: &Comparison) -> String {
    let ranked: Vec<&Row> = comparison.rows.iter().filter(|row| row.is_ranked()).collect();
    let others: Vec<String> = comparison
        .rows
        .iter()
        .filter(|row| !row.is_ranked())
        .map(|row| {
            format!(
                "{} ({})",
                row.architecture,
                if row.repeats == 0 { "not run" } else { format::verdict(row.verdict) }
            )
        })
        .collect();
    let unranked = if others.is_empty() { String::new() } else { format!(" Not ranked: {}.", others.join(", ")) };
    let unranked = unranked + &gigabytes(comparison);
    let Some(best) = ranked.first() else {
        return format!("At {}: nothing to rank.{unranked}", place(comparison));
    };
    let is_closed = comparison.workload.is_closed();
    let figure = if is_closed {
        best.rate_per_s.map_or_else(String::new, |rate| {
            match stream::megabytes_per_s(&comparison.workload, rate.value) {
                Some(megabytes_per_s) => format::bandwidth(megabytes_per_s * 1e6),
                None => format!("{} transactions/s", format::digits(rate.value)),
            }
        })
    } else {
        let p50 = best.service.map_or_else(String::new, |service| format::time(service.p50_ns as f64));
        format!("service time p50 {p50}")
    };
    let compared: Vec<String> = ranked[1..].iter().map(|row| against_best(row)).collect();
    let compared = if compared.is_empty() { String::new() } else { format!("; {}", compared.join(", ")) };
    // In a closed loop who is slower is also asked less: tails are of different loads.
    let tail = if is_closed { String::new() } else { tail(&ranked) };
    let place = place(comparison);
    let is_stream = comparison.workload.service.stream().is_some();
    let most = if is_stream { "has the most bandwidth" } else { "has the most transactions" };
    let is_best = match (ranked.len(), equals_of_best(comparison).len()) {
        (1, _) => "is the only one ranked",
        _ if is_closed && has_no_interval(comparison) => most,
        _ if has_no_interval(comparison) => "has the least median",
        (_, 1) => "is best",
        // It may be chance that this one came out first.
        _ if is_closed => &format!("{most}, though not all others are told apart from it"),
        _ => "has the least median, though not all others are told apart from it",
    };
    format!("At {place}, {} {is_best}: {figure}{compared}.{tail}{unranked}", best.architecture)
}

/// What a gigabyte of streams took each server, where a client was the limit of some: that is the server's own, whoever else
/// was slow.
fn gigabytes(comparison: &Comparison) -> String {
    if !comparison.rows.iter().any(|row| row.verdict == VerdictKind::ClientLimited) {
        return String::new();
    }
    let of = |row: &Row| Some((row.stream?.cpu_ns_per_gigabyte?, row.label()));
    let mut costs: Vec<(f64, String)> = comparison.rows.iter().filter_map(of).collect();
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let costs: Vec<String> = costs.iter().map(|(ns, name)| format!("{name} {}", format::time(*ns))).collect();
    match costs.as_slice() {
        [] => String::new(),
        all => format!(" The server's CPU time for a gigabyte, whoever was the limit: {}.", all.join(", ")),
    }
}

fn place(comparison: &Comparison) -> String {
    let workload = &comparison.workload;
    let mut connections = format!("{} {}", workload.connections, workload.targets());
    if workload.active < 1.0 {
        connections.push_str(&format!(" ({} active)", Share(workload.active)));
    }
    if workload.idle > 0 {
        connections.push_str(&format!(", {} idle ones", workload.idle));
    }
    match workload.rate_per_s {
        Some(rate_per_s) => format!("{connections} and {rate_per_s} requests/s"),
        None => format!("{connections} in a closed loop"),
    }
}

fn against_best(row: &Row) -> String {
    let Some(ratio) = row.ratio else { return row.architecture.clone() };
    let name = &row.architecture;
    match ratio.interval {
        None => format!("{name} {:.2}x (one repeat: no interval)", ratio.ratio),
        Some(_) if ratio.is_practically_one(MARGIN) => format!("{name} no practical difference"),
        Some(interval) if !ratio.differs_from_one() => {
            format!("{name} not told apart ({:.2}x to {:.2}x)", interval.low, interval.high)
        }
        Some(interval) => format!("{name} {:.2}x ({:.2} to {:.2})", ratio.ratio, interval.low, interval.high),
    }
}

/// Whether there were too few repeats to say how sure anything is.
fn has_no_interval(comparison: &Comparison) -> bool {
    comparison.rows.iter().any(|row| row.ratio.is_some_and(|ratio| ratio.interval.is_none()))
}

/// The best, and those whose difference from it makes no practical difference or is not shown by the repeats.
fn equals_of_best(comparison: &Comparison) -> Vec<&str> {
    let is_equal = |(at, row): &(usize, &Row)| {
        *at == 0
            || row.ratio.is_some_and(|ratio| {
                ratio.is_practically_one(MARGIN) || (ratio.interval.is_some() && !ratio.differs_from_one())
            })
    };
    let ranked = comparison.rows.iter().filter(|row| row.is_ranked()).enumerate();
    ranked.filter(is_equal).map(|(_, row)| row.architecture.as_str()).collect()
}

/// Says so when another architecture has a clearly better 99th percentile than the one with the best median. A percentile
/// that may be the client's is neither better nor worse.
fn tail(ranked: &[&Row]) -> String {
    let p99 = |row: &Row| row.service.map_or(u64::MAX, |service| service.p99_ns);
    let known = ranked.iter().filter(|row| !row.is_client_tail(0.99));
    let Some(least) = known.min_by_key(|row| p99(row)) else { return String::new() };
    if !ranked[0].is_client_tail(0.99) && (p99(least) as f64) < p99(ranked[0]) as f64 * (1.0 - 2.0 * MARGIN) {
        format!(
            " Its 99th percentile, {}, is not the least: {} has {}.",
            format::time(p99(ranked[0]) as f64),
            least.architecture,
            format::time(p99(least) as f64)
        )
    } else {
        String::new()
    }
}
