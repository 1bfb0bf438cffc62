//! Messages that make no sense: they were damaged, or a rank has sent what it should not have.
//!
//! Each was counted by its sender. So it counts as served, and `quiet` ends, with its error. If
//! somebody may wait for what the message should have brought, and cannot be told, the job fails:
//! that rank would wait for ever.

use pgas_core::World;
use pgas_core::backend::{HandlerId, Message};

use crate::error::unknown;
use crate::ids::{PIECE, REPLY_LONG, REPLY_MEDIUM, REPLY_SHORT, is_one_way};
use crate::pieces::Pieces;
use crate::state::Am;
use pgas_core::Error;

/// What the job fails in, if a message makes no sense.
const SERVING: &str = "serving a message";

impl Am {
    /// The error of `message`, of which `what` makes no sense for `reason`. It was not counted yet.
    #[cold]
    pub(crate) fn malformed(
        &self,
        world: &World,
        message: &Message<'_>,
        what: String,
        reason: &'static str,
    ) -> Error {
        self.message_counts.count_served();
        let error = unknown(world, message.from, what, reason);
        if is_awaited(message) {
            return world.give_up(SERVING, error);
        }
        error
    }
}

/// Whether a rank may wait for what a message should have brought.
fn is_awaited(message: &Message<'_>) -> bool {
    let handler = match message.handler {
        PIECE => Pieces::handler_of(message.payload),
        id => Some(id),
    };
    let is_reply = |id| matches!(id, REPLY_SHORT | REPLY_MEDIUM | REPLY_LONG);
    !handler.is_some_and(|id: HandlerId| is_one_way(id) || is_reply(id))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use pgas_core::backend::{MessageClass, loopback};
    use pgas_core::{Layer as _, Rank, Result, World};
    use zerocopy::IntoBytes as _;

    use super::*;
    use crate::function::{Call, FunctionId};
    use crate::future::PgasFuture;
    use crate::ids::{CALL, CALL_FF, FAILURE, REQUEST_MEDIUM, REQUEST_SHORT, RESULT};
    use crate::pieces::Piece;
    use crate::quiet;
    use crate::state::{Attached, am};

    const ONE: Rank = Rank::new(1);

    /// What becomes of a message that makes no sense.
    #[derive(Debug, PartialEq, Eq)]
    enum End {
        /// It counts as served, and the ranks go on.
        Counted,
        /// The caller is answered.
        Answered,
        /// The job fails.
        Failed,
    }

    fn piece(handler: HandlerId, len: u64) -> Vec<u8> {
        let piece = Piece {
            whole: 0,
            len,
            at: 0,
            handler: u64::from(handler.0),
        };
        [piece.as_bytes(), &[0; 8]].concat()
    }

    #[test]
    fn messages_that_make_no_sense_are_errors_that_say_who_sent_them() {
        for (id, payload, end) in [
            (CALL, vec![0; 23], End::Failed),
            (CALL, vec![0; 24], End::Answered),
            (CALL_FF, vec![1; 15], End::Counted),
            (CALL_FF, vec![1; 100], End::Counted),
            (RESULT, vec![0; 8], End::Failed),
            (RESULT, vec![0xff; 8], End::Failed),
            (FAILURE, vec![], End::Failed),
            (REQUEST_SHORT, vec![3; 9], End::Counted),
            (REQUEST_MEDIUM, vec![3; 7], End::Counted),
            (REPLY_MEDIUM, vec![3; 7], End::Counted),
            (REPLY_LONG, vec![3; 8], End::Counted),
            (PIECE, vec![0; 31], End::Failed),
            (PIECE, vec![0; 40], End::Failed),
            (PIECE, piece(CALL, 7), End::Failed),
            (PIECE, piece(CALL_FF, 7), End::Counted),
            // Complete, but no call.
            (PIECE, piece(REQUEST_SHORT, 8), End::Counted),
            (PIECE, piece(FAILURE, 8), End::Failed),
            (HandlerId(15), vec![], End::Failed),
        ] {
            let world = loopback::world();
            crate::attach(&world).unwrap();
            let attached = world.layer::<Attached>().unwrap();
            let message = Message {
                from: Rank::ZERO,
                class: MessageClass::Request,
                handler: id,
                payload: &payload,
            };
            let error = attached.deliver(&world, message).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("got a message from rank 0"), "{text}");
            let (_, n_served) = attached.0.message_counts.sums();
            assert_eq!(n_served, u64::from(end != End::Answered), "{text}");
            // The answer names a call that nobody waits for.
            let has_failed = (0..3).any(|_| world.serve().is_err());
            assert_eq!(has_failed, end != End::Counted, "{text}");
        }
    }

    /// Sends a message to rank 1, and counts it, as all that is sent.
    fn send(world: &World, id: HandlerId, payload: &[u8]) {
        let am = am(world).unwrap();
        am.request(world, ONE, id, &[payload]).unwrap();
    }

    /// Two ranks, of which rank 1 is ready for messages that make no sense when rank 0 begins
    /// `body`: it is in no call that would return their errors.
    fn run(body: impl Fn(&World) + Sync) {
        let is_ready = AtomicBool::new(false);
        loopback::run(2, |world| {
            crate::attach(&world).unwrap();
            let attached = world.layer::<Attached>().unwrap();
            let _tells = attached.0.lost.tells_errors();
            if world.rank() == ONE {
                is_ready.store(true, Ordering::Release);
            }
            let ready = || Ok(is_ready.load(Ordering::Acquire));
            world.wait_for("rank 1", ready).unwrap();
            body(&world);
        });
    }

    #[test]
    fn one_way_messages_that_make_no_sense_do_not_keep_ranks_from_being_quiet() {
        run(|world| {
            if world.rank() == Rank::ZERO {
                send(world, CALL_FF, &[0; 15]);
                send(world, CALL_FF, &[1; 100]);
                send(world, REQUEST_MEDIUM, &[2; 7]);
                send(world, PIECE, &piece(CALL_FF, 7));
            }
            let undelivered = quiet(world).unwrap_err();
            let text = undelivered.to_string();
            assert!(text.contains("got a message from rank 0"), "{text}");
            assert!(matches!(undelivered, Error::Undelivered(lost) if lost.n == 4));
            quiet(world).unwrap();
        });
    }

    #[test]
    fn the_caller_of_a_function_that_makes_no_sense_is_answered() {
        run(|world| {
            if world.rank() == Rank::ZERO {
                let am = am(world).unwrap();
                let names = am.names().unwrap();
                let mut function = FunctionId::of(names, drop::<u64>).unwrap();
                function.as_mut_bytes()[0] ^= 1;
                let cookie = am.pending.take_slot(ONE.number());
                let call = Call {
                    function,
                    cookie: cookie.0,
                };
                send(world, CALL, call.as_bytes());
                let answer: Result<()> = PgasFuture::answer(am, cookie, ONE).wait();
                let text = answer.unwrap_err().to_string();
                assert!(text.contains("the message was damaged"), "{text}");
            }
            let undelivered = quiet(world).unwrap_err();
            assert!(matches!(undelivered, Error::Undelivered(lost) if lost.n == 1));
        });
    }

    #[test]
    fn a_call_that_cannot_be_answered_fails_the_job_and_nobody_waits_for_ever() {
        run(|world| {
            if world.rank() == Rank::ZERO {
                send(world, CALL, &[0; 23]);
            }
            let text = quiet(world).unwrap_err().to_string();
            assert!(text.contains("got a message from rank 0"), "{text}");
        });
    }
}
