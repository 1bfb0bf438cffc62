//! The global memory behind slots whose values are longer than a slot.
//!
//! A block belongs to the rank that wrote it, which alone allocates and frees it. Where a rank
//! carries out a request of another one, it writes the block itself. A rank that takes
//! the value out of the container releases the block by a push onto a list in its owner's segment.
//! The owner takes the whole list when it next needs memory. So no rank ever takes a single block
//! from the list, and an old head of the list cannot be mistaken for a new one.
//!
//! No reader uses a released block. An element of a queue has one reader, which releases it. A
//! container that overwrites values checks the slot's version again after it has read a block, and
//! uses the bytes only if the version is the same.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use pgas_am::RemoteCalls as _;
use pgas_core::{Error, GlobalPtr, Rank, Result, Spare, Symmetric, Team, World, in_handler};

use crate::replay::Record;

/// The next block of the list, and the length that the block was made for.
type Header = [u64; 2];

/// The name of waits, and of failures.
const RELEASE: &str = "the release of a value's memory";

/// The smallest block, with its header.
const SMALLEST: usize = 64;

/// The global memory of one container's long values; empty for types that have none. Or the same
/// memory, as an operation in flight uses it. Or a parcel: the long values of a message, with
/// offsets for pointers.
pub struct Heap {
    place: Place,
}

enum Place {
    Nowhere,
    Global(Arc<Shared>),
    Replayed(Arc<Heap>, Arc<Record>),
    Parcel(Mutex<Vec<u8>>),
}

struct Shared {
    /// The heads of the lists of blocks that were given back: the bits of a pointer, one for each
    /// rank.
    returned: Symmetric<u64>,
    mine: Mutex<Blocks>,
}

/// This rank's own blocks.
#[derive(Default)]
struct Blocks {
    /// Free blocks, by the power of two that is their size.
    free: BTreeMap<usize, Vec<GlobalPtr<u64>>>,
    /// All of them.
    all: Vec<GlobalPtr<u8>>,
    /// Blocks of other ranks that handlers could not release.
    late: Vec<(GlobalPtr<u8>, usize)>,
    /// Whether a task releases them. One at a time: several would only get in each other's way.
    have_task: bool,
}

impl Heap {
    /// A heap, which is empty if none is needed.
    ///
    /// # Cost
    ///
    /// Nothing for plain types, B + 2 allreduces for others. Collective over the team.
    #[track_caller]
    pub(crate) fn new(team: &Team, is_needed: bool) -> Result<Self> {
        if !is_needed {
            let place = Place::Nowhere;
            return Ok(Self { place });
        }
        let shared = Arc::new(Shared {
            returned: team.alloc_symmetric(1)?,
            mine: Mutex::default(),
        });
        let spare: Weak<Shared> = Arc::downgrade(&shared);
        team.world().on_exhausted(spare);
        let place = Place::Global(shared);
        Ok(Self { place })
    }

    /// A parcel of these bytes. It takes long values of any type.
    pub(crate) fn parcel(bytes: Vec<u8>) -> Self {
        let place = Place::Parcel(Mutex::new(bytes));
        Self { place }
    }

    /// The memory of `heap` for an operation in flight: each use is a step in its record.
    pub(crate) fn replayed(heap: &Arc<Self>, record: &Arc<Record>) -> Self {
        let place = Place::Replayed(Arc::clone(heap), Arc::clone(record));
        Self { place }
    }

    /// The record of the operation in flight that uses this heap.
    #[inline]
    pub(crate) fn record(&self) -> Option<&Record> {
        match &self.place {
            Place::Replayed(_, record) => Some(record),
            _ => None,
        }
    }

    /// Releases what an operation in flight has stored, if it has not come to a change of memory,
    /// and will not go on.
    pub(crate) fn release_unused(&self) {
        let Place::Replayed(heap, record) = &self.place else {
            return;
        };
        for (at, len) in record.take_unused() {
            if let Err(error) = heap.release_now(at, len) {
                self.give_up(error);
            }
        }
    }

    /// What a parcel holds.
    pub(crate) fn packed(&mut self) -> &mut Vec<u8> {
        match &mut self.place {
            Place::Parcel(bytes) => bytes.get_mut().unwrap_or_else(PoisonError::into_inner),
            _ => unreachable!("this heap is no parcel"),
        }
    }

    /// The number of bytes that a parcel holds.
    pub(crate) fn n_packed(&self) -> usize {
        self.as_parcel().map_or(0, |packed| packed.len())
    }

