//! What it costs to be counted (`PGAS_STATS=1`) and traced (`PGAS_TRACE`): the same operations, and
//! the same program, with and without it by turns.
//!
//! The operations are those of two jobs of threads in this process, one of which counts: the thread
//! that measures is the first rank of that one, and has a handle on the first rank of the other.
//! The program is the example `kmer_count`, as a whole command. What is called the floor is not
//! observed.

mod support;

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;
use std::{env, fs};

use pgas::message::{Origin, Payload, ReplyHandler, RequestHandler, Token};
use pgas::{ActiveMessages, Config, GlobalPtr, Rank, RemoteCalls, Statistics, World};

/// Accesses of one measurement.
const BATCH: usize = 4096;
/// Round trips of one measurement, and messages one way, which take as long.
const N_TRIPS: u64 = 1000;
const N_MESSAGES: u64 = 10_000;
const PEER: Rank = Rank::new(1);

fn main() {
    let (give, take) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    thread::scope(|threads| {
        threads.spawn(|| lend_first_rank(give, stopped));
        let plain = once(take.recv().expect("the first rank of the other job"));
        let mut counting = config();
        counting.statistics = Statistics::Total;
        let ran = pgas::threads_with(2, &counting, |counted| {
            register(&counted);
            if counted.rank() == Rank::ZERO {
                measure(&taken(&plain), &counted);
            }
            counted.barrier().expect("both ranks");
        });
        ran.expect("a job of two threads");
        drop(stop);
    });
    if !support::is_smoke_test() {
        measure_program();
    }
}

/// Something that one of several threads takes.
fn once<T>(value: T) -> Mutex<Option<T>> {
    Mutex::new(Some(value))
}

fn taken<T>(value: &Mutex<Option<T>>) -> T {
    let mut value = value.lock().unwrap_or_else(PoisonError::into_inner);
    value.take().expect("one thread comes here")
}

/// Words that random accesses go to.
fn n_words() -> usize {
    if support::is_smoke_test() {
        1 << 16
    } else {
        1 << 25
    }
}

fn config() -> Config {
    let mut config = Config::default();
    config.check = Some(false);
    // The other ranks wait until all is measured.
    config.stall = None;
    // Half of a segment is for memory of one rank alone.
    config.segment_bytes = Some(n_words() as u64 * 16 + (8 << 20));
    config
}

/// A job that does not count, whose first rank is used by who measures.
fn lend_first_rank(give: Sender<World>, stopped: Receiver<()>) {
    let ends = once((give, stopped));
    let ran = pgas::threads_with(2, &config(), |world| {
        register(&world);
        if world.rank() == Rank::ZERO {
            let (give, stopped) = taken(&ends);
            give.send(world.clone()).expect("who measures waits");
            // Ends with an error when nothing more is measured.
            stopped.recv().ok();
        }
        world.barrier().expect("both ranks");
    });
    ran.expect("a job of two threads");
}

/// How many answers have come, in both jobs together.
static ANSWERS: AtomicU64 = AtomicU64::new(0);

/// A message; it is answered if it says so.
struct Ask;
impl RequestHandler for Ask {
    type Args = u64;
    fn handle(&self, token: Token<'_>, is_asked: u64, _: Payload<'_>) -> pgas::Result<()> {
        if is_asked == 1 {
            token.reply::<Answer>(&0)?;
        }
        Ok(())
    }
}

struct Answer;
impl ReplyHandler for Answer {
    type Args = u64;
    fn handle(&self, _: Origin<'_>, _: u64, _: Payload<'_>) -> pgas::Result<()> {
        ANSWERS.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn register(world: &World) {
    world.register(Ask).expect("attached");
    world.register_reply(Answer).expect("attached");
}

/// The accesses and messages of the first rank of one job.
struct Ours<'w> {
    world: &'w World,
    words: GlobalPtr<u64>,
}

impl<'w> Ours<'w> {
    fn new(world: &'w World) -> Self {
        // Its own memory, which is near as that of the other rank is, and needs nobody to agree.
        let words = world.alloc::<u64>(n_words()).expect("memory");
        let page = [1; 512];
        for at in (0..n_words()).step_by(512) {
            words.add(at).put_slice(world, &page).expect("near");
        }
        Self { world, words }
    }

    fn get(&self, places: &[usize]) {
        let get = |i: &usize| self.words.add(*i).get(self.world).expect("near");
        black_box(places.iter().map(get).fold(0, u64::wrapping_add));
    }

    fn put(&self, places: &[usize]) {
        for i in places {
            let put = self.words.add(*i).put(self.world, *i as u64);
            put.expect("near");
        }
    }

    fn add(&self, places: &[usize]) {
        for i in places {
            let former = self.words.add(*i).fetch_add(self.world, 1);
            black_box(former.expect("near"));
        }
    }

    fn put_pages(&self, places: &[usize]) {
        let page = [7; 512];
        for i in places {
            let page = self.words.add(i & !511).put_slice(self.world, &page);
            page.expect("near");
        }
    }

    fn await_answer(&self, wanted: u64) {
        let came = || Ok(ANSWERS.load(Ordering::Relaxed) >= wanted);
        let waited = self.world.wait_for("an answer", came);
        waited.expect("the other rank answers");
    }

    fn round_trips(&self) {
        for _ in 0..N_TRIPS {
            let wanted = ANSWERS.load(Ordering::Relaxed) + 1;
            self.world.request::<Ask>(PEER, &1).expect("two ranks");
            self.await_answer(wanted);
        }
    }

