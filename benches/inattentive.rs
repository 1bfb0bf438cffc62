//! A rank sends to several others, of which one computes for a while before it serves its messages.
//! The bench measures the cost of the waiting form for the sender and the other ranks, and the gain
//! of the immediate form, with and without a progress thread at that target. After figure 2 of the
//! GASNet-EX paper (Bonachea and Hargrove, LCPC 2018), which shows immediate mode.
//!
//! The waiting form blocks at the computing rank as soon as its buffers are full, and messages to
//! the other ranks wait, too. The immediate form continues with another rank, and comes back. The
//! baseline is a target that serves at once.
//!
//! `PGAS_PROGRESS=thread` gives every rank a progress thread; here only the computing rank has one,
//! while it computes. Ranks are threads, too. The computing rank sleeps, to simulate a processor of
//! its own, which it does not have on a machine with two.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pgas::backend::Sent;
use pgas::message::{Payload, RequestHandler, Token};
use pgas::{ActiveMessages, Rank, World};

const SENDER: Rank = Rank::ZERO;
/// The rank that computes.
const INATTENTIVE: Rank = Rank::new(1);
const N_RANKS: u32 = 3;

/// The amount of work.
struct Size {
    /// Messages to each target: many times the room of a target.
    n_messages: u64,
    n_rounds: usize,
    computes_ms: &'static [u64],
}

const MEASURED: Size = Size {
    n_messages: 200_000,
    n_rounds: 11,
    computes_ms: &[0, 10, 20, 40, 80],
};
const SMOKE: Size = Size {
    n_messages: 3_000,
    n_rounds: 1,
    computes_ms: &[0, 1],
};

/// Counts received messages.
struct Work(Arc<AtomicU64>);
impl RequestHandler for Work {
    type Args = u64;
    fn handle(&self, _: Token<'_>, n: u64, _: Payload<'_>) -> pgas_am::Result<()> {
        self.0.fetch_add(n, Ordering::Relaxed);
        Ok(())
    }
}

/// Sends to the targets in turn, the same number to each.
type Form = fn(&World, &[Rank], u64) -> pgas_am::Result<()>;
const FORMS: [Form; 2] = [waiting, immediate];

fn waiting(world: &World, targets: &[Rank], n_messages: u64) -> pgas_am::Result<()> {
    for _ in 0..n_messages {
        for &to in targets {
            world.request::<Work>(to, &1)?;
        }
    }
    Ok(())
}

fn immediate(world: &World, targets: &[Rank], n_messages: u64) -> pgas_am::Result<()> {
    let mut left: Vec<(Rank, u64)> = targets.iter().map(|to| (*to, n_messages)).collect();
    while !left.is_empty() {
        let mut has_sent = false;
        for (to, n_left) in &mut left {
            if world.try_request::<Work>(*to, &1)? == Sent::Accepted {
                *n_left -= 1;
                has_sent = true;
            }
        }
        left.retain(|(_, n_left)| *n_left > 0);
        if !has_sent && !world.progress()? {
            thread::yield_now();
        }
    }
    Ok(())
}

/// The times of one round, in milliseconds: until the sender's messages were accepted, until the
/// attentive target had received all, and until the other target had.
type Times = [f64; N_RANKS as usize];

fn main() {
    let size = if support::is_smoke_test() {
        SMOKE
    } else {
        MEASURED
    };
    let n_messages = size.n_messages;
    print_line(&format!(
        "{n_messages} messages to each of two ranks, of which one computes first; milliseconds, medians of {} rounds",
        size.n_rounds
    ));
    print_line("                     waiting                          immediate");
    print_line("computes  thread     sender  attentive  computing    sender  attentive  computing");
    let mut config = pgas::Config::default();
    // Measured as a release build runs: without the comparison of calls, which is the default among
    // threads.
    config.check = Some(false);
    let measured = pgas::threads_with(N_RANKS, &config, |world| measure(&world, &size));
    let measured = measured.expect("threads");
    let of_sender = measured.into_iter().next().expect("its results");
    for (case, forms) in of_sender.expect("a job") {
        let columns = forms.map(|[sender, computing, attentive]| {
            format!("  {sender:>8.1}   {attentive:>8.1}   {computing:>8.1}")
        });
        let thread = if case.has_thread { "yes" } else { "no" };
        let computes = case.computes.as_millis();
        print_line(&format!("{computes:>8}  {thread:<6} {}", columns.concat()));
    }
}

#[expect(clippy::print_stdout, reason = "a bench reports")]
fn print_line(line: &str) {
    println!("{line}");
}

/// The behaviour of the inattentive target.
#[derive(Clone, Copy)]
struct Case {
    computes: Duration,
    /// Whether another thread of it makes progress meanwhile.
    has_thread: bool,
}

/// The medians of each form, in each case.
fn measure(world: &World, size: &Size) -> pgas_am::Result<Vec<(Case, [Times; 2])>> {
    let n_arrived = Arc::new(AtomicU64::new(0));
    world.register(Work(Arc::clone(&n_arrived)))?;
    let mut all = Vec::new();
    for has_thread in [false, true] {
        for &ms in size.computes_ms {
            let computes = Duration::from_millis(ms);
            let case = Case {
                computes,
                has_thread,
            };
            let mut rounds: [Vec<Times>; 2] = [vec![], vec![]];
            // The forms take turns. A disturbance of the machine that lasts longer than a moment
            // affects both.
            for _ in 0..size.n_rounds {
                for (form, rounds) in FORMS.iter().zip(&mut rounds) {
                    rounds.push(round(world, *form, size.n_messages, case, &n_arrived)?);
                }
            }
            all.push((case, rounds.map(|rounds| medians(&rounds))));
        }
    }
    Ok(all)
}

/// The times of one round on every rank.
fn round(
    world: &World,
    form: Form,
    n_messages: u64,
    case: Case,
    n_arrived: &AtomicU64,
) -> pgas_am::Result<Times> {
    n_arrived.store(0, Ordering::Relaxed);
    world.barrier()?;
    let start = Instant::now();
    if world.rank() == SENDER {
        let targets: Vec<Rank> = world.ranks().filter(|rank| *rank != SENDER).collect();
        form(world, &targets, n_messages)?;
    } else {
        if world.rank() == INATTENTIVE {
            compute(world, case)?;
        }
        world.wait_for("the messages of a round", || {
            Ok(n_arrived.load(Ordering::Relaxed) == n_messages)
        })?;
    }
    let took = start.elapsed().as_secs_f64() * 1e3;
    let times = world.allgather(&[took])?;
    Ok(std::array::from_fn(|rank| times[rank]))
}

/// Makes no call for a while; another thread may.
fn compute(world: &World, case: Case) -> pgas_am::Result<()> {
    let is_over = AtomicBool::new(false);
    let serve = || -> pgas_am::Result<()> {
        while !is_over.load(Ordering::Acquire) {
            if !world.progress()? {
                world.park(Duration::from_millis(1));
            }
        }
        Ok(())
    };
    thread::scope(|threads| {
        let server = case.has_thread.then(|| threads.spawn(serve));
        thread::sleep(case.computes);
        is_over.store(true, Ordering::Release);
        world.unpark();
        server.map_or(Ok(()), |server| server.join().expect("it does not panic"))
    })
}

fn medians(rounds: &[Times]) -> Times {
    std::array::from_fn(|rank| {
        let mut times: Vec<f64> = rounds.iter().map(|times| times[rank]).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}
