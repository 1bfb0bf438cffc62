//! Puts with signal: data, then a signal word; and waits for such words.

use std::mem;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use super::checked::Checked;
use super::parts;
use crate::atomics::Atomic;
use crate::backend::SignalUpdate;
use crate::cost::CostKind;
use crate::event::Task;
use crate::handler::as_handler;
use crate::waits::{Awaited, TeamCall};
use crate::{Event, GlobalPtr, Pod, Rank, Result, World};

impl<T: Pod> GlobalPtr<T> {
    /// Writes the elements of `values`, then updates the word `signal` on the same rank: a rank
    /// that sees the update also sees the values (OpenSHMEM's `put_signal`).
    ///
    /// # Cost
    ///
    /// W + A, sent together where the transport can. One-sided. Complete locally on return, at the
    /// target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then the signal was not updated.
    ///
    /// # Panics
    ///
    /// If the signal is on another rank than the data, or one of them is null, misaligned or
    /// outside of a segment.
    #[track_caller]
    pub fn put_signal(
        self,
        world: &World,
        values: &[T],
        signal: GlobalPtr<u64>,
        update: SignalUpdate,
    ) -> Result<()> {
        let (to, flag) = self.with_signal(world, values.len(), signal);
        if put_and_signal(world, (&to, &flag), values, update) {
            return Ok(());
        }
        to.put_signal(world, values, flag.atomic(update.into()))
    }

    /// Begins a [`put_signal`](Self::put_signal). The event is complete when the values are at the
    /// target and the signal is updated, and gives the vector back. A flush does not wait for the
    /// signal.
    ///
    /// # Cost
    ///
    /// W + A, the second when the first is complete. One-sided. Complete with the event. If the
    /// event is dropped, this rank's progress still updates the signal.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then the signal is not updated.
    ///
    /// # Panics
    ///
    /// As [`put_signal`](Self::put_signal).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::backend::SignalUpdate;
    /// # let world = pgas_core::backend::loopback::world();
    /// let data = world.alloc::<u64>(4)?;
    /// let arrived = world.alloc::<u64>(1)?;
    /// arrived.put(&world, 0)?;
    /// let put = data.put_signal_nb(&world, vec![7; 4], arrived, SignalUpdate::Add(1))?;
    /// arrived.wait_until(&world, |n| n == 1)?;
    /// assert_eq!(data.get_vec(&world, 4)?, [7; 4]);
    /// put.wait()?;
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn put_signal_nb(
        self,
        world: &World,
        values: Vec<T>,
        signal: GlobalPtr<u64>,
        update: SignalUpdate,
    ) -> Result<Event<Vec<T>>> {
        let (to, flag) = self.with_signal(world, values.len(), signal);
        if put_and_signal(world, (&to, &flag), &values, update) {
            world.flush(to.rank())?;
            return Ok(Event::ready(values));
        }
        parts::begin_puts(world, &[to], values, Some(flag.atomic(update.into())))
    }

    /// The elements and the word of a put with a signal, counted.
    #[inline]
    #[track_caller]
    pub(super) fn with_signal(
        self,
        world: &World,
        n: usize,
        signal: GlobalPtr<u64>,
    ) -> (Checked<T>, Checked<u64>) {
        let to = world.checked(self, n);
        let flag = world.checked(signal, 1);
        assert_eq!(
            to.rank(),
            flag.rank(),
            "a signal is on the rank of the data that it announces"
        );
        world.count(CostKind::Write, Some(to.rank()), 1, size_of::<T>() * n);
        world.count(CostKind::Atomic, Some(to.rank()), 1, 8);
        (to, flag)
    }
}

