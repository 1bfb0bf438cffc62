//! Passes the ranks' output on, line by line.
//!
//! One thread reads the pipes of all ranks' standard outputs, another those of their standard
//! errors. Each is the only writer of its stream, and writes whole lines, so lines of different
//! ranks do not mix. Where both streams go to one pipe, lines of more than 4 KiB of the two may.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pgas_core::notice::printable;
use rustix::event::{PollFd, PollFlags};

use super::lines::LineMerger;
use super::patient::{Patient, has_room};
use super::signals::{self, SignalWatch};

/// Bytes of one rank's output that are read at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// The time that a failed job waits for a reader of its output.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// One of the two standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// A destination of lines of output.
pub type Sink = Box<dyn Write + Send>;

/// A thread that passes on one stream of all ranks.
#[derive(Debug)]
pub struct Forwarder {
    thread: JoinHandle<io::Result<()>>,
    idle: Idle,
    /// Closed to announce that no rank writes any more.
    stop: PipeWriter,
    /// Closed at the other end when the thread has finished.
    finished: PipeReader,
}

/// When the thread began to wait for output; `None` while it passes some on.
#[derive(Clone, Debug, Default)]
struct Idle(Arc<Mutex<Option<Instant>>>);

impl Idle {
    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    fn get(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Forwarder {
    /// Starts to pass on the output of `pipes`, to this process's own stream. With a `prefix` each
    /// line begins with the number of its rank; `prefix` is the number of the first pipe's rank.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn start(stream: Stream, pipes: Vec<OwnedFd>, prefix: Option<u32>) -> io::Result<Self> {
        let sink = match stream {
            Stream::Output => io::stdout().as_fd().try_clone_to_owned()?,
            Stream::Error => io::stderr().as_fd().try_clone_to_owned()?,
        };
        let sink = Patient(File::from(sink));
        Self::start_to(stream, Box::new(sink), pipes, prefix)
    }

    /// As [`start`](Self::start), to a `sink`, which gets whole lines.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn start_to(
        stream: Stream,
        sink: Sink,
        pipes: Vec<OwnedFd>,
        prefix: Option<u32>,
    ) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let (finished, running) = io::pipe()?;
        let pipes: Vec<_> = pipes
            .into_iter()
            .map(|pipe| Some(File::from(pipe)))
            .collect();
        let lines = LineMerger::new(sink, pipes.len(), prefix);
        let idle = Idle::default();
        let mut copier = Copier {
            stream,
            idle: idle.clone(),
            pipes,
            lines,
            stopped,
        };
        let thread = start_thread("forward", move || {
            let result = copier.run();
            drop(running);
            result
        })?;
        Ok(Self {
            thread,
            idle,
            stop,
            finished,
        })
    }

    /// Since when there has been no output to pass on; `None` while there is some, which its reader
    /// may take slowly.
    #[must_use]
    pub fn idle_since(&self) -> Option<Instant> {
        self.idle.get()
    }

    /// Announces that all ranks have ended: the pipes contain the rest of the output.
    fn stop(self) -> Draining {
        drop(self.stop);
        Draining {
            thread: self.thread,
            finished: self.finished,
        }
    }
}

/// Waits until all forwarders have written the rest of the output, for a second at most if the job
/// has failed. If a signal that asks to end comes first, returns it.
///
/// # Errors
///
/// The first error of writing, other than that nobody reads. The others have written the rest then.
pub fn finish(
    forwarders: Vec<Forwarder>,
    signals: &SignalWatch,
    has_failed: bool,
) -> io::Result<Result<Option<i32>, io::Error>> {
    let draining = forwarders.into_iter().map(Forwarder::stop).collect();
    drain(draining, signals, has_failed)
}

