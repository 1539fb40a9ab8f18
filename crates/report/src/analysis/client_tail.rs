//! Quantiles that the server may not have caused. If the client sent too many requests late, its own bursts may have caused the slow
//! responses, and so may bursts of the kernel's memory monitors. Reports mark such quantiles and conclude nothing from them.

use harness::record::TrialRecord;
use load::LoadResult;
use load::result::LateSends;
use stats::Distribution;

/// A quantile, and its field of a distribution.
pub(crate) type Quantile = (f64, fn(&Distribution) -> u64);

pub(crate) const P1: Quantile = (0.01, |it| it.p1_ns);
pub(crate) const P25: Quantile = (0.25, |it| it.p25_ns);
pub(crate) const P50: Quantile = (0.5, |it| it.p50_ns);
pub(crate) const P75: Quantile = (0.75, |it| it.p75_ns);
pub(crate) const P90: Quantile = (0.9, |it| it.p90_ns);
pub(crate) const P95: Quantile = (0.95, |it| it.p95_ns);
pub(crate) const P99: Quantile = (0.99, |it| it.p99_ns);
pub(crate) const P999: Quantile = (0.999, |it| it.p999_ns);

/// All quantiles of reports, in ascending order.
const ALL: [(&str, Quantile); 8] =
    [("p1", P1), ("p25", P25), ("p50", P50), ("p75", P75), ("p90", P90), ("p95", P95), ("p99", P99), ("p99.9", P999)];

/// Adds up the late sends of several trials, and the requests that the host's memory monitors hit.
pub fn late<'a>(loads: impl Iterator<Item = &'a LoadResult>) -> LateSends {
    loads.map(LoadResult::disturbed).fold(LateSends::default(), LateSends::and)
}

/// The name of the lowest quantile that the client or a monitor may have caused, such as `p99`; `None` if there is none.
pub fn clients_from(late: &LateSends) -> Option<&'static str> {
    ALL.iter().find(|(_, (q, _))| late.reaches(*q)).map(|(name, _)| *name)
}

/// The upper end of a boxplot's line: p99; p75 if the client may have caused p99; p50 if it may have caused p75 too.
pub(crate) fn end_of_line(late: &LateSends) -> Quantile {
    [P99, P75].into_iter().find(|(q, _)| !late.reaches(*q)).unwrap_or(P50)
}

/// Returns the trials whose quantile `q` neither the client nor a monitor can have caused; empty unless these are the majority.
pub(crate) fn servers<'a>(records: &[&'a TrialRecord], q: f64) -> Vec<&'a TrialRecord> {
    let is_foreign_tail = |record: &&TrialRecord| record.load.as_ref().is_none_or(|load| load.is_foreign_tail(q));
    let (foreign, servers): (Vec<&TrialRecord>, Vec<&TrialRecord>) = records.iter().partition(|it| is_foreign_tail(it));
    if servers.len() > foreign.len() { servers } else { Vec::new() }
}
