//! Collectives that the transport performs itself.
//!
//! A transport wants a group's operations begun in the same order by all members. Calls of a team's
//! collectives have such an order, but what comes before an operation can begin (the meeting of a window,
//! the comparison of the arguments) may take one call longer than the next, and another thread may
//! drive it. So every call that is the transport's takes a ticket, and they begin in that order.
#![expect(
    unsafe_code,
    reason = "hands buffers to the transport's collectives, and owns them meanwhile"
)]

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use zerocopy::IntoBytes;

use super::call::Call;
use super::gather::allgather;
use super::{Kind, Signature, zeroed};
use crate::backend::{Collective, Elements, Group, OpId};
use crate::team::Shared;
use crate::{Error, Pod, Rank, Result, Team};

/// The value of [`Native::turn`] after a collective was given up before it began.
const GIVEN_UP: u64 = u64::MAX;

/// The transport's side of a team.
#[derive(Debug)]
pub(crate) struct Native {
    group: Arc<dyn Group>,
    /// The next ticket.
    tickets: AtomicU64,
    /// Whose turn it is to begin.
    turn: AtomicU64,
}

impl Native {
    pub(crate) fn new(group: Arc<dyn Group>) -> Self {
        Self {
            group,
            tickets: AtomicU64::new(0),
            turn: AtomicU64::new(0),
        }
    }
}

/// The place of a call in the order in which a team's collectives begin at the transport.
pub(super) struct Ticket {
    team: Arc<Shared>,
    number: u64,
    /// What is to begin; a split of the group if nothing.
    collective: Option<Collective>,
    has_passed: AtomicBool,
}

impl Ticket {
    /// A ticket for the call with `signature`, if the transport performs it.
    pub(super) fn take(team: &Arc<Shared>, signature: &Signature) -> Option<Self> {
        let native = team.native()?;
        let collective = if signature.kind == Kind::Split {
            None
        } else {
            let collective = signature.collective(team.n_ranks())?;
            Some(Some(collective).filter(|call| native.group.offers(call))?)
        };
        Some(Self {
            team: Arc::clone(team),
            // A count. One thread at a time calls a team's collectives.
            number: native.tickets.fetch_add(1, Ordering::Relaxed),
            collective,
            has_passed: AtomicBool::new(false),
        })
    }

    fn native(&self) -> &Native {
        self.team
            .native()
            .expect("only a team with a group gives tickets")
    }

