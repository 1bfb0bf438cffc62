//! Serves calls and answers: runs a called function and sends its answer. A panic becomes an
//! answer, too.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};

use pgas_core::backend::{HandlerId, Message, MessageClass};
use pgas_core::process::{discard_panic, panic_text};
use pgas_core::{Rank, Team, World};
use pgas_lockfree::message_counts::Served;
use pgas_lockfree::pending::{Cookie, Outcome};
use zerocopy::{FromBytes, Immutable};

use crate::answer;
use crate::codec::{Encoder, LONGEST, unreadable};
use crate::error::no_handle_on;
use crate::function::{Call, FunctionId, Incoming, Later, Ran};
use crate::identity::Names;
use crate::ids::{CALL, FAILURE, RESULT};
use crate::panics;
use crate::put_off::{Awaits, Made};
use crate::set_aside::MAX_SET_ASIDE;
use crate::state::Am;
use pgas_core::{Error, Result};

impl Am {
    /// Splits a message, which is not counted yet, into its header `H` and the rest.
    #[inline]
    pub(crate) fn header<'a, H: FromBytes + Immutable + Copy>(
        &self,
        world: &World,
        message: &Message<'a>,
    ) -> Result<(H, &'a [u8])> {
        H::read_from_prefix(message.payload).map_err(|_| {
            let HandlerId(id) = message.handler;
            let what = format!("handler {id}");
            self.malformed(world, message, what, "and it is too short")
        })
    }

    /// The basis of function names. `None` if it is not known yet; then the call is put off.
    #[inline]
    fn names_for(&self, message: &Message<'_>) -> Result<Option<&Names>> {
        let Some(names) = self.names.get() else {
            // Other ranks have already learned that all run one program.
            return self.put_off(message, Awaits::Names).map(|()| None);
        };
        let names = names.as_ref().map_err(Error::clone)?;
        self.objects.forget_named();
        Ok(Some(names))
    }

    /// Runs a function and sends its answer.
    #[inline]
    pub(crate) fn serve_call(&self, world: &World, message: &Message<'_>) -> Result<()> {
        let (call, bytes) = self.header::<Call>(world, message)?;
        let (from, cookie) = (message.from, call.cookie);
        let names = match self.names_for(message) {
            Ok(Some(names)) => names,
            Ok(None) => return Ok(()),
            Err(error) => return self.fail_and_tell(world, from, cookie, error),
        };
        let incoming = Incoming { world, from, bytes };
        let mut out = Encoder::new();
        out.write(&cookie.to_ne_bytes());
        let run = || call.function.call(names, incoming, Some(&mut out));
        // The call counts as served when the caller has received the answer.
        match panic::catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(Ran::Returned)) => self.answer(world, from, cookie, out.bytes()),
            Ok(Ok(Ran::NotCalled(error))) => match self.put_aside(message, error) {
                None => Ok(()),
                Some(error) => self.fail_with(world, from, cookie, &error),
            },
            Ok(Ok(Ran::NotWritten(error))) => self.fail_with(world, from, cookie, &error),
            Ok(Ok(Ran::Later(later))) => {
                self.answer_later(from, cookie, later);
                Ok(())
            }
            Ok(Err(error)) => self.fail_and_tell(world, from, cookie, error),
            Err(payload) => self.fail_by_panic(world, from, cookie, payload),
        }
    }

    /// Answers a call, whose function has returned a future, when the value is available.
    #[cold]
    fn answer_later(&self, to: Rank, cookie: u64, later: Later) {
        let handle = self.handle;
        later(Box::new(move |result| {
            // If this rank has left, its callers learn that by other means.
            let Some(am) = handle.get() else { return };
            let Some(world) = am.world.upgrade() else {
                return;
            };
            let sent = match result {
                Ok(out) => am.answer(&world, to, cookie, out.bytes()),
                Err(error) => am.fail_with(&world, to, cookie, &error),
            };
            if let Err(error) = sent {
                am.lose(to, &error);
            }
        }));
    }

    /// Runs a function without an answer.
    #[inline]
    pub(crate) fn serve_one_way(&self, world: &World, message: &Message<'_>) -> Result<()> {
        let (function, bytes) = self.header::<FunctionId>(world, message)?;
        let names = match self.names_for(message) {
            Ok(Some(names)) => names,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.message_counts.count_served();
                return Err(error);
            }
        };
        let from = message.from;
        let incoming = Incoming { world, from, bytes };
        let run = || function.call(names, incoming, None);
        let mut served = Ok(());
        match panic::catch_unwind(AssertUnwindSafe(run)) {
            // No caller waits for the value of the future.
            Ok(Ok(Ran::Returned | Ran::Later(_))) => {}
            Ok(Ok(Ran::NotCalled(error) | Ran::NotWritten(error))) => {
                match self.put_aside(message, error) {
                    None => return Ok(()),
                    Some(error @ Error::Codec(_)) => self.lose(from, &error),
                    Some(error) => served = Err(error),
                }
            }
            Ok(Err(error)) => served = Err(error),
            // No caller waits for an answer: it is this rank's panic.
            Err(payload) => {
                self.message_counts.count_served();
                panic::resume_unwind(payload)
            }
        }
        self.message_counts.count_served();
        served
    }

    /// Keeps a call until the object that it names is built, or the team that it names is made.
    /// Returns the error if it is another one, or the call cannot be kept.
    #[cold]
    fn put_aside(&self, message: &Message<'_>, error: Error) -> Option<Error> {
        match error {
            Error::NotBuilt(number, team) => self.objects.set_aside(message, number, team),
            Error::NotSplit(named) => {
                let (team, split) = *named;
                self.put_off(message, Awaits::Team { team, split })
            }
            error => Err(error),
        }
        .err()
    }

    #[cold]
    fn put_off(&self, message: &Message<'_>, awaits: Awaits) -> Result<()> {
        if self.put_off.keep(message, awaits) {
            return Ok(());
        }
        let text = format!("{MAX_SET_ASIDE} calls are put off, and this one waits for {awaits}");
        Err(unreadable::<Call>(text))
    }

    /// Lets calls go on whose teams are made, or that need wait no longer: those fail.
    #[cold]
    pub(crate) fn take_up_put_off(&self, world: &World) {
        let has_names = self.names.get().is_some();
        let due = self
            .put_off
            .take_due(has_names, world.n_splits_ended(), |team, split| {
                // Asked first: a split that ends after this has added its team before the search.
                let is_split = !world.is_in_split(split);
                if world.team_by_id(team).is_some() {
                    Made::Here
                } else if is_split {
                    Made::Elsewhere
                } else {
                    Made::NotYet
                }
            });
        let n_due = due.ready.len() + due.in_vain.len();
        for (call, team) in due.in_vain {
            let error = unreadable::<Team>(no_handle_on(world, team));
            if let Err(error) = self.refuse_call(world, &call.message(), &error) {
                world.tell_later(error);
            }
        }
        if n_due > 0 {
            self.objects.go_on(due.ready);
            self.put_off.went_on(n_due);
        }
    }

    /// Answers a call that is not run, or records it as lost.
    #[cold]
    fn refuse_call(&self, world: &World, message: &Message<'_>, error: &Error) -> Result<()> {
        if message.handler == CALL {
            let (call, _) = self.header::<Call>(world, message)?;
            return self.fail_with(world, message.from, call.cookie, error);
        }
        self.lose(message.from, error);
        self.message_counts.count_served();
        Ok(())
    }

    /// Sends the result of a call, which begins with its cookie.
    #[inline]
    fn answer(&self, world: &World, to: Rank, cookie: u64, bytes: &[u8]) -> Result<()> {
        if bytes.len() <= world.capabilities().max_medium {
            return self.reply(world, to, RESULT, &[bytes]);
        }
        self.answer_in_pieces(world, to, cookie, bytes)
    }

    #[cold]
    fn answer_in_pieces(&self, world: &World, to: Rank, cookie: u64, bytes: &[u8]) -> Result<()> {
        let n_bytes = bytes.len();
        if n_bytes > LONGEST {
            let text = format!("its result has {n_bytes} bytes, and at most {LONGEST} are sent");
            return self.fail(world, to, cookie, &text);
        }
        self.send_in_pieces(world, to, MessageClass::Reply, RESULT, &[bytes])
    }

    /// Answers with the error of a call. The panic of a call that the function has made stays one.
    #[cold]
    fn fail_with(&self, world: &World, to: Rank, cookie: u64, error: &Error) -> Result<()> {
        let Error::RemotePanic(panic) = error else {
            return self.fail(world, to, cookie, &error.to_string());
        };
        let (rank, text, at) = (panic.rank, &panic.message, &panic.location);
        if rank == self.rank {
            return self.fail_by(world, to, cookie, text, at);
        }
        // Say where it happened: the caller would take it for a panic of this rank.
        let text = format!("on rank {rank}, which it asked: {text}");
        self.fail_by(world, to, cookie, &text, at)
    }

    #[cold]
    fn fail(&self, world: &World, to: Rank, cookie: u64, text: &str) -> Result<()> {
        let failure = answer::failure(cookie, text, None)?;
        self.reply(world, to, FAILURE, &[failure.bytes()])
    }

    /// Answers with an error that is also one of this rank: the call makes no sense.
    #[cold]
    fn fail_and_tell(&self, world: &World, to: Rank, cookie: u64, error: Error) -> Result<()> {
        self.fail(world, to, cookie, &error.to_string())?;
        Err(error)
    }

    #[cold]
    fn fail_by_panic(
        &self,
        world: &World,
        to: Rank,
        cookie: u64,
        payload: Box<dyn Any + Send>,
    ) -> Result<()> {
        let location = panics::place_of_last();
        let sent = self.fail_by(world, to, cookie, panic_text(&*payload), &location);
        discard_panic(payload);
        sent
    }

    #[cold]
    fn fail_by(
        &self,
        world: &World,
        to: Rank,
        cookie: u64,
        text: &str,
        location: &str,
    ) -> Result<()> {
        let failure = answer::failure(cookie, text, Some(location))?;
        self.reply(world, to, FAILURE, &[failure.bytes()])
    }

    /// Records a one-way call that cannot be run as lost.
    #[cold]
    pub(crate) fn lose(&self, from: Rank, error: &Error) {
        let reason = format!("a call of rank {from}: {error}");
        self.lost.add(1, &reason);
    }

    /// Passes the answer of a call to its waiting caller.
    #[inline]
    pub(crate) fn take_answer(
        &self,
        world: &World,
        message: &Message<'_>,
        outcome: Outcome,
    ) -> Result<()> {
        let (cookie, bytes) = self.header::<u64>(world, message)?;
        if let Some(times) = &self.call_times
            && let Some(took) = times.end(Cookie(cookie))
        {
            world.count_call(took);
        }
        // Counted after the action may have sent, also if it panics.
        let served = Served::new(&self.message_counts);
        if self.pending.complete(Cookie(cookie), outcome, bytes) {
            return Ok(());
        }
        served.cancel();
        let what = format!("the answer of call {cookie:#x}");
        let reason = "which this rank does not wait for";
        Err(self.malformed(world, message, what, reason))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use pgas_core::Rank;
    use pgas_core::backend::loopback;

    use crate::{Error, RemoteCalls, quiet};

    static SUM: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn calls_of_each_kind_run_once_and_a_panic_is_an_answer() {
        loopback::run(2, |world| {
            crate::attach(&world).unwrap();
            let to = Rank::new(1 - world.rank().number());
            assert_eq!(
                world.rpc(to, |x: u64| x + 1, 41).unwrap().wait().unwrap(),
                42
            );
            let sum = |x: u64, view: &[u32]| x + u64::from(view.iter().sum::<u32>());
            let viewed = world.rpc_view(to, sum, 1, &[2, 3]).unwrap();
            assert_eq!(viewed.wait().unwrap(), 6);
            let count = |x: u64, view: &[()]| x + view.len() as u64;
            let counted = world.rpc_view(to, count, 1, &[(); 3]).unwrap();
            assert_eq!(counted.wait().unwrap(), 4, "there are no bytes to count");
            let both = |x: u64, words: &[u32], bytes: &[u8]| {
                x + u64::from(words.iter().sum::<u32>()) + 100 * bytes.len() as u64
            };
            for n in [0, 1, 7, 8, 3000] {
                let (words, bytes) = (vec![2; n], vec![1; n + 3]);
                let viewed = world.rpc_views(to, both, 1, (&words, &bytes)).unwrap();
                let n = n as u64;
                assert_eq!(viewed.wait().unwrap(), 1 + 2 * n + 100 * (n + 3));
            }
            let count = |(): (), none: &[()], words: &[u16]| (none.len() as u64, words.to_vec());
            let counted = world.rpc_views(to, count, (), (&[(); 3], &[5, 6])).unwrap();
            assert_eq!(counted.wait().unwrap(), (3, vec![5, 6]));
            let failed = world.rpc(to, |x: u64| 1 / x, 0).unwrap().wait();
            assert!(matches!(failed, Err(Error::RemotePanic(_))), "{failed:?}");
            let add = |x: u64| {
                SUM.fetch_add(x, Ordering::Relaxed);
            };
            world.rpc_ff(to, add, 7).unwrap();
            quiet(&world).unwrap();
            assert_eq!(SUM.load(Ordering::Relaxed), 14);
        });
    }
}
