//! `[target.NAME]`: servers that already run, named by their URL.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU32;
use std::str::FromStr;

use load::config::Login;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use server::external::target::reach;
use server::spec::tls::SERVER_NAME;
use wire::http::client::Url;
use wire::http::decoded;
use wire::{Address, Ports, secret};

use super::transport::Transport;
use super::workload::Service;

/// The forms of a URL, for errors.
const FORMS: &str = "http[s]://HOST[:PORT][/PATH], memcached://HOST[:PORT], redis[s]://HOST[:PORT][/DATABASE], tcp://HOST:PORT, \
                     udp://HOST:PORT or unix:/PATH; before HOST of the first three perhaps USER:PASSWORD@";

/// A server that muxbench neither starts nor ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Target {
    /// The URL: `http://HOST:PORT/PATH`, `https://HOST:PORT/PATH`, `memcached://HOST:PORT`, `redis://HOST:PORT/DATABASE`,
    /// `rediss://` (with TLS), `tcp://HOST:PORT`, `udp://HOST:PORT` or `unix:/PATH`. The first four may have USER:PASSWORD@ before HOST;
    /// `${NAME}` is a variable of the environment. The ports of `udp` are consecutive, unless the URL lists them, as in
    /// `udp://HOST:7000-7004,7010`.
    pub url: TargetUrl,
    /// The ID of the server's process on this host. With it, muxbench measures CPU time and memory of the process and its
    /// descendants.
    pub pid: Option<NonZeroU32>,
}

/// The URL of a target. Its scheme selects the service and the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetUrl {
    text: String,
    scheme: Scheme,
    place: Place,
    /// The path and query of an HTTP URL, if it has them.
    path: Option<String>,
    /// The ports of a datagram server, if the URL lists several.
    ports: Option<Ports>,
    login: Option<Login>,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
    Memcached,
    Redis,
    Rediss,
    Tcp,
    Udp,
    Unix,
}

/// The location of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Host {
        /// The name or address, without the brackets of an IPv6 address.
        name: String,
        port: u16,
        /// Host and port as written.
        authority: String,
    },
    Socket(Address),
}

impl Scheme {
    const ALL: [(&str, Self, Option<u16>); 7] = [
        ("http", Self::Http, Some(80)),
        ("https", Self::Https, Some(443)),
        ("memcached", Self::Memcached, Some(11_211)),
        ("redis", Self::Redis, Some(6_379)),
        ("rediss", Self::Rediss, Some(6_379)),
        ("tcp", Self::Tcp, None),
        ("udp", Self::Udp, None),
    ];
}

impl TargetUrl {
    /// The service that the scheme selects; `None` for a scheme that only selects a transport.
    pub fn service(&self) -> Option<Service> {
        match self.scheme {
            Scheme::Http | Scheme::Https => Some(Service::Http),
            Scheme::Memcached => Some(Service::Kv),
            Scheme::Redis | Scheme::Rediss => Some(Service::Redis),
            Scheme::Udp => Some(Service::Udp),
            Scheme::Tcp | Scheme::Unix => None,
        }
    }

    /// The ports of a datagram server, if the URL lists several.
    pub fn ports(&self) -> Option<&Ports> {
        self.ports.as_ref()
    }

    /// What the client needs to be let in, if the URL has it.
    pub fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// The name in the server's certificate, if the client must encrypt: always with `https` and `rediss`, never with `http`, and otherwise if
    /// the workload has TLS.
    pub fn certified_name(&self, has_tls: bool) -> Option<&str> {
        let encrypts = match self.scheme {
            Scheme::Https | Scheme::Rediss => true,
            Scheme::Http => false,
            Scheme::Memcached | Scheme::Redis | Scheme::Tcp | Scheme::Udp | Scheme::Unix => has_tls,
        };
        encrypts.then_some(match &self.place {
            Place::Host { name, .. } => name,
            Place::Socket(_) => SERVER_NAME,
        })
    }

    /// The transport that the URL selects; `None` if the name of its host may have addresses of both families.
    pub fn transport(&self) -> Option<Transport> {
        match &self.place {
            Place::Socket(_) => Some(Transport::Unix),
            Place::Host { name, .. } => match name.parse().ok()? {
                std::net::IpAddr::V4(_) => Some(Transport::Tcp),
                std::net::IpAddr::V6(_) => Some(Transport::Tcp6),
            },
        }
    }

