use super::*;
use crate::plan::{Plan, plan};
use crate::spec::units::Loss;

fn planned(changes: &str) -> Result<Plan, String> {
    planned_for("\"epoll\", \"mt\", \"spin\"", changes)
}

fn planned_for(architectures: &str, changes: &str) -> Result<Plan, String> {
    let text = format!(
        "name = \"x\"\narchitectures = [{architectures}]\nrepeats = 2\n{changes}\n\
         [phases]\nramp = \"0\"\nwarm-up = \"100ms\"\nmeasure = \"1s\"\n"
    );
    plan(&Experiment::of(&text), &Host::made_up())
}

const WORKLOAD: &str = "[workload]\nconnections = [10, 20]\nrequest = \"1B\"\nresponse = \"2B\"\nrate = 1000";

#[test]
fn architectures_share_windows_except_spinning_ones() {
    let plan = planned(WORKLOAD).unwrap();
    for trial in &plan.trials {
        let is_spinning = trial.architecture.to_string() == "spin";
        assert_eq!(trial.client.slices.is_none(), is_spinning, "{}", trial.label());
        let Some(slices) = trial.client.slices else { continue };
        let rivals = plan.trials.iter().filter(|it| it.client.slices.is_some_and(|it| it.heat == slices.heat));
        let rivals: Vec<&Trial> = rivals.collect();
        assert_eq!((rivals.len(), slices.contestants), (2, 2));
        assert!(rivals.iter().all(|it| it.workload == trial.workload && it.repeat == trial.repeat));
        assert_eq!((slices.slice_ns, slices.guard_ns), (5 * MS, MS));
    }
    let expected = [
        "2 servers share each of 4 windows, in turns of 5ms of which the first 1ms do not count",
        "separate: spin: the server uses its CPU even without load",
    ];
    assert_eq!(plan.interleaving, expected);
}

#[test]
fn guard_of_constant_sends_has_whole_periods() {
    for (schedule, clients) in [("constant", 2), ("constant-drawn", 2), ("constant-together", 4)] {
        for rate in [700, 800, 1_100, 1_700, 30_000] {
            let keys = format!("rate = {rate}\nschedule = \"{schedule}\"\n[client]\nclients = {clients}\n");
            let plan = planned(&WORKLOAD.replace("rate = 1000", &keys)).unwrap();
            let slices = plan.trials.iter().find_map(|trial| trial.client.slices).unwrap();
            let requests = if schedule == "constant" { 1 } else { clients };
            let periods = slices.guard_ns as f64 * f64::from(rate) / f64::from(requests) / 1e9;
            assert!((periods - periods.round()).abs() < 1e-3 && periods > 0.9, "{schedule}, {rate}: {slices:?}");
            assert!(slices.slice_ns >= SLICE_STEP_NS, "{schedule}, {rate}: {slices:?}");
        }
    }
}

#[test]
fn guard_with_part_of_an_interval_needs_many_intervals() {
    let first = |slice: &str, rate: u32| {
        let workload = WORKLOAD.replace("rate = 1000", &format!("rate = {rate}\nschedule = \"constant\""));
        planned(&format!("slice = \"{slice}\"\n{workload}")).unwrap().interleaving[0].clone()
    };
    assert!(first("20ms", 800).ends_with("more or fewer requests than their share into guards"));
    assert!(first("25ms", 800).starts_with("2 servers share each of 4 windows"));
    assert!(first("20ms", 8_001).starts_with("2 servers share each of 4 windows"));
}

#[test]
fn servers_with_too_many_ports_at_once_are_separate() {
    let workload =
        "[workload]\nservice = \"udp\"\nports = [10000, 15000]\nrate = 1000\nrequest = \"8B\"\nresponse = \"8B\"";
    let sentences = planned_for("\"epoll\", \"epoll-et\"", workload).unwrap().interleaving;
    assert!(sentences[0].starts_with("2 servers share each of 2 windows"), "{sentences:?}");
    assert!(sentences[1].contains("too few ports for two servers at once"), "{sentences:?}");
}

#[test]
fn choice_of_the_experiment_is_obeyed() {
    let never = planned(&format!("interleave = \"never\"\n{WORKLOAD}")).unwrap();
    assert!(never.interleaving.is_empty() && never.trials.iter().all(|trial| trial.client.slices.is_none()));
    let error = planned(&format!("interleave = \"always\"\n{WORKLOAD}")).unwrap_err();
    assert_eq!(error, "interleave: cannot interleave spin: the server uses its CPU even without load; use `auto`");
}

#[test]
fn rates_over_time_are_separate_unless_demanded() {
    let workload = WORKLOAD.replace("rate = 1000", "rate-profile = \"hold:500:500ms,hold:1500:500ms\"");
    let reason = "requests that wait at a peak of the rate would be answered in the slices of other servers";
    let sentences = planned_for("\"epoll\", \"mt\"", &workload).unwrap().interleaving;
    assert_eq!(sentences, [format!("separate: epoll, mt: {reason}")]);
    let always = Experiment::parse(
        &format!("interleave = \"always\"\narchitectures = [\"epoll\", \"mt\"]\n{workload}\n[phases]\nramp = \"0\"\n"),
        "x.toml",
    );
    let plan = plan(&always.unwrap(), &Host::made_up()).unwrap();
    assert!(
        plan.trials.iter().all(|trial| trial.client.slices.is_some() && trial.workload.phases.measure_ns == 1_000 * MS)
    );
}

