//! A collective of this rank, and the sends and receives of its algorithm.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::Poll;

use super::ticket::Ticket;
use super::{Kind, Signature};
use crate::error::{Error, Mismatch, Result};
use crate::members::Shared;
use crate::rank::Rank;
use crate::waits::ProgramCall;
use crate::wire::{Header, Key, Payload, Wire};

/// A part of a collective, whose messages are kept apart from those of other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Phase {
    /// The collective, or its first part.
    Main,
    /// The second part.
    Second,
    /// The comparison of the arguments.
    Check,
    /// The meeting before a new window.
    Window,
    /// The description of its call by one of two members that disagree.
    OneCall,
    /// The same by the other one.
    OtherCall,
}

/// A collective in progress.
pub(super) struct Call {
    pub(super) wire: Arc<Wire>,
    pub(super) team: Arc<Shared>,
    pub(super) number: u64,
    pub(super) signature: Signature,
    /// The call's ticket, if the transport performs it.
    pub(super) ticket: Option<Ticket>,
    /// Whether it was called inside a handler, which is an error without effect.
    pub(super) is_refused: bool,
    /// Whether it ends with an error that all members get. Such an error does not fail the job.
    pub(super) is_agreed: AtomicBool,
    /// The call of the program, if calls are compared.
    pub(super) program: Option<ProgramCall>,
    /// The rank whose message the algorithm waits for, for the message of a failed wait.
    pub(super) awaits: AtomicU32,
    #[cfg(feature = "tracing")]
    pub(super) seen: crate::seen::Seen<tracing::Span>,
}

/// The value of [`Call::awaits`] that names no rank.
pub(super) const NOBODY: u32 = u32::MAX;

impl Call {
    pub(super) fn lane(&self, phase: Phase) -> Lane<'_> {
        Lane {
            call: self,
            phase,
            algorithm: Algorithm::Only,
        }
    }

    /// The lane of an algorithm that has one part.
    pub(super) fn main(&self) -> Lane<'_> {
        self.lane(Phase::Main)
    }

    pub(super) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(super) fn kind(&self) -> Kind {
        self.signature.kind
    }

    /// The outcome on this rank; an error that the other members do not get fails the job.
    pub(super) fn outcome<T>(&self, result: Result<T>) -> Result<T> {
        // Relaxed, as in `admit`.
        if self.is_refused || self.is_agreed.load(Ordering::Relaxed) {
            return result;
        }
        result.map_err(|error| self.wire.give_up(self.signature.kind.name(), error))
    }

    pub(super) fn awaited(&self) -> Vec<Rank> {
        // Only for a message; another thread may have moved on.
        match self.awaits.load(Ordering::Relaxed) {
            NOBODY => Vec::new(),
            rank => vec![Rank::new(rank)],
        }
    }
}

/// Which of a collective's algorithms a member runs. All of a team run the same one unless they
/// disagree on a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Algorithm {
    /// It has one for all lengths.
    Only,
    ForShort,
    ForLong,
}

/// Sends and receives in one part of a collective. Members are named by their number in the team;
/// `round` tells the messages between two members apart.
#[derive(Clone, Copy)]
pub(super) struct Lane<'a> {
    call: &'a Call,
    phase: Phase,
    algorithm: Algorithm,
}