impl World {
    /// Waits until one of `words`, which lie in this rank's own segment, fulfils `condition`.
    /// Returns its index and its value; if several do, those of the first (OpenSHMEM's
    /// `wait_until_any`).
    ///
    /// The condition also gets the index, so each word may have a condition of its own.
    /// [`wait_until`](GlobalPtr::wait_until) tells when the waiting rank wakes.
    ///
    /// # Cost
    ///
    /// A for each word, however often it is polled.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Panics
    ///
    /// If there are no words, or one of them is on another rank, null or misaligned.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::backend::SignalUpdate;
    /// # let world = pgas_core::backend::loopback::world();
    /// let (data, flags) = (world.alloc::<u64>(2)?, world.alloc::<u64>(2)?);
    /// flags.put_slice(&world, &[0, 0])?;
    /// let second = flags.add(1);
    /// data.put_signal(&world, &[7, 8], second, SignalUpdate::Set(5))?;
    /// assert_eq!(world.wait_until_any(&[flags, second], |_, seen| seen > 0)?, (1, 5));
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn wait_until_any<T: Atomic>(
        &self,
        words: &[GlobalPtr<T>],
        condition: impl Fn(usize, T) -> bool,
    ) -> Result<(usize, T)> {
        self.assert_own_words(words);
        let (mut found, mut is_first) = (None, true);
        self.wait_until(&Awaited::new(ONE_OF_SEVERAL), || {
            found = first_of(self, words, &condition, mem::take(&mut is_first))?;
            Ok(found.is_some())
        })?;
        Ok(found.expect("the wait ended because a word was found"))
    }

    /// As [`wait_until_any`](Self::wait_until_any), without waiting: an event of the index and the
    /// value. See [`wait_until_nb`](GlobalPtr::wait_until_nb).
    ///
    /// # Cost
    ///
    /// An allocation; a look at each word in each round of progress.
    ///
    /// # Panics
    ///
    /// As [`wait_until_any`](Self::wait_until_any).
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let flags = world.alloc::<u64>(2)?;
    /// flags.put_slice(&world, &[0, 0])?;
    /// let words = vec![flags, flags.add(1)];
    /// let mut arrived = world.wait_until_any_nb(words, |_, seen| seen > 0);
    /// assert!(!arrived.test()?);
    /// flags.add(1).atomic_store(&world, 5)?;
    /// world.flush_all()?;
    /// assert_eq!(arrived.wait()?, (1, 5));
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn wait_until_any_nb<T: Atomic>(
        &self,
        words: Vec<GlobalPtr<T>>,
        condition: impl Fn(usize, T) -> bool + Send + 'static,
    ) -> Event<(usize, T)> {
        self.assert_own_words(&words);
        let look = move |world: &Self, is_first| first_of(world, &words, &condition, is_first);
        Event::task(Box::new(Signalled::new(self, ONE_OF_SEVERAL, look)))
    }

    #[track_caller]
    fn assert_own_words<T: Atomic>(&self, words: &[GlobalPtr<T>]) {
        assert!(!words.is_empty(), "a wait for one of no signals never ends");
        words.iter().for_each(|word| word.assert_own(self));
    }
}

/// What a wait for several words is called.
const ONE_OF_SEVERAL: &str = "one of several signals";
/// What a wait for one word is called.
const A_SIGNAL: &str = "a signal";

/// The first of `words` that fulfils `condition`, with its value.
fn first_of<T: Atomic>(
    world: &World,
    words: &[GlobalPtr<T>],
    condition: &impl Fn(usize, T) -> bool,
    is_first_look: bool,
) -> Result<Option<(usize, T)>> {
    for (i, word) in words.iter().enumerate() {
        let seen = word.look(world, is_first_look)?;
        if condition(i, seen) {
            return Ok(Some((i, seen)));
        }
    }
    Ok(None)
}

/// A wait for words of this rank, for an event.
struct Signalled<T, L> {
    world: World,
    what: &'static str,
    /// Looks at the words. It is told whether it is the first look.
    look: L,
    has_looked: AtomicBool,
    /// What was found, or the error of a look.
    found: OnceLock<Result<T>>,
}

impl<T, L> Signalled<T, L> {
    fn new(world: &World, what: &'static str, look: L) -> Self {
        Self {
            world: world.clone(),
            what,
            look,
            has_looked: AtomicBool::new(false),
            found: OnceLock::new(),
        }
    }
}

impl<T: Send, L: Fn(&World, bool) -> Result<Option<T>> + Send> Task<T> for Signalled<T, L> {
    fn is_done(&self) -> bool {
        // The condition may not wait: whoever looks here may hold what it waits for.
        let look = || {
            let is_first = !self.has_looked.swap(true, Ordering::Relaxed);
            as_handler(|| (self.look)(&self.world, is_first)).transpose()
        };
        if self.found.get().is_none()
            && let Some(found) = look()
        {
            self.found.get_or_init(|| found);
        }
        self.found.get().is_some()
    }

