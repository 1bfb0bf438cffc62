//! Operations on many elements in the memory of any ranks, in one call.
//!
//! If ranks serve requests, operations are sent to the ranks that hold the elements, many in a
//! message and to all of them at once. Otherwise gets and puts are one fragmented transfer, and
//! atomics follow one another.

use std::marker::PhantomData;

use pgas_am::DistObject;
use pgas_core::atomics::{Atomic, AtomicNumber};
use pgas_core::backend::AtomicOp;
use pgas_core::rma::Fragment;
use pgas_core::{GlobalPtr, Pod, Rank, Team, World, in_handler, keep_line};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Result;
use crate::object::{Heap, mix};
use crate::requests::{self, Batch, Operation, Sent, Way, With};

/// The object that requests on an array or a filter name.
pub(crate) type Served = DistObject<World>;

/// The object of a new array or filter, if ranks serve requests. Collective.
pub(crate) fn serve(team: &Team) -> Option<Served> {
    let world = team.world();
    let is_served = world.capabilities().ranks_serve_atomics();
    // To a world without messages none was attached, on all ranks.
    let named = is_served.then(|| DistObject::new(team, world.clone()).ok());
    named.flatten()
}

/// An operation on an element.
pub(crate) trait Act: 'static {
    type Given: Pod;
    type Answer: Pod;
    /// Whether operations on one element have to be done in their order.
    const IS_ORDERED: bool = false;
    const CHANGES: bool = true;

    fn act(world: &World, at: GlobalPtr<u8>, given: Self::Given) -> Result<Self::Answer>;
}

struct Read<T>(PhantomData<T>);

impl<T: Pod> Act for Read<T> {
    type Given = ();
    type Answer = T;
    const CHANGES: bool = false;

    fn act(world: &World, at: GlobalPtr<u8>, (): ()) -> Result<T> {
        at.cast().get(world)
    }
}

struct Write<T>(PhantomData<T>);

impl<T: Pod> Act for Write<T> {
    type Given = T;
    type Answer = u8;

    fn act(world: &World, at: GlobalPtr<u8>, value: T) -> Result<u8> {
        at.cast().put(world, value)?;
        Ok(1)
    }
}

/// Atomics that return the former value, by the method of [`GlobalPtr`].
macro_rules! fetching {
    ($($name:ident of $bound:ident: $method:ident;)*) => { $(
        /// An atomic that returns the former value.
        pub(crate) struct $name<T>(PhantomData<T>);

        impl<T: $bound> Act for $name<T> {
            type Given = T;
            type Answer = T;

            fn act(world: &World, at: GlobalPtr<u8>, value: T) -> Result<T> {
                at.cast::<T>().$method(world, value)
            }
        }
    )* };
}

fetching! {
    Swap of Atomic: swap;
    FetchAdd of AtomicNumber: fetch_add;
    FetchMax of AtomicNumber: fetch_max;
    FetchMin of AtomicNumber: fetch_min;
}

struct Add<T>(PhantomData<T>);

impl<T: AtomicNumber> Act for Add<T> {
    type Given = T;
    type Answer = u8;

    fn act(world: &World, at: GlobalPtr<u8>, n: T) -> Result<u8> {
        at.cast::<T>().fetch_add(world, n)?;
        Ok(1)
    }
}

/// The values of a compare-and-swap.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
pub(crate) struct Exchange<T> {
    current: T,
    new: T,
}

impl<T> Exchange<T> {
    pub(crate) fn new(current: T, new: T) -> Self {
        Self { current, new }
    }
}

struct CompareExchange<T>(PhantomData<T>);

impl<T: Atomic> Act for CompareExchange<T> {
    type Given = Exchange<T>;
    /// The former value, which tells whether it was replaced.
    type Answer = T;

    fn act(world: &World, at: GlobalPtr<u8>, values: Exchange<T>) -> Result<T> {
        let Exchange { current, new } = values;
        let exchanged = at.cast::<T>().compare_exchange(world, current, new)?;
        Ok(exchanged.unwrap_or_else(|there| there))
    }
}

/// An element in a request.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
struct At<G> {
    ptr: u64,
    given: G,
}

/// `A` as an operation on elements of any rank.
struct Scattered<A>(PhantomData<A>);

impl<A: Act> Operation for Scattered<A> {
    type On = World;
    type Request = At<A::Given>;
    type Answer = Sent<A::Answer>;

    const IS_ORDERED: bool = A::IS_ORDERED;
    const CHANGES: bool = A::CHANGES;

    fn is_local(world: &World, rank: Rank) -> bool {
        world.is_direct(rank) || rank == world.rank()
    }

    fn serve(
        world: &World,
        rank: Rank,
        requests: &[Self::Request],
        _parcel: &Heap,
        _answered: &Heap,
    ) -> Vec<Self::Answer> {
        let act = |at: &At<A::Given>| A::act(world, GlobalPtr::from_bits(at.ptr), at.given).ok();
        let answers: Vec<_> = requests.iter().map_while(act).map(Sent).collect();
        // Flush, so that a rank that the asking rank tells finds what was written.
        match world.flush(rank) {
            Ok(()) => answers,
            Err(_) => Vec::new(),
        }
    }
}

