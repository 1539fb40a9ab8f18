use load::config::Popularity;

use super::*;
use crate::spec::Kv;
use crate::spec::units::Rate;

const GOOD: &str = r#"
name = "x"
architectures = "epoll"
[workload]
connections = 10
rate = [100, 200.5]
request = "1B"
response = "10KiB"
[phases]
ramp = "0"
warm-up = "0"
measure = "1s"
"#;

/// The lines that a test replaces for a closed loop of `kv`.
const CLOSED_OF: &str = "rate = [100, 200.5]\nrequest = \"1B\"\nresponse = \"10KiB\"\n[phases]";

#[test]
fn closed_loop_of_kv_has_defaults() {
    let text =
        GOOD.replace(CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\nthink = \"1ms,exponential\"\n[phases]");
    let experiment = Experiment::of(&text);
    assert_eq!(experiment.loads().unwrap()[0].kv, Some(Kv::default().traffic()));
    assert!(experiment.workload.think.0.exponential);
    let mut experiment = experiment;
    experiment.workload.kv = Some(Kv { keys: Popularity::Zipf { exponent: 0.99 }, ..Kv::default() });
    experiment.assert_reads_back();
}

#[test]
fn settings_without_effect_are_named_with_what_has_them() {
    let unused = |text: &str| Experiment::of(text).unused();
    assert_eq!(unused(GOOD), [""; 0]);
    let loads = |text: &str| Experiment::parse(text, "x.toml").unwrap().loads().unwrap();
    let without = |text: &str, key: &str| {
        let mut table: toml::Table = toml::from_str(text).unwrap();
        let (group, name) = key.split_once('.').unwrap();
        table[group].as_table_mut().unwrap().remove(name).unwrap();
        toml::to_string(&table).unwrap()
    };
    let external = GOOD.replace("architectures = \"epoll\"", "architectures = \"exec:it\"");
    let external =
        format!("{external}[exec.it]\ncommand = [\"sh\", \"{{port}}\"]\n[server]\nread-budget = \"256KiB\"\n");
    assert_eq!(unused(&external), ["server has no effect: only built-in servers have it, such as epoll"]);
    let service = |name: &str, more: &str| GOOD.replace(CLOSED_OF, &format!("service = {name:?}\n{more}\n[phases]"));
    for (text, key) in [
        (GOOD.replace("[phases]", "think = \"1ms\"\n[phases]"), "workload.think"),
        (GOOD.replace("[phases]", "pipeline = 2\n[phases]"), "workload.pipeline"),
        (GOOD.replace("[phases]", "schedule = \"closed\"\n[phases]"), "workload.rate"),
        (GOOD.replace("rate = [100, 200.5]", "schedule = \"closed\"\nactive = \"1/2\""), "workload.active"),
        (GOOD.replace("[phases]", "requests-per-connection = 1\nactive = \"1/2\"\n[phases]"), "workload.active"),
        (GOOD.replace("[phases]", "[phases]\nsessions = 10"), "phases.sessions"),
        (GOOD.replace("[phases]", "requests-per-connection = 1\nno-overlap = true\n[phases]"), "workload.no-overlap"),
        (GOOD.replace("[phases]", "popularity = \"zipf\"\nno-overlap = true\n[phases]"), "workload.popularity"),
        (GOOD.replace("[phases]", "[client]\nretry-budget = \"10%\"\n[phases]"), "client.retry-budget"),
        (GOOD.replace("[phases]", "ports = 3\n[phases]"), "workload.ports"),
        (service("udp", "connections = 3").replace("connections = 10\n", ""), "workload.connections"),
        (service("udp", "[client]\nrequest-timeout = \"1s\""), "client.request-timeout"),
        (service("stream", "think = \"1ms\""), "workload.think"),
        (service("kv", "request = \"1B\""), "workload.request"),
        (service("http", "[workload.kv]\nrecords = 10"), "workload.kv"),
        (service("kv", "[workload.http]\npaths = \"a\""), "workload.http"),
        (service("kv", "[workload.stream]\npackets = 3"), "workload.stream"),
    ] {
        let unused = unused(&text);
        assert!(unused.iter().any(|it| it.starts_with(&format!("{key} has no effect: only "))), "{key}: {unused:?}");
        assert_eq!(loads(&text), loads(&without(&text, key)), "{key}");
    }
    let sessions = GOOD.replace("[phases]", "requests-per-connection = 1\ntrace = {file = \"a.csv\"}\n[phases]");
    let error = Experiment::parse(&sessions, "x.toml").unwrap_err().to_string();
    assert!(error.contains("workload.trace: needs lasting connections; remove requests-per-connection"), "{error}");
    let closed = GOOD.replace("[phases]", "schedule = \"closed\"\nactive = \"1/2\"\nthink = \"1ms\"\n[phases]");
    let load = &Experiment::of(&closed).loads().unwrap()[0];
    assert_eq!((load.rate_per_s(), load.active(), load.think().mean_ns), (None, 1.0, 1_000_000));
    let free = GOOD.replace("[phases]", "popularity = \"zipf\"\nno-overlap = true\n[phases]");
    let free = &Experiment::of(&free).loads().unwrap()[0];
    assert_eq!((load.no_overlap(), free.no_overlap(), free.popularity()), (false, true, Popularity::Uniform));
}

