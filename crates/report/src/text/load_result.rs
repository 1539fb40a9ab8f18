//! A load report in a line.

use harness::record::Verdict;
use load::LoadResult;
use load::result::{ClosedResult, DatagramResult, GoodputResult, StreamResult};

use super::medium::Medium;
use super::style::Style;
use crate::format;

/// Formats a verdict with its reason.
pub fn verdict(verdict: &Verdict, medium: Medium) -> String {
    let name = medium.styled(format::verdict(verdict.kind), Some(Style::of(verdict.kind)));
    format!("{name}: {}", verdict.reason)
}

/// Formats the number of errors. They are those of the whole trial, unlike other counts.
pub fn errors(report: &LoadResult) -> String {
    let count = report.errors.total();
    let errors = format::counted(usize::try_from(count).unwrap_or(usize::MAX), "error", "errors");
    match count {
        0 => errors,
        _ if report.stream.is_some() => format!("{errors} in the whole trial"),
        _ if count > report.trial_requests => format!("{errors} of requests and of connections without any"),
        _ => format!("{errors} among the {} requests of the whole trial", report.trial_requests),
    }
}

/// The smallest share of overlapping requests that is worth a sentence.
const OVERLAP_SHARE_MIN: f64 = 0.01;

/// Formats the share of requests that queued behind others of their connection; `None` for few. If requests do not overlap, the share
/// that waited for a free connection. `name` stands before it.
pub fn queued(name: &str, share: Option<f64>, no_overlap: bool) -> Option<String> {
    let share = share.filter(|share| no_overlap || *share >= OVERLAP_SHARE_MIN)?;
    Some(format!("{name}{}", format::percent((share * 1e3).round() / 1e3)))
}

/// Explains the shares of [`queued`].
pub fn about_queued(shares: &str, no_overlap: bool) -> String {
    if no_overlap {
        return format!("Requests that waited for a free connection: {shares}.");
    }
    format!(
        "Requests sent while an earlier one of their connection was unanswered: {shares}. If the server handles one request of a \
         connection at a time, they waited for it; with --no-overlap they go to free connections."
    )
}

/// Formats the counts of lost, duplicate and reordered datagrams in a line.
pub fn datagrams(report: &DatagramResult, planned: u64) -> String {
    let dropped = match report.dropped {
        Some(dropped @ 1..) => format!(" ({dropped} dropped by the client's own sockets in the whole trial)"),
        _ => String::new(),
    };
    let DatagramResult { ports, lost, duplicates, reordered, .. } = report;
    format!("{ports} ports; {lost} of {planned} lost{dropped}, {duplicates} duplicates, {reordered} reordered")
}

/// Formats the requests that were answered in time, and the retries, in a line.
pub fn goodput(goodput: &GoodputResult, report: &LoadResult) -> String {
    let GoodputResult { timeout_ns, timeouts, retries, .. } = goodput;
    format!(
        "{} of {} requests answered within {}; in the whole trial, {timeouts} attempts timed out, and {retries} were retries",
        report.completed,
        report.planned,
        format::time(*timeout_ns as f64)
    )
}

/// Formats the bandwidth and the fairness of streams in a line.
pub fn stream(stream: &StreamResult, closed: &ClosedResult, report: &LoadResult) -> String {
    let StreamResult { bytes, fairness, connection_bytes_min, connection_bytes_max, .. } = stream;
    let per_s = |bytes: u64| format::bandwidth(bytes as f64 / (report.window_ns as f64 / 1e9));
    let bandwidth = format::bandwidth(stream.bytes_per_s(report.window_ns));
    format!(
        "{bytes} bytes in {}, {bandwidth}, {} whole bursts; {} to {} per connection, fairness {fairness:.3}; {}, \
         {:.0} % of the client's CPUs in use",
        format::time(report.window_ns as f64),
        report.completed,
        per_s(*connection_bytes_min),
        per_s(*connection_bytes_max),
        errors(report),
        100.0 * closed.busy_share
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_requests_of_the_whole_trial() {
        let mut report = LoadResult { trial_requests: 1_500, ..testkit::load_result() };
        assert_eq!(errors(&report), "0 errors");
        report.errors.wrong = 1_200;
        assert_eq!(errors(&report), "1200 errors among the 1500 requests of the whole trial");
        report.stream = Some(load::result::StreamResult::default());
        assert_eq!(errors(&report), "1200 errors in the whole trial");
    }
}