    /// The transport to the only family of addresses with which the host of the URL accepts connections; `None` if it has both, and both
    /// or none of them accept.
    pub fn reachable_transport(&self) -> Option<Transport> {
        let Place::Host { name, port, .. } = &self.place else { return None };
        let found: Vec<SocketAddr> = (name.as_str(), *port).to_socket_addrs().ok()?.collect();
        only_family(&found, |address| self.scheme != Scheme::Udp && reach(&address.into()).is_ok())
    }

    /// The path and query that `http` requests, if the URL has them.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Host and port as written, for the `Host` header.
    pub fn authority(&self) -> Option<&str> {
        match &self.place {
            Place::Host { authority, .. } => Some(authority),
            Place::Socket(_) => None,
        }
    }

    /// Returns the server's addresses, over which the connections are spread: those of the transport's family that accept a connection,
    /// or the first if none does. Datagrams have one.
    pub fn resolve(&self, transport: Transport) -> Result<Vec<Address>, String> {
        let (name, port) = match &self.place {
            Place::Socket(address) => return Ok(vec![address.clone()]),
            Place::Host { name, port, .. } => (name, *port),
        };
        let found = (name.as_str(), port).to_socket_addrs();
        let found: Vec<SocketAddr> = found
            .map_err(|error| format!("cannot find the host `{name}`: {error}; correct its name, or write its address"))?
            .collect();
        let is_datagram = self.scheme == Scheme::Udp;
        usable(&found, transport, |address| !is_datagram && reach(&address.into()).is_ok()).ok_or_else(|| {
            let other = if transport == Transport::Tcp6 { "tcp" } else { "tcp6" };
            format!("`{name}` has no address for this transport; set workload.transport (--transport) to {other}")
        })
    }
}

/// Returns the addresses of a family that accept connections, or the first if none does; `None` without an address of the family.
fn usable(found: &[SocketAddr], transport: Transport, accepts: impl Fn(SocketAddr) -> bool) -> Option<Vec<Address>> {
    let mut wanted: Vec<SocketAddr> = Vec::new();
    for address in found.iter().filter(|address| address.is_ipv6() == (transport == Transport::Tcp6)) {
        if !wanted.contains(address) {
            wanted.push(*address);
        }
    }
    let first = *wanted.first()?;
    if wanted.len() > 1 {
        wanted.retain(|address| accepts(*address));
    }
    Some(if wanted.is_empty() { vec![first.into()] } else { wanted.into_iter().map(Address::from).collect() })
}

fn only_family(found: &[SocketAddr], accepts: impl Fn(SocketAddr) -> bool) -> Option<Transport> {
    let are_both = found.iter().any(SocketAddr::is_ipv4) && found.iter().any(SocketAddr::is_ipv6);
    let mut usable = found.iter().filter(|&&it| !are_both || accepts(it)).map(SocketAddr::is_ipv6);
    let is_ipv6 = usable.next()?;
    usable.all(|it| it == is_ipv6).then_some(if is_ipv6 { Transport::Tcp6 } else { Transport::Tcp })
}

impl FromStr for TargetUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("unix:") {
            let place = Place::Socket(text.parse()?);
            let (path, ports, login) = (None, None, None);
            return Ok(Self { text: text.to_owned(), scheme: Scheme::Unix, place, path, ports, login });
        }
        let expanded = secret::expand(text).map_err(|reason| format!("invalid URL: {reason}"))?;
        let (text, shown, login) = without_login(&expanded);
        let parse = || {
            let (name, rest) = text.split_once("://")?;
            let (_, scheme, port) = *Scheme::ALL.iter().find(|(known, ..)| name.eq_ignore_ascii_case(known))?;
            let (host, last) = rest.rsplit_once(':').unwrap_or((rest, ""));
            let ports: Option<Ports> =
                last.parse().ok().filter(|ports: &Ports| scheme == Scheme::Udp && ports.count() > 1);
            let first = ports.as_ref().and_then(|ports| Some(format!("{host}:{}", ports.iter().next()?)));
            let url: Url = format!("http://{}", first.as_deref().unwrap_or(rest)).parse().ok()?;
            // An HTTP URL without a port has the port 80, even if it was written with another scheme.
            let has_port = url.authority.rsplit(']').next().is_some_and(|after| after.contains(':'));
            let port = if has_port { url.port } else { port? };
            let is_http = matches!(scheme, Scheme::Http | Scheme::Https);
            let is_redis = matches!(scheme, Scheme::Redis | Scheme::Rediss);
            let mut login = login.clone();
            if is_redis && url.target != "/" {
                login.get_or_insert_default().database = Some(url.target[1..].parse().ok()?);
            }
            let may_have_login = is_http || is_redis || scheme == Scheme::Memcached;
            if port == 0 || !is_http && !is_redis && url.target != "/" || login.is_some() && !may_have_login {
                return None;
            }
            let place = Place::Host { name: url.host, port, authority: url.authority };
            let path = Some(url.target).filter(|_| is_http && rest.contains(['/', '?']));
            Some(Self { text: String::new(), scheme, place, path, ports, login })
        };
        let url = parse().ok_or_else(|| format!("invalid URL `{shown}`: expected {FORMS}"))?;
        if !url.path().unwrap_or_default().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "invalid URL `{shown}`: the path has a space or a character that is not ASCII; encode it (%20 for a \
                 space)"
            ));
        }
        Ok(Self { text: shown, ..url })
    }
}

