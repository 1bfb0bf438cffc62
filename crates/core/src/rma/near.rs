//! Blocks of global memory that this process accesses by its own instructions, after one lookup.
#![expect(
    unsafe_code,
    reason = "reads and writes shared memory behind a checked place"
)]

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use pgas_lockfree::memory::{self, Memory, Part};

use crate::atomics::{Atomic, call, swap_call};
use crate::backend::{AtomicOp, SEGMENT_ALIGN};
use crate::cost::CostKind;
use crate::raw::copy;
use crate::raw::map::{Mapped, Shared};
use crate::rma::FourWords;
use crate::stats::steps;
use crate::{GlobalPtr, Pod, Rank, Team, World};

/// The size and the alignment of a kind of block, in bytes.
///
/// A program that looks up blocks with an invalid alignment does not compile:
///
/// ```compile_fail,E0080
/// use pgas_core::rma::Block;
///
/// struct Uneven;
///
/// impl Block for Uneven {
///     const BYTES: usize = 24;
///     const ALIGN: usize = 12;
/// }
///
/// let world = pgas_core::backend::loopback::world();
/// let _ = world.alloc::<u64>(3)?.cast().near::<Uneven>(&world);
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub trait Block {
    /// Its size.
    const BYTES: usize;
    /// Its alignment: a power of two up to 4,096.
    const ALIGN: usize;
    /// Whether there are such blocks where operations are counted; see [`Counted`].
    const IS_COUNTED: bool = false;
    /// Whether there are such blocks where operations are not counted.
    const IS_UNCOUNTED: bool = !Self::IS_COUNTED;
}

/// See [`World::direct_block`].
const fn kinds<B: Block>() -> [bool; 2] {
    [B::IS_UNCOUNTED, B::IS_COUNTED]
}

/// The alignment of `B`. Every function that makes a [`Near`] or a [`NearArray`] gets it here, so
/// neither exists for a kind of block with an invalid alignment: checks of the block then hold for
/// its parts.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a constant")]
fn alignment<B: Block>() -> usize {
    const {
        assert!(
            B::ALIGN.is_power_of_two() && B::ALIGN <= SEGMENT_ALIGN,
            "a block's alignment is a power of two up to 4,096"
        );
        B::ALIGN
    }
}

/// The size of `len` contiguous blocks; `None` if `len` is 0, or if the size overflows.
fn array_bytes<B: Block>(len: usize) -> Option<usize> {
    const { assert!(B::BYTES.is_multiple_of(B::ALIGN), "each block is aligned") };
    B::BYTES.checked_mul(NonZero::new(len)?.get())
}

/// The kind of block `B` where operations are counted (`PGAS_STATS`): such blocks are found where
/// others are not, and the other way around. So a container is the same program with and without
/// statistics.
///
/// A step is counted when the container [notes](Near::note_read) it, which for other blocks takes
/// no code. The steps of an operation are counted at its end, for it
/// ([`World::perform_near`]) or for none ([`World::count_steps`]); a batch does so every few
/// thousand steps. Where the operations on each peer are counted, there are no such blocks.
///
/// # Examples
///
/// ```
/// use pgas_core::rma::{Block, Counted, Near};
/// use pgas_core::stats::{Operation, Price};
/// use pgas_core::{GlobalPtr, Result, World};
///
/// static NEXT: Operation = Operation::new("Ticket::next", &[Price::new("", [1, 0, 0])], "");
///
/// struct Word;
///
/// impl Block for Word {
///     const BYTES: usize = 8;
///     const ALIGN: usize = 8;
/// }
///
/// fn next_near<B: Block>(word: Near<'_, B>) -> u64 {
///     word.note_atomic(8);
///     word.fetch_op(0, pgas_core::backend::AtomicOp::Add, 1)
/// }
///
/// fn next(world: &World, word: GlobalPtr<u64>) -> Result<u64> {
///     if let Some(word) = word.cast().near::<Word>(world) {
///         return Ok(next_near(word));
///     }
///     if let Some(word) = word.cast().near::<Counted<Word>>(world) {
///         return Ok(world.perform_near(&NEXT, 1, || next_near(word), |_| 0));
///     }
///     let _performs = world.performs(&NEXT, 1);
///     word.fetch_add(world, 1)
/// }
/// # let world = pgas_core::backend::loopback::world();
/// # assert_eq!(next(&world, world.alloc(1)?)?, 0);
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[derive(Debug)]
pub enum Counted<B> {
    /// There is no such value.
    #[doc(hidden)]
    Never(std::convert::Infallible, PhantomData<B>),
}

