//! The distribution of a front: square blocks, distributed cyclically in both directions over the
//! front's ranks.

use std::ops::Range;

use crate::tree::Front;

/// Rows and columns of a block.
const BLOCK: usize = 16;

/// A front's ranks as a grid.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    first: u32,
    rows: usize,
    columns: usize,
    /// Rows and columns of the front.
    n: usize,
}

/// The share of one rank, as counts of rows and columns. It is stored row by row.
pub(crate) struct Share {
    pub(crate) rows: Vec<usize>,
    pub(crate) columns: Vec<usize>,
}

impl Layout {
    pub(crate) fn of(front: &Front) -> Self {
        let Range { start, end } = front.ranks;
        let n_ranks = (end - start) as usize;
        let divides = |rows: &usize| n_ranks.is_multiple_of(*rows) && rows * rows <= n_ranks;
        let rows = (1..=n_ranks).rev().find(divides).unwrap_or(1);
        Self {
            first: start,
            rows,
            columns: n_ranks / rows,
            n: front.rows.len(),
        }
    }

    /// The owner of an element, and the index in its share.
    pub(crate) fn place(&self, row: usize, column: usize) -> (u32, usize) {
        let (grid_row, local_row) = dealt(row, self.rows);
        let (grid_column, local_column) = dealt(column, self.columns);
        let rank = u32::try_from(grid_row * self.columns + grid_column).expect("at most the ranks");
        let width = n_dealt(self.n, self.columns, grid_column);
        (self.first + rank, local_row * width + local_column)
    }

    /// The share of `rank`, which is empty for a rank outside of the front.
    pub(crate) fn share(&self, rank: u32) -> Share {
        let index = rank.checked_sub(self.first).map(|index| index as usize);
        let index = index.filter(|index| *index < self.rows * self.columns);
        let Some(index) = index else {
            return Share {
                rows: Vec::new(),
                columns: Vec::new(),
            };
        };
        let whose = |parts, part| {
            (0..self.n)
                .filter(move |i| dealt(*i, parts).0 == part)
                .collect()
        };
        Share {
            rows: whose(self.rows, index / self.columns),
            columns: whose(self.columns, index % self.columns),
        }
    }
}

impl Share {
    /// Row and column of each element, in the order of storage.
    pub(crate) fn elements(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let columns = |row: &usize| {
            let row = *row;
            self.columns.iter().map(move |column| (row, *column))
        };
        self.rows.iter().flat_map(columns)
    }
}

/// The part of row or column `i`, among `parts`, and its index there.
fn dealt(i: usize, parts: usize) -> (usize, usize) {
    let block = i / BLOCK;
    (block % parts, block / parts * BLOCK + i % BLOCK)
}

/// The number of rows or columns of `part`, of `n` in all.
fn n_dealt(n: usize, parts: usize, part: usize) -> usize {
    let (n_full, rest) = (n / BLOCK, n % BLOCK);
    let mine = n_full / parts + usize::from(part < n_full % parts);
    let last = if part == n_full % parts { rest } else { 0 };
    mine * BLOCK + last
}
