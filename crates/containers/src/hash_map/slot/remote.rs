//! Slots on any rank: every step is an operation on a global pointer, and is counted. These
//! functions are not inlined, so that the code for local slots beside them keeps the registers.

use pgas_core::atomics::Atomic;
use pgas_core::backend::{AtomicOp, SignalUpdate};
use pgas_core::rma::Block;
use pgas_core::{Error, GlobalPtr, Pod, Rank, Result, Team, World};
use pgas_lockfree::slots::state::{StateAt, StateWord};

use super::super::hash::Position;
use super::copied::BlockCopy;
use super::place::{Place, WordOp};
use super::replayed::Journal;
use super::{AWAITED, Access, PartAt, Swapped, give_up, swap_state};
use crate::object::Heap;
use crate::wait::until;

/// How steps on the slots are taken. There is one type of slot for all ways, since a branch takes
/// no time beside a network, and each type makes the code of all operations once more.
#[derive(Clone, Copy)]
pub(in super::super) enum Steps<'a> {
    /// Each is complete on return.
    Blocking,
    /// On a copy of the block. No rank writes the slots, or only this one.
    Copied(&'a BlockCopy),
    /// As the journal says.
    Replayed(&'a Journal),
}

/// All slots of a map, or those of one shard. The first block of each rank is at `start`, the next
/// one `stride` bytes behind it.
#[derive(Clone, Copy)]
pub(in super::super) struct RemoteArray<'a> {
    pub(in super::super) team: &'a Team,
    /// The rank whose shard it is, of a shard.
    pub(in super::super) shard: Option<Rank>,
    pub(in super::super) start: u64,
    pub(in super::super) stride: usize,
    pub(in super::super) steps: Steps<'a>,
}

/// The block type of accesses that never have a directly accessible block.
pub(in super::super) enum NoBlock {}

impl Block for NoBlock {
    const BYTES: usize = 1;
    const ALIGN: usize = 1;
}

/// A slot of a map or shard.
#[derive(Clone, Copy)]
pub(in super::super) struct Remote<'a> {
    place: Place<'a>,
    position: Position,
    steps: Steps<'a>,
}

impl Remote<'_> {
    /// Writes the part, then the state.
    fn try_publish<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        let (place, world) = (self.place, self.place.world);
        let (part, at) = (place.part(at.offset), at.state);
        if at.is_narrow {
            // `put_signal` needs a signal word of eight bytes.
            part.put(world, value)?;
            world.flush(place.at.rank())?;
            let word = place.part::<u32>(at.offset);
            word.fetch_op(world, AtomicOp::Swap, state.narrow())?;
            return Ok(());
        }
        let update = SignalUpdate::Set(state.to_bits());
        part.put_signal(world, &[value], place.part(at.offset), update)?;
        world.flush(place.at.rank())
    }

    /// Performs `op` on the word at `offset`, and returns the former word (A).
    #[inline(never)]
    fn on_word<W: Atomic>(&self, offset: usize, op: WordOp<W>) -> Result<W> {
        let (place, world) = (self.place, self.place.world);
        match (self.steps, op) {
            (Steps::Blocking, WordOp::Fetch(op, operand)) => {
                place.part::<W>(offset).fetch_op(world, op, operand)
            }
            (Steps::Blocking, WordOp::CompareExchange(current, new)) => {
                let word = place.part::<W>(offset);
                let (Ok(former) | Err(former)) = word.compare_exchange(world, current, new)?;
                Ok(former)
            }
            (Steps::Copied(copy), op) => copy.on_word(place, offset, op),
            (Steps::Replayed(journal), op) => journal.on_word(place, offset, op),
        }
    }
}

impl<'a> Access<'a> for Remote<'a> {
    type All = RemoteArray<'a>;
    type Block = NoBlock;

    fn new(all: RemoteArray<'a>, position: Position) -> Self {
        let of_position = || all.team.world_rank(position.member());
        let first = GlobalPtr::new(all.shard.unwrap_or_else(of_position), all.start);
        Self {
            place: Place {
                world: all.team.world(),
                at: first.byte_add((position.block * all.stride) as u64),
                len: all.stride,
            },
            position,
            steps: all.steps,
        }
    }

    fn is_shard(all: RemoteArray<'a>) -> bool {
        all.shard.is_some()
    }

    fn heap(all: RemoteArray<'a>) -> Option<&'a Heap> {
        match all.steps {
            Steps::Replayed(journal) => Some(journal.heap()),
            Steps::Blocking | Steps::Copied(_) => None,
        }
    }

    fn n_passed(all: RemoteArray<'a>) -> usize {
        match all.steps {
            Steps::Replayed(journal) => journal.begin_probe(),
            Steps::Blocking | Steps::Copied(_) => 0,
        }
    }

    fn pass(all: RemoteArray<'a>, n_blocks: impl FnOnce() -> usize) {
        if let Steps::Replayed(journal) = all.steps {
            journal.pass(n_blocks());
        }
    }

    fn world(&self) -> &'a World {
        self.place.world
    }

    fn position(&self) -> Position {
        self.position
    }

    #[inline(never)]
    fn get<T: Pod>(&self, offset: usize) -> Result<T> {
        match self.steps {
            Steps::Blocking => self.place.part(offset).get(self.place.world),
            Steps::Copied(copy) => copy.get(self.place, offset),
            Steps::Replayed(journal) => journal.get(self.place, offset),
        }
    }

    fn fetch_op<W: Atomic>(&self, offset: usize, op: AtomicOp, operand: W) -> Result<W> {
        self.on_word(offset, WordOp::Fetch(op, operand))
    }

    fn compare_exchange<W: Atomic>(&self, offset: usize, current: W, new: W) -> Swapped<W, W> {
        let former = self.on_word(offset, WordOp::CompareExchange(current, new))?;
        Ok(if former == current {
            Ok(former)
        } else {
            Err(former)
        })
    }

    #[inline(never)]
    fn publish<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        let published = match self.steps {
            Steps::Blocking => self.try_publish(at, value, state),
            // A put that fails has written nothing.
            Steps::Copied(copy) => return copy.publish(self.place, at, value, state),
            Steps::Replayed(journal) => journal.try_publish(self.place, at, value, state),
        };
        published.map_err(|error| self.give_up(error))
    }

    fn reserve(&self, at: StateAt, new: StateWord) -> Swapped<(), StateWord> {
        if let Steps::Replayed(journal) = self.steps {
            journal.note_claim();
        }
        self.swap_state(at, StateWord::FREE, new)
    }

    fn swap_state(
        &self,
        at: StateAt,
        current: StateWord,
        new: StateWord,
    ) -> Swapped<(), StateWord> {
        match self.steps {
            Steps::Copied(copy) => copy.swap_state(self.place, at, current, new),
            Steps::Blocking | Steps::Replayed(_) => swap_state(self, at, current, new),
        }
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        match self.steps {
            Steps::Replayed(journal) => journal.record().wait_until(ready),
            Steps::Blocking | Steps::Copied(_) => until(self.place.world, AWAITED, ready),
        }
    }

    fn give_up(&self, error: Error) -> Error {
        match self.steps {
            // The operation goes on later.
            Steps::Replayed(journal) if journal.record().is_suspended() => error,
            _ => give_up(self.place.world, error),
        }
    }
}
