//! Made-up runs with exactly the published values. Every figure and table shows them in their places, and every claim holds. Runs
//! that miss a claim by slightly more than its tolerance refute it, and noise across its threshold leaves it open.

mod values;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use harness::record::{Run, Trial, VerdictKind};
use harness::spec::tls::Tls;
use load::config::{Loop, Pace, RateProfile, Requests, Think, Trace};
use server::Accept;
use server::registry::MechanismRow;
use stats::Histogram;
use testkit::Values;

use super::*;
use crate::claims::{CheckedClaim, Outcome};
use crate::tests::{OfPapers, once, trials_mut};
use report::analysis::deviation::{self, SendsOf};

/// A factor on the values of a trial.
type Factor<'a> = &'a dyn Fn(&Trial) -> f64;

/// The runs of a paper with its published values.
#[derive(Clone)]
struct Published {
    paper: &'static Paper,
    runs: Vec<Run>,
}

impl Published {
    /// Returns a copy of the runs, which are made once for all tests.
    fn of(name: &str) -> Self {
        static MADE: OfPapers<Published> = [const { OnceLock::new() }; PAPERS.len()];
        let paper = find(name).unwrap();
        let run = |name: &&str| testkit::run_of_values(name, |trial| values::of(paper.name, trial));
        let made = once(&MADE, paper, || Self { paper, runs: paper.experiments.iter().map(run).collect() });
        made.clone()
    }

    /// Checks a claim, by its number.
    fn check(&self, claim: usize, factor: Factor<'_>) -> CheckedClaim {
        let mut sends: Vec<_> = self.runs.iter().map(|run| sends_of(run, factor)).collect();
        let mut kept: Vec<_> = sends.iter_mut().map(|sends_of| deviation::kept(sends_of)).collect();
        let mut deviation_of: Vec<&mut DeviationOf<'_>> = kept.iter_mut().map(|it| it as _).collect();
        claims::check(&self.paper.claims[claim - 1..claim], &self.runs, &mut deviation_of).remove(0)
    }

    /// Replaces the values of some trials by the published ones times a factor.
    fn scale(&mut self, of: fn(&Trial) -> bool, factor: Factor<'_>) {
        for record in self.runs.iter_mut().flat_map(|run| &mut run.records).filter(|record| of(&record.trial)) {
            let (mut values, factor) = (values::of(self.paper.name, &record.trial).unwrap(), factor(&record.trial));
            values.rate_per_s *= factor;
            values.service = scaled(&values.service, factor);
            values.send_delay = scaled(&values.send_delay, factor);
            values.threads = values.threads.map(|threads| threads.times(factor));
            *record = testkit::record_of(&record.trial, values);
        }
    }

    /// Multiplies the CPU time of the servers in some trials of streams.
    fn scale_cpu(&mut self, of: fn(&Trial) -> bool, factor: f64) {
        for record in self.runs.iter_mut().flat_map(|run| &mut run.records).filter(|record| of(&record.trial)) {
            let cpu_ns = &mut record.server.as_mut().unwrap().totals.cpu_system_ns;
            *cpu_ns = (*cpu_ns as f64 * factor) as u64;
        }
    }

    /// Replaces epoll by another system's event queue, whose names do not parse here.
    fn rename_queue(&mut self, queue: &str) {
        for trial in self.runs.iter_mut().flat_map(trials_mut) {
            let Some(mut architecture) = trial.architecture.ours() else { continue };
            let Some(row) = architecture.mechanism else { continue };
            let name = row.name.replace("epoll", queue).leak();
            architecture.mechanism = Some(Box::leak(Box::new(MechanismRow { name, ..*row })));
            trial.architecture = architecture.into();
        }
    }
}

/// Returns the comparison of a whole paper with its published values, which all tests share.
fn whole(name: &str) -> &'static PaperComparison {
    static MADE: OfPapers<PaperComparison> = [const { OnceLock::new() }; PAPERS.len()];
    let make = || {
        let Published { paper, runs } = Published::of(name);
        let mut sends: Vec<_> = runs.iter().map(|run| sends_of(run, &|_| 1.0)).collect();
        let mut sends_of: Vec<&mut SendsOf<'_>> = sends.iter_mut().map(|sends_of| sends_of as _).collect();
        PaperComparison::of(paper, Part::Whole, &runs, &mut sends_of).unwrap()
    };
    once(&MADE, find(name).unwrap(), make)
}

