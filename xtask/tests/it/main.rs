//! Checks of the sources: their structure, names, comments and links.

mod style;
mod tidy;
