//! The ranks' side of a launch.

use std::io;

use pgas_core::config::launch::JOB_FD_VARIABLE;

use super::{Descriptor, sys};

/// Opens the job's shared memory that a launcher left open under the number `job_fd`.
///
/// The result is a duplicate; the number itself stays open, but no program that this process starts
/// inherits either. Calling it again gives another duplicate.
///
/// # Errors
///
/// Fails if nothing is open under that number, as in a program that was not started by the launcher
/// but by one of its ranks, and if it is not the number that this process was started with.
pub(crate) fn inherited_memory<M: Descriptor>(job_fd: i32) -> io::Result<M> {
    sys::adopt(JOB_FD_VARIABLE, job_fd).map(M::received)
}

/// Ties this process to the thread that started it: the kernel kills it when that ends, also if the
/// process of that thread goes on.
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
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::fd::{AsFd, AsRawFd};
    use std::process::Command;

    use pgas_core::config::launch::JOB_FD_VARIABLE;

    use super::inherited_memory;

    fn memfd() -> File {
        let flags = rustix::fs::MemfdFlags::empty();
        File::from(rustix::fs::memfd_create("job", flags).unwrap())
    }

    #[test]
    fn a_number_that_the_process_was_not_started_with_is_refused() {
        let ours = memfd();
        for number in [ours.as_raw_fd(), 1_000_000, -1] {
            let error = inherited_memory::<File>(number).unwrap_err().to_string();
            assert!(error.contains(&format!("PGAS_JOB_FD={number}")), "{error}");
        }
    }

    /// Runs in the process that the next test starts; does nothing otherwise.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "is told by it what to play")]
    fn rank() {
        match std::env::var(JOB_FD_VARIABLE).as_deref() {
            Ok("0") => {}
            Ok(closed) => {
                let error = inherited_memory::<File>(closed.parse().unwrap()).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EBADF));
                return;
            }
            Err(_) => return,
        }
        let mut memory: File = inherited_memory(0).unwrap();
        memory.write_all(b"here").unwrap();
        let mut again: File = inherited_memory(0).unwrap();
        again.rewind().unwrap();
        let mut read = String::new();
        again.read_to_string(&mut read).unwrap();
        assert_eq!(read, "here");
        // No child of a rank becomes a member of the job by mistake.
        for descriptor in [std::io::stdin().as_fd(), memory.as_fd(), again.as_fd()] {
            let flags = rustix::io::fcntl_getfd(descriptor).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
    }

    #[test]
    fn the_memory_is_the_one_behind_the_number_that_the_process_was_started_with() {
        let mut memory = memfd();
        let mut rank = Command::new(std::env::current_exe().unwrap());
        rank.args(["--exact", "launcher::rank::tests::rank"]);
        rank.env(JOB_FD_VARIABLE, "0")
            .stdin(memory.try_clone().unwrap());
        let output = rank.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let output = rank.env(JOB_FD_VARIABLE, "999").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        memory.rewind().unwrap();
        let mut written = String::new();
        memory.read_to_string(&mut written).unwrap();
        assert_eq!(written, "here");
    }
}
