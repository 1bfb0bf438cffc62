//! Iteration over the entries that one rank holds.

use std::fmt;
use std::mem;

use pgas_core::GatheredSteps;
use pgas_core::World;
use pgas_core::rma::Block as _;

use pgas_lockfree::slots::state::{SlotState, StateAt, StateWord};
use pgas_lockfree::slots::{Held, SlotMemory as _};
use zerocopy::FromBytes as _;

use super::HashMap;
use super::found::FoundSlot;
use super::phase::{Finds, Local, Looks, Phase};
use super::slot::layout::{Blocks as _, ValueKind};
use super::slot::{Access, GlobalSlot, LayoutOf};
use super::table::{Table, dispatch_locality};
use super::view::{View, out_of_line};
use crate::Result;
use crate::object::{self, KeyHasher, Object};
use crate::team::TeamMember;

/// Slots of another rank whose states are fetched at once, rounded up to whole blocks.
pub(super) const CHUNK: usize = 256;

/// [`CHUNK`], rounded up to whole blocks.
const fn chunk<K: Object, V: Object>() -> usize {
    CHUNK.next_multiple_of(LayoutOf::<K, V>::SLOTS)
}

impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// Iterates over the entries that this rank holds, whoever inserted them. Each entry of the map
    /// is held by exactly one rank.
    ///
    /// Each entry is a copy, consistent in itself. Entries that are inserted or removed meanwhile
    /// may be missed.
    ///
    /// # Cost
    ///
    /// On this rank's own memory: A a slot, and for an entry R and A more (A + R for a value that
    /// is not a word). No other rank is asked.
    ///
    /// # Errors
    ///
    /// An item is an error if the transport fails, or if the job fails while this rank waits for a
    /// writer.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let squares = HashMap::<u32, u64>::with_capacity(&world, 100)?;
    /// for i in 0..10 {
    ///     squares.insert(&i, u64::from(i * i))?;
    /// }
    /// world.barrier()?;
    /// let mut here = squares.local_iter().collect::<Result<Vec<_>, _>>()?;
    /// here.sort_unstable();
    /// assert_eq!(here[3], (3, 9)); // of the one rank of this example
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn local_iter(&self) -> Entries<'_, K, V, S>
    where
        P: Looks,
    {
        Entries::new(&self.table, self.team().rank())
    }

    /// Calls `f` with each entry that this rank holds, as [`local_iter`](Self::local_iter) does.
    ///
    /// # Cost
    ///
    /// As [`local_iter`](Self::local_iter).
    ///
    /// # Errors
    ///
    /// As [`local_iter`](Self::local_iter); then `f` was called for the entries before.
    pub fn for_each_local(&self, mut f: impl FnMut(K, V)) -> Result<()>
    where
        P: Looks,
    {
        for entry in self.local_iter() {
            let (key, value) = entry?;
            f(key, value);
        }
        Ok(())
    }

    /// The number of keys that this rank holds, whoever inserted them.
    ///
    /// # Cost
    ///
    /// A a slot, on this rank's own memory.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    pub fn local_len(&self) -> Result<u64>
    where
        P: Looks,
    {
        dispatch_locality!(self.table, |view| view.local_len(self.team().rank()))
    }
}

impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// Iterates over the entries that a member of the team holds, as
    /// [`local_iter`](Self::local_iter) does. It is named by its [`Rank`](pgas_core::Rank), or by
    /// its number in the team.
    ///
    /// # Cost
    ///
    /// On another rank R for 256 slots; for an entry as [`local_iter`](Self::local_iter).
    /// One-sided.
    ///
    /// # Errors
    ///
    /// As [`local_iter`](Self::local_iter).
    ///
    /// # Panics
    ///
    /// If the team has no such member.
    #[track_caller]
    pub fn entries_on(&self, member: impl TeamMember) -> Entries<'_, K, V, S>
    where
        P: Finds,
    {
        let team = self.team();
        let Some(number) = member.in_team(team) else {
            panic!("entries on {} were asked for", member.name_of_absent(team));
        };
        Entries::new(&self.table, number)
    }
}