    fn flood(&self) {
        let wanted = ANSWERS.load(Ordering::Relaxed) + 1;
        for i in 1..=N_MESSAGES {
            let is_asked = u64::from(i == N_MESSAGES);
            let sent = self.world.request::<Ask>(PEER, &is_asked);
            sent.expect("two ranks");
        }
        self.await_answer(wanted);
    }

    fn calls(&self) {
        for x in 0..N_TRIPS {
            let call = self.world.rpc(PEER, |x: u64| x + 1, x).expect("two ranks");
            black_box(call.wait().expect("an answer"));
        }
    }
}

/// Each operation, not counted and counted.
fn measure<'w>(plain: &'w World, counted: &'w World) {
    let (plain, counted) = (Ours::new(plain), Ours::new(counted));
    let pair = |what: &str, n: usize, run: &dyn Fn(&Ours<'w>)| {
        let name = format!("counted {what}");
        support::paired(&name, n, || run(&plain), || run(&counted));
    };
    let at_random: Vec<usize> = (0..BATCH * 256)
        .map(|_| fastrand::usize(..n_words()))
        .collect();
    let at_one = vec![0; BATCH];
    for (place, places) in [("at one place", &at_one), ("at random places", &at_random)] {
        // Each measurement has other places, which no cache has from the one before.
        let n_runs = AtomicU64::new(0);
        let next = || {
            let run = n_runs.fetch_add(1, Ordering::Relaxed);
            let run = usize::try_from(run).expect("64 bits");
            let mut batches = places.chunks(BATCH);
            batches.nth(run * 29 % (places.len() / BATCH))
        };
        let next = || next().expect("a batch has this number");
        pair(&format!("get of 8 B {place}"), BATCH, &|of| of.get(next()));
        pair(&format!("put of 8 B {place}"), BATCH, &|of| of.put(next()));
        pair(&format!("fetch_add {place}"), BATCH, &|of| of.add(next()));
    }
    let pages = &at_random[..64];
    pair("put of 4 KiB", pages.len(), &|of| of.put_pages(pages));
    let n_trips = usize::try_from(N_TRIPS).expect("64 bits");
    pair("active message and its reply", n_trips, &Ours::round_trips);
    let n_messages = usize::try_from(N_MESSAGES).expect("64 bits");
    pair("active message one way", n_messages, &Ours::flood);
    pair("remote call and its result", n_trips, &Ours::calls);
}

/// The whole command `kmer_count`, not observed, counted, and traced.
#[expect(clippy::print_stdout, reason = "a bench reports")]
fn measure_program() {
    const N_ROUNDS: usize = 15;
    let program = build_program();
    let folder = env::temp_dir().join(format!("pgas-observed-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let reads = folder.join("reads.fa");
    fs::write(&reads, random_reads()).expect("a file");
    let traces = folder.join("traces");
    let settings = [
        None,
        Some(("PGAS_STATS", folder.join("statistics.json"))),
        Some(("PGAS_TRACE", traces.clone())),
    ];
    let mut times = [const { Vec::new() }; 3];
    for round in 0..=N_ROUNDS {
        for i in 0..settings.len() {
            let which = (round + i) % settings.len();
            let took = run(&program, &reads, settings[which].as_ref());
            // The first round brings the program and the reads into memory.
            if round > 0 {
                times[which].push(took);
            }
        }
    }
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    for (which, what) in [(1, "counted"), (2, "traced")] {
        let ratios = times[which].iter().zip(&times[0]).map(|(a, b)| a / b);
        let ratio = median(ratios.collect());
        let [off, on] = [0, which].map(|which| median(times[which].clone()));
        support::report(&format!("{what} kmer_count"), off * 1e9, on * 1e9, ratio);
    }
    let bytes = fs::read_dir(&traces).into_iter().flatten().flatten();
    let bytes = bytes.filter_map(|file| file.metadata().ok());
    let bytes: u64 = bytes.map(|file| file.len()).sum();
    println!("its traces have {bytes} bytes");
    fs::remove_dir_all(folder).expect("our own folder");
}

/// Reads of 100 bases from a random genome, with an error in a hundred bases.
fn random_reads() -> String {
    const N_READS: usize = 300_000;
    const LENGTH: usize = 100;
    let base = || char::from(b"ACGT"[fastrand::usize(..4)]);
    let genome: Vec<char> = (0..1_000_000).map(|_| base()).collect();
    let mut text = String::new();
    for _ in 0..N_READS {
        let at = fastrand::usize(..genome.len() - LENGTH);
        text += ">\n";
        for letter in &genome[at..at + LENGTH] {
            let is_error = fastrand::usize(..100) == 0;
            text.push(if is_error { base() } else { *letter });
        }
        text += "\n";
    }
    text
}

/// The example, built as this bench is.
fn build_program() -> PathBuf {
    let own = env::current_exe().expect("the system knows what it runs");
    // target/release/deps/observed-0123456789abcdef
    let profile = own.ancestors().nth(2).expect("cargo made the path");
    let target = profile.parent().unwrap_or(Path::new("."));
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "-p", "pgas-examples"])
        .args(["--example", "kmer_count", "--target-dir"])
        .arg(target)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "it builds");
    target.join("release/examples/kmer_count")
}

/// Runs it with a setting, and returns how long it took, in seconds.
fn run(program: &Path, reads: &Path, setting: Option<&(&str, PathBuf)>) -> f64 {
    let mut command = Command::new(program);
    command.args(["--ranks", "2", "-k21", "-C"]).arg(reads);
    command.stdout(Stdio::null());
    if let Some((name, value)) = setting {
        command.env(name, value);
    }
    let began = Instant::now();
    let status = command.status().expect("it was built");
    let took = began.elapsed().as_secs_f64();
    assert!(status.success(), "{status}");
    took
}
