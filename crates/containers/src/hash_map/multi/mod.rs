//! Maps with several values for each key.

mod extend;
mod held;
mod nb;
mod whole;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use pgas_core::process::discard_panic;
use pgas_core::{as_handler, part_of};

use super::HashMap;
use super::hash::RapidHasher;
use super::operations::{Contains, Insert};
use super::phase::{Atomic, Finds, Phase};
use crate::object::{self, FoundBy, Heap, KeyHasher, KeyOf, Object};
use crate::{Error, Result, TakeError};

/// A map from `K` to any number of `V` each, in the segments of all ranks.
///
/// It consists of two maps: one has for each key the range of numbers of its values, the other has
/// each value under its key and number. So an insert costs the same whatever is there already, and
/// no two ranks ever wait for each other's values. A key's values are numbered in the order in
/// which their inserts took effect. A number is given once: a key takes up to 2^31 - 2^24 inserts
/// in the life of its map, and keeps its slot among the keys when its values are removed.
///
/// # Examples
///
/// ```
/// use pgas_containers::MultiMap;
///
/// # let world = pgas_core::backend::loopback::world();
/// let neighbours = MultiMap::<u32, String>::with_capacity(&world, 100)?;
/// neighbours.insert(&1, "two".to_owned())?;
/// neighbours.insert(&1, "three".to_owned())?;
/// assert_eq!(neighbours.find(&1)?, ["two", "three"]);
/// assert_eq!(neighbours.count(&2)?, 0);
/// assert_eq!(neighbours.remove(&1)?, ["two", "three"]);
/// assert!(neighbours.find(&1)?.is_empty());
///
/// let lines = MultiMap::<String, u32>::with_capacity(&world, 100)?;
/// lines.insert("word", 12)?; // found by a `&str`, as in the maps of std
/// assert_eq!(lines.find("word")?, [12]);
/// assert_eq!(lines.find_many(&["word", "verse"])?, [vec![12], vec![]]);
/// assert!(lines.contains("word")? && !lines.contains("verse")?);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// Counts, phases, and the values of one rank:
///
/// ```
/// use pgas_containers::MultiMap;
///
/// # let world = pgas_core::backend::loopback::world();
/// let map = MultiMap::<char, u32>::with_capacity(&world, 100)?.reuse_slots()?;
/// map.extend([('a', 1), ('b', 2), ('a', 3)])?;
/// assert_eq!((map.len()?, map.n_keys()?), (3, 2)); // collective, each of both
/// let map = map.into_find_phase()?; // collective
/// assert_eq!(map.find(&'a')?, [1, 3]);
/// assert_eq!(map.local_iter().count(), 3); // of the one rank of this example
/// let mut map = map.into_atomic_phase()?;
/// assert_eq!(map.remove(&'b')?, [2]);
/// map.resize(1000)?; // collective
/// assert!(map.capacity() >= 1000 && map.team().n_ranks() == map.world().n_ranks());
/// map.clear()?; // collective
/// assert!(map.is_empty()?);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct MultiMap<K: Object, V: Object, P = Atomic, S = RapidHasher> {
    numbers: HashMap<K, u64, P, S>,
    values: HashMap<(K, u64), V, P, S>,
}

/// The range of a key's value numbers, stored as one word under the key. Values before `first` are
/// removed; `next` is the next number to give. Adding one to the word takes a number.
#[derive(Clone, Copy)]
struct Numbers {
    first: u32,
    next: u32,
    /// Whether a number in the range may have no value, since its insert was refused after a later
    /// number was given.
    has_gaps: bool,
}

impl Numbers {
    /// Numbers end here. The margin to 2^31 is for threads that ask at once before a carry would
    /// reach `first`.
    const END: u32 = (1 << 31) - (1 << 24);

    /// The bit of the word that says that there may be gaps.
    const GAPS: u64 = 1 << 63;

    #[expect(clippy::cast_possible_truncation, reason = "one half and the other")]
    const fn of(word: u64) -> Self {
        Self {
            first: ((word & !Self::GAPS) >> 32) as u32,
            next: word as u32,
            has_gaps: word & Self::GAPS != 0,
        }
    }

