//! Pushes and pops of a queue's slots, by loads and stores or by operations on global pointers.

mod operations;

use std::panic::Location;
use std::sync::atomic::AtomicU64;

use pgas_core::rma::{Block, Counted, Near};
use pgas_core::stats::Operation;
use pgas_core::{Error as CoreError, GlobalPtr, Result as CoreResult, World, part_of_at};
use pgas_lockfree::memory::Memory as _;
use pgas_lockfree::word;

use super::ring::{Control, LocalRing, QueueBlock, Ring, index};
use super::ticket::{self, Seen, Side, Size, Tickets, Word, Words};
use crate::object::{Object, SlotOf};
use crate::wait::until;
use crate::{Error, Result};

/// The name of an operation, for reports of its waits.
pub(super) const WHOLE: &str = "an operation on a queue";

/// The marks of a queue.
#[derive(Clone, Copy)]
struct Marks<'a> {
    world: &'a World,
    place: QueueBlock,
    /// The bytes of a slot; the marks lie behind the slots.
    slot_bytes: usize,
    /// The line of the program.
    at: &'static Location<'static>,
}

/// A mark.
struct Mark;

impl Block for Mark {
    const BYTES: usize = 8;
    const ALIGN: usize = 8;
}

impl Marks<'_> {
    fn at(&self, slot: u64) -> GlobalPtr<u64> {
        self.place.marks(self.slot_bytes).add(index(slot))
    }

    /// The mark if operations are counted and it is near. One access to it is noted as a step of
    /// the operation.
    fn counted(&self, slot: u64) -> Option<Near<'_, Counted<Mark>>> {
        let near = self.at(slot).cast().near::<Counted<Mark>>(self.world)?;
        near.note_atomic(8);
        Some(near)
    }

    fn mark(&self, slot: u64) -> CoreResult<u64> {
        match self.counted(slot) {
            Some(near) => Ok(word::load(near.word64(0))),
            None => self.at(slot).atomic_load(self.world),
        }
    }

    fn wait(&self, ready: &mut dyn FnMut() -> CoreResult<bool>) -> CoreResult<()> {
        let _waits = part_of_at(WHOLE, self.at);
        let what = "an element of a queue that another rank works on";
        until(self.world, what, ready)
    }

    /// A fetching atomic, which is complete on return.
    fn set(&self, slot: u64, mark: u64) -> CoreResult<()> {
        if let Some(near) = self.counted(slot) {
            word::swap(near.word64(0), mark);
            return Ok(());
        }
        self.at(slot).swap(self.world, mark).map(drop)
    }

    fn clear(&self, slot: u64, mark: u64) -> CoreResult<()> {
        if let Some(near) = self.counted(slot) {
            word::compare_exchange(near.word64(0), mark, 0).ok();
            return Ok(());
        }
        let at = self.at(slot);
        at.compare_exchange(self.world, mark, 0).map(drop)
    }
}

/// The number of spins after one failed swap, and how often it is doubled after further ones.
const SPINS: u32 = 8;
const MOST_DOUBLINGS: u32 = 3;

/// The words of a queue that this process loads and stores directly, in a block of type `C`.
struct LocalWords<'a, C> {
    control: Near<'a, C>,
    size: Size,
    marks: Marks<'a>,
}

impl<C: Block> LocalWords<'_, C> {
    /// The word, to which one access is noted.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "an address")]
    fn word(&self, word: Word) -> &AtomicU64 {
        self.control.note_atomic(8);
        self.control.word64(Control::offset(word))
    }
}

impl<C: Block> Words for LocalWords<'_, C> {
    type Error = CoreError;

    #[inline(always)]
    fn size(&self) -> Size {
        self.size
    }

    #[inline(always)]
    fn load(&self, word: Word) -> CoreResult<u64> {
        Ok(word::load(self.word(word)))
    }

    #[inline(always)]
    fn swap(&self, word: Word, current: u64, new: u64) -> CoreResult<Result<(), u64>> {
        let swapped = word::compare_exchange(self.word(word), current, new);
        Ok(swapped.map(|_| ()))
    }

    #[inline(always)]
    fn advance(&self, word: Word, from: u64, to: u64) -> CoreResult<bool> {
        Ok(ticket::advance(self.word(word), from, to))
    }

    /// Spins for some hundred nanoseconds, in which the faster rank continues with the cache lines
    /// that it has. Taken in turn, each line would move from one core to the other for every
    /// element.
    #[cold]
    fn give_way(&self, n_late: u32) {
        for _ in 0..SPINS << n_late.min(MOST_DOUBLINGS) {
            std::hint::spin_loop();
        }
    }

    fn mark(&self, slot: u64) -> CoreResult<u64> {
        self.marks.mark(slot)
    }

    fn set_mark(&self, slot: u64, mark: u64) -> CoreResult<()> {
        self.marks.set(slot, mark)
    }

    fn clear_mark(&self, slot: u64, mark: u64) -> CoreResult<()> {
        self.marks.clear(slot, mark)
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> CoreResult<bool>) -> CoreResult<()> {
        self.marks.wait(ready)
    }
}

