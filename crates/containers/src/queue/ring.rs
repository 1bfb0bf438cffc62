//! The slots of a queue and its words, in one block of its host's segment.
//!
//! ```text
//! | tail | published | head | consumed | slots ... | marks ... |
//!   128    128         128    128 bytes
//! ```

use std::cell::{RefCell, RefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_am::DistObject;
use pgas_core::rma::{Block, Counted, NearArray};
use pgas_core::{GlobalPtr, InPhase, Pod, Rank, Symmetric, Team, World};

use super::phase::Phase;
use super::ticket::{Seen, Side, Size, Tickets, Word};
use crate::error::agree;
use crate::object::{Heap, Object, SlotOf};
use crate::team::{TeamMember, check_host};
use crate::{Error, Result, prices};

/// Bytes between words that different ranks change: two cache lines, which are fetched in pairs.
const LINE: usize = 128;

/// The four words.
pub(super) struct Control;

impl Block for Control {
    const BYTES: usize = 4 * LINE;
    const ALIGN: usize = LINE;
}

/// One slot.
pub(super) struct SlotBlock<S>(std::marker::PhantomData<fn() -> S>);

impl<S> Block for SlotBlock<S> {
    const BYTES: usize = size_of::<S>();
    const ALIGN: usize = align_of::<S>();
}

/// The words and slots of a queue that this process reaches by its own instructions, looked up
/// once: words in a block of type `C`, and each slot in one of type `B`.
pub(super) struct LocalRing<C, B> {
    pub(super) control: NearArray<C>,
    pub(super) slots: NearArray<B>,
}

/// A queue of slots of type `S` by instructions that nobody counts, or that are counted.
pub(super) type PlainRing<S> = LocalRing<Control, SlotBlock<S>>;
pub(super) type CountedRing<S> = LocalRing<Counted<Control>, Counted<SlotBlock<S>>>;

impl<C: Block, B: Block> LocalRing<C, B> {
    fn of(world: &World, place: QueueBlock) -> Option<Self> {
        let n_slots = usize::try_from(place.size.n_slots()).ok()?;
        let first = place.block.byte_add(place.slots_at);
        Some(Self {
            control: world.near_run(place.block, 1)?,
            slots: world.near_run(first, n_slots)?,
        })
    }

    /// Writes slot `i` (W).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a store")]
    pub(super) fn write<S: Pod>(&self, i: usize, slot: S) {
        let near = self.slots.block(0, i);
        near.note_write(size_of::<S>());
        near.store(0, slot);
    }

    /// Reads slot `i` (R).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a load")]
    pub(super) fn read<S: Pod>(&self, i: usize) -> S {
        let near = self.slots.block(0, i);
        near.note_read(size_of::<S>());
        near.load(0)
    }
}

impl Control {
    pub(super) const fn offset(word: Word) -> usize {
        LINE * match word {
            Word::Tail => 0,
            Word::Published => 1,
            Word::Head => 2,
            Word::Consumed => 3,
        }
    }
}

/// The location and layout of a queue's block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueBlock {
    pub(crate) block: GlobalPtr<u8>,
    pub(crate) size: Size,
    /// The offset of the slots in the block.
    slots_at: u64,
}

impl QueueBlock {
    /// A block for slots of type `S`.
    pub(crate) const fn new<S>(block: GlobalPtr<u8>, size: Size) -> Self {
        Self {
            block,
            size,
            slots_at: slots_at::<S>() as u64,
        }
    }

