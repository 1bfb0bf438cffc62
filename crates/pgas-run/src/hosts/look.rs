//! What a host tells the launcher at regular intervals: that it lives, and what its ranks do.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::ranks::Shared;
use super::wire::{Frame, Kind};
use crate::watch::find::job_of;
use crate::watch::picture::Looks;
use crate::watch::told;

/// The number of signs of life in the longest silence.
const SIGNS_OF_LIFE: u32 = 4;

/// A thread that sends the launcher a message at regular intervals, until this is dropped.
pub(super) struct Regular {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Regular {
    /// Sends the state of `ranks`, once their memory is there.
    pub(super) fn look(
        shared: Arc<Shared>,
        ranks: Range<u32>,
        every: Duration,
    ) -> io::Result<Self> {
        let mut looks = None;
        let link = Arc::clone(&shared);
        // A picture that nobody reads is not worth waiting for: signs of life would wait behind it.
        let next = move || {
            let has_room = link.has_room();
            has_room.then(|| look(&mut looks, &ranks)).flatten()
        };
        Self::start("look", shared, every, next)
    }

    /// Sends signs of life several times in `silence`: a process that is stopped keeps its
    /// connection, and only misses these.
    pub(super) fn live(shared: Arc<Shared>, silence: Duration) -> io::Result<Self> {
        let nothing: [&str; 0] = [];
        let sign = move || Some(Frame::new(Kind::Alive, nothing));
        Self::start("alive", shared, silence / SIGNS_OF_LIFE, sign)
    }

    fn start(
        name: &str,
        shared: Arc<Shared>,
        every: Duration,
        mut next: impl FnMut() -> Option<Frame> + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                if let Some(frame) = next()
                    && shared.send(&frame).is_err()
                {
                    // The thread that listens to the launcher notices that it is gone.
                    break;
                }
            }
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Regular {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// The present state of the ranks; `None` before their memory is there.
fn look(looks: &mut Option<Looks>, ranks: &Range<u32>) -> Option<Frame> {
    if looks.is_none() {
        // The ranks, whose memory it is, are children of this process.
        let observer = job_of(std::process::id()).ok()??;
        *looks = Some(Looks::new(observer, ranks.start));
    }
    let mut picture = looks.as_mut()?.picture().ok()?;
    // In tests several hosts may be one, whose ranks share memory.
    picture.rows.retain(|row| ranks.contains(&row.rank));
    Some(Frame::new(Kind::Look, told::to_fields(&picture)))
}
