//! Environment variables that child processes must not inherit.

use std::ffi::OsString;
use std::process::Command;

use crate::fleet::launcher;

/// Removes the variables that only the processes of a job may know. External servers get the same environment as children.
pub(crate) fn remove_secrets(command: &mut Command) {
    let given = command.get_envs().map(|(name, _)| name.to_owned());
    let all: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).chain(given).collect();
    for name in all.iter().filter(|name| launcher::is_secret(&name.to_string_lossy())) {
        command.env_remove(name);
    }
}
