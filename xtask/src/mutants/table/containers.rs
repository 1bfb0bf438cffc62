//! Mutants of what containers do over a network, and of what becomes of values outside of their slots.

use super::super::By::{NoTest, Nobody, Program, Tests};
use super::super::Mutant;
use super::row;

#[rustfmt::skip]
pub(super) const MUTANTS: &[Mutant] = &[
    // What is announced is flushed before.
    row("hash_map/slot/remote.rs", "            self.world.flush(self.at.rank())?;\n            let word", 0, "            let word", Program("weak_network", "a_map_counts")),
    row("queue/access.rs", "if request.side == Side::Push && request.meet {", 0, "if false {", Program("weak_network", "a_queue_that_all")),
    row("array/cells.rs", "world.flush(cell.rank())?;", 0, "", Program("weak_network", "elements_of_arrays")),
    row("object/heap.rs", "world.flush(world.rank())?;", 0, "", Program("weak_network", "texts_that_are_removed")),
    row("object/heap.rs", "world.flush(at.rank())?;", 0, "", Program("weak_network", "memory_of_long_elements")),
    row("queue/access.rs", "Ok(self.swap(word, from, to)?.is_ok())", 0, "{ let _ = self.swap(word, from, to)?; Ok(true) }", Program("weak_network", "a_queue_that_all")),
    row("queue/ring.rs", "world.barrier()?;\n        let words", 0, "let words", Program("weak_network", "a_phased_queue")),
    // Slots of removed keys are used again.
    row("hash_map/reuse.rs", "self.failure = self.wait.pause(&Vec::new).err();", 0, "thread::yield_now();", Tests("whoever_waits_for_room")),
    row("hash_map/reuse.rs", "taken.is_ok().then(|| Emptying { common })", 0, "taken.is_ok().then_some(Emptying { common })", Tests("who_asks_in_vain")),
    row("hash_map/reuse.rs", "        self.end();", 0, "", Tests("a_full_map_has_room")),
    // Queues.
    row("queue/ring.rs", "tickets.n.min(self.size.n_slots() - slot)", 0, "tickets.n", Tests("a_local_phase_empties")),
    row("queue/ring.rs", "tail.wrapping_sub(head).min(", 0, "tail.saturating_sub(head).min(", Tests("a_queue_behaves_as_a_deque")),
    row("queue/access.rs", "ticket, ticket.wrapping_add(1))?", 0, "ticket, ticket.saturating_add(1))?", Tests("single_elements_go_through")),
    row("queue/access.rs", "object::release::<T>(&slot, &self.heap)?;", 0, "", Tests("queue::tests::sequential")),
    row("queue/ring.rs", "SharedSeen::see(&served.push, &served.pop, head, tail);", 0, "let _ = served;", Tests("where_ranks_serve_each_other_a_push")),
    row("queue/ring.rs", "self.served = Hosted::at::<SlotOf<T>>(&world, place);", 0, "", Tests("where_ranks_serve_each_other_a_push")),
    row("queue/served.rs", " && self.host() != self.world().rank()", 0, "", Tests("where_ranks_serve_each_other_a_push")),
    row("queue/served.rs", "Some(done.ok()?.unwrap_or(0))", 0, "Some(done.ok().flatten().unwrap_or(0))", Tests("a_host_that_would_have_to_wait")),
    row("queue/served.rs", "let on = on.upgrade()?;\n    let write", 0, "let Some(on) = on.upgrade() else { return Some(false) };\n    let write", Tests("a_queue_whose_host_has_dropped")),
    // Elements with any indices.
    row("scattered.rs", "match world.flush(rank) {", 0, "match Ok::<(), pgas_core::Error>(()) {", Tests("array::tests::scattered")),
    row("scattered.rs", "None => one(&elements[i]),", 0, "None => Ok(()),", Tests("array::tests::scattered")),
    // Filters.
    row("bloom/mod.rs", "set(AtomicOp::Or, mask)", 0, "set(AtomicOp::Swap, mask)", Tests("bloom")),
    row("bloom/mod.rs", "set(AtomicOp::Load, 0)", 0, "true", Tests("bloom")),
    row("bloom/mod.rs", "block.offset(i).fetch_or(world, mask)?", 0, "block.offset(i).swap(world, mask)?", Tests("bloom")),
    row("bloom/mod.rs", "block.offset(i).fetch_or(world, mask)?", 0, "{ let at = block.offset(i); let former = at.atomic_load(world)?; at.atomic_store(world, former | mask)?; former }", Tests("bloom")),
    row("bloom/mod.rs", "was_there &= set(", 0, "was_there |= set(", Tests("bloom")),
    row("bloom/mod.rs", "was_there &= former & mask == mask;", 0, "was_there |= former & mask == mask;", Tests("bloom")),
    row("bloom/mod.rs", "located.clear();", 0, "", Tests("bloom")),
    row("bloom/mod.rs", "all & (word & mask == *mask)", 0, "all & (word & mask != 0)", Tests("bloom")),
    row("bloom/mod.rs", "world.barrier()?;\n        let zero", 0, "let zero", Tests("bloom")),
    row("bloom/mod.rs", "        Ok(world.barrier()?)", 0, "        Ok(())", Tests("bloom")),
    row("bloom/mod.rs", "(u128::from(hash) * u128::from(self.n_blocks)) >> 64", 0, "(u128::from(hash) * u128::from(self.n_blocks)) >> 65", Tests("bloom")),
    // Checkpoints.
    row("store/mod.rs", "manifest.publish(dir)?;\n        remove_others(dir, number);", 0, "remove_others(dir, number);\n        manifest.publish(dir)?;", Tests("store::tests")),
    row("store/mod.rs", "remove_others(dir, number);", 0, "", Tests("store::tests")),
    row("store/mod.rs", "number = number.max(parts::number_in(&name).unwrap_or(0));", 0, "number = parts::number_in(&name).map_or(number, |_| 0_u64);", Tests("store::tests")),
    row("store/mod.rs", "let written = together(world, write_parts(&paths, write))", 0, "let written = write_parts(&paths, write)", Program("outcomes", "while_a_container_is_saved")),
    row("store/manifest.rs", "fs::rename(&draft, &name)?;", 0, "fs::copy(&draft, &name)?;", Tests("store::tests")),
    row("store/manifest.rs", "file.sync_all()?;", 0, "", NoTest("only a machine that loses power could tell: what a killed process has written is the system's")),
    row("store/manifest.rs", "sync(dir)?;\n            fs::rename", 0, "fs::rename", NoTest("only a machine that loses power could tell")),
    row("store/manifest.rs", "fs::rename(&draft, &name)?;\n            sync(dir)?;", 0, "fs::rename(&draft, &name)?;", NoTest("only a machine that loses power could tell")),
    row("store/manifest.rs", "let mut file = File::create_new(&draft)?;", 0, "let mut file = File::create(&draft)?;", Nobody("what stands there has just been removed; for who could put something there in between the directory is theirs anyway")),
    row("store/manifest.rs", "match fs::remove_file(&draft) {", 0, "match Ok::<(), io::Error>(()) {", Tests("store::tests")),
    row("store/manifest.rs", "if text[body.len()..].trim_end_matches('\\n') != said {", 0, "if false {", Tests("store::tests")),
    row("store/manifest.rs", "if info.is_possible() {", 0, "if true {", Tests("store::tests::elements_beyond")),
    row("store/parts.rs", "self.file.sync_all()", 0, "Ok::<(), std::io::Error>(())", NoTest("only a machine that loses power could tell")),
    row("store/parts.rs", "File::create_new(path)", 0, "File::create(path)", NoTest("the number was chosen so that no file has it: somebody would have to put one there at that moment")),
    row("store/parts.rs", "if found == info {", 0, "if true {", Tests("store::tests")),
    row("store/parts.rs", "about.len() != info.bytes", 0, "false", Tests("store::tests")),
    row("store/parts.rs", "if rest.is_empty() {", 0, "if true {", Tests("store::tests")),
    row("store/parts.rs", "self.hash = mix(self.hash ^ hash_of(block));", 0, "self.hash = hash_of(block);", Tests("store::tests")),
    // Versions and counts.
    row("array/cells.rs", "if at & LOCKED != 0 {", 0, "if false {", Program("weak_network", "elements_of_arrays")),
    row("array/cells.rs", "if at & LOCKED != 0 {", 1, "if false {", Program("weak_network", "elements_of_arrays")),
    row("array/cells.rs", "at.wrapping_add(RAISE)", 0, "at", Tests("array")),
    row("array/cells.rs", "at.wrapping_add(RAISE)", 0, "at.max(RAISE)", Program("weak_network", "an_element_that_is_overwritten_twice")),
    row("array/cells.rs", "if version.atomic_load(world)? != at {", 0, "if false {", Program("weak_network", "elements_of_arrays")),
    row("array/cells.rs", "version.compare_exchange(world, at, at | LOCKED)?.is_ok()", 0, "version.compare_exchange(world, at, at | LOCKED).is_ok()", Program("weak_network", "elements_of_arrays")),
    row("distributor.rs", "if total == all_told.wrapping_add(self.n_from_others) {", 0, "if total >> COUNT_BITS == all_told >> COUNT_BITS {", Program("weak_network", "a_distributor_delivers")),
    row("distributor.rs", "if total == all_told.wrapping_add(self.n_from_others) {", 0, "if total & ((1 << COUNT_BITS) - 1) == self.n_from_others {", Program("weak_network", "a_distributor_delivers")),
    // What others wait for and is not done fails them.
    row("queue/access.rs", "work(tickets).map_err(|error| give_up(world, error))?;", 0, "work(tickets)?;", Program("outcomes", "while_others_wait")),
    row("hash_map/slot/remote.rs", "published.map_err(|error| give_up(self.world, error))", 0, "published", Program("outcomes", "while_others_wait")),
    row("array/cells.rs", ".map_err(|error| world.give_up(\"work on an element of an array\", error))", 0, ".map_err(|error: pgas_core::Error| error)", Program("outcomes", "while_others_wait")),
    row("hash_map/slot/remote.rs", "flushed.map_err(|error| give_up(self.world, error))", 0, "flushed", Program("outcomes", "a_buffer_of")),
    row("distributor.rs", "return Err(give_up(&world, TELLING, error));", 0, "return Err(error);", Program("outcomes", "while_others_wait")),
];