fn sends_of<'a>(run: &'a Run, factor: Factor<'a>) -> impl FnMut(u32) -> anyhow::Result<Vec<Vec<i64>>> + 'a {
    move |index| {
        let trial = run.header.trials.iter().find(|trial| trial.index == index).unwrap();
        Ok(values::kawai2006_sends(trial, factor(trial)))
    }
}

fn scaled(histogram: &Histogram, factor: f64) -> Histogram {
    let counts = histogram.cumulative().scan(0, |before, (ns, so_far)| {
        let count = so_far - *before;
        *before = so_far;
        Some((ns, count))
    });
    counts.flat_map(|(ns, count)| std::iter::repeat_n((ns as f64 * factor).round() as u64, count as usize)).collect()
}

/// Asserts that `here` is `expected`, to the precision of histograms.
fn assert_near(here: f64, expected: f64, place: &str) {
    assert!((here - expected).abs() <= expected.abs() * 2e-3, "{place}: {here}, published {expected}");
}

/// A point: the figure, the title of its panel, the series, x and y.
type Shown = (String, String, String, f64, f64);

/// Returns our points of all figures.
fn points(all: &PaperComparison) -> Vec<Shown> {
    let csv = crate::grid::points_csv(&all.series, &all.figures);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let rows = reader.deserialize::<BTreeMap<String, String>>().map(Result::unwrap);
    let ours = rows.filter(|row| row["whose"] == "here");
    let number = |text: &String| text.parse().unwrap();
    let point = |row: BTreeMap<String, String>| {
        let (x, y) = (row["x"].parse().unwrap_or(f64::NAN), number(&row["y"]));
        (row["figure"].clone(), row["panel"].clone(), row["series"].clone(), x, y)
    };
    ours.map(point).collect()
}

#[test]
fn every_claim_holds_on_published_values() {
    let mut claims = 0;
    for paper in PAPERS {
        let all = whole(paper.name);
        assert!(all.missing.is_empty(), "{}: {:?}", paper.name, all.missing);
        for claim in &all.claims {
            assert_eq!(claim.outcome, Outcome::HoldsHere, "{} {claim:#?}", paper.name);
        }
        claims += all.claims.len();
    }
    assert_eq!(claims, 33);
}

#[test]
fn findings_of_equal_workloads_name_their_experiments() {
    let all = whole("welsh2001");
    let texts: Vec<&str> = all.claims[0].findings.iter().map(|finding| finding.what.as_str()).collect();
    for name in ["welsh2001-connections", "welsh2001-10k"] {
        let is_affected = |what: &&&str| what.starts_with("epoll, 1000 ") && what.ends_with(&format!(", in {name}"));
        assert_eq!(texts.iter().filter(is_affected).count(), 2, "one for each metric: {texts:?}");
    }
    assert!(
        texts.iter().any(|what| what.starts_with("epoll-buffered, 10000 ") && !what.contains(", in ")),
        "{texts:?}"
    );
}

