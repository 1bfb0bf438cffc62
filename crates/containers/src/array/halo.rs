//! Tiles of a matrix with the elements around them, for stencils.

use std::ops::Range;
use std::sync::Arc;
use std::{fmt, mem, thread};

use pgas_am::{PgasFuture, RemoteCalls as _};
use pgas_core::rma::Strides;
use pgas_core::{Event, GlobalPtr, Pod, World};

use super::local::TileMut;
use super::matrix::DMatrix;
use crate::{Error, Result};

/// A rank's tiles of a [`DMatrix`], each with a rim of the elements around it (ghost cells), in
/// private memory.
///
/// A step of a stencil is an [`exchange`](Self::exchange), which fetches tiles and rims from the
/// ranks that hold them, and an [`update`](Self::update), which computes each tile anew from the
/// former values. Beyond the edges of the matrix the rim has one constant value, or, if the halo is
/// [periodic](Self::periodic), the elements at the opposite edge.
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
    /// The boxes that are fetched over a network.
    far: Arc<[FarBox<T>]>,
    /// A tile while it is computed anew.
    new: Vec<T>,
}

/// A tile with its rim.
struct Padded<T> {
    rows: Range<usize>,
    columns: Range<usize>,
    elements: Vec<T>,
    /// The boxes that this process reads directly.
    near: Vec<NearBox<T>>,
}

/// What lies beyond the edges of a matrix.
#[derive(Clone, Copy)]
enum Edges<T> {
    Value(T),
    /// What lies at the opposite edge.
    Periodic,
}

impl<T: Pod> Edges<T> {
    /// The value of elements that are not read.
    fn value(self) -> T {
        match self {
            Self::Value(value) => value,
            Self::Periodic => T::new_zeroed(),
        }
    }

    /// The rows or columns that a tile with a rim of `width` reads, of a matrix with `end` of them:
    /// runs, each with the distance of the first one from the beginning of the rim.
    fn spans(self, own: &Range<usize>, width: usize, end: usize) -> Vec<(Range<usize>, usize)> {
        if matches!(self, Self::Value(_)) {
            let there = own.start.saturating_sub(width)..own.end.saturating_add(width).min(end);
            let before = width - (own.start - there.start);
            return vec![(there, before)];
        }
        let n = own.len() + 2 * width;
        let back = width % end;
        let mut start = match own.start.checked_sub(back) {
            Some(start) => start,
            None => end - (back - own.start),
        };
        let (mut spans, mut done) = (Vec::new(), 0);
        while done < n {
            let run = start..end.min(start.saturating_add(n - done));
            let before = done;
            done += run.len();
            start = 0;
            spans.push((run, before));
        }
        spans
    }
}

/// A box of elements of one tile that is read into place.
struct NearBox<T> {
    from: GlobalPtr<T>,
    /// The first destination among the elements of the tile with its rim.
    to: usize,
    strides: Strides<2>,
}

/// A box of elements of one tile that is read into a buffer first.
struct FarBox<T> {
    from: GlobalPtr<T>,
    /// The tile, and the first destination among its elements.
    to: (usize, usize),
    /// The distance between rows there.
    stride: usize,
    strides: Strides<2>,
}

impl<T: Pod> FarBox<T> {
    /// Begins to read all `boxes`, in flight together.
    fn begin(world: &World, boxes: &[Self]) -> Result<Vec<Event<Vec<T>>>> {
        let begin = |one: &Self| {
            let n = one.strides.extents.iter().product();
            let out = vec![T::new_zeroed(); n];
            one.from.get_strided_nb(world, &one.strides, out)
        };
        boxes.iter().map(begin).collect()
    }
}

/// The name of an exchange, in reports.
const RIMS: &str = "an exchange of rims";

impl<'m, T: Pod> Halo<'m, T> {
    /// The tiles of this rank with rims of `width` elements on each side; `outside` is the value
    /// beyond the edges of the matrix.
    ///
    /// # Cost
    ///
    /// 2 allreduces. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Mismatch`] if the ranks give different widths; [`Error::Argument`]
    /// if one has no memory for its tiles.
    #[track_caller]
    pub fn new(matrix: &'m DMatrix<T>, width: usize, outside: T) -> Result<Self> {
        Self::with_edges(matrix, width, Edges::Value(outside))
    }

