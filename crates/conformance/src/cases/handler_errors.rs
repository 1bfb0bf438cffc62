//! Errors of handlers: they end no wait, and each is returned once.

use std::cell::Cell;
use std::fmt::Debug;

use pgas_am::{
    ActiveMessages, Payload, RemoteCalls, RequestHandler, Token, attach, quiet, when_all,
};
use pgas_containers::{CircularQueue, Distributor, HashMap};
use pgas_core::backend::AtomicOp;
use pgas_core::collective::op::Sum;
use pgas_core::{Error, Lock, Rank, Result, World};

use super::{case, case_alone};
use crate::Case;
use crate::support::neighbour;

pub(super) const CASES: &[Case] = &[case_alone!(1, the_error_of_a_handler_ends_no_wait)];

struct Fails;

impl RequestHandler for Fails {
    type Args = u64;

    fn handle(&self, _: Token<'_>, n: u64, _: Payload<'_>) -> Result<()> {
        let refused = format!("{PURPOSE} {n}");
        Err(Error::setting("N", n.to_string(), &refused))
    }
}

const PURPOSE: &str = "a handler fails on purpose";

/// Messages whose handlers fail, which come while a rank waits.
struct Strikes<'a> {
    world: &'a World,
    n_sent: Cell<u64>,
    n_told: Cell<u64>,
}

impl Strikes<'_> {
    fn strike(&self) -> Result<()> {
        for _ in 0..3 {
            let n = self.n_sent.get();
            self.world.request::<Fails>(neighbour(self.world, 1), &n)?;
            self.n_sent.set(n + 1);
        }
        Ok(())
    }

    fn is_told(&self, error: &Error) -> bool {
        let is_ours = error.to_string().contains(PURPOSE);
        self.n_told.set(self.n_told.get() + u64::from(is_ours));
        is_ours
    }

    /// Calls that begin with a look at what handlers say.
    fn begun<T>(&self, mut begin: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            match begin() {
                Err(error) if self.is_told(&error) => {}
                begun => return begun,
            }
        }
    }

    /// A barrier says it when it is over.
    fn meet(&self) -> Result<()> {
        match self.world.barrier() {
            Err(error) if self.is_told(&error) => Ok(()),
            met => met,
        }
    }

    fn waits<T: PartialEq + Debug>(
        &self,
        expected: &T,
        wait: impl FnOnce() -> Result<T>,
    ) -> Result<()> {
        self.strike()?;
        assert_eq!(&wait()?, expected);
        Ok(())
    }
}

fn the_error_of_a_handler_ends_no_wait(world: &World) -> Result<()> {
    attach(world)?;
    world.register::<Fails>(Fails)?;
    let strikes = Strikes {
        world,
        n_sent: Cell::new(0),
        n_told: Cell::new(0),
    };
    strikes.meet()?;
    calls_and_operations(world, &strikes)?;
    collectives(world, &strikes)?;
    containers(world, &strikes)?;
    strikes.strike()?;
    match quiet(world) {
        Err(error) if strikes.is_told(&error) => {}
        all_is_done => all_is_done?,
    }
    strikes.meet()?;
    while strikes.n_told.get() < strikes.n_sent.get() {
        match world.progress() {
            Err(error) => assert!(strikes.is_told(&error), "{error}"),
            Ok(_) => std::thread::yield_now(),
        }
    }
    world.check_handlers()?;
    world.barrier()
}

fn calls_and_operations(world: &World, strikes: &Strikes<'_>) -> Result<()> {
    let next = neighbour(world, 1);
    let n = world.n_ranks() as usize;
    let call = |x: u64| strikes.begun(|| world.rpc(next, |x: u64| x + 1, x));
    strikes.waits(&2, || call(1)?.wait())?;
    strikes.waits(&4, || call(1)?.then(|x| 2 * x).wait())?;
    strikes.waits(&(2, 3), || when_all((call(1)?, call(2)?)).wait())?;
    strikes.waits(&vec![8; n], || {
        strikes.begun(|| world.rpc_all(|x: u64| x + 1, &7))?.wait()
    })?;
    let words = world.alloc_symmetric::<u64>(2)?;
    let word = words.on(next);
    strikes.waits(&0, || word.fetch_op_nb(world, AtomicOp::Add, 5)?.wait())?;
    strikes.waits(&5, || word.get_nb(world)?.wait())?;
    strikes.waits(&(5, 6), || {
        world.block_on(async {
            let five = word.get_nb(world)?.await?;
            Ok::<_, Error>((five, call(5)?.await?))
        })?
    })?;
    let mut read = [0];
    strikes.strike()?;
    world.scope(|scope| scope.get(word, &mut read))??;
    assert_eq!(read, [5]);
    Ok(())
}

fn collectives(world: &World, strikes: &Strikes<'_>) -> Result<()> {
    let n = u64::from(world.n_ranks());
    strikes.waits(&n, || world.allreduce(1, Sum))?;
    strikes.waits(&(2 * n), || world.allreduce_nb(2, Sum).wait())?;
    strikes.waits(&(3 * n), || world.block_on(world.allreduce_nb(3, Sum))?)?;
    strikes.waits(&7, || world.broadcast(Rank::ZERO, 7))?;
    strikes.waits(&(), || strikes.meet())?;
    strikes.waits(&(), || world.barrier_nb().wait())?;
    strikes.strike()?;
    let lock = Lock::new(world, Rank::ZERO)?;
    for _ in 0..3 {
        strikes.waits(&(), || lock.lock()?.unlock())?;
    }
    Ok(())
}

fn containers(world: &World, strikes: &Strikes<'_>) -> Result<()> {
    let (n, me) = (u64::from(world.n_ranks()), u64::from(world.rank().number()));
    strikes.strike()?;
    let map = HashMap::<u64, u64>::with_capacity(world, 1000)?;
    strikes.strike()?;
    let queue = CircularQueue::<u64>::with_capacity(world, Rank::ZERO, 16)?;
    strikes.strike()?;
    queue.push(me)?;
    let own: Vec<_> = (0..50).map(|i| (100 * me + i, i)).collect();
    strikes.strike()?;
    let inserted = map.insert_many(&own);
    assert_eq!(inserted.expect("there is room"), own.len());
    strikes.waits(&true, || map.remove_nb(&(100 * me + 7))?.wait())?;
    strikes.strike()?;
    let mut distributor = Distributor::<u64>::with_capacity(world, 4)?;
    for i in 0..20 {
        for to in world.ranks() {
            distributor.send(to, i)?;
        }
    }
    strikes.strike()?;
    let received = distributor.finish()?;
    assert_eq!(received.len() as u64, 20 * n);
    strikes.waits(&(49 * n), || map.len())?;
    Ok(())
}
