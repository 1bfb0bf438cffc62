//! A set of nodes that is walked in their order, and may change meanwhile.

/// Nodes of a machine, a bit each.
#[derive(Clone, Debug)]
pub(super) struct NodeSet {
    words: Vec<u64>,
}

impl NodeSet {
    /// All nodes below `n_nodes`.
    pub(super) fn of_all(n_nodes: usize) -> Self {
        let mut set = Self {
            words: vec![0; n_nodes.div_ceil(64)],
        };
        (0..n_nodes).for_each(|node| set.insert(node));
        set
    }

    pub(super) fn insert(&mut self, node: usize) {
        self.words[node / 64] |= 1 << (node % 64);
    }

    pub(super) fn remove(&mut self, node: usize) {
        self.words[node / 64] &= !(1 << (node % 64));
    }

    /// The first of them from `first` on.
    pub(super) fn next(&self, first: usize) -> Option<usize> {
        let mut index = first / 64;
        let mut word = self.words.get(index)? & u64::MAX << (first % 64);
        while word == 0 {
            index += 1;
            word = *self.words.get(index)?;
        }
        Some(64 * index + word.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::NodeSet;

    #[test]
    fn a_set_is_walked_in_order_across_its_words() {
        let mut set = NodeSet::of_all(130);
        for node in (0..130).filter(|node| !matches!(node, 0 | 63 | 64 | 129)) {
            set.remove(node);
        }
        let mut found = Vec::new();
        let mut first = 0;
        while let Some(node) = set.next(first) {
            found.push(node);
            first = node + 1;
        }
        assert_eq!(found, [0, 63, 64, 129]);
        assert_eq!(set.next(1000), None);
    }
}
