//! Arguments of a backend's calls, as plain data.

/// The element type of an atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicType {
    /// `u8`.
    U8,
    /// `i8`.
    I8,
    /// `u16`.
    U16,
    /// `i16`.
    I16,
    /// `u32`.
    U32,
    /// `i32`.
    I32,
    /// `u64`.
    U64,
    /// `i64`.
    I64,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

impl AtomicType {
    /// The type's size in bytes, which is also its alignment.
    #[must_use]
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// The operation of an atomic. Subtraction, increment and decrement are [`Add`](Self::Add) of
/// another operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// Reads.
    Load,
    /// Replaces; with a result, a swap.
    Swap,
    /// Adds, wrapping around for integers.
    Add,
    /// Bitwise and, integers only.
    And,
    /// Bitwise or, integers only.
    Or,
    /// Bitwise exclusive or, integers only.
    Xor,
    /// Keeps the smaller value. For floats a number is smaller than NaN, and -0.0 may count as
    /// equal to 0.0.
    Min,
    /// Keeps the larger value. For floats a number is larger than NaN.
    Max,
}

/// An atomic: operation, type, and the operand's bits in the low bytes of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicCall {
    /// The operation; never And, Or or Xor for floats.
    pub op: AtomicOp,
    /// The type of the word.
    pub ty: AtomicType,
    /// The operand; shorter types use the low bytes, and the others are zero.
    pub operand: u64,
}

/// A compare-and-swap of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapCall {
    /// The width; floats are compared by their bits.
    pub ty: AtomicType,
    /// The bits that are replaced if the word has them.
    pub expected: u64,
    /// The bits that replace them.
    pub desired: u64,
}

/// The update of the signal word by [`put_signal`](crate::GlobalPtr::put_signal).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalUpdate {
    /// Replaces it.
    Set(u64),
    /// Adds to it, wrapping around.
    Add(u64),
}

impl From<SignalUpdate> for AtomicCall {
    fn from(update: SignalUpdate) -> Self {
        let (op, operand) = match update {
            SignalUpdate::Set(value) => (AtomicOp::Swap, value),
            SignalUpdate::Add(value) => (AtomicOp::Add, value),
        };
        let ty = AtomicType::U64;
        Self { op, ty, operand }
    }
}

/// A regular grid of blocks of bytes, in a segment and in local memory. Dimension `d` has
/// `extents[d]` blocks of `block_bytes` bytes each. Neighbours in it are `remote[d]` bytes apart in
/// the segment, and `local[d]` bytes in local memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Contiguous bytes of one block.
    pub block_bytes: usize,
    /// Blocks in each dimension.
    pub extents: Vec<usize>,
    /// Distances between neighbours in the segment, in bytes.
    pub remote: Vec<isize>,
    /// Distances between neighbours in local memory, in bytes.
    pub local: Vec<isize>,
}

impl Shape {
    /// The bytes of all blocks.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.extents.iter().product::<usize>() * self.block_bytes
    }

    /// Calls `visit(remote, local)` with the distances in bytes of each block from the first one,
    /// the last dimension running fastest.
    ///
    /// # Errors
    ///
    /// The first error of `visit`, which ends the walk.
    pub fn for_each_block<E>(
        &self,
        mut visit: impl FnMut(isize, isize) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.extents.contains(&0) {
            return Ok(());
        }
        let mut index = vec![0_usize; self.extents.len()];
        let (mut remote, mut local) = (0_isize, 0_isize);
        loop {
            visit(remote, local)?;
            let mut dim = self.extents.len();
            loop {
                if dim == 0 {
                    return Ok(());
                }
                dim -= 1;
                index[dim] += 1;
                remote += self.remote[dim];
                local += self.local[dim];
                if index[dim] < self.extents[dim] {
                    break;
                }
                let back = index[dim].cast_signed();
                remote -= back * self.remote[dim];
                local -= back * self.local[dim];
                index[dim] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_visits_its_blocks_in_row_major_order() {
        let shape = Shape {
            block_bytes: 4,
            extents: vec![2, 3],
            remote: vec![100, 10],
            local: vec![12, 4],
        };
        let mut seen = Vec::new();
        shape
            .for_each_block(|r, l| {
                seen.push((r, l));
                Ok::<_, ()>(())
            })
            .unwrap();
        assert_eq!(
            seen,
            [(0, 0), (10, 4), (20, 8), (100, 12), (110, 16), (120, 20)]
        );
    }

    #[test]
    fn a_shape_with_an_empty_dimension_has_no_blocks_and_one_without_dimensions_has_one() {
        let mut shape = Shape {
            block_bytes: 4,
            extents: vec![2, 0],
            remote: vec![8, 4],
            local: vec![8, 4],
        };
        let mut n = 0;
        shape
            .for_each_block(|_, _| {
                n += 1;
                Ok::<_, ()>(())
            })
            .unwrap();
        assert_eq!(n, 0);
        shape = Shape {
            block_bytes: 4,
            extents: vec![],
            remote: vec![],
            local: vec![],
        };
        shape
            .for_each_block(|_, _| {
                n += 1;
                Ok::<_, ()>(())
            })
            .unwrap();
        assert_eq!(n, 1);
    }
}
