//! Many more ranks than processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libtest_mimic::Trial;
use pgas::backend::{HandlerId, MessageClass, Sent};
use pgas::{Config, HashMap, World};

use crate::jobs::{WATCHED, assert_well, start};
use crate::trial_alone;

const N_RANKS: u32 = 64;
const N_BARRIERS: u32 = 100;
const N_KEYS: u64 = 100;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_alone("many_ranks::processes", || {
            for way in WATCHED {
                assert_well(&start(way, N_RANKS, &["many"], &[]).end());
            }
        }),
        trial_alone("many_ranks::threads", || {
            let mut config = Config::default();
            config.segment_bytes = Some(4 << 20);
            let ranks = pgas::threads_with(N_RANKS, &config, |world| everything(&world)).unwrap();
            ranks.into_iter().for_each(|rank| rank.unwrap());
        }),
    ]
}

/// A little of every operation, each with a known total.
pub(crate) fn everything(world: &World) -> pgas::Result<()> {
    let n_ranks = u64::from(world.n_ranks());
    let own = u64::from(world.rank().number());
    for _ in 0..N_BARRIERS {
        world.barrier()?;
    }
    let sum_of_ranks = n_ranks * (n_ranks - 1) / 2;
    assert_eq!(world.allreduce(own, |a: u64, b: u64| a + b)?, sum_of_ranks);

    assert_eq!(messages_of_all(world)?, (n_ranks, sum_of_ranks));

    let map = HashMap::<u64, u64>::with_capacity(world, 1000)?;
    for key in 0..N_KEYS {
        map.fetch_add(&key, own + key)?;
    }
    world.barrier()?;
    for key in 0..N_KEYS {
        assert_eq!(map.find(&key)?, Some(sum_of_ranks + n_ranks * key));
    }
    assert_eq!(map.len()?, N_KEYS);
    world.barrier()
}

/// Sends a message to each rank, and returns the number and the sum of the received ones.
fn messages_of_all(world: &World) -> pgas::Result<(u64, u64)> {
    const HANDLER: HandlerId = HandlerId(HandlerId::N_RESERVED);
    let came = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let counters = Arc::clone(&came);
    world.set_handler(HANDLER, move |_, message| {
        let value = u64::from_le_bytes(message.payload.try_into().unwrap());
        assert_eq!(value, u64::from(message.from.number()));
        counters[1].fetch_add(value, Ordering::Relaxed);
        counters[0].fetch_add(1, Ordering::Release);
    });
    world.barrier()?;
    let own = u64::from(world.rank().number()).to_le_bytes();
    for rank in world.ranks() {
        world.wait_for("room for a message", || {
            let sent = world.try_send(rank, MessageClass::Request, HANDLER, &[&own])?;
            Ok(sent == Sent::Accepted)
        })?;
    }
    let n_ranks = u64::from(world.n_ranks());
    world.wait_for("the messages of all", || {
        Ok(came[0].load(Ordering::Acquire) >= n_ranks)
    })?;
    world.barrier()?;
    Ok((
        came[0].load(Ordering::Relaxed),
        came[1].load(Ordering::Relaxed),
    ))
}
