//! Memory for the operands and results of atomics that the provider executes.
#![expect(
    unsafe_code,
    reason = "shares a buffer with libfabric, a part for each operation"
)]

use pgas_core::Result;
use pgas_libfabric_sys::calls::Local;
use pgas_network::note::Order;

use super::endpoint::Endpoint;
use super::memory::Buffer;

/// The bytes of a cell: the operand, what it is compared with, and the result, eight bytes each.
const BYTES: usize = 24;

/// The cells of one buffer.
#[derive(Debug)]
pub(crate) struct Words {
    buffer: Buffer,
    free: Vec<Cell>,
    n: usize,
}

/// The memory of one operation. Whoever has it may use it, unless an operation is in flight.
#[derive(Debug)]
pub(crate) struct Cell(usize);

/// The memory of an operation, as libfabric gets it.
pub(super) struct Locals {
    pub(super) operand: Local,
    pub(super) compare: Local,
    pub(super) result: Local,
}

impl Words {
    /// Memory for up to `n` operations at a time.
    pub(crate) fn new(endpoint: &mut Endpoint, n: usize) -> Result<Self> {
        let buffer = endpoint.buffer(n * BYTES, 0)?;
        let free = (0..n).map(|index| Cell(index * BYTES)).collect();
        Ok(Self { buffer, free, n })
    }

    /// A free cell, if there is one.
    pub(crate) fn take(&mut self) -> Option<Cell> {
        self.free.pop()
    }

    pub(crate) fn give_back(&mut self, cell: Cell) {
        self.free.push(cell);
    }

    /// Whether operations have all cells.
    pub(crate) fn are_taken(&self) -> bool {
        self.free.is_empty()
    }

    /// Whether no operation has a cell.
    pub(crate) fn are_free(&self) -> bool {
        self.free.len() == self.n
    }

    /// Writes the operands of an operation.
    ///
    /// # Safety
    ///
    /// No operation on the cell is in flight.
    pub(super) unsafe fn set(&self, cell: &Cell, step: Order) -> Locals {
        let (operand, compare) = match step {
            Order::Fetch(call) => (call.operand, 0),
            Order::Swap(swap) => (swap.desired, swap.expected),
        };
        let bytes = step.ty().bytes();
        let part = |n: usize| self.buffer.part(cell.0 + 8 * n..cell.0 + 8 * n + bytes);
        for (local, bits) in [(part(0), operand), (part(1), compare)] {
            let word = bytes_of(bits, bytes);
            // SAFETY: as many bytes lie in the buffer, and the caller promises that libfabric does
            // not use them. No reference leads there.
            unsafe { (local.start.cast::<u8>()).copy_from_nonoverlapping(word.as_ptr(), bytes) };
        }
        Locals {
            operand: part(0),
            compare: part(1),
            result: part(2),
        }
    }

    /// The result of an operation on a word of `bytes` bytes.
    ///
    /// # Safety
    ///
    /// The operation is complete.
    pub(crate) unsafe fn result(&self, cell: &Cell, bytes: usize) -> u64 {
        let start = self.buffer.part(cell.0 + 16..cell.0 + 16 + bytes).start;
        let mut word = [0; 8];
        // SAFETY: as many bytes lie in the buffer, and the caller promises that libfabric does not
        // write them any more.
        unsafe { (start.cast::<u8>()).copy_to_nonoverlapping(word.as_mut_ptr(), bytes) };
        bits_of(&word[..bytes])
    }
}

/// The bits of a word of four or eight bytes of memory.
pub(crate) fn bits_of(word: &[u8]) -> u64 {
    match word.first_chunk() {
        Some(word) => u64::from_ne_bytes(*word),
        None => word
            .first_chunk()
            .map_or(0, |word| u32::from_ne_bytes(*word).into()),
    }
}

/// The bytes of a word of `n` bytes, four or eight, from the first on.
#[expect(clippy::cast_possible_truncation, reason = "takes the low half")]
pub(crate) fn bytes_of(bits: u64, n: usize) -> [u8; 8] {
    let mut word = bits.to_ne_bytes();
    if n == 4 {
        word[..4].copy_from_slice(&(bits as u32).to_ne_bytes());
    }
    word
}
