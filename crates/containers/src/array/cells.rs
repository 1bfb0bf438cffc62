//! Elements that are overwritten in place while others read them.
//!
//! A plain element, which owns no memory, is its slot: one put writes it and one get reads it. A
//! get that overlaps a put may see part of it, unless the element is a word. Any other element has
//! a version before its slot. A put locks the version and raises it. A get has read the slot whole,
//! and the heap memory behind it, if the version is the same before and after. A put releases the
//! former value's heap memory after it has raised the version, so a reader that follows the old
//! pointer later finds another version, and tries again.

use std::slice;

use pgas_core::stats::Operation;
use pgas_core::{GlobalPtr, World, part_of};
use pgas_lockfree::memory;

use crate::Result;
use crate::object::{self, Heap, Object, Repr, SlotOf};
use crate::wait::until;

/// The elements of an array, wherever they lie.
pub(super) struct Cells<T: Object> {
    heap: Heap,
    /// The value of elements that were never written.
    initial: SlotOf<T>,
}

/// A version's bit while the slot is written.
const LOCKED: u64 = 1;
/// The increment of a version by a put.
const RAISE: u64 = 2;

/// Bytes that are fetched together: two cache lines.
const LINE: usize = 128;

/// What an operation waits for.
const AWAITED: &str = "an element of an array that another rank writes";

impl<T: Object> Cells<T> {
    const IS_PLAIN: bool = !object::has_heap::<T>();

    const SLOT: usize = if Self::IS_PLAIN { 0 } else { 8 };

    const ALIGN: usize = if Self::IS_PLAIN || align_of::<SlotOf<T>>() > 8 {
        align_of::<SlotOf<T>>()
    } else {
        8
    };

    pub(super) const STRIDE: usize = (Self::SLOT.next_multiple_of(align_of::<SlotOf<T>>())
        + size_of::<SlotOf<T>>())
    .next_multiple_of(Self::ALIGN);

    /// The bytes of memory for `n` elements, and their alignment: whole cache lines, shared with
    /// nothing else.
    pub(super) fn layout(n: usize) -> (usize, usize) {
        let whole_lines = Self::STRIDE
            .checked_mul(n)
            .and_then(|bytes| bytes.checked_next_multiple_of(LINE));
        (whole_lines.unwrap_or(usize::MAX), LINE.max(Self::ALIGN))
    }

    pub(super) fn new(heap: Heap, initial: SlotOf<T>) -> Self {
        Self { heap, initial }
    }

    fn slot(cell: GlobalPtr<u8>) -> GlobalPtr<SlotOf<T>> {
        let offset = Self::SLOT.next_multiple_of(align_of::<SlotOf<T>>());
        cell.byte_add(offset as u64).cast()
    }

    /// Overwrites an element: W, or 3A + R + W for one that is not plain.
    #[inline]
    #[track_caller]
    pub(super) fn put(
        &self,
        world: &World,
        cell: GlobalPtr<u8>,
        value: &T,
        operation: &'static Operation,
    ) -> Result<()> {
        let slot = object::to_slot(value, &self.heap)?;
        if Self::IS_PLAIN {
            return cell.cast().put_as(world, slot, operation);
        }
        let _performing = world.performs(operation, 1);
        let _waits = part_of("a put to an array");
        self.exchange(world, cell, slot)
    }

    fn exchange(&self, world: &World, cell: GlobalPtr<u8>, slot: SlotOf<T>) -> Result<()> {
        let version: GlobalPtr<u64> = cell.cast();
        let mut unused = object::Unused::<T>::new(slice::from_ref(&slot), &self.heap);
        let mut at = 0;
        until(world, AWAITED, &mut || {
            at = version.atomic_load(world)?;
            if at & LOCKED != 0 {
                return Ok(false);
            }
            Ok(version.compare_exchange(world, at, at | LOCKED)?.is_ok())
        })?;
        unused.keep();
        let replace = || {
            let former = Self::slot(cell).get(world)?;
            // A rank that sees some of the new slot sees that the element was locked before: where
            // an atomic is several instructions, its acquire does not order a later store.
            memory::release();
            Self::slot(cell).put(world, slot)?;
            world.flush(cell.rank())?;
            // A fetching swap, so that it is complete before the former value is released.
            version.swap(world, at.wrapping_add(RAISE))?;
            Ok(former)
        };
        // Other ranks wait for the rank that has locked an element.
        let former =
            replace().map_err(|error| world.give_up("work on an element of an array", error))?;
        if at != 0 {
            object::release_taken::<T>(&former, &self.heap);
        }
        Ok(())
    }

    /// Reads an element: R, or 2A + R for one that is not plain, and R + A more for one whose
    /// encoding is longer than its slot.
    #[inline]
    #[track_caller]
    pub(super) fn get(
        &self,
        world: &World,
        cell: GlobalPtr<u8>,
        operation: &'static Operation,
    ) -> Result<T> {
        if Self::IS_PLAIN {
            let slot = cell.cast().get_as(world, operation)?;
            return object::from_slot::<T>(slot, &self.heap);
        }
        let _performing = world.performs(operation, 1);
        let _waits = part_of("a get from an array");
        self.get_versioned(world, cell)
    }

    fn get_versioned(&self, world: &World, cell: GlobalPtr<u8>) -> Result<T> {
        let version: GlobalPtr<u64> = cell.cast();
        let (mut loaded, mut failed) = (None, None);
        until(world, AWAITED, &mut || {
            let at = version.atomic_load(world)?;
            if at == 0 {
                return Ok(true);
            }
            if at & LOCKED != 0 {
                return Ok(false);
            }
            let slot = Self::slot(cell).get(world)?;
            if version.atomic_load(world)? != at {
                return Ok(false);
            }
            let outside = <T::Repr as Repr<T>>::is_outside(&slot);
            match <T::Repr as Repr<T>>::load(slot, &self.heap) {
                Ok(value) => loaded = Some(value),
                Err(error) => failed = Some(error),
            }
            Ok(failed.is_some() || !outside || version.atomic_load(world)? == at)
        })?;
        match (failed, loaded) {
            (Some(error), _) => Err(error),
            (None, Some(loaded)) => <T::Repr as Repr<T>>::decode(loaded),
            (None, None) => object::from_slot::<T>(self.initial, &self.heap),
        }
    }
}
