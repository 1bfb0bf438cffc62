//! The lookout: a thread of the process that watches code that cannot report itself, such as a
//! handler that does not return, or a call into a foreign library that waits.

use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::locks::lock;

/// A watched object.
pub trait Watched: Send + Sync {
    /// Checks the object, and returns the time until the next check at the latest. It must not
    /// wait, since the other watched objects share the thread.
    fn look(&self) -> Duration;
}

/// The stack of the thread, which formats a text now and then.
const STACK_BYTES: usize = 256 << 10;
/// The longest and shortest interval between checks.
const SELDOM: Duration = Duration::from_secs(5);
const OFTEN: Duration = Duration::from_millis(20);

static LOOKOUT: Lookout = Lookout {
    posts: Mutex::new(Posts {
        list: Vec::new(),
        has_thread: false,
    }),
    change: Condvar::new(),
};

struct Lookout {
    posts: Mutex<Posts>,
    /// Something was added.
    change: Condvar,
}

struct Posts {
    list: Vec<Weak<dyn Watched>>,
    has_thread: bool,
}

/// Watches `watched` from now on, for as long as it lives. All watched objects share one thread of
/// the process. If the system refuses the thread, there are no reports.
///
/// # Cost
///
/// A lock; the first time a thread.
///
/// # Examples
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use std::time::Duration;
///
/// use pgas_core::lookout::{Watched, look_after};
///
/// struct Bell(mpsc::Sender<()>);
///
/// impl Watched for Bell {
///     fn look(&self) -> Duration {
///         drop(self.0.send(()));
///         Duration::from_millis(10)
///     }
/// }
///
/// let (ring, rings) = mpsc::channel();
/// let bell = Arc::new(Bell(ring));
/// look_after(&bell);
/// assert!(rings.recv().is_ok() && rings.recv().is_ok());
/// drop(bell);
/// ```
pub fn look_after<T: Watched + 'static>(watched: &Arc<T>) {
    let watched: Weak<T> = Arc::downgrade(watched);
    let mut posts = lock(&LOOKOUT.posts);
    posts.list.push(watched);
    LOOKOUT.change.notify_all();
    if !posts.has_thread {
        let thread = thread::Builder::new()
            .name("lookout".into())
            .stack_size(STACK_BYTES);
        posts.has_thread = thread.spawn(look_after_all).is_ok();
    }
}

fn look_after_all() {
    loop {
        // Not locked during a check, which may take locks of its own.
        let mut list = mem::take(&mut lock(&LOOKOUT.posts).list);
        let mut pause = SELDOM;
        list.retain(|post| {
            let Some(watched) = post.upgrade() else {
                return false;
            };
            // It may call code of the program. A panic, which is reported as any other, ends this
            // watch, and no other one.
            let looked = panic::catch_unwind(AssertUnwindSafe(|| watched.look()));
            pause = pause.min(looked.as_ref().map_or(pause, |next| *next));
            looked.is_ok()
        });
        let mut posts = lock(&LOOKOUT.posts);
        // Objects added meanwhile are checked with the others.
        pause = if posts.list.is_empty() { pause } else { OFTEN };
        posts.list.append(&mut list);
        if posts.list.is_empty() {
            posts.has_thread = false;
            return;
        }
        let woken = LOOKOUT.change.wait_timeout(posts, pause.max(OFTEN));
        drop(woken.unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;

    struct Bell(Sender<()>, bool);

    impl Watched for Bell {
        fn look(&self) -> Duration {
            // The test may have ended.
            self.0.send(()).ok();
            assert!(!self.1, "a look that panics");
            OFTEN
        }
    }

    #[test]
    fn a_look_that_panics_ends_no_other_watch() {
        let bell = |panics| -> (Arc<Bell>, Receiver<()>) {
            let (ring, rings) = mpsc::channel();
            let bell = Arc::new(Bell(ring, panics));
            look_after(&bell);
            (bell, rings)
        };
        let (_one, rings) = bell(false);
        let (_panics, last) = bell(true);
        last.recv().expect("it was looked at");
        for _ in 0..3 {
            rings.recv().expect("it is looked at still");
        }
        let (_later, rings) = bell(false);
        rings.recv().expect("it is looked at, too");
    }
}
