//! Experiment → plan → run → store.

pub mod record;
