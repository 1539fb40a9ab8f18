//! Requests to an HTTP server as plain data.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wire::secret;

/// Requests to an HTTP server: each request is the next one of a list, or drawn by weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpTraffic {
    /// The requests; at least one. If all weights are equal, they are sent in turn.
    pub targets: Vec<HttpTarget>,
    /// Names and values of the headers that all requests have in addition to their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The expected status of responses to requests without their own.
    pub status: ExpectedStatus,
}

impl HttpTraffic {
    /// Requests without common headers, whose responses must have the status 200.
    pub fn new(targets: Vec<HttpTarget>) -> Self {
        Self { targets, headers: Vec::new(), status: ExpectedStatus::Exact(200) }
    }
}

/// A request and its expected response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpTarget {
    /// The encoded path with its query, such as `/bytes/1024`.
    pub path: String,
    /// The expected length of the content in bytes; by default, that of the first response with the expected status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    /// Whether the content may have any length.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_length: bool,
    /// The method.
    #[serde(default = "get", skip_serializing_if = "is_get")]
    pub method: String,
    /// Names and values of the request's own headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The body, which may be empty; `None` for a request without a length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// The share of the requests, relative to the weights of the other requests; at least 1.
    pub weight: u32,
    /// The expected status; by default, that of [`HttpTraffic`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ExpectedStatus>,
}

const GET: &str = "GET";

fn get() -> String {
    GET.to_owned()
}

fn is_get(method: &str) -> bool {
    method == GET
}

impl HttpTarget {
    /// A GET request without a body of its own.
    pub fn get(path: impl Into<String>, body_bytes: Option<u64>) -> Self {
        Self {
            path: path.into(),
            body_bytes,
            any_length: false,
            method: get(),
            headers: Vec::new(),
            body: None,
            weight: 1,
            status: None,
        }
    }

    /// Whether the request is a GET without a body.
    pub fn is_plain_get(&self) -> bool {
        is_get(&self.method) && self.body.is_none()
    }
}

impl fmt::Display for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// The body of a request.
#[derive(Clone, PartialEq, Eq)]
pub enum Body {
    /// These bytes. They are stored as text if they are UTF-8, and otherwise in base64.
    Bytes(Vec<u8>),
    /// A number of arbitrary bytes.
    Fill(u64),
    /// Text that is stored as its digest.
    Secret {
        /// The digest, as [`secret::conceal`] returns it.
        digest: String,
        /// The number of bytes of the text.
        bytes: u64,
    },
}

impl Body {
    /// The number of its bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Fill(bytes) | Self::Secret { bytes, .. } => *bytes,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes. Fails if this process does not know the text of a secret.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, secret::Unknown> {
        Ok(match self {
            Self::Bytes(bytes) => bytes.into(),
            Self::Fill(count) => vec![b'x'; *count as usize].into(),
            Self::Secret { digest, .. } => secret::reveal(digest)?.into_owned().into_bytes().into(),
        })
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.len())
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum StoredBody {
    Text(String),
    Binary { base64: String },
    Fill { fill_bytes: u64 },
    Secret { secret: String, secret_bytes: u64 },
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = match self {
            Self::Fill(fill_bytes) => StoredBody::Fill { fill_bytes: *fill_bytes },
            Self::Secret { digest, bytes } => StoredBody::Secret { secret: digest.clone(), secret_bytes: *bytes },
            Self::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => return serializer.serialize_str(text),
                Err(_) => StoredBody::Binary { base64: STANDARD.encode(bytes) },
            },
        };
        stored.serialize(serializer)
    }
}

wire::schema_as!(Body, "Body", StoredBody);

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match StoredBody::deserialize(deserializer)? {
            StoredBody::Text(text) => Ok(Self::Bytes(text.into_bytes())),
            StoredBody::Binary { base64 } => STANDARD.decode(base64).map(Self::Bytes).map_err(serde::de::Error::custom),
            StoredBody::Fill { fill_bytes } => Ok(Self::Fill(fill_bytes)),
            StoredBody::Secret { secret, secret_bytes } => Ok(Self::Secret { digest: secret, bytes: secret_bytes }),
        }
    }
}

/// The statuses that a response may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedStatus {
    /// One status, from 100 to 599.
    Exact(u16),
    /// All statuses with this first digit, from 1 to 5.
    Class(u16),
    /// Any status.
    Any,
}

impl ExpectedStatus {
    /// Whether a response may have this status.
    #[inline]
    pub fn accepts(self, status: u16) -> bool {
        match self {
            Self::Exact(expected) => status == expected,
            Self::Class(digit) => status / 100 == digit,
            Self::Any => true,
        }
    }
}

impl fmt::Display for ExpectedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(status) => status.fmt(f),
            Self::Class(digit) => write!(f, "{digit}xx"),
            Self::Any => f.write_str("any"),
        }
    }
}

impl FromStr for ExpectedStatus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let class = |digit: &str| digit.parse().ok().filter(|digit| (1..=5).contains(digit)).map(Self::Class);
        let exact = || text.parse().ok().filter(|status| (100..=599).contains(status)).map(Self::Exact);
        let parsed = match text.strip_suffix("xx") {
            Some(digit) => class(digit),
            None if text == "any" => Some(Self::Any),
            None => exact(),
        };
        parsed.ok_or_else(|| {
            format!("invalid status `{text}`: expected a number from 100 to 599, a class such as 2xx, or any")
        })
    }
}

impl Serialize for ExpectedStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Exact(status) => serializer.serialize_u16(*status),
            _ => serializer.collect_str(self),
        }
    }
}

impl JsonSchema for ExpectedStatus {
    fn schema_name() -> Cow<'static, str> {
        "ExpectedStatus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"] })
    }
}

impl<'de> Deserialize<'de> for ExpectedStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "invalid status: expected a number from 100 to 599, a class such as \"2xx\", or \"any\""
        )]
        enum Stored {
            Number(i64),
            Text(String),
        }
        let text = match Stored::deserialize(deserializer)? {
            Stored::Number(number) => number.to_string(),
            Stored::Text(text) => text,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_round_trips_and_accepts_its_class() {
        for (text, accepted, rejected) in [("204", 204, 200), ("2xx", 299, 301), ("any", 599, 0)] {
            let status: ExpectedStatus = text.parse().unwrap();
            assert_eq!(status.to_string(), text);
            assert!(status.accepts(accepted) && (text == "any" || !status.accepts(rejected)), "{text}");
        }
        for wrong in ["", "99", "600", "1000", "0xx", "6xx", "22xx", "xx", "2x", "-200", "OK"] {
            assert!(wrong.parse::<ExpectedStatus>().is_err(), "{wrong}");
        }
    }
}
