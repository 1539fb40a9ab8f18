//! Cycles between the files of a crate, found by parsing the sources.
//!
//! A file uses another file if its code names an item that the other file defines: in a path, in a private `use`, or
//! in the arguments of a macro or an attribute. The rules should not surprise a reader who looks for layers:
//!
//! - A name belongs to the file that defines it, through any number of re-exports. Re-exports in `mod.rs` or `lib.rs`
//!   therefore create no uses of these files.
//! - `mod child;` and `pub use child::Item;` are no uses. Code that mentions the re-exported name uses the item.
//! - The import of a module is no use; a path that begins with the module's name is one.
//! - `use module::*` uses the module's file, and each file that defines a name which the code takes from the module.
//! - An item made by a macro belongs to the file of its module.
//! - Files for other systems and features count; tests (`#[cfg(test)]`) do not.
//!
//! Limits: a method call uses the method's file only if the code also names the type. Links in comments do not count.

mod reader;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use anyhow::Result;
use reader::Uses;

/// Files that use each other, directly or through other files of the cycle.
#[derive(Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The files, relative to the folder of the crate's root file.
    pub files: BTreeSet<PathBuf>,
    /// The uses among these files: the using file, the used file, and the used items.
    pub uses: BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{} files use each other:", self.files.len())?;
        for ((from, to), names) in &self.uses {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            writeln!(f, "  {} -> {}: {}", from.display(), to.display(), names.join(", "))?;
        }
        Ok(())
    }
}

/// Returns the cycles of every crate of the workspace, by the name of the crate's folder.
pub fn of_workspace(workspace: &Path) -> Result<BTreeMap<String, Vec<Cycle>>> {
    let mut folders = vec![workspace.join("fuzz"), workspace.join("xtask")];
    for entry in fs::read_dir(workspace.join("crates"))? {
        folders.push(entry?.path());
    }
    let mut found = BTreeMap::new();
    for folder in folders {
        let mut cycles = Vec::new();
        for root in ["src/lib.rs", "src/main.rs"].map(|name| folder.join(name)).iter().filter(|root| root.exists()) {
            cycles.extend(of_crate(root, &|path| fs::read_to_string(path).ok())?);
        }
        found.insert(folder.file_name().unwrap_or_default().to_string_lossy().into_owned(), cycles);
    }
    Ok(found)
}

/// Returns the cycles of the crate with this root file. `text` returns the text of a file, or `None` if there is no such file.
pub fn of_crate(root: &Path, text: &dyn Fn(&Path) -> Option<String>) -> Result<Vec<Cycle>> {
    let uses = reader::uses(root, text)?;
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        uses.keys().map(|file| (file.as_path(), reached(&uses, file))).collect();
    let group = |file: &Path| reached[file].iter().copied().filter(|it| reached[it].contains(file)).collect();
    let groups: BTreeSet<BTreeSet<&Path>> = reached.keys().map(|file| group(file)).collect();
    let folder = root.parent().unwrap_or(Path::new(""));
    let name = |file: &Path| file.strip_prefix(folder).unwrap_or(file).to_owned();
    let cycle = |files: &BTreeSet<&Path>| {
        let all = files.iter().flat_map(|from| uses[*from].iter().map(|(to, names)| (name(from), to, names.clone())));
        let inside = all.filter(|(_, to, _)| files.contains(to.as_path()));
        Cycle {
            uses: inside.map(|(from, to, names)| ((from, name(to)), names)).collect(),
            files: files.iter().copied().map(name).collect(),
        }
    };
    Ok(groups.iter().filter(|group| group.len() > 1).map(cycle).collect())
}

/// Returns the files that a file uses, directly or through other files.
fn reached<'a>(uses: &'a Uses, file: &Path) -> BTreeSet<&'a Path> {
    let (mut found, mut left) = (BTreeSet::new(), vec![file]);
    while let Some(file) = left.pop() {
        let new: Vec<&Path> = uses[file].keys().map(PathBuf::as_path).filter(|used| found.insert(*used)).collect();
        left.extend(new);
    }
    found
}
