//! The floor: a window and its calls written straight on MPI.
#![expect(unsafe_code, reason = "the floor is MPI itself")]

use std::ffi::c_int;
use std::ptr::null_mut;

use mpi::ffi;
use mpi::raw::AsRaw;
use mpi::topology::{Communicator as _, SimpleCommunicator};
use pgas_core::{Config, Result, World};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// A window over shared memory, as a segment is, locked for all ranks. The kind of memory matters:
/// Open MPI puts 1 MiB into memory of the heap in nine tenths of the time.
pub(crate) struct RawWindow {
    window: ffi::MPI_Win,
    comm: ffi::MPI_Comm,
    /// The rank that is written to and read from, the other one of two.
    peer: c_int,
}

/// Places of the window that one operation reads or writes.
pub(crate) enum Pieces {
    /// So many blocks of so many bytes, with the distance from one to the next, from the window's
    /// beginning on.
    Grid(usize, usize, usize),
    /// Blocks at these places, each of so many bytes.
    At(Vec<usize>, usize),
}

impl Pieces {
    /// As a type of MPI, which the caller frees.
    fn ty(&self) -> ffi::MPI_Datatype {
        // SAFETY: a constant of the library.
        let byte = unsafe { ffi::RSMPI_UINT8_T };
        let mut ty = byte;
        let to = &raw mut ty;
        let int = |n: usize| c_int::try_from(n).expect("a small number");
        match self {
            Self::Grid(n, bytes, distance) => {
                let (n, bytes, distance) = (int(*n), int(*bytes), disp(*distance));
                // SAFETY: the new handle is writable.
                ok(unsafe { ffi::MPI_Type_create_hvector(n, bytes, distance, byte, to) });
            }
            Self::At(places, bytes) => {
                let places: Vec<ffi::MPI_Aint> = places.iter().map(|at| disp(*at)).collect();
                let (n, at) = (int(places.len()), places.as_ptr());
                // SAFETY: there are `n` places, and the new handle is writable.
                ok(unsafe { ffi::MPI_Type_create_hindexed_block(n, int(*bytes), at, byte, to) });
            }
        }
        // SAFETY: the type was made just now.
        ok(unsafe { ffi::MPI_Type_commit(to) });
        ty
    }
}

fn free(mut ty: ffi::MPI_Datatype) {
    // SAFETY: operations in flight keep what they need of the type.
    ok(unsafe { ffi::MPI_Type_free(&raw mut ty) });
}

fn ok(code: c_int) {
    assert_eq!(code, 0, "MPI complains");
}

impl RawWindow {
    /// Collective; lives until MPI ends.
    pub(crate) fn new(comm: &SimpleCommunicator, n_words: usize) -> Self {
        let n_bytes = n_words * 8;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of its own, at no place in particular.
        let memory = unsafe { mmap_anonymous(null_mut(), n_bytes, access, MapFlags::SHARED) };
        let memory = memory.expect("room");
        // SAFETY: all of the mapping, which is writable.
        unsafe { memory.cast::<u8>().write_bytes(1, n_bytes) };
        let bytes = ffi::MPI_Aint::try_from(n_bytes).expect("some MiB");
        let (comm, peer) = (comm.as_raw(), 1 - comm.rank());
        // SAFETY: a constant of the library.
        let info = unsafe { ffi::RSMPI_INFO_NULL };
        // SAFETY: a constant of the library.
        let mut window = unsafe { ffi::RSMPI_WIN_NULL };
        // SAFETY: the memory is left alone until MPI ends, which is before the process does.
        ok(unsafe { ffi::MPI_Win_create(memory, bytes, 1, info, comm, &raw mut window) });
        let mode = c_int::try_from(ffi::MPI_MODE_NOCHECK).expect("a small constant");
        // SAFETY: the window is valid.
        ok(unsafe { ffi::MPI_Win_lock_all(mode, window) });
        Self { window, comm, peer }
    }

    /// Waits for the other rank, inside of MPI.
    pub(crate) fn barrier(&self) {
        // SAFETY: the communicator is the caller's, which outlives the bench.
        ok(unsafe { ffi::MPI_Barrier(self.comm) });
    }

