//! Operations that the world's engine advances, besides the collectives: transfers of several
//! parts, transfers with a signal, and those with an event of source completion.
#![expect(
    unsafe_code,
    reason = "names the word that a signal's former bits go to"
)]

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};

use crate::backend::{Atomic, Backend, Former, OpId, Operand, Stage};
use crate::error::{Error, Result};
use crate::few_words::FewWords;
use crate::locks::lock;
use crate::world::World;

/// Parts of an operation that were begun.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The parts that are not complete yet, as the backend knows them.
    pub(crate) ops: Vec<OpId>,
    /// The stage of the parts at which the program may have the buffers again.
    pub(crate) buffers_at: Stage,
    /// The update of the signal word when the parts are complete.
    pub(crate) signal: Option<Atomic>,
    /// The error that kept other parts from being begun.
    pub(crate) failure: Option<Error>,
}

/// A handle on an operation, which gives a value at one of its stages.
pub(crate) struct Flight<T> {
    world: World,
    report: Arc<Report>,
    /// When the value is there.
    at: Stage,
    /// At which stage the program may have the buffers.
    buffers_at: Stage,
    /// `None` once the value was taken, or an error in its place.
    take: Option<Take<T>>,
    /// Whether it is an atomic that changes its word.
    pub(crate) is_change: bool,
}

/// Makes the value. It is given the world, which it does not keep meanwhile.
type Take<T> = Box<dyn FnOnce(&World) -> T + Send>;

/// The stage of an operation, as the engine reports it.
#[derive(Debug, Default)]
struct Report {
    /// [`FLYING`], [`SOURCE_FREE`] or [`OVER`].
    reached: AtomicU8,
    /// Whether the program waits for the source; else the backend is not asked.
    is_source_wanted: AtomicBool,
    /// Given before it is over.
    error: OnceLock<Error>,
}

const FLYING: u8 = 0;
const SOURCE_FREE: u8 = 1;
const OVER: u8 = 2;

impl Report {
    fn has_reached(&self, stage: Stage) -> bool {
        // Acquire: pairs with the release in `tell`; what the transport did before is seen.
        let reached = self.reached.load(Ordering::Acquire);
        match stage {
            Stage::Source => reached != FLYING,
            Stage::Operation => reached == OVER,
        }
    }

    fn tell(&self, reached: u8) {
        self.reached.store(reached, Ordering::Release);
    }
}

impl<T: Send + 'static> Flight<T> {
    /// Passes the parts that were begun to the engine, with the buffers that they read or write.
    /// `finish` makes the value of the buffers.
    ///
    /// # Errors
    ///
    /// The error that kept some parts from being begun; the engine then keeps the buffers until the
    /// others are over.
    pub(crate) fn begin<B: Send + 'static>(
        world: &World,
        begun: Begun,
        buffers: B,
        finish: impl FnOnce(B) -> T + Send + 'static,
    ) -> Result<Self> {
        let buffers_at = begun.buffers_at;
        let report = Arc::<Report>::default();
        let kept = Arc::new(Mutex::new(Some(buffers)));
        let failure = begun.failure.clone();
        let mut flying = Flying {
            backend: world.shared_backend(),
            parts: begun.ops.into_iter().map(Part::new).collect(),
            report: Arc::clone(&report),
            kept: Some(Box::new(Arc::clone(&kept))),
            _signals: begun.signal.map(|_| world.begin_signal()),
            signal: begun.signal,
            words: None,
            error: begun.failure,
        };
        if !flying.advance() {
            world.tasks().spawn(flying);
        }
        if let Some(error) = failure {
            return Err(error);
        }
        let take = move |_: &World| {
            let buffers = lock(&kept).take();
            finish(buffers.expect("the buffers are taken once"))
        };
        Ok(Self {
            world: world.clone(),
            report,
            at: Stage::Operation,
            buffers_at,
            take: Some(Box::new(take)),
            is_change: false,
        })
    }

    /// The world whose engine advances it.
    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// The handle on that world, to be replaced by another one.
    pub(crate) fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// The value, if it is there and was not given before.
    ///
    /// # Errors
    ///
    /// The failure of the operation, each time.
    pub(crate) fn try_finish(&mut self) -> Result<Option<T>> {
        if !self.report.has_reached(self.at) {
            return Ok(None);
        }
        match self.report.error.get() {
            Some(error) => Err(error.clone()),
            None => Ok(self.take.take().map(|take| take(&self.world))),
        }
    }

    /// The same operation by two handles. The returned one gives the value when the program may
    /// have the buffers again, together with `rest` of the other one, which tells when the
    /// operation is over.
    pub(crate) fn at_source<R: Send + 'static>(
        self,
        rest: impl FnOnce(Flight<()>) -> R + Send + 'static,
    ) -> Flight<(T, R)> {
        // Relaxed: it only says what to check from now on.
        self.report.is_source_wanted.store(true, Ordering::Relaxed);
        let Self {
            world,
            report,
            at,
            buffers_at,
            take,
            is_change,
        } = self;
        let same = Arc::clone(&report);
        let both = move |take: Take<T>| -> Take<(T, R)> {
            Box::new(move |world| {
                let whole = Flight {
                    world: world.clone(),
                    report: same,
                    at,
                    buffers_at,
                    take: Some(Box::new(|_: &World| ()) as Take<()>),
                    is_change,
                };
                (take(world), rest(whole))
            })
        };
        let take = take.map(both);
        Flight {
            world,
            report,
            at: buffers_at,
            buffers_at,
            take,
            is_change,
        }
    }
}

