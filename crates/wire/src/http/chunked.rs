//! A body in chunks (RFC 9112 section 7.1), as requests and responses may have it.

/// Longest line within such a body: a size with its extensions, or a field behind the last chunk.
pub(super) const LINE_BYTES_MAX: usize = 1 << 10;
/// Most bytes of fields behind the last chunk.
const TRAILER_BYTES_MAX: u32 = 8 << 10;

/// Where in the body the next byte belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Chunked {
    #[default]
    Size,
    /// So much of a chunk's content is still to come.
    Content(u64),
    /// The end of a chunk's content.
    End,
    /// Fields behind the last chunk, of which so many bytes came.
    Trailer(u32),
}

/// What bytes of the body are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A chunk begins, with so much content.
    Size(u64),
    Content,
    /// A line end or a field.
    Other,
    /// The end of the body.
    Last,
}

/// It is no such body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl Chunked {
    /// Takes the part that `bytes` begin with: how many bytes that were. `None` if it has not all come, and must be offered again
    /// with what follows.
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
            Self::Trailer(came_bytes) => {
                *came_bytes += end as u32 + 1;
                if *came_bytes > TRAILER_BYTES_MAX {
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
        // httparse takes a line without a size for a size of nothing.
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
