//! The messages and writes that calls, active messages and their answers cost, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use pgas_core::backend::{Sent, loopback};
use pgas_core::{Config, Costs, GlobalPtr, Result, Statistics, World};

use crate::{
    ActiveMessages, Aggregator, DistObject, Origin, Payload, RemoteCalls, ReplyHandler,
    RequestHandler, TeamCalls, Token, quiet,
};

/// Runs `body` as the only rank of a job, whose messages to itself are counted with their answers.
fn alone(body: impl Fn(&World) + Sync) {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    loopback::run_with(1, &config, |world| {
        crate::attach(&world).unwrap();
        body(&world);
    });
}

/// Asserts that `f`, with all that follows until `quiet` returns, costs these messages and writes.
#[track_caller]
fn costs<T>(world: &World, messages: u64, writes: u64, f: impl FnOnce() -> Result<T>) {
    let before = world.costs();
    drop(f().unwrap());
    quiet(world).unwrap();
    let costs = world.costs() - before;
    let counted = Costs {
        messages: costs.messages,
        writes: costs.writes,
        ..Costs::default()
    };
    let expected = Costs {
        messages,
        writes,
        ..Costs::default()
    };
    assert_eq!(counted, expected);
}

fn add(x: u64) -> u64 {
    x + 1
}

fn see(_: u64) {}

#[test]
fn a_call_costs_two_messages_and_one_without_an_answer_one() {
    alone(|world| {
        let me = world.rank();
        let (viewed, both) = (|x, _: &[u8]| add(x), |x, _: &[u8], _: &[u32]| add(x));
        let (seen, seen_both) = (|x, _: &[u8]| see(x), |x, _: &[u8], _: &[u32]| see(x));
        costs(world, 2, 0, || world.rpc(me, add, 1)?.wait());
        costs(world, 2, 0, || {
            world.rpc_view(me, viewed, 1, &[2; 9])?.wait()
        });
        costs(world, 2, 0, || {
            world.rpc_views(me, both, 1, (&[2; 9], &[3]))?.wait()
        });
        costs(world, 2, 0, || world.rpc_all(add, &1)?.wait());
        costs(world, 1, 0, || world.rpc_ff(me, see, 1));
        costs(world, 1, 0, || world.rpc_ff_view(me, seen, 1, &[2; 9]));
        costs(world, 1, 0, || {
            world.rpc_ff_views(me, seen_both, 1, (&[2; 9], &[3]))
        });
        costs(world, 1, 0, || {
            assert_eq!(world.try_rpc_ff(me, see, &1)?, Sent::Accepted);
            Ok(())
        });
        costs(world, 1, 0, || {
            assert_eq!(world.try_rpc_ff_view(me, seen, &1, &[2])?, Sent::Accepted);
            Ok(())
        });
        let word = world.alloc::<u64>(1).unwrap();
        costs(world, 2, 1, || {
            world.rpc_after(word.put_nb(world, 1), me, add, 1).wait()
        });
        costs(world, 1, 1, || {
            world.rpc_ff_after(word.put_nb(world, 1), me, see, 1).wait()
        });
        let team = world.team();
        costs(world, 2, 0, || team.rpc(0, add, 1)?.wait());
        costs(world, 2, 0, || {
            team.rpc_views(0, both, 1, (&[2; 9], &[3]))?.wait()
        });
        costs(world, 1, 0, || {
            team.rpc_ff_views(0, seen_both, 1, (&[2; 9], &[3]))
        });
        // A list that is longer than a message goes in pieces, and so does its length as an answer.
        let limit = world.capabilities().max_medium;
        let before = world.costs();
        let len = |list: Vec<u8>| list.len();
        assert_eq!(
            world
                .rpc(me, len, vec![0; 3 * limit])
                .unwrap()
                .wait()
                .unwrap(),
            3 * limit
        );
        let pieces = (world.costs() - before).messages - 1;
        assert!((4..8).contains(&pieces), "{pieces}");
    });
}

#[test]
fn an_object_costs_nothing_until_it_is_fetched_and_items_travel_together() {
    alone(|world| {
        costs(world, 0, 0, || DistObject::new(&world.team(), 5_u64));
        let object = DistObject::new(&world.team(), 5_u64).unwrap();
        costs(world, 2, 0, || object.fetch(0)?.wait());
        static N: AtomicU64 = AtomicU64::new(0);
        let count = |(): (), items: &[u64]| {
            N.fetch_add(items.len() as u64, Ordering::Relaxed);
        };
        let mut items = Aggregator::new(world, count, ()).unwrap();
        costs(world, 1, 0, || {
            (0..10).try_for_each(|i| items.push(world.rank(), i))?;
            items.flush()
        });
        assert_eq!(N.load(Ordering::Relaxed), 10);
        costs(world, 0, 0, || items.finish());
    });
}

/// Replies as its argument says: not, short, medium or long.
struct Ask;
struct Answered;

impl RequestHandler for Ask {
    type Args = (u8, GlobalPtr<u8>);

    fn handle(&self, token: Token<'_>, (how, place): Self::Args, _: Payload<'_>) -> Result<()> {
        match how {
            1 => token.reply::<Answered>(&()),
            2 => token.reply_medium::<Answered>(&(), &[7; 20]),
            3 => token
                .reply_long::<Answered>(place, &(), vec![7; 20])
                .map(drop),
            4 => token.prepare(20)?.commit::<Answered>(&(), 20),
            _ => Ok(()),
        }
    }
}

impl ReplyHandler for Answered {
    type Args = ();

    fn handle(&self, _: Origin<'_>, (): (), _: Payload<'_>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_request_and_a_reply_cost_a_message_each_and_a_long_one_a_write_more() {
    alone(|world| {
        let me = world.rank();
        world.register(Ask).unwrap();
        world.register_reply(Answered).unwrap();
        let place = world.alloc::<u8>(100).unwrap();
        let args = |how: u8| (how, place);
        costs(world, 1, 0, || world.request::<Ask>(me, &args(0)));
        costs(world, 1, 0, || {
            world.request_medium::<Ask>(me, &args(0), &[1; 30])
        });
        costs(world, 1, 1, || {
            world.request_long::<Ask>(place, &args(0), &[1; 30])
        });
        costs(world, 1, 1, || {
            let sent = world.request_long_nb::<Ask>(place, &args(0), vec![1; 30])?;
            sent.wait()
        });
        costs(world, 1, 0, || world.try_request::<Ask>(me, &args(0)));
        costs(world, 1, 0, || {
            world.try_request_medium::<Ask>(me, &args(0), &[1; 30])
        });
        costs(world, 1, 0, || {
            world.prepare(me, 30)?.commit::<Ask>(&args(0), 30)
        });
        costs(world, 1, 0, || world.team().request::<Ask>(0, &args(0)));
        for (how, writes) in [(1, 0), (2, 0), (3, 1), (4, 0)] {
            costs(world, 2, writes, || world.request::<Ask>(me, &args(how)));
        }
    });
}
