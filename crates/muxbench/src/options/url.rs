//! The URL of `muxbench load`, resolved once before the load starts.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, bail};
use wire::Address;
use wire::http::client::Url;

/// Longest time to connect to one of the addresses of a host.
const CONNECT_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct ResolvedUrl {
    /// The server's address. If the host has several, the first that accepts a connection; if none accepts, the first.
    pub target: Address,
    /// The value of the `Host` header.
    pub host: String,
    pub path: String,
}

pub fn resolve(text: &str) -> anyhow::Result<ResolvedUrl> {
    if text.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
        bail!("cannot load {text}: TLS is not supported; try http:// behind the proxy that terminates TLS");
    }
    let url: Url = text.parse()?;
    let unknown = || format!("cannot load {text}: host `{}` has no address; check its name", url.host);
    let addresses: Vec<_> = (url.host.as_str(), url.port).to_socket_addrs().with_context(unknown)?.collect();
    let first = *addresses.first().with_context(unknown)?;
    let accepts = || addresses.iter().find(|address| TcpStream::connect_timeout(address, CONNECT_MAX).is_ok());
    let target = if addresses.len() > 1 { accepts().copied().unwrap_or(first) } else { first };
    Ok(ResolvedUrl { target: target.into(), host: url.authority, path: url.target })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_resolves_to_address_host_and_path() {
        let url = resolve("http://127.0.0.1:8080/a?b=c").unwrap();
        assert_eq!((url.target.to_string().as_str(), url.path.as_str()), ("127.0.0.1:8080", "/a?b=c"));
        assert_eq!(url.host, "127.0.0.1:8080");
        assert_eq!(resolve("http://[::1]/").unwrap().target.to_string(), "[::1]:80");
        assert!(resolve("http://localhost:1").unwrap().target.ip().unwrap().ip().is_loopback());
    }

    #[test]
    fn unusable_url_fails_with_its_reason() {
        let error = |text| format!("{:#}", resolve(text).unwrap_err());
        assert!(error("https://localhost/").contains("TLS is not supported"));
        assert!(error("HTTPS://localhost/").contains("TLS is not supported"));
        assert!(error("ftp://localhost/").contains("invalid URL"));
        assert!(error("http://no-such-host.invalid/").contains("`no-such-host.invalid` has no address"));
    }
}
