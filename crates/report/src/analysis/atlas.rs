//! A decision map: the answers of races under many kinds of traffic, on one or several hosts.

use std::cmp::Reverse;

use harness::record::{Run, Workload};
use schemars::JsonSchema;
use serde::Serialize;
use stats::Ratio;

use super::FORMAT;
use super::advice::{AdviceReport, AdviceRow, probability};
use super::dimension::Dimension;
use super::hosts::{self, Facts, NamedHost};
use super::workload::{self, is_same_traffic, title};
use crate::format;
use crate::list::{distinct, grouped};

/// The dimensions that can be the rows and the columns of a panel. Earlier ones are preferred.
const DIMENSIONS: [Dimension; 6] = [
    Dimension::Connections,
    Dimension::Rate,
    Dimension::Ports,
    Dimension::Response,
    Dimension::Active,
    Dimension::Idle,
];

/// Collects races.
#[derive(Debug, Default)]
pub struct AtlasBuilder {
    hosts: Vec<Facts>,
    cells: Vec<Cell>,
}

/// The answers of many races.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Atlas {
    /// [`FORMAT`].
    pub(crate) format: u32,
    pub(crate) sentence: String,
    /// The hosts in the order in which their races were added; the first host is `A`.
    pub(crate) hosts: Vec<NamedHost>,
    /// A map for each objective.
    pub(crate) maps: Vec<Map>,
}

/// The answers for one objective.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Map {
    /// The figures to optimise and the limits, in words.
    pub(crate) objective: String,
    /// The parts of the traffic that all cells share.
    pub(crate) common: String,
    pub(crate) panels: Vec<Panel>,
}

/// Cells whose traffic differs in at most two dimensions.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Panel {
    /// The traffic, apart from the common parts and both dimensions.
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<PanelRow>,
}

/// A row of a panel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PanelRow {
    pub(crate) name: String,
    /// For each column the cells of the hosts.
    pub(crate) cells: Vec<Vec<Cell>>,
}

/// The answer of a race on one host.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Cell {
    /// The run's folder, as the user wrote it.
    pub(crate) folder: String,
    /// Index into [`Atlas::hosts`].
    pub(crate) host: usize,
    pub(crate) workload: Workload,
    pub(crate) answer: Answer,
    pub(crate) race: AdviceReport,
}

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// One architecture is the best.
    Winner,
    /// Several architectures are not known to differ.
    Tie,
    /// No contestant is usable, or the race has not ended.
    None,
}

impl AtlasBuilder {
    /// Adds a race. Returns whether the run is one.
    pub fn add(&mut self, folder: &str, run: &Run) -> bool {
        let (Some(race), Some(trial)) = (AdviceReport::of(run), run.header.trials.first()) else { return false };
        let answer = match &race.winner {
            Some(_) if !race.is_ended => Answer::None,
            Some(_) if race.tied.is_empty() => Answer::Winner,
            Some(_) => Answer::Tie,
            None => Answer::None,
        };
        let host = hosts::place(&mut self.hosts, &run.header.host);
        let workload = trial.workload.clone();
        self.cells.push(Cell { folder: folder.to_owned(), host, workload, answer, race });
        true
    }

    /// Returns the map of all added races. Of several races with one traffic and objective on one host, an answer counts before none,
    /// and the newest answer before older ones.
    pub fn finish(mut self) -> Atlas {
        self.cells.sort_by_key(|it| Reverse((it.answer != Answer::None, it.race.started_at.clone())));
        let is_again = |a: &Cell, b: &Cell| {
            a.host == b.host && is_same_traffic(&a.workload, &b.workload) && a.objective() == b.objective()
        };
        let newest = grouped(self.cells, is_again).into_iter().filter_map(|same| same.into_iter().next());
        let mut cells: Vec<Cell> = newest.collect();
        cells.sort_by(|a, b| {
            let by_traffic = workload::order(&a.workload, &b.workload);
            by_traffic.then_with(|| title(&a.workload).cmp(&title(&b.workload))).then(a.host.cmp(&b.host))
        });
        let sentence = sentence(&cells, self.hosts.len());
        let maps = grouped(cells, |a, b| a.objective() == b.objective()).into_iter().map(map).collect();
        Atlas { format: FORMAT, sentence, hosts: hosts::named(self.hosts), maps }
    }
}

