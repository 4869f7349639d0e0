//! Which work may begin: in order per subject, side by side across subjects, only so much at once.

use std::collections::{BTreeMap, VecDeque};

/// Work that waits, by subject.
pub(super) struct Lanes<T> {
    limit: usize,
    running: usize,
    /// What waits behind something of the same subject; a subject is here as long as it has work.
    behind: BTreeMap<String, VecDeque<T>>,
    /// What waits for nothing but room.
    ready: VecDeque<(String, T)>,
}

impl<T> Lanes<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, running: 0, behind: BTreeMap::new(), ready: VecDeque::new() }
    }

    /// Takes in work.
    pub(super) fn offer(&mut self, subject: String, work: T) {
        if let Some(queue) = self.behind.get_mut(&subject) {
            queue.push_back(work);
        } else {
            self.behind.insert(subject.clone(), VecDeque::new());
            self.ready.push_back((subject, work));
        }
    }

    /// Work that may begin now, if there is some; the caller must say when it is finished.
    pub(super) fn begin(&mut self) -> Option<(String, T)> {
        if self.running == self.limit {
            return None;
        }
        let next = self.ready.pop_front()?;
        self.running += 1;
        Some(next)
    }

    /// The work of a subject that had begun is finished.
    pub(super) fn finished(&mut self, subject: String) {
        self.running -= 1;
        match self.behind.get_mut(&subject).and_then(VecDeque::pop_front) {
            Some(next) => self.ready.push_back((subject, next)),
            None => {
                self.behind.remove(&subject);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(lanes: &mut Lanes<u32>) -> Vec<(String, u32)> {
        std::iter::from_fn(|| lanes.begin()).collect()
    }

    #[test]
    fn one_subject_in_order_others_beside_it() {
        let mut lanes = Lanes::new(10);
        for (subject, work) in [("a", 1), ("a", 2), ("b", 3), ("a", 4)] {
            lanes.offer(subject.into(), work);
        }
        assert_eq!(begun(&mut lanes), [("a".into(), 1), ("b".into(), 3)]);
        lanes.finished("b".into());
        assert_eq!(begun(&mut lanes), []);
        lanes.finished("a".into());
        assert_eq!(begun(&mut lanes), [("a".into(), 2)]);
        lanes.finished("a".into());
        assert_eq!(begun(&mut lanes), [("a".into(), 4)]);
        lanes.finished("a".into());
        assert!(lanes.behind.is_empty(), "nothing is kept of subjects without work");
    }

    #[test]
    fn no_more_than_allowed_at_once() {
        let mut lanes = Lanes::new(2);
        for (subject, work) in [("a", 1), ("b", 2), ("c", 3)] {
            lanes.offer(subject.into(), work);
        }
        assert_eq!(begun(&mut lanes).len(), 2);
        lanes.finished("b".into());
        assert_eq!(begun(&mut lanes), [("c".into(), 3)]);
    }
}
