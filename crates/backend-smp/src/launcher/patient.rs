//! Writing to what may have no room.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

/// A file to which writing waits for room, even if it was opened not to wait.
///
/// Standard streams are shared: another process that has this process's own may change them so, at
/// any time.
#[derive(Debug)]
pub struct Patient(pub File);

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    super::poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None)?;
                }
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Whether there is room for a little to write, now or within a tenth of a second. A terminal has
/// none that the user has stopped, nor has one of a lost connection.
#[must_use]
pub fn has_room(stream: &impl AsFd) -> bool {
    const PATIENCE: Duration = Duration::from_millis(100);
    let room = super::poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(PATIENCE));
    room.is_ok_and(|n_ready| n_ready > 0)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{self, ErrorKind, Read, Write};
    use std::os::fd::OwnedFd;
    use std::thread;

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::Patient;

    #[test]
    fn writing_to_a_full_pipe_that_does_not_wait_waits_for_room_or_the_reader_s_end() {
        let (mut reader, writer) = io::pipe().unwrap();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        let mut writer = Patient(File::from(OwnedFd::from(writer)));
        // It is full before there is a reader.
        let mut n_written = 0;
        let full = loop {
            match writer.0.write(&[7; 4096]) {
                Ok(n) => n_written += n,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        let wait = thread::spawn(move || {
            writer.write_all(&[7; 1 << 20])?;
            Ok::<_, io::Error>(writer)
        });
        let mut read = vec![0; n_written + (1 << 20)];
        reader.read_exact(&mut read).unwrap();
        let mut writer = wait.join().unwrap().unwrap();
        assert!(read.iter().all(|&byte| byte == 7));
        drop(reader);
        let error = writer.write_all(&[7]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}
