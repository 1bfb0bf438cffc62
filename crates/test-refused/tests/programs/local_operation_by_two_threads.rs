//! Without atomics one thread needs the handle for itself.

use pgas_containers::HashMap;
use pgas_containers::hash_map::Local;

fn by_two_threads(map: &HashMap<u64, u64, Local>) {
    let _ = map.local_insert(&1, &2);
}

fn main() {}