#[test]
fn figures_show_published_values_in_their_places() {
    let shown = points(whole("kawai2008"));
    let mut points_of = BTreeMap::<&str, usize>::new();
    for (figure, panel, series, x, y) in &shown {
        let rate_per_s = panel.split(' ').next().and_then(|rate| rate.parse().ok());
        let expected_us = match (figure.as_str(), rate_per_s) {
            ("6", Some(rate)) => values::kawai2008_service_us(series, 10_240, *x as u32, rate),
            ("8", Some(rate)) => values::kawai2008_service_us(series, 1, *x as u32, rate),
            ("10" | "11", _) => 10.0,
            ("A.1", _) => 500.0 + if series == "constant-together" { 164.0 } else { 0.0 },
            _ => panic!("{figure} {panel}"),
        };
        assert_near(*y, expected_us * 1e3, &format!("figure {figure}, {panel}, {series}, {x}"));
        *points_of.entry(figure).or_default() += 1;
    }
    assert_eq!(points_of, [("6", 45), ("8", 60), ("10", 45), ("11", 60), ("A.1", 12)].into());
    let ends = |figure: &str| {
        let of_select = |it: &&Shown| it.0 == figure && it.2 == "select";
        let mut times: Vec<f64> = shown.iter().filter(of_select).map(|it| it.4).collect();
        times.sort_by(f64::total_cmp);
        [times[0], times[times.len() - 1]]
    };
    for (figure, printed_ns) in [("6", [900e3, 20e6]), ("8", [500e3, 20e6])] {
        ends(figure).into_iter().zip(printed_ns).for_each(|(here, printed)| assert_near(here, printed, figure));
    }

    let shown = points(whole("maharjan2012"));
    let example: BTreeMap<u32, f64> =
        maharjan2012::autobench().iter().map(|row| (row["dem_req_rate"] as u32, row["avg_rep_rate"])).collect();
    let of_udp: Vec<_> = shown.iter().filter(|it| ["5.3", "5.4"].contains(&it.0.as_str())).collect();
    assert_eq!(of_udp.len(), 2 * 3 * 6);
    for (figure, _, series, x, y) in of_udp {
        assert_near(*y, values::maharjan2012_response_us(series, *x as u32) * 1e3, &format!("{figure} {series} {x}"));
    }
    let replies: Vec<_> = shown.iter().filter(|it| it.0 == "5.1").collect();
    assert_eq!(replies.len(), 3 * example.len());
    replies.iter().for_each(|it| assert_near(it.4, example[&(it.3 as u32)], &format!("{it:?}")));

    for (figure, _, series, x, y) in points(whole("voras2009")) {
        let models = [("sped", 110e3), ("seda", 110e3), ("amped", 230e3), ("seda-s", 290e3), ("symped", 450e3)];
        let expected = match (figure.as_str(), models.iter().find(|(name, _)| *name == series)) {
            ("6", _) => values::transactions_per_s(&format!("symped:{x}/epoll"), 40).unwrap(),
            ("7", Some((_, peak))) => {
                if x == 20.0 {
                    0.8 * peak
                } else {
                    *peak
                }
            }
            _ => values::transactions_per_s(&series, x as u32).unwrap(),
        };
        assert_near(y, expected, &format!("figure {figure}, {series}, {x}"));
    }

    let shown = points(whole("hermes2025"));
    let mut points_of = BTreeMap::<&str, usize>::new();
    for (figure, panel, series, x, y) in &shown {
        let printed = |printed: &[(&str, f64)]| printed.iter().find(|(name, _)| name == series).unwrap().1;
        let expected = match (figure.as_str(), panel.starts_with("case 1") && *x == 4_000.0) {
            ("1", _) => printed(&hermes2025::CONNECTIONS_IN_PRODUCTION),
            ("2", _) => printed(&hermes2025::CPU_IN_PRODUCTION),
            ("3", true) => printed(&hermes2025::MEAN_MS) * 1e6,
            ("5", _) => [0.001, 0.05][usize::from(series == "reuseport")],
            ("7", _) if series == "hermes" => hermes2025::OVERHEAD[usize::from(*x == 4_000.0)].1,
            _ => *y,
        };
        assert_near(*y, expected, &format!("figure {figure}, {panel}, {series}, {x}"));
        *points_of.entry(figure).or_default() += 1;
    }
    assert_eq!(points_of, [("1", 6), ("2", 6), ("3", 27), ("4", 27), ("5", 6), ("6", 18), ("7", 9)].into());

    let graphs = points(whole("welsh2001"));
    for (figure, _, series, x, y) in &graphs {
        let (connections, idle) = if figure == "3" { (1, *x as u32) } else { (*x as u32, 0) };
        let expected = values::megabits_per_s(series, connections, idle).unwrap();
        assert_near(*y, expected, &format!("graph {figure}, {series}, {x}"));
    }
    for printed in [(100.0, 161.0), (10_000.0, 101.0)] {
        let is_printed = |it: &&Shown| it.0 == "2" && it.2 == "epoll-buffered" && it.3 == printed.0;
        assert_near(graphs.iter().find(is_printed).unwrap().4, printed.1, "graph 2");
    }
    let last_of_mt = graphs.iter().filter(|it| it.0 == "1" && it.2 == "mt").map(|it| it.3).fold(0.0, f64::max);
    assert_eq!(last_of_mt, 400.0, "the threads stop");
}

