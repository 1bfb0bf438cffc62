//! Test support of `pgas`.
