//! A Bloom filter over the memory of all ranks.
//!
//! ```text
//! hash of the item  -->  one block of 64 (or 512) bits  -->  a few bits in it
//! ```
//!
//! All bits of an item lie in one block, so that a query is one read, and an insert into a block of
//! one word is one atomic *or*. Bits are only ever set. So a block that is read while others insert
//! has all bits of the inserts before, and some of theirs, whatever parts of it the network
//! delivers first.

#[cfg(test)]
mod tests;
mod theory;

use std::fmt;
use std::marker::PhantomData;

use pgas_core::backend::AtomicOp;
use pgas_core::rma::{Block, Counted, NearArray};
use pgas_core::stats::Operation;
use pgas_core::{AsTeam, GlobalPtr, Performing, Symmetric, Team, World};

use crate::error::{Extremes, extremes, same, same_number};
use crate::object::{self, Object, mix};
use crate::scattered::{self, Act, Served};
use crate::{Error, Result, prices};

/// A set of items with false positives: it may claim to hold items that were never inserted.
///
/// It is made for an expected number of items and a rate of false positives: the share of queries
/// for absent items that succeed once that many items are in it. Items that are there are always
/// found. Nothing can be taken out of it.
///
/// `WORDS` is the number of 64-bit words in a block: 1, or 8 for [`WideBloomFilter`], which needs
/// less memory for the same rate (9.9 instead of 12.1 bits an item at a rate of 1 %), while an
/// insert takes an atomic for each of its bits.
///
/// All threads of a rank may share one handle.
///
/// # Examples
///
/// ```
/// use pgas_containers::BloomFilter;
///
/// # let world = pgas_core::backend::loopback::world();
/// let seen = BloomFilter::<u64>::with_rate(&world, 1000, 0.01)?; // collective
/// assert!(!seen.insert(&42)?); // it was not there
/// assert!(seen.insert(&42)?);
/// assert!(seen.contains(&42)?);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// Batches, properties of a filter, and its clearing:
///
/// ```
/// use pgas_containers::BloomFilter;
///
/// # let world = pgas_core::backend::loopback::world();
/// let seen = BloomFilter::<u64>::with_rate(&world, 1000, 0.01)?; // collective
/// assert_eq!(seen.insert_many(&[1, 2, 1])?, [false, false, true]);
/// assert_eq!(seen.contains_many(&[2, 1])?, [true, true]);
/// assert!(seen.rate() <= 0.01 && seen.n_bits() > 1 && seen.bytes() > 1000);
/// seen.clear()?; // collective
/// assert_eq!(seen.contains_many(&[2, 1])?, [false, false]);
/// assert_eq!(seen.world().n_ranks(), seen.team().n_ranks());
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct BloomFilter<T, const WORDS: usize = 1> {
    blocks: Symmetric<u64>,
    /// The offset of the first block in every rank's segment.
    start: u64,
    n_blocks: u64,
    blocks_per_rank: u64,
    /// Bits that an item sets.
    n_bits: u32,
    rate: f64,
    /// All blocks, if this process reaches them by its own instructions.
    local_blocks: Option<NearArray<BlockOf<WORDS>>>,
    /// The same where operations are counted.
    counted_blocks: Option<NearArray<Counted<BlockOf<WORDS>>>>,
    /// The object that requests of other ranks name, if ranks serve requests.
    served: Option<Served>,
    item: PhantomData<fn() -> T>,
}

/// A Bloom filter whose blocks are cache lines: for low rates, and less memory.
pub type WideBloomFilter<T> = BloomFilter<T, 8>;

/// A block of `WORDS` words.
struct BlockOf<const WORDS: usize>;

impl<const WORDS: usize> Block for BlockOf<WORDS> {
    const BYTES: usize = 8 * WORDS;
    const ALIGN: usize = 8 * WORDS;
}

/// The position of an item: its block, and its bits there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item<const WORDS: usize> {
    /// The number of the member that has it.
    rank: u32,
    /// The index of the block on that rank.
    local: usize,
    mask: [u64; WORDS],
}

