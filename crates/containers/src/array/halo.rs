//! Tiles of a matrix with the elements around them, for stencils.

use std::fmt;
use std::ops::Range;

use pgas_core::{GlobalPtr, Pod};

use super::local::TileMut;
use super::matrix::DMatrix;
use crate::{Error, Result};

/// A rank's tiles of a [`DMatrix`], each with a rim of the elements around it, in private memory.
///
/// A step of a stencil is [`exchange`](Self::exchange), which fetches tiles and rims from the ranks
/// that hold them, and [`update`](Self::update), which computes each tile anew from the former
/// values. Beyond the edges of the matrix the rim is of one value.
///
/// # Examples
///
/// ```
/// use pgas_containers::DMatrix;
/// use pgas_containers::array::Halo;
///
/// # let world = pgas_core::backend::loopback::world();
/// // Heat spreads from the left edge, outside of which it is 1.
/// let plate = DMatrix::new(&world, [32, 32], [16, 16], 0.0_f64)?; // collective
/// let mut halo = Halo::new(&plate, 1, 1.0)?; // collective
/// for _ in 0..10 {
///     halo.exchange()?; // collective
///     halo.update(|old, new| {
///         for (i, row) in new.rows().enumerate() {
///             let (above, same, below) = (old.row(i), old.row(i + 1), old.row(i + 2));
///             for (j, x) in new.row_mut(row).iter_mut().enumerate() {
///                 *x = 0.25 * (above[j + 1] + same[j] + same[j + 2] + below[j + 1]);
///             }
///         }
///     })?;
/// }
/// world.barrier()?;
/// assert!(plate.get(16, 0)? > plate.get(16, 8)?);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct Halo<'m, T> {
    matrix: &'m DMatrix<T>,
    width: usize,
    tiles: Vec<Padded<T>>,
    /// A tile while it is computed anew.
    new: Vec<T>,
}

/// A tile with its rim.
struct Padded<T> {
    rows: Range<usize>,
    columns: Range<usize>,
    elements: Vec<T>,
    /// The runs to fetch, in the order of their destinations.
    runs: Vec<Run<T>>,
}

/// Neighbours in a row that one rank holds.
struct Run<T> {
    from: GlobalPtr<T>,
    /// The destination among the elements of the tile with its rim.
    to: usize,
    len: usize,
}

