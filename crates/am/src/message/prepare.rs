//! Negotiated payload: the library's buffer is filled in place, then sent.

use std::ops::{Deref, DerefMut};

use pgas_core::backend::Sent;
use pgas_core::{Rank, World};
use zerocopy::IntoBytes;

use super::{ActiveMessages, RequestHandler, too_long};
use crate::Result;
use crate::layer::am;

/// A buffer for the payload of a request, made by [`prepare`](ActiveMessages::prepare).
///
/// It dereferences to its bytes, which are zero at first. It belongs to this rank, so that other calls are allowed between prepare and
/// commit, and preparing much holds nobody up; it comes from a pool and returns there.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use pgas_am::{ActiveMessages, Payload, RequestHandler, Token};
///
/// struct Count(Arc<AtomicUsize>);
/// impl RequestHandler for Count {
///     type Args = ();
///     fn handle(&self, _: Token<'_>, (): (), payload: Payload<'_>) -> pgas_am::Result<()> {
///         let Payload::Medium(bytes) = payload else { return Ok(()) };
///         self.0.fetch_add(bytes.len(), Ordering::Relaxed);
///         Ok(())
///     }
/// }
///
/// let world = pgas_core::backend::loopback::world();
/// pgas_am::attach(&world)?;
/// let n = Arc::new(AtomicUsize::new(0));
/// world.register(Count(n.clone()))?;
/// let mut buffer = world.prepare(world.rank(), 300)?;
/// buffer[..5].copy_from_slice(b"bytes");
/// buffer.commit::<Count>(&world, &(), 5)?; // less than was prepared
/// world.wait_for("the bytes", || Ok(n.load(Ordering::Relaxed) == 5))?;
/// # Ok::<(), pgas_am::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is sent before it is committed"]
pub struct Prepared {
    to: Rank,
    words: Vec<u64>,
    len: usize,
}

impl Prepared {
    pub(super) fn new(world: &World, to: Rank, len: usize) -> Result<Self> {
        let limit = world.capabilities().max_medium - size_of::<u64>();
        if len > limit {
            return Err(too_long(to, len, limit));
        }
        let mut words = am(world)?.buffers.take();
        words.clear();
        words.resize(len.div_ceil(size_of::<u64>()), 0);
        Ok(Self { to, words, len })
    }

    /// Sends the first `len` bytes with `args`, waiting for room.
    ///
    /// Progress: user level while it waits, else none.
    ///
    /// # Cost
    ///
    /// One message. Complete locally on return.
    ///
    /// # Errors
    ///
    /// As [`request_medium`](ActiveMessages::request_medium).
    ///
    /// # Panics
    ///
    /// If `len` is more than was prepared.
    #[track_caller]
    pub fn commit<H: RequestHandler>(
        self,
        world: &World,
        args: &H::Args,
        len: usize,
    ) -> Result<()> {
        let sent = world.request_medium::<H>(self.to, args, &self[..len]);
        self.give_back(world);
        sent
    }

    /// As [`commit`](Self::commit), without waiting; gives the buffer back, as it is, if there is no room.
    ///
    /// # Cost
    ///
    /// As [`commit`](Self::commit).
    ///
    /// # Errors
    ///
    /// As [`try_request_medium`](ActiveMessages::try_request_medium).
    ///
    /// # Panics
    ///
    /// If `len` is more than was prepared.
    #[track_caller]
    pub fn try_commit<H: RequestHandler>(
        self,
        world: &World,
        args: &H::Args,
        len: usize,
    ) -> Result<Option<Self>> {
        match world.try_request_medium::<H>(self.to, args, &self[..len])? {
            Sent::BackPressure => Ok(Some(self)),
            Sent::Accepted => {
                self.give_back(world);
                Ok(None)
            }
        }
    }

    fn give_back(self, world: &World) {
        if let Ok(am) = am(world) {
            am.buffers.put(self.words);
        }
    }
}

impl Deref for Prepared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.words.as_bytes()[..self.len]
    }
}

impl DerefMut for Prepared {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.words.as_mut_bytes()[..self.len]
    }
}
