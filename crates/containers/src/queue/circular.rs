//! A queue that ranks push to and pop from at the same time.

use super::handle::{Kind, Queue, Sealed};
use super::phase::{Phase, PushPop};
use crate::Result;
use crate::object::Object;

/// A queue of a fixed capacity in the memory of one rank, which all ranks push to and pop from.
///
/// Elements are popped in the order in which their pushes took effect; the queue is linearizable. A
/// push or pop in progress, however slow, delays only operations that need its element.
///
/// The phase `P` says what all ranks do until the next collective change of phase:
///
/// | | any rank | price |
/// |---|---|---|
/// | [`PushPop`] | pushes and pops | 2A + W, 2A + R |
/// | [`Push`](super::Push) | pushes | A + W |
/// | [`Pop`](super::Pop) | pops | A + R |
/// | [`Local`](super::Local) | the host alone does both | ℓ |
///
/// All threads of a rank may share one handle.
///
/// # Examples
///
/// ```
/// use pgas_containers::CircularQueue;
/// use pgas_containers::queue::PushError;
/// use pgas_core::Rank;
///
/// # let world = pgas_core::backend::loopback::world();
/// let queue = CircularQueue::<u64>::with_capacity(&world, Rank::ZERO, 2)?; // collective
/// queue.push(1)?;
/// queue.push(2)?;
/// assert!(matches!(queue.push(3), Err(PushError::Full(3))));
/// assert_eq!(queue.pop()?, Some(1));
///
/// let queue = queue.into_pop_phase()?; // collective; from here a pop is cheaper
/// assert_eq!(queue.pop()?, Some(2));
/// assert_eq!(queue.pop()?, None);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// Operations that the phase forbids do not compile:
///
/// ```compile_fail,E0277
/// # use pgas_containers::{CircularQueue, queue::Pop};
/// fn push_while_others_pop(queue: &CircularQueue<u64, Pop>) {
///     queue.push(1);
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use pgas_containers::{CircularQueue, queue::Push};
/// fn pop_while_others_push(queue: &CircularQueue<u64, Push>) {
///     queue.pop();
/// }
/// ```
///
/// A handle is gone once the phase has changed:
///
/// ```compile_fail,E0382
/// # use pgas_containers::CircularQueue;
/// fn use_of_an_old_phase(queue: CircularQueue<u64>) {
///     let pops = queue.into_pop_phase();
///     queue.push(1);
/// }
/// ```
///
/// In the local phase one thread of the host works without atomics, so it needs the handle for
/// itself:
///
/// ```compile_fail,E0596
/// # use pgas_containers::{CircularQueue, queue::Local};
/// fn two_threads_at_once(queue: &CircularQueue<u64, Local>) {
///     queue.local_pop();
/// }
/// ```
pub type CircularQueue<T, P = PushPop> = Queue<T, P, Circular>;

/// The kind of [`CircularQueue`]s.
///
/// # Examples
///
/// See [`Kind`].
#[derive(Clone, Copy, Debug)]
pub enum Circular {}

impl Sealed for Circular {
    const NAME: &'static str = "CircularQueue";
    const CAN_MEET: bool = true;
}

impl Kind for Circular {
    type First = PushPop;
}

impl<T: Object, P: Phase> CircularQueue<T, P> {
    /// Goes on to the phase in which any rank pushes and pops.
    ///
    /// # Cost
    ///
    /// As [`into_push_phase`](super::Queue::into_push_phase).
    ///
    /// # Errors
    ///
    /// As [`into_push_phase`](super::Queue::into_push_phase).
    ///
    /// # Examples
    ///
    /// See [`Queue`](super::Queue).
    #[track_caller]
    pub fn into_push_pop_phase(self) -> Result<CircularQueue<T, PushPop>> {
        self.into_phase()
    }
}
