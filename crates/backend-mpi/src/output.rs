//! Output that the launcher should pass on before it learns of the end of this process.

use std::time::{Duration, Instant};

use rustix::fd::AsFd;
use rustix::fs::FileType;

/// The time that a launcher gets to read the output of this process.
const PATIENCE: Duration = Duration::from_millis(200);

/// Waits until the launcher has read the output from this process's pipes, for at most
/// [`PATIENCE`]. A launcher that is told to end the job does so at once, and discards unread
/// output, including the line that says why.
pub(crate) fn await_readers() {
    let began = Instant::now();
    while is_waiting(std::io::stdout()) || is_waiting(std::io::stderr()) {
        if began.elapsed() > PATIENCE {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether `output` is a pipe with unread bytes.
fn is_waiting(output: impl AsFd) -> bool {
    let is_pipe = rustix::fs::fstat(&output)
        .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Fifo);
    is_pipe && rustix::io::ioctl_fionread(&output).is_ok_and(|n_bytes| n_bytes > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::is_waiting;

    #[test]
    fn a_pipe_is_waited_for_until_it_is_read() {
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        assert!(!is_waiting(&writer));
        writer.write_all(b"why").expect("there is room");
        assert!(is_waiting(&writer));
        let mut text = [0; 3];
        reader.read_exact(&mut text).expect("it is there");
        assert!(!is_waiting(&writer));
    }

    #[test]
    fn what_is_no_pipe_is_not_waited_for() {
        let file = std::fs::File::open("/proc/self/status").expect("a file");
        assert!(!is_waiting(&file));
    }
}
