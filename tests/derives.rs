//! Derived types: encoding and decoding, in messages and in containers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Debug;

use pgas::codec::{Decoder, Encoder, Layout};
use pgas::object::SlotOf;
use pgas::{HashMap, Object, RemoteCalls as _, Wire, World};

#[derive(Clone, Debug, PartialEq, Wire, Object)]
enum Query {
    All,
    Name(String),
    Range { from: u64, to: u64 },
    Nested(Box<Self>, Vec<Self>),
}

#[derive(Clone, Debug, PartialEq, Wire, Object)]
#[pgas(inline = 12)]
struct City {
    name: String,
    twins: BTreeMap<String, [u16; 2]>,
    r#type: Option<char>,
}

#[derive(Clone, Debug, PartialEq, Wire, Object)]
struct Labelled<T, const N: usize> {
    label: Option<String>,
    values: [T; N],
}

#[derive(Clone, Debug, PartialEq, Wire, Object)]
struct Unit;

#[derive(Clone, Debug, PartialEq, Wire, Object)]
struct Tuple(u8, f64, ());

#[derive(Clone, Copy, Debug, PartialEq, Wire, Object)]
enum Small {
    A,
    B(u16),
}

#[derive(Wire, Object)]
enum Nothing {}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, Wire, Object)]
#[pgas(serde, inline = 16)]
struct OnlySerde {
    at: std::ops::Range<u32>,
}

/// Its parameter need not be `Wire`.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, Wire, Object)]
#[pgas(serde)]
struct GenericBySerde<T> {
    at: T,
}

/// Nobody may refer to its members; encoded as bytes, and so by its members if they have a
/// parameter.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Wire,
    Object,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
)]
#[repr(C, packed)]
struct Packed {
    few: u8,
    many: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Wire)]
#[repr(C, packed(2))]
struct PackedPair<T: Copy>(u8, T);

/// Names that are words of the language.
#[derive(Clone, Copy, Debug, PartialEq, Wire, Object)]
#[expect(non_camel_case_types, reason = "words of the language are so")]
enum r#fn {
    r#try { r#in: u8 },
}

#[pgas::pod]
struct r#async {
    r#as: u8,
}

/// A module in which names that the derives use have another meaning.
mod names_of_others {
    #![no_implicit_prelude]
    #![expect(
        dead_code,
        non_camel_case_types,
        non_upper_case_globals,
        reason = "it is enough that they are there"
    )]

    struct Result;
    struct Option;
    struct Vec;
    type usize = ();
    type u64 = ();
    type str = ();
    trait Copy {}
    trait Wire {}
    trait Object {}
    mod core {}
    mod std {}
    static value: () = ();
    static out: () = ();
    static input: () = ();
    static number: () = ();
    static member_0: () = ();

    #[derive(::pgas::Wire, ::pgas::Object)]
    pub(crate) enum Query<T> {
        Name(::std::string::String),
        Range { value: T, out: u32 },
        Nothing,
    }

    #[derive(::pgas::Wire, ::pgas::Object)]
    pub(crate) struct City {
        pub(crate) input: ::std::string::String,
    }

    #[derive(::pgas::Wire, ::pgas::Object)]
    struct Numbers<const LENGTH_OF_ARRAY: ::core::primitive::usize> {
        numbers: [::core::primitive::u64; LENGTH_OF_ARRAY],
    }

    #[::pgas::pod]
    pub(crate) struct Edge {
        pub(crate) number: u32,
    }

    /// A type that nobody is to use any more: its derives are no uses.
    #[deprecated]
    #[derive(::pgas::Wire, ::pgas::Object)]
    enum Old {
        #[deprecated]
        Variant,
        Named {
            #[deprecated]
            member: u32,
        },
    }

    #[::pgas::pod]
    #[deprecated]
    struct OldBytes {
        #[deprecated]
        member: u32,
    }
}

#[pgas::pod]
#[derive(Debug, PartialEq)]
struct Edge {
    to: u32,
    weight: f32,
}

#[pgas::pod]
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(16))]
struct Wide {
    edges: [Edge; 2],
}

/// A condition that is never met removes a member, whose type is not there then, from all.
#[pgas::pod]
#[derive(Debug, PartialEq)]
struct OfFeatures {
    a: u32,
    #[cfg(any())]
    missing: no_such_module::Type,
    #[cfg(any())]
    wide: u64,
    #[cfg(test)]
    b: u32,
}

