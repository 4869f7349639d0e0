//! Where in its list each object is.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

/// Where in its list each object is, in few bytes: by a short hash of kind and name, and by the name itself for the few whose
/// hash another object has already.
#[derive(Debug, Default)]
pub(crate) struct Places {
    by_hash: FxHashMap<u32, u32>,
    by_name: BTreeMap<(String, String, String), u32>,
}

fn hash(kind: &str, names: (&str, &str)) -> u32 {
    FxBuildHasher.hash_one((kind, names)) as u32
}

fn name(kind: &str, (namespace, name): (&str, &str)) -> (String, String, String) {
    (kind.to_owned(), namespace.to_owned(), name.to_owned())
}

impl Places {
    /// Where an object is; `names` gives the names of what is at a place.
    pub(crate) fn of<'a>(
        &self,
        kind: &str,
        wanted: (&str, &str),
        names: impl Fn(usize) -> Option<(&'a str, &'a str)>,
    ) -> Option<usize> {
        let first = self.by_hash.get(&hash(kind, wanted)).map(|place| *place as usize);
        if first.is_some_and(|place| names(place) == Some(wanted)) {
            return first;
        }
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.get(&name(kind, wanted)).map(|place| *place as usize)
    }

    /// Remembers where an object is that has no place yet.
    pub(crate) fn set(&mut self, kind: &str, names: (&str, &str), place: usize) {
        let place = place as u32;
        let first = *self.by_hash.entry(hash(kind, names)).or_insert(place);
        if first != place {
            self.by_name.insert(name(kind, names), place);
        }
    }

    /// Forgets where an object is.
    pub(crate) fn forget(&mut self, kind: &str, names: (&str, &str), place: usize) {
        let hash = hash(kind, names);
        if self.by_name.is_empty() || self.by_name.remove(&name(kind, names)).is_none() {
            debug_assert_eq!(self.by_hash.get(&hash), Some(&(place as u32)));
            self.by_hash.remove(&hash);
        }
    }
}
