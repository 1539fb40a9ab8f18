//! The balance of connections and CPU time over network threads as a table.

use super::medium::Medium;
use super::table;
use crate::analysis::balance::{Balance, Spread};
use crate::analysis::summary::Row;
use crate::format;

/// The columns after the architecture.
const COLUMNS: &[(&str, fn(&Balance) -> Option<String>)] = &[
    ("threads", |it| Some(it.threads.to_string())),
    ("connections", |it| Some(spread(it.connections, format::digits))),
    ("new ones", |it| Some(spread(it.new_connections, format::digits))),
    ("CPU", |it| it.cpu_share.map(|it| spread(it, |share| format!("{:.1} %", 100.0 * share)))),
    ("hung", |it| it.hung.map(|count| count.to_string())),
    ("steering", |it| it.steering_share.map(|share| format!("{} %", format::digits(100.0 * share)))),
];

/// The meaning of the columns.
const ABOUT: &str = "Balance of the network threads: mean and standard deviation over the threads. \"connections\" are open at the \
                     start of the window, and \"new ones\" begin in it. \"hung\" ones waited for the end of a stall. \"steering\" is \
                     the share of the server's CPU time that the choice of threads takes.";

fn spread(Spread { mean, deviation }: Spread, shown: fn(f64) -> String) -> String {
    format!("{} ± {}", shown(mean), shown(deviation))
}

/// Renders the rows with several network threads; `None` without such rows.
pub(super) fn render(rows: &[Row], medium: Medium) -> Option<String> {
    let balances: Vec<(&str, &Balance)> =
        rows.iter().filter_map(|row| Some((row.label.as_str(), row.balance.as_ref()?))).collect();
    let table = || table::of_known(&balances, COLUMNS, medium);
    (!balances.is_empty()).then(|| format!("{}\n{}", medium.prose(ABOUT), table()))
}

#[cfg(test)]
mod tests {
    use server::metrics::counters::ThreadFigures;

    use crate::analysis::Summary;
    use crate::text::cost;

    #[test]
    fn balance_of_network_threads_is_rendered() {
        let mut run = testkit::run();
        let text = |run: &harness::record::Run| cost::render(&Summary::of(run), 100.into());
        assert!(!text(&run).contains("Balance"), "no row has several network threads");
        for server in run.records.iter_mut().filter_map(|record| record.server.as_mut()) {
            let figures = |(connections, cpu_ns)| ThreadFigures { connections, assigned: 3, cpu_ns };
            server.network_threads = [(10, Some(500_000)), (30, Some(0))].map(figures).into();
        }
        let text_without_stalls = text(&run);
        let lines: Vec<&str> = text_without_stalls.lines().skip_while(|line| !line.contains("Balance")).collect();
        assert!(lines.iter().any(|line| line.contains("20.0 ± 10.0") && line.contains("3.00 ± 0")), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains(" hung ")), "{lines:#?}");
        for server in run.records.iter_mut().filter_map(|record| record.server.as_mut()) {
            (server.totals.hung, server.totals.steering_program_ns) = (Some(21), Some(24_000));
        }
        let all = text(&run);
        assert!(
            all.contains("hung") && all.contains("84") && all.contains("steering") && all.contains("1.00 %"),
            "{all}"
        );
    }
}
