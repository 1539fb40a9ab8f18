//! What is asked of an HTTP server, as the user says it: `[workload.http]`, or the flags of `compare` and `load`.

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

/// Where a server of ours has content of any size.
const GENERATED: &str = "/bytes/";

/// What is asked for, of `http`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Http {
    /// Paths with their queries, asked for in turn. Without any it is `/bytes/N`, N being the size of a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OneOrMany<String>>")]
    pub paths: Option<OneOrMany<String>>,
    /// Sent with each request, as in "Accept: text/html".
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// What each response's status must be; 200 if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<NonZeroU16>,
    /// The files that the servers have; without it they have `/bytes/N`, of N bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

impl Http {
    /// What the client asks for. `response` is how long content is, if that was said; `is_ours` that the server is one of
    /// ours, whose generated content has a length that is known.
    ///
    /// # Errors
    /// What is wrong, as `paths: ...`.
    pub fn traffic(&self, response: Option<Size>, is_ours: bool) -> Result<HttpTraffic, String> {
        let said = response.map(|size| u64::from(size.0));
        let known = |path: &str| {
            let generated = path.strip_prefix(GENERATED).filter(|_| is_ours && self.folder.is_none());
            said.or_else(|| generated?.parse().ok())
        };
        let targets = match (&self.paths, said) {
            (Some(paths), _) => {
                if let Some(path) = paths.0.iter().find(|path| !path.starts_with('/')) {
                    return Err(format!("paths: `{path}` is no path; it begins with a slash, as in /bytes/1024"));
                }
                paths.0.iter().map(|path| HttpTarget { path: path.clone(), body_bytes: known(path) }).collect()
            }
            (None, Some(bytes)) => vec![HttpTarget { path: format!("{GENERATED}{bytes}"), body_bytes: Some(bytes) }],
            (None, None) => return Err("paths: missing; say what to ask for, like \"/bytes/1024\"".to_owned()),
        };
        let headers = self.headers.iter().map(|header| (header.name.clone(), header.value.clone())).collect();
        Ok(HttpTraffic { host: None, targets, headers, status: self.status.map_or(200, NonZeroU16::get) })
    }

    /// What the server runs.
    pub fn service(&self) -> ServiceSpec {
        ServiceSpec::Http { folder: self.folder.clone() }
    }
}

/// A header of a request, written `Name: value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value, without the spaces around it.
    pub value: String,
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok(Self { name: name.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err(format!("`{text}` is no header; write it like `Accept: text/html`")),
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
    fn lengths_are_known_where_they_can_be() {
        let lengths = |http: &Http, response, is_ours| -> Vec<Option<u64>> {
            let traffic = http.traffic(response, is_ours).unwrap();
            traffic.targets.into_iter().map(|target| target.body_bytes).collect()
        };
        let two = http(&["/bytes/7", "/index.html"]);
        assert_eq!(lengths(&two, None, true), [Some(7), None]);
        assert_eq!(lengths(&two, None, false), [None, None], "somebody else's /bytes/7 may be anything");
        assert_eq!(lengths(&two, Some(Size(5)), true), [Some(5), Some(5)]);
        let from_files = Http { folder: Some("/srv".into()), ..two };
        assert_eq!(lengths(&from_files, None, true), [None, None]);
        let traffic = http(&[]).traffic(Some(Size(1024)), true).unwrap();
        assert_eq!((traffic.targets[0].path.as_str(), traffic.targets[0].body_bytes), ("/bytes/1024", Some(1024)));
        assert_eq!(traffic.status, 200);
    }

    #[test]
    fn what_is_no_path_or_header_is_refused() {
        assert!(http(&[]).traffic(None, true).unwrap_err().starts_with("paths: missing"));
        assert!(http(&["bytes/1"]).traffic(None, true).unwrap_err().contains("`bytes/1` is no path"));
        assert!("Accept".parse::<Header>().unwrap_err().contains("`Accept` is no header"));
        assert!(": x".parse::<Header>().is_err());
        let header: Header = "Accept:text/html ".parse().unwrap();
        assert_eq!(header.to_string(), "Accept: text/html");
    }
}
