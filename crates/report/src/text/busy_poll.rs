//! The price of busy polling: the CPU time of a request for the part of the p99 that it saves.

use server::Options;

use crate::analysis::summary::Row;
use crate::format;

/// Compares a row with busy polling with the row that differs only in that; `None` without such rows or their figures.
pub(super) fn price(row: &Row, rows: &[Row]) -> Option<String> {
    let options = row.options.filter(|it| it.busy_poll.is_some() && !row.is_placebo)?;
    let without = Some(Options { busy_poll: None, ..options });
    let plain =
        rows.iter().find(|it| it.architecture == row.architecture && it.options == without && !it.is_placebo)?;
    let p99_ns = |row: &Row| Some(row.service.as_ref()?.p99_ns as f64);
    let cpu_ns = |row: &Row| Some(row.breakdown.as_ref()?.cpu_ns());
    let (saved_ns, paid_ns) = (p99_ns(plain)? - p99_ns(row)?, cpu_ns(row)? - cpu_ns(plain)?);
    let (label, plain_label) = (&row.label, &plain.label);
    if row.is_client_tail(0.99) || plain.is_client_tail(0.99) {
        return Some(format!("{label} has no price against {plain_label}: the client may have caused the p99."));
    }
    let paid = match paid_ns > 0.0 {
        true => format!("takes {} more CPU time for each request", format::time(paid_ns)),
        false => format!("takes {} less CPU time for each request", format::time(-paid_ns)),
    };
    Some(if saved_ns <= 0.0 {
        format!("{label} saves nothing of the p99 of {plain_label}, and {paid}.")
    } else if paid_ns <= 0.0 {
        format!("{label} saves {} of the p99 of {plain_label}, and {paid}.", format::time(saved_ns))
    } else {
        let price = format::digits(paid_ns / saved_ns);
        let saved = format::time(saved_ns);
        format!("{label} saves {saved} of the p99 of {plain_label}, and {paid}: {price} µs for each saved µs.")
    })
}

#[cfg(test)]
mod tests {
    use harness::spec::ServerSpec;
    use server::BusyPoll;

    use crate::analysis::Summary;
    use crate::text::cost;

    #[test]
    fn price_of_busy_polling_is_cpu_time_for_each_saved_us() {
        let mut run = testkit::run();
        assert!(!cost::render(&Summary::of(&run), 160.into()).contains("of the p99"));
        let poll = BusyPoll { time_us: 50, budget: BusyPoll::BUDGET, is_preferred: false, suspend_ns: None };
        // The fast `epoll` of the made-up run polls, and the slow `poll` becomes an `epoll` that does not.
        let trials = run.header.trials.iter_mut().chain(run.records.iter_mut().map(|record| &mut record.trial));
        for trial in trials {
            let ServerSpec::Ours(serve) = &mut trial.serve else { continue };
            match serve.architecture.to_string().as_str() {
                "epoll" => serve.busy_poll = Some(poll),
                "poll" => {
                    serve.architecture = "epoll".parse().unwrap();
                    trial.architecture = serve.architecture.into();
                }
                _ => {}
            }
        }
        for record in &mut run.records {
            if record.trial.serve.ours().is_some_and(|serve| serve.busy_poll.is_some()) {
                record.server.as_mut().unwrap().totals.cpu_user_ns += 4_000_000;
            }
        }
        let text = cost::render(&Summary::of(&run), 160.into());
        let line =
            text.lines().find(|line| line.starts_with("epoll (polls 50us) saves")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("of the p99 of epoll, and takes ") && line.contains("more CPU time"), "{line}");
    }
}
