//! Environment variables with secrets, which child processes must not inherit.

use std::ffi::OsString;
use std::process::Command;

/// The variable with a job's secret.
pub const SECRET: &str = "MUXBENCH_SECRET";
/// The end of the name of Open MPI's variable with a job's key. The start of the name differs between versions.
pub const OPEN_MPI_KEY: &str = "precondition_transports";

/// Removes secrets from the environment of a child or an external server.
pub fn remove_secrets(command: &mut Command) {
    let given = command.get_envs().map(|(name, _)| name.to_owned());
    let all: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).chain(given).collect();
    for name in all.iter().filter(|name| is_secret(&name.to_string_lossy())) {
        command.env_remove(name);
    }
}

/// Whether a variable contains the job's secret, a launcher's key from which it is derived, or credentials for the launcher.
fn is_secret(variable: &str) -> bool {
    const LAUNCHERS: [&str; 8] = ["OMPI_", "OPAL_", "ORTE_", "PRTE_", "PMIX_", "PMI_", "SLURM", "HYDRA_"];
    const SECRETS: [&str; 5] = ["KEY", "SECRET", "TOKEN", "JWT", "PASSWORD"];
    let is_of_launcher = LAUNCHERS.iter().any(|launcher| variable.starts_with(launcher));
    variable == SECRET
        || is_of_launcher
            && (variable.ends_with(OPEN_MPI_KEY) || SECRETS.iter().any(|it| variable.to_ascii_uppercase().contains(it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_with_secrets_are_recognised_by_name() {
        let secrets = "MUXBENCH_SECRET OMPI_MCA_orte_precondition_transports PRTE_MCA_prte_precondition_transports SLURM_JWT \
                       PMIX_SECURITY_KEY";
        let others = "MUXBENCH_RANK OMPI_COMM_WORLD_RANK OMPI_MCA_orte_hnp_uri SLURM_PROCID SLURM_JOB_ID PATH SSH_AUTH_SOCK \
                      DATABASE_KEY";
        for (variables, expected) in [(secrets, true), (others, false)] {
            assert!(variables.split_whitespace().all(|it| is_secret(it) == expected), "{variables}");
        }
    }
}
