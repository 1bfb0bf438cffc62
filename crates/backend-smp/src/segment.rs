//! The memory of a job: one file without a name, or one anonymous mapping, that holds the control
//! words and every rank's segment, mapped whole by every rank.
//!
//! It is reserved, not allocated: pages cost memory once they are touched. The file lives on a
//! private tmpfs with 2 MiB pages where the system grants one, else it is a memfd; either way it has
//! no name, so that nothing of a job can be left behind.
#![expect(unsafe_code, reason = "maps memory and hands out views of it")]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use pgas_core::segment::MIN_SEGMENT_BYTES;
use pgas_core::{Config, Error, GlobalPtr, Result};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::control::{Control, Layout, MAGIC, Places, VERSION};
use crate::doorbell::Doorbell;

/// The size of a large page; segments are multiples of it unless they are smaller.
pub(crate) const HUGE_PAGE: usize = 2 << 20;
/// The most that the segments of a host may take together: what is left of the address space is ample
/// for everything else.
const MAX_RESERVED: u64 = 1 << 46;

/// A job's memory as this process has mapped it.
#[derive(Debug)]
pub(crate) struct Job {
    base: NonNull<u8>,
    layout: Layout,
    places: Places,
    /// The file, for a job of processes.
    file: Option<File>,
}

// SAFETY: the mapping is shared memory that is only accessed atomically, by any thread.
unsafe impl Send for Job {}
// SAFETY: as for `Send`.
unsafe impl Sync for Job {}

/// Creates the memory of a job of `n_ranks` processes; each of them passes it to `Job::open`.
///
/// # Errors
///
/// [`Error::Setting`] for segments that do not fit, [`Error::Backend`] for a refusal of the system.
pub fn create_job(n_ranks: u32, config: &Config) -> Result<File> {
    let layout = layout(n_ranks, config)?;
    let Some(total) = layout.total_bytes() else {
        return Err(Error::backend(
            "ftruncate",
            0,
            "the segments do not fit the address space",
        ));
    };
    let file = match config.huge_pages.then(huge_file) {
        Some(Ok(file)) => file,
        _ => memfd()?,
    };
    file.set_len(total as u64)
        .map_err(|error| Error::os("ftruncate", error))?;
    let header = [MAGIC, VERSION, u64::from(n_ranks), layout.segment_bytes];
    let bytes: Vec<u8> = header.iter().flat_map(|word| word.to_ne_bytes()).collect();
    file.write_all_at(&bytes, 0)
        .map_err(|error| Error::os("pwrite", error))?;
    Ok(file)
}

/// The size of each segment in bytes in a job of `n_ranks` processes of this host, as `config` asks for it.
///
/// # Errors
///
/// [`Error::Setting`] for segments that do not fit.
pub fn segment_bytes(n_ranks: u32, config: &Config) -> Result<u64> {
    layout(n_ranks, config).map(|layout| layout.segment_bytes)
}

/// The layout that `config` asks for.
pub(crate) fn layout(n_ranks: u32, config: &Config) -> Result<Layout> {
    let limit = (MAX_RESERVED / u64::from(n_ranks)).min(GlobalPtr::<u8>::OFFSET_LIMIT);
    let wanted = config
        .segment_bytes
        .unwrap_or_else(|| memory_of_host().min(limit));
    let granule = if wanted >= HUGE_PAGE as u64 {
        HUGE_PAGE as u64
    } else {
        4096
    };
    let segment_bytes = wanted.checked_next_multiple_of(granule).unwrap_or(u64::MAX);
    if !(MIN_SEGMENT_BYTES..=limit).contains(&segment_bytes) {
        let reason = format!(
            "a segment has {MIN_SEGMENT_BYTES} to {limit} bytes with {n_ranks} ranks on this host"
        );
        return Err(Error::setting("PGAS_SEGMENT", wanted.to_string(), reason));
    }
    Ok(Layout {
        n_ranks,
        segment_bytes,
    })
}

