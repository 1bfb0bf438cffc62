//! A queue that is either pushed to or popped from.

use super::handle::{Kind, Queue, Sealed};
use super::phase::Push;

/// A queue of a fixed capacity in the memory of one rank, in phases: all ranks push, or all pop, or
/// its host does both.
///
/// It has no phase for pushes and pops at the same time, and so needs no mark of eight bytes for
/// each slot. Otherwise it is a [`CircularQueue`](super::CircularQueue) in the same phase. It
/// begins in the phase [`Push`].
///
/// # Examples
///
/// ```
/// use pgas_containers::FastQueue;
/// use pgas_core::Rank;
///
/// # let world = pgas_core::backend::loopback::world();
/// let queue = FastQueue::<u32>::with_capacity(&world, Rank::ZERO, 100)?; // collective
/// queue.push_slice(&[1, 2, 3])?;
/// let mut queue = queue.into_local_phase()?; // collective
/// if queue.host() == world.rank() {
///     assert_eq!(queue.local_pop()?, Some(1));
/// }
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// Operations that the phase forbids do not compile:
///
/// ```compile_fail,E0277
/// # use pgas_containers::{FastQueue, queue::Push};
/// fn pop_while_others_push(queue: &FastQueue<u64, Push>) {
///     queue.pop();
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use pgas_containers::{FastQueue, queue::Local};
/// fn push_in_the_local_phase(queue: &FastQueue<u64, Local>) {
///     queue.push(1);
/// }
/// ```
pub type FastQueue<T, P = Push> = Queue<T, P, Fast>;

/// The kind of [`FastQueue`]s.
///
/// # Examples
///
/// See [`Kind`].
#[derive(Clone, Copy, Debug)]
pub enum Fast {}

impl Sealed for Fast {
    const NAME: &'static str = "FastQueue";
    const CAN_MEET: bool = false;
}

impl Kind for Fast {
    type First = Push;
}
