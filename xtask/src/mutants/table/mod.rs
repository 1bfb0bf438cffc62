//! The mutants, package by package.

use super::{By, Mutant, Table};

mod am;
mod containers;
mod core;
mod lockfree;
mod smp;

pub(super) const TABLES: &[Table] = &[
    Table {
        package: "pgas-lockfree",
        folder: "crates/lockfree/src",
        mutants: lockfree::MUTANTS,
    },
    Table {
        package: "pgas-core",
        folder: "crates/core/src",
        mutants: core::MUTANTS,
    },
    Table {
        package: "pgas-smp",
        folder: "crates/backend-smp/src",
        mutants: smp::MUTANTS,
    },
    Table {
        package: "pgas-am",
        folder: "crates/core/src",
        mutants: core::OF_CALLS,
    },
    Table {
        package: "pgas-testkit",
        folder: "crates/core/src",
        mutants: core::OF_TRANSFERS,
    },
    Table {
        package: "pgas-am",
        folder: "crates/am/src",
        mutants: am::MUTANTS,
    },
    Table {
        package: "pgas-containers",
        folder: "crates/containers/src",
        mutants: containers::MUTANTS,
    },
];

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
