//! Collectives of the transport's own, for jobs that ask for them. They complete late, on every
//! member later than on the last one that has begun, and they read their buffers late, too.
#![expect(
    unsafe_code,
    reason = "keeps raw pointers to the buffers of operations"
)]

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::job::Job;
use crate::backend::{Collective, Elements, Group, IntegerType, OpId};
use crate::collective::op::{self, Integer};
use crate::collective::{OpKind, ReduceOp};
use crate::locks::lock;
use crate::{Error, Pod, Rank, Result};

/// The number of tests until an operation reads its buffer, in turn.
const DELAYS: [u32; 3] = [3, 1, 2];

/// One member's handle on a group.
pub(super) struct Member {
    number: u32,
    job: Arc<Job>,
    meeting: Arc<Meeting>,
    flying: Mutex<HashMap<OpId, Flying>>,
    /// Ranks that were asked about.
    asked: Mutex<HashSet<Rank>>,
}

/// The shared state of a group's members.
struct Meeting {
    ranks: Box<[Rank]>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of operations and splits that each member has begun.
    begun: Vec<u64>,
    rounds: HashMap<u64, Round>,
    splits: HashMap<u64, Split>,
}

/// One operation of all members.
struct Round {
    call: Collective,
    /// The contributions of the members so far.
    given: Vec<Option<Vec<u8>>>,
    n_done: usize,
}

/// A member's part of a round.
struct Flying {
    round: u64,
    call: Collective,
    send: *const u8,
    values: *mut u8,
    delay: u32,
}

// SAFETY: `Group::begin` demands that the buffers are left to the operation until it is over,
// whichever thread performs it.
unsafe impl Send for Flying {}

#[derive(Default)]
struct Split {
    /// Member, colour and key of the members that have arrived.
    choices: Vec<(u32, Option<u32>, u32)>,
    /// The new groups by colour, once all members have arrived.
    made: HashMap<u32, Arc<Meeting>>,
    n_done: usize,
}

impl Meeting {
    fn new(ranks: Box<[Rank]>) -> Arc<Self> {
        let state = State {
            begun: vec![0; ranks.len()],
            ..State::default()
        };
        Arc::new(Self {
            ranks,
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }
}

/// The group of all ranks of a job.
#[derive(Clone)]
pub(super) struct Everybody(Arc<Meeting>);

impl fmt::Debug for Everybody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Everybody").finish_non_exhaustive()
    }
}

impl Everybody {
    pub(super) fn new(n_ranks: u32) -> Self {
        Self(Meeting::new((0..n_ranks).map(Rank::new).collect()))
    }

    /// The group of all ranks, as `rank` sees it.
    pub(super) fn group(&self, rank: Rank, job: &Arc<Job>) -> Member {
        Member::new(rank.number(), job, &self.0)
    }
}

impl Member {
    fn new(number: u32, job: &Arc<Job>, meeting: &Arc<Meeting>) -> Self {
        job.n_groups.fetch_add(1, Ordering::Relaxed);
        Self {
            number,
            job: Arc::clone(job),
            meeting: Arc::clone(meeting),
            flying: Mutex::default(),
            asked: Mutex::default(),
        }
    }

    fn index(&self) -> usize {
        self.number as usize
    }

    fn n_members(&self) -> usize {
        self.meeting.ranks.len()
    }

    /// Counts an operation of this member, and gives its number.
    fn count(&self, state: &mut State) -> u64 {
        let begun = &mut state.begun[self.index()];
        *begun += 1;
        *begun - 1
    }

    /// Reads what this member gives to a round.
    fn give(&self, flying: &Flying) {
        let (from, bytes) = match flying.call {
            Collective::Barrier => (flying.send, 0),
            Collective::Broadcast { bytes, .. } => (flying.values.cast_const(), bytes),
            Collective::Reduce { elements, .. }
            | Collective::Allreduce(elements)
            | Collective::ScanInclusive(elements)
            | Collective::ScanExclusive(elements) => (flying.values.cast_const(), elements.bytes()),
            Collective::Gather { bytes, .. } | Collective::Allgather { bytes } => {
                (flying.send, bytes)
            }
            Collective::AllToAll { bytes } => (flying.send, bytes * self.n_members()),
        };
        // SAFETY: the caller of `Group::begin` promised as many readable bytes, which core has
        // taken from a vector of `Pod`, and leaves them alone until the operation is over. The
        // slice ends before that.
        let given = unsafe { std::slice::from_raw_parts(from, bytes) }.to_vec();
        let mut state = lock(&self.meeting.state);
        let round = state
            .rounds
            .get_mut(&flying.round)
            .expect("a round stays until all members are done");
        round.given[self.index()] = Some(given);
        if round.given.iter().all(Option::is_some) {
            for rank in &self.meeting.ranks {
                self.job.member(*rank).bell.ring();
            }
        }
    }

