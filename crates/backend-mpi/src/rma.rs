//! Where the bytes move: puts and gets through the window.
#![expect(unsafe_code, reason = "calls MPI on places that core has checked")]

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::thread;

use pgas_core::backend::{Backend, GetFragment, OpId, PutFragment, RemoteAddr, Shape, Stage};
use pgas_core::{Rank, Result};

use crate::network::{MAX_TRANSFER, Network};
use crate::ops::{Flight, Plain};
use crate::session::c_rank;
use crate::staging::Staging;
use crate::sys::{self, Datatype, Layout, Mpi, Target};

/// Up to this length an operation that nobody waits for has no request of its own, so that a flood of them costs no
/// more than MPI's. Longer ones can be tested without waiting for a flush.
const SHORT: usize = 8 << 10;

fn target_of(at: RemoteAddr) -> Target {
    Target {
        rank: c_rank(at.rank.number()),
        offset: at.offset,
    }
}

/// So many bytes: core cuts transfers to what fits.
fn count_of(len: usize) -> c_int {
    c_int::try_from(len).expect("core keeps to max_transfer")
}

impl Network {
    /// Before anything is begun on `rank`, or only this one is flushed, with Open MPI: short puts to another one leave
    /// their staged sources, by the local flush that they have saved until now. So there is one at most for each put. With
    /// MPICH they may be on their way to many ranks: it sends them at once, and would wait for their arrival here.
    #[inline]
    pub(crate) fn turn_to(&self, mpi: &mut Mpi, rank: u32) -> Result<()> {
        if !self.is_open_mpi {
            return Ok(());
        }
        match self.flushes.get(mpi).staged_beside(rank) {
            Some(other) => self.flush_here(mpi, other),
            None => Ok(()),
        }
    }

    /// Begins a short put of a copy of its source.
    ///
    /// # Safety
    ///
    /// As [`Backend::put`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for its callers")]
    unsafe fn put_staged(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<()> {
        let (rank, staging) = (dst.rank.number(), &self.staging);
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, rank)?;
        if !self.flushes.get(&mut mpi).has_staged() {
            staging.get(&mut mpi).clear();
        }
        let copy = match staging.get(&mut mpi).take(len) {
            Some(copy) => copy,
            None => {
                self.unstage(&mut mpi)?;
                let staging = staging.get(&mut mpi);
                staging.clear();
                staging.take(len).expect("room for a short put")
            }
        };
        if len == size_of::<u64>() {
            // SAFETY: as below; a length that the compiler knows needs no call.
            unsafe { copy.copy_from_nonoverlapping(src, size_of::<u64>()) };
        } else {
            // SAFETY: the caller promises the source; the copy's place is this put's alone.
            unsafe { copy.copy_from_nonoverlapping(src, len) };
        }
        // SAFETY: the caller promises the target; the copy is left alone until a flush of the rank.
        unsafe { self.call_put(&mpi, dst, copy, len) }?;
        self.flushes.get(&mut mpi).stage(rank);
        Ok(())
    }

    /// Makes MPI take all that is staged.
    #[cold]
    fn unstage(&self, mpi: &mut Mpi) -> Result<()> {
        if self.is_open_mpi {
            return self.flush_all_here(mpi);
        }
        sys::flush_all(mpi, &self.window)?;
        self.flushes.get(mpi).complete_all();
        Ok(())
    }