    /// Takes the end of a parcel away, behind `len` bytes.
    pub(crate) fn shorten(&self, len: usize) {
        if let Some(mut packed) = self.as_parcel() {
            packed.truncate(len);
        }
    }

    /// The same as [`packed`](Self::packed), if this is a parcel.
    fn as_parcel(&self) -> Option<MutexGuard<'_, Vec<u8>>> {
        match &self.place {
            // It is only appended to, so a panic elsewhere leaves it valid.
            Place::Parcel(bytes) => Some(bytes.lock().unwrap_or_else(PoisonError::into_inner)),
            _ => None,
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        match &self.place {
            Place::Global(shared) => shared,
            Place::Replayed(heap, _) => heap.shared(),
            Place::Nowhere | Place::Parcel(_) => {
                unreachable!("types with long values have a heap")
            }
        }
    }

    /// Copies `bytes` into a block of this rank, or into the parcel; complete on return.
    pub(super) fn store(&self, bytes: &[u8]) -> Result<GlobalPtr<u8>> {
        if let Some(mut packed) = self.as_parcel() {
            let at = packed.len() as u64;
            packed.extend_from_slice(bytes);
            return Ok(GlobalPtr::from_bits(at));
        }
        if let Place::Replayed(heap, record) = &self.place {
            let stored = record.once(|| {
                let at = heap.store(bytes)?;
                record.note_stored((at, bytes.len()));
                Ok(at.to_bits())
            });
            let stored = stored.unwrap_or(Err(Record::SUSPENDED));
            return stored.map(GlobalPtr::from_bits);
        }
        let shared = self.shared();
        let world = shared.returned.world();
        self.release_late();
        let block = shared.allocate(bytes.len())?;
        let at = block.byte_add(size_of::<Header>() as u64).cast();
        at.put_slice(world, bytes)?;
        // The slot that will point here may be published on another rank.
        world.flush(world.rank())?;
        Ok(at)
    }

    pub(super) fn load(&self, at: GlobalPtr<u8>, len: usize) -> Result<Vec<u8>> {
        if let Some(packed) = self.as_parcel() {
            let at = usize::try_from(at.to_bits()).ok();
            let long = at.and_then(|at| packed.get(at..)?.get(..len));
            let lacks = || Error::codec::<[u8]>("reading a message", "a long value is not in it");
            return long.map(<[u8]>::to_vec).ok_or_else(lacks);
        }
        let world = self.shared().returned.world();
        if let Place::Replayed(_, record) = &self.place {
            let read = record.read(|| at.get_vec_nb(world, len), <[u8]>::to_vec);
            return read.map(|(_, bytes)| bytes);
        }
        if is_serving() && !is_reached(world, at.rank()) {
            let what = "a value on another rank";
            return Err(Error::InHandler { what });
        }
        at.get_vec(world, len)
    }

    /// Makes the error of a release that of the job.
    #[cold]
    pub(crate) fn give_up(&self, error: Error) {
        self.shared().give_up(error);
    }

    /// Releases the block with `len` bytes at `at`. A handler may not wait for another rank: what
    /// it cannot release without a wait is released by the next call outside of handlers, or by a
    /// task.
    pub(super) fn release(&self, at: GlobalPtr<u8>, len: usize) -> Result<()> {
        if self.as_parcel().is_some() {
            return Ok(());
        }
        if let Place::Replayed(heap, record) = &self.place {
            // A run that is suspended releases nothing: it has not come to this step.
            // The operation itself releases at its end what is kept for later.
            let released = record.once(|| {
                record.forget_stored((at, len));
                heap.release_or_keep(at, len).map(|_| 0)
            });
            return released.map_or(Ok(()), |released| released.map(drop));
        }
        if self.release_or_keep(at, len)? {
            self.shared().release_in_task();
        }
        Ok(())
    }

    /// As [`release`](Self::release). Returns whether the block is kept for later.
    fn release_or_keep(&self, at: GlobalPtr<u8>, len: usize) -> Result<bool> {
        self.release_late();
        let world = self.shared().returned.world();
        if in_handler() && !is_reached(world, at.rank()) {
            self.shared().blocks().late.push((at, len));
            return Ok(true);
        }
        self.release_now(at, len).map(|()| false)
    }

    /// The blocks that handlers could not release, for whoever can.
    pub(crate) fn take_late(&self) -> Vec<[u64; 2]> {
        let late = std::mem::take(&mut self.shared().blocks().late);
        let late = late.into_iter();
        late.map(|(at, len)| [at.to_bits(), len as u64]).collect()
    }

