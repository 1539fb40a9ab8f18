//! Asks the kernel what no file says: whether io_uring is allowed.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// `struct io_uring_params`, which must be zero but for what is asked.
const IO_URING_PARAMS_BYTES: usize = 120;

/// Sets a ring up and drops it. Limits in sysctls, a container's filter and the kernel's build all show in the error.
///
/// # Errors
/// The kernel's refusal.
pub fn io_uring() -> io::Result<()> {
    let mut params = [0u64; IO_URING_PARAMS_BYTES / size_of::<u64>()];
    // SAFETY: `params` is as large as the kernel's structure, zeroed and writable.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1u32, params.as_mut_ptr()) };
    if ring < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
    drop(unsafe { OwnedFd::from_raw_fd(ring as i32) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_gives_an_answer_or_the_kernel_s_refusal() {
        io_uring().unwrap_or_else(|error| assert!(error.raw_os_error().is_some(), "{error}"));
    }
}
