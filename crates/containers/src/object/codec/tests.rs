//! The format beside bincode's, and bytes that nobody has written.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::refused::EMPTY;
use super::*;

const BINCODE: bincode::config::Configuration = bincode::config::standard();

/// What serde can be asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct All {
    unsigned: (u8, u16, u32, u64, u128),
    signed: (i8, i16, i32, i64, i128),
    float: (f32, f64),
    other: (bool, char, ()),
    text: String,
    bytes: Vec<u8>,
    maybe: Option<Box<Self>>,
    map: BTreeMap<String, Vec<Kind>>,
    array: [u16; 3],
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Kind {
    Unit,
    New(i64),
    Tuple(u8, Option<String>),
    Struct { wrapped: Wrapped, nothing: () },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped(u32);

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Unit),
        any::<i64>().prop_map(Kind::New),
        any::<(u8, Option<String>)>().prop_map(|(a, b)| Kind::Tuple(a, b)),
        any::<u32>().prop_map(|n| Kind::Struct {
            wrapped: Wrapped(n),
            nothing: ()
        }),
    ]
}

prop_compose! {
    fn all(depth: u32)(
        unsigned in any::<(u8, u16, u32, u64, u128)>(),
        signed in any::<(i8, i16, i32, i64, i128)>(),
        float in (-1e9_f32..1e9, -1e300..1e300),
        other in any::<(bool, char, ())>(),
        text in ".{0,40}",
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        map in prop::collection::btree_map(".{0,5}", prop::collection::vec(kind(), 0..4), 0..4),
        array in any::<[u16; 3]>(),
        inner in if depth == 0 { Just(None).boxed() } else { prop::option::of(all(depth - 1).prop_map(Box::new)).boxed() },
    ) -> All {
        All { unsigned, signed, float, other, text, bytes, maybe: inner, map, array }
    }
}

fn encoded<T: Serialize>(value: &T) -> Vec<u8> {
    match encode(value, &mut []).unwrap() {
        Encoding::Inline(_) => Vec::new(),
        Encoding::Long(bytes) => bytes,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bytes_are_those_of_bincode_and_come_back(value in all(2), room in 0_usize..600) {
        let bytes = encoded(&value);
        prop_assert_eq!(&bytes, &bincode::serde::encode_to_vec(&value, BINCODE).unwrap());
        prop_assert_eq!(&decode::<All>(&bytes).unwrap(), &value);
        let mut buffer = vec![0; room];
        match encode(&value, &mut buffer).unwrap() {
            Encoding::Inline(len) => prop_assert_eq!(&buffer[..len], &bytes[..]),
            Encoding::Long(long) => {
                prop_assert!(bytes.len() > room);
                prop_assert_eq!(long, bytes);
            }
        }
    }

    #[test]
    fn damaged_bytes_are_a_value_or_an_error(value in all(2), at in any::<prop::sample::Index>(), byte: u8, cut: bool) {
        let mut bytes = encoded(&value);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
        }
        drop(decode::<All>(&bytes));
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Deep(Option<Box<Self>>);

fn deep(n: u32) -> Deep {
    (1..n).fold(Deep(None), |inner, _| Deep(Some(Box::new(inner))))
}

#[test]
fn what_lies_too_deep_is_neither_written_nor_read() {
    for n in 1..200 {
        let value = deep(n);
        match encode(&value, &mut [0; 300]) {
            Ok(_) => drop(decode::<Deep>(&encoded(&value)).unwrap()),
            Err(error) => {
                assert!(n > 60, "{n}: {error}");
                assert!(error.to_string().contains("within each other"), "{error}");
            }
        }
    }
    let hostile = vec![1; 100_000];
    assert!(decode::<Deep>(&hostile).is_err());
}

#[test]
fn lengths_that_no_bytes_stand_behind_take_no_memory_and_no_time() {
    let mut hostile = vec![253];
    hostile.extend_from_slice(&(1_u64 << 60).to_le_bytes());
    hostile.extend_from_slice(&[7; 30]);
    assert!(decode::<String>(&hostile).is_err());
    assert!(decode::<Vec<u8>>(&hostile).is_err());
    assert!(decode::<Vec<()>>(&hostile).is_err());
    assert!(decode::<Vec<String>>(&hostile).is_err());
    assert!(decode::<BTreeMap<(), ()>>(&hostile).is_err());
    let many = vec![(); EMPTY];
    assert_eq!(decode::<Vec<()>>(&encoded(&many)).unwrap().len(), EMPTY);
    assert!(encode(&vec![(); EMPTY + 1], &mut []).is_err());
}

#[test]
fn numbers_that_do_not_fit_are_errors() {
    assert_eq!(decode::<u16>(&[251, 255, 255]).unwrap(), u16::MAX);
    assert!(decode::<u16>(&[252, 255, 255, 0, 0]).is_err());
    assert!(decode::<u32>(&[255]).is_err());
    assert!(decode::<bool>(&[2]).is_err());
    assert!(decode::<char>(&[0xff, 1, 1, 1]).is_err());
    assert!(decode::<char>(&[]).is_err());
    assert!(decode::<Option<u8>>(&[2, 1]).is_err());
}