    /// The result for this member, if all members have contributed.
    fn take(&self, number: u64) -> Option<Vec<u8>> {
        let mut state = lock(&self.meeting.state);
        let round = state
            .rounds
            .get_mut(&number)
            .expect("a round stays until all members are done");
        let given: Vec<&[u8]> = round
            .given
            .iter()
            .map(Option::as_deref)
            .collect::<Option<_>>()?;
        let result = result(&round.call, &given, self.index());
        round.n_done += 1;
        if round.n_done == self.n_members() {
            state.rounds.remove(&number);
        }
        Some(result)
    }
}

/// The result for member `me` of all contributions.
fn result(call: &Collective, given: &[&[u8]], me: usize) -> Vec<u8> {
    let fold = |elements: Elements, members: &[&[u8]]| {
        let (first, others) = members.split_first().expect("one member at least");
        let mut folded = first.to_vec();
        for other in others {
            combine(elements, &mut folded, other);
        }
        folded
    };
    match *call {
        Collective::Barrier => Vec::new(),
        Collective::Broadcast { root, .. } => given[root as usize].to_vec(),
        // The values of other members may be overwritten; these would be noticed if they were used.
        Collective::Reduce { root, elements } if root as usize != me => {
            vec![0xcd; elements.bytes()]
        }
        Collective::Reduce { elements, .. } | Collective::Allreduce(elements) => {
            fold(elements, given)
        }
        Collective::Gather { root, .. } if root as usize != me => Vec::new(),
        Collective::Gather { .. } | Collective::Allgather { .. } => given.concat(),
        Collective::AllToAll { bytes } => given
            .iter()
            .flat_map(|blocks| &blocks[me * bytes..(me + 1) * bytes])
            .copied()
            .collect(),
        Collective::ScanInclusive(elements) => fold(elements, &given[..=me]),
        Collective::ScanExclusive(elements) if me == 0 => vec![0xcd; elements.bytes()],
        Collective::ScanExclusive(elements) => fold(elements, &given[..me]),
    }
}

fn combine(elements: Elements, before: &mut [u8], after: &[u8]) {
    let op = elements.op;
    match elements.ty {
        IntegerType::U8 => combine_as::<u8>(op, before, after),
        IntegerType::U16 => combine_as::<u16>(op, before, after),
        IntegerType::U32 => combine_as::<u32>(op, before, after),
        IntegerType::U64 => combine_as::<u64>(op, before, after),
        IntegerType::I8 => combine_as::<i8>(op, before, after),
        IntegerType::I16 => combine_as::<i16>(op, before, after),
        IntegerType::I32 => combine_as::<i32>(op, before, after),
        IntegerType::I64 => combine_as::<i64>(op, before, after),
    }
}

fn combine_as<T: Integer + Pod>(op: OpKind, before: &mut [u8], after: &[u8]) {
    let element = |bytes: &[u8]| T::read_from_bytes(bytes).expect("chunks of the type's size");
    let size = size_of::<T>();
    for (to, from) in before.chunks_exact_mut(size).zip(after.chunks_exact(size)) {
        let (a, b) = (element(to), element(from));
        let combined = match op {
            OpKind::Sum => op::Sum.combine(a, b),
            OpKind::Product => op::Product.combine(a, b),
            OpKind::Min => op::Min.combine(a, b),
            OpKind::Max => op::Max.combine(a, b),
            OpKind::BitAnd => op::BitAnd.combine(a, b),
            OpKind::BitOr => op::BitOr.combine(a, b),
            OpKind::BitXor => op::BitXor.combine(a, b),
            OpKind::And => op::And.combine(a, b),
            OpKind::Or => op::Or.combine(a, b),
        };
        to.copy_from_slice(combined.as_bytes());
    }
}