impl<T> fmt::Debug for Flight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight")
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

/// An operation of the backend's, and whether its source is known to be free.
#[derive(Clone, Copy, Debug)]
struct Part {
    op: OpId,
    is_source_free: bool,
}

impl Part {
    fn new(op: OpId) -> Self {
        Self {
            op,
            is_source_free: false,
        }
    }
}

/// The engine's side of a flight. It holds no world, which would then never be dropped.
struct Flying {
    backend: Arc<dyn Backend>,
    /// Those that are not complete.
    parts: Vec<Part>,
    report: Arc<Report>,
    /// The buffers, unless the program has them again.
    kept: Option<Box<dyn Any + Send>>,
    signal: Option<Atomic>,
    /// Tells the world that it has a signal.
    _signals: Option<Arc<()>>,
    /// Where the signal's former bits go.
    words: Option<FewWords>,
    error: Option<Error>,
}

impl Flying {
    /// Tests the parts, sends the signal after them, and says whether the operation is over.
    fn advance(&mut self) -> bool {
        if !self.report.has_reached(Stage::Source)
            && self.report.is_source_wanted.load(Ordering::Relaxed)
        {
            self.look_at_sources();
        }
        let Self { parts, backend, .. } = self;
        let mut error = None;
        parts.retain(|part| {
            let tested = backend.test(part.op, Stage::Operation);
            !tested.unwrap_or_else(|failure| {
                error = Some(failure);
                true
            })
        });
        self.fail(error);
        if !self.parts.is_empty() || self.begin_signal() {
            return false;
        }
        if let Some(error) = self.error.take() {
            // Nobody else gives it.
            let _is_first = self.report.error.set(error);
        }
        self.report.tell(OVER);
        true
    }

    fn fail(&mut self, error: Option<Error>) {
        if let Some(error) = error {
            self.error.get_or_insert(error);
        }
    }

    fn look_at_sources(&mut self) {
        let Self { parts, backend, .. } = self;
        let mut error = None;
        parts.retain_mut(|part| {
            if part.is_source_free {
                return true;
            }
            match backend.test(part.op, Stage::Source) {
                Ok(is_free) => part.is_source_free = is_free,
                Err(failure) => {
                    error = Some(failure);
                    return false;
                }
            }
            true
        });
        self.fail(error);
        if self.error.is_none() && self.parts.iter().all(|part| part.is_source_free) {
            self.report.tell(SOURCE_FREE);
        }
    }

