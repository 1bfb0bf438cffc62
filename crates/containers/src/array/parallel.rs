//! Parallel iteration in the local phase, by the threads of rayon's pool.

use pgas_core::Pod;
use rayon::prelude::*;

use super::local::{LocalArray, LocalMatrix, TileMut};
use crate::object::{Object, Plain};

impl<T: Object<Repr = Plain> + Pod> LocalArray<T> {
    /// The elements, mutable, with their indices in the whole array, for all threads of rayon's
    /// pool. What a thread does to an element must not wait for another rank, since ranks that are
    /// threads share the pool.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::DArray;
    /// use pgas_containers::array::Distribution;
    /// use rayon::prelude::*;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let array = DArray::new(&world, 1000, Distribution::BlockCyclic(16), &1_u64)?;
    /// let mut local = array.into_local()?; // collective
    /// local.par_indexed_mut().for_each(|(i, x)| *x += i as u64);
    /// let array = local.into_shared()?;
    /// assert_eq!(array.get(999)?, 1000);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn par_indexed_mut(&mut self) -> impl IndexedParallelIterator<Item = (usize, &mut T)> {
        let to_index = self.array.to_index();
        let places = self.elements.par_iter_mut().enumerate();
        places.map(move |(place, element)| (to_index(place), element))
    }
}

impl<T: Pod> LocalMatrix<T> {
    /// The tiles of this rank, mutable, for all threads of rayon's pool, as
    /// [`LocalArray::par_indexed_mut`].
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::DMatrix;
    /// use rayon::prelude::*;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let matrix = DMatrix::new(&world, [100, 80], [16, 16], 1.0_f64)?;
    /// let mut local = matrix.into_local()?; // collective
    /// local.par_tiles_mut().for_each(|mut tile| {
    ///     for row in tile.rows() {
    ///         tile.row_mut(row).fill(row as f64);
    ///     }
    /// });
    /// let matrix = local.into_shared()?;
    /// assert_eq!(matrix.get(99, 79)?, 99.0);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn par_tiles_mut(&mut self) -> impl IndexedParallelIterator<Item = TileMut<'_, T>> {
        self.tiles_mut().collect::<Vec<_>>().into_par_iter()
    }
}