/// Bytes of memory that the host has: the largest segment that one rank could fill.
fn memory_of_host() -> u64 {
    let info = rustix::system::sysinfo();
    let bytes = info.totalram.saturating_mul(u64::from(info.mem_unit));
    bytes.max(1 << 30) & !(HUGE_PAGE as u64 - 1)
}

fn memfd() -> Result<File> {
    let fd = rustix::fs::memfd_create("pgas", MemfdFlags::CLOEXEC)
        .map_err(|errno| Error::os("memfd_create", errno.into()))?;
    Ok(File::from(fd))
}

/// A file without a name on a tmpfs of our own that uses 2 MiB pages. The tmpfs is mounted nowhere
/// and ends with the file. Needs the right to mount.
fn huge_file() -> rustix::io::Result<File> {
    let fs = rustix::mount::fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&fs, c"huge", c"always")?;
    // No limit of its own: a tmpfs would stop at half of the memory.
    rustix::mount::fsconfig_set_string(&fs, c"size", c"0")?;
    rustix::mount::fsconfig_create(&fs)?;
    let mount: OwnedFd =
        rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::openat(&mount, c".", flags, Mode::RUSR | Mode::WUSR).map(File::from)
}

impl Job {
    /// Maps the memory that [`create_job`] made.
    pub(crate) fn open(file: File) -> Result<Self> {
        let mut bytes = [0; 32];
        file.read_exact_at(&mut bytes, 0)
            .map_err(|error| Error::os("pread", error))?;
        let word = |i: usize| {
            u64::from_ne_bytes(bytes[i * 8..][..8].try_into().expect("eight bytes of 32"))
        };
        if (word(0), word(1)) != (MAGIC, VERSION) {
            let text = "the inherited memory was made by another program or version";
            return Err(Error::backend("attach", 0, text));
        }
        let n_ranks = u32::try_from(word(2)).unwrap_or(0);
        let layout = Layout {
            n_ranks,
            segment_bytes: word(3),
        };
        let Some(total) = layout.total_bytes().filter(|_| n_ranks > 0) else {
            return Err(Error::backend(
                "attach",
                0,
                "the job's memory has a broken header",
            ));
        };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        let map = |at: *mut c_void| {
            // SAFETY: `at` is the start of `total` bytes that `reserve` has just set aside for this.
            unsafe {
                let prot = ProtFlags::READ | ProtFlags::WRITE;
                rustix::mm::mmap(at, total, prot, flags | MapFlags::FIXED, &file, 0)
            }
        };
        let base = reserve(total, map)?;
        Ok(Self {
            base,
            layout,
            places: Places::of(layout),
            file: Some(file),
        })
    }

    /// Memory of a job whose ranks are threads of this process.
    pub(crate) fn anonymous(layout: Layout) -> Result<Self> {
        let Some(total) = layout.total_bytes() else {
            return Err(Error::backend(
                "mmap",
                0,
                "the segments do not fit the address space",
            ));
        };
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let map = |at: *mut c_void| {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: `at` is the start of `total` bytes that `reserve` has just set aside for this.
            unsafe { rustix::mm::mmap_anonymous(at, total, prot, flags) }
        };
        let base = reserve(total, map)?;
        let job = Self {
            base,
            layout,
            places: Places::of(layout),
            file: None,
        };
        job.advise_huge();
        Ok(job)
    }

