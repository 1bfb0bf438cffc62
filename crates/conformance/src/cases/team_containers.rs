//! Containers on teams: on one of an odd number of ranks and one of the others, at the same time
//! and with other numbers of operations, on teams within these, and on ones whose ranks are not
//! evenly spaced. Of few types, as in `maps`.

use pgas_containers::array::{Distribution, Halo};
use pgas_containers::{
    Array, BloomFilter, CircularQueue, DArray, DMatrix, Distributor, HashMap, HashMapBuffer,
    HashSet, MultiMap,
};
use pgas_core::collective::op;
use pgas_core::{Lock, Result, Team, World};

use super::case;
use crate::Case;

pub(super) const CASES: &[Case] = &[
    case!(1, maps_of_teams_side_by_side),
    case!(1, arrays_of_teams_side_by_side),
    case!(1, queues_and_filters_of_teams_side_by_side),
    case!(1, elements_are_distributed_among_the_members),
    case!(1, containers_know_their_team),
];

/// This rank's teams: the first three ranks, or half of them if there are few, or the others, in
/// reverse; every second one of these; and rank 1, or the others, in an order without a step.
pub(super) fn teams(world: &World) -> Result<[Team; 3]> {
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
        for (member, rank) in (0..).zip(team.ranks()) {
            for entry in map.entries_on(rank) {
                let (key, value) = entry?;
                assert_eq!(value, total, "{key} on {rank}");
                seen += 1;
            }
            let by_number = map.entries_on(member).count();
            assert_eq!(by_number, map.entries_on(rank).count());
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
        let values = MultiMap::<u64, u64>::with_capacity(&team, 2000)?;
        values.extend((0..n_keys).map(|key| (key % 4, key)))?;
        team.barrier()?;
        assert_eq!((values.len()?, values.n_keys()?), (n_keys * members, 4));
        assert_eq!(values.count(&1)?, (n_keys + 2) / 4 * members);
        let held = (0..team.n_ranks()).map(|member| values.entries_on(member).count() as u64);
        assert_eq!(held.sum::<u64>(), n_keys * members);
        team.barrier()?;
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
        queue.migrate(team.n_ranks() - 1)?;
        assert_eq!(queue.host(), team.world_rank(team.n_ranks() - 1));
        queue.migrate(team.world_rank(0))?;
        assert_eq!(queue.host(), team.world_rank(0));
        let refused = queue.migrate(team.n_ranks()).expect_err("it is no member");
        let text = refused.to_string();
        assert!(
            text.contains(&format!("{} of a ", team.n_ranks())),
            "{text}"
        );
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
        let mut received = sent.poll().map_err(pgas_containers::Error::from)?;
        received.extend(sent.finish().map_err(pgas_containers::Error::from)?);
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

fn containers_know_their_team(world: &World) -> Result<()> {
    for team in teams(world)? {
        let is_same = |world: &World, of: &Team| {
            assert_eq!(world.rank(), team.world().rank());
            assert_eq!(of.id(), team.id());
        };
        let set = HashSet::<u64>::with_capacity(&team, 20)?;
        is_same(set.world(), set.team());
        assert!(set.capacity() >= 20);
        let values = MultiMap::<u64, u64>::with_capacity(&team, 20)?;
        is_same(values.world(), values.team());
        let buffer = HashMapBuffer::new(Words::with_capacity(&team, 20)?, 16, |a: u64, b| a + b)?;
        is_same(buffer.world(), buffer.team());
        drop(buffer.into_map()?);
        let queue = CircularQueue::<u64>::with_capacity(&team, 0, 2)?;
        is_same(queue.world(), queue.team());
        assert!(queue.is_empty()?);
        let sent = Distributor::<u64, u32>::with_capacity(&team, 8)?;
        is_same(team.world(), sent.team());
        let empty = DArray::<u64>::new(&team, 0, Distribution::Block, &0)?;
        is_same(empty.world(), empty.team());
        assert!(empty.is_empty() && empty.sum()? == 0);
        is_same(empty.into_local()?.world(), &team);
        let hosted = Array::<u64>::new(&team, 0, 3, &0)?;
        is_same(hosted.world(), hosted.team());
        assert!(!hosted.is_empty());
        let matrix = DMatrix::<u64>::new(&team, [4, 4], [2, 2], 0)?;
        assert_eq!(matrix.rank_of(3, 1), matrix.ptr(3, 1).rank());
        is_same(matrix.into_local()?.world(), &team);
        let lock = Lock::new(&team, 0)?;
        is_same(lock.world(), &team);
        team.barrier()?;
    }
    world.barrier()
}
