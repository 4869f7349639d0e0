//! What the engine says, for people: values that speak for themselves without their names, money as money.

use headstart_core::price::Price;

use crate::plan::dollars;

/// Something that is said, with and without the names that tell it from its like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(super) label: String,
    pub(super) text: String,
    pub(super) nameless: String,
}

impl Said {
    /// Something said by a Kubernetes event about an object, such as `pod/web-1`.
    pub(crate) fn about(object: &str, what: &str) -> Self {
        let kind = object.split_once('/').map_or(object, |(kind, _)| kind);
        let label = String::new();
        Self { label, text: format!("{object} {what}"), nameless: format!("{kind} {what}") }
    }

    /// The same, after a word about where it was said.
    pub(crate) fn labelled(self, label: &str) -> Self {
        Self { label: format!("{label}  "), ..self }
    }
}

impl From<String> for Said {
    fn from(text: String) -> Self {
        Self { label: String::new(), nameless: text.clone(), text }
    }
}

/// A line of the engine's log with its names and numbers.
pub(crate) fn decision(message: &str, fields: &[(String, String)]) -> Said {
    let has = |wanted: &str| fields.iter().any(|(name, _)| name == wanted);
    // A claim's name begins with its pool's.
    let is_shown = |name: &str| name != "provider-id" && !(name == "NodePool" && has("NodeClaim"));
    let shown = fields.iter().filter(|(name, value)| !value.is_empty() && is_shown(name));
    let others = shown.clone().filter(|(name, _)| name != "NodeClaim" && name != "Node");
    Said { label: String::new(), text: sentence(message, shown), nameless: sentence(message, others) }
}

fn sentence<'a>(message: &str, fields: impl Iterator<Item = &'a (String, String)>) -> String {
    let fields = fields.map(|(name, value)| field(name, value));
    std::iter::once(message.to_owned()).chain(fields).collect::<Vec<_>>().join(" · ")
}

fn field(name: &str, value: &str) -> String {
    match name {
        "NodeClaim" | "Node" | "NodePool" | "instance-type" | "zone" | "capacity-type" | "pod" => {
            value.to_owned()
        }
        "cheapest" => format!("cheapest as {value}"),
        "price" => money(value),
        "atLeast" => format!("{} at the very least", money(value)),
        "types" => format!("{value} types could serve"),
        "reason" => format!("because of {}", value.replace('_', " ")),
        _ => format!("{name} {value}"),
    }
}

/// A price as it is printed everywhere; what is no price stays as it is.
fn money(value: &str) -> String {
    let price = value.strip_suffix("/h").and_then(|price| price.parse::<Price>().ok());
    price.map_or_else(|| value.to_owned(), dollars)
}
