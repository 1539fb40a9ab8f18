//! Checks of dependencies against `deny.toml`: licences, sources, withdrawn versions, advisories.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use cargo_metadata::{CargoOpt, Metadata, MetadataCommand, Package};
use serde::Deserialize;
use spdx::{Expression, ParseMode};
use xtask::root;

use crate::command;

/// What is read of `deny.toml`. cargo-deny reads the rest.
#[derive(Deserialize)]
struct Deny {
    graph: Graph,
    licenses: Licences,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

/// Licences that are allowed for one crate only.
#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

/// Checks all dependencies. Withdrawn versions are an error only if `denies_withdrawn`: a version may be withdrawn at any time, and
/// this must not make the tests of an unchanged tree fail.
pub fn run(denies_withdrawn: bool) -> anyhow::Result<()> {
    let deny: Deny = toml::from_str(&xtask::read(&root().join("deny.toml"))?).context("deny.toml")?;
    let metadata = metadata(&deny.graph.targets)?;
    let is_other = |package: &&Package| !metadata.workspace_members.contains(&package.id);
    let others: Vec<&Package> = metadata.packages.iter().filter(is_other).collect();
    ensure!(!others.is_empty(), "`cargo metadata` lists no dependency");
    let (mut errors, mut withdrawn) = (Vec::new(), Vec::new());
    for package in &others {
        errors.extend(unknown_source(package));
        errors.extend(licence(package, &deny.licenses));
        withdrawn.extend(withdrawal(package));
    }
    println!("dependencies: {} crates, {} withdrawn", others.len(), withdrawn.len());
    if denies_withdrawn {
        errors.append(&mut withdrawn);
    }
    withdrawn.iter().for_each(|warning| println!("  {warning}"));
    advisories()?;
    ensure!(errors.is_empty(), "deny.toml does not allow:\n{}", errors.join("\n"));
    Ok(())
}

/// Returns the dependencies for any of these targets.
fn metadata(targets: &[String]) -> anyhow::Result<Metadata> {
    let platforms = targets.iter().flat_map(|target| ["--filter-platform".to_owned(), target.clone()]);
    MetadataCommand::new()
        .cargo_path(env!("CARGO"))
        .current_dir(root())
        .features(CargoOpt::AllFeatures)
        .other_options(["--locked".to_owned()].into_iter().chain(platforms).collect::<Vec<_>>())
        .exec()
        .context("`cargo metadata --locked` fails; check that Cargo.lock matches the manifests")
}

/// Returns an error if a package is not from crates.io.
fn unknown_source(package: &Package) -> Option<String> {
    let source = package.source.as_ref();
    let place = source.map_or("a folder", |source| &source.repr);
    let is_known = source.is_some_and(cargo_metadata::Source::is_crates_io);
    (!is_known).then(|| format!("{}: its source is {place}; use a version from crates.io", package.id))
}

/// Returns an error if a package's licence is not allowed.
fn licence(package: &Package, licences: &Licences) -> Option<String> {
    let own = licences.exceptions.iter().filter(|exception| exception.name == *package.name).flat_map(|it| &it.allow);
    let allowed: Vec<&str> = licences.allow.iter().chain(own).map(String::as_str).collect();
    let terms = package.license.as_deref().unwrap_or_default();
    refusal(terms, &allowed).map(|reason| format!("{} {}: {reason}", package.name, package.version))
}

/// Returns an error if these terms are not allowed. Old manifests write `/` instead of `OR`.
fn refusal(terms: &str, allowed: &[&str]) -> Option<String> {
    let expression = match Expression::parse_mode(terms, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("its licence `{terms}` is missing or invalid: {error}")),
    };
    // Ignore exceptions (`WITH`), because they only add permissions.
    let is_allowed = expression.evaluate(|term| term.license.id().is_some_and(|id| allowed.contains(&id.name)));
    (!is_allowed).then(|| format!("its licence is {terms}; remove the dependency, or allow the licence"))
}

/// Returns an error if cargo's copy of the index marks the version of a package as withdrawn.
fn withdrawal(package: &Package) -> Option<String> {
    let name = package.name.to_ascii_lowercase();
    let place = match name.len() {
        1 | 2 => format!("{}/{name}", name.len()),
        3 => format!("3/{}/{name}", &name[..1]),
        _ => format!("{}/{}/{name}", &name[..2], &name[2..4]),
    };
    let registries = fs::read_dir(cargo_home()?.join("registry/index")).into_iter().flatten().flatten();
    let mut files = registries.filter_map(|it| fs::read(it.path().join(".cache").join(&place)).ok());
    let version = package.version.to_string();
    let is_withdrawn = files.find_map(|file| is_withdrawn(&file, &version))?;
    is_withdrawn.then(|| format!("{name} {version}: its authors have withdrawn it; run `cargo update {name}`"))
}

fn cargo_home() -> Option<PathBuf> {
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".cargo")))
}

/// Returns whether an index file marks a version as withdrawn; `None` if it does not list the version. The file has
/// zero-terminated texts, including one JSON object for each version.
fn is_withdrawn(file: &[u8], version: &str) -> Option<bool> {
    #[derive(Deserialize)]
    struct Entry {
        vers: String,
        yanked: bool,
    }
    let mut entries = file.split(|&byte| byte == 0).filter_map(|text| serde_json::from_slice::<Entry>(text).ok());
    entries.find(|entry| entry.vers == version).map(|entry| entry.yanked)
}

/// Checks RustSec's advisories, if cargo-deny and a copy of their database are installed.
fn advisories() -> anyhow::Result<()> {
    let has_database = cargo_home().is_some_and(|home| home.join("advisory-dbs").is_dir());
    if !has_database || command::run(command::cargo().args(["deny", "--version"])).is_err() {
        println!(
            "advisories: not checked, because cargo-deny or its copy of RustSec's database is missing; run `cargo install \
             --locked cargo-deny && cargo deny fetch`"
        );
        return Ok(());
    }
    command::step(command::cargo().args(["deny", "--offline", "check", "advisories"]).current_dir(root()), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_is_refused_unless_one_choice_is_allowed() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
        for terms in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert_eq!(refusal(terms, &allowed), None, "{terms}");
        }
        for terms in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "LicenseRef-mine", "whatever", ""] {
            assert!(refusal(terms, &allowed).is_some(), "{terms}");
        }
    }

    #[test]
    fn index_file_marks_withdrawn_versions() {
        let file = b"\x03\x02\0etag: \"x\"\x001.0.0\0{\"vers\":\"1.0.0\",\"yanked\":false}\x001.0.1\
            \0{\"vers\":\"1.0.1\",\"deps\":[],\"yanked\":true}\0";
        assert_eq!(is_withdrawn(file, "1.0.0"), Some(false));
        assert_eq!(is_withdrawn(file, "1.0.1"), Some(true));
        assert_eq!(is_withdrawn(file, "1.0.2"), None);
        assert_eq!(is_withdrawn(b"{", "1.0.0"), None);
    }
}
