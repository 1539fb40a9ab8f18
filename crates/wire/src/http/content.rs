use std::collections::HashMap;
use std::fmt;

use super::head::digits;
use super::target;
use crate::fill::fill;

/// Largest content that is copied after its head. At about this size, the copy takes as much CPU time as a second write.
pub(super) const COPIED_BYTES_MAX: u64 = 32 << 10;
/// Largest generated content.
pub const GENERATED_BYTES_MAX: u64 = 1 << 30;
/// Period of generated content, shorter under Miri, which is a thousand times slower.
pub(super) const FILL_BYTES: usize = if cfg!(miri) { 1 << 15 } else { 1 << 20 };
// [`Content::from`] returns copied content in one piece.
const _: () = assert!(FILL_BYTES as u64 >= COPIED_BYTES_MAX);
/// Path of generated content: `/bytes/10240` has 10 KiB.
const GENERATED: &[u8] = b"/bytes/";
const INDEX: &[u8] = b"index.html";

/// Content by path. Paths are keys of a map, so no path can lead to other files.
pub struct Content {
    by_path: HashMap<Vec<u8>, u32>,
    pages: Vec<Page>,
    /// Generated content; empty if only files are served.
    fill: Vec<u8>,
    /// The size of generated content at each path without other content, in bytes.
    everywhere: Option<u64>,
}

pub(super) struct Page {
    pub bytes: Vec<u8>,
    /// `Content-Type` and `Content-Length`.
    pub fields: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Page(u32),
    Generated { bytes: u64 },
}

/// A file that the service cannot offer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// No request can name the file's path.
    #[error("{0}: no request can name it; rename it without empty segments, `.`, `..` and zero bytes")]
    Path(String),
    /// Another file has the same path.
    #[error("{0}: the path occurs twice; remove one file")]
    Twice(String),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content of {} files", self.pages.len())
    }
}

impl Content {
    /// Creates a small page at `/`, and content of N bytes at `/bytes/N`, up to [`GENERATED_BYTES_MAX`].
    pub fn generated() -> Self {
        let front = "<!DOCTYPE html>\n<title>muxbench</title>\n<p>/bytes/N has N bytes.\n";
        let content = Self::files([(INDEX, front.into())]).expect("`index.html` is a valid path");
        Self { fill: fill(FILL_BYTES), ..content }
    }

    /// Creates content of this size at each path, besides `/bytes/N`.
    pub fn of_size(bytes: u64) -> Self {
        Self { by_path: HashMap::new(), pages: Vec::new(), fill: fill(FILL_BYTES), everywhere: Some(bytes) }
    }

    /// Creates content from files with paths below the root, such as `css/main.css`. A folder's path gives its `index.html`.
    pub fn files<P: AsRef<[u8]>>(files: impl IntoIterator<Item = (P, Vec<u8>)>) -> Result<Self, ContentError> {
        let mut content = Self { by_path: HashMap::new(), pages: Vec::new(), fill: Vec::new(), everywhere: None };
        for (name, bytes) in files {
            let name = name.as_ref();
            let path = [b"/", name].concat();
            let text = || String::from_utf8_lossy(name).into_owned();
            if !target::is_normal(&path) || name.is_empty() || path.ends_with(b"/") {
                return Err(ContentError::Path(text()));
            }
            let number = content.pages.len() as u32;
            if let Some(folder) = path.strip_suffix(INDEX).filter(|folder| folder.ends_with(b"/")) {
                content.by_path.insert(folder.to_vec(), number);
            }
            let fields = format!("Content-Type: {}\r\nContent-Length: {}\r\n", media_type(name), bytes.len());
            content.pages.push(Page { bytes, fields });
            if content.by_path.insert(path, number).is_some() {
                return Err(ContentError::Twice(text()));
            }
        }
        Ok(content)
    }

    /// Looks up an encoded path. Returns `None` for an invalid path, and `Some(None)` if nothing has this path.
    #[inline]
    pub(super) fn find(&self, path: &[u8]) -> Option<Option<Found>> {
        if memchr::memchr(b'%', path).is_none()
            && let Some(found) = self.at(path)
        {
            return Some(Some(found));
        }
        let everywhere = self.everywhere.map(|bytes| Found::Generated { bytes });
        if everywhere.is_some() && target::is_plain(path) {
            return Some(everywhere);
        }
        Some(self.at(&target::normal(path)?).or(everywhere))
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

    #[inline]
    pub(super) fn total_bytes(&self, found: Found) -> u64 {
        match found {
            Found::Page(number) => self.page(number).bytes.len() as u64,
            Found::Generated { bytes } => bytes,
        }
    }

    /// Returns one contiguous piece of the content from `at_bytes` on.
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
