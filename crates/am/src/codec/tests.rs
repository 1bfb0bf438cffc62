//! Values there and back, and bytes that nobody has written.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque};
use std::time::Duration;

use pgas_core::{GlobalPtr, Rank};

use super::*;
use pgas_core::Result;

#[expect(clippy::needless_pass_by_value, reason = "reads better")]
fn round_trip<T: Wire + PartialEq + std::fmt::Debug>(value: T) -> usize {
    let mut out = Encoder::new();
    out.put(&value).unwrap();
    let n_bytes = out.bytes().len();
    let mut input = Decoder::new(out.bytes());
    assert_eq!(input.get::<T>().unwrap(), value);
    assert_eq!(input.remaining(), []);
    // Cut short anywhere, it is an error and no panic.
    for len in 0..n_bytes {
        assert!(
            Decoder::new(&out.bytes()[..len]).get::<T>().is_err(),
            "{len}"
        );
    }
    n_bytes
}

#[test]
fn values_come_back_as_they_were() {
    assert_eq!(round_trip(()), 0);
    assert_eq!(round_trip(7_u64), 8);
    assert_eq!(round_trip((1_u8, -2_i32, 0.5_f64)), 13);
    assert_eq!(round_trip([1_u16, 2, 3]), 6);
    round_trip(String::from("a string with ümlaut"));
    round_trip(vec![String::from("a"), String::new()]);
    round_trip((0..1000_u32).collect::<Vec<_>>());
    round_trip(Some(vec![Some(3_u8), None]));
    round_trip(Ok::<u8, String>(1));
    round_trip(Err::<u8, String>("no".into()));
    round_trip((Box::new('x'), true, GlobalPtr::<u64>::new(Rank::new(3), 64)));
    round_trip((
        1_u8,
        2_u8,
        3_u8,
        4_u8,
        5_u8,
        6_u8,
        7_u8,
        8_u8,
        9_u8,
        "a".to_owned(),
        'b',
        (),
    ));
    round_trip((
        Duration::MAX,
        Cow::Borrowed("text"),
        Box::<str>::from("text"),
    ));
}

/// A text has the same key alone and as a member of a value that serde writes.
#[test]
fn a_text_has_the_bytes_that_serde_makes_of_it() {
    for text in ["", "ümlaut", &"long ".repeat(200)] {
        let (mut out, mut by_serde) = (Encoder::new(), Vec::new());
        out.put(&text.to_owned()).unwrap();
        format::encode(text, &mut by_serde).unwrap();
        assert_eq!(out.bytes(), by_serde);
    }
    assert!(Decoder::new(&[2, 0xff, 0xff]).get::<String>().is_err());
}

#[test]
fn collections_of_std_come_back_as_they_were() {
    let texts = ["one", "two", "", "four"].map(str::to_owned);
    round_trip(texts.clone());
    round_trip([[texts.clone(), texts.clone()]]);
    round_trip(Box::<[String]>::from(texts.clone()));
    round_trip(Cow::Owned::<[String]>(texts.to_vec()));
    round_trip(VecDeque::from(texts.clone()));
    round_trip(LinkedList::from(texts.clone()));
    round_trip(BTreeSet::from(texts.clone()));
    round_trip(HashSet::<_, std::hash::RandomState>::from(texts.clone()));
    round_trip(BTreeMap::from(
        texts.clone().map(|text| (text.len(), Some(text))),
    ));
    round_trip(HashMap::<_, _, std::hash::RandomState>::from(
        texts.map(|text| (text, [7_u32; 3])),
    ));
    assert_eq!(round_trip([[1_u16, 2], [3, 4]]), 8);
    assert_eq!(round_trip(vec![[1_u16, 2], [3, 4]]), 1 + 8);
    assert_eq!(round_trip(vec![0_u8; 300]), 3 + 300);
}

#[test]
fn small_types_of_std_come_back_as_they_were() {
    use std::cmp::Reverse;
    use std::marker::PhantomData;
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
    use std::num::{NonZeroU32, Saturating, Wrapping};
    use std::path::PathBuf;

    assert_eq!(round_trip(PhantomData::<str>), 0);
    assert_eq!(round_trip(vec![PhantomData::<str>; 9]), 1);
    assert_eq!(round_trip([1_u16..2, 3..4]), 8);
    round_trip(Reverse("text".to_owned())..Reverse("other".to_owned()));
    assert_eq!(round_trip((Wrapping(1_u8), Saturating(2_u8))), 2);
    round_trip(NonZeroU32::MAX);
    round_trip((PathBuf::from("/a//path"), Ipv4Addr::LOCALHOST));
    let six = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 80, 1, 2);
    round_trip((six, SocketAddr::from(six)));
    round_trip(SocketAddr::from((Ipv4Addr::LOCALHOST, 80)));
    // Zero is no value of this type.
    assert!(Decoder::new(&[0; 4]).get::<NonZeroU32>().is_err());
    assert_eq!(Layout::of::<std::ops::Range<u8>>(), "range of u8");
    assert_eq!(Layout::of::<PhantomData<u8>>(), "nothing");
}

#[test]
fn a_layout_tells_names_and_members_and_ends() {
    assert_eq!(Layout::of::<u64>(), "u64");
    assert_eq!(Layout::of::<Rank>(), "4 plain bytes");
    assert_eq!(Layout::of::<Vec<(u8, String)>>(), "list of (u8, text)");
    assert_eq!(
        Layout::of::<HashMap<char, [Option<()>; 2]>>(),
        "map of (char, 2 of option of ())"
    );
    assert_eq!(
        Layout::of::<Vec<Vec<Vec<Vec<Vec<u8>>>>>>(),
        "list of list of list of list of list of u8"
    );
    assert_eq!(Layout::of::<Deep>(), "bytes of a codec of its own");
}

