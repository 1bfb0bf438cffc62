//! The ranks' side of a launch.

use std::fs::File;
use std::io;

use super::sys;

/// Opens the job's shared memory that a launcher left open under the number `job_fd`.
///
/// The result is a duplicate; the number itself stays open, but no program that this process starts
/// inherits either. Calling it again gives another duplicate.
///
/// # Errors
///
/// Fails if nothing is open under that number, as in a program that was not started by the launcher
/// but by one of its ranks.
pub fn inherited_memory(job_fd: i32) -> io::Result<File> {
    sys::adopt(job_fd).map(File::from)
}

/// Ties this process to the one that started it: the kernel kills it when that ends.
///
/// A launcher does this for the processes that it starts; if such a process is a shell script that
/// starts the rank in turn, the rank calls this to be tied to the script.
///
/// # Errors
///
/// Fails if the parent has already ended.
pub fn die_with_parent() -> io::Result<()> {
    // Without a visible parent (one in another process namespace) there is nothing to be tied to.
    rustix::process::getppid().map_or(Ok(()), sys::die_with_parent)
}

#[cfg(test)]
mod tests {
    use super::inherited_memory;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn the_memory_is_the_one_behind_the_number() {
        let memory = rustix::fs::memfd_create("job", rustix::fs::MemfdFlags::empty()).unwrap();
        let mut ours = inherited_memory(memory.as_raw_fd()).unwrap();
        ours.write_all(b"here").unwrap();
        let mut again = inherited_memory(memory.as_raw_fd()).unwrap();
        again.rewind().unwrap();
        let mut read = String::new();
        again.read_to_string(&mut read).unwrap();
        assert_eq!(read, "here");
    }

    #[test]
    fn a_number_that_is_not_open_is_an_error() {
        assert_eq!(
            inherited_memory(1_000_000).unwrap_err().raw_os_error(),
            Some(libc::EBADF)
        );
        assert_eq!(
            inherited_memory(-1).unwrap_err().raw_os_error(),
            Some(libc::EBADF)
        );
    }
}
