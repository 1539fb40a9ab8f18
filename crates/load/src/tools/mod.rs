//! Auxiliary tools: idle connections, hostile clients, a calibration server, and a measurement of the client's own cost.

pub mod cost;
pub mod hostile;
pub mod idle;
pub mod reflector;