    /// Begins a put, which a flush completes here and there. The caller notes that it is under way.
    ///
    /// # Safety
    ///
    /// As [`Backend::put`], until local completion.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a call more is felt beside MPI's own put"
    )]
    unsafe fn issue_put(
        &self,
        mpi: &mut Mpi,
        dst: RemoteAddr,
        src: *const u8,
        len: usize,
    ) -> Result<()> {
        self.turn_to(mpi, dst.rank.number())?;
        // SAFETY: the caller's promises are the same.
        unsafe { self.call_put(mpi, dst, src, len) }
    }

    /// As [`issue_put`](Self::issue_put), where this rank has turned to the target.
    ///
    /// # Safety
    ///
    /// As [`Backend::put`], until local completion.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for its caller")]
    unsafe fn call_put(
        &self,
        mpi: &Mpi,
        dst: RemoteAddr,
        src: *const u8,
        len: usize,
    ) -> Result<()> {
        let byte = Datatype::byte();
        let layout = Layout {
            count: count_of(len),
            ty: &byte,
        };
        let to = (target_of(dst), layout);
        // SAFETY: the caller's promises are the same.
        unsafe { sys::put(mpi, &self.window, (src, layout), to) }
    }

    /// Begins a put that nobody flushes before the next operation begins.
    ///
    /// # Safety
    ///
    /// As [`Backend::put`], until local completion.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put alone")]
    unsafe fn leave_put(
        &self,
        mpi: &mut Mpi,
        dst: RemoteAddr,
        src: *const u8,
        len: usize,
    ) -> Result<Plain> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.issue_put(mpi, dst, src, len) }?;
        let rank = dst.rank.number();
        Ok(Plain {
            is_get: false,
            rank,
            n_flushes: self.flushes.get(mpi).begin_unsent(rank),
        })
    }

    /// Begins a get, which a local flush completes.
    ///
    /// # Safety
    ///
    /// As [`Backend::get`], until local completion.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a call more is felt beside MPI's own get"
    )]
    unsafe fn issue_get(
        &self,
        mpi: &mut Mpi,
        src: RemoteAddr,
        dst: *mut u8,
        len: usize,
    ) -> Result<()> {
        let byte = Datatype::byte();
        let layout = Layout {
            count: count_of(len),
            ty: &byte,
        };
        let from = (target_of(src), layout);
        self.turn_to(mpi, src.rank.number())?;
        // SAFETY: the caller's promises are the same.
        unsafe { sys::get(mpi, &self.window, (dst, layout), from) }
    }

    /// Begins a get that nobody flushes before the next operation begins.
    ///
    /// # Safety
    ///
    /// As [`Backend::get`], until local completion.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a get alone")]
    unsafe fn leave_get(
        &self,
        mpi: &mut Mpi,
        src: RemoteAddr,
        dst: *mut u8,
        len: usize,
    ) -> Result<Plain> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.issue_get(mpi, src, dst, len) }?;
        let rank = src.rank.number();
        Ok(Plain {
            is_get: true,
            rank,
            n_flushes: self.flushes.get(mpi).leave_open(rank),
        })
    }

    /// # Safety
    ///
    /// As [`Backend::put`].
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a put that is a call of MPI and some tens of instructions notices each call in between"
    )]
    pub(crate) unsafe fn put_bytes(
        &self,
        dst: RemoteAddr,
        src: *const u8,
        len: usize,
    ) -> Result<()> {
        if self.is_direct || self.is_polite {
            // SAFETY: the caller's promises are the same.
            unsafe { self.put_with_care(dst, src, len) }
        } else if len <= Staging::LONGEST {
            // SAFETY: the caller's promises are the same.
            unsafe { self.put_staged(dst, src, len) }
        } else {
            // SAFETY: the caller's promises are the same.
            unsafe { self.put_whole(dst, src, len) }
        }
    }

    /// A put that may not be one through the window, or must not wait inside of MPI.
    ///
    /// # Safety
    ///
    /// As [`Backend::put`].
    #[inline(never)]
    unsafe fn put_with_care(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<()> {
        if let Some(near) = self.near_place(dst) {
            // SAFETY: the caller's promises are the same.
            return unsafe { self.member.put(near, src, len) };
        }
        if self.is_polite {
            // SAFETY: the caller's promises are the same.
            unsafe { self.put_politely(dst, src, len) }
        } else if len <= Staging::LONGEST {
            // SAFETY: the caller's promises are the same.
            unsafe { self.put_staged(dst, src, len) }
        } else {
            // SAFETY: the caller's promises are the same.
            unsafe { self.put_whole(dst, src, len) }
        }
    }

    /// A put that waits for MPI to take its source.
    ///
    /// # Safety
    ///
    /// As [`Backend::put`].
    #[inline(never)]
    unsafe fn put_whole(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<()> {
        let mut mpi = sys::enter()?;
        // SAFETY: the caller's promises are the same; the source outlives the local completion below.
        unsafe { self.issue_put(&mut mpi, dst, src, len) }?;
        self.flushes.get(&mut mpi).begin(dst.rank.number());
        self.flush_here(&mut mpi, dst.rank.number())
    }

    /// # Safety
    ///
    /// As [`Backend::get`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put")]
    pub(crate) unsafe fn get_bytes(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<()> {
        if self.is_direct || self.is_polite {
            // SAFETY: the caller's promises are the same.
            return unsafe { self.get_with_care(src, dst, len) };
        }
        // SAFETY: the caller's promises are the same.
        unsafe { self.get_whole(src, dst, len) }
    }

    /// A get that may not be one through the window, or must not wait inside of MPI.
    ///
    /// # Safety
    ///
    /// As [`Backend::get`].
    #[inline(never)]
    unsafe fn get_with_care(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<()> {
        if let Some(near) = self.near_place(src) {
            // SAFETY: the caller's promises are the same.
            return unsafe { self.member.get(near, dst, len) };
        }
        if self.is_polite {
            // SAFETY: the caller's promises are the same.
            return unsafe { self.get_politely(src, dst, len) };
        }
        // SAFETY: the caller's promises are the same.
        unsafe { self.get_whole(src, dst, len) }
    }

    /// A get that waits for its bytes inside of MPI.
    ///
    /// # Safety
    ///
    /// As [`Backend::get`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put")]
    unsafe fn get_whole(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<()> {
        let mut mpi = sys::enter()?;
        // SAFETY: the caller's promises are the same; the destination outlives the local completion below.
        unsafe { self.issue_get(&mut mpi, src, dst, len) }?;
        self.flush_here(&mut mpi, src.rank.number())
    }

    /// # Safety
    ///
    /// As [`Backend::put`].
    #[cold]
    unsafe fn put_politely(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<()> {
        // SAFETY: the caller's promises are the same; the source outlives the waiting below.
        let op = unsafe { self.begin_put(dst, src, len) }?;
        self.wait_politely(op, Stage::Source)
    }

    /// # Safety
    ///
    /// As [`Backend::get`].
    #[cold]
    unsafe fn get_politely(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<()> {
        // SAFETY: the caller's promises are the same; the destination outlives the waiting below.
        let op = unsafe { self.begin_get(src, dst, len) }?;
        self.wait_politely(op, Stage::Operation)
    }

    /// # Safety
    ///
    /// As [`Backend::put_nb`].
    pub(crate) unsafe fn begin_put(
        &self,
        dst: RemoteAddr,
        src: *const u8,
        len: usize,
    ) -> Result<OpId> {
        if let Some(near) = self.near_place(dst) {
            // SAFETY: the caller's promises are the same.
            return unsafe { self.member.put_nb(near, src, len) };
        }
        if len <= SHORT && !self.is_polite {
            let mut mpi = sys::enter()?;
            // SAFETY: the caller's promises are the same.
            return Ok(unsafe { self.leave_put(&mut mpi, dst, src, len) }?.id());
        }
        // SAFETY: the caller's promises are the same.
        unsafe { self.request_put(dst, src, len) }
    }

    /// Begins a put that can be tested, if there may be one more of these.
    ///
    /// # Safety
    ///
    /// As [`Backend::put_nb`].
    #[inline(never)]
    unsafe fn request_put(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<OpId> {
        let mut state = self.state();
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, dst.rank.number())?;
        let Some(index) = state.ops.reserve() else {
            // SAFETY: the caller's promises are the same; the source outlives the completion below.
            return Ok(unsafe { self.leave_put(&mut mpi, dst, src, len) }?.id());
        };
        let byte = Datatype::byte();
        let layout = Layout {
            count: count_of(len),
            ty: &byte,
        };
        // SAFETY: the caller promises both places, until the request is complete.
        match unsafe { sys::rput(&mpi, &self.window, src, target_of(dst), layout) } {
            Ok(request) => {
                let rank = dst.rank.number();
                let n_flushes = self.flushes.get(&mut mpi).begin(rank);
                let flight = Flight::Put {
                    request,
                    rank,
                    n_flushes,
                    behind: None,
                };
                Ok(state.ops.begin(index, flight))
            }
            Err(error) => {
                state.ops.release(index);
                Err(error)
            }
        }
    }

    /// # Safety
    ///
    /// As [`Backend::get_nb`].
    pub(crate) unsafe fn begin_get(
        &self,
        src: RemoteAddr,
        dst: *mut u8,
        len: usize,
    ) -> Result<OpId> {
        if let Some(near) = self.near_place(src) {
            // SAFETY: the caller's promises are the same.
            return unsafe { self.member.get_nb(near, dst, len) };
        }
        if len <= SHORT && !self.is_polite {
            let mut mpi = sys::enter()?;
            // SAFETY: the caller's promises are the same.
            return Ok(unsafe { self.leave_get(&mut mpi, src, dst, len) }?.id());
        }
        // SAFETY: the caller's promises are the same.
        unsafe { self.request_get(src, dst, len) }
    }

    /// Begins a get that can be tested, if there may be one more of these.
    ///
    /// # Safety
    ///
    /// As [`Backend::get_nb`].
    #[inline(never)]
    unsafe fn request_get(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<OpId> {
        let mut state = self.state();
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, src.rank.number())?;
        let Some(index) = state.ops.reserve() else {
            // SAFETY: the caller's promises are the same.
            return Ok(unsafe { self.leave_get(&mut mpi, src, dst, len) }?.id());
        };
        let byte = Datatype::byte();
        let layout = Layout {
            count: count_of(len),
            ty: &byte,
        };
        // SAFETY: the caller promises both places, until the request is complete.
        match unsafe { sys::rget(&mpi, &self.window, dst, target_of(src), layout) } {
            Ok(request) => Ok(state.ops.begin(index, Flight::Get { request })),
            Err(error) => {
                state.ops.release(index);
                Err(error)
            }
        }
    }

    /// # Safety
    ///
    /// As [`Backend::put_fragments`].
    pub(crate) unsafe fn scatter(&self, fragments: &[PutFragment]) -> Result<()> {
        let mut begun = Begun::Nothing;
        let mut outcome = Ok(());
        for piece in fragments {
            outcome = match self.near_place(piece.dst) {
                // SAFETY: the caller promises each fragment.
                Some(near) => unsafe { self.member.put(near, piece.src, piece.len) },
                None => sys::enter().and_then(|mut mpi| {
                    begun.add(piece.dst.rank);
                    // SAFETY: the caller promises each fragment; the sources outlive the completion below.
                    unsafe { self.leave_put(&mut mpi, piece.dst, piece.src, piece.len) }.map(drop)
                }),
            };
            if outcome.is_err() {
                break;
            }
        }
        self.complete(&begun).and(outcome)
    }

    /// # Safety
    ///
    /// As [`Backend::get_fragments`].
    pub(crate) unsafe fn gather(&self, fragments: &[GetFragment]) -> Result<()> {
        let mut begun = Begun::Nothing;
        let mut outcome = Ok(());
        for piece in fragments {
            outcome = match self.near_place(piece.src) {
                // SAFETY: the caller promises each fragment.
                Some(near) => unsafe { self.member.get(near, piece.dst, piece.len) },
                None => sys::enter().and_then(|mut mpi| {
                    begun.add(piece.src.rank);
                    // SAFETY: the caller promises each fragment; the destinations outlive the completion below.
                    unsafe { self.leave_get(&mut mpi, piece.src, piece.dst, piece.len) }.map(drop)
                }),
            };
            if outcome.is_err() {
                break;
            }
        }
        self.complete(&begun).and(outcome)
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
            // SAFETY: the caller's promises are the same.
            return unsafe { self.member.put_strided(near, src, shape) };
        }
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, dst.rank.number())?;
        if let Some(grid) = Grid::of(&mpi, shape)? {
            let (from, to) = ((src, grid.local()), (target_of(dst), grid.remote()));
            // SAFETY: the caller promises every block of the shape; the source outlives the completion below.
            let begun = unsafe { sys::put(&mpi, &self.window, from, to) };
            self.flushes.get(&mut mpi).begin(dst.rank.number());
            grid.free(&mpi)?;
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
            // SAFETY: the caller's promises are the same.
            return unsafe { self.member.get_strided(near, dst, shape) };
        }
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, src.rank.number())?;
        if let Some(grid) = Grid::of(&mpi, shape)? {
            let (to, from) = ((dst, grid.local()), (target_of(src), grid.remote()));
            // SAFETY: the caller promises every block of the shape; the destination outlives the completion below.
            let begun = unsafe { sys::get(&mpi, &self.window, to, from) };
            grid.free(&mpi)?;
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

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put")]
    pub(crate) fn flush_rank(&self, rank: Rank) -> Result<()> {
        if self.is_direct || self.at_target || self.is_polite {
            return self.flush_with_care(rank);
        }
        self.flush_open(&mut sys::enter()?, rank.number())
    }

    /// A flush of `rank` that may be more than that of the window.
    #[inline(never)]
    fn flush_with_care(&self, rank: Rank) -> Result<()> {
        if self.near(rank).is_some() {
            return self.member.flush_all();
        }
        if self.at_target {
            self.await_answers(Some(rank.number()))?;
        }
        if self.is_polite && self.flushes.get(&mut sys::enter()?).is_open(rank.number()) {
            self.approach(&[rank])?;
        }
        self.flush_open(&mut sys::enter()?, rank.number())
    }

    pub(crate) fn flush_ranks(&self) -> Result<()> {
        self.member.flush_all()?;
        self.await_answers(None)?;
        let mut mpi = sys::enter()?;
        if self.is_polite {
            let open = self.flushes.get(&mut mpi).open();
            let open: Vec<Rank> = open.map(Rank::new).collect();
            drop(mpi);
            self.approach(&open)?;
            mpi = sys::enter()?;
        }
        let flushes = self.flushes.get(&mut mpi);
        if flushes.n_open() > 1 {
            sys::flush_all(&mpi, &self.window)?;
            self.flushes.get(&mut mpi).complete_all();
            return Ok(());
        }
        let rank = flushes.open().next();
        rank.map_or(Ok(()), |rank| self.flush_open(&mut mpi, rank))
    }

    /// Completes what this rank has begun on `rank`, if there is anything.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put")]
    pub(crate) fn flush_open(&self, mpi: &mut Mpi, rank: u32) -> Result<()> {
        let Some(place) = self.flushes.get(mpi).open_place(rank) else {
            return Ok(());
        };
        if self.is_open_mpi && self.flushes.get(mpi).has_unsent_beside_place(place) {
            self.send_beside(mpi, rank)?;
        }
        sys::flush(mpi, &self.window, c_rank(rank))?;
        self.flushes.get(mpi).complete_at(place);
        Ok(())
    }

    /// Makes Open MPI send what was begun on others than `rank`; see [`flush_here`](Self::flush_here).
    #[inline(never)]
    fn send_beside(&self, mpi: &mut Mpi, rank: u32) -> Result<()> {
        self.turn_to(mpi, rank)?;
        if self.flushes.get(mpi).has_unsent_beside(rank) {
            self.flush_all_here(mpi)?;
        }
        Ok(())
    }

    /// Completes here what this rank has begun on `rank`.
    ///
    /// For one rank Open MPI's `pt2pt` waits for ever for what it has not even sent to another one, so that this is
    /// flushed too. MPICH, over UCX, knows of each rank only what the last operation needs: a get and then a put that is
    /// free at once leave nothing for a local flush to wait for, though the get is under way. So it waits for one
    /// operation only, and a flush of both sides for several.
    #[inline]
    pub(crate) fn flush_here(&self, mpi: &mut Mpi, rank: u32) -> Result<()> {
        if self.flushes.get(mpi).has_unsent() {
            return self.flush_several_here(mpi, rank);
        }
        sys::flush_local(mpi, &self.window, c_rank(rank))
    }

    /// As [`flush_here`](Self::flush_here), where there are operations that may not be sent yet.
    #[inline(never)]
    fn flush_several_here(&self, mpi: &mut Mpi, rank: u32) -> Result<()> {
        let flushes = self.flushes.get(mpi);
        if self.is_open_mpi && flushes.has_unsent_beside(rank) {
            return self.flush_all_here(mpi);
        }
        if !self.is_open_mpi && flushes.is_unsent(rank) {
            sys::flush(mpi, &self.window, c_rank(rank))?;
            self.flushes.get(mpi).complete(rank);
            return Ok(());
        }
        sys::flush_local(mpi, &self.window, c_rank(rank))?;
        self.flushes.get(mpi).complete_here(rank);
        Ok(())
    }

    fn flush_all_here(&self, mpi: &mut Mpi) -> Result<()> {
        sys::flush_local_all(mpi, &self.window)?;
        self.flushes.get(mpi).complete_all_here();
        Ok(())
    }

    /// Before this rank waits inside of MPI for what it has begun on `ranks`: waits outside of it until each
    /// has answered something later. Then the wait is a short one.
    pub(crate) fn approach(&self, ranks: &[Rank]) -> Result<()> {
        let mut words = vec![[0_u64; 2]; ranks.len()];
        let mut outcome = Ok(());
        let mut probes = Vec::with_capacity(ranks.len());
        for (rank, words) in ranks.iter().zip(&mut words) {
            let begun = sys::enter().and_then(|mpi| {
                // SAFETY: there are two words for each probe, which outlive the waiting below.
                unsafe { self.begin_probe(&mpi, rank.number(), words.as_mut_ptr()) }
            });
            match begun {
                Ok(probe) => probes.push(probe),
                Err(error) => outcome = Err(error),
            }
        }
        for mut probe in probes {
            loop {
                let tested = sys::enter().and_then(|mpi| sys::test(&mpi, &mut probe));
                match tested {
                    Ok(false) => thread::yield_now(),
                    Ok(true) => break,
                    Err(error) => {
                        outcome = Err(error);
                        break;
                    }
                }
            }
        }
        outcome
    }
}

/// A shape as types of MPI, so that all of it is one operation.
struct Grid {
    remote: Datatype,
    local: Datatype,
}

impl Grid {
    /// From this size on a block is an operation of its own: that is no slower, and copies nothing together.
    const LARGE_BLOCK: usize = 4096;

    /// The types, if the shape is worth it: many blocks, and small ones.
    fn of(mpi: &Mpi, shape: &Shape) -> Result<Option<Self>> {
        let n_blocks = shape.extents.iter().product::<usize>();
        let bytes = n_blocks.saturating_mul(shape.block_bytes) as u64;
        if n_blocks < 2 || shape.block_bytes >= Self::LARGE_BLOCK || bytes > MAX_TRANSFER {
            return Ok(None);
        }
        let remote = Self::side(mpi, shape, &shape.remote)?;
        match Self::side(mpi, shape, &shape.local) {
            Ok(local) => Ok(Some(Self { remote, local })),
            Err(error) => {
                sys::type_free(mpi, remote)?;
                Err(error)
            }
        }
    }

    fn side(mpi: &Mpi, shape: &Shape, strides: &[isize]) -> Result<Datatype> {
        let byte = Datatype::byte();
        let mut ty = sys::type_hvector(mpi, 1, count_of(shape.block_bytes), 0, &byte)?;
        for (extent, stride) in shape.extents.iter().zip(strides).rev() {
            let outer = sys::type_hvector(mpi, count_of(*extent), 1, *stride, &ty);
            sys::type_free(mpi, ty)?;
            ty = outer?;
        }
        sys::type_commit(mpi, &mut ty)?;
        Ok(ty)
    }

    fn remote(&self) -> Layout<'_> {
        let ty = &self.remote;
        Layout { count: 1, ty }
    }

    fn local(&self) -> Layout<'_> {
        let ty = &self.local;
        Layout { count: 1, ty }
    }

    /// Operations in flight keep what they need of the types.
    fn free(self, mpi: &Mpi) -> Result<()> {
        sys::type_free(mpi, self.remote)?;
        sys::type_free(mpi, self.local)
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
