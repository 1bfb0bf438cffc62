//! Random graphs of futures, on several ranks at once: every action runs once, every future
//! completes, and nothing hangs or leaks.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use pgas_am::{Completes, Error, PgasFuture, Promise, RemoteCalls, quiet, when_all, when_any};
use pgas_core::collective::op::Sum;
use pgas_core::{Config, GlobalPtr, Rank, World};
use pgas_testkit::Deadline;

const LIMIT: Duration = Duration::from_secs(240);
const N_GRAPHS: u64 = 60;
const N_STEPS: u32 = 400;
/// Collectives of each rank in a graph, in the same order on all.
const N_COLLECTIVES: u64 = 20;

/// The source of a future's value.
enum Source {
    Value(u64),
    Promise(usize),
    /// The value of another node and one more, by an action.
    Next(usize),
    Sum(Vec<usize>),
}

struct Node {
    source: Source,
    future: Option<PgasFuture<u64>>,
    /// How often its action has run.
    n_runs: Arc<AtomicU32>,
}

struct Promised {
    handle: Option<Promise<u64>>,
    /// `None` if it was dropped or has failed.
    value: Option<u64>,
}

struct Graph<'w> {
    world: &'w World,
    word: GlobalPtr<u64>,
    random: u64,
    nodes: Vec<Node>,
    promises: Vec<Promised>,
    n_collectives: u64,
}

