//! Slots behind a network, for operations in flight.
//!
//! The protocol is written for steps that block. Here the first step that cannot be answered yet
//! begins a non-blocking operation and suspends the whole operation by an error. When the answer is
//! there, the operation is run again from its beginning. The journal answers the steps that were
//! taken before, so each step is taken once. This works since the protocol's decisions depend on
//! the answers alone.

use std::cell::{Cell, RefCell};

use pgas_core::atomics::Atomic;
use pgas_core::backend::{AtomicOp, SignalUpdate};
use pgas_core::{Error, Event, GlobalPtr, Pod, Result, World};
use pgas_lockfree::slots::state::StateWord;

use super::PartAt;
use super::place::{Place, WordOp};

/// The answer to a step.
enum Answer {
    /// The former bits of a word.
    Word(u64),
    /// As `Word`, of a compare-and-swap.
    Swapped(u64),
    Bytes(Vec<u8>),
    Written,
}

/// A step that was begun: the answer when it is there.
type Begun = Box<dyn FnMut() -> Option<Result<Answer>> + Send>;

/// The steps of one operation that are complete, and the one that is in flight.
#[derive(Default)]
pub(in super::super) struct Journal {
    answers: RefCell<Vec<Result<Answer>>>,
    begun: RefCell<Option<Begun>>,
    /// Whether the operation waits for another rank.
    waits: Cell<bool>,
    /// Whether steps that change memory are held back, and whether the run has come to one.
    is_held: Cell<bool>,
    is_stopped: Cell<bool>,
    /// Whether the run has come to a step that takes a free slot.
    claims: Cell<bool>,
    /// The number of steps that this run has taken.
    n_taken: Cell<usize>,
    /// Whether no rank writes in this phase: then a step reads a whole block.
    is_read_only: bool,
    /// The block that this run has read last, and in which step.
    block: Cell<Option<(GlobalPtr<u8>, usize)>>,
}

impl Journal {
    /// Begins the next run. Returns `false` if the step in flight is not complete.
    pub(in super::super) fn rewind(&self) -> bool {
        let mut begun = self.begun.borrow_mut();
        if let Some(answer) = begun.as_mut() {
            let Some(answer) = answer() else { return false };
            self.answers.borrow_mut().push(answer);
            *begun = None;
        }
        for flag in [&self.waits, &self.is_stopped, &self.claims] {
            flag.set(false);
        }
        self.n_taken.set(0);
        self.block.set(None);
        true
    }

    /// A journal of an operation in a phase in which ranks write, or not.
    pub(in super::super) fn new(is_read_only: bool) -> Self {
        Self {
            is_read_only,
            ..Self::default()
        }
    }

    /// A journal whose operation stops before it changes memory.
    pub(in super::super) fn held(is_read_only: bool) -> Self {
        let journal = Self::new(is_read_only);
        journal.is_held.set(true);
        journal
    }

    /// Lets the operation change memory.
    pub(in super::super) fn let_go(&self) {
        self.is_held.set(false);
    }

    /// Whether the operation has come to its first change of memory, and is held back.
    pub(in super::super) fn is_stopped(&self) -> bool {
        self.is_stopped.get()
    }

    /// Whether the operation takes a free slot, which another one may have taken by now.
    pub(in super::super) fn claims(&self) -> bool {
        self.claims.get()
    }

    /// Whether the run was suspended, so that its result is meaningless: the operation goes on
    /// later.
    pub(in super::super) fn is_suspended(&self) -> bool {
        self.waits.get() || self.is_stopped.get() || self.begun.borrow().is_some()
    }

    /// Whether the next run is for later: the operation waits for another rank, or is held back.
    pub(in super::super) fn waits(&self) -> bool {
        self.waits.get() || self.is_stopped.get()
    }

    /// The error that ends a suspended run. Nobody sees it.
    const SUSPENDED: Error = Error::BrokenPromise;

