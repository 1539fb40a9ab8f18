//! The requests of the `http` service: `[workload.http]`, or the flags of `compare` and `load`.

use std::fmt;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;

use load::config::{HttpTarget, HttpTraffic};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wire::ServiceSpec;

use crate::spec::OneOrMany;
use crate::spec::units::Size;

/// The prefix under which our servers generate content of any size.
const GENERATED: &str = "/bytes/";

/// The requests and responses of the `http` service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Http {
    /// The paths with their queries, requested in turn; by default `/bytes/N` with the response size N.
    #[schemars(with = "Option<OneOrMany<String>>")]
    pub paths: Option<OneOrMany<String>>,
    /// The headers of each request, such as "Accept: text/html".
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// The required status of each response; by default 200.
    pub status: Option<NonZeroU16>,
    /// The folder with the files that the servers serve; by default they generate `/bytes/N` with N bytes.
    pub folder: Option<PathBuf>,
}

impl Http {
    /// Returns the client's requests. `response` is the configured response size. With `is_ours` and without a folder, the
    /// server generates content, so the length of `/bytes/N` is known. An error begins with the key, as `paths: ...`.
    pub fn traffic(&self, response: Option<Size>, is_ours: bool) -> Result<HttpTraffic, String> {
        let configured = response.map(|size| u64::from(size.0));
        let known = |path: &str| {
            let generated = path.strip_prefix(GENERATED).filter(|_| is_ours && self.folder.is_none());
            configured.or_else(|| generated?.parse().ok())
        };
        let targets = match (&self.paths, configured) {
            (Some(paths), _) => {
                if let Some(path) = paths.0.iter().find(|path| !path.starts_with('/')) {
                    return Err(format!("paths: invalid path `{path}`: expected a leading slash, as in /bytes/1024"));
                }
                paths.0.iter().map(|path| HttpTarget { path: path.clone(), body_bytes: known(path) }).collect()
            }
            (None, Some(bytes)) => vec![HttpTarget { path: format!("{GENERATED}{bytes}"), body_bytes: Some(bytes) }],
            (None, None) => return Err("paths: missing; add a path such as \"/bytes/1024\"".to_owned()),
        };
        let headers = self.headers.iter().map(|header| (header.name.clone(), header.value.clone())).collect();
        Ok(HttpTraffic { host: None, targets, headers, status: self.status.map_or(200, NonZeroU16::get) })
    }

    /// Returns the server's service.
    pub fn service(&self) -> ServiceSpec {
        ServiceSpec::Http { folder: self.folder.clone() }
    }
}

/// A header of a request, written `Name: value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name.
    pub name: String,
    /// The value without surrounding spaces.
    pub value: String,
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok(Self { name: name.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err(format!("invalid header `{text}`: expected a name and a value, as in `Accept: text/html`")),
        }
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}

impl Serialize for Header {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Header {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Header".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[^:]+:", "examples": ["Accept: text/html"]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(paths: &[&str]) -> Http {
        let paths = (!paths.is_empty()).then(|| OneOrMany(paths.iter().map(|path| (*path).to_owned()).collect()));
        Http { paths, ..Http::default() }
    }

    #[test]
    fn body_length_is_known_from_size_or_generated_path() {
        let lengths = |http: &Http, response, is_ours| -> Vec<Option<u64>> {
            let traffic = http.traffic(response, is_ours).unwrap();
            traffic.targets.into_iter().map(|target| target.body_bytes).collect()
        };
        let two = http(&["/bytes/7", "/index.html"]);
        assert_eq!(lengths(&two, None, true), [Some(7), None]);
        assert_eq!(lengths(&two, None, false), [None, None], "an external server may send anything");
        assert_eq!(lengths(&two, Some(Size(5)), true), [Some(5), Some(5)]);
        let from_files = Http { folder: Some("/srv".into()), ..two };
        assert_eq!(lengths(&from_files, None, true), [None, None]);
        let traffic = http(&[]).traffic(Some(Size(1024)), true).unwrap();
        assert_eq!((traffic.targets[0].path.as_str(), traffic.targets[0].body_bytes), ("/bytes/1024", Some(1024)));
        assert_eq!(traffic.status, 200);
    }

    #[test]
    fn invalid_path_or_header_is_rejected() {
        assert!(http(&[]).traffic(None, true).unwrap_err().starts_with("paths: missing"));
        assert!(http(&["bytes/1"]).traffic(None, true).unwrap_err().contains("invalid path `bytes/1`"));
        assert!("Accept".parse::<Header>().unwrap_err().contains("invalid header `Accept`"));
        assert!(": x".parse::<Header>().is_err());
        let header: Header = "Accept:text/html ".parse().unwrap();
        assert_eq!(header.to_string(), "Accept: text/html");
    }
}
