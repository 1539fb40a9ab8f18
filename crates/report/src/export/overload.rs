//! Overloads as CSV: a row for each server under each workload.

use super::csv::{CsvRow, of_rows};
use crate::analysis::overload::{Overload, Overloads, other_errors};
use crate::analysis::recovery::Recovery;

/// Writes all rows.
pub fn csv(overloads: &Overloads) -> String {
    of_rows(overloads.rows.iter().map(row))
}

fn row(overload: &Overload) -> CsvRow {
    let pulse = overload.pulse.as_ref();
    let mut row = CsvRow::default();
    row.put("architecture", &overload.architecture);
    row.put("workload", &overload.workload);
    row.put("capacity_per_s", overload.capacity_per_s);
    row.put("capacity_is_lower_bound", overload.is_lower_bound);
    for (at, phase) in ["before", "pulse", "after"].into_iter().enumerate() {
        row.put(format!("{phase}_offered_per_s"), pulse.map(|it| it.phases[at].offered_per_s));
        row.put(format!("{phase}_goodput_per_s"), pulse.map(|it| it.phases[at].goodput_per_s));
    }
    row.put("timeouts", pulse.map(|it| it.errors.timeout));
    row.put("other_errors", pulse.map(|it| other_errors(&it.errors)));
    row.put("attempts_timed_out", pulse.map(|it| it.timeouts));
    row.put("retries", pulse.map(|it| it.retries));
    row.put(
        "recovery",
        overload.recovery().map(|it| match it {
            Recovery::After { .. } => "after",
            Recovery::Never => "never",
            Recovery::UnhealthyBefore => "unhealthy-before",
        }),
    );
    row.put(
        "recovered_after_ns",
        overload.recovery().and_then(|it| match it {
            Recovery::After { ns } => Some(ns),
            Recovery::Never | Recovery::UnhealthyBefore => None,
        }),
    );
    row.put("client_limited", pulse.map(|it| it.is_client_limited));
    row.put("problems", overload.problems.join("; "));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overloads_as_csv() {
        insta::assert_snapshot!(csv(&Overloads::of(&testkit::overload_run()).unwrap()));
    }
}
