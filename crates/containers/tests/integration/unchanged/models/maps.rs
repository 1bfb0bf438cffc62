//! Maps, sets, multimaps, and buffers of inserts.

use std::collections::{BTreeMap, BTreeSet};

use pgas_containers::hash_map::{Combine, Finds};
use pgas_containers::{BatchError, HashMap, HashMapBuffer, HashSet, MultiMap, TakeError};
use pgas_core::collective::op::Sum;

use super::*;

const N_KEYS: u64 = 12;

type Entry = (u64, Picky);

#[derive(Clone, Debug)]
enum Op {
    Insert(Entry),
    InsertMany(Vec<Entry>),
    Update(Entry),
    GetOrInsert(Entry),
    GetOrInsertWith(Entry),
    Upsert(Entry),
    UpsertMany(Vec<Entry>),
    Remove(u64),
    RemoveMany(Vec<u64>),
    /// Collective.
    Resize(usize),
    Local(Vec<LocalOp>),
    Buffered(Vec<Entry>),
    InsertPhase(Vec<Entry>),
}

#[derive(Clone, Debug)]
enum LocalOp {
    Insert(Entry),
    Upsert(Entry),
    Remove(u64),
}

fn entry() -> impl Strategy<Value = Entry> {
    (0..N_KEYS, text())
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    prop::collection::vec(entry(), 0..8)
}

fn op() -> impl Strategy<Value = Op> {
    let local = prop_oneof![
        entry().prop_map(LocalOp::Insert),
        entry().prop_map(LocalOp::Upsert),
        (0..N_KEYS).prop_map(LocalOp::Remove),
    ];
    let capacity = prop::sample::select(vec![0, 1, 4, 9, 30, 1 << 30, usize::MAX]);
    prop_oneof![
        4 => entry().prop_map(Op::Insert),
        2 => entries().prop_map(Op::InsertMany),
        2 => entry().prop_map(Op::Update),
        1 => entry().prop_map(Op::GetOrInsert),
        1 => entry().prop_map(Op::GetOrInsertWith),
        2 => entry().prop_map(Op::Upsert),
        1 => entries().prop_map(Op::UpsertMany),
        2 => (0..N_KEYS).prop_map(Op::Remove),
        1 => prop::collection::vec(0..N_KEYS, 0..4).prop_map(Op::RemoveMany),
        1 => capacity.prop_map(Op::Resize),
        1 => prop::collection::vec(local, 0..8).prop_map(Op::Local),
        1 => entries().prop_map(Op::Buffered),
        1 => entries().prop_map(Op::InsertPhase),
    ]
}

fn longer(there: Picky) -> Picky {
    Picky(there.0 + "+")
}

enum Longer {}

impl Combine<Picky> for Longer {
    fn combine(there: Picky, _: &Picky) -> Picky {
        longer(there)
    }
}

/// The number of entries of a batch up to the one that had no room. Behind a network the map may
/// have some of those behind it.
fn n_tried(outcome: &Result<usize, BatchError>, n_entries: usize) -> usize {
    match outcome {
        Err(refused) if matches!(refused.error, Error::Full { .. }) => refused.done + 1,
        _ => n_entries,
    }
}

/// A map and its model.
#[derive(Default)]
struct Model(BTreeMap<u64, Picky>);

impl Model {
    fn check(&self, map: &HashMap<u64, Picky>) {
        for key in 0..N_KEYS {
            assert_got(map.find(&key), self.0.get(&key));
            assert_eq!(map.contains(&key).unwrap(), self.0.contains_key(&key));
        }
    }

    /// Asserts that the refusal of an operation on `key` has a reason.
    fn assert_reason(&self, error: &Error, key: u64, text: &Picky) {
        let there = self.0.get(&key);
        assert_reason(error, text, there, there.is_none());
    }

    /// Updates the model by the outcome of a batch, in which each entry replaces a value by `now`.
    fn changed(
        &mut self,
        entries: &[Entry],
        outcome: Result<usize, BatchError>,
        now: impl Fn(Option<Picky>, &Picky) -> Picky,
    ) {
        let done = match &outcome {
            Ok(_) => entries.len(),
            Err(error) => error.done,
        };
        for (key, text) in &entries[..done] {
            let now = now(self.0.remove(key), text);
            self.0.insert(*key, now);
        }
        if let Err(error) = outcome {
            let (key, text) = &entries[done];
            self.assert_reason(&error.error, *key, text);
        }
    }

