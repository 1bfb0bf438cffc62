//! The results of each collective against its definition, at all sizes of job and of data.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "numbers of members and elements are small"
)]

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{compose, composed, map, on, on_all_sizes};
use crate::backend::{HandlerId, MessageClass, Sent, loopback};
use crate::collective::op;
use crate::{Config, Error, Rank, Result, Team, World};

/// Lengths around every border between algorithms: nothing, one word, a message, many messages.
const LENS: [usize; 6] = [0, 1, 3, 33, 513, 9000];

/// `len` numbers in a row, up to the longest of [`LENS`]. No other `owner` below 200 has any of them.
/// They stand ready: a test that is not optimized takes long to compute as many.
fn numbers(owner: u32, len: usize) -> &'static [u64] {
    static ALL: LazyLock<Vec<u64>> = LazyLock::new(|| (0..200 * 9000).collect());
    &ALL[owner as usize * 9000..][..len]
}

/// Teams in which ranks and members differ: the world, it reversed, and its odd and even ranks.
fn teams(world: &World) -> Result<Vec<Team>> {
    let me = world.rank().number();
    let reversed = world.team().split(Some(0), world.n_ranks() - me)?;
    let alternate = world.team().split(Some(me % 2), 0)?;
    Ok([Some(world.team()), reversed, alternate]
        .into_iter()
        .flatten()
        .collect())
}

fn on_teams(body: impl Fn(&Team) -> Result<()> + Sync) {
    on_all_sizes(|world| {
        for team in teams(&world)? {
            body(&team)?;
        }
        Ok(())
    });
}

#[test]
fn a_broadcast_gives_all_members_the_roots_values() {
    on_teams(|team| {
        for root in 0..team.n_ranks() {
            let mine = u64::from(team.rank()) << 40 | 7;
            assert_eq!(team.broadcast(root, mine)?, u64::from(root) << 40 | 7);
        }
        let root = team.n_ranks() / 2;
        for len in LENS {
            let value = |i: usize, member: u32| (i as u32).wrapping_mul(31) ^ member;
            let of = |member| -> Vec<u32> { (0..len).map(|i| value(i, member)).collect() };
            let mut mine = of(team.rank());
            let event = team.broadcast_slice_nb(root, mine.clone());
            team.broadcast_slice(root, &mut mine)?;
            assert_eq!(mine, of(root));
            assert_eq!(event.wait()?, of(root));
        }
        Ok(())
    });
}

#[test]
fn a_reduce_applies_the_operator_in_the_order_of_the_members() {
    on_teams(|team| {
        let n = team.n_ranks();
        for root in 0..n {
            let expected = (team.rank() == root).then(|| composed(0..n, 5).unwrap());
            assert_eq!(team.reduce(root, map(team.rank(), 5), compose)?, expected);
            let event = team.reduce_nb(root, map(team.rank(), 5), compose);
            assert_eq!(event.wait()?, expected);
        }
        let root = n - 1;
        for len in LENS {
            let mine: Vec<_> = (0..len).map(|i| map(team.rank(), i)).collect();
            let expected: Option<Vec<_>> = (team.rank() == root)
                .then(|| (0..len).map(|i| composed(0..n, i).unwrap()).collect());
            assert_eq!(team.reduce_slice(root, &mine, compose)?, expected);
            assert_eq!(team.reduce_slice_nb(root, mine, compose).wait()?, expected);
        }
        Ok(())
    });
}

#[test]
fn an_allreduce_applies_the_operator_in_the_order_of_the_members() {
    on_teams(|team| {
        let n = team.n_ranks();
        let whole = composed(0..n, 5).unwrap();
        assert_eq!(team.allreduce(map(team.rank(), 5), compose)?, whole);
        assert_eq!(
            team.allreduce_nb(map(team.rank(), 5), compose).wait()?,
            whole
        );
        for len in LENS {
            let mut mine: Vec<_> = (0..len).map(|i| map(team.rank(), i)).collect();
            let expected: Vec<_> = (0..len).map(|i| composed(0..n, i).unwrap()).collect();
            let event = team.allreduce_slice_nb(mine.clone(), compose);
            team.allreduce_slice(&mut mine, compose)?;
            assert_eq!(mine, expected);
            assert_eq!(event.wait()?, expected);
        }
        Ok(())
    });
}

