//! Many small items to many ranks, in few large messages.
//!
//! Items for a rank are collected in a buffer, which is sent as one message when it is full, as in
//! bale's conveyors. So an item costs a store here and a load there, instead of a message. Each rank
//! has a buffer from its first item on. In jobs of more than 8,192 ranks buffers are shorter, so
//! that all of them together take no more memory than there.

use std::fmt;
use std::marker::PhantomData;

use pgas_core::backend::Sent;
use pgas_core::{AsTeam, Member, Pod, Rank, Team};

use crate::codec::{Encoder, Wire};
use crate::quiescence::quiet;
use crate::rpc::RemoteCalls;
use crate::state::am;
use pgas_core::Result;

/// The maximum bytes of one buffer, and of all.
const BUFFER_BYTES: usize = 8192;
const BYTES: usize = 64 << 20;

/// Sends many small items in few messages: other ranks run a function on slices of them.
///
/// It has a buffer of up to 8 KiB for each rank to which items have been sent, and up to 64 MiB for
/// all (one item a rank if that is more).
///
/// Items that were not sent when it is dropped are lost, and the next [`quiet`] returns
/// [`Error::Undelivered`](pgas_core::Error::Undelivered) on all ranks. End it by
/// [`finish`](Self::finish), which sends all items.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use pgas_am::{Aggregator, DistObject};
/// use pgas_core::Rank;
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// type Counts = DistObject<Vec<AtomicU64>>;
/// let zeros = (0..10).map(|_| AtomicU64::new(0));
/// let counts: Counts = DistObject::new(&world.team(), zeros.collect())?;
/// let count = |counts: Counts, bins: &[u32]| {
///     for bin in bins {
///         counts[*bin as usize].fetch_add(1, Ordering::Relaxed);
///     }
/// };
/// let mut sender = Aggregator::new(&world, count, counts.clone())?;
/// for i in 0..1000_u32 {
///     sender.push(Rank::new(i % world.n_ranks()), i % 10)?;
/// }
/// sender.flush()?; // sends the buffered items now
/// while sender.try_push(world.rank(), 3)?.is_some() {
///     world.progress()?; // until there is room
/// }
/// sender.finish()?; // by all ranks
/// assert_eq!(counts[3].load(Ordering::Relaxed), 101);
/// # Ok::<(), pgas_am::Error>(())
/// ```
///
/// To the members of a team, by their numbers in it:
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use pgas_am::{Aggregator, DistObject};
///
/// # for result in pgas_core::backend::loopback::run(3, |world| {
/// # pgas_am::attach(&world)?;
/// let team = world.team().reorder(world.n_ranks() - world.rank().number())?;
/// let sum = DistObject::new(&team, AtomicU64::new(0))?;
/// let add = |sum: DistObject<AtomicU64>, items: &[u64]| {
///     sum.fetch_add(items.iter().sum(), Ordering::Relaxed);
/// };
/// let mut sender = Aggregator::new(&team, add, sum.clone())?;
/// (0..30).try_for_each(|i| sender.push(0, i))?; // to member 0, the last rank
/// sender.finish()?;
/// assert_eq!(sum.load(Ordering::Relaxed), if team.rank() == 0 { 3 * 435 } else { 0 });
/// # Ok::<(), pgas_am::Error>(())
/// # }) { result?; }
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub struct Aggregator<A: Wire + Clone, T: Pod, M = Rank> {
    team: Team,
    function: fn(A, &[T]),
    args: A,
    /// The number of items in one message.
    capacity: usize,
    /// The items for each member.
    buffers: Vec<Vec<T>>,
    member: PhantomData<fn(M)>,
}

/// The number of items in one message of up to `bytes` with items, to each of `n_ranks`. An item
/// that is longer than a buffer has a message of its own.
fn items_in_message<T>(bytes: usize, n_ranks: usize) -> usize {
    let size = size_of::<T>().max(1);
    let in_memory = BYTES / n_ranks.max(1) / size;
    let in_buffer = (BUFFER_BYTES / size).min(in_memory);
    (bytes / size).min(in_buffer.max(1))
}

impl<A: Wire + Clone, T: Pod, M: Member> Aggregator<A, T, M> {
    /// An aggregator of items for ranks of the world, or members of a team. Their target runs
    /// `function` on `args` and slices of them.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](pgas_core::Error::Codec) for arguments that cannot be encoded.
    ///
    /// # Panics
    ///
    /// If a message cannot carry one item.
    #[track_caller]
    pub fn new(on: &impl AsTeam<Member = M>, function: fn(A, &[T]), args: A) -> Result<Self> {
        let team = on.as_team();
        let mut out = Encoder::new();
        out.put(&args)?;
        // The header of a call, and the padding after the arguments.
        let beside = out.bytes().len() + 64;
        let room = team
            .world()
            .capabilities()
            .max_medium
            .saturating_sub(beside);
        let n_ranks = team.n_ranks() as usize;
        let capacity = items_in_message::<T>(room, n_ranks);
        assert!(capacity > 0, "an item does not fit a message");
        Ok(Self {
            team,
            function,
            args,
            capacity,
            buffers: (0..n_ranks).map(|_| Vec::new()).collect(),
            member: PhantomData,
        })
    }

