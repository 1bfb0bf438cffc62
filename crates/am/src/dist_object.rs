//! Distributed objects: one instance a rank, all under one name.
//!
//! The name is the team and the number of the object among those that the team has built, so that it costs no communication and
//! no table of ranks; all members build their objects in the same order. As the argument of a remote call an
//! object arrives as the target's own instance. A call that comes before the target has built it is set
//! aside until then, and holds nothing else up.

use std::any::{Any, type_name};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pgas_core::backend::{HandlerId, Message, MessageClass};
use pgas_core::{Rank, Team};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::codec::{Codec, Decoder, Encoder, Wire, unreadable};
use crate::layer::{Am, am};
use crate::rpc::TakesPlace;
use crate::{Error, PgasFuture, Result, TeamCalls};

/// Calls that wait for objects, at most.
const MAX_SET_ASIDE: usize = 1 << 16;

/// What an object is called on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct ObjectId {
    team: u64,
    number: u64,
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

/// An object with an instance on every rank of a team, of which this is a handle on the rank's own.
///
/// It dereferences to the instance; clones are handles on the same one. The instance lives until the last handle is
/// dropped: drop it after all calls that name it have run, as after a [`quiet`](crate::quiet) or a barrier
/// behind waited-for calls. A later call is answered by an error; of one-way ones the next [`quiet`](crate::quiet) tells all ranks.
///
/// A guard of a lock inside of it must not be held across a call that waits: a call that arrives there and wants the lock waits for
/// its own thread. After `PGAS_STALL` such a call is reported, with the object that it names.
///
/// # Examples
///
/// ```
/// use std::sync::Mutex;
/// use pgas_am::{DistObject, RemoteCalls};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let list = DistObject::new(&world.team(), Mutex::new(Vec::new()))?; // by all ranks
/// let push = |(list, x): (DistObject<Mutex<Vec<u64>>>, u64)| list.lock().unwrap().push(x);
/// world.rpc(world.rank(), push, (list.clone(), 7))?.wait()?;
/// assert_eq!(*list.lock().unwrap(), [7]);
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub struct DistObject<T: Send + Sync + 'static> {
    instance: Arc<Instance<T>>,
}

struct Instance<T> {
    value: T,
    id: ObjectId,
    team: Team,
    am: Weak<Am>,
}

impl<T> Drop for Instance<T> {
    fn drop(&mut self) {
        if let Some(am) = self.am.upgrade() {
            am.objects.lock().built.remove(&self.id);
        }
    }
}

impl<T: Send + Sync + 'static> DistObject<T> {
    /// Builds this rank's instance. Waits for nobody: calls for it that come to other ranks before they have built
    /// theirs are set aside there.
    ///
    /// # Cost
    ///
    /// l. Collective over the team, without communication.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`].
    pub fn new(team: &Team, value: T) -> Result<Self> {
        let am = am(team.world())?;
        let mut objects = am.objects.lock();
        let number = objects.n_built.entry(team.id().bits()).or_insert(0);
        let id = ObjectId {
            team: team.id().bits(),
            number: *number,
        };
        *number += 1;
        let instance = Arc::new(Instance {
            value,
            id,
            team: team.clone(),
            am: Arc::downgrade(am),
        });
        let erased: Weak<dyn Any + Send + Sync> = {
            let weak: Weak<Instance<T>> = Arc::downgrade(&instance);
            weak
        };
        let built = Built {
            instance: erased,
            type_name: type_name::<T>(),
        };
        objects.built.insert(id, built);
        let called = objects.waiting.remove(&id).unwrap_or_default();
        objects.n_waiting -= called.len();
        objects.ready.extend(called);
        am.objects
            .n_ready
            .store(objects.ready.len(), Ordering::Relaxed);
        Ok(Self { instance })
    }

    /// The team whose members have an instance.
    #[must_use]
    pub fn team(&self) -> &Team {
        &self.instance.team
    }
}

impl<T: Wire + Clone + Send + Sync> DistObject<T> {
    /// A copy of the instance of `member`, when that has built it.
    ///
    /// Progress: as [`RemoteCalls::rpc`](crate::RemoteCalls::rpc).
    ///
    /// # Cost
    ///
    /// Two messages.
    ///
    /// # Errors
    ///
    /// [`Error::NotAMember`], and as [`RemoteCalls::rpc`](crate::RemoteCalls::rpc).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::DistObject;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let number = DistObject::new(&world.team(), 10 * world.rank().number())?;
    /// assert_eq!(number.fetch(0)?.wait()?, 0);
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    pub fn fetch(&self, member: u32) -> Result<PgasFuture<T>> {
        let copy = |object: Self| T::clone(&object);
        self.team().rpc(member, copy, self.clone())
    }
}

impl<T: Send + Sync + 'static> Deref for DistObject<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.instance.value
    }
}

impl<T: Send + Sync + 'static> Clone for DistObject<T> {
    fn clone(&self) -> Self {
        Self {
            instance: Arc::clone(&self.instance),
        }
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for DistObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DistObject({})", self.instance.id)
    }
}

impl<T: Send + Sync + 'static> Wire for DistObject<T> {
    type By = TakesPlace;
}

