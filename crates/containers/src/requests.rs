//! Operations that the rank which has the data carries out, where others reach it by messages only:
//! one at a time, or many that travel together.
//!
//! What a target cannot do on its own, such as to wait for another rank, or to go on with a search on
//! the next one, it leaves to the rank that asked: it carries out requests in their order, and those
//! from the first one on that it cannot do have no answer.

use std::collections::VecDeque;

use pgas_am::codec::{AsBytes, Wire};
use pgas_am::{DistObject, PgasFuture, RemoteCalls as _, WeakObject};
use pgas_core::{Pod, Rank};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::{BatchError, Error, Result};

/// An operation on something that each rank has its part of.
pub(crate) trait Operation: 'static {
    /// A rank's part, and how it reaches those of its neighbours.
    type On: Send + Sync + 'static;

    /// What travels of an operation. It has bytes.
    type Request: Pod;

    /// What comes back.
    type Answer: Pod + Wire;

    /// Whether operations have to be carried out in their order.
    const IS_ORDERED: bool;

    /// Whether this rank carries out requests on the part of `rank` itself.
    fn is_near(on: &Self::On, rank: Rank) -> bool;

    /// Carries out the requests on the part of `rank`, in their order, and answers them up to the first
    /// one that cannot be carried out. In a handler it does not wait.
    fn serve(on: &Self::On, rank: Rank, requests: &[Self::Request]) -> Vec<Self::Answer>;
}

/// Something plain that comes as it is.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub(crate) struct Sent<S>(pub(crate) S);

impl<S: Pod> Wire for Sent<S> {
    type By = AsBytes;
}

/// The answers that come.
type Answers<O> = PgasFuture<Vec<<O as Operation>::Answer>>;

/// What all ranks have of something, and answer requests for.
pub(crate) type Served<O> = DistObject<<O as Operation>::On>;

/// What a target runs.
#[expect(clippy::needless_pass_by_value, reason = "what is called remotely")]
fn serve<O: Operation>(on: WeakObject<O::On>, requests: &[O::Request]) -> Vec<O::Answer> {
    // A rank may have given up its handle. The data is there as long as others have theirs.
    let Some(on) = on.upgrade() else {
        return Vec::new();
    };
    O::serve(&on, on.team().world().rank(), requests)
}

fn send<O: Operation>(on: &Served<O>, to: Rank, requests: &[O::Request]) -> Result<Answers<O>> {
    let world = on.team().world();
    Ok(world.rpc_view(to, serve::<O>, on.downgrade(), requests)?)
}

/// What a rank answers; nothing if it has left the job, whose memory stays.
pub(crate) fn receive<A: Wire + Default + Send>(from: Rank, answer: PgasFuture<A>) -> Result<A> {
    match answer.wait() {
        Ok(answer) => Ok(answer),
        Err(pgas_am::Error::Core(error)) if is_gone(&error, from) => Ok(A::default()),
        Err(error) => Err(error.into()),
    }
}

/// Whether `rank` has left the job, and has done nothing of what it was asked for. If it has failed
/// with the job, whatever is tried instead says so.
pub(crate) fn is_gone(error: &pgas_core::Error, rank: Rank) -> bool {
    matches!(error, pgas_core::Error::RankFailed(failure) if failure.rank == rank)
}

/// Has `to` carry out an operation, and waits for the answer; none if it cannot, and has done nothing.
pub(crate) fn ask<O: Operation>(
    on: &Served<O>,
    to: Rank,
    request: O::Request,
) -> Result<Option<O::Answer>> {
    let answers = receive(to, send::<O>(on, to, &[request])?)?;
    Ok(answers.first().copied())
}

/// Bytes of requests that travel together, of all that are collected, and of all that are in flight
/// when more are sent.
const TOGETHER_BYTES: usize = 64 << 10;
const COLLECTED_BYTES: usize = 1 << 20;
const IN_FLIGHT_BYTES: usize = 2 << 20;

