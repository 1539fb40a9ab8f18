//! Explains why the kernel refuses an io_uring, and names remedies.

use std::io;

/// Explains the error of setting up a ring that needs the kernel version `needs`.
pub(crate) fn refusal(error: &io::Error, needs: &str) -> String {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    reason(error, disabled.trim(), needs)
}

/// Explains the error for a value of kernel.io_uring_disabled.
fn reason(error: &io::Error, disabled: &str, needs: &str) -> String {
    let help = match (error.raw_os_error(), disabled) {
        (Some(libc::EPERM), "1") => {
            "kernel.io_uring_disabled is 1: join kernel.io_uring_group, or sysctl -w kernel.io_uring_disabled=0"
        }
        (Some(libc::EPERM), "2") => "kernel.io_uring_disabled is 2: sysctl -w kernel.io_uring_disabled=0",
        (Some(libc::EPERM), _) => "a container's seccomp profile may forbid it",
        (Some(libc::ENOSYS), _) => "the kernel is built without it, or a container's seccomp profile hides it",
        (Some(libc::EINVAL), _) => &*format!("it needs {needs} or later"),
        (Some(libc::ENOMEM), _) => "raise the limit of locked memory (ulimit -l)",
        _ => "see io_uring_setup(2)",
    };
    format!("no io_uring: {error}; {help}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disabled_io_uring_is_reported_with_its_remedy() {
        let reason = reason(&io::Error::from_raw_os_error(libc::EPERM), "2", "Linux 6.0");
        let expected = "no io_uring: Operation not permitted (os error 1); kernel.io_uring_disabled is 2: \
                        sysctl -w kernel.io_uring_disabled=0";
        assert_eq!(reason, expected);
    }
}
