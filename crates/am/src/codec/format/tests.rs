//! The format beside bincode's, and bytes that nobody has written.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::*;

const BINCODE: bincode::config::Configuration = bincode::config::standard();

/// Every kind of value that serde knows.
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
    let mut bytes = Vec::new();
    encode(value, &mut bytes).unwrap();
    bytes
}

/// The value of all `bytes`.
fn decoded<T: DeserializeOwned>(mut bytes: &[u8]) -> Result<T, Refused> {
    let value = decode(&mut bytes)?;
    assert_eq!(bytes, []);
    Ok(value)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bytes_are_those_of_bincode_and_come_back(value in all(2)) {
        let bytes = encoded(&value);
        prop_assert_eq!(&bytes, &bincode::serde::encode_to_vec(&value, BINCODE).unwrap());
        prop_assert_eq!(&decoded::<All>(&bytes).unwrap(), &value);
    }

    #[test]
    fn damaged_bytes_are_a_value_or_an_error(value in all(2), at in any::<prop::sample::Index>(), byte: u8, cut: bool) {
        let mut bytes = encoded(&value);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
        }
        drop(decode::<All>(&mut &bytes[..]));
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
        match encode(&value, &mut Vec::new()) {
            Ok(()) => drop(decoded::<Deep>(&encoded(&value)).unwrap()),
            Err(error) => {
                assert!(n > 60, "{n}: {error}");
                assert!(error.to_string().contains("within each other"), "{error}");
            }
        }
    }
    let hostile = vec![1; 100_000];
    assert!(decoded::<Deep>(&hostile).is_err());
}

#[test]
fn lengths_that_no_bytes_stand_behind_take_no_memory_and_no_time() {
    let mut hostile = vec![253];
    hostile.extend_from_slice(&(1_u64 << 60).to_le_bytes());
    hostile.extend_from_slice(&[7; 30]);
    assert!(decoded::<String>(&hostile).is_err());
    assert!(decoded::<Vec<u8>>(&hostile).is_err());
    assert!(decoded::<Vec<()>>(&hostile).is_err());
    assert!(decoded::<Vec<String>>(&hostile).is_err());
    assert!(decoded::<BTreeMap<(), ()>>(&hostile).is_err());
    let many = vec![(); EMPTY];
    let bytes = encoded(&many);
    assert_eq!(decoded::<Vec<()>>(&bytes).unwrap().len(), EMPTY);
    assert!(encode(&vec![(); EMPTY + 1], &mut Vec::new()).is_err());
}

#[test]
fn elements_without_bytes_have_a_limit_in_all() {
    // A list of lists, each of which may have the full length: a megabyte would take sixteen
    // billion steps.
    let mut hostile = vec![252];
    let n = 250_000_u32;
    hostile.extend_from_slice(&n.to_le_bytes());
    for _ in 0..n {
        hostile.extend_from_slice(&[251, 255, 255]);
    }
    let error = decoded::<Vec<Vec<()>>>(&hostile).unwrap_err();
    assert!(error.to_string().contains("may be empty"), "{error}");

    let half = vec![(); EMPTY / 2];
    let both = vec![half.clone(), half.clone()];
    assert_eq!(decoded::<Vec<Vec<()>>>(&encoded(&both)).unwrap(), both);
    let three = vec![half.clone(), half, vec![()]];
    assert!(encode(&three, &mut Vec::new()).is_err());
    // Empty elements whose number the type fixes do not count.
    let pairs = vec![((), 1_u8); 2 * EMPTY];
    assert_eq!(decoded::<Vec<((), u8)>>(&encoded(&pairs)).unwrap(), pairs);
}

/// A sequence that claims two elements.
struct Liar(Vec<u8>);

impl Serialize for Liar {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeSeq as _;
        let mut elements = serializer.serialize_seq(Some(2))?;
        for element in &self.0 {
            elements.serialize_element(element)?;
        }
        elements.end()
    }
}

#[test]
fn a_sequence_that_is_not_as_long_as_it_says_is_not_written() {
    assert_eq!(encoded(&Liar(vec![1, 2])), [2, 1, 2]);
    for n in [0, 1, 3] {
        assert!(encode(&Liar(vec![1; n]), &mut Vec::new()).is_err(), "{n}");
    }
}

#[test]
fn numbers_that_do_not_fit_are_errors() {
    assert_eq!(decoded::<u16>(&[251, 255, 255]).unwrap(), u16::MAX);
    assert!(decoded::<u16>(&[252, 255, 255, 0, 0]).is_err());
    assert!(decoded::<u32>(&[255]).is_err());
    assert!(decoded::<bool>(&[2]).is_err());
    assert!(decoded::<char>(&[0xff, 1, 1, 1]).is_err());
    assert!(decoded::<char>(&[]).is_err());
    assert!(decoded::<Option<u8>>(&[2, 1]).is_err());
}
