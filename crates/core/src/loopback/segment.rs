//! A segment: plain memory behind a lock.

use std::ops::Range;
use std::sync::Mutex;

use zerocopy::IntoBytes;

use crate::backend::{Atomic, AtomicType, Get, SwapCall};
use crate::locks::lock;
use crate::raw::word;

/// One rank's segment.
pub(super) struct Segment(Mutex<Vec<u64>>);

impl Segment {
    pub(super) fn new(bytes: u64) -> Self {
        let bytes = usize::try_from(bytes).expect("a segment fits into the address space");
        // Zeroed by the system when it is first touched.
        Self(Mutex::new(vec![0; bytes.div_ceil(8)]))
    }

    /// Calls `access` on `len` bytes; a range outside of the segment is a bug of core and panics.
    fn with<R>(&self, offset: u64, len: usize, access: impl FnOnce(&mut [u8]) -> R) -> R {
        let start = usize::try_from(offset).expect("core checks offsets");
        let range: Range<usize> = start..start.checked_add(len).expect("core checks lengths");
        access(&mut lock(&self.0).as_mut_bytes()[range])
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        self.with(offset, bytes.len(), |place| place.copy_from_slice(bytes));
    }

    /// Copies bytes to where `get` wants them.
    pub(super) fn read_to(&self, get: &Get) {
        self.with(get.src().offset, get.len(), |place| get.fill(place));
    }

    pub(super) fn zero(&self, offset: u64, bytes: u64) {
        let len = usize::try_from(bytes).expect("core checks lengths");
        self.with(offset, len, |place| place.fill(0));
    }

    pub(super) fn fetch(&self, atomic: &Atomic) -> u64 {
        let call = atomic.call();
        self.update(atomic.target().offset, call.ty, |old| {
            word::apply(old, call)
        })
    }

    pub(super) fn compare_swap(&self, swap: &Atomic<SwapCall>) -> u64 {
        let call = swap.call();
        self.update(swap.target().offset, call.ty, |old| {
            if old == call.expected {
                call.desired
            } else {
                old
            }
        })
    }

    /// Replaces the bits of a word by `change` of them, and returns the former ones.
    fn update(&self, offset: u64, ty: AtomicType, change: impl FnOnce(u64) -> u64) -> u64 {
        assert_eq!(
            offset % ty.bytes() as u64,
            0,
            "core checks the alignment of atomics"
        );
        self.with(offset, ty.bytes(), |place| {
            // The low bytes of a number, which are its first ones or its last.
            let n = place.len();
            let low = if cfg!(target_endian = "big") {
                8 - n..8
            } else {
                0..n
            };
            let mut bits = [0; 8];
            bits[low.clone()].copy_from_slice(place);
            let old = u64::from_ne_bytes(bits);
            place.copy_from_slice(&change(old).to_ne_bytes()[low]);
            old
        })
    }
}
