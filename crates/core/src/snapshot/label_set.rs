//! Labels of pods and nodes.

use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Labels in key order.
///
/// There are a few dozen at most and hardly ever new ones, so that a sorted list is smaller than a map and as fast.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Vec<(Arc<str>, Arc<str>)>);

impl Labels {
    /// No labels.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(key))
    }

    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    /// Whether there is such a label.
    pub fn contains_key(&self, key: &str) -> bool {
        self.find(key).is_ok()
    }

    /// Sets a label; its old value is returned.
    pub fn insert(&mut self, key: Arc<str>, value: Arc<str>) -> Option<Arc<str>> {
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Takes a label away; its value is returned.
    pub fn remove(&mut self, key: &str) -> Option<Arc<str>> {
        self.find(key).ok().map(|at| self.0.remove(at).1)
    }

    /// Keys and values in key order.
    pub fn iter(&self) -> <&Self as IntoIterator>::IntoIter {
        self.into_iter()
    }

    /// Keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().map(|(key, _)| key)
    }

    /// How many labels there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> IntoIterator for &'a Labels {
    type Item = (&'a Arc<str>, &'a Arc<str>);
    type IntoIter = std::iter::Map<
        std::slice::Iter<'a, (Arc<str>, Arc<str>)>,
        fn(&'a (Arc<str>, Arc<str>)) -> (&'a Arc<str>, &'a Arc<str>),
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

impl IntoIterator for Labels {
    type Item = (Arc<str>, Arc<str>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<(Arc<str>, Arc<str>)> for Labels {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Arc<str>)>>(labels: I) -> Self {
        let mut all = Self::new();
        all.extend(labels);
        all.0.shrink_to_fit();
        all
    }
}

impl<const N: usize> From<[(Arc<str>, Arc<str>); N]> for Labels {
    fn from(labels: [(Arc<str>, Arc<str>); N]) -> Self {
        labels.into_iter().collect()
    }
}

impl Extend<(Arc<str>, Arc<str>)> for Labels {
    fn extend<I: IntoIterator<Item = (Arc<str>, Arc<str>)>>(&mut self, labels: I) {
        let labels = labels.into_iter();
        self.0.reserve(labels.size_hint().0);
        for (key, value) in labels {
            // Most come in order.
            match self.0.last() {
                Some((last, _)) if *last >= key => drop(self.insert(key, value)),
                _ => self.0.push((key, value)),
            }
        }
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(key, value)| (&**key, &**value)))
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut all = Labels::new();
                while let Some((key, value)) = map.next_entry::<String, String>()? {
                    all.extend([(key.into(), value.into())]);
                }
                all.0.shrink_to_fit();
                Ok(all)
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn labels_are_in_key_order_and_the_last_value_of_a_key_counts() {
        let mut all = labels(&[("b", "1"), ("a", "2"), ("b", "3")]);
        assert_eq!(all, labels(&[("a", "2"), ("b", "3")]));
        assert_eq!(all.insert("a".into(), "4".into()).as_deref(), Some("2"));
        assert_eq!(all.get("a").map(|value| &**value), Some("4"));
        assert_eq!((all.remove("c"), all.insert("c".into(), "5".into())), (None, None));
        assert_eq!(all.remove("c").as_deref(), Some("5"));
        let read: Labels = serde_json::from_str(r#"{"b": "3", "a": "4"}"#).unwrap();
        assert_eq!(read, all);
        assert_eq!(serde_json::to_string(&all).unwrap(), r#"{"a":"4","b":"3"}"#);
    }
}
