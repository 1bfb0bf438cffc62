//! What this backend takes beside libfabric's own calls in a loop, in the same two processes and
//! the same minutes.
//!
//! `cargo bench -p pgas-ofi` prints, for each operation, the median of both and of the ratios of
//! neighbouring samples. With `--test` each is done once. `PGAS_OFI_PROVIDER` chooses the provider
//! of both, and `PGAS_OFI_ATOMICS=provider` has it execute the atomics of both.

#![expect(
    clippy::print_stdout,
    reason = "a bench that is started by hand prints its table"
)]

#[expect(dead_code, reason = "the other bench calls the rest")]
mod raw;

use std::env;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgas_am::{ActiveMessages, Origin, Payload, ReplyHandler, RequestHandler, Token};
use pgas_core::backend::AtomicOp;
use pgas_core::{Config, GlobalPtr, Rank, Result, Symmetric, World};
use raw::{LONG, Operation, Raw};

/// The argument by which the binary is a rank. The next one is the number of samples.
const RANK: &str = "--rank";
const SAMPLES: usize = 31;

/// The name of an operation, and its number in a sample. Floods end when all is delivered.
const OPERATIONS: &[(&str, Operation, usize)] = &[
    ("put of 8 B and flush", Operation::Put, 200),
    ("get of 8 B", Operation::Get, 200),
    ("fetch_add", Operation::FetchAdd, 200),
    ("compare_swap", Operation::CompareSwap, 200),
    ("request and reply", Operation::Message, 200),
    ("64 puts of 8 B", Operation::Flood(64, 8), 20),
    ("64 puts of 512 B", Operation::Flood(64, 512), 20),
    ("64 puts of 4 KiB", Operation::Flood(64, 4 << 10), 10),
    ("8 puts of 64 KiB", Operation::Flood(8, 64 << 10), 10),
    ("8 puts of 1 MiB", Operation::Flood(8, 1 << 20), 4),
    ("8 puts of 4 MiB", Operation::Flood(8, LONG), 1),
];

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    if let [flag, n_samples] = &args[..]
        && flag == RANK
    {
        let n_samples = n_samples.parse().expect("a number");
        return play(n_samples).expect("both ranks do the same");
    }
    let n_samples = if args.iter().any(|arg| arg == "--test") {
        1
    } else {
        SAMPLES
    };
    let mut ranks = Command::new(env::current_exe().expect("this program"));
    ranks.args([RANK, &n_samples.to_string()]);
    ranks
        .env("PGAS_RANKS", "2")
        .env("PGAS_DIRECT", "0")
        .env("PGAS_SEGMENT", "64M");
    let status = ranks.status().expect("the program runs");
    assert!(status.success(), "{status}");
}

fn play(n_samples: usize) -> Result<()> {
    let config = Config::from_env()?;
    let provider = config.ofi_provider.clone();
    let world = pgas_ofi::init(&config)?;
    let words = world.alloc_symmetric::<u64>(2)?;
    let blocks = world.alloc_symmetric::<u8>(LONG)?;
    let provider = provider.as_deref().unwrap_or("tcp;ofi_rxm");
    let mut raw = Raw::open(provider, "127.0.0.1", LONG);
    raw.meet(&world)?;
    pgas_am::attach(&world)?;
    let n_answers = Arc::new(AtomicU64::new(0));
    world.register(Ask)?;
    world.register_reply(Answer(Arc::clone(&n_answers)))?;
    let mut ours = Ours {
        world: &world,
        n_answers: &n_answers,
        words: &words,
        blocks: &blocks,
        n_rounds: 0,
    };
    if world.rank().number() == 0 {
        println!(
            "{:<40} {:>12} {:>12} {:>7}",
            "", "pgas", "libfabric", "ratio"
        );
    }
    for (name, operation, n_times) in OPERATIONS {
        let mut samples = Vec::new();
        for _ in 0..n_samples {
            world.barrier()?;
            let own = ours.sample(*operation, *n_times)?;
            world.barrier()?;
            let floor = raw.sample(world.rank().number() == 0, *operation, *n_times);
            samples.push((own, floor));
        }
        if world.rank().number() == 0 {
            tell(name, &samples);
        }
    }
    world.barrier()
}

fn tell(name: &str, samples: &[(Duration, Duration)]) {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let own = median(
        samples
            .iter()
            .map(|(own, _)| own.as_secs_f64() * 1e6)
            .collect(),
    );
    let floor = median(
        samples
            .iter()
            .map(|(_, floor)| floor.as_secs_f64() * 1e6)
            .collect(),
    );
    let ratios = samples
        .iter()
        .map(|(own, floor)| own.as_secs_f64() / floor.as_secs_f64());
    let ratio = median(ratios.collect());
    println!("{name:<40} {own:>9.2} us {floor:>9.2} us {ratio:>7.3}");
}

/// Answers at once.
struct Ask;

impl RequestHandler for Ask {
    type Args = u64;

    fn handle(&self, token: Token<'_>, number: u64, _: Payload<'_>) -> Result<()> {
        token.reply::<Answer>(&number)
    }
}

/// Counts answers.
struct Answer(Arc<AtomicU64>);

impl ReplyHandler for Answer {
    type Args = u64;

    fn handle(&self, _: Origin<'_>, _: u64, _: Payload<'_>) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// What this library does.
struct Ours<'a> {
    world: &'a World,
    n_answers: &'a AtomicU64,
    words: &'a Symmetric<u64>,
    blocks: &'a Symmetric<u8>,
    n_rounds: u64,
}

impl Ours<'_> {
    /// The time of one operation, while rank 1 serves.
    fn sample(&mut self, operation: Operation, n_times: usize) -> Result<Duration> {
        self.n_rounds += 1;
        let (world, there) = (self.world, Rank::new(1));
        let end: GlobalPtr<u64> = self.words.on(there).add(1);
        if world.rank() == there {
            let n_rounds = self.n_rounds;
            let is_over = || Ok(end.fetch_op(world, AtomicOp::Load, 0)? == n_rounds);
            world.wait_for("the end of a sample", is_over)?;
            return Ok(Duration::ZERO);
        }
        let word = self.words.on(there);
        let mut sources = operation.sources();
        let began = Instant::now();
        for _ in 0..n_times {
            match operation {
                Operation::Put => {
                    word.put(world, 7)?;
                    world.flush(there)?;
                }
                Operation::Get => drop(word.get(world)?),
                Operation::FetchAdd => drop(word.fetch_op(world, AtomicOp::Add, 1)?),
                Operation::CompareSwap => drop(word.compare_exchange(world, 0, 7)?),
                Operation::Message => {
                    let n_answers = self.n_answers.load(Ordering::Relaxed);
                    world.request::<Ask>(there, &n_answers)?;
                    let is_here = || Ok(self.n_answers.load(Ordering::Relaxed) > n_answers);
                    world.wait_for("the answer", is_here)?;
                }
                Operation::Flood(..) => {
                    let block = self.blocks.on(there);
                    let begun = sources
                        .drain(..)
                        .map(|bytes| block.put_vec_nb(world, bytes));
                    let begun: Result<Vec<_>> = begun.collect();
                    let ended: Result<_> = begun?.into_iter().map(|event| event.wait()).collect();
                    sources = ended?;
                }
            }
        }
        let took = began.elapsed();
        end.fetch_op(world, AtomicOp::Swap, self.n_rounds)?;
        Ok(took / u32::try_from(n_times).expect("few"))
    }
}
