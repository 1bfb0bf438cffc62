//! Payloads that are filled in the network's buffers.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_am::{ActiveMessages, Payload, RequestHandler, Token};
use pgas_core::Rank;

use super::{ranks, run, strict, world};

/// The number of places of a rank, as `outbox.rs` has it.
const N_PLACES: usize = 16;
/// A payload that is sent from its place.
const LONG: usize = 10_000;
/// A payload that travels with others.
const SHORT: usize = 100;

pub(crate) fn test() {
    let mut tcp = ranks(2, "in_place", "");
    tcp.env("PGAS_SEGMENT", "4M");
    let mut demanding = ranks(2, "in_place", "");
    demanding.env("PGAS_SEGMENT", "4M");
    demanding.env("FI_STRICT_AGAIN", "3");
    strict::choose(&mut demanding);
    for command in [tcp, demanding] {
        let ended = run(command);
        assert_eq!(ended.code(), 0, "{ended:?}");
    }
}

/// The sum of what has arrived, if all bytes of a payload are those of its argument.
struct Sum(Arc<AtomicU64>);

impl RequestHandler for Sum {
    type Args = u64;

    fn handle(&self, _: Token<'_>, byte: u64, payload: Payload<'_>) -> pgas_am::Result<()> {
        let Payload::Medium(bytes) = payload else {
            panic!("a payload");
        };
        assert!(bytes.iter().all(|it| u64::from(*it) == byte), "{byte}");
        assert!(bytes.as_ptr().addr().is_multiple_of(8), "{bytes:p}");
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Takes all places, sends from some, gives the others back, and again.
pub(crate) fn play(_: &str) {
    let world = world();
    pgas_am::attach(&world).expect("a rank of the job");
    let arrived = Arc::new(AtomicU64::new(0));
    world
        .register(Sum(Arc::clone(&arrived)))
        .expect("a handler");
    world.barrier().expect("all have it");
    let other = Rank::new(1 - world.rank().number());
    let expected = Cell::new(0);
    let fill = |len: usize, byte: u8| {
        let mut buffer = world.prepare(other, len).expect("a buffer");
        buffer.fill(byte);
        buffer
    };
    for round in 1..20 {
        let held: Vec<_> = (0..N_PLACES).map(|_| fill(LONG, round)).collect();
        assert!(held.iter().all(|buffer| buffer.is_in_place()));
        // All are held: memory of this process does, and nobody is delayed.
        let further = fill(LONG, round);
        assert!(!further.is_in_place());
        world.barrier().expect("nobody is delayed");
        let send = |buffer: pgas_am::Prepared<'_>, len: usize| {
            expected.set(expected.get() + len as u64);
            buffer
                .commit::<Sum>(&round.into(), len)
                .expect("it is sent");
        };
        send(further, LONG);
        for (i, buffer) in held.into_iter().enumerate() {
            match i % 4 {
                0 => drop(buffer),
                // So short that it is copied.
                1 => send(buffer, SHORT),
                _ => send(buffer, LONG - i),
            }
        }
        assert!(!fill(SHORT, round).is_in_place());
        let is_here = || Ok(arrived.load(Ordering::Relaxed) == expected.get());
        world.wait_for("the payloads", is_here).expect("they come");
    }
    world.barrier().expect("all have come");
}
