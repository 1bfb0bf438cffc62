//! One-way calls to a rank that leaves meanwhile: each is served, or reported as lost.

use std::sync::atomic::{AtomicU64, Ordering};

use pgas_am::RemoteCalls;
use pgas_core::Rank;
use pgas_testkit::job::{self, Ended};

use crate::{assert_well, ranks, run, world};

static N_SERVED: AtomicU64 = AtomicU64::new(0);

/// How many calls one rank has sent, the other one has served and told of, on two hosts of one rank
/// each.
pub(crate) fn told() {
    let mut command = ranks(2, "call_who_leaves", "", "1");
    command.env("MPIR_CVAR_ODD_EVEN_CLIQUES", "1");
    let ended = run(command);
    assert_well(&ended);
    assert!(assert_each_told(&ended) >= 100, "{ended:?}");
}

/// Returns the number of served calls.
#[track_caller]
fn assert_each_told(ended: &Ended) -> u64 {
    let number = |text: &str, before: &str, after: &str| -> Option<u64> {
        let (_, rest) = text.split_once(before)?;
        rest.split_once(after)?.0.parse().ok()
    };
    let Ended { stdout, stderr, .. } = ended;
    let n_sent = number(stdout, "rank 0 has sent ", " calls").expect("said so");
    let n_served = number(stdout, "rank 1 has served ", " calls").expect("said so");
    let n_lost = number(stderr, "rank 1 has left the job with ", " one-way message");
    assert_eq!(n_sent, n_served + n_lost.unwrap_or(0), "{ended:?}");
    n_served
}

/// As [`told`], of a rank that leaves at once behind its calls, to one that is leaving already: the
/// calls and the good-bye come together.
pub(crate) fn told_at_once() {
    // The last one goes in several messages.
    for payload in ["0", "900", "5000", "100000"] {
        let mut command = ranks(2, "call_and_leave", payload, "1");
        command.env("MPIR_CVAR_ODD_EVEN_CLIQUES", "1");
        let ended = run(command);
        assert_well(&ended);
        assert_each_told(&ended);
    }
}

/// Rank 0 sends some calls, unless it hears that rank 1 has left. Neither waits for anything.
pub(crate) fn call_and_leave(bytes: &str) {
    let world = world();
    pgas_am::attach(&world).expect("one program");
    let payload = vec![0_u8; bytes.parse().expect("a number")];
    let serve = |_: Vec<u8>| _ = N_SERVED.fetch_add(1, Ordering::Relaxed);
    let is_sender = world.rank() == Rank::ZERO;
    let n_sent = (0..if is_sender { 30 } else { 0 })
        .take_while(|_| world.rpc_ff(Rank::new(1), serve, payload.clone()).is_ok())
        .count();
    drop(world);
    let n_served = N_SERVED.load(Ordering::Relaxed);
    job::say(&if is_sender {
        format!("rank 0 has sent {n_sent} calls")
    } else {
        format!("rank 1 has served {n_served} calls")
    });
}

/// Rank 1 leaves when it has served some calls; rank 0 sends until it is told that rank 1 has left.
pub(crate) fn call_who_leaves(_: &str) {
    let world = world();
    pgas_am::attach(&world).expect("one program");
    let serve = |()| _ = N_SERVED.fetch_add(1, Ordering::Relaxed);
    if world.rank() == Rank::ZERO {
        let mut n_sent = 0_u64;
        let error = loop {
            // It learns of the other's end by asking, as a rank that waits does.
            let is_gone = world.has_left(Rank::new(1));
            match world.rpc_ff(Rank::new(1), serve, ()) {
                Ok(()) => assert!(!is_gone, "who knows that it has left is told"),
                Err(error) => break error,
            }
            n_sent += 1;
            world.progress().expect("a job that works");
        };
        assert!(error.to_string().contains("rank 1 has left"), "{error}");
        job::say(&format!("rank 0 has sent {n_sent} calls"));
        return;
    }
    let enough = || Ok(N_SERVED.load(Ordering::Relaxed) >= 100);
    world
        .wait_for("a hundred calls", enough)
        .expect("they come");
    drop(world);
    let n_served = N_SERVED.load(Ordering::Relaxed);
    job::say(&format!("rank 1 has served {n_served} calls"));
}