/// Requests for one rank that are on their way at once: calls may overtake each other.
const fn window<O: Operation>() -> usize {
    if O::IS_ORDERED { 1 } else { 4 }
}

/// Operations, each with its number in a batch.
struct Numbered<R> {
    numbers: Vec<usize>,
    requests: Vec<R>,
}

impl<R> Default for Numbered<R> {
    fn default() -> Self {
        Self {
            numbers: Vec::new(),
            requests: Vec::new(),
        }
    }
}

impl<R> Numbered<R> {
    /// Leaves out those from `number` on.
    fn end_before(&mut self, number: usize) {
        let n = self.numbers.partition_point(|there| *there < number);
        self.numbers.truncate(n);
        self.requests.truncate(n);
    }
}

/// What travels to one rank.
struct Lane<O: Operation> {
    to: Rank,
    collected: Numbered<O::Request>,
    in_flight: VecDeque<(Numbered<O::Request>, Answers<O>)>,
    /// An operation has failed, and those behind it are given up.
    has_failed: bool,
}

/// Takes the answer of an operation with its number, or carries it out where there is none.
pub(crate) type Take<'t, A> = &'t mut dyn FnMut(usize, Option<A>) -> Result<()>;

/// Operations of a batch on their way to the ranks that carry them out, to all of them at once.
pub(crate) struct Batch<'a, O: Operation> {
    on: &'a Served<O>,
    /// The number of each rank's lane, plus one. Zeros, which take no memory until they are written.
    lane_of: Vec<u32>,
    lanes: Vec<Lane<O>>,
    n_collected: usize,
    n_in_flight: usize,
    /// The lanes of what is in flight, in the order of sending, and of some that is not any more.
    flights: VecDeque<usize>,
    /// The first operation that has failed.
    failure: Option<BatchError>,
}

impl<'a, O: Operation> Batch<'a, O> {
    const TOGETHER: usize = most::<O>(TOGETHER_BYTES);
    const COLLECTED: usize = most::<O>(COLLECTED_BYTES);
    const IN_FLIGHT: usize = most::<O>(IN_FLIGHT_BYTES);

    pub(crate) fn new(on: &'a Served<O>) -> Self {
        Self {
            on,
            lane_of: vec![0; on.team().n_ranks() as usize],
            lanes: Vec::new(),
            n_collected: 0,
            n_in_flight: 0,
            flights: VecDeque::new(),
            failure: None,
        }
    }

    /// Adds operation `number`, for `to`, which may travel later; `take` gets answers of earlier ones.
    /// Says whether there may be more: not when one has failed.
    #[inline]
    pub(crate) fn push(
        &mut self,
        (number, to): (usize, Rank),
        request: O::Request,
        take: Take<'_, O::Answer>,
    ) -> bool {
        let lane = match self.lane_of[to.index()] {
            0 => self.open(to),
            lane => lane as usize - 1,
        };
        let Numbered { numbers, requests } = &mut self.lanes[lane].collected;
        numbers.push(number);
        requests.push(request);
        let is_full = requests.len() >= Self::TOGETHER;
        self.n_collected += 1;
        if is_full {
            self.ship(lane, take);
        } else if self.n_collected >= Self::COLLECTED {
            self.ship_all(take);
        }
        self.failure.is_none()
    }

