//! A pointer to memory of any rank, in one word.
//!
//! On the path of an operation this file comes after [`World`](crate::World) and
//! [`segment`](crate::segment), which made the pointer, and before [`rma`](crate::rma) and the
//! [`Backend`](crate::backend::Backend), which follow it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Rank;
use crate::backend::RemoteAddr;

const OFFSET_BITS: u32 = 40;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;

/// A pointer to a `T` in some rank's segment: 24 bits of rank and 40 bits of byte offset.
///
/// It is `Copy`, means the same on every rank, and is [`Pod`](crate::Pod) itself, so it can be
/// stored in global memory and swapped atomically (as its [`to_bits`](Self::to_bits)). Since any
/// bytes are a pointer, one that was read from global memory may be nonsense: every access checks
/// rank, bounds and alignment, and panics rather than touch other memory.
///
/// Arithmetic is by element, as for `*const T`, and stays within the rank's segment.
///
/// # Examples
///
/// ```
/// use pgas_core::{GlobalPtr, Rank};
///
/// let p = GlobalPtr::<u64>::new(Rank::new(2), 4096);
/// assert_eq!(p.add(3), GlobalPtr::new(Rank::new(2), 4096 + 24));
/// assert_eq!(p.add(3).offset_from(p), 3);
/// assert!(GlobalPtr::<u64>::NULL.is_null());
/// assert_eq!(GlobalPtr::<u64>::from_bits(p.to_bits()), p);
/// ```
///
/// Transfers of one value or many, blocking and non-blocking:
///
/// ```
/// use pgas_core::backend::SignalUpdate;
/// use pgas_core::rma::Strides;
///
/// # let world = pgas_core::backend::loopback::world();
/// let array = world.alloc::<u64>(12)?;
/// assert_eq!((array.rank(), array.addr().offset), (world.rank(), array.offset_bytes()));
/// array.put(&world, 1)?;
/// array.add(1).put_slice(&world, &[2, 3, 4])?;
/// world.flush_all()?; // now they are there
/// assert_eq!(array.get(&world)?, 1);
/// let mut two = [0; 2];
/// array.add(2).get_slice(&world, &mut two)?;
/// assert_eq!((two, array.get_vec(&world, 4)?), ([3, 4], vec![1, 2, 3, 4]));
///
/// let puts = (array.put_nb(&world, 5)?, array.add(1).put_vec_nb(&world, vec![6, 7])?);
/// (puts.0.wait()?, puts.1.wait()?);
/// let gets = (array.get_nb(&world)?, array.add(1).get_vec_nb(&world, 2)?);
/// assert_eq!((gets.0.wait()?, gets.1.wait()?), (5, vec![6, 7]));
///
/// // Two rows of two elements, at the beginning of rows of six.
/// let corner = Strides { extents: [2, 2], global: [6, 1], local: [2, 1] };
/// array.put_strided(&world, &corner, &[1, 2, 3, 4])?;
/// world.flush_all()?;
/// let mut rows = [0; 4];
/// array.get_strided(&world, &corner, &mut rows)?;
/// assert_eq!(rows, [1, 2, 3, 4]);
///
/// let (data, arrived) = (array, array.add(11));
/// arrived.put(&world, 0)?;
/// data.put_signal(&world, &[7, 8], arrived, SignalUpdate::Add(1))?; // counts what has arrived
/// arrived.wait_until(&world, |n| n == 1)?;
/// let bytes = data.cast::<u8>().byte_add(8);
/// assert_eq!(bytes.get(&world)?, if cfg!(target_endian = "little") { 8 } else { 0 });
/// # Ok::<(), pgas_core::Error>(())
/// ```
///
/// Atomics return the former value, unless their name begins with `atomic`:
///
/// ```
/// use pgas_core::backend::AtomicOp;
///
/// # let world = pgas_core::backend::loopback::world();
/// let n = world.alloc::<u64>(1)?;
/// n.atomic_store(&world, 5)?;
/// assert_eq!((n.fetch_add(&world, 2)?, n.fetch_sub(&world, 1)?), (5, 7));
/// assert_eq!((n.fetch_inc(&world)?, n.fetch_dec(&world)?), (6, 7));
/// assert_eq!((n.fetch_max(&world, 12)?, n.fetch_min(&world, 10)?), (6, 12));
/// assert_eq!((n.fetch_or(&world, 5)?, n.fetch_and(&world, 12)?), (10, 15));
/// assert_eq!((n.fetch_xor(&world, 3)?, n.swap(&world, 20)?), (12, 15));
/// assert_eq!(n.compare_exchange(&world, 20, 21)?, Ok(20));
/// assert_eq!(n.compare_exchange(&world, 20, 22)?, Err(21));
/// assert_eq!(n.fetch_op(&world, AtomicOp::Xor, 1)?, 21);
/// assert_eq!(n.fetch_add_nb(&world, 1)?.wait()?, 20); // each has a form that is begun
/// n.atomic_op(&world, AtomicOp::Add, 9)?; // no answer, so no wait for one
/// n.atomic_min(&world, 25)?;
/// world.flush_all()?;
/// assert_eq!(n.atomic_load(&world)?, 25);
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct GlobalPtr<T> {
    bits: u64,
    target: PhantomData<fn() -> T>,
}

