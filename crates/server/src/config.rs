//! What a server is asked to be, as plain data.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::{Address, ServiceSpec};

pub use crate::model::StageCpus;
use crate::work::Work;
use crate::{Accept, Architecture, Limits, ReadBudget};

/// What is started for a trial: a server of ours, or somebody else's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Subject {
    /// Ours.
    Ours(ServeConfig),
    /// Somebody else's.
    Exec(ExecConfig),
}

impl Subject {
    /// It, if it is ours.
    pub fn ours(&self) -> Option<&ServeConfig> {
        match self {
            Self::Ours(config) => Some(config),
            Self::Exec(_) => None,
        }
    }

    /// Its options besides its architecture; `None` for an external server.
    pub fn options(&self) -> Option<Options> {
        self.ours().map(ServeConfig::options)
    }

    /// Where it listens.
    pub fn listen(&self) -> &Address {
        match self {
            Self::Ours(config) => &config.listen,
            Self::Exec(config) => &config.listen,
        }
    }

    /// The same elsewhere.
    #[must_use]
    pub fn listening_on(mut self, address: Address) -> Self {
        match &mut self {
            Self::Ours(config) => config.listen = address,
            Self::Exec(config) => config.listen = address,
        }
        self
    }

    /// CPUs it may run on; empty leaves placement to the kernel.
    pub fn cpus(&self) -> &[usize] {
        match self {
            Self::Ours(config) => &config.cpus,
            Self::Exec(config) => &config.cpus,
        }
    }
}

/// One server of ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServeConfig {
    /// How it is built.
    pub architecture: Architecture,
    /// How connections come to what serves them. Runs stored before there was a choice had one accept thread.
    #[serde(default)]
    pub accept: Accept,
    /// What it does with bytes.
    pub service: ServiceSpec,
    /// The work that each request is besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Where it listens; port 0 lets the kernel choose.
    pub listen: Address,
    /// CPUs the server may run on; empty leaves placement to the kernel.
    pub cpus: Vec<usize>,
    /// CPUs of each stage's threads, for models in stages.
    #[serde(default, skip_serializing_if = "StageCpus::is_default")]
    pub stage_cpus: StageCpus,
    /// Connections that room is set aside for; one more is refused. The size of a pool that names none; what is beyond a
    /// pool waits.
    pub connections_max: u32,
    /// The most bytes that one read takes from a connection.
    #[serde(default, skip_serializing_if = "ReadBudget::is_default")]
    pub read_budget_bytes: ReadBudget,
    /// How long clients may take, of `http`.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Whether the kernel counts its system calls too, which makes each of them dearer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count_syscalls: bool,
}

impl ServeConfig {
    /// Its options besides its architecture.
    pub fn options(&self) -> Options {
        Options { accept: self.accept, read_budget_bytes: self.read_budget_bytes }
    }
}

/// Options that change what an architecture does. Figures of different options are never merged, and tables name options
/// that are not the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Options {
    /// How connections are accepted.
    pub accept: Accept,
    /// The most bytes that one read takes from a connection.
    pub read_budget_bytes: ReadBudget,
}

/// Somebody else's server: a command that is started, without a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecConfig {
    /// The program and its arguments; in each, `{port}`, `{request}` and `{response}` stand for numbers, `{socket}` for the
    /// path of the socket to listen on, and `{address}` for the address that the port is of.
    pub command: Vec<String>,
    /// Where it is to listen; port 0 is one that is free then. Runs stored before there was a choice have all been on
    /// 127.0.0.1.
    #[serde(default = "any_port")]
    pub listen: Address,
    /// Where it is started; without it, where we are.
    pub directory: Option<PathBuf>,
    /// What is put into its environment; the same stand for the same there.
    pub environment: BTreeMap<String, String>,
    /// Size of a request, in bytes; `None` where the service has no fixed sizes, and then the command names none.
    pub request_bytes: Option<u32>,
    /// Size of a response, in bytes, likewise.
    pub response_bytes: Option<u32>,
    /// CPUs it may run on; empty leaves placement to the kernel.
    pub cpus: Vec<usize>,
    /// It must accept a connection within this time, in nanoseconds.
    pub start_timeout_ns: u64,
}

/// What stands for numbers in a command's arguments and environment, for its socket's path, and for its address.
pub const PLACEHOLDERS: &[&str] = &["port", "request", "response", "socket", "address"];

fn any_port() -> Address {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()
}

/// Whether `program` is a file that may be run: itself where it has a `/`, else somewhere in PATH.
///
/// # Errors
/// Why not.
pub fn find_program(program: &str, directory: Option<&Path>, path: Option<&str>) -> Result<(), String> {
    let is_program = |file: &Path| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
    if program.contains('/') {
        let file = directory.unwrap_or(Path::new("")).join(program);
        let why = if file.exists() { "is no program that may be run" } else { "is not there" };
        return if is_program(&file) { Ok(()) } else { Err(format!("`{}` {why}", file.display())) };
    }
    let path = path.map_or_else(|| std::env::var_os("PATH").unwrap_or_default(), Into::into);
    let found = std::env::split_paths(&path).any(|folder| is_program(&folder.join(program)));
    if found { Ok(()) } else { Err(format!("`{program}` is not found in PATH")) }
}
