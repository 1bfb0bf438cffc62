//! Transfers of many parts, all of which are in flight at once.
#![expect(unsafe_code, reason = "makes operands of what was checked")]

use std::{mem, slice};

use zerocopy::IntoBytes;

use super::checked::{Checked, Corner, assert_within, get_directly, pieces, put_directly};
use super::cut;
use crate::backend::{Atomic, Get, GetGrid, OpId, Operand, Put, PutGrid, Shape, Stage};
use crate::event::Event;
use crate::flight::{Begun, Flight};
use crate::pod::zeroed_vec;
use crate::{Error, Pod, Rank, Result, World};

/// The parts of a transfer that were begun. Its buffers must stay until all are over;
/// [`owning`](Self::owning) or a scope ensures that.
#[derive(Debug)]
pub(super) struct Parts<'w> {
    world: &'w World,
    /// The longest transfer that the backend takes at once.
    longest: usize,
    ops: Vec<OpId>,
    /// The rank to whose segment this process has stored last, until a flush.
    written: Option<Rank>,
    failure: Option<Error>,
}

impl<'w> Parts<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        Self {
            world,
            longest: cut::longest(world),
            ops: Vec::new(),
            written: None,
            failure: None,
        }
    }

    fn note(&mut self, begun: Result<OpId>) {
        match begun {
            // If many operations have the same id, one entry is enough.
            Ok(op) if op == OpId::DONE || self.ops.last() == Some(&op) => {}
            Ok(op) => self.ops.push(op),
            Err(error) => {
                self.failure.get_or_insert(error);
            }
        }
    }

    fn put(&mut self, put: Put) {
        if put_directly(self.world, put) {
            if self.written != Some(put.rank()) {
                self.complete_written();
                self.written = Some(put.rank());
            }
            return;
        }
        for (start, len) in pieces(put.len(), self.longest) {
            if self.failure.is_none() {
                self.note(self.world.backend().put_nb(put.part(start, len)));
            }
        }
    }

    fn get(&mut self, get: Get) {
        if get_directly(self.world, get) {
            return;
        }
        for (start, len) in pieces(get.len(), self.longest) {
            if self.failure.is_none() {
                self.note(self.world.backend().get_nb(get.part(start, len)));
            }
        }
    }

    /// Completes the stores of this process, so that all ranks see them.
    fn complete_written(&mut self) {
        if let Some(rank) = self.written.take()
            && let Err(error) = self.world.flush(rank)
        {
            self.failure.get_or_insert(error);
        }
    }

    /// Begins to write `values` to `places`, in order.
    ///
    /// # Safety
    ///
    /// `values` stays as it is until all that was begun is over.
    pub(super) unsafe fn put_values<T: Pod>(&mut self, places: &[Checked<T>], values: &[T]) {
        let mut rest = values;
        for to in places {
            let (piece, behind) = rest.split_at(to.len());
            rest = behind;
            let bytes = piece.as_bytes();
            // SAFETY: `checked` found the elements, which are as many, inside a segment of the job.
            // The caller promises that the values stay as they are.
            self.put(unsafe { Put::new(to.at(), bytes.as_ptr(), bytes.len()) });
        }
    }

    /// Begins to read the elements of `places` into `out`, one behind the other.
    ///
    /// # Safety
    ///
    /// Nobody accesses `out`, which stays where it is, until all that was begun is over.
    pub(super) unsafe fn get_values<T: Pod>(&mut self, places: &[Checked<T>], out: &mut [T]) {
        let mut at = out.as_mut_bytes();
        for from in places {
            let (piece, behind) = mem::take(&mut at).split_at_mut(from.len() * size_of::<T>());
            at = behind;
            // SAFETY: as in `put_values`; the pieces are apart, and the caller promises that nobody
            // accesses them.
            self.get(unsafe { Get::new(from.at(), piece.as_mut_ptr(), piece.len()) });
        }
    }

    /// Begins to write a box of `values`.
    ///
    /// # Safety
    ///
    /// `values` stays as it is until all that was begun is over.
    pub(super) unsafe fn put_box<T: Pod>(
        &mut self,
        elements: &Checked<T>,
        (corner, shape): (Corner, &Shape),
        values: &[T],
    ) {
        let (to, bytes) = (elements.corner(corner, shape), values.as_bytes());
        assert_within(bytes.len(), corner.local, shape, &shape.local);
        let from = bytes.as_ptr().wrapping_offset(corner.local);
        // SAFETY: all blocks lie among the elements, which are inside of a segment of the job, and
        // in the slice, as was asserted of both; the caller promises that it stays as it is.
        let grid = unsafe { PutGrid::new(to, from, shape) };
        let begun = grid.for_each(|block| {
            self.put(block);
            Ok::<(), Error>(())
        });
        debug_assert!(begun.is_ok(), "failures are noted");
    }

    /// Begins to read a box into `out`.
    ///
    /// # Safety
    ///
    /// Nobody accesses `out`, which stays where it is, until all that was begun is over.
    pub(super) unsafe fn get_box<T: Pod>(
        &mut self,
        elements: &Checked<T>,
        (corner, shape): (Corner, &Shape),
        out: &mut [T],
    ) {
        let (from, bytes) = (elements.corner(corner, shape), out.as_mut_bytes());
        assert_within(bytes.len(), corner.local, shape, &shape.local);
        let to = bytes.as_mut_ptr().wrapping_offset(corner.local);
        // SAFETY: as in `put_box`, and the slice is borrowed exclusively until the last pointer
        // into it was made.
        let grid = unsafe { GetGrid::new(from, to, shape) };
        let begun = grid.for_each(|block| {
            self.get(block);
            Ok::<(), Error>(())
        });
        debug_assert!(begun.is_ok(), "failures are noted");
    }

    /// The operations that were begun, for a scope that borrows the buffers, and the error that
    /// kept others from being begun.
    pub(super) fn into_ops(mut self) -> (Vec<OpId>, Result<()>) {
        self.complete_written();
        (self.ops, self.failure.map_or(Ok(()), Err))
    }

    /// The event of a transfer that owns `buffers`, and gives them back at stage `buffers_at`.
    /// `signal` follows the transfer.
    fn owning<B: Send + 'static>(
        mut self,
        buffers_at: Stage,
        signal: Option<Atomic>,
        buffers: B,
    ) -> Result<Event<B>> {
        self.complete_written();
        let world = self.world;
        let begun = Begun {
            ops: self.ops,
            buffers_at,
            signal,
            failure: self.failure,
        };
        Ok(Event::flight(Flight::begin(world, begun, buffers, |it| {
            it
        })?))
    }
}

