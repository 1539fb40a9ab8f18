//! Figures of TLS handshakes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measured::Measured;

/// TLS handshakes: those of all connections before the ramp, or of the short-lived connections that began in the window. Those of
/// reconnects are not included.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TlsResult {
    /// The cipher suite of a handshake. Those of TLS 1.3 begin with `TLS13`.
    pub cipher: String,
    /// The time of full handshakes, from the client's first message to its last. Medians of parts are unknown, and 0.
    pub full: Measured,
    /// The time of handshakes that resumed an earlier session.
    pub resumed: Measured,
}