#[test]
fn many_servers_form_groups_with_a_common_reference() {
    let names = "\"mt\", \"epoll\", \"epoll-et\", \"poll\", \"select\", \"mp\"";
    let pools: Vec<String> = (1..=8).map(|size| format!("\"seda-s:{size}\"")).collect();
    let architectures = format!("{names}, {}", pools.join(", "));
    let plan = planned_for(&architectures, &format!("placebo = true\n{}", WORKLOAD.replace("[10, 20]", "10"))).unwrap();
    let (references, planned): (Vec<&Trial>, Vec<&Trial>) = plan.trials.iter().partition(|trial| trial.is_reference);
    let servers = planned.len() / 2;
    assert!(servers > CONTESTANTS_MAX && (0..).zip(&plan.trials).all(|(index, trial)| trial.index == index));
    assert_eq!(
        references.iter().map(|it| (it.label(), it.repeat)).collect::<Vec<_>>(),
        [("mt (reference)".to_owned(), 0), ("mt (reference)".to_owned(), 1)]
    );
    for repeat in 0..2 {
        let of_repeat: Vec<&Trial> = plan.trials.iter().filter(|it| it.repeat == repeat).collect();
        let mut heats: Vec<u32> = of_repeat.iter().map(|it| it.client.slices.unwrap().heat).collect();
        heats.sort_unstable();
        let sizes: Vec<usize> = heats.chunk_by(|a, b| a == b).map(<[u32]>::len).collect();
        assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (2, servers + 1));
        assert!(sizes.iter().all(|size| (servers / 2..=CONTESTANTS_MAX).contains(size)), "{sizes:?}");
        let mt = of_repeat.iter().filter(|it| it.architecture.to_string() == "mt" && !it.is_placebo);
        let heats: BTreeSet<u32> = mt.map(|it| it.client.slices.unwrap().heat).collect();
        assert_eq!(heats.len(), 2, "the reference is in both groups");
    }
    let sentence = format!(
        "{servers} servers form 2 groups, because a window has at most 12 servers: mt runs in each group, and links the groups' \
         figures"
    );
    assert!(plan.interleaving.contains(&sentence), "{:?}", plan.interleaving);
}

#[test]
fn groups_have_room_or_servers_run_separately() {
    let divided = |max: usize| groups(&[7, 1, 2, 3, 4, 5], |group| group.len() <= max);
    assert_eq!(divided(6), Some(vec![vec![7, 1, 2, 3, 4, 5]]));
    assert_eq!(divided(4), Some(vec![vec![7, 1, 2], vec![7, 3, 4, 5]]));
    assert_eq!(divided(2).unwrap().len(), 5);
    assert_eq!(divided(1), None);
    let needs = |host: &Host| {
        let text = "name = \"x\"\nrepeats = 1\narchitectures = [\"epoll\", \"mt\", \"mp\"]\n\
                    [workload]\nconnections = 100\nrequest = \"1B\"\nresponse = \"2B\"\nrate = 1000\n\
                    [phases]\nramp = \"0\"\nwarm-up = \"100ms\"\nmeasure = \"1s\"\n";
        let plan = plan(&Experiment::of(text), host).unwrap();
        (plan.trials.iter().filter(|trial| trial.is_reference).count(), plan.interleaving.join("; "))
    };
    let mut host = Host::made_up();
    assert_eq!(needs(&host).0, 0);
    host.tasks_max.0 = 500;
    let (references, sentences) = needs(&host);
    assert!(
        references == 1 && sentences.contains("3 servers form 2 groups, because this host has too little"),
        "{sentences}"
    );
}

#[test]
fn round_trip_of_a_lab_extends_slices_and_gaps() {
    let experiment = crate::spec::presets::find("compare").unwrap().experiment();
    let mut trial = planned(WORKLOAD).unwrap().trials.remove(0);
    let mut with = |network: &Network| {
        trial.workload.network = Some(network.clone());
        (network_problem(network).is_none(), slice_ns(&trial, &experiment, &Host::made_up()), gap_ns(&trial, 20 * MS))
    };
    let quick = Network { delay: Time(3 * MS), jitter: Time(MS), ..Network::default() };
    assert_eq!(with(&Network::default()), (true, 5 * MS, MS));
    assert_eq!(with(&quick), (true, 10 * MS, 9 * MS));
    assert_eq!(with(&Network { delay: Time(8 * MS), ..quick.clone() }), (true, 20 * MS, 19 * MS));
    let lossy = Network { loss: Some(Loss(0.01)), ..quick.clone() };
    let far = Network { delay: Time(10 * MS), ..quick };
    assert!(!with(&lossy).0 && !with(&far).0);
}

