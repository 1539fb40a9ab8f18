//! The requests of the `http` service: `[workload.http]`, or the flags of `compare` and `load`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use load::config::{Body, ExpectedStatus, HttpTarget, HttpTraffic, Sizes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::http::client::{Request, RequestError, Url};
use wire::{ServiceSpec, secret};

use super::OneOrMany;
use super::requests::{BodySpec, Header, Length, RequestSpec, StatusSchema, read_bodies, read_requests};
use super::units::Size;

/// The prefix under which our servers generate content of any size.
const GENERATED: &str = "/bytes/";

/// The largest sum of all bodies: every trial of a run stores them.
const BODIES_BYTES_MAX: u64 = 4 << 20;

/// The largest sum of all bodies with arbitrary bytes, which each client process keeps in memory.
const FILLS_BYTES_MAX: u64 = 256 << 20;

/// The requests and responses of the `http` service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Http {
    /// The paths with their queries, requested in turn, or by weight as in "/a x3". By default `/bytes/N` with the response
    /// size N.
    #[schemars(with = "Option<OneOrMany<String>>")]
    pub paths: Option<OneOrMany<String>>,
    /// The method of each request; by default GET, or POST for requests with a body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The headers of each request, such as "Accept: text/html", or "@FILE" for a header on each line of a file. `${NAME}` in a
    /// value is a variable of the environment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// The body of each request, or `@FILE` for the content of a file. The bodies of a list are sent in turn.
    #[schemars(with = "Option<OneOrMany<BodySpec>>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<OneOrMany<BodySpec>>,
    /// The file with a body on each line. The bodies are sent in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_lines: Option<PathBuf>,
    /// Whether only a digest of each body is stored and shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub secret_body: bool,
    /// The requests, instead of `paths`, if they have different methods, headers, bodies or responses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestSpec>,
    /// The file with a request on each line, as a JSON object like those of `requests`, or as `[METHOD] PATH [xWEIGHT]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_file: Option<PathBuf>,
    /// The required status of each response: a number from 100 to 599, a class such as "2xx", or "any". By default 200 for GET
    /// and HEAD, and 2xx for other methods.
    #[schemars(with = "Option<StatusSchema>")]
    pub status: Option<ExpectedStatus>,
    /// The required length of each response's content: a size, "same" as the first response to the request, or "any". By default
    /// `same` for GET and HEAD, and `any` for other methods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<Length>,
    /// The folder with the files that the servers serve; by default they generate `/bytes/N` with N bytes. If the paths are given, and
    /// `response` too, built-in servers answer each path with that size.
    pub folder: Option<PathBuf>,
}

impl Http {
    /// Whether the requests are listed, so that no default path is needed.
    pub fn has_requests(&self) -> bool {
        self.paths.is_some() || !self.requests.is_empty() || self.requests_file.is_some()
    }

    /// Conceals the texts of bodies, if they are secret. The names of their files are not.
    pub(super) fn conceal(&mut self) {
        let bodies = self.body.iter_mut().flat_map(|bodies| &mut bodies.0);
        let bodies = bodies.chain(self.requests.iter_mut().filter_map(|request| request.body.as_mut()));
        for BodySpec(text) in bodies.filter(|body| self.secret_body && !body.0.starts_with('@')) {
            *text = secret::conceal(text);
        }
    }

    /// Whether requests have bodies of their own, or are listed with their bodies.
    pub(super) fn has_bodies(&self) -> bool {
        self.body.is_some() || self.body_lines.is_some() || !self.requests.is_empty() || self.requests_file.is_some()
    }

    /// Returns the client's requests. `response` is the configured response size. With `is_ours` and without a folder, the
    /// server generates content, so the length of `/bytes/N` is known. An error begins with the key, as `paths: ...`.
    pub fn traffic(&self, response: Option<Size>, is_ours: bool) -> Result<HttpTraffic, String> {
        let targets = self.specs(response)?.into_iter();
        let targets = targets.map(|(spec, body)| self.target(spec, body, response, is_ours));
        self.traffic_of(targets.collect::<Result<_, _>>()?, is_ours)
    }

