//! Operations that are carried out by the rank that holds the data, for ranks that reach it by
//! messages only: one at a time, or many in a message.
//!
//! A target performs requests in their order. If it cannot finish one on its own, since it would
//! have to wait for another rank, or to continue a search on the next one, that request and those
//! behind it get no answer. The asking rank performs these itself.
//!
//! Values that are longer than their slots travel in a parcel beside the requests, or beside the
//! answers. Each slot says where in the parcel its value lies.

use std::collections::VecDeque;
use std::mem;

use pgas_am::codec::{AsBytes, Wire};
use pgas_am::{DistObject, PgasFuture, RemoteCalls as _, WeakObject};
use pgas_core::{Pod, Rank, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::mail::{BESIDE, fit};
use crate::object::Heap;
use crate::{BatchError, Error, Result};

/// An operation on something that each rank has its part of.
pub(crate) trait Operation: 'static {
    /// The parts of the data on this rank and its neighbours.
    type On: Send + Sync + 'static;

    /// The form of an operation in messages. It has bytes.
    type Request: Pod;

    /// The answer to a request.
    type Answer: Pod + Wire;

    /// Whether operations have to be carried out in their order.
    const IS_ORDERED: bool;

    /// Whether operations change anything, or only look.
    const CHANGES: bool = true;

    /// Whether requests or answers may have long values.
    const HAS_PARCELS: bool = false;

    /// Whether this rank carries out requests on the part of `rank` itself.
    fn is_local(on: &Self::On, rank: Rank) -> bool;

    /// Carries out the requests on the part of `rank`, in their order, and answers them up to the
    /// first one that cannot be carried out. In a handler it does not wait. `parcel` holds the long
    /// values of requests; it puts those of answers into `answered`.
    fn serve(
        on: &Self::On,
        rank: Rank,
        requests: &[Self::Request],
        parcel: &Heap,
        answered: &Heap,
    ) -> Vec<Self::Answer>;

    /// The blocks of other ranks that handlers on this rank could not release.
    fn owed(_on: &Self::On) -> Vec<Owed> {
        Vec::new()
    }

    /// Releases blocks for the rank that has answered.
    fn pay(_on: &Self::On, _owed: Vec<Owed>) {}
}

/// A block that whoever has asked releases, since a handler may not wait: its place and length.
pub(crate) type Owed = [u64; 2];

/// A plain value as an answer: its own bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub(crate) struct Sent<S>(pub(crate) S);

impl<S: Pod> Wire for Sent<S> {
    type By = AsBytes;
}

/// The answers to one message, the bytes of their parcel, and what is to be released.
type Answered<O> = (Vec<<O as Operation>::Answer>, Vec<u8>, Vec<Owed>);

/// The answers to one message, when they have come.
type Answers<O> = PgasFuture<Answered<O>>;

/// An answer, and the parcel of its long values.
pub(crate) type With<'p, A> = (A, &'p Heap);

/// The parts of all ranks, for which they serve requests.
pub(crate) type Served<O> = DistObject<<O as Operation>::On>;

/// The function that a target runs.
#[expect(clippy::needless_pass_by_value, reason = "what is called remotely")]
fn serve<O: Operation>(
    on: WeakObject<O::On>,
    requests: &[O::Request],
    parcel: &[u8],
) -> Answered<O> {
    // A rank may have dropped its handle. The data is there as long as other ranks have theirs.
    let Some(on) = on.upgrade() else {
        return Answered::<O>::default();
    };
    perform::<O>(
        &on,
        on.team().world().rank(),
        requests,
        &Heap::parcel(parcel.to_vec()),
    )
}

/// Carries out requests on the part of `rank`.
fn perform<O: Operation>(
    on: &O::On,
    rank: Rank,
    requests: &[O::Request],
    parcel: &Heap,
) -> Answered<O> {
    let mut answered = Heap::parcel(Vec::new());
    let answers = O::serve(on, rank, requests, parcel, &answered);
    (answers, mem::take(answered.packed()), O::owed(on))
}

fn send<O: Operation>(
    on: &Served<O>,
    to: Rank,
    (requests, parcel): (&[O::Request], &[u8]),
) -> Result<Answers<O>> {
    let world = on.team().world();
    world.rpc_views(to, serve::<O>, on.downgrade(), (requests, parcel))
}

/// The name of a wait for the answer of a rank.
const ELSEWHERE: &str = "an operation that another rank carries out";

