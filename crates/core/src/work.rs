//! Progress reports of long work, for watchers of the job and for the program.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use crate::stats::{HEAD_BYTES, Live, LiveWork, Unit};
use crate::world::World;

/// Long work, which ends when this is dropped; from [`World::work`].
#[must_use = "the work is over when this is dropped"]
pub struct Work<'w> {
    world: &'w World,
    done: Cell<u64>,
    /// The amount at which the next report is due.
    next: Cell<u64>,
    step: u64,
    /// Whether it is a part of other work, which is reported in its place.
    is_inner: bool,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl World {
    /// Begins long work: `what` names it, and it has `total` units (0 if that is not known). It
    /// ends when the value is dropped. `pgas-run --watch` and `pgas-top` show how much is done,
    /// summed over the ranks of a host, and [`on_work`](Self::on_work) tells the program. Work
    /// within other work is a part of that, and not reported.
    ///
    /// Containers call it when they resize, save and load. Ranks that work together must call it
    /// equally often.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::Unit;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let files = ["a.fastq", "b.fastq"];
    /// let work = world.work("reading", files.len() as u64, Unit::Elements);
    /// for file in files {
    ///     // ...
    ///     work.add(1);
    /// }
    /// ```
    pub fn work(&self, what: &str, total: u64, unit: Unit) -> Work<'_> {
        let mut work = LiveWork::default();
        what.clone_into(&mut work.what);
        (work.total, work.unit) = (total, unit);
        let is_inner = !self.works().begin(self.now(), work);
        // A report takes as long as some tens of elements, so there are few enough to cost nothing.
        let step = match (unit, total) {
            (Unit::Bytes, _) => 1 << 20,
            (Unit::Elements, 0) => 1 << 10,
            (Unit::Elements, total) => (total >> 12).clamp(1, 1 << 12),
        };
        Work {
            world: self,
            done: Cell::new(0),
            next: Cell::new(step),
            step,
            is_inner,
            _thread: PhantomData,
        }
    }

    /// Calls `hook` on this rank during long work of the library or the program
    /// ([`work`](Self::work)): first after a tenth of a second, then ten times a second, and at the
    /// end of this rank's part, unless that is a panic. The hook gets the work summed over the ranks of this host. The
    /// thread that does the work calls it, so it should be quick. It may report work of its own,
    /// for which it is not called, and call this library, except for collectives and the object
    /// that is at work. A new hook replaces the former one.
    ///
    /// With `indicatif` a hook is `world.on_work(move |work| { bar.set_length(work.total);
    /// bar.set_position(work.done) })`.
    ///
    /// # Cost
    ///
    /// ℓ; during work, ten times a second a read of each of the host's ranks' published work.
    ///
    /// # Examples
    ///
    /// A line on the terminal, by one rank:
    ///
    /// ```
    /// # use pgas_core::Rank;
    /// # let world = pgas_core::backend::loopback::world();
    /// if world.rank() == Rank::ZERO {
    ///     world.on_work(|work| eprint!("\r{work}\u{1b}[K")); // saving counts: 43 %, 1.20 M of ...
    /// }
    /// ```
    pub fn on_work(&self, hook: impl FnMut(&LiveWork) + Send + 'static) {
        self.works().set_hook(Box::new(hook));
    }

    /// The work of the ranks whose boards this rank can read.
    fn all_works(&self) -> Vec<LiveWork> {
        let boards = self.ranks().filter_map(|rank| self.backend().board(rank));
        let works = boards.filter_map(|board| {
            let words = board.words().iter().take(HEAD_BYTES / 8);
            // Words that change meanwhile are only shown.
            let words: Vec<u64> = words.map(|word| word.load(Ordering::Relaxed)).collect();
            Live::read(&words)?.work
        });
        works.collect()
    }
}

impl Work<'_> {
    /// Reports `n` more units as done.
    ///
    /// # Cost
    ///
    /// ℓ; now and then a call of the hook, if there is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::Unit;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let work = world.work("sorting", 1 << 20, Unit::Bytes);
    /// for chunk in [[0_u8; 4096]; 256] {
    ///     // ...
    ///     work.add(chunk.len() as u64);
    /// }
    /// ```
    #[inline]
    pub fn add(&self, n: u64) {
        let done = self.done.get().saturating_add(n);
        self.done.set(done);
        if done >= self.next.get() {
            self.advance();
        }
    }

    #[cold]
    fn advance(&self) {
        let done = self.done.get();
        self.next.set(done.saturating_add(self.step));
        if !self.is_inner {
            let world = self.world;
            let all = || world.all_works();
            world.works().advance(world.now(), done, all);
        }
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        // A forked child has no part in the work of its parent.
        if !self.is_inner && !self.world.is_forked() {
            let world = self.world;
            let all = || world.all_works();
            world.works().end(world.now(), self.done.get(), all);
        }
    }
}