impl<T> GlobalPtr<T> {
    /// The pointer to nothing; all bits zero. The first bytes of a segment are never allocated.
    pub const NULL: Self = Self::from_bits(0);

    /// The number of bytes that an offset can tell apart (2^40).
    pub const OFFSET_LIMIT: u64 = 1 << OFFSET_BITS;

    /// The pointer to byte `offset_bytes` of the segment of `rank`.
    ///
    /// # Panics
    ///
    /// If `offset_bytes` is [`OFFSET_LIMIT`](Self::OFFSET_LIMIT) or more.
    #[must_use]
    #[inline]
    #[track_caller]
    pub const fn new(rank: Rank, offset_bytes: u64) -> Self {
        assert!(offset_bytes < Self::OFFSET_LIMIT, "an offset is below 2^40");
        Self::from_bits(((rank.number() as u64) << OFFSET_BITS) | offset_bytes)
    }

    /// The pointer with these bits. Any bits are allowed; accesses check them.
    #[must_use]
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            bits,
            target: PhantomData,
        }
    }

    /// The bits: the rank in the upper 24, the byte offset in the lower 40.
    #[must_use]
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.bits
    }

    /// Whether this is [`NULL`](Self::NULL).
    #[must_use]
    #[inline]
    pub const fn is_null(self) -> bool {
        self.bits == 0
    }

    /// The rank whose segment holds the object: its affinity.
    #[must_use]
    #[inline]
    pub const fn rank(self) -> Rank {
        Rank::new((self.bits >> OFFSET_BITS) as u32)
    }

    /// Bytes from the start of that segment.
    #[must_use]
    #[inline]
    pub const fn offset_bytes(self) -> u64 {
        self.bits & OFFSET_MASK
    }

    /// Rank and offset, as a backend takes them.
    #[must_use]
    #[inline]
    pub const fn addr(self) -> RemoteAddr {
        RemoteAddr {
            rank: self.rank(),
            offset: self.offset_bytes(),
        }
    }

    /// The pointer `n` elements further.
    ///
    /// # Panics
    ///
    /// If the result's offset does not fit in 40 bits.
    #[must_use]
    #[inline]
    #[track_caller]
    pub const fn add(self, n: usize) -> Self {
        // Below 2^40 elements of below 2^23 bytes the product cannot overflow: one compare, not
        // two.
        let is_small = size_of::<T>() < 1 << 23 && n as u64 <= OFFSET_MASK;
        let bytes = match (n as u64).checked_mul(size_of::<T>() as u64) {
            _ if is_small => n as u64 * size_of::<T>() as u64,
            Some(bytes) => bytes,
            None => panic!("a global pointer's offset overflows 2^40"),
        };
        self.byte_add(bytes)
    }

    /// The pointer `bytes` bytes further.
    ///
    /// # Panics
    ///
    /// If the result's offset does not fit in 40 bits.
    #[must_use]
    #[inline]
    #[track_caller]
    pub const fn byte_add(self, bytes: u64) -> Self {
        let room = OFFSET_MASK - self.offset_bytes();
        assert!(bytes <= room, "a global pointer's offset overflows 2^40");
        // The sum stays within the offset's bits, so nothing is carried into the rank.
        Self::from_bits(self.bits + bytes)
    }

    /// The pointer `n` elements back.
    ///
    /// # Panics
    ///
    /// If that is before the start of the segment.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let first = world.alloc::<u64>(4)?;
    /// let last = first.add(3);
    /// assert_eq!((last.sub(3), last.byte_sub(8)), (first, first.add(2)));
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[must_use]
    #[inline]
    #[track_caller]
    pub const fn sub(self, n: usize) -> Self {
        match (n as u64).checked_mul(size_of::<T>() as u64) {
            Some(bytes) => self.byte_sub(bytes),
            None => panic!("a global pointer's offset is below the start of the segment"),
        }
    }

    /// The pointer `bytes` bytes back.
    ///
    /// # Panics
    ///
    /// If that is before the start of the segment.
    #[must_use]
    #[inline]
    #[track_caller]
    pub const fn byte_sub(self, bytes: u64) -> Self {
        assert!(
            bytes <= self.offset_bytes(),
            "a global pointer's offset is below the start of the segment"
        );
        // The difference stays within the offset's bits, so nothing is borrowed from the rank.
        Self::from_bits(self.bits - bytes)
    }

    /// The number of elements from `origin` to this pointer.
    ///
    /// # Panics
    ///
    /// If the pointers have different ranks, if they are not a whole number of elements apart, or
    /// if `T` has size 0.
    #[must_use]
    #[track_caller]
    pub fn offset_from(self, origin: Self) -> i64 {
        assert_eq!(
            self.rank(),
            origin.rank(),
            "distance of pointers to different ranks"
        );
        let size = i64::try_from(size_of::<T>()).expect("no type is that large");
        assert_ne!(size, 0, "distance of pointers to a type without size");
        let bytes = self.offset_bytes().cast_signed() - origin.offset_bytes().cast_signed();
        assert_eq!(
            bytes % size,
            0,
            "distance of {bytes} bytes is not a multiple of {size}"
        );
        bytes / size
    }

    /// The same place, seen as a `U`. Alignment is checked when it is accessed.
    #[must_use]
    #[inline]
    pub const fn cast<U>(self) -> GlobalPtr<U> {
        GlobalPtr::from_bits(self.bits)
    }
}

