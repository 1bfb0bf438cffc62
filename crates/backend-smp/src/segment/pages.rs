//! The pages of a job's memory as this process has mapped them, and views of them.
#![expect(unsafe_code, reason = "maps memory and hands out views of it")]

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use pgas_core::{Error, Result};
use rustix::mm::{MapFlags, ProtFlags};

use crate::doorbell::Doorbell;
use crate::layout::{BELLS_AT, HUGE_PAGE, Places};

/// A mapping of a job's memory, aligned to [`HUGE_PAGE`]: control words, then segments.
///
/// It is readable and writable, all of its bytes are initialized, since fresh pages are zero, and
/// it stays where it is until it is dropped. No safe call gives a reference to bytes of it but as
/// atomic words.
#[derive(Debug)]
pub(super) struct Pages {
    base: NonNull<u8>,
    bytes: usize,
    control_words: usize,
    n_bell_lines: usize,
}

// SAFETY: `base` is the only field that is not `Send` by itself. It owns pages that no thread is
// special to, and what it gives access to is atomic words, and pointers whose use is somebody
// else's `unsafe`.
unsafe impl Send for Pages {}
// SAFETY: as for `Send`; no method changes a field.
unsafe impl Sync for Pages {}

const PROT: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
const FRESH: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);

impl Pages {
    /// `bytes` of zeros that only this process has.
    pub(super) fn fresh(bytes: usize, places: &Places) -> Result<Self> {
        let map = |at: *mut c_void| {
            // SAFETY: `at` is the start of `bytes` bytes that `reserve` has just set aside for
            // this, and that nothing refers to.
            unsafe { rustix::mm::mmap_anonymous(at, bytes, PROT, FRESH | MapFlags::FIXED) }
        };
        reserve(bytes, map).map(|base| Self::new(base, bytes, places))
    }

    /// The first `bytes` of a file, which all processes that map it share.
    #[cfg(all(target_os = "linux", not(pgas_portable)))]
    pub(super) fn of_file(file: &std::fs::File, bytes: usize, places: &Places) -> Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
        let map = |at: *mut c_void| {
            // SAFETY: as for `fresh`.
            unsafe { rustix::mm::mmap(at, bytes, PROT, flags, file, 0) }
        };
        let pages = reserve(bytes, map).map(|base| Self::new(base, bytes, places))?;
        pages.leave_out_of_core_dumps();
        Ok(pages)
    }

    /// The system would allocate every page of a shared file to dump it, also those that nobody
    /// has used: the segments of all ranks, each as large as the memory of the host. A refusal only
    /// makes dumps large.
    #[cfg(all(target_os = "linux", not(pgas_portable)))]
    fn leave_out_of_core_dumps(&self) {
        let advice = rustix::mm::Advice::LinuxDontDump;
        // SAFETY: the range is this mapping, and the advice changes no contents.
        let advised = unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.bytes, advice) };
        let _ = advised;
    }

    /// The mapping at `base`. All views lie in it, so they need not be checked again.
    fn new(base: NonNull<u8>, bytes: usize, places: &Places) -> Self {
        let Places {
            control_words,
            n_bell_lines,
            ..
        } = *places;
        let of_control = control_words * size_of::<AtomicU64>();
        let of_bells = n_bell_lines * size_of::<Doorbell>();
        assert!(of_control <= bytes, "the control part is mapped");
        assert!(
            BELLS_AT + of_bells <= of_control && align_of::<Doorbell>() <= HUGE_PAGE,
            "the bells are a part of it"
        );
        const { assert!(BELLS_AT.is_multiple_of(align_of::<Doorbell>())) };
        Self {
            base,
            bytes,
            control_words,
            n_bell_lines,
        }
    }

    /// The control part as words.
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `new` checked that the mapping has `control_words` words. It is aligned,
        // initialized, and mapped while `self` is borrowed. Others write it meanwhile, which
        // atomics allow: they do so by atomics alone, except for payloads that are filled in place,
        // and those have one owner at a time (`machine.rs`).
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.control_words) }
    }

    /// The part of it with the ranks' states and doorbells, as doorbells.
    #[inline]
    pub(super) fn bells(&self) -> &[Doorbell] {
        // SAFETY: `new` checked that this place, and `n_bell_lines` doorbells from it on, lie in
        // the control part.
        let bells = unsafe { self.base.add(BELLS_AT) };
        // SAFETY: as for `words`; the place is aligned as a page is, and `Doorbell` consists of
        // atomic words, of which any bits are a value.
        unsafe { std::slice::from_raw_parts(bells.as_ptr().cast(), self.n_bell_lines) }
    }

    /// The address of the byte at `offset`.
    #[inline]
    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.bytes, "{offset:#x} is not mapped");
        // SAFETY: the offset is not beyond the end of the mapping, which is one allocation.
        unsafe { self.base.add(offset) }
    }

    /// Asks for 2 MiB pages; a refusal only costs speed.
    #[cfg(all(target_os = "linux", not(pgas_portable)))]
    pub(super) fn advise_huge(&self) {
        let advice = rustix::mm::Advice::LinuxHugepage;
        // SAFETY: the range is this mapping, and the advice changes no contents.
        let advised = unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.bytes, advice) };
        let _ = advised;
    }

    /// Replaces whole pages of a mapping that is this process's own, `bytes` from `at` on, by fresh
    /// ones.
    #[cfg(not(miri))]
    pub(super) fn renew(&self, at: usize, bytes: usize) -> rustix::io::Result<()> {
        let is_inside = at.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(is_inside, "{bytes} bytes at {at:#x} are not mapped");
        let first = self.at(at).as_ptr().cast();
        #[cfg(all(target_os = "linux", not(pgas_portable)))]
        // SAFETY: the range is inside of the mapping, whose pages are private to this process, so
        // that they become zero. They are only accessed atomically: no reference sees plain bytes
        // change.
        let renewed =
            unsafe { rustix::mm::madvise(first, bytes, rustix::mm::Advice::LinuxDontNeed) };
        #[cfg(any(pgas_portable, not(target_os = "linux")))]
        // SAFETY: the same; zero pages take the place of the former ones in one step.
        let renewed = unsafe {
            rustix::mm::mmap_anonymous(first, bytes, PROT, FRESH | MapFlags::FIXED).map(drop)
        };
        renewed
    }

    /// The effect of the system calls, word by word.
    #[cfg(miri)]
    pub(super) fn renew(&self, at: usize, bytes: usize) -> rustix::io::Result<()> {
        for at in (at..at + bytes).step_by(size_of::<AtomicU64>()) {
            assert!(
                at + size_of::<AtomicU64>() <= self.bytes,
                "{at:#x} is not mapped"
            );
            // SAFETY: the word lies inside of the mapping; `at` begins at a page.
            let word: &AtomicU64 = unsafe { self.at(at).cast().as_ref() };
            word.store(0, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Maps `total` bytes by `map`, at an address that is aligned for 2 MiB pages.
#[cfg(not(miri))]
fn reserve(
    total: usize,
    map: impl FnOnce(*mut c_void) -> rustix::io::Result<*mut c_void>,
) -> Result<NonNull<u8>> {
    let padded = total.saturating_add(HUGE_PAGE);
    // SAFETY: a new mapping anywhere disturbs nothing.
    let area =
        unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), padded, ProtFlags::empty(), FRESH) };
    let area = area.map_err(|errno| refused(total, errno))?;
    let skip = area.cast::<u8>().align_offset(HUGE_PAGE);
    // SAFETY: less than 2 MiB are skipped of an area that is that much larger.
    let base = unsafe { area.cast::<u8>().add(skip) };
    let mapped = map(base.cast()).map_err(|errno| {
        // SAFETY: the area was mapped above, whole, and nothing else knows of it.
        let _ = unsafe { rustix::mm::munmap(area, padded) };
        refused(total, errno)
    })?;
    // SAFETY: the `skip` bytes before the mapping are still the bare reservation, which nothing
    // else knows of.
    let _ = unsafe { rustix::mm::munmap(area, skip) };
    // SAFETY: `skip + total` bytes into an area of `total + HUGE_PAGE`, and `skip` is less than
    // that.
    let behind = unsafe { mapped.cast::<u8>().add(total) };
    // SAFETY: from there to the area's end is bare reservation, too: `HUGE_PAGE - skip` bytes.
    let _ = unsafe { rustix::mm::munmap(behind.cast(), HUGE_PAGE - skip) };
    Ok(NonNull::new(mapped.cast()).expect("a mapping is never at address zero"))
}

