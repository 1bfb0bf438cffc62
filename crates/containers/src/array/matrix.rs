//! A dense matrix over the memory of all ranks.

use std::fmt;
use std::ops::Range;

use pgas_core::rma::Strides;
use pgas_core::{AsTeam, GlobalPtr, Pod, Rank, Symmetric, Team, World};

use super::{agree_on_value, copies};
use crate::error::agree;
use crate::object::Plain;
use crate::{Error, Result, prices};

/// A dense matrix of byte-copyable elements, cut into tiles that are dealt out to all ranks.
///
/// The tiles, numbered row by row, are dealt out to the ranks in turn. In a tile the elements lie
/// row by row.
///
/// # Examples
///
/// ```
/// use pgas_containers::DMatrix;
///
/// # let world = pgas_core::backend::loopback::world();
/// let matrix = DMatrix::new(&world, [100, 80], [16, 16], 0.0_f64)?; // collective
/// matrix.put_block(10..12, 15..18, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// world.barrier()?;
/// assert_eq!(matrix.get_block(9..12, 16..17)?, [0.0, 2.0, 5.0]);
/// assert_eq!(matrix.get(11, 17)?, 6.0);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// Single elements, pointers, and the tiles of a rank:
///
/// ```
/// use pgas_containers::DMatrix;
///
/// # let world = pgas_core::backend::loopback::world();
/// let matrix = DMatrix::new(&world, [100, 80], [16, 16], 0_u64)?; // collective
/// assert_eq!((matrix.shape(), matrix.tile_shape()), ([100, 80], [16, 16]));
/// matrix.put(3, 70, 5)?;
/// matrix.ptr(3, 70).fetch_add(matrix.world(), 2)?;
/// assert_eq!(matrix.get(3, 70)?, 7);
/// let (rows, columns) = matrix.local_tiles().next().expect("a tile");
/// assert_eq!(matrix.rank_of(rows.start, columns.start), world.rank());
/// assert_eq!(matrix.team().n_ranks(), world.n_ranks());
/// let local = matrix.into_local()?; // collective
/// assert_eq!(local.tiles().count(), 7 * 5); // of the one rank of this example
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct DMatrix<T> {
    tiles: Symmetric<T>,
    shape: [usize; 2],
    tile: [usize; 2],
}

/// The part of a tile that an operation covers.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    /// The number of the tile.
    tile: usize,
    /// Its first row and column, relative to the tile's.
    within: [usize; 2],
    /// Its first row and column, relative to the operation's.
    from: [usize; 2],
    extents: [usize; 2],
}

impl<T: Pod> DMatrix<T> {
    /// A matrix of `[rows, columns]` copies of `initial`, in tiles of `[rows, columns]`.
    ///
    /// # Cost
    ///
    /// 2B + 6 allreduces; an allreduce more with `PGAS_CHECK=1`. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Mismatch`] if the ranks give different shapes, and with
    /// `PGAS_CHECK=1` if they give different values; [`Error::Argument`]
    /// for tiles without elements, and if whole tiles together have 2^64 rows, columns or elements,
    /// or more; [`Exhausted`](pgas_core::Error::Exhausted) if the symmetric heap has no room.
    #[track_caller]
    pub fn new(on: &impl AsTeam, shape: [usize; 2], tile: [usize; 2], initial: T) -> Result<Self> {
        let team = &on.as_team();
        agree(team, "the rows of a matrix", shape[0] as u64)?;
        agree(team, "the columns of a matrix", shape[1] as u64)?;
        agree(team, "the rows of a matrix's tile", tile[0] as u64)?;
        agree(team, "the columns of a matrix's tile", tile[1] as u64)?;
        if tile.contains(&0) {
            let text = format!("a matrix was to be cut into tiles of {tile:?} rows and columns");
            return Err(Error::Argument(text.into()));
        }
        let Some(elements) = most_elements(shape, tile, team.n_ranks() as usize) else {
            let text = format!(
                "a matrix of {shape:?} was to be cut into tiles of {tile:?}, and those together have \
                 2^64 rows, columns or elements, or more"
            );
            return Err(Error::Argument(text.into()));
        };
        let tiles = team.alloc_symmetric(elements)?;
        let filled = copies(team.world(), tiles.here(), initial, elements);
        team.all_succeeded("filling a matrix", filled)?;
        agree_on_value::<T, Plain>(team, &initial)?;
        team.barrier_within()?;
        Ok(Self { tiles, shape, tile })
    }