/// In the local phase a loop over a map visits the entries of this rank, as
/// [`local_iter`](HashMap::local_iter). In the other phases a program calls `local_iter`, which
/// says that the entries of other ranks are not visited.
///
/// # Examples
///
/// ```
/// # use pgas_containers::HashMap;
/// # let world = pgas_core::backend::loopback::world();
/// let squares = HashMap::<u32, u64>::with_capacity(&world, 100)?;
/// squares.insert(&3, 9)?;
/// let squares = squares.into_local_phase()?;
/// for entry in &squares {
///     assert_eq!(entry?, (3, 9));
/// }
/// # Ok::<(), pgas_containers::Error>(())
/// ```
impl<'a, K: Object, V: Object, S: KeyHasher> IntoIterator for &'a HashMap<K, V, Local, S> {
    type Item = Result<(K, V)>;
    type IntoIter = Entries<'a, K, V, S>;

    fn into_iter(self) -> Self::IntoIter {
        self.local_iter()
    }
}

/// The entries that one rank holds; made by [`HashMap::local_iter`] and [`HashMap::entries_on`].
pub struct Entries<'a, K: Object, V: Object, S> {
    table: &'a Table<K, V, S>,
    /// The number of the rank.
    rank: u32,
    next: usize,
    /// The states of the current chunk of another rank's slots. Versions may be torn.
    chunk: Vec<StateWord>,
    /// Those on near slots, where operations are counted.
    steps: GatheredSteps<'a>,
}

impl<'a, K: Object, V: Object, S: KeyHasher> Entries<'a, K, V, S> {
    #[track_caller]
    fn new(table: &'a Table<K, V, S>, rank: u32) -> Self {
        Self {
            table,
            rank,
            next: 0,
            chunk: Vec::new(),
            steps: table.world().gather_steps(),
        }
    }

    /// The next entry, if not all slots are local.
    fn next_out_of_line(&mut self) -> Option<Result<(K, V)>> {
        let capacity = self.table.shape.ring.local_capacity();
        while self.next < capacity {
            let end = (self.next + 1).next_multiple_of(chunk::<K, V>());
            if let Some(entry) = self.next_in_chunk(end.min(capacity)).transpose() {
                return Some(entry);
            }
        }
        None
    }

    /// The next entry in the current chunk, which ends before slot `end`. The states of another
    /// rank's slots are read at the beginning of a chunk. A torn state of a slot in use never reads
    /// as free, since its upper byte alone tells.
    fn next_in_chunk(&mut self, end: usize) -> Result<Option<(K, V)>> {
        let (table, rank) = (self.table, self.rank);
        let is_read = table.reused.is_none() && rank != table.team().rank();
        if is_read && self.next.is_multiple_of(chunk::<K, V>()) {
            // If the read fails, the next entry is one of the next chunk.
            let first = mem::replace(&mut self.next, end);
            self.chunk = table.states(rank, first)?;
            self.next = first;
        }
        let (next, states) = (&mut self.next, &self.chunk);
        let may_hold = |local: usize| {
            let state = states.get(local % chunk::<K, V>());
            state.is_none_or(|state| state.state() != SlotState::Free)
        };
        if let Some(all) = &table.counted {
            let view = table.view_counted(all, false);
            return self.steps.of(|| view.next_entry(rank, next, end, may_hold));
        }
        dispatch_locality!(table, |view| view.next_entry(rank, next, end, may_hold))
    }
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Reads the states of a chunk of slots, whose first slot begins a block (R).
    fn states(&self, rank: u32, first: usize) -> Result<Vec<StateWord>> {
        let (slots, stride) = (LayoutOf::<K, V>::SLOTS, LayoutOf::<K, V>::BYTES);
        let first = first / slots;
        let n = (chunk::<K, V>() / slots).min(self.shape.ring.n_blocks() - first);
        let world: &World = self.world();
        let rank = self.team().world_rank(rank);
        let start = pgas_core::GlobalPtr::<u8>::new(rank, self.shape.start);
        let bytes = start
            .byte_add((first * stride) as u64)
            .get_vec(world, n * stride)?;
        let states = bytes.chunks_exact(stride).flat_map(|block| {
            (0..slots).map(|index| {
                let at = LayoutOf::<K, V>::state(index);
                parse_state(&block[at.offset..], at)
            })
        });
        Ok(states.collect())
    }
}