    fn take(&mut self) -> Result<T> {
        let found = self.found.take();
        found.expect("the event takes what was found, once")
    }

    fn world(&self) -> &World {
        &self.world
    }

    fn let_go(&mut self) -> bool {
        self.world = self.world.clone_uncounted();
        // It may never come.
        false
    }

    fn what(&self) -> &'static str {
        self.what
    }

    fn call(&self) -> Option<TeamCall> {
        None
    }

    fn missing(&self) -> Vec<Rank> {
        Vec::new()
    }
}

/// Performs both by this process's own instructions, if the segment is mapped.
#[inline]
pub(super) fn put_and_signal<T: Pod>(
    world: &World,
    (to, flag): (&Checked<T>, &Checked<u64>),
    values: &[T],
    update: SignalUpdate,
) -> bool {
    let (Some(dst), Some(word)) = (to.mapped(world), flag.words(world)) else {
        return false;
    };
    dst.copy_from(values);
    // The release of the update below covers the copy, whatever instructions that used.
    fence(Ordering::Release);
    word.fetch(update.into());
    world.backend().notify(flag.rank());
    true
}

impl<T: Atomic> GlobalPtr<T> {
    /// Waits until the word, which lies in this rank's own segment, fulfils `condition`, and
    /// returns its value then. The word may have any type with atomics: a number or a
    /// [`Flag`](crate::atomics::Flag).
    ///
    /// A [`put_signal`](GlobalPtr::put_signal), whose words are `u64`, wakes the waiting rank; after
    /// a plain atomic it may sleep for up to [`World::longest_sleep`] longer.
    ///
    /// # Cost
    ///
    /// A for the word, however often it is polled.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Panics
    ///
    /// If the word is on another rank, null or misaligned.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::atomics::Flag;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let is_ready = world.alloc::<Flag>(1)?;
    /// is_ready.atomic_store(&world, Flag::FALSE)?;
    /// is_ready.swap(&world, Flag::TRUE)?; // usually by another rank
    /// assert_eq!(is_ready.wait_until(&world, bool::from)?, Flag::TRUE);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn wait_until(self, world: &World, condition: impl Fn(T) -> bool) -> Result<T> {
        self.assert_own(world);
        let (mut seen, mut is_first) = (T::new_zeroed(), true);
        world.wait_until(&Awaited::new(A_SIGNAL), || {
            seen = self.look(world, mem::take(&mut is_first))?;
            Ok(condition(seen))
        })?;
        Ok(seen)
    }

    /// As [`wait_until`](Self::wait_until), without waiting: an event of the value, which can be
    /// awaited, chained and joined as any other. So a task waits for what another rank puts.
    ///
    /// The condition is asked about the word in each look at the event, at the latest when the rank
    /// makes progress while somebody waits for it. A value that is replaced between two looks is
    /// not seen. It runs as a handler, so it must not wait. Dropping the event ends the wait; one
    /// that is chained ends at the latest when the rank leaves.
    ///
    /// # Cost
    ///
    /// An allocation; a look at the word in each round of progress.
    ///
    /// # Panics
    ///
    /// As [`wait_until`](Self::wait_until).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::backend::SignalUpdate;
    /// # let world = pgas_core::backend::loopback::world();
    /// let (data, arrived) = (world.alloc::<u64>(2)?, world.alloc::<u64>(1)?);
    /// arrived.put(&world, 0)?;
    /// let row = async {
    ///     arrived.wait_until_nb(&world, |n| n == 1).await?;
    ///     data.get_vec_nb(&world, 2)?.await
    /// };
    /// data.put_signal(&world, &[7, 8], arrived, SignalUpdate::Add(1))?; // usually by another rank
    /// assert_eq!(world.block_on(row)??, [7, 8]);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn wait_until_nb(
        self,
        world: &World,
        condition: impl Fn(T) -> bool + Send + 'static,
    ) -> Event<T> {
        self.assert_own(world);
        let look = move |world: &World, is_first| {
            let seen = self.look(world, is_first)?;
            Ok(condition(seen).then_some(seen))
        };
        Event::task(Box::new(Signalled::new(world, A_SIGNAL, look)))
    }

    #[track_caller]
    fn assert_own(self, world: &World) {
        world.checked(self, 1);
        assert_eq!(
            self.rank(),
            world.rank(),
            "a rank waits for words of its own segment"
        );
    }
}
