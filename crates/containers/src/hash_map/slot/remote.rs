//! Slots on any rank: every step is an operation on a global pointer, and is counted. These
//! functions are not inlined, so that the code for local slots beside them keeps the registers.

use pgas_core::atomics::Atomic;
use pgas_core::backend::{AtomicOp, SignalUpdate};
use pgas_core::rma::Block;
use pgas_core::{GlobalPtr, Pod, Rank, Result, Team, World};
use pgas_lockfree::slots::state::StateWord;

use super::super::hash::Position;
use super::{Access, PartAt, Swapped, give_up};

/// All slots of a map, or those of one shard. The first block of each rank is at `start`, the next
/// one `stride` bytes behind it.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct RemoteArray<'a> {
    pub(in super::super) team: &'a Team,
    /// The rank whose shard it is, of a shard.
    pub(in super::super) first: Rank,
    pub(in super::super) start: u64,
    pub(in super::super) stride: usize,
}

/// The block type of accesses that never have a directly accessible block.
pub(in super::super) enum NoBlock {}

impl Block for NoBlock {
    const BYTES: usize = 1;
    const ALIGN: usize = 1;
}

/// A slot of a map, or of a shard if `IS_SHARD`.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Remote<'a, const IS_SHARD: bool = false> {
    pub(super) world: &'a World,
    position: Position,
    /// The block that holds the slot.
    pub(super) at: GlobalPtr<u8>,
}

impl<const IS_SHARD: bool> Remote<'_, IS_SHARD> {
    /// Writes the part, then the state.
    fn try_publish<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        let (part, at) = (self.part(at.offset), at.state);
        if at.is_narrow {
            // `put_signal` needs a signal word of eight bytes.
            part.put(self.world, value)?;
            self.world.flush(self.at.rank())?;
            let word = self.part::<u32>(at.offset);
            word.fetch_op(self.world, AtomicOp::Swap, state.narrow())?;
            return Ok(());
        }
        let update = SignalUpdate::Set(state.to_bits());
        part.put_signal(self.world, &[value], self.part(at.offset), update)?;
        self.world.flush(self.at.rank())
    }

    pub(super) fn part<T>(&self, offset: usize) -> GlobalPtr<T> {
        self.at.byte_add(offset as u64).cast()
    }
}

impl<'a, const IS_SHARD: bool> Access<'a> for Remote<'a, IS_SHARD> {
    type All = RemoteArray<'a>;
    type Block = NoBlock;

    const IS_SHARD: bool = IS_SHARD;

    fn new(all: RemoteArray<'a>, position: Position) -> Self {
        let rank = if IS_SHARD {
            all.first
        } else {
            all.team.world_rank(position.member())
        };
        let first = GlobalPtr::new(rank, all.start);
        Self {
            world: all.team.world(),
            position,
            at: first.byte_add((position.block * all.stride) as u64),
        }
    }

    fn world(&self) -> &'a World {
        self.world
    }

    fn position(&self) -> Position {
        self.position
    }

    #[inline(never)]
    fn get<T: Pod>(&self, offset: usize) -> Result<T> {
        self.part(offset).get(self.world)
    }

    #[inline(never)]
    fn fetch_op<W: Atomic>(&self, offset: usize, op: AtomicOp, operand: W) -> Result<W> {
        self.part::<W>(offset).fetch_op(self.world, op, operand)
    }

    #[inline(never)]
    fn compare_exchange<W: Atomic>(&self, offset: usize, current: W, new: W) -> Swapped<W, W> {
        self.part(offset).compare_exchange(self.world, current, new)
    }

    #[inline(never)]
    fn publish<T: Pod>(&self, at: PartAt, value: T, state: StateWord) -> Result<()> {
        let published = self.try_publish(at, value, state);
        published.map_err(|error| give_up(self.world, error))
    }
}