#[test]
fn window_ends_after_its_sessions_or_its_measure() {
    let text = GOOD.replace("[phases]", "requests-per-connection = 5\n[phases]\nsessions = 30");
    let windows_ns = |text: &str| {
        let loads = Experiment::of(text).loads().unwrap();
        loads.iter().map(|load| load.phases.measure_ns).collect::<Vec<_>>()
    };
    assert_eq!(windows_ns(&text), [1_000_000_000, 748_129_676], "150 requests at 100 and at 200.5 requests/s");
}

#[test]
fn profile_sets_the_rate_and_the_window() {
    let parse = |rate: &str| Experiment::of(&GOOD.replace("rate = [100, 200.5]", rate));
    let profile = "rate-profile = \"hold:100:2s,ramp:100..500:1s\"";
    let of = |experiment: &Experiment| {
        let loads = experiment.loads().unwrap();
        loads.iter().map(|load| (load.rate_per_s().unwrap().round(), load.phases.measure_ns)).collect::<Vec<_>>()
    };
    let experiment = parse(profile);
    assert_eq!(of(&experiment), [(167.0, 3_000_000_000)]);
    experiment.assert_reads_back();
    let scaled = parse(&format!("{profile}\nrate = [1000, 2000]"));
    assert_eq!(of(&scaled), [(1_000.0, 3_000_000_000), (2_000.0, 3_000_000_000)]);
    assert_eq!(scaled.loads().unwrap()[1].peak_per_s().unwrap().round(), 6_000.0);
}

#[test]
fn trace_sets_the_rate_and_the_window() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "time_ms,connection\n0,0\n10,1\n20,2\n30,3\n").unwrap();
    let text = |more: &str| {
        let trace = format!("trace = {{file = {path:?}, speed = 2, from = \"10ms\"}}{more}");
        GOOD.replace("rate = [100, 200.5]", &trace)
    };
    let experiment = Experiment::of(&text(""));
    let load = &experiment.loads().unwrap()[0];
    let trace = load.trace().unwrap();
    assert_eq!((trace.requests, trace.has_connections, load.phases.measure_ns), (3, true, trace.window_ns()));
    assert!((load.rate_per_s().unwrap() - 3.0 / (load.phases.measure_ns as f64 / 1e9)).abs() < 1e-9);
    experiment.assert_reads_back();
    let few = Experiment::of(&text("\nactive = 0.5"));
    assert_eq!(few.loads().unwrap()[0].active(), 1.0, "the trace has the connection of each request");
    let fast = Experiment::of(&text("").replace("speed = 2", "speed = 1e8"));
    assert_eq!(fast.loads().unwrap_err(), "workload.trace.speed: the replay would last less than 1 ns; lower it");
    std::fs::remove_file(&path).unwrap();
    let error = Experiment::of(&text("")).loads().unwrap_err();
    assert!(error.starts_with("workload.trace.file: cannot read ") && error.contains("No such file"), "{error}");
}

