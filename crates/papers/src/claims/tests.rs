use harness::record::Run;

use super::*;
use report::analysis::deviation::TrialDeviation;

const ALL: fn(&Workload) -> bool = |_| true;

/// Checks a claim with this one statement.
fn checked(run: &Run, architectures: &'static [&'static str], metric: &'static Metric, is: Is) -> CheckedClaim {
    let statements = vec![Statement::of(architectures, metric, ALL, is)].leak();
    check_one(run, Claim { says: "The claim.", cpus_min: 0, statements })
}

fn check_one(run: &Run, claim: Claim) -> CheckedClaim {
    let deviation_of: &mut DeviationOf<'_> = &mut |record| TrialDeviation::of(record, &mut |_| Ok(Vec::new()));
    check(&[claim], std::slice::from_ref(run), &mut [deviation_of]).remove(0)
}

/// `epoll` hardly changes, `poll` is proportional to the connections, and `mt` is erratic.
fn run() -> Run {
    testkit::run_of(&["epoll", "poll", "mt"], |architecture, connections, repeat| match architecture {
        "epoll" => 40_000 + u64::from(repeat) * 1_000 + u64::from(connections),
        "poll" => 100 * u64::from(connections) + u64::from(repeat) * 500,
        _ => [20_000, 60_000, 120_000][(repeat as usize + usize::from(connections > 400)) % 3],
    })
}

#[test]
fn claim_with_only_supporting_figures_holds() {
    let run = run();
    let holds: [(&'static [&'static str], Is); 8] = [
        (&["epoll"], Is::Flat(Dimension::Connections, 1.5)),
        (&["poll"], Is::Proportional(Dimension::Connections)),
        (&["poll"], Is::Grows(Dimension::Connections, 5.0)),
        (&["epoll", "poll"], Is::Alike(12.0)),
        (&["epoll"], Is::AtMost(50_000.0)),
        (&["poll"], Is::AtLeast(39_000.0)),
        (&["poll"], Is::Above(5.0, &["epoll"])),
        (&["epoll"], Is::Found(VerdictKind::Valid)),
    ];
    for (architectures, is) in holds {
        let name = format!("{is:?}");
        let checked = checked(&run, architectures, &SERVICE_MEDIAN, is);
        assert_eq!(checked.outcome, Outcome::HoldsHere, "{name}: {checked:#?}");
    }
}

#[test]
fn claim_with_a_contrary_figure_does_not_hold() {
    let run = run();
    let against: [(&'static [&'static str], Is); 9] = [
        (&["epoll", "poll"], Is::Flat(Dimension::Connections, 1.5)),
        (&["epoll"], Is::Proportional(Dimension::Connections)),
        (&["epoll"], Is::Grows(Dimension::Connections, 1.5)),
        (&["poll"], Is::Falls(Dimension::Connections, 1.5)),
        (&["epoll", "poll"], Is::Alike(2.0)),
        (&["epoll"], Is::AtMost(30_000.0)),
        (&["epoll"], Is::Above(1.0, &["poll"])),
        (&["epoll"], Is::Peaks(2.0, &["poll"])),
        (&["epoll"], Is::Found(VerdictKind::Saturated)),
    ];
    for (architectures, is) in against {
        let name = format!("{is:?}");
        let checked = checked(&run, architectures, &SERVICE_MEDIAN, is);
        assert_eq!(checked.outcome, Outcome::DoesNotHoldHere, "{name}: {checked:#?}");
    }
    let flat = checked(&run, &["epoll", "poll"], &SERVICE_MEDIAN, Is::Flat(Dimension::Connections, 1.5));
    let holds: Vec<_> = flat.findings.iter().map(|finding| finding.holds).collect();
    assert_eq!(holds, [Some(true), Some(false)], "the findings cover both architectures");
    assert!((flat.findings[1].value.unwrap() - 10.0).abs() < 0.2, "{:?}", flat.findings);
}

