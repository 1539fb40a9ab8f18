//! Tests of harness with the fixtures of testkit, which depends on harness.

mod figures;
mod verdicts;

#[path = "../../examples/plan.rs"]
mod example;

#[test]
fn example_plans_an_experiment() {
    example::main().unwrap();
}
