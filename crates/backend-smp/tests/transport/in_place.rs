//! Messages whose payload is written where the target reads it.

use std::mem;
use std::sync::{Arc, Mutex};

use pgas_core::backend::{HandlerId, MessageClass, Offer, Sent};
use pgas_core::{Config, InPlace, Rank, World};

const ID: HandlerId = HandlerId(HandlerId::N_RESERVED);
const CLASS: MessageClass = MessageClass::Request;

fn offered(world: &World, to: Rank, len: usize) -> Option<InPlace<'_>> {
    match world.prepare_in_place(to, len).unwrap() {
        Offer::InPlace(place) => Some(place),
        Offer::BackPressure => None,
        Offer::Elsewhere => panic!("ranks of one host share memory"),
    }
}

/// One after the other, until all are in use.
fn all_that_are_free(world: &World, to: Rank, len: usize) -> Vec<InPlace<'_>> {
    std::iter::from_fn(|| offered(world, to, len)).collect()
}

fn over_threads(n_ranks: u32, run: impl Fn(World) + Sync) {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    pgas_smp::threads_with(n_ranks, &config, run).unwrap();
}

/// The messages that have arrived: the address at which each was read, and its bytes.
type List = Arc<Mutex<Vec<(usize, Vec<u8>)>>>;

fn listing(world: &World) -> List {
    let list = List::default();
    let kept = Arc::clone(&list);
    world.set_handler(ID, move |_, message| {
        let at = message.payload.as_ptr().addr();
        kept.lock().unwrap().push((at, message.payload.to_vec()));
    });
    world.barrier().unwrap();
    list
}

fn wait_for(world: &World, list: &List, n: usize) {
    let is_here = || Ok(list.lock().unwrap().len() == n);
    world.wait_for("messages", is_here).unwrap();
}

#[test]
fn the_target_reads_where_the_sender_wrote() {
    static WRITTEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    over_threads(2, |world| {
        let list = listing(&world);
        if world.rank() == Rank::ZERO {
            for len in [1000, world.capabilities().max_medium - 8] {
                let mut place = offered(&world, Rank::new(1), len).unwrap();
                place.fill(7);
                WRITTEN.lock().unwrap().push(place.as_ptr().addr());
                let left = place.try_commit(CLASS, ID, &[1; 8], len).unwrap();
                assert!(left.is_none(), "there is room");
            }
        } else {
            wait_for(&world, &list, 2);
            let list = list.lock().unwrap();
            for (written, (read, bytes)) in WRITTEN.lock().unwrap().iter().zip(list.iter()) {
                assert_eq!(*written, read + 8, "behind the opening");
                assert!(bytes[..8] == [1; 8] && bytes[8..].iter().all(|byte| *byte == 7));
            }
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_rank_has_some_buffers_and_has_them_again_when_they_were_dropped_or_their_messages_handled() {
    over_threads(1, |world| {
        let list = listing(&world);
        let me = world.rank();
        let mut held = all_that_are_free(&world, me, 100);
        let n = held.len();
        assert!(n > 1, "{n} buffers");
        drop(held.pop());
        held.extend(offered(&world, me, 100));
        assert_eq!(held.len(), n);
        for mut place in held.drain(..) {
            place.fill(3);
            assert!(place.try_commit(CLASS, ID, &[], 100).unwrap().is_none());
        }
        // Nobody has made progress since.
        assert!(offered(&world, me, 100).is_none());
        wait_for(&world, &list, n);
        assert_eq!(all_that_are_free(&world, me, 100).len(), n);
    });
}

#[test]
fn forgotten_buffers_are_out_of_use_and_hold_nobody_up() {
    over_threads(2, |world| {
        let list = listing(&world);
        let other = Rank::new(1 - world.rank().number());
        all_that_are_free(&world, other, 100)
            .into_iter()
            .for_each(mem::forget);
        assert!(offered(&world, other, 100).is_none());
        let send = || world.try_send(other, CLASS, ID, &[&[5; 100]]);
        while send().unwrap() == Sent::BackPressure {
            world.progress().unwrap();
        }
        wait_for(&world, &list, 1);
        world.barrier().unwrap();
    });
}

#[test]
fn a_message_that_meets_back_pressure_is_given_back_as_it_was() {
    over_threads(1, |world| {
        let list = listing(&world);
        let me = world.rank();
        let mut place = offered(&world, me, 100).unwrap();
        place.fill(9);
        let mut n = 0;
        while world.try_send(me, CLASS, ID, &[]).unwrap() == Sent::Accepted {
            n += 1;
        }
        let left = place.try_commit(CLASS, ID, &[2; 8], 100).unwrap();
        let place = left.expect("there is no room");
        assert!(place.iter().all(|byte| *byte == 9));
        wait_for(&world, &list, n);
        assert!(place.try_commit(CLASS, ID, &[2; 8], 100).unwrap().is_none());
        wait_for(&world, &list, n + 1);
        let list = list.lock().unwrap();
        let (_, last) = list.last().unwrap();
        assert!(last[..8] == [2; 8] && last[8..] == [9; 100]);
    });
}

#[test]
fn what_is_short_or_opens_at_length_arrives_too() {
    over_threads(1, |world| {
        let list = listing(&world);
        let me = world.rank();
        for (opening, len) in [(0, 0), (8, 5), (3, 70), (1000, 70)] {
            let mut place = offered(&world, me, 1000).unwrap();
            place.fill(4);
            let opening = vec![6; opening];
            let left = place.try_commit(CLASS, ID, &opening, len).unwrap();
            assert!(left.is_none());
            world
                .wait_for("it", || Ok(!list.lock().unwrap().is_empty()))
                .unwrap();
            let (_, bytes) = list.lock().unwrap().pop().unwrap();
            assert_eq!(bytes, [opening, vec![4; len]].concat());
        }
        let n = all_that_are_free(&world, me, 8).len();
        assert_eq!(n, all_that_are_free(&world, me, 8).len(), "none is lost");
        let too_long = world.capabilities().max_medium + 1;
        assert!(world.prepare_in_place(me, too_long).is_err());
    });
}
