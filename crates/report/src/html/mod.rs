//! Pages that load no other file: each contains its style, its script, its data and the plotting library.
//!
//! # Layout
//! - [`page`]: a run's page; [`index`]: the page of many runs; [`atlas`]: a decision map
//! - [`frame`]: the parts that every page has

pub mod atlas;
mod flames;
pub mod frame;
pub mod index;
pub mod page;
#[cfg(test)]
mod tests;

pub use page::render;