    /// Asks for 2 MiB pages for segments that are large; a refusal only costs speed.
    fn advise_huge(&self) {
        if self.layout.segment_bytes < 64 * HUGE_PAGE as u64 {
            return;
        }
        let total = self.layout.total_bytes().expect("it is mapped");
        // SAFETY: the range is this job's own mapping, and the advice changes no contents.
        let advised =
            unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), total, Advice::LinuxHugepage) };
        let _ = advised;
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    #[inline]
    pub(crate) fn control(&self) -> Control<'_> {
        let Places {
            control_words,
            n_bell_lines,
            ..
        } = self.places;
        let base = self.base.as_ptr();
        // SAFETY: the control part is mapped while `self` lives, aligned to a page, all zero or written
        // atomically, and never accessed but through such words.
        let words = unsafe { std::slice::from_raw_parts(base.cast::<AtomicU64>(), control_words) };
        // SAFETY: the place is inside of the control part.
        let bells = unsafe { base.add(Control::BELLS_AT) };
        // SAFETY: `n_bell_lines` cache lines of the control part begin there, aligned; a `Doorbell` is
        // atomic words, valid whatever they hold.
        let bells = unsafe { std::slice::from_raw_parts(bells.cast::<Doorbell>(), n_bell_lines) };
        Control::new(words, bells, self.layout, self.places)
    }

    /// Where the segment of `rank` begins.
    pub(crate) fn segment(&self, rank: u32) -> NonNull<u8> {
        assert!(rank < self.layout.n_ranks, "rank {rank} is not in the job");
        // SAFETY: the segment of a rank of the job lies inside of the mapping.
        unsafe { self.base.add(self.layout.segment_at(rank)) }
    }

    /// Gives the whole pages of a range of the segment of `rank` back to the system; they read as zero
    /// afterwards. Says whether all of the range does.
    pub(crate) fn discard(&self, rank: u32, offset: u64, bytes: u64) -> bool {
        let end = offset.saturating_add(bytes).min(self.layout.segment_bytes);
        let (start, end) = (offset.next_multiple_of(4096), end & !4095);
        if start >= end {
            return false;
        }
        let at = self.layout.segment_at(rank) as u64 + start;
        let freed = if let Some(file) = &self.file {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, flags, at, end - start)
        } else {
            let Ok(index) = usize::try_from(at) else {
                return false;
            };
            let Ok(len) = usize::try_from(end - start) else {
                return false;
            };
            // SAFETY: the range is inside of the segment of `rank`.
            let first = unsafe { self.base.as_ptr().add(index) };
            // SAFETY: it is this job's private mapping, whose pages become zero; they are only accessed
            // atomically, so that no reference sees them change.
            unsafe { rustix::mm::madvise(first.cast(), len, Advice::LinuxDontNeed) }
        };
        freed.is_ok() && (start, end) == (offset, offset + bytes)
    }
}

/// Maps `total` bytes by `map`, at an address that is aligned for 2 MiB pages.
fn reserve(
    total: usize,
    map: impl FnOnce(*mut c_void) -> rustix::io::Result<*mut c_void>,
) -> Result<NonNull<u8>> {
    let padded = total.saturating_add(HUGE_PAGE);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping anywhere disturbs nothing.
    let area =
        unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), padded, ProtFlags::empty(), flags) };
    let area = area.map_err(|errno| refused(total, errno))?;
    let skip = area.cast::<u8>().align_offset(HUGE_PAGE);
    // SAFETY: less than 2 MiB are skipped of an area that is that much larger.
    let base = unsafe { area.cast::<u8>().add(skip) };
    let mapped = map(base.cast()).map_err(|errno| {
        // SAFETY: nothing else knows of the area.
        let _ = unsafe { rustix::mm::munmap(area, padded) };
        refused(total, errno)
    })?;
    // SAFETY: what lies before and behind the mapping is still the bare reservation.
    let _ = unsafe { rustix::mm::munmap(area, skip) };
    // SAFETY: as above; both ends are inside of the reserved area.
    let behind = unsafe { mapped.cast::<u8>().add(total) };
    // SAFETY: as above.
    let _ = unsafe { rustix::mm::munmap(behind.cast(), HUGE_PAGE - skip) };
    Ok(NonNull::new(mapped.cast()).expect("a mapping is never at address zero"))
}

fn refused(total: usize, errno: rustix::io::Errno) -> Error {
    let error = io::Error::from(errno);
    let code = i64::from(error.raw_os_error().unwrap_or(0));
    let text = format!("{error}, for {total} bytes of address space; lower PGAS_SEGMENT");
    Error::backend("mmap", code, text)
}

impl Drop for Job {
    fn drop(&mut self) {
        let total = self.layout.total_bytes().expect("it is mapped");
        // SAFETY: the mapping is this job's own, and views of it borrow the job.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), total) };
    }
}