// SAFETY: 1. `give` and `test` read and write as many bytes as the collective gives, the last ones
// before the call that reports it. 2. Every member's result is computed from what all have given.
unsafe impl Group for Member {
    /// Every third length of an allgather is left to core, so that both kinds meet on one team.
    fn offers(&self, call: &Collective) -> bool {
        !matches!(call, Collective::Allgather { bytes } if bytes % 3 == 0)
    }

    unsafe fn begin(&self, call: &Collective, send: *const u8, values: *mut u8) -> Result<OpId> {
        let mut state = lock(&self.meeting.state);
        let number = self.count(&mut state);
        let round = state.rounds.entry(number).or_insert_with(|| Round {
            call: *call,
            given: vec![None; self.n_members()],
            n_done: 0,
        });
        assert_eq!(round.call, *call, "members begin operations in one order");
        drop(state);
        let op = OpId(number + 1);
        let turn = usize::try_from(number % 3).expect("below 3");
        let flying = Flying {
            round: number,
            call: *call,
            send,
            values,
            delay: DELAYS[turn],
        };
        lock(&self.flying).insert(op, flying);
        Ok(op)
    }

    fn test(&self, op: OpId) -> Result<bool> {
        let mut all = lock(&self.flying);
        let flying = all
            .get_mut(&op)
            .expect("an operation is not asked about after it was complete");
        if flying.delay > 0 {
            flying.delay -= 1;
            if flying.delay == 0 {
                self.give(flying);
            }
            return Ok(false);
        }
        let Some(result) = self.take(flying.round) else {
            return Ok(false);
        };
        let into = flying.values;
        all.remove(&op);
        // SAFETY: the caller of `Group::begin` promised as many writable bytes until the operation
        // is over, which is reported after this.
        unsafe { into.copy_from_nonoverlapping(result.as_ptr(), result.len()) };
        Ok(true)
    }

    /// Knows it when asked for the second time.
    fn has_begun(&self, op: OpId, rank: Rank) -> Option<bool> {
        if lock(&self.asked).insert(rank) {
            return None;
        }
        let member = self.meeting.ranks.iter().position(|other| *other == rank);
        let member = member.expect("core asks about members");
        Some(lock(&self.meeting.state).begun[member] >= op.0)
    }

    fn split(&self, colour: Option<u32>, key: u32) -> Result<Option<Arc<dyn Group>>> {
        let mut state = lock(&self.meeting.state);
        let number = self.count(&mut state);
        let n_members = self.n_members();
        let split = state.splits.entry(number).or_default();
        split.choices.push((self.number, colour, key));
        if split.choices.len() == n_members {
            split.make(&self.meeting.ranks);
            self.meeting.changed.notify_all();
        }
        while state.splits[&number].choices.len() < n_members {
            if let Some(failure) = self.job.failure.get() {
                return Err(Error::from(Box::new(failure.clone())));
            }
            state = self
                .meeting
                .changed
                .wait_timeout(state, Duration::from_millis(5))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let split = state.splits.get_mut(&number).expect("it stays until done");
        let made = colour.map(|colour| Arc::clone(&split.made[&colour]));
        split.n_done += 1;
        if split.n_done == n_members {
            state.splits.remove(&number);
        }
        drop(state);
        Ok(made.map(|meeting| self.in_group(&meeting)))
    }
}

impl Split {
    /// Makes a group for each colour out of `ranks`.
    fn make(&mut self, ranks: &[Rank]) {
        self.choices.sort_by_key(|(_, _, key)| *key);
        let mut by_colour: HashMap<u32, Vec<Rank>> = HashMap::new();
        for (member, colour, _) in &self.choices {
            if let Some(colour) = colour {
                let rank = ranks[*member as usize];
                by_colour.entry(*colour).or_default().push(rank);
            }
        }
        let make = |(colour, ranks): (u32, Vec<Rank>)| (colour, Meeting::new(ranks.into()));
        self.made = by_colour.into_iter().map(make).collect();
    }
}

impl Member {
    /// This rank's handle on a group that it is in.
    fn in_group(&self, meeting: &Arc<Meeting>) -> Arc<dyn Group> {
        let me = self.meeting.ranks[self.index()];
        let number = (0..).zip(&meeting.ranks).find(|(_, rank)| **rank == me);
        let (number, _) = number.expect("a member gets the group that it is in");
        Arc::new(Self::new(number, &self.job, meeting))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.job.n_groups.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group(member {} of {})", self.number, self.n_members())
    }
}
