//! Decoding with the path of what is wrong.

use headstart_core::requirement::{Operator, Requirement};
use headstart_core::requirements::Requirements;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
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
pub(crate) fn decode<T: DeserializeOwned>(value: Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = error.path().to_string();
        Fault::new(if field == "." { String::new() } else { field }, error.into_inner().to_string())
    })
}

/// Reads null as the default, as Kubernetes does.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    input: D,
) -> Result<T, D::Error> {
    Option::deserialize(input).map(Option::unwrap_or_default)
}

/// Whether a list has anything in it.
pub(crate) fn some<'de, D: Deserializer<'de>>(input: D) -> Result<bool, D::Error> {
    let list: Option<Vec<serde::de::IgnoredAny>> = Option::deserialize(input)?;
    Ok(list.is_some_and(|list| !list.is_empty()))
}

/// A requirement as manifests write it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Expression {
    pub(crate) key: String,
    pub(crate) operator: String,
    #[serde(default, deserialize_with = "nullable")]
    pub(crate) values: Vec<String>,
    pub(crate) min_values: Option<u32>,
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
