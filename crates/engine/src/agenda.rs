//! What to look at now, and what later.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Time;

/// Things to look at now, and things to look at later.
#[derive(Clone, Debug)]
pub(crate) struct Agenda<K> {
    now: BTreeSet<K>,
    later: BTreeSet<(Time, K)>,
    /// When each thing comes next; the soonest counts.
    when: BTreeMap<K, Time>,
}

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Self { now: BTreeSet::new(), later: BTreeSet::new(), when: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Agenda<K> {
    /// Looks at it in the next round.
    pub(crate) fn mark(&mut self, key: K) {
        self.now.insert(key);
    }

    /// Looks at it then at the latest.
    pub(crate) fn at(&mut self, time: Time, key: K) {
        match self.when.get(&key) {
            Some(known) if *known <= time => return,
            Some(known) => drop(self.later.remove(&(*known, key.clone()))),
            None => {}
        }
        self.when.insert(key.clone(), time);
        self.later.insert((time, key));
    }

    /// Everything to look at now, in order, each once.
    pub(crate) fn take(&mut self, now: Time) -> BTreeSet<K> {
        while let Some((time, _)) = self.later.first() {
            if *time > now {
                break;
            }
            if let Some((_, key)) = self.later.pop_first() {
                self.when.remove(&key);
                self.now.insert(key);
            }
        }
        std::mem::take(&mut self.now)
    }

    /// When there is something to look at; the past if there is already.
    pub(crate) fn wake(&self) -> Option<Time> {
        if self.now.is_empty() { self.later.first().map(|(time, _)| *time) } else { Some(Time(0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soonest_of_several_times_counts_and_each_comes_once() {
        let mut agenda = Agenda::default();
        agenda.at(Time(30), "a");
        agenda.at(Time(10), "a");
        agenda.at(Time(20), "a");
        agenda.at(Time(20), "b");
        assert_eq!(agenda.wake(), Some(Time(10)));
        assert_eq!(agenda.take(Time(9)).len(), 0);
        assert_eq!(agenda.take(Time(20)).into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(agenda.wake(), None);
        agenda.mark("c");
        assert_eq!(agenda.wake(), Some(Time(0)));
    }
}
