//! A rank of a job that communicates over libfabric.
//!
//! The state of the network path.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Instant;

use pgas_core::backend::{AtomicsBy, Backend, Capabilities, NeedsTarget, Operand};
use pgas_core::{Config, Error, Rank, Result};
use pgas_network::failure::FirstFailure;
use pgas_network::host::Host;
use pgas_network::lifeline::Lifeline;
use pgas_network::limits::Limits;
use pgas_network::neighbours::{Neighbours, Reach};
use pgas_network::note::Note;
use pgas_network::park::Parking;
use pgas_network::questions::Questions;
use pgas_network::receive::Receiving;
use pgas_network::send::SHORT_BYTES;
use pgas_smp::Member;

use crate::bootstrap::Pmi;
use crate::mailbox::Post;
use crate::native::Provider;
use crate::ops::{LIMIT, Ops};
use crate::outbox::MAX_MEDIUM;
use crate::segment::Segments;
use crate::staging::Staging;
use crate::sys::{Completion, Endpoint, Region};

/// The longest single transfer, in bytes.
const MAX_TRANSFER: u64 = 1 << 30;
/// The most unread completions, beside those of operations.
const MESSAGES: usize = 1024;

/// The kinds of contexts, the lowest part of a context's number. The fourth one is
/// [`Completion::WITHOUT_CONTEXT`](crate::sys::Completion::WITHOUT_CONTEXT).
pub(crate) const KINDS: u64 = 3;
pub(crate) const OPERATION: u64 = 0;
pub(crate) const RECEIVE: u64 = 1;
pub(crate) const SEND: u64 = 2;

/// One rank of a job over libfabric.
#[derive(Debug)]
pub(crate) struct Network {
    /// The state. It is dropped before the segment, which it has registered.
    state: Mutex<State>,
    pub(crate) rank: u32,
    /// The ranks of this host, reached by its memory.
    pub(crate) neighbours: Neighbours<Member>,
    pub(crate) capabilities: Capabilities,
    pub(crate) limits: Limits,
    pub(crate) segments: Segments,
    pub(crate) receiving: Receiving,
    pub(crate) parking: Parking,
    pub(crate) failure: FirstFailure,
    /// The first failed operation: the rank that it shows to have failed, how, and the time. The
    /// job fails because of it, unless a better explanation comes.
    pub(crate) broken: OnceLock<(Rank, String, Instant)>,
    /// The launcher that is told when the rank has left.
    pub(crate) launcher: Option<Mutex<Pmi>>,
}

/// The mutable state of a rank.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) post: Post,
    pub(crate) ops: Ops,
    pub(crate) staging: Staging,
    /// What this rank needs for atomics of the provider, if that executes them.
    pub(crate) provider: Option<Provider>,
    pub(crate) completions: Vec<Completion>,
    /// The notes of the message that is being processed; otherwise empty.
    pub(crate) notes: Vec<Note>,
    /// What peers access: this rank's segment, and a word that was lost in a trial.
    pub(crate) exposed: Vec<Region>,
    /// The endpoint. It is dropped last, since all registrations are made with it.
    pub(crate) endpoint: Endpoint,
    /// Questions to other ranks whether they have left.
    pub(crate) questions: Questions,
    /// Whether this rank has left the job.
    pub(crate) has_left: bool,
    /// Connections to other hosts, if this is the first rank of its host.
    pub(crate) lifeline: Option<Lifeline>,
    pub(crate) looked: Instant,
    /// The rounds of the last barrier in which this rank was told that another one has come.
    pub(crate) rounds: HashSet<u32>,
}

impl Drop for State {
    fn drop(&mut self) {
        // From here on libfabric uses none of the buffers, which go next.
        self.shut(None);
    }
}