    /// Waits until all earlier calls have begun.
    pub(super) async fn turn(&self) -> Result<()> {
        poll_fn(|_| {
            // Pairs with `pass`: what began before, has begun.
            match self.native().turn.load(Ordering::Acquire) {
                turn if turn == self.number => Poll::Ready(Ok(())),
                GIVEN_UP => Poll::Ready(Err(given_up())),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Lets the next call begin.
    pub(super) fn pass(&self) {
        // Only this thread looks at it until it is dropped.
        self.has_passed.store(true, Ordering::Relaxed);
        let turn = &self.native().turn;
        let next = self.number + 1;
        // Pairs with `turn`. It fails if a call was given up meanwhile, and then that stays.
        let passed = turn.compare_exchange(self.number, next, Ordering::Release, Ordering::Relaxed);
        debug_assert!(
            passed.is_ok_and(|_| true) || passed == Err(GIVEN_UP),
            "whose turn it is passes it on"
        );
    }
}

impl Drop for Ticket {
    /// A call that ends before it began, by an error of its own or of the wait around it, leaves this
    /// rank out of step with the other members: later ones must not begin in its place.
    fn drop(&mut self) {
        if !*self.has_passed.get_mut() {
            self.native().turn.store(GIVEN_UP, Ordering::Release);
        }
    }
}

#[cold]
fn given_up() -> Error {
    let text = "an earlier collective of the team failed on this rank, so that its members are out of step";
    Error::backend("collective", 0, text)
}

/// A call whose turn it is to begin at the transport.
#[must_use = "nothing begins after it until it has"]
pub(super) struct Turn<'a> {
    call: &'a Call,
    ticket: &'a Ticket,
}

impl<'a> Turn<'a> {
    pub(super) fn new(call: &'a Call, ticket: &'a Ticket) -> Self {
        Self { call, ticket }
    }

    /// Meets the other members.
    pub(super) async fn meet(self) -> Result<()> {
        self.run::<u8>(Vec::new(), Vec::new()).await.map(drop)
    }

    /// Performs a collective that works in place on `values`.
    pub(super) async fn in_place<T: Pod>(self, values: Vec<T>) -> Result<Vec<T>> {
        self.run(Vec::new(), values).await
    }

    /// As [`in_place`](Self::in_place), for values that the operation cannot own.
    pub(super) async fn replace<T: Pod>(self, values: &mut [T]) -> Result<()> {
        let replaced = self.in_place(values.to_vec()).await?;
        values.copy_from_slice(&replaced);
        Ok(())
    }

    /// Gives `values` to others, and gets `n_received` elements of them.
    pub(super) async fn exchange<T: Pod>(
        self,
        values: Vec<T>,
        n_received: usize,
    ) -> Result<Vec<T>> {
        self.run(values, zeroed(n_received)).await
    }

    /// Splits the group. The members have just met.
    pub(super) fn split(self, place: Option<(u32, u32)>) -> Result<Option<Arc<dyn Group>>> {
        let (colour, key) = place.unzip();
        let group = &self.ticket.native().group;
        let group = group.split(colour, key.unwrap_or(0))?;
        self.ticket.pass();
        Ok(group)
    }

    async fn run<T: Pod>(self, send: Vec<T>, mut values: Vec<T>) -> Result<Vec<T>> {
        let group = &*self.ticket.native().group;
        let Some(collective) = self.ticket.collective else {
            unreachable!("the ticket of a split begins nothing");
        };
        let source = send.as_bytes().as_ptr();
        let target = values.as_mut_bytes().as_mut_ptr();
        // SAFETY: the callers made `send` and `values` as long as the collective has them, since its
        // lengths come from the same signature; `Flying` keeps both until the operation is complete,
        // and the vectors' memory stays where it is while they move.
        let op = unsafe { group.begin(&collective, source, target) }?;
        self.ticket.pass();
        let mut flying = Flying {
            send,
            values,
            is_over: op == OpId::DONE,
        };
        let mut next_asked = 0;
        poll_fn(|_| {
            if flying.is_over {
                return Poll::Ready(Ok(()));
            }
            let tested = group.test(op);
            if !matches!(tested, Ok(false)) {
                flying.is_over = true;
                return Poll::Ready(tested.map(drop));
            }
            // One member each time: a look at all of them would cost more than the waiting.
            next_asked = super::wrap(next_asked, 1, self.ticket.team.n_ranks());
            let member = self.ticket.team.world_rank(next_asked);
            if self.call.has_deserted(group, op, member) {
                let deserted = self.call.wire().deserted(member, self.call.kind());
                return Poll::Ready(Err(deserted));
            }
            Poll::Pending
        })
        .await?;
        Ok(std::mem::take(&mut flying.values))
    }
}

/// The buffers of an operation of the transport.
struct Flying<T> {
    send: Vec<T>,
    values: Vec<T>,
    is_over: bool,
}

impl<T> Drop for Flying<T> {
    /// The buffers of an operation that is abandoned, since the job has failed or a wait took too long,
    /// stay allocated for ever: the transport may still use them.
    fn drop(&mut self) {
        if !self.is_over {
            std::mem::take(&mut self.send).leak();
            std::mem::take(&mut self.values).leak();
        }
    }
}

/// What a split is made of.
pub(crate) struct Chosen<T> {
    /// What the members say, in their order.
    pub(crate) choices: Vec<T>,
    /// This member's new group at the transport.
    pub(crate) group: Option<Arc<dyn Group>>,
}

impl Team {
    /// Gives all members' `choice`s in a split, and this one's group at the transport. `place` computes
    /// its colour and key there of them: the number of any member of the new team, the same for all of
    /// these, and its number in the new team; `None` if it joins none.
    #[track_caller]
    pub(crate) fn choose<T: Pod>(
        &self,
        choice: T,
        place: impl FnOnce(&[T]) -> Option<(u32, u32)>,
    ) -> Result<Chosen<T>> {
        let call = self.begin(Signature::new(Kind::Split).of::<T>(1));
        self.drive(&call, async {
            let turn = call.enter().await?;
            let mut choices = zeroed::<T>(self.n_ranks() as usize);
            // By messages: who has all of them knows that all members are here, and none of them needs
            // this one's progress any more.
            allgather(call.main(), choice.as_bytes(), choices.as_mut_bytes()).await?;
            let place = place(&choices);
            let group = turn.map(|turn| turn.split(place)).transpose()?;
            let group = group.flatten();
            Ok(Chosen { choices, group })
        })
    }
}

impl Call {
    /// Whether `member` has left the job without having begun `op`.
    fn has_deserted(&self, group: &dyn Group, op: OpId, member: Rank) -> bool {
        self.wire().has_left(member) && group.has_begun(op, member) == Some(false)
    }
}

impl Signature {
    /// The collective as a transport is asked for it; `None` if it has to be core's own.
    fn collective(&self, n_ranks: u32) -> Option<Collective> {
        let Self { root, len, .. } = *self;
        let bytes = len.checked_mul(self.element_bytes)?;
        if bytes == 0 && self.kind != Kind::Barrier {
            return None;
        }
        let elements = || {
            Some(Elements {
                ty: self.integer?,
                len,
                op: self.op?,
            })
        };
        Some(match self.kind {
            Kind::Barrier => Collective::Barrier,
            Kind::Broadcast => Collective::Broadcast { root, bytes },
            Kind::Reduce => Collective::Reduce {
                root,
                elements: elements()?,
            },
            Kind::Allreduce => Collective::Allreduce(elements()?),
            Kind::Gather => Collective::Gather { root, bytes },
            Kind::Allgather => Collective::Allgather { bytes },
            Kind::AllToAll => Collective::AllToAll {
                bytes: bytes / n_ranks as usize,
            },
            Kind::ScanInclusive => Collective::ScanInclusive(elements()?),
            Kind::ScanExclusive => Collective::ScanExclusive(elements()?),
            Kind::GatherVarying
            | Kind::AllgatherVarying
            | Kind::AllToAllVarying
            | Kind::Split
            | Kind::Agreement => return None,
        })
    }
}
