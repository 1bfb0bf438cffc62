//! A rank leaves the job with its last handle, when none of its operations is in flight.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Inner, World};
use crate::backend::{HandlerId, Message, Stage};
use crate::handler::in_handler;
use crate::handles::Counted;
use crate::notice;
use crate::trace::Kind;
use crate::waited::Waited;

/// A rank that has to wait before it can leave yields for so many rounds, then sleeps between them.
const LEAVING_YIELDS: u32 = 400;
const LEAVING_NAP: Duration = Duration::from_millis(1);

impl World {
    /// Whether this process was forked from the one that is the rank. Such a child may drop what it
    /// has copies of, handles on the world among them, which changes nothing in the job. It must
    /// call nothing else. See [`Process`](crate::Process).
    ///
    /// # Cost
    ///
    /// That of [`Process::is_forked`](crate::Process::is_forked).
    ///
    /// # Examples
    ///
    /// ```
    /// let world = pgas_core::backend::loopback::world();
    /// assert!(!world.is_forked());
    /// ```
    #[must_use]
    pub fn is_forked(&self) -> bool {
        self.wire().is_forked()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let (handles, counted) = (&self.inner.handles, self.counted);
        if counted == Counted::Not || handles.drop_beside_others(counted) {
            return;
        }
        if self.is_forked() {
            // A forked child must not leave in the place of its parent. Nor may it wait for the
            // progress thread, which it does not have.
            let _leaked = ManuallyDrop::new(Arc::clone(&self.inner));
            return;
        }
        while !handles.drop_unless_last(counted) {
            if !thread::panicking() && !in_handler() {
                self.settle_or_tell();
            }
            // A handler may have made one that stays.
            if handles.is_last() {
                self.tell_statistics(None);
            }
            if handles.drop_last(counted, || self.backend().notify(self.rank())) {
                if let Some(layer) = self.inner.above.layer.get() {
                    layer.forget_tasks();
                }
                return;
            }
        }
    }
}

impl World {
    /// Leaves the job while the program holds handles: for a rank whose part is over, so that
    /// nobody waits for it any more. The handles still reach memory.
    pub(crate) fn leave_held(&self) {
        self.settle_or_tell();
        self.backend()
            .leave(&mut |message| self.inner.refuse(&message));
        if let Some(layer) = self.inner.above.layer.get() {
            layer.left();
        }
    }

    fn settle_or_tell(&self) {
        let what = "the collectives that this rank has begun, before it leaves";
        // A guard that was forgotten has no effect any more.
        self.servers().dismiss_all();
        // What the layer has chained to them may send.
        let settled = self
            .wait_for(what, || Ok(!self.tasks().has_some()))
            .and_then(|()| self.settle());
        // Nobody is left to return the error to. The failure of a job has been reported already.
        if let Err(error) = settled
            && self.backend().health().is_ok()
        {
            notice::tell(&format!("rank {} leaves the job: {error}", self.rank()));
            // Others may wait for what this rank has not done.
            drop(self.give_up("leaving the job", error));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.leave();
        if let Some(trace) = &self.trace {
            // The lookout may hold it at this moment, and the process may end before it lets go.
            trace.flush();
        }
    }
}

impl Inner {
    /// Waits for collectives and operations whose events were dropped, then leaves the job; a rank
    /// that panics does not leave in good order, and its death is reported as such.
    fn leave(&self) {
        let is_over = |op| self.backend.test(op, Stage::Operation).unwrap_or(true);
        let (mut rounds, mut waited) = (0_u32, Waited::from(Instant::now()));
        while self.orphans.len() > 0 || self.tasks.has_some() && !thread::panicking() {
            let step = self
                .backend
                .health()
                .and_then(|()| self.backend.progress())
                .and_then(|_| self.wire.receive(&mut |message| self.refuse(&message)));
            if step.is_err() {
                self.orphans.leak();
                return;
            }
            self.tasks.advance();
            self.orphans.reap_all(is_over);
            rounds = rounds.saturating_add(1);
            if rounds < LEAVING_YIELDS {
                thread::yield_now();
            } else {
                self.backend.park(LEAVING_NAP);
                self.check_limit(&mut waited);
            }
        }
        if !thread::panicking() {
            self.backend.leave(&mut |message| self.refuse(&message));
            if let Some(layer) = self.above.layer.get() {
                layer.end();
            }
            let lost = [self.untold.text(self.rank), self.refused.text(self.rank)];
            lost.iter().flatten().for_each(|text| notice::tell(text));
            if let Some(trace) = &self.trace {
                trace.note(Kind::Left, 0, None, [0, 0]);
            }
        }
    }

