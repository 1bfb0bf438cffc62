//! Payloads that are filled in place: they arrive, whatever happens to other ones, and block no
//! other message.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pgas_am::{
    ActiveMessages, Origin, Payload, RemoteCalls, ReplyHandler, RequestHandler, Token, attach,
    quiet,
};
use pgas_core::collective::op::Sum;
use pgas_core::{Error, Result, World};

use super::{case, case_alone};
use crate::Case;
use crate::support::{assert_panics, neighbour, random_bytes};
use pgas_testkit::rng;

pub(super) const CASES: &[Case] = &[
    case_alone!(1, prepared_buffers_arrive_as_they_were_filled),
    case_alone!(
        1,
        prepared_buffers_hold_up_nobody_for_as_long_as_they_are_held
    ),
    case_alone!(1, prepared_replies_arrive_as_they_were_filled),
    case_alone!(1, whoever_finds_no_free_buffer_loses_nothing),
];

type List = Arc<Mutex<Vec<Vec<u8>>>>;

/// Keeps every payload. The other argument is its length, or nothing.
struct Gather(List);

impl RequestHandler for Gather {
    type Args = Option<String>;

    fn handle(&self, _: Token<'_>, text: Self::Args, payload: Payload<'_>) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(
            match (text.unwrap_or_default(), payload) {
                (text, Payload::Medium(bytes)) => [text.as_bytes(), bytes].concat(),
                (_, Payload::Short | Payload::Long(..)) => panic!("a payload"),
            },
        );
        Ok(())
    }
}

fn gathering(world: &World) -> Result<List> {
    attach(world)?;
    let list = List::default();
    world.register(Gather(Arc::clone(&list)))?;
    world.barrier()?;
    Ok(list)
}

fn assert_came(list: &List, mut sent: Vec<Vec<u8>>) {
    let mut came = mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner));
    came.sort_unstable();
    sent.sort_unstable();
    assert_eq!(came.len(), sent.len());
    assert!(came == sent);
}

fn bytes_of(size: usize) -> Vec<u8> {
    random_bytes(&mut rng(size as u64), size)
}

fn prepared_buffers_arrive_as_they_were_filled(world: &World) -> Result<()> {
    let list = gathering(world)?;
    let next = neighbour(world, 1);
    let most = world.max_medium::<Gather>(next, &None)?;
    let sizes = [0, 1, 8, 47, 48, 100, 4000, most];
    for size in sizes {
        let mut buffer = world.prepare(next, size)?;
        assert_eq!(buffer.len(), size);
        assert!(buffer.as_ptr().addr().is_multiple_of(8));
        buffer.copy_from_slice(&bytes_of(size));
        // A dropped payload sends nothing.
        drop(world.prepare(next, size)?);
        let mut offered = Some(buffer);
        while let Some(buffer) = offered {
            assert!(*buffer == *bytes_of(size), "as it was");
            offered = buffer.try_commit::<Gather>(&None, size)?;
            world.progress()?;
        }
    }
    let mut sent = sizes.map(bytes_of).to_vec();
    // Shorter payloads than were prepared, with arguments of every length.
    for n_args in [0, 1, 90, 100, 120, 500] {
        let mut less = world.prepare(next, 1000)?;
        less[..70].fill(b'x');
        less.commit::<Gather>(&Some("a".repeat(n_args)), 70)?;
        sent.push([vec![b'a'; n_args], vec![b'x'; 70]].concat());
    }
    quiet(world)?;
    assert_came(&list, sent);
    assert!(world.prepare(next, most + 100).is_err());
    assert!(world.try_prepare(next, most + 100).is_err());
    assert_panics("11 bytes of 10 that were prepared", || {
        world.prepare(next, 10)?.commit::<Gather>(&None, 11)
    });
    let too_much = world.prepare(next, most)?;
    let error = too_much.commit::<Gather>(&Some("more".repeat(10)), most);
    let error = error.expect_err("with the arguments it is too long");
    assert!(matches!(error, Error::MessageTooLong { to, .. } if to == next));
    quiet(world)?;
    assert_came(&list, vec![]);
    world.barrier()
}

/// A handler that prepares a message to the caller, and commits it if there is room.
struct Ask(Arc<AtomicU64>);

impl RequestHandler for Ask {
    type Args = u64;

    fn handle(&self, token: Token<'_>, size: u64, _: Payload<'_>) -> Result<()> {
        let size = usize::try_from(size).expect("small");
        let mut buffer = token.world().prepare(token.from(), size)?;
        buffer.copy_from_slice(&bytes_of(size));
        if buffer.try_commit::<Gather>(&None, size)?.is_none() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        let waiting = token.world().prepare(token.from(), 8)?;
        let error = waiting.commit::<Gather>(&None, 8).expect_err("it waits");
        assert!(error.to_string().contains("inside a handler"), "{error}");
        Ok(())
    }
}