/// Decodes the state at the beginning of `bytes`.
fn parse_state(bytes: &[u8], at: StateAt) -> StateWord {
    if at.is_narrow {
        let bits = u32::read_from_prefix(bytes).expect("four bytes").0;
        return StateWord::from_narrow(bits);
    }
    StateWord::from_bits(u64::read_from_prefix(bytes).expect("eight bytes").0)
}

impl<K: Object, V: Object, S: KeyHasher> Iterator for Entries<'_, K, V, S> {
    type Item = Result<(K, V)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Some(all) = &self.table.local else {
            return out_of_line(|| self.next_out_of_line());
        };
        let view = self.table.view_local(all);
        let end = view.shape.ring.local_capacity();
        view.next_entry(self.rank, &mut self.next, end, |_| true)
            .transpose()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.table.shape.ring.local_capacity() - self.next;
        (0, Some(left))
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    #[inline]
    fn slot_on(&self, rank: u32, local: usize) -> GlobalSlot<K, V, R> {
        let slot = self.slot(self.shape.ring.at(rank, local));
        if R::is_still(self.all) && local.is_multiple_of(LayoutOf::<K, V>::SLOTS) {
            slot.access.note_block();
        }
        slot
    }

    /// All slots of a shard.
    pub(super) fn all(&self) -> impl Iterator<Item = GlobalSlot<K, V, R>> {
        let n = self.shape.ring.local_capacity();
        (0..n).map(|local| self.slot_on(0, local))
    }

    fn local_len(&self, here: u32) -> Result<u64> {
        let mut n = 0;
        for local in 0..self.shape.ring.local_capacity() {
            let state = self.slot_on(here, local).load_state()?;
            let is_there = matches!(state.state(), SlotState::Ready | SlotState::Locked);
            n += u64::from(is_there && !state.is_gone());
        }
        Ok(n)
    }

    /// The number of slots of `here` that hold a key, present or removed.
    pub(super) fn local_taken(&self, here: u32) -> Result<u64> {
        let mut n = 0;
        for local in 0..self.shape.ring.local_capacity() {
            let state = self.slot_on(here, local).load_state()?.state();
            n += u64::from(!matches!(state, SlotState::Free | SlotState::Vacant));
        }
        Ok(n)
    }

    /// The first entry in the slots of `rank` from `next` on, before `end`, that `may_hold` one.
    /// The slot behind it becomes the next one.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn next_entry(
        &self,
        rank: u32,
        next: &mut usize,
        end: usize,
        may_hold: impl Fn(usize) -> bool,
    ) -> Result<Option<(K, V)>> {
        while *next < end {
            let local = *next;
            *next += 1;
            if may_hold(local)
                && let Some(entry) = self.entry_at(rank, local).transpose()
            {
                return entry.map(Some);
            }
        }
        Ok(None)
    }

    /// The entry in slot `local` of `rank`, if there is one.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn entry_at(&self, rank: u32, local: usize) -> Result<Option<(K, V)>> {
        let slot = self.slot_on(rank, local);
        let state = slot.load_state()?;
        if !state.is_published() || state.state() == SlotState::Removed {
            return Ok(None);
        }
        let (key, held) = if !R::IS_LOCAL && LayoutOf::<K, V>::KIND == ValueKind::Wide {
            let (key, value) = slot.entry()?;
            (key, Held::new(state, value))
        } else {
            (slot.key()?, Held::unread(state))
        };
        let Some(value) = FoundSlot::new(self, slot, held).value()? else {
            return Ok(None);
        };
        Ok(Some((object::from_slot::<K>(key, self.heap())?, value)))
    }
}

impl<K: Object, V: Object, S> fmt::Debug for Entries<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rank, next) = (self.rank, self.next);
        write!(f, "Entries(of rank {rank}, from slot {next} on)")
    }
}
