//! The ranks' side of a launch.

use std::io;
use std::sync::mpsc;
use std::thread;

use pgas_core::config::launch::JOB_FD_VARIABLE;

use super::{Descriptor, sys};

/// The stack of a thread that only sleeps.
const STACK_BYTES: usize = 64 << 10;

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
/// Fails if the parent has already ended, or if the system refuses a thread, which a call needs that
/// is not on the main thread.
pub fn die_with_parent() -> io::Result<()> {
    // Without a visible parent (one in another process namespace) there is nothing to be tied to.
    let Some(parent) = rustix::process::getppid() else {
        return Ok(());
    };
    if rustix::thread::gettid() == rustix::process::getpid() {
        return sys::die_with_parent(parent);
    }
    // The request ends with the thread that has made it. So one that stays makes it.
    let (tell, told) = mpsc::channel();
    let stay = move || -> ! {
        // The receiver waits for this.
        tell.send(sys::die_with_parent(parent)).ok();
        loop {
            thread::park();
        }
    };
    let thread = thread::Builder::new().name("bond".to_owned());
    thread.stack_size(STACK_BYTES).spawn(stay)?;
    told.recv().unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{BufRead as _, BufReader, Read, Seek, Write};
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::Duration;

    use pgas_core::config::launch::JOB_FD_VARIABLE;

    use super::{die_with_parent, inherited_memory};

    const TIED: &str = "PGAS_TEST_TIED";

    /// Runs in the process that the next test starts; does nothing otherwise.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "is told by it what to play")]
    fn tied() {
        if std::env::var(TIED).is_err() {
            return;
        }
        thread::spawn(|| die_with_parent().unwrap()).join().unwrap();
        eprintln!("tied");
        // Ends at the latest when it is clear that nothing kills it.
        thread::sleep(Duration::from_secs(20));
    }

    #[test]
    fn a_process_stays_tied_to_its_parent_when_the_thread_that_has_tied_it_ends() {
        let parent = thread::spawn(|| {
            let mut tied = Command::new(std::env::current_exe().unwrap());
            tied.args(["--exact", "launcher::rank::tests::tied", "--nocapture"]);
            tied.env(TIED, "1")
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            let mut tied = tied.spawn().unwrap();
            let mut lines = BufReader::new(tied.stderr.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap() == "tied"));
            tied
        });
        let status = parent.join().unwrap().wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
    }

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
