//! The ranks of this rank's host. A member of the shared-memory backend reaches their segments and
//! mailboxes, and knows whether they are alive. It numbers them by their place on the host.
#![expect(unsafe_code, reason = "passes operands and payloads on to the member")]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use pgas_core::backend::{Backend, HandlerId, Message, MessageClass, Offer, Operand, Place, Sent};
use pgas_core::stats::Board;
use pgas_core::{Error, Rank, Result};

use crate::host::Host;

/// The ranks whose segments and mailboxes are reached by the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All ranks of the host: the direct path is on.
    All,
    /// This rank alone.
    Own,
    /// No rank: even this rank's own accesses go over the network.
    Nobody,
}

/// The ranks of one host, and how they are reached.
#[derive(Debug)]
pub struct Neighbours<M> {
    /// Their numbers in the job.
    pub host: Host,
    /// This rank, as one of the host's. Shared, so that it can be left to a library that still
    /// accesses its memory when a job ends in disorder.
    pub member: Arc<M>,
    reach: Reach,
}

impl<M: Backend> Neighbours<M> {
    /// The ranks of `host`, in the member's order. Without the direct path only those of
    /// `otherwise` are reached by its memory.
    ///
    /// # Panics
    ///
    /// If the member has another place or another number of ranks.
    #[must_use]
    pub fn new(host: Host, member: Arc<M>, is_direct: bool, otherwise: Reach) -> Self {
        let (of_host, of_member) = (
            (host.index(), host.n_ranks()),
            (member.rank().number(), member.n_ranks()),
        );
        assert_eq!(of_host, of_member, "the host's ranks are the member's");
        let reach = if is_direct { Reach::All } else { otherwise };
        Self {
            host,
            member,
            reach,
        }
    }

    /// Whether ranks of the host use its memory.
    #[inline]
    pub fn is_direct(&self) -> bool {
        self.reach == Reach::All
    }

    /// The name that the member has for `rank`, if it is of this host.
    #[inline]
    pub fn find(&self, rank: Rank) -> Option<Rank> {
        self.host.index_of(rank.number()).map(Rank::new)
    }

    /// The name that the member has for `rank`, if it is reached by the host's memory.
    #[inline]
    pub fn reached(&self, rank: Rank) -> Option<Rank> {
        let index = match self.reach {
            Reach::Nobody => return None,
            Reach::Own => {
                Some(self.host.index()).filter(|index| self.host.rank_of(*index) == rank.number())
            }
            Reach::All => self.host.index_of(rank.number()),
        };
        index.map(Rank::new)
    }

    /// The operand for the member, if its rank is of this host.
    #[inline(never)]
    pub fn beside<O: Operand>(&self, operand: O) -> Option<O> {
        let rank = self.find(operand.rank())?;
        // SAFETY: the member has a rank with this name, as `new` has compared, and the segments of
        // the job are the member's: all of one length, within which the operand is.
        Some(unsafe { operand.named(rank) })
    }

    /// The operand for the member, if its rank is reached by the host's memory.
    #[inline]
    pub fn on_this_host<O: Operand>(&self, operand: O) -> Option<O> {
        match self.reach {
            Reach::Nobody => None,
            Reach::Own => self.reached(operand.rank()).and(self.beside(operand)),
            Reach::All => self.beside(operand),
        }
    }

    /// The bytes of a segment.
    pub fn segment_bytes(&self) -> u64 {
        self.member.segment_bytes()
    }

    /// The smallest range with all ranks of the host.
    pub fn mapped_ranks(&self) -> Range<u32> {
        self.host.span()
    }

    /// The segment of `rank`, if it is of this host.
    pub fn mapped(&self, rank: Rank) -> Option<NonNull<u8>> {
        self.member.mapped(self.find(rank)?)
    }

    /// The board of `rank`, with its figures, if it is of this host.
    pub fn board(&self, rank: Rank) -> Option<Board> {
        self.member.board(self.find(rank)?)
    }

    /// The distance between the segments of consecutive ranks, if the numbers of the host's ranks
    /// are consecutive.
    pub fn mapped_stride(&self) -> Option<usize> {
        if self.host.is_contiguous() {
            self.member.mapped_stride()
        } else {
            None
        }
    }

    /// Sends a message if `to` is reached by the host's memory.
    ///
    /// # Errors
    ///
    /// Those of the member, and [`Error::too_long`] for more than `most` bytes to any rank.
    pub fn try_send(
        &self,
        to: Rank,
        (class, handler): (MessageClass, HandlerId),
        parts: &[&[u8]],
        most: usize,
    ) -> Result<Option<Sent>> {
        let bytes = parts
            .iter()
            .fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        if bytes > most {
            return Err(Error::too_long(to, bytes, most));
        }
        let neighbour = self.reached(to);
        let sent = neighbour.map(|to| self.member.try_send(to, class, handler, parts));
        sent.transpose()
            .map_err(|error| self.error_of_the_job(error))
    }

