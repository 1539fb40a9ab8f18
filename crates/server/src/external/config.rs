//! The configuration of an external server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Address;

/// An external server: a command, started without a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExternalConfig {
    /// The program and its arguments, with [`PLACEHOLDERS`].
    pub command: Vec<String>,
    /// The server's configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigFile>,
    /// The private folder of the server, if it needs one. It exists while the server runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// The folder with the content that the server serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The address to listen on; port 0 means a free port.
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

/// A configuration file, written to the server's private folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigFile {
    /// The name of the file.
    pub name: String,
    /// The content with [`PLACEHOLDERS`].
    pub text: String,
}

/// The placeholders in a command's arguments, environment and configuration file.
pub const PLACEHOLDERS: &[&str] =
    &["port", "request", "response", "socket", "address", "dir", "config", "folder", "cpus"];

impl ExternalConfig {
    /// Whether the server needs a private folder.
    pub fn needs_dir(&self) -> bool {
        let mut texts = self.command.iter().chain(self.environment.values());
        self.config.is_some() || texts.any(|text| text.contains("{dir}"))
    }

    /// Replaces the placeholders of a text. `port` is the port to listen on. Placeholders without a value stay.
    pub fn filled_in(&self, text: &str, port: u16) -> String {
        let shown = |path: &Path| path.display().to_string();
        let number = |bytes: Option<u32>| bytes.map(|bytes| bytes.to_string());
        let cpus = match self.cpus.len() {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let values = [
            Some(port.to_string()),
            number(self.request_bytes),
            number(self.response_bytes),
            Some(self.listen.path().map_or_else(String::new, shown)),
            self.listen.ip().map(|address| address.ip().to_string()),
            self.dir.as_deref().map(shown),
            self.config_path().as_deref().map(shown),
            self.folder.as_deref().map(shown),
            Some(cpus.to_string()),
        ];
        let known = PLACEHOLDERS.iter().zip(values).filter_map(|(name, value)| Some((name, value?)));
        known.fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &value))
    }

    /// Writes the configuration file, if the server has one.
    pub fn write_config(&self, port: u16) -> io::Result<()> {
        match (&self.config, self.config_path()) {
            (Some(config), Some(path)) => fs::write(path, self.filled_in(&config.text, port)),
            _ => Ok(()),
        }
    }

    fn config_path(&self) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(&self.config.as_ref()?.name))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_file_is_written_with_its_values() {
        let folder = std::env::temp_dir().join(format!("muxbench-config-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let config = ExternalConfig {
            command: vec!["nginx".into(), "-c".into(), "{config}".into()],
            config: Some(ConfigFile {
                name: "nginx.conf".into(),
                text: "listen {address}:{port}; # {cpus} {other}".into(),
            }),
            dir: Some(folder.clone()),
            folder: None,
            listen: ([127, 0, 0, 1], 0).into(),
            directory: None,
            environment: BTreeMap::new(),
            request_bytes: None,
            response_bytes: None,
            cpus: vec![4, 5],
            start_timeout_ns: 1,
        };
        assert!(config.needs_dir());
        config.write_config(8080).unwrap();
        let path = folder.join("nginx.conf");
        assert_eq!(fs::read_to_string(&path).unwrap(), "listen 127.0.0.1:8080; # 2 {other}");
        assert_eq!(config.filled_in("{config} {folder}", 1), format!("{} {{folder}}", path.display()));
        fs::remove_dir_all(&folder).unwrap();
        let plain = ExternalConfig { config: None, ..config };
        assert!(!plain.needs_dir() && plain.write_config(1).is_ok());
        assert!(ExternalConfig { command: vec!["x".into(), "{dir}/data".into()], ..plain }.needs_dir());
    }
}
