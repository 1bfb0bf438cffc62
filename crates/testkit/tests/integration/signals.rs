//! Long data with a signal, over a network that delivers in any order, as long as nobody flushes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pgas_core::backend::SignalUpdate;
use pgas_core::{Config, Rank, World};
use pgas_testkit::{setting, weak};

const TARGET: Rank = Rank::new(1);

/// Longer than the transport's longest transfer, in words.
const N: usize = (1 << 17) + 5000;

fn announced(world: &World, has_looked: &AtomicBool) {
    let data = world.alloc_symmetric::<u64>(N).unwrap();
    let signal = world.alloc_symmetric::<u64>(1).unwrap();
    if world.rank() == TARGET {
        signal.here().wait_until(world, |seen| seen == 1).unwrap();
        let is_there = data.here().get_vec(world, N).unwrap() == vec![7; N];
        has_looked.store(true, Ordering::Release);
        assert!(is_there, "the signal came before all of its data");
    } else {
        let (at, update) = (data.on(TARGET), SignalUpdate::Set(1));
        at.put_signal(world, &[7; N], signal.on(TARGET), update)
            .unwrap();
        while signal.on(TARGET).atomic_load(world).unwrap() == 0 {
            world.progress().unwrap();
        }
        // Data in flight stays in flight until the target has checked.
        while !has_looked.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
    world.barrier().unwrap();
}

#[test]
fn who_sees_a_signal_sees_all_of_its_long_data() {
    let mut config = Config::default();
    config.segment_bytes = Some(4 << 20);
    for seed in 0..setting("PGAS_TEST_SEEDS", 20) {
        let has_looked = AtomicBool::new(false);
        weak::run(2, &config, seed, |world| announced(&world, &has_looked));
    }
}
