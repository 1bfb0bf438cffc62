//! The registry: the handlers of this rank by the types that name them.

use std::any::{TypeId, type_name};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, OnceLock, PoisonError};

use pgas_core::backend::MessageClass;

/// Places of a table; at most half of them are taken.
const N_PLACES: usize = 1024;

struct Entry<H: ?Sized> {
    hash: u64,
    name: &'static str,
    handler: Box<H>,
}

/// The handlers of one class, found by the hash of their type without a lock.
struct Table<H: ?Sized> {
    places: Box<[OnceLock<Entry<H>>]>,
    n_taken: Mutex<usize>,
}

impl<H: ?Sized> Default for Table<H> {
    fn default() -> Self {
        Self {
            places: (0..N_PLACES).map(|_| OnceLock::new()).collect(),
            n_taken: Mutex::new(0),
        }
    }
}

impl<H: ?Sized> Table<H> {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits of a hash")]
    fn places_of(&self, hash: u64) -> impl Iterator<Item = &OnceLock<Entry<H>>> {
        (0..N_PLACES).map(move |i| &self.places[(hash as usize + i) % N_PLACES])
    }

    #[inline]
    fn find(&self, hash: u64) -> Option<&Entry<H>> {
        let mut entries = self.places_of(hash).map_while(OnceLock::get);
        entries.find(|entry| entry.hash == hash)
    }

    #[track_caller]
    fn add(&self, entry: Entry<H>) {
        let mut n_taken = self.n_taken.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(
            *n_taken < N_PLACES / 2,
            "a rank has at most {} handlers",
            N_PLACES / 2
        );
        if let Some(former) = self.find(entry.hash) {
            let (name, former) = (entry.name, former.name);
            panic!("a handler of type {name} is registered already (as {former})");
        }
        let free = self
            .places_of(entry.hash)
            .find(|place| place.get().is_none());
        let place = free.expect("half of the places are free");
        assert!(
            place.set(entry).is_ok(),
            "handlers are added under the lock"
        );
        *n_taken += 1;
    }
}

/// The handlers of a rank, which are of type `H`.
pub(crate) struct Registry<H: ?Sized> {
    requests: Table<H>,
    replies: Table<H>,
}

impl<H: ?Sized> Default for Registry<H> {
    fn default() -> Self {
        Self {
            requests: Table::default(),
            replies: Table::default(),
        }
    }
}

impl<H: ?Sized> fmt::Debug for Registry<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.requests.places.iter().chain(&self.replies.places);
        let names = places.filter_map(|place| Some(place.get()?.name));
        f.debug_list().entries(names).finish()
    }
}

impl<H: ?Sized> Registry<H> {
    #[inline]
    fn of(&self, class: MessageClass) -> &Table<H> {
        match class {
            MessageClass::Request => &self.requests,
            MessageClass::Reply => &self.replies,
        }
    }

    /// Sets the handler of messages of a class that name the type `T`.
    #[track_caller]
    pub(crate) fn add<T: 'static>(&self, class: MessageClass, handler: Box<H>) {
        self.of(class).add(Entry {
            hash: type_hash::<T>(),
            name: type_name::<T>(),
            handler,
        });
    }

    /// The handler that `hash` names.
    #[inline]
    pub(crate) fn find(&self, class: MessageClass, hash: u64) -> Option<&H> {
        Some(&*self.of(class).find(hash)?.handler)
    }
}

/// The name of a type in messages: it is equal on all ranks, which run one program.
#[inline]
pub(crate) fn type_hash<H: 'static>() -> u64 {
    let mut hasher = Words(0);
    TypeId::of::<H>().hash(&mut hasher);
    hasher.0
}

/// Takes the words of a `TypeId`, which are a hash already.
struct Words(u64);

impl Hasher for Words {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = self.0.rotate_left(5) ^ word;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    struct Other<T>(std::marker::PhantomData<T>);

    #[test]
    fn types_have_different_names() {
        let hashes = [
            type_hash::<u8>(),
            type_hash::<u16>(),
            type_hash::<Other<u8>>(),
            type_hash::<Other<u16>>(),
            type_hash::<fn(u8)>(),
            type_hash::<Table<u8>>(),
        ];
        assert_eq!(HashSet::from(hashes).len(), hashes.len());
        assert_eq!(type_hash::<u8>(), type_hash::<u8>());
    }

    #[test]
    fn handlers_are_found_by_their_hash_although_places_collide() {
        let table = Table::<u8>::default();
        let hashes: Vec<u64> = (0..100).map(|i| i * N_PLACES as u64 + 7).collect();
        for &hash in &hashes {
            assert!(table.find(hash).is_none());
            table.add(Entry {
                hash,
                name: "a handler",
                handler: Box::new(0),
            });
        }
        for &hash in &hashes {
            assert_eq!(table.find(hash).unwrap().hash, hash);
        }
        assert!(table.find(8).is_none());
    }
}