impl<B: Block> Block for Counted<B> {
    const BYTES: usize = B::BYTES;
    const ALIGN: usize = B::ALIGN;
    const IS_COUNTED: bool = true;
}

/// The kind of block `B`, whether or not operations are counted.
///
/// This is for rare ways of access, which are compiled once for both cases. Who notes steps on such
/// a block asks before whether they [are counted](World::is_counting).
#[derive(Debug)]
pub enum MaybeCounted<B> {
    /// There is no such value.
    #[doc(hidden)]
    Never(std::convert::Infallible, PhantomData<B>),
}

impl<B: Block> Block for MaybeCounted<B> {
    const BYTES: usize = B::BYTES;
    const ALIGN: usize = B::ALIGN;
    const IS_COUNTED: bool = true;
    const IS_UNCOUNTED: bool = true;
}

/// A block of global memory that this process reaches by its own loads, stores and atomics.
///
/// If an operation of a container accesses several parts of an element, it looks up the element
/// once, by [`GlobalPtr::near`]. Each part then costs a plain access: with constant offsets the
/// compiler makes all checks.
///
/// Other ranks may access the block at any time. So a load of a type that is not a word may be
/// torn.
///
/// # Examples
///
/// ```
/// use pgas_core::rma::Block;
///
/// /// A counter and two words.
/// struct Entry;
///
/// impl Block for Entry {
///     const BYTES: usize = 24;
///     const ALIGN: usize = 8;
/// }
///
/// # let world = pgas_core::backend::loopback::world();
/// let entry = world.alloc::<u64>(3)?;
/// match entry.cast().near::<Entry>(&world) {
///     Some(near) => near.store(8, [1_u64, 2]),
///     None => entry.add(1).put_slice(&world, &[1, 2])?,
/// }
/// assert_eq!(entry.add(2).get(&world)?, 2);
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub struct Near<'w, B> {
    /// [`B::BYTES`](Block::BYTES) from here on lie within a mapped segment, and the first is
    /// aligned to
    /// [`B::ALIGN`](Block::ALIGN), which [`alignment`] has found to be one that segments have.
    place: NonNull<u8>,
    /// The world keeps the segment mapped.
    world: PhantomData<&'w World>,
    block: PhantomData<fn() -> B>,
}

impl GlobalPtr<u8> {
    /// The block that begins here, if this process reads, writes and atomically updates it without
    /// the backend. `None` also if operations are counted and the kind of block is not
    /// [counted](Counted), or the other way around, and if the block is misaligned or not within a
    /// segment: then the ordinary operations do the one and say the other.
    ///
    /// # Cost
    ///
    /// ℓ.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few compares with constants")]
    pub fn near<B: Block>(self, world: &World) -> Option<Near<'_, B>> {
        let place = world.direct_block(kinds::<B>(), self, (B::BYTES, alignment::<B>()))?;
        Some(Near {
            place,
            world: PhantomData,
            block: PhantomData,
        })
    }
}

/// Contiguous blocks at the same offset in the segments of all ranks, or of a team's members, if
/// all are near. It is looked up once, and valid as long as it lives. It has a pointer for each
/// rank; all ranks are on this host then.
///
/// # Examples
///
/// ```
/// use pgas_core::rma::{Block, Near};
///
/// struct Word;
///
/// impl Block for Word {
///     const BYTES: usize = 8;
///     const ALIGN: usize = 8;
/// }
///
/// # let world = pgas_core::backend::loopback::world();
/// let words = world.alloc_symmetric::<u64>(10)?;
/// let last = match world.near_array::<Word>(words.here().offset_bytes(), 10) {
///     Some(near) => near.block(0, 9).load::<u64>(0),
///     None => words.on(pgas_core::Rank::ZERO).add(9).get(&world)?,
/// };
/// assert_eq!(last, 0);
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub struct NearArray<B> {
    /// Keeps the segments mapped.
    world: World,
    /// The first block of each rank. There is at least one rank.
    bases: Box<[Shared]>,
    /// Not zero.
    len: usize,
    block: PhantomData<fn() -> B>,
}

