//! Flags of servers, workload and client, shared by all commands that build an experiment.

use std::num::NonZeroU32;

use anyhow::bail;
use harness::plan::grid::{self, GridValues};
use harness::record::{LatencyLimit, SearchGoal};
use harness::spec::interleave::Interleave;
use harness::spec::units::{Rate, Share, Size, Time};
use harness::spec::{Candidate, Experiment, OneOrMany, Phases, Schedule, Service, stream};
use server::Architecture;

use super::experiment::BaseArgs;
use super::given::Options;
use super::servers::Builds;
use super::{set, set_list};

#[derive(Clone, Debug, clap::Args)]
pub struct SetupArgs {
    #[command(flatten)]
    pub base: BaseArgs,
    #[command(flatten)]
    pub options: Options,
}

impl SetupArgs {
    /// Returns an experiment, changed by the flags.
    pub fn experiment(&self) -> anyhow::Result<Experiment> {
        changed(&self.options, self.base.read()?, self.base.has_file(), self.options.servers()?)
    }

    /// Checks an experiment, as [`checked`] does.
    pub fn checked(&self, experiment: &Experiment) -> anyhow::Result<(Experiment, String)> {
        checked(experiment, &self.options, self.base.has_file())
    }

    /// Returns an experiment for many rates: by default one short repeat each, with the first number of connections.
    pub fn experiment_of_rates(&self, name: &str) -> anyhow::Result<Experiment> {
        let mut experiment = self.experiment()?;
        experiment.name = name.into();
        let workload = &experiment.workload;
        if workload.is_closed() {
            bail!(
                "{name} needs an open loop, because it sets the rate; choose another --schedule, or another --service than stream"
            );
        }
        if workload.trace.is_some() {
            bail!(
                "{name} sets the rate, and a trace has a rate of its own; remove the trace, or try `muxbench compare`"
            );
        }
        shorten(&self.options, &mut experiment, name, None)?;
        Ok(experiment)
    }

    /// Returns an experiment for many short repeats of servers, by default of all architectures and with the first number of
    /// connections. `window` returns the default window.
    pub fn experiment_of_race(&self, window: impl Fn(&Experiment) -> Time) -> anyhow::Result<Experiment> {
        let mut experiment = self.experiment()?;
        experiment.name = "advise".into();
        if !self.options.has("arch") {
            let external = experiment.architectures.0.into_iter().filter(|it| it.ours().is_none());
            let all = Architecture::all().into_iter().map(Candidate::from);
            experiment.architectures = OneOrMany(external.chain(all).collect());
        }
        check_options(&experiment, ONE_SERVER_EACH)?;
        // A race tells noise from differences without it.
        experiment.placebo = false;
        let measure = window(&experiment);
        shorten(&self.options, &mut experiment, "advise", Some(measure))?;
        Ok(experiment)
    }

    /// Returns the experiment of each race of a grid, in an order whose beginning covers the grid coarsely. Without a file, dimensions
    /// without flags have default values. `window` returns the default window of a race, given the number of races.
    pub fn experiments_of_grid(&self, window: impl Fn(&Experiment, usize) -> Time) -> anyhow::Result<Vec<Experiment>> {
        let mut experiment = self.experiment()?;
        check_options(&experiment, ONE_SERVER_EACH)?;
        // A race tells noise from differences without it.
        experiment.placebo = false;
        experiment.name = "atlas".into();
        let works: Vec<String> = self.options.list("simulated-work");
        let mut more = GridValues {
            requests: self.options.list("request"),
            responses: self.options.list("response"),
            // All but `none` are valid.
            works: works.iter().map(|text| text.parse().ok()).collect(),
        };
        if !self.base.has_file() {
            self.add_defaults(&mut experiment, &mut more);
        }
        // A list may have mistakes that no cell has.
        self.checked(&experiment)?;
        let mut cells = grid::cells(&experiment, &more);
        let count = cells.len();
        for cell in &mut cells {
            let measure = window(cell, count);
            shorten(&self.options, cell, "atlas", Some(measure))?;
        }
        Ok(cells)
    }