    pub(super) fn word(&self, word: Word) -> GlobalPtr<u64> {
        self.block.byte_add(Control::offset(word) as u64).cast()
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "an addition")]
    pub(super) fn slots<S>(&self) -> GlobalPtr<S> {
        self.block.byte_add(self.slots_at).cast()
    }

    /// Sets the four words. No other rank may access the queue.
    pub(super) fn set_words(&self, world: &World, head: u64, tail: u64) -> Result<()> {
        let words = [
            (Word::Tail, tail),
            (Word::Published, tail),
            (Word::Head, head),
            (Word::Consumed, head),
        ];
        for (word, value) in words {
            self.word(word).atomic_store(world, value)?;
        }
        Ok(())
    }

    /// The slots of tickets: a pointer to the first one, and the number of slots before they wrap
    /// around.
    fn parts<S>(&self, tickets: Tickets) -> (GlobalPtr<S>, usize) {
        let slot = self.size.slot(tickets.first);
        let before_end = tickets.n.min(self.size.n_slots() - slot);
        (self.slots().add(index(slot)), index(before_end))
    }

    /// Writes the slots of `tickets` (W, 2W where they go on at the first slot).
    pub(crate) fn write<S: Pod>(&self, world: &World, tickets: Tickets, slots: &[S]) -> Result<()> {
        let (at, n) = self.parts(tickets);
        at.put_slice(world, &slots[..n])?;
        if n < slots.len() {
            self.slots().put_slice(world, &slots[n..])?;
        }
        Ok(())
    }

    /// Reads the slots of `tickets` (R, 2R where they go on at the first slot).
    pub(crate) fn read<S: Pod>(
        &self,
        world: &World,
        tickets: Tickets,
        out: &mut [S],
    ) -> Result<()> {
        let (at, n) = self.parts(tickets);
        let (before_end, from_start) = out.split_at_mut(n);
        at.get_slice(world, before_end)?;
        if !from_start.is_empty() {
            self.slots().get_slice(world, from_start)?;
        }
        Ok(())
    }

    /// The marks, behind slots of `slot_bytes`.
    pub(super) fn marks(&self, slot_bytes: usize) -> GlobalPtr<u64> {
        let slots = (self.size.n_slots() * slot_bytes as u64).next_multiple_of(8);
        self.block.byte_add(self.slots_at + slots).cast()
    }
}

/// The bounds that one side of this rank has seen, on a cache line of its own, since threads share
/// it. They are lower bounds, so one thread may overwrite those of another.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct SharedSeen {
    taken: AtomicU64,
    limit: AtomicU64,
}

impl SharedSeen {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "two loads")]
    pub(super) fn get(&self) -> Seen {
        // Relaxed: bounds order nothing. Reads and writes under a ticket are ordered by the queue's
        // words.
        Seen {
            taken: self.taken.load(Ordering::Relaxed),
            limit: self.limit.load(Ordering::Relaxed),
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "two stores")]
    pub(super) fn set(&self, seen: Seen) {
        self.taken.store(seen.taken, Ordering::Relaxed);
        self.limit.store(seen.limit, Ordering::Relaxed);
    }

    /// Notes for both sides where pops and pushes are.
    pub(super) fn see(push: &Self, pop: &Self, head: u64, tail: u64) {
        push.set(Seen {
            taken: tail,
            limit: head,
        });
        pop.set(Seen {
            taken: head,
            limit: tail,
        });
    }
}

/// A queue on which its host performs operations for other ranks, and the bounds that it has seen
/// for them.
pub(super) struct Hosted {
    pub(super) place: QueueBlock,
    pub(super) push: SharedSeen,
    pub(super) pop: SharedSeen,
}

pub(super) type Served = DistObject<Hosted>;

impl Hosted {
    /// The queue at `place` with slots of type `S`, where ranks serve each other. Collective.
    fn at<S>(team: &Team, place: QueueBlock) -> Option<Served> {
        if size_of::<S>() == 0 || !team.world().capabilities().ranks_serve_atomics() {
            return None;
        }
        let hosted = Self {
            place,
            push: SharedSeen::default(),
            pop: SharedSeen::default(),
        };
        // To a world without messages none was attached, on all ranks.
        DistObject::new(team, hosted).ok()
    }
}

/// The largest capacity: a mark has 32 bits for a number of tickets.
const LARGEST: u64 = 1 << 31;

/// A queue without its phase.
pub(crate) struct Ring<T: Object> {
    /// An unused word on each rank. Its memory is released when no rank has the queue any more, and
    /// so is the host's block.
    handle: Symmetric<u64>,
    pub(super) heap: Heap,
    pub(super) place: QueueBlock,
    pub(super) local: Option<PlainRing<SlotOf<T>>>,
    pub(super) counted: Option<CountedRing<SlotOf<T>>>,
    /// The queue as its host works on it for others, where ranks serve each other.
    pub(super) served: Option<Served>,
    /// Whether slots have marks.
    has_marks: bool,
    push: SharedSeen,
    pop: SharedSeen,
    element: std::marker::PhantomData<fn() -> T>,
    /// In traces.
    pub(super) phase: InPhase,
}

impl<T: Object> Ring<T> {
    /// A number that identifies this queue, the same on all ranks.
    pub(super) fn identity(&self) -> u64 {
        self.handle.member(0).to_bits()
    }

