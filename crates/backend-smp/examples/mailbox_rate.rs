//! Round trip and one-way rate of the mailbox between two threads, beside the floor: two bare cache
//! lines.
//!
//! `cargo run --release -p pgas-smp --example mailbox_rate`. Needs two cores. Only figures of the
//! same run can be compared.
#![expect(clippy::print_stdout, reason = "prints its measurements")]

use std::{
    hint,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Release},
    },
    thread,
    time::Instant,
};

use pgas_lockfree::mailbox::Mailbox;
use pgas_smp::doorbell::Doorbell;

const N_SLOTS: usize = 1024;
const N_ROUND_TRIPS: u64 = 400_000;
const N_MESSAGES: u64 = 4_000_000;
const N_SAMPLES: usize = 7;

#[repr(align(128))]
struct Line(AtomicU64);

/// Nanoseconds per round trip of a number between two cache lines.
fn bare_round_trip() -> f64 {
    let lines = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    let wait = |line: &Line, n| {
        while line.0.load(Acquire) != n {
            hint::spin_loop();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=N_ROUND_TRIPS {
                wait(&lines[0], n);
                lines[1].0.store(n, Release);
            }
        });
        nanoseconds_each(N_ROUND_TRIPS, || {
            for n in 1..=N_ROUND_TRIPS {
                lines[0].0.store(n, Release);
                wait(&lines[1], n);
            }
        })
    })
}

fn words() -> Vec<AtomicU64> {
    let n_words = Mailbox::bytes(N_SLOTS) / size_of::<u64>();
    (0..n_words).map(|_| AtomicU64::new(0)).collect()
}

fn send(mailbox: &Mailbox<'_>, bell: Option<&Doorbell>, payload: &[u8]) {
    while mailbox.try_send(0, 1, &[payload]).is_err() {
        hint::spin_loop();
    }
    if let Some(bell) = bell {
        bell.ring();
    }
}

fn receive(mailbox: &Mailbox<'_>, buf: &mut Vec<u8>) {
    while mailbox
        .try_receive(buf)
        .expect("nobody scribbles")
        .is_none()
    {
        hint::spin_loop();
    }
}

/// Nanoseconds per round trip of a message of `len` bytes. Rings after each message if `rings`.
fn round_trip(len: usize, rings: bool) -> f64 {
    let (ping, pong, bell) = (words(), words(), Doorbell::default());
    let (ping, pong) = (
        Mailbox::attach(&ping, N_SLOTS),
        Mailbox::attach(&pong, N_SLOTS),
    );
    let bell = rings.then_some(&bell);
    let payload = vec![7; len];
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buf = Vec::new();
            for _ in 0..N_ROUND_TRIPS {
                receive(&ping, &mut buf);
                send(&pong, bell, &buf);
            }
        });
        let mut buf = Vec::new();
        nanoseconds_each(N_ROUND_TRIPS, || {
            for _ in 0..N_ROUND_TRIPS {
                send(&ping, bell, &payload);
                receive(&pong, &mut buf);
            }
        })
    })
}

/// Nanoseconds per message of `len` bytes in one direction.
fn one_way(len: usize) -> f64 {
    let words = words();
    let mailbox = Mailbox::attach(&words, N_SLOTS);
    let payload = vec![7; len];
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..N_MESSAGES {
                send(&mailbox, None, &payload);
            }
        });
        let mut buf = Vec::new();
        nanoseconds_each(N_MESSAGES, || {
            for _ in 0..N_MESSAGES {
                receive(&mailbox, &mut buf);
            }
        })
    })
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn nanoseconds_each(n: u64, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64 / n as f64
}

fn median(measure: impl Fn() -> f64) -> f64 {
    let mut samples = [(); N_SAMPLES].map(|()| measure());
    samples.sort_by(f64::total_cmp);
    samples[N_SAMPLES / 2]
}

fn main() {
    println!(
        "bare lines, round trip         {:7.0} ns",
        median(bare_round_trip)
    );
    for len in [8, 48, 112] {
        println!(
            "{len:4} B, round trip             {:7.0} ns",
            median(|| round_trip(len, false))
        );
        println!(
            "{len:4} B, round trip with bells  {:7.0} ns",
            median(|| round_trip(len, true))
        );
        println!(
            "{len:4} B, one way                {:7.1} M/s",
            1e3 / median(|| one_way(len))
        );
    }
    println!(
        "bare lines, round trip again   {:7.0} ns",
        median(bare_round_trip)
    );
}
