//! What points into the memory of one process cannot be copied to another as it is.

use pgas_containers::object::{Object, Plain};

struct City(String);

impl Object for City {
    type Repr = Plain;
}

fn main() {}
