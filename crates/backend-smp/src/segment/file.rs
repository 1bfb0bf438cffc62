//! Linux only: the file behind the memory of a job of processes.
//!
//! The file lives on a private tmpfs with 2 MiB pages where the system grants one, else it is a
//! memfd. Either way it has no name, so that nothing of a job can be left behind.
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use pgas_core::config::launch::MAX_RANKS;
use pgas_core::{Config, Error, Result};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::{Job, Pages, layout};
use crate::launcher;
use crate::layout::{Layout, Places};

/// The first word of a job's memory.
const MAGIC: u64 = u64::from_le_bytes(*b"pgas-smp");
/// Changes whenever `layout.rs` does, so that no two versions share a job.
const VERSION: u64 = 3;

/// The memory of a job of processes, as [`create_job`] made it or a launcher handed it on.
///
/// It is a file of which no safe call gives another handle. A reference to the bytes of a message
/// relies on that: only the job's ranks write them, by their protocol.
///
/// ```compile_fail,E0308
/// let memory = std::fs::File::open("/dev/null").unwrap();
/// pgas_smp::join(memory, 0, &pgas_core::Config::default());
/// ```
///
/// ```compile_fail,E0277
/// fn is_open(_: impl std::os::fd::AsFd) {}
/// is_open(pgas_smp::create_job(1, &pgas_core::Config::default())?);
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[derive(Debug)]
pub struct JobMemory(File);

impl JobMemory {
    /// Another handle, for another mapping.
    pub(crate) fn try_clone(&self) -> Result<Self> {
        let file = self.0.try_clone();
        file.map(Self).map_err(|error| Error::os("dup", error))
    }

    /// The file, for a caller that only reads it.
    pub(crate) fn into_file(self) -> File {
        self.0
    }
}

impl launcher::Memory for JobMemory {}

impl launcher::Descriptor for JobMemory {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn received(descriptor: OwnedFd) -> Self {
        Self(File::from(descriptor))
    }
}

/// Creates the memory of a job of `n_ranks` processes; each of them passes it to `Job::open`.
///
/// # Errors
///
/// [`Error::Setting`] for segments that do not fit and for more ranks than the system allows
/// processes, [`Error::Backend`] if the system refuses the memory.
pub fn create_job(n_ranks: u32, config: &Config) -> Result<JobMemory> {
    check_processes(n_ranks)?;
    let layout = layout(n_ranks, config)?;
    let Some(total) = layout.total_bytes() else {
        return Err(Error::backend(
            "ftruncate",
            0,
            "the segments do not fit the address space",
        ));
    };
    check_file_size(total as u64)?;
    let resize = |file: &File| {
        let resized = file.set_len(total as u64);
        resized.map_err(|error| Error::os("ftruncate", error))
    };
    let file = match config.huge_pages.then(huge_file) {
        Some(Ok(file)) => {
            resize(&file)?;
            file
        }
        _ => {
            let file = memfd()?;
            resize(&file)?;
            // Seal the size, whoever gets the descriptor: a file that got shorter would end every
            // rank by SIGBUS. Files of a tmpfs have no seals.
            let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
            rustix::fs::fcntl_add_seals(&file, seals)
                .map_err(|errno| Error::os("fcntl(F_ADD_SEALS)", errno.into()))?;
            file
        }
    };
    let header = [MAGIC, VERSION, u64::from(n_ranks), layout.segment_bytes];
    let bytes: Vec<u8> = header.iter().flat_map(|word| word.to_ne_bytes()).collect();
    file.write_all_at(&bytes, 0)
        .map_err(|error| Error::os("pwrite", error))?;
    Ok(JobMemory(file))
}

/// A job with more ranks than the system has processes is refused before any of them is started.
fn check_processes(n_ranks: u32) -> Result<()> {
    let read = |name| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
    let limits = ["pid_max", "threads-max"].map(|name| read(name)?.trim().parse().ok());
    let most: u64 = limits.into_iter().flatten().min().unwrap_or(u64::MAX);
    if u64::from(n_ranks) < most {
        return Ok(());
    }
    let reason = format!("this host runs fewer than {most} processes");
    Err(Error::setting("PGAS_RANKS", n_ranks.to_string(), reason))
}

impl Job {
    /// The file behind it, if its ranks are processes.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Maps the memory that [`create_job`] made.
    pub(crate) fn open(JobMemory(file): JobMemory) -> Result<Self> {
        let layout = read_header(&file)?;
        let total = layout.total_bytes().expect("it was looked at");
        let places = Places::of(layout);
        Ok(Self {
            pages: Pages::of_file(&file, total, &places)?,
            layout,
            places,
            file: Some(file),
        })
    }
}

