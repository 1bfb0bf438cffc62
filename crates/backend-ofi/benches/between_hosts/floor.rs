//! What libfabric alone takes to move the bytes: messages there and back, an exchange of both with
//! both, and transfers and atomics by its own calls.
#![expect(unsafe_code, reason = "the floor is libfabric itself")]

use std::cell::RefCell;
use std::rc::Rc;

use pgas_core::{Result, World};
use pgas_libfabric_sys::bindings::{FI_SUM, FI_UINT64};
use pgas_libfabric_sys::calls::{
    Kind, Remote, fi_fetch_atomic, fi_inject, fi_read, fi_recv, fi_send,
};
use pgas_network::addresses;
use zerocopy::IntoBytes as _;

use crate::raw::{Raw, local};

/// The two ranks, as libfabric knows them.
pub(crate) struct Comm {
    raw: Rc<RefCell<Raw>>,
    rank: usize,
}

/// Messages from whoever sends them.
const ANYBODY: u64 = u64::MAX;

impl Comm {
    /// Opens an endpoint on each rank. Collective.
    pub(crate) fn open(world: &World, provider: &str) -> Result<Self> {
        let own = addresses::own();
        let node = own.first().expect("a host has an address").to_string();
        let mut raw = Raw::open(provider, &node, crate::transfers::N_WORDS * 8);
        raw.meet(world)?;
        let (raw, rank) = (Rc::new(RefCell::new(raw)), world.rank().index());
        Ok(Self { raw, rank })
    }

    pub(crate) fn barrier(&self) {
        self.swap(&[0], &mut [0]);
    }

    /// The memory of both endpoints.
    pub(crate) fn window(&self, n_words: usize) -> Window {
        let (raw, n_begun) = (Rc::clone(&self.raw), RefCell::new(0));
        assert!(n_words <= raw.borrow().memory.len(), "there is room");
        Window { raw, n_begun }
    }

    /// Gives each rank its words, those of one rank behind those of the other: one message has
    /// their number, and the next one the words. Returns the words that have come, in the same
    /// order.
    pub(crate) fn exchange(&self, words: &[u64], counts: &[usize]) -> (Vec<u64>, Vec<usize>) {
        let mut n_come = [0];
        let there = &counts[1 - self.rank];
        self.swap(&[*there as u64], &mut n_come);
        let n_come = usize::try_from(n_come[0]).expect("some words");
        let (first, second) = words.split_at(counts[0]);
        let (own, others) = if self.rank == 0 {
            (first, second)
        } else {
            (second, first)
        };
        let mut come = vec![0_u64; own.len() + n_come];
        let (kept, received, n) = if self.rank == 0 {
            let (kept, received) = come.split_at_mut(own.len());
            (kept, received, vec![own.len(), n_come])
        } else {
            let (received, kept) = come.split_at_mut(n_come);
            (kept, received, vec![n_come, own.len()])
        };
        kept.copy_from_slice(own);
        self.swap(others, received);
        (come, n)
    }

    /// Sends this many requests to the other rank, one after the other, and answers as many of its
    /// requests.
    pub(crate) fn requests<const ASK: usize, const ANSWER: usize>(&self, n_times: usize) {
        let (mut request, mut answer) = ([0_u64; ASK], [0_u64; ANSWER]);
        for _ in 0..n_times {
            self.swap(&[1_u64; ASK], &mut request);
            self.swap(&[1_u64; ANSWER], &mut answer);
        }
    }

    /// Sends this many messages to the other rank, 64 at a time, while it sends as many.
    pub(crate) fn messages<const N: usize>(&self, n_times: usize) {
        const AT_ONCE: usize = 64;
        let raw = &mut *self.raw.borrow_mut();
        let (sent, mut come) = ([1_u64; N], [[0_u64; N]; AT_ONCE]);
        let mut left = n_times;
        while left > 0 {
            let n = left.min(AT_ONCE);
            for (slot, place) in come[..n].iter_mut().enumerate() {
                let start = place.as_mut_ptr().cast();
                raw.begin(|raw| {
                    let (to, context) = (local(start, N * 8), raw.context(slot));
                    // SAFETY: the words stay until all messages have come.
                    unsafe { fi_recv(raw.endpoint, to, ANYBODY, context) }
                });
            }
            for _ in 0..n {
                let start = sent.as_ptr().cast_mut().cast();
                // SAFETY: the words are copied before the call returns.
                raw.begin(|raw| unsafe { fi_inject(raw.endpoint, start, N * 8, raw.there.rank) });
            }
            while raw.n_received < n {
                raw.poll();
            }
            raw.n_received -= n;
            left -= n;
        }
    }

