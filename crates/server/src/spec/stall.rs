//! Periodic stalls of a network thread, as plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

use crate::spec::model::ModelRow;

/// Periodic stalls of the first network thread, which then serves nothing, as if a request held it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// The time from the start of a stall to the start of the next one.
    pub every_ns: u64,
    /// The duration of a stall.
    pub for_ns: u64,
}

impl Stall {
    /// Checks whether a server of `model` and `service` has a network thread to hold up.
    pub fn check(self, model: &ModelRow, service: &ServiceSpec) -> Result<(), String> {
        if service.ports().is_some() {
            return Err(format!(
                "cannot stall a server of `{}`: a stall holds up connections; omit the stalls, or choose another service",
                service.name()
            ));
        }
        if model.has_network_threads() {
            return Ok(());
        }
        Err(format!(
            "`{}` has no network threads to stall; omit the stalls, or choose symped, seda or seda-s",
            model.name
        ))
    }
}
