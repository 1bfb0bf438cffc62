//! Transfers of many pieces: boxes of blocks, and lists of fragments.
//!
//! Many small pieces are one operation of MPI, with a datatype for their places. This takes between
//! a half and a seventh of the time of an operation for each.
#![expect(unsafe_code, reason = "describes many operands to MPI as one")]

use std::collections::BTreeSet;

use pgas_core::backend::{Backend, Get, GetGrid, Operand, Put, PutGrid, Shape};
use pgas_core::{Rank, Result};

use crate::network::{MAX_TRANSFER, Network};
use crate::sys::{self, Datatype, Layout, Mpi, count_of};

/// From this size on, pieces are separate operations: this is no slower, and avoids a copy.
const LARGE: usize = 4096;
/// Gets from this size on are separate operations with MPICH: one long answer takes it longer than
/// many short ones.
const LARGE_OF_MPICH: usize = 256;
/// Fewer fragments than this are separate operations: to make a datatype takes as long.
const FEW: usize = 8;
/// With this number of fragments the types fit into one of Open MPI's packets beside its header.
const MANY: usize = 256;

impl Network {
    pub(crate) fn scatter(&self, fragments: &[Put]) -> Result<()> {
        let mut begun = Begun::Nothing;
        let mut outcome = Ok(());
        let sorted = sorted(fragments, Operand::rank);
        let fragments = sorted.as_deref().unwrap_or(fragments);
        let lists = fragments.chunk_by(|one, next| one.rank() == next.rank());
        for list in lists.flat_map(|list| list.chunks(MANY)) {
            let is_near = self.on_this_host(list[0]).is_some();
            outcome = if !is_near && is_one(list.iter().map(Put::len), LARGE) {
                begun.add(list[0].rank());
                self.put_as_one(list)
            } else {
                self.put_each(list, &mut begun)
            };
            if outcome.is_err() {
                break;
            }
        }
        self.complete(&begun).and(outcome)
    }

    /// Begins an operation for each fragment.
    fn put_each(&self, fragments: &[Put], begun: &mut Begun) -> Result<()> {
        fragments
            .iter()
            .try_for_each(|put| match self.on_this_host(*put) {
                Some(local) => self.member().put(local),
                None => sys::enter().and_then(|mut mpi| {
                    begun.add(put.rank());
                    self.begin_put_unflushed(&mut mpi, put).map(drop)
                }),
            })
    }

    /// Begins one operation for all fragments, which are on one rank.
    fn put_as_one(&self, fragments: &[Put]) -> Result<()> {
        let dst = fragments.iter().map(Put::dst);
        let dst = dst.min_by_key(|dst| dst.offset).expect("some");
        let src = fragments.iter().map(Put::src);
        let src = src.min_by_key(|src| src.addr()).expect("some");
        let mut mpi = sys::enter()?;
        self.flush_other_staged(&mut mpi, dst.rank.number())?;
        let types = Types::of_list(
            &mpi,
            fragments.iter().map(|put| Distances {
                there: put.dst().offset - dst.offset,
                here: put.src().addr() - src.addr(),
                len: put.len(),
            }),
        )?;
        let (from, to) = ((src, types.here.layout()), (dst, types.there.layout()));
        // SAFETY: the types have the length of each fragment, and its distance from the first one
        // on either side. The sources are reported as free after `complete`, which ends the process if
        // it fails.
        let begun = unsafe { sys::put_pieces(&mpi, &self.window, from, to) };
        self.flushes.get(&mut mpi).begin_unsent(dst.rank.number());
        types.free(&mpi).and(begun)
    }

    pub(crate) fn gather(&self, fragments: &[Get]) -> Result<()> {
        let mut begun = Begun::Nothing;
        let mut outcome = Ok(());
        let large = if self.is_open_mpi {
            LARGE
        } else {
            LARGE_OF_MPICH
        };
        let sorted = sorted(fragments, Operand::rank);
        let fragments = sorted.as_deref().unwrap_or(fragments);
        let lists = fragments.chunk_by(|one, next| one.rank() == next.rank());
        for list in lists.flat_map(|list| list.chunks(MANY)) {
            let is_near = self.on_this_host(list[0]).is_some();
            outcome = if !is_near && is_one(list.iter().map(Get::len), large) {
                begun.add(list[0].rank());
                self.get_as_one(list)
            } else {
                self.get_each(list, &mut begun)
            };
            if outcome.is_err() {
                break;
            }
        }
        self.complete(&begun).and(outcome)
    }

    /// Begins an operation for each fragment.
    fn get_each(&self, fragments: &[Get], begun: &mut Begun) -> Result<()> {
        fragments
            .iter()
            .try_for_each(|get| match self.on_this_host(*get) {
                Some(local) => self.member().get(local),
                None => sys::enter().and_then(|mut mpi| {
                    begun.add(get.rank());
                    self.begin_get_unflushed(&mut mpi, get).map(drop)
                }),
            })
    }