    /// Sends a message to the other rank, and receives one from it.
    fn swap(&self, sent: &[u64], come: &mut [u64]) {
        let raw = &mut *self.raw.borrow_mut();
        let (start, len) = (come.as_mut_ptr().cast(), size_of_val(come));
        raw.begin(|raw| {
            let (to, context) = (local(start, len), raw.context(0));
            // SAFETY: the words stay until the message has come, which is waited for below.
            unsafe { fi_recv(raw.endpoint, to, ANYBODY, context) }
        });
        let (start, len) = (sent.as_ptr().cast_mut().cast(), size_of_val(sent));
        let is_short = len <= raw.inject_bytes;
        raw.begin(|raw| {
            let (to, context) = (raw.there.rank, raw.context(1));
            if is_short {
                // SAFETY: the words are copied before the call returns.
                unsafe { fi_inject(raw.endpoint, start, len, to) }
            } else {
                // SAFETY: the words stay until they are sent, which is waited for below.
                unsafe { fi_send(raw.endpoint, local(start, len), to, context) }
            }
        });
        while raw.n_received == 0 {
            raw.poll();
        }
        raw.n_received -= 1;
        if !is_short {
            raw.complete(1);
        }
    }
}

/// The memory of both endpoints, as MPI's windows are used.
pub(crate) struct Window {
    raw: Rc<RefCell<Raw>>,
    n_begun: RefCell<usize>,
}

impl Window {
    /// Begins to put `bytes` at `at`.
    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        let (start, slot) = (bytes.as_ptr().cast_mut().cast(), self.next());
        let raw = &mut *self.raw.borrow_mut();
        raw.write(start, bytes.len(), at as u64, slot);
    }

    /// Begins to get `bytes` from `at`.
    pub(crate) fn get(&self, at: usize, bytes: &mut [u8]) {
        let (start, len, slot) = (bytes.as_mut_ptr().cast(), bytes.len(), self.next());
        self.raw.borrow_mut().begin(|raw| {
            let (to, from, context) = (local(start, len), there(raw, at), raw.context(slot));
            // SAFETY: the bench flushes before it reuses the buffer, and stays inside the memory.
            unsafe { fi_read(raw.endpoint, to, from, context) }
        });
    }

    /// Begins to add `more` to the word at `at`, and to write what stood there to `former`.
    pub(crate) fn begin_fetch_add(&self, at: usize, more: &u64, former: &mut u64) {
        let operand = local(more.as_bytes().as_ptr().cast_mut().cast(), 8);
        let (to, slot) = (former.as_mut_bytes().as_mut_ptr().cast(), self.next());
        let kind = Kind {
            datatype: FI_UINT64,
            op: FI_SUM,
        };
        self.raw.borrow_mut().begin(|raw| {
            let (to, from, context) = (local(to, 8), there(raw, at), raw.context(slot));
            // SAFETY: as for gets, of both words.
            unsafe { fi_fetch_atomic(raw.endpoint, operand, to, from, kind, context) }
        });
    }

    /// Completes what was begun, here and there.
    pub(crate) fn flush(&self) {
        let n_begun = self.n_begun.replace(0);
        self.raw.borrow_mut().complete(n_begun);
    }

    /// As [`flush`](Self::flush): libfabric has no other kind of completion for reads.
    pub(crate) fn flush_local(&self) {
        self.flush();
    }

    /// Ends with the process.
    pub(crate) fn free(self) {}

    /// The number of an operation that begins.
    fn next(&self) -> usize {
        let n = &mut *self.n_begun.borrow_mut();
        *n += 1;
        *n
    }
}

fn there(raw: &Raw, at: usize) -> Remote {
    Remote {
        address: raw.there.address + at as u64,
        ..raw.there
    }
}
