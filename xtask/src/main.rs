//! Project automation of `pgas`.

fn main() {}