impl fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Work({} done)", self.done.get())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{self, AssertUnwindSafe};
    use std::sync::{Arc, Mutex, mpsc};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::backend::loopback;

    #[test]
    fn the_program_hears_of_work_that_goes_on_for_long_and_of_its_end() {
        let world = loopback::world();
        let told = Arc::new(Mutex::new(Vec::new()));
        let told_here = Arc::clone(&told);
        world.on_work(move |work| told_here.lock().unwrap().push(work.clone()));
        drop(world.work("short", 5, Unit::Bytes));
        assert!(told.lock().unwrap().is_empty(), "nobody waits for that");
        let work = world.work("long", 0, Unit::Elements);
        let inner = world.work("a part of it", 7, Unit::Elements);
        let deadline = Instant::now() + Duration::from_secs(60);
        while told.lock().unwrap().len() < 2 && Instant::now() < deadline {
            inner.add(1);
            work.add(1);
        }
        drop(inner);
        drop(work);
        let told = told.lock().unwrap();
        let (last, before) = told.split_last().unwrap();
        assert_eq!(before.len(), 2);
        assert!(
            before
                .iter()
                .all(|work| work.what == "long" && !work.is_over)
        );
        assert!(before[0].done < before[1].done && before[1].done <= last.done);
        assert!(
            last.is_over && last.to_string().starts_with("long: "),
            "{last}"
        );
    }

    /// Work until the hook was called `n` times; it calls `body` each time.
    fn told_of_work(world: &World, n: usize, body: impl Fn(&World) + Send + 'static) -> Vec<bool> {
        let told = Arc::new(Mutex::new(Vec::new()));
        let (told_here, weak) = (Arc::clone(&told), world.downgrade());
        world.on_work(move |work| {
            body(&weak.upgrade().unwrap());
            told_here.lock().unwrap().push(work.is_over);
        });
        let work = world.work("outer", 0, Unit::Bytes);
        let deadline = Instant::now() + Duration::from_secs(60);
        while told.lock().unwrap().len() < n && Instant::now() < deadline {
            work.add(1 << 20);
        }
        drop(work);
        told.lock().unwrap().clone()
    }

    #[test]
    fn a_hook_may_call_the_library_and_report_work_of_its_own() {
        let world = loopback::world();
        let told = told_of_work(&world, 2, |world| {
            let cell = world.alloc::<u64>(1).unwrap();
            cell.put(world, 1).unwrap();
            world.barrier().unwrap();
            let work = world.work("inner", 0, Unit::Bytes);
            let until = Instant::now() + Duration::from_millis(250);
            while Instant::now() < until {
                work.add(1 << 20);
            }
        });
        assert_eq!(told, [false, false, true]);
    }

    /// The hook is told the end of one work, and waits for a thread that is at the next one.
    #[test]
    fn a_report_that_another_thread_is_at_is_not_waited_for() {
        let world = loopback::world();
        let (go, gone) = mpsc::channel();
        let (begin, begun) = mpsc::channel();
        world.on_work(move |work| {
            if work.is_over {
                begin.send(()).unwrap();
                gone.recv_timeout(Duration::from_secs(60)).unwrap();
            }
        });
        let long = |name| {
            let work = world.work(name, 0, Unit::Bytes);
            let until = Instant::now() + Duration::from_millis(250);
            while Instant::now() < until {
                work.add(1);
            }
        };
        thread::scope(|threads| {
            threads.spawn(|| long("told"));
            begun.recv().unwrap();
            long("next");
            go.send(()).unwrap();
        });
    }

    #[test]
    fn a_hook_that_always_panics_is_not_called_while_its_panic_unwinds() {
        let world = loopback::world();
        let n_calls = Arc::new(Mutex::new(0));
        let n_here = Arc::clone(&n_calls);
        world.on_work(move |_| {
            *n_here.lock().unwrap() += 1;
            panic::resume_unwind(Box::new("on purpose"));
        });
        let long = || {
            let work = world.work("long", 0, Unit::Bytes);
            let until = Instant::now() + Duration::from_secs(60);
            while Instant::now() < until {
                work.add(1 << 20);
            }
        };
        panic::catch_unwind(AssertUnwindSafe(long)).unwrap_err();
        assert_eq!(*n_calls.lock().unwrap(), 1);
        assert!(world.all_works().is_empty(), "it has ended all the same");
    }

    #[test]
    fn a_hook_may_set_the_next_one() {
        let world = loopback::world();
        let n_next = Arc::new(Mutex::new(0));
        let n_here = Arc::clone(&n_next);
        let told = told_of_work(&world, 1, move |world| {
            let n_here = Arc::clone(&n_here);
            world.on_work(move |_| *n_here.lock().unwrap() += 1);
        });
        // The end is told to the next one.
        assert_eq!((&*told, *n_next.lock().unwrap()), (&[false][..], 1));
    }

    #[test]
    fn what_a_replaced_hook_owns_may_call_the_library() {
        struct Last(World, mpsc::Sender<()>);
        impl Drop for Last {
            fn drop(&mut self) {
                self.0.on_work(|_| {});
                self.1.send(()).unwrap();
            }
        }
        let world = loopback::world();
        let (dropped, is_dropped) = mpsc::channel();
        let last = Last(world.clone(), dropped);
        world.on_work(move |_| {
            let _owned = &last;
        });
        world.on_work(|_| {});
        is_dropped.recv().unwrap();
    }
}