    /// Sets the default values of the dimensions that the traffic has and no flag sets.
    fn add_defaults(&self, experiment: &mut Experiment, more: &mut GridValues) {
        let workload = &mut experiment.workload;
        let is_open = !workload.is_closed();
        let are_built_in = experiment.architectures.0.iter().all(|it| it.ours().is_some());
        let has_messages = !matches!(workload.service, Service::Udp | Service::Stream);
        if has_messages && !self.options.has("connections") {
            workload.connections = OneOrMany(GRID_CONNECTIONS.into_iter().filter_map(NonZeroU32::new).collect());
        }
        if has_messages && is_open && workload.requests_per_connection.is_none() && !self.options.has("active") {
            workload.active = OneOrMany(GRID_ACTIVE.map(Share).to_vec());
        }
        if is_open && !self.options.has("rate") {
            workload.rate = Some(OneOrMany(GRID_RATES_PER_S.map(Rate).to_vec()));
        }
        // The preset's response of `udp` fits in one packet.
        if are_built_in && has_messages && workload.response.is_some() && more.responses.is_empty() {
            more.responses = GRID_RESPONSES_BYTES.map(Size).to_vec();
        }
        if are_built_in && has_messages && more.works.is_empty() {
            more.works = GRID_WORKS.map(|text| text.parse().ok()).to_vec();
        }
    }

    /// Returns an experiment for many short repeats of two builds, by default with the first number of connections.
    pub fn experiment_of_builds(&self, builds: &Builds) -> anyhow::Result<Experiment> {
        let servers = builds.servers.clone();
        let mut experiment = changed(&builds.options, builds.base.clone(), self.base.has_file(), servers)?;
        experiment.name = "gate".into();
        experiment.placebo = builds.servers.len() == 1;
        shorten(&self.options, &mut experiment, "gate", None)?;
        Ok(experiment)
    }
}

/// Changes an experiment by the options, and to these servers unless there are none. It may come from a file; otherwise it is the preset
/// `compare`, whose values suit only its own service and schedule.
pub fn changed(
    options: &Options,
    mut experiment: Experiment,
    has_file: bool,
    servers: Vec<Candidate>,
) -> anyhow::Result<Experiment> {
    let workload = &mut experiment.workload;
    let (before, targets) = (workload.service, options.targets());
    if let Some(url) = targets.first() {
        workload.service = url.service().unwrap_or(workload.service);
        workload.transport = url.transport().or_else(|| url.reachable_transport()).unwrap_or(workload.transport);
    }
    set(&mut workload.service, options.get("service"));
    let service = workload.service;
    match service {
        Service::Kv | Service::Redis | Service::Stream => (workload.request, workload.response) = (None, None),
        Service::Http => {
            // The paths, or the content of a target, may have any length.
            let has_content = options.has("path") || options.has("requests-file") || !targets.is_empty();
            (workload.request, workload.response) = (None, workload.response.filter(|_| !has_content));
        }
        // Without a file, a response is as large as the preset's request, so that it fits in one packet of any network.
        Service::Udp if !has_file => workload.response = workload.request,
        Service::Udp | Service::Fixed => {}
    }
    if service == Service::Udp {
        workload.connections.0.clear();
        let known = targets.iter().find_map(|url| Some(vec![url.ports()?.count()]));
        if let Some(counts) = known.or_else(|| (before != Service::Udp).then(|| vec![10, 1_000])) {
            workload.ports = OneOrMany(counts.into_iter().filter_map(NonZeroU32::new).collect());
        }
    }
    if service == Service::Stream && before != Service::Stream {
        workload.schedule = OneOrMany(vec![Schedule::Closed]);
        experiment.phases.cool_down = stream::COOL_DOWN;
    }
    set_list(&mut workload.schedule, &options.list("schedule"));
    if is_over_time(options) {
        (workload.rate, workload.rate_profile, workload.trace) = (None, None, None);
    }
    if workload.is_closed() {
        workload.rate = None;
    }
    options.apply(&mut experiment, "")?;
    let Experiment { architectures, target, exec, .. } = &mut experiment;
    set_list(architectures, &servers);
    if !servers.is_empty() {
        target.retain(|name, _| servers.contains(&Candidate::Target(name.clone())));
        exec.retain(|name, _| servers.contains(&Candidate::Exec(name.clone())));
    }
    Ok(experiment)
}