/// Waits for the answer of a rank. The default if the rank has left the job; its memory stays. If a
/// time limit or a panic ends the wait for an operation that `changes` something, the rank may
/// carry it out later, and nobody would have what it takes out: then the job fails.
pub(crate) fn receive<A: Wire + Default + Send>(
    world: &World,
    (from, changes): (Rank, bool),
    answer: PgasFuture<A>,
) -> Result<A> {
    // Handlers and chained actions run meanwhile, and may panic.
    let _step = changes.then(|| world.in_step(ELSEWHERE));
    let answered = unless_gone(from, answer.wait());
    answered.map_err(|error| match error {
        Error::Timeout(_) if changes => world.give_up(ELSEWHERE, error),
        error => error,
    })
}

/// Replaces the error of a rank that has left by the default.
fn unless_gone<A: Default>(from: Rank, answer: Result<A>) -> Result<A> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(error) if is_gone(&error, from) => Ok(A::default()),
        Err(error) => Err(error),
    }
}

/// Whether the error is that `rank` has left the job, in which case it did nothing of the request.
/// If it has failed with the job, the one-sided operation reports that.
fn is_gone(error: &Error, rank: Rank) -> bool {
    matches!(error, Error::RankFailed(failure) if failure.rank == rank)
}

/// Asks `to` to perform an operation, and waits for the answer, with its parcel. `None` if `to`
/// cannot perform it; then it has done nothing.
pub(crate) fn ask<O: Operation>(
    on: &Served<O>,
    to: Rank,
    (request, mut parcel): (O::Request, Heap),
) -> Result<Option<(O::Answer, Heap)>> {
    let sent = send::<O>(on, to, (&[request], parcel.packed()))?;
    let answered = receive(on.team().world(), (to, O::CHANGES), sent)?;
    Ok(only::<O>(on, answered))
}

/// The answer to a message with one request.
fn only<O: Operation>(
    on: &O::On,
    (answers, parcel, owed): Answered<O>,
) -> Option<(O::Answer, Heap)> {
    O::pay(on, owed);
    Some((*answers.first()?, Heap::parcel(parcel)))
}

/// As [`ask`], with an answer that comes later.
pub(crate) fn ask_nb<O: Operation>(
    on: &Served<O>,
    to: Rank,
    (request, mut parcel): (O::Request, Heap),
) -> impl Future<Output = Result<Option<(O::Answer, Heap)>>> + Send + use<O> {
    let sent = send::<O>(on, to, (&[request], parcel.packed()));
    let on = on.clone();
    async move {
        let answers = match sent {
            Ok(answers) => answers.await,
            Err(error) => Err(error),
        };
        Ok(only::<O>(&on, unless_gone(to, answers)?))
    }
}

/// All collected requests are sent when they have this many bytes.
const COLLECTED_BYTES: usize = 1 << 20;
/// The longest key or value, in bytes, that travels in a message. Calls carry 64 MiB at most, with
/// what is beside it.
pub(crate) const LONGEST_PART: usize = 16 << 20;
/// While this many bytes of requests are in flight, the next message waits.
const IN_FLIGHT_BYTES: usize = 2 << 20;

/// Messages in flight to one rank: enough to fill a fast network, and no more than a transport
/// takes before the target has answered.
const WINDOW: usize = 8;

/// Operations, each with its number in a batch.
struct Numbered<R> {
    numbers: Vec<usize>,
    requests: Vec<R>,
    parcel: Heap,
    /// The number of requests that have as many bytes.
    weight: usize,
}

impl<R> Numbered<R> {
    fn with_capacity(n: usize) -> Self {
        Self {
            numbers: Vec::with_capacity(n),
            requests: Vec::with_capacity(n),
            parcel: Heap::parcel(Vec::new()),
            weight: 0,
        }
    }

    #[inline]
    fn push(&mut self, number: usize, request: R) {
        self.numbers.push(number);
        self.requests.push(request);
        self.weight += 1;
    }

    /// Adds a request, unless its long parts are too long for a message.
    fn add(&mut self, number: usize, request: impl FnOnce(&Heap) -> Result<R>) -> Result<bool> {
        let n_before = self.parcel.packed().len();
        let request = request(&self.parcel);
        let n_packed = self.parcel.packed().len() - n_before;
        if request.is_err() || n_packed > LONGEST_PART {
            self.parcel.packed().truncate(n_before);
            return request.map(|_| false);
        }
        self.push(number, request?);
        self.weight += n_packed / size_of::<R>();
        Ok(true)
    }

    fn clear(&mut self) {
        self.numbers.clear();
        self.requests.clear();
        self.parcel.packed().clear();
        self.weight = 0;
    }

