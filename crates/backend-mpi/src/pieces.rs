//! Transfers of many pieces: boxes of blocks, and lists of fragments.
//!
//! Many small ones are one operation of MPI, with a type for their places: that takes a half to a seventh of the time of an
//! operation for each.
#![expect(unsafe_code, reason = "calls MPI on places that core has checked")]

use std::collections::BTreeSet;

use pgas_core::backend::{Backend, GetFragment, PutFragment, RemoteAddr, Shape};
use pgas_core::{Rank, Result};

use crate::network::{MAX_TRANSFER, Network};
use crate::rma::{count_of, target_of};
use crate::sys::{self, Datatype, Layout, Mpi};

/// From this size on, pieces are operations of their own: that is no slower, and copies nothing together.
const LARGE: usize = 4096;
/// So are gets from this size on with MPICH: a long answer to one takes it longer than many short ones.
const LARGE_OF_MPICH: usize = 256;
/// Fewer fragments are, too: a type takes as long.
const FEW: usize = 8;
/// As many fragments have types that fit into one of Open MPI's packets beside its header.
const MANY: usize = 256;

impl Network {
    /// # Safety
    ///
    /// As [`Backend::put_fragments`].
    pub(crate) unsafe fn scatter(&self, fragments: &[PutFragment]) -> Result<()> {
        let mut begun = Begun::Nothing;
        let mut outcome = Ok(());
        let sorted = sorted(fragments, |piece| piece.dst.rank);
        let fragments = sorted.as_deref().unwrap_or(fragments);
        let lists = fragments.chunk_by(|one, next| one.dst.rank == next.dst.rank);
        for list in lists.flat_map(|list| list.chunks(MANY)) {
            let is_near = self.near_place(list[0].dst).is_some();
            outcome = if !is_near && is_one(list.iter().map(|piece| piece.len), LARGE) {
                begun.add(list[0].dst.rank);
                // SAFETY: the caller promises each fragment; the sources outlive the completion below.
                unsafe { self.put_as_one(list) }
            } else {
                // SAFETY: as for `put_as_one`, of the same fragments.
                unsafe { self.put_each(list, &mut begun) }
            };
            if outcome.is_err() {
                break;
            }
        }
        self.complete(&begun).and(outcome)
    }

    /// Begins an operation for each fragment.
    ///
    /// # Safety
    ///
    /// As [`Backend::put_fragments`], until local completion.
    unsafe fn put_each(&self, fragments: &[PutFragment], begun: &mut Begun) -> Result<()> {
        fragments
            .iter()
            .try_for_each(|piece| match self.near_place(piece.dst) {
                // SAFETY: the caller promises each fragment.
                Some(near) => unsafe { self.member.put(near, piece.src, piece.len) },
                None => sys::enter().and_then(|mut mpi| {
                    begun.add(piece.dst.rank);
                    // SAFETY: the caller promises each fragment, until local completion.
                    unsafe { self.leave_put(&mut mpi, piece.dst, piece.src, piece.len) }.map(drop)
                }),
            })
    }