impl World {
    /// The `len` blocks from `offset_bytes` on in the segment of every rank, if `len` is not 0 and
    /// all of them are [near](GlobalPtr::near).
    ///
    /// # Cost
    ///
    /// ℓ, proportional to the number of ranks.
    ///
    /// # Panics
    ///
    /// If `len` is not 0 and `offset_bytes` is [`GlobalPtr::OFFSET_LIMIT`] or more.
    #[must_use]
    #[track_caller]
    pub fn near_array<B: Block>(&self, offset_bytes: u64, len: usize) -> Option<NearArray<B>> {
        self.team().near_array(offset_bytes, len)
    }

    /// The ranks whose blocks may be [near](GlobalPtr::near): those of this host, this one among
    /// them, or none.
    ///
    /// # Cost
    ///
    /// ℓ.
    #[must_use]
    pub fn near_ranks(&self) -> impl ExactSizeIterator<Item = Rank> + Clone + use<> {
        self.direct_ranks().map(Rank::new)
    }

    /// The `len` blocks from `start` on in one rank's segment, as an array with that rank alone, if
    /// `len` is not 0 and all are [near](GlobalPtr::near).
    ///
    /// # Cost
    ///
    /// ℓ.
    #[must_use]
    pub fn near_run<B: Block>(&self, start: GlobalPtr<u8>, len: usize) -> Option<NearArray<B>> {
        let bytes = array_bytes::<B>(len)?;
        let base = self.direct_block(kinds::<B>(), start, (bytes, alignment::<B>()))?;
        Some(NearArray {
            bases: Box::new([Shared(base)]),
            world: self.clone(),
            len,
            block: PhantomData,
        })
    }
}

impl Team {
    /// As [`World::near_array`], for the members' segments alone. Blocks are named by the member's
    /// number in the team.
    ///
    /// # Cost
    ///
    /// ℓ, proportional to the number of members.
    ///
    /// # Panics
    ///
    /// If `len` is not 0 and `offset_bytes` is [`GlobalPtr::OFFSET_LIMIT`] or more.
    #[must_use]
    #[track_caller]
    pub fn near_array<B: Block>(&self, offset_bytes: u64, len: usize) -> Option<NearArray<B>> {
        let bytes = array_bytes::<B>(len)?;
        let align = alignment::<B>();
        let base = |rank| {
            let start = GlobalPtr::new(rank, offset_bytes);
            self.world()
                .direct_block(kinds::<B>(), start, (bytes, align))
                .map(Shared)
        };
        let bases: Box<[Shared]> = self.ranks().map(base).collect::<Option<_>>()?;
        Some(NearArray {
            bases,
            world: self.world().clone(),
            len,
            block: PhantomData,
        })
    }
}

impl<B: Block> NearArray<B> {
    /// The world whose segments hold the blocks.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Block `i` on the rank with number `rank`, in the world or in the team.
    ///
    /// # Panics
    ///
    /// If there is no such rank or block.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "two compares and an address")]
    #[track_caller]
    pub fn block(&self, rank: usize, i: usize) -> Near<'_, B> {
        let base = self.bases[rank];
        assert!(i < self.len, "no such block");
        // SAFETY: `i` is below `len`, as was just asserted.
        unsafe { self.nth(base, i) }
    }
}

impl<B: Block> NearArray<B> {
    /// Block `i` of those from `base` on.
    ///
    /// # Safety
    ///
    /// `base` is one of the bases, and `i` below `len`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "an address")]
    unsafe fn nth(&self, base: Shared, i: usize) -> Near<'_, B> {
        // SAFETY: the maker of the array found `len` blocks from each base on inside of one mapped
        // segment (`direct_block`), and the caller promises that `i` is one of them; so the product
        // does not wrap, and the place is in the segment. The array's world keeps the backend, and
        // that keeps the segment mapped (promise 1 of `Backend`), at least as long as `self` is
        // borrowed.
        let place = unsafe { base.0.add(i * B::BYTES) };
        Near {
            place,
            world: PhantomData,
            block: PhantomData,
        }
    }
}

/// The block responsible for a range of 64-bit numbers, such as hashes.
#[derive(Clone, Copy, Debug)]
pub struct Share<'w, B> {
    /// The number of the rank that has the block, in the world or in the team.
    pub rank: usize,
    /// The block's index on that rank.
    pub index: usize,
    /// The position of the number within the block's range, as a fraction of 2^64.
    pub rest: u64,
    /// The block.
    pub block: Near<'w, B>,
}

