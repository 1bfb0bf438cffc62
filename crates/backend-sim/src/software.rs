//! Atomics by software: an order in the memory of the word's rank, which that rank's own processor
//! executes when it calls into the library, and an answer. Nothing here is a remote atomic.
//!
//! Every rank has a line for each other one's order, a word for each group of ranks by which they
//! say that one of them has an order there, and a line for the answer to its own.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use pgas_core::backend::{Backend as _, RemoteAddr};
use pgas_core::{Error, Rank, Result};
use pgas_network::atomics::execute;
use pgas_network::note::{Note, Order};

use crate::Node;
use crate::mailbox::Mailboxes;
use crate::sys::fence;

const LINE: u64 = 64;

/// Words of an order or answer; the line's last word is its number.
const NOTE_WORDS: usize = 6;
const NUMBER: u64 = LINE - 8;

/// Ranks that share a word by which they say that there is an order.
const GROUP: u32 = 64;

/// How long a rank that waits for an answer sleeps at a time, if nobody writes to it.
const NAP_NS: u64 = 1_000_000;

/// A rank's orders to others, and theirs to it.
#[derive(Debug)]
pub(crate) struct Orders {
    rank: u32,
    n_ranks: u32,
    /// Where they lie in every segment.
    at: u64,
    /// The number of this rank's last order.
    last: AtomicU64,
    /// The number of each rank's last order that was executed here.
    executed: Box<[AtomicU64]>,
}

impl Orders {
    pub(crate) fn new(rank: u32, n_ranks: u32, at: u64) -> Self {
        Self {
            rank,
            n_ranks,
            at,
            last: AtomicU64::new(0),
            executed: (0..n_ranks).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The bytes of all this.
    pub(crate) const fn bytes(n_ranks: u32) -> u64 {
        let groups = (8 * n_ranks.div_ceil(GROUP) as u64).next_multiple_of(LINE);
        groups + LINE + LINE * n_ranks as u64
    }

    const fn group(&self, rank: u32) -> u64 {
        self.at + 8 * (rank / GROUP) as u64
    }

    const fn answer(&self) -> u64 {
        self.at + Self::bytes(self.n_ranks) - LINE * (self.n_ranks as u64 + 1)
    }

    const fn line(&self, from: u32) -> u64 {
        self.answer() + LINE * (from as u64 + 1)
    }

    /// Writes a note and then its number to a line of another rank.
    fn tell(memory: &Mailboxes, to: u32, line: u64, note: &Note, number: u64) {
        let mut bytes = [0; 8 * NOTE_WORDS];
        note.encode(&mut bytes);
        memory.tell_bytes(to, line, &bytes);
        fence();
        memory.tell(to, line + NUMBER, number);
        fence();
    }

    /// The note in a line of this rank.
    fn read(memory: &Mailboxes, line: u64) -> Result<Note> {
        let mut bytes = [0; 8 * NOTE_WORDS];
        for (chunk, at) in bytes.chunks_exact_mut(8).zip((line..).step_by(8)) {
            // Relaxed: the number behind them was read before, with acquire.
            chunk.copy_from_slice(&memory.own(at).load(Relaxed).to_ne_bytes());
        }
        Note::decode(&bytes)
    }

    /// Gives another rank an order; gives its number.
    fn give(&self, memory: &Mailboxes, to: u32, offset: u64, order: Order) -> u64 {
        // Relaxed: a rank has one thread.
        let id = self.last.load(Relaxed) + 1;
        self.last.store(id, Relaxed);
        let note = Note::Execute { id, offset, order };
        Self::tell(memory, to, self.line(self.rank), &note, id);
        memory.tell(to, self.group(self.rank), 1);
        id
    }

    /// The answer to the order of that number, if it has come.
    fn answer_to(&self, memory: &Mailboxes, number: u64) -> Result<Option<u64>> {
        // Acquire: the note was written before the number.
        if memory.own(self.answer() + NUMBER).load(Acquire) != number {
            return Ok(None);
        }
        match Self::read(memory, self.answer())? {
            Note::Former { bits, .. } => Ok(Some(bits)),
            other => Err(unexpected(&other)),
        }
    }

    /// An order of another rank that was not executed yet: who gave it, its number, and what it is.
    fn next(&self, memory: &Mailboxes, from: u32) -> Result<Option<(u64, u64, Order)>> {
        // Acquire: the note was written before the number.
        let number = memory.own(self.line(from) + NUMBER).load(Acquire);
        let executed = &self.executed[from as usize];
        if number == executed.load(Relaxed) {
            return Ok(None);
        }
        executed.store(number, Relaxed);
        match Self::read(memory, self.line(from))? {
            Note::Execute { id, offset, order } => Ok(Some((id, offset, order))),
            other => Err(unexpected(&other)),
        }
    }

    /// The groups in which somebody has said that there is an order, whose words are cleared. A
    /// rank writes its order before that word, so that one that comes later says so again.
    fn groups<'a>(&'a self, memory: &'a Mailboxes) -> impl Iterator<Item = u32> + 'a {
        let firsts = (0..self.n_ranks).step_by(GROUP as usize);
        firsts.filter(|first| {
            let word = memory.own(self.group(*first));
            word.load(Relaxed) != 0 && word.swap(0, Acquire) != 0
        })
    }
}

fn unexpected(note: &Note) -> Error {
    Error::backend("an atomic by software", 0, format!("found {note:?}"))
}

impl Node {
    /// Has the word's rank execute an atomic; serves others meanwhile.
    pub(crate) fn order(&self, orders: &Orders, at: RemoteAddr, order: Order) -> Result<u64> {
        let to = at.rank.number();
        let number = orders.give(&self.mailbox, to, at.offset, order);
        loop {
            if let Some(bits) = orders.answer_to(&self.mailbox, number)? {
                return Ok(bits);
            }
            if self.serve(orders)? {
                continue;
            }
            if let Some(error) = self.failed() {
                return Err(error);
            }
            self.nap(NAP_NS);
        }
    }

    /// Executes what others have ordered; says whether there was anything.
    pub(crate) fn serve(&self, orders: &Orders) -> Result<bool> {
        let mut served = false;
        for first in orders.groups(&self.mailbox) {
            for from in first..(first + GROUP).min(self.n_ranks) {
                let Some((id, offset, order)) = orders.next(&self.mailbox, from)? else {
                    continue;
                };
                let own = RemoteAddr {
                    rank: self.rank(),
                    offset,
                };
                let bits = execute(self, own, order)?;
                let note = Note::Former { id, bits };
                Orders::tell(&self.mailbox, from, orders.answer(), &note, id);
                served = true;
            }
        }
        Ok(served)
    }

    /// Serves others until all have left, since none of them can go on without.
    pub(crate) fn serve_to_the_end(&self, orders: &Orders) {
        for rank in (0..self.n_ranks).map(Rank::new) {
            while !self.said_farewell(rank) && self.failed().is_none() {
                match self.serve(orders) {
                    Ok(true) => {}
                    Ok(false) => self.nap(NAP_NS),
                    Err(_) => return,
                }
            }
        }
    }
}
