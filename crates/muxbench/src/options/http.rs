//! Flags of the requests to an `http` server.

use std::path::PathBuf;

use harness::spec::OneOrMany;
use harness::spec::http::Http;
use harness::spec::requests::{BodySpec, Header, Length};
use harness::spec::units::time_above_0;
use load::config::ExpectedStatus;

use super::set;

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "HTTP")]
pub struct HttpArgs {
    /// Path to request; several are requested in turn, or by weight: --path '/a x3' [default: /bytes/N, N from --response; / with a --target]
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// Method of each request [default: GET; with a body POST]
    #[arg(long, short = 'X', value_name = "METHOD")]
    method: Option<String>,
    /// Header, such as `Accept: text/html`; may be repeated
    #[arg(long, short = 'H', value_name = "HEADER")]
    header: Vec<Header>,
    /// Body of each request, or @FILE for a file's content
    ///
    /// Several bodies are sent in turn
    #[arg(long, short = 'd', value_name = "BODY", value_parser = body)]
    body: Vec<String>,
    /// File with the body of each request
    #[arg(long, short = 'D', value_name = "FILE")]
    body_file: Vec<String>,
    /// File with a body on each line; the bodies are sent in turn
    #[arg(long, value_name = "FILE")]
    body_lines: Option<PathBuf>,
    /// File with a request on each line, instead of --path: `[METHOD] PATH [xWEIGHT]`, or a JSON object with the keys
    /// path, method, headers, body, weight, status, length
    #[arg(long, value_name = "FILE", conflicts_with_all = ["path", "body", "body_file", "body_lines"])]
    requests_file: Option<PathBuf>,
    /// Expected status of each response: 200, 2xx, any [default: 200 for GET and HEAD, otherwise 2xx]
    #[arg(long, value_name = "STATUS")]
    expect_status: Option<ExpectedStatus>,
    /// Expected length of each response's content: 10KiB, same (as the first), any [default: same for GET and HEAD, otherwise any]
    #[arg(long, value_name = "LENGTH")]
    expect_length: Option<Length>,
}

/// Rejects a duration, because `-d` is the duration in other tools.
fn body(text: &str) -> Result<String, String> {
    match time_above_0(text) {
        Ok(_) => Err(format!(
            "-d is the body of each request; for the duration, write `-z {text}` (`idle`: `--time {text}`); for this body, write \
             @FILE"
        )),
        Err(_) => Ok(text.to_owned()),
    }
}

impl HttpArgs {
    /// Whether the flags list requests.
    pub fn has_requests(&self) -> bool {
        !self.path.is_empty() || self.requests_file.is_some()
    }

    pub fn apply(&self, http: &mut Http) {
        if !self.path.is_empty() {
            http.paths = Some(OneOrMany(self.path.clone()));
        }
        http.headers.extend(self.header.iter().cloned());
        let files = self.body_file.iter().map(|file| format!("@{file}"));
        let bodies: Vec<BodySpec> = self.body.iter().cloned().chain(files).map(BodySpec).collect();
        if !bodies.is_empty() {
            http.body = Some(OneOrMany(bodies));
        }
        set(&mut http.method, self.method.clone());
        set(&mut http.body_lines, self.body_lines.clone());
        set(&mut http.requests_file, self.requests_file.clone());
        set(&mut http.status, self.expect_status);
        set(&mut http.length, self.expect_length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_no_body() {
        assert!(body("15s").unwrap_err().contains("`-z 15s`"));
        for text in ["15", "0", "@15s"] {
            assert_eq!(body(text), Ok(text.to_owned()));
        }
    }
}
