//! The room in a rank's mailbox that one sender leaves for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pgas_core::backend::{HandlerId, MessageClass, Sent};
use pgas_core::{Config, Rank, World};

const ID: HandlerId = HandlerId(HandlerId::N_RESERVED);
const TARGET: Rank = Rank::new(1);

/// Sends until a message is refused. Returns the number of accepted ones.
fn flood(world: &World) -> u64 {
    let send = || world.try_send(TARGET, MessageClass::Request, ID, &[]);
    let mut n_accepted = 0;
    while send().unwrap() == Sent::Accepted {
        n_accepted += 1;
    }
    assert_eq!(world.n_credits(TARGET, MessageClass::Request), 0);
    n_accepted
}

#[test]
fn a_rank_that_floods_an_inattentive_one_leaves_as_much_room_to_another() {
    let [is_deaf, is_flooded, is_full] = [const { AtomicBool::new(false) }; 3];
    let wait_for = |flag: &AtomicBool| {
        while !flag.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    let n_served = Arc::new(AtomicU64::new(0));
    let n_accepted = pgas_smp::threads_with(3, &config, |world| {
        let count = Arc::clone(&n_served);
        world.set_handler(ID, move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        world.barrier().unwrap();
        let n_accepted = match world.rank().number() {
            0 => {
                wait_for(&is_deaf);
                let n_accepted = flood(&world);
                is_flooded.store(true, Ordering::Release);
                n_accepted
            }
            1 => {
                // Outside of the barrier and of every call of the library: nothing is served
                // meanwhile.
                is_deaf.store(true, Ordering::Release);
                wait_for(&is_full);
                0
            }
            _ => {
                wait_for(&is_flooded);
                let n_accepted = flood(&world);
                is_full.store(true, Ordering::Release);
                n_accepted
            }
        };
        let all = world.allgather(&[n_accepted]).unwrap();
        let sum = all.iter().sum();
        let is_served = || Ok(n_served.load(Ordering::Relaxed) == sum);
        world.wait_for("the messages", is_served).unwrap();
        world.barrier().unwrap();
        n_accepted
    });
    let [first, none, second] = n_accepted.unwrap()[..] else {
        panic!("three ranks");
    };
    assert_eq!(none, 0);
    assert!(first > 0);
    // As much, except for what is counted in parts.
    assert!(2 * second > first, "{first} and {second}");
}
