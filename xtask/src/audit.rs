//! What the program is built from: licences, where sources come from, versions that were withdrawn, crates that are there in
//! several versions; how many there are and how large.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Package, PackageId, TargetKind};
use serde::Deserialize;
use spdx::{Expression, ParseMode};
use xtask::root;

/// What of `deny.toml` is read here; the rest is cargo-deny's.
#[derive(Debug, Deserialize)]
struct Deny {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Bans {
    wildcards: Level,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Level,
    unknown_git: Level,
}

/// What is done about a find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Allow,
    Warn,
    Deny,
}

#[derive(Debug, Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

/// Prints what there is, and what is wrong with it.
///
/// `with_news`, what was withdrawn since the tree was made is wrong too.
///
/// # Errors
/// Each crate that may not be used, and why.
pub fn run(with_news: bool) -> anyhow::Result<()> {
    let path = root().join("deny.toml");
    let place = || path.display().to_string();
    let deny: Deny = toml::from_str(&fs::read_to_string(&path).with_context(place)?).with_context(place)?;
    let metadata = metadata(&deny.graph.targets)?;
    let (others, report) = report(&metadata)?;
    print!("{report}");
    let mut wrong: Vec<String> = others.iter().filter_map(|package| licence(package, &deny.licenses.allow)).collect();
    println!("licences: each allows one of {}, or asks for no more than these", deny.licenses.allow.join(", "));
    let mut found = |level: Level, finds: Vec<String>| match level {
        Level::Deny => wrong.extend(finds),
        Level::Warn => finds.iter().for_each(|find| println!("  {find}")),
        Level::Allow => {}
    };
    for (level, is_git) in [(deny.sources.unknown_registry, false), (deny.sources.unknown_git, true)] {
        let elsewhere = others.iter().filter(|package| !is_published(package) && is_of_git(package) == is_git);
        let told = elsewhere.map(|package| {
            let source = package.source.as_ref().map_or("a folder", |source| &source.repr);
            format!("{}: it comes from {source}; take what crates.io has", package.id)
        });
        found(level, told.collect());
    }
    found(deny.bans.wildcards, wildcards(&metadata));
    let (withdrawn, known) = withdrawn(&others);
    println!("withdrawn versions: {} of {known} that the index here knows", withdrawn.len());
    // What others withdraw from one day to the next fails who asks for it, and no tree that is as it was.
    if with_news {
        wrong.extend(withdrawn);
    } else {
        withdrawn.iter().for_each(|it| println!("  {it}"));
    }
    // A copy of the advisories is as old as who fetched it wants it to be.
    advisories()?;
    ensure!(wrong.is_empty(), "deny.toml does not allow:\n{}", wrong.join("\n"));
    Ok(())
}

/// All that is built for any of these systems.
fn metadata(targets: &[String]) -> anyhow::Result<Metadata> {
    let platforms = targets.iter().flat_map(|target| ["--filter-platform".to_owned(), target.clone()]);
    MetadataCommand::new()
        .cargo_path(env!("CARGO"))
        .current_dir(root())
        .features(CargoOpt::AllFeatures)
        .other_options(["--locked".to_owned()].into_iter().chain(platforms).collect::<Vec<_>>())
        .exec()
        .context("`cargo metadata --locked` fails; does Cargo.lock go with the manifests?")
}

/// The crates that are not ours, and how many and how large they are, in words.
fn report(metadata: &Metadata) -> anyhow::Result<(Vec<&Package>, String)> {
    let others: Vec<&Package> =
        metadata.packages.iter().filter(|it| !metadata.workspace_members.contains(&it.id)).collect();
    ensure!(!others.is_empty(), "`cargo metadata` knows of no crate but ours");
    let in_program = in_program(metadata)?;
    let has = |package: &Package, kind: &TargetKind| package.targets.iter().any(|target| target.kind.contains(kind));
    let count = |is: &dyn Fn(&Package) -> bool| others.iter().filter(|package| is(package)).count();
    let mut bytes = 0;
    for package in &others {
        bytes += size(package.manifest_path.parent().context("a manifest is in a folder")?.as_std_path())?;
    }
    let mut text = String::new();
    writeln!(
        text,
        "dependencies: {} crates of others, {} MiB of sources; {} are in the program or build it, the others are for tests and tools",
        others.len(),
        bytes >> 20,
        count(&|package| in_program.contains(&package.id)),
    )?;
    writeln!(
        text,
        "run while building: {} build scripts, {} macros; with C: {}",
        count(&|package| has(package, &TargetKind::CustomBuild)),
        count(&|package| has(package, &TargetKind::ProcMacro)),
        names(others.iter().filter(|package| package.links.is_some())),
    )?;
    let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for package in &others {
        versions.entry(&package.name).or_default().insert(package.version.to_string());
    }
    let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
    let several = several
        .map(|(name, versions)| format!("{name} {}", versions.iter().cloned().collect::<Vec<_>>().join(" and ")));
    writeln!(text, "in several versions: {}", several.collect::<Vec<_>>().join(", "))?;
    Ok((others, text))
}