    /// Releases what another rank [could not](Self::take_late).
    pub(crate) fn release_for_other(&self, [at, len]: [u64; 2]) -> Result<()> {
        let len = usize::try_from(len).expect("a length of a rank of this job");
        self.release(GlobalPtr::from_bits(at), len)
    }

    /// As [`release_late`](Self::release_late), by steps that do not wait: for tasks, which cannot
    /// release blocks of other ranks, either.
    pub(crate) async fn release_late_nb(&self) {
        if let Place::Global(shared) = &self.place {
            shared.release_late_nb().await;
        }
    }

    /// Releases the blocks that handlers could not release.
    fn release_late(&self) {
        if in_handler() {
            return;
        }
        let late = std::mem::take(&mut self.shared().blocks().late);
        for (at, len) in late {
            if let Err(error) = self.release_now(at, len) {
                self.give_up(error);
            }
        }
    }

    fn release_now(&self, at: GlobalPtr<u8>, len: usize) -> Result<()> {
        let (shared, block) = (self.shared(), block_of(at));
        let world = shared.returned.world();
        if at.rank() == world.rank() {
            shared.blocks().put_back(len, block);
            return Ok(());
        }
        let head = shared.returned.on(at.rank());
        let mut next = head.atomic_load(world)?;
        loop {
            block.cast().put(world, [next, len as u64])?;
            world.flush(at.rank())?;
            match head.compare_exchange(world, next, block.to_bits())? {
                Ok(_) => return Ok(()),
                Err(now) => next = now,
            }
        }
    }
}

/// Waits for the task that releases blocks of other ranks: it would keep this rank in the job,
/// where nobody may make progress any more.
impl Drop for Heap {
    fn drop(&mut self) {
        if let Place::Global(shared) = &self.place
            && !in_handler()
            && !thread::panicking()
            && !shared.returned.world().is_forked()
        {
            shared.end_task();
        }
    }
}

/// The block whose bytes begin at `at`.
fn block_of(at: GlobalPtr<u8>) -> GlobalPtr<u64> {
    let start = at.offset_bytes() - size_of::<Header>() as u64;
    GlobalPtr::new(at.rank(), start)
}

thread_local! {
    /// Whether this thread serves a request: it may not even wait as a function of the program may.
    static SERVES: Cell<bool> = const { Cell::new(false) };
}

/// Runs `serve`, which carries out requests of other ranks. In a handler it does not load what
/// other ranks have to help with.
pub(crate) fn serving<T>(serve: impl FnOnce() -> T) -> T {
    struct Former(bool);
    impl Drop for Former {
        fn drop(&mut self) {
            SERVES.set(self.0);
        }
    }
    let _former = Former(SERVES.replace(in_handler()));
    serve()
}

/// Whether this thread serves a request within a handler.
pub(crate) fn is_serving() -> bool {
    SERVES.get()
}

/// Whether this rank reaches the memory of `rank` without a wait for anybody.
fn is_reached(world: &World, rank: Rank) -> bool {
    rank == world.rank() || (world.is_direct(rank) && world.has_direct_atomics())
}

impl Shared {
    #[cold]
    fn give_up(&self, error: Error) {
        let world = self.returned.world();
        // Each rank's next wait returns it.
        drop(world.give_up(RELEASE, error));
    }

    /// Begins to release the blocks that handlers could not release, if there are tasks: the
    /// program may never call a container outside of handlers.
    fn release_in_task(self: &Arc<Self>) {
        let world = self.returned.world();
        if !pgas_am::is_attached(world) || std::mem::replace(&mut self.blocks().have_task, true) {
            return;
        }
        let shared = Arc::downgrade(self);
        drop(world.spawn(async move {
            while let Some(shared) = shared.upgrade() {
                shared.release_late_nb().await;
                let mut blocks = shared.blocks();
                if blocks.late.is_empty() {
                    blocks.have_task = false;
                    break;
                }
            }
            Ok(())
        }));
    }

    fn end_task(&self) {
        let has_ended = || Ok(!self.blocks().have_task);
        let ended = self.returned.world().wait_for(RELEASE, has_ended);
        if let Err(error) = ended {
            self.give_up(error);
        }
    }

    async fn release_late_nb(&self) {
        let mut late = std::mem::take(&mut self.blocks().late);
        late.sort_unstable_by_key(|(at, _)| at.rank());
        for of_one_rank in late.chunk_by(|a, b| a.0.rank() == b.0.rank()) {
            if let Err(error) = self.release_nb(of_one_rank).await {
                self.give_up(error);
            }
        }
    }