    /// Takes a step, which `changes` memory or not, and returns its number.
    fn take<T: Send + 'static>(
        &self,
        changes: bool,
        begin: impl FnOnce() -> Result<Event<T>>,
        answer: fn(T) -> Answer,
    ) -> Result<usize> {
        let (number, mut answers) = (self.n_taken.get(), self.answers.borrow_mut());
        if number == answers.len() {
            self.is_stopped.set(changes && self.is_held.get());
            if self.is_suspended() {
                return Err(Self::SUSPENDED);
            }
            match begun(begin(), answer) {
                Ok(answer) => answers.push(answer),
                Err(begun) => {
                    *self.begun.borrow_mut() = Some(begun);
                    return Err(Self::SUSPENDED);
                }
            }
        }
        self.n_taken.set(number + 1);
        match &answers[number] {
            Ok(_) => Ok(number),
            Err(error) => Err(error.clone()),
        }
    }

    /// Calls `f` with `len` bytes.
    fn read<T>(
        &self,
        number: Option<usize>,
        (world, from, len): (&World, GlobalPtr<u8>, usize),
        f: impl FnOnce(&[u8]) -> T,
    ) -> Result<(usize, T)> {
        let begin = || from.get_vec_nb(world, len);
        let number = number.map_or_else(|| self.take(false, begin, Answer::Bytes), Ok)?;
        match &self.answers.borrow()[number] {
            Ok(Answer::Bytes(bytes)) => Ok((number, f(bytes))),
            _ => unreachable!("a run takes the steps of the one before"),
        }
    }

    /// Notes that the run has come to a step that takes a free slot.
    pub(super) fn note_claim(&self) {
        self.claims.set(true);
    }

    /// One round of a wait after another, until one is `ready`.
    pub(super) fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        loop {
            let first = self.n_taken.get();
            if ready()? {
                return Ok(());
            }
            let mut answers = self.answers.borrow_mut();
            let changes = |answer: &Result<Answer>| matches!(answer, Ok(Answer::Swapped(_)));
            // What a round has learnt by an attempt to change a slot, the next one may build on.
            if !answers[first..].iter().any(changes) {
                answers.truncate(first);
                self.n_taken.set(first);
                self.waits.set(true);
                return Err(Self::SUSPENDED);
            }
        }
    }
}

/// The answer of an operation, or what gives it later.
fn begun<T: Send + 'static>(
    event: Result<Event<T>>,
    answer: fn(T) -> Answer,
) -> Result<Result<Answer>, Begun> {
    let mut event = match event {
        Ok(event) => event,
        Err(error) => return Ok(Err(error)),
    };
    match event.is_complete() {
        Ok(true) => return Ok(event.wait().map(answer)),
        Err(error) => return Ok(Err(error)),
        Ok(false) => {}
    }
    let mut event = Some(event);
    Err(Box::new(move || match event.as_mut()?.is_complete() {
        Ok(false) => None,
        Ok(true) => Some(event.take()?.wait().map(answer)),
        Err(error) => Some(Err(error)),
    }))
}

/// Steps on a slot at a place, as those of [`Access`](super::Access).
impl Journal {
    /// Writes the part, then the state.
    pub(super) fn try_publish<T: Pod>(
        &self,
        place: Place<'_>,
        at: PartAt,
        value: T,
        state: StateWord,
    ) -> Result<()> {
        let (part, world) = (place.part::<T>(at.offset), place.world);
        let offset = at.state.offset;
        if at.state.is_narrow {
            let put = || part.put_nb(world, value);
            self.take(true, put, |()| Answer::Written)?;
            self.on_word(place, offset, WordOp::Fetch(AtomicOp::Swap, state.narrow()))?;
            return Ok(());
        }
        let update = SignalUpdate::Set(state.to_bits());
        let put = || part.put_signal_nb(world, vec![value], place.part(offset), update);
        self.take(true, put, |_| Answer::Written)?;
        Ok(())
    }

    pub(super) fn get<T: Pod>(&self, place: Place<'_>, offset: usize) -> Result<T> {
        let value = |bytes: &[u8]| T::read_from_bytes(bytes).expect("as many bytes");
        let len = size_of::<T>();
        if !self.is_read_only {
            let from = place.part(offset);
            return Ok(self.read(None, (place.world, from, len), value)?.1);
        }
        let read = self.block.get();
        let number = read.and_then(|(block, number)| (block == place.at).then_some(number));
        let part = |block: &[u8]| value(&block[offset..offset + len]);
        let (number, value) = self.read(number, (place.world, place.at, place.len), part)?;
        self.block.set(Some((place.at, number)));
        Ok(value)
    }

    pub(super) fn on_word<W: Atomic>(
        &self,
        place: Place<'_>,
        offset: usize,
        op: WordOp<W>,
    ) -> Result<W> {
        if self.is_read_only {
            debug_assert!(
                matches!(op, WordOp::Fetch(AtomicOp::Load, _)),
                "nobody writes"
            );
            return self.get(place, offset);
        }
        let (word, world) = (place.part::<W>(offset), place.world);
        let number = match op {
            WordOp::Fetch(op, operand) => {
                let begin = || word.fetch_op_nb(world, op, operand);
                let answer = |former: W| Answer::Word(former.to_bits());
                self.take(op != AtomicOp::Load, begin, answer)?
            }
            WordOp::CompareExchange(current, new) => {
                let begin = || word.compare_exchange_nb(world, current, new);
                self.take(true, begin, |swapped| {
                    let (Ok(former) | Err(former)) = swapped;
                    Answer::Swapped(W::to_bits(former))
                })?
            }
        };
        match &self.answers.borrow()[number] {
            Ok(Answer::Word(bits) | Answer::Swapped(bits)) => Ok(W::from_bits(*bits)),
            _ => unreachable!("a run takes the steps of the one before"),
        }
    }
}
