//! The core of `pgas`.
