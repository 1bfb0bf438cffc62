//! What a rank works on between its calls: received messages, and collectives in flight.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use crate::backend::{HandlerId, LayerKey, Message, MessageClass};
use crate::cost::CostKind;
use crate::tasks::Tasks;
use crate::{Error, Rank, Result, World, backend::Sent, notice};

/// Messages of one class that one call of progress serves.
pub(crate) const BATCH: usize = 64;
/// Handlers a page of the table.
const PAGE: usize = 256;

type Handler = dyn Fn(&World, Message<'_>) + Send + Sync;
type Page = [OnceLock<Box<Handler>>; PAGE];

/// What a crate adds to every world above core, such as active messages: messages of its own
/// ([`HandlerId::LAYER`]), and work whenever the rank makes progress. See [`World::attach`].
pub trait Layer: Any + fmt::Debug + Send + Sync {
    /// Takes a message for one of the layer's handlers. It may send, but not wait: what waits inside it
    /// is [`Error::InHandler`].
    ///
    /// # Errors
    ///
    /// What makes the message useless; the call that made progress reports it.
    fn deliver(&self, world: &World, message: Message<'_>) -> Result<()>;

    /// Does what is left to do, without waiting, and says whether there was any. Called by every
    /// [`World::progress`], so that it costs little when there is nothing.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    fn advance(&self, world: &World) -> Result<bool>;

    /// Whether requests may be served now. A layer with answers that met back-pressure says no, so that
    /// it is never left with more of them than one batch of requests gives.
    fn accepts_requests(&self) -> bool;

    /// What the handler that runs now works on, for the report of one that does not return.
    fn running(&self) -> Option<String> {
        None
    }

    /// Whether nothing is left that it has promised to send. A rank stays in the job until then.
    fn is_idle(&self) -> bool {
        true
    }

    /// Takes note of a message that came when the rank served none any more, because it was leaving.
    fn refuse(&self, message: &Message<'_>) {
        let _ = message;
    }

    /// Called when the rank has left, in good order.
    fn end(&self) {}

    /// Takes the waker of a task that waits for an operation, if the layer will wake it after the next progress;
    /// else the task asks to be polled again at once.
    fn wake_after_progress(&self, world: &World, waker: &Waker) -> bool {
        let _ = (world, waker);
        false
    }
}

/// Handlers of messages, and tasks that advance whenever the rank makes progress.
pub(crate) struct Engine {
    /// By id, in pages; read without a lock, since every message is looked up.
    handlers: [OnceLock<Box<Page>>; PAGE],
    layer: OnceLock<Arc<dyn Layer>>,
    /// Collectives in flight.
    pub(crate) tasks: Tasks,
    refused: Refused,
}

/// Requests to handlers of the program's own that came when the rank was leaving: nobody else tells of them.
#[derive(Debug, Default)]
struct Refused {
    n: AtomicU64,
    first: OnceLock<(Rank, HandlerId)>,
}

impl Refused {
    fn add(&self, message: &Message<'_>) {
        // Relaxed: the thread that leaves is the one that tells.
        self.n.fetch_add(1, Ordering::Relaxed);
        self.first.get_or_init(|| (message.from, message.handler));
    }

    /// What is told of them.
    fn text(&self, rank: Rank) -> Option<String> {
        let (from, HandlerId(id)) = self.first.get()?;
        let n = self.n.load(Ordering::Relaxed);
        Some(format!(
            "rank {rank} has left the job with {n} messages lost that came when it was leaving: the first \
             from rank {from} for handler {id}"
        ))
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            handlers: [const { OnceLock::new() }; PAGE],
            layer: OnceLock::new(),
            tasks: Tasks::default(),
            refused: Refused::default(),
        }
    }
}

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a handler of a message now, where nothing may wait.
#[must_use]
#[inline]
pub fn in_handler() -> bool {
    IN_HANDLER.get()
}

/// Runs `body` as handlers are run: whatever waits inside it is [`Error::InHandler`], and progress does
/// nothing there.
#[inline]
pub fn as_handler<R>(body: impl FnOnce() -> R) -> R {
    /// Back to what was, also when a handler panics.
    struct Former(bool);
    impl Drop for Former {
        #[inline]
        fn drop(&mut self) {
            // Not by the key's own `set`, which is a call.
            IN_HANDLER.with(|it| it.set(self.0));
        }
    }
    let _former = Former(IN_HANDLER.with(|it| it.replace(true)));
    body()
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({:?})", self.tasks)
    }
}

