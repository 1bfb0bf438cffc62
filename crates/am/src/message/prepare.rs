//! Negotiated payload: the program fills a buffer of the network in place, then sends it.

use std::ops::{Deref, DerefMut};

use pgas_core::backend::{HandlerId, MessageClass, Offer, Sent};
use pgas_core::{InPlace, Rank, World, keep_line, refuse_in_handler};
use zerocopy::IntoBytes;

use super::handler::{Origin, ReplyHandler, RequestHandler, Token};
use super::opening::opening;
use crate::error::says_left;
use crate::function::LAYER_KEY;
use crate::ids::{REPLY_MEDIUM, REQUEST_MEDIUM};
use crate::send::fits;
use crate::state::{Am, am};
use pgas_core::{Error, Result};

/// A buffer for the payload of a request, made by [`prepare`](super::ActiveMessages::prepare).
///
/// It dereferences to its bytes, which begin at a multiple of eight, and have any values at first.
///
/// **Whose memory.** Between ranks of one host it is a buffer in shared memory, if one is free;
/// each rank has sixteen for all its messages. The handler reads from it, and the payload is not
/// copied, if the arguments take at most 48 bytes. Over libfabric it is a registered buffer for
/// more than 1,024 bytes, if one of sixteen is free; they are sent from it with such arguments.
/// Otherwise it is memory of this process, and committing copies it as
/// [`request_medium`](super::ActiveMessages::request_medium) does;
/// [`is_in_place`](Self::is_in_place) tells. A buffer in shared memory is in use until its message
/// has been handled, one of libfabric until the message has left, both until they are dropped.
///
/// **Holding it** delays no message of this or another rank. All other calls are allowed between
/// prepare and commit, also those that wait and those that run handlers. Dropping it sends nothing.
/// A forgotten one ([`std::mem::forget`]) is out of use until the job ends; when a rank has
/// forgotten all, it sends copies.
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
/// buffer.commit::<Count>(&(), 5)?; // less than was prepared
///
/// let mut buffer = world.prepare(world.rank(), 2)?;
/// assert!(!buffer.is_in_place()); // the loopback transport has no such buffers
/// while let Some(same) = buffer.try_commit::<Count>(&(), 2)? {
///     world.progress()?; // until there is room
///     buffer = same;
/// }
/// world.wait_for("the bytes", || Ok(n.load(Ordering::Relaxed) == 7))?;
/// # Ok::<(), pgas_am::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is sent before it is committed"]
pub struct Prepared<'w> {
    world: &'w World,
    to: Rank,
    memory: Memory<'w>,
    len: usize,
}

impl<'w> Prepared<'w> {
    pub(super) fn new(world: &'w World, to: Rank, len: usize) -> Result<Self> {
        check_limit(world, to, len)?;
        let memory = Memory::new(am(world)?, world, to, len)?;
        Ok(Self {
            world,
            to,
            memory,
            len,
        })
    }

    pub(super) fn try_new(world: &'w World, to: Rank, len: usize) -> Result<Option<Self>> {
        check_limit(world, to, len)?;
        let memory = match world.prepare_in_place(to, len)? {
            Offer::InPlace(place) => Memory::Network(place),
            Offer::BackPressure => return Ok(None),
            Offer::Elsewhere => Memory::own(am(world)?, len),
        };
        Ok(Some(Self {
            world,
            to,
            memory,
            len,
        }))
    }

    /// Whether this is memory of the network, which is sent without a copy.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        matches!(self.memory, Memory::Network(_))
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
    /// As [`request_medium`](super::ActiveMessages::request_medium).
    ///
    /// # Panics
    ///
    /// If `len` is more than was prepared.
    #[track_caller]
    pub fn commit<H: RequestHandler>(self, args: &H::Args, len: usize) -> Result<()> {
        refuse_in_handler("room for a request")?;
        let (world, to) = (self.world, self.to);
        let mut out = opening::<H, _>(args)?;
        out.align();
        fits(world, to, out.bytes().len() + len)?;
        let am = am(world)?;
        let Some(this) = self.offer(am, out.bytes(), len)? else {
            return Ok(());
        };
        let (mut left, _line) = (Some(this), keep_line());
        let missing = || vec![to];
        world.wait_for_ranks("room for a request", &missing, || {
            if let Some(this) = left.take() {
                left = this.offer(am, out.bytes(), len)?;
            }
            Ok(left.is_none())
        })?;
        Ok(())
    }

