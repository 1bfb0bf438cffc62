//! Batches on slots behind a network. The searches of up to [`GROUP`] operations are in flight
//! together. Then the operations begin to change memory, in their order, and their changes are in
//! flight together, too. Two on one key are not, if their order matters. An operation that calls
//! functions of the program has others beside it only if these change words that are present: any
//! other change holds a slot meanwhile, for which other ranks wait.
//!
//! If a function of the program panics, the operations before it end first, and then the panic goes
//! on. A panic of a handler or a chained action in the wait of the batch ends them in the middle:
//! then the job fails.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pgas_core::in_handler;

use super::super::hash::Hash;
use super::super::op::OnKey;
use super::super::slot::layout::ValueKind;
use super::super::slot::remote::Remote;
use super::super::slot::replayed::Journal;
use super::super::slot::{LayoutOf, give_up};
use super::super::view::View;
use super::panicked;
use crate::object::{Heap, KeyHasher, KeyOf, Object};
use crate::{BatchError, Error, Result};

/// Operations whose searches are in flight together.
const GROUP: usize = 64;

/// The name of the wait for a batch.
const BATCH: &str = "a batch on a hash map";

/// An operation of a group, with arguments of type `G` and a result of type `T`.
struct InFlight<K: Object, G, T> {
    key: KeyOf<K>,
    hash: Hash,
    journal: Journal,
    /// The arguments, once they are made, and the number of steps that this has taken.
    given: Option<(G, usize)>,
    done: Option<Result<T>>,
    /// The panic of a function of the program, with which it has ended.
    panic: Option<Box<dyn Any + Send>>,
}

/// The flight of an operation `O`.
type Flight<K, V, O> = InFlight<K, <O as OnKey<K, V>>::Given, <O as OnKey<K, V>>::Outcome>;

/// The operations of a group. Those that are done and were not taken, as the wait has panicked, are
/// counted by the drop.
struct Group<'n, K: Object, G, T> {
    flights: Vec<InFlight<K, G, T>>,
    is_change: fn(&T) -> bool,
    n_changed: &'n mut usize,
}

impl<K: Object, G, T> Group<'_, K, G, T> {
    /// Takes the result of operation `k`, and counts it.
    fn take(&mut self, k: usize) -> Option<Result<T>> {
        let done = self.flights[k].done.take();
        if let Some(Ok(done)) = &done {
            *self.n_changed += usize::from((self.is_change)(done));
        }
        done
    }

    /// The panic of a function of the program, if one has ended the batch.
    fn take_panic(&mut self) -> Option<Box<dyn Any + Send>> {
        let mut flights = self.flights.iter_mut();
        flights.find_map(|flight| flight.panic.take())
    }

    /// Whether no operation is done behind one that has failed.
    fn is_done_in_order(&self) -> bool {
        let flights = self.flights.iter();
        let mut behind = flights.skip_while(|flight| !matches!(flight.done, Some(Err(_))));
        behind.all(|flight| !matches!(flight.done, Some(Ok(_))))
    }
}

