//! Registrations that fail, and those that are in use when a rank gives up, over the provider that
//! ends the process if memory is still lent to it.

use std::process::Command;
use std::thread;
use std::time::Duration;

use pgas_core::{Error, Rank};
use pgas_testkit::job::{self, Ended};

use super::{assert_refused, ranks, run, strict, world};

/// Bytes of each rank's segment.
const SEGMENT: u64 = 1 << 20;
/// The receive buffers that are registered at the start.
const RECEIVES: u64 = 32 * (16 << 10);
/// Words of a long transfer.
const LONG: usize = 48 << 10;
/// More than all the buffers of the messages in a test, and less than a long transfer.
const SHORT_OF_LONG: u64 = 256 << 10;

/// What `strict` prints before it ends a process that does not obey.
const BROKEN: &str = "strict: ";

fn limited(part: &str, limit: u64) -> Command {
    let mut command = ranks(2, part, "");
    command.env("PGAS_SEGMENT", SEGMENT.to_string());
    command.env("FI_STRICT_LIMIT", limit.to_string());
    strict::choose(&mut command);
    command
}

#[track_caller]
fn assert_obeyed(ended: &Ended) {
    assert!(!ended.stderr.contains(BROKEN), "{ended:?}");
}

/// The limit is below the segment, or below the receive buffers, some of which are posted already.
pub(crate) fn too_much_at_the_start() {
    let told = ["fi_mr_reg", "Cannot allocate memory", "`ulimit -l`"];
    let ended = run(limited("start", SEGMENT - 1));
    assert_refused(&ended, &[&told[..], &["PGAS_SEGMENT"]].concat());
    assert_obeyed(&ended);
    let ended = run(limited("start", SEGMENT + RECEIVES / 2));
    assert_refused(&ended, &told);
    assert_obeyed(&ended);
}

pub(crate) fn too_much_later() {
    let ended = run(limited("refused_put", SEGMENT + RECEIVES + SHORT_OF_LONG));
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_obeyed(&ended);
}

/// Puts and gets more than can be registered, then less.
pub(crate) fn put_and_go_on(_: &str) {
    let world = world();
    let words = world.alloc_symmetric::<u64>(LONG).expect("room");
    let there = words.on(Rank::new(1 - world.rank().number()));
    let refused = |error: Error| {
        let text = error.to_string();
        assert!(text.contains("fi_mr_reg") && !text.contains('\n'), "{text}");
    };
    refused(there.put_slice(&world, &[1; LONG]).expect_err("a long put"));
    let put = there.put_vec_nb(&world, vec![1; LONG]);
    refused(put.expect_err("a long put that does not wait"));
    refused(
        there
            .get_slice(&world, &mut vec![1; LONG])
            .expect_err("a long get"),
    );
    world.barrier().expect("the network still works");
    there
        .put_slice(&world, &[7; LONG / 8])
        .expect("a shorter put");
    world.flush_all().expect("it arrives");
    world.barrier().expect("all have put");
    let own = words.on(world.rank()).add(LONG / 8 - 1);
    assert_eq!(own.get(&world).expect("its own"), 7);
    world.barrier().expect("all have looked");
}

/// Messages wait for the buffers that there are.
pub(crate) fn no_more_buffers() {
    for beyond in [4, 8] {
        let limit = SEGMENT + RECEIVES + beyond * (16 << 10);
        let ended = run(limited("letters", limit));
        assert_eq!(ended.code(), 0, "{beyond}: {ended:?}");
        assert_obeyed(&ended);
    }
}

pub(crate) fn memory_taken_back() {
    let mut command = limited("give_up", 16 * SEGMENT);
    command.env("PGAS_TIMEOUT", "0.5");
    let ended = run(command);
    assert_ne!(ended.code(), 0, "{ended:?}");
    assert!(ended.stdout.contains("gave up: "), "{ended:?}");
    let why = "gave up waiting for a transfer: rank 0 waited ";
    assert!(ended.stdout.contains(why), "{ended:?}");
    assert_obeyed(&ended);
    assert!(ended.left.is_empty(), "{ended:?}");
}