#[test]
fn missing_or_noisy_figures_decide_nothing() {
    let run = run();
    let noisy = checked(&run, &["mt"], &SERVICE_MEDIAN, Is::Flat(Dimension::Connections, 1.5));
    assert_eq!(noisy.outcome, Outcome::Inconclusive, "{noisy:#?}");
    assert!(noisy.reason.unwrap().contains("are undecided"));

    let missing = checked(&run, &["select"], &SERVICE_MEDIAN, Is::Flat(Dimension::Connections, 1.5));
    assert_eq!((missing.outcome, missing.findings.len()), (Outcome::NotTestableHere, 0));

    let mut disturbed = run.clone();
    disturbed.records.iter_mut().for_each(|record| record.verdict.kind = VerdictKind::Unsteady);
    let disturbed = checked(&disturbed, &["epoll"], &SERVICE_MEDIAN, Is::AtMost(1.0));
    assert_eq!(disturbed.outcome, Outcome::NotTestableHere, "invalid figures decide nothing");
    assert_eq!(disturbed.findings[0].words, "no valid trials");

    let mut small = run;
    small.header.host.insert("cpus allowed".into(), "0-1".into());
    const FAST: &[Statement] = &[Statement::of(&["epoll"], &SERVICE_MEDIAN, |_| true, Is::AtMost(1e9))];
    let claim = |cpus_min| Claim { says: "It scales.", cpus_min, statements: FAST };
    assert_eq!(check_one(&small, claim(2)).outcome, Outcome::HoldsHere);
    let checked = check_one(&small, claim(8));
    assert_eq!(checked.outcome, Outcome::NotTestableHere);
    assert_eq!(checked.reason.as_deref(), Some("it needs 8 CPUs, and this host has 2"));
}

#[test]
fn claims_are_shown_with_their_findings() {
    let run = run();
    let claims = [
        checked(&run, &["epoll", "poll"], &SERVICE_MEDIAN, Is::Flat(Dimension::Connections, 1.5)),
        CheckedClaim {
            number: 2,
            ..checked(&run, &["poll"], &SERVICE_MEDIAN, Is::Proportional(Dimension::Connections))
        },
        CheckedClaim { number: 3, ..checked(&run, &["mt"], &SERVICE_MEDIAN, Is::AtMost(100_000.0)) },
    ];
    insta::assert_snapshot!(format!("{}\n{}", render(&claims, 100), csv(&claims)));
}

#[test]
fn csv_has_metrics_and_claims_without_findings() {
    const BOTH: &[Statement] = &[
        Statement::of(&["epoll"], &SERVICE_MEDIAN, ALL, Is::AtMost(1e9)),
        Statement::of(&["epoll"], &SERVICE_MEAN, ALL, Is::AtMost(1e9)),
    ];
    let run = run();
    let claims = [
        check_one(&run, Claim { says: "It is fast.", cpus_min: 0, statements: BOTH }),
        CheckedClaim { number: 2, ..checked(&run, &["select"], &SERVICE_MEDIAN, Is::AtMost(1e9)) },
    ];
    let csv = csv(&claims);
    let rows_of = |metric: &str| csv.lines().filter(|line| line.contains(metric)).count();
    assert_eq!((rows_of("median service time"), rows_of("mean service time")), (2, 2), "{csv}");
    assert!(csv.ends_with("\n2,not-testable-here,,,,,,some of its statements have no trials\n"), "{csv}");
}

#[test]
fn client_tail_gives_no_service_spread() {
    let mut record = testkit::run().records.remove(0);
    let spread = |record: &TrialRecord| (SERVICE_SPREAD.of)(record, &mut |_| unreachable!());
    assert!(spread(&record).is_some());
    let late = load::result::LateSends { bound_ns: 100_000, count: 2, sent: 200, ..Default::default() };
    record.load.as_mut().unwrap().late = late;
    assert!(spread(&record).is_none());
}

#[test]
fn repeats_decide_claims_about_their_servers() {
    let mut run = testkit::interleaved_run();
    let outcome = |run: &Run, is| checked(run, &["epoll", "poll"], &SERVICE_MEDIAN, is).outcome;
    assert_eq!(outcome(&run, Is::Alike(1.01)), Outcome::DoesNotHoldHere);
    assert_eq!(outcome(&run, Is::Alike(100.0)), Outcome::HoldsHere);
    run.records.retain(|record| record.trial.repeat == 0);
    assert_eq!(outcome(&run, Is::Alike(100.0)), Outcome::Inconclusive, "one repeat has no interval");
}