/// Returns how many races have an answer, and where hosts disagree.
fn sentence(cells: &[Cell], hosts: usize) -> String {
    let count = |answer| cells.iter().filter(|it| it.answer == answer).count();
    let parts = [
        (Answer::Winner, "has one winner", "have one winner"),
        (Answer::Tie, "is a tie", "are ties"),
        (Answer::None, "has no answer", "have no answer"),
    ];
    let parts = parts.map(|(answer, one, many)| (count(answer), one, many)).into_iter().filter(|it| it.0 > 0);
    let parts: Vec<String> = parts.map(|(count, one, many)| format::counted(count, one, many)).collect();
    let (races, hosts_words) = (format::counted(cells.len(), "race", "races"), format::counted(hosts, "host", "hosts"));
    let sentence = format!("{races} on {hosts_words}: {}.", format::listed(&parts));
    let answered = cells.iter().filter(|it| it.answer != Answer::None);
    let shared: Vec<Vec<&Cell>> =
        grouped(answered, |a, b| is_same_traffic(&a.workload, &b.workload) && a.objective() == b.objective())
            .into_iter()
            .filter(|same| same.len() > 1)
            .collect();
    if shared.is_empty() {
        return sentence;
    }
    let differ = shared.iter().filter(|same| !has_common(same)).count();
    let traffic = format::counted(shared.len(), "kind of traffic", "kinds of traffic");
    format!(
        "{sentence} Several hosts have answers under {traffic}; under {differ} of them the answers have no server in common."
    )
}

/// Tests whether a server is among the best in all cells.
fn has_common(cells: &[&Cell]) -> bool {
    cells[0].best().iter().any(|name| cells.iter().all(|cell| cell.best().contains(name)))
}

fn map(cells: Vec<Cell>) -> Map {
    let titles: Vec<String> = cells.iter().map(|cell| title(&cell.workload)).collect();
    let is_common = |words: &&str| titles.iter().all(|title| title.split(", ").any(|it| it == *words));
    let mut dimensions = DIMENSIONS;
    dimensions.sort_by_key(|dimension| Reverse(distinct(cells.iter().map(|it| dimension.words(&it.workload))).len()));
    let [row, column, ..] = dimensions;
    let is_stated = |words: &&str| row.is_stated_by(words) || column.is_stated_by(words);
    let common: Vec<String> =
        titles[0].split(", ").filter(|it| !is_stated(it) && is_common(it)).map(str::to_owned).collect();
    let is_alike = |a: &Workload, b: &Workload| {
        let rest = |it: &Workload| row.apart_from(&column.apart_from(it));
        is_same_traffic(&rest(a), &rest(b))
    };
    let objective = cells[0].objective();
    let groups = grouped(cells, |a, b| is_alike(&a.workload, &b.workload));
    let panels = groups.into_iter().map(|cells| panel(cells, [row, column], &common)).collect();
    Map { objective, common: common.join(", "), panels }
}

fn panel(cells: Vec<Cell>, [row, column]: [Dimension; 2], common: &[String]) -> Panel {
    let positions = |dimension: Dimension| {
        let mut positions: Vec<(f64, String)> =
            distinct(cells.iter().map(|it| (dimension.at(&it.workload), dimension.words(&it.workload))));
        positions.sort_by(|a, b| a.0.total_cmp(&b.0));
        positions.into_iter().map(|(_, words)| words).collect::<Vec<String>>()
    };
    let (rows, columns) = (positions(row), positions(column));
    let title = title(&cells[0].workload);
    let is_apart = |words: &&str| {
        !row.is_stated_by(words) && !column.is_stated_by(words) && !common.iter().any(|common| common == words)
    };
    let title = title.split(", ").filter(is_apart).collect::<Vec<_>>().join(", ");
    let at = |dimension: Dimension, cell: &Cell, words: &str| dimension.words(&cell.workload) == words;
    let of = |name: &str, other: &str| {
        cells.iter().filter(|it| at(row, it, name) && at(column, it, other)).cloned().collect::<Vec<Cell>>()
    };
    let rows = rows
        .into_iter()
        .map(|name| PanelRow { cells: columns.iter().map(|other| of(&name, other)).collect(), name })
        .collect();
    Panel { title, columns, rows }
}

impl Atlas {
    /// Returns a line for each host.
    pub(crate) fn about_hosts(&self) -> Vec<String> {
        hosts::about(&self.hosts)
    }

    /// Returns all cells.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.maps.iter().flat_map(|map| &map.panels).flat_map(Panel::cells)
    }

    /// Returns the servers that are among the best somewhere.
    pub(crate) fn best(&self) -> Vec<String> {
        let mut best = distinct(self.cells().flat_map(Cell::best));
        best.sort();
        best
    }

    /// Returns whether any race has an answer.
    pub fn has_answer(&self) -> bool {
        self.cells().any(|cell| cell.answer != Answer::None)
    }
}

