//! Byte-copyable types: the elements of global memory.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A byte-copyable type: any bytes are a valid value, and it has no padding. So values can be
/// copied from and to global memory, where other ranks may have written any bytes.
///
/// It is implemented for every type with zerocopy's `FromBytes`, `IntoBytes` and `Immutable` that
/// is `Copy + Send + Sync + 'static`: integers, floats, arrays of them,
/// [`GlobalPtr`](crate::GlobalPtr), and `repr(C)` structs that derive the three. Padding is refused
/// when the program is compiled, since copying it would read uninitialized bytes; spell it out as a
/// field (`_pad: [u8; 4]`) instead.
///
/// # Examples
///
/// ```
/// use zerocopy::{FromBytes, Immutable, IntoBytes};
///
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
/// #[repr(C)]
/// struct Edge { to: u32, weight: f32 }
///
/// fn is_pod<T: pgas_core::Pod>() {}
/// is_pod::<Edge>();
/// is_pod::<[Edge; 3]>();
/// ```
///
/// A padded type does not compile:
///
/// ```compile_fail,E0277
/// use zerocopy::{FromBytes, Immutable, IntoBytes};
///
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
/// #[repr(C)]
/// struct Padded { a: u8, b: u64 }
/// ```
///
/// Nor does one with a pointer, which would mean nothing to another rank:
///
/// ```compile_fail,E0277
/// fn is_pod<T: pgas_core::Pod>() {}
/// is_pod::<&'static str>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not byte-copyable, as elements of global memory are",
    note = "a struct of numbers and arrays is byte-copyable with `#[pgas::pod]`",
    note = "other types, such as `bool` and `String`, have collectives of their own \
            (`allreduce_values` and others of `ValueCollectives`), travel by remote calls, and live \
            in containers; your own ones need `#[derive(pgas::Wire, pgas::Object)]`",
    note = "`atomics::Flag` is a truth value in global memory"
)]
pub trait Pod: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static> Pod for T {}

/// The buffer of a get.
pub(crate) fn zeroed_vec<T: Pod>(n: usize) -> Vec<T> {
    T::new_vec_zeroed(n).expect("memory for the buffer of a get")
}