    /// Fails the job if this rank has taken longer to leave than a wait may take.
    fn check_limit(&self, waited: &mut Waited) {
        waited.look(Instant::now(), Some(LEAVING_NAP));
        let waited = waited.began().elapsed();
        if self.config.timeout.is_some_and(|limit| waited >= limit) {
            let what = "the end of its operations before it leaves";
            let cause = format!("waited {:.1}s for {what}", waited.as_secs_f64());
            if self.backend.health().is_ok() {
                notice::tell(&format!("rank {} {cause}", self.rank));
            }
            // An earlier failure says more.
            drop(self.backend.blame(self.rank, &cause));
        }
    }

    /// Records a message that comes too late; messages of the layer are passed to the layer.
    fn refuse(&self, message: &Message<'_>) {
        let HandlerId(id) = message.handler;
        if HandlerId::LAYER.contains(&id)
            && let Some(layer) = self.above.layer.get()
        {
            layer.refuse(message);
        } else {
            self.refused.add(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;
    use crate::backend::{MessageClass, Sent};
    use crate::config::{Config, Progress};
    use crate::loopback;

    const HOLDS: HandlerId = HandlerId(HandlerId::N_RESERVED);

    /// Yields of a handler that holds a handle on the world while the program drops its own.
    const YIELDS: u32 = 1000;

    /// A handler on the progress thread takes a handle, which it gives to `keep` in the end. The
    /// program drops its own handle meanwhile. Returns whether the rank is there still.
    fn drop_during_a_handler(keep: impl Fn(World) + Send + Sync + 'static) -> bool {
        let config = Config {
            progress: Progress::Thread,
            ..Config::default()
        };
        let world = loopback::worlds(1, &config).unwrap().remove(0);
        let is_dropping = Arc::new(AtomicBool::new(false));
        let (drops, (holds, held)) = (Arc::clone(&is_dropping), mpsc::channel());
        world.set_handler(HOLDS, move |world, _| {
            let own = world.clone();
            holds.send(()).unwrap();
            while !drops.load(Ordering::Acquire) {
                thread::yield_now();
            }
            (0..YIELDS).for_each(|_| thread::yield_now());
            keep(own);
        });
        let sent = world.try_send(world.rank(), MessageClass::Request, HOLDS, &[]);
        assert_eq!(sent.unwrap(), Sent::Accepted);
        held.recv().unwrap();
        let weak = world.downgrade();
        is_dropping.store(true, Ordering::Release);
        drop(world);
        weak.upgrade().is_some()
    }

    #[test]
    fn a_handle_that_a_handler_had_does_not_keep_the_rank_when_the_program_drops_the_last() {
        for _ in 0..10 {
            assert!(!drop_during_a_handler(drop));
        }
    }

    #[test]
    fn a_handle_that_a_handler_keeps_does() {
        let (keeps, kept) = mpsc::channel();
        assert!(drop_during_a_handler(move |own| keeps.send(own).unwrap()));
        let kept: World = kept.recv().unwrap();
        let weak = kept.downgrade();
        kept.barrier().unwrap();
        drop(kept);
        assert!(weak.upgrade().is_none());
    }
}
