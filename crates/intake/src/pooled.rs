//! Things of which there are few, each kept once.

use std::hash::Hash;
use std::sync::Arc;

use headstart_core::resources::Resources;
use headstart_core::snapshot::Labels;
use rustc_hash::FxHashSet;

use crate::kept::Made;

/// Things of which there are few, each kept once.
#[derive(Debug, Default)]
pub(crate) struct Pooled {
    names: FxHashSet<Arc<str>>,
    made: FxHashSet<Arc<Made>>,
    resources: FxHashSet<Arc<Resources>>,
    label_sets: FxHashSet<Arc<Labels>>,
}

impl Pooled {
    pub(crate) fn name(&mut self, name: &str) -> Arc<str> {
        match self.names.get(name) {
            Some(known) => known.clone(),
            None => once(&mut self.names, name.into()),
        }
    }

    pub(crate) fn made(&mut self, made: Made) -> Arc<Made> {
        once(&mut self.made, Arc::new(made))
    }

    pub(crate) fn resources(&mut self, resources: &Arc<Resources>) -> Arc<Resources> {
        once(&mut self.resources, resources.clone())
    }

    /// Drops what nobody uses any more.
    pub(crate) fn sweep(&mut self) {
        self.made.retain(|made| Arc::strong_count(made) > 1);
        self.resources.retain(|resources| Arc::strong_count(resources) > 1);
        self.label_sets.retain(|labels| Arc::strong_count(labels) > 1);
        self.names.retain(|name| Arc::strong_count(name) > 1);
    }

    /// Labels that others have as well.
    pub(crate) fn label_set(&mut self, labels: &Labels) -> Arc<Labels> {
        if let Some(known) = self.label_sets.get(labels) {
            return known.clone();
        }
        let labels = Arc::new(self.labels(labels));
        once(&mut self.label_sets, labels)
    }

    /// Labels that share their texts with others.
    pub(crate) fn labels(&mut self, labels: &Labels) -> Labels {
        labels.iter().map(|(key, value)| (self.name(key), self.name(value))).collect()
    }
}

/// What is known already, or what was given, which is known from now on.
fn once<T: Eq + Hash + ?Sized>(known: &mut FxHashSet<Arc<T>>, given: Arc<T>) -> Arc<T> {
    if let Some(known) = known.get(&given) {
        return known.clone();
    }
    known.insert(given.clone());
    given
}
