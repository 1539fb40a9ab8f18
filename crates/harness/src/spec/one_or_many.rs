//! A key of an experiment file that takes one value or a list of values.

use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{F64Deserializer, I64Deserializer, SeqAccessDeserializer, StrDeserializer};
use serde::de::{IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// One value or several different values. In a file, `4` and `[4]` are equivalent.
#[derive(Clone, Debug, PartialEq)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T: Serialize> Serialize for OneOrMany<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de> + PartialEq + Serialize> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list: Vec<T> = deserializer.deserialize_any(ListVisitor::<T>(PhantomData))?;
        if list.is_empty() {
            return Err(serde::de::Error::custom("the list is empty; give at least one value"));
        }
        if let Some(twice) = list.iter().enumerate().find(|(at, value)| list[..*at].contains(value)) {
            let value = serde_json::to_string(twice.1).unwrap_or_default();
            return Err(serde::de::Error::custom(format!(
                "{value} appears twice; remove one (to repeat, set `repeats`)"
            )));
        }
        Ok(Self(list))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Vec<T>, E> {
        let value: StrDeserializer<'_, E> = value.into_deserializer();
        T::deserialize(value).map(|value| vec![value])
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Vec<T>, E> {
        let value: I64Deserializer<E> = value.into_deserializer();
        T::deserialize(value).map(|value| vec![value])
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Vec<T>, E> {
        let value: F64Deserializer<E> = value.into_deserializer();
        T::deserialize(value).map(|value| vec![value])
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
