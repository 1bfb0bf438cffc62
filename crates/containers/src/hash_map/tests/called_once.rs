//! Operations in flight call code of the program as often as those that wait do, and none of it
//! while a slot is locked: whichever call panics, no slot stays locked, and the keys are counted.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::LocalKey;
use std::time::Duration;

use pgas_am::codec::{Codec, Decoder, Each, Encoder, Wire};
use pgas_lockfree::slots::SlotMemory as _;
use pgas_lockfree::slots::state::SlotState;

use super::*;
use crate::Result;
use crate::object::{Encoded, KeyHasher};

thread_local! {
    /// The calls before the one that panics.
    static N_BEFORE: Cell<u32> = const { Cell::new(u32::MAX) };
    static N_DECODED: Cell<u32> = const { Cell::new(0) };
    /// Values that were dropped and not used.
    static N_UNUSED: Cell<u32> = const { Cell::new(0) };
}

/// Code of the program is called.
fn called() {
    let n = N_BEFORE.get();
    N_BEFORE.set(n.wrapping_sub(1));
    assert!(n != 0, "the call that panics");
}

fn count(n: &'static LocalKey<Cell<u32>>) {
    n.set(n.get() + 1);
    called();
}

struct Hasher;

impl KeyHasher for Hasher {
    fn hash(&self, bytes: &[u8]) -> u64 {
        called();
        RapidHasher.hash(bytes)
    }
}

/// A text. One that comes out of a map has to be used.
struct Text {
    text: String,
    is_used: bool,
}

impl Text {
    fn new(text: &str) -> Self {
        let (text, is_used) = (text.to_owned(), true);
        Self { text, is_used }
    }

    fn used(mut self) -> String {
        self.is_used = true;
        std::mem::take(&mut self.text)
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        if !self.is_used {
            count(&N_UNUSED);
        }
    }
}

enum ByText {}

impl Wire for Text {
    type By = ByText;
}

impl Object for Text {
    type Repr = Encoded<8>;
}

impl Codec<Text> for ByText {
    type Array<const N: usize> = Each<Self>;