    /// The word after a removal. Numbers from the end on have no values, and those who took them
    /// give them back.
    fn without_values(self) -> u64 {
        (u64::from(self.next.min(Self::END)) << 32) | u64::from(self.next)
    }

    /// The word after the insert with number `refused` failed. If it was the last number, it is
    /// taken back.
    fn without(word: u64, refused: u32) -> u64 {
        let numbers = Self::of(word);
        if refused < numbers.first {
            word
        } else if refused + 1 == numbers.next {
            word - 1
        } else {
            word | Self::GAPS
        }
    }

    /// The word after the insert with this number has ended by a panic: nobody knows whether there
    /// is a value.
    fn with_unknown(word: u64, number: u32) -> u64 {
        if number < Self::of(word).first {
            word
        } else {
            word | Self::GAPS
        }
    }

    #[cold]
    fn used_up() -> Error {
        let full = format!("a key of a MultiMap takes at most {} inserts", Self::END);
        Error::Argument(full.into())
    }

    /// The number of values, if there are no gaps.
    fn span(self) -> u64 {
        u64::from(self.next - self.first)
    }

    fn keys<Q: ?Sized>(self, key: &Q) -> impl Iterator<Item = Numbered<'_, Q>> {
        (self.first..self.next).map(|number| Numbered(key, number.into()))
    }
}

/// A key with the number of one of its values, by which that is found.
struct Numbered<'q, Q: ?Sized>(&'q Q, u64);

impl<Q: ?Sized, K: FoundBy<Q>> FoundBy<Numbered<'_, Q>> for (K, u64) {
    #[inline]
    fn key_by(by: &Numbered<'_, Q>) -> Result<KeyOf<Self>> {
        Ok((K::key_by(by.0)?, <u64 as FoundBy<u64>>::key_by(&by.1)?))
    }
}

/// Does what is left to do after a panic. What panics again, or fails, cannot be helped: the caller
/// is told of the first panic.
#[cold]
fn after_panic<T>(rest: impl FnOnce() -> Result<T>) {
    match catch_unwind(AssertUnwindSafe(rest)) {
        Ok(_done) => {}
        Err(panic) => discard_panic(panic),
    }
}

/// Whether a value was removed, and the value.
type Removed<V> = (Result<bool>, Result<Option<V>>);

/// The values that were removed.
fn removed<V>(values: impl Iterator<Item = Removed<V>>) -> Result<Vec<V>, TakeError<V>> {
    let (mut removed, mut n_lost, mut first) = (Vec::new(), 0, None);
    for value in values {
        match value {
            (Ok(true), Ok(Some(value))) => removed.push(value),
            (Ok(false), _) | (Ok(true), Ok(None)) => {}
            (Ok(true), Err(error)) | (Err(error), _) => {
                n_lost += 1;
                first = first.or(Some(error));
            }
        }
    }
    match first {
        None => Ok(removed),
        Some(first) => Err(TakeError::new(removed, n_lost, first)),
    }
}

/// The numbers of a key in a map of `n_values` values that is loaded, which were saved as `word`.
/// If they are [sparse](sparse_numbers) the key's values have to get new ones: a search looks for a
/// value under each number, and would take as long as it pleases whoever has written the file.
///
/// # Errors
///
/// Why they cannot be the numbers of a key.
pub(crate) fn loaded_numbers(word: u64, n_values: u64) -> Result<u64, String> {
    let numbers = Numbers::of(word);
    let Numbers {
        first,
        next,
        has_gaps,
    } = numbers;
    let is_range = first <= next && next <= Numbers::END;
    if is_range && numbers.span() <= n_values {
        return Ok(word);
    }
    if is_range && has_gaps {
        return Ok(sparse_numbers(n_values));
    }
    Err(format!(
        "a key has the values from {first} to {next} of {n_values}"
    ))
}

/// The numbers of each key that had more numbers than the map has values. There are some without a
/// value among them.
pub(crate) fn sparse_numbers(n_values: u64) -> u64 {
    n_values.min(Numbers::END.into()) | Numbers::GAPS
}

