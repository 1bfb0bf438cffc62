//! Ranks of one host meet through its memory.

use std::cell::RefCell;
use std::thread;

use pgas_core::backend::{Backend, HandlerId, MessageClass, Sent};
use pgas_core::{Config, Rank, Result};
use pgas_network::limits::{Awaited, Limits, LongWait, Over};
use pgas_smp::Member;

use super::Way;

/// The bootstrap of a job on one host.
#[derive(Debug)]
pub(crate) struct OneHost<'a> {
    member: &'a Member,
    limits: Limits,
}

/// Messages of a meeting. No other ones are in the mailboxes until it is over.
const MEETING: HandlerId = HandlerId(HandlerId::N_RESERVED);
/// Rounds of waiting between two checks of the job's health.
const ROUNDS_PER_CHECK: u32 = 64;

impl<'a> OneHost<'a> {
    pub(crate) fn new(member: &'a Member, config: &Config) -> Self {
        let limits = Limits::new(config);
        Self { member, limits }
    }

    fn wait(&self, awaited: Awaited<'_>, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
        let mut long = LongWait::new(self.limits, self.member.rank(), awaited);
        let mut round = 0_u32;
        while !ready()? {
            round = round.wrapping_add(1);
            if round.is_multiple_of(ROUNDS_PER_CHECK) {
                self.member.check_other_ranks();
                self.member.health()?;
                long.check().map_err(|over| match over {
                    Over::Timeout(error) => error,
                    Over::Stall(cause) => self.member.blame(self.member.rank(), &cause),
                })?;
            }
            thread::yield_now();
        }
        Ok(())
    }
}

impl Way for OneHost<'_> {
    fn n_ranks(&self) -> u32 {
        self.member.n_ranks()
    }

    fn exchange(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (me, n_ranks) = (self.member.rank().number(), self.member.n_ranks());
        let answers = RefCell::new(vec![None; n_ranks as usize]);
        answers.borrow_mut()[me as usize] = Some(own.to_vec());
        let mut next = 0;
        let missing = || missing(&answers.borrow());
        let awaited = Awaited {
            what: "the addresses of the other ranks",
            missing: &missing,
        };
        self.wait(awaited, || {
            while next < n_ranks {
                let to = Rank::new(next);
                let is_sent = next == me
                    || self
                        .member
                        .try_send(to, MessageClass::Request, MEETING, &[own])?
                        == Sent::Accepted;
                if !is_sent {
                    break;
                }
                next += 1;
            }
            let mut answers = answers.borrow_mut();
            self.member
                .poll(MessageClass::Request, usize::MAX, &mut |message| {
                    if let Some(answer) = answers.get_mut(message.from.number() as usize) {
                        *answer = Some(message.payload.to_vec());
                    }
                })?;
            Ok(next == n_ranks && answers.iter().all(Option::is_some))
        })?;
        // Wait until all ranks have received everything, so that no later message comes among
        // these.
        if let Some(ticket) = self.member.barrier_begin()? {
            let missing = || self.member.barrier_missing(ticket);
            let awaited = Awaited {
                what: "the other ranks to meet",
                missing: &missing,
            };
            self.wait(awaited, || self.member.barrier_test(ticket))?;
        }
        Ok(answers.into_inner().into_iter().flatten().collect())
    }
}

/// The ranks whose answers have not come.
fn missing(answers: &[Option<Vec<u8>>]) -> Vec<Rank> {
    let ranks = (0..).map(Rank::new).zip(answers);
    ranks
        .filter_map(|(rank, answer)| answer.is_none().then_some(rank))
        .collect()
}