impl State {
    /// The state with receives posted.
    pub(crate) fn new(
        endpoint: Endpoint,
        exposed: Region,
        (rank, n_ranks): (u32, u32),
    ) -> Result<Self> {
        let numbers: [fn(usize) -> u64; 2] = [
            |index| (index as u64) << 2 | RECEIVE,
            |index| (index as u64) << 2 | SEND,
        ];
        let mut this = Self {
            post: Post::new(&endpoint, (rank, n_ranks), numbers),
            ops: Ops::new(|index| (index as u64) << 2 | OPERATION),
            staging: Staging::default(),
            provider: None,
            completions: Vec::new(),
            notes: Vec::new(),
            exposed: vec![exposed],
            endpoint,
            questions: Questions::default(),
            has_left: false,
            lifeline: None,
            looked: Instant::now(),
            rounds: HashSet::new(),
        };
        // After an error some are posted. So `this` has them, and its drop closes the endpoint
        // before it frees their buffers.
        this.post.post_receives(&mut this.endpoint)?;
        Ok(this)
    }

    /// Whether all room that this rank has for operations in flight, or for a kind of them, is taken.
    pub(crate) fn is_full(&self) -> bool {
        let provider = self.provider.as_ref();
        self.ops.is_full()
            || self.staging.is_full()
            || provider.is_some_and(|provider| provider.words.are_taken())
    }

    /// Closes the endpoint: from here on libfabric uses no memory of this process, and who calls it
    /// meets the error `why`. Peers' access to the segment ends first, since a provider may keep an
    /// endpoint open for registrations that are bound to it.
    pub(crate) fn shut(&mut self, why: Option<Error>) {
        self.exposed.clear();
        self.endpoint.shut(why);
    }
}

/// The number of completions that an endpoint has room for.
pub(crate) const N_COMPLETIONS: usize = LIMIT + MESSAGES;

impl Network {
    pub(crate) fn new(
        state: State,
        segments: Segments,
        member: Member,
        (host, rank): (Host, u32),
        config: &Config,
    ) -> Self {
        let max_bytes = state.endpoint.info().max_bytes() as u64;
        let (atomics, needs_target) = executor(state.provider.as_ref().filter(|it| it.is_executor));
        let capabilities = Capabilities {
            atomics,
            needs_target,
            max_short: SHORT_BYTES,
            max_medium: MAX_MEDIUM,
            max_transfer: MAX_TRANSFER.min(max_bytes),
            starts_one_program: false,
        };
        // A rank always uses its own memory.
        let neighbours = Neighbours::new(host, Arc::new(member), config.direct, Reach::Own);
        Self {
            state: Mutex::new(state),
            rank,
            neighbours,
            capabilities,
            limits: Limits::new(config),
            segments,
            receiving: Receiving::default(),
            parking: Parking::default(),
            failure: FirstFailure::default(),
            broken: OnceLock::new(),
            launcher: None,
        }
    }

    /// This rank as a member of its host.
    #[inline]
    pub(crate) fn member(&self) -> &Member {
        &self.neighbours.member
    }

    /// Whether the provider executes all atomics of the job.
    #[inline]
    pub(crate) fn has_provided_atomics(&self) -> bool {
        self.capabilities.atomics == AtomicsBy::Network
    }

    /// The operand for [`member`](Self::member), if its rank is accessed directly.
    #[inline]
    pub(crate) fn on_this_host<O: Operand>(&self, operand: O) -> Option<O> {
        self.neighbours.on_this_host(operand)
    }

    /// Whether a rank that waits takes the processor from one that is waited for.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.member().is_oversubscribed()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic of the library while it held the lock ends the job.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`state`](Self::state), without waiting for another thread.
    pub(crate) fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Who executes atomics, and what needs the target for that.
fn executor(provider: Option<&Provider>) -> (AtomicsBy, NeedsTarget) {
    let by_message = (AtomicsBy::Cpu, NeedsTarget::EVERYTHING);
    provider.map_or(by_message, |provider| {
        let needs_target = NeedsTarget {
            atomics: provider.needs_target,
            ..NeedsTarget::EVERYTHING
        };
        (AtomicsBy::Network, needs_target)
    })
}
