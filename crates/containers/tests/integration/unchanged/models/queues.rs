//! Queues and distributors.

use std::collections::VecDeque;

use pgas_containers::queue::PushError;
use pgas_containers::{CircularQueue, Distributor, FastQueue, TakeError};

use pgas_core::collective::op::Max;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Push(Picky),
    PushSlice(Vec<Picky>),
    Pop,
    PopMany(usize),
    LocalPush(Picky),
    LocalPop,
    /// Collective.
    Resize(usize),
    Migrate(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let capacity = prop::sample::select(vec![0, 1, 3, 8, 1 << 30, usize::MAX]);
    prop_oneof![
        4 => text().prop_map(Op::Push),
        2 => prop::collection::vec(text(), 0..7).prop_map(Op::PushSlice),
        2 => Just(Op::Pop),
        2 => (0..9_usize).prop_map(Op::PopMany),
        2 => text().prop_map(Op::LocalPush),
        1 => Just(Op::LocalPop),
        1 => capacity.prop_map(Op::Resize),
        1 => (0..4_u32).prop_map(Op::Migrate),
    ]
}

/// The model of a queue.
#[derive(Default)]
struct Model(VecDeque<Picky>);

impl Model {
    fn pushed(&mut self, text: &Picky, pushed: Result<(), PushError<Picky>>, capacity: usize) {
        match pushed {
            Ok(()) => self.0.push_back(text.clone()),
            Err(PushError::Full(back)) => {
                assert_eq!(self.0.len(), capacity, "it is full");
                assert_eq!(&back, text, "the value comes back");
            }
            Err(PushError::Failed(error)) => assert_reason(&error, text, None, false),
        }
    }

    fn pushed_all(&mut self, texts: &[Picky], pushed: &Result<(), PushError<()>>, capacity: usize) {
        match pushed {
            Ok(()) => self.0.extend(texts.iter().cloned()),
            Err(PushError::Full(())) => assert!(self.0.len() + texts.len() > capacity),
            Err(PushError::Failed(_)) => {
                let is_bad = |text: &Picky| !is_written(text) || text.0.len() >= HUGE;
                assert!(texts.iter().any(is_bad));
            }
        }
    }

    fn popped(&mut self, popped: Result<Option<Picky>, Error>) {
        assert_got(popped, self.0.pop_front().as_ref());
    }

    fn popped_many(&mut self, most: usize, popped: Result<Vec<Picky>, TakeError<Picky>>) {
        let n = most.min(self.0.len());
        let (readable, lost) = self.0.drain(..n).partition(is_read);
        let (readable, lost): (Vec<_>, Vec<_>) = (readable, lost);
        match popped {
            Ok(popped) => assert_eq!((popped, 0), (readable, lost.len())),
            Err(error) => assert_eq!((error.taken, error.lost.n), (readable, lost.len())),
        }
    }
}

macro_rules! is_its_model {
    ($world:ident, $ops:ident, $queue:ident, $work:ident, $push:ident, $pop:ident) => {{
        let is_first = is_first($world);
        let mut queue = $queue::<Picky>::with_capacity($world, Rank::ZERO, 5).unwrap();
        let mut model = Model::default();
        for op in $ops {
            match op {
                Op::Push(text) => {
                    let pushes = queue.$push().unwrap();
                    if is_first {
                        model.pushed(text, pushes.push(text.clone()), pushes.capacity());
                    }
                    queue = pushes.$work().unwrap();
                }
                Op::PushSlice(texts) => {
                    let pushes = queue.$push().unwrap();
                    if is_first {
                        model.pushed_all(texts, &pushes.push_slice(texts), pushes.capacity());
                    }
                    queue = pushes.$work().unwrap();
                }
                Op::Pop => {
                    let pops = queue.$pop().unwrap();
                    if is_first {
                        model.popped(pops.pop());
                    }
                    queue = pops.$work().unwrap();
                }
                Op::PopMany(most) => {
                    let pops = queue.$pop().unwrap();
                    if is_first {
                        model.popped_many(*most, pops.pop_many(*most));
                    }
                    queue = pops.$work().unwrap();
                }
                Op::LocalPush(text) => {
                    let mut local = queue.into_local_phase().unwrap();
                    let capacity = local.capacity();
                    // The host, which may be the other rank, tells the outcome.
                    let is_host = local.host() == $world.rank();
                    let pushed = is_host.then(|| local.local_push(text.clone()).is_ok());
                    let pushed = $world
                        .allreduce(u64::from(pushed == Some(true)), Max)
                        .unwrap();
                    if pushed == 1 {
                        model.0.push_back(text.clone());
                    } else {
                        let is_bad = !is_written(text) || text.0.len() >= HUGE;
                        assert!(is_bad || !is_first || model.0.len() == capacity);
                    }
                    if !is_first {
                        model.0.clear();
                    }
                    queue = local.$work().unwrap();
                }
                Op::LocalPop => {
                    let mut local = queue.into_local_phase().unwrap();
                    if local.host() == $world.rank() {
                        // Also of a text that cannot be read.
                        drop(local.local_pop());
                    }
                    model.0.pop_front();
                    queue = local.$work().unwrap();
                }
                Op::Resize(capacity) => {
                    let resized = queue.resize(*capacity);
                    let n = $world.broadcast(Rank::ZERO, model.0.len()).unwrap();
                    if resized.is_ok() {
                        assert_eq!(queue.capacity(), *capacity);
                        assert!(n <= *capacity);
                    }
                }
                Op::Migrate(host) => {
                    let migrated = queue.migrate(Rank::new(*host));
                    assert_eq!(migrated.is_ok(), *host < $world.n_ranks());
                }
            }
            let n = $world.broadcast(Rank::ZERO, model.0.len()).unwrap();
            assert_eq!(queue.len().unwrap(), n);
        }
        let pops = queue.$pop().unwrap();
        if is_first {
            model.popped_many(usize::MAX, pops.pop_many(100));
        }
    }};
}