    /// A place for a payload, if `to` is reached by the host's memory.
    ///
    /// # Errors
    ///
    /// Those of the member.
    pub fn prepare(&self, to: Rank, len: usize) -> Result<Offer<Place>> {
        match self.reached(to) {
            Some(to) => self
                .member
                .prepare(to, len)
                .map_err(|error| self.error_of_the_job(error)),
            None => Ok(Offer::Elsewhere),
        }
    }

    /// Sends a payload from its place.
    ///
    /// # Errors
    ///
    /// Those of the member.
    ///
    /// # Panics
    ///
    /// If `to` is not reached by the host's memory.
    ///
    /// # Safety
    ///
    /// As for [`Backend::try_commit`].
    pub unsafe fn try_commit(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        place: Place,
        opening: &[u8],
    ) -> Result<Sent> {
        let to = self.reached(to);
        let to = to.expect("what was offered is for a rank of this host");
        // SAFETY: the caller promises that the place came from `prepare` for this rank and is his,
        // and `prepare` above is the member's: so it is his there, for the rank with that name.
        unsafe { self.member.try_commit(to, class, handler, place, opening) }
            .map_err(|error| self.error_of_the_job(error))
    }

    /// Gives a place back unused.
    ///
    /// # Safety
    ///
    /// As for [`Backend::give_back`].
    pub unsafe fn give_back(&self, to: Rank, place: Place) {
        if let Some(to) = self.reached(to) {
            // SAFETY: as for `try_commit`.
            unsafe { self.member.give_back(to, place) }
        }
    }

    /// Passes messages of ranks that are reached by the host's memory to `sink`.
    ///
    /// # Errors
    ///
    /// Those of the member.
    pub fn poll(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        if self.reach == Reach::Nobody {
            return Ok(0);
        }
        self.member
            .poll(class, limit, &mut |message| sink(self.of_the_job(message)))
            .map_err(|error| self.error_of_the_job(error))
    }

    /// Wakes `rank`, if it is reached by the host's memory.
    pub fn notify(&self, rank: Rank) {
        if let Some(rank) = self.reached(rank) {
            self.member.notify(rank);
        }
    }

    /// The number of ranks of this host for each processor that they may use, rounded up.
    pub fn ranks_per_processor(&self) -> u32 {
        self.member.ranks_per_processor()
    }

    /// The failure that ranks of this host have recorded.
    ///
    /// # Errors
    ///
    /// That failure, of a rank of the job.
    pub fn health(&self) -> Result<()> {
        self.member
            .health()
            .map_err(|error| self.error_of_the_job(error))
    }

    /// Records a failure of any rank of the job for the ranks of this host.
    pub fn blame(&self, rank: Rank, cause: &str) {
        let number = self.host.number_of_failed(rank.number());
        // The caller has the failure.
        drop(self.member.blame(Rank::new(number), cause));
    }