#[pgas::pod]
#[derive(Debug, PartialEq)]
struct TupleOfFeatures(u32, #[cfg(any())] u64, #[cfg(test)] u32);

/// Bounds that name the type itself.
#[derive(Debug, Wire, Object)]
struct Listed<T: PartOf<Self>>
where
    Self: Sized,
{
    all: Vec<T>,
}

trait PartOf<T> {}

impl<T> PartOf<T> for Tuple {}

fn survives<T: Wire + PartialEq + Debug>(value: &T) -> usize {
    let mut out = Encoder::new();
    out.put(value).unwrap();
    let mut input = Decoder::new(out.bytes());
    assert_eq!(&input.get::<T>().unwrap(), value);
    assert_eq!(input.remaining(), []);
    for len in 0..out.bytes().len() {
        let mut cut = Decoder::new(&out.bytes()[..len]);
        assert!(cut.get::<T>().is_err(), "{value:?} of {len} bytes");
    }
    out.bytes().len()
}

#[test]
fn values_come_back_and_take_what_their_members_take() {
    assert_eq!(survives(&Query::All), 1);
    assert_eq!(
        survives(&Query::Range {
            from: 1,
            to: u64::MAX
        }),
        17
    );
    survives(&queries());
    survives(&city());
    survives(&Labelled {
        label: Some("a".to_owned()),
        values: [city(), city()],
    });
    assert_eq!(
        survives(&Labelled {
            label: None,
            values: [1_u32, 2, 3]
        }),
        13
    );
    let (few, many) = (1, 0x0203_0405);
    assert_eq!(survives(&Packed { few, many }), 5);
    assert_eq!(survives(&PackedPair(few, (many, ()))), 5);
    assert_eq!(survives(&r#fn::r#try { r#in: 1 }), 2);
    assert_eq!(survives(&Unit), 0);
    assert_eq!(survives(&Tuple(1, 2.0, ())), 9);
    assert_eq!(survives(&[Small::A, Small::B(3)]), 4);
    survives(&OnlySerde { at: 3..400_000 });
    survives(&GenericBySerde { at: 3..400_000 });
    survives(&GenericBySerde { at: vec![3_u64] });
    assert_eq!(survives(&EDGE), 8);
    assert_eq!(survives(&OfFeatures { a: 1, b: 2 }), 8);
    assert_eq!(survives(&TupleOfFeatures(1, 2)), 8);
    let listed = Listed {
        all: vec![Tuple(1, 2.0, ())],
    };
    let mut out = Encoder::new();
    out.put(&listed).unwrap();
    let read: Listed<Tuple> = Decoder::new(out.bytes()).get().unwrap();
    assert_eq!(read.all, listed.all);
    assert_eq!(survives(&vec![[EDGE; 3]; 100]), 1 + 2_400);
    assert_eq!(survives(&(Wide { edges: [EDGE; 2] }, 1_u8)), 17);
}

const EDGE: Edge = Edge { to: 3, weight: 0.5 };

fn queries() -> Vec<Query> {
    let name = Query::Name("Lund".to_owned());
    let nested = Query::Nested(Box::new(Query::All), vec![name.clone(), Query::All]);
    vec![
        Query::All,
        name,
        nested.clone(),
        Query::Nested(Box::new(nested), vec![]),
    ]
}

fn city() -> City {
    City {
        name: "Viborg".to_owned(),
        twins: BTreeMap::from([("Lund".to_owned(), [1, 2]), ("Porvoo".to_owned(), [3, 4])]),
        r#type: Some('c'),
    }
}

#[test]
fn what_else_is_in_scope_does_not_matter() {
    use names_of_others::{City, Edge, Query};

    let mut out = Encoder::new();
    out.put(&Query::Range {
        value: 1_u8,
        out: 2,
    })
    .unwrap();
    out.put(&City {
        input: "Viborg".to_owned(),
    })
    .unwrap();
    out.put(&Edge { number: 3 }).unwrap();
    let mut input = Decoder::new(out.bytes());
    let query: Query<u8> = input.get().unwrap();
    assert!(matches!(query, Query::Range { value: 1, out: 2 }));
    assert_eq!(input.get::<City>().unwrap().input, "Viborg");
    assert_eq!(input.get::<Edge>().unwrap().number, 3);
}

#[test]
fn bytes_that_are_no_value_are_an_error() {
    let error = Decoder::new(&[9]).get::<Query>().unwrap_err().to_string();
    assert!(
        error.contains("Query") && error.contains("no variant 9"),
        "{error}"
    );
    assert!(Decoder::new(&[0]).get::<Nothing>().is_err());
    // A nest that is deeper than the limit.
    let mut deep = [3_u8, 3].repeat(100_000);
    deep.push(0);
    assert!(Decoder::new(&deep).get::<Query>().is_err());
}

#[test]
fn slots_are_as_long_as_they_have_to_be() {
    assert_eq!(size_of::<SlotOf<Edge>>(), 8, "as it is");
    assert_eq!(align_of::<SlotOf<Wide>>(), 16, "as it is");
    assert_eq!(size_of::<SlotOf<City>>(), 4 + 12, "as the attribute says");
    assert_eq!(size_of::<SlotOf<Query>>(), 4 + 60, "it owns memory");
    assert_eq!(size_of::<SlotOf<Small>>(), 4 + 8);
    assert_eq!(size_of::<SlotOf<Tuple>>(), 4 + 20);
    assert_eq!(size_of::<SlotOf<Labelled<u8, 2>>>(), 4 + 60);
}

#[test]
fn files_call_types_by_their_members() {
    assert_eq!(
        Layout::of::<City>(),
        "City {name: text, twins: map of (text, 2 of u16), type: option of char}"
    );
    assert_eq!(City::saved_as(), Layout::of::<City>());
    assert_eq!(
        Layout::of::<Query>(),
        "Query [All, Name {text}, Range {from: u64, to: u64}, Nested {...1, list of ...1}]"
    );
    assert_eq!(Edge::saved_as(), "Edge {to: u32, weight: f32}");
    assert_eq!(OnlySerde::saved_as(), "OnlySerde {at}");
    assert_eq!(Packed::saved_as(), "Packed {few: u8, many: u32}");
    assert_eq!(Layout::of::<r#fn>(), "fn [try {in: u8}]");
    assert!(r#fn::saved_as().starts_with("fn "), "{}", r#fn::saved_as());
    assert_eq!(Layout::of::<r#async>(), "async {as: u8}");
    assert_eq!(r#async::saved_as(), "async {as: u8}");
    assert_eq!(OfFeatures::saved_as(), "OfFeatures {a: u32, b: u32}");
    assert_eq!(TupleOfFeatures::saved_as(), "TupleOfFeatures {u32, u32}");
}

/// Byte-copyable, and nothing else.
#[derive(Clone, Copy, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
#[repr(C)]
struct Foreign(u32);

type Twelve<T> = (T, T, T, T, T, T, T, T, T, T, T, T);

/// Types whose innermost members are `$a` and `$b`.
macro_rules! types {
    ($name:ident, $a:ident: $first:ty, $b:ident: $second:ty) => {
        mod $name {
            use pgas::{Object, Wire};

            #[pgas::pod]
            pub(crate) struct Point {
                $a: $first,
                $b: $second,
            }

            #[pgas::pod]
            pub(crate) struct Outer {
                points: [Point; 2],
                foreign: crate::Foreign,
            }

            #[derive(Wire, Object)]
            pub(crate) struct Route {
                _name: String,
                _at: Option<Outer>,
            }

            #[derive(Wire, Object)]
            pub(crate) enum Part {
                _Whole(Box<Route>),
            }

            #[derive(Wire, Object)]
            pub(crate) struct Wide {
                // Of more letters than a file has of a description.
                _first: crate::Twelve<crate::Twelve<[u16; 9]>>,
                _then: (Part, [Part; 1], Result<Vec<Part>, Part>),
            }
        }
    };
}
types!(former, x: u32, y: f32);
types!(renamed, y: u32, x: f32);
types!(retyped, x: f32, y: u32);

#[test]
fn what_differs_in_any_depth_and_width_is_called_differently() {
    macro_rules! compare {
        ($($ty:ty | $one:ty | $two:ty;)*) => {$(
            let names = [<$ty>::saved_as(), <$one>::saved_as(), <$two>::saved_as()];
            assert!(names[0] != names[1] && names[0] != names[2], "{names:?}");
        )*};
    }
    compare! {
        former::Point | renamed::Point | retyped::Point;
        former::Outer | renamed::Outer | retyped::Outer;
        former::Route | renamed::Route | retyped::Route;
        former::Part | renamed::Part | retyped::Part;
        former::Wide | renamed::Wide | retyped::Wide;
        Vec<former::Point> | Vec<renamed::Point> | Vec<retyped::Point>;
        Vec<[former::Outer; 2]> | Vec<[renamed::Outer; 2]> | Vec<[retyped::Outer; 2]>;
        Option<Vec<Vec<Vec<Vec<(u8, former::Point)>>>>>
            | Option<Vec<Vec<Vec<Vec<(u8, renamed::Point)>>>>>
            | Option<Vec<Vec<Vec<Vec<(u8, retyped::Point)>>>>>;
    }
    let wide = former::Wide::saved_as();
    assert!(
        (1_000..1_030).contains(&wide.len()) && wide.contains("... ("),
        "{wide}"
    );
    assert_eq!(
        former::Outer::saved_as(),
        "Outer {points: 2 of Point {x: u32, y: f32}, foreign: 4 plain bytes}"
    );
}

/// It contains itself in many places.
#[derive(Wire)]
struct Broad {
    one: [Box<Self>; 1],
    two: Vec<Self>,
    three: BTreeMap<String, Self>,
    four: Option<Box<Self>>,
}

/// A type of which each part has several of the next: in full it would be described for ever.
macro_rules! doubled {
    ($name:ident $next:ident $($rest:ident)*) => {
        #[derive(Wire)]
        struct $name([Vec<$next>; 1], Option<$next>, Vec<$next>, Box<$next>);
        doubled! { $next $($rest)* }
    };
    ($name:ident) => {
        #[derive(Wire)]
        struct $name(u8);
    };
}
doubled! { D0 D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D11 D12 D13 D14 D15 D16 D17 D18 D19 D20 }

#[test]
fn a_layout_has_an_end() {
    assert_eq!(
        Layout::of::<Broad>(),
        "Broad {one: 1 of ...2, two: list of ...1, three: map of (text, ...2), four: option of ...2}"
    );
    let layout = Layout::of::<D0>();
    assert!((1_000..1_030).contains(&layout.len()), "{layout}");
}

fn reversed(mut queries: Vec<Query>) -> (Vec<Query>, [Edge; 1]) {
    queries.reverse();
    (queries, [EDGE])
}

fn everywhere(body: impl Fn(&World) -> pgas::Result<()> + Sync) {
    for result in pgas::threads(3, |world| body(&world)).unwrap() {
        result.unwrap();
    }
}

#[test]
fn they_are_arguments_and_results_of_calls() {
    everywhere(|world| {
        let next = world.rank_after(world.rank());
        let (back, edges) = world.rpc(next, reversed, queries())?.wait()?;
        assert_eq!(back, queries().into_iter().rev().collect::<Vec<_>>());
        assert_eq!(edges, [EDGE]);
        world.barrier()
    });
}

#[test]
fn they_are_keys_and_values_of_containers() {
    everywhere(|world| {
        let map = HashMap::<Query, (City, Edge)>::with_capacity(world, 100)?;
        let is_mine = |i: usize| i % 3 == world.rank().index();
        let mut keys = queries();
        keys.extend((0..20).map(|to| Query::Range { from: 0, to }));
        for (i, key) in keys.iter().enumerate().filter(|(i, _)| is_mine(*i)) {
            let edge = Edge {
                to: u32::try_from(i).unwrap(),
                ..EDGE
            };
            map.insert(key, (city(), edge)).unwrap();
        }
        world.barrier()?;
        for (i, key) in keys.iter().enumerate() {
            let (found, edge) = map.find(key)?.unwrap();
            assert_eq!((found, edge.to as usize), (city(), i));
        }
        assert_eq!(map.find(&Query::Name("nobody".to_owned()))?, None);
        world.barrier()
    });
}

#[test]
fn byte_copyable_ones_are_elements_of_global_memory() {
    everywhere(|world| {
        let wide = world.alloc_symmetric::<Wide>(2)?;
        let next = world.rank_after(world.rank());
        let edge = Edge {
            to: next.number(),
            weight: 1.0,
        };
        wide.on(next).put(
            world,
            Wide {
                edges: [edge, EDGE],
            },
        )?;
        world.flush_all()?;
        world.barrier()?;
        assert_eq!(wide.here().get(world)?.edges[0].to, world.rank().number());
        world.barrier()
    });
}
