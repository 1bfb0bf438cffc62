//! The table of pending answers: slots that messages name by number and generation.
//!
//! A slot is taken when a call is sent, filled when its answer arrives, and given back when the
//! answer was taken or nobody wants it any more. Nothing of this allocates once the table has grown
//! to the number of calls in flight, and no lock is taken for an answer of up to 32 bytes that
//! nobody watches.
//!
//! ```text
//!            answer                      taken
//! Waiting ------------> Done ------------------------> Free
//!    |  \                ^
//!    |   \ watch         | answer: the watcher is called
//!    |    v              |
//!    |    Watched -------+
//!    | drop    | drop
//!    v         v        answer
//!    Abandoned ----------------------------------------> Free
//! ```
//!
//! A rank that has left answers nothing. Now and then the table is searched for slots whose calls
//! went to such a rank. Tasks that await them are woken, so that they give the slots up. Callbacks
//! run with the outcome [`Left`](Outcome::Left). Slots of abandoned calls become free.

#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::sync::{OnceLock, PoisonError};
use std::task::Waker;

use crate::sync::{
    AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard,
    Ordering::{Acquire, Relaxed, Release},
};

/// Slots of the first chunk; each further one has twice as many.
const FIRST_CHUNK: u32 = if cfg!(loom) { 2 } else { 64 };
const N_CHUNKS: usize = 24;
const INLINE_WORDS: usize = 4;
/// Ends the list of free slots.
const NONE: u32 = u32::MAX;

const FREE: u32 = 0;
const WAITING: u32 = 1;
const WATCHED: u32 = 2;
const DONE: u32 = 3;
const ABANDONED: u32 = 4;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a result.
    Returned,
    /// With a panic or an error, described by the bytes.
    Failed,
    /// Its rank left the job before it answered.
    Left,
    /// This rank left the job before the answer came.
    Ended,
}

/// The action on an answer.
pub enum Watcher {
    /// Wakes the task that awaits it.
    Wake(Waker),
    /// Runs a callback with the answer, after the slot was freed.
    Call(Callback),
}

/// An action that gets an answer.
pub type Callback = Box<dyn FnOnce(Outcome, &[u8]) + Send>;

#[derive(Default)]
struct Slot {
    state: AtomicU32,
    generation: AtomicU32,
    next_free: AtomicU32,
    /// The rank that was called.
    target: AtomicU32,
    /// The length of the answer, with the outcome in the top bit.
    len: AtomicU32,
    short: [AtomicU64; INLINE_WORDS],
    /// An answer that is longer, as `len` says: a free slot holds none.
    long: Mutex<Vec<u8>>,
    watcher: Mutex<Option<Watcher>>,
}

const FAILED_BIT: u32 = 1 << 31;

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Wake(_) => "Wake",
            Self::Call(_) => "Call",
        })
    }
}

/// The table of one rank.
pub struct Pending {
    chunks: [OnceLock<Box<[Slot]>>; N_CHUNKS],
    /// The first free slot. The upper half counts slots given back, so that an exchange fails if a
    /// slot was taken and given back since the head was read.
    free: AtomicU64,
    /// Slots that were ever taken.
    n_slots: AtomicU32,
    /// The slot where the next search for ranks that have left begins.
    next_search: AtomicU32,
    /// Whether such a search has found one, or this rank has left.
    has_left: AtomicBool,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pending({} slots)", self.n_slots.load(Relaxed))
    }
}

/// A slot and its generation, which together name one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie(pub u64);

impl Cookie {
    /// No slot.
    pub const NONE: Self = Self(u64::MAX);

