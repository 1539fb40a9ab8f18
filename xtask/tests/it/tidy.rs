//! Checks of the source tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use xtask::{cycles, root};

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    xtask::files(folder, extension).unwrap()
}

#[test]
fn crates_depend_only_on_allowed_crates() {
    // The crates of this workspace on which each crate may depend. Its tests may use others.
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("wire", [].as_slice()),
        ("stats", &[]),
        ("server", &["wire"]),
        ("load", &["wire", "stats"]),
        ("traffic", &["server", "load", "stats"]),
        ("process", &["server", "wire"]),
        ("profile", &[]),
        ("netns", &["process", "server", "load", "wire", "stats"]),
        ("harness", &["netns", "process", "profile", "traffic", "server", "load", "wire", "stats"]),
        ("fleet", &["harness", "netns", "process", "load", "wire"]),
        ("report", &["harness", "profile", "traffic", "server", "load", "wire", "stats"]),
        ("papers", &["report", "harness", "load", "wire", "stats"]),
        (
            "muxbench",
            &[
                "papers", "report", "fleet", "harness", "netns", "process", "profile", "traffic", "server", "load",
                "wire", "stats",
            ],
        ),
        ("testkit", &["harness", "server", "load", "wire", "stats"]),
        ("xtask", &["load", "wire", "stats"]),
    ]);
    for (name, allowed_here) in &allowed {
        let folder = if *name == "xtask" { root().join("xtask") } else { root().join("crates").join(name) };
        let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        for dependency in manifest["dependencies"].as_table().unwrap().keys() {
            let ours = allowed.contains_key(dependency.as_str());
            assert!(!ours || allowed_here.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
    let crates = fs::read_dir(root().join("crates")).unwrap().count();
    assert_eq!(crates + 1, allowed.len(), "every crate needs a row above");
}

#[test]
fn files_of_a_crate_form_no_new_cycles() {
    // The number of files with cyclic dependencies in each crate; 0 for crates that are not listed. Lower a number with each
    // removed cycle.
    let known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = String::new();
    for (name, cycles) in cycles::of_workspace(root()).unwrap() {
        let files: usize = cycles.iter().map(|cycle| cycle.files.len()).sum();
        let known = known.get(name.as_str()).copied().unwrap_or(0);
        if files > known {
            let list: Vec<String> = cycles.iter().map(ToString::to_string).collect();
            wrong += &format!(
                "{files} files of `{name}` have cyclic dependencies, and the limit is {known}; to remove `a -> b: item`, move \
                 the item to a file that uses neither a nor b:\n{}",
                list.join("\n")
            );
        } else if files < known {
            wrong += &format!(
                "only {files} files of `{name}` have cyclic dependencies: lower its limit of {known} in this test\n"
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn mechanisms_have_a_file_and_a_row() {
    let source = root().join("crates/server/src");
    let readiness = files(&source.join("readiness"), "rs");
    let completion: Vec<PathBuf> =
        fs::read_dir(source.join("completion")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let written: Vec<String> = readiness
        .iter()
        .chain(&completion)
        .map(|path| path.file_stem().unwrap().to_string_lossy().replace('_', "-"))
        .filter(|name| !["mod", "skeleton", "tests"].contains(&name.as_str()))
        .collect();
    let names: Vec<String> = server::registry::MECHANISMS.iter().map(|row| row.name.replace('_', "-")).collect();
    // These rows are not compiled on Linux, so search for them in the source.
    let table = fs::read_to_string(root().join("crates/server/src/registry.rs")).unwrap().replace('_', "-");
    for file in &written {
        let is_elsewhere =
            ["dev-poll", "event-ports", "kqueue"].contains(&file.as_str()) && table.contains(&format!("\"{file}\""));
        // The rows of a wrapper of other mechanisms end with its name.
        let is_row_of = |name: &String| name == file || name.ends_with(&format!("-{file}"));
        assert!(names.iter().any(is_row_of) || is_elsewhere, "{file} has no row in MECHANISMS");
    }
    for name in &names {
        // A variant has no file; its name begins with the name of its mechanism, which has one.
        let is_variant_of = |file: &String| name.strip_prefix(file.as_str()).is_some_and(|rest| rest.starts_with('-'));
        assert!(written.iter().any(|file| file == name || is_variant_of(file)), "mechanism {name} has no file");
    }
}

#[test]
fn runtimes_have_a_file_a_feature_and_a_row() {
    let mut from_files: Vec<String> = files(&root().join("crates/server/src/runtimes"), "rs")
        .iter()
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| !["mod", "common", "owned"].contains(&name.as_str()))
        .collect();
    from_files.sort();
    let mut features = server::runtimes::FEATURES.to_vec();
    features.sort_unstable();
    assert_eq!(from_files, features);
    for package in ["server", "muxbench"] {
        let manifest = fs::read_to_string(root().join("crates").join(package).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        for feature in &features {
            assert!(
                manifest["features"].as_table().unwrap().contains_key(*feature),
                "{package} lacks the feature {feature}"
            );
        }
    }
    for feature in features {
        // In a build without the feature, the error names the feature.
        match feature.parse::<server::Architecture>() {
            Ok(architecture) => assert_eq!(architecture.model.name, feature),
            Err(error) => assert!(error.to_string().contains(&format!("--features {feature}")), "{error}"),
        }
    }
}

#[test]
fn every_model_and_mechanism_has_a_paragraph() {
    let text = fs::read_to_string(root().join("docs/architectures.md")).unwrap();
    let models = server::registry::MODELS.iter().map(|row| row.name);
    for name in models.chain(server::registry::MECHANISMS.iter().map(|row| row.name)) {
        assert!(text.contains(&format!("**`{name}`**")), "docs/architectures.md has no paragraph about {name}");
    }
}

#[test]
fn every_experiment_file_is_a_preset_that_plans() {
    let files = files(&root().join("experiments"), "toml");
    assert_eq!(files.len(), harness::spec::presets::PRESETS.len());
    for path in files {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let experiment =
            harness::spec::presets::find(&name).unwrap_or_else(|| panic!("{name} is not in PRESETS")).experiment();
        harness::plan::plan(&experiment, &harness::host::Host::made_up()).unwrap();
    }
}

#[test]
fn models_and_services_have_unique_names_and_descriptions() {
    let rows = server::registry::MODELS.iter().map(|row| (row.name, row.about));
    let rows: Vec<_> = rows.chain(wire::SERVICES.iter().map(|row| (row.name, row.about))).collect();
    for (at, (name, about)) in rows.iter().enumerate() {
        assert!(!about.is_empty(), "{name} has no description");
        assert!(rows[..at].iter().all(|(earlier, _)| earlier != name), "{name} occurs twice");
    }
}

#[test]
fn architecture_names_parse_to_the_same_architecture() {
    for architecture in server::Architecture::all() {
        assert_eq!(architecture.to_string().parse(), Ok(architecture));
    }
    assert_eq!("sped/epoll".parse(), "epoll".parse::<server::Architecture>());
}

#[test]
fn unsafe_code_is_only_in_listed_files() {
    let allowed = [
        "crates/load/src/time/clock.rs",
        "crates/load/src/loops/datagram/unreachable.rs",
        "crates/load/src/io/interface.rs",
        "crates/load/src/io/platform/linux.rs",
        "crates/load/src/io/stamps.rs",
        "crates/load/src/record/summary.rs",
        "crates/load/src/io/poller/kqueue.rs",
        "crates/fleet/src/round_trip.rs",
        "crates/harness/src/host/elsewhere.rs",
        "crates/netns/src/namespace.rs",
        "crates/netns/src/probe.rs",
        "crates/netns/src/relay.rs",
        "crates/harness/src/host/probe.rs",
        "crates/process/src/stop.rs",
        "crates/muxbench/tests/it/accept.rs",
        "crates/muxbench/tests/it/common/mod.rs",
        "crates/muxbench/tests/it/udp.rs",
        "crates/server/src/socket/destination.rs",
        "crates/server/src/socket/steering/bpf.rs",
        "crates/server/src/socket/steering/state.rs",
        "crates/netns/src/napi.rs",
        "crates/server/src/external/server.rs",
        "crates/server/src/readiness/dev_poll.rs",
        "crates/server/src/readiness/epoll.rs",
        "crates/server/src/readiness/event_ports.rs",
        "crates/server/src/completion/io_uring/mod.rs",
        "crates/server/src/completion/io_uring/buffers.rs",
        "crates/server/src/completion/io_uring/datagrams.rs",
        "crates/server/src/completion/io_uring/send_buffers.rs",
        "crates/server/src/completion/io_uring/tests.rs",
        "crates/server/src/readiness/io_uring_epoll.rs",
        "crates/server/src/readiness/io_uring_poll.rs",
        "crates/server/src/readiness/kqueue.rs",
        "crates/server/src/readiness/poll.rs",
        "crates/server/src/readiness/rt_signal.rs",
        "crates/server/src/readiness/select.rs",
        "crates/server/src/readiness/skeleton.rs",
        "crates/server/src/net/blocking.rs",
        "crates/server/src/net/children.rs",
        "crates/server/src/net/pool.rs",
        "crates/server/src/net/completion_loop.rs",
        "crates/server/src/net/datagrams/batch.rs",
        "crates/server/src/net/datagrams/completion.rs",
        "crates/server/src/platform/busy_poll.rs",
        "crates/server/src/platform/freebsd.rs",
        "crates/server/src/platform/illumos.rs",
        "crates/server/src/platform/linux.rs",
        "crates/server/src/platform/macos.rs",
        "crates/server/src/platform/mod.rs",
        "crates/server/src/external/spawn.rs",
        "crates/server/src/metrics/tracepoints.rs",
        "crates/server/src/runtimes/common.rs",
        "crates/server/src/runtimes/glommio.rs",
        "crates/server/src/runtimes/may.rs",
        "crates/server/src/runtimes/monoio.rs",
        "crates/server/src/metrics/workers.rs",
        "crates/server/tests/it/accounting.rs",
        "crates/server/tests/it/allocations.rs",
        "xtask/tests/it/tidy.rs",
    ];
    for path in files(&root().join("crates"), "rs").into_iter().chain(files(&root().join("xtask"), "rs")) {
        let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            !text.contains("unsafe {") || allowed.contains(&name.as_str()),
            "{name} has unsafe code and is not listed"
        );
    }
}

#[test]
fn only_output_rs_prints() {
    // Printing macros panic if standard error is full or closed.
    let place = root().join("crates/muxbench/src");
    for path in files(&place, "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(&place).unwrap().display();
        for word in ["eprint", "println!", "print!("] {
            assert!(!text.contains(word), "{name} must print with the functions of output.rs, not with {word}");
        }
    }
}

#[test]
fn wall_clock_is_read_only_where_it_changes_no_figure() {
    // Uses: start times of runs and trials, the key-value store's expiry, HTTP's `Date`, and the conversion of the kernel's
    // timestamps, which are wall-clock times.
    let allowed = [
        "crates/harness/src/exec/runner.rs",
        "crates/load/src/time/clock.rs",
        "crates/muxbench/src/execution.rs",
        "crates/server/src/service/mod.rs",
    ];
    let words = ["SystemTime::now", "Timestamp::now", "Zoned::now", "ClockId::Realtime", "CLOCK_REALTIME,"];
    let mut found = Vec::new();
    for path in files(&root().join("crates"), "rs") {
        let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        if !name.contains("/tests/") && words.iter().any(|word| text.contains(word)) {
            found.push(name);
        }
    }
    assert_eq!(found, allowed);
}