    /// A number that identifies this matrix, the same on all ranks.
    pub(crate) fn identity(&self) -> u64 {
        self.tiles.member(0).to_bits()
    }

    /// The shape of the matrix: `[rows, columns]`.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The shape of a tile: `[rows, columns]`. Tiles at the lower and right edges may be cut off.
    #[must_use]
    pub fn tile_shape(&self) -> [usize; 2] {
        self.tile
    }

    /// The rank that holds an element.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    #[must_use]
    #[track_caller]
    pub fn rank_of(&self, row: usize, column: usize) -> Rank {
        self.ptr(row, column).rank()
    }

    /// The ranges of rows and of columns of each tile that this rank holds.
    pub fn local_tiles(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + use<T> {
        let (shape, tile) = (self.shape, self.tile);
        let across = shape[1].div_ceil(tile[1]);
        let n_tiles = shape[0].div_ceil(tile[0]) * across;
        let (first, n_ranks) = (self.team().rank() as usize, self.team().n_ranks() as usize);
        (first..n_tiles).step_by(n_ranks).map(move |i| {
            let start = [i / across * tile[0], i % across * tile[1]];
            let range = |dim: usize| start[dim]..(start[dim] + tile[dim]).min(shape[dim]);
            (range(0), range(1))
        })
    }

    /// The boxes that cover some rows and columns, each in one tile: the pointer to its first
    /// element, that element's row and column relative to the first ones, and the box against rows
    /// of `width` elements.
    pub(super) fn boxes(
        &self,
        rows: &Range<usize>,
        columns: &Range<usize>,
        width: usize,
    ) -> impl Iterator<Item = (GlobalPtr<T>, [usize; 2], Strides<2>)> {
        self.pieces(rows, columns).into_iter().map(move |piece| {
            let from = self.in_tile(piece.tile, piece.within);
            (from, piece.from, self.strides(&piece, width))
        })
    }

    /// The number of elements of a whole tile.
    pub(super) fn tile_len(&self) -> usize {
        self.tile[0] * self.tile[1]
    }

    /// A pointer to this rank's first tile.
    pub(super) fn local_start(&self) -> GlobalPtr<T> {
        self.tiles.here()
    }

    /// A pointer to an element, for atomics and non-blocking transfers.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn ptr(&self, row: usize, column: usize) -> GlobalPtr<T> {
        let there = row < self.shape[0] && column < self.shape[1];
        assert!(
            there,
            "element ({row}, {column}) of a matrix of {:?}",
            self.shape
        );
        let across = self.shape[1].div_ceil(self.tile[1]);
        let tile = row / self.tile[0] * across + column / self.tile[1];
        self.in_tile(tile, [row % self.tile[0], column % self.tile[1]])
    }

    fn in_tile(&self, tile: usize, [row, column]: [usize; 2]) -> GlobalPtr<T> {
        let n_ranks = self.team().n_ranks() as usize;
        let member = u32::try_from(tile % n_ranks).expect("a rank's number");
        let first = tile / n_ranks * self.tile[0] * self.tile[1];
        self.tiles
            .member(member)
            .add(first + row * self.tile[1] + column)
    }

    /// Reads an element.
    ///
    /// # Cost
    ///
    /// R. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    #[inline]
    #[track_caller]
    pub fn get(&self, row: usize, column: usize) -> Result<T> {
        self.ptr(row, column)
            .get_as(self.world(), &prices::DMATRIX_GET)
    }

    /// Writes an element.
    ///
    /// # Cost
    ///
    /// W. One-sided. Complete at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    #[inline]
    #[track_caller]
    pub fn put(&self, row: usize, column: usize, value: T) -> Result<()> {
        self.ptr(row, column)
            .put_as(self.world(), value, &prices::DMATRIX_PUT)
    }

    /// Reads the block of elements in these rows and columns. The result is row by row.
    ///
    /// # Cost
    ///
    /// R for each tile that holds some of them. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If a range reaches beyond the matrix, or ends before its start.
    #[track_caller]
    pub fn get_block(&self, rows: Range<usize>, columns: Range<usize>) -> Result<Vec<T>> {
        let pieces = self.pieces(&rows, &columns);
        let (n, width) = (rows.len() * columns.len(), columns.len());
        let mut out = T::new_vec_zeroed(n).expect("memory for the elements");
        for piece in pieces {
            let first = piece.from[0] * width + piece.from[1];
            let strides = self.strides(&piece, width);
            let at = self.in_tile(piece.tile, piece.within);
            at.get_strided(self.world(), &strides, &mut out[first..])?;
        }
        Ok(out)
    }