/// Memory of the allocator, since Miri maps none at a place of one's choice.
#[cfg(miri)]
fn reserve(
    total: usize,
    _: impl FnOnce(*mut c_void) -> rustix::io::Result<*mut c_void>,
) -> Result<NonNull<u8>> {
    // SAFETY: the control part alone is larger than nothing.
    let base = unsafe { std::alloc::alloc_zeroed(allocated(total)) };
    NonNull::new(base).ok_or_else(|| refused(total, rustix::io::Errno::NOMEM))
}

#[cfg(miri)]
fn allocated(total: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(total, HUGE_PAGE).expect("a power of two")
}

fn refused(total: usize, errno: rustix::io::Errno) -> Error {
    let error = io::Error::from(errno);
    let code = i64::from(error.raw_os_error().unwrap_or(0));
    let text = format!("{error}, for {total} bytes of address space; lower PGAS_SEGMENT");
    Error::backend("mmap", code, text)
}

impl Drop for Pages {
    fn drop(&mut self) {
        #[cfg(not(miri))]
        // SAFETY: the mapping is this value's own, of this size; views of it borrow the value, and
        // who keeps an address of a segment keeps the backend that has it (promise 1 of `Backend`).
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        #[cfg(miri)]
        // SAFETY: as for the mapping; `reserve` allocated it with this layout.
        unsafe {
            std::alloc::dealloc(self.base.as_ptr(), allocated(self.bytes));
        }
    }
}

/// Bytes of memory that the host has, by a call that other systems have, too.
#[cfg(any(pgas_portable, not(target_os = "linux")))]
pub(super) fn of_host() -> u64 {
    if cfg!(miri) {
        return 0;
    }
    // SAFETY: the call takes a number and touches no memory of the program.
    let n_pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    let n_pages = u64::try_from(n_pages).unwrap_or(0);
    n_pages.saturating_mul(rustix::param::page_size() as u64)
}