/// Begins to write `values` to `places`, one behind the other; `signal` follows.
pub(super) fn begin_puts<T: Pod>(
    world: &World,
    places: &[Checked<T>],
    values: Vec<T>,
    signal: Option<Atomic>,
) -> Result<Event<Vec<T>>> {
    let mut parts = Parts::new(world);
    // SAFETY: the flight owns the vector until all is over; its memory stays where it is while it
    // moves.
    unsafe { parts.put_values(places, &values) };
    parts.owning(Stage::Source, signal, values)
}

/// Begins to read the elements of `places` into `out`, one behind the other.
pub(super) fn begin_gets<T: Pod>(
    world: &World,
    places: &[Checked<T>],
    mut out: Vec<T>,
) -> Result<Event<Vec<T>>> {
    let mut parts = Parts::new(world);
    // SAFETY: as in `begin_puts`.
    unsafe { parts.get_values(places, &mut out) };
    parts.owning(Stage::Operation, None, out)
}

/// Begins to write each of `pieces` to its place.
pub(super) fn begin_put_each<T: Pod>(
    world: &World,
    places: &[Checked<T>],
    pieces: Vec<Vec<T>>,
) -> Result<Event<Vec<Vec<T>>>> {
    let mut parts = Parts::new(world);
    for (place, values) in places.iter().zip(&pieces) {
        // SAFETY: as in `begin_puts`, of each of the vectors.
        unsafe { parts.put_values(slice::from_ref(place), values) };
    }
    parts.owning(Stage::Source, None, pieces)
}

/// Begins to read the elements of each place into a vector of their own.
pub(super) fn begin_get_each<T: Pod>(
    world: &World,
    places: &[Checked<T>],
) -> Result<Event<Vec<Vec<T>>>> {
    let mut parts = Parts::new(world);
    let mut pieces: Vec<Vec<T>> = Vec::with_capacity(places.len());
    for place in places {
        pieces.push(zeroed_vec(place.len()));
    }
    for (place, out) in places.iter().zip(&mut pieces) {
        // SAFETY: as in `begin_puts`, of each of the vectors.
        unsafe { parts.get_values(slice::from_ref(place), out) };
    }
    parts.owning(Stage::Operation, None, pieces)
}

/// Begins to write a box of `values`.
pub(super) fn begin_put_box<T: Pod>(
    world: &World,
    elements: &Checked<T>,
    corner: (Corner, &Shape),
    values: Vec<T>,
) -> Result<Event<Vec<T>>> {
    let mut parts = Parts::new(world);
    // SAFETY: as in `begin_puts`.
    unsafe { parts.put_box(elements, corner, &values) };
    parts.owning(Stage::Source, None, values)
}

/// Begins to read a box into `out`.
pub(super) fn begin_get_box<T: Pod>(
    world: &World,
    elements: &Checked<T>,
    corner: (Corner, &Shape),
    mut out: Vec<T>,
) -> Result<Event<Vec<T>>> {
    let mut parts = Parts::new(world);
    // SAFETY: as in `begin_puts`.
    unsafe { parts.get_box(elements, corner, &mut out) };
    parts.owning(Stage::Operation, None, out)
}