impl<K: Object, V: Object, S: KeyHasher> MultiMap<K, V, Atomic, S> {
    /// Adds `value` to those of `key`, and returns how many were there before.
    ///
    /// # Cost
    ///
    /// 6A + 2R + W, 6A + R + 2W for the first one; as much again each time that a removal of the
    /// key's values comes in between. One-sided; or 3M. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// As [`HashMap::insert`]; then the key has the same values as before. [`Error::Argument`] if
    /// the key's numbers are used up.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is given away, as to a map of std"
    )]
    #[track_caller]
    pub fn insert<Q: ?Sized>(&self, key: &Q, value: V) -> Result<u64>
    where
        K: FoundBy<Q>,
    {
        let _waits = part_of("an insert into a multimap");
        self.insert_ref(key, &value)
    }

    fn insert_ref<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<u64>
    where
        K: FoundBy<Q>,
    {
        loop {
            let numbers = self.next_number(key)?;
            let place = Numbered(key, u64::from(numbers.next));
            let mut taken = Taken::new(self, key, numbers.next);
            let stored = |heap: &Heap| object::to_slot(value, heap);
            if let Err(error) = self.values.table.perform::<Insert, _>(&place, stored) {
                self.give_back(key, numbers.next)?;
                taken.is_settled = true;
                return Err(error);
            }
            // A removal that began after the number was given has looked for the value, perhaps
            // before it was inserted. Either the removal or this rank takes the value out. If this
            // rank does, the insert begins again.
            let is_passed = self.numbers(key)?.first > numbers.next;
            let is_gone = is_passed && self.values.remove(&place)?;
            taken.is_settled = true;
            if !is_gone {
                return self.count_of(key, numbers);
            }
        }
    }

    /// Takes a new number for a value of `key`: `next` of the result.
    fn next_number<Q: ?Sized>(&self, key: &Q) -> Result<Numbers>
    where
        K: FoundBy<Q>,
    {
        let numbers = Numbers::of(self.numbers.fetch_add(key, 1)?);
        if numbers.next < Numbers::END {
            return Ok(numbers);
        }
        self.numbers.fetch_add(key, u64::MAX)?;
        Err(Numbers::used_up())
    }

    /// Takes `n` numbers of `key` without inserting values.
    #[cfg(test)]
    pub(super) fn give_numbers(&self, key: &K, n: u64) {
        self.numbers.fetch_add(key, n).expect("it is there");
    }

    /// Takes `n` numbers of `key`, whose inserts are refused.
    #[cfg(test)]
    pub(crate) fn leave_gaps(&self, key: &K, n: u64) {
        self.give_numbers(key, n);
        let refused = |word| word | Numbers::GAPS;
        self.numbers.update(key, refused).expect("it is there");
    }

    /// The number of `key`'s numbers, each with a value or without.
    #[cfg(test)]
    pub(crate) fn n_numbers(&self, key: &K) -> u64 {
        let word = self.numbers.find(key).expect("it can be found");
        Numbers::of(word.expect("it is there")).span()
    }

    /// The map of the values.
    #[cfg(test)]
    pub(super) const fn values(&self) -> &HashMap<(K, u64), V, Atomic, S> {
        &self.values
    }

    /// The first step of a removal.
    #[cfg(test)]
    pub(super) fn pass_all(&self, key: &K) {
        let pass = |word| Numbers::of(word).without_values();
        self.numbers.update(key, pass).expect("it is there");
    }

    /// Gives back the number of a value that was refused.
    fn give_back<Q: ?Sized>(&self, key: &Q, refused: u32) -> Result<()>
    where
        K: FoundBy<Q>,
    {
        self.numbers
            .update(key, |word| Numbers::without(word, refused))?;
        Ok(())
    }

    /// Leaves the values of `key` as others expect them after an insert with this number has ended
    /// by a panic, wherever that came: the number may be a gap, and if a removal has passed it
    /// there is no value.
    #[cold]
    fn settle<Q: ?Sized>(&self, key: &Q, number: Option<u32>)
    where
        K: FoundBy<Q>,
    {
        let Some(number) = number else {
            return;
        };
        after_panic(|| {
            if number >= Numbers::END {
                return self.numbers.fetch_add(key, u64::MAX).map(drop);
            }
            let unknown = |word| Numbers::with_unknown(word, number);
            let word = self.numbers.update(key, unknown)?.unwrap_or(0);
            if number < Numbers::of(word).first {
                self.values.remove(&Numbered(key, number.into()))?;
            }
            Ok(())
        });
    }

    /// Removes all values of `key`, and returns them in their order. If several ranks remove them
    /// at once, each value goes to one of them. Other keys can use the slots of the values when
    /// [`HashMap::remove`] says so. A value whose insert has not returned yet is removed or stays.
    ///
    /// # Cost
    ///
    /// 3A + R, and 4A + 2R for each value. One-sided; or 2M, M for each rank that holds some of the
    /// values, and M for each value. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// As [`HashMap::find`], with the values that could be read; those that could not are removed
    /// too. So are all of them if code of the program panics meanwhile.
    #[track_caller]
    pub fn remove<Q: ?Sized>(&self, key: &Q) -> Result<Vec<V>, TakeError<V>>
    where
        K: FoundBy<Q>,
    {
        let _waits = part_of("a removal from a multimap");
        let former = self
            .numbers
            .update(key, |word| Numbers::of(word).without_values())?;
        let keys: Vec<_> = Numbers::of(former.unwrap_or(0)).keys(key).collect();
        // From here on nobody else finds the values.
        let take_out = AssertUnwindSafe(|| self.take_out(&keys));
        catch_unwind(take_out).unwrap_or_else(|panic| {
            for key in &keys {
                after_panic(|| self.values.remove(key));
            }
            resume_unwind(panic)
        })
    }

    /// Removes the values under `keys`, whose numbers a removal has passed.
    fn take_out<Q: ?Sized>(&self, keys: &[Numbered<'_, Q>]) -> Result<Vec<V>, TakeError<V>>
    where
        K: FoundBy<Q>,
    {
        // A value never changes after its insert, so the removal takes the value that was found.
        let values: Vec<_> = match self.values.find_many(keys) {
            Ok(values) => values.into_iter().map(Ok).collect(),
            // One by one, so that an unreadable value costs no other one.
            Err(_) => keys.iter().map(|key| self.values.find(key)).collect(),
        };
        removed(keys.iter().zip(values).map(|(key, value)| {
            let is_removed = if matches!(value, Ok(None)) {
                Ok(false)
            } else {
                self.values.remove(key)
            };
            if matches!(is_removed, Err(Error::InHandler { .. } | Error::Timeout(_))) {
                self.remove_later(key);
            }
            (is_removed, value)
        }))
    }

    /// Removes a value that nobody looks for any more, when the rank is done that works on a slot on
    /// the way to it. An error cannot be helped: the caller is told of the first one.
    #[cold]
    fn remove_later<Q: ?Sized>(&self, key: &Numbered<'_, Q>)
    where
        K: FoundBy<Q>,
    {
        // As a handler does, in which it may not wait once more.
        drop(as_handler(|| self.values.remove_nb(key)));
    }
}

/// A number that an insert has taken. A panic meanwhile settles it.
struct Taken<'m, Q: ?Sized, K: Object + FoundBy<Q>, V: Object, S: KeyHasher> {
    map: &'m MultiMap<K, V, Atomic, S>,
    key: &'m Q,
    number: u32,
    is_settled: bool,
}

impl<'m, Q: ?Sized, K: Object + FoundBy<Q>, V: Object, S: KeyHasher> Taken<'m, Q, K, V, S> {
    fn new(map: &'m MultiMap<K, V, Atomic, S>, key: &'m Q, number: u32) -> Self {
        let is_settled = false;
        Self {
            map,
            key,
            number,
            is_settled,
        }
    }
}

impl<Q: ?Sized, K: Object + FoundBy<Q>, V: Object, S: KeyHasher> Drop for Taken<'_, Q, K, V, S> {
    fn drop(&mut self) {
        if !self.is_settled && thread::panicking() {
            self.map.settle(self.key, Some(self.number));
        }
    }
}

