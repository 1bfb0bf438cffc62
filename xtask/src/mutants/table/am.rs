//! Mutants of messages, futures and what gathers items: the completion code.

use super::super::By::{NoTest, Nobody, Program, Tests};
use super::super::Mutant;
use super::row;

#[rustfmt::skip]
pub(super) const MUTANTS: &[Mutant] = &[
    // Promises.
    row("future/promise.rs", "n_missing: AtomicU64::new(1)", 0, "n_missing: AtomicU64::new(0)", Program("integration", "futures::promises::every_future_of_a_promise_gets")),
    row("future/promise.rs", "former @ (Value::Told(_) | Value::BeingTold(_) | Value::Lent(..)) => {\n                    state.value = former;\n", 0, "Value::Told(_) | Value::BeingTold(_) | Value::Lent(..) => {\n", Program("integration", "futures::promises::a_promise_that_has_failed")),
    row("future/promise.rs", "Value::Lent(What::Error, _) => {\n                drop(state);\n", 0, "Value::Lent(What::Error, _) => {\n                panic!();\n", Program("integration", "futures::promises::a_promise_that_has_failed")),
    row("future/promise.rs", "Value::BeingTold(What::Error));", 0, "Value::BeingTold(What::Value));", Program("integration", "futures::promises::a_value_that_comes_while")),
    row("future/promise.rs", "Value::Missing | Value::Given(_) | Value::BeingTold(_) => false,", 0, "Value::BeingTold(_) => true,\n            Value::Missing | Value::Given(_) => false,", Program("integration", "futures::promises::a_shared_future_that_says")),
    row("future/promise.rs", "depth == 0 || Arc::strong_count(&inner) > 2", 0, "true", Program("allocations", "a_promise_forgets")),
    row("future/promise.rs", "state.cells.iter().any(|cell| cell.is_wanted(depth - 1))", 0, "false", Program("allocations", "a_promise_forgets")),
    row("future/promise.rs", "self.end(Error::BrokenPromise);", 0, "", Program("integration", "futures::promises::every_future_of_a_promise_hears")),
    row("future/promise.rs", "Ordering::AcqRel, Ordering::Relaxed, take", 0, "Ordering::Relaxed, Ordering::Relaxed, take", NoTest("only a model could tell; all atomic instructions of x86 order as much")),
    // Cells.
    row("future/cell.rs", "self.is_done.store(true, Ordering::Release);", 0, "", Tests("future::cell")),
    row("future/cell.rs", "self.is_done.store(true, Ordering::Release);", 0, "self.is_done.store(true, Ordering::Relaxed);", Nobody("the value is taken under the lock, which is held here")),
    row("future/cell.rs", "self.is_done.load(Ordering::Acquire)", 0, "self.is_done.load(Ordering::Relaxed)", Nobody("the value is taken under the lock")),
    row("future/cell.rs", "                *state = former;\n", 0, "", Tests("future::cell")),
    row("future/cell.rs", "if let State::Full(_) = &*state {", 0, "if false {", Tests("future::cell")),
    row("future/cell.rs", "actions::run(move || action(result));", 0, "drop((action, result));", Tests("future::cell")),
    row("future/cell.rs", "actions::run(move || action(result));", 1, "drop((action, result));", Tests("future::cell")),
    row("future/cell.rs", "cell.set(Err(Error::BrokenPromise));", 0, "", Tests("future::cell")),
    row("future/cell.rs", "State::Chained(_, None) => true,", 0, "State::Chained(_, None) => false,", Tests("future::cell")),
    // Actions and joins.
    row("future/actions.rs", "} else if depth < DEEPEST {", 0, "} else if true {", Program("integration", "futures::long::long_chains_are_built")),
    row("future/actions.rs", "keep_panic(payload);", 0, "drop(payload);", Program("integration", "futures::panics::an_action_that_panics_keeps")),
    row("future/actions.rs", "DEPTH.set(former);", 0, "", Program("integration", "futures::panics::an_action_that_panics_keeps")),
    row("future/join.rs", "self.n_ready == self.futures.len()", 0, "self.n_ready > 0", Program("integration", "graphs::")),
    row("future/join.rs", "if joined.depth() > DEEPEST {", 0, "if false {", Nobody("a nested join is a nested type, and `then` makes a cell of a join: no program nests as deep as the stack")),
    // Long messages, and those that wait.
    row("pieces.rs", "whole.n_missing -= bytes.len();", 0, "", Tests("pieces")),
    row("pieces.rs", "|| end > len ||", 0, "||", Tests("pieces")),
    row("pieces.rs", "|| bytes.len() > whole.n_missing {", 0, "{", Tests("pieces")),
    row("pieces.rs", "whole.len != len ||", 0, "", Tests("pieces")),
    row("outbox.rs", "if letters.n_bytes >= ROOM {", 0, "if false {", Tests("outbox")),
    row("outbox.rs", "self.requests.lock().n_bytes < ROOM", 0, "true", Tests("outbox")),
    row("outbox.rs", "letters.n_bytes += letter.n_bytes();", 0, "", Tests("outbox")),
    row("outbox.rs", "*n_bytes -= letter.n_bytes();", 0, "", Tests("outbox")),
    row("outbox.rs", "Ok(Sent::BackPressure) => return true,", 0, "Ok(Sent::BackPressure) => {}", Tests("outbox")),
    row("outbox.rs", "undelivered.n += u64::from(letter.ends_one_way());", 0, "", Tests("outbox")),
    row("send.rs", "self.message_counts.count_unsent();", 0, "", Tests("outbox")),
    row("send.rs", "self.message_counts.count_unsent();", 1, "", Tests("outbox")),
    row("send.rs", "            self.message_counts.count_sent();\n            if !self.outbox.keep_request", 0, "            if !self.outbox.keep_request", Tests("outbox")),
    row("send.rs", "if is_kept && !self.outbox.has_room() {", 0, "if false {", Tests("outbox")),
    row("layer.rs", "self.message_counts.count_served();", 0, "", Tests("outbox")),
    row("lost.rs", "self.n.fetch_add(n, Ordering::Release);", 0, "", Tests("lost")),
    row("lost.rs", "self.n.fetch_add(n, Ordering::Release);", 0, "self.n.fetch_add(n, Ordering::Relaxed);", Nobody("the reason is taken under its lock, which is held here")),
    row("lost.rs", "self.n.load(Ordering::Acquire)", 0, "self.n.load(Ordering::Relaxed)", Nobody("the reason is taken under its lock")),
    row("lost.rs", "self.n.fetch_sub(n, Ordering::AcqRel) == n", 0, "self.n.fetch_sub(n, Ordering::Relaxed) == n", Nobody("the reason is taken under its lock, which is held here")),
    row("lost.rs", "return std::mem::take(&mut reason);", 0, "return reason.clone();", Tests("lost")),
    // The end of all work.
    row("quiescence.rs", "n_sent + n_transfers", 0, "n_sent", Program("integration", "delivery::quiet_waits_for_what_follows")),
    row("quiescence.rs", "if n_all_lost == 0 {", 0, "if true {", Tests("all_ranks_hear_of_items")),
    row("transfers.rs", "self.0.load(Ordering::Acquire)", 0, "self.0.load(Ordering::Relaxed)", NoTest("the action's messages are counted by stores, which x86 keeps in order")),
    row("transfers.rs", "self.0.fetch_sub(1, Ordering::Release);", 0, "self.0.fetch_sub(1, Ordering::Relaxed);", NoTest("all atomic instructions of x86 order as much")),
    row("transfers.rs", "self.0.fetch_sub(1, Ordering::Release);", 0, "", Program("integration", "delivery::quiet_waits_for_what_follows")),
    // Objects that are named before they are there.
    row("objects.rs", "tables.ready.extend(called);", 0, "drop(called);", Tests("objects")),
    row("objects.rs", "self.n_ready.store(tables.ready.len(), Ordering::Relaxed);", 0, "", Tests("objects")),
    row("objects.rs", "self.n_ready.store(tables.ready.len(), Ordering::Relaxed);", 1, "", Tests("objects")),
    row("objects.rs", "if number < n_built {", 0, "if false {", Tests("objects")),
    row("objects.rs", "if id.number < n_built {", 0, "if false {", Tests("objects")),
    // The driver.
    row("driver.rs", "self.is_over.store(true, Ordering::Release);", 0, "self.is_over.store(true, Ordering::Relaxed);", Nobody("the loop ends, and reads nothing for it")),
    row("driver.rs", "self.is_over.swap(true, Ordering::Release);", 0, "self.is_over.swap(true, Ordering::Relaxed);", Nobody("the loop ends, and reads nothing for it")),
    row("driver.rs", "while !is_over.load(Ordering::Acquire) {", 0, "while !is_over.load(Ordering::Relaxed) {", Nobody("the loop ends, and reads nothing for it")),
    row("driven.rs", "fence(Ordering::SeqCst);", 0, "", NoTest("the lock of the list is an atomic instruction in between, which on x86 orders as much")),
    row("driven.rs", "fence(Ordering::SeqCst);", 1, "", NoTest("the lock of the list is an atomic instruction in between, which on x86 orders as much")),
    // Aggregation.
    row("aggregate.rs", "items.len() < self.capacity && items.capacity() > 0", 0, "items.capacity() > 0", Tests("aggregate")),
    row("aggregate.rs", "self.send(to)?;", 0, "", Tests("aggregate")),
    row("aggregate.rs", "            items.clear();", 0, "", Tests("aggregate::tests::what_is_pushed_without")),
    row("aggregate.rs", "items)?;\n        items.clear();", 0, "items)?;", Tests("aggregate")),
    row("aggregate.rs", "let flushed = self.flush();", 0, "let flushed: Result<()> = Ok(());", Tests("aggregate")),
];
