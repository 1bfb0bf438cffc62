//! Drives the algorithm of a collective.
//!
//! An algorithm is an `async fn` that is written once. A blocking collective polls it between calls
//! of progress (`Team::drive`); a non-blocking one hands it to the engine, which polls it inside
//! every call of progress of the rank (`Team::launch`).

use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};

use super::lane::{Call, NOBODY, Phase};
use super::native::Turn;
use super::ticket::Ticket;
use super::{Kind, ReduceOp, Signature, check, meet};
use crate::error::{Error, Result};
use crate::event::{Event, Task};
use crate::handler::{as_handler, in_handler};
use crate::locks::lock;
use crate::pod::Pod;
use crate::rank::Rank;
#[cfg(feature = "tracing")]
use crate::seen;
use crate::team::Team;
use crate::waits::{Awaited, TeamCall, program_call};
use crate::world::World;

/// The number of collectives of a team that a rank may be ahead of the slowest member.
pub(super) const WINDOW: u64 = 64;

impl Call {
    /// Waits until the slowest member is within the window, and compares the arguments if that is
    /// enabled. Every algorithm begins with it. If it returns a turn, the transport performs the
    /// collective instead.
    pub(super) async fn enter(&self) -> Result<Option<Turn<'_>>> {
        if self.is_refused {
            let what = self.signature.kind.name();
            return Err(Error::InHandler { what });
        }
        let admitted = self.admit().await;
        let Some(ticket) = &self.ticket else {
            return admitted.map(|()| None);
        };
        let turn = ticket.turn().await;
        if let Err(error @ Error::Mismatch(_)) = admitted {
            turn?;
            // All members have the same error, and are still in step.
            ticket.pass();
            return Err(error);
        }
        // The failure of the job says more than the error of a turn that was given up because of
        // it.
        admitted?;
        turn?;
        Ok(Some(Turn::new(self, ticket)))
    }

    /// As [`enter`](Self::enter), for a reduction or a scan of `values`.
    pub(super) async fn enter_with<'a, T: Pod>(
        &'a self,
        values: &mut [T],
        op: &impl ReduceOp<T>,
    ) -> Result<Option<Turn<'a>>> {
        let turn = self.enter().await?;
        for value in values {
            *value = op.alone(*value);
        }
        Ok(turn)
    }

    async fn admit(&self) -> Result<()> {
        // Messages from before the job's failure would let this member alone continue.
        self.wire.backend.health()?;
        let window = self.number / WINDOW;
        if self.number.is_multiple_of(WINDOW) && window > 0 {
            self.reached(window - 1).await;
            meet::meet(self.lane(Phase::Window)).await?;
            self.team.reach_window(window);
        } else {
            self.reached(window).await;
        }
        if let Some(program) = &self.program {
            let compared = check::compare(self, program).await;
            // Relaxed: the thread that polls the algorithm reads it.
            let is_agreed = matches!(compared, Err(Error::Mismatch(_)));
            self.is_agreed.store(is_agreed, Ordering::Relaxed);
            compared?;
        }
        Ok(())
    }

    async fn reached(&self, window: u64) {
        poll_fn(|_| {
            if self.team.window() >= window {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// The call, as reports of long waits name it.
    fn of_team(&self) -> TeamCall {
        TeamCall {
            team: self.team.id(),
            n_ranks: self.team.n_ranks(),
            number: self.number,
        }
    }

    /// Polls the algorithm. Operators and codecs are the program's code, and run as handlers do: a
    /// wait in them would wait for the collective itself. If one panics, the job fails.
    fn advance<F: Future>(&self, algorithm: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _step = self.wire.in_step(self.kind().name());
        as_handler(|| algorithm.poll(cx))
    }
}

impl Team {
    /// Begins a collective: gives it its number. Inside a handler it gets none, so that the team
    /// stays in step, and [`enter`](Call::enter) refuses it.
    #[track_caller]
    pub(super) fn begin(&self, signature: Signature) -> Call {
        let common_bytes = signature.element_bytes.saturating_mul(signature.len);
        let bytes = common_bytes.saturating_add(signature.own_bytes);
        let is_refused = in_handler();
        if !is_refused {
            self.world().trace_collective(signature.kind.name(), bytes);
        }
        let (is_checked, from) = (self.world().wire().check, Location::caller());
        #[cfg(feature = "tracing")]
        let seen = {
            let (rank, what) = (self.world().rank(), signature.kind.name());
            seen::collective(rank, what, program_call(from))
        };
        let (number, ticket) = if is_refused {
            (0, None)
        } else {
            let number = self.shared().take_number();
            (number, Ticket::take(self.shared(), &signature))
        };
        Call {
            wire: Arc::clone(self.world().wire()),
            team: Arc::clone(self.shared()),
            number,
            ticket,
            is_refused,
            signature,
            is_agreed: AtomicBool::new(false),
            program: is_checked.then(|| program_call(from)),
            awaits: AtomicU32::new(NOBODY),
            #[cfg(feature = "tracing")]
            seen,
        }
    }

    /// Runs the `algorithm` of `call` to its end on this thread.
    #[track_caller]
    pub(super) fn drive<T>(
        &self,
        call: &Call,
        algorithm: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut algorithm = pin!(algorithm);
        let mut cx = Context::from_waker(Waker::noop());
        let mut output = None;
        let awaited = Awaited {
            what: call.signature.kind.name(),
            call: Some(call.of_team()),
            missing: &|| call.awaited(),
            runs_program: false,
        };
        let mut n_steps = 0_u32;
        #[cfg(feature = "tracing")]
        let _seen = call.seen.enter();
        // Handlers and chained actions run meanwhile, and may panic.
        let _step = self.world().in_step(awaited.what);
        let waited = self.world().wait_until(&awaited, || {
            n_steps = n_steps.saturating_add(1);
            if let Poll::Ready(result) = call.advance(algorithm.as_mut(), &mut cx) {
                output = Some(result?);
            }
            Ok(output.is_some())
        });
        let waited = waited.and_then(|()| match n_steps {
            // A member that need not wait, such as the root of a broadcast, serves the others all
            // the same.
            1 => self.world().advance_once().map(drop),
            _ => Ok(()),
        });
        call.outcome(waited)?;
        Ok(output.expect("the wait ended because the algorithm has"))
    }

    /// Runs the first steps of `algorithm` now and leaves the others to the engine, which runs them
    /// even if the event is dropped, since other ranks wait for them.
    pub(super) fn launch<T: Send + 'static, F>(
        &self,
        call: Call,
        algorithm: impl FnOnce(Arc<Call>) -> F,
    ) -> Event<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (kind, of_team) = (call.kind(), call.of_team());
        let call = Arc::new(call);
        let weak = Arc::downgrade(&call);
        let same = Arc::clone(&call);
        let algorithm = algorithm(call);
        let outcome = Arc::new(Outcome {
            is_done: AtomicBool::new(false),
            result: Mutex::new(None),
        });
        let for_task = Arc::clone(&outcome);
        let mut task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            let mut algorithm = pin!(algorithm);
            let result = poll_fn(|cx| same.advance(algorithm.as_mut(), cx)).await;
            let result = same.outcome(result);
            // A subscriber that sees its end runs as a handler, too.
            as_handler(|| drop(same));
            *lock(&for_task.result) = Some(result);
            // Pairs with the load in `is_done`: a thread that sees the flag finds the result.
            for_task.is_done.store(true, Ordering::Release);
        });
        let mut cx = Context::from_waker(Waker::noop());
        if task.as_mut().poll(&mut cx).is_pending() {
            self.world().tasks().spawn(task);
        }
        Event::task(Box::new(Launched {
            world: self.world().clone(),
            kind,
            of_team,
            call: weak,
            outcome,
        }))
    }
}

/// The place of a task's result.
struct Outcome<T> {
    is_done: AtomicBool,
    result: Mutex<Option<Result<T>>>,
}

/// The event's view of a task.
struct Launched<T> {
    world: World,
    kind: Kind,
    of_team: TeamCall,
    /// Owned by the task; gone when the task is over.
    call: Weak<Call>,
    outcome: Arc<Outcome<T>>,
}

impl<T: Send> Task<T> for Launched<T> {
    fn is_done(&self) -> bool {
        // Pairs with the store at the end of the task.
        self.outcome.is_done.load(Ordering::Acquire)
    }

    fn take(&mut self) -> Result<T> {
        lock(&self.outcome.result)
            .take()
            .expect("the event takes the result of a task that is done, once")
    }

    fn world(&self) -> &World {
        &self.world
    }

    fn let_go(&mut self) -> bool {
        self.world = self.world.clone_uncounted();
        true
    }

    fn what(&self) -> &'static str {
        self.kind.name()
    }

    fn call(&self) -> Option<TeamCall> {
        Some(self.of_team)
    }

    fn missing(&self) -> Vec<Rank> {
        let call = self.call.upgrade();
        call.map_or_else(Vec::new, |call| call.awaited())
    }
}
