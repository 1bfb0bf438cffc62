//! The messages and writes that calls, active messages and their answers cost, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use pgas_core::backend::{Sent, loopback};
use pgas_core::{Config, Costs, GlobalPtr, Rank, Result, Statistics, World};

use crate::{
    ActiveMessages, Aggregator, DistObject, LocalCalls as _, Origin, Payload, RemoteCalls,
    ReplyHandler, RequestHandler, TeamCalls, Token, ValueCollectives, WideAtomics, quiet,
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
fn a_wide_swap_that_its_owner_performs_costs_two_messages() {
    alone(|world| {
        let pair = world.alloc::<u128>(1).unwrap();
        // Over this transport no memory is mapped, so the owner gets and puts it.
        costs(world, 2, 1, || pair.compare_exchange_wide(world, 0, 7));
        costs(world, 2, 1, || {
            pair.compare_exchange_wide_nb(world, 7, 9)?.wait()
        });
        costs(world, 2, 0, || pair.compare_exchange_wide(world, 7, 8));
        costs(world, 2, 0, || {
            pair.load_wide(world).map(|seen| assert_eq!(seen, 9))
        });
    });
}

#[test]
fn a_call_to_a_thread_of_this_rank_costs_no_message() {
    alone(|world| {
        costs(world, 0, 0, || {
            let thread = world.this_thread()?;
            world.local_call(&thread, || 7)?.wait()
        });
    });
}

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
        costs(world, 2, 0, || team.rpc_view(0, viewed, 1, &[2; 9])?.wait());
        costs(world, 2, 0, || team.rpc_all(add, &1)?.wait());
        costs(world, 1, 0, || team.rpc_ff(0, see, 1));
        costs(world, 1, 0, || team.rpc_ff_view(0, seen, 1, &[2; 9]));
        costs(world, 1, 0, || team.try_rpc_ff(0, see, &1));
        costs(world, 1, 0, || team.try_rpc_ff_view(0, seen, &1, &[2]));
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
        costs(world, 1, 0, || {
            for i in 0..10 {
                assert_eq!(items.try_push(world.rank(), i)?, None);
            }
            items.flush()
        });
        costs(world, 0, 0, || items.finish());
    });
}

const N_RANKS: u32 = 13;
/// Rounded up.
const LOG: u64 = 4;

/// A collective, and the most messages that a rank of [`N_RANKS`] sends for it.
type Row = (&'static str, u64, fn(&World) -> Result<()>);

fn text(world: &World) -> String {
    "text ".repeat(world.rank().index())
}

const VALUES: &[Row] = &[
    ("broadcast_value", LOG, |world| {
        world.broadcast_value(Rank::ZERO, text(world)).map(drop)
    }),
    ("broadcast_value_nb", LOG, |world| {
        let text = world.broadcast_value_nb(Rank::ZERO, text(world));
        text.wait().map(drop)
    }),
    ("scatter_values", 12, |world| {
        let texts = vec![text(world); N_RANKS as usize];
        world.scatter_values(Rank::ZERO, texts).map(drop)
    }),
    ("gather_values", 2, |world| {
        world.gather_values(Rank::ZERO, text(world)).map(drop)
    }),
    ("allgather_values", 2 * LOG, |world| {
        world.allgather_values(text(world)).map(drop)
    }),
    ("all_to_all_values", 12, |world| {
        let texts = vec![text(world); N_RANKS as usize];
        world.all_to_all_values(texts).map(drop)
    }),
    ("reduce_values", 1, |world| {
        let longer = |a: String, b: String| if a.len() > b.len() { a } else { b };
        world
            .reduce_values(Rank::ZERO, text(world), longer)
            .map(drop)
    }),
    ("reduce_values to another root", 1, |world| {
        let longer = |a: String, b: String| if a.len() > b.len() { a } else { b };
        world
            .reduce_values(Rank::new(5), text(world), longer)
            .map(drop)
    }),
    ("allreduce_values", LOG, |world| {
        let longer = |a: String, b: String| if a.len() > b.len() { a } else { b };
        world.allreduce_values(text(world), longer).map(drop)
    }),
    ("scan_values", LOG, |world| {
        world
            .scan_values(text(world), |a: String, b: String| a + &b)
            .map(drop)
    }),
    ("scan_exclusive_values", LOG, |world| {
        let both = |a: String, b: String| a + &b;
        world
            .scan_exclusive_values(text(world), String::new(), both)
            .map(drop)
    }),
    ("quiet", 2 * LOG, |world| quiet(world)),
];

#[test]
fn collectives_of_values_take_as_many_messages_as_their_rounds() {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    let mut wrong = Vec::new();
    for (call, most, run) in VALUES {
        let sent = loopback::run_with(N_RANKS, &config, |world| {
            crate::attach(&world).unwrap();
            world.barrier().unwrap();
            let before = world.costs();
            run(&world).unwrap();
            (world.costs() - before).messages
        });
        let sent = sent.into_iter().max().unwrap();
        if sent != *most {
            wrong.push(format!("{call}: {sent}, and not {most}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
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
        let team = world.team();
        costs(world, 1, 0, || team.request::<Ask>(0, &args(0)));
        costs(world, 1, 0, || team.try_request::<Ask>(0, &args(0)));
        costs(world, 1, 0, || {
            team.request_medium::<Ask>(0, &args(0), &[1; 30])
        });
        costs(world, 1, 0, || {
            team.try_request_medium::<Ask>(0, &args(0), &[1; 30])
        });
        costs(world, 1, 0, || {
            let prepared = world.try_prepare(me, 30)?.expect("there is room");
            assert!(prepared.try_commit::<Ask>(&args(0), 30)?.is_none());
            Ok(())
        });
        for (how, writes) in [(1, 0), (2, 0), (3, 1), (4, 0)] {
            costs(world, 2, writes, || world.request::<Ask>(me, &args(how)));
        }
    });
}

#[test]
fn setting_messages_up_costs_two_collectives_and_a_second_time_nothing() {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    loopback::run_with(2, &config, |world| {
        for messages in [2, 0] {
            let before = world.costs();
            crate::attach(&world).unwrap();
            let costs = world.costs() - before;
            // In each of them a rank of two sends one message to the other one.
            let expected = Costs {
                messages,
                bytes: costs.bytes,
                ..Costs::default()
            };
            assert_eq!(costs, expected);
        }
    });
}
