//! Atomics that the provider executes: their steps, one after the other.
#![expect(unsafe_code, reason = "lends libfabric the words of atomics")]

use std::mem;
use std::sync::atomic::{Ordering, fence};

use pgas_core::Result;
use pgas_core::backend::{Former, OpId};
use pgas_network::atomics::Remote;

use crate::network::{Network, State};
use crate::ops::{Flight, Provided};
use crate::steps::Steps;
use crate::sys::Begun;

impl Network {
    /// Begins an atomic of the provider.
    pub(crate) fn provide(&self, order: Remote, mut former: Option<Former>) -> Result<OpId> {
        let at = order.target();
        // Who sees the atomic sees what this rank has stored before in its host's memory.
        fence(Ordering::Release);
        self.begin(at.rank, |state, index| {
            let State {
                endpoint,
                ops,
                provider: Some(provider),
                ..
            } = state
            else {
                unreachable!("the provider executes this job's atomics");
            };
            let Some(cell) = provider.words.take() else {
                return Ok(None);
            };
            let steps = Steps::new(order.told(), at.offset, provider.native);
            let mut target = self.segments.target(at);
            target.address -= steps.back();
            let lent = (&provider.words, &cell);
            // SAFETY: the maker of the atomic promised that the word lies in a segment, aligned, all
            // of which is registered; the four bytes around a short one do, too. The cell stays
            // with the operation, whose context this is, and the words stay with the state, which
            // shuts the endpoint first.
            let begun =
                unsafe { endpoint.begin_atomic(lent, steps.step(), target, ops.context(index)) };
            match begun {
                Ok(Begun::Yes) => Ok(Some(Flight::Provided(Provided {
                    rank: at.rank.number(),
                    target,
                    steps,
                    cell,
                    result: former.take(),
                }))),
                Ok(Begun::NoRoom) => {
                    provider.words.give_back(cell);
                    Ok(None)
                }
                Err(error) => {
                    provider.words.give_back(cell);
                    Err(error)
                }
            }
        })
    }

    /// Completes the operation in slot `index`, or begins the next step of an atomic.
    pub(crate) fn has_completed(&self, state: &mut State, index: usize) {
        if let Some((atomic, _)) = state.ops.provided(index)
            && let Some(provider) = &mut state.provider
        {
            let bytes = atomic.steps.step().ty().bytes();
            // SAFETY: the step is complete.
            let found = unsafe { provider.words.result(&atomic.cell, bytes) };
            let Some(bits) = atomic.steps.go_on(found) else {
                self.begin_next(state, index);
                return;
            };
            if let Some(place) = atomic.result.take() {
                place.set(bits);
            }
            // Who takes the result sees what its rank has stored before in this host's memory.
            fence(Ordering::Acquire);
        }
        match state.ops.complete(index) {
            Some(Flight::Put {
                copy: Some(copy), ..
            }) => state.staging.give_back(copy),
            Some(Flight::Provided(atomic)) => {
                if let Some(provider) = &mut state.provider {
                    provider.words.give_back(atomic.cell);
                }
            }
            _ => {}
        }
    }

    /// Begins the current step of the atomic in slot `index`, now or when there is room.
    fn begin_next(&self, state: &mut State, index: usize) {
        let State {
            endpoint,
            ops,
            provider: Some(provider),
            ..
        } = state
        else {
            return;
        };
        let Some((atomic, context)) = ops.provided(index) else {
            return;
        };
        let (lent, step) = ((&provider.words, &atomic.cell), atomic.steps.step());
        // SAFETY: as for the first step, which is complete.
        match unsafe { endpoint.begin_atomic(lent, step, atomic.target, context) } {
            Ok(Begun::Yes) => {}
            Ok(Begun::NoRoom) => provider.waiting.push(index),
            Err(error) => self.has_lost(atomic.rank, &error),
        }
    }

    /// Begins the steps that have found no room.
    #[inline]
    pub(crate) fn go_on(&self, state: &mut State) {
        let Some(provider) = &mut state.provider else {
            return;
        };
        for index in mem::take(&mut provider.waiting) {
            self.begin_next(state, index);
        }
    }
}
