//! Bulk transfers: one instruction moves many elements, in several turns if they are very many.

use std::ops::Range;

use super::{MAX_QUANTUM, Machine};
use crate::hart::{Cause, Trap};
use crate::remote::{Action, Direction, RemoteRequest};

/// The most elements that one core moves in its turn, or about that: a run can be given up between
/// turns alone.
const MOST_IN_TURN: u64 = MAX_QUANTUM;

/// One bulk transfer, between two nodes or within one.
#[derive(Clone, Debug)]
pub(super) struct Bulk {
    request: RemoteRequest,
    direction: Direction,
    here: usize,
    there: usize,
    local: u64,
    width: u64,
    step: u64,
    n_elements: u64,
}

impl Bulk {
    /// The transfer between these nodes that a request asks for, if it asks for one.
    pub(super) fn of(here: usize, there: usize, request: &RemoteRequest) -> Option<Self> {
        let Action::Bulk {
            direction,
            local,
            width,
            n_elements,
            stride,
        } = request.action
        else {
            return None;
        };
        Some(Self {
            request: *request,
            direction,
            here,
            there,
            local,
            width,
            step: stride.wrapping_mul(width),
            n_elements,
        })
    }

    /// Where element `k` lies of those that start at `start`.
    const fn place(&self, start: u64, k: u64) -> u64 {
        start.wrapping_add(k.wrapping_mul(self.step))
    }

    /// Whether the first `n` of the elements that start at `start` lie in `range`. The steps of
    /// elements that do are shorter than the range, and so do not lead around all addresses.
    fn lie_in(&self, range: &Range<u64>, start: u64, n: u64) -> bool {
        let Some(k) = n.checked_sub(1) else {
            return true;
        };
        let first = i128::from(start);
        let last = first + i128::from(k) * i128::from(self.step.cast_signed());
        let end = first.max(last) + i128::from(self.width);
        first.min(last) >= i128::from(range.start) && end <= i128::from(range.end)
    }

    /// The first of those elements that does not.
    fn first_outside(&self, range: &Range<u64>, start: u64) -> Option<u64> {
        if self.lie_in(range, start, self.n_elements) {
            return None;
        }
        let (mut inside, mut outside) = (0, self.n_elements);
        while outside - inside > 1 {
            let n = inside.midpoint(outside);
            if self.lie_in(range, start, n) {
                inside = n;
            } else {
                outside = n;
            }
        }
        Some(inside)
    }
}

/// How far a core has come with a transfer that takes several turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    request: RemoteRequest,
    /// The core's instructions before: it may have been put elsewhere.
    instret: u64,
    n_moved: u64,
}

/// What bulk transfers have moved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub(super) n_elements: u64,
    /// In the turn of a core that is not over.
    in_turn: u64,
}

impl Moved {
    /// Whether a core's turn is over, for what it has moved.
    pub(super) const fn is_much(&self) -> bool {
        self.in_turn >= MOST_IN_TURN
    }

    pub(super) const fn end_turn(&mut self) {
        self.in_turn = 0;
    }
}

impl Machine {
    /// Moves elements one after another, for that core, in this turn. Nothing moves if one of them
    /// lies outside of what may be reached.
    ///
    /// Says whether all have moved; `None` if there is no such object or address.
    pub(super) fn bulk(
        &mut self,
        node: usize,
        core: usize,
        request: &RemoteRequest,
    ) -> Option<bool> {
        let target = self.target_of(node, request)?;
        let bulk = Bulk::of(node, target, request)?;
        let instret = self.nodes[node].harts[core].instret();
        let progress = self.nodes[node].progress[core].take();
        let progress = progress.filter(|it| it.request == *request && it.instret == instret);
        let begun = progress.map_or(0, |it| it.n_moved);
        let end = bulk.n_elements.min(begun.saturating_add(MOST_IN_TURN));
        for k in begun..end {
            self.move_element(core, &bulk, k)?;
        }
        self.was_written(match bulk.direction {
            Direction::Load => bulk.here,
            Direction::Store => bulk.there,
        });
        self.count_moved(end - begun);
        self.moved.in_turn += end - begun;
        if request.object != 0 {
            self.nodes[target].counts.served += end - begun;
        }
        if end < bulk.n_elements {
            self.nodes[node].progress[core] = Some(Progress {
                request: *request,
                instret,
                n_moved: end,
            });
            return Some(false);
        }
        if request.object != 0 {
            self.nodes[node].counts.asked(&request.action);
        }
        Some(true)
    }

    /// Each element that is moved is a step of the run.
    pub(crate) const fn count_moved(&mut self, n_elements: u64) {
        self.moved.n_elements += n_elements;
        self.n_executed += n_elements;
    }

    fn move_element(&mut self, core: usize, bulk: &Bulk, k: u64) -> Option<()> {
        let here = (bulk.here, bulk.place(bulk.local, k));
        let there = (bulk.there, bulk.place(bulk.request.address, k));
        let (from, to) = match bulk.direction {
            Direction::Load => (there, here),
            Direction::Store => (here, there),
        };
        let value = self.nodes[from.0].ram.read(from.1, bulk.width)?;
        if !self.nodes[to.0].ram.write(to.1, bulk.width, value) {
            return None;
        }
        let by = (bulk.here, core);
        self.tell_debugger(from.0, by, (from.1, bulk.width), false);
        self.tell_debugger(to.0, by, (to.1, bulk.width), true);
        self.break_reservations(to.0, None, to.1, bulk.width);
        Some(())
    }

    /// The first element that lies outside of memory here, or of what may be reached there, as the
    /// trap of whoever moves it.
    pub(super) fn first_outside(&self, bulk: &Bulk) -> Option<Trap> {
        let own = &self.nodes[bulk.here].ram;
        let local = bulk.first_outside(&(own.start()..own.end()), bulk.local);
        let reached = self.reached(bulk.there, &bulk.request);
        let remote = bulk.first_outside(&reached, bulk.request.address);
        let (here, there) = match bulk.direction {
            Direction::Load => (Cause::StoreFault, Cause::LoadFault),
            Direction::Store => (Cause::LoadFault, Cause::StoreFault),
        };
        match (local, remote) {
            (Some(k), remote) if remote.is_none_or(|it| k < it) => {
                Some(Trap::new(here, bulk.place(bulk.local, k)))
            }
            (_, remote) => remote.map(|k| Trap::new(there, bulk.place(bulk.request.address, k))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::remote::Destination;

    proptest! {
        #[test]
        fn the_first_element_outside_is_found_as_by_looking_at_each(
            start in 0_u64..400,
            from_end in any::<bool>(),
            stride in prop_oneof![0_u64..40, Just(1 << 61), Just(1 << 63), any::<u64>()],
            backwards in any::<bool>(),
            n_elements in 0_u64..60,
        ) {
            let range = 100_u64..300;
            let start = if from_end { start.wrapping_sub(200) } else { start };
            let stride = if backwards { stride.wrapping_neg() } else { stride };
            let request = RemoteRequest {
                object: 1,
                address: 0,
                action: Action::Bulk {
                    direction: Direction::Load,
                    local: start,
                    width: 8,
                    n_elements,
                    stride,
                },
                destination: Destination::None,
            };
            let bulk = Bulk::of(0, 0, &request).unwrap();
            let is_outside = |k: &u64| {
                let at = bulk.place(start, *k);
                at < range.start || at.checked_add(8).is_none_or(|end| end > range.end)
            };
            let expected = (0..n_elements).find(is_outside);
            prop_assert_eq!(bulk.first_outside(&range, start), expected);
        }
    }
}
