//! Requests of the `http` service with their own methods, bodies and weights, and files of such requests.

use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use load::config::{Body, ExpectedStatus};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use wire::secret;

use super::units::Size;
use crate::files;

/// A request of the `http` service. Missing keys have the values of `[workload.http]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RequestSpec {
    /// The path with its query.
    pub path: String,
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The headers in addition to those of all requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// The body, or `@FILE` for the content of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodySpec>,
    /// The share of the requests, relative to the weights of the other requests; by default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<NonZeroU32>,
    /// The expected status: a number from 100 to 599, a class such as "2xx", or "any".
    #[schemars(with = "Option<StatusSchema>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ExpectedStatus>,
    /// The expected length of the response's content: a size, "same" or "any".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<Length>,
}

impl RequestSpec {
    /// Parses a line of a file: a JSON object, or `[METHOD] PATH [xWEIGHT]`.
    fn parse_line(line: &str) -> Result<Self, String> {
        if line.starts_with('{') {
            // The object is on one line, whose number the caller adds.
            return serde_json::from_str(line)
                .map_err(|error| error.to_string().replace(&format!(" at line 1 column {}", error.column()), ""));
        }
        let is_url = |word: &str| !word.starts_with('/') && word.contains("://");
        let invalid = || match line.split(' ').any(is_url) {
            true => format!("invalid request `{line}`: a flag names the server; try only the path, such as /a?b=c"),
            false => format!("invalid request `{line}`: expected `[METHOD] PATH [xWEIGHT]`, or a JSON object"),
        };
        let (first, rest) = line.split_once(' ').map_or((line, None), |(first, rest)| (first, Some(rest)));
        match rest {
            Some(rest) if !first.starts_with('/') => {
                Ok(Self { method: Some(first.to_owned()), ..Self::parse_path(rest).ok_or_else(invalid)? })
            }
            _ => Self::parse_path(line).ok_or_else(invalid),
        }
    }

    /// Parses a path with an optional weight, as in `/a x3`.
    pub(super) fn parse_path(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let path = words.next().filter(|path| path.starts_with('/'))?.to_owned();
        let weight = match words.next() {
            Some(weight) => Some(weight.strip_prefix('x')?.parse().ok()?),
            None => None,
        };
        words.next().is_none().then(|| Self { path, weight, ..Self::default() })
    }
}

/// Reads a file with a request on each line. Skips empty lines, and comments that start with `#`.
pub(super) fn read_requests(file: &Path) -> Result<Vec<RequestSpec>, String> {
    let text = read_text(file)?;
    let lines = text.lines().map(str::trim).enumerate();
    let requests = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(|(at, line)| {
        RequestSpec::parse_line(line).map_err(|reason| format!("{}:{}: {reason}", file.display(), at + 1))
    });
    let requests = requests.collect::<Result<Vec<_>, _>>()?;
    if requests.is_empty() {
        Err(format!("{}: no request; add a line such as GET /", file.display()))
    } else {
        Ok(requests)
    }
}

/// Reads a file with a body on each line.
pub(super) fn read_bodies(file: &Path) -> Result<Vec<Body>, String> {
    let text = read_text(file)?;
    let bodies: Vec<Body> = text.lines().map(|line| Body::Bytes(line.as_bytes().to_vec())).collect();
    if bodies.is_empty() { Err(format!("{}: the file is empty; add a body", file.display())) } else { Ok(bodies) }
}

/// Reads text, without the byte order mark that Windows' editors write before it.
pub(super) fn read_text(file: &Path) -> Result<String, String> {
    let text = String::from_utf8(read(file)?).map_err(|_| format!("cannot read {}: not UTF-8", file.display()))?;
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    files::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// The body of a request: text, or `@FILE` for the content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct BodySpec(pub String);

impl BodySpec {
    /// Returns the body's bytes.
    pub(super) fn load(&self) -> Result<Body, String> {
        match self.0.strip_prefix('@') {
            Some(file) => read(Path::new(file)).map(Body::Bytes),
            None => Ok(Body::Bytes(self.0.clone().into_bytes())),
        }
    }
}

/// Headers of a request: one, written `Name: value`, or those of a file, written `@FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    /// One header.
    Field {
        /// The name.
        name: String,
        /// The value without surrounding spaces. Secrets in it are concealed.
        value: String,
    },
    /// A header on each line of the file.
    File(PathBuf),
}