impl<B: Block> NearArray<B> {
    /// The block responsible for `number`: the ranks, and then the blocks of each rank, have equal
    /// ranges of all 64-bit numbers, in ascending order.
    ///
    /// A table distributes hashes over all blocks by this, with multiplications and without a
    /// branch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::rma::Block;
    /// # struct Word;
    /// # impl Block for Word {
    /// #     const BYTES: usize = 8;
    /// #     const ALIGN: usize = 8;
    /// # }
    /// # let world = pgas_core::backend::loopback::world();
    /// let words = world.alloc_symmetric::<u64>(10)?;
    /// if let Some(near) = world.near_array::<Word>(words.here().offset_bytes(), 10) {
    ///     let share = near.share(u64::MAX / 2);
    ///     assert_eq!((share.rank, share.index), (0, 4));
    ///     assert_eq!(share.block, near.block(0, 4));
    /// }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "two multiplications and an address")]
    pub fn share(&self, number: u64) -> Share<'_, B> {
        let (rank, rest) = fraction(number, self.bases.len());
        let (index, rest) = fraction(rest, self.len);
        // SAFETY: there is a base, since a job and a team have a rank, and `fraction` gives a
        // number below that of the bases.
        let base = unsafe { *self.bases.get_unchecked(rank) };
        // SAFETY: `fraction` gives a number below `len`, unless that is zero, which no array is
        // made with.
        let block = unsafe { self.nth(base, index) };
        Share {
            rank,
            index,
            rest,
            block,
        }
    }
}

/// Returns `number` / 2^64 of `n`, which is below `n` unless that is zero, and the remainder as a
/// fraction of 2^64.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a multiplication")]
#[expect(clippy::cast_possible_truncation, reason = "takes the halves")]
fn fraction(number: u64, n: usize) -> (usize, u64) {
    let product = u128::from(number) * n as u128;
    ((product >> 64) as usize, product as u64)
}

impl<B> fmt::Debug for NearArray<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "NearArray({} blocks on each of {} ranks)",
            self.len,
            self.bases.len()
        )
    }
}

