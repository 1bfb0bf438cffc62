//! Decodes values from bytes.

use pgas_core::{Error, Result, World};

use serde::de::DeserializeOwned;

use super::format::{self, Limits, Refused};
use super::refusal::unreadable;

/// Bytes from which values are decoded.
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    world: Option<&'a World>,
    limits: Limits,
}

impl<'a> Decoder<'a> {
    /// A decoder of bytes that arrived at `world`.
    #[inline]
    pub(crate) fn at(world: &'a World, bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            world: Some(world),
            limits: Limits::default(),
        }
    }

    /// A decoder of bytes that belong to no world.
    #[must_use]
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            world: None,
            limits: Limits::default(),
        }
    }

    /// The world where the bytes arrived; `None` for bytes of a file or of a result.
    #[must_use]
    #[inline]
    pub fn world(&self) -> Option<&'a World> {
        self.world
    }

    /// The bytes that were not taken yet.
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Takes the next `n` bytes, for a `T`.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if there are fewer.
    #[inline]
    pub fn take<T>(&mut self, n: usize) -> Result<&'a [u8]> {
        let Some(bytes) = self.remaining().get(..n) else {
            return Err(self.too_short::<T>(n));
        };
        self.at += n;
        Ok(bytes)
    }

    #[cold]
    fn too_short<T>(&self, n: usize) -> Error {
        let left = self.remaining().len();
        unreadable::<T>(format!("it takes {n} bytes, and {left} are left"))
    }

    /// Goes on at the next multiple of eight bytes, and takes all that is left.
    #[inline]
    pub(crate) fn rest_aligned(&mut self) -> &'a [u8] {
        let start = self.at.next_multiple_of(8).min(self.bytes.len());
        self.at = self.bytes.len();
        &self.bytes[start..]
    }

    /// Runs `get` for the members of a `T`.
    ///
    /// # Errors
    ///
    /// The error of `get`; [`Error::Codec`] if values are nested deeper than [`format::DEPTH`].
    pub fn within<T, R>(&mut self, get: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let depth = self.limits.depth;
        self.limits.depth = depth.within().map_err(|e| unreadable::<T>(e.to_string()))?;
        let result = get(self);
        self.limits.depth = depth;
        result
    }

    /// Runs `get` for an element of a sequence, and counts the element against the limit if it
    /// takes no byte.
    #[inline]
    pub(super) fn element<T>(&mut self, get: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let n_before = self.remaining().len();
        let value = get(self)?;
        if self.remaining().len() == n_before {
            self.add_empty::<T>(1)?;
        }
        Ok(value)
    }

    /// Counts `n` elements of a sequence that took no byte.
    pub(super) fn add_empty<T>(&mut self, n: usize) -> Result<()> {
        self.limits
            .empty
            .add(n)
            .map_err(|e| unreadable::<T>(e.to_string()))
    }

    /// Refuses a number of elements for which too few bytes are left.
    pub(super) fn check_count<T>(&self, n: usize) -> Result<()> {
        let most = self.remaining().len();
        let checked = self.limits.empty.check(n, most);
        checked.map_err(|e| unreadable::<T>(e.to_string()))
    }

    /// Takes a count that [`put_count`](super::Encoder::put_count) has written, for a `T`.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] for bytes that are not a number, or a number that is not a `usize`.
    #[inline]
    pub fn get_count<T>(&mut self) -> Result<usize> {
        self.format::<T, _>(|bytes, _| format::get_count(bytes))
    }

    /// Takes a value that serde has encoded.
    pub(super) fn get_by_serde<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.format::<T, _>(format::decode_within)
    }

    /// Runs `read` on the remaining bytes, for a `T`.
    #[inline]
    fn format<T, R>(
        &mut self,
        read: impl FnOnce(&mut &[u8], &mut Limits) -> Result<R, Refused>,
    ) -> Result<R> {
        let mut rest = self.remaining();
        let value = read(&mut rest, &mut self.limits);
        let value = value.map_err(|e| unreadable::<T>(e.to_string()))?;
        self.at = self.bytes.len() - rest.len();
        Ok(value)
    }
}