#[test]
fn an_allreduce_of_floats_gives_every_member_the_same_bits_however_long_it_is() {
    on_all_sizes(|world| {
        let team = world.team();
        let mine = |i: usize| 1.0 / (f64::from(team.rank()) + 3.0 + i as f64);
        // Short and long slices are reduced by different algorithms.
        let mut short: Vec<f64> = (0..10).map(mine).collect();
        let mut long: Vec<f64> = (0..10_000).map(mine).collect();
        team.allreduce_slice(&mut short, op::Sum)?;
        team.allreduce_slice(&mut long, op::Sum)?;
        let bits = |values: &[f64]| -> Vec<u64> { values.iter().map(|v| v.to_bits()).collect() };
        assert_eq!(bits(&short), bits(&long[..10]));
        let firsts = team.allgather(&bits(&long))?;
        for theirs in firsts.chunks(long.len()) {
            assert_eq!(theirs, bits(&long));
        }
        Ok(())
    });
}

#[test]
fn built_in_operators_reduce_what_they_say() {
    on_all_sizes(|world| {
        let n = u64::from(world.n_ranks());
        let i = u64::from(world.rank().number());
        assert_eq!(world.allreduce(i, op::Sum)?, n * (n - 1) / 2);
        assert_eq!(world.allreduce(2_u64, op::Product)?, 1 << n);
        assert_eq!(world.allreduce(-(i as i64), op::Min)?, 1 - n as i64);
        assert_eq!(world.allreduce(i as f32, op::Max)?, (n - 1) as f32);
        assert_eq!(world.allreduce(1_u64 << i, op::BitOr)?, (1 << n) - 1);
        assert_eq!(world.allreduce(!(1_u64 << i), op::BitAnd)?, !((1 << n) - 1));
        assert_eq!(world.allreduce(1_u8, op::BitXor)?, (n % 2) as u8);
        assert_eq!(world.allreduce(i + 1, op::And)?, 1);
        assert_eq!(world.allreduce(i, op::And)?, 0);
        assert_eq!(world.allreduce(i, op::Or)?, u64::from(n > 1));
        Ok(())
    });
}

#[test]
fn a_gather_puts_the_members_values_in_order_at_the_root_alone() {
    on_teams(|team| {
        let n = team.n_ranks();
        for root in 0..n {
            for len in LENS {
                let of = |member: u32| numbers(member, len);
                let mine = of(team.rank()).to_vec();
                let expected =
                    (team.rank() == root).then(|| (0..n).map(of).collect::<Vec<_>>().concat());
                let event = team.gather_nb(root, mine.clone());
                assert_eq!(team.gather(root, &mine)?, expected, "{len} to {root}");
                assert_eq!(event.wait()?, expected, "{len} to {root}");
            }
        }
        Ok(())
    });
}

#[test]
fn an_allgather_puts_the_members_values_in_order_everywhere() {
    on_teams(|team| {
        for len in LENS {
            let of = |member: u32| numbers(member, len);
            let mine = of(team.rank()).to_vec();
            let expected = (0..team.n_ranks()).map(of).collect::<Vec<_>>().concat();
            let event = team.allgather_nb(mine.clone());
            assert_eq!(team.allgather(&mine)?, expected);
            assert_eq!(event.wait()?, expected);
        }
        Ok(())
    });
}

#[test]
fn gathers_of_varying_lengths_keep_the_members_apart() {
    on_teams(|team| {
        let n = team.n_ranks();
        // Some members give nothing, others more than a message.
        let of = |member: u32| vec![member as u16 + 1; (member as usize % 3) * 1500];
        let expected: Vec<Vec<u16>> = (0..n).map(of).collect();
        let mine = of(team.rank());
        for root in 0..n {
            let at_root = (team.rank() == root).then(|| expected.clone());
            let event = team.gather_varying_nb(root, mine.clone());
            assert_eq!(team.gather_varying(root, &mine)?, at_root);
            assert_eq!(event.wait()?, at_root);
        }
        let event = team.allgather_varying_nb(mine.clone());
        assert_eq!(team.allgather_varying(&mine)?, expected);
        assert_eq!(event.wait()?, expected);
        Ok(())
    });
}

