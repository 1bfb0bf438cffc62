//! The distributed objects of a rank by their names, and the calls that wait for one to be built.

use std::any::Any;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pgas_core::backend::{HandlerId, Message};

use crate::codec::unreadable;
use crate::set_aside::{MAX_SET_ASIDE, SetAside};
use pgas_core::{Error, Result};

/// The name of an object on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjectId {
    team: u64,
    number: u64,
}

impl ObjectId {
    pub(crate) fn new(team: u64, number: u64) -> Self {
        Self { team, number }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "distributed object {} of team {:#x}",
            self.number, self.team
        )
    }
}

/// The objects of a rank.
#[derive(Default)]
pub(crate) struct Objects {
    tables: Mutex<Tables>,
    /// A hint that saves `advance` the lock.
    n_ready: AtomicUsize,
    /// The number of calls that wait for an object, changed under the lock.
    n_waiting: AtomicUsize,
    /// The object that the served call names, the last one of several: its team, and its number
    /// plus one.
    named: [AtomicU64; 2],
}

#[derive(Default)]
struct Tables {
    /// The number of objects that each team has built.
    n_built: HashMap<u64, u64>,
    built: HashMap<ObjectId, Built>,
    /// Calls that name an object that is not built yet.
    waiting: HashMap<ObjectId, Vec<SetAside>>,
    /// Calls that can be made: their object has been built, or never will be.
    ready: VecDeque<SetAside>,
}

struct Built {
    instance: Weak<dyn Any + Send + Sync>,
    type_name: &'static str,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Objects({})", self.lock().built.len())
    }
}

impl Objects {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the next object of `team` its number, and stores the instance that `build` makes for
    /// it.
    pub(crate) fn add<T>(
        &self,
        team: u64,
        type_name: &'static str,
        build: impl FnOnce(u64) -> (Weak<dyn Any + Send + Sync>, T),
    ) -> T {
        let mut tables = self.lock();
        let number = tables.n_built.entry(team).or_insert(0);
        let id = ObjectId {
            team,
            number: *number,
        };
        *number += 1;
        let (instance, built) = build(id.number);
        let entry = Built {
            instance,
            type_name,
        };
        tables.built.insert(id, entry);
        self.make_ready(&mut tables, id);
        built
    }

    fn make_ready(&self, tables: &mut Tables, id: ObjectId) {
        let called = tables.waiting.remove(&id).unwrap_or_default();
        self.n_waiting.fetch_sub(called.len(), Ordering::Relaxed);
        tables.ready.extend(called);
        self.n_ready.store(tables.ready.len(), Ordering::Relaxed);
    }

    /// Lets the calls go on that wait for an object of a team that this rank has no handle on any
    /// more. It cannot build the object, and they fail when they are served.
    #[inline]
    pub(crate) fn give_up(&self, has_handle: impl Fn(u64) -> bool) {
        if self.n_waiting.load(Ordering::Relaxed) > 0 {
            self.give_up_waiting(has_handle);
        }
    }

    #[cold]
    fn give_up_waiting(&self, has_handle: impl Fn(u64) -> bool) {
        // The tables are not locked while teams are looked up.
        let mut ids: Vec<_> = self.lock().waiting.keys().copied().collect();
        ids.retain(|id| !has_handle(id.team));
        for id in ids {
            self.make_ready(&mut self.lock(), id);
        }
    }

    /// Removes a dropped object.
    pub(crate) fn remove(&self, id: ObjectId) {
        self.lock().built.remove(&id);
    }

    /// The instance with this name, unless it was dropped.
    pub(crate) fn find(&self, id: ObjectId) -> Result<Option<Arc<dyn Any + Send + Sync>>> {
        let tables = self.lock();
        let built = tables.built.get(&id);
        if let Some(instance) = built.and_then(|built| built.instance.upgrade()) {
            self.named[0].store(id.team, Ordering::Relaxed);
            self.named[1].store(id.number + 1, Ordering::Relaxed);
            return Ok(Some(instance));
        }
        let n_built = tables.n_built.get(&id.team).copied().unwrap_or(0);
        if id.number < n_built {
            return Ok(None);
        }
        Err(Error::NotBuilt(id.number, id.team))
    }

    /// A call begins that has named no object yet.
    #[inline]
    pub(crate) fn forget_named(&self) {
        self.named[1].store(0, Ordering::Relaxed);
    }

    /// The object that the served call names, for a report.
    pub(crate) fn named_last(&self) -> Option<String> {
        let [team, number] = [0, 1].map(|i| self.named[i].load(Ordering::Relaxed));
        let number = number.checked_sub(1)?;
        let id = ObjectId { team, number };
        let name = self.lock().built.get(&id).map(|built| built.type_name);
        Some(match name {
            Some(name) => format!("{id} ({name})"),
            None => id.to_string(),
        })
    }