impl<const WORDS: usize> Item<WORDS> {
    /// Whether the item's bits are set in its block.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "most of a query")]
    fn is_in(&self, words: &[u64; WORDS]) -> bool {
        let both = words.iter().zip(&self.mask);
        both.fold(true, |all, (word, mask)| all & (word & mask == *mask))
    }

    /// Whether its bits are set, by this process's own instructions.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "most of a query")]
    fn is_within<B: Block>(&self, blocks: &NearArray<B>) -> bool {
        let block = blocks.block(self.rank as usize, self.local);
        block.note_read(8 * WORDS);
        let words: [u64; WORDS] = std::array::from_fn(|i| block.load(8 * i));
        self.is_in(&words)
    }

    /// Sets its bits by this process's own instructions. Returns whether all were set before. Bits
    /// that are set are not written: nobody clears bits while others insert.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "most of an insert")]
    fn insert<B: Block>(&self, blocks: &NearArray<B>) -> bool {
        let block = blocks.block(self.rank as usize, self.local);
        let mut was_there = true;
        for (i, mask) in bits(&self.mask) {
            block.note_atomic(8);
            if B::IS_COUNTED {
                tell_fill(blocks.world(), block.load(8 * i));
            }
            let set = |op, operand| -> bool {
                let former: u64 = block.fetch_op(8 * i, op, operand);
                former & mask == mask
            };
            was_there &= set(AtomicOp::Load, 0) || set(AtomicOp::Or, mask);
        }
        was_there
    }
}

/// The bits of an item, word by word.
#[inline]
fn bits<const WORDS: usize>(mask: &[u64; WORDS]) -> impl Iterator<Item = (usize, u64)> {
    let words = mask.iter().copied().enumerate();
    words.filter(|(_, mask)| *mask != 0)
}

/// Tells the statistics how full a word is. Items are at random words, so these words are a sample
/// of how full the filter is.
fn tell_fill(world: &World, word: u64) {
    world.fills(&prices::BLOOM_FILTER_INSERT, word.count_ones().into(), 64);
}

/// Sets bits of a block. Returns whether all were set before.
fn insert_at<const WORDS: usize>(
    world: &World,
    block: GlobalPtr<u64>,
    mask: &[u64; WORDS],
) -> Result<bool> {
    let mut was_there = true;
    for (i, mask) in bits(mask) {
        let former = block.add(i).fetch_or(world, mask)?;
        tell_fill(world, former);
        was_there &= former & mask == mask;
    }
    Ok(was_there)
}

/// The operation that the rank with an item's block performs.
struct Insert<const WORDS: usize>;

impl<const WORDS: usize> Act for Insert<WORDS> {
    type Given = [u64; WORDS];
    type Answer = u8;
    const IS_ORDERED: bool = true;

    fn act(world: &World, block: GlobalPtr<u8>, mask: [u64; WORDS]) -> Result<u8> {
        insert_at(world, block.cast(), &mask).map(u8::from)
    }
}

/// The bits of a word of [`wish`] that are the bits an item sets. The others are the blocks.
const BITS: u32 = 5;

/// What the ranks tell each other: the arguments of a filter, and the shape that this rank has
/// computed for them, or zeros.
fn wish(n: usize, rate: f64, shape: Option<theory::Shape>) -> [u64; 4] {
    let [blocks_and_bits, true_rate] = shape.map_or([0; 2], |shape| {
        let n_blocks = shape.n_blocks.min(u64::MAX >> BITS);
        [
            n_blocks << BITS | u64::from(shape.n_bits),
            shape.rate.to_bits(),
        ]
    });
    [n as u64, rate.to_bits(), blocks_and_bits, true_rate]
}

/// The shape that all ranks take: the largest that one has computed. The mathematical functions of
/// two systems may differ in the last bit of a result, and so may the number of blocks.
fn agreed_shape(
    [_, (_, blocks_and_bits)]: Extremes,
    [_, (_, rate)]: Extremes,
) -> Option<theory::Shape> {
    let n_bits = blocks_and_bits & ((1 << BITS) - 1);
    (blocks_and_bits != 0).then(|| theory::Shape {
        n_bits: u32::try_from(n_bits).expect("a few bits"),
        n_blocks: blocks_and_bits >> BITS,
        rate: f64::from_bits(rate),
    })
}

