//! A type of one's own needs one line before it can be stored.

use pgas_containers::HashMap;

struct City(String);

fn look_up(map: &HashMap<u64, City>) {}

fn main() {}