    /// Keeps a call until the object that it names is built.
    #[cold]
    pub(crate) fn set_aside(&self, message: &Message<'_>, number: u64, team: u64) -> Result<()> {
        let id = ObjectId { team, number };
        let mut tables = self.lock();
        let call = SetAside::of(message);
        // Another thread may have built the object since, and dropped it again.
        let n_built = tables.n_built.get(&team).copied().unwrap_or(0);
        if number < n_built {
            tables.ready.push_back(call);
            self.n_ready.store(tables.ready.len(), Ordering::Relaxed);
            return Ok(());
        }
        if self.n_waiting.load(Ordering::Relaxed) >= MAX_SET_ASIDE {
            let text =
                format!("{MAX_SET_ASIDE} calls wait for objects that are not built, one for {id}");
            return Err(unreadable::<ObjectId>(text));
        }
        self.n_waiting.fetch_add(1, Ordering::Relaxed);
        match tables.waiting.entry(id) {
            Entry::Occupied(mut calls) => calls.get_mut().push(call),
            Entry::Vacant(calls) => {
                calls.insert(vec![call]);
            }
        }
        Ok(())
    }

    /// Lets calls go on that were put off.
    #[cold]
    pub(crate) fn go_on(&self, calls: Vec<SetAside>) {
        let mut tables = self.lock();
        tables.ready.extend(calls);
        self.n_ready.store(tables.ready.len(), Ordering::Relaxed);
    }

    /// The number of calls, of the `counted` handlers, that wait for an unbuilt object or are ready
    /// to run.
    pub(crate) fn n_set_aside(&self, counted: impl Fn(HandlerId) -> bool) -> usize {
        let tables = self.lock();
        let calls = tables.waiting.values().flatten().chain(&tables.ready);
        calls.filter(|call| counted(call.handler)).count()
    }

    /// Whether calls can be made.
    pub(crate) fn has_ready(&self) -> bool {
        self.n_ready.load(Ordering::Relaxed) > 0
    }

    /// Runs the calls whose object has been built, by `call`.
    #[inline]
    pub(crate) fn advance(&self, call: impl FnMut(Message<'_>)) -> bool {
        self.n_ready.load(Ordering::Relaxed) > 0 && self.call_ready(call)
    }

    #[cold]
    fn call_ready(&self, mut call: impl FnMut(Message<'_>)) -> bool {
        // Run those that are ready now; one that is set aside again may be ready at once.
        let n = self.lock().ready.len();
        for _ in 0..n {
            // The tables are not locked while functions run: they may name and build objects.
            let Some(set_aside) = self.next_ready() else {
                break;
            };
            call(set_aside.message());
        }
        n > 0
    }

    fn next_ready(&self) -> Option<SetAside> {
        let mut tables = self.lock();
        let next = tables.ready.pop_front();
        self.n_ready.store(tables.ready.len(), Ordering::Relaxed);
        next
    }
}

#[cfg(test)]
mod tests {
    use pgas_core::Rank;
    use pgas_core::backend::MessageClass;

    use crate::ids::CALL_FF;

    use super::*;

    const TEAM: u64 = 7;

    /// Runs the ready calls and returns them.
    fn called(objects: &Objects) -> Vec<Vec<u8>> {
        let mut called = Vec::new();
        let advanced = objects.advance(|message| {
            called.push(message.payload.to_vec());
        });
        assert_eq!(advanced, !called.is_empty());
        called
    }

    #[test]
    fn a_call_that_names_an_object_is_made_when_that_is_built() {
        let objects = Objects::default();
        let object: Arc<dyn Any + Send + Sync> = Arc::new(5_u64);
        let set_aside = |payload: &[u8]| {
            let message = Message {
                from: Rank::ZERO,
                class: MessageClass::Request,
                handler: CALL_FF,
                payload,
            };
            objects.set_aside(&message, 0, TEAM).unwrap();
        };
        let id = ObjectId {
            team: TEAM,
            number: 0,
        };
        let not_built = objects.find(id).unwrap_err();
        assert!(matches!(not_built, Error::NotBuilt(0, TEAM)));
        set_aside(b"early");
        set_aside(b"as early");
        assert!(!objects.has_ready() && called(&objects).is_empty());
        assert_eq!(objects.n_set_aside(|id| id == CALL_FF), 2);
        objects.add(TEAM, "u64", |named| {
            assert_eq!(named, id.number);
            (Arc::downgrade(&object), ())
        });
        assert!(objects.has_ready() && objects.find(id).unwrap().is_some());
        assert_eq!(called(&objects), [b"early".to_vec(), b"as early".to_vec()]);
        assert_eq!(objects.n_set_aside(|_| true), 0);
        // The object was being built when the call came.
        set_aside(b"late");
        assert_eq!(called(&objects), [b"late"]);
        assert!(!objects.has_ready());
        drop(object);
        assert!(objects.find(id).unwrap().is_none());
    }
}
