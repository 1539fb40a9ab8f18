use super::*;
use crate::host::Host;
use crate::plan::{Plan, plan};

fn planned(text: &str) -> Result<Plan, String> {
    plan(&Experiment::of(text), &Host::made_up())
}

fn trial<'a>(plan: &'a Plan, name: &str) -> &'a Trial {
    plan.trials.iter().find(|trial| trial.architecture.to_string() == name).unwrap()
}

#[test]
fn target_gets_its_own_address_host_and_path() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let port = address.port();
    let text = |second: &str| {
        format!(
            "architectures = [\"target:a\", \"target:b\"{second}]\n[target.a]\nurl = \"http://localhost:{port}/v1\"\n\
             [target.b]\nurl = \"http://{address}/v2\"\npid = {}\n[workload]\nservice = \"http\"\n",
            std::process::id()
        )
    };
    let plan = planned(&text("")).unwrap();
    let requests = |name: &str| {
        let load = trial(&plan, name).load();
        assert_eq!(load.target, Address::from(address));
        assert_eq!(load.http.as_ref().unwrap().targets.len(), 2);
        (load.client.host.unwrap(), load.client.path.unwrap())
    };
    assert_eq!(requests("target:a"), (format!("localhost:{port}"), "/v1".to_owned()));
    assert_eq!(requests("target:b"), (address.to_string(), "/v2".to_owned()));
    let [a, b] = ["target:a", "target:b"].map(|name| trial(&plan, name));
    assert_eq!(a.workload, b.workload, "both are in one table");
    assert_eq!((a.serve.is_counted(), b.serve.is_counted()), (false, true));
    assert!(a.serve.placed_cpus().is_empty() && a.client.slices.is_some() && b.client.slices.is_some());
    assert!(plan.placement.ends_with("muxbench does not choose the CPUs of targets"), "{}", plan.placement);
    assert!(plan.warnings.iter().any(|warning| warning.starts_with("target:a runs on this host")), "{plan:?}");
    assert_eq!(check_targets(&plan.trials), Ok(()));
    let error = Experiment::parse(&text(", \"epoll\""), "x.toml").unwrap_err().to_string();
    assert!(error.contains("the targets have different paths (/v1, /v2)"), "{error}");
    drop(listener);
    let error = planned(&text("")).unwrap_err();
    assert!(error.starts_with(&format!("target.a: cannot connect to {address}: ")), "{error}");
    assert!(check_targets(&plan.trials).unwrap_err().starts_with("target:a: cannot connect"));
}

#[test]
fn missing_process_and_folder_are_reported_with_their_keys() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let target = |name: &str| format!("[target.{name}]\nurl = \"http://{address}/\"\n");
    let http = "[workload]\nservice = \"http\"\nhttp.folder = \"/none\"\n";
    let missing = format!("{}pid = 2147483647\n", target("a"));
    for other in [String::new(), target("b")] {
        let error = planned(&format!("{missing}{other}{http}")).unwrap_err();
        assert!(error.starts_with("target.a.pid: no process of this host has the ID 2147483647"), "{error}");
    }
    planned(&format!("{}{http}", target("a"))).unwrap();
    for architectures in ["\"epoll\"", "[\"epoll\", \"target:a\"]"] {
        let target = if architectures.contains("target") { target("a") } else { String::new() };
        let error = planned(&format!("architectures = {architectures}\n{target}{http}")).unwrap_err();
        assert!(error.starts_with("workload.http.folder: no folder `/none`; create it"), "{error}");
    }
}

