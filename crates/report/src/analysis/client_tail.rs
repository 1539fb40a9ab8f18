//! Quantiles that the server may not have caused. If the client sent too many requests late, its own bursts may have caused the slow
//! responses, and so may bursts of the kernel's memory monitors. Reports mark such quantiles and conclude nothing from them.

use harness::record::{Figure, TrialRecord};
use load::LoadResult;
use load::result::LateSends;

/// Adds up the late sends of several trials, and the requests that the host's memory monitors hit.
pub fn late<'a>(loads: impl Iterator<Item = &'a LoadResult>) -> LateSends {
    loads.map(LoadResult::disturbed).fold(LateSends::default(), LateSends::and)
}

/// The name of the lowest quantile that the client or a monitor may have caused, such as `p99`; `None` if there is none.
pub fn clients_from(late: &LateSends) -> Option<&'static str> {
    Figure::quantiles().find(|it| it.tail().is_some_and(|q| late.reaches(q))).map(Figure::name)
}

/// Returns the trials whose quantile `q` neither the client nor a monitor can have caused; empty unless these are the majority.
pub(crate) fn servers<'a>(records: &[&'a TrialRecord], q: f64) -> Vec<&'a TrialRecord> {
    let is_foreign_tail = |record: &&TrialRecord| record.load.as_ref().is_none_or(|load| load.is_foreign_tail(q));
    let (foreign, servers): (Vec<&TrialRecord>, Vec<&TrialRecord>) = records.iter().partition(|it| is_foreign_tail(it));
    if servers.len() > foreign.len() { servers } else { Vec::new() }
}