    fn encode(value: &Text, out: &mut Encoder) -> Result<()> {
        called();
        out.put(&value.text)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Text> {
        count(&N_DECODED);
        let (text, is_used) = (input.get()?, false);
        Ok(Text { text, is_used })
    }
}

type Map = HashMap<u64, Text, Atomic, Hasher>;

/// An operation on key 1, after so many rounds of progress another one.
type Op = fn(&Map, u32) -> Result<Option<String>>;

fn append(there: Text) -> Text {
    Text::new(&(there.used() + "b"))
}

fn used(found: Option<Text>) -> Option<String> {
    found.map(Text::used)
}

/// Lets another rank be faster, maybe, than what is in flight.
fn insert_after(map: &Map, n_rounds: u32) -> Result<()> {
    for _ in 0..n_rounds {
        map.world().progress()?;
    }
    map.insert(&1, Text::new("other")).map(drop)
}

/// Each operation that does not wait, and the same one that does. The first one takes the value.
const PAIRS: [[Op; 2]; 5] = [
    [
        |map, _| map.take_nb(&1)?.wait().map(used),
        |map, _| map.take(&1).map(used),
    ],
    [
        |map, _| map.update_nb(&1, append)?.wait().map(used),
        |map, _| map.update(&1, append).map(used),
    ],
    [
        |map, _| map.find_nb(&1)?.wait().map(used),
        |map, _| map.find(&1).map(used),
    ],
    [
        |map, _| {
            map.insert_if_absent_nb(&1, Text::new("c"))?
                .wait()
                .map(used)
        },
        |map, _| map.insert_if_absent(&1, Text::new("c")).map(used),
    ],
    [
        |map, _| map.remove_nb(&1)?.wait().map(|_| None),
        |map, _| map.remove(&1).map(|_| None),
    ],
];

/// Two operations in flight, or the operation beside another one.
const BESIDE: [Op; 3] = [
    |map, n| {
        let take = map.take_nb(&1)?;
        insert_after(map, n)?;
        take.wait().map(used)
    },
    |map, n| {
        let update = map.update_nb(&1, append)?;
        insert_after(map, n)?;
        update.wait().map(used)
    },
    |map, _| {
        let (take, other) = (map.take_nb(&1)?, map.take_nb(&1)?);
        let (taken, other) = (take.wait()?, other.wait()?);
        Ok(used(taken).or(used(other)))
    },
];

/// A map in which key 1 has a short value, or one that is longer than its slot.
fn filled(world: &World, is_long: bool) -> Map {
    let map = Map::with_hasher(world, 100, Hasher).unwrap();
    let text = if is_long { "a long text" } else { "a" };
    map.insert(&1, Text::new(text)).unwrap();
    map
}

#[test]
fn an_operation_in_flight_reads_and_drops_values_as_often_as_one_that_waits() {
    loopback::run(1, |world| {
        pgas_am::attach(&world).unwrap();
        for is_long in [false, true] {
            for pair in PAIRS {
                let [in_flight, waiting] = pair.map(|op| {
                    let map = filled(&world, is_long);
                    N_DECODED.set(0);
                    N_UNUSED.set(0);
                    let found = op(&map, 0).unwrap();
                    (found, N_DECODED.get(), N_UNUSED.get())
                });
                assert_eq!(in_flight, waiting);
                assert_eq!(in_flight.2, 0, "values were dropped");
            }
        }
    });
}

/// Runs `op`, in which the call behind `n` others panics. Returns what it has found, and whether it
/// came to that call.
fn panics_behind(n: u32, op: impl FnOnce() -> Result<Option<String>>) -> (Option<String>, bool) {
    N_BEFORE.set(n);
    let ended = catch_unwind(AssertUnwindSafe(op));
    let has_panicked = N_BEFORE.replace(u32::MAX) > n;
    (ended.ok().and_then(Result::ok).flatten(), has_panicked)
}

/// Whether key 1 is there. Nobody may wait for ever for its slot.
fn is_there(map: &Map) -> bool {
    // What is in flight still ends. It may tell of the panic.
    let _told = pgas_am::quiet(map.world());
    let view = map.table.view_remote();
    let slot = view.home(view.hash(&1)).slot;
    let state = slot.load_state().unwrap().state();
    assert!(
        matches!(state, SlotState::Ready | SlotState::Removed),
        "the slot stays {state:?}"
    );
    let is_there = map.contains(&1).unwrap();
    assert_eq!(map.len().unwrap(), u64::from(is_there));
    assert_eq!(map.local_iter().count(), usize::from(is_there));
    is_there
}

#[test]
fn no_panic_within_an_operation_in_flight_leaves_a_slot_locked_or_loses_a_key() {
    loopback::run(1, |world| {
        pgas_am::attach(&world).unwrap();
        for (i, [op, _]) in PAIRS.into_iter().enumerate() {
            for n in 0.. {
                let map = filled(&world, n % 2 == 0);
                let (found, has_panicked) = panics_behind(n / 2, || op(&map, 0));
                let is_there = is_there(&map);
                assert!(i > 0 || is_there != found.is_some(), "after {n} calls");
                if !has_panicked {
                    assert!(n > 1, "nothing of the program was called");
                    break;
                }
            }
        }
    });
}

#[test]
fn no_panic_beside_others_leaves_a_slot_locked_or_a_key_uncounted() {
    let mut config = Config::default();
    config.timeout = Some(Duration::from_secs(60)); // of a wait for a slot that stays locked
    loopback::run_with(1, &config, |world| {
        pgas_am::attach(&world).unwrap();
        let mut n_retries = 0;
        for (op, n_rounds) in BESIDE
            .into_iter()
            .flat_map(|op| (0..6).map(move |n| (op, n)))
        {
            for n in 0.. {
                let map = filled(&world, n % 2 == 0);
                N_UNUSED.set(0);
                let (_, has_panicked) = panics_behind(n / 2, || op(&map, n_rounds));
                is_there(&map);
                if !has_panicked {
                    n_retries += N_UNUSED.get();
                    break;
                }
            }
        }
        assert!(n_retries > 0, "none was faster than what is in flight");
    });
}
