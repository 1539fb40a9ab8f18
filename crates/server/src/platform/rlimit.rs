//! Resource limits.

use rustix::process::{Resource, Rlimit};

use super::DESCRIPTORS_MAX;

/// Raises a soft limit to the hard one, or to the highest value that the system accepts.
pub(crate) fn raise_limit(resource: Resource) {
    let maximum = rustix::process::getrlimit(resource).maximum;
    let current = match DESCRIPTORS_MAX {
        Some(most) if resource == Resource::Nofile => Some(maximum.map_or(most, |maximum| maximum.min(most))),
        _ => maximum,
    };
    let _ = rustix::process::setrlimit(resource, Rlimit { current, maximum });
}
