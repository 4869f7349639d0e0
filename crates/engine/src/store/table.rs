//! Objects by name.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Objects by name, in the order of their names.
#[derive(Debug)]
pub(crate) struct Table<T>(
    // A map leaves a good part of its room unused, which is why large objects are not in it.
    BTreeMap<Arc<str>, Box<T>>,
);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Table<T> {
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.0.get(name).map(|object| &**object)
    }

    pub(crate) fn contains_key(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values().map(|object| &**object)
    }

    pub(super) fn insert(&mut self, name: Arc<str>, object: T) {
        self.0.insert(name, Box::new(object));
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<T> {
        self.0.remove(name).map(|object| *object)
    }
}
