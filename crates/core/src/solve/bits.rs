//! Fixed-size sets of small integers.

/// A set of indices below a size fixed at creation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn none(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)])
    }

    pub(crate) fn all(size: usize) -> Self {
        let mut bits = Self(vec![u64::MAX; size.div_ceil(64)]);
        if let Some(last) = bits.0.last_mut().filter(|_| !size.is_multiple_of(64)) {
            *last = (1 << (size % 64)) - 1;
        }
        bits
    }

    pub(crate) fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn has(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn or(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }

    pub(crate) fn and(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine &= theirs;
        }
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }

    /// Whether some index of the half-open range is in the set.
    pub(crate) fn any_in(&self, from: usize, to: usize) -> bool {
        (from..to).any(|index| self.has(index))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        Ones { words: &self.0, at: 0, word: self.0.first().copied().unwrap_or(0) }
    }
}

struct Ones<'a> {
    words: &'a [u64],
    at: usize,
    word: u64,
}

impl Iterator for Ones<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            self.at += 1;
            self.word = *self.words.get(self.at)?;
        }
        let bit = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(self.at * 64 + bit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_set(size in 1usize..200, a in prop::collection::btree_set(0usize..200, 0..40), b in prop::collection::btree_set(0usize..200, 0..40)) {
            let build = |set: &std::collections::BTreeSet<usize>| {
                let mut bits = Bits::none(size);
                set.iter().filter(|i| **i < size).for_each(|i| bits.insert(*i));
                bits
            };
            let (mut and, mut or) = (build(&a), build(&a));
            and.and(&build(&b));
            or.or(&build(&b));
            prop_assert_eq!(and.iter().collect::<Vec<_>>(), a.intersection(&b).copied().filter(|i| *i < size).collect::<Vec<_>>());
            prop_assert_eq!(or.iter().collect::<Vec<_>>(), a.union(&b).copied().filter(|i| *i < size).collect::<Vec<_>>());
            prop_assert_eq!(Bits::all(size).iter().count(), size);
            prop_assert_eq!(and.is_empty(), and.iter().next().is_none());
        }
    }
}