impl Graph<'_> {
    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        // Xorshift.
        for shift in [13, -7, 17] {
            self.random ^= if shift > 0 {
                self.random << shift
            } else {
                self.random >> -shift
            };
        }
        usize::try_from(self.random % n.max(1) as u64).unwrap()
    }

    fn add(&mut self, source: Source, future: PgasFuture<u64>) {
        self.nodes.push(Node {
            source,
            future: Some(future),
            n_runs: Arc::default(),
        });
    }

    /// Takes a random future out, if one is left.
    fn take(&mut self) -> Option<(usize, PgasFuture<u64>)> {
        let first = self.below(self.nodes.len());
        let n = self.nodes.len();
        let mut all = (0..n).map(|i| (first + i) % n);
        let at = all.find(|at| self.nodes[*at].future.is_some())?;
        Some((at, self.nodes[at].future.take().unwrap()))
    }

    fn chain(&mut self, at: usize, future: PgasFuture<u64>) {
        let n_runs = Arc::<AtomicU32>::default();
        let counted = Arc::clone(&n_runs);
        let action = move |x| {
            counted.fetch_add(1, Ordering::Relaxed);
            x + 1
        };
        let (world, word) = (self.world.clone(), self.word);
        let future = match self.below(8) {
            0 => future.and_then(move |x| PgasFuture::ready(action(x))),
            1 => future.and_then(move |x| world.rpc(word.rank(), |x: u64| x, action(x))),
            2 => future.and_then(move |x| {
                let put = word.put_nb(&world, 7);
                put.map(|put| put.then(move |()| action(x)))
            }),
            3 => self.world.spawn(async move {
                word.put_nb(&world, 7)?.await?;
                future.await.map(action)
            }),
            4 => {
                let shared = future.shared();
                drop(shared.clone().future());
                shared.clone().future().then(action)
            }
            5 => when_any([future])
                .and_then(move |first| first.result.map(|x| PgasFuture::ready(action(x)))),
            _ => future.then(action),
        };
        self.nodes.push(Node {
            source: Source::Next(at),
            future: Some(future),
            n_runs,
        });
    }

    fn join(&mut self) {
        let n = self.below(5);
        let (at, futures): (Vec<_>, Vec<_>) = (0..n).filter_map(|_| self.take()).unzip();
        let joined = match <[_; 2]>::try_from(futures) {
            Ok([a, b]) => when_all((a, b)).then(|(a, b)| a + b),
            Err(futures) => when_all(futures).then(|all| all.into_iter().sum()),
        };
        self.add(Source::Sum(at), joined);
    }

    fn collective(&mut self) -> pgas_am::Result<()> {
        if self.n_collectives == N_COLLECTIVES {
            return Ok(());
        }
        let event = self.world.team().allreduce_nb(self.n_collectives, Sum);
        let sum = self.n_collectives * u64::from(self.world.n_ranks());
        self.n_collectives += 1;
        let future = event.future();
        self.add(Source::Value(sum), future);
        Ok(())
    }

    fn end_promise(&mut self) {
        let at = self.below(self.promises.len());
        let value = self.below(100) as u64;
        let how = self.below(4);
        let Some(promised) = self.promises.get_mut(at) else {
            return;
        };
        let Some(promise) = promised.handle.take() else {
            return;
        };
        match how {
            0 => drop(promise),
            1 => promise.fail(Error::HasLeft),
            _ => {
                promised.value = Some(value);
                promise.fulfil_with(value);
                if how == 2 {
                    let late = promise.future();
                    self.add(Source::Promise(at), late);
                }
            }
        }
    }

    fn step(&mut self) -> pgas_am::Result<()> {
        let world = self.world;
        match self.below(16) {
            0 => {
                let promise = Promise::of_value(world)?;
                let future = promise.future();
                let at = self.promises.len();
                self.promises.push(Promised {
                    handle: Some(promise),
                    value: None,
                });
                self.add(Source::Promise(at), future);
            }
            1 => {
                let at = self.below(self.promises.len());
                let promised = self.promises.get(at);
                if let Some(promise) = promised.and_then(|promised| promised.handle.as_ref()) {
                    let future = promise.future();
                    self.add(Source::Promise(at), future);
                }
            }
            2 | 3 => {
                let n_ranks = usize::try_from(world.n_ranks()).unwrap();
                let to = Rank::new(u32::try_from(self.below(n_ranks)).unwrap());
                let x = self.below(1000) as u64;
                let call = world.rpc(to, |x: u64| 3 * x, x)?;
                self.add(Source::Value(3 * x), call);
            }
            4 => self.collective()?,
            5 => {
                let put = self.word.put_nb(world, 7)?;
                self.add(Source::Value(7), put.then(|()| 7));
            }
            6 => self.add(Source::Value(5), PgasFuture::ready(5)),
            7..=9 => {
                if let Some((at, future)) = self.take() {
                    self.chain(at, future);
                }
            }
            10 | 11 => self.join(),
            12 => self.end_promise(),
            13 => drop(self.take()),
            14 => drop(world.progress()?),
            _ => {
                if let Some((at, mut future)) = self.take() {
                    if self.below(2) == 0 {
                        let _ready = future.is_ready();
                    } else if let std::task::Poll::Ready(result) =
                        Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()))
                    {
                        self.check(at, result);
                        return Ok(());
                    }
                    self.nodes[at].future = Some(future);
                }
            }
        }
        Ok(())
    }

    /// The value of a node, as far as promises are ended; `None` for an error.
    fn value(&self, at: usize) -> Option<u64> {
        match &self.nodes[at].source {
            Source::Value(value) => Some(*value),
            Source::Promise(at) => self.promises[*at].value,
            Source::Next(at) => Some(self.value(*at)? + 1),
            Source::Sum(all) => all.iter().map(|at| self.value(*at)).sum(),
        }
    }

    #[track_caller]
    fn check(&self, at: usize, result: pgas_am::Result<u64>) {
        match (self.value(at), result) {
            (Some(value), result) => assert_eq!(result.unwrap(), value),
            (None, Err(Error::BrokenPromise | Error::HasLeft)) => {}
            (None, result) => panic!("of a promise that was not kept: {result:?}"),
        }
    }

    /// How often the action of a node has to run.
    fn n_runs(&self, at: usize) -> u32 {
        match &self.nodes[at].source {
            Source::Next(before) => u32::from(self.value(*before).is_some()),
            _ => 0,
        }
    }

    fn end(mut self) -> pgas_am::Result<()> {
        while self.n_collectives < N_COLLECTIVES {
            self.collective()?;
        }
        while self.promises.iter().any(|promise| promise.handle.is_some()) {
            self.end_promise();
        }
        for at in 0..self.nodes.len() {
            if let Some(future) = self.nodes[at].future.take() {
                let result = future.wait();
                self.check(at, result);
            }
        }
        quiet(self.world)?;
        // Actions whose futures were dropped run too. They may follow collectives that nobody waits
        // for.
        let has_run = |at: usize| self.nodes[at].n_runs.load(Ordering::Relaxed) == self.n_runs(at);
        let all = || Ok((0..self.nodes.len()).all(has_run));
        self.world.wait_for("all actions, once each", all)
    }
}

#[test]
fn actions_run_once_and_futures_complete_whatever_they_are_made_of() {
    let _deadline = Deadline::new("random graphs of futures", LIMIT);
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(LIMIT / 4);
    for seed in 1..=N_GRAPHS {
        let n_ranks = [1, 2, 3, 4][usize::try_from(seed % 4).unwrap()];
        let ended = pgas_smp::threads_with(n_ranks, &config, |world| {
            pgas_am::attach(&world).unwrap();
            let word = world.alloc_symmetric::<u64>(1).unwrap();
            let next = Rank::new((world.rank().number() + 1) % n_ranks);
            let mut graph = Graph {
                world: &world,
                word: word.on(next),
                random: seed * 0x9e37_79b9 + u64::from(world.rank().number() + 1) * 0x85eb_ca6b,
                nodes: Vec::new(),
                promises: Vec::new(),
                n_collectives: 0,
            };
            for _ in 0..N_STEPS {
                graph.step().unwrap();
            }
            graph.end().unwrap();
            world.barrier().unwrap();
        });
        assert!(ended.is_ok(), "graph {seed}");
        thread::yield_now();
    }
}
