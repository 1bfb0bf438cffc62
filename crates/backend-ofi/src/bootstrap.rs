//! How ranks tell each other their addresses before there is a network: through the memory of their host.

use std::thread;

use pgas_core::backend::{Backend, HandlerId, MessageClass, Sent};
use pgas_core::{Config, Error, Rank, Result};
use pgas_network::host::Host;
use pgas_network::limits::{Awaited, Limits, LongWait, Over};
use pgas_smp::Member;

/// How the ranks of a job meet.
pub(crate) struct Meeting<'a> {
    member: &'a Member,
    limits: Limits,
}

/// Messages of a meeting. No other ones are in the mailboxes until it is over.
const MEETING: HandlerId = HandlerId(HandlerId::N_RESERVED);
/// Rounds of waiting between two looks at the job's health.
const ROUNDS_A_LOOK: u32 = 64;

impl<'a> Meeting<'a> {
    /// A meeting of the ranks of one host, who are the whole job.
    pub(crate) fn of_one_host(member: &'a Member, config: &Config) -> Self {
        let limits = Limits::new(config);
        Self { member, limits }
    }

    /// The ranks of this host.
    pub(crate) fn host(&self) -> Host {
        let ranks: Box<[u32]> = (0..self.member.n_ranks()).collect();
        Host::new(ranks, self.member.rank().number())
    }

    /// The address of this host by which the others reach it.
    pub(crate) fn node(&self) -> &'static str {
        "127.0.0.1"
    }

    /// What each rank says; fails on all of them, in the same words, if one has an error. Collective.
    pub(crate) fn gather(&self, own: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let said = match &own {
            Ok(bytes) => [&[0], &bytes[..]].concat(),
            Err(error) => [&[1], error.to_string().as_bytes()].concat(),
        };
        let answers = self.exchange(&said)?;
        own?;
        let mut all = Vec::with_capacity(answers.len());
        for (rank, answer) in answers.into_iter().enumerate() {
            match answer.split_first() {
                Some((0, bytes)) => all.push(bytes.to_vec()),
                Some((_, text)) => {
                    let text = String::from_utf8_lossy(text);
                    let text = format!("rank {rank} could not join: {text}");
                    return Err(Error::backend("start-up", 0, text));
                }
                None => return Err(Error::backend("start-up", 0, "an empty message")),
            }
        }
        Ok(all)
    }

    fn exchange(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (me, n_ranks) = (self.member.rank().number(), self.member.n_ranks());
        let mut answers: Vec<Option<Vec<u8>>> = vec![None; n_ranks as usize];
        answers[me as usize] = Some(own.to_vec());
        let mut next = 0;
        self.wait("the addresses of the other ranks", || {
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
            self.member
                .poll(MessageClass::Request, usize::MAX, &mut |message| {
                    if let Some(answer) = answers.get_mut(message.from.number() as usize) {
                        *answer = Some(message.payload.to_vec());
                    }
                })?;
            Ok(next == n_ranks && answers.iter().all(Option::is_some))
        })?;
        // Until all have all, so that nobody's next message comes among these.
        if let Some(ticket) = self.member.barrier_begin()? {
            self.wait("the other ranks to meet", || {
                self.member.barrier_test(ticket)
            })?;
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn wait(&self, what: &'static str, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
        let awaited = Awaited {
            what,
            missing: &Vec::new,
        };
        let mut long = LongWait::new(self.limits, self.member.rank(), awaited);
        let mut round = 0_u32;
        while !ready()? {
            round = round.wrapping_add(1);
            if round.is_multiple_of(ROUNDS_A_LOOK) {
                self.member.look_after_the_others();
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