#[test]
fn waits_in_the_server_extend_slices_and_gaps_if_they_are_short() {
    let experiment = crate::spec::presets::find("compare").unwrap().experiment();
    let mut trial = planned(WORKLOAD).unwrap().trials.remove(0);
    let mut with = |work: &str| {
        trial.workload.work = Some(work.parse::<crate::spec::units::Work>().unwrap().0);
        let reason = reason_to_separate(&trial, &experiment, &Host::made_up());
        let is_separate = reason.is_some_and(|reason| reason.starts_with("requests that wait in the server"));
        (is_separate, slice_ns(&trial, &experiment, &Host::made_up()), gap_ns(&trial, 20 * MS))
    };
    assert_eq!(with("cpu=1us"), (false, 5 * MS, MS));
    assert_eq!(with("wait=1ms:90%,8ms:10%"), (false, 10 * MS, 9 * MS));
    assert!(with("wait=21ms").0 && with("wait=1ms,exponential").0);
}

#[test]
fn workers_share_windows_if_their_clocks_are_exact() {
    let sentences = |clock_error_ns: Option<u64>| {
        let fleet = FleetFacts {
            here: 1,
            elsewhere_cpus: None,
            addresses: Vec::new(),
            lab: None,
            clock_error_ns,
            beside_server: Vec::new(),
        };
        let host = Host { fleet: Some(fleet), ..Host::made_up() };
        let text = format!(
            "name = \"x\"\nrepeats = 1\narchitectures = [\"epoll\", \"mt\"]\n{WORKLOAD}\n\
             [phases]\nramp = \"0\"\nwarm-up = \"100ms\"\nmeasure = \"1s\"\n"
        );
        plan(&Experiment::of(&text), &host).unwrap().interleaving.join("; ")
    };
    // Slices of 20 ms have a guard of 4 ms.
    assert!(sentences(Some(MS)).starts_with("2 servers share each of 2 windows"), "{}", sentences(Some(MS)));
    let expected = "separate: epoll, mt: the clocks of the workers are known to within 2ms, and slices need 1ms";
    assert_eq!(sentences(Some(2 * MS)), expected);
    assert_eq!(sentences(None), "separate: epoll, mt: the clocks of the workers are unknown");
}

#[test]
fn slices_of_closed_loops_hold_work_and_spread_think_times() {
    let turns = |more: &str| {
        let closed =
            format!("[workload]\nconnections = 10\nrequest = \"1B\"\nresponse = \"2B\"\nschedule = \"closed\"\n{more}");
        let sentence = planned(&closed).unwrap().interleaving[0].clone();
        let (_, turns) = sentence.split_once("in turns of ").expect("the trials share a window");
        turns.split_once(' ').expect("the guard follows").0.to_owned()
    };
    assert_eq!(turns(""), "10ms");
    // A guard holds the CPU time of all connections, and one wait.
    assert_eq!(turns("simulated-work = \"cpu=300us\""), "17500us");
    assert_eq!(turns("simulated-work = \"sleep=4ms\""), "22500us");
    assert_eq!(turns("simulated-work = \"wait=4ms\""), "22500us");
    assert_eq!(turns("pipeline = 4\nsimulated-work = \"cpu=100us\""), "22500us");
    // 7 ms are 0.618 slices, 50 ms 4.618. A guard holds 5 ms.
    let of_think = ["7ms", "50ms", "5ms"].map(|think| turns(&format!("think = \"{think}\"")));
    assert_eq!(of_think, ["11327us", "10828us", "25ms"]);
    assert_eq!(turns("think = \"5ms,exponential\""), "10ms");
}

#[test]
fn short_windows_and_short_lived_connections_are_separate() {
    let slow = planned(&WORKLOAD.replace("rate = 1000", "rate = 200")).unwrap();
    assert_eq!(
        slow.interleaving[0],
        "2 servers share each of 4 windows, in turns of 25ms of which the first 5ms do not count"
    );
    let closed = "[workload]\nconnections = 2000\nrequest = \"1B\"\nresponse = \"2B\"\nschedule = \"closed\"";
    assert!(planned(closed).unwrap().interleaving[1].ends_with("the window is shorter than 10 slices of 200ms"));
    let few = planned(&WORKLOAD.replace("rate = 1000", "rate = 199")).unwrap();
    assert_eq!(few.interleaving[1], "separate: epoll, mt: the window has fewer than 200 requests");
    let rare = planned(&WORKLOAD.replace("rate = 1000", "rate = 20").replace("1s", "9s")).unwrap();
    assert_eq!(rare.interleaving[0], "separate: epoll, mt: a slice has too few requests");
    let churn = format!("{WORKLOAD}\nrequests-per-connection = 1");
    let scans = WORKLOAD.replace("[10, 20]", "[2000]").replace("rate = 1000", "rate = 2000");
    let scans = planned_for("\"epoll\", \"mt\", \"poll\", \"select\"", &scans).unwrap().interleaving;
    assert!(scans[1].starts_with("separate: poll, select: the rate is near"), "{scans:?}");
    assert!(planned(&churn).unwrap().interleaving[0].starts_with("separate: epoll, mt: connections"));
}
