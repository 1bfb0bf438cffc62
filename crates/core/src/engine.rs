//! What a rank works on between its calls: received messages, and collectives in flight.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::task::{Context, Waker};

use crate::backend::{HandlerId, Message, MessageClass};
use crate::cost::CostKind;
use crate::world::lock;
use crate::{Error, Rank, Result, World, backend::Sent};

/// Messages of one class that one call of progress serves.
const BATCH: usize = 64;

type Handler = dyn Fn(&World, Message<'_>) + Send + Sync;
type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Handlers of messages, and tasks that advance whenever the rank makes progress.
#[derive(Default)]
pub(crate) struct Engine {
    handlers: RwLock<HashMap<HandlerId, Arc<Handler>>>,
    tasks: Mutex<Vec<Running>>,
    n_tasks: AtomicUsize,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({} tasks)", self.n_tasks.load(Ordering::Relaxed))
    }
}

impl Engine {
    /// Runs `task` to its end, a step at each call of progress.
    pub(crate) fn spawn(&self, task: Running) {
        let mut tasks = lock(&self.tasks);
        tasks.push(task);
        // Only a hint that saves `advance` the lock.
        self.n_tasks.store(tasks.len(), Ordering::Relaxed);
    }

    /// Whether tasks are left to run.
    pub(crate) fn has_tasks(&self) -> bool {
        self.n_tasks.load(Ordering::Relaxed) > 0
    }

    /// Polls each task once, and says whether one has ended.
    ///
    /// A task runs a user's operators, which may call into the library; so the tasks are not locked
    /// while they run. Another thread that finds them taken leaves the work to this one.
    pub(crate) fn advance(&self) -> bool {
        if !self.has_tasks() {
            return false;
        }
        let mut running = mem::take(&mut *lock(&self.tasks));
        let before = running.len();
        let mut cx = Context::from_waker(Waker::noop());
        running.retain_mut(|task| task.as_mut().poll(&mut cx).is_pending());
        let has_ended = running.len() < before;
        let mut tasks = lock(&self.tasks);
        running.append(&mut tasks);
        *tasks = running;
        self.n_tasks.store(tasks.len(), Ordering::Relaxed);
        has_ended
    }

    /// Serves received messages, and says whether there were any.
    pub(crate) fn receive(&self, world: &World) -> Result<bool> {
        let mut failure = None;
        let mut sink = |message: Message<'_>| {
            if let Err(error) = self.dispatch(world, message) {
                failure.get_or_insert(error);
            }
        };
        let replies = world
            .backend()
            .poll(MessageClass::Reply, BATCH, &mut sink)?;
        let requests = world
            .backend()
            .poll(MessageClass::Request, BATCH, &mut sink)?;
        match failure {
            None => Ok(replies + requests > 0),
            Some(error) => Err(error),
        }
    }

    fn dispatch(&self, world: &World, message: Message<'_>) -> Result<()> {
        if message.handler == HandlerId::COLLECTIVE {
            return world.wire().deliver(message);
        }
        let handler = self
            .handlers
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(&message.handler)
            .cloned();
        let Some(handler) = handler else {
            let HandlerId(id) = message.handler;
            let from = message.from;
            let text = format!("a message from rank {from} is for handler {id}, which nobody set");
            return Err(Error::backend("progress", i64::from(id), text));
        };
        handler(world, message);
        Ok(())
    }
}

impl World {
    /// Sets the handler of messages with `id`. Handlers run inside [`progress`](World::progress) and
    /// every call that waits; they may send, but not wait.
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
        assert!(
            id.0 >= HandlerId::N_RESERVED,
            "handler {} is reserved",
            id.0
        );
        self.set_core_handler(id, handler);
    }

    #[track_caller]
    pub(crate) fn set_core_handler(
        &self,
        id: HandlerId,
        handler: impl Fn(&Self, Message<'_>) + Send + Sync + 'static,
    ) {
        let mut handlers = self
            .engine()
            .handlers
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let former = handlers.insert(id, Arc::new(handler));
        assert!(former.is_none(), "handler {} is set already", id.0);
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
    /// If the job has no rank `to`.
    #[track_caller]
    pub fn try_send(
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
            // The caller is about to try again, and must not do so for ever.
            Sent::BackPressure => {
                self.backend().health()?;
                if self.backend().has_left(to) {
                    let cause = "has left the job, and its mailbox is full";
                    return Err(Error::rank_failed(to, cause));
                }
            }
        }
        Ok(sent)
    }
}
