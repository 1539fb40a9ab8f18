//! Tests of harness with the fixtures of testkit, which depends on harness.

mod blocks;
mod verdicts;
