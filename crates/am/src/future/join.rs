//! Many futures as one.

use std::sync::Arc;
use std::task::Waker;

use pgas_core::Rank;

use super::joined::{Detached, Joined};
use super::mark::Mark;
use super::{Completes, PgasFuture, State};
use crate::state::Handle;
use pgas_core::Result;

/// The maximum nesting of joins. A deeper one becomes a cell, so that polling a join does not
/// recurse as deep as programs nest.
const DEEPEST: u32 = 8;

/// The arguments of [`when_all`]: vectors and tuples of up to six operations that
/// [complete](Completes).
pub trait All: sealed::Sealed {
    /// The values of all, in order.
    type Output: Send + 'static;

    /// A future of all values, as [`when_all`] returns it.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::{All, PgasFuture};
    ///
    /// let both = (PgasFuture::ready(1), PgasFuture::ready("one")).join();
    /// assert_eq!(both.wait()?, (1, "one"));
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    fn join(self) -> PgasFuture<Self::Output>;
}

mod sealed {
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Sealed {}
}

/// One future of the values of many. If some fail, it has the error of the first of them in order.
///
/// Progress: none.
///
/// # Cost
///
/// One allocation, or none if all are ready. A wait checks the futures in order, each until it is
/// ready.
///
/// # Examples
///
/// ```
/// use pgas_am::{PgasFuture, RemoteCalls, when_all};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let squares = (0..100).map(|x| world.rpc(world.rank(), |x: u64| x * x, x));
/// let squares = when_all(squares.collect::<Result<Vec<_>, _>>()?).wait()?;
/// assert_eq!(squares[99], 99 * 99);
///
/// let both = when_all((PgasFuture::ready(1), PgasFuture::ready("two")));
/// assert_eq!(both.wait()?, (1, "two"));
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub fn when_all<F: All>(futures: F) -> PgasFuture<F::Output> {
    futures.join()
}

fn joined<T: Send + 'static>(mut all: impl Joined<T> + 'static) -> PgasFuture<T> {
    if all.is_ready() {
        return PgasFuture::of(all.take());
    }
    let mut joined = PgasFuture {
        state: State::Joined(Box::new(all)),
    };
    if joined.depth() > DEEPEST {
        joined.detach()(Box::new(|| ()));
    }
    joined
}

/// A sequence of futures, of which the first `n_ready` are known to be ready.
struct Sequence<T: Send + 'static> {
    futures: Vec<PgasFuture<T>>,
    n_ready: usize,
}

impl<T: Send + 'static> Sequence<T> {
    fn of(futures: Vec<PgasFuture<T>>) -> Self {
        Self {
            futures,
            n_ready: 0,
        }
    }
}

impl<T: Send + 'static> Joined<Vec<T>> for Sequence<T> {
    fn is_ready(&mut self) -> bool {
        let rest = self.futures[self.n_ready..].iter_mut();
        self.n_ready += rest.map_while(|f| f.is_ready().then_some(())).count();
        self.n_ready == self.futures.len()
    }

    fn take(&mut self) -> Result<Vec<T>> {
        self.futures
            .iter_mut()
            .map(PgasFuture::take_ready)
            .collect()
    }

    fn handle(&self) -> Option<Handle> {
        self.futures.get(self.n_ready)?.handle()
    }

    fn watch(&mut self, waker: &Waker) -> bool {
        let first = self.futures.get_mut(self.n_ready);
        first.is_some_and(|future| future.watch(waker))
    }

    fn detach_first(&mut self) -> Detached {
        self.futures[self.n_ready].detach()
    }

    fn let_go(&mut self) -> bool {
        let mut waits = false;
        for future in &mut self.futures {
            waits |= future.let_go();
        }
        waits
    }

    fn fails_at_limit(&self) -> bool {
        self.futures.iter().any(PgasFuture::fails_at_limit)
    }

    fn pass_marks(&self, next: &mut Option<Arc<Mark>>) {
        for future in &self.futures {
            future.pass_mark(next);
        }
    }

    fn depth(&self) -> u32 {
        let rest = &self.futures[self.n_ready..];
        1 + rest.iter().map(PgasFuture::depth).max().unwrap_or(0)
    }

    fn awaited(&self, ranks: &mut Vec<Rank>) {
        for future in &self.futures[self.n_ready..] {
            future.awaited(ranks);
        }
    }
}

impl<F: Completes> sealed::Sealed for Vec<F> {}

impl<F: Completes> All for Vec<F> {
    type Output = Vec<F::Value>;

    fn join(self) -> PgasFuture<Vec<F::Value>> {
        joined(Sequence::of(
            self.into_iter().map(Completes::future).collect(),
        ))
    }
}

/// Joins the futures of a tuple, which has at least two.
macro_rules! tuples {
    ($(($($t:ident $i:tt),+))*) => { $(
        impl<$($t: Send + 'static),+> Joined<($($t,)+)> for ($(PgasFuture<$t>,)+) {
            fn is_ready(&mut self) -> bool {
                $(self.$i.is_ready())&&+
            }

            fn take(&mut self) -> Result<($($t,)+)> {
                Ok(($(self.$i.take_ready()?,)+))
            }

            fn handle(&self) -> Option<Handle> {
                None$(.or_else(|| self.$i.handle()))+
            }

            fn watch(&mut self, waker: &Waker) -> bool {
                $(if !self.$i.is_ready() {
                    return self.$i.watch(waker);
                })+
                false
            }

            fn detach_first(&mut self) -> Detached {
                $(if !self.$i.is_ready() {
                    return self.$i.detach();
                })+
                Box::new(|next| next())
            }

            fn let_go(&mut self) -> bool {
                let mut waits = false;
                $(waits |= self.$i.let_go();)+
                waits
            }

            fn fails_at_limit(&self) -> bool {
                $(self.$i.fails_at_limit())||+
            }

            fn pass_marks(&self, next: &mut Option<Arc<Mark>>) {
                $(self.$i.pass_mark(next);)+
            }

            fn depth(&self) -> u32 {
                let mut deepest = 0;
                $(deepest = deepest.max(self.$i.depth());)+
                1 + deepest
            }

            fn awaited(&self, ranks: &mut Vec<Rank>) {
                $(self.$i.awaited(ranks);)+
            }
        }

        impl<$($t: Completes),+> sealed::Sealed for ($($t,)+) {}

        impl<$($t: Completes),+> All for ($($t,)+) {
            type Output = ($($t::Value,)+);

            fn join(self) -> PgasFuture<Self::Output> {
                joined(($(self.$i.future(),)+))
            }
        }
    )* };
}
tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}