    /// Returns a request for each pair of recorded sizes: `/bytes/N` with the size N of the response, or the only path. A request
    /// with a size has a body. An error begins with the key.
    pub fn replayed(&self, sizes: &[Sizes], response: Option<Size>, is_ours: bool) -> Result<HttpTraffic, String> {
        // Built-in servers answer no other method.
        let method = is_ours.then(|| "GET".to_owned());
        let mut targets = Vec::new();
        for Sizes { request_bytes, response_bytes } in sizes {
            let size =
                |bytes: u64| u32::try_from(bytes).map(Size).map_err(|_| format!("paths: {bytes} bytes are too many"));
            let response = response_bytes.map(size).transpose()?.or(response);
            let body = request_bytes.map(Body::Fill);
            let requests = self.specs(response)?.into_iter();
            for (spec, _) in requests {
                let method = spec.method.or_else(|| self.method.clone()).or_else(|| method.clone());
                let known = response.filter(|_| response_bytes.is_none());
                targets.push(self.target(RequestSpec { method, ..spec }, body.clone(), known, is_ours)?);
            }
        }
        self.traffic_of(targets, is_ours)
    }

    fn traffic_of(&self, mut targets: Vec<HttpTarget>, is_ours: bool) -> Result<HttpTraffic, String> {
        let status = self.status.unwrap_or(ExpectedStatus::Exact(200));
        targets.iter_mut().for_each(|target| target.status = target.status.filter(|it| *it != status));
        let unknown = |it: &&HttpTarget| !matches!(it.method.as_str(), "GET" | "HEAD");
        if let Some(target) = targets.iter().find(unknown).filter(|_| is_ours) {
            let method = &target.method;
            // Requests of a list have methods of their own.
            let has_body = self.body.is_some() || self.body_lines.is_some();
            if has_body && self.method.is_none() {
                let reason = "body: a body (-d) makes POST the default method, which built-in servers answer with 405; remove it, \
                              or load another server";
                return Err(reason.to_owned());
            }
            return Err(format!(
                "method: built-in servers answer {method} with 405; use GET or HEAD, or load another server"
            ));
        }
        let is_fill = |body: &&Body| matches!(body, Body::Fill(_));
        let (fills, stored): (Vec<&Body>, Vec<&Body>) =
            targets.iter().filter_map(|it| it.body.as_ref()).partition(is_fill);
        for (bodies, limit_bytes, remedy) in
            [(stored, BODIES_BYTES_MAX, "send less"), (fills, FILLS_BYTES_MAX, "round the sizes of the trace")]
        {
            let (bytes, mib) = (bodies.iter().map(|body| body.len()).sum::<u64>(), limit_bytes >> 20);
            if bytes > limit_bytes {
                return Err(format!("body: {bytes} bytes in all bodies exceed the limit of {mib} MiB; {remedy}"));
            }
        }
        let headers = Header::fields(&self.headers).map_err(|reason| format!("headers: {reason}"))?;
        self.check_requests(&targets, &headers)?;
        Ok(HttpTraffic { targets, headers, status })
    }

