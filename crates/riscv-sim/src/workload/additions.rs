//! Additions whose results nobody needs, so that a core may have many under way: everywhere, or all
//! to one node, or all to one word.

use fastrand::Rng;

use super::{DATA, Words, Workload, packed};

/// Where additions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spread {
    /// To random words of random nodes.
    Everywhere,
    /// To random words of node 0.
    OneNode,
    /// To the first word of node 0.
    OneWord,
}

/// All of them.
pub const SPREADS: [Spread; 3] = [Spread::Everywhere, Spread::OneNode, Spread::OneWord];

impl Spread {
    /// What a report calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Everywhere => "everywhere",
            Self::OneNode => "one node",
            Self::OneWord => "one word",
        }
    }
}

/// Every node adds 1 to `n_each` words of arrays of `n_words` words a node.
#[must_use]
pub fn workload(
    spread: Spread,
    n_nodes: usize,
    n_each: usize,
    n_words: usize,
    seed: u64,
) -> Workload {
    let mut random = Rng::with_seed(seed);
    let array = DATA + (8 * n_each as u64).next_multiple_of(64);
    let mut sums = vec![vec![0; n_words]; n_nodes];
    let mut before = Vec::new();
    for node in 0..n_nodes {
        let mut place = || {
            let (owner, index) = match spread {
                Spread::Everywhere => (random.usize(..n_nodes), random.usize(..n_words)),
                Spread::OneNode => (0, random.usize(..n_words)),
                Spread::OneWord => (0, 0),
            };
            sums[owner][index] += 1;
            packed(owner, index)
        };
        before.push(Words {
            node,
            address: DATA,
            words: (0..n_each).map(|_| place()).collect(),
        });
    }
    let after = sums.into_iter().enumerate();
    let after = after.map(|(node, words)| Words {
        node,
        address: array,
        words,
    });
    Workload {
        name: format!("additions, {}", spread.name()),
        kernel: include_str!("../../guest/paper/add.s").to_owned(),
        n_nodes,
        params: vec![vec![n_each as u64, DATA, array]; n_nodes],
        before,
        after: after.collect(),
        outcome: 0,
    }
}
