//! The servers under comparison: architectures, running servers and commands.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::bail;
use harness::spec::target::{Target, TargetUrl};
use harness::spec::{Candidate, Experiment};
use serde::de::DeserializeOwned;
use toml::Value;

use super::experiment::BaseArgs;
use super::given::Options;
use super::repeated;

/// Two builds of a server.
#[derive(Clone, Debug)]
pub struct Builds {
    /// The old build, and the new one unless it is the same server.
    pub servers: Vec<Candidate>,
    /// The flags with both builds.
    pub options: Options,
    /// The experiment that the flags change.
    pub base: Experiment,
}

impl Options {
    /// Returns the servers of an option with values `NAME=VALUE`.
    fn named<T: DeserializeOwned>(&self, option: &str) -> impl Iterator<Item = (String, T)> {
        self.list::<BTreeMap<String, T>>(option).into_iter().flatten()
    }

    /// Returns the running servers that flags define.
    pub fn targets(&self) -> Vec<TargetUrl> {
        self.named::<Target>("target").map(|(_, target)| target.url).collect()
    }

    /// Returns the servers that flags name: those of --arch, and then the others; none for those of the experiment.
    pub fn servers(&self) -> anyhow::Result<Vec<Candidate>> {
        for option in ["target", "target-pid", "exec", "exec-config"] {
            let names: Vec<String> = self.named::<Value>(option).map(|(name, _)| name).collect();
            if let Some(name) = repeated(&names) {
                bail!("--{option} {name}: the name appears twice; give each server its own name");
            }
        }
        let mut servers: Vec<Candidate> = self.list("arch");
        let targets = self.named::<Value>("target").map(|(name, _)| Candidate::Target(name));
        for server in targets.chain(self.named::<Value>("exec").map(|(name, _)| Candidate::Exec(name))) {
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
        Ok(servers)
    }

    /// Returns the options with two builds. Each is the URL of a running server, a command with placeholders, the name of a server
    /// that other flags or the experiment define, or an architecture.
    pub fn builds(&self, old: &str, new: &str, base: &BaseArgs) -> anyhow::Result<Builds> {
        let (mut options, base) = (self.clone(), base.read()?);
        let mut servers: Vec<Candidate> = Vec::new();
        for (name, text) in [("old", old), ("new", new)] {
            let is_known = |option: &str| self.named::<Value>(option).any(|(name, _)| name == text);
            let mut defines =
                |option: &str| options.add(option, &format!("{name}={text}")).map(|()| format!("{option}:{name}"));
            let server = if text.contains("://") || text.starts_with("unix:") {
                defines("target")?
            } else if text.contains(['{', ' ']) {
                defines("exec")?
            } else if is_known("exec") || base.exec.contains_key(text) {
                format!("exec:{text}")
            } else if is_known("target") || base.target.contains_key(text) {
                format!("target:{text}")
            } else if let Some(remedy) = build_remedy(text) {
                bail!("{} `{text}`: {remedy}", name.to_uppercase());
            } else {
                text.to_owned()
            };
            servers.push(server.parse().map_err(anyhow::Error::msg)?);
        }
        let are_same = servers[0] == servers[1];
        if are_same && old != new {
            bail!("OLD and NEW are both named {}; rename the server that FILE or a flag defines", servers[0]);
        }
        servers.truncate(if are_same { 1 } else { 2 });
        Ok(Builds { servers, options, base })
    }
}

/// Returns the remedy for a build that is a path or an address without the rest of a command or URL; `None` if it may be the name
/// of an architecture.
fn build_remedy(text: &str) -> Option<String> {
    let is_path = || text.starts_with(['.', '/', '~']) || text.contains('/') && Path::new(text).is_file();
    if text.parse::<Candidate>().is_ok() {
        None
    } else if is_address(text) {
        let end = if text.contains('/') { "" } else { "/" };
        Some(format!("a URL needs its scheme, as in http://{text}{end}"))
    } else if text.ends_with(".toml") {
        Some(format!("an experiment file follows OLD and NEW, as in muxbench gate epoll mt {text}"))
    } else {
        is_path().then(|| format!("a command needs {{port}}, as in '{text} {{port}}'"))
    }
}

/// Tests whether a text begins with HOST:PORT, where HOST is `localhost` or contains a dot or a bracket.
fn is_address(text: &str) -> bool {
    let place = text.split_once('/').map_or(text, |(place, _)| place);
    let is_host = |host: &str| host == "localhost" || host.contains(['.', '[']);
    place.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use server::Architecture;

    use super::*;
    use crate::options::parsed;
    use crate::options::row::architecture;

    #[test]
    fn groups_stand_for_their_architectures() {
        let all = |names: &str| parsed::<Options>("compare", &format!("--arch {names}")).servers().unwrap().len();
        let threads = Architecture::group("threads").unwrap();
        assert_eq!(all("mt,threads,poll"), threads.len() + 1);
        assert_eq!(all("all"), Architecture::all().len());
        assert_eq!(all("mt,mt"), 2, "the check of the experiment names the duplicate");
        assert!(architecture("thread").unwrap_err().contains("did you mean `threads`?"));
    }

    #[test]
    fn build_without_placeholder_or_scheme_gets_a_remedy() {
        for (build, words) in [
            ("./old", "needs {port}, as in './old {port}'"),
            ("/opt/old", "as in '/opt/old {port}'"),
            ("127.0.0.1:8081", "as in http://127.0.0.1:8081/"),
            ("localhost:80/a", "as in http://localhost:80/a"),
            ("[::1]:80", "as in http://[::1]:80/"),
            ("profile.toml", "follows OLD and NEW"),
        ] {
            let remedy = build_remedy(build).unwrap_or_else(|| panic!("{build}"));
            assert!(remedy.contains(words), "{build}: {remedy}");
        }
        for build in ["old", "epol", "threads", "symped:2/poll", "symped/pol", "symped:0", "localhost"] {
            assert_eq!(build_remedy(build), None, "{build}");
        }
    }
}