/// Returns a URL without user and password, the URL with the password concealed, and both as a login if it has them.
fn without_login(url: &str) -> (String, String, Option<Login>) {
    let split = || {
        let (scheme, rest) = url.split_once("://")?;
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        let (login, after) = rest.split_at(authority.rfind('@')?);
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        // The user may have written it on the command line as it is.
        secret::conceal(password);
        let login = Login { user: decoded(user)?, password: secret::conceal(&decoded(password)?), database: None };
        let shown = format!("{scheme}://{user}:{}{after}", login.password);
        Some((format!("{scheme}://{}", &after[1..]), shown, Some(login).filter(|it| *it != Login::default())))
    };
    split().unwrap_or_else(|| (url.to_owned(), url.to_owned(), None))
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

wire::serde_as_text!(TargetUrl);

impl JsonSchema for TargetUrl {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TargetUrl".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^((https?|memcached|rediss?|tcp|udp)://|unix:)."})
    }
}

impl Target {
    /// Checks the target for a service and a transport. An error begins with the key, as `url: ...`.
    pub(super) fn check(&self, service: Service, transport: Transport, ports: &[NonZeroU32]) -> Result<(), String> {
        let url = &self.url;
        if let Some(own) = url.service().filter(|own| *own != service) {
            return Err(format!(
                "url: `{url}` is a server of `{}`, but the service is `{}`; set workload.service (--service) to {}, or correct \
                 the URL",
                name(own),
                name(service),
                name(own)
            ));
        }
        // A host name may have addresses of both families, but none of a Unix socket.
        let of_name = Some(Transport::Tcp).filter(|_| transport == Transport::Unix);
        if let Some(own) = url.transport().or(of_name).filter(|own| *own != transport) {
            let (own, transport) = (name(own), name(transport));
            return Err(format!(
                "url: `{url}` needs the transport {own}, but the transport is {transport}; set workload.transport \
                 (--transport) to {own}"
            ));
        }
        if service == Service::Udp && url.service().is_none() {
            return Err(format!("url: `{url}` has connections, but `udp` has none; write udp://HOST:PORT"));
        }
        let listed = url.ports().map(Ports::count);
        if let Some((listed, ports)) = listed.and_then(|it| Some((it, ports.iter().find(|ports| ports.get() != it)?))) {
            return Err(format!(
                "url: `{url}` lists {listed} ports, but workload.ports (--ports) is {ports}; use the same number"
            ));
        }
        if self.pid.is_some() && cfg!(not(target_os = "linux")) {
            return Err("pid: only Linux can measure the process of another program; remove it".to_owned());
        }
        Ok(())
    }
}

