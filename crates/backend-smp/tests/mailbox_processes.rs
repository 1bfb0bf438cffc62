//! Linux only: mailboxes, barrier and doorbells between processes that map the same memory at
//! different addresses.
#![cfg(all(target_os = "linux", not(pgas_portable)))]
#![expect(unsafe_code, reason = "maps memory and forks")]

use std::{
    ffi::c_int,
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd},
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use pgas_lockfree::{barrier::Barrier, mailbox::Mailbox};
use pgas_smp::doorbell::Doorbell;

const N_RANKS: u32 = 4;
const N_SLOTS: usize = 32;
const N_MESSAGES: u64 = 3_000;
const N_EPOCHS: u64 = 300;
/// The maximum time of each process: none outlives a test that failed.
const DEADLINE: Duration = Duration::from_secs(30);

const BELL_WORDS: usize = size_of::<Doorbell>() / 8;
const MAILBOX_WORDS: usize = Mailbox::bytes(N_SLOTS) / 8;
const BARRIER_WORDS: usize = Barrier::bytes(N_RANKS) / 8;
const MAILBOX_AT: usize = N_RANKS as usize * BELL_WORDS;
const BARRIER_AT: usize = MAILBOX_AT + MAILBOX_WORDS;
const CELLS_AT: usize = BARRIER_AT + BARRIER_WORDS;
const N_WORDS: usize = CELLS_AT + N_RANKS as usize;

/// Shared memory as one process sees it: a doorbell for each rank, a mailbox, a barrier, and a cell
/// for each rank. It is mapped until the process ends.
#[derive(Clone, Copy)]
struct Job {
    bells: &'static [Doorbell],
    mailbox: Mailbox<'static>,
    barrier: Barrier<'static>,
    cells: &'static [AtomicU64],
}

impl Job {
    fn map(memory: &File) -> Self {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of this
        // process.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                N_WORDS * 8,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                memory.as_raw_fd(),
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        let base = NonNull::new(base.cast::<AtomicU64>()).expect("not MAP_FAILED");
        // SAFETY: N_WORDS mapped and aligned words, never unmapped, which all processes access as
        // atomics alone; zero is a value.
        let words = unsafe { slice::from_raw_parts(base.as_ptr(), N_WORDS) };
        // SAFETY: the first words are an aligned doorbell for each rank (pages are aligned, and a
        // doorbell is a line). Doorbells are atomics, too, and zero is one at rest. Nothing
        // accesses them through `words`.
        let bells = unsafe { slice::from_raw_parts(base.as_ptr().cast(), N_RANKS as usize) };
        Self {
            bells,
            mailbox: Mailbox::attach(&words[MAILBOX_AT..BARRIER_AT], N_SLOTS),
            barrier: Barrier::attach(&words[BARRIER_AT..CELLS_AT], N_RANKS),
            cells: &words[CELLS_AT..],
        }
    }

    /// Waits for `ready`, as a rank does. Returns whether it came in time.
    fn wait(&self, rank: u32, mut ready: impl FnMut() -> bool) -> bool {
        for _ in 0..100 {
            if ready() {
                return true;
            }
            thread::yield_now();
        }
        self.bells[rank as usize].sleep_until(ready, DEADLINE)
    }

    /// Meets the other ranks. Returns whether they came in time.
    fn meet(&self, rank: u32) -> bool {
        let ticket = self.barrier.arrive(rank);
        if ticket.is_last() {
            for bell in self.bells {
                bell.ring();
            }
        }
        self.wait(rank, || self.barrier.is_complete(ticket))
    }
}

fn shared_memory() -> File {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"pgas-test".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: a new descriptor that nothing else owns.
    let memory = unsafe { File::from_raw_fd(fd) };
    memory.set_len(N_WORDS as u64 * 8).expect("a memfd grows");
    memory
}

/// A rank in a process of its own; `extern "C"` makes a panic end that process. It allocates
/// nothing, as befits a fork of a program with threads.
type RankMain = extern "C" fn(&Job, u32) -> c_int;