impl Header {
    /// Returns the names and values of headers. Reads their files.
    pub(super) fn fields(headers: &[Self]) -> Result<Vec<(String, String)>, String> {
        let mut fields = Vec::new();
        for header in headers {
            match header {
                Self::Field { name, value } => fields.push((name.clone(), value.clone())),
                Self::File(file) => {
                    for (at, line) in read_text(file)?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                        let (name, value) =
                            field(line).map_err(|reason| format!("{}:{}: {reason}", file.display(), at + 1))?;
                        fields.push((name, value));
                    }
                }
            }
        }
        Ok(fields)
    }
}

/// Parses a header. Its value may have variables of the environment.
fn field(text: &str) -> Result<(String, String), String> {
    let Some((name, value)) = text.split_once(':').filter(|(name, _)| !name.trim().is_empty()) else {
        return Err("expected a name and a value, as in `Accept: text/html`".to_owned());
    };
    let (name, value) = (name.trim(), secret::expand(value.trim()).map_err(|reason| format!("`{name}`: {reason}"))?);
    // First, so that an error that shows the line has no secret. Errors of later checks show the whole request.
    let value = if secret::is_in_header(name) { secret::conceal(&value) } else { value };
    let is_text = |value: &str| value.chars().all(|char| char.is_ascii() && (char == '\t' || !char.is_control()));
    if secret::is_in(&value) && secret::reveal(&value).is_ok_and(|value| !is_text(&value)) {
        return Err(format!("the value of `{name}` has a line end or a character that is not ASCII; remove it"));
    }
    Ok((name.to_owned(), value))
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(file) = text.strip_prefix('@') {
            return Ok(Self::File(file.into()));
        }
        let (name, value) = field(text).map_err(|reason| {
            let shown = text.split_once(':').map_or(text, |(name, _)| name);
            format!("invalid header `{shown}`: {reason}")
        })?;
        Ok(Self::Field { name, value })
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field { name, value } => write!(f, "{name}: {value}"),
            Self::File(file) => write!(f, "@{}", file.display()),
        }
    }
}

wire::serde_as_text!(Header);

impl JsonSchema for Header {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Header".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^([^:@][^:]*:|@.)", "examples": ["Accept: text/html", "@headers.txt"]})
    }
}

/// The expected length of a response's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The length of the first response to the same request.
    Same,
    /// Any length.
    Any,
    /// This number of bytes.
    Bytes(u64),
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse::<Size>()) {
            ("same", _) => Ok(Self::Same),
            ("any", _) => Ok(Self::Any),
            (_, Ok(size)) => Ok(Self::Bytes(size.0.into())),
            ("0" | "0B", _) => Ok(Self::Bytes(0)),
            _ => Err(format!("invalid length `{text}`: expected a size such as 10KiB, same or any")),
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("same"),
            Self::Any => f.write_str("any"),
            Self::Bytes(bytes) => write!(f, "{bytes}B"),
        }
    }
}

wire::serde_as_text!(Length);

impl JsonSchema for Length {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "examples": ["same", "any", "10KiB"]})
    }
}

/// The JSON Schema of an expected status.
pub(super) struct StatusSchema;

