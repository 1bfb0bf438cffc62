//! Shared-memory backend of `pgas`.