    /// Checks that the client can write all requests. An error begins with the key.
    fn check_requests(&self, targets: &[HttpTarget], common: &[(String, String)]) -> Result<(), String> {
        let get = HttpTarget::get("/", None);
        write(&get, common).map_err(|error| format!("headers: {error}"))?;
        let key = |target: &HttpTarget| {
            if !self.requests.is_empty() {
                "requests"
            } else if self.requests_file.is_some() {
                "requests-file"
            } else if write(&HttpTarget { method: target.method.clone(), ..get.clone() }, &[]).is_err() {
                "method"
            } else {
                "paths"
            }
        };
        targets.iter().try_for_each(|target| match write(target, common) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{}: {error}", key(target))),
        })
    }

    /// Returns all requests with their bodies.
    fn specs(&self, response: Option<Size>) -> Result<Vec<(RequestSpec, Option<Body>)>, String> {
        let mut listed = self.requests.clone();
        if let Some(file) = &self.requests_file {
            listed.extend(read_requests(file).map_err(|reason| format!("requests-file: {reason}"))?);
        }
        let conceal = |body| if self.secret_body { concealed(body) } else { Ok(body) };
        let load = |body: &BodySpec| body.load().and_then(conceal).map_err(|reason| format!("body: {reason}"));
        let mut bodies = self.body.iter().flat_map(|bodies| &bodies.0).map(load).collect::<Result<Vec<_>, _>>()?;
        if let Some(file) = &self.body_lines {
            let read =
                read_bodies(file).and_then(|bodies| bodies.into_iter().map(conceal).collect::<Result<Vec<_>, _>>());
            bodies.extend(read.map_err(|reason| format!("body-lines: {reason}"))?);
        }
        if !listed.is_empty() {
            if self.paths.is_some() {
                return Err("paths: not used beside a list of requests; add them to the list".to_owned());
            }
            if !bodies.is_empty() {
                return Err("body: not used beside a list of requests; add the bodies to the list".to_owned());
            }
            if let Some(RequestSpec { path, .. }) = listed.iter().find(|request| !request.path.starts_with('/')) {
                return Err(format!("requests: invalid path `{path}`: expected a leading slash, as in /a"));
            }
            let with_body = |request: RequestSpec| {
                let body = request.body.as_ref().map(load).transpose()?;
                Ok::<_, String>((request, body))
            };
            return listed.into_iter().map(with_body).collect();
        }
        let parse = |path: &String| {
            let invalid = || {
                format!("paths: invalid path `{path}`: expected a leading slash and perhaps a weight, as in `/a x3`")
            };
            RequestSpec::parse_path(path).ok_or_else(invalid)
        };
        let paths: Vec<RequestSpec> = match (&self.paths, response) {
            (Some(paths), _) => paths.0.iter().map(parse).collect::<Result<_, _>>()?,
            (None, Some(size)) => {
                vec![RequestSpec { path: format!("{GENERATED}{}", size.0), ..RequestSpec::default() }]
            }
            (None, None) => return Err("paths: missing; add a path such as \"/bytes/1024\"".to_owned()),
        };
        match (paths.as_slice(), bodies.as_slice()) {
            (_, []) => Ok(paths.into_iter().map(|path| (path, None)).collect()),
            (_, [body]) => Ok(paths.into_iter().map(|path| (path, Some(body.clone()))).collect()),
            ([path], _) => Ok(bodies.into_iter().map(|body| (path.clone(), Some(body))).collect()),
            _ => Err("body: several paths and several bodies do not combine; list the requests in a requests-file"
                .to_owned()),
        }
    }

    /// Returns a request. An error begins with the key.
    fn target(
        &self,
        spec: RequestSpec,
        body: Option<Body>,
        response: Option<Size>,
        is_ours: bool,
    ) -> Result<HttpTarget, String> {
        let default = if body.is_some() { "POST" } else { "GET" };
        let method = spec.method.or_else(|| self.method.clone()).unwrap_or_else(|| default.to_owned());
        let (is_get, is_head) = (method == "GET", method == "HEAD");
        let status = if is_get || is_head { ExpectedStatus::Exact(200) } else { ExpectedStatus::Class(2) };
        let generated = spec.path.strip_prefix(GENERATED).filter(|_| is_ours && is_get && self.folder.is_none());
        let known = response.filter(|_| !is_head).map(|size| u64::from(size.0));
        let known = known.or_else(|| generated?.parse().ok());
        let (body_bytes, any_length) = match spec.length.or(self.length) {
            Some(Length::Bytes(bytes)) => (Some(bytes), false),
            Some(length) => (None, length == Length::Any),
            None => (known, known.is_none() && !is_get && !is_head),
        };
        Ok(HttpTarget {
            path: secret::expand(&spec.path).map_err(|reason| format!("paths: {reason}"))?,
            body_bytes,
            any_length,
            method,
            headers: Header::fields(&spec.headers).map_err(|reason| format!("requests: {reason}"))?,
            body,
            weight: spec.weight.map_or(1, NonZeroU32::get),
            status: Some(spec.status.or(self.status).unwrap_or(status)),
        })
    }

    /// Returns the server's service. Without a folder, each path has content of the size `response`, if there is one.
    pub fn service(&self, response: Option<Size>) -> ServiceSpec {
        let response_bytes = response.filter(|_| self.folder.is_none()).map(|size| size.0);
        ServiceSpec::Http { folder: self.folder.clone(), response_bytes }
    }
}

/// Writes a request as the client does, without the bytes of its body.
fn write(target: &HttpTarget, common: &[(String, String)]) -> Result<Request, RequestError> {
    let url = Url { host: String::new(), port: 0, authority: "localhost".to_owned(), target: target.path.clone() };
    let headers = common.iter().chain(&target.headers);
    let headers: Vec<(&str, &str)> = headers.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    Request::new(&target.method, &url, &headers, target.body.as_ref().map(|_| &[][..]))
}

