//! Single atomics of the provider that are waited for, before the job begins.
#![expect(
    unsafe_code,
    reason = "lends libfabric the words of atomics, and a word that they are on"
)]

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pgas_core::Result;
use pgas_network::note::Order;

use crate::provider::needs_no_target;
use crate::sys::{
    Begun, Buffer, Completion, Context, Endpoint, Region, Target, Words, bits_of, bytes_of,
};

/// The maximum time of a trial. A provider that does what it says takes some microseconds, or
/// milliseconds on a busy host, if a thread of its own executes atomics.
const LIMIT: Duration = Duration::from_secs(2);

/// Trials of this process.
static N_TRIALS: AtomicU64 = AtomicU64::new(0);

/// A provider, as the examination sees it.
pub(crate) trait Examined {
    /// Whether it has atomics at all.
    fn has_atomics(&self) -> bool;

    /// Whether it needs no processor at the target, as far as it says.
    fn says_alone(&self) -> bool;

    /// Whether it says that it has an atomic.
    fn has(&mut self, step: Order) -> bool;

    /// Carries an atomic out on a word with the bits `before`.
    fn try_on(&mut self, before: u64, step: Order) -> Answer<Tried>;
}

/// What an atomic did on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tried {
    pub(crate) found: u64,
    pub(crate) after: u64,
}

/// The end of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    Is(T),
    /// The provider has refused it, with this text.
    Refused(String),
    /// There was none in time.
    Missing,
}

/// Carries out an atomic of the provider, and returns what it has found.
pub(crate) fn attempt(
    endpoint: &mut Endpoint,
    words: &mut Words,
    target: Target,
    step: Order,
) -> Answer<u64> {
    let Some(cell) = words.take() else {
        return Answer::Missing;
    };
    let number = Completion::of_trial(N_TRIALS.fetch_add(1, Ordering::Relaxed));
    let context = Context::new(number);
    let until = Instant::now() + LIMIT;
    let mut completions = Vec::new();
    let mut is_begun = false;
    while Instant::now() < until {
        if !is_begun {
            // SAFETY: the callers pass targets within what is registered, aligned. The cell is given
            // back, and the context dropped, only after the completion; the words stay with the
            // endpoint, or are leaked.
            let begun = unsafe { endpoint.begin_atomic((words, &cell), step, target, &context) };
            match begun {
                Ok(begun) => is_begun = begun == Begun::Yes,
                Err(error) => {
                    words.give_back(cell);
                    return Answer::Refused(error.to_string());
                }
            }
        }
        if endpoint.poll(&mut completions).is_err() {
            break;
        }
        let mut ended = completions.drain(..);
        if let Some(completion) = ended.find(|it| it.number == number) {
            // SAFETY: the atomic is complete.
            let found = unsafe { words.result(&cell, step.ty().bytes()) };
            words.give_back(cell);
            let Some(why) = completion.error else {
                return Answer::Is(found);
            };
            // `tcp;ofi_rxm` reports an error of an atomic twice.
            let _kept = ManuallyDrop::new(context);
            return Answer::Refused(why);
        }
        thread::yield_now();
    }
    // The provider may use the cell and the context later.
    let _kept = ManuallyDrop::new(context);
    Answer::Missing
}

/// A word of this rank that the provider reaches as it reaches those of others.
pub(crate) struct OwnWord<'a> {
    endpoint: &'a mut Endpoint,
    words: &'a mut Words,
    region: Region,
    memory: Buffer,
    target: Target,
    /// Whether the provider may access the word later.
    is_lost: bool,
}

impl<'a> OwnWord<'a> {
    /// A word for trials. `peer` is this rank's own place in the table of addresses.
    pub(crate) fn open(
        endpoint: &'a mut Endpoint,
        words: &'a mut Words,
        peer: u64,
    ) -> Result<Self> {
        let memory = Buffer::new(size_of::<u64>(), 0);
        let (start, len) = memory.range();
        // SAFETY: `close` sees to it that the memory lives longer than the registration. It is
        // accessed here only while no atomic is in flight.
        let region = unsafe { endpoint.expose(start, len) }?;
        let address = if endpoint.info().by_address() {
            start.addr() as u64
        } else {
            0
        };
        let target = Target {
            peer,
            address,
            key: region.key(),
        };
        Ok(Self {
            endpoint,
            words,
            memory,
            region,
            target,
            is_lost: false,
        })
    }

    /// Ends the trials. Returns the registration if the provider may still use it, for the caller
    /// to close it before the endpoint.
    pub(crate) fn close(self) -> Option<Region> {
        if !self.is_lost {
            drop(self.region);
            return None;
        }
        let _kept = ManuallyDrop::new(self.memory);
        Some(self.region)
    }
}

impl Examined for OwnWord<'_> {
    fn has_atomics(&self) -> bool {
        self.endpoint.info().has_atomics()
    }

    fn says_alone(&self) -> bool {
        needs_no_target(self.endpoint.info())
    }

    fn has(&mut self, step: Order) -> bool {
        self.endpoint.has_atomic(step)
    }

    fn try_on(&mut self, before: u64, step: Order) -> Answer<Tried> {
        if self.is_lost {
            return Answer::Missing;
        }
        let bytes = step.ty().bytes();
        let word = bytes_of(before, bytes);
        self.memory.bytes_mut()[..bytes].copy_from_slice(&word[..bytes]);
        let answer = attempt(self.endpoint, self.words, self.target, step);
        match answer {
            Answer::Is(found) => {
                let after = bits_of(&self.memory.bytes_mut()[..bytes]);
                Answer::Is(Tried { found, after })
            }
            Answer::Refused(why) => Answer::Refused(why),
            Answer::Missing => {
                self.is_lost = true;
                Answer::Missing
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pgas_core::backend::{AtomicCall, AtomicOp, AtomicType};

    use super::*;
    use crate::outbox::SLOT_BYTES;
    use crate::sys::find;

    /// Some versions of `tcp;ofi_rxm` report an error of an atomic twice.
    #[test]
    fn an_atomic_that_is_refused_does_not_answer_for_the_next_one() {
        let info = find(Some("tcp;ofi_rxm"), None).unwrap().swap_remove(0);
        let info = info.with_atomics();
        let mut endpoint = Endpoint::open(info, 1, 64, SLOT_BYTES).unwrap();
        let mut words = Words::new(&mut endpoint, 4).unwrap();
        let address = endpoint.address().unwrap();
        let peer = endpoint.insert(&address).unwrap();
        let mut own = OwnWord::open(&mut endpoint, &mut words, peer).unwrap();
        let load = Order::Fetch(AtomicCall {
            op: AtomicOp::Load,
            ty: AtomicType::U64,
            operand: 0,
        });
        let right = own.target;
        for _ in 0..3 {
            own.target = Target {
                key: right.key ^ 0x55,
                ..right
            };
            assert!(matches!(own.try_on(7, load), Answer::Refused(_)));
            own.target = right;
            let tried = Tried { found: 7, after: 7 };
            assert_eq!(own.try_on(7, load), Answer::Is(tried));
        }
        assert!(own.close().is_none());
    }
}
