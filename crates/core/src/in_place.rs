//! Messages whose payload is filled in where the transport sends it from.
#![expect(
    unsafe_code,
    reason = "hands out the transport's memory, which is one owner's until it is sent"
)]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::slice;

use crate::backend::{HandlerId, LayerKey, MessageClass, Offer, Place, Sent};
use crate::cost::CostKind;
use crate::{Rank, Result, World};

/// Memory of the transport's own for the payload of one message, which dereferences to its bytes; see [`World::prepare_in_place`].
///
/// Dropping it gives it back, and nothing is sent. One that is forgotten ([`std::mem::forget`]) is in use until the job ends, and
/// that is all.
pub struct InPlace<'w> {
    world: &'w World,
    to: Rank,
    place: Place,
}

// SAFETY: the place is this value's own, as a boxed slice would be, and the backend takes it back from any thread.
unsafe impl Send for InPlace<'_> {}
// SAFETY: a shared reference only reads the bytes.
unsafe impl Sync for InPlace<'_> {}

impl World {
    /// Asks for memory of the transport's own for `len` bytes of payload of a message to `to`: on one host a buffer that the target's
    /// handler reads from, so that nothing copies the payload. Does not wait.
    ///
    /// Having it holds nobody up. There is a bounded number of such places a rank, each of which is in use until its message has been
    /// handled; [`Offer::BackPressure`] says that all of them are, and that progress may free one.
    /// [`Offer::Elsewhere`] says that the transport has none.
    ///
    /// # Cost
    ///
    /// l, and a cache line that the target has written.
    ///
    /// # Errors
    ///
    /// What the transport reports; where nothing is free, the failure of the job.
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
        assert!(
            to.number() < self.n_ranks(),
            "the job has ranks 0 to {}",
            self.n_ranks() - 1
        );
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

    /// Who the message is for.
    #[must_use]
    #[inline]
    pub fn to(&self) -> Rank {
        self.to
    }

    /// Offers a message whose payload is `opening` and then the first `len` bytes of this; does not wait. Gives the memory back, as it is, if
    /// there is no room for the message.
    ///
    /// With an opening of up to 56 bytes, a multiple of eight, nothing copies the rest.
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
        let backend = self.world.backend();
        let place = Place { len, ..self.place };
        // SAFETY: the place is this value's own, made for messages to that rank, and of no fewer bytes; references to it borrow this
        // value, which is given up below if the message is accepted.
        let sent = unsafe { backend.try_commit(self.to, class, handler, place, opening) }?;
        match sent {
            Sent::Accepted => {
                // The place is not this value's any more.
                let this = ManuallyDrop::new(self);
                let bytes = opening.len() + len;
                this.world.count(CostKind::Message, Some(this.to), 1, bytes);
                Ok(None)
            }
            Sent::BackPressure => {
                self.world.check_after_refusal(self.to)?;
                Ok(Some(self))
            }
        }
    }
}

impl Deref for InPlace<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the backend promises so many initialized bytes there, which are this value's alone.
        unsafe { slice::from_raw_parts(self.place.start.as_ptr(), self.place.len) }
    }
}

impl DerefMut for InPlace<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; and this value is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.place.start.as_ptr(), self.place.len) }
    }
}

impl Drop for InPlace<'_> {
    #[inline]
    fn drop(&mut self) {
        let backend = self.world.backend();
        // SAFETY: the place is this value's own and was not accepted, since then it is not dropped; no reference to it outlives this.
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
