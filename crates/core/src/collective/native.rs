//! Collectives that the transport performs itself.
#![expect(
    unsafe_code,
    reason = "hands buffers to the transport's collectives, and owns them meanwhile"
)]

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use zerocopy::IntoBytes;

use super::lane::Call;
use super::ticket::Ticket;
use super::zeroed;
use crate::backend::{Group, OpId};
use crate::error::Result;
use crate::pod::Pod;
use crate::rank::Rank;

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
                let deserted = self.call.wire().deserted(member, self.call.kind().name());
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

impl Call {
    /// Whether `member` has left the job without having begun `op`.
    fn has_deserted(&self, group: &dyn Group, op: OpId, member: Rank) -> bool {
        self.wire().has_left(member) && group.has_begun(op, member) == Some(false)
    }
}