/// Whether the options have a rate profile or a trace.
pub fn is_over_time(options: &Options) -> bool {
    options.has("rate-profile") || options.has("trace")
}

/// Sets one repeat and the default phases of a command, and by default only the first number of connections or ports. `measure` replaces
/// the default window.
pub fn shorten(
    options: &Options,
    experiment: &mut Experiment,
    command: &str,
    measure: Option<Time>,
) -> anyhow::Result<()> {
    experiment.repeats = NonZeroU32::MIN;
    let mut phases: Phases = Options::defaults(command).read("phases.")?;
    phases.measure = measure.unwrap_or(phases.measure);
    options.apply(&mut phases, "phases.")?;
    experiment.phases = phases;
    if !options.has("connections") {
        experiment.workload.connections.0.truncate(1);
    }
    if !options.has("ports") {
        experiment.workload.ports.0.truncate(1);
    }
    Ok(())
}

/// The limit of the options of a race.
const ONE_SERVER_EACH: &str = "a race has one server of each architecture";

/// The default values of a grid: 72 races.
pub const GRID_CONNECTIONS: [u32; 3] = [50, 400, 2_000];
const GRID_ACTIVE: [f64; 2] = [1.0 / 16.0, 1.0];
const GRID_RATES_PER_S: [f64; 2] = [500.0, 5_000.0];
const GRID_RESPONSES_BYTES: [u32; 2] = [128, 10_240];
const GRID_WORKS: [&str; 3] = ["none", "cpu=50us", "wait=1ms"];

/// Sets the slices of a search. It changes the rate, and slices of constant sends fit only one rate, so such servers run one at a time.
pub fn set_slices_of_search(experiment: &mut Experiment, limits: &[LatencyLimit]) {
    let constant = [Schedule::Constant, Schedule::ConstantDrawn, Schedule::ConstantTogether];
    if experiment.workload.schedule.0.iter().any(|schedule| constant.contains(schedule)) {
        experiment.interleave = Interleave::Never;
    }
    experiment.slice.get_or_insert(Time(SearchGoal::slice_ns(limits)));
}

/// Rejects several values of an option of built-in servers, because each value makes another server. `limit` says how many servers
/// there may be.
pub fn check_options(experiment: &Experiment, limit: &str) -> anyhow::Result<()> {
    let server = &experiment.server;
    let has_built_in = experiment.architectures.0.iter().any(|it| it.ours().is_some());
    let accepts = server.accept.as_ref().map_or(1, |accepts| accepts.0.len());
    for (flag, count) in [("--accept", accepts), ("--busy-poll", server.busy_polls().len())] {
        if has_built_in && count > 1 {
            bail!("{flag}: {limit}, and this experiment has {count} values; give one, or try `muxbench compare`");
        }
    }
    Ok(())
}

/// Checks an experiment as if it came from a file, and returns it with the text of such a file. Errors show no line of this text,
/// but the key, and its flag unless the key comes from a file. Leaves out `[quick]`: its changes may not fit flags.
pub fn checked(experiment: &Experiment, options: &Options, has_file: bool) -> anyhow::Result<(Experiment, String)> {
    checked_with_quick(&Experiment { quick: None, ..experiment.clone() }, options, has_file)
}

