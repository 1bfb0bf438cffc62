//! The state of a rank: who handles what, which answers are awaited, and what is still to be sent.
//! Futures name it by a number, so that one that is forgotten keeps nothing.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use pgas_core::backend::Message;
use pgas_core::{Rank, Tasks, WeakWorld, World};
use pgas_lockfree::pending::Pending;
use pgas_lockfree::tally::Tally;

use crate::buffers::Buffers;
use crate::driven::Driven;
use crate::identity::Names;
use crate::lost::Lost;
use crate::objects::Objects;
use crate::outbox::Outbox;
use crate::pieces::Pieces;
use crate::registry::Registry;
use crate::transfers::Transfers;
use pgas_core::{Error, Result};

/// The state of one rank.
#[derive(Debug)]
pub(crate) struct Am {
    /// How futures name this.
    pub(crate) handle: Handle,
    /// What functions are named by, or why no function is called: set when the ranks have compared
    /// their programs.
    pub(crate) names: OnceLock<Result<Names>>,
    pub(crate) rank: Rank,
    pub(crate) world: WeakWorld,
    pub(crate) registry: Registry<Handler>,
    pub(crate) pending: Pending,
    pub(crate) outbox: Outbox,
    /// What was chained to transfers and collectives.
    pub(crate) tasks: Tasks,
    /// Those of them that follow transfers.
    pub(crate) transfers: Transfers,
    pub(crate) buffers: Buffers,
    pub(crate) pieces: Pieces,
    pub(crate) objects: Objects,
    pub(crate) driven: Driven,
    pub(crate) lost: Lost,
    /// Rounds of progress.
    pub(crate) n_rounds: AtomicU32,
    /// Messages that this rank has sent, and that it has served; a call or request that is answered
    /// is served when the answer is back.
    pub(crate) tally: Tally,
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
            world: world.downgrade(),
            registry: Registry::default(),
            pending: Pending::default(),
            outbox: Outbox::default(),
            tasks: Tasks::default(),
            transfers: Transfers::default(),
            buffers: Buffers::default(),
            pieces: Pieces::default(),
            objects: Objects::default(),
            driven: Driven::default(),
            lost: Lost::default(),
            n_rounds: AtomicU32::new(0),
            tally: Tally::default(),
        }
    }

    /// What functions are named by.
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

/// What exists.
static LIVING: Mutex<Vec<(Handle, Weak<Am>)>> = Mutex::new(Vec::new());

thread_local! {
    /// What this thread asked for last: most threads belong to one rank.
    static LAST: RefCell<Option<(Handle, Weak<Am>)>> = const { RefCell::new(None) };
}

fn living() -> MutexGuard<'static, Vec<(Handle, Weak<Am>)>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handle {
    /// A name that nothing has yet.
    pub(crate) fn unused() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes this the name of `am`.
    pub(crate) fn give_to(self, am: &Arc<Am>) {
        let mut living = living();
        living.retain(|(_, am)| am.strong_count() > 0);
        living.push((self, Arc::downgrade(am)));
    }

    /// What it names.
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

    #[cold]
    fn look_up(self) -> Option<Arc<Am>> {
        let found = living()
            .iter()
            .find(|(handle, _)| *handle == self)
            .cloned()?;
        let am = found.1.upgrade();
        // A thread that is ending has nothing to remember.
        drop(LAST.try_with(|last| last.replace(Some(found))));
        am
    }
}