    /// Updates the model by the entries behind one that had no room, each of which the map may have.
    fn inserted_behind(&mut self, map: &HashMap<u64, Picky>, behind: &[Entry]) {
        for (key, text) in behind {
            let is_there = match map.find(key) {
                Ok(found) => found.as_ref() == Some(text),
                Err(_) => !is_read(text),
            };
            if is_there {
                self.0.insert(*key, text.clone());
            }
        }
    }

    /// An operation of one rank alone.
    fn perform(&mut self, map: &HashMap<u64, Picky>, op: &Op) {
        match op {
            Op::Insert((key, text)) => match map.insert(key, text.clone()) {
                Ok(_) => drop(self.0.insert(*key, text.clone())),
                Err(error) => self.assert_reason(&error, *key, text),
            },
            Op::InsertMany(entries) => {
                let inserted = map.insert_many(entries);
                let n_tried = n_tried(&inserted, entries.len());
                self.changed(entries, inserted, |_, text| text.clone());
                self.inserted_behind(map, &entries[n_tried..]);
            }
            Op::Update((key, text)) => match map.update(key, |_| text.clone()) {
                Ok(former) => {
                    assert_eq!(former.as_ref(), self.0.get(key));
                    if former.is_some() {
                        self.0.insert(*key, text.clone());
                    }
                }
                Err(error) => self.assert_reason(&error, *key, text),
            },
            Op::GetOrInsert((key, text)) => {
                self.got_or_inserted(map.get_or_insert(key, text.clone()), *key, text);
            }
            Op::GetOrInsertWith((key, text)) => {
                let got = map.get_or_insert_with(key, || text.clone());
                self.got_or_inserted(got, *key, text);
            }
            Op::Upsert((key, text)) => match map.upsert(key, text.clone(), longer) {
                Ok(former) => {
                    assert_eq!(former.as_ref(), self.0.get(key));
                    let now = former.map_or_else(|| text.clone(), longer);
                    self.0.insert(*key, now);
                }
                Err(error) => self.assert_reason(&error, *key, text),
            },
            Op::UpsertMany(entries) => {
                let joined = map.upsert_many::<Longer>(entries);
                self.changed(entries, joined, |there, text| {
                    there.map_or_else(|| text.clone(), longer)
                });
            }
            Op::Remove(key) => {
                let is_there = self.0.remove(key).is_some();
                assert_eq!(map.remove(key).unwrap(), is_there);
            }
            Op::RemoveMany(keys) => {
                let there = keys.iter().filter(|key| self.0.remove(key).is_some());
                assert_eq!(map.remove_many(keys).unwrap(), there.count());
            }
            Op::Resize(_) | Op::Local(_) | Op::Buffered(_) | Op::InsertPhase(_) => {}
        }
    }

    fn got_or_inserted(&mut self, got: Result<Picky, Error>, key: u64, text: &Picky) {
        match got {
            Ok(got) => assert_eq!(&got, self.0.entry(key).or_insert_with(|| text.clone())),
            Err(error) => self.assert_reason(&error, key, text),
        }
    }

    fn perform_local(&mut self, map: &mut LocalMap, op: &LocalOp) {
        match op {
            LocalOp::Insert((key, text)) => match map.local_insert(key, text) {
                Ok(Some(_)) => drop(self.0.insert(*key, text.clone())),
                Ok(None) => {}
                Err(error) => self.assert_reason(&error, *key, text),
            },
            LocalOp::Upsert((key, text)) => match map.local_upsert(key, text, longer) {
                Ok(Some(_)) => {
                    let former = self.0.remove(key);
                    self.0
                        .insert(*key, former.map_or_else(|| text.clone(), longer));
                }
                Ok(None) => {}
                Err(error) => self.assert_reason(&error, *key, text),
            },
            LocalOp::Remove(key) => match map.local_remove(key) {
                Ok(None) => {}
                Ok(former) => assert_eq!(former, self.0.remove(key)),
                Err(error) => self.assert_reason(&error, *key, &Picky::of("")),
            },
        }
    }

    /// Updates the model as a buffer treats an entry that it has accepted.
    fn buffered(&mut self, key: u64, text: &Picky) {
        match self.0.get_mut(&key) {
            _ if !is_read(text) => {}
            None => drop(self.0.insert(key, text.clone())),
            Some(there) if is_read(there) => there.0 += &text.0,
            Some(_) => {}
        }
    }
}