    /// As [`new`](Self::new), where beyond each edge of the matrix the elements go on that lie at
    /// the opposite one, as on a torus.
    ///
    /// # Cost
    ///
    /// As [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::DMatrix;
    /// use pgas_containers::array::Halo;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let ring = DMatrix::from_fn(&world, [1, 5], [1, 5], |_, j| j as u32)?; // collective
    /// let mut halo = Halo::periodic(&ring, 2)?; // collective
    /// halo.exchange()?; // collective
    /// let tile = halo.tiles().next().expect("one on this rank");
    /// assert_eq!(tile.row(2), [3, 4, 0, 1, 2, 3, 4, 0, 1]);
    /// assert_eq!(tile.row(0), tile.row(2)); // there is one row
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn periodic(matrix: &'m DMatrix<T>, width: usize) -> Result<Self> {
        Self::with_edges(matrix, width, Edges::Periodic)
    }

    #[track_caller]
    fn with_edges(matrix: &'m DMatrix<T>, width: usize, edges: Edges<T>) -> Result<Self> {
        let team = matrix.team();
        crate::error::agree(team, "the width of a halo", width as u64)?;
        let tiles = matrix.local_tiles().enumerate();
        let mut far = Vec::new();
        let padded = tiles.map(|(tile, place)| {
            Padded::new(matrix, place, width, edges, |from, to, stride, strides| {
                let to = (tile, to);
                far.push(FarBox {
                    from,
                    to,
                    stride,
                    strides,
                });
            })
        });
        let tiles = padded.collect::<Result<Vec<_>>>();
        let tiles = team.all_succeeded("the tiles of a halo", tiles)?;
        Ok(Self {
            matrix,
            width,
            tiles,
            far: far.into(),
            new: Vec::new(),
        })
    }

    /// Fetches the tiles and their rims, with all that the ranks wrote before they called this.
    ///
    /// # Cost
    ///
    /// B, an allreduce, ℓ for each element of this rank's tiles; a strided R for each tile that a
    /// rim reaches into, and again beyond an edge, all in flight together. Collective over the
    /// team.
    ///
    /// # Errors
    ///
    /// Errors of the transport, on any rank.
    #[track_caller]
    pub fn exchange(&mut self) -> Result<()> {
        let _waits = pgas_core::part_of_object(RIMS, self.matrix.identity());
        let matrix = self.matrix;
        // Handlers and chained actions run meanwhile, and may panic.
        let _step = matrix.world().in_step(RIMS);
        matrix.team().barrier_within()?;
        let begun = FarBox::begin(matrix.world(), &self.far);
        let near = self.read_near();
        let far = begun.and_then(|events| events.into_iter().map(Event::wait).collect());
        self.end(near.and(far))
    }

    /// Begins an [`exchange`](Self::exchange). Until it is complete, the tiles have this rank's own
    /// elements as it has written them, and their rims have unspecified values. Meanwhile a program
    /// computes whatever needs no rim.
    ///
    /// The rims are fetched while this rank makes progress. Every rank [waits](Exchange::wait) for
    /// its exchange before it makes another collective call of the team. An exchange that is
    /// dropped instead fails the job.
    ///
    /// # Cost
    ///
    /// ℓ for each element of this rank's tiles, and a flush; the rims are fetched after log n
    /// rounds of messages. Collective over the team.
    ///
    /// # Errors
    ///
    /// Errors of the transport. In [`wait`](Exchange::wait)
    /// [`NotAttached`](pgas_core::Error::NotAttached) if active messages were not attached.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::DMatrix;
    /// use pgas_containers::array::Halo;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let plate = DMatrix::new(&world, [32, 32], [16, 16], 1_u64)?; // collective
    /// let mut halo = Halo::new(&plate, 1, 0)?; // collective
    /// let exchange = halo.exchange_nb()?; // collective
    /// // What needs no rim: here the sum of each tile's own elements.
    /// let own = |row: &[u64]| row[1..17].iter().sum::<u64>();
    /// let inner: u64 = exchange.tiles().flat_map(|t| (1..17).map(move |i| own(t.row(i)))).sum();
    /// exchange.wait()?; // collective
    /// assert_eq!(inner, 32 * 32);
    /// // What needs the rims: two tiles have elements at their left.
    /// assert_eq!(halo.tiles().map(|tile| tile.row(1)[0]).sum::<u64>(), 2);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn exchange_nb(&mut self) -> Result<Exchange<'_, 'm, T>>
    where
        T: Unpin,
    {
        let _waits = pgas_core::part_of_object(RIMS, self.matrix.identity());
        let (matrix, far) = (self.matrix, Arc::clone(&self.far));
        let met = matrix.team().barrier_nb();
        let world = matrix.world().clone();
        let rims = matrix.world().spawn(async move {
            met.await?;
            let mut boxes = Vec::with_capacity(far.len());
            for event in FarBox::begin(&world, &far)? {
                boxes.push(event.await?);
            }
            Ok(boxes)
        });
        let read = self.read_near();
        Ok(Exchange {
            halo: self,
            read,
            rims: Some(rims),
        })
    }