#[test]
fn an_all_to_all_brings_each_block_to_its_member() {
    on_teams(|team| {
        let n = team.n_ranks();
        for len in LENS {
            let block = |from: u32, to: u32| numbers(from * n + to, len);
            let mine = |to: u32| block(team.rank(), to);
            let mine = (0..n).map(mine).collect::<Vec<_>>().concat();
            let expected = |from: u32| block(from, team.rank());
            let expected = (0..n).map(expected).collect::<Vec<_>>().concat();
            let event = team.all_to_all_nb(mine.clone());
            assert_eq!(team.all_to_all(&mine)?, expected);
            assert_eq!(event.wait()?, expected);
        }
        let entry = |from: u32, to: u32| vec![from * 100 + to; (from * to) as usize % 5 * 700];
        let mine: Vec<_> = (0..n).map(|to| entry(team.rank(), to)).collect();
        let expected: Vec<_> = (0..n).map(|from| entry(from, team.rank())).collect();
        let event = team.all_to_all_varying_nb(mine.clone());
        assert_eq!(team.all_to_all_varying(&mine)?, expected);
        assert_eq!(event.wait()?, expected);
        // Elements of no bytes have a number, too.
        let entry = |from: u32, to: u32| vec![(); (from * 10 + to) as usize];
        let mine: Vec<_> = (0..n).map(|to| entry(team.rank(), to)).collect();
        let expected: Vec<_> = (0..n).map(|from| entry(from, team.rank())).collect();
        assert_eq!(team.all_to_all_varying(&mine)?, expected);
        Ok(())
    });
}

#[test]
fn scans_combine_the_members_up_to_each_one_in_order() {
    on_teams(|team| {
        let me = team.rank();
        let mine = map(me, 5);
        let first = [9, 9];
        let inclusive = composed(0..me + 1, 5).unwrap();
        let exclusive = composed(0..me, 5).unwrap_or(first);
        assert_eq!(team.scan_inclusive(mine, compose)?, inclusive);
        assert_eq!(team.scan_exclusive(mine, first, compose)?, exclusive);
        assert_eq!(team.scan_inclusive_nb(mine, compose).wait()?, inclusive);
        assert_eq!(
            team.scan_exclusive_nb(mine, first, compose).wait()?,
            exclusive
        );
        for len in LENS {
            let mine: Vec<_> = (0..len).map(|i| map(me, i)).collect();
            let mut values = mine.clone();
            let inclusive = team.scan_inclusive_slice_nb(mine.clone(), compose);
            let exclusive = team.scan_exclusive_slice_nb(mine.clone(), first, compose);
            team.scan_inclusive_slice(&mut values, compose)?;
            assert_eq!(inclusive.wait()?, values);
            let expected: Vec<_> = (0..len).map(|i| composed(0..me + 1, i).unwrap()).collect();
            assert_eq!(values, expected);
            values = mine;
            team.scan_exclusive_slice(&mut values, first, compose)?;
            let expected: Vec<_> = (0..len)
                .map(|i| composed(0..me, i).unwrap_or(first))
                .collect();
            assert_eq!(values, expected);
            assert_eq!(exclusive.wait()?, expected);
        }
        Ok(())
    });
}

#[test]
fn a_scatter_brings_each_member_its_part() {
    on_teams(|team| {
        let (me, n) = (team.rank(), team.n_ranks());
        for root in 0..n {
            for len in LENS {
                let part = |member: u32| numbers(root * n + member, len);
                // Those of the others are ignored, also if they cannot be divided.
                let given = if me == root {
                    (0..n).map(part).collect::<Vec<_>>().concat()
                } else {
                    vec![7; len + 1]
                };
                let event = team.scatter_nb(root, given.clone());
                assert_eq!(team.scatter(root, &given)?, part(me));
                assert_eq!(event.wait()?, part(me));
            }
            let part = |member: u32| vec![root * 100 + member; (member as usize % 3) * 1500];
            let given = if me == root {
                (0..n).map(part).collect()
            } else {
                Vec::new()
            };
            let event = team.scatter_varying_nb(root, given.clone());
            assert_eq!(team.scatter_varying(root, &given)?, part(me));
            assert_eq!(event.wait()?, part(me));
            // Elements of no bytes have a number, too.
            let given: Vec<_> = (0..n).map(|member| vec![(); member as usize + 3]).collect();
            assert_eq!(team.scatter_varying(root, &given)?.len(), me as usize + 3);
            assert_eq!(team.scatter(root, &vec![(); 2 * n as usize])?.len(), 2);
        }
        Ok(())
    });
}

