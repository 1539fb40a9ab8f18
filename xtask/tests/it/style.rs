//! Checks of names, file sizes, examples and links.

use std::fs;
use std::path::Path;

use xtask::root;

const FUNCTION_NAME_MAX: usize = 60;
const FILE_LINES_MAX: usize = 700;
const INLINE_TEST_LINES_MAX: usize = 200;

/// Files of recorded data, which have no limit of lines.
const DATA: [&str; 1] = ["crates/wire/src/kv/tests/recorded.rs"];

/// Returns the path from the root and the text of every source file of the workspace.
fn sources() -> Vec<(String, String)> {
    let folders = ["crates", "fuzz", "xtask"].map(|name| xtask::files(&root().join(name), "rs").unwrap());
    let found: Vec<_> =
        folders.into_iter().flatten().map(|path| (name_of(&path), fs::read_to_string(&path).unwrap())).collect();
    assert!(found.len() > 300, "only {} files found", found.len());
    found
}

fn name_of(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().into_owned()
}

/// Returns the lines of all source files for which `breaks` returns a detail, as `file:line: detail`.
fn violations(breaks: impl Fn(&[&str], usize) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for at in 0..lines.len() {
            if let Some(detail) = breaks(&lines, at) {
                found.push(format!("{name}:{}: {detail}", at + 1));
            }
        }
    }
    found
}

/// Returns the text of a line if it is a doc comment.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

/// Returns the name of a function that a line defines, if the name is too long.
fn long_function_name(line: &str) -> Option<String> {
    let (before, rest) = line.split_once("fn ")?;
    if !before.is_empty() && !before.ends_with([' ', '(']) {
        return None;
    }
    let name: String = rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
    (name.len() > FUNCTION_NAME_MAX).then_some(name)
}

/// Returns the number of lines of the test module that begins on a line.
fn inline_test_lines(lines: &[&str], at: usize) -> Option<usize> {
    let is_test =
        lines[at].trim_start().starts_with("#[cfg(test)]") || lines[at].trim_start().starts_with("#[cfg(all(test");
    let module = (at + 1..lines.len()).find(|&next| !lines[next].trim_start().starts_with("#["))?;
    let indent = lines[module].len() - lines[module].trim_start().len();
    if !is_test || !lines[module].contains("mod ") || !lines[module].ends_with('{') {
        return None;
    }
    let end = (module..lines.len()).find(|&next| lines[next] == format!("{:indent$}}}", ""))?;
    Some(end - at + 1)
}

/// `cargo xtask test` does not run examples.
#[test]
fn doc_comments_have_no_examples() {
    let found = violations(|lines, at| doc(lines[at]).filter(|text| text.starts_with("```")).map(str::to_owned));
    assert!(found.is_empty(), "examples in comments do not run; write tests:\n{}", found.join("\n"));
}

#[test]
fn function_names_have_at_most_60_characters() {
    let found = violations(|lines, at| long_function_name(lines[at]));
    assert!(found.is_empty(), "{} names are too long:\n{}", found.len(), found.join("\n"));
}

#[test]
fn files_and_inline_tests_are_short() {
    let mut found = violations(|lines, at| {
        let count = inline_test_lines(lines, at).filter(|count| *count > INLINE_TEST_LINES_MAX)?;
        Some(format!("{count} lines of inline tests; move them to a file of their own"))
    });
    for (name, text) in sources() {
        let count = text.lines().count();
        if count > FILE_LINES_MAX && !DATA.contains(&name.as_str()) {
            found.push(format!("{name}: {count} lines; split the file by subject"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn rules_find_violations() {
    let name = "a".repeat(61);
    assert_eq!(long_function_name(&format!("    pub fn {name}(")), Some(name));
    assert_eq!(long_function_name(&format!("fn {}()", "a".repeat(60))), None);
    let module = ["#[cfg(test)]", "mod tests {", "    fn it() {", "    }", "}"];
    assert_eq!(inline_test_lines(&module, 0), Some(5));
    assert_eq!(inline_test_lines(&["#[cfg(test)]", "mod tests;"], 0), None);
}

/// A crate's README is also the first part of its documentation. The tests of the crate run the example.
#[test]
fn readmes_of_crates_show_their_examples() {
    for (name, example) in [
        ("wire", "http"),
        ("stats", "ratio"),
        ("server", "run"),
        ("load", "open_loop"),
        ("traffic", "arrivals"),
        ("harness", "plan"),
        ("report", "table"),
        ("papers", "claims"),
    ] {
        let folder = root().join("crates").join(name);
        let readme = fs::read_to_string(folder.join("README.md")).unwrap();
        let example = fs::read_to_string(folder.join(format!("examples/{example}.rs"))).unwrap();
        assert!(readme.contains(&format!("```rust,no_run\n{example}```\n")), "copy {example} into {name}/README.md");
    }
}

/// Returns the relative links of a document that lead to no file.
fn broken_links(folder: &Path, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for rest in text.split("](").skip(1) {
        let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
        if !target.is_empty() && !target.contains("://") && !folder.join(target).exists() {
            broken.push(target.to_owned());
        }
    }
    broken
}

#[test]
fn links_of_documents_lead_to_files() {
    let documents = xtask::documents().unwrap();
    assert!(documents.len() > 10);
    for path in documents {
        let broken = broken_links(path.parent().unwrap(), &fs::read_to_string(&path).unwrap());
        assert!(broken.is_empty(), "{}: no such file: {}", name_of(&path), broken.join(", "));
    }
    assert_eq!(broken_links(root(), "[a](README.md#top) [b](none.md) [c](https://example.org)"), ["none.md"]);
}

#[test]
fn book_lists_each_document_once() {
    let summary = fs::read_to_string(root().join("book/SUMMARY.md")).unwrap();
    for path in xtask::documents().unwrap() {
        let link = format!("]({})", path.strip_prefix(root()).unwrap().display());
        let count = summary.matches(&link).count();
        assert_eq!(count, 1, "lines of book/SUMMARY.md with `[Title{link}`");
    }
}
