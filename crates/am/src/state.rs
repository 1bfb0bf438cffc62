//! The state of a rank's active messages: handlers, pending answers, unsent messages. Futures of
//! calls refer to it by a number, so a forgotten one keeps nothing alive.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use pgas_core::backend::Message;
use pgas_core::{Process, Rank, Tasks, WeakWorld, World};
use pgas_lockfree::message_counts::MessageCounts;
use pgas_lockfree::pending::Pending;

use crate::buffers::Buffers;
use crate::call_times::CallTimes;
use crate::driven::Driven;
use crate::identity::Names;
use crate::lost::Lost;
use crate::objects::Objects;
use crate::outbox::Outbox;
use crate::pieces::Pieces;
use crate::put_off::PutOff;
use crate::registry::Registry;
use crate::transfers::Transfers;
use pgas_core::{Error, Result};

/// The state of one rank.
#[derive(Debug)]
pub(crate) struct Am {
    /// The number by which futures refer to this state.
    pub(crate) handle: Handle,
    /// The basis of function names, or why no function can be called. It is set when the ranks have
    /// compared their programs.
    pub(crate) names: OnceLock<Result<Names>>,
    pub(crate) rank: Rank,
    process: Process,
    pub(crate) world: WeakWorld,
    pub(crate) registry: Registry<Handler>,
    pub(crate) pending: Pending,
    /// Where calls are timed.
    pub(crate) call_times: Option<CallTimes>,
    pub(crate) outbox: Outbox,
    /// Actions chained to transfers and collectives.
    pub(crate) tasks: Tasks,
    /// The number of actions chained to transfers.
    pub(crate) transfers: Transfers,
    /// The number of actions chained to transfers and collectives, before the end of which the rank
    /// does not leave.
    pub(crate) chained: Transfers,
    pub(crate) buffers: Buffers,
    pub(crate) pieces: Pieces,
    pub(crate) objects: Objects,
    pub(crate) put_off: PutOff,
    pub(crate) driven: Driven,
    /// Calls that wait for a thread of this rank.
    pub(crate) n_local_calls: Arc<AtomicUsize>,
    pub(crate) lost: Lost,
    /// Rounds of progress.
    pub(crate) n_rounds: AtomicU32,
    /// Messages that this rank has sent, and messages that it has served. A call or request with an
    /// answer counts as served when the answer is back.
    pub(crate) message_counts: MessageCounts,
    /// This rank has left the job, though the program has handles on its world.
    pub(crate) has_left: AtomicBool,
}

/// Decodes a message and runs the handler that it names.
pub(crate) type Handler = dyn Fn(Arrived<'_>) -> Result<()> + Send + Sync;

/// A message on its way to its handler.
pub(crate) struct Arrived<'a> {
    pub(crate) world: &'a World,
    pub(crate) am: &'a Am,
    pub(crate) message: &'a Message<'a>,
    /// Arguments and payload.
    pub(crate) bytes: &'a [u8],
}

/// The layer of a world, shared with the futures of its calls, which do not keep the world.
#[derive(Debug)]
pub(crate) struct Attached(pub(crate) Arc<Am>);

/// The state of `world`'s active messages.
#[inline]
pub(crate) fn am(world: &World) -> Result<&Arc<Am>> {
    match world.layer::<Attached>() {
        Some(Attached(am)) => Ok(am),
        None => Err(Error::NotAttached),
    }
}

impl Am {
    /// The state of the rank of `world`, which has sent and received nothing yet.
    pub(crate) fn new(world: &World) -> Self {
        Self {
            handle: Handle::unused(),
            names: OnceLock::new(),
            rank: world.rank(),
            process: Process::this(),
            world: world.downgrade(),
            registry: Registry::default(),
            pending: Pending::default(),
            call_times: world.are_calls_timed().then(CallTimes::default),
            outbox: Outbox::default(),
            tasks: Tasks::default(),
            transfers: Transfers::default(),
            chained: Transfers::default(),
            buffers: Buffers::default(),
            pieces: Pieces::default(),
            objects: Objects::default(),
            put_off: PutOff::default(),
            driven: Driven::default(),
            n_local_calls: Arc::default(),
            lost: Lost::default(),
            n_rounds: AtomicU32::new(0),
            message_counts: MessageCounts::default(),
            has_left: AtomicBool::new(false),
        }
    }

    /// The basis of function names.
    #[inline]
    pub(crate) fn names(&self) -> Result<&Names> {
        match self.names.get() {
            Some(Ok(names)) => Ok(names),
            other => Err(nameless(other)),
        }
    }
}

#[cold]
fn nameless(names: Option<&Result<Names>>) -> Error {
    match names {
        Some(Err(error)) => error.clone(),
        _ => Error::NotAttached,
    }
}

/// The state of a rank, if that is still in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(u64);

/// All living states.
static LIVING: Mutex<Vec<(Handle, Weak<Am>)>> = Mutex::new(Vec::new());

thread_local! {
    /// The state that this thread used last: most threads belong to one rank.
    static LAST: RefCell<Option<(Handle, Weak<Am>)>> = const { RefCell::new(None) };
}

fn living() -> MutexGuard<'static, Vec<(Handle, Weak<Am>)>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handle {
    /// An unused number.
    pub(crate) fn unused() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Assigns this number to `am`.
    pub(crate) fn give_to(self, am: &Arc<Am>) {
        let mut living = living();
        living.retain(|(_, am)| am.strong_count() > 0);
        living.push((self, Arc::downgrade(am)));
    }

    /// The state with this number, if it exists.
    #[inline]
    pub(crate) fn get(self) -> Option<Arc<Am>> {
        let known = LAST.try_with(|last| match &*last.borrow() {
            Some((handle, am)) if *handle == self => Some(am.upgrade()),
            _ => None,
        });
        match known {
            Ok(Some(am)) => am,
            _ => self.look_up(),
        }
    }

    /// Whether this process was forked from the one that is the rank.
    #[cold]
    pub(crate) fn is_forked(self) -> bool {
        self.get().is_some_and(|am| am.process.is_forked())
    }

    #[cold]
    fn look_up(self) -> Option<Arc<Am>> {
        let found = living()
            .iter()
            .find(|(handle, _)| *handle == self)
            .cloned()?;
        let am = found.1.upgrade();
        // A thread that is ending has no cache any more.
        drop(LAST.try_with(|last| last.replace(Some(found))));
        am
    }
}