impl Panel {
    /// Returns the cells by rows.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.rows.iter().flat_map(|row| row.cells.iter().flatten())
    }
}

impl Cell {
    fn objective(&self) -> String {
        let limits: String = self.race.limits.iter().map(|limit| format!(", with {limit}")).collect();
        self.race.objective.clone() + &limits
    }

    /// Returns the traffic in words.
    pub(crate) fn title(&self) -> String {
        title(&self.workload)
    }

    /// Returns the winner, or the servers of a tie with its winner first.
    pub(crate) fn best(&self) -> Vec<String> {
        let winner = self.race.winner.iter().filter(|_| self.answer != Answer::None);
        let others =
            self.race.tied.iter().filter(|it| self.answer == Answer::Tie && Some(*it) != self.race.winner.as_ref());
        winner.chain(others).cloned().collect()
    }

    /// Returns the answer in words, with at most three servers of a tie.
    pub(crate) fn words(&self) -> String {
        let best = self.best();
        let (shown, others) = best.split_at(best.len().min(3));
        let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
        match self.answer {
            Answer::Winner => best.concat(),
            Answer::Tie => format!("tie: {}{more}", shown.join(", ")),
            Answer::None => "none".to_owned(),
        }
    }

    /// Returns why there is no answer; `None` if there is one.
    pub(crate) fn reason(&self) -> Option<String> {
        let AdviceReport { problems, contestants, is_ended, .. } = &self.race;
        let has_begun = contestants.iter().any(|it| it.repeats > 0);
        (self.answer == Answer::None).then(|| match problems.first() {
            _ if has_begun && !is_ended => "the race has not ended".to_owned(),
            Some(problem) => problem.clone(),
            None => "not measured".to_owned(),
        })
    }

    /// Returns by how much a single winner leads.
    pub(crate) fn lead(&self) -> Option<(&str, Ratio)> {
        let lead = self.race.lead.filter(|_| self.answer == Answer::Winner)?;
        Some((self.race.runner_up.as_deref()?, lead))
    }

    /// Returns the ratio of the next best server to a single winner in words.
    pub(crate) fn lead_words(&self) -> String {
        self.lead().map_or_else(|| "-".to_owned(), |(other, ratio)| format!("{other} {}", format::ratio(Some(ratio))))
    }

    /// Returns the probability that the winner is the best, in words.
    pub(crate) fn probability(&self) -> String {
        let known = self.race.probability.filter(|_| self.answer != Answer::None);
        known.map_or_else(|| "-".to_owned(), probability)
    }

    /// Returns the figures of the winner.
    pub(crate) fn winner(&self) -> Option<&AdviceRow> {
        self.race.contestants.first().filter(|_| self.answer != Answer::None)
    }
}

