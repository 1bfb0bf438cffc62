//! Puts, gets and flushes.
//!
//! On the path of an operation this file is the last one before libfabric's own calls. A write is
//! complete when its bytes are at the target (`FI_DELIVERY_COMPLETE`), so a flush only waits for
//! completions. A short put uses a copy of its source, and its caller continues; a long one waits
//! for its completion.
#![expect(unsafe_code, reason = "lends libfabric the memory of operands")]

use pgas_core::backend::{Backend, Get, GetGrid, OpId, Operand, Put, PutGrid, Stage};
use pgas_core::{Error, Rank, Result};
use pgas_network::limits::Awaited;

use crate::network::{Network, State};
use crate::ops::{Flight, Flush};
use crate::staging::MAX_STAGED;
use crate::sys::{Begun, Target};

impl Network {
    pub(crate) fn put_bytes(&self, put: &Put) -> Result<()> {
        if put.len() > MAX_STAGED {
            let op = self.begin_put(put)?;
            return self.finish(op, put.rank(), "a put");
        }
        self.begin_copied(put)
    }

    pub(crate) fn get_bytes(&self, get: &Get) -> Result<()> {
        let op = self.begin_get(get)?;
        self.finish(op, get.rank(), "a get")
    }

    /// Begins a put from the caller's memory.
    pub(crate) fn begin_put(&self, put: &Put) -> Result<OpId> {
        if let Some(local) = self.on_this_host(*put) {
            return self.member().put_nb(local);
        }
        if put.len() == 0 {
            return Ok(OpId::DONE);
        }
        let (target, rank) = (self.segments.target(put.dst()), put.rank());
        self.begin(rank, |state, index| {
            let State { endpoint, ops, .. } = state;
            let (src, len) = (put.src(), put.len());
            // SAFETY: the source stays until the put is reported, which is after its registration
            // is closed with the operation, or after the endpoint was shut.
            let region = unsafe { endpoint.prepare_source(src, len) }?;
            // SAFETY: the maker of the put promised that its bytes lie in a segment, all of which
            // is registered, and that the source is readable and unchanged until the put is
            // reported. The context is the table's.
            let begun =
                unsafe { endpoint.write((src, len), region.as_ref(), target, ops.context(index)) };
            let (rank, copy) = (rank.number(), None);
            Ok((begun? == Begun::Yes).then_some(Flight::Put { rank, copy, region }))
        })
    }

    /// Begins a short put from a copy of its source.
    fn begin_copied(&self, put: &Put) -> Result<()> {
        if let Some(local) = self.on_this_host(*put) {
            return self.member().put(local);
        }
        if put.len() == 0 {
            return Ok(());
        }
        let (target, rank) = (self.segments.target(put.dst()), put.rank());
        let begun = self.begin(rank, |state, index| write_copy(state, put, target, index));
        begun.map(drop)
    }

    /// Begins a get.
    pub(crate) fn begin_get(&self, get: &Get) -> Result<OpId> {
        if let Some(local) = self.on_this_host(*get) {
            return self.member().get_nb(local);
        }
        if get.len() == 0 {
            return Ok(OpId::DONE);
        }
        let (source, rank) = (self.segments.target(get.src()), get.rank());
        self.begin(rank, |state, index| {
            let State { endpoint, ops, .. } = state;
            let (dst, len) = (get.dst(), get.len());
            // SAFETY: the destination stays until the get is reported, as the source of a put does.
            let region = unsafe { endpoint.prepare(dst, len) }?;
            // SAFETY: the maker of the get promised that its bytes lie in a segment, all of which
            // is registered, and that the destination is writable and accessed by nobody else until
            // the get is reported.
            let begun =
                unsafe { endpoint.read((dst, len), region.as_ref(), source, ops.context(index)) };
            let rank = rank.number();
            Ok((begun? == Begun::Yes).then_some(Flight::Get { rank, region }))
        })
    }

    /// Begins an operation as soon as there is room for it.
    pub(crate) fn begin(
        &self,
        rank: Rank,
        mut issue: impl FnMut(&mut State, usize) -> Result<Option<Flight>>,
    ) -> Result<OpId> {
        let mut op = OpId::DONE;
        // Without room here, this rank waits for earlier operations, whatever their ranks.
        let missing = || {
            let state = self.state();
            let ranks = state.is_full().then(|| state.ops.in_flight());
            ranks.unwrap_or_else(|| vec![rank])
        };
        let awaited = Awaited {
            what: "room for a transfer or an atomic",
            missing: &missing,
        };
        self.wait(awaited, |state| {
            let Some(index) = state.ops.reserve() else {
                return Ok(false);
            };
            match issue(state, index) {
                Ok(Some(flight)) => {
                    op = state.ops.begin(index, flight);
                    Ok(true)
                }
                Ok(None) => {
                    state.ops.release(index);
                    Ok(false)
                }
                Err(error) => {
                    state.ops.release(index);
                    Err(error)
                }
            }
        })?;
        Ok(op)
    }

    /// Waits until a transfer is complete. Also after an error libfabric no longer accesses the
    /// caller's memory.
    fn finish(&self, op: OpId, rank: Rank, what: &'static str) -> Result<()> {
        if op == OpId::DONE {
            return Ok(());
        }
        let missing = || vec![rank];
        let awaited = Awaited {
            what,
            missing: &missing,
        };
        let over = self.wait(awaited, |state| Ok(state.ops.is_over(op)));
        if let Err(error) = &over {
            self.take_memory_back(op, error);
        }
        over
    }

