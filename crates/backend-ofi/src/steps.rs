//! An atomic of the contract as a series of atomics of the provider.
//!
//! If the provider has the atomic there is one step. Otherwise each step is a compare-and-swap. The
//! first one guesses the bits of the word. A wrong guess does nothing and finds the right ones, with
//! which the next step tries again. So another rank's atomic in between is never lost, whichever
//! steps that has.

use pgas_core::backend::{AtomicType, SwapCall};
use pgas_core::raw::word;
use pgas_network::note::Order;

use crate::native::Native;

/// An atomic, and its current step.
#[derive(Debug)]
pub(crate) struct Steps {
    order: Order,
    /// Its bits in the word.
    part: Part,
    step: Order,
}

/// The bits of a word that an atomic is on.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// The word's type.
    word: AtomicType,
    /// The offset of the word from that of the atomic, in bytes.
    back: u64,
    /// The place of the lowest bit.
    shift: u64,
    /// The bits, at the bottom.
    mask: u64,
}

impl Part {
    /// The part of its word that a type at `offset` is.
    fn of(ty: AtomicType, offset: u64) -> Self {
        let bytes = ty.bytes();
        let word = if bytes == 8 {
            AtomicType::U64
        } else {
            AtomicType::U32
        };
        let back = offset % word.bytes() as u64;
        let place = if cfg!(target_endian = "big") {
            (word.bytes() - bytes) as u64 - back
        } else {
            back
        };
        Self {
            word,
            back,
            shift: 8 * place,
            mask: u64::MAX >> (64 - 8 * bytes),
        }
    }

    fn of_word(self, whole: u64) -> u64 {
        whole >> self.shift & self.mask
    }

    /// The word with other bits in this place.
    fn replaced(self, whole: u64, bits: u64) -> u64 {
        whole & !(self.mask << self.shift) | (bits & self.mask) << self.shift
    }
}

impl Steps {
    /// The atomic `order` on what is at `offset` in a segment.
    pub(crate) fn new(order: Order, offset: u64, native: Native) -> Self {
        let part = Part::of(order.ty(), offset);
        let equal = match order {
            Order::Fetch(call) => native.equal(call),
            Order::Swap(_) => None,
        };
        let mut this = Self {
            order,
            part,
            step: order,
        };
        this.step = match equal {
            Some(call) => Order::Fetch(call),
            None => this.guess(this.likely()),
        };
        this
    }

    /// The current step, on the word [`before`](Self::back) the atomic's own offset.
    pub(crate) fn step(&self) -> Order {
        self.step
    }

    /// The bytes from the word's start to what the atomic is on.
    pub(crate) fn back(&self) -> u64 {
        self.part.back
    }

    /// The first guess of the bits of the word.
    fn likely(&self) -> u64 {
        match self.order {
            Order::Swap(swap) => self.part.replaced(0, swap.expected),
            Order::Fetch(_) => 0,
        }
    }

    /// The step that is right if the word is `whole`.
    fn guess(&self, whole: u64) -> Order {
        Order::Swap(SwapCall {
            ty: self.part.word,
            expected: whole,
            desired: self.changed(whole),
        })
    }

    /// What the atomic makes of the word.
    fn changed(&self, whole: u64) -> u64 {
        let old = self.part.of_word(whole);
        let new = match self.order {
            Order::Fetch(call) => word::apply(old, call),
            Order::Swap(swap) if old == swap.expected & self.part.mask => swap.desired,
            Order::Swap(_) => old,
        };
        self.part.replaced(whole, new)
    }

    /// Takes what the current step has found in the word. Returns the former bits if it was the last
    /// step.
    pub(crate) fn go_on(&mut self, found: u64) -> Option<u64> {
        if let Order::Swap(swap) = self.step
            && swap.expected != found
            && self.changed(found) != found
        {
            self.step = self.guess(found);
            return None;
        }
        Some(self.part.of_word(found))
    }
}

#[cfg(test)]
mod tests {
    use pgas_core::backend::{AtomicCall, AtomicOp};

    use super::*;
    use crate::native::{OPS, TYPES};

    const ALL_TYPES: [AtomicType; 10] = [
        AtomicType::U8,
        AtomicType::I8,
        AtomicType::U16,
        AtomicType::I16,
        AtomicType::U32,
        AtomicType::I32,
        AtomicType::U64,
        AtomicType::I64,
        AtomicType::F32,
        AtomicType::F64,
    ];

