//! The configuration of an external server.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::Address;

/// An external server: a command, started without a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalConfig {
    /// The program and its arguments. The placeholders are `{port}`, `{request}`, `{response}`, `{socket}` and `{address}`.
    pub command: Vec<String>,
    /// The address to listen on; port 0 means a free port. Stored runs without this field used 127.0.0.1.
    #[serde(default = "any_port")]
    pub listen: Address,
    /// The working directory; `None` for the directory of this process.
    pub directory: Option<PathBuf>,
    /// Additional environment variables, with the same placeholders.
    pub environment: BTreeMap<String, String>,
    /// The size of a request, in bytes; `None` if the service has no fixed sizes.
    pub request_bytes: Option<u32>,
    /// The size of a response, in bytes; `None` if the service has no fixed sizes.
    pub response_bytes: Option<u32>,
    /// The CPUs that the server may run on; empty for all CPUs.
    pub cpus: Vec<usize>,
    /// The time within which the server must accept a connection, in nanoseconds.
    pub start_timeout_ns: u64,
}

/// The placeholders in a command's arguments and environment.
pub const PLACEHOLDERS: &[&str] = &["port", "request", "response", "socket", "address"];

fn any_port() -> Address {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()
}

/// Checks that `program` is an executable file: a path if it contains a `/`, otherwise a name in PATH.
pub fn find_program(program: &str, directory: Option<&Path>, path: Option<&str>) -> Result<(), String> {
    let is_program = |file: &Path| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
    if program.contains('/') {
        let file = directory.unwrap_or(Path::new("")).join(program);
        let why = if file.exists() { "is not executable" } else { "does not exist" };
        return if is_program(&file) { Ok(()) } else { Err(format!("`{}` {why}", file.display())) };
    }
    let path = path.map_or_else(|| std::env::var_os("PATH").unwrap_or_default(), Into::into);
    let found = std::env::split_paths(&path).any(|folder| is_program(&folder.join(program)));
    if found { Ok(()) } else { Err(format!("cannot find `{program}` in PATH")) }
}