/// As [`finish`].
fn drain(
    mut draining: Vec<Draining>,
    signals: &SignalWatch,
    has_failed: bool,
) -> io::Result<Result<Option<i32>, io::Error>> {
    let deadline = has_failed.then(|| Instant::now() + DRAIN_PATIENCE);
    let mut written = Ok(());
    while !draining.is_empty() {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        fds.extend(
            draining
                .iter()
                .map(|d| PollFd::new(d.finished(), PollFlags::IN)),
        );
        super::poll(&mut fds, left)?;
        let finished: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut finished = finished.into_iter();
        for one in draining.extract_if(.., |_| finished.next() == Some(true)) {
            written = written.and(one.join());
        }
        while let Some(received) = signals.next()? {
            if signals::asks_to_end(received.signal) {
                return Ok(written.map(|()| Some(received.signal)));
            }
            if received.signal == libc::SIGTSTP {
                signals::stop_self()?;
            }
        }
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
    }
    Ok(written.map(|()| None))
}

/// A forwarder that writes the rest of the output.
struct Draining {
    thread: JoinHandle<io::Result<()>>,
    finished: PipeReader,
}

impl Draining {
    /// Becomes readable when all has been written.
    fn finished(&self) -> &PipeReader {
        &self.finished
    }

    /// The first error of writing, other than that nobody reads.
    fn join(self) -> io::Result<()> {
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the forwarding thread panicked")))
    }
}

/// The state of the thread.
struct Copier {
    stream: Stream,
    idle: Idle,
    /// The pipe of each rank; `None` after the end of its output.
    pipes: Vec<Option<File>>,
    lines: LineMerger<Sink>,
    stopped: PipeReader,
}

impl Copier {
    fn run(&mut self) -> io::Result<()> {
        let copied = self.copy_all();
        self.idle.set(Some(Instant::now()));
        match copied {
            // As without a launcher: a rank that continues to write learns that there is no reader.
            // No rank fails for its diagnostics, though.
            Err(error) if self.stream == Stream::Output => {
                self.pipes.clear();
                if error.kind() == ErrorKind::BrokenPipe {
                    Ok(())
                } else {
                    Err(error)
                }
            }
            Err(_) => self.discard_all(),
            Ok(()) => Ok(()),
        }
    }

    fn copy_all(&mut self) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let (ready, stopping) = self.ready()?;
            for rank in &ready {
                self.copy_one(*rank, &mut chunk)?;
            }
            if ready.is_empty() && (stopping || self.pipes.iter().all(Option::is_none)) {
                return self.lines.finish_all();
            }
        }
    }

    /// Copies the available output of one rank.
    fn copy_one(&mut self, rank: usize, chunk: &mut [u8]) -> io::Result<()> {
        let Some(pipe) = &mut self.pipes[rank] else {
            return Ok(());
        };
        match pipe.read(chunk) {
            Ok(0) => {
                self.pipes[rank] = None;
                self.lines.finish(rank)
            }
            Ok(n) => self.lines.feed(rank, &chunk[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits for output, or for the announcement that there will be no more. Returns the ranks that
    /// have output, and whether it was announced.
    fn ready(&self) -> io::Result<(Vec<usize>, bool)> {
        let open = || {
            self.pipes
                .iter()
                .enumerate()
                .filter_map(|(i, p)| Some((i, p.as_ref()?)))
        };
        let mut fds = vec![PollFd::new(&self.stopped, PollFlags::IN)];
        fds.extend(open().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)));
        self.idle.set(Some(Instant::now()));
        super::poll(&mut fds, None)?;
        self.idle.set(None);
        let ready = open()
            .zip(&fds[1..])
            .filter(|(_, fd)| !fd.revents().is_empty());
        Ok((
            ready.map(|((rank, _), _)| rank).collect(),
            !fds[0].revents().is_empty(),
        ))
    }

    /// Reads on without writing, so that no rank waits for room.
    fn discard_all(&mut self) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let (ready, stopping) = self.ready()?;
            for rank in &ready {
                if let Some(pipe) = &mut self.pipes[*rank]
                    && pipe.read(&mut chunk)? == 0
                {
                    self.pipes[*rank] = None;
                }
            }
            if ready.is_empty() && stopping {
                return Ok(());
            }
        }
    }
}