#[expect(clippy::mem_forget, reason = "what comes of it is tested")]
fn prepared_buffers_hold_up_nobody_for_as_long_as_they_are_held(world: &World) -> Result<()> {
    const N_HELD: usize = 20;
    const N_OTHERS: usize = 200;
    const ASKED: usize = 600;
    let list = gathering(world)?;
    let n_accepted = Arc::new(AtomicU64::new(0));
    world.register(Ask(Arc::clone(&n_accepted)))?;
    world.barrier()?;
    let (next, n_ranks) = (neighbour(world, 1), u64::from(world.n_ranks()));
    let mut held = Vec::new();
    for n in 0..N_HELD {
        let mut buffer = world.prepare(next, 100 + n)?;
        buffer.copy_from_slice(&bytes_of(100 + n));
        held.push(buffer);
    }
    // All other operations continue meanwhile, also with the same rank.
    world.barrier()?;
    for _ in 0..N_OTHERS {
        world.request_medium::<Gather>(next, &None, &[7; 50])?;
    }
    assert_eq!(world.rpc(next, |x: u64| x + 1, 1)?.wait()?, 2);
    assert_eq!(world.allreduce(1_u64, Sum)?, n_ranks);
    world.request::<Ask>(next, &(ASKED as u64))?;
    quiet(world)?;
    let n_accepted = world.allgather(&[n_accepted.load(Ordering::Relaxed)])?;
    let mut others = vec![vec![7; 50]; N_OTHERS];
    if n_accepted[next.index()] == 1 {
        others.push(bytes_of(ASKED));
    }
    assert_came(&list, others);
    world.barrier()?;
    // Some are forgotten, some are dropped, and the others arrive.
    let mut kept = held.split_off(N_HELD / 2);
    if let Some(buffer) = held.pop()
        && buffer.is_in_place()
    {
        // Forgetting one leaks memory of this process, as always.
        mem::forget(buffer);
    }
    drop(held);
    for buffer in kept.drain(..) {
        let len = buffer.len();
        buffer.commit::<Gather>(&None, len)?;
    }
    quiet(world)?;
    assert_came(
        &list,
        (N_HELD / 2..N_HELD).map(|n| bytes_of(100 + n)).collect(),
    );
    world.barrier()
}

/// Replies with the requested number of bytes, and does not reply if it is zero.
struct Fetch;
struct Fetched(List);

impl RequestHandler for Fetch {
    type Args = u64;

    fn handle(&self, token: Token<'_>, size: u64, _: Payload<'_>) -> Result<()> {
        let size = usize::try_from(size).expect("small");
        let mut reply = token.prepare(size.max(100))?;
        if size == 0 {
            return Ok(());
        }
        reply[..size].copy_from_slice(&bytes_of(size));
        reply.commit::<Fetched>(&(), size)
    }
}

impl ReplyHandler for Fetched {
    type Args = ();

    fn handle(&self, _: Origin<'_>, (): (), payload: Payload<'_>) -> Result<()> {
        let Payload::Medium(bytes) = payload else {
            panic!("a payload");
        };
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(bytes.to_vec());
        Ok(())
    }
}

fn prepared_replies_arrive_as_they_were_filled(world: &World) -> Result<()> {
    attach(world)?;
    let list = List::default();
    world.register(Fetch)?;
    world.register_reply(Fetched(Arc::clone(&list)))?;
    world.barrier()?;
    let next = neighbour(world, 1);
    let most = world.max_medium::<Gather>(next, &None)?;
    let sizes = [1, 40, 500, most - 8];
    let mut sent = Vec::new();
    for _ in 0..10 {
        for size in sizes {
            world.request::<Fetch>(next, &(size as u64))?;
            sent.push(bytes_of(size));
        }
        world.request::<Fetch>(next, &0)?;
    }
    quiet(world)?;
    assert_came(&list, sent);
    world.barrier()
}

fn whoever_finds_no_free_buffer_loses_nothing(world: &World) -> Result<()> {
    const N: usize = 40;
    let list = gathering(world)?;
    let next = neighbour(world, 1);
    let mut held = Vec::new();
    let mut sent = Vec::new();
    for n in 0..N {
        let size = 300 + n;
        let mut offered = world.try_prepare(next, size)?;
        while offered.is_none() {
            // This rank itself holds all buffers: one must be sent and handled.
            if let Some(buffer) = held.pop() {
                commit(buffer)?;
            }
            world.progress()?;
            offered = world.try_prepare(next, size)?;
        }
        let mut buffer = offered.expect("the loop ends with one");
        buffer.copy_from_slice(&bytes_of(size));
        held.push(buffer);
        sent.push(bytes_of(size));
    }
    held.into_iter().try_for_each(commit)?;
    quiet(world)?;
    assert_came(&list, sent);
    world.barrier()
}

fn commit(buffer: pgas_am::Prepared<'_>) -> Result<()> {
    let len = buffer.len();
    buffer.commit::<Gather>(&None, len)
}