/// Requests `A` on elements. `take` receives the answers, and performs operations without an
/// answer.
#[track_caller]
pub(crate) fn travel<A: Act>(
    served: &Served,
    elements: impl Iterator<Item = (GlobalPtr<u8>, A::Given)>,
    mut take: impl FnMut(usize, Option<A::Answer>) -> Result<()>,
) -> Result<()> {
    // An error of a handler between two messages would leave the rest undone.
    let _line = keep_line();
    let take = &mut |i: usize, answer: Option<With<'_, Sent<_>>>| {
        take(i, answer.map(|(Sent(answer), _)| answer))
    };
    let mut batch = Batch::<Scattered<A>>::new(served, elements.size_hint().0);
    for (i, (ptr, given)) in elements.enumerate() {
        let at = At {
            ptr: ptr.to_bits(),
            given,
        };
        let way = Way {
            index: ptr.rank().number(),
            to: || ptr.rank(),
            // Ordered operations on one element stay in their order.
            key: mix(at.ptr),
        };
        if !batch.push(i, way, |_| Ok(at), take) {
            break;
        }
    }
    Ok(batch.finish(take)?)
}

/// Requests `A` on one element of another rank; `None` if it has to be one-sided.
pub(crate) fn one<A: Act>(
    served: Option<&Served>,
    at: GlobalPtr<u8>,
    given: A::Given,
) -> Result<Option<A::Answer>> {
    let is_remote = |served: &&Served| !Scattered::<A>::is_local(served, at.rank());
    let Some(served) = asked(served).filter(is_remote) else {
        return Ok(None);
    };
    let request = At {
        ptr: at.to_bits(),
        given,
    };
    let request = (request, Heap::parcel(Vec::new()));
    let answer = requests::ask::<Scattered<A>>(served, at.rank(), request)?;
    Ok(answer.map(|(Sent(answer), _)| answer))
}

/// The object to name in requests, unless the caller must not wait.
pub(crate) fn asked(served: Option<&Served>) -> Option<&Served> {
    served.filter(|_| !in_handler())
}

pub(crate) fn get<T: Pod>(
    served: Option<&Served>,
    world: &World,
    elements: &[GlobalPtr<T>],
) -> Result<Vec<T>> {
    let n = elements.len();
    let mut out = T::new_vec_zeroed(n).expect("memory for the elements");
    let Some(served) = asked(served) else {
        world.get_fragments(&fragments(elements.iter().copied()), &mut out)?;
        return Ok(out);
    };
    let sought = elements.iter().map(|ptr| (ptr.cast(), ()));
    travel::<Read<T>>(served, sought, |i, value| {
        out[i] = match value {
            Some(value) => value,
            None => elements[i].get(world)?,
        };
        Ok(())
    })?;
    Ok(out)
}

pub(crate) fn put<T: Pod>(
    served: Option<&Served>,
    world: &World,
    elements: &[(GlobalPtr<T>, T)],
) -> Result<()> {
    let Some(served) = asked(served) else {
        let values: Vec<T> = elements.iter().map(|(_, value)| *value).collect();
        let at = elements.iter().map(|(ptr, _)| *ptr);
        return world.put_fragments(&fragments(at), &values);
    };
    let given = elements.iter().map(|(ptr, value)| (ptr.cast(), *value));
    travel::<Write<T>>(served, given, |i, is_done| {
        if is_done.is_none() {
            let (ptr, value) = elements[i];
            ptr.put(world, value)?;
        }
        Ok(())
    })
}

/// Performs an atomic on each element and returns the answers: former values.
pub(crate) fn fetch<A: Act<Answer = T>, T: Pod>(
    served: Option<&Served>,
    world: &World,
    elements: &[(GlobalPtr<T>, A::Given)],
) -> Result<Vec<T>> {
    let one = |(ptr, given): &(GlobalPtr<T>, A::Given)| A::act(world, ptr.cast(), *given);
    let Some(served) = asked(served) else {
        return elements.iter().map(one).collect();
    };
    let mut former = T::new_vec_zeroed(elements.len()).expect("memory for the elements");
    let given = elements.iter().map(|(ptr, given)| (ptr.cast(), *given));
    travel::<A>(served, given, |i, was| {
        former[i] = match was {
            Some(was) => was,
            None => one(&elements[i])?,
        };
        Ok(())
    })?;
    Ok(former)
}

/// The former value of each element: `Ok` if it was replaced.
pub(crate) fn compare_exchange<T: Atomic>(
    served: Option<&Served>,
    world: &World,
    elements: &[(GlobalPtr<T>, Exchange<T>)],
) -> Result<Vec<std::result::Result<T, T>>> {
    let former = fetch::<CompareExchange<T>, _>(served, world, elements)?;
    let outcomes = former.into_iter().zip(elements).map(|(was, (_, values))| {
        let current = values.current;
        // Bits are compared, as by the atomic.
        let is_replaced = was.to_bits() == current.to_bits();
        if is_replaced { Ok(was) } else { Err(was) }
    });
    Ok(outcomes.collect())
}

pub(crate) fn add<T: AtomicNumber>(
    served: Option<&Served>,
    world: &World,
    elements: &[(GlobalPtr<T>, T)],
) -> Result<()> {
    let one = |(ptr, n): &(GlobalPtr<T>, T)| ptr.atomic_op(world, AtomicOp::Add, *n);
    let Some(served) = asked(served) else {
        return elements.iter().try_for_each(one);
    };
    let given = elements.iter().map(|(ptr, n)| (ptr.cast(), *n));
    travel::<Add<T>>(served, given, |i, is_done| match is_done {
        Some(_) => Ok(()),
        None => one(&elements[i]),
    })
}

fn fragments<T>(elements: impl Iterator<Item = GlobalPtr<T>>) -> Vec<Fragment<T>> {
    elements.map(|ptr| Fragment { ptr, len: 1 }).collect()
}