/// The layout of a job's memory, from its header.
pub(crate) fn read_header(file: &File) -> Result<Layout> {
    let mut bytes = [0; 32];
    file.read_exact_at(&mut bytes, 0).map_err(|error| {
        let text = format!("the inherited file is not the memory of a job: {error}");
        Error::backend("attach", 0, text)
    })?;
    let word =
        |i: usize| u64::from_ne_bytes(bytes[i * 8..][..8].try_into().expect("eight bytes of 32"));
    if (word(0), word(1)) != (MAGIC, VERSION) {
        let text = "the inherited memory was made by another program or version";
        return Err(Error::backend("attach", 0, text));
    }
    let n_ranks = u32::try_from(word(2)).unwrap_or(0);
    let layout = Layout {
        n_ranks,
        segment_bytes: word(3),
    };
    let total = match n_ranks {
        // With more of them the size of the parts may not even fit a word.
        1..=MAX_RANKS => layout.total_bytes(),
        _ => None,
    };
    let Some(total) = total else {
        return Err(Error::backend(
            "attach",
            0,
            "the job's memory has a broken header",
        ));
    };
    let len = file
        .metadata()
        .map_err(|error| Error::os("fstat", error))?
        .len();
    if len < total as u64 {
        let text = format!("the job's memory has {len} bytes, and its header tells of {total}");
        return Err(Error::backend("attach", 0, text));
    }
    Ok(layout)
}

/// An error where a limit of file sizes forbids the job's memory: the system would kill this
/// process by SIGXFSZ instead of refusing.
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

fn memfd() -> Result<File> {
    let fd = rustix::fs::memfd_create("pgas", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn without_large_pages() -> Config {
        let mut config = Config::default();
        config.huge_pages = false;
        config.segment_bytes = Some(pgas_core::segment::MIN_SEGMENT_BYTES);
        config
    }

    #[test]
    fn the_memory_of_a_job_keeps_its_size() {
        let memory = create_job(2, &without_large_pages()).unwrap();
        let bytes = memory.0.metadata().unwrap().len();
        for wanted in [0, bytes - 1, bytes + 1] {
            let error = memory.0.set_len(wanted).unwrap_err();
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::PermissionDenied,
                "{wanted}"
            );
        }
        let again = rustix::fs::fcntl_add_seals(&memory.0, SealFlags::WRITE);
        assert_eq!(
            again,
            Err(rustix::io::Errno::PERM),
            "nobody seals it further"
        );
    }

    #[test]
    #[cfg(not(miri))]
    fn the_memory_of_a_job_is_not_in_core_dumps() {
        let job = Job::open(create_job(2, &without_large_pages()).unwrap()).unwrap();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let first = format!("{:x}-", job.pages.at(0).addr());
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&first));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:"));
        let flags = flags.expect("the mapping is there");
        assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
    }

    #[test]
    fn memory_that_is_shorter_than_its_header_says_is_refused() {
        let memory = create_job(2, &without_large_pages()).unwrap();
        let mut header = [0; 32];
        memory.0.read_exact_at(&mut header, 0).unwrap();
        let short = memfd().unwrap();
        short.write_all_at(&header, 0).unwrap();
        let error = Job::open(JobMemory(short)).unwrap_err().to_string();
        assert!(error.contains("32 bytes"), "{error}");
    }

    #[test]
    fn memory_of_more_ranks_or_larger_segments_than_there_can_be_is_refused() {
        let told = |n_ranks: u32, segment_bytes: u64| {
            let words = [MAGIC, VERSION, n_ranks.into(), segment_bytes];
            let header = memfd().unwrap();
            let bytes = words.map(u64::to_ne_bytes);
            header.write_all_at(bytes.as_flattened(), 0).unwrap();
            read_header(&header).unwrap_err().to_string()
        };
        for n_ranks in [0, MAX_RANKS + 1, u32::MAX] {
            for segment_bytes in [0, 1 << 20, u64::MAX] {
                let error = told(n_ranks, segment_bytes);
                assert!(error.contains("broken header"), "{n_ranks}: {error}");
            }
        }
        let error = told(MAX_RANKS, 0);
        assert!(error.contains("has 32 bytes"), "{error}");
        for n_ranks in [1, 2, MAX_RANKS] {
            let error = told(n_ranks, u64::MAX);
            assert!(error.contains("broken header"), "{n_ranks}: {error}");
        }
    }
}
