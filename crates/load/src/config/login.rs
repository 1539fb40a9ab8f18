//! What the client needs to be let in by the server, as plain data.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{ServiceSpec, kv, redis, secret};

/// User, password and database of each connection; for HTTP, user and password of each request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Login {
    /// The user; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The password as its digest, which [`secret::conceal`] returns; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub password: String,
    /// The number of the database of Redis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<u32>,
}

impl Login {
    /// Returns the value of HTTP's header `Authorization` (RFC 7617).
    pub(crate) fn basic(&self) -> Result<String, secret::Unknown> {
        Ok(format!("Basic {}", STANDARD.encode(format!("{}:{}", self.user, secret::reveal(&self.password)?))))
    }

    /// Returns the requests that begin a connection, and the line that answers each. Services other than key-value stores have none.
    pub(crate) fn requests(&self, service: &ServiceSpec) -> Result<Vec<(Vec<u8>, &'static [u8])>, secret::Unknown> {
        let (user, password) = (self.user.as_bytes(), secret::reveal(&self.password)?);
        Ok(match service {
            ServiceSpec::Redis { .. } => redis::client::login(user, password.as_bytes(), self.database),
            ServiceSpec::Kv { .. } => kv::client::login(user, password.as_bytes()),
            _ => Vec::new(),
        })
    }
}
