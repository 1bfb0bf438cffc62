//! Long work that is told while it goes on: to who watches the job, and to the program.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use crate::stats::{HEAD_BYTES, Live, LiveWork, Unit};
use crate::world::World;

/// Long work that goes on until this is dropped; from [`World::work`].
#[must_use = "the work is over when this is dropped"]
pub struct Work<'w> {
    world: &'w World,
    done: Cell<u64>,
    /// Nothing is told before.
    next: Cell<u64>,
    step: u64,
    /// A part of another one, which is told in its place.
    is_inner: bool,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl World {
    /// Says that this rank does what `what` says, `total` units of it (0 if that is not known),
    /// until the value is dropped. `pgas-run --watch` and `pgas-top` show how far it is, of all
    /// ranks of a host in sum, and [`on_work`](Self::on_work) tells the program. Work within other
    /// work is a part of that, and not told.
    ///
    /// Resizing, saving and loading of containers do so. All ranks that work together call it
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
        // A look takes as long as some tens of elements: so few looks that they cost nothing.
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

    /// Has `hook` called on this rank while long work goes on, of the library's or of the
    /// program's ([`work`](Self::work)): for the first time after a tenth of a second, then ten
    /// times a second, and when this rank's part is over. It gets the work of all ranks of this
    /// host in sum, and is called within that work, by the thread that does it: so it should be
    /// quick, and not call this library. A later hook takes the place of a former one.
    ///
    /// # Cost
    ///
    /// ℓ; while work goes on, ten times a second a look at what each rank of the host tells.
    ///
    /// With `indicatif` it is `world.on_work(move |work| { bar.set_length(work.total);
    /// bar.set_position(work.done) })`.
    ///
    /// # Examples
    ///
    /// A bar in one line, on one rank:
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

    /// The works of the ranks whose boards are seen from here.
    fn all_works(&self) -> Vec<LiveWork> {
        let boards = self.ranks().filter_map(|rank| self.backend().board(rank));
        let works = boards.filter_map(|board| {
            let words = board.words().iter().take(HEAD_BYTES / 8);
            // What others write meanwhile is no more than shown.
            let words: Vec<u64> = words.map(|word| word.load(Ordering::Relaxed)).collect();
            Live::read(&words)?.work
        });
        works.collect()
    }
}

impl Work<'_> {
    /// `n` more units are done.
    ///
    /// # Cost
    ///
    /// ℓ; once in a while that of the hook, if there is one.
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
        if !self.is_inner {
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
    use std::sync::{Arc, Mutex};
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
}
