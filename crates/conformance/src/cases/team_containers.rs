//! Containers on teams: on one of an odd number of ranks and one of the others, at the same time
//! and with other numbers of operations, on teams within these, and on ones whose ranks are not
//! evenly spaced. Of few types, as in `maps`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_am::{DistObject, TeamCalls as _, ValueCollectives as _};
use pgas_containers::array::{Distribution, Halo};
use pgas_containers::{
    Array, BloomFilter, CircularQueue, DArray, DMatrix, Distributor, HashMap, HashMapBuffer,
};
use pgas_core::collective::op;
use pgas_core::{Rank, Result, Team, World};

use super::{case, case_alone};
use crate::Case;

pub(super) const CASES: &[Case] = &[
    case!(1, maps_of_teams_side_by_side),
    case!(1, arrays_of_teams_side_by_side),
    case!(1, queues_and_filters_of_teams_side_by_side),
    case!(1, elements_are_distributed_among_the_members),
    case_alone!(1, what_a_team_has_saved_another_one_loads),
    case!(1, members_are_called_and_sent_to),
];

/// This rank's teams: the first three ranks, or half of them if there are few, or the others, in
/// reverse; every second one of these; and rank 1, or the others, in an order without a step.
fn teams(world: &World) -> Result<[Team; 3]> {
    let (me, n) = (world.rank().number(), world.n_ranks());
    let split = |team: &Team, colour, key| -> Result<Team> {
        Ok(team.split(Some(colour), key)?.expect("a colour"))
    };
    let all = world.team();
    let outer = split(&all, u32::from(me >= 3.min(n.div_ceil(2))), n - me)?;
    let inner = split(&outer, outer.rank() % 2, 0)?;
    let uneven = split(&all, u32::from(me == 1), (me * 3 + 1) % 5)?;
    Ok([outer, inner, uneven])
}

type Words = HashMap<u64, u64>;

fn maps_of_teams_side_by_side(world: &World) -> Result<()> {
    let mut kept = Vec::new();
    for team in teams(world)? {
        // Another number on each team, so that they are never in step.
        let n_keys = 40 + 10 * u64::from(team.world_rank(0).number());
        let members = u64::from(team.n_ranks());
        let map = Words::with_capacity(&team, 400)?;
        for key in 0..n_keys {
            map.fetch_add(&key, 1 + u64::from(team.rank()))?;
        }
        map.add_many(&(0..n_keys).collect::<Vec<_>>(), 1)?;
        team.barrier()?;
        let total = members * (members + 1) / 2 + members;
        for key in 0..n_keys {
            assert_eq!(map.find(&key)?, Some(total), "{key} of {team:?}");
        }
        let map = map.into_find_phase()?;
        assert_eq!(map.len()?, n_keys);
        let mut seen = 0;
        for rank in team.ranks() {
            for entry in map.entries_on(rank) {
                let (key, value) = entry?;
                assert_eq!(value, total, "{key} on {rank}");
                seen += 1;
            }
        }
        assert_eq!(seen, n_keys);
        let local = map.local_iter().count() as u64;
        assert_eq!(team.allreduce(local, op::Sum)?, n_keys);
        let mut buffer = HashMapBuffer::new(map, 16, |there: u64, new| there + new)?;
        for key in 0..2 * n_keys {
            buffer.insert(key, 1)?;
        }
        let map = buffer.into_map()?;
        assert_eq!(map.find(&(2 * n_keys - 1))?, Some(members));
        assert_eq!(map.find(&0)?, Some(total + members));
        let texts = HashMap::<String, String>::with_capacity(&team, 30)?;
        texts.insert(&team.rank().to_string(), "long ".repeat(20))?;
        kept.push((team, map, texts));
    }
    // Those that were made first are still there, and are dropped in another order on each rank.
    world.barrier()?;
    for (team, map, texts) in &kept {
        assert!(map.find(&0)?.is_some());
        let last = (team.n_ranks() - 1).to_string();
        assert_eq!(texts.find(last.as_str())?, Some("long ".repeat(20)));
    }
    if world.rank().number().is_multiple_of(2) {
        kept.reverse();
    }
    drop(kept);
    world.barrier()
}

