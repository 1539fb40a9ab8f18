//! The balance of connections and CPU time over network threads as a table.

use super::medium::Medium;
use super::table::of_parts;
use crate::format;
use crate::model::balance::{Balance, Spread};
use crate::model::summary::Row;

/// The columns after the architecture: the heading and the cell.
const COLUMNS: &[(&str, fn(&Balance) -> Option<String>)] = &[
    ("threads", |it| Some(it.threads.to_string())),
    ("connections", |it| Some(spread(it.connections, format::digits))),
    ("new ones", |it| Some(spread(it.new_connections, format::digits))),
    ("CPU", |it| it.cpu_share.map(|it| spread(it, |share| format!("{:.1} %", 100.0 * share)))),
    ("hung", |it| it.hung.map(|count| count.to_string())),
];

fn spread(Spread { mean, deviation }: Spread, shown: fn(f64) -> String) -> String {
    format!("{} ± {}", shown(mean), shown(deviation))
}

/// Renders the rows with several network threads; `None` without such rows.
pub(super) fn render(rows: &[Row], medium: Medium) -> Option<String> {
    let balances: Vec<(&Row, &Balance)> = rows.iter().filter_map(|row| Some((row, row.balance.as_ref()?))).collect();
    let has_hung = balances.iter().any(|(_, balance)| balance.hung.is_some());
    let columns = || COLUMNS.iter().filter(|(heading, _)| *heading != "hung" || has_hung);
    let cells = |(row, balance): &(&Row, &Balance)| {
        let cells = columns().map(|(_, cell)| cell(balance).unwrap_or_else(|| "-".into()));
        [row.label()].into_iter().chain(cells).collect()
    };
    let headings = ["architecture"].into_iter().chain(columns().map(|(heading, _)| *heading));
    let hung = if has_hung { " \"hung\" counts connections that waited for the end of a stall." } else { "" };
    let about = format!(
        "Balance of the network threads: mean and standard deviation over the threads. \"connections\" are open at the start of \
         the window, \"new ones\" begin in it.{hung}"
    );
    let table = of_parts(1, headings, balances.iter().map(cells), medium);
    (!balances.is_empty()).then(|| format!("{}\n{table}", medium.prose(&about)))
}

#[cfg(test)]
mod tests {
    use server::metrics::counters::ThreadFigures;

    use crate::model::Summary;
    use crate::text::cost;

    #[test]
    fn balance_of_network_threads_is_rendered() {
        let mut run = testkit::run();
        let text = |run: &harness::model::Run| cost::render(&Summary::of(run), 100.into());
        assert!(!text(&run).contains("Balance"), "no row has several network threads");
        for server in run.records.iter_mut().filter_map(|record| record.server.as_mut()) {
            let figures = |(connections, cpu_ns)| ThreadFigures { connections, assigned: 3, cpu_ns };
            server.network_threads = [(10, Some(500_000)), (30, Some(0))].map(figures).into();
        }
        let text_without_stalls = text(&run);
        let lines: Vec<&str> = text_without_stalls.lines().skip_while(|line| !line.contains("Balance")).collect();
        assert!(lines.iter().any(|line| line.contains("20.0 ± 10.0") && line.contains("3.00 ± 0")), "{lines:#?}");
        assert!(!lines.join("\n").contains("hung"), "{lines:#?}");
        run.records.iter_mut().filter_map(|record| record.server.as_mut()).for_each(|it| it.totals.hung = Some(21));
        assert!(text(&run).contains("hung"));
    }
}