    /// What a message carries.
    fn views(&mut self) -> (&[R], &[u8]) {
        (&self.requests, self.parcel.packed())
    }

    /// Leaves out the first `n`.
    fn skip(&mut self, n: usize) {
        let n = n.min(self.numbers.len());
        self.numbers.drain(..n);
        self.requests.drain(..n);
    }

    /// Leaves out those from `number` on.
    fn end_before(&mut self, number: usize) {
        let n = self.numbers.partition_point(|there| *there < number);
        self.numbers.truncate(n);
        self.requests.truncate(n);
    }
}

/// Collected requests for one rank. If the order of operations matters, those on one key share a
/// lane, and a lane has one message in flight, since messages may overtake each other.
struct Lane<O: Operation> {
    to: Rank,
    is_local: bool,
    collected: Numbered<O::Request>,
    in_flight: VecDeque<(Numbered<O::Request>, Answers<O>)>,
}

/// Receives the number of each operation of a batch and its answer, and performs the operation
/// itself if there is no answer.
pub(crate) trait Take<A>: FnMut(usize, Option<With<'_, A>>) -> Result<()> {}

impl<A, F: FnMut(usize, Option<With<'_, A>>) -> Result<()>> Take<A> for F {}

/// Where an operation of a batch goes.
pub(crate) struct Way<R> {
    /// The number of the rank: in the job, or among the members of a team.
    pub(crate) index: u32,
    /// The rank itself.
    pub(crate) to: R,
    /// The same for operations whose order matters.
    pub(crate) key: u64,
}

/// Operations of a batch on their way to the ranks that carry them out, to all of them at once.
pub(crate) struct Batch<'a, O: Operation> {
    on: &'a Served<O>,
    /// The number of requests in a message, and the expected number in a lane.
    together: usize,
    expected: usize,
    /// Lanes of each rank.
    n_stripes: usize,
    /// For each rank and stripe the index of its lane plus one; 0 if there is none yet. Zeroed
    /// memory takes no pages until it is written.
    lane_of: Vec<u32>,
    lanes: Vec<Lane<O>>,
    n_collected: usize,
    n_in_flight: usize,
    /// The lanes with messages in flight, in the order of sending; some may be complete already.
    flights: VecDeque<usize>,
    /// Buffers of completed operations, for reuse.
    empty: Vec<Numbered<O::Request>>,
    /// The first operation that has failed.
    failure: Option<BatchError>,
}

impl<'a, O: Operation> Batch<'a, O> {
    const COLLECTED: usize = fit::<O::Request>(COLLECTED_BYTES);
    const IN_FLIGHT: usize = fit::<O::Request>(IN_FLIGHT_BYTES);

    /// For about `n` operations.
    pub(crate) fn new(on: &'a Served<O>, n: usize) -> Self {
        let team = on.team();
        let n_ranks = team.n_ranks() as usize;
        let room = team.world().capabilities().max_medium;
        let room = room.saturating_sub(BESIDE);
        let together = fit::<O::Request>(room).min(fit::<O::Answer>(room));
        let for_each = n.div_ceil(n_ranks);
        // A rank alone sends nothing, and performs them in their order.
        let n_stripes = if O::IS_ORDERED && n_ranks > 1 {
            for_each.div_ceil(together).clamp(1, WINDOW)
        } else {
            1
        };
        let expected = for_each / n_stripes;
        Self {
            on,
            together,
            // With a margin that is enough most often.
            expected: (expected + expected / 8 + 8).min(together),
            n_stripes,
            lane_of: vec![0; team.world().n_ranks() as usize * n_stripes],
            lanes: Vec::new(),
            n_collected: 0,
            n_in_flight: 0,
            flights: VecDeque::new(),
            empty: Vec::new(),
            failure: None,
        }
    }

    /// Adds operation `number`, which may be sent later. `request` makes it, and puts long values
    /// into a parcel. `take` gets the answers of earlier ones. Returns false once an operation has
    /// failed: the batch takes no more.
    #[inline]
    pub(crate) fn push(
        &mut self,
        number: usize,
        Way { index, to, key }: Way<impl FnOnce() -> Rank>,
        request: impl FnOnce(&Heap) -> Result<O::Request>,
        take: &mut impl Take<O::Answer>,
    ) -> bool {
        let stripe = stripe_of(key, self.n_stripes);
        let index = index as usize * self.n_stripes + stripe;
        let lane = match self.lane_of[index] {
            0 => self.open(to(), index),
            lane => lane as usize - 1,
        };
        let collected = &mut self.lanes[lane].collected;
        let before = collected.weight;
        if !O::HAS_PARCELS {
            match request(&collected.parcel) {
                Ok(request) => collected.push(number, request),
                Err(error) => {
                    self.fail(number, error);
                    return false;
                }
            }
        } else if !self.push_long(lane, number, request, take) {
            return false;
        }
        let after = self.lanes[lane].collected.weight;
        self.n_collected += after.saturating_sub(before);
        if after >= self.together {
            self.ship(lane, self.expected, take);
        } else if self.n_collected >= Self::COLLECTED {
            self.ship_all(self.expected, take);
        }
        self.failure.is_none()
    }

    /// Adds an operation that may have long values to a lane. Returns false if it has failed.
    fn push_long(
        &mut self,
        lane: usize,
        number: usize,
        request: impl FnOnce(&Heap) -> Result<O::Request>,
        take: &mut impl Take<O::Answer>,
    ) -> bool {
        match self.lanes[lane].collected.add(number, request) {
            Ok(true) => {}
            Ok(false) => self.perform_here(lane, number, take),
            Err(error) => self.fail(number, error),
        }
        self.failure.is_none()
    }

    /// Lets `take` perform an operation that is too long for a message, behind those of its lane.
    #[cold]
    fn perform_here(&mut self, lane: usize, number: usize, take: &mut impl Take<O::Answer>) {
        self.ship(lane, self.expected, take);
        while !self.lanes[lane].in_flight.is_empty() {
            self.land(lane, take);
        }
        if self.failure.is_none()
            && let Err(error) = take(number, None)
        {
            self.fail(number, error);
        }
    }

    #[cold]
    fn open(&mut self, to: Rank, index: usize) -> usize {
        let lane = self.lanes.len();
        self.lane_of[index] = u32::try_from(lane + 1).expect("no more than a few for each rank");
        self.lanes.push(Lane {
            to,
            is_local: O::is_local(self.on, to),
            collected: Numbered::with_capacity(self.expected),
            in_flight: VecDeque::new(),
        });
        lane
    }

    /// Operation `number` has failed, which ends the batch.
    pub(crate) fn fail(&mut self, number: usize, error: Error) {
        let is_first = |failure: &BatchError| number < failure.done;
        if self.failure.as_ref().is_none_or(is_first) {
            let done = number;
            self.failure = Some(BatchError { done, error });
        }
    }

    /// Sends all collected requests, and performs local operations while they are on their way.
    /// There is room for `n_next` in each lane then.
    fn ship_all(&mut self, n_next: usize, take: &mut impl Take<O::Answer>) {
        for is_local in [false, true] {
            for lane in 0..self.lanes.len() {
                if self.lanes[lane].is_local == is_local {
                    self.ship(lane, n_next, take);
                }
            }
        }
    }

    /// Sends the requests that are collected for a rank. There is room for `n_next` then.
    fn ship(&mut self, lane: usize, n_next: usize, take: &mut impl Take<O::Answer>) {
        let empty = self.empty.pop();
        let empty = empty.unwrap_or_else(|| Numbered::with_capacity(n_next));
        let collected = mem::replace(&mut self.lanes[lane].collected, empty);
        self.n_collected -= collected.weight;
        let window = if O::IS_ORDERED { 1 } else { WINDOW };
        while self.lanes[lane].in_flight.len() >= window {
            self.land(lane, take);
        }
        while self.n_in_flight >= Self::IN_FLIGHT
            && let Some(oldest) = self.flights.pop_front()
        {
            self.land(oldest, take);
        }
        self.begin(lane, collected, take);
    }

    /// Begins operations, except those behind a failed one: whatever has failed, all before it are
    /// carried out. Local ones are complete on return.
    fn begin(
        &mut self,
        lane: usize,
        mut operations: Numbered<O::Request>,
        take: &mut impl Take<O::Answer>,
    ) {
        loop {
            if let Some(failure) = &self.failure {
                operations.end_before(failure.done);
            }
            let Lane { to, is_local, .. } = self.lanes[lane];
            if operations.numbers.is_empty() {
                operations.clear();
                self.empty.push(operations);
                return;
            }
            if is_local {
                let Numbered {
                    requests, parcel, ..
                } = &operations;
                let answered = perform::<O>(self.on, to, requests, parcel);
                self.settle(&mut operations, answered, take);
                continue;
            }
            match send::<O>(self.on, to, operations.views()) {
                Ok(answers) => {
                    self.n_in_flight += operations.weight;
                    self.flights.push_back(lane);
                    self.lanes[lane].in_flight.push_back((operations, answers));
                    return;
                }
                Err(error) if is_gone(&error, to) => {
                    self.settle(&mut operations, Answered::<O>::default(), take);
                }
                Err(error) => self.fail(operations.numbers[0], error),
            }
        }
    }

    /// Waits for the oldest message of a lane.
    fn land(&mut self, lane: usize, take: &mut impl Take<O::Answer>) {
        let Lane { to, in_flight, .. } = &mut self.lanes[lane];
        let to = *to;
        let Some((mut operations, answers)) = in_flight.pop_front() else {
            return;
        };
        self.n_in_flight -= operations.weight;
        match receive(self.on.team().world(), (to, O::CHANGES), answers) {
            Ok(answered) => self.settle(&mut operations, answered, take),
            Err(error) => self.fail(operations.numbers[0], error),
        }
        self.begin(lane, operations, take);
    }

    /// Hands `take` the answers of operations, and `None` for the first operation without one.
    /// Leaves the operations behind that in `operations`.
    fn settle(
        &mut self,
        operations: &mut Numbered<O::Request>,
        (answers, parcel, owed): Answered<O>,
        take: &mut impl Take<O::Answer>,
    ) {
        O::pay(self.on, owed);
        let (n, parcel) = (answers.len(), Heap::parcel(parcel));
        let mut failed = None;
        for (&number, answer) in operations.numbers.iter().zip(answers) {
            if let Err(error) = take(number, Some((answer, &parcel))) {
                failed = Some((number, error));
                break;
            }
        }
        if let Some(&number) = operations.numbers.get(n)
            && failed.is_none()
            && let Err(error) = take(number, None)
        {
            failed = Some((number, error));
        }
        if let Some((number, error)) = failed {
            self.fail(number, error);
        }
        operations.skip(n + 1);
    }

    /// Sends the rest, and waits for all answers. The error is that of the first operation that
    /// failed; those before it were performed.
    pub(crate) fn finish(mut self, take: &mut impl Take<O::Answer>) -> Result<(), BatchError> {
        self.ship_all(0, take);
        for lane in 0..self.lanes.len() {
            while !self.lanes[lane].in_flight.is_empty() {
                self.land(lane, take);
            }
        }
        self.failure.map_or(Ok(()), Err)
    }
}

/// The stripe of a key, of `n`: chosen by the half of its hash that does not choose its rank.
fn stripe_of(key: u64, n: usize) -> usize {
    let scaled = (key & u64::from(u32::MAX)) * n as u64;
    usize::try_from(scaled >> u32::BITS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use pgas_core::Config;
    use pgas_core::backend::loopback::{self, Options};

    use super::*;

    /// The target carries out requests up to the first one that is not zero.
    struct Stops;

    impl Operation for Stops {
        type On = ();
        type Request = u64;
        type Answer = u8;

        const IS_ORDERED: bool = false;

        fn is_local((): &(), _: Rank) -> bool {
            false
        }

        fn serve((): &(), _: Rank, requests: &[u64], _: &Heap, _: &Heap) -> Vec<u8> {
            let done = requests.iter().take_while(|request| **request == 0);
            done.map(|_| 1).collect()
        }
    }

    /// Messages of four, all in flight. What the target leaves of the first one is sent again behind
    /// the others, one of which has failed by then.
    #[test]
    fn all_operations_before_one_that_has_failed_are_carried_out() {
        let served = Options::default().with_served_atomics();
        loopback::run_over(&served, 2, &Config::default(), |world| {
            pgas_am::attach(&world).unwrap();
            let on = Served::<Stops>::new(&world, ()).unwrap();
            if world.rank() == Rank::ZERO {
                let mut batch = Batch::<Stops>::new(&on, 12);
                batch.together = 4;
                let mut done = Vec::new();
                let mut take = |number: usize, answer: Option<With<'_, u8>>| {
                    if number == 6 && answer.is_none() {
                        return Err(Error::QueueFull);
                    }
                    done.push(number);
                    Ok(())
                };
                for number in 0..12 {
                    let way = Way {
                        index: 1,
                        to: || Rank::new(1),
                        key: 0,
                    };
                    let stops = [1, 2, 6].contains(&number);
                    batch.push(number, way, |_| Ok(stops.into()), &mut take);
                }
                let failed = batch.finish(&mut take).unwrap_err();
                assert_eq!(failed.done, 6);
                done.sort_unstable();
                assert_eq!(done[..6], [0, 1, 2, 3, 4, 5]);
                assert!(done.windows(2).all(|pair| pair[0] < pair[1]), "{done:?}");
            }
            world.barrier().unwrap();
        });
    }
}
