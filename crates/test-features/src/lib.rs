//! Nothing: what this package is for is in its manifest.
#![forbid(unsafe_code)]
