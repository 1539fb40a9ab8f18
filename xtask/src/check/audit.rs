//! Checks of dependencies: licences, sources and versions against `deny.toml`, withdrawn versions, advisories. And a summary.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Package, PackageId, TargetKind};
use serde::Deserialize;
use spdx::{Expression, ParseMode};
use xtask::root;

use crate::command;

/// Prints a summary and checks all dependencies. Withdrawn versions are an error only if `denies_withdrawn`: a version may be
/// withdrawn at any time, and this must not make the tests of an unchanged tree fail.
pub fn run(denies_withdrawn: bool) -> anyhow::Result<()> {
    let path = root().join("deny.toml");
    let place = || path.display().to_string();
    // cargo-deny reads the rest of the file.
    let deny: toml::Value = toml::from_str(&fs::read_to_string(&path).with_context(place)?).with_context(place)?;
    let entry = |table: &str, key: &str| {
        let value = deny.get(table).and_then(|table| table.get(key)).cloned();
        value.with_context(|| format!("{}: there is no `{key}` in `[{table}]`", place()))
    };
    let targets: Vec<String> = entry("graph", "targets")?.try_into().with_context(place)?;
    let licences: Vec<String> = entry("licenses", "allow")?.try_into().with_context(place)?;
    let exceptions: Vec<Exception> = entry("licenses", "exceptions")?.try_into().with_context(place)?;
    let metadata = metadata(&targets)?;
    let (ours, others): (Vec<&Package>, Vec<&Package>) =
        metadata.packages.iter().partition(|package| metadata.workspace_members.contains(&package.id));
    ensure!(!others.is_empty(), "`cargo metadata` lists no dependency");
    print_summary(&metadata, &others)?;
    println!("allowed licences: {}", licences.join(", "));
    let mut errors: Vec<String> =
        others.iter().filter_map(|package| licence(package, &licences, &exceptions)).collect();
    let mut report = |level: &str, findings: Vec<String>| {
        match level {
            "deny" => errors.extend(findings),
            "warn" => findings.iter().for_each(|finding| println!("  {finding}")),
            "allow" => {}
            other => bail!("{}: invalid level `{other}`: use deny, warn or allow", place()),
        }
        anyhow::Ok(())
    };
    let level = |table, key| entry(table, key).map(|level| level.as_str().unwrap_or_default().to_owned());
    for (key, is_git) in [("unknown-registry", false), ("unknown-git", true)] {
        let unknown = others.iter().filter_map(|package| unknown_source(package, is_git)).collect();
        report(&level("sources", key)?, unknown)?;
    }
    report(&level("bans", "wildcards")?, ours.iter().flat_map(|package| wildcards(package)).collect())?;
    let (withdrawn, known) = withdrawn(&others);
    println!("withdrawn versions: {} of {known} that the local index lists", withdrawn.len());
    report(if denies_withdrawn { "deny" } else { "warn" }, withdrawn)?;
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

fn print_summary(metadata: &Metadata, others: &[&Package]) -> anyhow::Result<()> {
    let in_program = in_program(metadata)?;
    let has = |package: &Package, kind: &TargetKind| package.targets.iter().any(|target| target.kind.contains(kind));
    let count = |is: &dyn Fn(&Package) -> bool| others.iter().filter(|package| is(package)).count();
    let mut bytes = 0;
    for package in others {
        bytes += size(package.manifest_path.parent().context("a manifest is in a folder")?.as_std_path())?;
    }
    println!(
        "dependencies: {} crates, {} MiB of sources; {} for the program, the others for tests and tools",
        others.len(),
        bytes >> 20,
        count(&|package| in_program.contains(&package.id))
    );
    let with_c: Vec<&str> =
        others.iter().filter(|package| package.links.is_some()).map(|package| package.name.as_str()).collect();
    println!(
        "run while building: {} build scripts, {} macros; with C: {}",
        count(&|package| has(package, &TargetKind::CustomBuild)),
        count(&|package| has(package, &TargetKind::ProcMacro)),
        with_c.join(", "),
    );
    let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for package in others {
        versions.entry(&package.name).or_default().insert(package.version.to_string());
    }
    versions.retain(|_, versions| versions.len() > 1);
    let several = versions.into_iter().map(|(name, all)| format!("{name} {}", Vec::from_iter(all).join(" and ")));
    println!("in several versions: {}", several.collect::<Vec<_>>().join(", "));
    Ok(())
}

/// Returns the packages that are linked into muxbench or needed to build it.
fn in_program(metadata: &Metadata) -> anyhow::Result<BTreeSet<&PackageId>> {
    let resolve = metadata.resolve.as_ref().context("`cargo metadata` resolves nothing")?;
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let start = metadata.packages.iter().find(|package| package.name == "muxbench").context("there is no muxbench")?;
    let (mut found, mut left) = (BTreeSet::new(), vec![&start.id]);
    while let Some(id) = left.pop() {
        if found.insert(id) {
            let is_built =
                |dep: &&cargo_metadata::NodeDep| dep.dep_kinds.iter().any(|it| it.kind != DependencyKind::Development);
            left.extend(nodes[id].deps.iter().filter(is_built).map(|dep| &dep.pkg));
        }
    }
    Ok(found)
}

fn size(folder: &Path) -> anyhow::Result<u64> {
    let place = || folder.display().to_string();
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(place)? {
        let entry = entry.with_context(place)?;
        let metadata = entry.metadata().with_context(place)?;
        bytes += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

/// Returns an error if a package has a forbidden source: git if `is_git`; otherwise any source except crates.io and git.
fn unknown_source(package: &Package, is_git: bool) -> Option<String> {
    let source = package.source.as_ref();
    let is_published = source.is_some_and(cargo_metadata::Source::is_crates_io);
    let is_elsewhere = !is_published && source.is_some_and(|it| it.repr.starts_with("git+")) == is_git;
    let place = source.map_or("a folder", |source| &source.repr);
    is_elsewhere.then(|| format!("{}: its source is {place}; use a version from crates.io", package.id))
}

/// Returns an error for each external crate of which this package of ours accepts any version.
fn wildcards(package: &Package) -> impl Iterator<Item = String> {
    let external = package.dependencies.iter().filter(|it| it.path.is_none());
    external
        .filter(|it| it.req.to_string() == "*")
        .map(|it| format!("{}: it accepts any version of {}; name a version", package.name, it.name))
}

/// Licences that are allowed for one crate only.
#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

/// Returns an error if a package's licence is not allowed.
fn licence(package: &Package, allowed: &[String], exceptions: &[Exception]) -> Option<String> {
    let own = exceptions.iter().filter(|exception| exception.name == *package.name).flat_map(|it| &it.allow);
    let allowed: Vec<String> = allowed.iter().chain(own).cloned().collect();
    let name = format!("{} {}", package.name, package.version);
    let Some(terms) = &package.license else { return Some(format!("{name}: its manifest names no licence")) };
    refusal(terms, &allowed).map(|reason| format!("{name}: {reason}"))
}

/// Returns an error if these terms are not allowed. Old manifests write `/` instead of `OR`.
fn refusal(terms: &str, allowed: &[String]) -> Option<String> {
    let expression = match Expression::parse_mode(terms, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("its licence is invalid: {error}")),
    };
    // Ignore exceptions (`WITH`), because they only add permissions.
    let is_allowed =
        expression.evaluate(|term| term.license.id().is_some_and(|id| allowed.iter().any(|it| it == id.name)));
    (!is_allowed).then(|| format!("its licence is {terms}; remove the dependency, or allow the licence"))
}

/// Returns an error for each version that cargo's copy of the index marks as withdrawn, and the number of listed versions.
fn withdrawn(packages: &[&Package]) -> (Vec<String>, usize) {
    let (mut errors, mut known) = (Vec::new(), 0);
    for package in packages {
        let version = package.version.to_string();
        let found = indices(&package.name).iter().find_map(|file| is_withdrawn(&fs::read(file).ok()?, &version));
        known += usize::from(found.is_some());
        if found == Some(true) {
            errors.push(format!("{} {version}: its authors have withdrawn it; run `cargo update {0}`", package.name));
        }
    }
    (errors, known)
}

/// Returns cargo's copies of the index entry of a crate.
fn indices(name: &str) -> Vec<PathBuf> {
    let name = name.to_ascii_lowercase();
    let place = match name.len() {
        1 => format!("1/{name}"),
        2 => format!("2/{name}"),
        3 => format!("3/{}/{name}", &name[..1]),
        _ => format!("{}/{}/{name}", &name[..2], &name[2..4]),
    };
    let Some(home) = cargo_home() else { return Vec::new() };
    let registries = fs::read_dir(home.join("registry/index")).into_iter().flatten().flatten();
    registries.map(|registry| registry.path().join(".cache").join(&place)).filter(|path| path.is_file()).collect()
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
    let mut deny = command::cargo();
    deny.args(["deny", "--offline", "check", "advisories"]).current_dir(root());
    command::step("cargo deny check advisories", &mut deny, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_is_refused_unless_one_choice_is_allowed() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned);
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