impl Lane<'_> {
    /// The lane of the algorithm for short values, or for long ones.
    pub(super) fn for_long(self, is_long: bool) -> Self {
        let algorithm = match is_long {
            false => Algorithm::ForShort,
            true => Algorithm::ForLong,
        };
        Self { algorithm, ..self }
    }

    pub(super) fn rank(self) -> u32 {
        self.call.team.rank()
    }

    pub(super) fn n_ranks(self) -> u32 {
        self.call.team.n_ranks()
    }

    pub(super) fn world_rank(self, i: u32) -> Rank {
        self.call.team.world_rank(i)
    }

    /// The member `distance` places after this one, counted around the team.
    pub(super) fn after(self, distance: u32) -> u32 {
        super::wrap(self.rank(), distance, self.n_ranks())
    }

    /// The member `distance` places before this one, counted around the team.
    pub(super) fn before(self, distance: u32) -> u32 {
        let n = self.n_ranks();
        super::wrap(self.rank(), n - distance % n, n)
    }

    /// The bytes of a payload that travel in one message.
    pub(super) fn piece_bytes(self) -> usize {
        self.call.wire.backend.capabilities().max_medium - size_of::<Header>()
    }

    /// Sends `bytes`, in as many messages as it takes; ready when the buffer may be reused.
    pub(super) async fn send(self, to: u32, round: u32, bytes: &[u8]) -> Result<()> {
        let to = self.world_rank(to);
        let mut offset = 0;
        loop {
            let piece = &bytes[offset..bytes.len().min(offset + self.piece_bytes())];
            let header = Header {
                team: self.call.team.id().bits(),
                number: self.call.number,
                total: bytes.len() as u64,
                offset: offset as u64,
                phase: self.phase as u16,
                algorithm: self.algorithm as u16,
                round,
            };
            let kind = self.call.signature.kind;
            self.call.wire.send(to, kind.name(), &header, piece).await?;
            offset += piece.len();
            if offset == bytes.len() {
                return Ok(());
            }
        }
    }

    /// Receives a payload of any length, of the algorithm of this lane.
    pub(super) async fn receive(self, from: u32, round: u32) -> Result<Payload> {
        let from = self.world_rank(from);
        let key = Key {
            team: self.call.team.id().bits(),
            number: self.call.number,
            phase: self.phase as u16,
            round,
            from,
        };
        // Only for the message of a failed wait.
        self.call.awaits.store(from.number(), Ordering::Relaxed);
        let kind = self.call.signature.kind;
        let payload = poll_fn(|_| match self.call.wire.take(&key, kind.name()) {
            Some(payload) => Poll::Ready(payload),
            None => Poll::Pending,
        })
        .await;
        self.call.awaits.store(NOBODY, Ordering::Relaxed);
        let payload = payload?;
        if payload.algorithm != self.algorithm as u16 {
            return Err(self.differs(from, payload.algorithm));
        }
        Ok(payload)
    }

    /// The error of a message of another algorithm. Its length may fit all the same.
    #[cold]
    fn differs(self, from: Rank, algorithm: u16) -> Error {
        let name = |algorithm| match algorithm {
            _ if algorithm == Algorithm::ForShort as u16 => "that for short values",
            _ if algorithm == Algorithm::ForLong as u16 => "that for long values",
            _ => "that for all lengths",
        };
        let what = format!("the algorithm of {}", self.call.signature.kind);
        self.mismatch(from, what, [self.algorithm as u16, algorithm].map(name))
    }

    #[cold]
    fn mismatch(self, from: Rank, what: String, values: [impl ToString; 2]) -> Error {
        let [value_a, value_b] = values.map(|value| value.to_string());
        Error::from(Box::new(Mismatch {
            what,
            rank_a: self.world_rank(self.rank()),
            value_a,
            line_a: None,
            rank_b: from,
            value_b,
            line_b: None,
        }))
    }

    /// Receives a payload of `len` bytes.
    pub(super) async fn receive_exactly(
        self,
        from: u32,
        round: u32,
        len: usize,
    ) -> Result<Payload> {
        let payload = self.receive(from, round).await?;
        let came = payload.bytes().len();
        if came == len {
            return Ok(payload);
        }
        let what = format!("the bytes of a message of {}", self.call.signature.kind);
        Err(self.mismatch(self.world_rank(from), what, [len, came]))
    }

    /// Receives exactly `into`.
    pub(super) async fn receive_into(self, from: u32, round: u32, into: &mut [u8]) -> Result<()> {
        let payload = self.receive_exactly(from, round, into.len()).await?;
        into.copy_from_slice(payload.bytes());
        Ok(())
    }
}
