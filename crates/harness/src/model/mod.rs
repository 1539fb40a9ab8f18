//! Plain data: what is stored, and what processes send each other.

pub mod network;
pub mod order;
