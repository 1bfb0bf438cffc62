//! Which handler a type names on this rank.

use std::any::{TypeId, type_name};
use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, OnceLock, PoisonError};

use pgas_core::backend::{Message, MessageClass};
use pgas_core::{GlobalPtr, World};

use super::{Origin, Payload, ReplyHandler, RequestHandler, Token};
use crate::Result;
use crate::codec::Decoder;
use crate::layer::{Am, REPLY_SHORT, REQUEST_LONG, REQUEST_SHORT, unknown};
use crate::tally::Served;

/// Places of a table; at most half of them are taken.
const N_PLACES: usize = 1024;

/// Decodes a message and runs a handler.
type Run = dyn Fn(Arrived<'_>) -> Result<()> + Send + Sync;

struct Entry {
    hash: u64,
    name: &'static str,
    run: Box<Run>,
}

/// A message on its way to its handler.
struct Arrived<'a> {
    world: &'a World,
    am: &'a Am,
    message: &'a Message<'a>,
    /// Arguments and payload.
    bytes: &'a [u8],
}

/// The handlers of one class, found by the hash of their type without a lock.
struct Table {
    places: Box<[OnceLock<Entry>]>,
    n_taken: Mutex<usize>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            places: (0..N_PLACES).map(|_| OnceLock::new()).collect(),
            n_taken: Mutex::new(0),
        }
    }
}

impl Table {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits of a hash")]
    fn places_of(&self, hash: u64) -> impl Iterator<Item = &OnceLock<Entry>> {
        (0..N_PLACES).map(move |i| &self.places[(hash as usize + i) % N_PLACES])
    }

    #[inline]
    fn find(&self, hash: u64) -> Option<&Entry> {
        let mut entries = self.places_of(hash).map_while(OnceLock::get);
        entries.find(|entry| entry.hash == hash)
    }

    #[track_caller]
    fn add(&self, entry: Entry) {
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

/// The handlers of a rank.
#[derive(Default)]
pub(crate) struct Registry {
    requests: Table,
    replies: Table,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.requests.places.iter().chain(&self.replies.places);
        let names = places.filter_map(|place| Some(place.get()?.name));
        f.debug_list().entries(names).finish()
    }
}

impl Registry {
    #[track_caller]
    pub(super) fn add_requests<H: RequestHandler>(&self, handler: H) {
        let run = move |arrived: Arrived<'_>| {
            let served = Served::new(&arrived.am.tally);
            let (args, payload) = arrived.decode::<H::Args>()?;
            let has_replied = Cell::new(false);
            let token = Token {
                origin: arrived.origin(),
                am: arrived.am,
                has_replied: &has_replied,
            };
            let handled = handler.handle(token, args, payload);
            if has_replied.get() {
                served.cancel();
            }
            handled
        };
        self.requests.add(entry::<H>(Box::new(run)));
    }

    #[track_caller]
    pub(super) fn add_replies<H: ReplyHandler>(&self, handler: H) {
        let run = move |arrived: Arrived<'_>| {
            // With it the request is served that it answers.
            let _served = Served::new(&arrived.am.tally);
            let (args, payload) = arrived.decode::<H::Args>()?;
            handler.handle(arrived.origin(), args, payload)
        };
        self.replies.add(entry::<H>(Box::new(run)));
    }

    /// Runs the handler that `hash` names.
    #[inline]
    pub(crate) fn deliver(
        &self,
        world: &World,
        am: &Am,
        message: &Message<'_>,
        hash: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let table = match message.class {
            MessageClass::Request => &self.requests,
            MessageClass::Reply => &self.replies,
        };
        let Some(entry) = table.find(hash) else {
            am.tally.count_served();
            let what = format!("the handler with id {hash:#018x}");
            let reason = "which it has not registered";
            return Err(unknown(world, message.from, what, reason));
        };
        (entry.run)(Arrived {
            world,
            am,
            message,
            bytes,
        })
    }
}

fn entry<H: 'static>(run: Box<Run>) -> Entry {
    Entry {
        hash: type_hash::<H>(),
        name: type_name::<H>(),
        run,
    }
}

impl<'a> Arrived<'a> {
    fn origin(&self) -> Origin<'a> {
        Origin {
            world: self.world,
            from: self.message.from,
        }
    }

    #[inline]
    fn decode<A: crate::codec::Wire>(&self) -> Result<(A, Payload<'a>)> {
        let mut input = Decoder::at(self.world, self.bytes);
        match self.message.handler {
            REQUEST_SHORT | REPLY_SHORT => Ok((input.get()?, Payload::Short)),
            REQUEST_LONG => {
                let (dst, len): (GlobalPtr<u8>, usize) = input.get()?;
                Ok((input.get()?, Payload::Long(dst, len)))
            }
            _ => {
                let args = input.get()?;
                Ok((args, Payload::Medium(input.rest_aligned())))
            }
        }
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
            type_hash::<Registry>(),
        ];
        assert_eq!(HashSet::from(hashes).len(), hashes.len());
        assert_eq!(type_hash::<u8>(), type_hash::<u8>());
    }

    #[test]
    fn handlers_are_found_by_their_hash_although_places_collide() {
        let table = Table::default();
        let hashes: Vec<u64> = (0..100).map(|i| i * N_PLACES as u64 + 7).collect();
        for &hash in &hashes {
            assert!(table.find(hash).is_none());
            table.add(Entry {
                hash,
                name: "a handler",
                run: Box::new(|_| Ok(())),
            });
        }
        for &hash in &hashes {
            assert_eq!(table.find(hash).unwrap().hash, hash);
        }
        assert!(table.find(8).is_none());
    }
}