    fn new(index: u32, generation: u32) -> Self {
        Self(u64::from(generation) << u32::BITS | u64::from(index))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    fn parts(self) -> (u32, u32) {
        (self.0 as u32, (self.0 >> u32::BITS) as u32)
    }
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; N_CHUNKS],
            free: AtomicU64::new(u64::from(NONE)),
            n_slots: AtomicU32::new(0),
            next_search: AtomicU32::new(0),
            has_left: AtomicBool::new(false),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pending {
    /// The chunk of a slot, and its index there.
    fn place(index: u32) -> (usize, usize) {
        let from_first = index / FIRST_CHUNK + 1;
        let chunk = from_first.ilog2();
        let start = ((1 << chunk) - 1) * FIRST_CHUNK;
        (chunk as usize, (index - start) as usize)
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot> {
        let (chunk, place) = Self::place(index);
        self.chunks.get(chunk)?.get()?.get(place)
    }

    fn known(&self, index: u32) -> &Slot {
        self.slot(index)
            .expect("a slot that was taken exists for ever")
    }

    /// Takes a slot for the answer of `target`.
    #[inline]
    pub fn take_slot(&self, target: u32) -> Cookie {
        let index = self.pop_free().unwrap_or_else(|| self.new_slot());
        let slot = self.known(index);
        // Relaxed: the message that carries the cookie is sent after this, by this thread.
        slot.target.store(target, Relaxed);
        slot.state.store(WAITING, Relaxed);
        Cookie::new(index, slot.generation.load(Relaxed))
    }

    #[inline]
    fn pop_free(&self) -> Option<u32> {
        // Acquire: pairs with the release in `give_back`, so that `next_free` is the one written
        // there.
        let mut head = self.free.load(Acquire);
        loop {
            let (index, tag) = Cookie(head).parts();
            if index == NONE {
                return None;
            }
            let next = self.known(index).next_free.load(Relaxed);
            // The tag tells this head from later ones: a taken slot comes back by `give_back`
            // alone.
            let new = Cookie::new(next, tag).0;
            // Relaxed where it succeeds: this very head was acquired when it was read.
            match self.free.compare_exchange_weak(head, new, Relaxed, Acquire) {
                Ok(_) => return Some(index),
                Err(newer) => head = newer,
            }
        }
    }

    #[cold]
    fn new_slot(&self) -> u32 {
        let index = self.n_slots.fetch_add(1, Relaxed);
        let (chunk, _) = Self::place(index);
        self.chunks[chunk].get_or_init(|| {
            (0..FIRST_CHUNK << chunk)
                .map(|_| Slot::default())
                .collect::<Box<[Slot]>>()
        });
        index
    }

    fn give_back(&self, index: u32) {
        let slot = self.known(index);
        // Relaxed: who gives back a slot with an answer has stored or acquired that.
        if length(slot.len.load(Relaxed)) > INLINE_WORDS * 8 {
            drop(take_long(slot));
        }
        // Relaxed: the thread that takes the slot next has acquired the exchange below.
        slot.state.store(FREE, Relaxed);
        slot.generation.fetch_add(1, Relaxed);
        let mut head = self.free.load(Relaxed);
        loop {
            let (first, tag) = Cookie(head).parts();
            slot.next_free.store(first, Relaxed);
            let new = Cookie::new(index, tag.wrapping_add(1)).0;
            // Release: pairs with the acquire in `pop_free`.
            match self.free.compare_exchange_weak(head, new, Release, Relaxed) {
                Ok(_) => return,
                Err(newer) => head = newer,
            }
        }
    }

    /// Gives back the slot of an abandoned call, unless somebody else does.
    fn give_back_abandoned(&self, index: u32) {
        let state = &self.known(index).state;
        // Relaxed: an abandoned call has no answer yet.
        if state
            .compare_exchange(ABANDONED, FREE, Relaxed, Relaxed)
            .is_ok()
        {
            self.give_back(index);
        }
    }

    /// Gives back a slot whose call was not sent.
    pub fn cancel(&self, cookie: Cookie) {
        self.give_back(cookie.parts().0);
    }

    /// Stores an answer; `false` if nothing waits for one by this name.
    #[inline]
    pub fn complete(&self, Cookie(bits): Cookie, outcome: Outcome, answer: &[u8]) -> bool {
        let (index, generation) = Cookie(bits).parts();
        let Some(slot) = self.slot(index) else {
            return false;
        };
        if slot.generation.load(Relaxed) != generation {
            return false;
        }
        // Relaxed: the call was sent when the slot waited, and what else is read of the slot is
        // read under its lock.
        match slot.state.load(Relaxed) {
            FREE | DONE => return false,
            ABANDONED => {
                self.give_back_abandoned(index);
                return true;
            }
            WATCHED => {
                self.complete_watched(index, outcome, answer);
                return true;
            }
            _ => {}
        }
        store(slot, outcome, answer);
        // Release: a thread that sees the state sees the answer. Relaxed where it fails: a watcher
        // is taken under the lock.
        match slot.state.compare_exchange(WAITING, DONE, Release, Relaxed) {
            Ok(_) => {}
            // It was dropped meanwhile.
            Err(ABANDONED) => self.give_back_abandoned(index),
            Err(_) => self.complete_watched(index, outcome, answer),
        }
        true
    }

    fn complete_watched(&self, index: u32, outcome: Outcome, answer: &[u8]) {
        let slot = self.known(index);
        // Under the lock, so that no other watcher is set between the two steps.
        let mut place = lock(&slot.watcher);
        let watcher = place.take();
        // A callback gets the answer itself.
        if !matches!(watcher, Some(Watcher::Call(_))) {
            store(slot, outcome, answer);
        }
        // Release: as above. A thread that abandons a watched slot holds the lock, too, so exactly
        // one of the two gives the slot back.
        let former = slot.state.swap(DONE, Release);
        drop(place);
        match watcher {
            _ if former == ABANDONED => self.give_back(index),
            Some(Watcher::Wake(waker)) => waker.wake(),
            Some(Watcher::Call(call)) => {
                self.give_back(index);
                call(outcome, answer);
            }
            None => {}
        }
    }

    /// Whether the answer is there.
    #[inline]
    pub fn is_done(&self, cookie: Cookie) -> bool {
        // Acquire: pairs with the exchanges in `complete`; the answer is visible then.
        self.known(cookie.parts().0).state.load(Acquire) == DONE
    }

    /// Takes the answer, which is there, and gives the slot back.
    #[inline]
    pub fn take<R>(&self, cookie: Cookie, read: impl FnOnce(Outcome, &[u8]) -> R) -> R {
        let (index, _) = cookie.parts();
        let slot = self.known(index);
        let marked = slot.len.load(Relaxed);
        let len = length(marked);
        let outcome = if marked & FAILED_BIT == 0 {
            Outcome::Returned
        } else {
            Outcome::Failed
        };
        if len <= INLINE_WORDS * 8 {
            let mut bytes = [0; INLINE_WORDS * 8];
            for (chunk, word) in bytes.chunks_exact_mut(8).zip(&slot.short) {
                chunk.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
            }
            self.give_back(index);
            read(outcome, &bytes[..len])
        } else {
            let bytes = take_long(slot);
            self.give_back(index);
            read(outcome, &bytes)
        }
    }

    /// Calls `watcher` when the answer comes. Returns `watcher` if the answer is there already.
    pub fn watch(&self, cookie: Cookie, watcher: Watcher) -> Option<Watcher> {
        let slot = self.known(cookie.parts().0);
        let mut place = lock(&slot.watcher);
        let former = place.replace(watcher);
        // Relaxed where it succeeds: the thread that completes the call then takes the lock.
        // Acquire where it fails: pairs with the release in `complete`, since the caller takes the
        // answer.
        let given_back = match slot
            .state
            .compare_exchange(WAITING, WATCHED, Relaxed, Acquire)
        {
            Ok(_) | Err(WATCHED) => None,
            Err(_) => place.take(),
        };
        // The drop of a watcher may run any code.
        drop(place);
        drop(former);
        given_back
    }

    /// Abandons the call: the answer is not needed any more.
    pub fn abandon(&self, cookie: Cookie) {
        let (index, _) = cookie.parts();
        let slot = self.known(index);
        // Either this exchange or one in `complete` gives the slot back. Acquire where it fails:
        // pairs with the release there, so that the next answer is written after the present one.
        // Release where it succeeds: pairs with the acquire in `forget_departed`.
        match slot
            .state
            .compare_exchange(WAITING, ABANDONED, Release, Acquire)
        {
            Ok(_) => {}
            Err(DONE) => self.give_back(index),
            Err(_) => self.abandon_watched(index),
        }
    }

    #[cold]
    fn abandon_watched(&self, index: u32) {
        let slot = self.known(index);
        let mut place = lock(&slot.watcher);
        // Before the slot may be given back: after that a watcher belongs to another call.
        let watcher = place.take();
        // Relaxed: the thread that completes a watched call holds the lock, too, as does one that
        // searches. An exchange, since a slot with an answer must not look abandoned to that.
        let exchanged = slot
            .state
            .compare_exchange(WATCHED, ABANDONED, Relaxed, Relaxed);
        drop(place);
        // The drop may run any code.
        drop(watcher);
        if exchanged == Err(DONE) {
            self.give_back(index);
        }
    }

    /// Gives back the slot of a call whose rank has left: nothing can answer it any more.
    #[cold]
    pub fn give_up(&self, cookie: Cookie) {
        let (index, _) = cookie.parts();
        let watcher = lock(&self.known(index).watcher).take();
        self.give_back(index);
        drop(watcher);
    }

    /// Whether a search has found a call whose rank has left, or this rank has.
    #[inline]
    pub fn has_left(&self) -> bool {
        // Relaxed: a caller that sees it asks about its own rank.
        self.has_left.load(Relaxed)
    }

    /// Searches the next `n` slots for calls whose rank `has_left`. Wakes the tasks that await
    /// them, and passes callbacks to `run`, with the outcome [`Left`](Outcome::Left). Frees the
    /// slots of abandoned ones.
    ///
    /// Returns whether a callback was run, or a call was found for the first time, so that
    /// [`has_left`](Self::has_left) says so from now on.
    pub fn search_departed(
        &self,
        n: u32,
        mut has_left: impl FnMut(u32) -> bool,
        mut run: impl FnMut(Callback),
    ) -> bool {
        let mut has_found = false;
        let n_slots = self.n_slots.load(Relaxed);
        let first = self.next_search.load(Relaxed);
        if n_slots > 0 {
            // Before it wakes tasks and runs callbacks, which may panic: the next search goes on.
            // Threads that search at the same time may search the same slots.
            self.next_search
                .store(first.wrapping_add(n) % n_slots, Relaxed);
        }
        let mut known = None;
        for i in 0..n.min(n_slots) {
            let index = first.wrapping_add(i) % n_slots;
            // Another thread may be about to allocate its chunk.
            let Some(slot) = self.slot(index) else {
                continue;
            };
            // Relaxed, as the target: the check under the lock is certain.
            let state = slot.state.load(Relaxed);
            if !matches!(state, WAITING | WATCHED | ABANDONED) {
                continue;
            }
            let target = slot.target.load(Relaxed);
            let is_gone = match known {
                Some((rank, is_gone)) if rank == target => is_gone,
                _ => has_left(target),
            };
            known = Some((target, is_gone));
            if !is_gone {
                continue;
            }
            if state == ABANDONED {
                self.forget_departed(index, target);
                continue;
            }
            has_found |= !self.has_left.load(Relaxed);
            self.has_left.store(true, Relaxed);
            self.tell_watcher(index, target, &mut |call| {
                has_found = true;
                run(call);
            });
        }
        has_found
    }

    /// Frees the slot of an abandoned call to `target`, which has left.
    #[cold]
    fn forget_departed(&self, index: u32, target: u32) {
        let slot = self.known(index);
        // Nobody else gives the slot back but a search, which takes the lock, too. So under the
        // lock the slot of a call to `target` stays what it is.
        let _searching = lock(&slot.watcher);
        // Acquire: pairs with the release in `abandon`, so that the target is that of the call that
        // was abandoned, which may be a later one than that seen before.
        if slot.state.load(Acquire) == ABANDONED && slot.target.load(Relaxed) == target {
            self.give_back_abandoned(index);
        }
    }

    #[cold]
    fn tell_watcher(&self, index: u32, target: u32, run: &mut impl FnMut(Callback)) {
        let slot = self.known(index);
        let mut place = lock(&slot.watcher);
        match &*place {
            // If the slot belongs to another call by now, its owner is woken once in vain.
            Some(Watcher::Wake(waker)) => {
                let waker = waker.clone();
                drop(place);
                waker.wake();
            }
            // The callback of an unanswered call is still here, and nobody else gives its slot
            // back. Under the lock the target is that of the same call.
            Some(Watcher::Call(_)) if slot.target.load(Relaxed) == target => {
                let watcher = place.take();
                drop(place);
                self.give_back(index);
                if let Some(Watcher::Call(call)) = watcher {
                    run(call);
                }
            }
            _ => {}
        }
    }

    /// The ranks that have not answered yet, for the report of a long wait.
    #[cold]
    #[must_use]
    pub fn awaited(&self) -> Vec<u32> {
        let slots = (0..self.n_slots.load(Relaxed)).filter_map(|index| self.slot(index));
        let waiting = slots.filter(|slot| {
            let state = slot.state.load(Relaxed);
            matches!(state, WAITING | WATCHED | ABANDONED)
        });
        let mut ranks: Vec<_> = waiting.map(|slot| slot.target.load(Relaxed)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The wakers of all tasks that await an answer.
    #[must_use]
    pub fn wakers(&self) -> Vec<Waker> {
        let slots = (0..self.n_slots.load(Relaxed)).filter_map(|index| self.slot(index));
        let wakers = slots.filter_map(|slot| match &*lock(&slot.watcher) {
            Some(Watcher::Wake(waker)) => Some(waker.clone()),
            _ => None,
        });
        wakers.collect()
    }

    /// Passes the watchers of all calls to `end`, for a rank that has left and takes no answer any
    /// more. If `end` panics, the next call goes on. The slots stay taken, since an answer may be on
    /// its way into one.
    #[cold]
    pub fn take_watchers(&self, mut end: impl FnMut(Watcher)) {
        let slots = (0..self.n_slots.load(Relaxed)).filter_map(|index| self.slot(index));
        for slot in slots {
            let watcher = lock(&slot.watcher).take();
            // Not under the lock: it may run any code, which may come here again.
            watcher.into_iter().for_each(&mut end);
        }
    }

    /// Drops the watchers of all calls, for a rank that leaves and takes no answer any more.
    #[cold]
    pub fn forget_watchers(&self) {
        let mut watchers = Vec::new();
        self.take_watchers(|watcher| watchers.push(watcher));
        // The drop of a watcher may run any code, which may come here again.
        drop(watchers);
    }

    /// This rank has left: from now on [`has_left`](Self::has_left) says so.
    #[cold]
    pub fn end(&self) {
        self.has_left.store(true, Relaxed);
    }

    /// Slots that wait for an answer, for reports.
    #[must_use]
    pub fn n_taken(&self) -> usize {
        let n_slots = self.n_slots.load(Relaxed);
        (0..n_slots)
            .filter(|index| self.known(*index).state.load(Relaxed) != FREE)
            .count()
    }
}

/// The length of an answer, of which `marked` has the outcome in the top bit.
#[inline]
fn length(marked: u32) -> usize {
    (marked & !FAILED_BIT) as usize
}

/// Takes the answer out of the slot, which has a long one.
#[cold]
fn take_long(slot: &Slot) -> Vec<u8> {
    slot.len.store(0, Relaxed);
    std::mem::take(&mut *lock(&slot.long))
}

#[inline]
fn store(slot: &Slot, outcome: Outcome, answer: &[u8]) {
    let mark = if outcome == Outcome::Failed {
        FAILED_BIT
    } else {
        0
    };
    let len = u32::try_from(answer.len()).expect("a message is shorter than 2^24 bytes");
    slot.len.store(len | mark, Relaxed);
    if answer.len() > INLINE_WORDS * 8 {
        *lock(&slot.long) = answer.to_vec();
        return;
    }
    let mut bytes = [0; INLINE_WORDS * 8];
    bytes[..answer.len()].copy_from_slice(answer);
    for (word, chunk) in slot.short.iter().zip(bytes.as_chunks::<8>().0) {
        word.store(u64::from_ne_bytes(*chunk), Relaxed);
    }
}
