//! Inserts of many values into a map with several values for each key.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pgas_core::part_of;

use super::super::batch::in_parts;
use super::super::op::Add;
use super::super::operations::{Find, Insert};
use super::super::phase::Atomic;
use super::{MultiMap, Numbered, Numbers};
use crate::object::{self, FoundBy as _, KeyHasher, Object};
use crate::{BatchError, Result, prices};

/// A value, with its key and number.
type Place<'e, K, V> = ((K, u64), &'e V);

impl<K: Object + Clone, V: Object, S: KeyHasher> MultiMap<K, V, Atomic, S> {
    /// [Inserts](Self::insert) all entries of an iterator, in their order, some hundred at a time.
    ///
    /// # Cost
    ///
    /// That of an [`insert`](Self::insert) for each entry: 6A + 2R + W, and 6A + R + 2W for the
    /// first one of a key. The latency of the searches is paid once for many keys;
    /// values of one key take their places one after another. One-sided; or M for each rank and as
    /// many entries as a message carries. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert), with the number of entries that were inserted before.
    /// What was inserted of those behind is taken back, but other ranks may have seen or removed it
    /// meanwhile. If the transport fails, some of them may stay.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::MultiMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let lines = MultiMap::<String, u32>::with_capacity(&world, 100)?;
    /// let words = ["to", "be", "or", "not", "to", "be"];
    /// lines.extend((1..).zip(words).map(|(line, word)| (word.to_owned(), line)))?;
    /// assert_eq!(lines.find("be")?, [2, 6]);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn extend(&self, entries: impl IntoIterator<Item = (K, V)>) -> Result<(), BatchError> {
        let _waits = part_of("an insert into a multimap");
        in_parts(entries, |some| self.insert_some(&some).map(|()| some.len())).map(drop)
    }

    /// Adds some entries. If a function of the program panics, numbers without values are gaps.
    fn insert_some(&self, entries: &[(K, V)]) -> Result<(), BatchError> {
        let world = self.values.table.world();
        let _performing = world.performs(&prices::MULTI_MAP_EXTEND, entries.len());
        // Code of the program makes the copies, and may panic: there are no numbers yet.
        let places = entries.iter().map(|(key, value)| ((key.clone(), 0), value));
        let places = places.collect();
        let mut numbers = vec![None; entries.len()];
        let insert = AssertUnwindSafe(|| self.insert_at(places, entries, &mut numbers));
        catch_unwind(insert).unwrap_or_else(|panic| {
            for ((key, _), number) in entries.iter().zip(numbers) {
                self.settle(key, number);
            }
            resume_unwind(panic)
        })
    }

    /// Takes numbers for all entries, inserts the values at their `places` under these, and looks
    /// which numbers a removal has passed meanwhile.
    fn insert_at(
        &self,
        mut places: Vec<Place<'_, K, V>>,
        entries: &[(K, V)],
        numbers: &mut [Option<u32>],
    ) -> Result<(), BatchError> {
        let numbered = self.take_numbers(entries, numbers);
        places.truncate(numbered.as_ref().err().map_or(entries.len(), |e| e.done));
        for (((_, place), _), number) in places.iter_mut().zip(&*numbers) {
            *place = number
                .expect("those before the first error have one")
                .into();
        }
        let inserted = self.values.table.perform_many_into::<Insert, _>(
            &places,
            |(place, _)| <(K, u64)>::key_by(place),
            |(_, value), heap| object::to_slot(*value, heap),
            |_, _| {},
        );
        let refused = inserted.err().or(numbered.err());
        let done = refused.as_ref().map_or(entries.len(), |e| e.done);
        // Of those before, one may be refused that is to be inserted again.
        let refused = self.insert_passed(&places[..done]).err().or(refused);
        let Some(refused) = refused else {
            return Ok(());
        };
        let done = refused.done;
        let left = self.take_back(&entries[done..], &numbers[done..]);
        left.map_err(|error| BatchError { done, error })?;
        Err(refused)
    }

    /// Takes a number for each entry. After an error some behind it may have one.
    fn take_numbers(
        &self,
        entries: &[(K, V)],
        numbers: &mut [Option<u32>],
    ) -> Result<(), BatchError> {
        self.numbers.table.perform_many_into::<Add, _>(
            entries,
            |entry| K::key_by(&entry.0),
            |_, _| Ok(1),
            |i, former| numbers[i] = Some(Numbers::of(former.unwrap_or(0)).next),
        )?;
        let is_beyond = |number: &Option<u32>| number.is_some_and(|n| n >= Numbers::END);
        let Some(done) = numbers.iter().position(is_beyond) else {
            return Ok(());
        };
        let error = Numbers::used_up();
        Err(BatchError { done, error })
    }

    /// Takes back what there is of entries behind one that was refused: the last one first, so that
    /// numbers at the end are free again.
    fn take_back(&self, entries: &[(K, V)], numbers: &[Option<u32>]) -> Result<()> {
        for ((key, _), number) in entries.iter().zip(numbers).rev() {
            match *number {
                Some(beyond) if beyond >= Numbers::END => {
                    self.numbers.fetch_add(key, u64::MAX)?;
                }
                Some(number) => {
                    self.values.remove(&Numbered(key, number.into()))?;
                    self.give_back(key, number)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Inserts those values again whose numbers a removal had passed before they were there.
    fn insert_passed(&self, places: &[Place<'_, K, V>]) -> Result<(), BatchError> {
        let keys: Vec<&K> = places.iter().map(|((key, _), _)| key).collect();
        let mut words = vec![None; keys.len()];
        let found = self.numbers.table.perform_many_into::<Find<Atomic>, _>(
            &keys,
            |key| K::key_by(*key),
            |_, _| Ok(()),
            |i, word| words[i] = word,
        );
        let n_found = found.as_ref().err().map_or(places.len(), |e| e.done);
        for (done, ((place, value), word)) in places.iter().zip(words).take(n_found).enumerate() {
            let first = Numbers::of(word.unwrap_or(0)).first;
            if u64::from(first) > place.1 {
                let again = self.insert_again(place, value);
                again.map_err(|error| BatchError { done, error })?;
            }
        }
        found.map(drop)
    }

    /// Inserts a value again that is at a place that a removal has passed, unless the removal has
    /// found it.
    fn insert_again(&self, place: &(K, u64), value: &V) -> Result<()> {
        if self.values.remove(place)? {
            self.insert_ref(&place.0, value)?;
        }
        Ok(())
    }
}