    /// Begins one operation for all fragments, which are on one rank.
    fn get_as_one(&self, fragments: &[Get]) -> Result<()> {
        let src = fragments.iter().map(Get::src);
        let src = src.min_by_key(|src| src.offset).expect("some");
        let dst = fragments.iter().map(Get::dst);
        let dst = dst.min_by_key(|dst| dst.addr()).expect("some");
        let mut mpi = sys::enter()?;
        self.flush_other_staged(&mut mpi, src.rank.number())?;
        let types = Types::of_list(
            &mpi,
            fragments.iter().map(|get| Distances {
                there: get.src().offset - src.offset,
                here: get.dst().addr() - dst.addr(),
                len: get.len(),
            }),
        )?;
        let (to, from) = ((dst, types.here.layout()), (src, types.there.layout()));
        // SAFETY: as in `put_as_one`, in the other direction.
        let begun = unsafe { sys::get_pieces(&mpi, &self.window, to, from) };
        self.flushes
            .get(&mut mpi)
            .begin_unflushed(src.rank.number());
        types.free(&mpi).and(begun)
    }

    /// Completes the begun operations locally.
    fn complete(&self, begun: &Begun) -> Result<()> {
        let approached = if self.is_oversubscribed {
            self.wait_until_answered(&begun.ranks())
        } else {
            Ok(())
        };
        let mut mpi = sys::enter()?;
        let completed = match begun {
            Begun::Nothing => Ok(()),
            Begun::On(rank) => self.flush_here(&mut mpi, rank.number()),
            Begun::OnSeveral(_) if self.is_open_mpi => self.flush_all_here(&mut mpi),
            Begun::OnSeveral(ranks) => ranks
                .iter()
                .try_for_each(|rank| self.flush_here(&mut mpi, rank.number())),
        };
        self.has_given_back(completed).and(approached)
    }

    pub(crate) fn put_blocks(&self, grid: PutGrid<'_>) -> Result<()> {
        if let Some(local) = self.on_this_host(grid) {
            return self.member().put_strided(local);
        }
        let (src, dst, rank) = (grid.src(), grid.dst(), grid.rank());
        let mut mpi = sys::enter()?;
        self.flush_other_staged(&mut mpi, rank.number())?;
        if let Some(types) = Types::of_box(&mpi, grid.shape())? {
            let (from, to) = ((src, types.here.layout()), (dst, types.there.layout()));
            // SAFETY: the types are those of the grid's shape, on either side, from the first
            // corners on. The source is reported as free after `complete`, which ends the process
            // if it fails.
            let begun = unsafe { sys::put_pieces(&mpi, &self.window, from, to) };
            self.flushes.get(&mut mpi).begin_unsent(rank.number());
            let begun = types.free(&mpi).and(begun);
            drop(mpi);
            return self.complete(&Begun::On(rank)).and(begun);
        }
        let begun = grid.for_each(|put| self.begin_put_unflushed(&mut mpi, &put).map(drop));
        drop(mpi);
        self.complete(&Begun::On(rank)).and(begun)
    }

    pub(crate) fn get_blocks(&self, grid: GetGrid<'_>) -> Result<()> {
        if let Some(local) = self.on_this_host(grid) {
            return self.member().get_strided(local);
        }
        let (src, dst, rank) = (grid.src(), grid.dst(), grid.rank());
        let mut mpi = sys::enter()?;
        self.flush_other_staged(&mut mpi, rank.number())?;
        if let Some(types) = Types::of_box(&mpi, grid.shape())? {
            let (to, from) = ((dst, types.here.layout()), (src, types.there.layout()));
            // SAFETY: as in `put_blocks`, in the other direction.
            let begun = unsafe { sys::get_pieces(&mpi, &self.window, to, from) };
            self.flushes.get(&mut mpi).begin_unflushed(rank.number());
            let begun = types.free(&mpi).and(begun);
            drop(mpi);
            return self.complete(&Begun::On(rank)).and(begun);
        }
        let begun = grid.for_each(|get| self.begin_get_unflushed(&mut mpi, &get).map(drop));
        drop(mpi);
        self.complete(&Begun::On(rank)).and(begun)
    }
}

/// The fragments sorted by rank; `None` if they are sorted already, or if sorting does not pay.
fn sorted<F: Copy>(fragments: &[F], rank_of: impl Fn(&F) -> Rank) -> Option<Vec<F>> {
    if fragments.len() < FEW || fragments.is_sorted_by_key(&rank_of) {
        return None;
    }
    let mut sorted = fragments.to_vec();
    sorted.sort_by_key(rank_of);
    Some(sorted)
}

/// Whether pieces of these lengths become one operation, if pieces of `large` bytes do not.
fn is_one(lens: impl ExactSizeIterator<Item = usize>, large: usize) -> bool {
    let n_pieces = lens.len();
    n_pieces >= FEW && lens.sum::<usize>() < large * n_pieces
}

/// The distance of a fragment from the first one, in bytes, on either side.
#[derive(Clone, Copy, Debug)]
struct Distances {
    there: u64,
    here: usize,
    len: usize,
}

