//! Messages of all lengths, in receive buffers for one message or for many.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_am::{ActiveMessages, Payload, RemoteCalls, RequestHandler, Token};
use pgas_core::Rank;
use pgas_testkit::job::Ended;

use super::{ranks, run, strict, world};

/// Messages of each rank. Together they are longer than several buffers.
const N_MESSAGES: u64 = 400;
/// Lengths of payloads, some of which travel with others.
const LENGTHS: &[usize] = &[0, 5, 16_300, 64, 4_001, 1_030, 13, 9_999];

/// Over a provider that has receives of many messages: with a completion for the end of each, with
/// the last message as the end, not at all, and only by its own word.
pub(crate) fn test() {
    for (how, has_many) in [("1", true), ("2", true), ("0", false), ("3", false)] {
        let mut command = ranks(2, "letters", "");
        command
            .env("FI_STRICT_MANY", how)
            .env("FI_STRICT_TELL", "1");
        command.env("FI_STRICT_AGAIN", "5");
        strict::choose(&mut command);
        let ended = run(command);
        assert_eq!(ended.code(), 0, "{how}: {ended:?}");
        let posted = posted(&ended);
        assert_eq!(posted.len(), 2, "{how}: {ended:?}");
        for [n_receives, n_of_many] in posted {
            if has_many {
                assert_eq!(n_receives, n_of_many, "{how}: {ended:?}");
                assert!((5..100).contains(&n_receives), "{how}: {ended:?}");
            } else {
                assert!(n_of_many == 0 && n_receives > 100, "{how}: {ended:?}");
            }
        }
    }
}

/// Over TCP with the provider's buffers shorter than messages, which then come in parts, and short
/// ones before longer ones that were sent earlier.
pub(crate) fn in_parts() {
    let mut command = ranks(3, "in_parts", "");
    command.env("FI_OFI_RXM_BUFFER_SIZE", "4096");
    let ended = run(command);
    assert_eq!(ended.code(), 0, "{ended:?}");
}

/// Rank 0 calls with long arguments, and for results of all lengths.
pub(crate) fn play_in_parts(_: &str) {
    const N_ROUNDS: usize = 500;
    const RESULTS: &[usize] = &[100, 500_000, 7_000, 29_000, 30, 12_345];
    let world = world();
    pgas_am::attach(&world).expect("a rank of the job");
    let call = || -> pgas_am::Result<()> {
        let mut open = VecDeque::new();
        for i in 0..N_ROUNDS {
            let to = Rank::new(1 + u32::from(i % 2 == 0));
            let len = RESULTS[i % RESULTS.len()];
            let taken = world.rpc(to, |bytes: Vec<u8>| bytes.len(), vec![0; 12_000])?;
            open.push_back((taken, world.rpc(to, |len| vec![1_u8; len], len)?, len));
            while open.len() > i * 7 % 16 {
                let (taken, result, len) = open.pop_front().expect("there are more");
                assert_eq!(taken.wait()?, 12_000);
                assert_eq!(result.wait()?, vec![1; len]);
            }
        }
        Ok(())
    };
    if world.rank() == Rank::ZERO {
        call().expect("all calls are answered");
    }
    world.barrier().expect("all have come");
}

/// What each rank's provider says that was posted: all receives, and those of many messages.
fn posted(ended: &Ended) -> Vec<[u64; 2]> {
    let told = ended.stderr.lines().filter_map(|line| {
        let (_, counts) = line.split_once("strict has posted ")?;
        let mut counts = counts.split(' ').filter_map(|word| word.parse().ok());
        Some([counts.next()?, counts.next()?])
    });
    told.collect()
}

/// Counts the messages, whose bytes all tell their number.
struct Count(Arc<AtomicU64>);

impl RequestHandler for Count {
    type Args = u64;

    fn handle(&self, _: Token<'_>, number: u64, payload: Payload<'_>) -> pgas_am::Result<()> {
        let Payload::Medium(bytes) = payload else {
            panic!("a payload");
        };
        assert_eq!(bytes.len(), length_of(number));
        assert!(bytes.iter().all(|it| *it == byte_of(number)), "{number}");
        assert!(bytes.as_ptr().addr().is_multiple_of(8), "{bytes:p}");
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn length_of(number: u64) -> usize {
    LENGTHS[usize::from(byte_of(number)) % LENGTHS.len()]
}

fn byte_of(number: u64) -> u8 {
    u8::try_from(number % 251).expect("less")
}

/// Both ranks send, as fast as the other one takes it.
pub(crate) fn play(_: &str) {
    let world = world();
    pgas_am::attach(&world).expect("a rank of the job");
    let n_arrived = Arc::new(AtomicU64::new(0));
    let handler = Count(Arc::clone(&n_arrived));
    world.register(handler).expect("a handler");
    world.barrier().expect("all have it");
    let other = Rank::new(1 - world.rank().number());
    for number in 0..N_MESSAGES {
        let payload = vec![byte_of(number); length_of(number)];
        let sent = world.request_medium::<Count>(other, &number, &payload);
        sent.expect("it is sent");
    }
    let have_come = || Ok(n_arrived.load(Ordering::Relaxed) == N_MESSAGES);
    world.wait_for("the messages", have_come).expect("all come");
    world.barrier().expect("all have come");
}