#[test]
fn built_in_servers_need_a_file_for_each_path() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    for file in ["index.html", "a/index.html", "b c"] {
        std::fs::write(folder.path().join(file), "x").unwrap();
    }
    let plan = |more: &str| {
        let http = format!("service = \"http\"\nhttp.folder = {:?}\n{more}", folder.path());
        planned(&format!("architectures = \"epoll\"\n[workload]\n{http}\n"))
    };
    for good in ["/", "/?a", "/a/", "/index.html?b", "/b%20c", "/x/../index.html"] {
        plan(&format!("http.paths = {good:?}")).unwrap();
    }
    plan("http.paths = \"/x\"\nhttp.status = 404").unwrap();
    for bad in ["/x", "/a", "/a/x?y"] {
        let error = plan(&format!("http.paths = {bad:?}")).unwrap_err();
        assert!(
            error.starts_with("workload.http.folder: `") && error.contains(&format!("has no file for {bad};")),
            "{error}"
        );
    }
}

#[test]
fn built_in_servers_answer_given_paths_with_the_given_size() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sizes = |url: &str, more: &str| {
        let text = format!(
            "architectures = [\"epoll\", \"target:it\"]\ntarget.it.url = \"http://{}{url}\"\n[workload]\nservice = \"http\"\n{more}\n",
            listener.local_addr().unwrap()
        );
        let trial = planned(&text).unwrap().trials.remove(0);
        let ServiceSpec::Http { response_bytes, .. } = trial.workload.service else { panic!("{:?}", trial.workload) };
        let target = trial.workload.http.clone().unwrap().targets.remove(0);
        (target.path, target.body_bytes, response_bytes)
    };
    let sized = "response = \"128B\"";
    assert_eq!(sizes("/a", sized), ("/a".into(), Some(128), Some(128)));
    assert_eq!(sizes("", sized), ("/bytes/128".into(), Some(128), None));
    assert_eq!(sizes("/a", ""), ("/a".into(), None, None));
    let folder = sizes("/lib.rs", &format!("{sized}\nhttp.folder = \"src\""));
    assert_eq!(folder, ("/lib.rs".into(), Some(128), None), "the files have sizes of their own");
}

#[test]
fn stored_trials_need_their_folder_and_their_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (content, trace) = (folder.path().join("www"), folder.path().join("a.csv"));
    let create = || {
        std::fs::create_dir(&content).unwrap();
        std::fs::write(content.join("index.html"), "x").unwrap();
    };
    create();
    let write = |rows: &str| std::fs::write(&trace, format!("time_ms\n{rows}")).unwrap();
    write("0\n10\n20\n");
    for servers in ["architectures = \"epoll\"\n", "[exec.it]\ncommand = [\"sh\", \"{port}\", \"{folder}\"]\n"] {
        let text = format!(
            "{servers}[workload]\nservice = \"http\"\ntrace.file = {trace:?}\n\
             http = {{ paths = \"/\", folder = {content:?} }}\n"
        );
        let trials = planned(&text).unwrap().trials;
        assert_eq!(check_files(&trials), Ok(()));
        std::fs::remove_dir_all(&content).unwrap();
        let missing = check_files(&trials).unwrap_err();
        assert!(missing.starts_with(&format!("workload.http.folder: no folder `{}`", content.display())), "{missing}");
        create();
        write("0\n10\n");
        let changed = check_files(&trials).unwrap_err();
        assert!(changed.starts_with("workload.trace.file: ") && changed.contains("begin a new run"), "{changed}");
        write("0\n10\n20\n");
    }
}

#[test]
fn servers_get_the_absolute_path_of_a_folder() {
    let http = "service = \"http\"\nhttp = { folder = \"src\", paths = \"/lib.rs\" }";
    let plan = planned(&format!("architectures = \"epoll\"\n[workload]\n{http}\n")).unwrap();
    let trial = trial(&plan, "epoll");
    let folder = |path: PathBuf| ServiceSpec::Http { folder: Some(path), response_bytes: None };
    assert_eq!(trial.workload.service, folder("src".into()));
    assert_eq!(trial.serve.ours().unwrap().service, folder(std::env::current_dir().unwrap().join("src")));
}

