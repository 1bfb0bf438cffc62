//! Registering handlers, and handing messages to them.

use std::cell::Cell;

use pgas_core::backend::{Message, MessageClass};
use pgas_core::{GlobalPtr, World};
use pgas_lockfree::message_counts::{MessageCounts, Served};

use super::handler::{Origin, Payload, ReplyHandler, RequestHandler, Token};
use crate::codec::{Decoder, Wire};
use crate::ids::{REPLY_LONG, REPLY_SHORT, REQUEST_LONG, REQUEST_SHORT};
use crate::state::{Am, Arrived};
use pgas_core::Result;

/// A request that is being served. Its drop counts it, also after a panic, unless there is a reply,
/// with which it is counted.
struct Request<'a> {
    message_counts: &'a MessageCounts,
    has_replied: Cell<bool>,
}

impl Drop for Request<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.has_replied.get() {
            self.message_counts.count_served();
        }
    }
}

/// Sets the handler of requests that name the type `H`.
#[track_caller]
pub(super) fn add_requests<H: RequestHandler>(am: &Am, handler: H) {
    let run = move |arrived: Arrived<'_>| {
        let request = Request {
            message_counts: &arrived.am.message_counts,
            has_replied: Cell::new(false),
        };
        let (args, payload) = decode::<H::Args>(&arrived)?;
        let token = Token::new(origin(&arrived), arrived.am, &request.has_replied);
        handler.handle(token, args, payload)
    };
    am.registry.add::<H>(MessageClass::Request, Box::new(run));
}

/// Sets the handler of replies that name the type `H`.
#[track_caller]
pub(super) fn add_replies<H: ReplyHandler>(am: &Am, handler: H) {
    let run = move |arrived: Arrived<'_>| {
        // The reply completes the request that it answers.
        let _served = Served::new(&arrived.am.message_counts);
        let (args, payload) = decode::<H::Args>(&arrived)?;
        handler.handle(origin(&arrived), args, payload)
    };
    am.registry.add::<H>(MessageClass::Reply, Box::new(run));
}

/// Runs the handler that `hash` names.
#[inline]
pub(crate) fn deliver(
    world: &World,
    am: &Am,
    message: &Message<'_>,
    hash: u64,
    bytes: &[u8],
) -> Result<()> {
    let Some(handler) = am.registry.find(message.class, hash) else {
        let what = format!("the handler with id {hash:#018x}");
        let reason = "which it has not registered";
        return Err(am.malformed(world, message, what, reason));
    };
    handler(Arrived {
        world,
        am,
        message,
        bytes,
    })
}

fn origin<'a>(arrived: &Arrived<'a>) -> Origin<'a> {
    Origin::new(arrived.world, arrived.message.from)
}

#[inline]
fn decode<'a, A: Wire>(arrived: &Arrived<'a>) -> Result<(A, Payload<'a>)> {
    let mut input = Decoder::at(arrived.world, arrived.bytes);
    match arrived.message.handler {
        REQUEST_SHORT | REPLY_SHORT => Ok((input.get_last()?, Payload::Short)),
        REQUEST_LONG | REPLY_LONG => {
            let (dst, len): (GlobalPtr<u8>, usize) = input.get()?;
            Ok((input.get_last()?, Payload::Long(dst, len)))
        }
        _ => {
            let args = input.get()?;
            Ok((args, Payload::Medium(input.rest_aligned())))
        }
    }
}