/// The same with `[quick]`.
pub fn checked_with_quick(
    experiment: &Experiment,
    options: &Options,
    has_file: bool,
) -> anyhow::Result<(Experiment, String)> {
    let mut experiment = experiment.clone();
    // Flags may have added bodies.
    experiment.conceal();
    let text = toml::to_string(&experiment)?;
    let experiment = Experiment::parse(&text, "flags")
        .map_err(|error| anyhow::Error::msg(options.with_flag(error.without_place(), has_file)))?;
    Ok((experiment, text))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use load::config::validate::RULES;

    use super::*;
    use crate::options::parsed;

    fn line(text: &str) -> SetupArgs {
        parsed("atlas", text)
    }

    #[test]
    fn errors_of_keys_name_their_flags_unless_a_file_has_them() {
        for (text, has_file, flag) in [("", false, true), ("-c 9", true, false), ("--think 1ms", true, true)] {
            let options = line(text).options;
            let message = options.with_flag("workload.think has no effect".to_owned(), has_file);
            assert_eq!(message.ends_with("(flag --think)"), flag, "{text}: {message}");
        }
        let within = line("--packet 1KiB").options.with_flag("workload.stream has no effect".to_owned(), true);
        assert!(within.ends_with("(flag --packet)"), "{within}");
        let with_flag = |message: &str| Options::default().with_flag(message.to_owned(), false);
        for (message, flag) in [
            ("architectures: \"mt\" appears twice", Some("--arch")),
            ("client.processes: too many", Some("--client-processes")),
            ("workload.http.paths: none", Some("--path")),
            ("workload.tls: remove the TLS settings (--tls)", None),
            ("workload.kv: remove it", None),
            ("expected a rate", None),
        ] {
            let expected = flag.map_or(message.to_owned(), |flag| format!("{message} (flag {flag})"));
            assert_eq!(with_flag(message), expected);
        }
        // Tables and lists of files.
        let none = "workload.http workload.http.requests workload.kv workload.stream workload.trace";
        for rule in RULES {
            let has_flag = with_flag(&format!("{}: x", rule.key)).contains("--");
            assert_eq!(has_flag, !none.split(' ').any(|key| key == rule.key), "{rule}");
        }
    }

    #[test]
    fn each_option_sets_its_key() {
        let experiment = BaseArgs::default().read().unwrap();
        for (text, key, expected) in [
            ("--connections 10k,20", "workload.connections", "[10000, 20]"),
            ("--rate 2k", "workload.rate", "[2000.0]"),
            ("--simulated-work cpu=1us", "workload.simulated-work", "\"cpu=1us\""),
            ("--header A:b --header C:d", "workload.http.headers", "[\"A: b\", \"C: d\"]"),
            ("--body x --body-file y", "workload.http.body", "[\"x\", \"@y\"]"),
            ("--network lab:clients=3 --loss 1%", "network.clients", "3"),
            ("--insecure", "workload.tls.insecure", "true"),
            ("--tls --full-handshakes", "workload.tls.full-handshakes", "true"),
            ("--client-cpus 0-1", "placement.client", "\"0-1\""),
            ("--seed 7", "seed", "7"),
        ] {
            let mut experiment = experiment.clone();
            line(text).options.apply(&mut experiment, "").unwrap();
            let table = toml::Value::try_from(&experiment).unwrap();
            let value = key.split('.').fold(&table, |table, part| &table[part]);
            assert_eq!(value.to_string(), expected, "{text}");
        }
        let mut worked = experiment.clone();
        line("--simulated-work cpu=1us").options.apply(&mut worked, "").unwrap();
        line("--simulated-work none").options.apply(&mut worked, "").unwrap();
        assert_eq!(worked, experiment);
    }

    /// Returns the command line of a file, and the folder of this file, which has two servers, a placebo, a lab, and the lines of `[workload]`.
    fn with_file(workload: &str, flags: &str) -> (tempfile::TempDir, SetupArgs) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        let lab = "[network]\nclients = 2\ndelay = '1ms'";
        let text = format!("architectures = ['epoll', 'mt']\nplacebo = true\n{lab}\n[workload]\n{workload}\n");
        std::fs::write(&file, text).unwrap();
        (folder, line(&format!("{} {flags}", file.display())))
    }

    #[test]
    fn flags_of_a_lab_keep_the_other_conditions_of_a_file() {
        for (flags, words) in [
            ("", r#"{"clients":2,"delay":"1ms"}"#),
            ("--jitter 500us", r#"{"clients":2,"delay":"1ms","jitter":"500us"}"#),
            ("--network lab:clients=3 --loss 1%", r#"{"clients":3,"delay":"1ms","loss":"1/100"}"#),
        ] {
            let (_folder, setup) = with_file("rate = 9", flags);
            let network = setup.experiment().unwrap().network.unwrap();
            assert_eq!(serde_json::to_string(&network).unwrap(), words, "{flags}");
        }
    }

    #[test]
    fn datagrams_keep_the_response_size_of_a_file() {
        let sizes = |setup: &SetupArgs| {
            let workload = setup.experiment().unwrap().workload;
            (workload.request, workload.response)
        };
        let (_folder, setup) = with_file("request = '64B'\nresponse = '2KiB'", "--service udp");
        assert_eq!(sizes(&setup), (Some(Size(64)), Some(Size(2 << 10))));
        let (_folder, setup) = with_file("request = '64B'\nresponse = '2KiB'", "--service udp --response 9B");
        assert_eq!(sizes(&setup), (Some(Size(64)), Some(Size(9))));
        assert_eq!(
            sizes(&line("--service udp")),
            (Some(Size(128)), Some(Size(128))),
            "without a file, a response fits in one packet"
        );
    }

    #[test]
    fn grid_of_datagrams_has_small_responses_unless_given() {
        for (flags, expected) in [("", &[128][..]), ("--response 64B,9B", &[9, 64][..])] {
            let setup = line(&format!("--service udp {flags}"));
            let cells = setup.experiments_of_grid(|_, _| Time(1_000_000_000)).unwrap();
            let sizes: BTreeSet<u32> =
                cells.iter().filter_map(|cell| cell.workload.response).map(|size| size.0).collect();
            assert!(sizes.iter().eq(expected), "{flags}: {sizes:?}");
        }
    }

    #[test]
    fn content_of_a_target_of_http_may_have_any_length() {
        for url in ["http://127.0.0.1:1", "unix:/tmp/x"] {
            let response = |flags: &str| {
                line(&format!("--target a={url} --service http {flags}")).experiment().unwrap().workload.response
            };
            assert_eq!((response(""), response("--response 1KiB")), (None, Some(Size(1 << 10))), "{url}");
        }
    }

    #[test]
    fn constant_sends_of_a_search_run_one_at_a_time() {
        for (schedule, interleave) in [("constant", Interleave::Never), ("poisson", Interleave::Auto)] {
            let (_folder, setup) = with_file(&format!("schedule = '{schedule}'"), "");
            let mut experiment = setup.experiment().unwrap();
            set_slices_of_search(&mut experiment, &[]);
            assert_eq!(experiment.interleave, interleave);
        }
    }

    #[test]
    fn race_has_no_placebo() {
        let (_folder, setup) = with_file("rate = 9", "");
        assert!(setup.experiment().unwrap().placebo);
        assert!(!setup.experiment_of_race(|_| Time(1_000_000_000)).unwrap().placebo);
        assert!(!setup.experiments_of_grid(|_, _| Time(1_000_000_000)).unwrap()[0].placebo);
    }

    #[test]
    fn traffic_with_its_own_rate_is_refused_by_commands_that_set_it() {
        for (workload, words) in
            [("schedule = 'closed'", "sweep needs an open loop"), ("trace = { file = 'x.csv' }", "remove the trace")]
        {
            let (_folder, setup) = with_file(workload, "");
            let error = setup.experiment_of_rates("sweep").unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
