//! The URL that `muxbench load` is given: resolved once, before anything starts.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, bail};
use wire::Address;
use wire::http::ask::Url;

/// How long each address of a name that has several is tried.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a URL stands for.
#[derive(Debug)]
pub struct Asked {
    /// The server's address; of a name that has several, the first at which somebody listens.
    pub target: Address,
    /// What the server is told to be asked as.
    pub host: String,
    /// The path with its query.
    pub path: String,
}

/// Reads a URL, and looks its host up.
///
/// # Errors
/// When it is none that can be asked for, or the host has no address.
pub fn read(text: &str) -> anyhow::Result<Asked> {
    if text.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
        bail!(
            "{text}: no TLS is spoken here, which would be the cost of a cipher and not of the server's architecture; measure \
             http:// behind what ends TLS"
        );
    }
    let url: Url = text.parse()?;
    let unknown = || format!("{text}: the host `{}` has no address; check its name, or write the address", url.host);
    let addresses: Vec<_> = (url.host.as_str(), url.port).to_socket_addrs().with_context(unknown)?.collect();
    let first = *addresses.first().with_context(unknown)?;
    let answers = || addresses.iter().find(|address| TcpStream::connect_timeout(address, PATIENCE).is_ok()).copied();
    let target = if addresses.len() > 1 { answers().unwrap_or(first) } else { first };
    Ok(Asked { target: target.into(), host: url.authority, path: url.target })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_an_address_and_what_to_ask_for_there() {
        let asked = read("http://127.0.0.1:8080/a?b=c").unwrap();
        assert_eq!((asked.target.to_string().as_str(), asked.path.as_str()), ("127.0.0.1:8080", "/a?b=c"));
        assert_eq!(asked.host, "127.0.0.1:8080");
        assert_eq!(read("http://[::1]/").unwrap().target.to_string(), "[::1]:80");
        assert!(read("http://localhost:1").unwrap().target.ip().unwrap().ip().is_loopback());
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused_with_the_reason() {
        let why = |text| format!("{:#}", read(text).unwrap_err());
        assert!(why("https://localhost/").contains("no TLS is spoken here"));
        assert!(why("HTTPS://localhost/").contains("no TLS is spoken here"));
        assert!(why("ftp://localhost/").contains("not a URL"));
        assert!(why("http://no-such-host.invalid/").contains("`no-such-host.invalid` has no address"));
    }
}
