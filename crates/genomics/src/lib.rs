//! Sequence files and k-mers for the examples of `pgas`.
