//! Linux only: the file behind the memory of a job of processes, large pages, and memory given back.
//! `system_portable.rs` stands in for it elsewhere.
//!
//! The file lives on a private tmpfs with 2 MiB pages where the system grants one, else it is a memfd.
//! Either way it has no name, so that nothing of a job can be left behind.
#![expect(
    unsafe_code,
    reason = "maps a file, and advises the system about mappings"
)]

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use pgas_core::{Config, Error, Result};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::{HUGE_PAGE, Job, layout, reserve};
use crate::control::{Layout, Places};

/// The first word of a job's memory.
const MAGIC: u64 = u64::from_le_bytes(*b"pgas-smp");
/// Changes whenever the layout of `control.rs` does, so that no two versions share a job.
const VERSION: u64 = 2;

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
    check_file_size(total as u64)?;
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
}

/// An error where a limit of file sizes forbids the job's memory: the system would kill this process by
/// SIGXFSZ instead of refusing.
fn check_file_size(bytes: u64) -> Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    match limit {
        Some(limit) if limit < bytes => {
            let text = format!(
                "the job's memory takes a file of {bytes} bytes, and the limit of file sizes is {limit} bytes \
                 (ulimit -f); raise that, or lower PGAS_SEGMENT"
            );
            let code = i64::from(rustix::io::Errno::FBIG.raw_os_error());
            Err(Error::backend("ftruncate", code, text))
        }
        _ => Ok(()),
    }
}

/// Bytes of memory that the host has: the largest segment that one rank could fill.
pub(super) fn memory_of_host() -> u64 {
    let info = rustix::system::sysinfo();
    let bytes = info.totalram.saturating_mul(u64::from(info.mem_unit));
    bytes.max(1 << 30) & !(HUGE_PAGE as u64 - 1)
}

/// Asks for 2 MiB pages for segments that are large; a refusal only costs speed.
pub(super) fn advise_huge(job: &Job) {
    if job.layout.segment_bytes < 64 * HUGE_PAGE as u64 {
        return;
    }
    let total = job.layout.total_bytes().expect("it is mapped");
    // SAFETY: the range is the job's own mapping, and the advice changes no contents.
    let advised =
        unsafe { rustix::mm::madvise(job.base.as_ptr().cast(), total, Advice::LinuxHugepage) };
    let _ = advised;
}

/// Gives whole pages of the segments back, `bytes` from `at` on in the job's memory. They read as zero
/// afterwards; an error changes nothing.
pub(super) fn give_back(job: &Job, at: usize, bytes: usize) -> rustix::io::Result<()> {
    if let Some(file) = &job.file {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        return rustix::fs::fallocate(file, flags, at as u64, bytes as u64);
    }
    // SAFETY: the range is inside of the job's mapping.
    let first = unsafe { job.base.as_ptr().add(at) };
    // SAFETY: it is the job's private mapping, whose pages become zero; they are only accessed
    // atomically, so that no reference sees them change.
    unsafe { rustix::mm::madvise(first.cast(), bytes, Advice::LinuxDontNeed) }
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