/// Writes `text`, whole lines, to standard error. As in [`finish`], a signal that asks to end ends
/// that, too, and so does a second without room if the job has failed.
pub fn print(text: &str, signals: &SignalWatch, has_failed: bool) {
    // By a descriptor of its own: nobody else waits for the lock of one that has no room.
    if let Ok(stderr) = io::stderr().as_fd().try_clone_to_owned() {
        let sink = Box::new(Patient(File::from(stderr)));
        // There is nowhere to report a failure of this.
        print_to(sink, text, signals, has_failed).ok();
    }
}

fn print_to(
    mut sink: Sink,
    text: &str,
    signals: &SignalWatch,
    has_failed: bool,
) -> io::Result<Option<i32>> {
    let (finished, running) = io::pipe()?;
    let text = text.to_owned();
    let thread = start_thread("print", move || {
        let written = sink.write_all(text.as_bytes());
        drop(running);
        written
    })?;
    drain(vec![Draining { thread, finished }], signals, has_failed)?
}

/// Starts a thread that writes.
fn start_thread(
    name: &str,
    write: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(write);
    started.map_err(|error| {
        let text = format!("cannot start a thread that passes output on: {error}");
        io::Error::new(error.kind(), text)
    })
}

/// Writes one line of the launcher's own to standard error, unless its reader makes no room for it.
pub fn tell(line: &str) {
    let stderr = io::stderr();
    if has_room(&stderr) {
        // There is nowhere to report a failure of this.
        stderr
            .lock()
            .write_all(format!("pgas: {}\n", printable(line)).as_bytes())
            .ok();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;

    /// Fails, or writes when it is told to.
    enum Slow {
        Full,
        When(Receiver<()>, Sender<Vec<u8>>),
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self {
                Self::Full => return Err(ErrorKind::StorageFull.into()),
                Self::When(told, written) => {
                    told.recv().unwrap();
                    written.send(bytes.to_vec()).unwrap();
                }
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failed_job_prints_unless_there_is_no_room() {
        let signals = SignalWatch::start().unwrap();
        let ((tell, told), (writes, written)) = (mpsc::channel(), mpsc::channel());
        let slow = || Slow::When(told, writes);
        let no_room = print_to(Box::new(slow()), "text\n", &signals, true);
        assert!(matches!(no_room, Ok(None)));
        tell.send(()).unwrap();
        assert_eq!(written.recv().as_deref(), Ok(&b"text\n"[..]));
        let full = print_to(Box::new(Slow::Full), "text\n", &signals, true);
        assert_eq!(full.unwrap_err().kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn what_a_job_prints_at_its_end_waits_for_room_until_a_signal_asks_to_end() {
        let signals = SignalWatch::start().unwrap();
        let ((tell, told), (writes, written)) = (mpsc::channel(), mpsc::channel());
        super::super::sys::raise(libc::SIGTERM).unwrap();
        let sink = Box::new(Slow::When(told, writes));
        let ended = print_to(sink, "text\n", &signals, false);
        assert!(matches!(ended, Ok(Some(libc::SIGTERM))));
        tell.send(()).unwrap();
        assert_eq!(written.recv().as_deref(), Ok(&b"text\n"[..]));
    }

    #[test]
    fn one_stream_is_written_to_its_end_although_the_other_cannot_be() {
        let start = |stream, sink| {
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(b"line\n").unwrap();
            Forwarder::start_to(stream, Box::new(sink), vec![reader.into()], None).unwrap()
        };
        let ((tell, told), (writes, written)) = (mpsc::channel(), mpsc::channel());
        let output = start(Stream::Output, Slow::Full);
        let errors = start(Stream::Error, Slow::When(told, writes));
        while !output.thread.is_finished() {
            thread::yield_now();
        }
        let signals = SignalWatch::start().unwrap();
        let finished = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(50));
                tell.send(()).unwrap();
            });
            let finished = finish(vec![output, errors], &signals, false).unwrap();
            (finished, written.try_recv())
        });
        assert_eq!(finished.0.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(finished.1.as_deref(), Ok(&b"line\n"[..]));
    }
}
