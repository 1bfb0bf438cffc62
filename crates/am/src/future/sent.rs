//! Messages without an answer that follow an operation. One that cannot be sent is told to who has
//! the future; if nobody takes the error, it counts as lost.

use pgas_core::{Error, Rank, Result};

use super::PgasFuture;
use super::cell::{Cell, Setter};
use crate::error::says_left;
use crate::state::Handle;

impl<T: Send + 'static> PgasFuture<T> {
    /// As [`map_result`](Self::map_result), for an action that sends a message of the rank of `handle`
    /// to `to`. It does not run if the operation fails.
    pub(crate) fn and_send<U: Send + 'static>(
        mut self,
        handle: Handle,
        to: Rank,
        send: impl FnOnce(T) -> Result<U> + Send + 'static,
    ) -> PgasFuture<U> {
        if self.is_ready() {
            let sent = match self.take_ready() {
                Ok(value) => send(value),
                Err(error) => return PgasFuture::failed(error),
            };
            if sent.is_ok() {
                return PgasFuture::of(sent);
            }
            let cell = Cell::new(handle, None);
            Setter::new(&cell).set_sent(to, sent);
            return PgasFuture::cell(cell);
        }
        let handle = self.handle_of_pending();
        let cell = self.next_cell(handle);
        let target = Setter::new(&cell);
        let action = move |result: Result<T>| match result {
            Ok(value) => target.set_sent(to, send(value)),
            Err(error) => target.set(Err(error)),
        };
        if let Some(am) = handle.get() {
            self.on_ready(&am, Box::new(action));
        }
        PgasFuture::cell(cell)
    }
}

impl<T: Send + 'static> Setter<T> {
    /// Sets what the sending of a message to `to` has given.
    fn set_sent(self, to: Rank, sent: Result<T>) {
        if let Err(error) = &sent
            && is_lost(error, to)
        {
            self.count_as_lost();
        }
        self.set(sent);
    }
}

/// Whether the message alone is lost: the failure of the job is known to all ranks.
fn is_lost(error: &Error, to: Rank) -> bool {
    !matches!(error, Error::RankFailed(_)) || says_left(error, to)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pgas_core::backend::loopback;

    use crate::{Completes, PgasFuture, Promise, RemoteCalls as _, quiet};
    use pgas_core::{Config, Error, Rank, Result, World};

    /// More elements without bytes than a value may have.
    const TOO_MANY: usize = 70_000;

    fn n_lost(world: &World) -> u64 {
        match quiet(world) {
            Ok(()) => 0,
            Err(Error::Undelivered(lost)) => lost.n,
            Err(error) => panic!("{error}"),
        }
    }

    /// A call that cannot be encoded after `operation`, which may be ready.
    fn call_after(world: &World, operation: impl Completes<Value = ()>) -> PgasFuture<()> {
        let args = vec![(); TOO_MANY];
        world.rpc_ff_after(operation, world.rank(), drop::<Vec<()>>, args)
    }

    #[test]
    fn a_call_that_cannot_be_sent_is_lost_unless_somebody_takes_the_error() {
        let world = loopback::world();
        crate::attach(&world).unwrap();
        drop(call_after(&world, PgasFuture::ready(())));
        assert_eq!(n_lost(&world), 1);
        type Drops = fn(PgasFuture<()>);
        let ways: [(Drops, u64); 3] = [
            (drop, 1),
            (|future| drop(future.shared()), 0),
            (
                |future| drop(future.map_result(|sent| Ok(sent.is_err()))),
                0,
            ),
        ];
        for is_early in [true, false] {
            for (drops, expected) in ways {
                let promise = Promise::new(&world).unwrap();
                let future = call_after(&world, promise.future());
                assert_eq!(n_lost(&world), 0);
                if is_early {
                    drops(future);
                    drop(promise.finalize());
                } else {
                    drop(promise.finalize());
                    drops(future);
                }
                assert_eq!(n_lost(&world), expected);
            }
        }
        let promise = Promise::new(&world).unwrap();
        let kept = call_after(&world, promise.future());
        drop(promise.finalize());
        assert!(matches!(kept.wait(), Err(Error::Codec(_))));
        assert_eq!(n_lost(&world), 0);
    }

    #[test]
    fn a_call_that_is_not_made_since_its_operation_has_failed_is_not_lost() {
        let world = loopback::world();
        crate::attach(&world).unwrap();
        let promise = Promise::<()>::new(&world).unwrap();
        let failed: Result<PgasFuture<()>> = Err(Error::BrokenPromise);
        drop(call_after(&world, failed));
        drop(call_after(&world, promise.future()));
        drop(promise);
        assert_eq!(n_lost(&world), 0);
    }

    #[test]
    fn a_message_for_which_there_is_no_room_in_time_is_lost() {
        let mut config = Config::default();
        config.timeout = Some(Duration::from_millis(1));
        let world = loopback::worlds(1, &config).unwrap().remove(0);
        crate::attach(&world).unwrap();
        let handle = crate::state::am(&world).unwrap().handle;
        let late = world.wait_for("room", || Ok(false)).unwrap_err();
        assert!(matches!(late, Error::Timeout(_)), "{late}");
        let send = |()| Err::<(), _>(late);
        drop(PgasFuture::ready(()).and_send(handle, world.rank(), send));
        assert_eq!(n_lost(&world), 1);
    }

    #[test]
    fn a_message_to_a_rank_that_has_left_is_lost() {
        loopback::run(2, |world| {
            crate::attach(&world).unwrap();
            let gone = Rank::new(1);
            if world.rank() == gone {
                return;
            }
            world
                .wait_for("rank 1", || Ok(world.has_left(gone)))
                .unwrap();
            let promise = Promise::new(&world).unwrap();
            drop(world.rpc_ff_after(promise.future(), gone, drop::<u64>, 7));
            drop(promise.finalize());
            let lost = &crate::state::am(&world).unwrap().lost;
            assert_eq!(lost.n(), 1);
        });
    }
}
