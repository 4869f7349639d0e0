//! Amounts as the simulated cluster reads them: naive on purpose, so that it cannot share a mistake with the engine.

use serde_json::Value;

use crate::api::field;

/// An amount in thousandths: millicores of `cpu`, thousandths of a byte of `memory`.
pub type Milli = i64;

/// Reads a quantity; anything unreadable is nothing.
pub fn read(text: &str) -> Milli {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale: f64 = match unit {
        "n" => 1e-6,
        "u" => 1e-3,
        "m" => 1.0,
        "k" => 1e6,
        "M" => 1e9,
        "G" => 1e12,
        "T" => 1e15,
        "Ki" => 1000.0 * 1024.0,
        "Mi" => 1000.0 * 1024.0 * 1024.0,
        "Gi" => 1000.0 * 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1000.0 * 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => 1000.0,
    };
    number.parse::<f64>().map_or(0, |n| (n * scale).round() as Milli)
}

/// Reads a JSON number or text as a quantity.
pub fn of(value: Option<&Value>) -> Milli {
    match value {
        Some(Value::String(text)) => read(text),
        Some(Value::Number(number)) => read(&number.to_string()),
        _ => 0,
    }
}

/// The amounts that the simulated scheduler looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Room {
    /// Millicores.
    pub cpu: Milli,
    /// Thousandths of a byte.
    pub memory: Milli,
    /// How many pods, in thousandths.
    pub pods: Milli,
}

impl Room {
    /// Reads a list of resources.
    pub fn of(list: Option<&Value>) -> Self {
        let get = |name| of(list.and_then(|list| list.get(name)));
        Self { cpu: get("cpu"), memory: get("memory"), pods: get("pods") }
    }

    /// What a pod asks for.
    pub fn of_pod(pod: &Value) -> Self {
        let mut room = Self { pods: 1000, ..Self::default() };
        for container in field(pod, "/spec/containers").and_then(Value::as_array).into_iter().flatten() {
            let asked = Self::of(field(container, "/resources/requests"));
            room.cpu += asked.cpu;
            room.memory += asked.memory;
        }
        room
    }

    /// Whether this much can be taken out of `other`.
    pub fn fits(self, other: Self) -> bool {
        self.cpu <= other.cpu && self.memory <= other.memory && self.pods <= other.pods
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, memory: self.memory + other.memory, pods: self.pods + other.pods }
    }

    /// What is left.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self { cpu: self.cpu - other.cpu, memory: self.memory - other.memory, pods: self.pods - other.pods }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read() {
        assert_eq!((read("100m"), read("2"), read("1.5"), read("")), (100, 2000, 1500, 0));
        assert_eq!((read("1Ki"), read("2k"), read("1Gi")), (1_024_000, 2_000_000, 1_073_741_824_000));
        assert_eq!((of(Some(&serde_json::json!(3))), of(None)), (3000, 0));
    }

    #[test]
    fn pods_ask_for_all_their_containers() {
        let pod = serde_json::json!({ "spec": { "containers": [
            { "resources": { "requests": { "cpu": "1" } } },
            { "resources": { "requests": { "cpu": "500m", "memory": "1" } } },
        ] } });
        assert_eq!(Room::of_pod(&pod), Room { cpu: 1500, memory: 1000, pods: 1000 });
        assert!(Room::of_pod(&pod).fits(Room { cpu: 1500, memory: 1000, pods: 1000 }));
        assert!(!Room::of_pod(&pod).fits(Room { cpu: 1499, memory: 1000, pods: 1000 }));
    }
}
