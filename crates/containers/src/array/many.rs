//! Operations on many elements of an array, by their indices, in one call.

use pgas_core::Pod;
use pgas_core::atomics::{Atomic, AtomicNumber};

use super::distributed::DArray;
use super::hosted::Array;
use super::{index_check_all, pointers};
use crate::object::{Object, Plain};
use crate::scattered::{self, FetchAdd, FetchMax, FetchMin, Swap};
use crate::{Result, prices};

/// Implements the methods for a type of arrays, of which `$new` makes one for the examples.
macro_rules! many {
    ($Array:ident, $new:literal, $get:ident, $put:ident, $add:ident) => {
        impl<T: Object<Repr = Plain> + Pod> $Array<T> {
            /// Reads the elements with these indices.
            ///
            /// # Cost
            ///
            /// R for each, all in flight together, one-sided; or M for each rank and some thousand
            /// elements, where [ranks serve
            /// atomics](pgas_core::backend::Capabilities::ranks_serve_atomics).
            ///
            /// # Errors
            ///
            /// Errors of the transport.
            ///
            /// # Panics
            ///
            /// If there is no such element.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!("# use pgas_containers::", stringify!($Array), ";")]
            /// # let world = pgas_core::backend::loopback::world();
            #[doc = concat!("let counts = ", $new, "; // collective")]
            /// counts.put_many(&[(3, 10), (700, 20)])?;
            /// counts.add_many(&[700, 3, 700], 1)?;
            /// world.barrier()?;
            /// assert_eq!(counts.get_many(&[700, 3, 4])?, [22, 11, 0]);
            /// # Ok::<(), pgas_containers::Error>(())
            /// ```
            #[track_caller]
            pub fn get_many(&self, indices: &[usize]) -> Result<Vec<T>> {
                index_check_all(indices.iter().copied(), self.len());
                let _performing = self.world().performs(&prices::$get, indices.len());
                let at: Vec<_> = indices.iter().map(|i| self.ptr(*i)).collect();
                scattered::get(self.served(), self.world(), &at)
            }

            /// Writes elements, each to its index, in any order: of two values for one index either
            /// may remain.
            ///
            /// # Cost
            ///
            /// W for each, all in flight together, one-sided; or M as for
            /// [`get_many`](Self::get_many). Complete at the targets after
            /// [`flush_all`](pgas_core::World::flush_all).
            ///
            /// # Errors
            ///
            /// Errors of the transport; then some may be written.
            ///
            /// # Panics
            ///
            /// If there is no such element; then nothing was written.
            #[track_caller]
            pub fn put_many(&self, elements: &[(usize, T)]) -> Result<()> {
                index_check_all(elements.iter().map(|(i, _)| *i), self.len());
                let _performing = self.world().performs(&prices::$put, elements.len());
                let at = pointers(elements, |i| self.ptr(i));
                scattered::put(self.served(), self.world(), &at)
            }
        }

        impl<T: Atomic + Object<Repr = Plain>> $Array<T> {
            /// Writes elements, each to its index, by atomic swaps in any order, and returns the
            /// former values.
            ///
            /// # Cost
            ///
            /// A for each, one-sided; or M as for [`get_many`](Self::get_many). Complete at the
            /// targets on return.
            ///
            /// # Errors
            ///
            /// Errors of the transport; then some may be written.
            ///
            /// # Panics
            ///
            /// If there is no such element; then nothing was written.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!("# use pgas_containers::", stringify!($Array), ";")]
            /// # let world = pgas_core::backend::loopback::world();
            #[doc = concat!("let parents = ", $new, "; // collective")]
            /// assert_eq!(parents.swap_many(&[(3, 1), (700, 2)])?, [0, 0]);
            /// assert_eq!(parents.swap_many(&[(3, 5)])?, [1]);
            /// # Ok::<(), pgas_containers::Error>(())
            /// ```
            #[track_caller]
            pub fn swap_many(&self, elements: &[(usize, T)]) -> Result<Vec<T>> {
                index_check_all(elements.iter().map(|(i, _)| *i), self.len());
                let at = pointers(elements, |i| self.ptr(i));
                scattered::fetch::<Swap<T>, _>(self.served(), self.world(), &at)
            }

            /// Compares elements with given values, and replaces those that are equal: `(i,
            /// current, new)` writes `new` to element `i` if it is `current`. Each is one atomic,
            /// in any order. Returns for each the former value: `Ok` if it was replaced, `Err` if
            /// not.
            ///
            /// # Cost
            ///
            /// A for each, one-sided; or M as for [`get_many`](Self::get_many). Complete at the
            /// targets on return.
            ///
            /// # Errors
            ///
            /// Errors of the transport; then some may be written.
            ///
            /// # Panics
            ///
            /// If there is no such element; then nothing was written.
            ///
            /// # Examples
            ///
            /// A search in a graph reaches vertices, and claims those that nobody has reached yet:
            ///
            /// ```
            #[doc = concat!("# use pgas_containers::", stringify!($Array), ";")]
            /// # let world = pgas_core::backend::loopback::world();
            #[doc = concat!("let parents = ", $new, "; // collective")]
            /// let reached = [(3, 0, 8), (700, 0, 8), (3, 0, 9)]; // vertex, nobody, parent
            /// let claimed = parents.compare_exchange_many(&reached)?;
            /// assert_eq!(claimed[1], Ok(0));
            /// // One of the two parents of vertex 3 has it, and the other one is told.
            /// assert!(matches!([claimed[0], claimed[2]], [Ok(0), Err(8)] | [Err(9), Ok(0)]));
            /// # Ok::<(), pgas_containers::Error>(())
            /// ```
            #[track_caller]
            pub fn compare_exchange_many(
                &self,
                elements: &[(usize, T, T)],
            ) -> Result<Vec<std::result::Result<T, T>>> {
                index_check_all(elements.iter().map(|(i, ..)| *i), self.len());
                let at = elements.iter().map(|(i, current, new)| {
                    (self.ptr(*i), scattered::Exchange::new(*current, *new))
                });
                let at: Vec<_> = at.collect();
                scattered::compare_exchange(self.served(), self.world(), &at)
            }
        }

        impl<T: AtomicNumber + Object<Repr = Plain>> $Array<T> {
            /// Adds `n` to the elements with these indices (integers wrap around); to an element
            /// twice if its index occurs twice. The last bits of a sum of floats depend on the
            /// order of the additions, which is any.
            ///
            /// # Cost
            ///
            /// A for each, one-sided; or M as for [`get_many`](Self::get_many). Complete at the
            /// targets after [`flush_all`](pgas_core::World::flush_all).
            ///
            /// # Errors
            ///
            /// Errors of the transport; then some may be added to.
            ///
            /// # Panics
            ///
            /// If there is no such element; then nothing was added.
            #[track_caller]
            pub fn add_many(&self, indices: &[usize], n: T) -> Result<()> {
                index_check_all(indices.iter().copied(), self.len());
                let _performing = self.world().performs(&prices::$add, indices.len());
                let at: Vec<_> = indices.iter().map(|i| (self.ptr(*i), n)).collect();
                scattered::add(self.served(), self.world(), &at)
            }

            /// Adds to each element its number, as [`add_many`](Self::add_many); to an element
            /// twice if its index occurs twice.
            ///
            /// # Cost
            ///
            /// As [`add_many`](Self::add_many).
            ///
            /// # Errors
            ///
            /// As [`add_many`](Self::add_many).
            ///
            /// # Panics
            ///
            /// If there is no such element; then nothing was added.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!("# use pgas_containers::", stringify!($Array), ";")]
            /// # let world = pgas_core::backend::loopback::world();
            #[doc = concat!("let sums = ", $new, "; // collective")]
            /// sums.add_each(&[(3, 10), (700, 20), (3, 5)])?;
            /// world.barrier()?;
            /// assert_eq!(sums.get_many(&[3, 700])?, [15, 20]);
            /// assert_eq!(sums.fetch_add_many(&[(3, 1), (700, 2)])?, [15, 20]);
            /// assert_eq!(sums.fetch_max_many(&[(3, 99), (700, 9)])?, [16, 22]);
            /// assert_eq!(sums.fetch_min_many(&[(3, 50), (700, 30)])?, [99, 22]);
            /// assert_eq!(sums.get_many(&[3, 700])?, [50, 22]);
            /// # Ok::<(), pgas_containers::Error>(())
            /// ```
            #[track_caller]
            pub fn add_each(&self, elements: &[(usize, T)]) -> Result<()> {
                index_check_all(elements.iter().map(|(i, _)| *i), self.len());
                let _performing = self.world().performs(&prices::$add, elements.len());
                let at = pointers(elements, |i| self.ptr(i));
                scattered::add(self.served(), self.world(), &at)
            }

            /// As [`add_each`](Self::add_each), and returns the former values.
            ///
            /// # Cost
            ///
            /// A for each, one-sided; or M as for [`get_many`](Self::get_many). Complete at the
            /// targets on return.
            ///
            /// # Errors
            ///
            /// As [`add_many`](Self::add_many).
            ///
            /// # Panics
            ///
            /// If there is no such element; then nothing was added.
            #[track_caller]
            pub fn fetch_add_many(&self, elements: &[(usize, T)]) -> Result<Vec<T>> {
                index_check_all(elements.iter().map(|(i, _)| *i), self.len());
                let at = pointers(elements, |i| self.ptr(i));
                scattered::fetch::<FetchAdd<T>, _>(self.served(), self.world(), &at)
            }

            /// Keeps of each element and its number the larger one, and returns the former values.
            /// A number is larger than NaN.
            ///
            /// # Cost
            ///
            /// As [`fetch_add_many`](Self::fetch_add_many).
            ///
            /// # Errors
            ///
            /// Errors of the transport; then some may be changed.
            ///
            /// # Panics
            ///
            /// If there is no such element; then nothing was changed.
            #[track_caller]
            pub fn fetch_max_many(&self, elements: &[(usize, T)]) -> Result<Vec<T>> {
                index_check_all(elements.iter().map(|(i, _)| *i), self.len());
                let at = pointers(elements, |i| self.ptr(i));
                scattered::fetch::<FetchMax<T>, _>(self.served(), self.world(), &at)
            }

            /// Keeps of each element and its number the smaller one, and returns the former values.
            /// A number is smaller than NaN.
            ///
            /// # Cost
            ///
            /// As [`fetch_add_many`](Self::fetch_add_many).
            ///
            /// # Errors
            ///
            /// Errors of the transport; then some may be changed.
            ///
            /// # Panics
            ///
            /// If there is no such element; then nothing was changed.
            #[track_caller]
            pub fn fetch_min_many(&self, elements: &[(usize, T)]) -> Result<Vec<T>> {
                index_check_all(elements.iter().map(|(i, _)| *i), self.len());
                let at = pointers(elements, |i| self.ptr(i));
                scattered::fetch::<FetchMin<T>, _>(self.served(), self.world(), &at)
            }
        }
    };
}

many! {
    Array,
    "Array::new(&world, pgas_core::Rank::ZERO, 1000, &0_u64)?",
    ARRAY_GET_MANY, ARRAY_PUT_MANY, ARRAY_ADD_MANY
}

many! {
    DArray,
    "DArray::new(&world, 1000, pgas_containers::array::Distribution::Cyclic, &0_u64)?",
    DARRAY_GET_MANY, DARRAY_PUT_MANY, DARRAY_ADD_MANY
}