#[test]
fn a_circular_queue_is_its_model_after_each_refusal() {
    with_many(op(), |world, ops| {
        is_its_model!(
            world,
            ops,
            CircularQueue,
            into_push_pop_phase,
            into_push_pop_phase,
            into_push_pop_phase
        );
    });
}

#[test]
fn a_fast_queue_is_its_model_after_each_refusal() {
    with_many(op(), |world, ops| {
        is_its_model!(
            world,
            ops,
            FastQueue,
            into_push_phase,
            into_push_phase,
            into_pop_phase
        );
    });
}

#[derive(Clone, Debug)]
enum SliceOp {
    Push(Vec<u64>),
    Pop(usize),
    PopOne,
    /// Collective.
    Resize(usize),
}

/// Elements that are popped into the caller's memory.
macro_rules! pops_into_slices {
    ($world:ident, $ops:ident, $queue:ident, $push:ident, $pop:ident) => {{
        let is_first = is_first($world);
        let mut queue = $queue::<u64>::with_capacity($world, Rank::ZERO, 5).unwrap();
        let mut model = VecDeque::new();
        for op in $ops {
            match op {
                SliceOp::Push(values) => {
                    let pushes = queue.$push().unwrap();
                    if is_first {
                        match pushes.push_slice(values) {
                            Ok(()) => model.extend(values.iter().copied()),
                            Err(PushError::Full(())) => {
                                assert!(model.len() + values.len() > pushes.capacity());
                            }
                            Err(PushError::Failed(error)) => panic!("{error}"),
                        }
                    }
                    queue = pushes.$push().unwrap();
                }
                SliceOp::Pop(n) => {
                    let pops = queue.$pop().unwrap();
                    if is_first {
                        let mut out = vec![77; *n];
                        let n_popped = pops.pop_slice(&mut out).unwrap();
                        let expected: Vec<u64> = model.drain(..model.len().min(*n)).collect();
                        assert_eq!(out[..n_popped], expected);
                        assert!(out[n_popped..].iter().all(|x| *x == 77), "left alone");
                    }
                    queue = pops.$push().unwrap();
                }
                SliceOp::PopOne => {
                    let pops = queue.$pop().unwrap();
                    if is_first {
                        assert_eq!(pops.pop().unwrap(), model.pop_front());
                    }
                    queue = pops.$push().unwrap();
                }
                SliceOp::Resize(capacity) => {
                    let resized = queue.resize(*capacity);
                    let n = $world.broadcast(Rank::ZERO, model.len()).unwrap();
                    if resized.is_ok() {
                        assert!(n <= *capacity);
                    }
                }
            }
            let n = $world.broadcast(Rank::ZERO, model.len()).unwrap();
            assert_eq!(queue.len().unwrap(), n);
        }
    }};
}

fn slice_op() -> impl Strategy<Value = SliceOp> {
    let capacity = prop::sample::select(vec![0, 1, 3, 8, 1 << 30]);
    prop_oneof![
        4 => prop::collection::vec(any::<u64>(), 0..7).prop_map(SliceOp::Push),
        4 => (0..9_usize).prop_map(SliceOp::Pop),
        1 => Just(SliceOp::PopOne),
        1 => capacity.prop_map(SliceOp::Resize),
    ]
}

#[test]
fn a_circular_queue_pops_into_slices_what_its_model_has() {
    with_many(slice_op(), |world, ops| {
        pops_into_slices!(
            world,
            ops,
            CircularQueue,
            into_push_pop_phase,
            into_push_pop_phase
        );
    });
}

#[test]
fn a_fast_queue_pops_into_slices_what_its_model_has() {
    with_many(slice_op(), |world, ops| {
        pops_into_slices!(world, ops, FastQueue, into_push_phase, into_pop_phase);
    });
}

#[test]
fn what_a_distributor_refuses_costs_no_other_element() {
    let op = (0..2_u32, text());
    with_many(op, |world, ops| {
        let mut distributor = Distributor::<Picky>::with_capacity(world, 4).unwrap();
        let mut sent = [Vec::new(), Vec::new()];
        for (to, text) in ops {
            // All ranks compute the elements of the first one, which alone sends.
            let is_bad = !is_written(text) || text.0.len() >= HUGE;
            if is_first(world) {
                let outcome = distributor.send(Rank::new(*to), text.clone());
                assert_eq!(outcome.is_err(), is_bad);
            }
            if !is_bad {
                sent[*to as usize].push(text.clone());
            }
        }
        let mine = std::mem::take(&mut sent[world.rank().index()]);
        let (readable, lost): (Vec<_>, Vec<_>) = mine.into_iter().partition(is_read);
        match distributor.finish() {
            Ok(received) => assert_eq!((received, 0), (readable, lost.len())),
            Err(error) => assert_eq!((error.taken, error.lost.n), (readable, lost.len())),
        }
    });
}
