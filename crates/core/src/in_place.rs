//! Messages whose payload is built in the transport's memory, so that it is not copied.
#![expect(
    unsafe_code,
    reason = "hands out the transport's memory, which is one owner's until it is sent"
)]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::slice;

use crate::backend::{HandlerId, LayerKey, MessageClass, Offer, Place, Sent};
use crate::{Rank, Result, World};

/// Memory of the transport for the payload of one message; it dereferences to its bytes. See
/// [`World::prepare_in_place`].
///
/// Dropping it gives the memory back, and sends nothing. If it is forgotten ([`std::mem::forget`]),
/// the memory stays in use until the job ends.
pub struct InPlace<'w> {
    world: &'w World,
    to: Rank,
    /// The place that the world's backend offered for a message to `to`.
    /// [`World::prepare_in_place`] alone makes this value; what consumes it gives the place back.
    place: Place,
}

// SAFETY: of the fields only `place` is not `Send` by itself, as the assertion below checks. It
// names bytes that are this value's own (promise 6 of `Backend`), as a boxed slice would be, and
// all methods of a backend, those that take it back among them, may be called by any thread.
unsafe impl Send for InPlace<'_> {}
// SAFETY: as for `Send`; and by a shared reference to this value the bytes are only read, and the
// place is not given back.
unsafe impl Sync for InPlace<'_> {}

const _: () = {
    const fn may_be_shared<T: Send + Sync>() {}
    may_be_shared::<(&World, Rank)>();
};

impl World {
    /// Asks for memory of the transport for `len` bytes of payload of a message to `to`. On one
    /// host it is a buffer from which the target's handler reads, so the payload is not copied;
    /// over libfabric it is a registered buffer from which long payloads are sent. Does not wait.
    ///
    /// Holding it delays no other rank. A rank has a limited number of such places, and each is in
    /// use until its message has been handled, or over libfabric sent. [`Offer::BackPressure`] says
    /// that all are in use, and that progress may free one. [`Offer::Elsewhere`] says that the
    /// transport has none.
    ///
    /// # Cost
    ///
    /// ℓ, and a cache line that the target has written.
    ///
    /// # Errors
    ///
    /// Errors of the transport; if no place is free, the failure of the job.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::backend::Offer;
    ///
    /// let world = pgas_core::backend::loopback::world();
    /// // The reference transport has none.
    /// assert!(matches!(world.prepare_in_place(world.rank(), 100)?, Offer::Elsewhere));
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    #[inline]
    pub fn prepare_in_place(&self, to: Rank, len: usize) -> Result<Offer<InPlace<'_>>> {
        self.assert_rank(to);
        match self.backend().prepare(to, len)? {
            Offer::InPlace(place) => {
                let world = self;
                Ok(Offer::InPlace(InPlace { world, to, place }))
            }
            Offer::BackPressure => {
                // The caller may be about to ask again, and must not do so for ever.
                self.backend().health()?;
                Ok(Offer::BackPressure)
            }
            Offer::Elsewhere => Ok(Offer::Elsewhere),
        }
    }
}

impl<'w> InPlace<'w> {
    /// The world that it was prepared in.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &'w World {
        self.world
    }

    /// The rank that the message is for.
    #[must_use]
    #[inline]
    pub fn to(&self) -> Rank {
        self.to
    }

    /// Offers a message whose payload is `opening`, then the first `len` bytes of this memory. Does
    /// not wait. Returns the memory unchanged if there is no room for the message. After an error
    /// the memory stays with the transport, since a target that is leaving may still read it.
    ///
    /// The bytes of this memory are not copied if `opening` has at most 56 bytes, and a multiple of
    /// eight.
    ///
    /// # Cost
    ///
    /// One message. Complete locally on return.
    ///
    /// # Errors
    ///
    /// As [`World::try_send`].
    ///
    /// # Panics
    ///
    /// If `len` is more than was prepared, or `handler` is one of core's own or of the layer's.
    #[track_caller]
    #[inline]
    pub fn try_commit(
        self,
        class: MessageClass,
        handler: HandlerId,
        opening: &[u8],
        len: usize,
    ) -> Result<Option<Self>> {
        handler.assert_free();
        self.offer(class, handler, opening, len)
    }

    /// As [`try_commit`](Self::try_commit), to a handler of the layer.
    ///
    /// # Cost
    ///
    /// As [`try_commit`](Self::try_commit).
    ///
    /// # Errors
    ///
    /// As [`try_commit`](Self::try_commit).
    ///
    /// # Panics
    ///
    /// If `len` is more than was prepared.
    #[track_caller]
    #[inline]
    pub fn try_commit_to_layer(
        self,
        _: LayerKey,
        class: MessageClass,
        handler: HandlerId,
        opening: &[u8],
        len: usize,
    ) -> Result<Option<Self>> {
        self.offer(class, handler, opening, len)
    }

    #[track_caller]
    #[inline]
    fn offer(
        self,
        class: MessageClass,
        handler: HandlerId,
        opening: &[u8],
        len: usize,
    ) -> Result<Option<Self>> {
        assert!(
            len <= self.place.len,
            "{len} bytes of {} that were prepared",
            self.place.len
        );
        // Only after back-pressure is the place this value's to give back.
        let this = ManuallyDrop::new(self);
        let backend = this.world.backend();
        let place = Place { len, ..this.place };
        // SAFETY: the backend offered the place for a message to `to`, and it was neither committed
        // nor given back since: the one consumes this value, below, and the other is its end. It
        // has `len` bytes, by the assertion. No reference to them is left, since each borrows this
        // value, which was moved here; and but after back-pressure, none is made any more. It is
        // called once.
        let commit = || unsafe { backend.try_commit(this.to, class, handler, place, opening) };
        let bytes = || opening.len() + len;
        match this.world.count_sent((this.to, class), bytes, commit)? {
            Sent::Accepted => Ok(None),
            Sent::BackPressure => {
                let this = ManuallyDrop::into_inner(this);
                this.world.check_after_refusal(this.to)?;
                Ok(Some(this))
            }
        }
    }
}

impl Deref for InPlace<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: promise 6 of `Backend`: so many readable, initialized bytes are there, and nobody
        // else writes them until the place is committed or given back, which takes this value,
        // which the reference borrows. They stay for as long as a handle on the backend lives, and
        // the world, which is borrowed for longer, has one.
        unsafe { slice::from_raw_parts(self.place.start.as_ptr(), self.place.len) }
    }
}

impl DerefMut for InPlace<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and writable; and this value is borrowed exclusively, so that
        // there is no other reference to them.
        unsafe { slice::from_raw_parts_mut(self.place.start.as_ptr(), self.place.len) }
    }
}

impl Drop for InPlace<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.world.is_forked() {
            return;
        }
        let backend = self.world.backend();
        // SAFETY: the backend offered the place for that rank. It was not committed, since a value
        // that was is not dropped but after back-pressure, and it is given back here alone.
        // References to it borrow this value, and have ended.
        unsafe { backend.give_back(self.to, self.place) };
    }
}

impl fmt::Debug for InPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InPlace")
            .field("to", &self.to)
            .field("len", &self.place.len)
            .finish_non_exhaustive()
    }
}