    /// Begins to put `bytes` at `at`.
    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        // SAFETY: a constant of the library.
        let ty = unsafe { ffi::RSMPI_UINT8_T };
        let (count, disp) = (count(bytes), disp(at));
        let from = bytes.as_ptr().cast();
        // SAFETY: the bench flushes before it lets go of the buffer, and stays inside of the
        // window.
        ok(unsafe { ffi::MPI_Put(from, count, ty, self.peer, disp, count, ty, self.window) });
    }

    /// Begins to get `bytes` from `at`.
    pub(crate) fn get(&self, at: usize, bytes: &mut [u8]) {
        // SAFETY: a constant of the library.
        let ty = unsafe { ffi::RSMPI_UINT8_T };
        let (count, disp) = (count(bytes), disp(at));
        let to = bytes.as_mut_ptr().cast();
        // SAFETY: the bench flushes before it lets go of the buffer, and stays inside of the
        // window.
        ok(unsafe { ffi::MPI_Get(to, count, ty, self.peer, disp, count, ty, self.window) });
    }

    /// Begins to put `bytes` to pieces of the window, in one operation.
    pub(crate) fn put_pieces(&self, pieces: &Pieces, bytes: &[u8]) {
        // SAFETY: a constant of the library.
        let byte = unsafe { ffi::RSMPI_UINT8_T };
        let (count, ty, from) = (count(bytes), pieces.ty(), bytes.as_ptr().cast());
        // SAFETY: the bench flushes before it lets go of the buffer, and stays inside of the
        // window.
        ok(unsafe { ffi::MPI_Put(from, count, byte, self.peer, 0, 1, ty, self.window) });
        free(ty);
    }

    /// Begins to get `bytes` from pieces of the window, in one operation.
    pub(crate) fn get_pieces(&self, pieces: &Pieces, bytes: &mut [u8]) {
        // SAFETY: a constant of the library.
        let byte = unsafe { ffi::RSMPI_UINT8_T };
        let (count, ty, to) = (count(bytes), pieces.ty(), bytes.as_mut_ptr().cast());
        // SAFETY: the bench flushes before it lets go of the buffer, and stays inside of the
        // window.
        ok(unsafe { ffi::MPI_Get(to, count, byte, self.peer, 0, 1, ty, self.window) });
        free(ty);
    }

    /// Adds 1 to the word at `at`, and completes that here.
    pub(crate) fn add(&self, at: usize) {
        // SAFETY: a constant of the library.
        let ty = unsafe { ffi::RSMPI_UINT64_T };
        // SAFETY: a constant of the library.
        let sum = unsafe { ffi::RSMPI_SUM };
        let one = 1_u64;
        let from = (&raw const one).cast();
        // SAFETY: one word, which lives until the flush, and `at` is a word of the window.
        ok(unsafe {
            ffi::MPI_Accumulate(from, 1, ty, self.peer, disp(at), 1, ty, sum, self.window)
        });
        self.flush_local();
    }

    /// Begins to add `more` to the word at `at`, and to write what stood there to `former`.
    pub(crate) fn begin_fetch_add(&self, at: usize, more: &u64, former: &mut u64) {
        // SAFETY: a constant of the library.
        let ty = unsafe { ffi::RSMPI_UINT64_T };
        // SAFETY: a constant of the library.
        let sum = unsafe { ffi::RSMPI_SUM };
        let (from, to) = ((&raw const *more).cast(), (&raw mut *former).cast());
        // SAFETY: both are one word, live until the flush, and `at` is a word of the window.
        ok(unsafe { ffi::MPI_Fetch_and_op(from, to, ty, self.peer, disp(at), sum, self.window) });
    }

    /// Adds 1 to the word at `at`, and gives what stood there.
    pub(crate) fn fetch_add(&self, at: usize) -> u64 {
        let (one, mut former) = (1_u64, 0_u64);
        self.begin_fetch_add(at, &one, &mut former);
        self.flush_local();
        former
    }

    /// Replaces `expected` at `at` by the next number, and gives what stood there.
    pub(crate) fn compare_swap(&self, at: usize, expected: u64) -> u64 {
        // SAFETY: a constant of the library.
        let ty = unsafe { ffi::RSMPI_UINT64_T };
        let (new, mut former) = (expected + 1, 0_u64);
        let (from, to) = ((&raw const new).cast(), (&raw mut former).cast());
        let compare = (&raw const expected).cast();
        // SAFETY: all are one word, live until the flush, and `at` is a word of the window.
        ok(unsafe {
            ffi::MPI_Compare_and_swap(from, compare, to, ty, self.peer, disp(at), self.window)
        });
        self.flush_local();
        former
    }

    /// Completes what was begun, here.
    pub(crate) fn flush_local(&self) {
        // SAFETY: the window is valid and locked.
        ok(unsafe { ffi::MPI_Win_flush_local(self.peer, self.window) });
    }

    /// Completes what was begun, here and there.
    pub(crate) fn flush(&self) {
        // SAFETY: the window is valid and locked.
        ok(unsafe { ffi::MPI_Win_flush(self.peer, self.window) });
    }

    /// Ends the window; collective.
    pub(crate) fn free(mut self) {
        // SAFETY: the window is valid and locked.
        ok(unsafe { ffi::MPI_Win_unlock_all(self.window) });
        // SAFETY: nobody uses it any more.
        ok(unsafe { ffi::MPI_Win_free(&raw mut self.window) });
    }
}

fn count(bytes: &[u8]) -> c_int {
    c_int::try_from(bytes.len()).expect("some MiB")
}

fn disp(at: usize) -> ffi::MPI_Aint {
    ffi::MPI_Aint::try_from(at).expect("some MiB")
}

/// A world beside loops that call MPI themselves.
pub(crate) fn world_of(comm: &SimpleCommunicator, config: &Config) -> Result<World> {
    // SAFETY: the bench has one thread, and no progress thread: `PGAS_PROGRESS` is not set for it.
    unsafe { pgas_mpi::init_on_serialized(comm, config) }
}