impl<T> Clone for GlobalPtr<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GlobalPtr<T> {}

impl<T> Default for GlobalPtr<T> {
    /// [`GlobalPtr::NULL`].
    fn default() -> Self {
        Self::NULL
    }
}

impl<T> PartialEq for GlobalPtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl<T> Eq for GlobalPtr<T> {}

impl<T> PartialOrd for GlobalPtr<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By rank, then by offset.
impl<T> Ord for GlobalPtr<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bits.cmp(&other.bits)
    }
}

impl<T> Hash for GlobalPtr<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits.hash(state);
    }
}

impl<T> fmt::Debug for GlobalPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() {
            return write!(f, "GlobalPtr(null)");
        }
        write!(
            f,
            "GlobalPtr(rank {}, {:#x})",
            self.rank(),
            self.offset_bytes()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extremes_of_rank_and_offset_survive_packing() {
        let p = GlobalPtr::<u8>::new(
            Rank::new(Rank::LIMIT - 1),
            GlobalPtr::<u8>::OFFSET_LIMIT - 1,
        );
        assert_eq!(p.rank().number(), Rank::LIMIT - 1);
        assert_eq!(p.offset_bytes(), GlobalPtr::<u8>::OFFSET_LIMIT - 1);
        assert_eq!(p.to_bits(), u64::MAX);
    }

    #[test]
    #[should_panic(expected = "overflows 2^40")]
    fn arithmetic_never_carries_into_the_rank() {
        let _ = GlobalPtr::<u8>::new(Rank::new(1), (1 << 40) - 1).add(1);
    }

    #[test]
    fn rank_zero_offset_nonzero_is_not_null_and_ranks_are_compared() {
        assert!(!GlobalPtr::<u8>::new(Rank::ZERO, 64).is_null());
        assert_ne!(
            GlobalPtr::<u8>::new(Rank::ZERO, 64),
            GlobalPtr::new(Rank::new(1), 64)
        );
    }

    #[test]
    #[should_panic(expected = "different ranks")]
    fn the_distance_between_ranks_is_refused() {
        let a = GlobalPtr::<u8>::new(Rank::ZERO, 64);
        let _ = a.offset_from(GlobalPtr::new(Rank::new(1), 64));
    }
}
