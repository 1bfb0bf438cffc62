//! Figure 2 of the paper: `a[b[i]] = c[i]` with random indices over an array that is spread over
//! the nodes.

use fastrand::Rng;

use super::{DATA, Words, Workload, packed};

/// Node after node stores `n_each` values into an array of `n_words` words a node; what lies at the
/// node itself is stored without the network. All values for a place are the same, so that the
/// order of stores does not matter.
#[must_use]
pub fn workload(n_nodes: usize, n_each: usize, n_words: usize, seed: u64) -> Workload {
    let mut random = Rng::with_seed(seed);
    let values = DATA + 8 * n_each as u64;
    let array = values + 8 * n_each as u64;
    let mut expected = vec![vec![0; n_words]; n_nodes];
    let mut before = Vec::new();
    for node in 0..n_nodes {
        let mut places = Vec::new();
        let mut stored = Vec::new();
        for _ in 0..n_each {
            let (owner, index) = (random.usize(..n_nodes), random.usize(..n_words));
            let value = (owner * n_words + index) as u64 + 1;
            expected[owner][index] = value;
            stored.push(value);
            let place = packed(owner, index);
            places.push(if owner == node {
                place & 0xffff_ffff
            } else {
                place
            });
        }
        for (address, words) in [(DATA, places), (values, stored)] {
            before.push(Words {
                node,
                address,
                words,
            });
        }
    }
    let after = expected.into_iter().enumerate();
    let after = after.map(|(node, words)| Words {
        node,
        address: array,
        words,
    });
    Workload {
        name: "a[b[i]] = c[i]".to_owned(),
        kernel: include_str!("../../guest/paper/store.s").to_owned(),
        n_nodes,
        params: vec![vec![n_each as u64, DATA, values, array]; n_nodes],
        before,
        after: after.collect(),
        outcome: 0,
    }
}