impl<K: Object, G, T> Drop for Group<'_, K, G, T> {
    fn drop(&mut self) {
        for k in 0..self.flights.len() {
            drop(self.take(k));
        }
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Remote<'a>> {
    /// Performs `O` on the keys of `elements`, group by group. `take` receives each result.
    /// `n_changed` is raised by the number of inserted or removed keys.
    pub(super) fn perform_batch<'k, O: OnKey<K, V, Given: Copy>, E>(
        &self,
        elements: &'k [E],
        key: impl Fn(&'k E) -> Result<KeyOf<K>> + Copy,
        given: impl Fn(&'k E, &Heap) -> Result<O::Given> + Copy,
        take: &mut impl FnMut(usize, O::Outcome),
        n_changed: &mut usize,
    ) -> Result<(), BatchError> {
        let (mut start, mut has_memory) = (0, true);
        while let Some(first) = elements.get(start) {
            let rest = &elements[start..];
            // In a handler one operation would have to wait for another one.
            let can_fly = O::MAY_RUN_AGAIN && !in_handler();
            let n_together = if can_fly && has_memory { GROUP } else { 0 };
            let keys = rest.iter().map_while(|element| key(element).ok());
            let flights = keys.take(n_together).map(|key| self.in_flight::<O>(key));
            let mut group = Group {
                flights: flights.collect(),
                is_change: O::is_change,
                n_changed: &mut *n_changed,
            };
            let mut waited = Ok(());
            if group.flights.is_empty() {
                let mut alone = self.in_flight::<O>(key(first).map_err(failed(start))?);
                let done = given(first, self.heap()).and_then(|given| {
                    self.shape
                        .perform_one_sided::<O>(alone.hash, &alone.key, given)
                });
                alone.done = Some(done);
                group.flights.push(alone);
            } else {
                waited =
                    self.perform_together::<O>(&mut group.flights, |k, heap| given(&rest[k], heap));
            }
            let is_in_order = group.is_done_in_order();
            let mut outcome = Ok(());
            for k in 0..group.flights.len() {
                let taken = match group.take(k) {
                    Some(done) => done.map(|done| take(start, done)),
                    None => mem::replace(&mut waited, Ok(())),
                };
                outcome = outcome.and(taken.map_err(failed(start)));
                start += 1;
            }
            if let Some(panic) = group.take_panic() {
                drop(group);
                resume_unwind(panic);
            }
            // Those behind had memory, too, and give it back: alone, the operation may have enough.
            has_memory = !(is_in_order && group.flights.len() > 1 && lacks_memory(&outcome));
            match outcome {
                Err(BatchError { done, .. }) if !has_memory => start = done,
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn in_flight<O: OnKey<K, V>>(&self, key: KeyOf<K>) -> Flight<K, V, O> {
        InFlight {
            hash: self.hash(&key),
            key,
            journal: Journal::held(&self.shape.heap, O::IS_READ_ONLY),
            given: None,
            done: None,
            panic: None,
        }
    }

    /// Performs `O` for all of `group`, up to the first one that fails.
    fn perform_together<O: OnKey<K, V, Given: Copy>>(
        &self,
        group: &mut [Flight<K, V, O>],
        given: impl Fn(usize, &Heap) -> Result<O::Given> + Copy,
    ) -> Result<()> {
        self.advance::<O>(group, given, |flight| flight.journal.record().is_stopped())?;
        let world = self.shape.world();
        // Handlers and chained actions run meanwhile, and may panic.
        let _step = world.in_step(BATCH);
        let changed = self.change_in_order::<O>(group, given);
        changed.map_err(|error| give_up(world, error))
    }

    /// Lets the operations change memory, once all have found their slots, up to the first one that
    /// has failed by then. While one calls a function of the program, no other one holds a slot.
    fn change_in_order<O: OnKey<K, V, Given: Copy>>(
        &self,
        group: &mut [Flight<K, V, O>],
        given: impl Fn(usize, &Heap) -> Result<O::Given> + Copy,
    ) -> Result<()> {
        let is_word = LayoutOf::<K, V>::KIND != ValueKind::Wide;
        for k in 0..group.len() {
            let (before, rest) = group.split_at_mut(k);
            let is_same_key =
                |other: &Flight<K, V, O>| other.done.is_none() && other.hash == rest[0].hash;
            if O::IS_ORDERED && before.iter().any(is_same_key) {
                self.advance::<O>(before, given, |_| false)?;
            }
            rest[0].journal.let_go();
            // It is enough that the change is on its way, if it calls nothing of the program or
            // changes a present word.
            let is_begun =
                |flight: &Flight<K, V, O>| !O::CALLS_PROGRAM || is_word && !flight.journal.claims();
            self.advance::<O>(&mut rest[..1], |_, heap| given(k, heap), is_begun)?;
            if matches!(rest[0].done, Some(Err(_))) {
                return self.advance::<O>(before, given, |_| false);
            }
        }
        self.advance::<O>(group, given, |_| false)
    }

    /// Performs steps of `group`, until each operation is complete or has come `far_enough`.
    fn advance<O: OnKey<K, V, Given: Copy>>(
        &self,
        group: &mut [Flight<K, V, O>],
        given: impl Fn(usize, &Heap) -> Result<O::Given>,
        far_enough: impl Fn(&Flight<K, V, O>) -> bool,
    ) -> Result<()> {
        let mut are_there = || {
            let mut are_there = true;
            for (k, flight) in group.iter_mut().enumerate() {
                if flight.done.is_none() {
                    self.continue_flight::<O>(flight, |heap| given(k, heap));
                }
                are_there &= flight.done.is_some() || far_enough(flight);
            }
            are_there
        };
        if are_there() {
            return Ok(());
        }
        // One wait for all kinds of batches: it is not compiled for each.
        let ready: &mut dyn FnMut() -> Result<bool> = &mut || Ok(are_there());
        self.shape.world().wait_for(BATCH, ready)
    }

    /// Takes the steps of an operation that need no wait. Its arguments are made in the first run.
    fn continue_flight<O: OnKey<K, V, Given: Copy>>(
        &self,
        flight: &mut Flight<K, V, O>,
        given: impl Fn(&Heap) -> Result<O::Given>,
    ) {
        let InFlight {
            key,
            hash,
            journal,
            given: made,
            done,
            panic,
        } = flight;
        let steps = || {
            self.shape.replay(journal, |view| {
                let (given, n_steps) = match *made {
                    Some(made) => made,
                    None => (given(view.heap())?, journal.record().n_taken()),
                };
                *made = Some((given, n_steps));
                journal.record().skip(n_steps);
                O::perform(&view, *hash, key, given)
            })
        };
        *done = catch_unwind(AssertUnwindSafe(steps)).unwrap_or_else(|payload| {
            *panic = Some(payload);
            Some(Err(panicked()))
        });
    }
}

/// Whether a batch has ended since this rank has no memory for long keys or values.
fn lacks_memory(outcome: &Result<(), BatchError>) -> bool {
    let error = outcome.as_ref().err().map(|failed| &failed.error);
    matches!(error, Some(Error::Exhausted(_)))
}

/// Makes the batch's error of an error at element `i`.
fn failed(i: usize) -> impl Fn(Error) -> BatchError {
    move |error| BatchError { done: i, error }
}
