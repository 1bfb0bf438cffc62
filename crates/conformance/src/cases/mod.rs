//! The cases, by subject.

mod active_messages;
mod arrays;
mod atomics;
mod bounds;
mod chains;
mod collectives;
mod concurrency;
mod contention;
mod costs;
// A simulated node has one thread.
#[cfg(not(target_arch = "riscv64"))]
mod drivers;
mod handler_errors;
mod heap;
mod in_place;
mod locks;
mod map_phases;
mod maps;
mod messages;
mod nonblocking;
mod noncontiguous;
mod ordering;
mod pointers;
mod queues;
mod reductions;
mod remote_calls;
mod signal;
mod stored;
mod team_calls;
mod team_containers;
mod team_memory;
mod teams;
mod threads;
mod transfer;
mod values;
mod wide_atomics;
mod world;

use crate::Case;

/// A case named like its function: `case!(2, puts_are_seen)` needs two ranks.
macro_rules! case {
    ($min_ranks:expr, $run:ident) => {
        $crate::Case {
            name: stringify!($run),
            min_ranks: $min_ranks,
            check: false,
            alone: false,
            run: $run,
        }
    };
}
use case;

/// Like [`case`], with `PGAS_CHECK=1`.
macro_rules! checked_case {
    ($min_ranks:expr, $run:ident) => {
        $crate::Case {
            check: true,
            ..case!($min_ranks, $run)
        }
    };
}
use checked_case;

/// Like [`case`], in a new world.
macro_rules! case_alone {
    ($min_ranks:expr, $run:ident) => {
        $crate::Case {
            alone: true,
            ..case!($min_ranks, $run)
        }
    };
}
use case_alone;

const GROUPS: &[&[Case]] = &[
    world::CASES,
    transfer::CASES,
    bounds::CASES,
    nonblocking::CASES,
    noncontiguous::CASES,
    ordering::CASES,
    signal::CASES,
    atomics::CASES,
    wide_atomics::CASES,
    contention::CASES,
    locks::CASES,
    pointers::CASES,
    heap::CASES,
    messages::CASES,
    active_messages::CASES,
    handler_errors::CASES,
    in_place::CASES,
    remote_calls::CASES,
    threads::CASES,
    chains::CASES,
    #[cfg(not(target_arch = "riscv64"))]
    drivers::CASES,
    team_calls::CASES,
    teams::CASES,
    team_memory::CASES,
    team_containers::CASES,
    stored::CASES,
    collectives::CASES,
    reductions::CASES,
    values::CASES,
    maps::CASES,
    map_phases::CASES,
    arrays::CASES,
    queues::CASES,
    concurrency::CASES,
    costs::CASES,
];

/// Every case.
pub const SUITE: &[Case] = &joined::<{ count() }>();

const fn count() -> usize {
    let (mut group, mut n) = (0, 0);
    while group < GROUPS.len() {
        n += GROUPS[group].len();
        group += 1;
    }
    n
}

const fn joined<const N: usize>() -> [Case; N] {
    let mut all = [GROUPS[0][0]; N];
    let (mut group, mut n) = (0, 0);
    while group < GROUPS.len() {
        let mut i = 0;
        while i < GROUPS[group].len() {
            all[n] = GROUPS[group][i];
            n += 1;
            i += 1;
        }
        group += 1;
    }
    all
}