    /// As [`commit`](Self::commit), without waiting; returns the buffer unchanged if there is no
    /// room.
    ///
    /// # Cost
    ///
    /// As [`commit`](Self::commit).
    ///
    /// # Errors
    ///
    /// As [`try_request_medium`](super::ActiveMessages::try_request_medium).
    ///
    /// # Panics
    ///
    /// If `len` is more than was prepared.
    #[track_caller]
    pub fn try_commit<H: RequestHandler>(self, args: &H::Args, len: usize) -> Result<Option<Self>> {
        let mut out = opening::<H, _>(args)?;
        out.align();
        fits(self.world, self.to, out.bytes().len() + len)?;
        let am = am(self.world)?;
        self.offer(am, out.bytes(), len)
    }

    /// Offers the message, and gives the buffer back if there is no room.
    #[track_caller]
    fn offer(mut self, am: &Am, opening: &[u8], len: usize) -> Result<Option<Self>> {
        check_length(len, self.len);
        let (class, id) = (MessageClass::Request, REQUEST_MEDIUM);
        am.message_counts.count_sent();
        let left = self
            .memory
            .offer(am, (self.world, self.to), (class, id), opening, len);
        if !matches!(left, Ok(None)) {
            am.message_counts.count_unsent();
        }
        let Some(memory) = left? else {
            return Ok(None);
        };
        self.memory = memory;
        Ok(Some(self))
    }
}

/// A buffer for the payload of the reply to a request, made by
/// [`Token::prepare`](super::Token::prepare).
///
/// As [`Prepared`], together with the right to reply: if it is dropped, there is no reply.
#[derive(Debug)]
#[must_use = "nothing is sent before it is committed"]
pub struct PreparedReply<'a> {
    token: Token<'a>,
    memory: Memory<'a>,
    len: usize,
}

impl<'a> Token<'a> {
    /// A buffer for `len` bytes of payload of a reply, to be filled in place and sent by
    /// [`PreparedReply::commit`]. If it is dropped, there is no reply. Does not wait. [`Prepared`]
    /// tells whose memory it is.
    ///
    /// # Cost
    ///
    /// As [`prepare`](super::ActiveMessages::prepare).
    ///
    /// # Errors
    ///
    /// As [`prepare`](super::ActiveMessages::prepare).
    ///
    /// # Examples
    ///
    /// See [`PreparedReply::commit`].
    pub fn prepare(self, len: usize) -> Result<PreparedReply<'a>> {
        PreparedReply::new(self, len)
    }
}

impl<'a> PreparedReply<'a> {
    fn new(token: Token<'a>, len: usize) -> Result<Self> {
        let Origin { world, from } = token.origin;
        check_limit(world, from, len)?;
        let memory = Memory::new(token.am, world, from, len)?;
        Ok(Self { token, memory, len })
    }

