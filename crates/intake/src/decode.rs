//! Decoding with the path of what is wrong.

use std::sync::Arc;

use headstart_core::requirement::{Operator, Requirement};
use headstart_core::requirements::Requirements;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, IntoDeserializer, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::Value;

/// A field that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fault {
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }

    /// The same fault seen from an enclosing field.
    pub(crate) fn within(self, outer: &str) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        Self { field: format!("{outer}{dot}{}", self.field), ..self }
    }
}

/// Decodes a value into a struct that has only the fields of interest.
pub(crate) fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, Fault> {
    // PERF: to keep track of where we are costs as much as to decode, so that is done only when something is wrong.
    T::deserialize(Strict(value)).or_else(|_| {
        serde_path_to_error::deserialize(Strict(value)).map_err(|error| {
            let field = error.path().to_string();
            Fault::new(if field == "." { String::new() } else { field }, error.into_inner().to_string())
        })
    })
}

/// A value that gives structs only objects: left to itself serde takes a list for the fields in order.
///
/// Fields that are null are left out: to Kubernetes that is the same as not saying anything.
#[derive(Clone, Copy)]
struct Strict<'de>(&'de Value);

impl<'de> Deserializer<'de> for Strict<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Array(items) => SeqDeserializer::new(items.iter().map(Strict)).deserialize_any(visitor),
            Value::Object(fields) => {
                let told = fields.iter().filter(|(_, field)| !field.is_null());
                let fields = told.map(|(name, field)| (name.as_str(), Strict(field)));
                MapDeserializer::new(fields).deserialize_any(visitor)
            }
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        if self.0.is_object() {
            return self.deserialize_any(visitor);
        }
        Err(de::Error::custom("must be an object"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, serde_json::Error> for Strict<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Reads null as the default, as Kubernetes does.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    input: D,
) -> Result<T, D::Error> {
    Option::deserialize(input).map(Option::unwrap_or_default)
}

/// The same for what many objects have in common.
pub(crate) fn shared<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    input: D,
) -> Result<Arc<T>, D::Error> {
    nullable(input).map(Arc::new)
}

/// Whether a list has anything in it.
pub(crate) fn some<'de, D: Deserializer<'de>>(input: D) -> Result<bool, D::Error> {
    let list: Option<Vec<serde::de::IgnoredAny>> = Option::deserialize(input)?;
    Ok(list.is_some_and(|list| !list.is_empty()))
}

/// A requirement as manifests write it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expression {
    /// The label it is about.
    pub key: String,
    /// How its value is compared.
    pub operator: String,
    /// What with.
    #[serde(default, deserialize_with = "nullable")]
    pub values: Vec<String>,
    /// How many values there must be to choose from.
    pub min_values: Option<u32>,
}

impl Expression {
    pub(crate) fn operator(&self) -> Result<Operator, Fault> {
        self.operator.parse().map_err(|error| Fault::new("operator", format!("{error}")))
    }

    pub(crate) fn requirement(&self) -> Result<Requirement, Fault> {
        let operator = self.operator()?;
        if operator == Operator::In && self.values.is_empty() {
            return Err(Fault::new("values", "operator In needs a value"));
        }
        Requirement::new(&self.key, operator, &self.values, self.min_values)
            .map_err(|error| Fault::new("values", error.to_string()))
    }
}

/// All of these requirements together.
pub(crate) fn requirements(expressions: &[Expression], field: &str) -> Result<Requirements, Fault> {
    let mut all = Requirements::new();
    for (i, expression) in expressions.iter().enumerate() {
        all.add(expression.requirement().map_err(|fault| fault.within(&format!("{field}[{i}]")))?);
    }
    Ok(all)
}