    /// Releases blocks of one other rank. Their list becomes the head of that rank's: however fast
    /// blocks come, the next turn takes all of them.
    async fn release_nb(&self, late: &[(GlobalPtr<u8>, usize)]) -> Result<()> {
        let world = self.returned.world();
        let write = |i: usize, next: u64| {
            let (at, len) = late[i];
            block_of(at).cast().put_nb(world, [next, len as u64])
        };
        let Some(last) = late.len().checked_sub(1) else {
            return Ok(());
        };
        let written = (0..last).map(|i| write(i, block_of(late[i + 1].0).to_bits()));
        for written in written.collect::<Result<Vec<_>>>()? {
            written.await?;
        }
        let head = self.returned.on(late[0].0.rank());
        let mut next = head.atomic_load_nb(world)?.await?;
        loop {
            write(last, next)?.await?;
            let swapped = head.compare_exchange_nb(world, next, block_of(late[0].0).to_bits())?;
            match swapped.await? {
                Ok(_) => return Ok(()),
                Err(now) => next = now,
            }
        }
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        // Lists are only pushed to and popped from as a whole, so a panic elsewhere leaves them
        // valid.
        self.mine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allocate(&self, len: usize) -> Result<GlobalPtr<u64>> {
        let class = class(len);
        if let Some(block) = self.blocks().take(class) {
            return Ok(block);
        }
        let returned = self.take_returned()?;
        let world = self.returned.world();
        let mut blocks = self.blocks();
        for (len, block) in returned {
            blocks.put_back(len, block);
        }
        if let Some(block) = blocks.take(class) {
            return Ok(block);
        }
        // Not locked meanwhile: where memory is short, free blocks of all containers are freed.
        drop(blocks);
        let block = world.alloc((1 << class) / size_of::<u64>())?;
        self.blocks().all.push(block.cast());
        Ok(block)
    }

    /// Takes over the blocks that other ranks have given back, with their lengths (A, and R for
    /// each). The lists are not locked meanwhile: a handler may run, and release or store a value.
    fn take_returned(&self) -> Result<Vec<(usize, GlobalPtr<u64>)>> {
        let (world, mut taken) = (self.returned.world(), Vec::new());
        let mut next = self.returned.here().swap(world, 0)?;
        while next != 0 {
            let block = GlobalPtr::<u64>::from_bits(next);
            let [behind, len] = block.cast::<Header>().get(world)?;
            let len = usize::try_from(len).expect("a length of this rank's own");
            taken.push((len, block));
            next = behind;
        }
        Ok(taken)
    }
}

impl Blocks {
    fn put_back(&mut self, len: usize, block: GlobalPtr<u64>) {
        self.free.entry(class(len)).or_default().push(block);
    }

    fn take(&mut self, class: usize) -> Option<GlobalPtr<u64>> {
        self.free.get_mut(&class)?.pop()
    }

    /// Frees the unused blocks. Returns whether there were any.
    fn give_up_free(&mut self, world: &World) -> bool {
        let mut given_up: Vec<u64> = Vec::new();
        for block in std::mem::take(&mut self.free).into_values().flatten() {
            given_up.push(block.to_bits());
            world.free(block);
        }
        given_up.sort_unstable();
        self.all
            .retain(|block| given_up.binary_search(&block.to_bits()).is_err());
        !given_up.is_empty()
    }
}

impl Spare for Shared {
    fn free_unused(&self) -> bool {
        // Whoever lacks memory has an error already.
        let returned = self.take_returned().unwrap_or_default();
        // The lists are locked for a few steps at a time, and never during an allocation.
        let mut blocks = self.blocks();
        for (len, block) in returned {
            blocks.put_back(len, block);
        }
        blocks.give_up_free(self.returned.world())
    }
}

impl Drop for Shared {
    /// Others may still read: the blocks are freed when no rank has the container any more.
    fn drop(&mut self) {
        let all = std::mem::take(&mut self.blocks().all);
        self.returned.bequeath(all);
    }
}

/// The power of two that is the size of a block for `len` bytes.
fn class(len: usize) -> usize {
    let size = (len + size_of::<Header>()).next_power_of_two();
    size.max(SMALLEST).trailing_zeros() as usize
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Nowhere => write!(f, "Heap(of short values)"),
            Place::Global(shared) => {
                let n = shared.blocks().all.len();
                write!(f, "Heap({n} blocks of this rank)")
            }
            Place::Replayed(heap, _) => heap.fmt(f),
            Place::Parcel(_) => write!(f, "Heap(of a message)"),
        }
    }
}