    /// Reads the boxes that this process reads directly.
    fn read_near(&mut self) -> Result<()> {
        let world = self.matrix.world();
        let mut tiles = self.tiles.iter_mut();
        tiles.try_for_each(|tile| tile.read_near(world))
    }

    /// Copies the boxes that came over a network into their tiles, if all ranks have read theirs.
    #[track_caller]
    fn end(&mut self, read: Result<Vec<Vec<T>>>) -> Result<()> {
        // No rank writes before all have read.
        let team = self.matrix.team();
        let boxes = team.all_succeeded("the exchange of a halo", read)?;
        for (of, elements) in self.far.iter().zip(boxes) {
            let (tile, to) = of.to;
            let rows = elements.chunks(of.strides.extents[1]);
            let out = self.tiles[tile].elements[to..].chunks_mut(of.stride);
            for (out, row) in out.zip(rows) {
                out[..row.len()].copy_from_slice(row);
            }
        }
        Ok(())
    }

    /// The tiles with their rims, as they were at the last exchange.
    pub fn tiles(&self) -> impl Iterator<Item = HaloTile<'_, T>> {
        self.tiles.iter().map(|tile| tile.view(self.width))
    }

    /// Computes the tiles anew. `step` gets each tile as it was at the last exchange, and the tile
    /// to write, which begins with the same values. Other ranks see the new values at the next
    /// [`exchange`](Self::exchange), or after a barrier.
    ///
    /// # Cost
    ///
    /// ℓ for each element of this rank's tiles. Not collective.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    #[track_caller]
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
    /// The tile of these rows and columns. `add_far` gets the boxes that this process cannot read
    /// directly: the source, the destination, the distance between rows there, and the shape.
    fn new(
        matrix: &DMatrix<T>,
        (rows, columns): (Range<usize>, Range<usize>),
        width: usize,
        edges: Edges<T>,
        mut add_far: impl FnMut(GlobalPtr<T>, usize, usize, Strides<2>),
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
        elements.resize(n, edges.value());
        let [height, breadth] = matrix.shape();
        let down = edges.spans(&rows, width, height);
        let along = edges.spans(&columns, width, breadth);
        let mut near = Vec::new();
        for (down, above) in &down {
            for (along, before) in &along {
                let first = above * stride + before;
                for (from, [row, column], strides) in matrix.boxes(down, along, stride) {
                    let to = first + row * stride + column;
                    let rank = from.rank();
                    if matrix.world().is_direct(rank) || rank == matrix.world().rank() {
                        near.push(NearBox { from, to, strides });
                    } else {
                        let local = [strides.extents[1], 1];
                        add_far(from, to, stride, Strides { local, ..strides });
                    }
                }
            }
        }
        Ok(Self {
            rows,
            columns,
            elements,
            near,
        })
    }

    fn read_near(&mut self, world: &World) -> Result<()> {
        for NearBox { from, to, strides } in &self.near {
            from.get_strided(world, strides, &mut self.elements[*to..])?;
        }
        Ok(())
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

/// An exchange under way, begun by [`Halo::exchange_nb`].
///
/// If it is dropped without [`wait`](Self::wait), the job fails, since the other ranks wait for
/// this one.
///
/// # Examples
///
/// See [`Halo::exchange_nb`].
#[must_use = "other ranks wait until this one waits for its exchange"]
pub struct Exchange<'h, 'm, T: Pod> {
    halo: &'h mut Halo<'m, T>,
    /// Whether this rank's own elements could be read.
    read: Result<()>,
    /// `None` once they are waited for.
    rims: Option<PgasFuture<Vec<Vec<T>>>>,
}

impl<T: Pod> Exchange<'_, '_, T> {
    /// The tiles: this rank's own elements as it has written them. The rims have unspecified
    /// values.
    ///
    /// # Examples
    ///
    /// See [`Halo::exchange_nb`].
    pub fn tiles(&self) -> impl Iterator<Item = HaloTile<'_, T>> {
        self.halo.tiles()
    }

    /// Waits for the rims. Then the halo is as after an [`exchange`](Halo::exchange).
    ///
    /// # Cost
    ///
    /// An allreduce, ℓ for each element of this rank's tiles, and the rest of the exchange.
    /// Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`exchange`](Halo::exchange). In a handler
    /// [`InHandler`](pgas_core::Error::InHandler), and the exchange is dropped.
    ///
    /// # Examples
    ///
    /// See [`Halo::exchange_nb`].
    #[track_caller]
    pub fn wait(mut self) -> Result<()> {
        let matrix = self.halo.matrix;
        let _waits = pgas_core::part_of_object(RIMS, matrix.identity());
        pgas_core::refuse_in_handler(RIMS)?;
        // Handlers and chained actions run meanwhile, and may panic.
        let _step = matrix.world().in_step(RIMS);
        let rims = self.rims.take().map_or(Ok(Vec::new()), PgasFuture::wait);
        // Boxes of ranks on this host may have been written since they were read first.
        let read = mem::replace(&mut self.read, Ok(()));
        let near = read.and_then(|()| self.halo.read_near());
        self.halo.end(near.and(rims))
    }
}