/// The words of a queue on any rank: every step is an operation on a global pointer, and is
/// counted.
struct RemoteWords<'a>(Marks<'a>);

impl Words for RemoteWords<'_> {
    type Error = CoreError;

    fn size(&self) -> Size {
        self.0.place.size
    }

    fn load(&self, word: Word) -> CoreResult<u64> {
        self.0.place.word(word).atomic_load(self.0.world)
    }

    fn swap(&self, word: Word, current: u64, new: u64) -> CoreResult<Result<(), u64>> {
        let at = self.0.place.word(word);
        let swapped = at.compare_exchange(self.0.world, current, new)?;
        Ok(swapped.map(|_| ()))
    }

    fn advance(&self, word: Word, from: u64, to: u64) -> CoreResult<bool> {
        // The element was flushed, or has been read.
        Ok(self.swap(word, from, to)?.is_ok())
    }

    fn mark(&self, slot: u64) -> CoreResult<u64> {
        self.0.mark(slot)
    }

    fn set_mark(&self, slot: u64, mark: u64) -> CoreResult<()> {
        self.0.set(slot, mark)
    }

    fn clear_mark(&self, slot: u64, mark: u64) -> CoreResult<()> {
        self.0.clear(slot, mark)
    }

    /// Nothing: a swap over a network takes long enough.
    fn give_way(&self, _: u32) {}

    fn wait_until(&self, ready: &mut dyn FnMut() -> CoreResult<bool>) -> CoreResult<()> {
        self.0.wait(ready)
    }
}

/// A request for tickets.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    side: Side,
    /// The minimum and maximum number of tickets.
    n: (u64, u64),
    /// Whether the other side may be at work. If not, the end of the phase completes the work.
    meet: bool,
    /// The line of the program.
    at: &'static Location<'static>,
    /// Called with the number of tickets before they are taken; after an error none are.
    reserve: Option<&'a dyn Fn(u64) -> Result<()>>,
}

impl<'a> Request<'a> {
    #[track_caller]
    pub(crate) fn push(n: usize, meet: bool) -> Self {
        let (side, n) = (Side::Push, n as u64);
        Self {
            side,
            n: (n, n),
            meet,
            at: Location::caller(),
            reserve: None,
        }
    }

    #[track_caller]
    pub(crate) fn pop(most: usize, meet: bool) -> Self {
        Self {
            side: Side::Pop,
            n: (1, most as u64),
            meet,
            at: Location::caller(),
            reserve: None,
        }
    }

    /// The same for a call at this line of the program.
    fn at(self, at: &'static Location<'static>) -> Self {
        Self { at, ..self }
    }

    /// The same for a call that needs what `reserve` provides.
    pub(super) fn reserving(self, reserve: &'a dyn Fn(u64) -> Result<()>) -> Self {
        let reserve = Some(reserve);
        Self { reserve, ..self }
    }

    pub(super) fn side(self) -> Side {
        self.side
    }
}

/// An operation in the statistics, in phases of one side and where both sides meet.
type Rows = [&'static Operation; 2];

/// Access to the block of one queue.
#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    pub(crate) world: &'a World,
    pub(crate) place: QueueBlock,
    pub(crate) slot_bytes: usize,
}

impl Access<'_> {
    /// Takes tickets, works on their slots and completes them. Returns their number.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of push and pop")]
    pub(crate) fn perform(
        self,
        seen: &mut Seen,
        request: Request<'_>,
        work: impl FnOnce(Tickets) -> Result<()>,
    ) -> Result<Option<u64>> {
        if let Some(control) = self.place.block.near::<Control>(self.world) {
            let words = LocalWords {
                control,
                size: self.place.size,
                marks: self.marks(request.at),
            };
            return perform_on(self.world, &words, seen, request, work);
        }
        self.perform_elsewhere(seen, request, work)
    }

    #[inline(never)]
    fn perform_elsewhere(
        self,
        seen: &mut Seen,
        request: Request<'_>,
        work: impl FnOnce(Tickets) -> Result<()>,
    ) -> Result<Option<u64>> {
        if let Some(control) = self.place.block.near::<Counted<Control>>(self.world) {
            let words = LocalWords {
                control,
                size: self.place.size,
                marks: self.marks(request.at),
            };
            let perform = || perform_on(self.world, &words, seen, request, work);
            return self.world.count_steps(perform);
        }
        self.perform_remote(seen, request, work)
    }

    #[inline(never)]
    fn perform_remote(
        self,
        seen: &mut Seen,
        request: Request<'_>,
        work: impl FnOnce(Tickets) -> Result<()>,
    ) -> Result<Option<u64>> {
        let _waits = part_of_at(WHOLE, request.at);
        let words = RemoteWords(self.marks(request.at));
        let flushed = |tickets| {
            work(tickets)?;
            if request.side == Side::Push && request.meet {
                self.world.flush(self.place.block.rank())?;
            }
            Ok(())
        };
        perform_on(self.world, &words, seen, request, flushed)
    }
}

