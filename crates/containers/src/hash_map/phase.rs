//! Phases of a map, as types: what all ranks promise to do with it.

use crate::phases::phases;

phases! {
    /// A phase of a map; the types of this module are all there are.
    trait Phase;

    /// Whether no rank writes to the map.
    const IS_READ_ONLY: bool;

    /// Any rank reads and writes at any time.
    Atomic = 0: "atomic", false;
    /// Any rank inserts, no rank reads.
    InsertOnly = 1: "insert only", false;
    /// Any rank reads, no rank writes.
    FindOnly = 2: "find only", true;
    /// Each rank works on its own entries, without atomics.
    Local = 3: "local", false;
}

/// A phase in which any rank inserts: [`Atomic`] or [`InsertOnly`].
#[diagnostic::on_unimplemented(
    message = "no rank inserts into a map whose phase is `{Self}`",
    label = "this map's phase is `{Self}`",
    note = "`into_insert_phase` begins a phase in which any rank inserts, `into_atomic_phase` one in which any rank does anything",
    note = "in the phase `Local` a rank inserts what it holds itself, by `local_insert`"
)]
pub trait Inserts: Phase {}

impl Inserts for Atomic {}
impl Inserts for InsertOnly {}

/// A phase in which any rank reads any key: [`Atomic`] or [`FindOnly`].
#[diagnostic::on_unimplemented(
    message = "no rank looks for keys in a map whose phase is `{Self}`",
    label = "this map's phase is `{Self}`",
    note = "`into_find_phase` begins a phase in which any rank looks, `into_atomic_phase` one in which any rank does anything",
    note = "in the phase `Local` a rank looks at what it holds itself, by `local_find`"
)]
pub trait Finds: Phase {}

impl Finds for Atomic {}
impl Finds for FindOnly {}

/// The phase in which any rank changes present entries: [`Atomic`].
#[diagnostic::on_unimplemented(
    message = "no rank changes the entries of a map whose phase is `{Self}`",
    label = "this map's phase is `{Self}`",
    note = "`into_atomic_phase` begins the phase in which any rank does anything"
)]
pub trait Changes: Inserts + Finds {}

impl Changes for Atomic {}

/// A phase in which a rank may iterate over its own entries: any but [`InsertOnly`].
#[diagnostic::on_unimplemented(
    message = "nobody looks at the entries of a map whose phase is `{Self}`",
    label = "this map's phase is `{Self}`",
    note = "`into_find_phase`, `into_local_phase` and `into_atomic_phase` begin phases in which entries are looked at"
)]
pub trait Looks: Phase {}

impl Looks for Atomic {}
impl Looks for FindOnly {}
impl Looks for Local {}
