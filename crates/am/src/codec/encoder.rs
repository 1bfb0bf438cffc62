//! Encodes values to bytes.

use pgas_core::Result;

use serde::Serialize;

use super::format::{self, Limits, Refused, Sink};
use super::refusal::unwritable;

/// Values up to this length need no allocation: twice the payload of one mailbox slot.
const INLINE: usize = 96;

/// A buffer to which values are encoded. Up to 96 bytes it needs no allocation.
#[derive(Debug)]
pub struct Encoder {
    inline: [u8; INLINE],
    len: usize,
    /// Everything, once the inline bytes did not suffice.
    spilled: Vec<u8>,
    limits: Limits,
    /// Whether equal values have to have equal bytes.
    is_canonical: bool,
}

impl Default for Encoder {
    #[inline]
    fn default() -> Self {
        Self {
            inline: [0; INLINE],
            len: 0,
            spilled: Vec::new(),
            limits: Limits::default(),
            is_canonical: false,
        }
    }
}

impl Encoder {
    /// An empty encoder.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty encoder for keys: equal sets and maps have equal bytes, also those of std whose
    /// order is any. Their elements are sorted by their bytes, except within a type that serde
    /// encodes.
    #[must_use]
    #[inline]
    pub fn canonical() -> Self {
        Self {
            is_canonical: true,
            ..Self::default()
        }
    }

    /// Whether equal values have to have equal bytes.
    pub(super) fn is_canonical(&self) -> bool {
        self.is_canonical
    }

    /// The bytes that were written so far.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        if self.spilled.is_empty() {
            &self.inline[..self.len]
        } else {
            &self.spilled
        }
    }

    /// Appends `bytes`.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty()
            && let Some(free) = self.inline.get_mut(self.len..self.len + bytes.len())
        {
            free.copy_from_slice(bytes);
            self.len += bytes.len();
        } else {
            self.spill(bytes);
        }
    }

    /// Sorts the last bytes: `ends` has the ends of consecutive parts, of which the first begins at
    /// `start`.
    pub(super) fn sort_parts(&mut self, start: usize, ends: &[usize]) {
        let written = self.bytes()[start..].to_vec();
        let starts = [start].into_iter().chain(ends.iter().copied());
        let parts = starts.zip(ends);
        let mut parts: Vec<&[u8]> = parts
            .map(|(from, to)| &written[from - start..*to - start])
            .collect();
        parts.sort_unstable();
        let place = if self.spilled.is_empty() {
            &mut self.inline[start..self.len]
        } else {
            &mut self.spilled[start..]
        };
        place.copy_from_slice(&parts.concat());
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty() {
            self.spilled.reserve(self.len + bytes.len());
            self.spilled.extend_from_slice(&self.inline[..self.len]);
        }
        self.spilled.extend_from_slice(bytes);
    }

    /// Appends zero bytes up to a multiple of eight.
    #[inline]
    pub(crate) fn align(&mut self) {
        let past = self.bytes().len() % 8;
        if past > 0 {
            self.write(&[0; 8][past..]);
        }
    }

    /// Runs `put` for the members of a `T`.
    ///
    /// # Errors
    ///
    /// The error of `put`; [`Error::Codec`](pgas_core::Error::Codec) if values are nested deeper
    /// than [`format::DEPTH`].
    pub fn within<T, R>(&mut self, put: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let depth = self.limits.depth;
        self.limits.depth = depth.within().map_err(unwritable::<T>)?;
        let result = put(self);
        self.limits.depth = depth;
        result
    }

    /// Runs `put` for an element of a sequence, and counts the element against the limit if it
    /// takes no byte.
    #[inline]
    pub(super) fn element<T>(&mut self, put: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let n_before = self.bytes().len();
        put(self)?;
        if self.bytes().len() == n_before {
            self.add_empty::<T>(1)?;
        }
        Ok(())
    }

    /// Counts `n` elements of a sequence that took no byte.
    pub(super) fn add_empty<T>(&mut self, n: usize) -> Result<()> {
        self.limits.empty.add(n).map_err(unwritable::<T>)
    }

    /// Appends a number of elements, or the number of a variant: one byte up to 250.
    #[inline]
    pub fn put_count(&mut self, n: usize) {
        format::put_count(n, self);
    }

    /// Appends a value as serde encodes it.
    pub(super) fn put_by_serde<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        let mut limits = self.limits;
        format::encode_within(value, self, &mut limits)?;
        self.limits = limits;
        Ok(())
    }
}

impl Sink for Encoder {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.write(bytes);
    }

    #[inline]
    fn n_bytes(&self) -> usize {
        self.bytes().len()
    }
}
