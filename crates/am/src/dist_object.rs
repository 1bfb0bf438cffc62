//! Distributed objects: an instance on each rank, under one name.
//!
//! An object's name is its team and its number among the objects of the team. So it costs no
//! communication and no table of ranks; all members build their objects in the same order. As the
//! argument of a remote call an object arrives as the target's own instance. A call that arrives
//! before the target has built the instance is set aside until then, and delays no other call.

use std::any::{Any, type_name};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use pgas_core::{AsTeam, Error, Member, Team};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::codec::{Codec, Decoder, Each, Encoder, Wire, unreadable};
use crate::future::PgasFuture;
use crate::objects::ObjectId;
use crate::rpc::{RemoteCalls, TakesPlace};
use crate::state::{Am, am};
use crate::teams::TeamName;
use pgas_core::Result;

/// An object with an instance on every rank of a team; this is a handle on the rank's own instance.
///
/// It dereferences to the instance; clones are handles on the same instance. The instance lives
/// until the last handle is dropped. Drop it only when all calls that name it have run: after a
/// [`quiet`](crate::quiet), or after a barrier if all calls were waited for. A later call is
/// answered by an error; after a later one-way call the next [`quiet`](crate::quiet) returns an
/// error on all ranks.
///
/// Do not hold a guard of a lock in the instance across a call that waits: a remote call that runs
/// meanwhile and needs the lock would block its own thread for ever. After `PGAS_STALL` such a call
/// is reported, with the object that it names.
///
/// # Examples
///
/// ```
/// use std::sync::Mutex;
/// use pgas_am::{DistObject, RemoteCalls};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let list = DistObject::new(&world, Mutex::new(Vec::new()))?; // by all ranks
/// let push = |(list, x): (DistObject<Mutex<Vec<u64>>>, u64)| list.lock().unwrap().push(x);
/// world.rpc(world.rank(), push, (list.clone(), 7))?.wait()?;
/// assert_eq!(*list.lock().unwrap(), [7]);
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub struct DistObject<T> {
    instance: Arc<Instance<T>>,
}

struct Instance<T> {
    value: T,
    name: ObjectName,
    team: Team,
    am: Weak<Am>,
}

/// An object in a message.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct ObjectName {
    number: u64,
    team: TeamName,
}

impl ObjectName {
    fn id(&self) -> ObjectId {
        ObjectId::new(self.team.id(), self.number)
    }
}

impl<T> Drop for Instance<T> {
    fn drop(&mut self) {
        if let Some(am) = self.am.upgrade() {
            am.objects.remove(self.name.id());
        }
    }
}

impl<T: Send + Sync + 'static> DistObject<T> {
    /// Builds this rank's instance of an object on the world or on a team. Does not wait for other
    /// ranks: calls that reach a member before it has built its instance wait there. Those that
    /// reach other ranks fail.
    ///
    /// # Cost
    ///
    /// ℓ. Collective over the team, without communication.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`](pgas_core::Error::NotAttached).
    pub fn new(on: &impl AsTeam, value: T) -> Result<Self> {
        let team = on.as_team();
        let am = am(team.world())?;
        let build = |number| {
            let name = ObjectName {
                number,
                team: TeamName::of(&team),
            };
            let instance = Arc::new(Instance {
                value,
                name,
                team: team.clone(),
                am: Arc::downgrade(am),
            });
            let weak: Weak<Instance<T>> = Arc::downgrade(&instance);
            let erased: Weak<dyn Any + Send + Sync> = weak;
            (erased, instance)
        };
        let instance = am.objects.add(team.id().bits(), type_name::<T>(), build);
        Ok(Self { instance })
    }

    /// The team whose members have an instance.
    #[must_use]
    pub fn team(&self) -> &Team {
        &self.instance.team
    }

    /// The object's number in the team: the same on all members, and unique among the team's
    /// objects.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::DistObject;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let (one, other) = (DistObject::new(&world, 1)?, DistObject::new(&world, 2)?);
    /// assert_ne!(one.number(), other.number());
    /// assert_eq!(one.clone().number(), one.number());
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    #[must_use]
    pub fn number(&self) -> u64 {
        self.instance.name.number
    }
}

