//! Starts the ranks of a `pgas` program on this host.

fn main() {}
