//! What a rank's segment holds: first the memory of this backend, then that of core.

use pgas_core::backend::MessageClass;
use pgas_lockfree::mailbox::Mailbox;

/// Payload of a message at most.
pub(crate) const MOST_PAYLOAD: usize = 1024;

/// Slots of a ring for a rank that sends to it, within limits: few ranks fill it by themselves, and
/// of many not all send to one.
const SLOTS_PER_RANK: usize = 16;
const FEWEST_SLOTS: usize = 1024;
const MOST_SLOTS: usize = 16_384;

/// What stands in front of a ring's slots.
pub(crate) const RING_CONTROL_BYTES: u64 = 256;

/// The words about the job: who has failed.
const JOB_BYTES: u64 = 64;

/// The text of why.
pub(crate) const CAUSE_BYTES: u64 = 192;

const _: () = assert!(Mailbox::bytes(8) as u64 == RING_CONTROL_BYTES + 8 * LINE);

const LINE: u64 = 64;
pub(crate) const PAGE: u64 = 4096;

/// Where things lie in every rank's segment, by their distance from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    n_ranks: u32,
}

impl Layout {
    pub(crate) const fn new(n_ranks: u32) -> Self {
        Self { n_ranks }
    }

    /// The rank that has failed plus one, followed by the length of the text.
    pub(crate) const fn failure() -> u64 {
        0
    }

    pub(crate) const fn cause() -> u64 {
        JOB_BYTES
    }

    /// 1 when `rank` has left.
    pub(crate) const fn left(rank: u32) -> u64 {
        JOB_BYTES + CAUSE_BYTES + 8 * rank as u64
    }

    /// Slots of a ring.
    pub(crate) fn n_slots(self) -> usize {
        let n_slots = (self.n_ranks as usize * SLOTS_PER_RANK).next_power_of_two();
        n_slots.clamp(FEWEST_SLOTS, MOST_SLOTS)
    }

    /// The ring of messages of a class.
    pub(crate) fn ring(self, class: MessageClass) -> u64 {
        let index = match class {
            MessageClass::Request => 0,
            MessageClass::Reply => 1,
        };
        Self::left(self.n_ranks).next_multiple_of(LINE) + index * self.ring_bytes()
    }

    fn ring_bytes(self) -> u64 {
        Mailbox::bytes(self.n_slots()) as u64
    }

    /// The bytes of all this.
    pub(crate) fn bytes(self) -> u64 {
        let end = self.ring(MessageClass::Reply) + self.ring_bytes();
        end.next_multiple_of(PAGE)
    }
}
