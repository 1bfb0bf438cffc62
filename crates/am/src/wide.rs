//! Compare-and-swap of elements of 16 bytes, such as a pointer and its version.
//!
//! Ranks that have the memory mapped use the processor's instruction. For the others the owner does
//! it, as a remote call: no network of today has atomics of 16 bytes.

use std::sync::{Mutex, PoisonError};

use pgas_core::{Error, GlobalPtr, Pod, Result, World, in_handler};
use zerocopy::{FromBytes, IntoBytes};

use crate::future::PgasFuture;
use crate::rpc::{Here, RemoteCalls};

/// Atomics on an element of 16 bytes that is aligned to 16, such as a pointer with a version or a
/// count beside it; in the prelude.
///
/// With a version that every change increments, a compare-and-swap fails also where a pointer has
/// changed to another one and back (the ABA problem).
///
/// They are atomic with respect to each other. Where [`World::has_direct_atomics`] is true they
/// also are with respect to all atomics on a half of the element. A put or a get of the element is
/// not: it may meet a half of a change.
///
/// The ones that wait make progress at user level if the owner is not on this host, since the owner
/// has to take part. Inside a handler they then return [`Error::InHandler`](pgas_core::Error::InHandler).
///
/// # Examples
///
/// A stack of blocks, which ranks push to and pop from without a lock:
///
/// ```
/// use pgas_am::WideAtomics;
/// use pgas_core::{GlobalPtr, Result, World};
/// use zerocopy::{FromBytes, Immutable, IntoBytes};
///
/// #[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)] // or `#[pgas::pod]`
/// #[repr(C, align(16))]
/// struct Top {
///     block: GlobalPtr<u64>,
///     version: u64,
/// }
///
/// fn push(world: &World, top: GlobalPtr<Top>, block: GlobalPtr<u64>) -> Result<()> {
///     let mut seen = top.load_wide(world)?;
///     loop {
///         // ... here the block would get a pointer to `seen.block`, the next one
///         let new = Top { block, version: seen.version + 1 };
///         match top.compare_exchange_wide(world, seen, new)? {
///             Ok(_) => return Ok(()),
///             Err(other) => seen = other,
///         }
///     }
/// }
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let top = world.alloc::<Top>(1)?;
/// let block = world.alloc::<u64>(1)?;
/// push(&world, top, block)?;
/// assert_eq!(top.load_wide(&world)?, Top { block, version: 1 });
/// # Ok::<(), pgas_am::Error>(())
/// ```
///
/// A type of another size or alignment does not compile:
///
/// ```compile_fail,E0080
/// use pgas_am::WideAtomics;
///
/// # let world = pgas_core::backend::loopback::world();
/// world.alloc::<[u64; 2]>(1)?.load_wide(&world)?;
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub trait WideAtomics<T: Pod> {
    /// Replaces the element by `new` if it equals `current`, byte by byte. The inner result has the
    /// former one: `Ok` if it was replaced, else `Err`.
    ///
    /// # Cost
    ///
    /// A; M if the owner's memory is not mapped here (another host, or `PGAS_DIRECT=0`). Complete
    /// at the target on return.
    ///
    /// # Errors
    ///
    /// [`NoWideAtomics`](pgas_core::Error::NoWideAtomics) if the processor has none
    /// ([`has_wide_atomics`](pgas_core::atomics::has_wide_atomics)),
    /// [`Remote`](pgas_core::Error::Remote) with its text if that of the owner has none;
    /// [`NotAttached`](pgas_core::Error::NotAttached), and errors of the call. After
    /// [`Timeout`](pgas_core::Error::Timeout) the job fails, since the swap may be carried out
    /// later.
    ///
    /// # Panics
    ///
    /// If the pointer is null, misaligned or outside of a segment.
    #[track_caller]
    fn compare_exchange_wide(self, world: &World, current: T, new: T) -> Result<Result<T, T>>;

    /// Begins a [`compare_exchange_wide`](Self::compare_exchange_wide).
    ///
    /// # Cost
    ///
    /// As that; no message and no allocation if the memory is mapped here. Complete when the future
    /// is ready.
    ///
    /// # Errors
    ///
    /// As that; then nothing was begun.
    ///
    /// # Panics
    ///
    /// As that.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::WideAtomics;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let pair = world.alloc::<u128>(1)?;
    /// assert_eq!(pair.compare_exchange_wide_nb(&world, 0, 1 << 90)?.wait()?, Ok(0));
    /// assert_eq!(pair.compare_exchange_wide_nb(&world, 0, 7)?.wait()?, Err(1 << 90));
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    #[track_caller]
    fn compare_exchange_wide_nb(
        self,
        world: &World,
        current: T,
        new: T,
    ) -> Result<PgasFuture<Result<T, T>>>;

    /// Reads the element atomically.
    ///
    /// # Cost
    ///
    /// As [`compare_exchange_wide`](Self::compare_exchange_wide), by which it reads.
    ///
    /// # Errors
    ///
    /// As that.
    ///
    /// # Panics
    ///
    /// As that.
    #[track_caller]
    fn load_wide(self, world: &World) -> Result<T>;
}

