//! Derived types of a program that knows the library by another path than `::pgas`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

// What is generated and names `::pgas` in spite of the attribute does not compile: it finds this.
extern crate core as pgas;
extern crate pgas as library;

use std::fmt::Debug;

use library::{HashMap, Object, RemoteCalls as _, Wire, World};

mod facade {
    pub(crate) use ::library;
}

#[derive(Clone, Debug, PartialEq, Wire, Object)]
#[pgas(crate = ::library)]
enum Query<T> {
    All,
    Name(String),
    Range { from: T, to: T },
}

/// A path that begins in this module.
#[derive(Clone, Debug, PartialEq, Wire, Object)]
#[pgas(crate = facade::library, inline = 12)]
struct City {
    name: String,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, Wire, Object)]
#[pgas(crate = library, serde)]
struct OnlySerde {
    at: std::ops::Range<u32>,
}

#[library::pod]
#[pgas(crate = library)]
#[derive(Debug, PartialEq)]
struct ByName(u32);

#[library::pod]
#[pgas(crate = ::library)]
#[derive(Debug, PartialEq)]
struct Absolute(u32);

#[library::pod]
#[pgas(crate = crate::facade::library)]
#[derive(Debug, PartialEq)]
struct InThisCrate(u32);

#[library::pod]
#[pgas(crate = self::facade::library)]
#[derive(Debug, PartialEq)]
struct InThisModule(u32);

fn travels_and_is_stored<T: Wire + Object + Clone + Debug + PartialEq>(world: &World, value: &T) {
    let echo = |value: T| value;
    let call = world.rpc(world.rank(), echo, value.clone()).unwrap();
    assert_eq!(call.wait().unwrap(), *value);
    let map = HashMap::<u64, T>::with_capacity(world, 4).unwrap();
    map.insert(&1, value.clone()).unwrap();
    assert_eq!(map.find(&1).unwrap().as_ref(), Some(value));
}

#[test]
fn the_library_is_found_by_the_path_that_the_type_names() {
    let tried = library::threads(1, |world| {
        travels_and_is_stored(&world, &Query::<u64>::All);
        travels_and_is_stored(&world, &Query::<u64>::Name("Viborg".to_owned()));
        travels_and_is_stored(&world, &Query::Range { from: 1_u64, to: 2 });
        let name = "a name that is longer than the slot".to_owned();
        travels_and_is_stored(&world, &City { name });
        travels_and_is_stored(&world, &OnlySerde { at: 1..2 });
        travels_and_is_stored(&world, &ByName(1));
        travels_and_is_stored(&world, &Absolute(2));
        travels_and_is_stored(&world, &InThisCrate(3));
        travels_and_is_stored(&world, &InThisModule(4));
    });
    tried.unwrap();
}
