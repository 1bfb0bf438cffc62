//! Distributed containers of `pgas`.