impl<T: Object, const WORDS: usize> BloomFilter<T, WORDS> {
    /// A filter for `n` items: with these in it, the share `rate` of queries for absent items
    /// returns true.
    ///
    /// # Cost
    ///
    /// B + 2 allreduces. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Argument`] if `n` is 0, or `rate` is not between 0 and 1 or too low
    /// for any filter with such blocks and hashes of 64 bits; [`Error::Mismatch`] if the ranks give
    /// different arguments; [`Exhausted`](pgas_core::Error::Exhausted) if the symmetric heap has no
    /// room.
    #[track_caller]
    pub fn with_rate(on: &impl AsTeam, n: usize, rate: f64) -> Result<Self> {
        const {
            assert!(
                WORDS == 1 || WORDS == 8,
                "a block is a word or a cache line"
            );
        };
        let team = &on.as_team();
        let is_rate = rate > 0.0 && rate < 1.0;
        let shape = if n > 0 && is_rate {
            theory::shape(64 * WORDS, n as u64, rate)
        } else {
            None
        };
        let [of_n, of_rate, of_shape, of_true_rate] = extremes(team, wish(n, rate, shape))?;
        same("the number of items of a Bloom filter", of_n)?;
        same_number("the rate of a Bloom filter", of_rate)?;
        let Some(shape) = agreed_shape(of_shape, of_true_rate) else {
            let bits = 64 * WORDS;
            let text = format!(
                "no Bloom filter with blocks of {bits} bits has a rate of {rate:?} with {n} items"
            );
            return Err(Error::Argument(text.into()));
        };
        Self::of_shape(team, shape)
    }

    /// Collective.
    #[track_caller]
    fn of_shape(team: &Team, shape: theory::Shape) -> Result<Self> {
        let n_ranks = u64::from(team.n_ranks());
        let blocks_per_rank = shape.n_blocks.div_ceil(n_ranks);
        let local = usize::try_from(blocks_per_rank).unwrap_or(usize::MAX);
        let words = local.saturating_mul(WORDS).saturating_add(WORDS - 1);
        let blocks = team.alloc_symmetric::<u64>(words)?;
        let start = blocks
            .here()
            .offset_bytes()
            .next_multiple_of(8 * WORDS as u64);
        Ok(Self {
            local_blocks: team.near_array(start, local),
            counted_blocks: team.near_array(start, local),
            served: scattered::serve(team),
            blocks,
            start,
            n_blocks: shape.n_blocks,
            blocks_per_rank,
            n_bits: shape.n_bits,
            rate: shape.rate,
            item: PhantomData,
        })
    }

    /// Inserts `item`. Returns whether it was there, or seemed to be.
    ///
    /// In a filter with blocks of one word this is atomic: of all inserts of one item, at most the
    /// first one returns false. In a [`WideBloomFilter`] all those that overlap with the first one
    /// may.
    ///
    /// # Cost
    ///
    /// A; in a [`WideBloomFilter`] A for each word in which the item has bits, at most
    /// [`n_bits`](Self::n_bits). One-sided; or M, where [ranks serve
    /// atomics](pgas_core::backend::Capabilities::ranks_serve_atomics). Complete at the target on
    /// return.
    ///
    /// # Errors
    ///
    /// Errors of the transport; [`Error::Codec`] if the item cannot be encoded.
    #[inline]
    pub fn insert(&self, item: &T) -> Result<bool> {
        let item = self.locate(object::hash_of(item)?);
        match &self.local_blocks {
            Some(local_blocks) => Ok(item.insert(local_blocks)),
            None => self.insert_elsewhere(&item),
        }
    }