    /// Takes back the memory of `op`, which was abandoned. The network cannot be used after that:
    /// only closing the endpoint ensures that libfabric does not access the memory.
    #[cold]
    fn take_memory_back(&self, op: OpId, error: &Error) {
        if self.state().ops.is_over(op) {
            return;
        }
        // Tell the other ranks before the endpoint is closed.
        let cause = format!("gave up waiting for a transfer: {error}");
        let gave_up = || self.blame(Rank::new(self.rank), &cause);
        let why = self.health().err().unwrap_or_else(gave_up);
        let mut state = self.state();
        // Another thread may have been inside of libfabric when the failure was recorded.
        self.tell_failure(&mut state);
        // What found no room is lost with the endpoint.
        self.look_at_hosts_now(&mut state);
        state.shut(Some(why));
    }

    pub(crate) fn has_reached(&self, op: OpId, _stage: Stage) -> bool {
        op == OpId::DONE || self.state().ops.is_over(op)
    }

    pub(crate) fn put_each(&self, puts: impl IntoIterator<Item = Put>) -> Result<()> {
        let mut begun = Vec::new();
        let mut outcome = Ok(());
        for put in puts {
            outcome = if put.len() > MAX_STAGED {
                self.begin_put(&put).map(|op| begun.push((op, put.rank())))
            } else {
                self.begin_copied(&put)
            };
            if outcome.is_err() {
                break;
            }
        }
        self.finish_all(begun, "puts").and(outcome)
    }

    pub(crate) fn get_each(&self, gets: impl IntoIterator<Item = Get>) -> Result<()> {
        let mut begun = Vec::new();
        let mut outcome = Ok(());
        for get in gets {
            outcome = self.begin_get(&get).map(|op| begun.push((op, get.rank())));
            if outcome.is_err() {
                break;
            }
        }
        self.finish_all(begun, "gets").and(outcome)
    }

    fn finish_all(&self, begun: Vec<(OpId, Rank)>, what: &'static str) -> Result<()> {
        let mut outcome = Ok(());
        for (op, rank) in begun {
            let finished = self.finish(op, rank, what);
            outcome = outcome.and(finished);
        }
        outcome
    }

    pub(crate) fn put_blocks(&self, grid: PutGrid<'_>) -> Result<()> {
        if let Some(local) = self.on_this_host(grid) {
            return self.member().put_strided(local);
        }
        self.put_each(listed(|visit| grid.for_each(visit)))
    }

    pub(crate) fn get_blocks(&self, grid: GetGrid<'_>) -> Result<()> {
        if let Some(local) = self.on_this_host(grid) {
            return self.member().get_strided(local);
        }
        self.get_each(listed(|visit| grid.for_each(visit)))
    }

    pub(crate) fn flush_rank(&self, rank: Rank) -> Result<()> {
        if self.neighbours.reached(rank).is_some() {
            self.member().flush_all()?;
            if !self.has_provided_atomics() {
                return Ok(());
            }
        }
        let flush = self.state().ops.begin_flush(rank.number());
        self.await_flushes(&[flush], &|| vec![rank])
    }

    pub(crate) fn flush_ranks(&self) -> Result<()> {
        self.member().flush_all()?;
        let flushes = self.state().ops.begin_flushes();
        self.await_flushes(&flushes, &|| self.state().ops.awaited())
    }

    fn await_flushes(&self, flushes: &[Flush], missing: &dyn Fn() -> Vec<Rank>) -> Result<()> {
        let awaited = Awaited {
            what: "puts and atomics to be complete",
            missing,
        };
        let mut rest = flushes;
        self.wait(awaited, |state| {
            while let Some((first, others)) = rest.split_first()
                && state.ops.is_flushed(*first)
            {
                rest = others;
            }
            Ok(rest.is_empty())
        })
    }
}

/// Writes from a copy, if there is room for one.
fn write_copy(
    state: &mut State,
    put: &Put,
    target: Target,
    index: usize,
) -> Result<Option<Flight>> {
    let State {
        endpoint,
        ops,
        staging,
        ..
    } = state;
    let Some(mut buffer) = staging.take(endpoint)? else {
        return Ok(None);
    };
    let len = put.len();
    put.copy_to(&mut buffer.bytes_mut()[..len]);
    // SAFETY: the maker of the put promised that its bytes lie in a segment, all of which is
    // registered. The copy is kept with the operation, and left alone until that is complete.
    match unsafe { endpoint.write_buffer(&buffer, len, target, ops.context(index)) } {
        Ok(Begun::Yes) => Ok(Some(Flight::Put {
            rank: put.rank().number(),
            copy: Some(buffer),
            region: None,
        })),
        Ok(Begun::NoRoom) => {
            staging.give_back(buffer);
            Ok(None)
        }
        Err(error) => {
            staging.give_back(buffer);
            Err(error)
        }
    }
}

/// The blocks of a grid as a list.
fn listed<T>(
    walk: impl FnOnce(
        &mut dyn FnMut(T) -> Result<(), std::convert::Infallible>,
    ) -> Result<(), std::convert::Infallible>,
) -> Vec<T> {
    let mut list = Vec::new();
    match walk(&mut |item| {
        list.push(item);
        Ok(())
    }) {
        Ok(()) => list,
        Err(never) => match never {},
    }
}
