//! The models over async and coroutine runtimes. Each file uses its runtime as an ordinary program would.
//!
//! Only waits and I/O calls differ: services, connections, socket options and read budgets are those of other models. The
//! system calls of a runtime are not counted.
//!
//! [`crate::Server::stop`] shuts the listener down, which ends a runtime's accept only on Linux. So other systems have
//! no runtimes.

#[cfg(all(target_os = "linux", feature = "compio"))]
pub(crate) mod compio;
#[cfg(all(target_os = "linux", feature = "glommio"))]
pub(crate) mod glommio;
#[cfg(all(target_os = "linux", feature = "may"))]
pub(crate) mod may;
#[cfg(all(target_os = "linux", feature = "monoio"))]
pub(crate) mod monoio;
#[cfg(all(target_os = "linux", feature = "smol"))]
pub(crate) mod smol;
#[cfg(all(target_os = "linux", feature = "tokio"))]
pub(crate) mod tokio;

/// The cargo features of the runtimes, which are also the names of their models; they need not be compiled in.
pub const FEATURES: &[&str] =
    if cfg!(target_os = "linux") { &["tokio", "smol", "may", "compio", "monoio", "glommio"] } else { &[] };

#[cfg(target_os = "linux")]
#[allow(dead_code, unused_imports, unused_macros, reason = "not every runtime needs all parts")]
mod common;
#[cfg(all(target_os = "linux", any(feature = "compio", feature = "monoio")))]
mod owned;
#[cfg(target_os = "linux")]
#[allow(unused_imports, reason = "a build may have no runtime")]
use common::*;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    /// Makes the tests of each runtime: threads, and the most connections that one thread accepts before it serves another client.
    macro_rules! tests {
        ($($runtime:ident $feature:literal $threads:literal $($accepts_max:expr)?;)*) => {
            $(#[cfg(feature = $feature)]
            mod $runtime {
                use crate::net::testkit;
                use crate::runtimes::$runtime::run;

                #[test]
                fn panicking_task_is_counted_and_others_continue() {
                    testkit::check_panicking_task($feature, $threads, run);
                }

                $(#[test]
                fn flood_of_connects_leaves_others_served() {
                    testkit::check_flood($feature, $accepts_max, run);
                })?

                #[test]
                fn large_response_leaves_others_served() {
                    testkit::check_large_response($feature, run);
                }
            })*
        };
    }

    tests! {
        // tokio interrupts a task after 128 operations.
        tokio "tokio" 2 128;
        smol "smol" 2 crate::net::ACCEPTS as u64;
        may "may" 1;
        compio "compio" 2 crate::net::ACCEPTS as u64;
        monoio "monoio" 2 crate::net::ACCEPTS as u64;
        glommio "glommio" 2 crate::net::ACCEPTS as u64;
    }
}