#[test]
fn elements_without_bytes_are_counted_like_others() {
    on(3, &Config::default(), |world| {
        let team = world.team();
        let nothing = [[0_u64; 0]; 5];
        assert_eq!(team.allgather(&nothing)?.len(), 15);
        assert_eq!(team.allgather_varying(&nothing)?, vec![nothing.to_vec(); 3]);
        assert_eq!(team.all_to_all(&nothing[..3])?.len(), 3);
        assert_eq!(
            team.allreduce([0_u64; 0], |a: [u64; 0], _: [u64; 0]| a)?,
            []
        );
        assert_eq!(
            team.scan_exclusive([0_u64; 0], [], |a: [u64; 0], _: [u64; 0]| a)?,
            []
        );
        Ok(())
    });
}

#[test]
fn a_split_orders_members_by_key_and_then_by_their_order() {
    on_all_sizes(|world| {
        let (me, n) = (world.rank().number(), world.n_ranks());
        // Three colours, of which the third has no members; two keys, the later half first.
        let colour = (me % 3 < 2).then_some(me % 3);
        let key = u32::from(me < n / 2);
        let team = world.team().split(colour, key)?;
        assert_eq!(team.is_some(), colour.is_some());
        let Some(team) = team else {
            return Ok(());
        };
        let of_colour = |rank: &u32| Some(rank % 3) == colour;
        let expected: Vec<Rank> = (n / 2..n)
            .filter(of_colour)
            .chain((0..n / 2).filter(of_colour))
            .map(Rank::new)
            .collect();
        assert_eq!(team.ranks().collect::<Vec<_>>(), expected);
        assert_eq!(team.world_rank(team.rank()), world.rank());
        for rank in world.ranks() {
            let place = expected.iter().position(|r| *r == rank);
            assert_eq!(team.team_rank(rank).map(|i| i as usize), place);
        }
        Ok(())
    });
}

#[test]
fn teams_have_one_name_each_and_the_same_on_all_members() {
    on(7, &Config::default(), |world| {
        let me = world.rank().number();
        let mut ids = vec![world.team().id().bits()];
        for i in 0..3 {
            let team = world.team().split(Some(me / 2), i)?.unwrap();
            ids.push(team.id().bits());
            assert_eq!(
                team.allgather(&[team.id().bits()])?,
                vec![ids[ids.len() - 1]; team.n_ranks() as usize]
            );
            let single = team.split(Some(me), 0)?.unwrap();
            ids.push(single.id().bits());
            assert_eq!((single.n_ranks(), single.rank()), (1, 0));
        }
        // A pair has one name, so seven ranks know 1 + 3 * 4 + 3 * 7 of them.
        let mut all = world.allgather(&ids)?;
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1 + 3 * 4 + 3 * 7);
        Ok(())
    });
}

/// What the teams leave is no chain, on which a walk would need as much stack.
#[test]
fn each_team_can_be_split_from_the_last_one_without_end() {
    on(1, &Config::default(), |world| {
        let mut team = world.team();
        for _ in 0..30_000 {
            team = team.reorder(0)?;
        }
        drop(team.alloc_symmetric::<u64>(1)?);
        drop(team);
        world.reclaim()?;
        assert_eq!(world.local_heap_use().used, 0);
        Ok(())
    });
}

#[test]
fn every_rank_is_in_the_team_of_its_host() {
    on(4, &Config::default(), |world| {
        let team = world.team().split_host()?;
        assert_eq!(team.world_rank(team.rank()), world.rank());
        team.barrier()
    });
}

#[test]
fn a_barrier_of_a_team_completes_earlier_puts() {
    on_all_sizes(|world| {
        let slots = world.alloc_symmetric::<u64>(world.n_ranks() as usize)?;
        let half = world
            .team()
            .split(Some(world.rank().number() % 2), 0)?
            .unwrap();
        let me = half.rank() as usize;
        for rank in half.ranks() {
            slots
                .on(rank)
                .add(me)
                .put(&world, u64::from(half.rank()) + 1)?;
        }
        half.barrier()?;
        let n = half.n_ranks();
        let expected: Vec<u64> = (1..=u64::from(n)).collect();
        assert_eq!(slots.here().get_vec(&world, n as usize)?, expected);
        world.barrier()
    });
}

