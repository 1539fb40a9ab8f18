//! A key of an experiment file that accepts one value or a list of values.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// One value or several different values. In a file, `4` and `[4]` are equivalent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de> + PartialEq> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = match toml::Value::deserialize(deserializer)? {
            toml::Value::Array(values) => values,
            value => vec![value],
        };
        let mut list: Vec<T> = Vec::with_capacity(values.len());
        for value in values {
            let text = value.to_string();
            let value = T::deserialize(value).map_err(|error| D::Error::custom(error.message()))?;
            if list.contains(&value) {
                return Err(D::Error::custom(format!("{text} appears twice; remove one (to repeat, set `repeats`)")));
            }
            list.push(value);
        }
        if list.is_empty() {
            Err(D::Error::custom("the list is empty; give at least one value"))
        } else {
            Ok(Self(list))
        }
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("ListOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({"anyOf": [one, {"type": "array", "items": one, "minItems": 1, "uniqueItems": true}]})
    }
}
