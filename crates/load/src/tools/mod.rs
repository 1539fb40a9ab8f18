//! Tools beside the load: idle and hostile connections, a server to calibrate against, and the client's own cost.

pub mod cost;
pub mod hostile;
pub mod idle;
pub mod reflector;
