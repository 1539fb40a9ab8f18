//! Chunked bodies of requests and responses (RFC 9112 section 7.1).

/// Longest line of a chunked body: a size with its extensions, or a trailer field.
pub(super) const LINE_BYTES_MAX: usize = 1 << 10;
/// Largest trailer: the fields after the last chunk.
const TRAILER_BYTES_MAX: u32 = 8 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Chunked {
    #[default]
    Size,
    /// In a chunk's content with this many remaining bytes.
    Content(u64),
    /// At the line end after a chunk's content.
    End,
    /// In the trailer, after this many of its bytes.
    Trailer(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The size of the next chunk.
    Size(u64),
    Content,
    Other,
    Last,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl Chunked {
    /// Takes one part from the beginning of the input; returns its size and kind, or `None` if it is incomplete.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<(usize, Part)>, Malformed> {
        if let Self::Content(left) = self {
            let taken_bytes = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= taken_bytes as u64;
            if *left == 0 {
                *self = Self::End;
            }
            return Ok((taken_bytes > 0).then_some((taken_bytes, Part::Content)));
        }
        let Some(end) = memchr::memchr(b'\n', &bytes[..bytes.len().min(LINE_BYTES_MAX)]) else {
            return if bytes.len() < LINE_BYTES_MAX { Ok(None) } else { Err(Malformed) };
        };
        let line = bytes[..end].strip_suffix(b"\r").ok_or(Malformed)?;
        let part = match self {
            Self::Size => self.begin(&bytes[..=end])?,
            Self::Trailer(_) if line.is_empty() => Part::Last,
            Self::Trailer(trailer_bytes) => {
                *trailer_bytes += end as u32 + 1;
                if *trailer_bytes > TRAILER_BYTES_MAX {
                    return Err(Malformed);
                }
                Part::Other
            }
            Self::End | Self::Content(_) if line.is_empty() => {
                *self = Self::Size;
                Part::Other
            }
            Self::End | Self::Content(_) => return Err(Malformed),
        };
        Ok(Some((end + 1, part)))
    }

    fn begin(&mut self, line: &[u8]) -> Result<Part, Malformed> {
        // httparse accepts a line without a size as size 0.
        if !line[0].is_ascii_hexdigit() {
            return Err(Malformed);
        }
        match httparse::parse_chunk_size(line) {
            Ok(httparse::Status::Complete((bytes, size))) if bytes == line.len() => {
                *self = if size == 0 { Self::Trailer(0) } else { Self::Content(size) };
                Ok(Part::Size(size))
            }
            _ => Err(Malformed),
        }
    }
}
