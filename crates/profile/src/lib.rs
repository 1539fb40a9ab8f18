//! Where a request's CPU time goes: sampled stacks of server processes, by category.

pub mod calls;
pub mod categories;
#[cfg(target_os = "linux")]
pub mod sampling;
#[cfg(target_os = "linux")]
pub mod symbols;

pub use calls::Calls;
pub use categories::{Category, Classifier};

/// Elsewhere nothing can be sampled.
#[cfg(not(target_os = "linux"))]
pub mod sampling {
    /// Returns why this system cannot sample.
    pub fn can_sample() -> Result<(), String> {
        Err("the kernel cannot sample stacks; try Linux".into())
    }
}
