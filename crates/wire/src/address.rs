//! Addresses of servers as plain data: an IP address with a port, or the path of a Unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const UNIX: &str = "unix:";

/// Longest path of a Unix socket: `sun_path` without its terminating zero (unix(7); sys/un.h).
pub const PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// The address of a server, written `127.0.0.1:7007`, `[::1]:7007` or `unix:/tmp/muxbench.sock`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A port of an IP address.
    Ip(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Creates the address of a Unix socket. The error says why the path is refused, and names a remedy.
    pub fn unix(path: impl Into<PathBuf>) -> Result<Self, String> {
        let path: PathBuf = path.into();
        let reason = match path.to_str() {
            None => "the path is not UTF-8; choose another one".into(),
            Some(text) if text.is_empty() || text.contains('\0') => {
                format!("the address names no file; write it as {UNIX}/tmp/muxbench.sock")
            }
            Some(text) if text.starts_with('@') => {
                format!("abstract names are not supported; give a path, or write {UNIX}./{text}")
            }
            Some(text) if text.len() > PATH_BYTES_MAX => {
                let bytes = text.len();
                format!("{bytes} bytes exceed the limit of {PATH_BYTES_MAX} for a socket's path; choose a shorter one")
            }
            Some(_) => return Ok(Self::Unix(path)),
        };
        Err(format!("`{UNIX}{}`: {reason}", path.to_string_lossy().escape_debug()))
    }

    /// Returns the IP address and port, if it has them.
    pub fn ip(&self) -> Option<SocketAddr> {
        if let Self::Ip(address) = self { Some(*address) } else { None }
    }

    /// Returns the path of a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        if let Self::Unix(path) = self { Some(path) } else { None }
    }
}

impl<T: Into<SocketAddr>> From<T> for Address {
    fn from(address: T) -> Self {
        Self::Ip(address.into())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(UNIX) {
            Some(path) => Self::unix(path),
            None => text.parse().map(Self::Ip).map_err(|_| {
                format!("invalid address `{text}`: expected 127.0.0.1:7007, [::1]:7007 or {UNIX}/tmp/muxbench.sock")
            }),
        }
    }
}

/// Implements the JSON Schema of a type that is serialised as another type.
#[macro_export]
macro_rules! schema_as {
    ($type:ty, $name:expr, $stored:ty) => {
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                <$stored>::json_schema(generator)
            }
        }
    };
}

/// Implements serialisation of a type as its text: as `Display` writes it and `FromStr` reads it.
#[macro_export]
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
serde_as_text!(Address);
schema_as!(Address, "Address", String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_reads_back_as_written() {
        for text in ["127.0.0.1:7007", "[::1]:0", "unix:/tmp/a b.sock", "unix:beside"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.ip().is_some(), address.path().is_none());
        }
        let ip = SocketAddr::from(([10, 0, 0, 1], 80));
        assert_eq!(Address::from(ip).to_string(), ip.to_string());
    }

    #[test]
    fn invalid_address_error_shows_valid_ones() {
        let fits = format!("unix:/{}", "x".repeat(PATH_BYTES_MAX - 1));
        assert!(fits.parse::<Address>().is_ok());
        let too_long = format!("{fits}x");
        let wrong = [
            ("", "127.0.0.1:7007"),
            ("127.0.0.1", "127.0.0.1:7007"),
            ("::1:80", "[::1]:7007"),
            ("/tmp/x.sock", "unix:/tmp"),
            ("unix:", "names no file"),
            ("unix:/a\0b", "names no file"),
            ("unix:@name", "unix:./@name"),
            (&too_long, "exceed the limit"),
        ];
        for (text, words) in wrong {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