    /// Adds `item` to the buffer for `to`: a [`Rank`] if the aggregator was made on the world, the
    /// number of a member if on a team. The buffer is sent when it is full and another item comes, or
    /// by [`flush`](Self::flush).
    ///
    /// Progress: user level while there is no room for a message, else none.
    ///
    /// # Cost
    ///
    /// ℓ; one message when the buffer is full.
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::rpc_ff`].
    ///
    /// # Panics
    ///
    /// If there is no such rank.
    #[inline]
    #[track_caller]
    pub fn push(&mut self, to: M, item: T) -> Result<()> {
        let to = to.number();
        if !self.has_room(to) {
            self.make_room(to)?;
        }
        self.buffers[to as usize].push(item);
        Ok(())
    }

    /// Whether the buffer of member `to` has memory and room for one more item.
    #[inline]
    fn has_room(&self, to: u32) -> bool {
        let has_room = |items: &Vec<T>| items.len() < self.capacity && items.capacity() > 0;
        self.buffers.get(to as usize).is_some_and(has_room)
    }

    /// As [`push`](Self::push), without waiting: returns the item if a message would have to wait
    /// for room.
    ///
    /// Progress: none.
    ///
    /// # Cost
    ///
    /// As [`push`](Self::push).
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::try_rpc_ff`].
    ///
    /// # Panics
    ///
    /// If there is no such rank.
    #[track_caller]
    pub fn try_push(&mut self, to: M, item: T) -> Result<Option<T>> {
        let rank = self.world_rank(to.number());
        let items = &mut self.buffers[to.number() as usize];
        if items.len() >= self.capacity {
            let world = self.team.world();
            let sent = world.try_rpc_ff_view(rank, self.function, &self.args, items)?;
            if sent == Sent::BackPressure {
                return Ok(Some(item));
            }
            items.clear();
        }
        self.push(to, item)?;
        Ok(None)
    }

    /// The rank of member `to`. Panics if there is none.
    #[track_caller]
    fn world_rank(&self, to: u32) -> Rank {
        if self.team.is_world() {
            self.team.world().assert_rank(Rank::new(to));
        }
        self.team.world_rank(to)
    }

    /// Sends the items for member `to` if they fill its buffer, which has memory then.
    #[cold]
    #[track_caller]
    fn make_room(&mut self, to: u32) -> Result<()> {
        let _is_there = self.world_rank(to);
        if self.buffers[to as usize].len() >= self.capacity {
            self.send(to)?;
        }
        self.buffers[to as usize].reserve_exact(self.capacity);
        Ok(())
    }

    #[track_caller]
    fn send(&mut self, to: u32) -> Result<()> {
        let rank = self.world_rank(to);
        let items = &mut self.buffers[to as usize];
        if items.is_empty() {
            return Ok(());
        }
        let (world, args) = (self.team.world(), self.args.clone());
        world.rpc_ff_view(rank, self.function, args, items)?;
        items.clear();
        Ok(())
    }

    /// Sends all items in the buffers.
    ///
    /// Progress: as [`push`](Self::push).
    ///
    /// # Cost
    ///
    /// One message for each buffer with items. Complete locally on return.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push); items that could not be sent stay in the buffers.
    #[track_caller]
    pub fn flush(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        // No closure: it would stand for the program's line in traces.
        for to in 0..self.team.n_ranks() {
            outcome = outcome.and(self.send(to));
        }
        outcome
    }

    /// Sends all items in the buffers, and waits until the items of all ranks have been handled.
    ///
    /// Progress: user level.
    ///
    /// # Cost
    ///
    /// As [`flush`](Self::flush) and [`quiet`]. Collective over the world, also if the aggregator
    /// was made on a team: ranks that have none call [`quiet`].
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push) and [`quiet`].
    #[track_caller]
    pub fn finish(mut self) -> Result<()> {
        let flushed = self.flush();
        // Also after an error: the others wait for this rank.
        let handled = quiet(self.team.world());
        flushed.and(handled)
    }
}

impl<A: Wire + Clone, T: Pod, M> Aggregator<A, T, M> {
    fn n_items(&self) -> usize {
        self.buffers.iter().map(Vec::len).sum()
    }
}

impl<A: Wire + Clone, T: Pod, M> Drop for Aggregator<A, T, M> {
    fn drop(&mut self) {
        let n_items = self.n_items();
        // A world to which active messages were not attached has sent none.
        if n_items > 0
            && let Ok(am) = am(self.team.world())
        {
            let reason = "an aggregator was dropped with items that were not sent";
            am.lost.add(n_items as u64, &reason);
        }
    }
}