    /// Writes `values`, row by row, to the block of elements in these rows and columns.
    ///
    /// # Cost
    ///
    /// W for each tile that holds some of them. One-sided. Complete at the targets after
    /// [`flush_all`](World::flush_all).
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If a range reaches beyond the matrix, or ends before its start, or `values` has another
    /// number of elements than the block.
    #[track_caller]
    pub fn put_block(&self, rows: Range<usize>, columns: Range<usize>, values: &[T]) -> Result<()> {
        let pieces = self.pieces(&rows, &columns);
        let (n, width) = (rows.len() * columns.len(), columns.len());
        assert_eq!(
            values.len(),
            n,
            "values for rows {rows:?} and columns {columns:?}"
        );
        for piece in pieces {
            let first = piece.from[0] * width + piece.from[1];
            let strides = self.strides(&piece, width);
            let at = self.in_tile(piece.tile, piece.within);
            at.put_strided(self.world(), &strides, &values[first..])?;
        }
        Ok(())
    }

    fn strides(&self, piece: &Piece, width: usize) -> Strides<2> {
        Strides {
            extents: piece.extents,
            global: [self.tile[1], 1],
            local: [width, 1],
        }
    }

    /// The parts of tiles that `rows` and `columns` cover.
    #[track_caller]
    fn pieces(&self, rows: &Range<usize>, columns: &Range<usize>) -> Vec<Piece> {
        let fits = |range: &Range<usize>, end| range.start <= range.end && range.end <= end;
        let there = fits(rows, self.shape[0]) && fits(columns, self.shape[1]);
        let shape = self.shape;
        assert!(
            there,
            "rows {rows:?} and columns {columns:?} of a matrix of {shape:?}"
        );
        let across = self.shape[1].div_ceil(self.tile[1]);
        let mut pieces = Vec::new();
        if columns.is_empty() {
            // There may be any number of rows.
            return pieces;
        }
        for down in cuts(rows, self.tile[0]) {
            for along in cuts(columns, self.tile[1]) {
                pieces.push(Piece {
                    tile: down.tile * across + along.tile,
                    within: [down.within, along.within],
                    from: [down.from, along.from],
                    extents: [down.extent, along.extent],
                });
            }
        }
        pieces
    }

    /// The world whose ranks share the matrix.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &World {
        self.tiles.world()
    }

    /// The team whose members share the matrix: all ranks if it was made on the world.
    #[must_use]
    #[inline]
    pub fn team(&self) -> &Team {
        self.tiles.team()
    }
}

/// A range of one dimension within one tile.
struct Cut {
    tile: usize,
    within: usize,
    from: usize,
    extent: usize,
}

/// The number of elements of the rank with most tiles, where each tile counts as a whole one.
/// `None` if all tiles together have 2^64 rows, columns or elements, or more.
fn most_elements(shape: [usize; 2], tile: [usize; 2], n_ranks: usize) -> Option<usize> {
    let n_tiles = |dim: usize| shape[dim].div_ceil(tile[dim]);
    let whole = |dim: usize| n_tiles(dim).checked_mul(tile[dim]);
    whole(0)?.checked_mul(whole(1)?)?;
    let in_a_tile = tile[0].checked_mul(tile[1])?;
    let of_a_rank = (n_tiles(0) * n_tiles(1)).div_ceil(n_ranks);
    Some(of_a_rank * in_a_tile)
}

/// Cuts `range` where tiles of `size` end.
fn cuts(range: &Range<usize>, size: usize) -> impl Iterator<Item = Cut> + use<> {
    let (start, end) = (range.start, range.end);
    let tiles = if start < end {
        start / size..end.div_ceil(size)
    } else {
        0..0
    };
    tiles.map(move |tile| {
        let first = start.max(tile * size);
        Cut {
            tile,
            within: first - tile * size,
            from: first - start,
            extent: end.min((tile + 1) * size) - first,
        }
    })
}

impl<T> fmt::Debug for DMatrix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([rows, columns], tile) = (self.shape, self.tile);
        write!(f, "DMatrix({rows} x {columns} in tiles of {tile:?})")
    }
}
