//! Programs that break a promise, which the compiler has to refuse: they are in `tests/programs`.
//!
//! A package of their own, because `trybuild` builds all that a package depends on once more.
#![forbid(unsafe_code)]

use pgas_containers as _;