type LocalMap = HashMap<u64, Picky, pgas_containers::hash_map::Local>;

#[test]
fn a_map_is_its_model_after_each_refusal() {
    with_many(op(), check_map);
}

fn check_map(world: &World, ops: &[Op]) {
    let mut map = HashMap::<u64, Picky>::with_capacity(world, 6).unwrap();
    let mut model = Model::default();
    let is_first = is_first(world);
    for op in ops {
        match op {
            Op::Resize(capacity) => {
                let resized = map.resize(*capacity);
                let holds = resized.is_err() || map.capacity() >= *capacity as u64;
                assert!(holds, "{} slots", map.capacity());
            }
            Op::Local(ops) => {
                let mut local = map.into_local_phase().unwrap();
                for op in ops.iter().filter(|_| is_first) {
                    model.perform_local(&mut local, op);
                }
                map = local.into_atomic_phase().unwrap();
            }
            Op::InsertPhase(entries) => {
                let inserts = map.into_insert_phase().unwrap();
                for (key, text) in entries.iter().filter(|_| is_first) {
                    match inserts.insert(key, text.clone()) {
                        Ok(_) => drop(model.0.insert(*key, text.clone())),
                        Err(error) => model.assert_reason(&error, *key, text),
                    }
                }
                map = inserts.into_atomic_phase().unwrap();
            }
            Op::Buffered(entries) => {
                let combine = |there: Picky, more: Picky| Picky(there.0 + &more.0);
                let mut buffer = HashMapBuffer::new(map, 4, combine).unwrap();
                for (key, text) in entries.iter().filter(|_| is_first) {
                    match buffer.insert(*key, text.clone()) {
                        Ok(()) => model.buffered(*key, text),
                        Err(error) => assert_reason(&error, text, None, false),
                    }
                }
                // It reports the entries that were given up, once.
                drop(buffer.flush());
                map = buffer.into_map().unwrap();
            }
            op if is_first => model.perform(&map, op),
            _ => {}
        }
        if is_first {
            model.check(&map);
        }
    }
    let n = world.broadcast(Rank::ZERO, model.0.len() as u64).unwrap();
    assert_eq!(map.len().unwrap(), n);
}

#[test]
fn a_set_is_its_model_after_each_refusal() {
    let op = (any::<bool>(), text());
    with_many(op, |world, ops| {
        let set = HashSet::<Picky>::with_capacity(world, 4).unwrap();
        let mut model = BTreeSet::new();
        for (is_insert, text) in ops.iter().filter(|_| is_first(world)) {
            let done = if *is_insert {
                set.insert(text)
            } else {
                set.remove(text)
            };
            match done {
                Ok(is_new) if *is_insert => assert_eq!(is_new, model.insert(text.clone())),
                Ok(was_there) => assert_eq!(was_there, model.remove(text)),
                Err(error) => assert_reason(&error, text, None, !model.contains(text)),
            }
            for (_, text) in ops.iter().filter(|(_, text)| is_written(text)) {
                assert_eq!(set.contains(text).unwrap(), model.contains(text));
            }
        }
        let n = world.broadcast(Rank::ZERO, model.len() as u64).unwrap();
        assert_eq!(set.len().unwrap(), n);
    });
}

#[derive(Clone, Debug)]
enum MultiOp {
    Insert(u64, Picky),
    Remove(u64),
    /// Looks in a phase of its own. Collective.
    Look,
}

/// The model of a multimap.
#[derive(Default)]
struct MultiModel(BTreeMap<u64, Vec<Picky>>);

impl MultiModel {
    fn inserted(&mut self, inserted: Result<u64, Error>, key: u64, text: &Picky) {
        let there = self.0.entry(key).or_default();
        match inserted {
            Ok(n_before) => {
                assert_eq!(n_before, there.len() as u64);
                there.push(text.clone());
            }
            Err(error) => assert_reason(&error, text, None, true),
        }
    }

    fn removed(&mut self, removed: Result<Vec<Picky>, TakeError<Picky>>, key: u64) {
        let there = self.0.remove(&key).unwrap_or_default();
        let (readable, lost): (Vec<_>, Vec<_>) = there.into_iter().partition(is_read);
        match removed {
            Ok(removed) => assert_eq!((removed, 0), (readable, lost.len())),
            Err(error) => assert_eq!((error.taken, error.lost.n), (readable, lost.len())),
        }
    }

