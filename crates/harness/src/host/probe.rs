//! A test of whether the kernel allows io_uring. No file shows this.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The length of `struct io_uring_params`. Without options, all its bytes are zero.
const IO_URING_PARAMS_BYTES: usize = 120;

/// Creates a ring and drops it. Fails if a sysctl, a container's seccomp filter or the kernel's build prevents io_uring.
pub fn io_uring() -> io::Result<()> {
    let mut params = [0u64; IO_URING_PARAMS_BYTES / size_of::<u64>()];
    // SAFETY: `params` has the length of the kernel's structure, is zeroed and writable.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1u32, params.as_mut_ptr()) };
    if ring < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    drop(unsafe { OwnedFd::from_raw_fd(ring as i32) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_uring_is_allowed_or_refused_by_the_kernel() {
        io_uring().unwrap_or_else(|error| assert!(error.raw_os_error().is_some(), "{error}"));
    }
}