#[test]
fn https_target_gets_its_own_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = |scheme: &str, key: &str| {
        format!(
            "[target.a]\nurl = \"{scheme}://localhost:{port}/v1\"\n[target.b]\nurl = \"http://localhost:{port}/v1\"\n\
             [workload]\nservice = \"http\"\n{key}"
        )
    };
    let plan = planned(&text("https", "tls.insecure = true")).unwrap();
    let tls = |name: &str| trial(&plan, name).client.tls.clone();
    let expected = TlsConfig { server_name: "localhost".into(), is_insecure: true, ..TlsConfig::default() };
    assert_eq!((tls("target:a"), tls("target:b")), (Some(expected), None));
    let stamped = planned(&text("https", "[client]\ntimestamps = \"kernel\"")).unwrap();
    let infeasible = &trial(&stamped, "target:a").infeasible;
    assert!(infeasible.iter().any(|reason| reason.contains("count the bytes of plain text")), "{infeasible:?}");
    let error = planned(&text("https", "tls.cacert = \"/none\"")).unwrap_err();
    assert!(error.starts_with("workload.tls.cacert: cannot read /none"), "{error}");
    let plain = planned(&text("http", "tls.full-handshakes = true")).unwrap();
    assert!(plain.trials.iter().all(|trial| trial.client.tls.is_none()));
    assert!(plain.warnings[0].starts_with("workload.tls has no effect: only "), "{:?}", plain.warnings);
}

#[test]
fn key_of_a_client_is_read_again_and_never_stored() {
    let folder = tempfile::tempdir().unwrap();
    let pem = |name: &str| {
        let file = format!("{}/../load/tests/tls/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(file).unwrap()
    };
    let (certificate, key) = (pem("localhost.pem"), pem("localhost.key"));
    let [cert_file, key_file] = ["cert", "key"].map(|name| folder.path().join(name));
    std::fs::write(&key_file, &key).unwrap();
    let apart = format!("tls = {{ cert = {cert_file:?}, key = {key_file:?} }}");
    for (written, keys) in [
        (certificate.clone(), apart.clone()),
        // As curl has it, the file of the certificate may have the key.
        (format!("{key}{certificate}"), format!("tls.cert = {cert_file:?}")),
    ] {
        std::fs::write(&cert_file, written).unwrap();
        let trials = planned(&format!("architectures = \"epoll\"\n[workload]\n{keys}\n")).unwrap().trials;
        let stored = serde_json::to_string(&trials).unwrap();
        assert!(stored.contains("BEGIN CERTIFICATE") && !stored.contains("PRIVATE KEY"), "{stored}");
        assert_eq!(check_files(&trials), Ok(()));
        assert!(wire::secret::reveal(&stored).unwrap().contains("PRIVATE KEY"));
    }
    std::fs::write(&cert_file, pem("other.pem")).unwrap();
    let error = planned(&format!("architectures = \"epoll\"\n[workload]\n{apart}\n")).unwrap_err();
    assert!(error.starts_with("workload.tls.cert: ") && error.contains("name the key of this certificate"), "{error}");
    let alone = planned(&format!("architectures = \"epoll\"\n[workload]\ntls.key = {key_file:?}\n")).unwrap_err();
    assert!(alone.starts_with("workload.tls.key: ") && alone.ends_with("add cert (--cert)"), "{alone}");
}

#[test]
fn unusable_trusted_certificates_are_refused_by_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let error = || planned(&format!("architectures = \"epoll\"\n[workload]\ntls.cacert = {file:?}\n")).unwrap_err();
    let missing = error();
    assert!(missing.starts_with("workload.tls.cacert: cannot read "), "{missing}");
    assert!(missing.ends_with("; name a file in PEM format"), "{missing}");
    for (pem, reason) in [
        ("no certificate", "has no certificate in PEM format; try another file"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ": invalid certificate in --cacert: "),
    ] {
        std::fs::write(&file, pem).unwrap();
        let error = error();
        assert!(error.starts_with("workload.tls.cacert: cannot trust ") && error.contains(reason), "{error}");
    }
}

