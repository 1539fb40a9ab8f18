//! Experiments, as users write them.

pub mod network;