impl<B: Block> Near<'_, B> {
    /// The place of a `T` at `offset`: within the mapped segment, and aligned for `T`, since both
    /// alignments are powers of two, that of the block is the greater one, and the offset is a
    /// multiple of that of `T`. It stays mapped while the world is borrowed.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code at all")]
    #[track_caller]
    fn part<T>(&self, offset: usize) -> Mapped<'_, T> {
        let fits = size_of::<T>() <= B::BYTES && offset <= B::BYTES - size_of::<T>();
        assert!(fits, "a part outside of its block");
        let aligned = offset.is_multiple_of(align_of::<T>()) && align_of::<T>() <= B::ALIGN;
        assert!(aligned, "a misaligned part of a block");
        // SAFETY: the assertion says that the part ends within the block, all of which lies within
        // one mapped segment.
        let place = unsafe { self.place.add(offset) };
        // SAFETY: the part lies within the mapped segment, and the assertions say that it is
        // aligned, as these docs explain. The world, which is borrowed, keeps the segment mapped.
        unsafe { Mapped::new(place, 1) }
    }

    /// Reads the value at `offset`; later accesses of this thread come after.
    ///
    /// # Panics
    ///
    /// If it is misaligned or not within the block.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one load")]
    #[track_caller]
    pub fn load<T: Pod>(&self, offset: usize) -> T {
        memory::load(self, offset)
    }

    /// Reads four words of four bytes from `offset` on, each of them atomically; later accesses of
    /// this thread come after.
    ///
    /// # Panics
    ///
    /// If they are not aligned to sixteen bytes, or not within the block.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one load")]
    #[track_caller]
    pub fn load_four(&self, offset: usize) -> FourWords {
        Memory::load_four(self, offset)
    }

    /// Writes the value at `offset`. A later release of this thread orders it.
    ///
    /// # Panics
    ///
    /// If it is misaligned or not within the block.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one store")]
    #[track_caller]
    pub fn store<T: Pod>(&self, offset: usize, value: T) {
        self.write(offset, value);
    }

    /// Performs `op` on the word at `offset` and returns the former value. Acquires and releases.
    ///
    /// # Panics
    ///
    /// If it is misaligned or not within the block; if `op` is bitwise and `T` a float, or `op` is
    /// [`AtomicOp::Add`] and `T` a [`Flag`](crate::atomics::Flag).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "op is a constant in most callers")]
    #[track_caller]
    pub fn fetch_op<T: Atomic>(&self, offset: usize, op: AtomicOp, operand: T) -> T {
        T::from_bits(self.part::<T>(offset).fetch(call(op, operand)))
    }

    /// Replaces the word at `offset` by `new` if it is `current`; returns the former value, as `Ok`
    /// if it was replaced. Acquires and releases.
    ///
    /// # Cost
    ///
    /// A, by one instruction.
    ///
    /// # Errors
    ///
    /// The word's value, if it is not `current`.
    ///
    /// # Panics
    ///
    /// If it is misaligned or not within the block.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one instruction")]
    #[track_caller]
    pub fn compare_exchange<T: Atomic>(&self, offset: usize, current: T, new: T) -> Result<T, T> {
        let swapped = self.part::<T>(offset).compare_swap(swap_call(current, new));
        swapped.map(T::from_bits).map_err(T::from_bits)
    }

    /// Says that this thread reads `bytes` bytes of the block: a step R, if it is
    /// [counted](Counted).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code, or an addition")]
    pub fn note_read(&self, bytes: usize) {
        if B::IS_COUNTED {
            steps::note(CostKind::Read, bytes);
        }
    }

    /// As [`note_read`](Self::note_read), of a write: W.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code, or an addition")]
    pub fn note_write(&self, bytes: usize) {
        if B::IS_COUNTED {
            steps::note(CostKind::Write, bytes);
        }
    }

    /// As [`note_read`](Self::note_read), of an access to a word that others change, whether by one
    /// atomic or by a look that spares it: A.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "no code, or an addition")]
    pub fn note_atomic(&self, bytes: usize) {
        if B::IS_COUNTED {
            steps::note(CostKind::Atomic, bytes);
        }
    }

    /// Asks the memory system for the cache line of the byte at `offset`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one instruction")]
    pub fn prefetch(&self, offset: usize) {
        copy::prefetch(self.place.as_ptr().wrapping_add(offset));
    }
}

impl<B: Block> Memory for Near<'_, B> {
    type Four = FourWords;

    #[inline(always)]
    #[track_caller]
    fn word32(&self, offset: usize) -> &AtomicU32 {
        let place = self.part::<u32>(offset).address();
        // SAFETY: `part` gives a place that is readable, writable and aligned for four bytes, for
        // as long as the world is borrowed, which is longer than `self`. Others access segments
        // only by the atomics and racing copies of `raw`, so no access that is not atomic meets the
        // reference.
        unsafe { AtomicU32::from_ptr(place.as_ptr()) }
    }

    #[inline(always)]
    #[track_caller]
    fn word64(&self, offset: usize) -> &AtomicU64 {
        let place = self.part::<u64>(offset).address();
        // SAFETY: as for `word32`, with eight bytes.
        unsafe { AtomicU64::from_ptr(place.as_ptr()) }
    }

    #[inline(always)]
    #[track_caller]
    fn load_four(&self, offset: usize) -> FourWords {
        let is_aligned = B::ALIGN >= 16 && offset.is_multiple_of(16);
        assert!(is_aligned, "a misaligned part of a block");
        let place = self.part::<[u64; 2]>(offset).address();
        // SAFETY: `part` gives sixteen readable bytes. They are aligned to sixteen: the block is,
        // by the assertion on its alignment, a power of two, and so is the offset.
        FourWords(unsafe { copy::load_sixteen(place.as_ptr().cast()) })
    }
}

impl<T: Pod, B: Block> Part<T> for Near<'_, B> {
    #[inline(always)]
    #[track_caller]
    fn read(&self, offset: usize) -> T {
        self.part::<T>(offset).read()
    }

    #[inline(always)]
    #[track_caller]
    fn write(&self, offset: usize, value: T) {
        self.part::<T>(offset).store(value);
    }
}

impl<B> Clone for Near<'_, B> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Near<'_, B> {}

impl<B> PartialEq for Near<'_, B> {
    /// Whether the two are one block of memory.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl<B> Eq for Near<'_, B> {}

impl<B> fmt::Debug for Near<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Near({:?})", self.place)
    }
}