#[test]
fn barriers_of_every_kind_complete_earlier_puts() {
    type Meet = fn(&World) -> Result<()>;
    let meets: [Meet; 3] = [
        World::barrier,
        |world| world.team().barrier_nb().wait(),
        |world| {
            let team = world.team().split(Some(0), 0)?;
            team.expect("all have a colour").barrier_nb().wait()
        },
    ];
    on_all_sizes(|world| {
        let n = world.n_ranks() as usize;
        for meet in meets {
            let slots = world.alloc_symmetric::<u64>(n)?;
            for rank in world.ranks() {
                slots.on(rank).add(world.rank().index()).put(&world, 7)?;
            }
            meet(&world)?;
            assert_eq!(slots.here().get_vec(&world, n)?, vec![7; n]);
            world.barrier()?;
        }
        Ok(())
    });
}

#[test]
#[should_panic(expected = "the root 3 is not one of the team's 3 members")]
fn a_root_outside_of_the_team_panics() {
    on(3, &Config::default(), |world| {
        world.team().broadcast(3, 0).map(drop)
    });
}

#[test]
#[should_panic(expected = "4 values cannot be cut into 3 equal blocks")]
fn blocks_that_do_not_come_out_even_panic() {
    on(3, &Config::default(), |world| {
        world.all_to_all(&[0; 4]).map(drop)
    });
}

#[test]
fn an_operator_that_panics_fails_the_job_also_where_the_panic_is_caught() {
    type Op = fn(u64, u64) -> u64;
    let panics = |_: u64, _: u64| -> u64 { panic!("on purpose") };
    let bodies: [fn(&Team, Op) -> Result<()>; 4] = [
        |team, op| team.allreduce(1_u64, op).map(drop),
        |team, op| team.reduce_nb(1, 1_u64, op).wait().map(drop),
        |team, op| team.all_try("a step", || Ok(op(1, 2))).map(drop),
        |team, op| team.all_try_reduce("a step", || Ok(1), op).map(drop),
    ];
    for body in bodies {
        for result in loopback::run(3, |world| {
            let team = world.team();
            // The other ranks get the job's failure from this call; the rank that panics, from its
            // next wait.
            let caught = catch_unwind(AssertUnwindSafe(|| body(&team, panics)));
            caught.unwrap_or(Ok(())).and_then(|()| world.barrier())
        }) {
            let error = result.expect_err("the job has failed");
            assert!(error.to_string().contains("panicked in a"), "{error}");
        }
    }
}

/// Its text is made while the other members wait for it.
#[test]
fn an_error_whose_text_panics_fails_the_job_also_where_the_panic_is_caught() {
    #[derive(Debug)]
    struct Untold(Option<Error>);

    impl From<Error> for Untold {
        fn from(error: Error) -> Self {
            Self(Some(error))
        }
    }

    impl fmt::Display for Untold {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("on purpose")
        }
    }

    let config = Config {
        timeout: Some(Duration::from_secs(20)),
        ..Config::default()
    };
    let told = loopback::run_with(3, &config, |world| {
        let outcome = match world.rank() {
            Rank::ZERO => Err(Untold(None)),
            _ => Ok(()),
        };
        let compare = || world.team().all_succeeded("a step", outcome);
        match catch_unwind(AssertUnwindSafe(compare)) {
            Ok(Err(Untold(Some(error)))) => error,
            ended => {
                assert!(ended.is_err() && world.rank() == Rank::ZERO);
                world.barrier().expect_err("the job has failed")
            }
        }
    });
    for error in told {
        let told = error.to_string();
        assert!(told.contains("rank 0 panicked in a step"), "{told}");
    }
}