#[test]
fn tls_of_only_some_servers_causes_a_warning() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let warnings = |servers: &str, scheme: &str, tls: &str| {
        let text = format!(
            "architectures = [{servers}]\n[target.a]\nurl = \"{scheme}://localhost:{port}/\"\n\
             [workload]\nservice = \"http\"\n{tls}\n"
        );
        planned(&text).unwrap().warnings.join("\n")
    };
    let mixed = "\"epoll\", \"target:a\"";
    for (scheme, tls, words) in [
        ("http", "tls = {}", "some servers have TLS (epoll), and others do not (target:a)"),
        ("https", "", "some servers have TLS (target:a), and others do not (epoll)"),
    ] {
        let warned = warnings(mixed, scheme, tls);
        assert!(warned.contains(words), "{warned}");
    }
    for (servers, scheme, tls) in [(mixed, "http", ""), (mixed, "https", "tls = {}"), ("\"target:a\"", "https", "")] {
        assert!(!warnings(servers, scheme, tls).contains("TLS"), "{scheme} {tls}");
    }
}

#[test]
fn paths_come_from_requests_urls_or_the_size_of_responses() {
    let paths = |url: &str, workload: &str| {
        let text = format!("[target.a]\nurl = \"{url}\"\n[workload]\nservice = \"http\"\n{workload}");
        let loads = Experiment::parse(&text, "x.toml").map_err(|error| error.to_string())?.loads()?;
        let targets = &loads[0].http.as_ref().unwrap().targets;
        Ok::<_, String>((targets[0].path.clone(), targets[0].body_bytes))
    };
    assert_eq!(paths("http://h", ""), Ok(("/".into(), None)));
    assert_eq!(paths("http://h/a", "response = \"1B\""), Ok(("/a".into(), Some(1))));
    assert_eq!(paths("http://h", "response = \"1B\""), Ok(("/bytes/1".into(), Some(1))));
    assert_eq!(paths("http://h/", "http.paths = \"/b\""), Ok(("/b".into(), None)));
    assert_eq!(paths("http://h", "http.requests = [{ path = \"/c\" }]"), Ok(("/c".into(), None)));
    let error = paths("http://h/a", "http.paths = \"/b\"").unwrap_err();
    assert!(error.contains("target.a.url: `http://h/a` has a path") && error.contains("omit one"), "{error}");
}

#[test]
fn missing_program_of_a_shell_command_gets_a_shell() {
    for (command, words) in [
        ("'PORT=1', './srv', '{port}'", "without a shell; write sh -c '...'"),
        ("'export', 'A=1', '{port}'", "write sh -c '...'"),
        ("'none', '{port}', '>', 'log'", "write sh -c '...'"),
        ("'none', '{port}', '--a=b'", "build or install it, or give its full path"),
    ] {
        let error = planned(&format!("[exec.it]\ncommand = [{command}]\n")).unwrap_err();
        assert!(error.starts_with("exec.it.command: ") && error.ends_with(words), "{error}");
    }
}

#[test]
fn configuration_file_is_read_into_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("it.conf.in");
    let text = format!(
        "[exec.it]\ncommand = [\"sh\", \"{{config}}\"]\nconfig = \"it.conf.in\"\ndirectory = {:?}\n",
        folder.path()
    );
    let error = planned(&text).unwrap_err();
    assert!(error.starts_with("exec.it.config: cannot read ") && error.contains("it.conf.in"), "{error}");
    std::fs::write(&template, "listen 80").unwrap();
    assert!(planned(&text).unwrap_err().contains("does not contain `{port}`"));
    std::fs::write(&template, "listen {port}").unwrap();
    let plan = planned(&text).unwrap();
    assert!(plan.trials[0].serve.needs_dir());
    let shown = crate::record::commands(&plan.trials).join("\n");
    assert!(shown.starts_with("exec:it: sh {config} (with it.conf)"), "{shown}");
}
