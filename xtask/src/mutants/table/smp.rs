//! Mutants of what ranks of one host share: who is there and who has failed, who sleeps and who
//! lives.

use super::super::By::{NoTest, Nobody, Optimized, Program, Tests};
use super::super::Mutant;
use super::row;

#[rustfmt::skip]
pub(super) const MUTANTS: &[Mutant] = &[
    // A failure is heard of.
    row("control.rs", "self.bell(rank).ring();", 0, "", Tests("a_failure_wakes")),
    row("settings.rs", "fence(Ordering::SeqCst);", 0, "", Tests("one_of_two_that_join_with_different_settings")),
    row("control.rs", "&self.bells[rank as usize * 2 + 1]", 0, "&self.bells[1]", Tests("their_bells_are_their_own")),
    // Barriers, messages and sleep.
    row("member.rs", "if ticket.is_last() {", 0, "if false {", Tests("who_comes_last_to_a_barrier")),
    row("member.rs", "if !control.barrier().is_complete(last) {", 0, "if false {", Tests("who_enters_a_barrier")),
    row("member.rs", "if mailbox.ring(control.bell(to), posted, handler.is_heard_of()) {", 0, "if control.bell(to).has_left() && handler.is_heard_of() {", Tests("a_message_wakes")),
    row("member.rs", "if mailbox.ring(control.bell(to), posted, handler.is_heard_of()) {", 1, "if control.bell(to).has_left() && handler.is_heard_of() {", Tests("filled_in_place_wakes")),
    row("member.rs", "MessageClass::Request => Some(credits),", 0, "MessageClass::Request => None,", Program("transport", "a_rank_that_floods")),
    row("member.rs", "control.leave(self.rank);", 0, "", Tests("a_rank_is_gone_when")),
    row("member.rs", "control.bell(self.rank).leave();", 0, "", Tests("who_sends_in_place_to_a_rank_that_leaves")),
    row("member.rs", "received != Ok(false)", 0, "received == Ok(true)", Tests("a_rank_with_a_damaged_mailbox")),
    row("member.rs", "received != Ok(false)", 0, "received.is_ok()", Tests("each_message_to_a_rank_that_leaves")),
    row("member.rs", "if are_closed {", 0, "if true {", Tests("a_rank_that_leaves_a_failed_job_from_a_handler")),
    row("member.rs", "control.bell(rank).ring();", 1, "", Tests("a_rank_that_leaves_wakes")),
    row("member.rs", "self.take_back(place.id);", 0, "", Tests("a_buffer_for_a_rank_that_has_left")),
    row("member.rs", "&& (0..2).all(|class| control.mailbox(self.rank, class).n_queued_bytes() == 0)", 0, "", Tests("a_rank_is_gone_when")),
    row("member.rs", "&& (0..2).all(|class| !control.mailbox(self.rank, class).is_receiving())", 0, "", Tests("a_rank_is_gone_when")),
    row("rma.rs", "self.job().control().bell(rank.number()).ring();", 0, "", Tests("whoever_is_notified")),
    // Fences.
    row("rma.rs", "fence(Ordering::SeqCst);", 0, "", Optimized("of_two_ranks_that_put_flush_and_get")),
    row("rma.rs", "fence(Ordering::SeqCst);", 1, "", Optimized("of_two_ranks_that_put_flush_and_get")),
    row("rma.rs", "fence(Ordering::Release);", 0, "", NoTest("x86 keeps the order of stores")),
    row("membarrier.rs", "let done = membarrier(MembarrierCommand::GlobalExpedited);", 0, "let done = Ok::<(), ()>(());", Tests("of_a_light_fence_and_a_heavy_one")),
    row("membarrier.rs", "compiler_fence(Ordering::SeqCst);", 0, "", NoTest("without optimization the compiler moves nothing past it")),
    row("membarrier.rs", "fence(Ordering::SeqCst);", 1, "", NoTest("only where the system has no `membarrier`")),
    row("membarrier.rs", "fence(Ordering::SeqCst);", 2, "", NoTest("the system call that follows fences, too; only where there is none")),
    row("doorbell/futex.rs", "i32::MAX.cast_unsigned()", 0, "1", Tests("one_ring_wakes_every_thread")),
    row("doorbell/futex.rs", "let woken = futex::wake(&self.0, futex::Flags::empty(), i32::MAX.cast_unsigned());", 0, "let woken = Ok::<usize, Errno>(0);", Tests("a_message_wakes")),
    // Who lives.
    row("liveness.rs", ".filter(|rank| !hold.is_held(*rank))", 0, ".filter(|_| true)", Tests("who_is_in_the_job_and_has_no_lock")),
    row("liveness.rs", "if let Some(rank) = dead {", 0, "if let Some(rank) = dead.filter(|_| false) {", Tests("who_is_in_the_job_and_has_no_lock")),
    row("liveness.rs", "control.membership(*rank) == Membership::Joined", 0, "control.membership(*rank) != Membership::Absent", Tests("who_is_in_the_job_and_has_no_lock")),
    row("liveness.rs", "control.membership(*rank) == Membership::Joined", 0, "control.membership(*rank) != Membership::Left", Tests("who_is_in_the_job_and_has_no_lock")),
    row("liveness.rs", ".find(is_joined)", 0, ".next()", NoTest("a rank would have to leave between two checks within nanoseconds")),
    row("liveness.rs", "if state.stopped_for(rank, is_stopped) > stall {", 0, "if false {", Tests("who_is_stopped_for_longer")),
    row("liveness.rs", "is_joined(&rank) && is_stopped(control.pid(rank))", 0, "is_joined(&rank)", Tests("who_is_stopped_for_longer")),
    row("liveness.rs", "state.forget_if_absent();", 0, "", NoTest("the checking rank would have to be stopped together with another one")),
    row("liveness.rs", "libc::F_OFD_SETLK, ", 0, "libc::F_SETLK, ", Tests("a_rank_is_held_by_one")),
    row("liveness.rs", "FORKS.add(&own, job)?;", 0, "", Tests("a_child_that_was_forked")),
    row("liveness.rs", "FORKS.remove(&self.own);", 0, "", Tests("a_process_may_be_a_rank_of_very_many_jobs")),
    row("liveness.rs", "place.compare_exchange(Self::NONE, pair, Ordering::SeqCst, Ordering::SeqCst)", 0, "place.compare_exchange(Self::NONE, pair, Ordering::Relaxed, Ordering::Relaxed)", Nobody("the word is all the information: it holds both numbers")),
    row("liveness.rs", "let pair = place.load(Ordering::SeqCst);", 0, "let pair = place.load(Ordering::Relaxed);", Nobody("the word is all the information")),
    row("liveness.rs", "place.store(Self::NONE, Ordering::SeqCst);", 0, "place.store(Self::NONE, Ordering::Relaxed);", Nobody("the word is all the information")),
    row("liveness.rs", "let pair = place.load(Ordering::SeqCst);", 1, "let pair = place.load(Ordering::Relaxed);", Nobody("it is read in a forked child, which has a copy of the memory at the fork")),
];
