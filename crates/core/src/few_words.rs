//! Buffers for operations on a few bytes, which each thread reuses.
//!
//! Without reuse a flood of small transfers would spend more time on allocations than on the
//! network.

use std::cell::RefCell;
use std::mem;

use zerocopy::IntoBytes;

use crate::pod::Pod;

/// Words of a buffer.
pub(crate) const N_WORDS: usize = 2;
/// The maximum number of buffers that a thread keeps. Each takes 32 bytes, and 24 in the list.
const N_KEPT: usize = 1 << 16;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u64>>> = const { RefCell::new(Vec::new()) };
}

/// A few words that a network reads or writes. They do not move when this value moves. (A vector,
/// not a box: moving a box would invalidate the network's pointer to its memory.)
#[derive(Debug)]
pub(crate) struct FewWords(Vec<u64>);

impl FewWords {
    /// Whether a value of that type fits.
    pub(crate) const fn fit<T>() -> bool {
        size_of::<T>() <= N_WORDS * 8
    }

    /// A buffer with zeros or former contents.
    #[inline]
    pub(crate) fn new() -> Self {
        let kept = KEPT.try_with(|kept| kept.borrow_mut().pop());
        match kept {
            Ok(Some(words)) => Self(words),
            // The list of a thread that ends is gone.
            Ok(None) | Err(_) => Self(vec![0; N_WORDS]),
        }
    }

    #[inline]
    pub(crate) fn words(&mut self) -> &mut [u64] {
        &mut self.0
    }

    /// The bytes of a value that [fits](Self::fit).
    #[inline]
    pub(crate) fn bytes_of<T: Pod>(&mut self) -> &mut [u8] {
        &mut self.0.as_mut_bytes()[..size_of::<T>()]
    }

    /// Takes the words, when nothing else accesses them any more.
    #[inline]
    pub(crate) fn take(mut self) -> [u64; N_WORDS] {
        let words = [self.0[0], self.0[1]];
        let buffer = mem::take(&mut self.0);
        // A buffer that is not kept is freed.
        let _is_kept = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < N_KEPT {
                kept.push(buffer);
            }
        });
        words
    }
}

/// The value at the beginning of words.
#[inline]
pub(crate) fn value_of<T: Pod>(words: [u64; N_WORDS]) -> T {
    let bytes = &words.as_bytes()[..size_of::<T>()];
    T::read_from_bytes(bytes).expect("as many bytes")
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn n_kept() -> usize {
        KEPT.with_borrow(Vec::len)
    }

    #[test]
    fn buffers_are_used_again_up_to_a_limit() {
        thread::spawn(|| {
            let all: Vec<FewWords> = (0..N_KEPT + 10).map(|_| FewWords::new()).collect();
            assert_eq!(n_kept(), 0);
            for mut words in all {
                words.words().copy_from_slice(&[3, 4]);
                assert_eq!(words.take(), [3, 4]);
            }
            assert_eq!(n_kept(), N_KEPT);
            FewWords::new().take();
            assert_eq!(n_kept(), N_KEPT);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_value_is_at_the_beginning() {
        let mut words = FewWords::new();
        assert!(FewWords::fit::<[u32; 4]>() && !FewWords::fit::<[u32; 5]>());
        words
            .bytes_of::<[u16; 3]>()
            .copy_from_slice([7_u16, 8, 9].as_bytes());
        assert_eq!(value_of::<[u16; 3]>(words.take()), [7, 8, 9]);
    }
}