impl<A: Wire + Clone, T: Pod, M> fmt::Debug for Aggregator<A, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Aggregator({} items)", self.n_items())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use pgas_core::backend::loopback;

    use super::*;
    use crate::DistObject;

    /// The received batches.
    type Batches = DistObject<Mutex<Vec<Vec<u64>>>>;

    #[expect(clippy::needless_pass_by_value, reason = "what an aggregator calls")]
    fn keep(batches: Batches, items: &[u64]) {
        batches.lock().unwrap().push(items.to_vec());
    }

    /// Every rank sends numbers to all ranks by `push`.
    fn check(push: fn(&mut Aggregator<Batches, u64>, Rank, u64)) {
        loopback::run(2, |world| {
            crate::attach(&world).unwrap();
            let (me, n_ranks) = (u64::from(world.rank().number()), world.n_ranks());
            let batches: Batches = DistObject::new(&world.team(), Mutex::default()).unwrap();
            let mut sender = Aggregator::new(&world, keep, batches.clone()).unwrap();
            let capacity = sender.capacity;
            let n = 3 * capacity as u64 + 1;
            for i in 0..n {
                // Long runs for one rank, interrupted by single items for the other one.
                let to = u32::from(i % 1000 == 7);
                push(&mut sender, Rank::new(to % n_ranks), i << 1 | me);
            }
            sender.finish().unwrap();
            let batches = batches.lock().unwrap();
            assert!(batches.iter().all(|batch| batch.len() <= capacity));
            let mut come = batches.concat();
            come.sort_unstable();
            let is_here = |i: &u64| u64::from(i % 1000 == 7) == me;
            let all = (0..n).filter(is_here).flat_map(|i| [i << 1, i << 1 | 1]);
            assert!(come.into_iter().eq(all), "each item once");
        });
    }

    #[test]
    fn all_buffers_together_are_bounded() {
        assert_eq!(items_in_message::<u64>(8100, 2), 1012);
        assert_eq!(items_in_message::<u64>(100_000, 1), 1024, "8 KiB");
        assert_eq!(items_in_message::<[u64; 2]>(8192, 65_536), 64, "1 KiB");
        assert_eq!(items_in_message::<[u8; 4000]>(8192, 65_536), 1);
        assert_eq!(items_in_message::<[u8; 4000]>(3999, 65_536), 0, "none fits");
        assert_eq!(items_in_message::<()>(8192, 65_536), 1024);
        assert_eq!(items_in_message::<[u8; 9000]>(9000, 2), 1);
        assert_eq!(items_in_message::<[u8; 9000]>(8999, 2), 0, "none fits");
    }

    #[test]
    fn items_to_many_ranks_in_turn_are_not_messages_of_their_own() {
        const N_RANKS: u32 = 300;
        loopback::run(N_RANKS, |world| {
            crate::attach(&world).unwrap();
            let batches: Batches = DistObject::new(&world.team(), Mutex::default()).unwrap();
            let mut sender = Aggregator::new(&world, keep, batches.clone()).unwrap();
            if world.rank() == Rank::new(0) {
                for (i, to) in (0..10).flat_map(|i| world.ranks().map(move |to| (i, to))) {
                    sender.push(to, i).unwrap();
                }
                assert_eq!(
                    sender.n_items(),
                    10 * N_RANKS as usize,
                    "all are here still"
                );
            }
            sender.finish().unwrap();
            let all: Vec<_> = (0..10).collect();
            assert_eq!(*batches.lock().unwrap(), [all]);
        });
    }

    #[test]
    #[should_panic(expected = "rank 1")]
    fn a_rank_that_is_not_there_is_named() {
        let world = loopback::world();
        crate::attach(&world).unwrap();
        let batches: Batches = DistObject::new(&world.team(), Mutex::default()).unwrap();
        let mut sender = Aggregator::new(&world, keep, batches).unwrap();
        let _result = sender.try_push(Rank::new(1), 5);
    }

    #[test]
    fn what_is_pushed_comes_once_to_its_rank() {
        check(|sender, to, item| sender.push(to, item).unwrap());
    }

    #[test]
    fn all_ranks_hear_of_items_that_an_aggregator_was_dropped_with() {
        loopback::run(3, |world| {
            crate::attach(&world).unwrap();
            let batches: Batches = DistObject::new(&world.team(), Mutex::default()).unwrap();
            let mut sender = Aggregator::new(&world, keep, batches.clone()).unwrap();
            let next = Rank::new((world.rank().number() + 1) % 3);
            sender.push(next, 7).unwrap();
            sender.flush().unwrap();
            if world.rank() == Rank::new(1) {
                (0..5).for_each(|i| sender.push(next, i).unwrap());
            }
            drop(sender);
            let Err(pgas_core::Error::Undelivered(lost)) = quiet(&world) else {
                panic!("five items were lost");
            };
            assert_eq!((lost.n, lost.rank), (5, Rank::new(1)));
            assert!(lost.reason.contains("aggregator"), "{lost}");
            quiet(&world).unwrap();
            assert_eq!(*batches.lock().unwrap(), [[7]]);
        });
    }

    #[test]
    fn what_is_pushed_without_waiting_comes_once_to_its_rank() {
        check(|sender, to, item| {
            let mut item = Some(item);
            while let Some(left) = item.take() {
                item = sender.try_push(to, left).unwrap();
                sender.team.world().progress().unwrap();
            }
        });
    }
}