impl<'m, T: Pod> Halo<'m, T> {
    /// Tiles of this rank with rims of `width` elements on each side; `outside` is what lies beyond
    /// the edges of the matrix.
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Mismatch`] if the ranks give different widths; [`Error::Argument`]
    /// if one has no memory for its tiles.
    #[track_caller]
    pub fn new(matrix: &'m DMatrix<T>, width: usize, outside: T) -> Result<Self> {
        let team = matrix.team();
        crate::error::agree(team, "the width of a halo", width as u64)?;
        let tiles = matrix.local_tiles();
        let padded =
            tiles.map(|(rows, columns)| Padded::new(matrix, rows, columns, width, outside));
        let tiles = padded.collect::<Result<Vec<_>>>();
        let tiles = team.all_succeeded("the tiles of a halo", tiles)?;
        Ok(Self {
            matrix,
            width,
            tiles,
            new: Vec::new(),
        })
    }

    /// Fetches the tiles and their rims, as all ranks have written them before.
    ///
    /// # Cost
    ///
    /// B, an allreduce, ℓ for each element of this rank's tiles; R for each row of a rim, all of
    /// them at once. Collective over the team.
    ///
    /// # Errors
    ///
    /// What the transport reports, on any rank.
    #[track_caller]
    pub fn exchange(&mut self) -> Result<()> {
        let _waits = pgas_core::part_of("an exchange of rims");
        let team = self.matrix.team();
        team.barrier()?;
        let fetched = team.world().scope(|scope| {
            for tile in &mut self.tiles {
                let (mut rest, mut at) = (&mut tile.elements[..], 0);
                for run in &tile.runs {
                    let (_, behind) = std::mem::take(&mut rest).split_at_mut(run.to - at);
                    let (out, behind) = behind.split_at_mut(run.len);
                    scope.get(run.from, out)?;
                    (rest, at) = (behind, run.to + run.len);
                }
            }
            Ok(())
        });
        // No rank writes before all have read.
        team.all_succeeded(
            "the exchange of a halo",
            fetched.and_then(|fetched| fetched),
        )
    }

    /// The tiles with their rims, as they were at the last exchange.
    pub fn tiles(&self) -> impl Iterator<Item = HaloTile<'_, T>> {
        self.tiles.iter().map(|tile| tile.view(self.width))
    }

    /// Computes the tiles anew: `step` gets each as it was at the last exchange, and the tile that
    /// it writes, which has the former values. Others see the new ones by their next
    /// [`exchange`](Self::exchange), or after a barrier.
    ///
    /// # Cost
    ///
    /// ℓ for each element of this rank's tiles. Not collective.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    pub fn update(
        &mut self,
        mut step: impl FnMut(HaloTile<'_, T>, &mut TileMut<'_, T>),
    ) -> Result<()> {
        for tile in &self.tiles {
            let old = tile.view(self.width);
            self.new.clear();
            for i in 0..tile.rows.len() {
                let row = old.row(i + self.width);
                self.new
                    .extend_from_slice(&row[self.width..][..tile.columns.len()]);
            }
            let (rows, columns) = (tile.rows.clone(), tile.columns.clone());
            step(old, &mut TileMut::new(rows, columns, &mut self.new));
            self.matrix
                .put_block(tile.rows.clone(), tile.columns.clone(), &self.new)?;
        }
        Ok(())
    }
}

impl<T: Pod> Padded<T> {
    fn new(
        matrix: &DMatrix<T>,
        rows: Range<usize>,
        columns: Range<usize>,
        width: usize,
        outside: T,
    ) -> Result<Self> {
        let padded = |range: &Range<usize>| width.checked_mul(2)?.checked_add(range.len());
        let shape = padded(&rows).zip(padded(&columns));
        let n = shape.and_then(|(down, along)| down.checked_mul(along));
        let mut elements = Vec::new();
        let reserved = n.map(|n| elements.try_reserve_exact(n));
        let (Some((_, stride)), Some(n), Some(Ok(()))) = (shape, n, reserved) else {
            let text =
                format!("no memory for a tile of {rows:?}, {columns:?} with a rim of {width}");
            return Err(Error::Argument(text.into()));
        };
        elements.resize(n, outside);
        // The part of it that the matrix has, and where that begins.
        let [height, breadth] = matrix.shape();
        let within = |range: &Range<usize>, end| {
            range.start.saturating_sub(width)..range.end.saturating_add(width).min(end)
        };
        let (down, along) = (within(&rows, height), within(&columns, breadth));
        let first =
            (width + down.start - rows.start) * stride + width + along.start - columns.start;
        let mut runs: Vec<_> = matrix
            .runs(&down, &along)
            .map(|(from, [row, column], len)| Run {
                from,
                to: first + row * stride + column,
                len,
            })
            .collect();
        runs.sort_unstable_by_key(|run| run.to);
        Ok(Self {
            rows,
            columns,
            elements,
            runs,
        })
    }

    fn view(&self, width: usize) -> HaloTile<'_, T> {
        HaloTile {
            rows: self.rows.clone(),
            columns: self.columns.clone(),
            stride: self.columns.len() + 2 * width,
            elements: &self.elements,
        }
    }
}

/// A tile with its rim, of a [`Halo`].
#[derive(Clone, Debug)]
pub struct HaloTile<'a, T> {
    rows: Range<usize>,
    columns: Range<usize>,
    stride: usize,
    elements: &'a [T],
}

impl<'a, T> HaloTile<'a, T> {
    /// The rows of the tile, without its rim, as those of the matrix are numbered.
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The columns of the tile, without its rim, as those of the matrix are numbered.
    #[must_use]
    pub fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    /// Row `i` of the tile with its rim, from the top of the rim on. So row `i` of the tile is row
    /// `i + width` here, and its column `j` is element `j + width`.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn row(&self, i: usize) -> &'a [T] {
        let n_rows = self.elements.len() / self.stride;
        assert!(i < n_rows, "row {i} of a tile with {n_rows} rows");
        &self.elements[i * self.stride..][..self.stride]
    }
}

impl<T> fmt::Debug for Halo<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, width) = (self.tiles.len(), self.width);
        write!(
            f,
            "Halo({n} tiles with a rim of {width}, of {:?})",
            self.matrix
        )
    }
}
