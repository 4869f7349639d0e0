//! Nodes by the machine they are on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names of nodes by provider id; several with the same one are a mistake, but happen.
#[derive(Debug, Default)]
pub(crate) struct ByMachine(BTreeMap<Arc<str>, Names>);

#[derive(Debug)]
enum Names {
    One(Arc<str>),
    Several(BTreeSet<Arc<str>>),
}

impl ByMachine {
    pub(crate) fn add(&mut self, id: Arc<str>, name: Arc<str>) {
        match self.0.get_mut(&id) {
            None => drop(self.0.insert(id, Names::One(name))),
            Some(Names::Several(names)) => drop(names.insert(name)),
            Some(names) => {
                let Names::One(first) = &*names else { return };
                *names = Names::Several(BTreeSet::from([Arc::clone(first), name]));
            }
        }
    }

    pub(crate) fn remove(&mut self, id: &str, name: &str) {
        let is_empty = match self.0.get_mut(id) {
            None => return,
            Some(Names::One(known)) => **known == *name,
            Some(Names::Several(names)) => {
                names.remove(name);
                names.is_empty()
            }
        };
        if is_empty {
            self.0.remove(id);
        }
    }

    /// Names of the nodes on a machine, in order.
    pub(crate) fn on(&self, id: &str) -> impl Iterator<Item = &Arc<str>> {
        let (one, several) = match self.0.get(id) {
            Some(Names::One(name)) => (Some(name), None),
            Some(Names::Several(names)) => (None, Some(names)),
            None => (None, None),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_nodes_may_be_on_one_machine() {
        let mut nodes = ByMachine::default();
        for name in ["b", "a", "a"] {
            nodes.add("machine".into(), name.into());
        }
        let on = |nodes: &ByMachine| nodes.on("machine").map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(on(&nodes), ["a", "b"]);
        nodes.remove("machine", "c");
        nodes.remove("machine", "a");
        assert_eq!(on(&nodes), ["b"]);
        nodes.remove("machine", "b");
        assert_eq!(on(&nodes), [""; 0]);
    }
}