impl<T: Pod> WideAtomics<T> for GlobalPtr<T> {
    #[track_caller]
    fn compare_exchange_wide(self, world: &World, current: T, new: T) -> Result<Result<T, T>> {
        let (current, new) = (bits(current), bits(new));
        let former = match world.compare_swap_wide(place(self), current, new)? {
            Some(former) => former,
            // Refused before it is asked for: else it would be carried out all the same.
            None if in_handler() => {
                let what = "a compare-and-swap of 16 bytes by their owner";
                return Err(Error::InHandler { what });
            }
            None => ask(world, place(self), current, new)?.wait()?,
        };
        Ok(outcome(former, current))
    }

    #[track_caller]
    fn compare_exchange_wide_nb(
        self,
        world: &World,
        current: T,
        new: T,
    ) -> Result<PgasFuture<Result<T, T>>> {
        let (current, new) = (bits(current), bits(new));
        if let Some(former) = world.compare_swap_wide(place(self), current, new)? {
            return Ok(PgasFuture::ready(outcome(former, current)));
        }
        let former = ask(world, place(self), current, new)?;
        Ok(former.then(move |former| outcome(former, current)))
    }

    #[track_caller]
    fn load_wide(self, world: &World) -> Result<T> {
        let any = T::new_zeroed();
        self.compare_exchange_wide(world, any, any)
            .map(|former| former.unwrap_or_else(|other| other))
    }
}

/// The same place, as a number.
fn place<T>(ptr: GlobalPtr<T>) -> GlobalPtr<u128> {
    const { assert!(size_of::<T>() == 16 && align_of::<T>() == 16) };
    ptr.cast()
}

fn bits<T: Pod>(value: T) -> u128 {
    u128::read_from_bytes(value.as_bytes()).expect("16 bytes")
}

fn outcome<T: Pod>(former: u128, current: u128) -> Result<T, T> {
    let value = T::read_from_bytes(former.as_bytes()).expect("16 bytes");
    if former == current {
        Ok(value)
    } else {
        Err(value)
    }
}

/// Held by who swaps bytes that nobody has mapped.
static SWAPS: Mutex<()> = Mutex::new(());

/// Asks the owner. As of any atomic that changes its word, nobody would have what it takes if a wait
/// for it ended early. A load changes nothing.
#[track_caller]
fn ask(world: &World, ptr: GlobalPtr<u128>, current: u128, new: u128) -> Result<PgasFuture<u128>> {
    let args = (Here::new(world), ptr, current, new);
    let former = world.rpc(ptr.rank(), answer, args)?;
    Ok(if current == new {
        former
    } else {
        // A call by itself has no such mark.
        former.then(|former| former).or_fail_at_limit()
    })
}

fn answer((here, ptr, current, new): (Here, GlobalPtr<u128>, u128, u128)) -> Result<u128> {
    let world = here.world();
    if let Some(former) = world.compare_swap_wide(ptr, current, new)? {
        return Ok(former);
    }
    // Nobody has this memory mapped, so all ask. A call that was put off may run beside another.
    let _alone = SWAPS.lock().unwrap_or_else(PoisonError::into_inner);
    let former = ptr.get(world)?;
    if former == current {
        ptr.put(world, new)?;
        world.flush(world.rank())?;
    }
    Ok(former)
}
