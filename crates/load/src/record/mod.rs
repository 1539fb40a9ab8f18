//! Memory for the requests of a trial, and their summary afterwards.

pub mod counts;
pub mod progress;
pub mod recorder;
pub mod request;
pub mod summary;
