//! In the find phase nobody changes a map.

use pgas_containers::HashMap;
use pgas_containers::hash_map::FindOnly;

fn insert_while_others_look(map: &HashMap<u64, u64, FindOnly>) {
    let _ = map.insert(&1, 2);
}

fn main() {}
