//! Requests that come when a rank is leaving, for handlers of the program's own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::{HandlerId, Message, MessageClass};
use crate::rank::Rank;

/// The number of refused requests, which only this rank can report.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    n: AtomicU64,
    first: OnceLock<(Rank, HandlerId)>,
}

impl Refused {
    /// Records a message, if it is such a request. Questions about long waits and replies need no
    /// report: their senders learn of it otherwise.
    pub(crate) fn add(&self, message: &Message<'_>) {
        if !message.handler.is_heard_of() || message.class != MessageClass::Request {
            return;
        }
        // Relaxed: the leaving thread itself reports the number.
        self.n.fetch_add(1, Ordering::Relaxed);
        self.first.get_or_init(|| (message.from, message.handler));
    }

    /// The report.
    pub(crate) fn text(&self, rank: Rank) -> Option<String> {
        let (from, HandlerId(id)) = self.first.get()?;
        let n = self.n.load(Ordering::Relaxed);
        Some(format!(
            "rank {rank} has left the job with {n} messages lost that came when it was leaving: the first \
             from rank {from} for handler {id}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_come_when_the_rank_is_leaving_are_told() {
        let refused = Refused::default();
        let refuse = |from, class, id| {
            refused.add(&Message {
                from: Rank::new(from),
                class,
                handler: HandlerId(id),
                payload: &[],
            });
        };
        refuse(1, MessageClass::Request, HandlerId::WATCH.0);
        refuse(1, MessageClass::Reply, HandlerId::N_RESERVED);
        assert_eq!(refused.text(Rank::ZERO), None);
        for from in [4, 5] {
            refuse(from, MessageClass::Request, HandlerId::N_RESERVED);
        }
        let text = refused.text(Rank::ZERO).unwrap();
        let parts = [
            "rank 0 has left",
            "2 messages lost",
            "from rank 4 for handler",
        ];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}
