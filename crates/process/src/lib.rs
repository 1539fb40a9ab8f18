#![doc = include_str!("../README.md")]

pub mod child;
pub mod folder;
pub mod secrets;
pub mod stop;