impl Engine {
    /// Serves up to `limit` received messages of each class, and says whether there were any.
    #[inline]
    pub(crate) fn receive(&self, world: &World, limit: usize) -> Result<bool> {
        if in_handler() {
            return Ok(false);
        }
        let mut failure = None;
        let mut sink = |message: Message<'_>| {
            if let Err(error) = self.dispatch(world, message) {
                failure.get_or_insert(error);
            }
        };
        let with_requests = self
            .layer
            .get()
            .is_none_or(|layer| layer.accepts_requests());
        let n_received = world.backend().poll_all(with_requests, limit, &mut sink)?;
        match failure {
            None => Ok(n_received > 0),
            Some(error) => Err(error),
        }
    }

    #[inline]
    fn dispatch(&self, world: &World, message: Message<'_>) -> Result<()> {
        let HandlerId(id) = message.handler;
        if HandlerId::LAYER.contains(&id)
            && let Some(layer) = self.layer.get()
        {
            let _running = world.running().begin(message.from);
            return as_handler(|| layer.deliver(world, message));
        }
        if message.handler == HandlerId::COLLECTIVE {
            return world.wire().deliver(message);
        }
        if message.handler == HandlerId::WATCH {
            world.deliver_note(&message);
            return Ok(());
        }
        let [page, index] = id.to_be_bytes().map(usize::from);
        let page = self.handlers[page].get();
        let Some(handler) = page.and_then(|page| page[index].get()) else {
            let from = message.from;
            let text = format!("a message from rank {from} is for handler {id}, which nobody set");
            return Err(Error::backend("progress", i64::from(id), text));
        };
        let _running = world.running().begin(message.from);
        as_handler(|| handler(world, message));
        Ok(())
    }

    /// Whether the layer above core wakes `waker` after the next progress.
    pub(crate) fn wake_after_progress(&self, world: &World, waker: &Waker) -> bool {
        let layer = self.layer.get();
        layer.is_some_and(|layer| layer.wake_after_progress(world, waker))
    }

    /// Whether the layer has nothing left to send.
    pub(crate) fn is_idle(&self) -> bool {
        self.layer.get().is_none_or(|layer| layer.is_idle())
    }

    /// Takes note of a message that comes too late; those of the layer are the layer's.
    pub(crate) fn refuse(&self, message: &Message<'_>) {
        let HandlerId(id) = message.handler;
        if HandlerId::LAYER.contains(&id)
            && let Some(layer) = self.layer.get()
        {
            layer.refuse(message);
        } else if message.handler.is_heard_of() && message.class == MessageClass::Request {
            self.refused.add(message);
        }
    }

    /// Tells the layer that `rank` has left, and whoever reads what was lost.
    pub(crate) fn end(&self, rank: Rank) {
        if let Some(layer) = self.layer.get() {
            layer.end();
        }
        if let Some(text) = self.refused.text(rank) {
            notice::tell(&text);
        }
    }

    /// Lets the layer above core do what is left to do.
    #[inline]
    pub(crate) fn advance_layer(&self, world: &World) -> Result<bool> {
        match self.layer.get() {
            Some(layer) if !in_handler() => layer.advance(world),
            _ => Ok(false),
        }
    }
}

