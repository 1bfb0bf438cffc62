//! Waits that are refused inside a handler take no memory.

use pgas_lockfree::slots::probe::ProbeResult;
use pgas_lockfree::slots::state::StateWord;
use pgas_lockfree::slots::{ReadValue, SlotMemory as _};
use zerocopy::FromZeros as _;

use super::*;
use crate::object::{FoundBy as _, Repr, SlotOf};
use crate::testing::refused_without_a_loss;

#[test]
fn an_insert_that_may_not_wait_for_a_slot_gives_up_its_value() {
    everywhere(1, |world| {
        let map = map::<u64, String>(&world, 100);
        map.insert(&1, "short".into()).unwrap();
        let view = map.table.view_remote();
        let hash = Hash::of::<u64>(&1, &RapidHasher);
        let held = view
            .claim_slot(hash, &1, SlotOf::<String>::new_zeroed(), ReadValue::No)
            .unwrap();
        let (ProbeResult::Found(slot, held), _) = held else {
            panic!("it is there");
        };
        // As another rank does that writes the value.
        slot.swap_state(held.state, held.state.locked())
            .unwrap()
            .unwrap();
        let long = "long ".repeat(40);
        refused_without_a_loss(&world, || map.insert(&1, long.clone()));
        refused_without_a_loss(&world, || map.get_or_insert(&1, long.clone()));
        slot.swap_state(held.state.locked(), held.state)
            .unwrap()
            .unwrap();
        assert_eq!(map.find(&1).unwrap().unwrap(), "short");
    });
}

#[test]
fn a_claim_that_may_not_wait_for_a_slot_gives_up_its_key() {
    everywhere(1, |world| {
        let map = map::<String, u64>(&world, 100);
        let view = map.table.view_remote();
        let key = String::key_by("long ".repeat(40).as_str()).unwrap();
        let hash = Hash::of::<String>(&key, &RapidHasher);
        // As another rank does that inserts the key at the same time.
        let (claimed, of_key) = view.claim_slot(hash, &key, 0, ReadValue::No).unwrap();
        let ProbeResult::Free(slot) = claimed else {
            panic!("nothing is there");
        };
        refused_without_a_loss(&world, || {
            let of_key = <<String as Object>::Repr as Repr<String>>::key_slot(&key, view.heap())?;
            view.reserve(hash, &key, of_key, ReadValue::No).map(drop)
        });
        let ready = StateWord::ready(hash.fingerprint());
        slot.publish_entry(of_key, 7, ready).unwrap();
        assert_eq!(map.find(&"long ".repeat(40)).unwrap(), Some(7));
    });
}