/// Returns a map of two hosts with a winner, a tie and a race without an answer.
#[cfg(test)]
pub(crate) fn made_up() -> Atlas {
    let mut builder = AtlasBuilder::default();
    for (kernel, connections, percent) in [("6.1.0", 40, 30), ("6.1.0", 400, 0), ("5.4.0", 40, 20), ("5.4.0", 400, 30)]
    {
        let mut run = testkit::race_run(percent, |it| it.connections = connections);
        let facts = [("system", "Linux"), ("kernel", kernel), ("cpu", "made up")];
        run.header.host = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        if (kernel, connections) == ("5.4.0", 400) {
            run.records.clear();
        }
        builder.add(&format!("{kernel}/{connections}"), &run);
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A race of five servers, each slower than the last by `percent`.
    fn race(percent: u64, connections: u32, rate_per_s: f64) -> Run {
        testkit::race_run(percent, |it| {
            it.connections = connections;
            it.set_rate(Some(rate_per_s));
        })
    }

    fn answers(atlas: &Atlas) -> Vec<String> {
        atlas.cells().map(|cell| format!("{} {}", cell.title(), cell.words())).collect()
    }

    #[test]
    fn panel_has_a_row_and_a_column_for_each_value() {
        let mut builder = AtlasBuilder::default();
        for (connections, rate_per_s) in [(40, 200.0), (400, 100.0), (40, 100.0)] {
            assert!(builder.add("here", &race(30, connections, rate_per_s)));
        }
        assert!(!builder.add("other", &testkit::run()), "a comparison is no race");
        let atlas = builder.finish();
        let [map] = &atlas.maps[..] else { panic!("{:?}", atlas.maps) };
        let [panel] = &map.panels[..] else { panic!("{:?}", map.panels) };
        assert_eq!((map.common.as_str(), panel.title.as_str()), ("128B -> 10KiB", ""));
        assert_eq!(panel.columns, ["100 requests/s", "200 requests/s"]);
        let counts = |row: &PanelRow| (row.name.clone(), row.cells.iter().map(Vec::len).collect::<Vec<_>>());
        let rows: Vec<_> = panel.rows.iter().map(counts).collect();
        assert_eq!(rows, [("40 connections".into(), vec![1, 1]), ("400 connections".into(), vec![1, 0])]);
        assert_eq!(atlas.sentence, "3 races on 1 host: 3 have one winner.");
        assert!(answers(&atlas).iter().all(|it| it.ends_with(" mt")), "{:?}", answers(&atlas));
    }

    #[test]
    fn ties_and_missing_answers_are_named() {
        let mut stopped = race(30, 40, 100.0);
        stopped.records.truncate(4);
        let mut empty = race(30, 400, 100.0);
        empty.records.clear();
        let mut builder = AtlasBuilder::default();
        for run in [race(0, 40, 200.0), stopped, empty] {
            builder.add("here", &run);
        }
        let atlas = builder.finish();
        assert_eq!(atlas.sentence, "3 races on 1 host: 1 is a tie and 2 have no answer.");
        let cells: Vec<&Cell> = atlas.cells().collect();
        assert!(cells[1].words().starts_with("tie: ") && cells[1].best().len() > 1, "{}", cells[1].words());
        assert_eq!((cells[1].lead(), cells[0].winner().is_none()), (None, true));
        assert_eq!(
            cells.iter().filter_map(|it| it.reason()).collect::<Vec<_>>(),
            ["the race has not ended", "not measured"]
        );
    }

    #[test]
    fn merged_hosts_share_a_cell_and_their_disagreement_is_counted() {
        let other = |mut run: Run| {
            run.header.host.insert("kernel".into(), "5.4.0".into());
            run
        };
        let mut builder = AtlasBuilder::default();
        builder.add("a/1", &race(30, 40, 200.0));
        builder.add("a/2", &race(30, 400, 200.0));
        builder.add("b/1", &other(race(30, 40, 200.0)));
        // The servers change their names, so that another one is the fastest.
        let renamed = testkit::race_of(&["select", "poll", "epoll", "symped", "mt"], 30, |it| it.set_rate(Some(200.0)));
        builder.add("b/2", &other(renamed));
        let atlas = builder.finish();
        let row = |at: usize| &atlas.maps[0].panels[0].rows[at].cells[0];
        assert_eq!((row(0).len(), row(1).len(), atlas.hosts.len()), (2, 2, 2));
        assert_eq!((row(1)[0].words(), row(1)[1].words()), ("mt".into(), "select".into()));
        assert!(
            atlas.sentence.ends_with("2 kinds of traffic; under 1 of them the answers have no server in common."),
            "{}",
            atlas.sentence
        );
        assert!(atlas.about_hosts()[1].contains("Linux 5.4.0"), "{:?}", atlas.about_hosts());
    }

    #[test]
    fn newest_answer_of_one_traffic_counts() {
        let at = |day: u32, mut run: Run| {
            run.header.started_at = format!("2026-01-0{day}T00:00:00Z");
            run
        };
        let mut empty = at(3, race(30, 40, 200.0));
        empty.records.clear();
        let mut builder = AtlasBuilder::default();
        for (folder, run) in [("old", at(1, race(30, 40, 200.0))), ("new", at(2, race(0, 40, 200.0))), ("empty", empty)]
        {
            builder.add(folder, &run);
        }
        let folders: Vec<String> = builder.finish().cells().map(|cell| cell.folder.clone()).collect();
        assert_eq!(folders, ["new"]);
    }

    #[test]
    fn objectives_have_their_own_maps() {
        let mut other = race(30, 40, 200.0);
        if let harness::record::Strategy::Advise(goal) = &mut other.header.strategy {
            goal.limits.clear();
        }
        let mut builder = AtlasBuilder::default();
        builder.add("a", &race(30, 40, 200.0));
        builder.add("b", &other);
        let objectives: Vec<String> = builder.finish().maps.into_iter().map(|map| map.objective).collect();
        assert_eq!(objectives, ["p50, with p99 at most 5.00 ms", "p50"]);
    }
}