impl<'a> Access<'a> {
    #[inline(always)]
    fn marks(self, at: &'static Location<'static>) -> Marks<'a> {
        Marks {
            at,
            world: self.world,
            place: self.place,
            slot_bytes: self.slot_bytes,
        }
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "all of push and pop")]
fn perform_on(
    world: &World,
    words: &impl Words<Error = CoreError>,
    seen: &mut Seen,
    request: Request<'_>,
    work: impl FnOnce(Tickets) -> Result<()>,
) -> Result<Option<u64>> {
    let Request { side, n, meet, .. } = request;
    let reserve = |n| request.reserve.map_or(Ok(()), |reserve| reserve(n));
    let Some(tickets) = ticket::take(words, side, seen, n, meet, reserve)? else {
        return Ok(None);
    };
    work(tickets).map_err(|error| give_up(world, error))?;
    if meet {
        ticket::finish(words, side, tickets).map_err(|error| give_up(world, error))?;
    }
    Ok(Some(tickets.n))
}

/// Reports an error of work on taken tickets. Tickets are never given back, so other ranks would
/// wait for the work for ever, or read slots without an element. For this reason elements are
/// encoded before, and decoded after, the work on their tickets.
#[cold]
fn give_up(world: &World, error: Error) -> Error {
    crate::error::give_up(world, "work on elements of a queue", error)
}

impl<T: Object> Ring<T> {
    /// As [`Access::perform`], with what this rank has seen.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of push and pop")]
    pub(super) fn perform(
        &self,
        request: Request<'_>,
        work: impl FnOnce(&Self, Tickets) -> Result<()>,
    ) -> Result<Option<u64>> {
        let access = self.access();
        let mut seen = self.seen(request.side);
        let work = |tickets| work(self, tickets);
        let done = match &self.local {
            Some(local) => {
                let words = self.local_words(local, request.at);
                perform_on(self.world(), &words, &mut seen, request, work)
            }
            None => self.perform_out_of_line(access, &mut seen, request, work),
        };
        self.set_seen(request.side, seen);
        done
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few copies")]
    fn access(&self) -> Access<'_> {
        Access {
            world: self.world(),
            place: self.place,
            slot_bytes: size_of::<SlotOf<T>>(),
        }
    }

    #[inline(never)]
    fn perform_out_of_line(
        &self,
        access: Access<'_>,
        seen: &mut Seen,
        request: Request<'_>,
        work: impl FnOnce(Tickets) -> Result<()>,
    ) -> Result<Option<u64>> {
        let Some(local) = &self.counted else {
            return access.perform_remote(seen, request, work);
        };
        let words = self.local_words(local, request.at);
        perform_on(self.world(), &words, seen, request, work)
    }

    /// Clears the marks of a phase, at whose end no ticket is worked on. One that is left would be
    /// right again for the ticket 2^31 laps later.
    pub(super) fn clear_marks(&self) -> Result<()> {
        let words = RemoteWords(self.access().marks(Location::caller()));
        ticket::move_over_marks(&words, Side::Push)?;
        ticket::move_over_marks(&words, Side::Pop)?;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn marks(&self, world: &World) -> Vec<u64> {
        let marks = self.place.marks(size_of::<SlotOf<T>>());
        let n = index(self.place.size.n_slots());
        marks.get_vec(world, n).expect("local memory")
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few copies")]
    fn local_words<'a, C: Block, B>(
        &'a self,
        local: &'a LocalRing<C, B>,
        at: &'static Location<'static>,
    ) -> LocalWords<'a, C> {
        LocalWords {
            control: local.control.block(0, 0),
            size: self.place.size,
            marks: self.access().marks(at),
        }
    }

    /// Works on the next ticket's slot. It needs direct access, known room in the queue, and no
    /// faster rank. Otherwise it does nothing, and returns the arguments for
    /// [`perform`](Self::perform).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of push and pop")]
    #[track_caller]
    fn perform_next<C: Block, B: Block, R>(
        &self,
        local: Option<&LocalRing<C, B>>,
        side: Side,
        meet: bool,
        work: impl FnOnce(&LocalRing<C, B>, usize) -> R,
    ) -> Result<Option<R>> {
        let Some(local) = local else {
            return Ok(None);
        };
        let words = self.local_words(local, Location::caller());
        let taken = ticket::take_next(&words, side, self.seen(side))?;
        let ticket = match taken {
            Ok(ticket) => ticket,
            Err(now) => {
                self.set_taken(side, now);
                return Ok(None);
            }
        };
        self.set_taken(side, ticket.wrapping_add(1));
        let slot = index(self.place.size.slot(ticket));
        let done = work(local, slot);
        if meet && !words.advance(side.done(), ticket, ticket.wrapping_add(1))? {
            self.finish_early(local, side, ticket)?;
        }
        Ok(Some(done))
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn finish_early<C: Block, B>(
        &self,
        local: &LocalRing<C, B>,
        side: Side,
        ticket: u64,
    ) -> Result<()> {
        let tickets = Tickets {
            first: ticket,
            n: 1,
        };
        let words = self.local_words(local, Location::caller());
        ticket::finish_early(&words, side, tickets)
    }
}
