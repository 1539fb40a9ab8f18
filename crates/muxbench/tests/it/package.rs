//! Packages with a small program in place of muxbench, and the Python module, as a user's tools see them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use load::Sample;
use xtask::package::{self, About, PROCESSORS};

use crate::cases::{Cases, case};
use crate::common::{prepared, skipped, store};

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn printed(command: &mut Command) -> String {
    String::from_utf8(succeed(command).stdout).unwrap()
}

fn debian_package_has_program_manual_and_completions() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        skipped("dpkg-deb is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (program, tested) = (folder.path().join("program"), Path::new(env!("CARGO_BIN_EXE_muxbench")));
    fs::write(&program, format!("#!/bin/sh\nexec '{}' \"$@\"\n", tested.display())).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let portable = folder.path().join("muxbench-linux");
    package::portable(&program, tested, &portable).unwrap();
    let about = About { version: env!("CARGO_PKG_VERSION").into(), summary: env!("CARGO_PKG_DESCRIPTION").into() };
    let package = folder.path().join("muxbench.deb");
    package::deb(&about, PROCESSORS[0], &portable, &package).unwrap();
    let fields = printed(Command::new("dpkg-deb").arg("--field").arg(&package));
    assert!(fields.contains("Package: muxbench\n") && fields.contains("Architecture: amd64\n"), "{fields}");
    let root = folder.path().join("root");
    succeed(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&root));
    let version = |program: &Path| printed(Command::new(program).arg("--version"));
    assert_eq!(version(&root.join("usr/bin/muxbench")), version(tested));
    for path in [
        "usr/share/man/man1/muxbench.1.gz",
        "usr/share/man/man1/muxbench-compare.1.gz",
        "usr/share/bash-completion/completions/muxbench",
        "usr/share/zsh/vendor-completions/_muxbench",
        "usr/share/fish/vendor_completions.d/muxbench.fish",
        "usr/share/doc/muxbench/copyright",
    ] {
        assert!(fs::metadata(root.join(path)).unwrap().len() > 0, "{path}");
    }
    let page = printed(Command::new("zcat").arg(root.join("usr/share/man/man1/muxbench-compare.1.gz")));
    assert!(page.starts_with(".ie") && page.contains("\\-\\-connections"), "{page}");
}

/// The release tries the wheel, because maturin compiles the program for it.
fn python_module_reads_runs_into_frames() {
    let python = prepared("MUXBENCH_PYTHON", "python");
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let made_up = testkit::run();
    store(&run, &made_up);
    let samples = harness::store::samples_path(&run, 0);
    fs::create_dir_all(samples.parent().unwrap()).unwrap();
    let sample = Sample { planned_ns: 1_000, sent_ns: 3_000, complete_ns: 10_000, ..Sample::UNKNOWN };
    harness::samples::write(&samples, &[sample], &[]).unwrap();
    let [module, script] =
        ["../../python", "tests/read_frames.py"].map(|path| Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
    let output = printed(Command::new(&python).env("PYTHONPATH", module).arg(script).arg(&run));
    let read: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(read["rows"], made_up.records.len());
    assert_eq!(read["name"], made_up.header.name);
    let expected: Vec<u64> =
        made_up.records.iter().map(|it| it.load.as_ref().map_or(0, |load| load.service.distribution.p90_ns)).collect();
    assert_eq!(read["p90_ns"], serde_json::json!(expected));
    assert_eq!(read["samples"], serde_json::json!([[2_000, 7_000, 9_000]]));
    assert_eq!(read["host"], serde_json::json!(made_up.header.host));
    assert_eq!(read["load"], serde_json::json!(made_up.records[0].load));
    assert_eq!(read["damaged"], "cannot read trial 0");
}

pub fn cases(cases: &mut Cases) {
    cases.once(case!(debian_package_has_program_manual_and_completions));
    cases.once(case!(python_module_reads_runs_into_frames));
}
