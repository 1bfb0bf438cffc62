//! A wait of a single operation is reported at the line of the program.

use std::thread;
use std::time::{Duration, Instant};

use pgas_lockfree::slots::probe::ProbeResult;
use pgas_lockfree::slots::{ReadValue, SlotMemory as _};
use zerocopy::FromZeros as _;

use super::*;
use crate::hash_map::Inserted;
use crate::object::SlotOf;

/// The time in which a wait has to be reported.
const PATIENCE: Duration = Duration::from_secs(20);

type Map = HashMap<u64, String>;

const OPERATIONS: &[fn(&Map)] = &[
    |map| assert_eq!(map.find(&1).unwrap().unwrap(), "short"),
    |map| {
        assert_eq!(
            map.insert_if_absent(&1, String::new()).unwrap().unwrap(),
            "short"
        );
    },
    |map| assert!(map.update(&1, |there| there).unwrap().is_some()),
    |map| assert_eq!(map.insert(&1, "other".into()).unwrap(), Inserted::Replaced),
    |map| assert!(map.remove(&1).unwrap()),
];

#[test]
fn a_wait_for_an_entry_that_another_rank_writes_is_at_the_line_of_the_program() {
    everywhere(1, |world| {
        let map = map::<u64, String>(&world, 100);
        let hash = Hash::of::<u64>(&1, &RapidHasher);
        for operation in OPERATIONS {
            map.insert(&1, "short".into()).unwrap();
            let found = map.table.view_remote().claim_slot(
                hash,
                &1,
                SlotOf::<String>::new_zeroed(),
                ReadValue::No,
            );
            let (ProbeResult::Found(slot, held), _) = found.unwrap() else {
                panic!("it is there");
            };
            // As another rank does that writes the value.
            let (ready, locked) = (held.state, held.state.locked());
            slot.swap_state(ready, locked).unwrap().unwrap();
            thread::scope(|threads| {
                let waits = threads.spawn(|| operation(&map));
                let (since, mut said) = (Instant::now(), String::new());
                while !said.contains(file!()) && since.elapsed() < PATIENCE {
                    thread::sleep(Duration::from_millis(1));
                    said = world.long_waits();
                }
                slot.swap_state(locked, ready).unwrap().unwrap();
                waits.join().unwrap();
                let what = "another rank to finish writing an entry of a hash map, as a part of ";
                assert!(said.contains(what) && said.contains(file!()), "{said}");
            });
        }
    });
}