    /// Collective, on member `host`, in the phase `P`. Tickets begin at `first`.
    #[track_caller]
    pub(super) fn new<P: Phase>(
        team: &Team,
        host: u32,
        capacity: usize,
        has_marks: bool,
        first: u64,
    ) -> Result<Self> {
        let world = team.world();
        let size = agreed_size(team, host, capacity)?;
        let handle = team.alloc_symmetric(1)?;
        let heap = Heap::of::<T>(team)?;
        let place = allocate::<T>(team, host, size, has_marks, |place| {
            place.set_words(world, first, first)
        })?;
        let ring = Self {
            phase: world.phase("queue", handle.member(0).to_bits(), P::NAME),
            handle,
            heap,
            local: LocalRing::of(world, place),
            counted: LocalRing::of(world, place),
            served: Hosted::at::<SlotOf<T>>(team, place),
            place,
            has_marks,
            push: SharedSeen::default(),
            pop: SharedSeen::default(),
            element: std::marker::PhantomData,
        };
        ring.see(first, first);
        team.barrier_within()?;
        Ok(ring)
    }

    #[inline]
    pub(super) fn world(&self) -> &World {
        self.handle.world()
    }

    #[inline]
    pub(super) fn team(&self) -> &Team {
        self.handle.team()
    }

    #[inline]
    pub(super) fn host(&self) -> Rank {
        self.place.block.rank()
    }