    /// Checks `count` and `find` of each key.
    fn check(
        &self,
        count: impl Fn(&u64) -> Result<u64, Error>,
        find: impl Fn(&u64) -> Result<Vec<Picky>, Error>,
    ) {
        for key in 0..N_MULTI_KEYS {
            let there = self.0.get(&key).map_or(&[][..], Vec::as_slice);
            assert_eq!(count(&key).unwrap(), there.len() as u64);
            match find(&key) {
                Ok(found) => assert_eq!(found, there),
                Err(error) => assert!(!there.iter().all(is_read), "{error}"),
            }
        }
    }
}

const N_MULTI_KEYS: u64 = 4;

#[test]
fn a_multimap_is_its_model_after_each_refusal() {
    let op = prop_oneof![
        10 => (0..N_MULTI_KEYS, text()).prop_map(|(key, text)| MultiOp::Insert(key, text)),
        2 => (0..N_MULTI_KEYS).prop_map(MultiOp::Remove),
        1 => Just(MultiOp::Look),
    ];
    with_many(op, |world, ops| {
        let is_first = is_first(world);
        let mut map = MultiMap::<u64, Picky>::with_capacity(world, 10).unwrap();
        let mut model = MultiModel::default();
        for op in ops {
            match op {
                MultiOp::Insert(key, text) if is_first => {
                    model.inserted(map.insert(key, text.clone()), *key, text);
                }
                MultiOp::Remove(key) if is_first => model.removed(map.remove(key), *key),
                MultiOp::Insert(..) | MultiOp::Remove(_) => {}
                MultiOp::Look => {
                    let looks = map.into_find_phase().unwrap();
                    if is_first {
                        model.check(|key| looks.count(key), |key| looks.find(key));
                    }
                    map = looks.into_atomic_phase().unwrap();
                }
            }
            if is_first {
                model.check(|key| map.count(key), |key| map.find(key));
            }
        }
        let n: usize = model.0.values().map(Vec::len).sum();
        let n = world.broadcast(Rank::ZERO, n as u64).unwrap();
        assert_eq!(map.len().unwrap(), n);
        // Each rank's own part has all values that can be read, too.
        let readable = model.0.iter().flat_map(|(key, there)| {
            let readable = there.iter().filter(|text| is_read(text));
            readable.map(move |text| (*key, text.clone()))
        });
        let mut expected: Vec<(u64, Picky)> = readable.collect();
        let mut here: Vec<_> = map.local_iter().filter_map(Result::ok).collect();
        expected.sort();
        here.sort();
        let n_here = world.allreduce(here.len() as u64, Sum).unwrap();
        let n_expected = world.broadcast(Rank::ZERO, expected.len() as u64).unwrap();
        assert_eq!(n_here, n_expected);
        if is_first {
            assert!(here.iter().all(|entry| expected.contains(entry)));
        }
    });
}

#[derive(Clone, Debug)]
enum CountOp {
    FetchAdd(Picky, u64),
    AddMany(Vec<Picky>, u64),
    AddEach(Vec<(Picky, u64)>),
    /// Looks in a phase of its own. Collective.
    Look(Vec<Picky>),
}

/// The count of each text.
#[derive(Default)]
struct Counts(BTreeMap<Picky, u64>);

impl Counts {
    fn add(&mut self, text: &Picky, n: u64) {
        let count = self.0.entry(text.clone()).or_default();
        *count = count.wrapping_add(n);
    }

    /// Updates the model by the outcome of a batch of additions.
    fn added(
        &mut self,
        map: &HashMap<Picky, u64>,
        entries: &[(Picky, u64)],
        added: Result<usize, BatchError>,
    ) {
        let (n_before, n_tried) = (self.0.len(), n_tried(&added, entries.len()));
        let done = added
            .as_ref()
            .map_or_else(|error| error.done, |_| entries.len());
        for (text, n) in &entries[..done] {
            self.add(text, *n);
        }
        match added {
            Ok(n_new) => assert_eq!(n_new, self.0.len() - n_before),
            Err(error) => self.assert_reason(&error.error, &entries[done].0),
        }
        self.added_behind(map, &entries[n_tried..]);
    }