    #[cold]
    fn open(&mut self, to: Rank) -> usize {
        let lane = self.lanes.len();
        self.lane_of[to.index()] = u32::try_from(lane + 1).expect("no more than ranks");
        self.lanes.push(Lane {
            to,
            collected: Numbered::default(),
            in_flight: VecDeque::new(),
            has_failed: false,
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

    fn ship_all(&mut self, take: Take<'_, O::Answer>) {
        (0..self.lanes.len()).for_each(|lane| self.ship(lane, take));
    }

    /// Sends what is collected for a rank.
    fn ship(&mut self, lane: usize, take: Take<'_, O::Answer>) {
        let collected = std::mem::take(&mut self.lanes[lane].collected);
        self.n_collected -= collected.numbers.len();
        while self.lanes[lane].in_flight.len() >= window::<O>() {
            self.land(lane, take);
        }
        while self.n_in_flight >= Self::IN_FLIGHT
            && let Some(oldest) = self.flights.pop_front()
        {
            self.land(oldest, take);
        }
        self.begin(lane, collected, take);
    }

    /// Begins operations, but for those behind one that has failed. Near ones are over then.
    fn begin(&mut self, lane: usize, operations: Numbered<O::Request>, take: Take<'_, O::Answer>) {
        let mut left = Some(operations);
        while let Some(mut operations) = left.take() {
            if let Some(failure) = &self.failure {
                operations.end_before(failure.done);
            }
            let Lane { to, has_failed, .. } = self.lanes[lane];
            if has_failed || operations.numbers.is_empty() {
                return;
            }
            if O::is_near(self.on, to) {
                let answers = O::serve(self.on, to, &operations.requests);
                left = self.settle(lane, operations, answers, take);
                continue;
            }
            match send::<O>(self.on, to, &operations.requests) {
                Ok(answers) => {
                    self.n_in_flight += operations.numbers.len();
                    self.flights.push_back(lane);
                    self.lanes[lane].in_flight.push_back((operations, answers));
                }
                Err(Error::Core(error)) if is_gone(&error, to) => {
                    left = self.settle(lane, operations, Vec::new(), take);
                }
                Err(error) => {
                    self.lanes[lane].has_failed = true;
                    self.fail(operations.numbers[0], error);
                }
            }
        }
    }

    /// Waits for the operations that travel to a rank for the longest time.
    fn land(&mut self, lane: usize, take: Take<'_, O::Answer>) {
        let Lane { to, in_flight, .. } = &mut self.lanes[lane];
        let to = *to;
        let Some((operations, answers)) = in_flight.pop_front() else {
            return;
        };
        self.n_in_flight -= operations.numbers.len();
        match receive(to, answers) {
            Ok(answers) => {
                if let Some(left) = self.settle(lane, operations, answers, take) {
                    self.begin(lane, left, take);
                }
            }
            Err(error) => {
                self.lanes[lane].has_failed = true;
                self.fail(operations.numbers[0], error);
            }
        }
    }

    /// Takes the answers of operations, the first one without an answer has none, and gives back those
    /// behind it.
    fn settle(
        &mut self,
        lane: usize,
        mut operations: Numbered<O::Request>,
        answers: Vec<O::Answer>,
        take: Take<'_, O::Answer>,
    ) -> Option<Numbered<O::Request>> {
        let n = answers.len();
        let unanswered = operations.numbers.get(n).map(|number| (*number, None));
        let answered = operations.numbers.iter().copied();
        let answered = answered.zip(answers.into_iter().map(Some));
        for (number, answer) in answered.chain(unanswered) {
            if let Err(error) = take(number, answer) {
                self.lanes[lane].has_failed = true;
                self.fail(number, error);
                return None;
            }
        }
        operations
            .numbers
            .drain(..operations.numbers.len().min(n + 1));
        operations
            .requests
            .drain(..operations.requests.len().min(n + 1));
        (!operations.numbers.is_empty()).then_some(operations)
    }

    /// Sends what is left, and waits for all answers. The error is the first operation that failed:
    /// those before it were carried out.
    pub(crate) fn finish(mut self, take: Take<'_, O::Answer>) -> Result<(), BatchError> {
        self.ship_all(take);
        for lane in 0..self.lanes.len() {
            while !self.lanes[lane].in_flight.is_empty() {
                self.land(lane, take);
            }
        }
        self.failure.map_or(Ok(()), Err)
    }
}

/// How many requests have as many bytes, at least one.
const fn most<O: Operation>(bytes: usize) -> usize {
    match bytes.checked_div(size_of::<O::Request>()) {
        None => bytes,
        Some(0) => 1,
        Some(n) => n,
    }
}