#[test]
fn what_fits_inline_and_what_does_not_is_put_together_alike() {
    for n in 0..300 {
        let mut out = Encoder::new();
        let all: Vec<u8> = (0..n).map(|i| u8::try_from(i % 251).unwrap()).collect();
        for piece in all.chunks(7) {
            out.write(piece);
        }
        assert_eq!(out.bytes(), all);
        out.align();
        assert_eq!(out.bytes().len(), all.len().next_multiple_of(8));
    }
}

#[test]
fn nonsense_is_an_error_that_names_the_type() {
    let huge = [0xff; 16];
    let error = Decoder::new(&huge).get::<Vec<u64>>().unwrap_err();
    assert!(error.to_string().contains("u64"), "{error}");
    assert!(Decoder::new(&huge).get::<Vec<(u8, u8)>>().is_err());
    assert!(Decoder::new(&huge).get::<Option<u8>>().is_err());
    assert!(Decoder::new(&[2]).get::<bool>().is_err());
    assert!(Decoder::new(&huge).get::<String>().is_err());
}

/// A type of any depth, with codecs of this crate alone.
#[derive(Debug)]
struct Deep(Option<Box<Self>>, Vec<Self>);

#[derive(Debug)]
enum ByParts {}

impl Wire for Deep {
    type By = ByParts;
}

impl Codec<Deep> for ByParts {
    type Array<const N: usize> = Each<Self>;

    fn encode(value: &Deep, out: &mut Encoder) -> Result<()> {
        out.put(&value.0)?;
        out.put(&value.1)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Deep> {
        Ok(Deep(input.get()?, input.get()?))
    }
}

fn deep(n: u32) -> Deep {
    (1..n).fold(Deep(None, Vec::new()), |inner, i| match i % 2 {
        0 => Deep(None, vec![inner]),
        _ => Deep(Some(Box::new(inner)), Vec::new()),
    })
}

#[test]
fn what_lies_too_deep_is_neither_written_nor_read() {
    let (mut n_written, mut n_refused) = (0, 0);
    for n in 1..200 {
        let mut out = Encoder::new();
        if let Err(error) = out.put(&deep(n)) {
            assert!(error.to_string().contains("within each other"), "{error}");
            n_refused += 1;
        } else {
            Decoder::new(out.bytes()).get::<Deep>().unwrap();
            n_written += 1;
        }
    }
    assert_eq!((n_written, n_refused), (128, 71));
    let some = vec![1; 1_000_000];
    assert!(Decoder::new(&some).get::<Deep>().is_err());
    let lists = [0, 1].repeat(1_000_000);
    assert!(Decoder::new(&lists).get::<Deep>().is_err());
}

/// A value without bytes. A list of such values still takes a step for each.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Nothing;

impl Wire for Nothing {
    type By = ByParts;
}

impl Codec<Nothing> for ByParts {
    type Array<const N: usize> = Each<Self>;

    fn encode(_: &Nothing, _: &mut Encoder) -> Result<()> {
        Ok(())
    }

    fn decode(_: &mut Decoder<'_>) -> Result<Nothing> {
        Ok(Nothing)
    }
}

#[test]
fn elements_without_bytes_have_a_limit_in_all() {
    let n_half = format::EMPTY / 2;
    let lists = |n| vec![vec![Nothing; n_half]; n];
    round_trip_once(&lists(2));
    assert!(Encoder::new().put(&lists(3)).is_err());
    round_trip_once(&vec![(); format::EMPTY]);
    assert!(Encoder::new().put(&vec![(); format::EMPTY + 1]).is_err());

    let count = |n: u64| [&[253], &n.to_le_bytes()[..]].concat();
    let mut hostile = count(100_000);
    hostile.extend(count(n_half as u64).repeat(100_000));
    for n in [1_u64 << 60, u64::MAX] {
        let n = count(n);
        assert!(Decoder::new(&n).get::<HashSet<()>>().is_err());
        assert!(Decoder::new(&n).get::<Vec<Nothing>>().is_err());
        assert!(Decoder::new(&n).get::<Vec<()>>().is_err());
    }
    assert!(Decoder::new(&hostile).get::<Vec<Vec<Nothing>>>().is_err());
    assert!(Decoder::new(&hostile).get::<Vec<Vec<()>>>().is_err());
}

/// A sequence of units, as serde sees it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Units(Vec<()>);

impl Wire for Units {
    type By = AsSerde;
}

#[test]
fn values_of_serde_within_others_share_their_limits() {
    let half = Units(vec![(); format::EMPTY / 2]);
    round_trip_once(&vec![half.clone(); 2]);
    assert!(Encoder::new().put(&vec![half; 3]).is_err());
    let mut hostile = [&[252], &1_000_000_u32.to_le_bytes()[..]].concat();
    hostile.extend([251, 255, 255].repeat(1_000_000));
    assert!(Decoder::new(&hostile).get::<Vec<Units>>().is_err());
}

fn round_trip_once<T: Wire + PartialEq + std::fmt::Debug>(value: &T) {
    let mut out = Encoder::new();
    out.put(value).unwrap();
    let mut input = Decoder::new(out.bytes());
    assert_eq!(&input.get::<T>().unwrap(), value);
    assert_eq!(input.remaining(), []);
}
