//! Values in slots, over every transport that needs nothing installed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::{NonZero, Saturating, Wrapping};
use std::ops::Range;
use std::path::PathBuf;

use pgas_am::codec::{AsSerde, Wire};
use pgas_core::backend::loopback;
use pgas_core::{Config, Rank, World, as_handler};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::*;
use crate::hash_map::RapidHasher;
use crate::testing::{everywhere, everywhere_counted, near_counted, price};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Point,
    Circle(f64),
    Named {
        name: String,
        corners: Vec<(i32, i32)>,
    },
}

impl Wire for Shape {
    type By = AsSerde;
}

impl Object for Shape {
    type Repr = Encoded<12>;
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Edge {
    to: u32,
    weight: f32,
}

impl Object for Edge {
    type Repr = Plain;
}

fn survives<T: Object + PartialEq + Debug>(world: &World, value: &T) {
    let heap = Heap::of::<T>(&world.team()).unwrap();
    let slot = to_slot::<T>(value, &heap).unwrap();
    assert_eq!(&from_slot::<T>(slot, &heap).unwrap(), value);
    release::<T>(&slot, &heap).unwrap();
}

#[test]
fn every_kind_of_value_comes_back_as_it_was() {
    everywhere(1, |world| {
        survives(&world, &7_u64);
        survives(&world, &-1.5_f32);
        survives(&world, &[[1_u16, 2], [3, 4]]);
        survives(&world, &Edge { to: 3, weight: 0.5 });
        survives(&world, &true);
        survives(&world, &'ß');
        survives(&world, &(1_u8, 2_u64));
        survives(&world, &(1_u8, "two".to_owned(), vec![3_u8; 1000]));
        survives(
            &world,
            &"a string that is longer than the sixty bytes of its slot, by some".to_owned(),
        );
        survives(&world, &Some(vec![Some(1_u32), None]));
        survives(&world, &world.rank());
        survives(&world, &[Wrapping(1_u16), Wrapping(2)]);
        survives(&world, &Saturating(7_i64));
        survives(
            &world,
            &Range {
                start: 1_u8,
                end: 9,
            },
        );
        survives(&world, &(Reverse("up".to_owned()), PathBuf::from("/tmp")));
        survives(&world, &c"text".to_owned());
        let long = "x".repeat(100);
        survives(&world, &[long.clone(), String::new(), long.clone()]);
        survives(&world, &[true; 8]);
        survives(&world, &[(1_u8, long.clone()), (2, String::new())]);
        survives(&world, &[[(1_u8, Edge { to: 3, weight: 0.5 })]; 2]);
        survives(&world, &[(); 0].map(|()| (1_u8, long.clone())));
        survives(&world, &(1_u8, 2_u16, 3_u32, 4_u64));
        let last = [(long.clone(), 1_u8)];
        survives(
            &world,
            &(1_u8, 2, 3_i8, 4, 5_u64, 6, '7', true, 9.0, long, (), last),
        );
        survives(&world, &Err::<u8, String>("no".into()));
        survives(&world, &BTreeMap::from([(1_u8, "one".to_owned())]));
        survives(&world, &Shape::Point);
        survives(&world, &Shape::Circle(2.0));
        let corners = vec![(1, 2), (i32::MAX, i32::MIN)];
        survives(
            &world,
            &Shape::Named {
                name: "triangle".into(),
                corners,
            },
        );
    });
}

#[test]
fn a_plain_slot_is_the_value_and_an_encoded_one_has_the_size_that_was_asked_for() {
    assert_eq!(size_of::<SlotOf<Edge>>(), 8);
    assert_eq!(size_of::<SlotOf<(u8, u64)>>(), 9);
    assert_eq!(size_of::<SlotOf<Shape>>(), 16);
    assert_eq!(size_of::<SlotOf<String>>(), 64);
    assert_eq!(size_of::<SlotOf<Rank>>(), 4);
    assert_eq!(size_of::<SlotOf<Wrapping<u64>>>(), 8);
    assert_eq!(size_of::<SlotOf<(u8, u16, u32, u64)>>(), 15);
    assert_eq!(size_of::<SlotOf<[(u8, u64); 3]>>(), 27);
    assert_eq!(size_of::<SlotOf<[String; 3]>>(), 64);
    assert!(!has_heap::<[(u8, [u64; 2]); 3]>() && has_heap::<[(u8, bool); 3]>());
}

/// Names in files do not change from version to version.
#[test]
fn values_are_saved_by_names_that_tell_their_layout() {
    fn is_saved_as<T: Object>(name: &str) {
        assert_eq!(T::saved_as(), name);
    }
    is_saved_as::<Rank>("rank");
    is_saved_as::<Wrapping<u64>>("wrapping u64");
    is_saved_as::<[[u16; 2]; 3]>("[[u16; 2]; 3]");
    is_saved_as::<[String; 3]>("[text; 3]");
    is_saved_as::<[(u8, String); 2]>("[(u8, text); 2]");
    is_saved_as::<(u8, u16)>("(u8, u16)");
    is_saved_as::<(u8, u16, String)>("(u8, u16, text)");
    is_saved_as::<(u8, u16, u32, u64, bool)>("(u8, u16, u32, u64, bool)");
    is_saved_as::<Range<u8>>("range of u8");
}

/// Otherwise each of them took memory of its own.
#[test]
fn numbers_and_addresses_fit_into_their_slots() {
    fn fits<T: Object>(value: &T) {
        let key = <T::Repr as Repr<T>>::key(value).unwrap();
        assert!(!<T::Repr as Repr<T>>::is_key_outside(&key));
    }
    fits(&NonZero::<u32>::MAX);
    fits(&NonZero::<i32>::MIN);
    fits(&NonZero::<u64>::MAX);
    fits(&NonZero::<i64>::MIN);
    fits(&NonZero::<u128>::MAX);
    fits(&NonZero::<i128>::MIN);
    let (four, six) = (Ipv4Addr::BROADCAST, Ipv6Addr::from([255; 16]));
    fits(&four);
    fits(&six);
    fits(&IpAddr::V6(six));
    fits(&SocketAddrV4::new(four, u16::MAX));
    fits(&SocketAddrV6::new(six, u16::MAX, u32::MAX, u32::MAX));
    fits(&SocketAddr::V6(SocketAddrV6::new(
        six,
        u16::MAX,
        u32::MAX,
        u32::MAX,
    )));
}

/// A search compares keys, and reads those in slots.
#[test]
fn keys_of_many_parts_are_told_apart() {
    type Key = ([(u16, String); 2], u8, Rank, bool);
    everywhere(1, |world| {
        let heap = Heap::of::<Key>(&world.team()).unwrap();
        let long = "x".repeat(100);
        let key = |i: u16, text: &String, last| -> Key {
            ([(1, long.clone()), (i, text.clone())], 1, Rank::ZERO, last)
        };
        let keys = [
            key(1, &long, true),
            key(2, &long, true),
            key(1, &String::new(), true),
            key(1, &long, false),
        ];
        let forms = keys.each_ref().map(|key| Parts::key(key).unwrap());
        for (i, form) in forms.iter().enumerate() {
            let slot = <Parts as Repr<Key>>::key_slot(form, &heap).unwrap();
            assert!(<Parts as Repr<Key>>::is_outside(&slot));
            for (j, other) in forms.iter().enumerate() {
                let is_it = <Parts as Repr<Key>>::has_key(&slot, other, &heap).unwrap();
                assert_eq!(is_it, i == j);
                assert_eq!(<Parts as Repr<Key>>::is_same_key(form, other), i == j);
            }
            let read = <Parts as Repr<Key>>::load(slot, &heap).unwrap();
            assert!(<Parts as Repr<Key>>::is_same_key(&read, form));
            let hash = |key| <Parts as Repr<Key>>::hash_key(key, &RapidHasher);
            assert_eq!(hash(&read), hash(form));
            let next = hash(&forms[(i + 1) % 4]);
            assert_ne!(hash(form), next);
            release::<Key>(&slot, &heap).unwrap();
            let mut bytes = Vec::new();
            <Parts as Repr<Key>>::write(&keys[i], &mut bytes).unwrap();
            let back = <Parts as Repr<Key>>::read(&mut bytes.as_slice()).unwrap();
            assert_eq!(back, keys[i]);
        }
    });
}

#[test]
fn only_an_encoding_that_is_longer_than_its_slot_costs_anything() {
    everywhere_counted(1, |world| {
        let heap = Heap::of::<String>(&world.team()).unwrap();
        let repr = |n| "x".repeat(n);
        let (short, long) = (repr(59), repr(60));
        let to = |value: &String| to_slot(value, &heap).unwrap();
        assert_eq!(price(&world, || to(&short)), (0, 0, 0));
        // The list of blocks that were given back is searched before new memory is allocated.
        assert_eq!(price(&world, || to(&long)), (0, 1, 1));
        let slot = to(&long);
        let read = || from_slot::<String>(slot, &heap).unwrap();
        assert_eq!(price(&world, read), (1, 0, 0));
        let release = || release::<String>(&slot, &heap).unwrap();
        assert_eq!(price(&world, release), (0, 0, 0));
        assert_eq!(price(&world, || to(&long)), (0, 1, 0));
    });
}

#[test]
fn blocks_that_other_ranks_give_back_are_used_again() {
    everywhere(3, |world| {
        let heap = Heap::of::<String>(&world.team()).unwrap();
        let slots = world.alloc_symmetric::<SlotOf<String>>(1).unwrap();
        let text = "long ".repeat(100);
        let mut used = 0;
        for round in 0..20 {
            let slot = to_slot::<String>(&text, &heap).unwrap();
            slots.here().put(&world, slot).unwrap();
            world.barrier().unwrap();
            // Two ranks at once give blocks back to the third one.
            let next = Rank::new((world.rank().number() + 1) % 3);
            let theirs = slots.on(next).get(&world).unwrap();
            assert_eq!(from_slot::<String>(theirs, &heap).unwrap(), text);
            release::<String>(&theirs, &heap).unwrap();
            world.barrier().unwrap();
            let now = world.local_heap_use().used;
            assert!(
                round == 0 || now == used,
                "round {round}: {used} to {now} bytes"
            );
            used = now;
        }
    });
}

/// In a handler nothing waits for the owner of the block.
#[test]
fn blocks_that_handlers_give_back_are_used_again() {
    everywhere(3, |world| {
        let heap = Heap::of::<String>(&world.team()).unwrap();
        let slots = world.alloc_symmetric::<SlotOf<String>>(1).unwrap();
        let text = "long ".repeat(100);
        let before = world.local_heap_use().used;
        for _ in 0..50 {
            let slot = to_slot::<String>(&text, &heap).unwrap();
            slots.here().put(&world, slot).unwrap();
            world.barrier().unwrap();
            let next = Rank::new((world.rank().number() + 1) % 3);
            let theirs = slots.on(next).get(&world).unwrap();
            as_handler(|| release::<String>(&theirs, &heap)).unwrap();
            world.barrier().unwrap();
        }
        let used = world.local_heap_use().used - before;
        assert!(used <= 4 * 1024, "{used} bytes for few live values");
    });
}

/// A rank that only serves: what a handler can release without a wait does not wait for a later
/// call.
#[test]
fn a_rank_that_only_serves_gives_back_at_once_what_it_reaches() {
    near_counted(2, |world| {
        let heap = Heap::of::<String>(&world.team()).unwrap();
        let slot = world.alloc_symmetric::<SlotOf<String>>(1).unwrap();
        let slot = slot.on(Rank::ZERO);
        let (text, before) = ("long ".repeat(100), world.local_heap_use().used);
        for _ in 0..50 {
            if world.rank() == Rank::ZERO {
                let stored = to_slot::<String>(&text, &heap).unwrap();
                slot.put(&world, stored).unwrap();
            }
            world.barrier().unwrap();
            if world.rank() != Rank::ZERO {
                let theirs = slot.get(&world).unwrap();
                as_handler(|| release::<String>(&theirs, &heap)).unwrap();
            }
            world.barrier().unwrap();
        }
        let used = world.local_heap_use().used - before;
        assert!(used <= 1024, "{used} bytes for one live value");
    });
}

#[test]
fn the_heap_stays_flat_over_many_values_and_is_free_again_when_all_have_dropped_it() {
    everywhere(2, |world| {
        let before = world.local_heap_use().used;
        let heap = Heap::of::<Vec<u8>>(&world.team()).unwrap();
        let mut former = to_slot::<Vec<u8>>(&vec![0; 300], &heap).unwrap();
        let mut most = 0;
        for i in 0..2000_usize {
            let value = vec![1; 100 + i % 400];
            let slot = to_slot::<Vec<u8>>(&value, &heap).unwrap();
            release::<Vec<u8>>(&former, &heap).unwrap();
            former = slot;
            most = most.max(world.local_heap_use().used - before);
        }
        assert!(most < 4096, "{most} bytes for two live values");
        drop(heap);
        world.barrier().unwrap();
        world.reclaim().unwrap();
        assert_eq!(world.local_heap_use().used, before);
    });
}

#[test]
fn memory_of_one_size_is_given_up_for_another_and_exhaustion_loses_nothing() {
    everywhere(1, |world| {
        let heap = Heap::of::<String>(&world.team()).unwrap();
        let to = |n: usize| to_slot::<String>(&"x".repeat(n), &heap);
        let release = |slot| release::<String>(&slot, &heap).unwrap();
        // Half of the segment's 16 MiB, minus what others use.
        let slots: Vec<_> = std::iter::from_fn(|| to(500_000).ok()).collect();
        assert!(slots.len() > 10);
        for slot in &slots {
            let kept = from_slot::<String>(*slot, &heap).unwrap();
            assert_eq!(kept, "x".repeat(500_000));
        }
        slots.into_iter().for_each(release);
        release(to(3_000_000).unwrap());
        release(to(100).unwrap());
    });
}

#[test]
fn bytes_that_are_no_value_are_an_error() {
    everywhere(1, |world| {
        let heap = Heap::of::<bool>(&world.team()).unwrap();
        let slot = to_slot::<u8>(&7, &heap).unwrap();
        assert_eq!(slot, 7);
        let mut slot = to_slot::<bool>(&true, &heap).unwrap();
        slot.as_mut_bytes()[4] = 9;
        let error = from_slot::<bool>(slot, &heap).unwrap_err();
        assert!(error.to_string().contains("bool"), "{error}");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_and_numbers_survive(text in ".{0,200}", numbers in prop::collection::vec(any::<i64>(), 0..40)) {
        let world = loopback::world();
        survives(&world, &(text, numbers));
    }
}

/// Otherwise they would read each other's bytes.
#[test]
fn ranks_that_make_containers_of_different_types_are_told() {
    type Maker = fn(&World) -> crate::Result<()>;
    fn same<T: Object>(world: &World) -> crate::Result<()> {
        Heap::of::<T>(&world.team()).map(drop)
    }
    let mut config = Config::default();
    config.check = Some(true);
    let makers: [[Maker; 2]; 3] = [
        [same::<u64>, same::<u32>],
        [same::<String>, same::<Vec<u8>>],
        [same::<(u32, u64)>, same::<(u64, u32)>],
    ];
    for maker in makers {
        let told = loopback::run_with(2, &config, |world| {
            let made = maker[world.rank().index()](&world);
            made.unwrap_err().to_string()
        });
        let what = "the type of a container's elements";
        assert!(told.iter().all(|text| text.contains(what)), "{told:?}");
        loopback::run_with(2, &config, |world| maker[0](&world).unwrap());
    }
}