    /// Leaves the host's ranks. Messages of theirs that have come go to `late`.
    pub fn leave(&self, late: &mut dyn FnMut(Message<'_>)) {
        self.member
            .leave(&mut |message| late(self.of_the_job(message)));
    }

    /// The message of a rank of the host, by its number in the job.
    fn of_the_job<'a>(&self, message: Message<'a>) -> Message<'a> {
        let from = Rank::new(self.host.rank_of(message.from.number()));
        Message { from, ..message }
    }

    /// An error of the member, by the number of the rank in the job.
    #[cold]
    fn error_of_the_job(&self, error: Error) -> Error {
        match error {
            Error::RankFailed(failure) => {
                let rank = Rank::new(self.host.failed_rank(failure.rank.number()));
                Error::rank_failed(rank, failure.cause)
            }
            Error::MessageTooLong { to, bytes, limit } => Error::MessageTooLong {
                to: Rank::new(self.host.rank_of(to.number())),
                bytes,
                limit,
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use pgas_core::backend::loopback::{self, Options};
    use pgas_core::backend::{HandlerId, MessageClass, Operand, RemoteAddr};

    use super::*;

    const REQUEST: (MessageClass, HandlerId) = (MessageClass::Request, HandlerId(40));
    const SEGMENT: u64 = 1 << 16;

    #[derive(Clone, Copy)]
    struct Word(RemoteAddr);

    impl Operand for Word {
        fn rank(&self) -> Rank {
            self.0.rank
        }

        unsafe fn named(self, rank: Rank) -> Self {
            Self(RemoteAddr { rank, ..self.0 })
        }
    }

    /// The members of the ranks 2, 5 and 6 of a job.
    fn host(reach: Option<Reach>) -> Vec<Neighbours<impl Backend>> {
        let members = loopback::job(3, SEGMENT, &Options::default());
        let places = members.into_iter().zip(0..);
        let neighbours = places.map(|(member, index)| {
            let host = Host::new([2, 5, 6].into(), index);
            let otherwise = reach.unwrap_or(Reach::Nobody);
            Neighbours::new(host, Arc::new(member), reach.is_none(), otherwise)
        });
        neighbours.collect()
    }

    #[test]
    fn ranks_are_reached_as_far_as_the_direct_path_goes() {
        for (reach, reached) in [
            (None, &[2, 5, 6][..]),
            (Some(Reach::Own), &[5]),
            (Some(Reach::Nobody), &[]),
        ] {
            let of = &host(reach)[1];
            for number in 0..9 {
                let rank = Rank::new(number);
                let place = [2, 5, 6].iter().position(|it| *it == number);
                let name = place.map(|place| Rank::new(u32::try_from(place).unwrap()));
                let expected = name.filter(|_| reached.contains(&number));
                let word = Word(RemoteAddr { rank, offset: 8 });
                assert_eq!(of.find(rank), name, "{rank}");
                assert_eq!(of.beside(word).map(|it| it.0.rank), name, "{rank}");
                assert_eq!(of.reached(rank), expected, "{rank} {reach:?}");
                assert_eq!(of.on_this_host(word).map(|it| it.0.rank), expected);
                assert_eq!(of.is_direct(), reach.is_none());
                let offer = of.prepare(rank, 8).unwrap();
                assert!(expected.is_some() || matches!(offer, Offer::Elsewhere));
                let sent = of.try_send(rank, REQUEST, &[b"word"], 4).unwrap();
                assert_eq!(sent.is_some(), expected.is_some());
                let refused = of.try_send(rank, REQUEST, &[b"wor", b"ds"], 4);
                assert!(refused.unwrap_err().to_string().contains('5'), "{rank}");
            }
            assert_eq!(of.mapped_ranks(), 2..7);
            assert_eq!(of.segment_bytes(), SEGMENT);
            assert!(of.mapped_stride().is_none(), "there are ranks between them");
        }
    }

    #[test]
    fn messages_and_failures_have_the_numbers_of_the_job() {
        let all = host(None);
        let sent = all[2].try_send(Rank::new(2), REQUEST, &[b"late"], 9);
        assert!(matches!(sent, Ok(Some(Sent::Accepted))), "{sent:?}");
        let mut froms = Vec::new();
        while froms.is_empty() {
            let n = all[0].poll(MessageClass::Request, 9, &mut |it| froms.push(it.from));
            assert_eq!(n.unwrap(), froms.len());
            all[2].member.progress().unwrap();
        }
        assert_eq!(froms, [Rank::new(6)]);
        assert!(all[0].health().is_ok());
        all[0].blame(Rank::new(1), "is of another host, and failed");
        for of in &all {
            let error = of.health().unwrap_err().to_string();
            assert!(error.contains("rank 1 is of another host"), "{error}");
        }
    }

    #[test]
    fn who_sends_to_a_rank_that_has_left_gets_an_error_with_its_number_in_the_job() {
        let all = host(None);
        all[1].leave(&mut |_| {});
        let sent = all[2].try_send(Rank::new(5), REQUEST, &[b"late"], 9);
        let error = sent.unwrap_err().to_string();
        assert!(error.contains("rank 5 has left"), "{error}");
        all[0].blame(Rank::new(1), "is of another host, and failed");
        let sent = all[2].try_send(Rank::new(5), REQUEST, &[b"late"], 9);
        let error = sent.unwrap_err().to_string();
        assert!(error.contains("rank 1 is of another host"), "{error}");
    }

    #[test]
    fn a_members_error_on_too_long_a_message_gets_the_receivers_number_in_the_job() {
        let error = host(None)[0].error_of_the_job(Error::too_long(Rank::new(2), 9, 8));
        assert!(error.to_string().contains("to rank 6 "), "{error}");
    }

    #[test]
    #[should_panic(expected = "the host's ranks are the member's")]
    fn a_member_of_another_job_is_refused() {
        let member = loopback::job(2, SEGMENT, &Options::default()).remove(0);
        let host = Host::new([2, 5, 6].into(), 0);
        drop(Neighbours::new(host, Arc::new(member), true, Reach::Own));
    }
}
