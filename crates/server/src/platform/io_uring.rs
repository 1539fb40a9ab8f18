//! Shared code of all users of io_uring: why the kernel refuses a ring, with remedies, and the end of a ring's operations.

use std::io;

use io_uring::Submitter;
use io_uring::types::CancelBuilder;

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

/// Ignores interruptions, timeouts, and temporary lack of resources: the next call retries. After EBUSY the kernel accepts requests
/// again once the server has read completions.
pub(crate) fn ignore_temporary(result: io::Result<usize>) -> io::Result<()> {
    match result.map_err(|error| (error.raw_os_error(), error)) {
        Ok(_) | Err((Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ETIME), _)) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

/// Cancels all operations of a ring and waits for their end. Closing a ring ends them asynchronously, when their memory may already
/// have another owner. If the kernel refuses, the process aborts.
pub(crate) fn end_operations(ring: &Submitter<'_>) {
    if let Err(error) = cancel_all(|| ring.register_sync_cancel(None, CancelBuilder::any())) {
        // The kernel may still access the memory, so it must not be reused.
        eprintln!("cannot cancel io_uring's operations: {error}; the process aborts; restart the server");
        std::process::abort();
    }
}

/// Calls `cancel` until no operation is left.
fn cancel_all(mut cancel: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match cancel().map_err(|error| (error.raw_os_error(), error)) {
            Err((Some(libc::EINTR | libc::EAGAIN), _)) => {}
            // No operation was left.
            Ok(()) | Err((Some(libc::ENOENT), _)) => return Ok(()),
            Err((_, error)) => return Err(error),
        }
    }
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

    #[test]
    fn only_permanent_errors_of_a_ring_end_its_server() {
        let ignored = |error| ignore_temporary(Err(io::Error::from_raw_os_error(error))).is_ok();
        assert!([libc::EINTR, libc::EAGAIN, libc::EBUSY, libc::ETIME].into_iter().all(ignored));
        assert!(![libc::EBADF, libc::EINVAL, libc::ENXIO].into_iter().any(ignored));
    }

    #[test]
    fn interrupted_cancel_repeats_and_failed_cancel_is_reported() {
        let attempt = |results: &[i32]| {
            let mut results = results.iter();
            let cancel = || match *results.next().expect("no call after the end") {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            };
            let ended = cancel_all(cancel).map_err(|error| error.raw_os_error().unwrap());
            (ended, results.len())
        };
        assert_eq!(attempt(&[libc::EINTR, libc::EAGAIN, libc::EINTR, 0]), (Ok(()), 0));
        assert_eq!(attempt(&[libc::ENOENT, 0]), (Ok(()), 1));
        assert_eq!(attempt(&[libc::EINTR, libc::EEXIST, 0]), (Err(libc::EEXIST), 1));
    }
}