pub(crate) fn who_takes_the_room() {
    let mut command = ranks(3, "take_room", "");
    command.env("PGAS_TIMEOUT", "0.5");
    let ended = run(command);
    assert_ne!(ended.code(), 0, "{ended:?}");
    let told = "s for room for a transfer or an atomic; missing: rank 1";
    assert!(ended.stdout.contains(told), "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
}

/// Rank 0 has as many atomics in flight as it may have, all on words of rank 1, which serves nobody.
/// Then it wants to put to rank 2, which does.
pub(crate) fn take_room(_: &str) {
    const MOST: usize = 4096;
    let world = world();
    let words = world.alloc_symmetric::<u64>(1).expect("room");
    world.barrier().expect("all are here");
    match world.rank().number() {
        0 => {
            // Rank 1 leaves the barrier meanwhile.
            thread::sleep(Duration::from_secs(1));
            let there = words.on(Rank::new(1));
            let adds: Vec<_> = (0..MOST).map(|_| there.fetch_add_nb(&world, 1)).collect();
            let put = words.on(Rank::new(2)).put_nb(&world, 1);
            job::say(&format!("refused: {}", put.expect_err("there is no room")));
            drop(adds);
            job::exit(1);
        }
        1 => thread::sleep(Duration::from_secs(20)),
        _ => while world.serve().is_ok() {},
    }
}

pub(crate) fn late_leave() {
    let mut command = limited("leave_late", 16 * SEGMENT);
    command.env("PGAS_TIMEOUT", "0.5");
    let ended = run(command);
    assert_ne!(ended.code(), 0, "{ended:?}");
    let why = "s for the end of its operations before it leaves";
    assert!(ended.stderr.contains(why), "{ended:?}");
    assert_obeyed(&ended);
    assert!(ended.left.is_empty(), "{ended:?}");
}

/// Rank 0 leaves while gets are in flight whose events it has dropped. Rank 1 serves nobody.
pub(crate) fn leave_late(_: &str) {
    let world = world();
    let words = world.alloc_symmetric::<u64>(LONG).expect("room");
    world.barrier().expect("all are here");
    if world.rank() != Rank::ZERO {
        thread::sleep(Duration::from_secs(20));
        return;
    }
    // Rank 1 may have served some when it leaves the barrier.
    for _ in 0..100 {
        drop(words.on(Rank::new(1)).get_vec_nb(&world, LONG));
    }
}

/// Rank 0 gives up waiting for a long get from rank 1, which serves nobody.
pub(crate) fn give_up(_: &str) {
    let world = world();
    let words = world.alloc_symmetric::<u64>(LONG).expect("room");
    world.barrier().expect("all are here");
    if world.rank() != Rank::ZERO {
        thread::sleep(Duration::from_secs(20));
        return;
    }
    let mut here = vec![0; LONG];
    // Rank 1 may have served some when it leaves the barrier.
    let mut gets = (0..100).map(|_| words.on(Rank::new(1)).get_slice(&world, &mut here));
    let error = gets.find_map(Result::err).expect("nobody serves them");
    job::say(&format!("gave up: {error}"));
    drop(gets);
    let error = words.on(Rank::new(1)).get_slice(&world, &mut here);
    let error = error.expect_err("the job has failed");
    job::say(&format!("then: {error}"));
    // The memory is this rank's alone again.
    drop(here);
    drop((words, world));
    job::exit(1);
}

/// The provider sends nothing that has to arrive before its sender goes, so no rank can leave.
pub(crate) fn last_words() {
    let mut command = ranks(3, "meet", "");
    command.env("FI_STRICT_UNSURE", "1");
    strict::choose(&mut command);
    let ended = run(command);
    assert_ne!(ended.code(), 0, "{ended:?}");
    assert!(
        ended.stderr.contains("cannot be reached any more"),
        "{ended:?}"
    );
    assert_obeyed(&ended);
}

/// Meets the others, and leaves.
pub(crate) fn meet(_: &str) {
    world().barrier().expect("all come");
}