impl<K: Object, V: Object, P: Finds, S: KeyHasher> MultiMap<K, V, P, S> {
    fn numbers<Q: ?Sized>(&self, key: &Q) -> Result<Numbers>
    where
        K: FoundBy<Q>,
    {
        Ok(Numbers::of(self.numbers.find(key)?.unwrap_or(0)))
    }

    /// The values of `key`, in their order. A value may be missing if its insert has not returned
    /// yet, or if another rank is removing it.
    ///
    /// # Cost
    ///
    /// [`Atomic`]: 2A + R, and as much for each value. [`FindOnly`](super::FindOnly): R, and R for
    /// each value. One-sided; or M, and M for each rank that holds some of the values.
    ///
    /// # Errors
    ///
    /// As [`HashMap::find`].
    #[track_caller]
    pub fn find<Q: ?Sized>(&self, key: &Q) -> Result<Vec<V>>
    where
        K: FoundBy<Q>,
    {
        let _waits = part_of("a search in a multimap");
        let keys: Vec<_> = self.numbers(key)?.keys(key).collect();
        let values = self.values.find_many(&keys)?;
        Ok(values.into_iter().flatten().collect())
    }

    /// The values of each of `keys`, as [`find`](Self::find) returns them.
    ///
    /// # Cost
    ///
    /// That of a [`find`](Self::find) for each key; the latency is paid twice for many. One-sided;
    /// or 2M for each rank and as many keys and values as a message carries.
    ///
    /// # Errors
    ///
    /// As [`HashMap::find`].
    #[track_caller]
    pub fn find_many<Q>(&self, keys: &[Q]) -> Result<Vec<Vec<V>>>
    where
        K: FoundBy<Q>,
    {
        let _waits = part_of("a search in a multimap");
        let words = self.numbers.find_many(keys)?.into_iter();
        let numbers = words.map(|word| Numbers::of(word.unwrap_or(0)));
        let numbers: Vec<_> = numbers.collect();
        let of_keys = numbers.iter().zip(keys);
        let places: Vec<_> = of_keys.flat_map(|(of, key)| of.keys(key)).collect();
        let mut values = self.values.find_many(&places)?.into_iter();
        let of_one = |of: Numbers| {
            let places = of.first..of.next;
            places.filter_map(|_| values.next().flatten()).collect()
        };
        Ok(numbers.into_iter().map(of_one).collect())
    }