impl<T: Pod> Drop for Exchange<'_, '_, T> {
    fn drop(&mut self) {
        if self.rims.is_none() {
            return;
        }
        let world = self.halo.matrix.world();
        let how = if thread::panicking() {
            "panicked before the end of its exchange"
        } else {
            "has dropped its exchange"
        };
        let dropped = Error::rank_failed(world.rank(), how);
        // The job's error: each rank's next call returns it.
        let _told = world.give_up(RIMS, dropped);
    }
}

impl<T: Pod> fmt::Debug for Exchange<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exchange of {:?}", self.halo)
    }
}

/// A tile with its rim, of a [`Halo`].
///
/// # Examples
///
/// ```
/// use pgas_containers::DMatrix;
/// use pgas_containers::array::Halo;
///
/// # let world = pgas_core::backend::loopback::world();
/// let plate = DMatrix::new(&world, [4, 4], [4, 4], 1_u32)?;
/// let mut halo = Halo::new(&plate, 2, 0)?; // collective
/// halo.exchange()?; // collective
/// let tile = halo.tiles().next().expect("one on this rank");
/// assert_eq!((tile.rows(), tile.columns()), (0..4, 0..4));
/// assert_eq!(tile.row(1), [0; 8]); // in the upper rim
/// assert_eq!(tile.row(2), [0, 0, 1, 1, 1, 1, 0, 0]);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HaloTile<'a, T> {
    rows: Range<usize>,
    columns: Range<usize>,
    stride: usize,
    elements: &'a [T],
}

impl<'a, T> HaloTile<'a, T> {
    /// The rows of the matrix that the tile has, without its rim.
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The columns of the matrix that the tile has, without its rim.
    #[must_use]
    pub fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    /// Row `i` of the tile with its rim, counted from the top of the rim. So row `i` of the tile
    /// itself is row `i + width` here, and its column `j` is element `j + width`.
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
