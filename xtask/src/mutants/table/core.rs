//! Mutants of the completion of transfers, collectives and signals, and of the waits for it.

use super::super::By::{NoTest, Nobody, Program, Tests};
use super::super::Mutant;
use super::row;

#[rustfmt::skip]
pub(super) const MUTANTS: &[Mutant] = &[
    // Collectives in flight.
    row("collective/call.rs", "for_task.is_done.store(true, Ordering::Release);", 0, "for_task.is_done.store(true, Ordering::Relaxed);", Nobody("the result is taken under its lock, and not set again")),
    row("collective/call.rs", "for_task.is_done.store(true, Ordering::Release);", 0, "", Tests("an_event_is_complete_once_all")),
    row("collective/call.rs", "self.outcome.is_done.load(Ordering::Acquire)", 0, "self.outcome.is_done.load(Ordering::Relaxed)", Nobody("the result is taken under its lock, and not set again")),
    row("collective/call.rs", "meet::meet(self.lane(Phase::Window)).await?;", 0, "", Tests("a_rank_runs_ahead_of")),
    row("collective/call.rs", "self.team.reach_window(window);", 0, "", Tests("a_rank_runs_ahead_of")),
    row("collective/call.rs", "self.reached(window).await;", 0, "", Tests("a_rank_runs_ahead_of")),
    row("collective/call.rs", "self.world().tasks().spawn(task);", 0, "drop(task);", Tests("an_event_is_complete_once_all")),
    row("collective/ticket.rs", "self.native().turn.store(GIVEN_UP, Ordering::Release);", 0, "", Tests("a_call_that_a_panic_ends_before")),
    row("collective/ticket.rs", "turn if turn == self.number => Poll::Ready(Ok(())),", 0, "turn if turn != GIVEN_UP => Poll::Ready(Ok(())),", Tests("collectives_of_both_kinds")),
    row("collective/ticket.rs", "self.has_passed.store(true, Ordering::Relaxed);", 0, "", Tests("collectives_of_both_kinds")),
    row("collective/ticket.rs", "native.tickets.fetch_add(1, Ordering::Relaxed)", 0, "native.tickets.load(Ordering::Relaxed)", Tests("collectives_of_both_kinds")),
    row("collective/ticket.rs", "self.native().turn.load(Ordering::Acquire)", 0, "self.native().turn.load(Ordering::Relaxed)", NoTest("x86 keeps the order of loads")),
    row("collective/ticket.rs", "next, Ordering::Release, Ordering::Relaxed", 0, "next, Ordering::Relaxed, Ordering::Relaxed", NoTest("all atomic instructions of x86 order as much")),
    row("collective/ticket.rs", "let passed = turn.compare_exchange(self.number, next,", 0, "let passed = turn.compare_exchange(self.number, self.number,", Tests("collectives_of_both_kinds")),
    // Messages of collectives.
    row("wire/inbox.rs", "slot.missing = missing;", 0, "", Tests("inbox")),
    row("wire/inbox.rs", "if arriving.get(key)?.missing > 0 {", 0, "if false {", Tests("inbox")),
    row("wire/inbox.rs", "end.is_none_or(|end| end > header.total)", 0, "end.is_some_and(|end| end > header.total)", Tests("inbox")),
    row("wire/inbox.rs", "if slot.payload.bytes().len() as u64 != header.total {", 0, "if false {", Tests("inbox")),
    row("wire/inbox.rs", "number: header.number,", 0, "number: 0,", Tests("inbox")),
    // Barriers flush before they meet.
    row("completion.rs", "self.flush_for_all()?;", 0, "", Tests("barriers_of_every_kind")),
    row("collective/barrier.rs", "self.world().flush_for_all()", 0, "Ok(())", Tests("a_barrier_of_a_team")),
    row("collective/barrier.rs", "let flushed = self.flush_for_barrier();", 0, "let flushed: Result<()> = Ok(());", Tests("barriers_of_every_kind")),
    // The widest compare-and-swap.
    row("raw/wide.rs", "new, Ordering::SeqCst, Ordering::SeqCst", 0, "new, Ordering::Relaxed, Ordering::Relaxed", NoTest("all atomic instructions of x86 order as much")),
    // The last rank that leaves reads what all have counted.
    row("stats/board.rs", "n.fetch_add(1, Ordering::AcqRel)", 0, "n.fetch_add(1, Ordering::Relaxed)", NoTest("all atomic instructions of x86 order as much")),
    // Tasks, and what dropped events leave.
    row("tasks.rs", "self.pending.append(&mut self.left);", 0, "", Tests("tasks")),
    row("tasks.rs", "self.pending.append(&mut list);", 0, "", Tests("tasks")),
    row("tasks.rs", "n_tasks.fetch_sub(1, Ordering::Relaxed);", 0, "", Tests("tasks")),
    row("tasks.rs", "ends.0 = None;", 0, "", Tests("tasks")),
    row("tasks.rs", "taken.pending.push_back(task);", 0, "", Tests("tasks")),
    row("orphans.rs", "&& !over(orphan.op)", 0, "&& false", Tests("orphans")),
    row("orphans.rs", "&& !over(orphan.op)", 0, "&& over(orphan.op)", Tests("orphans")),
    row("orphans.rs", "list.push_back(orphan);", 0, "list.push_front(orphan);", Tests("orphans")),
    row("orphans.rs", "list.len().min(most)", 0, "list.len()", Tests("orphans")),
    row("orphans.rs", "self.len.store(list.len(), Ordering::Relaxed);", 0, "", Tests("orphans")),
    row("orphans.rs", "self.len.store(list.len(), Ordering::Relaxed);", 1, "", Tests("orphans")),
    row("event.rs", "self.world.adopt(self.op, Box::new(finish));", 0, "", Tests("orphans")),
    row("event.rs", "self.world.adopt(self.op, Box::new(words));", 0, "", Tests("orphans")),
    row("event.rs", "Ok(false) => Ok(None),", 0, "Ok(false) => Ok(self.words.take().map(|words| (self.finish)(words.take()))),", Tests("a_brief_operation_is_complete")),
    row("flight.rs", "self.reached.load(Ordering::Acquire)", 0, "self.reached.load(Ordering::Relaxed)", NoTest("x86 keeps the order of loads")),
    row("flight.rs", "self.reached.store(reached, Ordering::Release);", 0, "self.reached.store(reached, Ordering::Relaxed);", NoTest("x86 keeps the order of stores")),
    row("flight.rs", "self.reached.store(reached, Ordering::Release);", 0, "", Tests("flight")),
    row("flight.rs", "report.is_source_wanted.store(true, Ordering::Relaxed);", 0, "", Tests("a_source_is_free_before")),
    row("flight.rs", "mem::forget(self.kept.take());", 0, "", Tests("flight")),
    row("flight.rs", "!self.parts.is_empty() || self.begin_signal()", 0, "self.begin_signal() || !self.parts.is_empty()", Tests("flight")),
    row("flight.rs", "if self.error.is_some() {", 0, "if false {", Tests("flight")),
    row("few_words.rs", "if kept.len() < N_KEPT {", 0, "if true {", Tests("buffers_are_used_again")),
    row("event.rs", "State::Task(task) => return Ok(task.is_done()),", 0, "State::Task(_) => return Ok(true),", Tests("an_event_is_complete_once_all")),
    row("event.rs", "Ok(false) => Ok(None),", 1, "Ok(false) => Ok(self.finish.take().map(|finish| finish())),", Tests("a_longer_operation_is_complete")),
    row("rma/scope.rs", "Ok(done) => !done,", 0, "Ok(_) => false,", Tests("a_handler_that_panics_while_a_scope")),
    // Waits end.
    row("wait.rs", "self.look();", 0, "", Tests("a_rank_that_is_never_without_work")),
    row("wait.rs", "self.look();", 1, "", Tests("a_failure_ends_the_wait_of_a_rank")),
    row("wait.rs", "self.check_limit(awaited, began)?;", 0, "", Tests("a_wait_longer_than_the_configured")),
    row("wait.rs", "self.failure = self.world.backend().health().err();", 0, "", Nobody("the following sleeps, within a tenth of a millisecond, check, too")),
    row("wait.rs", "self.backend().health()?;", 0, "", Tests("a_rank_that_is_never_without_work")),
    row("wait.rs", "self.failure.take()", 0, "None::<Error>", Tests("what_came_before_the_job_failed")),
    row("wait.rs", "self.world.take_in_what_came();", 0, "", Nobody("a message would have to come, and its sender to fail, between two lines")),
    row("wait.rs", "(waited.began()) > LONGEST_YIELDING", 0, "(waited.began()) > Duration::MAX", Tests("a_wait_is_noted_by_time")),
    row("own_wait.rs", "is_multiple_of(n_between)", 0, "is_multiple_of(BUSY_ROUNDS)", Tests("a_wait_is_noted_by_time")),
    row("handler.rs", "IN_HANDLER.with(|it| it.set(self.0));", 0, "", Tests("handler::tests")),
    // Threads that share a lock.
    row("lock/mod.rs", "compare_exchange(0, number, Ordering::Acquire, Ordering::Relaxed)", 0, "compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed)", NoTest("all atomic instructions of x86 order as much")),
    row("lock/mod.rs", "self.0.store(0, Ordering::Release);", 0, "self.0.store(0, Ordering::Relaxed);", NoTest("x86 keeps the order of stores")),
    // Handles, and ranks that leave.
    row("handles.rs", ".fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer)", 0, ".fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer)", NoTest("all atomic instructions of x86 order as much")),
    row("handles.rs", "is_enough(fewer.n(), fewer.n_of_program()).then_some(fewer.0)", 0, "Some(fewer.0)", Tests("of_handles_that_are_dropped_at_once")),
    row("lock/mod.rs", "let _step = self.world().in_step(THE_LOCK);", 0, "", Tests("a_panic_of_a_handler_while_a_rank_waits_for_a_lock")),
    row("handles.rs", "self.is_over.store(true, Ordering::Release);", 0, "self.is_over.store(true, Ordering::Relaxed);", Nobody("the thread that sees it ends, and is joined")),
    row("handles.rs", "self.is_over.load(Ordering::Acquire)", 0, "self.is_over.load(Ordering::Relaxed)", Nobody("the thread that sees it ends, and is joined")),
    row("handles.rs", "self.is_over.store(true, Ordering::Release);", 0, "", Tests("collectives_of_both_kinds")),
    row("loopback/mod.rs", "has_left && handler.is_heard_of() && target.mailbox.withdraw(class, number)", 0, "has_left && handler.is_heard_of()", Tests("a_message_that_was_served_is_not_told")),
    row("loopback/mod.rs", "target.has_left.load(Ordering::Acquire)", 0, "target.has_left.load(Ordering::Relaxed)", Nobody("the messages of a rank are guarded by locks")),
    row("loopback/mod.rs", "self.job.member(rank).has_left.load(Ordering::Acquire)", 0, "self.job.member(rank).has_left.load(Ordering::Relaxed)", Nobody("the messages of a rank are guarded by locks")),
    row("loopback/mod.rs", "member.has_left.store(true, Ordering::Release);", 0, "member.has_left.store(true, Ordering::Relaxed);", Nobody("the messages of a rank are guarded by locks")),
    // Signals.
    row("rma/signal.rs", "fence(Ordering::Release);", 0, "", NoTest("x86 keeps the order of stores, and loom does not see the copy before it")),
];

/// What the tests of messages tell.
#[rustfmt::skip]
pub(super) const OF_CALLS: &[Mutant] = &[
    row("completion.rs", "Ok(true) => self.advance().map(drop),", 0, "Ok(true) => Ok(()),", Program("integration", "delivery::a_rank_that_")),
    row("collective/call.rs", "1 => self.world().advance_once().map(drop),", 0, "1 => Ok(()),", Program("integration", "delivery::a_rank_that_need_not_wait")),
    row("event.rs", "world.advance().map(drop)", 0, "Ok(())", Program("integration", "delivery::a_rank_that_need_not_wait")),
    row("event.rs", "} else if in_handler() {", 0, "} else if false {", Program("integration", "futures::a_complete_collective")),
];

/// What a weak network tells.
#[rustfmt::skip]
pub(super) const OF_TRANSFERS: &[Mutant] = &[
    row("rma/checked.rs", "world.flush(self.at.rank)?;", 0, "", Program("integration", "signals::")),
];