    /// Begins one operation for all fragments, which are on one rank.
    ///
    /// # Safety
    ///
    /// As [`put_each`](Self::put_each).
    unsafe fn put_as_one(&self, fragments: &[PutFragment]) -> Result<()> {
        let dst = fragments.iter().map(|piece| piece.dst);
        let dst = dst.min_by_key(|dst| dst.offset).expect("some");
        let src = fragments.iter().map(|piece| piece.src);
        let src = src.min_by_key(|src| src.addr()).expect("some");
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, dst.rank.number())?;
        let types = Types::of_list(
            &mpi,
            fragments.iter().map(|piece| Distances {
                there: piece.dst.offset - dst.offset,
                here: piece.src.addr() - src.addr(),
                len: piece.len,
            }),
        )?;
        let (from, to) = (
            (src, types.here.layout()),
            (target_of(dst), types.there.layout()),
        );
        // SAFETY: the caller promises all fragments, which are where the types say, until local completion.
        let begun = unsafe { sys::put(&mpi, &self.window, from, to) };
        self.flushes.get(&mut mpi).begin_unsent(dst.rank.number());
        types.free(&mpi).and(begun)
    }

    /// # Safety
    ///
    /// As [`Backend::get_fragments`].
    pub(crate) unsafe fn gather(&self, fragments: &[GetFragment]) -> Result<()> {
        let mut begun = Begun::Nothing;
        let mut outcome = Ok(());
        let large = if self.is_open_mpi {
            LARGE
        } else {
            LARGE_OF_MPICH
        };
        let sorted = sorted(fragments, |piece| piece.src.rank);
        let fragments = sorted.as_deref().unwrap_or(fragments);
        let lists = fragments.chunk_by(|one, next| one.src.rank == next.src.rank);
        for list in lists.flat_map(|list| list.chunks(MANY)) {
            let is_near = self.near_place(list[0].src).is_some();
            outcome = if !is_near && is_one(list.iter().map(|piece| piece.len), large) {
                begun.add(list[0].src.rank);
                // SAFETY: the caller promises each fragment; the destinations outlive the completion below.
                unsafe { self.get_as_one(list) }
            } else {
                // SAFETY: as for `get_as_one`, of the same fragments.
                unsafe { self.get_each(list, &mut begun) }
            };
            if outcome.is_err() {
                break;
            }
        }
        self.complete(&begun).and(outcome)
    }

    /// Begins an operation for each fragment.
    ///
    /// # Safety
    ///
    /// As [`Backend::get_fragments`], until local completion.
    unsafe fn get_each(&self, fragments: &[GetFragment], begun: &mut Begun) -> Result<()> {
        fragments
            .iter()
            .try_for_each(|piece| match self.near_place(piece.src) {
                // SAFETY: the caller promises each fragment.
                Some(near) => unsafe { self.member.get(near, piece.dst, piece.len) },
                None => sys::enter().and_then(|mut mpi| {
                    begun.add(piece.src.rank);
                    // SAFETY: the caller promises each fragment, until local completion.
                    unsafe { self.leave_get(&mut mpi, piece.src, piece.dst, piece.len) }.map(drop)
                }),
            })
    }

    /// Begins one operation for all fragments, which are on one rank.
    ///
    /// # Safety
    ///
    /// As [`get_each`](Self::get_each).
    unsafe fn get_as_one(&self, fragments: &[GetFragment]) -> Result<()> {
        let src = fragments.iter().map(|piece| piece.src);
        let src = src.min_by_key(|src| src.offset).expect("some");
        let dst = fragments.iter().map(|piece| piece.dst);
        let dst = dst.min_by_key(|dst| dst.addr()).expect("some");
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, src.rank.number())?;
        let types = Types::of_list(
            &mpi,
            fragments.iter().map(|piece| Distances {
                there: piece.src.offset - src.offset,
                here: piece.dst.addr() - dst.addr(),
                len: piece.len,
            }),
        )?;
        let (to, from) = (
            (dst, types.here.layout()),
            (target_of(src), types.there.layout()),
        );
        // SAFETY: the caller promises all fragments, which are where the types say, until local completion.
        let begun = unsafe { sys::get(&mpi, &self.window, to, from) };
        self.flushes.get(&mut mpi).leave_open(src.rank.number());
        types.free(&mpi).and(begun)
    }

    /// Completes here what was begun.
    fn complete(&self, begun: &Begun) -> Result<()> {
        let approached = if self.is_polite {
            self.approach(&begun.ranks())
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
        completed.and(approached)
    }

    /// # Safety
    ///
    /// As [`Backend::put_strided`].
    pub(crate) unsafe fn put_blocks(
        &self,
        dst: RemoteAddr,
        src: *const u8,
        shape: &Shape,
    ) -> Result<()> {
        if let Some(near) = self.near_place(dst) {
            // SAFETY: `near` is the member's name of the same place in the same segment
            // (`near_place`), so that `put_strided` gets the blocks that the caller promises.
            return unsafe { self.member.put_strided(near, src, shape) };
        }
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, dst.rank.number())?;
        if let Some(types) = Types::of_box(&mpi, shape)? {
            let (from, to) = (
                (src, types.here.layout()),
                (target_of(dst), types.there.layout()),
            );
            // SAFETY: the caller promises every block of the shape; the source outlives the completion below.
            let begun = unsafe { sys::put(&mpi, &self.window, from, to) };
            self.flushes.get(&mut mpi).begin(dst.rank.number());
            types.free(&mpi)?;
            drop(mpi);
            begun?;
            return self.complete(&Begun::On(dst.rank));
        }
        let begun = shape.for_each_block(|remote, local| {
            // SAFETY: the caller promises every block of the shape, so also its place in local memory.
            let from = unsafe { src.offset(local) };
            let to = block_at(dst, remote);
            // SAFETY: a whole block is promised on both sides.
            unsafe { self.leave_put(&mut mpi, to, from, shape.block_bytes) }.map(drop)
        });
        drop(mpi);
        self.complete(&Begun::On(dst.rank)).and(begun)
    }

    /// # Safety
    ///
    /// As [`Backend::get_strided`].
    pub(crate) unsafe fn get_blocks(
        &self,
        src: RemoteAddr,
        dst: *mut u8,
        shape: &Shape,
    ) -> Result<()> {
        if let Some(near) = self.near_place(src) {
            // SAFETY: `near` is the member's name of the same place in the same segment
            // (`near_place`), so that `get_strided` gets the blocks that the caller promises.
            return unsafe { self.member.get_strided(near, dst, shape) };
        }
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, src.rank.number())?;
        if let Some(types) = Types::of_box(&mpi, shape)? {
            let (to, from) = (
                (dst, types.here.layout()),
                (target_of(src), types.there.layout()),
            );
            // SAFETY: the caller promises every block of the shape; the destination outlives the completion below.
            let begun = unsafe { sys::get(&mpi, &self.window, to, from) };
            types.free(&mpi)?;
            drop(mpi);
            begun?;
            return self.complete(&Begun::On(src.rank));
        }
        let begun = shape.for_each_block(|remote, local| {
            // SAFETY: the caller promises every block of the shape, so also its place in local memory.
            let to = unsafe { dst.offset(local) };
            let from = block_at(src, remote);
            // SAFETY: a whole block is promised on both sides.
            unsafe { self.leave_get(&mut mpi, from, to, shape.block_bytes) }.map(drop)
        });
        drop(mpi);
        self.complete(&Begun::On(src.rank)).and(begun)
    }
}