    pub(super) fn capacity(&self) -> usize {
        usize::try_from(self.place.size.capacity).expect("it was given as a usize")
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "two loads")]
    pub(super) fn seen(&self, side: Side) -> Seen {
        match side {
            Side::Push => self.push.get(),
            Side::Pop => self.pop.get(),
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "two stores")]
    pub(super) fn set_seen(&self, side: Side, seen: Seen) {
        match side {
            Side::Push => self.push.set(seen),
            Side::Pop => self.pop.set(seen),
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a store")]
    pub(super) fn set_taken(&self, side: Side, taken: u64) {
        let seen = match side {
            Side::Push => &self.push,
            Side::Pop => &self.pop,
        };
        seen.taken.store(taken, Ordering::Relaxed);
    }

    pub(super) fn see(&self, head: u64, tail: u64) {
        SharedSeen::see(&self.push, &self.pop, head, tail);
        if let Some(served) = &self.served {
            SharedSeen::see(&served.push, &served.pop, head, tail);
        }
    }

    /// Completes all pushes and pops, so that all ranks know the same state of the queue (2B, an
    /// allreduce and 2A; up to 8A more on the host, and 4A for each mark that is left). Collective.
    /// `P` is the next phase, and `left` the outcome of leaving the local phase.
    #[track_caller]
    pub(super) fn settle<P: Phase>(&self, left: Result<()>) -> Result<()> {
        let team = self.team();
        team.agree_on("the next phase of a queue", super::phase::NAMES, P::NUMBER)?;
        team.barrier_within()?;
        let words = left.and_then(|()| self.settled_words());
        let what = "bringing a queue to rest";
        let (head, tail) = team.all_succeeded(what, words)?;
        self.see(head, tail);
        let (world, room) = (self.world(), self.place.size.capacity);
        world.fills(&prices::QUEUE_PUSH, tail.wrapping_sub(head), room);
        team.barrier_within()
    }

    /// The numbers of pops and pushes. The host sets its words to the state in which all of them
    /// are complete. No other rank may change them meanwhile.
    fn settled_words(&self) -> Result<(u64, u64)> {
        let world = self.world();
        let head = self.place.word(Word::Head).atomic_load(world)?;
        let tail = self.place.word(Word::Tail).atomic_load(world)?;
        if world.rank() == self.host() {
            if self.has_marks {
                self.clear_marks()?;
            }
            self.place.set_words(world, head, tail)?;
        }
        Ok((head, tail))
    }

    /// The number of elements; approximate if ranks push or pop meanwhile (2A).
    pub(super) fn len(&self) -> Result<usize> {
        let world = self.world();
        let head = self.place.word(Word::Head).atomic_load(world)?;
        let tail = self.place.word(Word::Tail).atomic_load(world)?;
        // The head was read first, so the difference may be too large, but never below zero.
        Ok(index(tail.wrapping_sub(head).min(self.place.size.capacity)))
    }

    /// Writes one slot (W).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a store")]
    pub(super) fn write(&self, ticket: u64, slot: SlotOf<T>) -> Result<()> {
        let i = index(self.place.size.slot(ticket));
        if let Some(local) = &self.local {
            local.write(i, slot);
            return Ok(());
        }
        self.write_elsewhere(i, slot)
    }

    #[inline(never)]
    fn write_elsewhere(&self, i: usize, slot: SlotOf<T>) -> Result<()> {
        if let Some(counted) = &self.counted {
            counted.write(i, slot);
            return Ok(());
        }
        self.place.slots().add(i).put(self.world(), slot)
    }

    /// Reads one slot (R).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a load")]
    pub(super) fn read(&self, ticket: u64) -> Result<SlotOf<T>> {
        let i = index(self.place.size.slot(ticket));
        if let Some(local) = &self.local {
            return Ok(local.read(i));
        }
        self.read_elsewhere(i)
    }

    #[inline(never)]
    fn read_elsewhere(&self, i: usize) -> Result<SlotOf<T>> {
        if let Some(counted) = &self.counted {
            return Ok(counted.read(i));
        }
        self.place.slots().add(i).get(self.world())
    }

    /// Calls `f` with a copy of each element, in order, on the host; on other ranks not at all. No
    /// rank may push or pop at the same time.
    pub(crate) fn for_each(&self, f: &mut dyn FnMut(T) -> Result<()>) -> Result<()> {
        let world = self.world();
        if world.rank() != self.host() {
            return Ok(());
        }
        let Seen {
            taken: head,
            limit: tail,
        } = self.pop.get();
        for ticket in 0..tail.wrapping_sub(head) {
            let slot = world.count_steps(|| self.read(head.wrapping_add(ticket)))?;
            f(crate::object::from_slot::<T>(slot, &self.heap)?)?;
        }
        Ok(())
    }

    /// Moves the queue to `host`, with room for `capacity`; collective. `left` as for
    /// [`settle`](Self::settle).
    #[track_caller]
    pub(super) fn relocate<P: Phase, M: TeamMember>(
        &mut self,
        host: M,
        capacity: usize,
        left: Result<()>,
    ) -> Result<()> {
        let team = self.team().clone();
        let world = team.world();
        agree_on_place(&team, host.number(), capacity)?;
        let host = check_host(&team, A_QUEUE, host)?;
        let size = size_of_capacity(A_QUEUE, capacity)?;
        self.settle::<P>(left)?;
        let Seen {
            taken: head,
            limit: tail,
        } = self.pop.get();
        let n = tail.wrapping_sub(head);
        if n > size.capacity {
            let text = format!("a queue with {n} elements was to get a capacity of {capacity}");
            return Err(Error::Argument(text.into()));
        }
        let place = allocate::<T>(&team, host, size, self.has_marks, |place| {
            self.copy_to(place, Tickets { first: head, n })?;
            place.set_words(world, head, tail)
        })?;
        let former = std::mem::replace(&mut self.place, place);
        self.local = LocalRing::of(world, place);
        self.counted = LocalRing::of(world, place);
        self.served = Hosted::at::<SlotOf<T>>(&team, place);
        self.see(head, tail);
        team.barrier_within()?;
        if world.rank() == former.block.rank() {
            world.free(former.block);
        }
        Ok(())
    }

    fn copy_to(&self, place: QueueBlock, all: Tickets) -> Result<()> {
        const CHUNK: u64 = 4096;
        let world = self.world();
        let mut done = 0;
        while done < all.n {
            let first = all.first.wrapping_add(done);
            let n = CHUNK.min(all.n - done);
            let tickets = Tickets { first, n };
            let mut buffer = zeroed::<SlotOf<T>>(index(n))?;
            self.place.read(world, tickets, &mut buffer)?;
            place.write(world, tickets, &buffer)?;
            done += n;
        }
        Ok(())
    }
}

impl<T: Object> Drop for Ring<T> {
    /// Others may still use the queue: the block is freed when no rank has it any more.
    fn drop(&mut self) {
        if self.world().rank() == self.host() {
            self.handle.bequeath([self.place.block]);
        }
    }
}

/// A number of slots as an index. It fits, since slots lie in memory.
#[inline(always)]
#[expect(clippy::inline_always, reason = "no code at all")]
#[expect(clippy::cast_possible_truncation, reason = "slots lie in memory")]
pub(crate) fn index(n: u64) -> usize {
    n as usize
}

/// Memory for `n` slots.
pub(super) fn zeroed<S: Pod>(n: usize) -> Result<Vec<S>> {
    let no_memory = |_| Error::Argument(format!("no memory for {n} elements of a queue").into());
    S::new_vec_zeroed(n).map_err(no_memory)
}

/// Memory for slots that are popped. It is there before their tickets are taken: other ranks would
/// wait for one that cannot read them.
pub(super) struct Room<S>(RefCell<Vec<S>>);

impl<S> Default for Room<S> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<S: Pod> Room<S> {
    pub(super) fn reserve(&self, n: u64) -> Result<()> {
        let mut slots = self.0.borrow_mut();
        if slots.len() < index(n) {
            *slots = zeroed(index(n))?;
        }
        Ok(())
    }

    /// The first `n` slots, which were reserved.
    pub(super) fn first(&self, n: u64) -> RefMut<'_, [S]> {
        RefMut::map(self.0.borrow_mut(), |slots| &mut slots[..index(n)])
    }

    /// The first `n` slots, which were filled.
    pub(super) fn filled(self, n: u64) -> Vec<S> {
        let mut slots = self.0.into_inner();
        slots.truncate(index(n));
        slots
    }
}