    /// Whether `key` has values.
    ///
    /// # Cost
    ///
    /// As [`count`](Self::count).
    ///
    /// # Errors
    ///
    /// As [`HashMap::find`].
    #[track_caller]
    pub fn contains<Q: ?Sized>(&self, key: &Q) -> Result<bool>
    where
        K: FoundBy<Q>,
    {
        Ok(self.count(key)? > 0)
    }

    /// How many values `key` has.
    ///
    /// # Cost
    ///
    /// [`Atomic`]: 2A + R. [`FindOnly`](super::FindOnly): R. That of a [`find`](Self::find) if an
    /// insert of a value of the key has failed because the map was full. One-sided; or M.
    ///
    /// # Errors
    ///
    /// As [`HashMap::find`].
    #[track_caller]
    pub fn count<Q: ?Sized>(&self, key: &Q) -> Result<u64>
    where
        K: FoundBy<Q>,
    {
        let _waits = part_of("a search in a multimap");
        let numbers = self.numbers(key)?;
        self.count_of(key, numbers)
    }
}

impl<K: Object, V: Object, P: Phase, S: KeyHasher> MultiMap<K, V, P, S> {
    /// The number of values of a key that has these numbers.
    fn count_of<Q: ?Sized>(&self, key: &Q, numbers: Numbers) -> Result<u64>
    where
        K: FoundBy<Q>,
    {
        if !numbers.has_gaps {
            return Ok(numbers.span());
        }
        let mut n = 0;
        for key in numbers.keys(key) {
            n += u64::from(
                self.values
                    .table
                    .perform::<Contains<Atomic>, _>(&key, |_| Ok(()))?,
            );
        }
        Ok(n)
    }
}

impl<K: Object, V: Object, P: Phase, S> fmt::Debug for MultiMap<K, V, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MultiMap over {:?}", self.values)
    }
}