    /// What providers may have: nothing, everything, or every third atomic.
    fn natives() -> Vec<Native> {
        [usize::MAX, 1, 3]
            .map(|every| {
                let mut native = Native::default();
                let calls = TYPES
                    .iter()
                    .flat_map(|ty| OPS.iter().map(move |op| (*ty, *op)));
                for (ty, op) in calls.skip(every / 2).step_by(every) {
                    native.add(AtomicCall { op, ty, operand: 0 });
                }
                native
            })
            .into()
    }

    /// The provider: carries a step out on a word, and returns what it has found.
    fn carry_out(memory: &mut [u8; 8], at: usize, step: Order) -> u64 {
        let bytes = step.ty().bytes();
        assert!(bytes >= 4 && at.is_multiple_of(bytes), "{step:?} at {at}");
        let found = bits_at(*memory, at, bytes);
        let new = match step {
            Order::Fetch(call) => word::apply(found, call),
            Order::Swap(swap) if found == swap.expected => swap.desired,
            Order::Swap(_) => found,
        };
        memory[at..at + bytes].copy_from_slice(&new.to_ne_bytes()[..bytes]);
        found
    }

    fn bits_at(memory: [u8; 8], at: usize, bytes: usize) -> u64 {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&memory[at..at + bytes]);
        u64::from_ne_bytes(word)
    }

    /// Carries out an atomic. Before each of its first steps another rank adds to the word.
    fn carried_out(order: Order, at: usize, native: Native, n_between: u32) {
        let bytes = order.ty().bytes();
        let mut memory = *b"\x81\x02\xff\x7f\x00\x00\x80\x3f";
        let mut steps = Steps::new(order, at as u64, native);
        let word = at - usize::try_from(steps.back()).unwrap();
        for n_steps in 0_u32.. {
            assert!(n_steps <= n_between + 1, "{order:?} does not end");
            if n_steps < n_between {
                memory[at] = memory[at].wrapping_add(3);
            }
            let before = memory;
            let found = carry_out(&mut memory, word, steps.step());
            let Some(former) = steps.go_on(found) else {
                assert_eq!(memory, before, "a wrong guess changes nothing");
                continue;
            };
            let old = bits_at(before, at, bytes);
            assert_eq!(former, old, "{order:?} at {at}");
            let new = match order {
                Order::Fetch(call) => word::apply(old, call),
                Order::Swap(swap) if old == swap.expected => swap.desired,
                Order::Swap(_) => old,
            };
            let mut expected = before;
            expected[at..at + bytes].copy_from_slice(&new.to_ne_bytes()[..bytes]);
            assert_eq!(memory, expected, "{order:?} at {at}");
            return;
        }
    }

    #[test]
    fn each_atomic_does_once_what_the_contract_says() {
        for native in natives() {
            for ty in ALL_TYPES {
                let mask = Part::of(ty, 0).mask;
                for at in (0..8).step_by(ty.bytes()) {
                    for operand in [0, 1, 0x0000_0000_3f80_007f, u64::MAX >> 1].map(|it| it & mask)
                    {
                        let is_float = matches!(ty, AtomicType::F32 | AtomicType::F64);
                        let is_bitwise =
                            |op| matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
                        for op in OPS.into_iter().filter(|op| !(is_float && is_bitwise(*op))) {
                            let order = Order::Fetch(AtomicCall { op, ty, operand });
                            (0..3).for_each(|n| carried_out(order, at, native, n));
                        }
                        for expected in [0, 0x81, 0x0281, 0x7fff, operand] {
                            let swap = SwapCall {
                                ty,
                                expected: expected & mask,
                                desired: operand,
                            };
                            (0..3).for_each(|n| carried_out(Order::Swap(swap), at, native, n));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_the_provider_has_takes_one_step_and_a_float_keeps_no_nan() {
        let everything = natives()[1];
        let add = |ty| AtomicCall {
            op: AtomicOp::Add,
            ty,
            operand: 1,
        };
        let step = |call| Steps::new(Order::Fetch(call), 0, everything).step();
        let native = add(AtomicType::I64);
        assert_eq!(step(native), Order::Fetch(native));
        for made in [AtomicType::F64, AtomicType::F32, AtomicType::U16] {
            assert!(matches!(step(add(made)), Order::Swap(_)), "{made:?}");
        }
        let read = AtomicCall {
            op: AtomicOp::Load,
            ..add(AtomicType::F64)
        };
        let ty = AtomicType::U64;
        assert_eq!(step(read), Order::Fetch(AtomicCall { ty, ..read }));
    }
}
