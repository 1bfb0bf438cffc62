//! Watches a job while it runs: its ranks, what they wait for and for how long.
//!
//! All of it is read from the job's memory and from the system; the ranks do nothing for it.
//! `picture` has the state of a job, `table` shows it on terminals (below the output by `screen`),
//! `lines` elsewhere; `told` encodes it for another host.

pub(crate) mod find;
pub(crate) mod lines;
pub(crate) mod picture;
mod process;
#[cfg_attr(not(feature = "terminal"), path = "screen_disabled.rs")]
mod screen;
#[cfg(feature = "terminal")]
pub(crate) mod table;
pub(crate) mod told;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pgas_smp::launcher::{self, Failure, JobHooks, Outcome, Sink, Stream};
use pgas_smp::{Observer, Watcher};

pub(crate) use process::name_of;
pub(crate) use screen::View;
#[cfg(feature = "terminal")]
pub(crate) use screen::{lock_soon, moves_cursor};

use picture::Looks;

/// The time that a view gets to end with its job. It may be writing to a terminal that takes
/// nothing any more, and goes with the process then.
const LONGEST_VIEW: Duration = Duration::from_secs(1);

/// A job's hooks, with a view of it while it runs.
pub(crate) struct Watching {
    watcher: Watcher,
    /// The job, until the view begins.
    looks: Option<Looks>,
    every: Option<Duration>,
    view: View,
    viewer: Option<Viewer>,
}

/// The thread that looks and shows.
struct Viewer {
    /// Dropped to end it.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watching {
    /// Watches the job of `watcher`, at each interval `every`, or at the view's default.
    pub(crate) fn new(watcher: Watcher, observer: Observer, every: Option<Duration>) -> Self {
        Self {
            watcher,
            looks: Some(Looks::new(observer, 0)),
            every,
            view: View::new(),
            viewer: None,
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        let Some(mut looks) = self.looks.take() else {
            return Ok(());
        };
        let (stop, stopped) = mpsc::channel();
        let view = self.view.clone();
        let every = self.every.unwrap_or(view.usual_pause());
        let thread = thread::Builder::new().name("view".to_owned());
        let thread = thread.spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                match looks.picture() {
                    Ok(picture) => view.show(&picture),
                    Err(error) => {
                        view.tell(&format!("the job cannot be watched: {error}"));
                        break;
                    }
                }
            }
        })?;
        self.viewer = Some(Viewer { stop, thread });
        Ok(())
    }
}

impl JobHooks for Watching {
    fn started(&mut self, ranks: Vec<UnixStream>) -> io::Result<()> {
        self.begin()?;
        self.watcher.started(ranks)
    }

    fn sink(&mut self, stream: Stream) -> Option<Sink> {
        self.view.sink(stream)
    }

    fn tell(&mut self, line: &str) {
        self.view.tell(line);
    }

    fn suspended(&mut self, is_suspended: bool) {
        self.view.hide(is_suspended);
    }

    fn left_properly(&mut self, rank: u32) -> bool {
        self.watcher.left_properly(rank)
    }

    fn left_before(&mut self, rank: u32) -> bool {
        self.watcher.left_before(rank)
    }

    fn culprit(&mut self) -> Option<(u32, String)> {
        self.watcher.culprit()
    }

    fn asked_for(&mut self) -> Option<u64> {
        self.watcher.asked_for()
    }

    fn on_end(&mut self, failure: Option<&Failure>) {
        self.watcher.on_end(failure);
    }

    fn ended(&mut self, outcome: &Outcome, print: &mut dyn FnMut(&str)) {
        if let Some(Viewer { stop, thread }) = self.viewer.take() {
            drop(stop);
            let until = Instant::now() + LONGEST_VIEW;
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            // A panic of the thread was reported by it.
            if thread.is_finished() {
                thread.join().ok();
            }
        }
        self.view.hide(true);
        self.watcher.ended(outcome, print);
    }
}

/// Prints the lines of a picture as lines of the launcher.
fn tell_lines(text: &str) {
    text.lines().for_each(launcher::tell);
}