/// Fragments in the order of their ranks, if they are not and are worth it.
fn sorted<F: Copy>(fragments: &[F], rank_of: impl Fn(&F) -> Rank) -> Option<Vec<F>> {
    if fragments.len() < FEW || fragments.is_sorted_by_key(&rank_of) {
        return None;
    }
    let mut sorted = fragments.to_vec();
    sorted.sort_by_key(rank_of);
    Some(sorted)
}

/// Whether pieces of these lengths are one operation, if those of `large` bytes are not.
fn is_one(lens: impl ExactSizeIterator<Item = usize>, large: usize) -> bool {
    let n_pieces = lens.len();
    n_pieces >= FEW && lens.sum::<usize>() < large * n_pieces
}

/// Where a fragment is, in bytes from the first one on either side.
#[derive(Clone, Copy, Debug)]
struct Distances {
    there: u64,
    here: usize,
    len: usize,
}

/// What one operation moves, on both sides.
struct Types {
    there: Side,
    here: Side,
}

impl Types {
    /// Of a box, if it is worth it: many blocks, and small ones.
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

    /// Operations in flight keep what they need of the types.
    fn free(self, mpi: &Mpi) -> Result<()> {
        let freed = self.there.free(mpi);
        self.here.free(mpi).and(freed)
    }
}

/// One side's places.
enum Side {
    /// So many bytes, one behind the other.
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

    /// Of fragments at these distances, and with these lengths.
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

/// On which ranks operations were begun.
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

fn block_at(first: RemoteAddr, distance: isize) -> RemoteAddr {
    RemoteAddr {
        rank: first.rank,
        offset: first.offset.wrapping_add_signed(distance as i64),
    }
}