/// The second call has its result at once, and serves other ranks all the same.
#[test]
fn a_panic_in_the_wait_for_a_collective_in_flight_fails_the_job() {
    const ID: HandlerId = HandlerId(HandlerId::N_RESERVED);
    let calls: [fn(&Team) -> Result<()>; 2] = [
        |team| team.allreduce_nb(1, op::Sum).wait().map(drop),
        |team| team.broadcast_nb(0, 7).wait().map(drop),
    ];
    for call in calls {
        let [is_sent, has_panicked] = [(); 2].map(|()| AtomicBool::new(false));
        let until = |flag: &AtomicBool| {
            while !flag.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        };
        let told = loopback::run_with(2, &Config::default(), |world| {
            if world.rank() == Rank::ZERO {
                world.set_handler(ID, |_, _| panic!("on purpose"));
                until(&is_sent);
                let call = AssertUnwindSafe(|| call(&world.team()));
                assert!(catch_unwind(call).is_err());
                has_panicked.store(true, Ordering::Release);
            } else {
                let sent = world.try_send(Rank::ZERO, MessageClass::Request, ID, &[]);
                assert_eq!(sent.unwrap(), Sent::Accepted);
                is_sent.store(true, Ordering::Release);
                until(&has_panicked);
            }
            world.barrier()
        });
        for result in told {
            let told = result.expect_err("the job has failed").to_string();
            assert!(told.contains("rank 0 panicked in a"), "{told}");
        }
    }
}

#[test]
fn what_waits_in_an_operator_is_an_error() {
    on(4, &Config::default(), |world| {
        let waits = |a: u64, b: u64| {
            assert!(matches!(world.barrier(), Err(Error::InHandler { .. })));
            // Also within an operation of the program, during which handlers run.
            let _waits = crate::part_of("another operation");
            let allocated = world.alloc_symmetric::<u64>(1).map(drop);
            let made = crate::Lock::new(&world, Rank::ZERO).map(drop);
            for (refused, what) in [
                (allocated, "a symmetric allocation"),
                (made, "the making of a lock"),
            ] {
                let told = refused.unwrap_err().to_string();
                let expected = format!("{what} was waited for inside a handler");
                assert!(told.starts_with(&expected), "{told}");
            }
            a + b
        };
        assert_eq!(world.allreduce(1, waits)?, 4);
        world.barrier()
    });
}

/// Also where a member's value is combined with no other.
#[test]
fn truth_is_one_whatever_is_combined() {
    on_teams(|team| {
        let me = team.rank();
        let root = team.n_ranks() - 1;
        assert_eq!(team.allreduce(me + 4, op::Or)?, 1);
        assert_eq!(team.allreduce_nb(me + 4, op::And).wait()?, 1);
        let of_root = |value| (me == root).then_some(value);
        assert_eq!(team.reduce(root, me + 4, op::Or)?, of_root(1));
        assert_eq!(team.reduce_nb(root, me + 4, op::And).wait()?, of_root(1));
        assert_eq!(team.scan_inclusive(me + 4, op::And)?, 1);
        assert_eq!(team.scan_inclusive_nb(me + 4, op::Or).wait()?, 1);
        let before = if me == 0 { 9 } else { 1 };
        assert_eq!(team.scan_exclusive(me + 4, 9, op::Or)?, before);
        assert_eq!(team.scan_exclusive_nb(me + 4, 9, op::And).wait()?, before);
        let own = || vec![0, me + 4];
        let [mut any, mut so_far, mut till_me] = [own(), own(), own()];
        team.allreduce_slice(&mut any, op::Or)?;
        assert_eq!(any, [0, 1]);
        assert_eq!(team.allreduce_slice_nb(own(), op::Or).wait()?, [0, 1]);
        let of_root = |values| (me == root).then_some(values);
        let reduced = team.reduce_slice(root, &own(), op::And)?;
        assert_eq!(reduced, of_root(vec![0, 1]));
        let reduced = team.reduce_slice_nb(root, own(), op::And).wait()?;
        assert_eq!(reduced, of_root(vec![0, 1]));
        team.scan_inclusive_slice(&mut till_me, op::Or)?;
        assert_eq!(till_me, [0, 1]);
        let till_me = team.scan_inclusive_slice_nb(own(), op::Or).wait()?;
        assert_eq!(till_me, [0, 1]);
        let before = if me == 0 { [9, 9] } else { [0, 1] };
        team.scan_exclusive_slice(&mut so_far, 9, op::And)?;
        assert_eq!(so_far, before);
        let so_far = team.scan_exclusive_slice_nb(own(), 9, op::And).wait()?;
        assert_eq!(so_far, before);
        let tried = team.all_try_reduce("a step", || Ok::<_, Error>(me + 4), op::Or)?;
        assert_eq!(tried, 1);
        Ok(())
    });
}