impl<T: Wire + Clone + Send + Sync> DistObject<T> {
    /// A future of a copy of the instance of `member`, which is named by its
    /// [`Rank`](pgas_core::Rank) or by its number in the team. It is ready after that member has
    /// built its instance.
    ///
    /// Progress: as [`RemoteCalls::rpc`](crate::RemoteCalls::rpc).
    ///
    /// # Cost
    ///
    /// M: two messages.
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::rpc`](crate::RemoteCalls::rpc).
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::DistObject;
    /// use pgas_core::Rank;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let number = DistObject::new(&world, 10 * world.rank().number())?;
    /// assert_eq!(number.fetch(Rank::ZERO)?.wait()?, 0);
    /// assert_eq!(number.fetch(number.team().rank())?.wait()?, *number); // of member 0 here
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    #[track_caller]
    pub fn fetch(&self, member: impl Member) -> Result<PgasFuture<T>> {
        let copy = |object: Self| T::clone(&object);
        let to = member.rank_in(self.team());
        self.team().world().rpc(to, copy, self.clone())
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
        write!(f, "DistObject({})", self.instance.name.id())
    }
}

impl<T: Send + Sync + 'static> Wire for DistObject<T> {
    type By = TakesPlace;
}

impl<T: Send + Sync + 'static> Codec<DistObject<T>> for TakesPlace {
    type Array<const N: usize> = Each<Self>;

    fn encode(object: &DistObject<T>, out: &mut Encoder) -> Result<()> {
        out.write(object.instance.name.as_bytes());
        Ok(())
    }

    fn decode(input: &mut Decoder<'_>) -> Result<DistObject<T>> {
        let (name, instance) = find(input)?;
        instance.ok_or_else(|| {
            let id = name.id();
            let text = format!("{id} was dropped while calls that name it were under way");
            unreadable::<DistObject<T>>(text)
        })
    }
}

/// Decodes the name of an object from `input` and finds its instance; `None` if it was dropped.
fn find<T: Send + Sync + 'static>(
    input: &mut Decoder<'_>,
) -> Result<(ObjectName, Option<DistObject<T>>)> {
    let bytes = input.take::<DistObject<T>>(size_of::<ObjectName>())?;
    let name = ObjectName::read_from_bytes(bytes).expect("as many bytes as were taken");
    let id = name.id();
    let no_world = || unreadable::<DistObject<T>>("a result has no distributed objects");
    let world = input.world().ok_or_else(no_world)?;
    let found = am(world)?.objects.find(id);
    if let Err(Error::NotBuilt(..)) = found {
        // Only members build it. The call waits for the split, too, that makes the team.
        name.team.find::<DistObject<T>>(world)?;
    }
    let Some(instance) = found? else {
        return Ok((name, None));
    };
    let Ok(instance) = instance.downcast::<Instance<T>>() else {
        let wanted = type_name::<T>();
        let text = format!("{id} is no {wanted} here: the ranks built objects in different orders");
        return Err(unreadable::<DistObject<T>>(text));
    };
    Ok((name, Some(DistObject { instance })))
}

/// A distributed object that may have been dropped. As the argument of a call it arrives as the
/// target's own instance, if the target still has it.
///
/// # Examples
///
/// ```
/// use pgas_am::{DistObject, RemoteCalls, WeakObject};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let number = DistObject::new(&world, 7_u64)?; // by all ranks
/// let weak = number.downgrade();
/// let ask = |number: WeakObject<u64>| number.upgrade().map(|number| *number);
/// assert_eq!(world.rpc(world.rank(), ask, weak.clone())?.wait()?, Some(7));
/// drop(number);
/// assert_eq!(world.rpc(world.rank(), ask, weak)?.wait()?, None);
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub struct WeakObject<T> {
    name: ObjectName,
    instance: Weak<Instance<T>>,
}

impl<T: Send + Sync + 'static> DistObject<T> {
    /// The object as a [`WeakObject`], which does not keep the instance.
    ///
    /// # Examples
    ///
    /// See [`WeakObject`].
    #[must_use]
    pub fn downgrade(&self) -> WeakObject<T> {
        WeakObject {
            name: self.instance.name,
            instance: Arc::downgrade(&self.instance),
        }
    }
}

impl<T: Send + Sync + 'static> WeakObject<T> {
    /// This rank's instance, unless it was dropped.
    #[must_use]
    pub fn upgrade(&self) -> Option<DistObject<T>> {
        let instance = self.instance.upgrade()?;
        Some(DistObject { instance })
    }
}

impl<T: Send + Sync + 'static> Clone for WeakObject<T> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            instance: Weak::clone(&self.instance),
        }
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for WeakObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeakObject({})", self.name.id())
    }
}

impl<T: Send + Sync + 'static> Wire for WeakObject<T> {
    type By = TakesPlace;
}

impl<T: Send + Sync + 'static> Codec<WeakObject<T>> for TakesPlace {
    type Array<const N: usize> = Each<Self>;

    fn encode(object: &WeakObject<T>, out: &mut Encoder) -> Result<()> {
        out.write(object.name.as_bytes());
        Ok(())
    }

    fn decode(input: &mut Decoder<'_>) -> Result<WeakObject<T>> {
        let (name, found) = find::<T>(input)?;
        let instance = found.map_or_else(Weak::new, |object| Arc::downgrade(&object.instance));
        Ok(WeakObject { name, instance })
    }
}
