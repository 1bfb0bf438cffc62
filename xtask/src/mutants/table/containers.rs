//! Mutants of what containers do over a network, and of what becomes of values outside of their slots.

use super::super::By::Program;
use super::super::Mutant;
use super::row;

#[rustfmt::skip]
pub(super) const MUTANTS: &[Mutant] = &[
    // What is announced is flushed before.
    row("hash_map/slot/remote.rs", "            self.world.flush(self.at.rank())?;\n            let word", 0, "            let word", Program("weak_network", "a_map_counts")),
    row("queue/access.rs", "if request.side == Side::Push && request.meet {", 0, "if false {", Program("weak_network", "a_queue_that_all")),
    row("array/cells.rs", "world.flush(cell.rank())?;", 0, "", Program("weak_network", "elements_of_arrays")),
    // Versions and counts.
    row("array/cells.rs", "if version.atomic_load(world)? != at {", 0, "if false {", Program("weak_network", "elements_of_arrays")),
    row("array/cells.rs", "version.compare_exchange(world, at, at | LOCKED)?.is_ok()", 0, "version.compare_exchange(world, at, at | LOCKED).is_ok()", Program("weak_network", "elements_of_arrays")),
    row("distributor.rs", "total & ((1 << COUNT_BITS) - 1) == self.n_from_others", 0, "true", Program("weak_network", "a_distributor_delivers")),
    row("distributor.rs", "total >> COUNT_BITS == u64::from(n_ranks)", 0, "true", Program("weak_network", "a_distributor_delivers")),
    // What others wait for and is not done fails them.
    row("queue/access.rs", "work(tickets).map_err(|error| give_up(world, error))?;", 0, "work(tickets)?;", Program("outcomes", "while_others_wait")),
    row("hash_map/slot/remote.rs", "published.map_err(|error| give_up(self.world, error))", 0, "published", Program("outcomes", "while_others_wait")),
    row("array/cells.rs", ".map_err(|error| world.give_up(\"work on an element of an array\", error))", 0, "", Program("outcomes", "while_others_wait")),
    row("distributor.rs", "told.map_err(|error| world.give_up(\"telling what a distributor has sent\", error))?;", 0, "told?;", Program("outcomes", "while_others_wait")),
];

/// Of the slots' protocol, whose models have no values that lie elsewhere.
#[rustfmt::skip]
pub(super) const OF_SLOTS: &[Mutant] = &[
    row("slots/mod.rs", "|| slot.load_state()? == state;", 0, "|| true;", Program("weak_network", "texts_that_are_removed")),
    row("slots/mod.rs", "held.value.filter(|_| locked == held.state.locked())", 0, "held.value", Program("weak_network", "texts_that_are_removed")),
    row("slots/mod.rs", "held.value.filter(|_| state == held.state)", 0, "held.value", Program("weak_network", "texts_that_are_removed")),
    row("slots/mod.rs", "slot.value().map_err(|error| slot.give_up(error))?", 0, "slot.value()?", Program("outcomes", "while_others_wait")),
];