/// Returns a body of which only the digest is stored.
fn concealed(body: Body) -> Result<Body, String> {
    let Body::Bytes(bytes) = body else { return Ok(body) };
    let text = String::from_utf8(bytes).map_err(|_| "a secret body is not UTF-8; remove secret-body".to_owned())?;
    // A stored experiment has a digest, whose value may be unknown: its requests are never sent.
    let bytes = secret::reveal(&text).map_or(0, |text| text.len() as u64);
    Ok(Body::Secret { digest: secret::conceal(&text), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Experiment;

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
        assert_eq!((traffic.status, traffic.targets[0].status), (ExpectedStatus::Exact(200), None));
    }

    fn body(text: &str) -> Option<OneOrMany<BodySpec>> {
        Some(OneOrMany(vec![BodySpec(text.to_owned())]))
    }

    #[test]
    fn body_makes_a_post_whose_response_may_vary() {
        let posts = Http { body: body("{}"), ..http(&["/a x3", "/b"]) }.traffic(None, false).unwrap();
        let [first, second] = &posts.targets[..] else { panic!("{posts:?}") };
        assert_eq!((first.to_string(), first.weight, second.weight), ("POST /a".to_owned(), 3, 1));
        assert_eq!((first.body.clone(), first.any_length), (Some(Body::Bytes(b"{}".to_vec())), true));
        assert_eq!(first.status, Some(ExpectedStatus::Class(2)));
        let put =
            Http { method: Some("PUT".into()), body: body(""), status: Some(ExpectedStatus::Any), ..http(&["/"]) };
        let put = Http { length: Some(Length::Bytes(3)), ..put }.traffic(None, false).unwrap();
        assert_eq!((put.targets[0].to_string(), put.targets[0].body_bytes), ("PUT /".to_owned(), Some(3)));
        assert_eq!((put.status, put.targets[0].status), (ExpectedStatus::Any, None));
        let head = Http { method: Some("HEAD".into()), ..http(&["/bytes/9"]) }.traffic(None, true).unwrap();
        assert_eq!((head.targets[0].body_bytes, head.targets[0].any_length), (None, false));
    }

    #[test]
    fn bodies_come_from_lists_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let [lines, file] = ["lines", "file"].map(|name| folder.path().join(name));
        std::fs::write(&lines, "\u{feff}a\nb\n").unwrap();
        std::fs::write(&file, b"\xff").unwrap();
        let from_file = Http { body: body(&format!("@{}", file.display())), ..http(&["/"]) };
        let all = Http { body_lines: Some(lines.clone()), ..from_file.clone() }.traffic(None, false).unwrap();
        let bodies: Vec<_> = all.targets.into_iter().filter_map(|target| target.body).collect();
        assert_eq!(bodies, [&b"\xff"[..], b"a", b"b"].map(|bytes| Body::Bytes(bytes.to_vec())));
        let requests_file = folder.path().join("requests");
        std::fs::write(&requests_file, "\u{feff}/a\n{\"path\":\"/b\",\"body\":\"c\"}\n").unwrap();
        let listed = Http { requests_file: Some(requests_file.clone()), ..http(&[]) };
        let names: Vec<_> = listed.traffic(None, false).unwrap().targets.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["GET /a", "POST /b"]);

        let error = |http: Http| http.traffic(None, false).unwrap_err();
        assert!(error(Http { body_lines: Some(lines), ..http(&["/", "/a"]) }).contains("do not combine"));
        assert!(error(Http { body: body("a"), ..listed.clone() }).starts_with("body: not used"));
        assert!(error(Http { paths: http(&["/"]).paths, ..listed }).starts_with("paths: not used"));
        assert!(error(Http { body: body("@/none"), ..http(&["/"]) }).starts_with("body: cannot read /none"));
        let big = "x".repeat(BODIES_BYTES_MAX as usize + 1);
        assert!(error(Http { body: body(&big), ..http(&["/"]) }).contains("exceed the limit of 4 MiB"));
        let post = Http { body: body("a"), ..http(&["/"]) };
        assert!(post.traffic(None, true).unwrap_err().starts_with("body: a body (-d) makes POST the default method"));
        let put = Http { method: Some("PUT".into()), ..post };
        assert!(put.traffic(None, true).unwrap_err().starts_with("method: built-in servers answer PUT with 405"));
        let listed = Http { requests_file: Some(requests_file), ..http(&[]) };
        assert!(listed.traffic(None, true).unwrap_err().starts_with("method: built-in servers answer POST with 405"));
    }

    #[test]
    fn experiment_with_secret_bodies_has_only_their_digests() {
        let text = "architectures = [\"target:a\"]\n[target.a]\nurl = \"http://127.0.0.1:1\"\n[workload]\nservice = \"http\"\n\
                    [workload.http]\nsecret-body = true\n";
        for (keys, digests) in [
            ("paths = \"/\"\nbody = [\"rye bread\", \"malt loaf\"]\n", 2),
            ("requests = [{ path = \"/\", body = \"rye bread\" }, { path = \"/a\" }]\n", 1),
        ] {
            let experiment = Experiment::of(&format!("{text}{keys}"));
            let stored = toml::to_string(&experiment).unwrap();
            assert!(!stored.contains("rye") && !stored.contains("malt"), "{stored}");
            assert_eq!(stored.matches("{secret:").count(), digests, "{stored}");
            experiment.assert_reads_back();
            let sent = experiment.workload.http.unwrap().traffic(None, false).unwrap().targets.remove(0).body.unwrap();
            assert_eq!((sent.len(), &*sent.bytes().unwrap()), (9, &b"rye bread"[..]));
        }
        let unknown = text.to_owned() + "paths = \"/\"\nbody = \"{secret:0123456789abcded}\"\n";
        Experiment::of(&unknown).assert_reads_back();
    }

    #[test]
    fn requests_read_back() {
        let bodies = [&b"{\"a\": \"\xc3\xa4\"}"[..], b"", b"\xff\0"].map(|bytes| Body::Bytes(bytes.to_vec()));
        for body in bodies.into_iter().chain([Body::Fill(1 << 30)]) {
            let target = HttpTarget {
                method: "POST".into(),
                body: Some(body),
                weight: 3,
                status: Some(ExpectedStatus::Class(2)),
                any_length: true,
                ..HttpTarget::get("/", None)
            };
            let stored = serde_json::to_string(&target).unwrap();
            assert_eq!(serde_json::from_str::<HttpTarget>(&stored).unwrap(), target, "{stored}");
        }
        assert!(serde_json::from_str::<Body>(r#"{"base64": "?"}"#).is_err());
    }

    #[test]
    fn recorded_sizes_become_paths_and_bodies() {
        let sizes = |request_bytes, response_bytes| Sizes { request_bytes, response_bytes };
        let both = [sizes(Some(0), Some(7)), sizes(Some(9), Some(8))];
        let ours = http(&[]).replayed(&both, Some(Size(5)), true).unwrap();
        let [_, second] = &ours.targets[..] else { panic!("{ours:?}") };
        assert_eq!((second.to_string(), second.body_bytes), ("GET /bytes/8".to_owned(), Some(8)));
        assert_eq!((second.body.clone(), second.status), (Some(Body::Fill(9)), None));
        let target = http(&["/a"]).replayed(&[sizes(Some(9), None)], None, false).unwrap();
        let [post] = &target.targets[..] else { panic!("{target:?}") };
        assert_eq!((post.to_string(), post.any_length), ("POST /a".to_owned(), true));
        assert_eq!(http(&[]).replayed(&[sizes(None, Some(8))], None, false).unwrap().targets[0].body, None);
        let large = http(&["/"]).replayed(&[sizes(Some(FILLS_BYTES_MAX + 1), None)], None, false).unwrap_err();
        assert!(large.ends_with("exceed the limit of 256 MiB; round the sizes of the trace"), "{large}");
    }

    #[test]
    fn request_that_no_client_sends_is_rejected_with_its_key() {
        let error = |http: Http| http.traffic(None, false).unwrap_err();
        let header = |text: &str| vec![text.parse().unwrap()];
        for reserved in ["Content-Length: 5", "Connection: close", "A: b\r\nC: d"] {
            let why = error(Http { headers: header(reserved), ..http(&["/"]) });
            assert!(
                why.starts_with("headers: invalid request `GET / HTTP/1.1") && why.contains("from the headers"),
                "{why}"
            );
            let own = RequestSpec { path: "/".into(), headers: header(reserved), ..RequestSpec::default() };
            assert!(error(Http { requests: vec![own], ..http(&[]) }).starts_with("requests: invalid request"));
        }
        assert!(error(Http { method: Some("G T".into()), ..http(&["/"]) }).starts_with("method: invalid request"));
        assert!(error(http(&["/a\tb"])).starts_with("paths: invalid request"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("requests");
        std::fs::write(&file, "CONNECT /\n").unwrap();
        assert!(error(Http { requests_file: Some(file), ..http(&[]) }).starts_with("requests-file: invalid request"));
    }

    #[test]
    fn invalid_path_is_rejected() {
        assert!(http(&[]).traffic(None, true).unwrap_err().starts_with("paths: missing"));
        assert!(http(&["bytes/1"]).traffic(None, true).unwrap_err().contains("invalid path `bytes/1`"));
    }
}