    /// Replies with the first `len` bytes and `args`. Does not wait: a reply that finds no room is
    /// copied, and sent later.
    ///
    /// # Cost
    ///
    /// One message. Complete locally on return.
    ///
    /// # Errors
    ///
    /// As [`reply_medium`](super::Token::reply_medium).
    ///
    /// # Panics
    ///
    /// If `len` is more than was prepared.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::{Origin, Payload, ReplyHandler, RequestHandler, Token};
    ///
    /// struct Zeros;
    /// impl ReplyHandler for Zeros {
    ///     type Args = ();
    ///     fn handle(&self, _: Origin<'_>, (): (), zeros: Payload<'_>) -> pgas_am::Result<()> {
    ///         assert!(matches!(zeros, Payload::Medium(bytes) if bytes == [0; 30]));
    ///         Ok(())
    ///     }
    /// }
    ///
    /// /// Replies with as many zeros as it is asked for.
    /// struct Ask;
    /// impl RequestHandler for Ask {
    ///     type Args = usize;
    ///     fn handle(&self, token: Token<'_>, n: usize, _: Payload<'_>) -> pgas_am::Result<()> {
    ///         let mut zeros = token.prepare(n)?;
    ///         zeros.fill(0);
    ///         zeros.commit::<Zeros>(&(), n)
    ///     }
    /// }
    ///
    /// # use pgas_am::{ActiveMessages, quiet};
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// world.register(Ask)?;
    /// world.register_reply(Zeros)?;
    /// world.barrier()?;
    /// world.request::<Ask>(world.rank(), &30)?;
    /// quiet(&world)?;
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    #[track_caller]
    pub fn commit<H: ReplyHandler>(self, args: &H::Args, len: usize) -> Result<()> {
        check_length(len, self.len);
        let Token {
            origin: Origin { world, from },
            am,
            has_replied,
        } = self.token;
        let mut out = opening::<H, _>(args)?;
        out.align();
        fits(world, from, out.bytes().len() + len)?;
        has_replied.set(true);
        let of = (MessageClass::Reply, REPLY_MEDIUM);
        let left = self.memory.offer(am, (world, from), of, out.bytes(), len);
        match left {
            Ok(None) => Ok(()),
            Ok(Some(memory)) => {
                let bytes = [out.bytes(), &memory.bytes()[..len]].concat();
                am.outbox.keep_reply(from, REPLY_MEDIUM, bytes);
                Ok(())
            }
            // The target has left without waiting for the reply.
            Err(error) if says_left(&error, from) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[derive(Debug)]
enum Memory<'w> {
    Network(InPlace<'w>),
    /// A buffer of a pool, to which it returns after the send.
    Own(Vec<u64>),
}

impl<'w> Memory<'w> {
    /// A buffer of the network if one is free, else of the pool.
    fn new(am: &Am, world: &'w World, to: Rank, len: usize) -> Result<Self> {
        match world.prepare_in_place(to, len)? {
            Offer::InPlace(place) => Ok(Self::Network(place)),
            Offer::BackPressure | Offer::Elsewhere => Ok(Self::own(am, len)),
        }
    }

    fn own(am: &Am, len: usize) -> Self {
        let mut words = am.buffers.take();
        words.resize(len.div_ceil(size_of::<u64>()), 0);
        Self::Own(words)
    }

    /// Offers a message, and gives the memory back if there is no room.
    #[track_caller]
    fn offer(
        self,
        am: &Am,
        (world, to): (&World, Rank),
        (class, id): (MessageClass, HandlerId),
        opening: &[u8],
        len: usize,
    ) -> Result<Option<Self>> {
        match self {
            Self::Network(place) => {
                let left = place.try_commit_to_layer(LAYER_KEY, class, id, opening, len)?;
                Ok(left.map(Self::Network))
            }
            Self::Own(words) => {
                let parts = [opening, &words.as_bytes()[..len]];
                match world.try_send_to_layer(LAYER_KEY, to, class, id, &parts)? {
                    Sent::BackPressure => Ok(Some(Self::Own(words))),
                    Sent::Accepted => {
                        am.buffers.put(words);
                        Ok(None)
                    }
                }
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Network(place) => place,
            Self::Own(words) => words.as_bytes(),
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Network(place) => place,
            Self::Own(words) => words.as_mut_bytes(),
        }
    }
}

/// Checks that a message may have a payload of `len` bytes.
fn check_limit(world: &World, to: Rank, len: usize) -> Result<()> {
    let limit = world.capabilities().max_medium - size_of::<u64>();
    if len > limit {
        return Err(Error::too_long(to, len, limit));
    }
    Ok(())
}

#[track_caller]
fn check_length(len: usize, prepared: usize) {
    assert!(
        len <= prepared,
        "{len} bytes of {prepared} that were prepared"
    );
}

impl Deref for Prepared<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory.bytes()[..self.len]
    }
}

impl DerefMut for Prepared<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[..self.len]
    }
}

impl Deref for PreparedReply<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory.bytes()[..self.len]
    }
}

impl DerefMut for PreparedReply<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[..self.len]
    }
}
