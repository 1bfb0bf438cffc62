//! Collectives that the transport performs itself.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::lane::Call;
use super::ticket::Ticket;
use super::zeroed;
use crate::backend::{Flying, Group, OpId};
use crate::error::Result;
use crate::pod::Pod;
use crate::rank::Rank;

/// A call that may begin at the transport now.
#[must_use = "later collectives of the team wait until it has begun"]
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

    /// Sends `values` to other members, and receives `n_received` elements from them.
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

    async fn run<T: Pod>(self, send: Vec<T>, values: Vec<T>) -> Result<Vec<T>> {
        let group = &*self.ticket.native().group;
        let Some(collective) = self.ticket.collective else {
            unreachable!("the ticket of a split begins nothing");
        };
        let team = &self.ticket.team;
        let member = (team.rank(), team.n_ranks());
        let mut flying = Flying::begin(group, &collective, member, send, values)?;
        self.ticket.pass();
        let mut next_asked = 0;
        poll_fn(|_| {
            let tested = flying.test(group);
            if !matches!(tested, Ok(false)) {
                return Poll::Ready(tested.map(drop));
            }
            // One member each time: a check of all of them would cost more than the wait.
            next_asked = super::wrap(next_asked, 1, self.ticket.team.n_ranks());
            let member = self.ticket.team.world_rank(next_asked);
            if self.call.has_deserted(group, flying.op(), member) {
                let deserted = self.call.wire().deserted(member, self.call.kind().name());
                return Poll::Ready(Err(deserted));
            }
            Poll::Pending
        })
        .await?;
        Ok(flying.into_values())
    }
}

impl Call {
    /// Whether `member` has left the job without having begun `op`.
    fn has_deserted(&self, group: &dyn Group, op: OpId, member: Rank) -> bool {
        self.wire().has_left(member) && group.has_begun(op, member) == Some(false)
    }
}
