//! Value names of types in other crates, for the JSON Schema of experiment files.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

macro_rules! names_for_the_schema {
    ($($type:ident: $($name:literal)+;)+) => {$(
        pub(super) struct $type;

        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"enum": [$($name),+]})
            }
        }
    )+};
}

names_for_the_schema! {
    PacingName: "auto" "yield" "spin" "sleep-spin";
    RolesName: "auto" "one-loop" "two-threads";
    ClockName: "auto" "tsc" "monotonic";
    TimestampsName: "client" "kernel";
    DirectionName: "in" "out";
    AcceptName: "single" "shared" "reuseport" "exclusive" "reuseport-cpu" "incoming-cpu" "reuseport-least" "hermes";
}
