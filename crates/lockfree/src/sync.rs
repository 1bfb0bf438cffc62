//! The atomic words of this crate: the standard library's, or loom's under `--cfg loom`, which runs
//! a model through every interleaving and every value that a weak load may return.

#[cfg(loom)]
pub use self::model::{AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(loom)]
pub(crate) mod model {
    //! Loom's words, with sequential consistency added: loom treats a sequentially consistent
    //! access as one that acquires and releases.
    //!
    //! All threads agree on one order of sequentially consistent accesses. A full fence in front of
    //! each of them gives that order, and so does a fence behind each of them. Either also orders
    //! weaker accesses, which the language does not promise. So a model that needs this order runs
    //! with the fences in front and again with the fences behind ([`each`]): an access that should
    //! be sequentially consistent and is not fails in one of the two runs.

    use std::cell::Cell;

    use loom::sync::atomic;
    pub use loom::sync::atomic::{AtomicBool, Ordering, fence};
    pub use loom::sync::{Mutex, MutexGuard};

    use self::Ordering::{AcqRel, Acquire, Release, SeqCst};

    thread_local! {
        /// Whether fences are in front of sequentially consistent accesses. Loom runs all threads
        /// of a model in one system thread.
        static IS_IN_FRONT: Cell<bool> = const { Cell::new(true) };
    }

    /// Runs a model with fences in front of sequentially consistent accesses, and with fences
    /// behind them.
    pub(crate) fn each(model: impl Fn()) {
        for is_in_front in [true, false] {
            IS_IN_FRONT.set(is_in_front);
            model();
        }
        IS_IN_FRONT.set(true);
    }

    /// Performs an access in this order. A sequentially consistent access is a `weaker` one between
    /// fences.
    #[track_caller]
    fn ordered<T>(order: Ordering, weaker: Ordering, access: impl FnOnce(Ordering) -> T) -> T {
        if order != SeqCst {
            return access(order);
        }
        if IS_IN_FRONT.get() {
            fence(SeqCst);
        }
        let result = access(weaker);
        if !IS_IN_FRONT.get() {
            fence(SeqCst);
        }
        result
    }

    macro_rules! word {
        ($name:ident, $bits:ty) => {
            #[doc = concat!("A word of loom's that holds a `", stringify!($bits), "`.")]
            #[derive(Debug, Default)]
            pub struct $name(atomic::$name);

            #[expect(missing_docs, reason = "as those of the standard library")]
            impl $name {
                #[track_caller]
                pub fn new(bits: $bits) -> Self {
                    Self(atomic::$name::new(bits))
                }

                #[track_caller]
                pub fn load(&self, order: Ordering) -> $bits {
                    ordered(order, Acquire, |order| self.0.load(order))
                }

                #[track_caller]
                pub fn store(&self, bits: $bits, order: Ordering) {
                    ordered(order, Release, |order| self.0.store(bits, order));
                }

                #[track_caller]
                pub fn compare_exchange(
                    &self,
                    current: $bits,
                    new: $bits,
                    order: Ordering,
                    of_failure: Ordering,
                ) -> Result<$bits, $bits> {
                    let of_failure = if of_failure == SeqCst {
                        Acquire
                    } else {
                        of_failure
                    };
                    ordered(order, AcqRel, |order| {
                        self.0.compare_exchange(current, new, order, of_failure)
                    })
                }

                #[track_caller]
                pub fn compare_exchange_weak(
                    &self,
                    current: $bits,
                    new: $bits,
                    order: Ordering,
                    of_failure: Ordering,
                ) -> Result<$bits, $bits> {
                    self.compare_exchange(current, new, order, of_failure)
                }

                word!(swap fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_min fetch_max: $bits);
            }
        };
        ($($update:ident)*: $bits:ty) => {
            $(
                #[track_caller]
                pub fn $update(&self, bits: $bits, order: Ordering) -> $bits {
                    ordered(order, AcqRel, |order| self.0.$update(bits, order))
                }
            )*
        };
    }

    word!(AtomicU32, u32);
    word!(AtomicU64, u64);
}
