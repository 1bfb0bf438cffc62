//! Sends messages, and serves those that arrive: by handlers, by the layer above core or by core
//! itself.

use std::any::Any;
use std::sync::Arc;
use std::task::Waker;

use crate::backend::{HandlerId, LayerKey, Message, MessageClass, Sent};
use crate::error::{Error, Result};
use crate::handler::{as_handler, in_handler};
use crate::rank::Rank;
#[cfg(feature = "tracing")]
use crate::seen;
use crate::stats::Counting;
use crate::trace::{Kind, Trace};
use crate::waits::apart;
use crate::world::{Layer, World};

/// Messages of one class that one call of progress serves.
pub(crate) const BATCH: usize = 64;
/// The maximum number of consecutive rounds with progress without a check of the job's health (at
/// the start of a wait twice as many): messages may come for ever from ranks that do not wait.
pub(crate) const BUSY_ROUNDS: u32 = 64;

impl World {
    /// Sets the handler of messages with `id`. Handlers run inside [`progress`](World::progress)
    /// and every call that waits. They may send, but a wait inside of them returns
    /// [`Error::InHandler`].
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
        let is_first = self.handlers().set(id, Box::new(handler));
        assert!(is_first, "handler {} is set already", id.0);
    }

    /// Adds a layer to this rank's world, which then gets the messages of [`HandlerId::LAYER`]. All
    /// ranks must attach the same layer before one of them sends such a message.
    ///
    /// # Panics
    ///
    /// If the world has a layer already.
    #[track_caller]
    pub fn attach(&self, layer: Box<dyn Layer>) {
        let layer: Arc<dyn Layer> = Arc::from(layer);
        let weak = Arc::downgrade(&layer);
        let describe = move || weak.upgrade()?.running();
        assert!(self.set_layer(layer), "the world has a layer already");
        self.running().describe_by(Box::new(describe));
    }

    /// The layer that was attached, if it is a `T`.
    #[must_use]
    #[inline]
    pub fn layer<T: Layer>(&self) -> Option<&T> {
        let layer: &dyn Any = &**self.layer_above()?;
        layer.downcast_ref()
    }

    /// The number of short messages to `to` for which there is room now, as far as this rank can
    /// tell; 0 means back-pressure. On one host all ranks share the room, and one rank takes at
    /// most half of the room for requests. Over a network the room is this rank's own.
    ///
    /// # Cost
    ///
    /// ℓ; on one host two loads from cache lines that other ranks write.
    ///
    /// # Panics
    ///
    /// If the job has no rank `to`.
    #[must_use]
    #[track_caller]
    pub fn n_credits(&self, to: Rank, class: MessageClass) -> u64 {
        self.assert_rank(to);
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
    /// [`max_medium`](crate::backend::Capabilities::max_medium); errors of the transport; if there
    /// is no room, also the failure of the job, and [`Error::RankFailed`] if `to` has left it.
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
        self.assert_rank(to);
        let bytes = || parts.iter().map(|part| part.len()).sum();
        let send = || self.backend().try_send(to, class, handler, parts);
        let sent = self.count_sent((to, class), bytes, send)?;
        if sent == Sent::BackPressure {
            self.check_after_refusal(to)?;
        }
        Ok(sent)
    }

    /// The result of a message of the layer that is not offered, for want of a
    /// [credit](Self::n_credits): [`Sent::BackPressure`] if a later one may be accepted.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Errors
    ///
    /// As [`try_send`](Self::try_send) if there is no room.
    pub fn back_pressure_of_layer(&self, _: LayerKey, to: Rank) -> Result<Sent> {
        self.check_after_refusal(to)?;
        Ok(Sent::BackPressure)
    }

    /// An error if a refused message would be refused for ever. The caller is about to try again.
    pub(crate) fn check_after_refusal(&self, to: Rank) -> Result<()> {
        // In this order: a rank may leave because the job has failed, and then that is the error.
        let has_left = self.backend().has_left(to);
        self.backend().health()?;
        if has_left {
            let cause = "has left the job, and its mailbox is full";
            return Err(Error::rank_failed(to, cause));
        }
        Ok(())
    }

    /// Serves up to `limit` received messages of each class, and says whether there were any.
    /// Errors of their handlers wait for a call that [returns](Self::check_handlers) them.
    #[inline]
    pub(crate) fn receive(&self, limit: usize) -> Result<bool> {
        if in_handler() || !self.servers().has_this_thread() {
            return Ok(false);
        }
        let mut sink = |message: Message<'_>| {
            if let Err(error) = self.dispatch(message) {
                self.untold().add(error);
            }
        };
        let with_requests = self
            .layer_above()
            .is_none_or(|layer| layer.accepts_requests());
        let n_received = self.backend().poll_all(with_requests, limit, &mut sink)?;
        let has_received = n_received > 0;
        self.servers().wake_after(has_received);
        Ok(has_received)
    }

    #[inline]
    fn dispatch(&self, message: Message<'_>) -> Result<()> {
        #[cfg(feature = "tracing")]
        if seen::is_wanted(tracing::Level::DEBUG) {
            return self.dispatch_seen(message);
        }
        self.dispatch_unseen(message)
    }

    /// As [`dispatch`](Self::dispatch), with the handler as a span.
    #[cfg(feature = "tracing")]
    #[cold]
    fn dispatch_seen(&self, message: Message<'_>) -> Result<()> {
        if [HandlerId::WATCH, HandlerId::COLLECTIVE].contains(&message.handler) {
            return self.dispatch_unseen(message);
        }
        // The subscriber runs where the handler does, and must not wait, either.
        as_handler(|| {
            let _seen = seen::handler(self.rank(), &message);
            self.dispatch_unseen(message)
        })
    }

    #[inline]
    fn dispatch_unseen(&self, message: Message<'_>) -> Result<()> {
        if self.is_observed() {
            return self.dispatch_observed(message);
        }
        self.run_handler(message)
    }

    /// As [`dispatch`](Self::dispatch). What a request costs is no part of the operation that waits
    /// here.
    #[cold]
    #[inline(never)]
    fn dispatch_observed(&self, message: Message<'_>) -> Result<()> {
        let is_request = message.class == MessageClass::Request;
        let counting = self.counting().filter(|_| is_request);
        let _aside = counting.and_then(Counting::aside);
        match self.trace() {
            Some(trace) => self.dispatch_traced(trace, message),
            None => self.run_handler(message),
        }
    }

    /// As [`dispatch`](Self::dispatch), and records the message and the time of its handler in the
    /// trace.
    fn dispatch_traced(&self, trace: &Trace, message: Message<'_>) -> Result<()> {
        let Message { from, class, .. } = message;
        let (is_reply, bytes) = (class == MessageClass::Reply, message.payload.len() as u64);
        match message.handler {
            // These are not traced.
            HandlerId::WATCH => self.run_handler(message),
            HandlerId::COLLECTIVE => {
                trace.came(Kind::Arrival, from, is_reply, bytes);
                self.run_handler(message)
            }
            _ => {
                trace.came(Kind::Begin, from, is_reply, bytes);
                let _apart = apart();
                let served = self.run_handler(message);
                trace.note(Kind::End, 0, Some(from), [0, 0]);
                served
            }
        }
    }

    /// Runs the handler of a message, also of one that the layer has set aside before. If it does
    /// not return, that is reported (`PGAS_STALL`).
    ///
    /// # Cost
    ///
    /// ℓ, and that of the handler.
    ///
    /// # Errors
    ///
    /// Those of the layer, and of a message for a handler that nobody has set.
    #[doc(hidden)]
    #[inline]
    pub fn run_handler(&self, message: Message<'_>) -> Result<()> {
        let HandlerId(id) = message.handler;
        if HandlerId::LAYER.contains(&id)
            && let Some(layer) = self.layer_above()
        {
            let _running = self.running().begin(message.from);
            return as_handler(|| layer.deliver(self, message));
        }
        if message.handler == HandlerId::COLLECTIVE {
            return self.wire().deliver(message);
        }
        if message.handler == HandlerId::WATCH {
            self.deliver_note(&message);
            return Ok(());
        }
        let Some(handler) = self.handlers().get(message.handler) else {
            let from = message.from;
            let text = format!("a message from rank {from} is for handler {id}, which nobody set");
            return Err(Error::backend("progress", i64::from(id), text));
        };
        let _running = self.running().begin(message.from);
        as_handler(|| handler(self, message));
        Ok(())
    }

    /// Runs the program's code for the layer. If it does not return, it is reported as a handler
    /// that does not return is (`PGAS_STALL`).
    ///
    /// # Cost
    ///
    /// ℓ: three stores.
    #[inline]
    pub fn run_watched<R>(&self, body: impl FnOnce() -> R) -> R {
        let _running = self.running().begin_own();
        if self.is_observed() {
            return self.run_apart(body);
        }
        body()
    }

    /// Runs the program's code apart from the call that it runs in: the trace names the lines that
    /// send messages, and its costs are no part of those of an operation that waits.
    #[cold]
    fn run_apart<R>(&self, body: impl FnOnce() -> R) -> R {
        let _apart = self.trace().map(|_| apart());
        let _aside = self.counting().and_then(Counting::aside);
        body()
    }

    /// Whether the layer above core wakes `waker` after the next progress.
    pub(crate) fn wake_after_progress(&self, waker: &Waker) -> bool {
        let layer = self.layer_above();
        layer.is_some_and(|layer| layer.wake_after_progress(self, waker))
    }

    /// Whether the layer has nothing left to send.
    pub(crate) fn is_idle(&self) -> bool {
        self.layer_above().is_none_or(|layer| layer.is_idle())
    }

    /// Runs pending work of the layer above core.
    #[inline]
    pub(crate) fn advance_layer(&self) -> Result<bool> {
        match self.layer_above() {
            Some(layer) if !in_handler() => {
                if !self.servers().has_this_thread() {
                    return Ok(layer.advance_thread(self));
                }
                let worked = layer.advance(self)?;
                self.servers().wake_after(worked);
                Ok(worked)
            }
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    use zerocopy::IntoBytes;

    use super::*;
    use crate::cost::{CostKind, Statistics};
    use crate::trace;
    use crate::waits::part_of;
    use crate::wire::Header;
    use crate::{Config, loopback};

    const PANICS: HandlerId = HandlerId(100);
    const MISSING: [HandlerId; 2] = [HandlerId(101), HandlerId(102)];

    #[track_caller]
    fn send(world: &World, handler: HandlerId) {
        let sent = world.try_send(world.rank(), MessageClass::Request, handler, &[]);
        assert_eq!(sent.unwrap(), Sent::Accepted, "there is room");
    }

    /// Whether the next progress tells that this handler is missing.
    fn tells(world: &World, HandlerId(id): HandlerId) -> bool {
        let error = world.progress().unwrap_err().to_string();
        error.contains(&format!("is for handler {id}, which nobody set"))
    }

    #[test]
    fn each_message_that_fails_in_one_round_is_told() {
        let world = loopback::world();
        MISSING.iter().for_each(|id| send(&world, *id));
        assert!(MISSING.iter().all(|id| tells(&world, *id)));
        world.progress().unwrap();
    }

    #[test]
    fn a_message_that_fails_before_a_handler_panics_is_told_by_the_next_call() {
        let world = loopback::world();
        world.set_handler(PANICS, |_, _| panic!("a handler"));
        send(&world, MISSING[0]);
        send(&world, PANICS);
        assert!(catch_unwind(AssertUnwindSafe(|| world.progress())).is_err());
        assert!(tells(&world, MISSING[0]));
        world.progress().unwrap();
    }

    /// A directory with traces, which is removed with this.
    struct TracedTo(PathBuf);

    impl TracedTo {
        fn new() -> Self {
            static N: AtomicU32 = AtomicU32::new(0);
            let n = N.fetch_add(1, Ordering::Relaxed);
            let name = format!("pgas-messages-{}-{n}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for TracedTo {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// The kinds, times and ranks of the events in a trace.
    fn events(directory: &Path, rank: u32) -> Vec<(u64, u64, u64)> {
        let bytes = fs::read(directory.join(format!("rank-{rank}.trace"))).unwrap();
        let words = bytes[trace::HEADER_BYTES..].chunks_exact(8);
        let words: Vec<u64> = words
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let events = words.chunks_exact(4);
        events
            .map(|event| (event[1] & 0xff, event[0] - 1, event[1] >> 32))
            .collect()
    }

    #[test]
    fn a_message_without_room_counts_once_however_often_it_is_offered() {
        let directory = TracedTo::new();
        let config = Config {
            statistics: Statistics::Total,
            trace: Some(directory.0.display().to_string()),
            ..Config::default()
        };
        let worlds = loopback::worlds(2, &config).unwrap();
        let (to, class, id) = (Rank::new(1), MessageClass::Request, HandlerId(100));
        worlds[1].set_handler(id, |_, _| {});
        let offer = || worlds[0].try_send(to, class, id, &[]).unwrap();
        let n_rounds = 3;
        for _ in 0..n_rounds {
            while offer() == Sent::Accepted {}
            assert!((0..100).all(|_| offer() == Sent::BackPressure));
            while worlds[1].progress().unwrap() {}
        }
        let counting = worlds[0].counting().unwrap();
        assert_eq!(counting.n(CostKind::Refusal, true), n_rounds);
        worlds[0].trace().unwrap().flush();
        let refusals = events(&directory.0, 0).into_iter();
        let ranks = refusals.filter(|event| event.0 == Kind::Refusal as u64);
        let ranks: Vec<u64> = ranks.map(|(_, _, rank)| rank).collect();
        assert_eq!(ranks, [1; 3]);
    }

    #[test]
    fn a_message_is_noted_as_sent_before_others_can_see_it() {
        let directory = TracedTo::new();
        let config = Config {
            trace: Some(directory.0.display().to_string()),
            ..Config::default()
        };
        let world = loopback::worlds(1, &config).unwrap().remove(0);
        let mut was_there = None;
        let send = || {
            was_there = Some(Instant::now());
            Ok(Sent::Accepted)
        };
        let what = (world.rank(), MessageClass::Request);
        assert_eq!(world.count_sent(what, || 0, send).unwrap(), Sent::Accepted);
        let trace = world.trace().unwrap();
        trace.flush();
        let was_there = was_there.unwrap().duration_since(trace.began());
        let events = events(&directory.0, 0);
        let is_send = |event: &&(u64, u64, u64)| event.0 == Kind::Send as u64;
        let (_, at, _) = events.iter().find(is_send).unwrap();
        assert!(u128::from(*at) <= was_there.as_nanos());
    }

    #[test]
    fn messages_of_handlers_and_tasks_have_their_own_lines_whatever_call_they_run_in() {
        let directory = TracedTo::new();
        let config = Config {
            trace: Some(directory.0.display().to_string()),
            ..Config::default()
        };
        let world = loopback::worlds(1, &config).unwrap().remove(0);
        let (first, last) = (HandlerId(100), HandlerId(101));
        static LINE: AtomicU32 = AtomicU32::new(0);
        world.set_handler(first, |world, _| {
            LINE.store(line!() + 1, Ordering::Relaxed);
            send(world, HandlerId(101));
        });
        world.set_handler(last, |_, _| {});
        let call = part_of("a long call");
        send(&world, first);
        while world.progress().unwrap() {}
        let of_task = line!() + 1;
        world.run_watched(|| send(&world, last));
        let of_call = line!() + 1;
        send(&world, last);
        drop(call);
        let names = fs::read_to_string(directory.0.join("rank-0.names")).unwrap();
        let has = |line: u32| names.contains(&format!("messages.rs:{line}\n"));
        assert!(has(LINE.load(Ordering::Relaxed)) && has(of_task), "{names}");
        assert!(!has(of_call), "that of the call stands for it: {names}");
    }

    /// The collective would wait for it for ever, and others for this rank.
    #[test]
    fn a_message_of_a_collective_that_cannot_be_stored_fails_the_job() {
        let worlds = loopback::worlds(2, &Config::default()).unwrap();
        let too_long = Header {
            team: 0,
            number: 0,
            total: u64::MAX,
            offset: 0,
            phase: 0,
            algorithm: 0,
            round: 0,
        };
        let parts: [&[u8]; 2] = [too_long.as_bytes(), &[1]];
        let (to, id) = (Rank::new(1), HandlerId::COLLECTIVE);
        let sent = worlds[0].offer(to, MessageClass::Request, id, &parts);
        assert_eq!(sent.unwrap(), Sent::Accepted);
        let told = [1, 0].map(|rank: usize| worlds[rank].progress().unwrap_err().to_string());
        let cause = format!("no memory for {} bytes from rank 0", u64::MAX);
        assert!(told.iter().all(|text| text.contains(&cause)), "{told:?}");
        let of_others = "rank 1 failed in a collective: ";
        assert!(told[1].contains(of_others), "{told:?}");
    }
}