impl<T: Send + Sync + 'static> Codec<DistObject<T>> for TakesPlace {
    fn encode(object: &DistObject<T>, out: &mut Encoder) -> Result<()> {
        out.write(object.instance.id.as_bytes());
        Ok(())
    }

    fn decode(input: &mut Decoder<'_>) -> Result<DistObject<T>> {
        let bytes = input.take::<DistObject<T>>(size_of::<ObjectId>())?;
        let id = ObjectId::read_from_bytes(bytes).expect("as many bytes as were taken");
        let no_world = || unreadable::<DistObject<T>>("a result has no distributed objects");
        let am = am(input.world().ok_or_else(no_world)?)?;
        let instance = am.objects.find(id)?;
        let Ok(instance) = instance.downcast::<Instance<T>>() else {
            let wanted = type_name::<T>();
            let text =
                format!("{id} is no {wanted} here: the ranks built objects in different orders");
            return Err(unreadable::<DistObject<T>>(text));
        };
        Ok(DistObject { instance })
    }
}

/// The objects of a rank.
#[derive(Default)]
pub(crate) struct Objects {
    tables: Mutex<Tables>,
    /// A hint that saves `advance` the lock.
    n_ready: AtomicUsize,
    /// The object that the call which is served names, last if several: its team, and its number plus one.
    named: [AtomicU64; 2],
}

#[derive(Default)]
struct Tables {
    /// How many each team has built.
    n_built: HashMap<u64, u64>,
    built: HashMap<ObjectId, Built>,
    /// Calls that name an object that is not built yet.
    waiting: HashMap<ObjectId, Vec<SetAside>>,
    n_waiting: usize,
    /// Calls whose object has been built.
    ready: VecDeque<SetAside>,
}

struct Built {
    instance: Weak<dyn Any + Send + Sync>,
    type_name: &'static str,
}

/// A call that was set aside.
struct SetAside {
    from: Rank,
    handler: HandlerId,
    payload: Vec<u8>,
}

impl SetAside {
    fn of(message: &Message<'_>) -> Self {
        Self {
            from: message.from,
            handler: message.handler,
            payload: message.payload.to_vec(),
        }
    }
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

    /// The instance with this name.
    fn find(&self, id: ObjectId) -> Result<Arc<dyn Any + Send + Sync>> {
        let tables = self.lock();
        let built = tables.built.get(&id);
        if let Some(instance) = built.and_then(|built| built.instance.upgrade()) {
            self.named[0].store(id.team, Ordering::Relaxed);
            self.named[1].store(id.number + 1, Ordering::Relaxed);
            return Ok(instance);
        }
        let n_built = tables.n_built.get(&id.team).copied().unwrap_or(0);
        if id.number < n_built {
            let text = format!("{id} was dropped while calls that name it were under way");
            return Err(unreadable::<ObjectId>(text));
        }
        Err(Error::NotBuilt(id.number, id.team))
    }

    /// A call begins that has named no object yet.
    #[inline]
    pub(crate) fn forget_named(&self) {
        self.named[1].store(0, Ordering::Relaxed);
    }

    /// The object that the call which is served names, for a report.
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
        // It may have been built by another thread since.
        if tables.built.contains_key(&id) {
            tables.ready.push_back(call);
            self.n_ready.store(tables.ready.len(), Ordering::Relaxed);
            return Ok(());
        }
        if tables.n_waiting >= MAX_SET_ASIDE {
            let text =
                format!("{MAX_SET_ASIDE} calls wait for objects that are not built, one for {id}");
            return Err(unreadable::<ObjectId>(text));
        }
        tables.n_waiting += 1;
        match tables.waiting.entry(id) {
            Entry::Occupied(mut calls) => calls.get_mut().push(call),
            Entry::Vacant(calls) => {
                calls.insert(vec![call]);
            }
        }
        Ok(())
    }

    /// Keeps a call for the next round of progress.
    #[cold]
    pub(crate) fn put_off(&self, message: &Message<'_>) {
        let mut tables = self.lock();
        tables.ready.push_back(SetAside::of(message));
        self.n_ready.store(tables.ready.len(), Ordering::Relaxed);
    }

    /// How many calls wait for an object that is not built, or to be made, of the handlers that are `counted`.
    pub(crate) fn n_set_aside(&self, counted: impl Fn(HandlerId) -> bool) -> usize {
        let tables = self.lock();
        let calls = tables.waiting.values().flatten().chain(&tables.ready);
        calls.filter(|call| counted(call.handler)).count()
    }

    /// Whether calls can be made.
    pub(crate) fn has_ready(&self) -> bool {
        self.n_ready.load(Ordering::Relaxed) > 0
    }

    /// Makes the calls whose object has been built, by `call`.
    #[inline]
    pub(crate) fn advance(
        &self,
        call: impl FnMut(Message<'_>) -> pgas_core::Result<()>,
    ) -> pgas_core::Result<bool> {
        if self.n_ready.load(Ordering::Relaxed) == 0 {
            return Ok(false);
        }
        self.call_ready(call)
    }

    #[cold]
    fn call_ready(
        &self,
        mut call: impl FnMut(Message<'_>) -> pgas_core::Result<()>,
    ) -> pgas_core::Result<bool> {
        // Those that are there now; one that has to wait again comes behind them.
        let n = self.lock().ready.len();
        let mut failure = None;
        for _ in 0..n {
            // The tables are not locked while functions run: they may name and build objects.
            let Some(set_aside) = self.next_ready() else {
                break;
            };
            let called = call(Message {
                from: set_aside.from,
                class: MessageClass::Request,
                handler: set_aside.handler,
                payload: &set_aside.payload,
            });
            if let Err(error) = called {
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(n > 0), Err)
    }

    fn next_ready(&self) -> Option<SetAside> {
        let mut tables = self.lock();
        let next = tables.ready.pop_front();
        self.n_ready.store(tables.ready.len(), Ordering::Relaxed);
        next
    }
}