/// The size for `capacity` elements of what is called `what`.
pub(crate) fn size_of_capacity(what: &str, capacity: usize) -> Result<Size> {
    if (1..=LARGEST).contains(&(capacity as u64)) {
        return Ok(Size::of(capacity as u64));
    }
    let text = format!("{what} holds 1 to {LARGEST} elements; its capacity was to be {capacity}");
    Err(Error::Argument(text.into()))
}

/// The offset of slots of type `S` in a queue's block: behind the four words.
const fn slots_at<S>() -> usize {
    Control::BYTES.next_multiple_of(align_of::<S>())
}

/// The bytes and the alignment of a block for slots of type `S`.
pub(crate) fn layout<S>(size: Size, has_marks: bool) -> (usize, usize) {
    let per_slot = size_of::<S>() + if has_marks { 8 } else { 0 };
    let slots = usize::try_from(size.n_slots()).unwrap_or(usize::MAX);
    let bytes = slots
        .saturating_mul(per_slot)
        .saturating_add(slots_at::<S>() + 8);
    let whole_lines = bytes.checked_next_multiple_of(LINE);
    (whole_lines.unwrap_or(usize::MAX), LINE.max(align_of::<S>()))
}

/// The size of a queue with room for `capacity` elements, if there is such a `host`. Collective.
#[track_caller]
fn agreed_size(team: &Team, host: u32, capacity: usize) -> Result<Size> {
    agree_on_place(team, host, capacity)?;
    check_host(team, A_QUEUE, host)?;
    size_of_capacity(A_QUEUE, capacity)
}

/// What is hosted, for errors.
const A_QUEUE: &str = "a queue";

/// An error if members name different hosts or capacities. Collective.
#[track_caller]
fn agree_on_place(team: &Team, host: u32, capacity: usize) -> Result<()> {
    agree(team, "the capacity of a queue", capacity as u64)?;
    agree(team, "the host of a queue", host.into())
}

/// A block on member `host`, which fills it, known to all ranks. Collective.
#[track_caller]
fn allocate<T: Object>(
    team: &Team,
    host: u32,
    size: Size,
    has_marks: bool,
    fill: impl FnOnce(QueueBlock) -> Result<()>,
) -> Result<QueueBlock> {
    let (bytes, align) = layout::<SlotOf<T>>(size, has_marks);
    let world = team.world();
    let place = |block| QueueBlock::new::<SlotOf<T>>(block, size);
    let make = || -> Result<QueueBlock> {
        let block = world.alloc_aligned(bytes, align)?;
        let place = place(block);
        fill(place).inspect_err(|_| world.free(block))?;
        Ok(place)
    };
    let nothing = place(GlobalPtr::NULL);
    let is_host = team.rank() == host;
    // Where memory is short, functions of the program make room, and may panic.
    let make = || if is_host { make() } else { Ok(nothing) };
    let made = team.all_try("making a queue", make)?;
    let bits = team.broadcast(host, made.block.to_bits())?;
    Ok(place(GlobalPtr::from_bits(bits)))
}