#[test]
fn sizes_of_a_trace_are_the_paths_of_http() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "time,bytes\n0,500\n1,10\n2,500\n").unwrap();
    let loads = |more: &str, service: &str| {
        let rate = format!("trace = {{file = {path:?}{more}}}\nservice = {service}");
        let text = GOOD.replace("rate = [100, 200.5]\nrequest = \"1B\"\nresponse = \"10KiB\"", &rate);
        Experiment::of(&text).loads().map(|mut loads| loads.remove(0))
    };
    let load = loads("", "\"http\"").unwrap();
    assert_eq!(load.trace().unwrap().sizes.len(), 2);
    let targets: Vec<_> = load.traffic.http.unwrap().targets.into_iter().map(|it| (it.path, it.body_bytes)).collect();
    assert_eq!(targets, [("/bytes/10".to_owned(), Some(10)), ("/bytes/500".to_owned(), Some(500))]);
    for (other, reason) in [
        ("\"kv\"", "only the service `http` has messages of several sizes"),
        ("\"http\"\n[workload.http]\npaths = \"/\"", "the path of the requests is given"),
    ] {
        let error = loads("", other).unwrap_err();
        assert!(error.starts_with("workload.trace.file: cannot replay the column response_bytes of "), "{error}");
        assert!(error.contains(reason), "{error}");
        assert!(
            loads(", ignore = [\"response_bytes\"]", other).unwrap().traffic.trace().unwrap().sizes.is_empty(),
            "{other}"
        );
    }
    std::fs::write(&path, "time,request_bytes\n0,500\n1,10\n").unwrap();
    let load = loads("", "\"http\"\n[workload.http]\npaths = \"/a\"").unwrap();
    let targets: Vec<_> =
        load.traffic.http.unwrap().targets.into_iter().map(|it| (it.path, it.body.unwrap().len())).collect();
    assert_eq!(targets, [("/a".to_owned(), 10), ("/a".to_owned(), 500)]);
    for (more, reason) in [
        ("paths = [\"/a\", \"/b\"]", "there are several paths"),
        ("method = \"GET\"\nbody = \"x\"", "bodies of their own"),
    ] {
        let error = loads("", &format!("\"http\"\n[workload.http]\n{more}")).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn path_of_a_target_is_the_root_by_default() {
    for (url, transport) in [("http://127.0.0.1:1", "tcp"), ("tcp://127.0.0.1:1", "tcp"), ("unix:/tmp/x", "unix")] {
        let text = format!(
            "name = \"x\"\n[target.a]\nurl = {url:?}\n[workload]\nservice = \"http\"\ntransport = {transport:?}\n"
        );
        let load = Experiment::of(&text).loads().unwrap().remove(0);
        assert_eq!(load.traffic.http.unwrap().targets[0].path, "/", "{url}");
    }
}

#[test]
fn small_file_has_defaults() {
    let experiment = Experiment::of(GOOD);
    assert_eq!(experiment.workload.rate.as_ref().unwrap().0, [Rate(100.0), Rate(200.5)]);
    assert_eq!(experiment.repeats.get(), 6);
    assert_eq!(experiment.client, Client::default());
    experiment.assert_reads_back();
}

#[test]
fn file_with_only_servers_has_the_defaults_of_compare() {
    let parse = |text: &str| Experiment::parse(text, "dir/mine.toml").unwrap();
    let experiment = parse("[target.nginx]\nurl = \"http://127.0.0.1:8080/a\"\n[workload]\nservice = \"http\"\n");
    assert_eq!((experiment.name.as_str(), experiment.architectures.0[0].to_string()), ("mine", "target:nginx".into()));
    let load = &experiment.loads().unwrap()[0];
    assert_eq!((load.connections, load.rate_per_s()), (400, Some(2_000.0)));
    assert_eq!(load.http.as_ref().unwrap().targets[0].path, "/a");
    let fixed = parse("architectures = \"epoll\"");
    let compare = crate::spec::presets::find("compare").unwrap().experiment();
    assert_eq!(
        (fixed.workload.request, fixed.workload.response),
        (compare.workload.request, compare.workload.response)
    );
    assert_eq!(fixed.workload.rate, compare.workload.rate);
    let total = |it: &Experiment| u64::from(it.repeats.get()) * it.phases.measure.0;
    assert!(total(&fixed).abs_diff(total(&compare)) < 200_000_000, "about as much is measured");
    let http = parse("architectures = \"epoll\"\n[workload]\nservice = \"http\"");
    assert_eq!(http.loads().unwrap()[0].http.as_ref().unwrap().targets[0].path, "/bytes/10240");
    let udp = parse("architectures = \"epoll\"\n[workload]\nservice = \"udp\"\n[phases]\nmeasure = \"1s\"");
    assert_eq!((udp.workload.ports.0[0].get(), udp.phases.warm_up), (10, Phases::default().warm_up));
    assert_eq!(Experiment::parse("architectures = \"epoll\"", "standard input").unwrap().name, "experiment");
}

#[test]
fn every_mistake_is_reported_with_its_line() {
    let wrong = [
        ("connections = 10", "conections = 10"),
        ("connections = 10", "connections = 0"),
        ("connections = 10", "connections = -5"),
        ("connections = 10", "connections = []"),
        ("connections = 10", "connections = [10, 10]"),
        ("connections = 10", "connections = 1.5"),
        ("rate = [100, 200.5]", "rate = [100, 0]"),
        ("rate = [100, 200.5]", "rate = nan"),
        ("rate = [100, 200.5]", "rate = \"fast\""),
        ("rate = [100, 200.5]", "rate = true"),
        ("request = \"1B\"", "request = 1"),
        ("request = \"1B\"", "request = \"1\""),
        ("request = \"1B\"", "request = \"0B\""),
        ("request = \"1B\"", "request = \"4GiB\""),
        ("measure = \"1s\"", "measure = \"1 parsec\""),
        ("measure = \"1s\"", "measure = \"0\""),
        ("\"epoll\"", "\"epol\""),
        ("\"epoll\"", "\"mt/epoll\""),
        ("\"epoll\"", "\"epoll:2\""),
        ("name = \"x\"", "name = \"../x\""),
        ("name = \"x\"", "name = \"x\"\nrepeats = 0"),
        ("name = \"x\"", "name = \"x\"\nrepeats = 4294967296"),
        ("name = \"x\"", "name = \"x\"\nseed = -1"),
        ("[phases]", "[phases"),
        ("[phases]", "active = 0\n[phases]"),
        ("[phases]", "active = [\"1/64\", \"150%\"]\n[phases]"),
        ("[phases]", "idle = -1\n[phases]"),
        ("[phases]", "popularity = \"pareto\"\n[phases]"),
        ("[phases]", "schedule = \"random\"\n[phases]"),
        ("[phases]", "schedule = 3\n[phases]"),
        ("[phases]", "kv = 3\n[phases]"),
        ("rate = [100, 200.5]", "rate = 100\nschedule = [\"constant\", \"closed\"]"),
        ("rate = [100, 200.5]", "schedule = \"closed\"\nthink = \"1ms,normal\""),
        ("rate = [100, 200.5]", "rate-profile = \"hodl:10:1s\""),
        ("rate = [100, 200.5]", "trace = {file = \"a.csv\", speed = -1}"),
        ("rate = [100, 200.5]", "trace = {file = \"a.csv\", from = \"peak\"}"),
        (
            "request = \"1B\"\nresponse = \"10KiB\"\n[phases]",
            "service = \"http\"\n[workload.http]\npaths = \"bytes\"\n[phases]",
        ),
        ("request = \"1B\"\n", "service = \"http\"\n[workload.http]\nheaders = [\"Accept\"]\n"),
        (CLOSED_OF, "service = \"http\"\n[workload.http]\nstatus = 200.0\n[phases]"),
        (CLOSED_OF, "service = \"http\"\n[workload.http]\nheaders = [\"Content-Length: 5\"]\n[phases]"),
        (CLOSED_OF, "service = \"http\"\n[workload.http]\nheaders = [\"A: b\\r\\nC: d\"]\n[phases]"),
        (
            CLOSED_OF,
            "service = \"http\"\n[workload.http]\nrequests = [{path = \"/\", headers = [\"Connection: close\"]}]\n[phases]",
        ),
        ("[phases]", "requests-per-connection = 0\n[phases]"),
        (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nrecords = 0\n[phases]"),
        (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nvalue-size = \"9B..2B\"\n[phases]"),
        (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nkeys = \"first\"\n[phases]"),
        (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nrecords = 3000000\n[phases]"),
        (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nvalue-size = \"2MiB\"\n[phases]"),
        ("[phases]", "[client]\ntimestamps = \"hardware\"\n[phases]"),
        ("[phases]", "[client]\nclients = 11\n[phases]"),
        ("[phases]", "[client]\ntimeout = \"0s\"\n[phases]"),
        ("[phases]", "[server]\naccept = \"thundering\"\n[phases]"),
        ("[phases]", "[faces]"),
        ("[phases]", "[network]\nclients = 0\n[phases]"),
        ("[phases]", "[network]\ndelay = 10\n[phases]"),
        ("[phases]", "[network]\ndelay = \"1ms\"\njitter = \"2ms\"\n[phases]"),
        ("[phases]", "[network]\nloss = 0\n[phases]"),
        ("[phases]", "[network]\nloss = \"60%\"\n[phases]"),
        ("[phases]", "[network]\nbandwidth = \"1GB\"\n[phases]"),
        ("[phases]", "[network]\nlatency = \"1ms\"\n[phases]"),
        ("[phases]", "transport = \"unix\"\n[network]\n[phases]"),
        ("\"epoll\"", "\"exec:go\""),
        ("\"epoll\"", "\"exec:\""),
        ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\"]\n[phases]"),
        ("[phases]", "[exec.\"g o\"]\ncommand = [\"go\", \"{port}\"]\n[phases]"),
        ("[phases]", "[exec.go]\ncommand = \"go {port}\"\n[phases]"),
        ("[phases]", "[exec.go]\ncommand = []\n[phases]"),
        ("[phases]", "[exec.go]\ncommand = [\"go\"]\n[phases]"),
        ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\", \"{size}\"]\n[phases]"),
        ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\", \"{socket}\"]\n[phases]"),
        ("[phases]", "transport = \"unix\"\n[exec.go]\ncommand = [\"go\", \"{port}\"]\n[phases]"),
        ("[phases]", "transport = \"udp\"\n[phases]"),
        ("connections = 10", "service = \"udp\"\nports = []"),
        ("connections = 10", "service = \"udp\"\nports = 10"),
        (
            "connections = 10\nrate = [100, 200.5]\nrequest = \"1B\"\n",
            "service = \"udp\"\nports = 10\nrate = 10\nrequest = \"8B\"\ntransport = \"tcp6\"\n",
        ),
        (
            "connections = 10\nrate = [100, 200.5]\nrequest = \"1B\"\n",
            "service = \"udp\"\nports = 10\nschedule = \"closed\"\nrequest = \"8B\"\n",
        ),
        ("architectures = \"epoll\"\n", ""),
        ("[phases]", "[exec.go]\nprogram = \"go\"\n[phases]"),
        ("[phases]", "[exec.go]\ncommand = [\"go\", \"{config}\", \"{port}\"]\n[phases]"),
        ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\"]\nconfig = \"go.in\"\n[phases]"),
        ("\"epoll\"", "\"target:nginx\""),
        ("[phases]", "[target.nginx]\nurl = \"tcp://localhost:1\"\n[phases]"),
        ("[phases]", "[target.nginx]\nurl = \"localhost:1\"\n[phases]"),
        ("\"epoll\"\n[workload]", "\"target:it\"\n[target.it]\nurl = \"http://localhost/\"\n[workload]"),
        ("\"epoll\"\n[workload]", "\"target:it\"\n[target.it]\nurl = \"tcp://localhost:1\"\n[network]\n[workload]"),
        ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\"]\nstart-timeout = \"0\"\n[phases]"),
        ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\"]\nenvironment = {\"A=B\" = \"1\"}\n[phases]"),
        ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\"]\nenvironment = {A = \"{prot}\"}\n[phases]"),
        ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\"]\nenvironment = {A = \"{config}\"}\n[phases]"),
    ];
    let messages: Vec<String> = wrong
        .iter()
        .map(|(good, bad)| {
            assert!(GOOD.contains(good));
            let error = Experiment::parse(&GOOD.replace(good, bad), "x.toml").unwrap_err();
            format!("{bad}\n    {}", error.to_string().replace('\n', "\n    "))
        })
        .collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn changes_of_quick_must_fit_the_experiment() {
    let parse = |quick: &str| Experiment::parse(&format!("{GOOD}[quick]\n{quick}\n"), "x.toml");
    let error = |quick: &str| parse(quick).unwrap_err().to_string();
    let hosts = Experiment::parse(&format!("{GOOD}[network]\nclients = 20\n"), "x.toml").unwrap_err().to_string();
    assert!(hosts.contains("network.clients: cannot divide 10 connections among 20 clients"), "{hosts}");
    let clients = error("connections = 2\nclient = { clients = 4 }");
    assert!(clients.contains("quick: after its changes, client.clients: cannot divide 2 connections"), "{clients}");
    let quick = parse("architectures = \"epoll\"\nconnections = [1, 2]").unwrap().quick();
    assert_eq!((quick.architectures.0.len(), quick.workload.connections.0.len()), (1, 2));
}

#[test]
fn schema_has_the_main_keys_and_rejects_others() {
    let schema = Experiment::schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["additionalProperties"], false);
    let keys =
        ["name", "architectures", "workload", "phases", "network", "server", "client", "placement", "quick", "exec"];
    for key in keys {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
}
