//! Durations as whole milliseconds in JSON, for `#[serde(with = …)]`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes the milliseconds.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    (duration.as_millis() as u64).serialize(serializer)
}

/// Reads the milliseconds.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

/// The same for durations that may be absent.
pub mod option {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    /// Writes the milliseconds, or null.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.map(|d| d.as_millis() as u64).serialize(serializer)
    }

    /// Reads the milliseconds, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