impl World {
    /// Sets the handler of messages with `id`. Handlers run inside [`progress`](World::progress) and
    /// every call that waits; they may send, but what waits inside them is [`Error::InHandler`].
    ///
    /// # Panics
    ///
    /// If `id` is one of core's own or has a handler already.
    #[track_caller]
    pub fn set_handler(
        &self,
        id: HandlerId,
        handler: impl Fn(&Self, Message<'_>) + Send + Sync + 'static,
    ) {
        id.assert_free();
        let [page, index] = id.0.to_be_bytes().map(usize::from);
        let new_page = || Box::new([const { OnceLock::new() }; PAGE]);
        let page = self.engine().handlers[page].get_or_init(new_page);
        let is_first = page[index].set(Box::new(handler)).is_ok();
        assert!(is_first, "handler {} is set already", id.0);
    }

    /// Adds a layer to this rank's world, which then gets the messages of [`HandlerId::LAYER`]. All
    /// ranks attach the same layer before one of them sends such a message.
    ///
    /// # Panics
    ///
    /// If the world has a layer already.
    #[track_caller]
    pub fn attach(&self, layer: Box<dyn Layer>) {
        let layer: Arc<dyn Layer> = Arc::from(layer);
        self.running().describe_by(&layer);
        let attached = self.engine().layer.set(layer);
        assert!(attached.is_ok(), "the world has a layer already");
    }

    /// The layer that was attached, if it is a `T`.
    #[must_use]
    #[inline]
    pub fn layer<T: Layer>(&self) -> Option<&T> {
        let layer: &dyn Any = &**self.engine().layer.get()?;
        layer.downcast_ref()
    }

    /// How many short messages [`try_send`](Self::try_send) would take for `to` now, as far as this rank can tell; none means
    /// back-pressure. On one host a rank takes half of the room for requests at most, and all share what there is; over a network it
    /// is this rank's own.
    ///
    /// # Cost
    ///
    /// l, or two loads from lines that others write.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[must_use]
    #[track_caller]
    pub fn n_credits(&self, to: Rank, class: MessageClass) -> u64 {
        let last = self.n_ranks() - 1;
        assert!(to.number() <= last, "the job has ranks 0 to {last}");
        self.backend().n_credits(to, class)
    }

    /// Offers a message whose payload is the concatenation of `parts`; does not wait. After
    /// [`BackPressure`](Sent::BackPressure) make [`progress`](World::progress), then try again.
    ///
    /// # Cost
    ///
    /// One message. Complete locally on return; the handler runs when the target makes progress.
    ///
    /// # Errors
    ///
    /// [`Error::MessageTooLong`] for a payload over
    /// [`max_medium`](crate::backend::Capabilities::max_medium); what the transport reports; where there
    /// is no room, the failure of the job, and [`Error::RankFailed`] if `to` has left it.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`, or `handler` is one of core's own or of the layer's.
    #[track_caller]
    #[inline]
    pub fn try_send(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        handler.assert_free();
        self.offer(to, class, handler, parts)
    }

    /// As [`try_send`](Self::try_send), to a handler of the layer.
    ///
    /// # Cost
    ///
    /// As [`try_send`](Self::try_send).
    ///
    /// # Errors
    ///
    /// As [`try_send`](Self::try_send).
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[track_caller]
    #[inline]
    pub fn try_send_to_layer(
        &self,
        _: LayerKey,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        self.offer(to, class, handler, parts)
    }

    #[track_caller]
    #[inline]
    fn offer(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        assert!(
            to.number() < self.n_ranks(),
            "the job has ranks 0 to {}",
            self.n_ranks() - 1
        );
        let sent = self.backend().try_send(to, class, handler, parts)?;
        match sent {
            Sent::Accepted => {
                let bytes = parts.iter().map(|part| part.len()).sum();
                self.count(CostKind::Message, Some(to), 1, bytes);
            }
            Sent::BackPressure => self.check_after_refusal(to)?,
        }
        Ok(sent)
    }

    /// An error if a message that was refused would be refused for ever: its sender is about to try again.
    pub(crate) fn check_after_refusal(&self, to: Rank) -> Result<()> {
        self.backend().health()?;
        if self.backend().has_left(to) {
            let cause = "has left the job, and its mailbox is full";
            return Err(Error::rank_failed(to, cause));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_come_when_the_rank_is_leaving_are_told() {
        let engine = Engine::default();
        let refuse = |from, class, id| {
            engine.refuse(&Message {
                from: Rank::new(from),
                class,
                handler: HandlerId(id),
                payload: &[],
            });
        };
        // Whoever asks about a long wait, and whoever waits for a reply, is told otherwise.
        refuse(1, MessageClass::Request, HandlerId::WATCH.0);
        refuse(1, MessageClass::Reply, HandlerId::N_RESERVED);
        assert_eq!(engine.refused.text(Rank::ZERO), None);
        for from in [4, 5] {
            refuse(from, MessageClass::Request, HandlerId::N_RESERVED);
        }
        let text = engine.refused.text(Rank::ZERO).unwrap();
        let parts = [
            "rank 0 has left",
            "2 messages lost",
            "from rank 4 for handler",
        ];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}
