//! A rank's shares of the fronts, and the additions that it makes to the parents.

use crate::layout::{Layout, Share};
use crate::support::mix;
use crate::tree::Tree;

/// An addition to an element of a front.
#[pgas::pod]
#[derive(Debug)]
pub(crate) struct Addition {
    pub(crate) front: u32,
    /// The index in the target's share.
    pub(crate) place: u32,
    pub(crate) value: f64,
}

/// The initial value of an element, in place of the results of assembly and elimination. It is a
/// small integer, so that sums are exact in any order.
pub(crate) fn initial(front: usize, row: u32, column: u32) -> f64 {
    let bits = mix((front as u64) << 48 ^ u64::from(row) << 24 ^ u64::from(column));
    f64::from(u16::try_from(bits % 1024).expect("ten bits"))
}

/// The shares of one rank.
pub(crate) struct Fronts<'a> {
    pub(crate) tree: &'a Tree,
    rank: u32,
    layouts: Vec<Layout>,
    shares: Vec<Share>,
}

impl<'a> Fronts<'a> {
    pub(crate) fn of(tree: &'a Tree, rank: u32) -> Self {
        let layouts: Vec<_> = tree.fronts.iter().map(Layout::of).collect();
        let shares = layouts.iter().map(|layout| layout.share(rank)).collect();
        Self {
            tree,
            rank,
            layouts,
            shares,
        }
    }

    /// The initial values of this rank's share of each front.
    pub(crate) fn values(&self) -> Vec<Vec<f64>> {
        let values = |(i, share): (usize, &Share)| {
            let rows = &self.tree.fronts[i].rows;
            let value = |(row, column)| initial(i, rows[row], rows[column]);
            share.elements().map(value).collect()
        };
        self.shares.iter().enumerate().map(values).collect()
    }

    pub(crate) fn share(&self, front: usize) -> &Share {
        &self.shares[front]
    }

    /// The number of additions from all children to this rank's share of each front.
    pub(crate) fn n_expected(&self) -> Vec<usize> {
        let mut expected = vec![0; self.shares.len()];
        for child in &self.tree.fronts {
            let Some(parent) = child.parent else { continue };
            let share = &self.shares[parent];
            let mine = |all: &[usize]| {
                let is_mine = |place: &&u32| all.binary_search(&(**place as usize)).is_ok();
                child.in_parent.iter().filter(is_mine).count()
            };
            expected[parent] += mine(&share.rows) * mine(&share.columns);
        }
        expected
    }

    /// The additions of this rank's share of `front`, with these `values`, to the parent, for each
    /// of the parent's ranks.
    pub(crate) fn contributions(&self, front: usize, values: &[f64], to: &mut [Vec<Addition>]) {
        let child = &self.tree.fronts[front];
        let Some(parent) = child.parent else { return };
        let layout = &self.layouts[parent];
        let index = u32::try_from(parent).expect("fewer fronts than vertices");
        for ((row, column), value) in self.shares[front].elements().zip(values) {
            if row < child.n_pivots || column < child.n_pivots {
                continue;
            }
            let row = child.in_parent[row - child.n_pivots] as usize;
            let column = child.in_parent[column - child.n_pivots] as usize;
            let (rank, place) = layout.place(row, column);
            to[rank as usize].push(Addition {
                front: index,
                place: u32::try_from(place).expect("a share has fewer elements"),
                value: *value,
            });
        }
    }

    /// Whether this rank works on `front`.
    pub(crate) fn has(&self, front: usize) -> bool {
        self.tree.fronts[front].ranks.contains(&self.rank)
    }
}