    /// Updates the model by the entries behind one that had no room, each of which the map may have.
    fn added_behind(&mut self, map: &HashMap<Picky, u64>, behind: &[(Picky, u64)]) {
        let texts: BTreeSet<_> = behind.iter().map(|(text, _)| text).collect();
        for text in texts {
            let Ok(Some(found)) = map.find(text) else {
                continue;
            };
            let mut sums = BTreeSet::from([self.0.get(text).copied().unwrap_or(0)]);
            for (_, n) in behind.iter().filter(|(other, _)| other == text) {
                let more: Vec<_> = sums.iter().map(|sum| sum.wrapping_add(*n)).collect();
                sums.extend(more);
            }
            assert!(sums.contains(&found), "{found} is none of {sums:?}");
            self.0.insert(text.clone(), found);
        }
    }

    fn assert_reason(&self, error: &Error, text: &Picky) {
        assert_reason(error, text, None, !self.0.contains_key(text));
    }

    fn perform(&mut self, map: &HashMap<Picky, u64>, op: &CountOp) {
        match op {
            CountOp::FetchAdd(text, n) => match map.fetch_add(text, *n) {
                Ok(before) => {
                    assert_eq!(before, self.0.get(text).copied().unwrap_or(0));
                    self.add(text, *n);
                }
                Err(error) => self.assert_reason(&error, text),
            },
            CountOp::AddMany(texts, n) => {
                let entries: Vec<_> = texts.iter().map(|text| (text.clone(), *n)).collect();
                self.added(map, &entries, map.add_many(texts, *n));
            }
            CountOp::AddEach(entries) => self.added(map, entries, map.add_each(entries)),
            CountOp::Look(_) => {}
        }
    }

    /// Checks the methods of a phase in which nothing changes.
    fn check<P: Finds>(&self, map: &HashMap<Picky, u64, P>, texts: &[Picky]) {
        for text in texts.iter().chain(self.0.keys()) {
            match (map.find(text), map.contains(text)) {
                (Ok(found), Ok(is_there)) => {
                    assert_eq!(found, self.0.get(text).copied());
                    assert_eq!(is_there, found.is_some());
                }
                (Err(Error::Codec(_)), Err(Error::Codec(_))) if !is_written(text) => {}
                (found, is_there) => panic!("{found:?}, {is_there:?} for {:.20}", text.0),
            }
        }
        let all: Vec<_> = texts.iter().map(|text| self.0.get(text).copied()).collect();
        let mut into = vec![Some(9); texts.len()];
        let done = map.find_many_into(texts, &mut into);
        match map.find_many(texts) {
            Ok(found) => {
                assert_eq!(found, all);
                assert!(done.is_ok());
                assert_eq!(into, all);
            }
            Err(error) => {
                assert!(!texts.iter().all(is_written), "{error}");
                assert!(done.is_err());
            }
        }
    }
}

#[test]
fn a_map_of_counts_is_its_model_after_each_refusal() {
    let texts = || prop::collection::vec(text(), 0..12);
    let number = prop_oneof![4 => 0..5_u64, 1 => Just(u64::MAX)];
    let key = text;
    let keys = prop::collection::vec(key(), 0..12);
    let entries = prop::collection::vec((key(), number.clone()), 0..12);
    let op = prop_oneof![
        2 => (text(), number.clone()).prop_map(|(text, n)| CountOp::FetchAdd(text, n)),
        3 => (keys, number).prop_map(|(keys, n)| CountOp::AddMany(keys, n)),
        3 => entries.prop_map(CountOp::AddEach),
        2 => texts().prop_map(CountOp::Look),
    ];
    with_many(op, |world, ops| {
        let is_first = is_first(world);
        let mut map = HashMap::<Picky, u64>::with_capacity(world, 5).unwrap();
        let mut model = Counts::default();
        for op in ops {
            if let CountOp::Look(texts) = op {
                let looks = map.into_find_phase().unwrap();
                if is_first {
                    model.check(&looks, texts);
                }
                map = looks.into_atomic_phase().unwrap();
            } else if is_first {
                model.perform(&map, op);
            }
            if is_first {
                model.check(&map, &[]);
            }
        }
        let n = world.broadcast(Rank::ZERO, model.0.len() as u64).unwrap();
        assert_eq!(map.len().unwrap(), n);
    });
}
