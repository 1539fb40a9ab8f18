//! The book: the documents, and the reference that muxbench prints, rendered by mdBook.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use mdbook_driver::MDBook;

use crate::{command, read, root, write};

/// The pages of `muxbench reference`, in the folder `docs/reference`.
const REFERENCE: [&str; 4] = ["commands", "experiments", "results", "exit-codes"];

/// The endings of pictures that the book copies.
const PICTURES: [&str; 2] = ["png", "svg"];

/// Builds the book in `folder` and returns the folder of its pages. `muxbench` is the binary that prints the reference.
pub fn build(muxbench: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let source = folder.join("src");
    crate::create_empty_folder(&source)?;
    for path in crate::documents()? {
        write(&source.join(page_name(path.strip_prefix(root())?)), adapted(&path, &read(&path)?))?;
    }
    for extension in PICTURES {
        for path in crate::files(&root().join("docs"), extension)? {
            let picture = fs::read(&path).with_context(|| path.display().to_string())?;
            write(&source.join(path.strip_prefix(root())?), picture)?;
        }
    }
    let printed = |arguments: &[&str]| command::output(Command::new(muxbench).args(arguments));
    for page in REFERENCE {
        write(&source.join(format!("docs/reference/{page}.md")), printed(&["reference", page])?)?;
    }
    let schemas = printed(&["schema"])?;
    for name in schemas.lines().filter_map(|line| line.split_whitespace().next()) {
        write(&source.join(format!("schemas/{name}.json")), printed(&["schema", name])?)?;
    }
    write(&source.join("schemas/experiment.json"), printed(&["plan", "--schema"])?)?;
    for name in ["book.toml", "book.css", "theme/head.hbs"] {
        write(&folder.join(name), read(&root().join("book").join(name))?)?;
    }
    let summary = read(&root().join("book/SUMMARY.md"))?;
    write(&source.join("SUMMARY.md"), summary.replace("README.md)", "index.md)"))?;
    let book = MDBook::load(folder)?;
    book.build()?;
    let pages = book.build_dir_for("html");
    let broken = broken_links(&pages)?;
    ensure!(broken.is_empty(), "links of the book lead nowhere:\n{}", broken.join("\n"));
    Ok(pages)
}

/// Returns the path of a document in the book. Web servers show `index.html` as the page of a folder.
fn page_name(path: &Path) -> PathBuf {
    if path.ends_with("README.md") { path.with_file_name("index.md") } else { path.to_owned() }
}

/// Returns the text of a document for the book. Links to files that are not in the book, such as sources, become plain text.
fn adapted(path: &Path, text: &str) -> String {
    let mut parts = text.split("](");
    let mut adapted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let link = part.split_once(')').map(|(target, rest)| (target, rest, page_of(path, target)));
        match (link, adapted.rfind('[')) {
            (Some((_, rest, None)), Some(start)) => {
                adapted.remove(start);
                adapted += rest;
            }
            (Some((_, rest, Some(page))), _) => adapted += &format!("]({page}){rest}"),
            _ => adapted += &format!("]({part}"),
        }
    }
    adapted
}

/// Returns the link to a page of the book; `None` if the target is a file of the workspace that is not in the book.
fn page_of(document: &Path, target: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let is_page = Path::new(file).extension().is_some_and(|it| it == "md" || PICTURES.iter().any(|end| it == *end));
    if is_page || !document.parent()?.join(file).exists() {
        let page = page_name(Path::new(file)).display().to_string();
        return Some(anchor.map_or(page.clone(), |anchor| format!("{page}#{anchor}")));
    }
    file.is_empty().then(|| target.to_owned())
}

/// Returns the links between pages that lead to no file or to no heading, as `page: link`.
fn broken_links(pages: &Path) -> anyhow::Result<Vec<String>> {
    let pages = &pages.canonicalize().with_context(|| pages.display().to_string())?;
    let mut anchors = BTreeMap::new();
    let mut links = Vec::new();
    for path in crate::files(pages, "html")? {
        let text = read(&path)?;
        let ids: BTreeSet<String> = values(&text, "id").into_iter().map(str::to_owned).collect();
        let found = [values(&text, "href"), values(&text, "src")].concat();
        links.extend(found.into_iter().map(|link| (path.clone(), link.to_owned())));
        anchors.insert(path, ids);
    }
    let leads_nowhere = |(page, link): &(PathBuf, String)| {
        if link.contains("://") || link.starts_with("data:") {
            return false;
        }
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let file = if file.is_empty() { Ok(page.clone()) } else { page.with_file_name(file).canonicalize() };
        let has_anchor = |file| anchors.get(&file).is_some_and(|ids: &BTreeSet<String>| ids.contains(anchor));
        !file.is_ok_and(|file| file.is_file() && (anchor.is_empty() || has_anchor(file)))
    };
    let broken = links.iter().filter(|link| leads_nowhere(link));
    Ok(broken.map(|(page, link)| format!("{}: {link}", page.strip_prefix(pages).unwrap_or(page).display())).collect())
}

/// Returns the values of an attribute in a page.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    page.split(&start).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_or_become_text() {
        let document = root().join("docs/gallery/README.md");
        for (text, expected) in [
            ("[a](../gate.md#github), [b](README.md)", "[a](../gate.md#github), [b](index.md)"),
            ("see [`xtask`](../../xtask/src/lib.rs).", "see `xtask`."),
            ("[x] [here](#one), [web](https://example.org/#a)", "[x] [here](#one), [web](https://example.org/#a)"),
            ("a[0](1", "a[0](1"),
        ] {
            assert_eq!(adapted(&document, text), expected);
        }
    }

    #[test]
    fn broken_links_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let page = |name: &str, text: &str| write(&folder.path().join(name), text).unwrap();
        page(
            "a.html",
            "<h1 id=\"top\"></h1><a href=\"in/b.html#one\">x</a><a href=\"#top\">x</a><a href=\"https://x.org\">",
        );
        page(
            "in/b.html",
            "<a href=\"../a.html\" id=\"one\"><img src=\"none.png\"><a href=\"../a.html#none\"><a href=\"#two\">",
        );
        let broken = broken_links(folder.path()).unwrap();
        assert_eq!(broken, ["in/b.html: ../a.html#none", "in/b.html: #two", "in/b.html: none.png"]);
    }
}
