//! Many small items to many ranks, in few large messages.
//!
//! Items for a rank are collected in a buffer, which is sent as one message when it is full, as in
//! bale's conveyors. So an item costs a store here and a load there, instead of a message. The
//! number of buffers is limited, and ranks may share one in turn, so the memory does not grow with
//! the job.

use std::fmt;
use std::marker::PhantomData;

use pgas_core::backend::Sent;
use pgas_core::{AsTeam, Member, Pod, Rank, Team};

use crate::codec::{Encoder, Wire};
use crate::quiescence::quiet;
use crate::rpc::RemoteCalls;
use crate::state::am;
use pgas_core::Result;

/// The maximum number of buffers of an aggregator, and the bytes of one; together 2 MiB.
const N_BUFFERS: usize = 256;
const BUFFER_BYTES: usize = 8192;

/// Sends many small items in few messages: other ranks run a function on slices of them.
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
    buffers: Vec<Buffer<T>>,
    member: PhantomData<fn(M)>,
}

/// Items for one member at a time.
struct Buffer<T> {
    to: u32,
    items: Vec<T>,
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
        let bytes = team.world().capabilities().max_medium.min(BUFFER_BYTES);
        let capacity = bytes.saturating_sub(beside) / size_of::<T>().max(1);
        assert!(capacity > 0, "an item does not fit a message");
        let n_buffers = N_BUFFERS.min(team.n_ranks() as usize);
        let empty = || Buffer {
            to: 0,
            items: Vec::new(),
        };
        Ok(Self {
            team,
            function,
            args,
            capacity,
            buffers: (0..n_buffers).map(|_| empty()).collect(),
            member: PhantomData,
        })
    }

    /// Adds `item` to the buffer for `to`: a [`Rank`] if the aggregator was made on the world, the
    /// number of a member if on a team. The buffer is sent when it is full, when another rank needs
    /// it, or by [`flush`](Self::flush).
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
        let index = self.make_room(to.number())?;
        self.buffers[index].items.push(item);
        Ok(())
    }

    /// The buffer of member `to`, with room for one item.
    #[inline]
    #[track_caller]
    fn make_room(&mut self, to: u32) -> Result<usize> {
        let index = to as usize % self.buffers.len();
        let buffer = &self.buffers[index];
        if buffer.to != to || buffer.items.len() >= self.capacity || buffer.items.capacity() == 0 {
            self.turn(index, to)?;
        }
        Ok(index)
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
        let index = to.number() as usize % self.buffers.len();
        let buffer = &self.buffers[index];
        let is_in_the_way = buffer.to != to.number() || buffer.items.len() >= self.capacity;
        if is_in_the_way && !buffer.items.is_empty() {
            let (world, to) = (self.team.world(), self.team.world_rank(buffer.to));
            let sent = world.try_rpc_ff_view(to, self.function, &self.args, &buffer.items)?;
            if sent == Sent::BackPressure {
                return Ok(Some(item));
            }
            self.buffers[index].items.clear();
        }
        self.push(to, item)?;
        Ok(None)
    }

    /// Sends the items of a buffer and assigns it to member `to`.
    #[cold]
    #[track_caller]
    fn turn(&mut self, index: usize, to: u32) -> Result<()> {
        if self.team.is_world() {
            self.team.world().assert_rank(Rank::new(to));
        }
        let _rank = self.team.world_rank(to); // panics if there is none
        self.send(index)?;
        let buffer = &mut self.buffers[index];
        buffer.to = to;
        buffer.items.reserve_exact(self.capacity);
        Ok(())
    }

    #[track_caller]
    fn send(&mut self, index: usize) -> Result<()> {
        let Buffer { to, items } = &mut self.buffers[index];
        if items.is_empty() {
            return Ok(());
        }
        let (args, to) = (self.args.clone(), self.team.world_rank(*to));
        self.team
            .world()
            .rpc_ff_view(to, self.function, args, items)?;
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
        for index in 0..self.buffers.len() {
            outcome = outcome.and(self.send(index));
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
        self.buffers.iter().map(|buffer| buffer.items.len()).sum()
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

    /// Every rank sends numbers to all ranks, in turn or not, by `push`, whatever shares a buffer.
    fn check(push: fn(&mut Aggregator<Batches, u64>, Rank, u64)) {
        loopback::run(2, |world| {
            crate::attach(&world).unwrap();
            let (me, n_ranks) = (u64::from(world.rank().number()), world.n_ranks());
            for n_buffers in [1, 2] {
                let batches: Batches = DistObject::new(&world.team(), Mutex::default()).unwrap();
                let mut sender = Aggregator::new(&world, keep, batches.clone()).unwrap();
                sender.buffers.truncate(n_buffers);
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
            }
        });
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
