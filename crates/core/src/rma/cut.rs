//! Cuts transfers of many pieces to the length that a backend takes at once.

use crate::backend::{Get, Put, Shape};
use crate::{Result, World};

/// A piece of a transfer that can be cut.
pub(super) trait Cut: Copy {
    /// The number of bytes.
    fn len(&self) -> usize;
    /// The `len` bytes from its byte `start` on.
    fn part(&self, start: usize, len: usize) -> Self;
}

impl Cut for Put {
    fn len(&self) -> usize {
        self.len()
    }

    fn part(&self, start: usize, len: usize) -> Self {
        self.part(start, len)
    }
}

impl Cut for Get {
    fn len(&self) -> usize {
        self.len()
    }

    fn part(&self, start: usize, len: usize) -> Self {
        self.part(start, len)
    }
}

/// The longest transfer that the backend takes at once.
pub(super) fn longest(world: &World) -> usize {
    usize::try_from(world.capabilities().max_transfer)
        .unwrap_or(usize::MAX)
        .max(1)
}

/// Passes `fragments` to `transfer`, in order, in lists of at most `longest` bytes.
pub(super) fn fragments<F: Cut>(
    fragments: &[F],
    longest: usize,
    mut transfer: impl FnMut(&[F]) -> Result<()>,
) -> Result<()> {
    let total = fragments
        .iter()
        .try_fold(0_usize, |sum, fragment| sum.checked_add(fragment.len()));
    if total.is_some_and(|total| total <= longest) {
        return transfer(fragments);
    }
    let (mut list, mut room) = (Vec::new(), longest);
    for fragment in fragments {
        let mut start = 0;
        while start < fragment.len() {
            let len = room.min(fragment.len() - start);
            list.push(fragment.part(start, len));
            start += len;
            room -= len;
            if room == 0 {
                transfer(&list)?;
                list.clear();
                room = longest;
            }
        }
    }
    if list.is_empty() {
        return Ok(());
    }
    transfer(&list)
}

/// Passes `shape` to `transfer` in shapes of at most `longest` bytes, each with the distances in
/// bytes of its first block from that of the whole, in global and in local memory.
pub(super) fn shape(
    shape: &Shape,
    longest: usize,
    transfer: &mut dyn FnMut(isize, isize, &Shape) -> Result<()>,
) -> Result<()> {
    if shape.bytes() <= longest {
        return transfer(0, 0, shape);
    }
    let Some((&extent, inner)) = shape.extents.split_first() else {
        return block(shape, longest, transfer);
    };
    let row = Shape {
        block_bytes: shape.block_bytes,
        extents: inner.to_vec(),
        remote: shape.remote[1..].to_vec(),
        local: shape.local[1..].to_vec(),
    };
    let (remote, local) = (shape.remote[0], shape.local[0]);
    // Rows of the outermost dimension together, as far as they fit, or each row in several parts.
    let together = longest / row.bytes();
    for first in (0..extent).step_by(together.max(1)) {
        let distance = first.cast_signed();
        let mut shifted = |r: isize, l: isize, part: &Shape| {
            transfer(r + distance * remote, l + distance * local, part)
        };
        if together == 0 {
            self::shape(&row, longest, &mut shifted)?;
        } else {
            let mut rows = shape.clone();
            rows.extents[0] = together.min(extent - first);
            shifted(0, 0, &rows)?;
        }
    }
    Ok(())
}

/// Cuts a contiguous block that is longer than `longest`.
fn block(
    shape: &Shape,
    longest: usize,
    transfer: &mut dyn FnMut(isize, isize, &Shape) -> Result<()>,
) -> Result<()> {
    let mut part = shape.clone();
    for start in (0..shape.block_bytes).step_by(longest) {
        part.block_bytes = longest.min(shape.block_bytes - start);
        transfer(start.cast_signed(), start.cast_signed(), &part)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A piece: its start and its number of bytes.
    #[derive(Clone, Copy)]
    struct Piece(usize, usize);

    impl Cut for Piece {
        fn len(&self) -> usize {
            self.1
        }

        fn part(&self, start: usize, len: usize) -> Self {
            Self(self.0 + start, len)
        }
    }

    /// The bytes of a shape, as pairs of places.
    fn bytes_of(shape: &Shape) -> Vec<(isize, isize)> {
        let mut places = Vec::new();
        let visit = |r: isize, l: isize| {
            places.extend((0..shape.block_bytes.cast_signed()).map(|i| (r + i, l + i)));
            Ok::<_, ()>(())
        };
        shape.for_each_block(visit).expect("a visit without errors");
        places
    }

    proptest! {
        #[test]
        fn the_parts_of_a_shape_are_its_bytes_in_order_and_no_part_is_too_long(
            block_bytes in 1_usize..9,
            dims in prop::collection::vec((0_usize..5, -50_isize..50, -50_isize..50), 0..4),
            longest in 1_usize..40,
        ) {
            let whole = Shape {
                block_bytes,
                extents: dims.iter().map(|dim| dim.0).collect(),
                remote: dims.iter().map(|dim| dim.1).collect(),
                local: dims.iter().map(|dim| dim.2).collect(),
            };
            let mut seen = Vec::new();
            shape(&whole, longest, &mut |remote, local, part| {
                assert!(part.bytes() <= longest);
                let places = bytes_of(part);
                seen.extend(places.iter().map(|(r, l)| (remote + r, local + l)));
                Ok(())
            })
            .unwrap();
            prop_assert_eq!(seen, bytes_of(&whole));
        }

        #[test]
        fn the_parts_of_fragments_are_their_bytes_in_order_and_no_list_is_too_long(
            lens in prop::collection::vec(0_usize..30, 0..10),
            longest in 1_usize..40,
        ) {
            let list: Vec<Piece> = (0_usize..)
                .zip(&lens)
                .map(|(i, len)| Piece(1000 * i, *len))
                .collect();
            let bytes_of = |list: &[Piece]| -> Vec<usize> {
                list.iter().flat_map(|piece| (0..piece.1).map(|i| piece.0 + i)).collect()
            };
            let mut seen = Vec::new();
            fragments(&list, longest, |part| {
                assert!(part.iter().map(|piece| piece.1).sum::<usize>() <= longest);
                seen.extend(bytes_of(part));
                Ok(())
            })
            .unwrap();
            prop_assert_eq!(seen, bytes_of(&list));
        }
    }
}
