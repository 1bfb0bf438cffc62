//! A change of phase takes the handle: the old one promises what no longer holds.

use pgas_containers::HashMap;

fn insert_after_the_change(map: HashMap<u64, u64>) {
    let _finds = map.into_find_phase();
    let _ = map.insert(&1, 2);
}

fn main() {}