/// The datatypes of one operation, on both sides.
struct Types {
    there: Side,
    here: Side,
}

impl Types {
    /// The types of a box, if one operation pays: it has many small blocks.
    fn of_box(mpi: &Mpi, shape: &Shape) -> Result<Option<Self>> {
        let n_blocks = shape.extents.iter().product::<usize>();
        let bytes = n_blocks.saturating_mul(shape.block_bytes) as u64;
        if n_blocks < 2 || shape.block_bytes >= LARGE || bytes > MAX_TRANSFER {
            return Ok(None);
        }
        let there = Side::of_box(mpi, shape, &shape.remote)?;
        Self::with(mpi, there, Side::of_box(mpi, shape, &shape.local)).map(Some)
    }

    fn of_list(
        mpi: &Mpi,
        fragments: impl ExactSizeIterator<Item = Distances> + Clone,
    ) -> Result<Self> {
        let there = fragments.clone().map(|piece| {
            (
                isize::try_from(piece.there).expect("within a segment"),
                piece.len,
            )
        });
        let there = Side::of_list(mpi, there)?;
        let here = fragments.map(|piece| (piece.here.cast_signed(), piece.len));
        Self::with(mpi, there, Side::of_list(mpi, here))
    }

    fn with(mpi: &Mpi, there: Side, here: Result<Side>) -> Result<Self> {
        match here {
            Ok(here) => Ok(Self { there, here }),
            Err(error) => {
                there.free(mpi)?;
                Err(error)
            }
        }
    }

    /// Frees the types. MPI keeps them as long as operations in flight need them.
    fn free(self, mpi: &Mpi) -> Result<()> {
        let freed = self.there.free(mpi);
        self.here.free(mpi).and(freed)
    }
}

/// The places of one side.
enum Side {
    /// This number of contiguous bytes.
    Dense(usize),
    /// A type that was made for them.
    Made(Datatype),
}

impl Side {
    fn of_box(mpi: &Mpi, shape: &Shape, strides: &[isize]) -> Result<Self> {
        let byte = Datatype::byte();
        let mut inner_first = shape.extents.iter().zip(strides).rev();
        let mut bytes = shape.block_bytes;
        let is_dense = inner_first.clone().all(|(extent, stride)| {
            let is_next = *stride == bytes.cast_signed();
            bytes *= extent;
            is_next
        });
        if is_dense {
            return Ok(Self::Dense(bytes));
        }
        let (extent, stride) = inner_first.next().expect("blocks in some dimension");
        let (n, block) = (count_of(*extent), count_of(shape.block_bytes));
        let mut ty = sys::type_hvector(mpi, n, block, *stride, byte)?;
        for (extent, stride) in inner_first {
            let outer = sys::type_hvector(mpi, count_of(*extent), 1, *stride, &ty);
            sys::type_free(mpi, ty)?;
            ty = outer?;
        }
        sys::type_commit(mpi, &mut ty)?;
        Ok(Self::Made(ty))
    }

    /// The type of fragments at these distances, and with these lengths.
    fn of_list(
        mpi: &Mpi,
        fragments: impl ExactSizeIterator<Item = (isize, usize)> + Clone,
    ) -> Result<Self> {
        let byte = Datatype::byte();
        let mut bytes = 0_usize;
        let is_dense = fragments.clone().all(|(at, len)| {
            let is_next = at == bytes.cast_signed();
            bytes += len;
            is_next
        });
        if is_dense {
            return Ok(Self::Dense(bytes));
        }
        let (places, lens): (Vec<isize>, Vec<_>) =
            fragments.map(|(at, len)| (at, count_of(len))).unzip();
        let mut ty = sys::type_hindexed(mpi, &lens, &places, byte)?;
        sys::type_commit(mpi, &mut ty)?;
        Ok(Self::Made(ty))
    }

    fn layout(&self) -> Layout<'_> {
        match self {
            Self::Dense(bytes) => Layout {
                count: count_of(*bytes),
                ty: Datatype::byte(),
            },
            Self::Made(ty) => Layout { count: 1, ty },
        }
    }

    fn free(self, mpi: &Mpi) -> Result<()> {
        match self {
            Self::Dense(..) => Ok(()),
            Self::Made(ty) => sys::type_free(mpi, ty),
        }
    }
}

/// The ranks on which operations were begun.
#[derive(Debug, PartialEq, Eq)]
enum Begun {
    Nothing,
    On(Rank),
    OnSeveral(BTreeSet<Rank>),
}

impl Begun {
    fn add(&mut self, rank: Rank) {
        match self {
            Self::Nothing => *self = Self::On(rank),
            Self::On(other) if *other == rank => {}
            Self::On(other) => *self = Self::OnSeveral([*other, rank].into()),
            Self::OnSeveral(ranks) => {
                ranks.insert(rank);
            }
        }
    }

    fn ranks(&self) -> Vec<Rank> {
        match self {
            Self::Nothing => Vec::new(),
            Self::On(rank) => vec![*rank],
            Self::OnSeveral(ranks) => ranks.iter().copied().collect(),
        }
    }
}
