//! The configuration of an external server.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::Address;

/// Somebody else's server: a command that is started, without a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalConfig {
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
