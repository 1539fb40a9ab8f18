//! muxbench
fn main() {}