/// Returns the name of a value in experiment files.
fn name(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn url(text: &str) -> TargetUrl {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn scheme_selects_service_and_transport() {
        for (text, service, transport) in [
            ("http://127.0.0.1:8080/a?b=c", Some(Service::Http), Some(Transport::Tcp)),
            ("HTTPS://localhost", Some(Service::Http), None),
            ("memcached://[::1]", Some(Service::Kv), Some(Transport::Tcp6)),
            ("redis://localhost", Some(Service::Redis), None),
            ("tcp://10.0.0.1:7007", None, Some(Transport::Tcp)),
            ("udp://10.0.0.1:20000", Some(Service::Udp), Some(Transport::Tcp)),
            ("unix:/run/kv.sock", None, Some(Transport::Unix)),
        ] {
            let url = url(text);
            assert_eq!((url.service(), url.transport()), (service, transport), "{text}");
            assert_eq!(url.to_string(), text);
        }
        assert_eq!(url("http://127.0.0.1:8080/a?b=c").path(), Some("/a?b=c"));
        assert_eq!((url("http://localhost").path(), url("http://localhost/").path()), (None, Some("/")));
        assert_eq!(url("tcp://localhost:1").path(), None);
        assert_eq!(url("http://localhost:81/x").authority(), Some("localhost:81"));
        for (text, plain, encrypted) in [
            ("https://[::1]:81", Some("::1"), Some("::1")),
            ("http://h", None, None),
            ("redis://h", None, Some("h")),
            ("unix:/run/kv.sock", None, Some("localhost")),
        ] {
            let url = url(text);
            assert_eq!([false, true].map(|tls| url.certified_name(tls)), [plain, encrypted], "{text}");
        }
    }

    #[test]
    fn url_resolves_to_an_address_of_the_transport() {
        let resolved = |text: &str, transport| url(text).resolve(transport).map(|addresses| addresses[0].to_string());
        assert_eq!(resolved("http://127.0.0.1/", Transport::Tcp), Ok("127.0.0.1:80".into()));
        assert_eq!(resolved("https://[::1]/", Transport::Tcp6), Ok("[::1]:443".into()));
        assert_eq!(resolved("memcached://127.0.0.1", Transport::Tcp), Ok("127.0.0.1:11211".into()));
        assert_eq!(resolved("redis://127.0.0.1", Transport::Tcp), Ok("127.0.0.1:6379".into()));
        assert_eq!(resolved("unix:/run/kv.sock", Transport::Unix), Ok("unix:/run/kv.sock".into()));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert_eq!(resolved(&format!("tcp://localhost:{port}"), Transport::Tcp), Ok(format!("127.0.0.1:{port}")));
        let error = resolved("http://127.0.0.1/", Transport::Tcp6).unwrap_err();
        assert!(error.contains("set workload.transport (--transport) to tcp"), "{error}");
        let error = resolved("http://no-such-host.invalid/", Transport::Tcp).unwrap_err();
        assert!(error.contains("cannot find the host `no-such-host.invalid`"), "{error}");
    }

    #[test]
    fn name_of_both_families_has_that_of_its_server() {
        let [v4, v6]: [SocketAddr; 2] = ["127.0.0.1:80", "[::1]:80"].map(|it| it.parse().unwrap());
        let both = |are_accepted: [bool; 2]| only_family(&[v6, v4], |it| are_accepted[usize::from(it.is_ipv6())]);
        assert_eq!(both([true, false]), Some(Transport::Tcp));
        assert_eq!(both([false, true]), Some(Transport::Tcp6));
        assert_eq!([both([true, true]), both([false, false])], [None; 2], "the workload decides");
        assert_eq!(only_family(&[v6], |_| false), Some(Transport::Tcp6));
    }

    #[test]
    fn all_addresses_of_a_name_that_accept_are_used() {
        let found: Vec<SocketAddr> = ["10.0.0.1:80", "[::1]:80", "10.0.0.2:80", "10.0.0.1:80", "10.0.0.3:80"]
            .map(|it| it.parse().unwrap())
            .into();
        let usable = |transport, accepted: &[usize]| {
            let addresses = usable(&found, transport, |address| accepted.iter().any(|at| found[*at] == address));
            addresses.unwrap().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(usable(Transport::Tcp, &[0, 2, 4]), ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"]);
        assert_eq!(usable(Transport::Tcp, &[4]), ["10.0.0.3:80"]);
        assert_eq!(usable(Transport::Tcp, &[]), ["10.0.0.1:80"]);
        assert_eq!(usable(Transport::Tcp6, &[]), ["[::1]:80"], "one address needs no connection");
    }

    #[test]
    fn url_has_a_login_whose_password_is_concealed() {
        let login = |user: &str, password: &str, database| {
            Some(Login { user: user.into(), password: secret::conceal(password), database })
        };
        for (text, expected) in [
            ("redis://h", None),
            ("redis://h/2", login("", "", Some(2))),
            ("redis://:open%20sesame@h:1/2", login("", "open sesame", Some(2))),
            ("rediss://ali:b@ba@h", login("ali", "b@ba", None)),
            ("memcached://ali:baba@[::1]", login("ali", "baba", None)),
            ("https://ali:baba@h/a@b", login("ali", "baba", None)),
            ("http://ali@h/", login("ali", "", None)),
            ("redis://:${PATH}@h", login("", &std::env::var("PATH").unwrap(), None)),
        ] {
            let url = url(text);
            assert_eq!(url.login(), expected.as_ref(), "{text}");
            assert!(!["open", "baba", "b@ba"].iter().any(|word| url.to_string().contains(word)), "{url}");
            assert_eq!(url.to_string().parse(), Ok(url.clone()), "stored text reads back");
            assert!(url.authority().unwrap().starts_with(['h', '[']), "{text}");
        }
        assert_eq!(url("rediss://h").certified_name(false), Some("h"));
        for wrong in ["ftp://ali:baba@h/", "redis://:baba@h/x", "http://ali:baba@h/a b", "tcp://:baba@h:1"] {
            let error = wrong.parse::<TargetUrl>().unwrap_err();
            assert!(error.contains("invalid URL") && !error.contains("baba"), "{error}");
        }
    }

    #[test]
    fn invalid_url_error_shows_valid_ones() {
        for text in [
            "",
            "127.0.0.1:80",
            "ftp://localhost/",
            "tcp://localhost",
            "tcp://localhost:80/path",
            "memcached://localhost/1",
            "http://",
            "tcp://user:word@localhost:80",
            "redis://localhost/one",
            "redis://localhost/-1",
            "http://localhost:99999/",
            "udp://localhost:0",
        ] {
            let error = text.parse::<TargetUrl>().unwrap_err();
            assert!(error.contains("invalid URL") && error.contains("tcp://HOST:PORT"), "{text}: {error}");
        }
        assert!("unix:".parse::<TargetUrl>().unwrap_err().contains("names no file"));
    }

    #[test]
    fn path_of_a_url_is_encoded() {
        for path in ["/a x3", "/a b", "?q=a b", "/?q=ü", "/a\tb"] {
            let error = format!("http://127.0.0.1:8080{path}").parse::<TargetUrl>().unwrap_err();
            assert!(error.starts_with("invalid URL `http://") && error.ends_with("(%20 for a space)"), "{error}");
        }
        assert_eq!(url("http://127.0.0.1:8080/a%20b?q=%C3%BC").path(), Some("/a%20b?q=%C3%BC"));
    }

    #[test]
    fn target_of_another_service_or_transport_is_rejected() {
        let check =
            |text: &str, service, transport| Target { url: url(text), pid: None }.check(service, transport, &[]);
        let tcp = Transport::Tcp;
        for (text, service) in [
            ("http://localhost/", Service::Http),
            ("https://localhost/", Service::Http),
            ("memcached://localhost", Service::Kv),
            ("tcp://localhost:1", Service::Fixed),
            ("tcp://127.0.0.1:1", Service::Http),
        ] {
            assert_eq!(check(text, service, tcp), Ok(()), "{text}");
        }
        for (text, service, transport, words) in [
            (
                "http://localhost/",
                Service::Fixed,
                tcp,
                "but the service is `fixed`; set workload.service (--service) to http",
            ),
            ("memcached://localhost", Service::Http, tcp, "set workload.service (--service) to kv"),
            ("https://localhost/", Service::Kv, tcp, "set workload.service (--service) to http"),
            ("unix:/run/x", Service::Kv, tcp, "set workload.transport (--transport) to unix"),
            ("tcp://[::1]:1", Service::Kv, tcp, "--transport) to tcp6"),
            ("http://localhost/", Service::Http, Transport::Unix, "set workload.transport (--transport) to tcp"),
            ("tcp://localhost:1", Service::Udp, tcp, "write udp://HOST:PORT"),
        ] {
            let error = check(text, service, transport).unwrap_err();
            assert!(error.starts_with("url: ") && error.contains(words), "{text}: {error}");
        }
        let listed = Target { url: url("udp://127.0.0.1:7000-7004,7010"), pid: None };
        let check = |count| listed.check(Service::Udp, tcp, &[NonZeroU32::new(count).unwrap()]);
        assert_eq!(check(6), Ok(()));
        assert!(check(7).unwrap_err().contains("lists 6 ports, but workload.ports (--ports) is 7"));
        assert_eq!(listed.url.resolve(tcp).unwrap()[0].to_string(), "127.0.0.1:7000");
    }
}