#[test]
fn tables_show_published_values_in_their_places() {
    let all = whole("kawai2006");
    let mut compared = 0;
    for (number, grid) in all.grids() {
        for pair in grid.rows.windows(2).filter(|pair| pair[1].lead.last().is_some_and(|whose| whose == "paper")) {
            for (here, paper) in pair[0].cells.iter().zip(&pair[1].cells) {
                for (here, paper) in here.split('/').zip(paper.split('/')) {
                    let [here, paper]: [f64; 2] = [here, paper].map(|text| text.parse().expect(text));
                    assert!((here - paper).abs() <= paper.abs() * 5e-3, "Table {number}: {here}, published {paper}");
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 90 * 3 + 5 * 3);
    let (_, figure) = &all.figures[0];
    let grid = &grid::of(figure, &all.series)[0];
    let median = grid.rows.iter().position(|row| row.lead == ["50 %", "here"]).unwrap();
    assert_eq!(grid.rows[median].cells, grid.rows[median + 1].cells, "medians of Figure 2");

    let grids = whole("maharjan2012").grids();
    let [("4.9", grid)] = grids.as_slice() else { panic!("{grids:?}") };
    assert_eq!((grid.lead.len() - 1 + grid.columns.len(), grid.rows.len()), (10, 8 * 4));
    for rows in grid.rows.chunks(4) {
        assert_eq!(
            rows.iter().map(|row| row.lead[1].as_str()).collect::<Vec<_>>(),
            ["paper", "epoll", "poll", "select"]
        );
        for (at, column) in grid.columns.iter().enumerate() {
            // The paper's standard deviation is that of two to four samples, ours of the eighths of each window.
            let is_sampled = column == "stddev_rep_rate";
            let number = |row: usize| rows[row].cells[at].parse::<f64>().unwrap();
            (1..4).filter(|_| !is_sampled).for_each(|row| assert_near(number(row), number(0), column));
        }
    }
}

/// A claim, and a factor on the values of some trials that brings it to its threshold.
struct Threshold {
    paper: &'static str,
    claim: usize,
    factor: f64,
    of: fn(&Trial) -> bool,
}

impl Threshold {
    /// Returns the step below and above the threshold.
    fn step(&self) -> f64 {
        if self.factor > 1.0 { 1.03 } else { 1.0 / 1.03 }
    }
}

const fn threshold(paper: &'static str, claim: usize, factor: f64, of: fn(&Trial) -> bool) -> Threshold {
    Threshold { paper, claim, factor, of }
}

fn is(trial: &Trial, name: &str) -> bool {
    trial.architecture.to_string() == name
}

fn accepts(trial: &Trial, accept: Accept) -> bool {
    trial.serve.ours().is_some_and(|serve| serve.accept == accept)
}

/// The thresholds of all claims but those on verdicts, at the ends of dimensions and between them.
fn thresholds() -> Vec<Threshold> {
    let longest_scan = 0.9 * 25f64.powf(0.9) / 12.5;
    let rate_step = 4f64.powf((20.0 / 0.9 / 25f64.powf(0.9)).ln() / 16f64.ln());
    vec![
        threshold("kawai2008", 1, 1.5, |it| is(it, "epoll") && it.workload.connections == 10_000),
        threshold("kawai2008", 1, 1.5, |it| is(it, "mp") && it.workload.connections == 2_000),
        threshold("kawai2008", 1, 1.5, |it| is(it, "mt") && it.workload.rate_per_s() == Some(500.0)),
        threshold("kawai2008", 2, 25f64.powf(0.25), |it| is(it, "poll") && it.workload.connections == 10_000),
        threshold("kawai2008", 3, 1.0 / 1.1 / rate_step, |it| {
            is(it, "select") && it.workload.rate_per_s() == Some(2_000.0) && it.workload.service.fixed() != Some((1, 1))
        }),
        threshold("kawai2008", 4, 1.5, |it| is(it, "mt")),
        threshold("kawai2008", 5, 1.5 / longest_scan, |it| {
            is(it, "select") && it.workload.connections == 10_000 && it.workload.service.fixed() != Some((1, 1))
        }),
        threshold("kawai2008", 7, 1.25, |it| is(it, "epoll")),
        threshold("kawai2008", 8, 1.0 / 1.25, |it| it.workload.network.is_some()),
        threshold("kawai2006", 1, 1.5 * 0.557 / 0.572, |it| is(it, "epoll") && of_table_3(it, 10_000)),
        threshold("kawai2006", 1, 25f64.powf(1.25) * 1.13 / 20.3, |it| is(it, "select") && of_table_3(it, 10_000)),
        threshold("kawai2006", 1, 5f64.powf(0.75) * 1.13 / 5.05, |it| is(it, "select") && of_table_3(it, 2_000)),
        threshold("kawai2006", 2, 0.603 / 0.609 / 1.1, |it| {
            is(it, "epoll") && it.workload.active() == 1.0 && it.workload.rate_per_s() == Some(2_000.0)
        }),
        threshold("kawai2006", 3, 15.0 * 1.25 / 14.5, |it| is(it, "poll")),
        threshold("maharjan2012", 1, 1.0 / 1.25, |it| is(it, "select") && it.workload.rate_per_s() == Some(45_000.0)),
        threshold("maharjan2012", 1, 1.25, |it| is(it, "poll") && it.workload.is_closed() && it.workload.idle == 0),
        threshold("maharjan2012", 2, 0.5 / 0.4, |it| is(it, "poll") && it.workload.idle == 15_000),
        threshold("maharjan2012", 2, 1.1 * 0.96 / 0.92, |it| is(it, "select") && it.workload.idle == 2_000),
        threshold("maharjan2012", 2, 1.0 / 1.25, |it| is(it, "epoll") && it.workload.idle == 5_000),
        threshold("maharjan2012", 3, 900.0 / 1_800.0 / 1.1, |it| is(it, "select") && of_ports(it, 5_000)),
        threshold("maharjan2012", 3, 1.5, |it| is(it, "epoll") && of_ports(it, 1_000)),
        threshold("voras2009", 1, 1.05, |it| is(it, "seda:2+4/epoll")),
        threshold("voras2009", 1, 110.0 / 230.0 / voras2009::ROUNDED, |it| {
            it.architecture.to_string().starts_with("amped")
        }),
        threshold("voras2009", 1, 230.0 / 290.0 / voras2009::ROUNDED, |it| {
            it.architecture.to_string().starts_with("seda-s")
        }),
        threshold("voras2009", 1, 1.54 / 1.05 * 290.0 / 450.0, |it| it.architecture.to_string().starts_with("symped")),
        threshold("voras2009", 2, 1.0 / 1.1, |it| is(it, "symped:2/epoll")),
        threshold("voras2009", 2, 1.0 / 1.1, |it| is(it, "symped:4/epoll")),
        threshold("voras2009", 3, 215.0 / 230.0 / voras2009::ROUNDED, |it| is(it, "amped:1+2/epoll")),
        threshold("voras2009", 4, 270.0 / 290.0 / voras2009::ROUNDED, |it| is(it, "seda-s:3/epoll")),
        threshold("welsh2001", 1, 1.0 / 1.25, |it| is(it, "epoll") && it.workload.connections == 400),
        threshold("welsh2001", 1, 190.0 / 170.0, |it| is(it, "poll") && it.workload.connections == 1_000),
        threshold("welsh2001", 1, 1.0 / 1.25, |it| is(it, "epoll-buffered") && it.workload.connections == 10_000),
        threshold("welsh2001", 2, 180.0 / 210.0, |it| is(it, "mt")),
        threshold("welsh2001", 4, 5f64.powf(-0.25), |it| is(it, "poll") && it.workload.idle == 5_000),
        threshold("welsh2001", 4, 1.1 * 177.33 / 173.33, |it| is(it, "epoll") && it.workload.idle == 5_000),
        threshold("welsh2001", 4, 180.0 / 160.0, |it| is(it, "epoll") && it.workload.idle == 15_000),
        threshold("welsh2001", 4, 180.0 / 2.0 / 160.0, |it| is(it, "epoll") && it.workload.idle == 15_000),
        threshold("welsh2001", 5, 200.0 / 161.0, |it| is(it, "epoll-buffered")),
        threshold("welsh2001", 5, 190.0 / 120.0, |it| is(it, "poll-buffered")),
        threshold("welsh2001", 5, 210.0 / 140.0, |it| is(it, "mt-buffered")),
        threshold("welsh2001", 6, 1.0 / 1.25, |it| is(it, "poll-shuffled")),
        threshold("welsh2001", 7, 205.0 / 195.0, |it| is(it, "mt") && it.workload.connections == 400),
        threshold("hermes2025", 1, 10.0 * 20.0 / 3_200.0, |it| accepts(it, Accept::Exclusive)),
        threshold("hermes2025", 1, 1.25 * 50.0 / 20.0, |it| accepts(it, Accept::Hermes)),
        threshold("hermes2025", 2, 1.0 / 1.25, |it| accepts(it, Accept::Exclusive)),
        threshold("hermes2025", 2, 1.0 / 1.25, |it| accepts(it, Accept::Reuseport)),
        threshold("hermes2025", 3, 1.0 / 1.25, |it| accepts(it, Accept::Exclusive)),
        threshold("hermes2025", 3, 1.0 / 1.25, |it| accepts(it, Accept::Reuseport)),
        threshold("hermes2025", 4, 10.0 / 15.0, |it| accepts(it, Accept::Exclusive)),
        threshold("hermes2025", 4, 15.0 / 25.0, |it| accepts(it, Accept::Reuseport)),
        threshold("hermes2025", 5, 1.0 / 1.25, |it| accepts(it, Accept::Exclusive)),
        threshold("hermes2025", 5, 1.25 * 10.0 / 20.0, |it| accepts(it, Accept::Reuseport)),
        threshold("hermes2025", 6, 0.05 / 0.001 / hermes2025::AVOIDED, |it| accepts(it, Accept::Hermes)),
        threshold("hermes2025", 7, 0.05 / 0.001 / hermes2025::AVOIDED, |it| accepts(it, Accept::Exclusive)),
        threshold("hermes2025", 8, 1.25, |it| accepts(it, Accept::Hermes)),
    ]
}

fn of_table_3(trial: &Trial, connections: u32) -> bool {
    let workload = &trial.workload;
    (workload.connections, workload.active(), workload.rate_per_s()) == (connections, 1.0, Some(125.0))
}

fn of_ports(trial: &Trial, ports: u32) -> bool {
    trial.workload.service.ports() == Some(ports)
}

#[test]
fn claims_change_at_their_thresholds() {
    std::thread::scope(|scope| PAPERS.iter().for_each(|paper| drop(scope.spawn(|| check_thresholds(paper)))));
}

fn check_thresholds(paper: &Paper) {
    let of_paper = thresholds().into_iter().filter(|it| it.paper == paper.name);
    for (at, threshold) in of_paper.enumerate() {
        let (step, Threshold { claim, factor, of, .. }) = (threshold.step(), threshold);
        let mut made = Published::of(paper.name);
        let mut outcome = |expected: Outcome, factor: Factor<'_>| {
            made.scale(of, factor);
            let found = made.check(claim, &|trial| if of(trial) { factor(trial) } else { 1.0 });
            assert_eq!(found.outcome, expected, "{} {at}: {found:#?}", paper.name);
        };
        // `every_claim_holds_on_published_values` checks the values without a factor.
        outcome(Outcome::HoldsHere, &|_| factor / step);
        outcome(Outcome::DoesNotHoldHere, &|_| factor * step);
        outcome(Outcome::Inconclusive, &|trial| factor * [0.96, 1.0, 1.04][trial.repeat as usize]);
    }
}

/// Asserts that findings of this metric, and of no other, refute a claim.
fn assert_refuted_by(metric: &str, made: &Published, claim: usize) {
    let found = made.check(claim, &|_| 1.0);
    let mut refuting = found.findings.iter().filter(|finding| finding.holds == Some(false)).peekable();
    assert!(refuting.peek().is_some(), "{metric}: {found:#?}");
    assert!(refuting.all(|finding| finding.words.starts_with(metric)), "{metric}: {found:#?}");
}

#[test]
fn rate_and_bandwidth_of_cpu_each_refute_alone() {
    let published = Published::of("welsh2001");
    let mut trials = published.runs.iter().flat_map(|run| &run.header.trials);
    // Only the time for a gigabyte concerns this trial.
    let other = trials.find(|trial| is(trial, "poll") && trial.workload.idle == 5_000).unwrap();
    for threshold in thresholds().iter().filter(|it| it.paper == "welsh2001" && !(it.of)(other)) {
        let (of, factor) = (threshold.of, threshold.factor * threshold.step());
        let mut with_rate = published.clone();
        with_rate.scale(of, &|_| factor);
        with_rate.scale_cpu(of, factor);
        assert_refuted_by("rate", &with_rate, threshold.claim);
        let mut with_cpu = published.clone();
        with_cpu.scale_cpu(of, 1.0 / factor);
        assert_refuted_by("bandwidth of a CPU", &with_cpu, threshold.claim);
    }
}

#[test]
fn median_and_p99_of_send_delay_each_refute_alone() {
    let cases = [("median send delay", [12_900, 20_000]), ("99th percentile of send delay", [10_000, 25_800])];
    for (metric, [median_ns, p99_ns]) in cases {
        let mut made = Published::of("kawai2008");
        let records = made.runs.iter_mut().flat_map(|run| &mut run.records);
        for record in records.filter(|record| is(&record.trial, "epoll")) {
            let send_delay = [median_ns; 98].into_iter().chain([p99_ns; 2]).collect();
            let values = Values { send_delay, ..values::of("kawai2008", &record.trial).unwrap() };
            *record = testkit::record_of(&record.trial, values);
        }
        assert_refuted_by(metric, &made, 7);
    }
}

#[test]
fn kqueue_decides_claims_in_place_of_epoll() {
    for name in ["maharjan2012", "voras2009", "welsh2001"] {
        let mut made = Published::of(name);
        made.rename_queue("kqueue");
        for claim in 1..=made.paper.claims.len() {
            let found = made.check(claim, &|_| 1.0);
            assert_eq!(found.outcome, Outcome::HoldsHere, "{name} {found:#?}");
            assert!(!found.findings.iter().any(|finding| finding.what.contains("epoll")), "{name} {found:#?}");
        }
        for threshold in thresholds().iter().filter(|it| it.paper == name) {
            let mut made = Published::of(name);
            made.scale(threshold.of, &|_| threshold.factor * threshold.step());
            made.rename_queue("kqueue");
            let found = made.check(threshold.claim, &|_| 1.0);
            assert_eq!(found.outcome, Outcome::DoesNotHoldHere, "{name} {found:#?}");
        }
    }
}

#[test]
fn thresholds_cover_all_claims_but_those_on_verdicts() {
    let of_verdicts = [("kawai2008", 6), ("welsh2001", 3)];
    for paper in PAPERS {
        for claim in 1..=paper.claims.len() {
            let count = thresholds().iter().filter(|it| (it.paper, it.claim) == (paper.name, claim)).count();
            assert_eq!(count == 0, of_verdicts.contains(&(paper.name, claim)), "{} {claim}", paper.name);
        }
    }
}

#[test]
fn claims_on_verdicts_follow_the_majority() {
    use VerdictKind::{Failed, Saturated, Unsteady, Valid};
    type Repeats = [VerdictKind; 3];
    let of = |paper: &str, claim: usize, of: fn(&Trial) -> bool, verdicts: Repeats| {
        let mut made = Published::of(paper);
        for run in &mut made.runs {
            run.records.retain(|record| !of(&record.trial));
            for trial in run.header.trials.iter_mut().filter(|trial| of(trial)) {
                trial.infeasible.clear();
                let verdict = verdicts[trial.repeat as usize];
                run.records.push(testkit::record_of(trial, Values { verdict, ..Values::default() }));
            }
        }
        made.check(claim, &|_| 1.0).outcome
    };
    let (holds, does_not, open) = (Outcome::HoldsHere, Outcome::DoesNotHoldHere, Outcome::Inconclusive);
    let cases = [
        ([Saturated, Saturated, Valid], holds),
        ([Valid, Valid, Saturated], does_not),
        ([Valid, Unsteady, Saturated], open),
    ];
    for (verdicts, expected) in cases {
        let is_fastest = |it: &Trial| {
            is(it, "mt")
                && it.workload.rate_per_s() == Some(8_000.0)
                && it.workload.service.fixed() == Some((128, 10_240))
        };
        assert_eq!(of("kawai2008", 6, is_fastest, verdicts), expected, "{verdicts:?}");
    }
    let cases =
        [([Failed, Failed, Valid], holds), ([Valid, Valid, Failed], does_not), ([Valid, Unsteady, Failed], open)];
    for (verdicts, expected) in cases {
        let is_stopped = |it: &Trial| is(it, "mt") && it.workload.connections == 700;
        assert_eq!(of("welsh2001", 3, is_stopped, verdicts), expected, "{verdicts:?}");
    }
}

#[test]
fn late_trials_count_for_claims_about_late_clients() {
    let limited = |paper: &str, claim: usize, factor: f64| {
        let mut made = Published::of(paper);
        made.scale(|trial| is(trial, "poll"), &|_| factor);
        let records = made.runs.iter_mut().flat_map(|run| &mut run.records);
        for record in records.filter(|record| is(&record.trial, "poll")) {
            record.verdict.kind = VerdictKind::ClientLimited;
        }
        made.check(claim, &|trial| if is(trial, "poll") { factor } else { 1.0 }).outcome
    };
    for (paper, claim) in [("kawai2008", 7), ("kawai2006", 3)] {
        assert_eq!(limited(paper, claim, 1.0), Outcome::HoldsHere, "{paper}");
        assert_eq!(limited(paper, claim, 2.0), Outcome::DoesNotHoldHere, "{paper}");
    }
}

#[test]
fn share_of_late_sends_has_an_additive_tolerance() {
    let made = Published::of("kawai2006");
    let with_late = |of: [&str; 2], shares: [f64; 3]| {
        let mut sends = |index: u32| {
            let trial = made.runs[0].header.trials.iter().find(|trial| trial.index == index).unwrap();
            let mut clients = values::kawai2006_sends(trial, 0.0);
            let share = if of.iter().any(|name| is(trial, name)) { shares[trial.repeat as usize] } else { 0.0 };
            // Every second one is early, so that the median stays the same.
            let uneven = |sends: &Vec<i64>| (sends.len() as f64 * share) as usize;
            let shift = |at: usize| if at.is_multiple_of(2) { 2_000 } else { -2_000 };
            clients.iter_mut().for_each(|sends| (0..uneven(sends)).for_each(|at| sends[at] += shift(at)));
            Ok(clients)
        };
        let mut deviation_of = deviation::kept(&mut sends);
        claims::check(&made.paper.claims[2..], &made.runs, &mut [&mut deviation_of]).remove(0).outcome
    };
    let scans = ["select", "poll"];
    assert_eq!(with_late(scans, [0.12; 3]), Outcome::HoldsHere, "the paper prints 90 % within 1 µs");
    assert_eq!(with_late(scans, [0.13; 3]), Outcome::DoesNotHoldHere);
    assert_eq!(with_late(scans, [0.12, 0.125, 0.13]), Outcome::Inconclusive);
    let others = ["mp", "epoll"];
    assert_eq!(with_late(others, [0.49; 3]), Outcome::HoldsHere, "the paper says that most are within 1 µs");
    assert_eq!(with_late(others, [0.51; 3]), Outcome::DoesNotHoldHere);
    assert_eq!(with_late(others, [0.49, 0.5, 0.51]), Outcome::Inconclusive);
}

fn pace(trial: &Trial) -> Pace {
    trial.workload.pace().unwrap().clone()
}

fn pipelined(trial: &mut Trial) {
    trial.workload.the_loop = Loop::Closed { think: Think::default(), pipeline: 2 };
}

#[test]
fn trials_unlike_the_papers_do_not_count() {
    let changes: [(&str, fn(&mut Trial)); 19] = [
        ("kawai2008", |it| it.workload.tls = Some(Tls::default())),
        ("kawai2008", |it| {
            let requests = it.workload.requests().unwrap().clone();
            it.workload.the_loop = Loop::Open { requests, request_timeout: None, no_overlap: true };
        }),
        ("kawai2006", |it| it.workload.the_loop = Loop::Sessions { requests_per_connection: 1, pace: pace(it) }),
        ("maharjan2012", |it| it.workload.tls = Some(Tls::default())),
        ("maharjan2012", |it| it.workload.transport = harness::spec::transport::Transport::Unix),
        ("maharjan2012", |it| {
            it.workload.http.iter_mut().flat_map(|http| &mut http.targets).for_each(|it| it.body_bytes = Some(9))
        }),
        ("voras2009", |it| it.workload.kv.as_mut().unwrap().records = 3),
        ("voras2009", |it| it.workload.kv.as_mut().unwrap().value_bytes_max = 11),
        ("voras2009", |it| it.workload.kv.as_mut().unwrap().get_share = 0.5),
        ("voras2009", |it| it.workload.kv.as_mut().unwrap().keys = load::config::Popularity::Zipf { exponent: 1.0 }),
        ("voras2009", |it| {
            it.workload.the_loop = Loop::Closed { think: Think { mean_ns: 1, exponential: false }, pipeline: 1 };
        }),
        ("voras2009", |it| {
            it.workload.the_loop = Loop::ClosedSessions { requests_per_connection: 1, think: Think::default() };
        }),
        ("voras2009", |it| it.client.clients = 3),
        ("voras2009", pipelined),
        ("welsh2001", pipelined),
        ("hermes2025", |it| it.workload.tls = Some(Tls::default())),
        ("hermes2025", pipelined),
        ("hermes2025", |it| {
            it.workload.pace_mut().unwrap().rate_profile = Some(RateProfile::constant(1.0, 1_000_000_000));
        }),
        ("hermes2025", |it| {
            let trace = Some(Trace {
                file: "arrivals.csv".into(),
                from_ns: 0,
                length_ns: 1,
                speed: 1.0,
                requests: 1,
                has_connections: false,
                sizes: Vec::new(),
            });
            it.workload.the_loop = Loop::open(Requests { trace, ..pace(it).into() });
        }),
    ];
    for (at, (name, change)) in changes.into_iter().enumerate() {
        let Published { paper, mut runs } = Published::of(name);
        let is_http = |run: &Run| name != "maharjan2012" || run.header.experiment != "maharjan2012-udp";
        runs.retain(is_http);
        for run in &mut runs {
            trials_mut(run).for_each(change);
        }
        let mut sends: Vec<_> = runs.iter().map(|_| |_| Ok(Vec::new())).collect();
        let mut sends_of: Vec<&mut SendsOf<'_>> = sends.iter_mut().map(|sends_of| sends_of as _).collect();
        let found = PaperComparison::of(paper, Part::Whole, &runs, &mut sends_of);
        let error = found.err().unwrap_or_else(|| panic!("{at}: {name}")).to_string();
        assert!(error.contains("no finished trial that belongs") || error.contains("no trial of this run"), "{error}");
    }
}