/// A forked rank, with a mapping of its own.
extern "C" fn enter(memory: &File, parent: &Job, main: RankMain, rank: u32) -> c_int {
    let own = Job::map(memory);
    assert!(!ptr::eq(own.cells, parent.cells), "mapped elsewhere");
    main(&own, rank)
}

/// Forks ranks 1 and up, each with a mapping of its own, runs rank 0 here, and asserts that the
/// others ended well.
fn run_ranks(others: RankMain, rank_0: impl FnOnce(&Job)) {
    let memory = shared_memory();
    let job = Job::map(&memory);
    let children: Vec<_> = (1..N_RANKS)
        .map(|rank| {
            // SAFETY: the child calls only functions that are written to be called after a fork,
            // and ends by `_exit`.
            match unsafe { libc::fork() } {
                0 => {
                    let code = enter(&memory, &job, others, rank);
                    // SAFETY: ends the process without running the test harness's exit handlers.
                    unsafe { libc::_exit(code) }
                }
                pid => {
                    assert!(pid > 0, "{}", io::Error::last_os_error());
                    pid
                }
            }
        })
        .collect();
    rank_0(&job);
    for (pid, rank) in children.into_iter().zip(1..) {
        let mut status = 0;
        // SAFETY: `status` is writable.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(waited, pid, "{}", io::Error::last_os_error());
        let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        assert_eq!(code, Some(0), "rank {rank}, wait status {status:#x}");
    }
}

/// The length and the bytes of message `n` of `src`. Among the messages are some of every number of
/// slots that fits, the shortest and the longest included.
fn payload(src: u32, n: u64, max: usize, buf: &mut [u8; 256]) -> usize {
    let len = usize::try_from(n * 37 % 257).unwrap_or(0).min(max);
    for (i, byte) in (0..).zip(&mut buf[..len]) {
        *byte = (n ^ u64::from(src) ^ i).to_le_bytes()[0];
    }
    len
}

extern "C" fn send_messages(job: &Job, rank: u32) -> c_int {
    let start = Instant::now();
    let mut buf = [0; 256];
    for n in 0..N_MESSAGES {
        let len = payload(rank, n, job.mailbox.max_message() - 8, &mut buf);
        let parts = [&n.to_le_bytes()[..], &buf[..len]];
        while job.mailbox.try_send(rank, 7, &parts).is_err() {
            thread::yield_now();
            if start.elapsed() > DEADLINE {
                return 1;
            }
        }
        job.bells[0].ring();
    }
    0
}

#[test]
fn messages_of_several_processes_arrive_whole_and_in_order() {
    run_ranks(send_messages, |job| {
        let mut next = [0_u64; N_RANKS as usize];
        let mut buf = Vec::new();
        let mut expected = [0; 256];
        for _ in 1..N_RANKS {
            for _ in 0..N_MESSAGES {
                assert!(
                    job.wait(0, || !job.mailbox.is_empty()),
                    "senders are at {next:?}"
                );
                let envelope = job.mailbox.try_receive(&mut buf).unwrap().unwrap();
                let n = &mut next[envelope.src as usize];
                let len = payload(
                    envelope.src,
                    *n,
                    job.mailbox.max_message() - 8,
                    &mut expected,
                );
                assert_eq!(envelope.handler, 7);
                assert_eq!(buf[..8], n.to_le_bytes());
                assert_eq!(buf[8..], expected[..len]);
                *n += 1;
            }
        }
        assert_eq!(next[1..], [N_MESSAGES; N_RANKS as usize - 1]);
        assert!(job.mailbox.is_empty());
    });
}

extern "C" fn meet_often(job: &Job, rank: u32) -> c_int {
    for epoch in 1..=N_EPOCHS {
        job.cells[rank as usize].store(epoch, Relaxed);
        if !job.meet(rank) {
            return 1;
        }
        if job.cells.iter().any(|cell| cell.load(Relaxed) != epoch) {
            return 2;
        }
        if !job.meet(rank) {
            return 3;
        }
    }
    0
}

#[test]
fn processes_meet_and_see_what_each_wrote_before() {
    run_ranks(meet_often, |job| assert_eq!(meet_often(job, 0), 0));
}