fn arrays_of_teams_side_by_side(world: &World) -> Result<()> {
    for team in teams(world)? {
        let len = 20 + 7 * team.world_rank(0).index();
        for distribution in [Distribution::Block, Distribution::BlockCyclic(3)] {
            let array = DArray::from_fn(&team, len, distribution, |i| i as u64)?;
            assert_eq!(array.sum()?, (0..len as u64).sum());
            let indices: Vec<usize> = (0..len).rev().step_by(2).collect();
            let expected: Vec<u64> = indices.iter().map(|i| *i as u64).collect();
            assert_eq!(array.get_many(&indices)?, expected);
            assert!((0..len).all(|i| team.team_rank(array.rank_of(i)).is_some()));
            team.barrier()?;
            array.add_many(&indices, 1)?;
            team.barrier()?;
            let added = u64::from(team.n_ranks());
            assert_eq!(array.get(len - 1)?, len as u64 - 1 + added);
            let mut local = array.into_local()?;
            local.indexed_mut().for_each(|(i, x)| *x = 2 * i as u64);
            let array = local.into_shared()?;
            let all: Vec<u64> = (0..len as u64).map(|i| 2 * i).collect();
            assert_eq!(array.get_range(0..len)?, all);
            // As often on each team as no other one.
            for round in 0..=team.world_rank(0).number() {
                array.fill(round.into())?;
            }
            assert_eq!(array.get(0)?, u64::from(team.world_rank(0).number()));
            team.barrier()?;
        }
        let names = Array::new(&team, team.n_ranks() - 1, 4, &String::new())?;
        assert_eq!(names.host(), team.world_rank(team.n_ranks() - 1));
        names.put(1, &"name".repeat(30))?;
        assert_eq!(names.get(1)?, "name".repeat(30));
        let plate = DMatrix::new(&team, [6, 5], [2, 2], 1_u64)?;
        let mut halo = Halo::new(&plate, 1, 0)?;
        halo.exchange()?;
        halo.update(|old, new| {
            for (i, row) in new.rows().enumerate() {
                for (j, x) in new.row_mut(row).iter_mut().enumerate() {
                    *x = old.row(i)[j + 1] + old.row(i + 1)[j] + old.row(i + 1)[j + 2];
                }
            }
        })?;
        team.barrier()?;
        assert_eq!((plate.get(0, 0)?, plate.get(1, 1)?), (1, 3));
        team.barrier()?;
    }
    world.barrier()
}

fn queues_and_filters_of_teams_side_by_side(world: &World) -> Result<()> {
    for team in teams(world)? {
        let host = team.n_ranks() / 2;
        let mut queue = CircularQueue::<u64>::with_capacity(&team, host, 64)?;
        let n = 5 + u64::from(team.world_rank(0).number());
        for i in 0..n {
            queue.push(i).map_err(pgas_containers::Error::from)?;
        }
        team.barrier()?;
        queue.migrate(team.world_rank(0))?;
        assert_eq!(queue.host(), team.world_rank(0));
        for outsider in world.ranks().filter(|rank| team.team_rank(*rank).is_none()) {
            let refused = queue.migrate(outsider).expect_err("it is no member");
            let text = refused.to_string();
            assert!(
                text.contains(&format!("by rank {outsider}, which is not in")),
                "{text}"
            );
        }
        let mut sum = 0;
        for _ in 0..n {
            sum += queue.pop()?.expect("as many as were pushed");
        }
        let of_all = team.allreduce(sum, op::Sum)?;
        assert_eq!(of_all, u64::from(team.n_ranks()) * n * (n - 1) / 2);
        let nobody = CircularQueue::<u64>::with_capacity(&team, team.n_ranks(), 4);
        let text = nobody.expect_err("there is no such member").to_string();
        assert!(
            text.contains(&format!("by member {}", team.n_ranks())) || team.is_world(),
            "{text}"
        );
        let filter = BloomFilter::<u64>::with_rate(&team, 200, 0.001)?;
        filter.insert(&u64::from(team.rank()))?;
        team.barrier()?;
        for member in 0..u64::from(team.n_ranks()) {
            assert!(filter.contains(&member)?);
        }
        assert!((1000..1010).any(|item| !filter.contains(&item).expect("a word")));
        team.barrier()?;
    }
    world.barrier()
}