impl JsonSchema for StatusSchema {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Status".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "integer", "minimum": 100, "maximum": 599},
            {"type": "string", "pattern": "^([1-5][0-9]{2}|[1-5]xx|any)$"},
        ]})
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read_lines(text: &str) -> Result<Vec<RequestSpec>, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        read_requests(file.path())
    }

    #[test]
    fn file_of_requests_mixes_lines_and_json() {
        let text = "# comment\n/a\n\nPUT /b?c x3\n/d x2\n\
                    {\"method\":\"POST\",\"path\":\"/e\",\"headers\":[\"A: b\"],\"body\":\"{}\",\"weight\":4,\"status\":201,\
                    \"length\":\"any\"}\n";
        let requests = read_lines(text).unwrap();
        let simple: Vec<_> =
            requests.iter().map(|it| (it.method.as_deref(), &*it.path, it.weight.map(NonZeroU32::get))).collect();
        let expected =
            [(None, "/a", None), (Some("PUT"), "/b?c", Some(3)), (None, "/d", Some(2)), (Some("POST"), "/e", Some(4))];
        assert_eq!(simple, expected);
        let last = &requests[3];
        assert_eq!((last.body.clone(), last.status), (Some(BodySpec("{}".into())), Some(ExpectedStatus::Exact(201))));
        assert_eq!((last.length, last.headers[0].to_string()), (Some(Length::Any), "A: b".into()));
    }

    #[test]
    fn invalid_line_is_rejected_with_its_number() {
        for line in ["GET", "GET  /", "GET /a 3", "/a x0", "/a x3 x4", "{\"path\":\"/\",\"bodi\":\"\"}", "{\"path\":1}"]
        {
            let error = read_lines(&format!("/\n{line}\n")).unwrap_err();
            assert!(error.contains(":2: "), "{line}: {error}");
        }
        assert!(read_lines("GET http://a/b\n").unwrap_err().contains("try only the path"));
        assert!(read_lines("/a?b=c://d 3\n").unwrap_err().contains("expected `[METHOD] PATH"));
        assert!(read_lines("# nothing\n").unwrap_err().contains("no request"));
        assert!(read_requests(Path::new("/none")).unwrap_err().contains("cannot read /none"));
    }

    #[test]
    fn header_round_trips() {
        assert!("Accept".parse::<Header>().unwrap_err().contains("invalid header `Accept`"));
        assert!(": x".parse::<Header>().is_err());
        let header: Header = "Accept:text/html ".parse().unwrap();
        assert_eq!(header.to_string(), "Accept: text/html");
    }

    #[test]
    fn header_conceals_secrets_by_name_and_from_variables() {
        let parse = |text: &str| text.parse::<Header>().map(|header| header.to_string());
        let concealed = parse("Cookie: id=1").unwrap();
        assert_eq!(concealed, format!("Cookie: {}", secret::conceal("id=1")));
        assert_eq!(parse(&concealed), Ok(concealed.clone()), "stored text reads back");
        let path = secret::conceal(&std::env::var("PATH").unwrap());
        assert_eq!(parse("Authorization: Bearer ${PATH}"), Ok(format!("Authorization: Bearer {path}")));
        assert_eq!(parse("X: ${PATH}"), Ok(format!("X: {path}")));
        for (wrong, reason) in [
            ("Authorization: ${MUXBENCH_NO_SUCH}", "the environment has no variable MUXBENCH_NO_SUCH"),
            ("X-Token: open\nsesame", "has a line end"),
            ("X-Token: s\u{e9}same", "not ASCII"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(reason) && !error.contains("same`"), "{error}");
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"\xef\xbb\xbfX-Api-Key: 1\r\n\nA: b\n").unwrap();
        let headers: Header = format!("@{}", file.path().display()).parse().unwrap();
        let expected = [("X-Api-Key".into(), secret::conceal("1")), ("A".into(), "b".into())];
        assert_eq!(Header::fields(&[headers]).unwrap(), expected);
        assert!(Header::fields(&[Header::File("/none".into())]).unwrap_err().contains("cannot read /none"));
    }

    #[test]
    fn length_round_trips() {
        for text in ["same", "any", "0B", "1024B"] {
            assert_eq!(text.parse::<Length>().unwrap().to_string(), text);
        }
        assert_eq!("1KiB".parse(), Ok(Length::Bytes(1024)));
        assert!("ten".parse::<Length>().unwrap_err().contains("invalid length `ten`"));
    }
}
