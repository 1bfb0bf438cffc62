//! Memory that libfabric uses: contexts of operations, buffers, registrations.
#![expect(
    unsafe_code,
    reason = "owns memory that libfabric reads and writes while an operation lasts"
)]

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;

use pgas_libfabric_sys::bindings::{fi_context2, fid_mr};
use pgas_libfabric_sys::calls::{Local, fi_close, fi_mr_desc, fi_mr_key};

/// A context, by which libfabric knows an operation: memory that a provider may use meanwhile, and
/// a number.
#[derive(Debug)]
pub(crate) struct Context {
    at: NonNull<Known>,
}

/// The memory of a context. libfabric gets its address, and returns it with the completion.
#[repr(C)]
#[derive(Debug)]
struct Known {
    of_provider: fi_context2,
    number: u64,
}

// SAFETY: the room is this value's alone, and the provider's while an operation lasts.
unsafe impl Send for Context {}

impl Context {
    pub(crate) fn new(number: u64) -> Self {
        let known = Known {
            of_provider: fi_context2 {
                internal: [ptr::null_mut(); 8],
            },
            number,
        };
        Self {
            at: NonNull::from(Box::leak(Box::new(known))),
        }
    }

    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.at.as_ptr().cast()
    }

    /// The number of a context that libfabric has given back.
    ///
    /// # Safety
    ///
    /// It is that of an operation of this backend, whose [`Context`] lives.
    pub(super) unsafe fn number_of(context: *mut c_void) -> u64 {
        // SAFETY: the caller promises that it is the address of such a value, whose number never
        // changes.
        unsafe { (*context.cast::<Known>()).number }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was leaked by `new`, and the code that drops it promises that no operation has
        // it.
        drop(unsafe { Box::from_raw(self.at.as_ptr()) });
    }
}

/// Registered memory.
#[derive(Debug)]
pub(crate) struct Region {
    at: *mut fid_mr,
}

// SAFETY: libfabric does not care which thread closes a registration; the endpoint's lock orders
// calls.
unsafe impl Send for Region {}

impl Region {
    /// # Safety
    ///
    /// It is an open registration, and nobody else closes it.
    pub(super) unsafe fn new(at: *mut fid_mr) -> Self {
        Self { at }
    }

    pub(super) fn as_ptr(&self) -> *mut fid_mr {
        self.at
    }

    /// The key by which peers name it.
    pub(crate) fn key(&self) -> u64 {
        // SAFETY: it is open until this is dropped.
        unsafe { fi_mr_key(self.at) }
    }

    pub(crate) fn desc(&self) -> *mut c_void {
        // SAFETY: as above.
        unsafe { fi_mr_desc(self.at) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it is open, and not used any more. An error of closing changes nothing.
        unsafe { fi_close(self.at.cast()) };
    }
}

/// Memory to send from, to receive in, and to copy transfers through, with its registration where
/// it needs one.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// The registration. It is dropped before the memory.
    region: Option<Region>,
    pub(crate) context: Context,
    /// Words, so that it is aligned to them.
    start: NonNull<u64>,
    /// Bytes.
    len: usize,
}

// SAFETY: the memory is this value's alone, and libfabric's while an operation lasts.
unsafe impl Send for Buffer {}

impl Buffer {
    /// A buffer of `len` zeros. `number` names the operations that use it.
    pub(crate) fn new(len: usize, number: u64) -> Self {
        let words = Box::leak(vec![0_u64; n_words(len)].into_boxed_slice());
        Self {
            region: None,
            context: Context::new(number),
            start: NonNull::from(words).cast(),
            len,
        }
    }

    /// The address and length, for registration.
    pub(crate) fn range(&self) -> (*mut u8, usize) {
        (self.start.as_ptr().cast(), self.len)
    }

    pub(crate) fn keep(&mut self, region: Region) {
        self.region = Some(region);
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is initialized and lives as long as this. Whoever has a `Buffer` and
        // not only lends it knows that no operation has it: completions give it back.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and this is the only reference.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len) }
    }

    /// The first `len` bytes, for an operation.
    pub(super) fn local(&self, len: usize) -> Local {
        self.part(0..len.min(self.len))
    }

    /// These bytes, for an operation.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    pub(super) fn part(&self, bytes: Range<usize>) -> Local {
        assert!(bytes.start <= bytes.end && bytes.end <= self.len);
        let start = self.start.as_ptr().cast::<u8>();
        Local {
            start: start.wrapping_add(bytes.start).cast(),
            len: bytes.len(),
            desc: self.desc(),
        }
    }

    /// Received bytes, which libfabric says to be at `address`, if they are in the buffer.
    ///
    /// # Safety
    ///
    /// They have been received. While the result exists, the buffer lives and libfabric does not
    /// get these bytes again; it may have others.
    pub(crate) unsafe fn received(&self, address: usize, len: usize) -> Option<Received> {
        let start = self.start.as_ptr().cast::<u8>();
        let offset = address.checked_sub(start.addr())?;
        let is_inside = offset <= self.len && len <= self.len - offset;
        let start = NonNull::new(start.wrapping_add(offset))?;
        is_inside.then_some(Received { start, len })
    }

    fn desc(&self) -> *mut c_void {
        self.region.as_ref().map_or(ptr::null_mut(), Region::desc)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.region = None;
        let words = ptr::slice_from_raw_parts_mut(self.start.as_ptr(), n_words(self.len));
        // SAFETY: it was leaked by `new`, its registration is closed, and no operation has it.
        drop(unsafe { Box::from_raw(words) });
    }
}

/// Received bytes in a [`Buffer`], other bytes of which libfabric may still have.
#[derive(Debug)]
pub(crate) struct Received {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nobody writes the bytes while this exists.
unsafe impl Send for Received {}

impl Received {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the maker has promised that the bytes were received, and that the buffer lives
        // and they stay as they are while this exists.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

/// The number of words that have room for `len` bytes.
fn n_words(len: usize) -> usize {
    len.div_ceil(size_of::<u64>())
}