fn elements_are_distributed_among_the_members(world: &World) -> Result<()> {
    for team in teams(world)? {
        let n = team.n_ranks();
        let mut sent = Distributor::with_capacity(&team, 8)?;
        let each = 30 + 5 * team.world_rank(0).number();
        for number in 0..each {
            sent.send(number % n, (team.rank(), number))?;
        }
        let mut received = sent.finish().map_err(pgas_containers::Error::from)?;
        received.sort_unstable();
        let mine = |from| {
            (team.rank()..each)
                .step_by(n as usize)
                .map(move |i| (from, i))
        };
        let expected: Vec<(u32, u32)> = (0..n).flat_map(mine).collect();
        assert_eq!(received, expected, "{team:?}");
    }
    world.barrier()
}

fn what_a_team_has_saved_another_one_loads(world: &World) -> Result<()> {
    // Several hosts may have no directory in common. A simulated node has one that can be written
    // only if it is given (`rae run --files-rw`).
    if world.team().split_host()?.n_ranks() < world.n_ranks() || !has_a_directory(world)? {
        return Ok(());
    }
    // The directory's name is the first rank's.
    let name = world.broadcast(Rank::ZERO, u64::from(std::process::id()))?;
    let at = |i: u32| {
        let case = format!("pgas-team-{name}-{}-{i}", world.n_ranks());
        std::env::temp_dir().join(case)
    };
    let [outer, _, uneven] = &teams(world)?;
    let dir = at(outer.world_rank(0).number());
    let map = Words::with_capacity(outer, 100)?;
    let me = u64::from(world.rank().number());
    map.insert(&me, me)?;
    map.save(&dir)?;
    world.barrier()?;
    // By members of both teams.
    let again = Words::load(uneven, &dir_of_first(uneven, &dir)?)?;
    let n = again.len()?;
    assert_eq!(n, team_size_of_first(world, outer, uneven)?);
    for entry in again.local_iter() {
        let (key, value) = entry?;
        assert_eq!(key, value);
    }
    world.barrier()?;
    if outer.rank() == 0 {
        std::fs::remove_dir_all(&dir).expect("the directory is there");
    }
    world.barrier()
}

/// Whether all ranks can write files. All can, but for those on simulated nodes.
fn has_a_directory(world: &World) -> Result<bool> {
    let name = format!("pgas-writes-{}-{}", std::process::id(), world.rank());
    let path = std::env::temp_dir().join(name);
    let written = std::fs::write(&path, []).and_then(|()| std::fs::remove_file(&path));
    let is_simulated = cfg!(target_arch = "riscv64");
    assert!(
        written.is_ok() || is_simulated,
        "{}: {written:?}",
        path.display()
    );
    let n_writing = world.allreduce(u32::from(written.is_ok()), op::Sum)?;
    Ok(n_writing == world.n_ranks())
}

/// How large the first team is of which the first member of the second is one.
fn team_size_of_first(world: &World, first: &Team, second: &Team) -> Result<u64> {
    let sizes = world.allgather(&[first.n_ranks()])?;
    Ok(sizes[second.world_rank(0).index()].into())
}

/// The directory that the first member names.
fn dir_of_first(team: &Team, dir: &Path) -> Result<PathBuf> {
    let named = dir.to_str().expect("a plain path").to_owned();
    Ok(team.broadcast_value(0, named)?.into())
}

fn members_are_called_and_sent_to(world: &World) -> Result<()> {
    pgas_am::attach(world)?;
    for team in teams(world)? {
        let sum = DistObject::new(&team, AtomicU64::new(0))?;
        let next = (team.rank() + 1) % team.n_ranks();
        let add = |(sum, n): (DistObject<AtomicU64>, u64)| {
            sum.fetch_add(n, Ordering::Relaxed);
        };
        let add_all = |sum: DistObject<AtomicU64>, words: &[u64]| {
            sum.fetch_add(words.iter().sum::<u64>(), Ordering::Relaxed);
        };
        let len = |_: (), words: &[u64]| words.len();
        team.rpc(next, add, (sum.clone(), 1))?.wait()?;
        team.rpc_ff(next, add, (sum.clone(), 10))?;
        team.rpc_ff_view(next, add_all, sum.clone(), &[100, 200])?;
        assert_eq!(team.rpc_view(next, len, (), &[7; 5])?.wait()?, 5);
        world.wait_for("the calls of another member", &mut || {
            Ok(sum.load(Ordering::Relaxed) == 311)
        })?;
        assert!(team.rpc_ff(team.n_ranks(), |(): ()| (), ()).is_err());
        team.barrier()?;
    }
    world.barrier()
}
