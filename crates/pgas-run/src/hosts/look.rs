//! A host's observation of its ranks, for the launcher that shows them.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::serve::Shared;
use super::wire::{Frame, Kind};
use crate::watch::find::job_of;
use crate::watch::picture::Looks;
use crate::watch::told;

/// The thread that observes the ranks, until this is dropped.
pub(super) struct Looker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Looker {
    /// Sends the state of `ranks` to the launcher, at regular intervals.
    pub(super) fn start(
        shared: Arc<Shared>,
        ranks: Range<u32>,
        every: Duration,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name("look".to_owned());
        let thread = thread.spawn(move || {
            let mut looks = None;
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                if let Some(frame) = look(&mut looks, &ranks)
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

impl Drop for Looker {
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