    /// [Inserts](Self::insert) all of `items`, in their order. Returns for each whether it was
    /// there, or seemed to be.
    ///
    /// In shared memory the waits for memory overlap. If the filter is larger than the processor's
    /// caches, this is several times as fast as single inserts.
    ///
    /// # Cost
    ///
    /// That of an [`insert`](Self::insert) for each item, one-sided; or M for each rank and some
    /// thousand items. Complete at the targets on return.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert); then some of the items are in the filter.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::BloomFilter;
    /// # let world = pgas_core::backend::loopback::world();
    /// let seen = BloomFilter::<u64>::with_rate(&world, 1000, 1e-6)?;
    /// assert_eq!(seen.insert_many(&[3, 5, 3])?, [false, false, true]);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn insert_many(&self, items: &[T]) -> Result<Vec<bool>> {
        if let Some(blocks) = &self.local_blocks {
            return self.for_each(items, blocks, |item| item.insert(blocks));
        }
        let mut performing = self.performs(&prices::BLOOM_FILTER_INSERT_MANY, items.len());
        let answers = self.insert_many_elsewhere(items)?;
        performing.miss(answers.iter().filter(|was_there| **was_there).count());
        Ok(answers)
    }

    fn insert_many_elsewhere(&self, items: &[T]) -> Result<Vec<bool>> {
        if let Some(blocks) = &self.counted_blocks {
            return self.for_each(items, blocks, |item| item.insert(blocks));
        }
        let Some(served) = scattered::asked(self.served.as_ref()) else {
            let insert = |item: &Item<WORDS>| insert_at(self.world(), self.block(item), &item.mask);
            return self.locate_all(items)?.iter().map(insert).collect();
        };
        let located = self.locate_all(items)?;
        let given = located
            .iter()
            .map(|item| (self.block(item).cast(), item.mask));
        let mut answers = vec![false; items.len()];
        scattered::travel::<Insert<WORDS>>(served, given, |i, was_there| {
            answers[i] = match was_there {
                Some(was_there) => was_there != 0,
                None => insert_at(self.world(), self.block(&located[i]), &located[i].mask)?,
            };
            Ok(())
        })?;
        Ok(answers)
    }

    #[inline(never)]
    fn insert_elsewhere(&self, item: &Item<WORDS>) -> Result<bool> {
        if let Some(blocks) = &self.counted_blocks {
            let was_there = self.world().perform_near(
                &prices::BLOOM_FILTER_INSERT,
                1,
                || item.insert(blocks),
                |was_there| (*was_there).into(),
            );
            return Ok(was_there);
        }
        let mut performing = self.performs(&prices::BLOOM_FILTER_INSERT, 1);
        let block = self.block(item);
        let asked = scattered::one::<Insert<WORDS>>(self.served.as_ref(), block.cast(), item.mask)?;
        let was_there = match asked {
            Some(was_there) => was_there != 0,
            None => insert_at(self.world(), block, &item.mask)?,
        };
        performing.miss(was_there.into());
        Ok(was_there)
    }

    fn performs(&self, operation: &'static Operation, n: usize) -> Performing<'_> {
        self.world().performs(operation, n)
    }

    fn locate_all(&self, items: &[T]) -> Result<Vec<Item<WORDS>>> {
        let locate = |item| Ok(self.locate(object::hash_of(item)?));
        items.iter().map(locate).collect()
    }

    /// The results of `one` for all items. Blocks are prefetched some items ahead.
    #[inline]
    fn for_each<B: Block>(
        &self,
        items: &[T],
        blocks: &NearArray<B>,
        one: impl Fn(&Item<WORDS>) -> bool,
    ) -> Result<Vec<bool>> {
        /// Items in one group: as many as the cache lines that a processor fetches at once, and
        /// some more, which are in its caches.
        const AHEAD: usize = 32;
        let mut answers = Vec::with_capacity(items.len());
        let mut located = Vec::with_capacity(AHEAD);
        for items in items.chunks(AHEAD) {
            located.clear();
            for item in items {
                let item = self.locate(object::hash_of(item)?);
                blocks.block(item.rank as usize, item.local).prefetch(0);
                located.push(item);
            }
            self.world()
                .count_steps(|| answers.extend(located.iter().map(&one)));
        }
        Ok(answers)
    }

    /// Whether `item` was inserted; sometimes true for one that was not.
    ///
    /// # Cost
    ///
    /// R. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport; [`Error::Codec`] if the item cannot be encoded.
    #[inline]
    pub fn contains(&self, item: &T) -> Result<bool> {
        self.has(&self.locate(object::hash_of(item)?))
    }

    /// For each of `items`, whether the filter [contains](Self::contains) it. In shared memory the
    /// waits for memory overlap, as in [`insert_many`](Self::insert_many).
    ///
    /// # Cost
    ///
    /// That of [`contains`](Self::contains) for each item, all in flight together, one-sided; or M
    /// for each rank and some thousand items.
    ///
    /// # Errors
    ///
    /// As [`contains`](Self::contains).
    pub fn contains_many(&self, items: &[T]) -> Result<Vec<bool>> {
        if let Some(blocks) = &self.local_blocks {
            return self.for_each(items, blocks, |item| item.is_within(blocks));
        }
        let mut performing = self.performs(&prices::BLOOM_FILTER_CONTAINS_MANY, items.len());
        let answers = self.contains_many_elsewhere(items)?;
        performing.miss(answers.iter().filter(|is_there| !**is_there).count());
        Ok(answers)
    }

    fn contains_many_elsewhere(&self, items: &[T]) -> Result<Vec<bool>> {
        if let Some(blocks) = &self.counted_blocks {
            return self.for_each(items, blocks, |item| item.is_within(blocks));
        }
        let located = self.locate_all(items)?;
        let blocks = located.iter().map(|item| self.block(item).cast());
        let blocks: Vec<GlobalPtr<[u64; WORDS]>> = blocks.collect();
        let words = scattered::get(self.served.as_ref(), self.world(), &blocks)?;
        let both = located.iter().zip(words);
        Ok(both.map(|(item, words)| item.is_in(&words)).collect())
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a query")]
    fn has(&self, item: &Item<WORDS>) -> Result<bool> {
        let Some(local_blocks) = &self.local_blocks else {
            return self.has_elsewhere(item);
        };
        Ok(item.is_within(local_blocks))
    }

    #[inline(never)]
    fn has_elsewhere(&self, item: &Item<WORDS>) -> Result<bool> {
        if let Some(blocks) = &self.counted_blocks {
            let is_there = self.world().perform_near(
                &prices::BLOOM_FILTER_CONTAINS,
                1,
                || item.is_within(blocks),
                |is_there| (!is_there).into(),
            );
            return Ok(is_there);
        }
        let mut performing = self.performs(&prices::BLOOM_FILTER_CONTAINS, 1);
        let block = self.block(item).cast::<[u64; WORDS]>();
        let words = block.get(self.world())?;
        let is_there = item.is_in(&words);
        performing.miss((!is_there).into());
        Ok(is_there)
    }

    /// A number that identifies this filter, the same on all ranks.
    pub(crate) fn identity(&self) -> u64 {
        self.blocks.member(0).to_bits()
    }

    /// Removes all items.
    ///
    /// # Cost
    ///
    /// 2B + an allreduce, and ℓ for each word of this rank's part. Collective over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    #[track_caller]
    pub fn clear(&self) -> Result<()> {
        const ZEROS: [u64; 1024] = [0; 1024];
        let _waits = pgas_core::part_of_object("a clear of a filter", self.identity());
        let (world, team) = (self.world(), self.team());
        team.barrier_within()?;
        let zero = || -> Result<()> {
            let mut at = 0;
            while at < self.blocks.len() {
                let n = ZEROS.len().min(self.blocks.len() - at);
                let here = self.blocks.here().add(at);
                here.put_slice(world, &ZEROS[..n])?;
                at += n;
            }
            Ok(())
        };
        team.all_succeeded("clearing a Bloom filter", zero())?;
        team.barrier_within()
    }

    /// The predicted rate of false positives with the expected number of items in the filter: at
    /// most the rate that was asked for.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The number of bits that an item sets. Some of them may coincide.
    #[must_use]
    pub fn n_bits(&self) -> u32 {
        self.n_bits
    }

    /// The size of the filter over all ranks, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.n_blocks * 8 * WORDS as u64
    }

    /// The world whose segments hold the filter.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &World {
        self.blocks.world()
    }

    /// The team whose members share the filter: all ranks if it was made on the world.
    #[must_use]
    #[inline]
    pub fn team(&self) -> &Team {
        self.blocks.team()
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "most of an insert or a query")]
    fn locate(&self, hash: u64) -> Item<WORDS> {
        // The upper half of a product maps the hash evenly onto the blocks.
        let block = (u128::from(hash) * u128::from(self.n_blocks)) >> 64;
        let block = block as u64;
        let (rank, local) = (block / self.blocks_per_rank, block % self.blocks_per_rank);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a rank, and an index into memory"
        )]
        let (rank, local) = (rank as u32, local as usize);
        let mask = mask(hash, self.n_bits);
        Item { rank, local, mask }
    }

    /// The numbers that a checkpoint stores of the filter's shape.
    pub(crate) fn saved_shape(&self) -> [u64; 3] {
        [self.n_blocks, self.n_bits.into(), self.rate.to_bits()]
    }

    /// An empty filter of a shape that was saved. Collective.
    #[track_caller]
    pub(crate) fn of_saved_shape(team: &Team, [blocks, bits, rate]: [u64; 3]) -> Result<Self> {
        let n_bits = u32::try_from(bits)
            .ok()
            .filter(|bits| (1..=64).contains(bits));
        let rate = f64::from_bits(rate);
        let (Some(n_bits), true) = (n_bits, blocks > 0 && rate > 0.0 && rate < 1.0) else {
            let text = format!(
                "no Bloom filter has {blocks} blocks, {bits} bits an item and a rate of {rate}"
            );
            return Err(Error::Argument(text.into()));
        };
        Self::of_shape(
            team,
            theory::Shape {
                n_blocks: blocks,
                n_bits,
                rate,
            },
        )
    }

    /// The first block of a member.
    fn part(&self, member: u32) -> GlobalPtr<u64> {
        let first = self.blocks.member(member);
        first.byte_add(self.start - first.offset_bytes())
    }

    /// The words of this rank's blocks.
    pub(crate) fn local_words(&self) -> Result<Vec<u64>> {
        let world = self.world();
        let first = u64::from(self.team().rank()) * self.blocks_per_rank;
        let n = self
            .n_blocks
            .saturating_sub(first)
            .min(self.blocks_per_rank);
        let n = usize::try_from(n).expect("blocks lie in memory") * WORDS;
        GlobalPtr::new(world.rank(), self.start).get_vec(world, n)
    }

    /// Sets the bits of word `i` of the whole filter.
    pub(crate) fn restore(&self, i: usize, word: u64) -> Result<()> {
        if word == 0 {
            return Ok(());
        }
        let (block, within) = ((i / WORDS) as u64, i % WORDS);
        let member = u32::try_from(block / self.blocks_per_rank).expect("a rank's number");
        let local = usize::try_from(block % self.blocks_per_rank).expect("blocks lie in memory");
        let at = self.part(member).add(local * WORDS + within);
        at.fetch_or(self.world(), word).map(drop)
    }

    fn block(&self, item: &Item<WORDS>) -> GlobalPtr<u64> {
        self.part(item.rank).add(item.local * WORDS)
    }
}

/// The bits of an item in its block: `n_bits` independent choices, as the theory assumes.
#[inline(always)]
#[expect(clippy::inline_always, reason = "most of an insert or a query")]
fn mask<const WORDS: usize>(hash: u64, n_bits: u32) -> [u64; WORDS] {
    let (per_choice, choices) = if WORDS == 1 { (6, 10) } else { (9, 7) };
    let mut mask = [0; WORDS];
    let mut left = 0;
    let (mut random, mut seed) = (0, hash);
    for _ in 0..n_bits {
        if left == 0 {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            (random, left) = (mix(seed), choices);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most nine bits")]
        let bit = random as usize & (64 * WORDS - 1);
        mask[bit / 64] |= 1_u64 << (bit % 64);
        random >>= per_choice;
        left -= 1;
    }
    mask
}

impl<T, const WORDS: usize> fmt::Debug for BloomFilter<T, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n_blocks, n_bits, width) = (self.n_blocks, self.n_bits, 64 * WORDS);
        write!(
            f,
            "BloomFilter({n_blocks} blocks of {width} bits, {n_bits} bits an item)"
        )
    }
}