    /// Sends the signal, if there is one, and says whether it is in flight.
    fn begin_signal(&mut self) -> bool {
        let Some(signal) = self.signal.take() else {
            return false;
        };
        if self.error.is_some() {
            return false;
        }
        let mut words = FewWords::new();
        // SAFETY: the words stay where they are while `words` moves; it is kept until the operation
        // is over, or leaked by `drop`.
        let former = unsafe { Former::new(words.words().as_mut_ptr()) };
        match self.backend.fetch_atomic_nb(signal, former) {
            Ok(OpId::DONE) => {}
            Ok(op) => {
                self.parts.push(Part::new(op));
                self.words = Some(words);
            }
            Err(error) => self.fail(Some(error)),
        }
        // On this host; over a network the arrival of the atomic wakes it.
        self.backend.notify(signal.rank());
        !self.parts.is_empty()
    }
}

impl Future for Flying {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.get_mut().advance() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Flying {
    /// Leaks the buffers of operations that are not over: the network may still use them.
    #[expect(clippy::mem_forget, reason = "leaks on purpose")]
    fn drop(&mut self) {
        if !self.parts.is_empty() {
            mem::forget(self.kept.take());
            mem::forget(self.words.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;
    use crate::backend::{SignalUpdate, loopback};
    use crate::rma::Fragment;

    #[test]
    fn a_signal_follows_when_all_parts_are_there_whoever_waits() {
        let world = loopback::world();
        let cells = world.alloc::<u64>(3).unwrap();
        cells.put_slice(&world, &[0; 3]).unwrap();
        world.flush_all().unwrap();
        let update = SignalUpdate::Set(1);
        let put = cells.put_signal_nb(&world, vec![7; 2], cells.add(2), update);
        let put = put.unwrap();
        assert!(format!("{put:?}").contains("in flight"));
        drop(put);
        let mut n_rounds = 0;
        while cells.add(2).get(&world).unwrap() == 0 {
            world.progress().unwrap();
            n_rounds += 1;
            assert!(n_rounds < 1000, "nobody sends the signal");
        }
        assert_eq!(cells.get_vec(&world, 3).unwrap(), [7, 7, 1]);
        while world.tasks().has_some() {
            world.progress().unwrap();
        }
    }

    #[test]
    fn an_event_of_many_parts_is_complete_with_the_last_of_them() {
        let world = loopback::world();
        let cells = world.alloc::<u64>(9).unwrap();
        let pieces = [0, 3, 6].map(|at| Fragment {
            ptr: cells.add(at),
            len: 2,
        });
        let values = vec![1, 2, 3, 4, 5, 6];
        let mut put = world.put_fragments_nb(&pieces, values.clone()).unwrap();
        assert!(!put.is_complete().unwrap());
        while !put.test().unwrap() {}
        let got = world.get_fragments_nb(&pieces).unwrap();
        assert_eq!(got.wait().unwrap(), values);
        assert!(put.world().is_none() && !put.waits_for_ranks());
    }

    #[test]
    fn buffers_of_what_is_not_over_are_left_to_the_network() {
        let world = loopback::world();
        let buffer = Arc::new(());
        let flying = |parts| Flying {
            backend: world.shared_backend(),
            parts,
            report: Arc::default(),
            kept: Some(Box::new(Arc::clone(&buffer))),
            signal: None,
            _signals: None,
            words: None,
            error: None,
        };
        drop(flying(Vec::new()));
        assert_eq!(Arc::strong_count(&buffer), 1);
        drop(flying(vec![Part::new(OpId(1))]));
        assert_eq!(Arc::strong_count(&buffer), 2);
    }

    #[test]
    fn a_failure_is_told_when_all_is_over_and_no_signal_is_sent() {
        let world = loopback::world();
        let cell = world.alloc::<u64>(1).unwrap();
        cell.put_nb(&world, 5).unwrap().wait().unwrap();
        let flag = world.checked(cell, 1);
        let begun = Begun {
            ops: Vec::new(),
            buffers_at: Stage::Source,
            signal: Some(flag.atomic(SignalUpdate::Set(9).into())),
            failure: Some(Error::HasLeft),
        };
        let buffer = Arc::new(());
        let refused = Flight::begin(&world, begun, Arc::clone(&buffer), drop);
        assert!(matches!(refused.map(Event::flight), Err(Error::HasLeft)));
        assert_eq!(Arc::strong_count(&buffer), 1, "nothing uses it");
        assert_eq!(cell.get(&world).unwrap(), 5);
        assert!(!world.tasks().has_some());
    }
}