fn names<'a>(packages: impl Iterator<Item = &'a &'a Package>) -> String {
    packages.map(|package| package.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// What is linked into muxbench, or builds it.
fn in_program(metadata: &Metadata) -> anyhow::Result<BTreeSet<&PackageId>> {
    let resolve = metadata.resolve.as_ref().context("`cargo metadata` resolves nothing")?;
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let start = metadata.packages.iter().find(|package| package.name == "muxbench").context("there is no muxbench")?;
    let (mut found, mut left) = (BTreeSet::new(), vec![&start.id]);
    while let Some(id) = left.pop() {
        if found.insert(id) {
            let is_built =
                |dep: &&cargo_metadata::NodeDep| dep.dep_kinds.iter().any(|of| of.kind != DependencyKind::Development);
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

fn is_of_git(package: &Package) -> bool {
    package.source.as_ref().is_some_and(|source| source.repr.starts_with("git+"))
}

/// Dependencies of ours on any version of others' crates.
fn wildcards(metadata: &Metadata) -> Vec<String> {
    let ours = metadata.packages.iter().filter(|package| metadata.workspace_members.contains(&package.id));
    let any = ours.flat_map(|package| {
        let of_others = package.dependencies.iter().filter(|it| it.path.is_none());
        of_others.filter(|it| it.req.to_string() == "*").map(move |it| (&package.name, &it.name))
    });
    any.map(|(package, name)| format!("{package}: it takes any version of {name}; name one")).collect()
}

fn is_published(package: &Package) -> bool {
    package.source.as_ref().is_some_and(cargo_metadata::Source::is_crates_io)
}

/// Why a package's licence does not allow its use, if so.
fn licence(package: &Package, allowed: &[String]) -> Option<String> {
    let what = format!("{} {}", package.name, package.version);
    let Some(text) = &package.license else { return Some(format!("{what}: its manifest names no licence")) };
    refusal(text, allowed).map(|why| format!("{what}: {why}"))
}

/// Why these terms are not among those allowed, if so. Old manifests have `/` for `OR`.
fn refusal(terms: &str, allowed: &[String]) -> Option<String> {
    let expression = match Expression::parse_mode(terms, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("its licence cannot be read: {error}")),
    };
    // With an exception there is more that one may do, not less.
    let is_allowed =
        expression.evaluate(|asked| asked.license.id().is_some_and(|id| allowed.iter().any(|it| it == id.name)));
    (!is_allowed).then(|| format!("its licence is {terms}; do without it, or allow that"))
}

/// Versions that their authors have withdrawn, as far as cargo's copy of the index says, and how many it knows.
fn withdrawn(packages: &[&Package]) -> (Vec<String>, usize) {
    let (mut withdrawn, mut known) = (Vec::new(), 0);
    for package in packages {
        let version = package.version.to_string();
        let said = indices(&package.name).iter().find_map(|file| is_withdrawn(&fs::read(file).ok()?, &version));
        known += usize::from(said.is_some());
        if said == Some(true) {
            withdrawn
                .push(format!("{} {version}: its authors have withdrawn it; run `cargo update {0}`", package.name));
        }
    }
    (withdrawn, known)
}

/// Where cargo may keep what the index says of a crate.
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

/// What a file of the index says of a version: texts with zeros between them, of which some are JSON, one a version.
fn is_withdrawn(file: &[u8], version: &str) -> Option<bool> {
    #[derive(Deserialize)]
    struct Entry {
        vers: String,
        yanked: bool,
    }
    let entries = file.split(|&byte| byte == 0).filter_map(|text| serde_json::from_slice::<Entry>(text).ok());
    entries.into_iter().find(|entry| entry.vers == version).map(|entry| entry.yanked)
}

/// RustSec's, where cargo-deny and a copy of the database are; it is a repository that a machine may not be able to reach.
fn advisories() -> anyhow::Result<()> {
    let is_there = cargo_home().is_some_and(|home| home.join("advisory-dbs").is_dir());
    let has_deny = Command::new(env!("CARGO")).args(["deny", "--version"]).output().is_ok_and(|it| it.status.success());
    if !(is_there && has_deny) {
        println!(
            "advisories: not looked at, for there is no cargo-deny here with a copy of RustSec's database; where there is a way to it, \
             `cargo install --locked cargo-deny && cargo deny fetch` makes one"
        );
        return Ok(());
    }
    let mut deny = Command::new(env!("CARGO"));
    let status = deny.args(["deny", "--offline", "check", "advisories"]).current_dir(root()).status();
    let status = status.context("cannot run `cargo deny`")?;
    if !status.success() {
        bail!("`cargo deny check advisories` failed ({status})");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_refused_unless_it_may_be_chosen() {
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
    fn the_index_says_which_versions_are_withdrawn() {
        let file = b"\x03\x02\0etag: \"x\"\x001.0.0\0{\"vers\":\"1.0.0\",\"yanked\":false}\x001.0.1\0{\"vers\":\"1.0.1\",\"deps\":[],\"yanked\":true}\0";
        assert_eq!(is_withdrawn(file, "1.0.0"), Some(false));
        assert_eq!(is_withdrawn(file, "1.0.1"), Some(true));
        assert_eq!(is_withdrawn(file, "1.0.2"), None);
        assert_eq!(is_withdrawn(b"{", "1.0.0"), None);
    }
}
