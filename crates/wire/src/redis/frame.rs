//! Requests in a stream of bytes: arrays of strings, or lines of words.

/// Longest line of words, as in Redis.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;
/// Longest line with a size: 20 characters are an `i64`.
const SIZE_LINE_BYTES_MAX: usize = 32;
const ARGUMENTS_MAX: usize = 1 << 20;

/// An input that is no request. The start of the next request is unknown, so the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtocolError {
    Count,
    Size,
    TooLarge,
    LongLine,
    // Another byte in place of `$`.
    Expected(u8),
}

impl ProtocolError {
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"-ERR Protocol error: ");
        out.extend_from_slice(match self {
            Self::Count => b"invalid multibulk length",
            Self::Size => b"invalid bulk length",
            Self::TooLarge => b"too big request",
            Self::LongLine => b"too big inline request",
            Self::Expected(_) => b"expected '$', got '",
        });
        if let Self::Expected(byte) = self {
            // A line end would end the error.
            out.push(if matches!(byte, b'\r' | b'\n') { b' ' } else { byte });
            out.push(b'\'');
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Sizes beyond which a request is refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub argument_bytes: usize,
    pub request_bytes: usize,
}

/// The progress in an incomplete request, so that no byte is searched twice.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Size of the whole arguments so far, with the line before them; 0 at the start of a request.
    bytes: usize,
    first_line_bytes: usize,
    arguments: usize,
    left: usize,
    /// The length of a line that is known to have no end.
    searched_bytes: usize,
}

/// A whole request.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub arguments: Arguments<'a>,
    pub bytes: usize,
}

impl Scan {
    /// Finds the request at the start of `input`, which is not empty; `None` if it is incomplete.
    #[inline]
    pub fn find<'a>(&mut self, input: &'a [u8], limits: Limits) -> Result<Option<Request<'a>>, ProtocolError> {
        if self.bytes == 0 {
            if input[0] != b'*' {
                return self.find_line(input);
            }
            let Some((count, line_bytes)) = size_line(input, ProtocolError::Count)? else { return Ok(None) };
            // As in Redis, a negative count is an empty request.
            let count = count.max(0) as usize;
            if count > ARGUMENTS_MAX {
                return Err(ProtocolError::Count);
            }
            *self = Self { bytes: line_bytes, first_line_bytes: line_bytes, arguments: count, left: count, ..*self };
        }
        while self.left > 0 {
            let rest = &input[self.bytes..];
            match rest.first() {
                None => return Ok(None),
                Some(b'$') => {}
                Some(&other) => return Err(ProtocolError::Expected(other)),
            }
            let Some((size, line_bytes)) = size_line(rest, ProtocolError::Size)? else { return Ok(None) };
            let size = usize::try_from(size).ok().filter(|&size| size <= limits.argument_bytes);
            let end = self.bytes + line_bytes + size.ok_or(ProtocolError::Size)? + 2;
            if end > limits.request_bytes {
                return Err(ProtocolError::TooLarge);
            }
            if input.len() < end {
                return Ok(None);
            }
            self.bytes = end;
            self.left -= 1;
        }
        let Self { bytes, first_line_bytes, arguments: left, .. } = std::mem::take(self);
        let arguments = Arguments { rest: &input[first_line_bytes..bytes], left, is_line: false };
        Ok(Some(Request { arguments, bytes }))
    }

    fn find_line<'a>(&mut self, input: &'a [u8]) -> Result<Option<Request<'a>>, ProtocolError> {
        let end = memchr::memchr(b'\n', &input[self.searched_bytes..]).map(|end| self.searched_bytes + end + 1);
        if end.unwrap_or(input.len()) > LINE_BYTES_MAX {
            return Err(ProtocolError::LongLine);
        }
        self.searched_bytes = if end.is_some() { 0 } else { input.len() };
        Ok(end.map(|bytes| {
            let rest = &input[..bytes];
            let left = rest.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
            Request { arguments: Arguments { rest, left, is_line: true }, bytes }
        }))
    }
}

/// Reads the number of a line `*1` or `$1`, and the size of the line; `None` if it is incomplete.
#[inline]
fn size_line(input: &[u8], error: ProtocolError) -> Result<Option<(i64, usize)>, ProtocolError> {
    match input.iter().take(SIZE_LINE_BYTES_MAX).position(|&byte| byte == b'\r') {
        None if input.len() < SIZE_LINE_BYTES_MAX => Ok(None),
        Some(end) if input.len() < end + 2 => Ok(None),
        // As in Redis, any byte may follow the carriage return.
        Some(end) => integer(&input[1..end]).map(|number| Some((number, end + 2))).ok_or(error),
        None => Err(error),
    }
}

/// Parses a number as Redis writes it: no plus sign, no leading zeros, no `-0`.
#[inline]
pub(super) fn integer(digits: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match digits {
        b"0" => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    // Count downwards, because the lowest number has no positive counterpart.
    let number = digits.iter().try_fold(0i64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit < 10)?;
        number.checked_mul(10)?.checked_sub(digit.into())
    })?;
    if is_negative { Some(number) } else { number.checked_neg() }
}

/// The arguments of a whole request, or the last ones of them.
#[derive(Clone, Debug)]
pub(super) struct Arguments<'a> {
    rest: &'a [u8],
    left: usize,
    is_line: bool,
}

/// The number of unread arguments of a request, at the start of the input that still has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unread {
    left: usize,
    is_line: bool,
}

impl<'a> Arguments<'a> {
    pub fn len(&self) -> usize {
        self.left
    }

    /// The size of the unread arguments.
    pub fn bytes(&self) -> usize {
        self.rest.len()
    }

    pub fn unread(&self) -> Option<Unread> {
        (self.left > 0).then_some(Unread { left: self.left, is_line: self.is_line })
    }

    /// The unread arguments, which [`Scan::find`] has seen, at the start of `input`.
    pub fn resume(input: &'a [u8], Unread { left, is_line }: Unread) -> Self {
        Self { rest: input, left, is_line }
    }

    /// Takes a word. The last one takes the rest of its line.
    fn word(&mut self) -> &'a [u8] {
        let blanks = self.rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let (word, rest) = split_at_space(&self.rest[blanks..]);
        let line_end = if self.left == 0 { memchr::memchr(b'\n', rest) } else { None };
        self.rest = &rest[line_end.map_or(0, |end| end + 1)..];
        word
    }
}

fn split_at_space(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len()))
}

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        if self.is_line {
            return Some(self.word());
        }
        let (size, line_bytes) = size_line(self.rest, ProtocolError::Size).ok()??;
        let (argument, rest) = self.rest[line_bytes..].split_at(size as usize);
        self.rest = &rest[2..];
        Some(argument)
    }
}
