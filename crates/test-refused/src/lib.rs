//! Programs that break a promise, and that the compiler must refuse. They are in `tests/programs`.
//!
//! They have their own package, because `trybuild` builds all dependencies of a package once more.
#![forbid(unsafe_code)]

use pgas_containers as _;
