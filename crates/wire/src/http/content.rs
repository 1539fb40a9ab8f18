//! What there is to be had, all of it in memory.

use std::collections::HashMap;
use std::fmt;

use super::head::digits;
use super::limits::COPIED_BYTES_MAX;
use super::target;
use crate::fill::fill;

/// Most that is generated for one request.
pub const GENERATED_BYTES_MAX: u64 = 1 << 30;
/// What is generated repeats itself after so much; of an interpreter, which takes a thousand times as long, sooner.
pub(super) const FILL_BYTES: usize = if cfg!(miri) { 1 << 15 } else { 1 << 20 };
// What is copied is one piece.
const _: () = assert!(FILL_BYTES as u64 >= COPIED_BYTES_MAX);
/// Where generated content is: `/bytes/10240` has 10 KiB.
const GENERATED: &[u8] = b"/bytes/";
/// What a folder is asked for means this in it.
const INDEX: &[u8] = b"index.html";

const FRONT: &str = "<!DOCTYPE html>\n<title>muxbench</title>\n<p>/bytes/N has N bytes.\n";

/// Content by its path, found by look-up only: no path leads anywhere else.
pub struct Content {
    by_path: HashMap<Vec<u8>, u32>,
    pages: Vec<Page>,
    /// What generated content is cut from; empty if there is none.
    fill: Vec<u8>,
}

/// Something that is kept, and what a response says of it.
pub(super) struct Page {
    pub bytes: Vec<u8>,
    /// `Content-Type` and `Content-Length`.
    pub fields: String,
}

/// Which content a response has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Page(u32),
    Generated { bytes: u64 },
}

/// A file that cannot be among the content.
#[derive(Debug, PartialEq, Eq)]
pub enum ContentError {
    /// Its path is none that a request can name.
    Path(String),
    /// Another has its path.
    Twice(String),
}

impl fmt::Display for ContentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(
                f,
                "{path}: no request can name it; a path has no empty segment, no `.`, no `..` and no zero byte: rename it"
            ),
            Self::Twice(path) => write!(f, "{path}: there are two of it; leave one out"),
        }
    }
}

impl std::error::Error for ContentError {}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content of {} files", self.pages.len())
    }
}

impl Content {
    /// A small page at `/`, and at `/bytes/N` N bytes, up to [`GENERATED_BYTES_MAX`]: always the same ones.
    pub fn generated() -> Self {
        let front = [(&b"index.html"[..], FRONT.into())];
        let content = Self::files(front).expect("a request can name it");
        Self { fill: fill(FILL_BYTES), ..content }
    }

    /// Files with their paths below the root, separated by slashes, as `css/main.css`. What is asked of a folder is its
    /// `index.html`.
    ///
    /// Whoever reads them decides which those are, and where links may lead; no request leads to any other.
    pub fn files<P: AsRef<[u8]>>(files: impl IntoIterator<Item = (P, Vec<u8>)>) -> Result<Self, ContentError> {
        let mut content = Self { by_path: HashMap::new(), pages: Vec::new(), fill: Vec::new() };
        for (name, bytes) in files {
            let name = name.as_ref();
            let path = [b"/", name].concat();
            let said = || String::from_utf8_lossy(name).into_owned();
            if !target::is_normal(&path) || name.is_empty() || path.ends_with(b"/") {
                return Err(ContentError::Path(said()));
            }
            let number = content.pages.len() as u32;
            if let Some(folder) = path.strip_suffix(INDEX).filter(|folder| folder.ends_with(b"/")) {
                content.by_path.insert(folder.to_vec(), number);
            }
            let fields = format!("Content-Type: {}\r\nContent-Length: {}\r\n", media_type(name), bytes.len());
            content.pages.push(Page { bytes, fields });
            if content.by_path.insert(path, number).is_some() {
                return Err(ContentError::Twice(said()));
            }
        }
        Ok(content)
    }

    /// What is at a path that is not decoded yet; `None` if there is no such path, and inside it if nothing is there.
    #[inline]
    pub(super) fn find(&self, path: &[u8]) -> Option<Option<Found>> {
        // Nearly always the path is as content is filed, and need not be made so.
        if memchr::memchr(b'%', path).is_none()
            && let Some(found) = self.at(path)
        {
            return Some(Some(found));
        }
        Some(self.at(&target::normal(path)?))
    }

    #[inline]
    fn at(&self, path: &[u8]) -> Option<Found> {
        if let (false, Some(number)) = (self.fill.is_empty(), path.strip_prefix(GENERATED)) {
            let bytes = digits(number).filter(|&bytes| bytes <= GENERATED_BYTES_MAX)?;
            return Some(Found::Generated { bytes });
        }
        self.by_path.get(path).copied().map(Found::Page)
    }

    #[inline]
    pub(super) fn page(&self, number: u32) -> &Page {
        &self.pages[number as usize]
    }

    /// How much content there is.
    #[inline]
    pub(super) fn total_bytes(&self, found: Found) -> u64 {
        match found {
            Found::Page(number) => self.page(number).bytes.len() as u64,
            Found::Generated { bytes } => bytes,
        }
    }

    /// Content from `at_bytes` on, as much of it as is in one piece.
    #[inline]
    pub(super) fn from(&self, found: Found, at_bytes: u64) -> &[u8] {
        match found {
            Found::Page(number) => &self.page(number).bytes[at_bytes as usize..],
            Found::Generated { bytes } => {
                let start = (at_bytes % FILL_BYTES as u64) as usize;
                let left = (bytes - at_bytes).min((FILL_BYTES - start) as u64) as usize;
                &self.fill[start..start + left]
            }
        }
    }
}

/// What a file's name says of it.
fn media_type(name: &[u8]) -> &'static str {
    let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_ascii_lowercase();
    let dot = name.iter().rposition(|&byte| byte == b'.');
    match dot.map(|dot| &name[dot + 1..]).unwrap_or_default() {
        b"html" | b"htm" => "text/html; charset=utf-8",
        b"css" => "text/css; charset=utf-8",
        b"txt" | b"md" => "text/plain; charset=utf-8",
        b"js" | b"mjs" => "text/javascript; charset=utf-8",
        b"json" => "application/json",
        b"xml" => "application/xml",
        b"pdf" => "application/pdf",
        b"wasm" => "application/wasm",
        b"svg" => "image/svg+xml",
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"gif" => "image/gif",
        b"webp" => "image/webp",
        b"ico" => "image/vnd.microsoft.icon",
        b"woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}
