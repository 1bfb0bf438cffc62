//! The mutants: each ordering and fence made weaker, and what else the protocols rest on.

use super::By::{Models, Nobody, Tests};
use super::{By, Mutant};

const fn row(
    file: &'static str,
    from: &'static str,
    nth: usize,
    to: &'static str,
    by: By,
) -> Mutant {
    Mutant {
        file,
        from: (from, nth),
        to,
        by,
    }
}

#[rustfmt::skip]
pub(super) const MUTANTS: &[Mutant] = &[
    // Words and memory.
    row("word.rs", "word.load(SeqCst)", 0, "word.load(Ordering::Acquire)", Models("models::loom_of_two_")),
    row("word.rs", "word.load(SeqCst)", 0, "word.load(Relaxed)", Models("slots::models")),
    row("word.rs", "new, SeqCst, SeqCst)", 0, "new, Ordering::AcqRel, Ordering::Acquire)", Models("models::loom_of_two_")),
    row("word.rs", "new, SeqCst, SeqCst)", 0, "new, Relaxed, Relaxed)", Models("models::loom_of_two_")),
    row("word.rs", "word.swap(bits, SeqCst)", 0, "word.swap(bits, Ordering::AcqRel)", Models("models::loom_of_two_")),
    row("word.rs", "word.swap(bits, SeqCst)", 0, "word.swap(bits, Relaxed)", Models("loom_a_wide_value")),
    row("word.rs", "word.fetch_add(bits, SeqCst)", 0, "word.fetch_add(bits, Ordering::AcqRel)", Models("models::loom_of_two_sums")),
    row("word.rs", "word.fetch_and(bits, SeqCst)", 0, "word.fetch_and(bits, Ordering::AcqRel)", Models("models::loom_of_two_words_whose")),
    row("word.rs", "word.fetch_or(bits, SeqCst)", 0, "word.fetch_or(bits, Ordering::AcqRel)", Models("models::loom_of_two_words_whose")),
    row("word.rs", "word.fetch_xor(bits, SeqCst)", 0, "word.fetch_xor(bits, Ordering::AcqRel)", Models("models::loom_of_two_words_whose")),
    row("word.rs", "word.fetch_min(bits, SeqCst)", 0, "word.fetch_min(bits, Ordering::AcqRel)", Models("models::loom_of_two_extremes")),
    row("word.rs", "word.fetch_max(bits, SeqCst)", 0, "word.fetch_max(bits, Ordering::AcqRel)", Models("models::loom_of_two_extremes")),
    row("memory.rs", "fence(Acquire);", 0, "", Models("loom_what_comes_before")),
    row("memory.rs", "fence(Release);", 0, "", Models("loom_what_comes_before")),
    // Slots.
    row("slots/near.rs", "memory::release();", 0, "", Models("loom_a_wide_value")),
    row("slots/near.rs", "memory::release();", 1, "", Models("slots::models")),
    row("slots/near.rs", "    memory.write(offset, value);\n    // Who sees the state", 0, "    write_state(memory, at, state);\n    memory.write(offset, value);\n    // Who sees the state", Models("slots::models")),
    row("slots/near.rs", "word::swap(memory.word64(at.offset), state.to_bits());", 0, "memory.word64(at.offset).store(state.to_bits(), Relaxed);", Models("loom_a_wide_value")),
    row("slots/near.rs", "word::swap(memory.word64(at.offset), state.to_bits());", 0, "memory::release(); memory.word64(at.offset).store(state.to_bits(), Relaxed);", Nobody("the slot was locked by an atomic instruction, which others see before anything that its thread reads later, and who sees that waits")),
    row("slots/near.rs", "word::load(memory.word64(at.offset))", 0, "memory.word64(at.offset).load(Relaxed)", Models("slots::models")),
    row("slots/near.rs", "word::load(memory.word32(at.offset))", 0, "memory.word32(at.offset).load(Relaxed)", Models("slots::models")),
    row("slots/mod.rs", "if slot.load_state()? != state {", 0, "if false {", Models("loom_a_wide_value")),
    row("slots/mod.rs", "if state.state() == SlotState::Reserved {\n        state = published(*slot)?;", 0, "if false {\n        state = published(*slot)?;", Models("slots::models")),
    row("slots/mod.rs", "if state.state() == SlotState::Reserved {\n        state = published(*slot)?;", 1, "if false {\n        state = published(*slot)?;", Models("slots::models")),
    row("slots/mod.rs", "if slot.swap_state(whole.state, whole.state.locked())?.is_ok() {", 0, "if true {", Models("loom_concurrent_updates")),
    row("slots/mod.rs", "if slot.swap_state(state, state.removed())?.is_ok() {", 0, "if slot.swap_state(state, state.removed()).is_ok() {", Models("loom_two_removals")),
    row("slots/mod.rs", "slot.publish_value(value, locked.overwritten())?;", 0, "slot.publish_value(value, locked)?;", Models("slots::models")),
    row("slots/state.rs", "let version = (self.0 + 1) & VERSION_MASK;", 0, "let version = self.0 & VERSION_MASK;", Models("loom_a_wide_value")),
    row("slots/state.rs", "Self(self.overwritten().0 | GONE)", 0, "Self(self.0 | GONE)", Nobody("who inserts the key again counts the version up, and a removed slot is told apart by its bit")),
    row("slots/scan.rs", "written: states.written_or_free(fingerprint) & !free,", 0, "written: states.ready(fingerprint),", Models("slots::models::blocks")),
    row("slots/walk.rs", "if scan.is_open(|| slots.n_slots(&block)) {", 1, "if true {", Nobody("a table of the models is one block, behind which a search ends too; that it does not is tested by the maps")),
    row("slots/walk.rs", "for index in scan.unready() {", 0, "for index in scan.unready().take(0) {", Models("slots::models::blocks")),
    row("slots/walk.rs", "for index in scan.unready() {", 1, "for index in scan.unready().take(0) {", Models("slots::models::blocks")),
    row("slots/walk.rs", "return claim(slots, Home { slot, ..home }, key, wanted);", 0, "return Ok(match slot.reserve(StateWord::reserved(home.fingerprint))? { Ok(()) => Place::New(slot), Err(_) => Place::Full });", Models("slots::models::blocks")),
    // Tickets.
    row("tickets/mod.rs", "memory::release();", 0, "", Models("tickets::models")),
    row("tickets/mod.rs", "if word.load(Acquire) != from {", 0, "if word.load(Relaxed) != from {", Nobody("what comes before was acquired with the ticket, and a word that is read too late leaves a mark")),
    row("tickets/mod.rs", "if word.load(Acquire) != from {", 0, "if false {", Models("tickets::models")),
    row("tickets/mod.rs", "lap(size, tickets.first) | tickets.n << 1 | side", 0, "tickets.n << 1 | side", Tests("tickets")),
    row("tickets/mod.rs", "tickets.n << 1 | side", 0, "tickets.n << 1", Tests("tickets")),
    row("tickets/mod.rs", ".cast_signed().max(0).cast_unsigned()", 0, "", Tests("tickets")),
    row("tickets/mod.rs", "words.load(other.done())?\n", 0, "words.load(other.taken())?\n", Models("tickets::models")),
    row("tickets/mod.rs", "wait_for_room(words, side, at, least)", 0, "Ok(None)", Models("tickets::models")),
    row("tickets/mod.rs", "words.clear_mark(slot, mark)?;", 0, "", Nobody("a mark that stays is of an earlier lap, which a reader tells from this one's; the upper 31 bits of a ticket come again after 2^31 laps")),
    // Mailbox.
    row("mailbox/send.rs", "self.slots[first].store(published(ticket), Release);", 0, "self.slots[first].store(published(ticket), Relaxed);", Models("mailbox::models")),
    row("mailbox/send.rs", "self.slots[first].store(published(ticket), Release);", 1, "self.slots[first].store(published(ticket), Relaxed);", Models("payload::models")),
    row("mailbox/send.rs", "self.control[HEAD_HINT].load(Acquire)", 0, "self.control[HEAD_HINT].load(Relaxed)", Models("mailbox::models")),
    row("mailbox/send.rs", "self.control[HEAD].load(Acquire)", 0, "self.control[HEAD].load(Relaxed)", Models("mailbox::models")),
    row("mailbox/send.rs", "self.control[HEAD_HINT].store(head, Release)", 0, "self.control[HEAD_HINT].store(head, Relaxed)", Models("mailbox::models")),
    row("mailbox/send.rs", "if !has_room(newer_tail, head) && newer_tail == tail {", 0, "if !has_room(newer_tail, head) {", Nobody("a sender is then told that there is no room although it may have seen an old head beside a new tail: it tries again anyway")),
    row("mailbox/send.rs", "self.slots[first].store(published(ticket), Release);", 0, "self.slots[first].store(published(0), Release);", Models("mailbox::models")),
    row("mailbox/mod.rs", "self.slots[self.first_word(ticket)].load(Acquire) == published(ticket)", 0, "self.slots[self.first_word(ticket)].load(Relaxed) == published(ticket)", Models("mailbox::models")),
    row("mailbox/receive.rs", "self.control[HEAD].store(received, Release);", 0, "self.control[HEAD].store(received, Relaxed);", Models("mailbox::models")),
    row("mailbox/receive.rs", "self.slots[word].store(0, Relaxed);", 0, "", Models("loom_an_old_interior")),
    row("mailbox/receive.rs", "word.compare_exchange(0, 1, Acquire, Relaxed)", 0, "word.compare_exchange(0, 1, Relaxed, Relaxed)", Models("mailbox::models")),
    row("mailbox/receive.rs", "self.0.store(0, Release);", 0, "self.0.store(0, Relaxed);", Models("mailbox::models")),
    // Credits.
    row("credits/mod.rs", "part < N_PARTS as u64 || head.wrapping_sub(end) < 1 << 63", 0, "true", Models("credits::models")),
    row("credits/mod.rs", "(begun..=last).all(", 0, "(begun..=last).any(", Tests("credits")),
    // Payload.
    row("payload/mod.rs", "state.compare_exchange(FREE, TAKEN, Acquire, Relaxed)", 0, "state.compare_exchange(FREE, TAKEN, Relaxed, Relaxed)", Models("payload::models")),
    row("payload/mod.rs", "self.words[0].store(FREE, Release);", 0, "self.words[0].store(FREE, Relaxed);", Models("payload::models")),
    // Barrier.
    row("barrier/mod.rs", "fetch_add(1, AcqRel)", 0, "fetch_add(1, Release)", Models("loom_three_ranks")),
    row("barrier/mod.rs", "fetch_add(1, AcqRel)", 0, "fetch_add(1, Acquire)", Models("loom_two_ranks")),
    row("barrier/mod.rs", "self.control[COMPLETE].store(epoch, Release);", 0, "self.control[COMPLETE].store(epoch, Relaxed);", Models("loom_two_ranks")),
    row("barrier/mod.rs", "self.control[COMPLETE].load(Acquire)", 0, "self.control[COMPLETE].load(Relaxed)", Models("loom_two_ranks")),
    // Doorbell.
    row("doorbell/mod.rs", "B::light_fence();", 0, "", Models("doorbell::models")),
    row("doorbell/mod.rs", "B::heavy_fence();", 0, "", Models("doorbell::models")),
    row("doorbell/mod.rs", "        fence(SeqCst);\n", 0, "", Models("loom_an_owner_that_cannot_fence")),
    row("doorbell/mod.rs", "self.bell.word().fetch_add(1, Release);", 0, "self.bell.word().fetch_add(1, Relaxed);", Models("doorbell::models")),
    row("doorbell/mod.rs", "self.bell.word().fetch_add(1, Release);", 0, "", Models("doorbell::models")),
    row("doorbell/mod.rs", "self.bell.word().load(Acquire)", 0, "self.bell.word().load(Relaxed)", Models("doorbell::models")),
    // Answers.
    row("pending/mod.rs", "let mut head = self.free.load(Acquire);", 0, "let mut head = self.free.load(Relaxed);", Models("pending::models")),
    row("pending/mod.rs", "(head, new, Acquire, Acquire)", 0, "(head, new, Relaxed, Acquire)", Models("pending::models")),
    row("pending/mod.rs", "(head, new, Acquire, Acquire)", 0, "(head, new, Acquire, Relaxed)", Models("pending::models")),
    row("pending/mod.rs", "(head, new, Release, Relaxed)", 0, "(head, new, Relaxed, Relaxed)", Models("pending::models")),
    row("pending/mod.rs", "Cookie::new(next, tag.wrapping_add(1))", 0, "Cookie::new(next, tag)", Models("pending::models")),
    row("pending/mod.rs", "match slot.state.load(Acquire) {", 0, "match slot.state.load(Relaxed) {", Models("pending::models")),
    row("pending/mod.rs", "(WAITING, DONE, Release, Acquire)", 0, "(WAITING, DONE, Relaxed, Acquire)", Models("loom_an_answer_that_is_seen")),
    row("pending/mod.rs", "(WAITING, DONE, Release, Acquire)", 0, "(WAITING, DONE, Release, Relaxed)", Models("pending::models")),
    row("pending/mod.rs", "slot.state.swap(DONE, AcqRel)", 0, "slot.state.swap(DONE, Relaxed)", Models("pending::models")),
    row("pending/mod.rs", "state.load(Acquire) == DONE", 0, "state.load(Relaxed) == DONE", Models("loom_an_answer_that_is_seen")),
    row("pending/mod.rs", ".compare_exchange(WAITING, WATCHED, AcqRel, Acquire)", 0, ".compare_exchange(WAITING, WATCHED, AcqRel, Relaxed)", Models("pending::models")),
    row("pending/mod.rs", ".compare_exchange(WAITING, WATCHED, AcqRel, Acquire)", 0, ".compare_exchange(WAITING, WATCHED, Relaxed, Acquire)", Models("pending::models")),
    row("pending/mod.rs", "slot.state.swap(ABANDONED, AcqRel)", 0, "slot.state.swap(ABANDONED, Relaxed)", Models("pending::models")),
    row("pending/mod.rs", "if !matches!(slot.state.load(Acquire), WAITING | WATCHED) {", 0, "if !matches!(slot.state.load(Relaxed), WAITING | WATCHED) {", Models("pending::models")),
    row("pending/mod.rs", "if slot.target.load(Relaxed) == target =>", 0, "if true =>", Models("loom_a_call_that_is_given_up")),
    // Counts.
    row("tally/mod.rs", "of(counts).load(Ordering::Acquire)", 0, "of(counts).load(Ordering::Relaxed)", Models("tally::models")),
    row("tally/mod.rs", "word.store(sum, Ordering::Release);", 0, "word.store(sum, Ordering::Relaxed);", Models("tally::models")),
    row("tally/mod.rs", "is_as_before && sums[0] == sums[1]", 0, "sums[0] == sums[1]", Models("tally::models")),
    row("tally/mod.rs", "(sum(|counts| &counts.n_sent), sum(|counts| &counts.n_served))", 0, "{ let served = sum(|counts| &counts.n_served); (sum(|counts| &counts.n_sent), served) }", Models("tally::models")),
    row("tally/mod.rs", "fetch_add(n.load(Ordering::Acquire), Ordering::AcqRel)", 0, "fetch_add(n.load(Ordering::Relaxed), Ordering::Relaxed)", Models("tally::models")),
    row("tally/mod.rs", "of(&self.ended).fetch_add(n, Ordering::AcqRel)", 0, "of(&self.ended).fetch_add(n, Ordering::Relaxed)", Models("tally::models")),
];
